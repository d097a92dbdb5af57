//! Durations as people say them: "second", "15 minutes".

/// The longest that a document may name: 31 days, milliseconds.
pub const LONGEST_MS: u32 = 31 * 86_400_000;

/// Units and their milliseconds, the longest first.
const UNITS: [(&str, u32); 4] = [("hour", 3_600_000), ("minute", 60_000), ("second", 1_000), ("millisecond", 1)];

/// Reads a duration as milliseconds.
///
/// # Errors
/// What was expected.
pub fn parse(text: &str) -> Result<u32, &'static str> {
    const EXPECTED: &str = "a duration such as \"second\", \"15 minutes\" or \"hour\", up to 744 hours";
    let (count, unit) = text.split_once(' ').unwrap_or(("1", text));
    let digits = !count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit());
    let count: u32 = digits.then(|| count.parse().ok()).flatten().ok_or(EXPECTED)?;
    let (_, unit) =
        UNITS.iter().find(|(name, _)| unit == *name || unit.strip_suffix('s') == Some(name)).ok_or(EXPECTED)?;
    count.checked_mul(*unit).filter(|ms| (1..=LONGEST_MS).contains(ms)).ok_or(EXPECTED)
}

/// Writes milliseconds in the longest unit that they are whole ones of.
pub fn format(ms: u32) -> String {
    let whole = UNITS.iter().find(|(_, unit)| ms >= *unit && ms.is_multiple_of(*unit));
    let (name, unit) = whole.unwrap_or(&UNITS[3]);
    match ms / unit {
        1 => (*name).to_owned(),
        count => format!("{count} {name}s"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_are_read_as_people_say_them() {
        for (text, ms) in [
            ("second", 1_000),
            ("minute", 60_000),
            ("hour", 3_600_000),
            ("15 minutes", 900_000),
            ("1 hour", 3_600_000),
            ("90 seconds", 90_000),
            ("744 hours", LONGEST_MS),
        ] {
            assert_eq!(parse(text), Ok(ms), "{text}");
        }
        for text in
            ["", "15", "15min", "-1 hour", "0 seconds", "1.5 hours", "745 hours", "a minute", "15  minutes", "s"]
        {
            assert!(parse(text).is_err(), "{text:?}");
        }
        assert_eq!([format(5_400_000), format(60_000), format(1_500)], ["90 minutes", "minute", "1500 milliseconds"]);
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(ms in 1..=LONGEST_MS) {
            prop_assert_eq!(parse(&format(ms)), Ok(ms));
        }
    }
}
