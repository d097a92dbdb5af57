//! Slurm's times to Unix milliseconds, and its durations to seconds.

use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};

use crate::bill::period::{self, EARLIEST_MS, LATEST_MS};

/// What Slurm writes for a time that it does not know, that has not come, or that never will.
const NO_TIME: [&str; 4] = ["Unknown", "None", "N/A", ""];

/// Longest duration, seconds: from the first instant that an allocation may have to the last.
const LONGEST: i64 = LATEST_MS / 1_000;

/// The instant that a time means; two, the earlier one first, where clocks were set back over it. Unix milliseconds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Instants {
    pub first: i64,
    pub second: Option<i64>,
}

impl Instants {
    /// Each of them.
    pub fn each(self) -> impl Iterator<Item = i64> {
        std::iter::once(self.first).chain(self.second)
    }
}

/// Reads a time of the zone such as `2026-10-01T00:00:00`, or whole epoch seconds, or RFC 3339; none if Slurm has none.
///
/// # Errors
/// What was expected; a time over which the zone's clocks were set forward does not exist.
pub(super) fn instants(text: &str, zone: &TimeZone) -> Result<Option<Instants>, &'static str> {
    const SHAPE: &str = "a time such as 2026-10-01T00:00:00, whole epoch seconds, or Unknown";
    if NO_TIME.contains(&text) {
        return Ok(None);
    }
    let bytes = text.as_bytes();
    let is_local = bytes.len() == 19 && (bytes[10], bytes[13], bytes[16]) == (b'T', b':', b':');
    if !is_local {
        let first =
            period::instant(text).map_err(|expected| if expected.starts_with("RFC") { SHAPE } else { expected })?;
        return Ok(Some(Instants { first, second: None }));
    }
    let local: DateTime = text.parse().map_err(|_| SHAPE)?;
    let ms = |offset: jiff::tz::Offset| {
        let ms = offset.to_timestamp(local).ok().map(jiff::Timestamp::as_millisecond);
        ms.filter(|ms| (EARLIEST_MS..=LATEST_MS).contains(ms)).ok_or("a time from 1970 to 2100")
    };
    let instants = match zone.to_ambiguous_timestamp(local).offset() {
        AmbiguousOffset::Unambiguous { offset } => Instants { first: ms(offset)?, second: None },
        AmbiguousOffset::Fold { before, after } => Instants { first: ms(before)?, second: Some(ms(after)?) },
        AmbiguousOffset::Gap { .. } => return Err("a time that exists in the zone that --time-zone names"),
    };
    Ok(Some(instants))
}

/// Reads a duration such as `1-02:03:04` (days, hours, minutes, seconds), `02:03:04` or `03:04`, as seconds.
///
/// # Errors
/// What was expected.
pub(super) fn duration(text: &str) -> Result<i64, &'static str> {
    const SHAPE: &str = "a duration such as 1-02:03:04, 02:03:04 or 03:04";
    let (days, clock) = match text.split_once('-') {
        Some((days, clock)) => (number(days, LONGEST / 86_400).ok_or(SHAPE)?, clock),
        None => (0, text),
    };
    let parts: Vec<&str> = clock.split(':').collect();
    let (hours, minutes, seconds) = match parts[..] {
        [hours, minutes, seconds] => (hours, minutes, seconds),
        [minutes, seconds] => ("0", minutes, seconds),
        _ => return Err(SHAPE),
    };
    let hours = number(hours, 23).ok_or(SHAPE)?;
    let [minutes, seconds] = [minutes, seconds].map(|part| number(part, 59));
    let (Some(minutes), Some(seconds)) = (minutes, seconds) else { return Err(SHAPE) };
    Ok(((days * 24 + hours) * 60 + minutes) * 60 + seconds)
}

/// Reads whole seconds.
///
/// # Errors
/// What was expected.
pub(super) fn seconds(text: &str) -> Result<i64, &'static str> {
    number(text, LONGEST).ok_or("whole seconds")
}

fn number(text: &str, most: i64) -> Option<i64> {
    let is_digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_digits.then(|| text.parse().ok()).flatten().filter(|number| *number <= most)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000;

    /// 2026-10-25T00:00:00Z, by `date -u -d 2026-10-25 +%s`; Berlin sets its clocks back from 03:00 to 02:00 at 01:00Z.
    const FOLD_DAY: i64 = 1_792_886_400_000;

    fn berlin(text: &str) -> Result<Option<Instants>, &'static str> {
        instants(text, &period::zone("Europe/Berlin").unwrap())
    }

    #[test]
    fn a_local_time_is_of_its_zone() {
        let one = |first| Ok(Some(Instants { first, second: None }));
        assert_eq!(berlin("2026-10-25T01:59:59"), one(FOLD_DAY - 1_000));
        assert_eq!(berlin("2026-10-25T03:00:00"), one(FOLD_DAY + 2 * HOUR));
        assert_eq!(instants("2026-10-25T02:30:00", &TimeZone::UTC), one(FOLD_DAY + HOUR * 5 / 2));
        // What does not depend on the zone.
        assert_eq!(berlin("1792886400"), one(FOLD_DAY));
        assert_eq!(berlin("2026-10-25T02:00:00+02:00"), one(FOLD_DAY));
        for none in ["Unknown", "None", "N/A", ""] {
            assert_eq!(berlin(none), Ok(None));
        }
    }

    #[test]
    fn an_hour_that_comes_twice_is_two_instants_and_one_that_does_not_come_is_none() {
        let twice = Instants { first: FOLD_DAY + HOUR / 2, second: Some(FOLD_DAY + HOUR * 3 / 2) };
        assert_eq!(berlin("2026-10-25T02:30:00"), Ok(Some(twice)));
        assert_eq!(berlin("2026-03-29T02:30:00"), Err("a time that exists in the zone that --time-zone names"));
        for wrong in ["yesterday", "2026-10-25", "2026-10-25T000000.0", "2026-13-01T00:00:00", "10:00:00", "-1"] {
            let expected = "a time such as 2026-10-01T00:00:00, whole epoch seconds, or Unknown";
            assert_eq!(berlin(wrong), Err(expected), "{wrong}");
        }
        assert_eq!(berlin("1960-01-01T00:00:00"), Err("a time from 1970 to 2100"));
    }

    #[test]
    fn durations_are_days_hours_minutes_and_seconds() {
        for (text, seconds) in
            [("00:00:00", 0), ("03:04", 184), ("02:03:04", 7_384), ("1-02:03:04", 93_784), ("41-16:00:00", 3_600_000)]
        {
            assert_eq!(duration(text), Ok(seconds), "{text}");
        }
        for wrong in
            ["", "5", "1-", "24:00:00", "00:60:00", "00:00:60", "-1:00:00", "1:2:3:4", "99999999-00:00:00", "INVALID"]
        {
            assert_eq!(duration(wrong), Err("a duration such as 1-02:03:04, 02:03:04 or 03:04"), "{wrong}");
        }
        assert_eq!((seconds("0"), seconds("86400")), (Ok(0), Ok(86_400)));
        for wrong in ["", "-5", "1.5", "99999999999999999999"] {
            assert_eq!(seconds(wrong), Err("whole seconds"), "{wrong}");
        }
    }
}
