//! Values of flags and of parameters: instants, durations, quantiles. Each fault says the value and what was expected.

use contador_schemas::quantile::Quantile;
use uuid::Uuid;

/// A duration in seconds: a number and s, m, h or d.
///
/// # Errors
/// What was expected.
pub fn duration(text: &str) -> Result<u32, String> {
    let expected = || format!("{text:?}, expected a number and s, m, h or d, such as 1h");
    let unit = text.chars().next_back().filter(char::is_ascii).ok_or_else(expected)?;
    let number = text.strip_suffix(unit).ok_or_else(expected)?;
    let unit = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return Err(expected()),
    };
    if !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(expected());
    }
    let seconds = number.parse::<u32>().ok().and_then(|number| number.checked_mul(unit));
    seconds.filter(|seconds| *seconds > 0).ok_or_else(expected)
}

/// An instant in nanoseconds since the Unix epoch: RFC 3339, or Unix seconds.
fn nanoseconds(text: &str) -> Option<i128> {
    match text.parse::<u32>() {
        Ok(seconds) => Some(i128::from(seconds) * 1_000_000_000),
        Err(_) => text.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_nanosecond),
    }
}

fn instant(text: &str, round: fn(i128) -> i128) -> Result<u32, String> {
    let expected = || {
        format!(
            "{text:?}, expected an instant such as 2026-11-30T12:00:00Z or Unix seconds, from 1970 to 2106-02-07T06:28:10Z"
        )
    };
    let seconds = round(nanoseconds(text).ok_or_else(expected)?);
    // The last instant that begins a window.
    u32::try_from(seconds).ok().filter(|seconds| *seconds <= u32::MAX - 5).ok_or_else(expected)
}

/// The first second of a time: RFC 3339 or Unix seconds; parts of a second are rounded down.
///
/// # Errors
/// What was expected.
pub fn from(text: &str) -> Result<u32, String> {
    instant(text, |nanoseconds| nanoseconds.div_euclid(1_000_000_000))
}

/// The first second that does not belong to a time any more: parts of a second are rounded up.
///
/// # Errors
/// What was expected.
pub fn to(text: &str) -> Result<u32, String> {
    instant(text, |nanoseconds| (nanoseconds + 999_999_999).div_euclid(1_000_000_000))
}

/// A quantile, exactly: a number from 0 to 1 with at most 6 digits after the point.
///
/// # Errors
/// What was expected.
pub fn quantile(text: &str) -> Result<Quantile, String> {
    let expected = || format!("{text:?}, expected a number from 0 to 1 with at most 6 digits after the point");
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if fraction.len() > 6 || !whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit()) {
        return Err(expected());
    }
    let whole: u32 = whole.parse().map_err(|_| expected())?;
    let fraction: u32 = format!("{fraction:0<6}").parse().map_err(|_| expected())?;
    whole
        .checked_mul(1_000_000)
        .and_then(|ppm| ppm.checked_add(fraction))
        .and_then(Quantile::from_ppm)
        .ok_or_else(expected)
}

/// The widest ratio of an interval's ends whose state is `ok`.
///
/// # Errors
/// What was expected.
pub fn ratio(text: &str) -> Result<f64, String> {
    let ratio = text.parse::<f64>().ok().filter(|ratio| ratio.is_finite() && *ratio >= 1.0);
    ratio.ok_or_else(|| format!("{text:?}, expected a number of at least 1, such as 1.1"))
}

/// The id of an owner, as ClickHouse writes it.
///
/// # Errors
/// What was expected.
pub fn owner(text: &str) -> Result<String, String> {
    let owner = Uuid::parse_str(text).map(|owner| owner.to_string());
    owner.map_err(|_| format!("{text:?}, expected the UUID of an owner, such as 84192a7a-9828-5cd3-9ac0-9ba51682be12"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_quantiles_are_read_exactly() {
        assert_eq!(duration("90m"), Ok(5_400));
        assert_eq!(quantile("0.99"), Ok(Quantile::P99));
        assert_eq!(quantile("0.999"), Ok(Quantile::P999));
        assert_eq!(quantile("1"), Ok(Quantile::from_ppm(1_000_000).unwrap()));
        for bad in ["", "h", "1", "-1h", "+1h", "1w", "µ", "99999999d"] {
            assert!(duration(bad).is_err(), "{bad:?}");
        }
        for bad in ["", "1.1", "99", "0.9999999", "-0.5", "+0.5", ".5", "0.x", "NaN"] {
            assert!(quantile(bad).is_err(), "{bad:?}");
        }
        assert_eq!(ratio("1.5"), Ok(1.5));
        for bad in ["", "0.9", "NaN", "inf", "x"] {
            assert!(ratio(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn an_instant_is_a_date_or_seconds_and_is_widened_to_whole_ones() {
        assert_eq!(from("2026-11-30T12:00:00Z"), Ok(1_796_040_000));
        assert_eq!(to("2026-11-30T13:00:00+01:00"), Ok(1_796_040_000));
        assert_eq!(
            (from("2026-11-30T12:00:00.5Z"), to("2026-11-30T12:00:00.5Z")),
            (Ok(1_796_040_000), Ok(1_796_040_001))
        );
        assert_eq!(from("1796040000"), Ok(1_796_040_000));
        for bad in ["", "yesterday", "2026-11-30", "-5", "1969-12-31T23:59:59Z", "2107-01-01T00:00:00Z", "4294967295"] {
            assert!(from(bad).is_err() && to(bad).is_err(), "{bad:?}");
        }
    }
}
