//! The period that a bill is for: a month of a time zone, or from one instant to another. Half-open.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use thiserror::Error;

/// First instant that an allocation or a period may have: 1970.
pub const EARLIEST_MS: i64 = 0;

/// Instant before which an allocation or a period must end: 2100, in milliseconds.
pub const LATEST_MS: i64 = 4_102_444_800_000;

/// From an instant up to, and without, another.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Period {
    /// Unix milliseconds.
    pub from: i64,
    /// Unix milliseconds, exclusive.
    pub to: i64,
    /// The month, as `2026-10`, where the period is one.
    pub month: Option<String>,
    /// Time zone in which dates and months are meant.
    pub zone: TimeZone,
}

/// Why a period cannot be used.
#[derive(Debug, Error)]
pub enum PeriodError {
    /// No such time zone.
    #[error("time zone {0:?}: expected a name of the IANA database such as Europe/Berlin")]
    Zone(String),
    /// Not a month.
    #[error("month {0:?}: expected a year and a month such as 2026-10, from 1970-01 to 2099-12")]
    Month(String),
    /// Not an instant.
    #[error("{what} {value:?}: expected {expected}")]
    Instant {
        /// Which end of the period.
        what: &'static str,
        /// What was given.
        value: String,
        /// What would do.
        expected: &'static str,
    },
    /// Ends before it starts.
    #[error("the period is empty: its end {to} is not after its start {from}")]
    Empty {
        /// Start, as given.
        from: String,
        /// End, as given.
        to: String,
    },
}

/// The time zone of this IANA name.
///
/// # Errors
/// [`PeriodError::Zone`] when there is none.
pub fn zone(name: &str) -> Result<TimeZone, PeriodError> {
    TimeZone::get(name).map_err(|_| PeriodError::Zone(name.to_owned()))
}

impl Period {
    /// A month such as `2026-10`, from its first midnight in the zone to that of the next month.
    ///
    /// # Errors
    /// [`PeriodError::Month`] when the text isn't a month.
    pub fn month(text: &str, zone: &TimeZone) -> Result<Self, PeriodError> {
        let fault = || PeriodError::Month(text.to_owned());
        let shaped = text.len() == 7 && text.is_ascii() && text.as_bytes()[4] == b'-';
        let first: Date = shaped.then(|| format!("{text}-01").parse().ok()).flatten().ok_or_else(fault)?;
        let next = first.checked_add(1.month()).map_err(|_| fault())?;
        if !(1970..2100).contains(&first.year()) {
            return Err(fault());
        }
        let from = midnight(first, zone).ok_or_else(fault)?;
        let to = midnight(next, zone).ok_or_else(fault)?;
        Ok(Self { from, to, month: Some(text.to_owned()), zone: zone.clone() })
    }

    /// From one instant to another, each RFC 3339, a date (its midnight in the zone) or whole epoch seconds.
    ///
    /// # Errors
    /// [`PeriodError::Instant`] and [`PeriodError::Empty`].
    pub fn between(from: &str, to: &str, zone: &TimeZone) -> Result<Self, PeriodError> {
        let read = |what, text: &str| {
            let fault = |expected| PeriodError::Instant { what, value: text.to_owned(), expected };
            if text.len() == 10
                && let Ok(date) = text.parse::<Date>()
            {
                let instant =
                    midnight(date, zone).filter(|ms| (EARLIEST_MS - DAY_MS..=LATEST_MS + DAY_MS).contains(ms));
                return instant.ok_or_else(|| fault("a date from 1970 to 2100"));
            }
            instant(text).map_err(fault)
        };
        let (start, end) = (read("from", from)?, read("to", to)?);
        if start >= end {
            return Err(PeriodError::Empty { from: from.to_owned(), to: to.to_owned() });
        }
        Ok(Self { from: start, to: end, month: None, zone: zone.clone() })
    }

    /// The month before, where the period is one.
    pub fn month_before(&self) -> Option<Self> {
        let first: Date = format!("{}-01", self.month.as_ref()?).parse().ok()?;
        let before = first.checked_sub(1.month()).ok()?;
        Self::month(&before.strftime("%Y-%m").to_string(), &self.zone).ok()
    }

