//! Values that carry a unit: durations and sizes.

use std::time::Duration;

/// A duration such as `250ms`, `1s`, `5m` or `2h`: a whole number and its unit.
///
/// # Errors
/// What was expected.
pub fn duration(text: &str) -> Result<Duration, &'static str> {
    const EXPECTED: &str = "a whole number with a unit, such as 250ms, 1s, 5m or 2h";
    let (number, unit) = split(text).ok_or(EXPECTED)?;
    let milliseconds = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(EXPECTED),
    };
    number.checked_mul(milliseconds).map(Duration::from_millis).ok_or(EXPECTED)
}

/// A duration as text that [`duration`] reads.
pub fn show_duration(duration: Duration) -> String {
    let ms = duration.as_millis();
    match ms {
        _ if !ms.is_multiple_of(1_000) => format!("{ms}ms"),
        _ if !ms.is_multiple_of(60_000) || ms == 0 => format!("{}s", ms / 1_000),
        _ => format!("{}m", ms / 60_000),
    }
}

/// A size in bytes such as `64KiB`, `512MiB` or `1GiB`: a whole number and its unit.
///
/// # Errors
/// What was expected.
pub fn size(text: &str) -> Result<u64, &'static str> {
    const EXPECTED: &str = "a whole number with a unit, such as 64KiB, 512MiB or 1GiB";
    let (number, unit) = split(text).ok_or(EXPECTED)?;
    let bytes = match unit {
        "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return Err(EXPECTED),
    };
    number.checked_mul(bytes).ok_or(EXPECTED)
}

/// A size as text that [`size`] reads.
pub fn show_size(bytes: u64) -> String {
    for (unit, factor) in [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)] {
        if bytes > 0 && bytes.is_multiple_of(factor) {
            return format!("{}{unit}", bytes / factor);
        }
    }
    format!("{bytes}B")
}

fn split(text: &str) -> Option<(u64, &str)> {
    let text = text.trim();
    let end = text.find(|character: char| !character.is_ascii_digit())?;
    let (number, unit) = text.split_at(end);
    Some((number.parse().ok()?, unit.trim_start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_without_a_unit_is_no_duration() {
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("3 s"), Ok(Duration::from_secs(3)));
        for wrong in ["3", "", "s", "-1s", "1.5s", "3sec", "99999999999999999999s"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
        assert_eq!(size("1GiB"), Ok(1 << 30));
        for wrong in ["1", "1GB", "1.5MiB", "99999999999GiB"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_shown_reads_as_the_same() {
        for ms in [0, 1, 250, 1_000, 1_500, 60_000, 90_000, 3_600_000] {
            let value = Duration::from_millis(ms);
            assert_eq!(duration(&show_duration(value)), Ok(value));
        }
        for bytes in [0, 1, 1023, 1024, 1 << 20, 3 << 30, (1 << 30) + 1] {
            assert_eq!(size(&show_size(bytes)), Ok(bytes));
        }
    }
}