    /// Whether a bill tells its days: those of a period of more than 400 do not.
    pub const fn tells_days(&self) -> bool {
        self.to - self.from <= 400 * DAY_MS
    }

    /// The local midnights inside the period, in order, Unix milliseconds; none if it does not tell its days.
    pub fn midnights(&self) -> Vec<i64> {
        if !self.tells_days() {
            return Vec::new();
        }
        let Ok(first) = Timestamp::from_millisecond(self.from) else { return Vec::new() };
        let mut date = first.to_zoned_datetime(self.zone.clone()).date();
        let mut midnights = Vec::new();
        while let Ok(next) = date.checked_add(1.day()) {
            date = next;
            match midnight(date, &self.zone) {
                Some(at) if at >= self.to => break,
                Some(at) if at > self.from => midnights.push(at),
                Some(_) => {}
                None => break,
            }
        }
        midnights
    }

    /// Name of the zone.
    pub fn zone_name(&self) -> String {
        self.zone.iana_name().unwrap_or("UTC").to_owned()
    }

    /// An instant of the period in its own zone, RFC 3339 with the offset.
    pub fn local(&self, ms: i64) -> String {
        match Timestamp::from_millisecond(ms) {
            Ok(instant) => instant.to_zoned_datetime(self.zone.clone()).strftime("%Y-%m-%dT%H:%M:%S%.f%:z").to_string(),
            Err(_) => ms.to_string(),
        }
    }
}

/// An instant in UTC, RFC 3339 in seconds.
pub fn utc(ms: i64) -> String {
    match Timestamp::from_millisecond(ms) {
        Ok(instant) => instant.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        Err(_) => ms.to_string(),
    }
}

/// The month after one such as `2026-12`; the text itself if it is no month.
pub fn next_month(month: &str) -> String {
    let first = format!("{month}-01").parse::<Date>().ok();
    let next = first.and_then(|first| first.checked_add(1.month()).ok());
    next.map_or_else(|| month.to_owned(), |next| next.strftime("%Y-%m").to_string())
}

const DAY_MS: i64 = 86_400_000;

/// The first instant of a date in the zone, in Unix milliseconds.
pub fn midnight(date: Date, zone: &TimeZone) -> Option<i64> {
    date.to_zoned_datetime(zone.clone()).ok().map(|zoned| zoned.timestamp().as_millisecond())
}

/// Reads RFC 3339 or whole epoch seconds as Unix milliseconds, from 1970 up to 2100.
///
/// # Errors
/// What was expected.
pub fn instant(text: &str) -> Result<i64, &'static str> {
    const SHAPE: &str = "RFC 3339 such as 2026-10-01T00:00:00Z, or whole epoch seconds";
    let ms = if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        text.parse::<i64>().ok().and_then(|seconds| seconds.checked_mul(1_000)).unwrap_or(i64::MAX)
    } else {
        if !rfc3339(text) {
            return Err(SHAPE);
        }
        let instant: Timestamp = text.parse().map_err(|_| SHAPE)?;
        if instant.subsec_nanosecond() % 1_000_000 != 0 {
            return Err("at most 3 digits of a second");
        }
        instant.as_millisecond()
    };
    if (EARLIEST_MS..=LATEST_MS).contains(&ms) { Ok(ms) } else { Err("a time from 1970 to 2100") }
}

/// Whether the text has RFC 3339's shape: the parser alone would also take other forms of ISO 8601.
fn rfc3339(text: &str) -> bool {
    let bytes = text.as_bytes();
    let Some((head, tail)) = bytes.split_at_checked(19) else { return false };
    let digits = |at: &[usize]| at.iter().all(|&at| head[at].is_ascii_digit());
    let zone = tail.iter().position(|byte| !(byte.is_ascii_digit() || *byte == b'.')).unwrap_or(tail.len());
    let fraction = &tail[..zone];
    digits(&[0, 1, 2, 3, 5, 6, 8, 9, 11, 12, 14, 15, 17, 18])
        && (head[4], head[7], head[13], head[16]) == (b'-', b'-', b':', b':')
        && matches!(head[10], b'T' | b't' | b' ')
        && (fraction.is_empty() || (fraction.len() > 1 && fraction[0] == b'.' && !fraction[1..].contains(&b'.')))
        && match &tail[zone..] {
            [b'Z' | b'z'] => true,
            [b'+' | b'-', a, b, b':', c, d] => [a, b, c, d].iter().all(|byte| byte.is_ascii_digit()),
            _ => false,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hours(month: &str, name: &str) -> i64 {
        let period = Period::month(month, &zone(name).unwrap()).unwrap();
        assert_eq!((period.to - period.from) % 3_600_000, 0);
        (period.to - period.from) / 3_600_000
    }

    #[test]
    fn b19_a_month_has_the_hours_of_its_zone() {
        assert_eq!(hours("2026-10", "UTC"), 744);
        assert_eq!(hours("2026-10", "Europe/Berlin"), 745);
        assert_eq!(hours("2026-03", "Europe/Berlin"), 743);
        assert_eq!(hours("2026-11", "America/New_York"), 721);
        let berlin = Period::month("2026-10", &zone("Europe/Berlin").unwrap()).unwrap();
        assert_eq!(berlin.local(berlin.from), "2026-10-01T00:00:00+02:00");
        assert_eq!(berlin.local(berlin.to), "2026-11-01T00:00:00+01:00");
    }

    #[test]
    fn instants_are_rfc_3339_or_epoch_seconds() {
        for (text, ms) in [
            ("0", 0),
            ("12902960", 12_902_960_000),
            ("1970-01-01T00:00:00Z", 0),
            ("2026-10-01T02:00:00+02:00", 1_790_812_800_000),
            ("2026-10-01T00:00:00.125Z", 1_790_812_800_125),
        ] {
            assert_eq!(instant(text), Ok(ms), "{text}");
        }
        for text in [
            "",
            "-1",
            "1.5",
            "1e9",
            "2026-10-01",
            "2026-10-01T00:00Z",
            "2026-10-01T00:00:00",
            "20261001T000000Z",
            "2026-13-01T00:00:00Z",
            "2026-10-01T00:00:00+0200",
            "2026-10-01T00:00:00Z[UTC]",
            "now",
            "9999999999999",
            "2026-10-01T00:00:00.0001Z",
            "1969-12-31T23:59:59Z",
            "99999999999999999999",
        ] {
            assert!(instant(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_period_is_refused_with_what_was_expected() {
        let utc = TimeZone::UTC;
        for month in ["2026", "2026-13", "2026-1", "26-10", "1969-12", "2100-01", "2026/10", "2026-10-01", "éé26-1"] {
            let text = Period::month(month, &utc).unwrap_err().to_string();
            assert!(text.starts_with(&format!("month {month:?}: expected")), "{text}");
        }
        let text = Period::between("2026-10-02", "2026-10-02", &utc).unwrap_err().to_string();
        assert_eq!(text, "the period is empty: its end 2026-10-02 is not after its start 2026-10-02");
        let text = Period::between("yesterday", "2026-10-02", &utc).unwrap_err().to_string();
        assert!(text.starts_with("from \"yesterday\": expected RFC 3339"), "{text}");
        assert!(zone("Mars/Olympus").is_err());
        let period = Period::between("0", "1971-01-01", &utc).unwrap();
        assert_eq!((period.from, period.to), (0, 31_536_000_000));
    }

    #[test]
    fn the_month_before_is_one_of_the_same_zone() {
        let berlin = zone("Europe/Berlin").unwrap();
        let january = Period::month("2026-01", &berlin).unwrap();
        assert_eq!(january.month_before(), Some(Period::month("2025-12", &berlin).unwrap()));
        assert_eq!(Period::month("1970-01", &berlin).unwrap().month_before(), None);
        assert_eq!(Period::between("2026-01-01", "2026-02-01", &berlin).unwrap().month_before(), None);
    }
}
