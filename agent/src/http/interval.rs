//! When a push was measured: the keys `start` and `end`.

use super::params::Params;

/// Furthest that an interval may end in the future, in nanoseconds: clocks differ.
const MAX_AHEAD_NS: u64 = 3_600_000_000_000;

/// Oldest end of an interval, in nanoseconds before now: as long as latencies are stored.
const MAX_AGE_NS: u64 = 14 * 24 * 3_600_000_000_000;

/// Start and end of a push's interval in Unix nanoseconds. Without `end` it ends now.
///
/// # Errors
/// What is wrong, for the client.
pub fn interval(params: &Params, now_ns: u64) -> Result<(u64, u64), String> {
    let end = match (&params.end, &params.id) {
        (None, Some(_)) => {
            return Err("id without end: expected end, in Unix seconds, so that each try is the same row".to_owned());
        }
        (None, None) => now_ns,
        (Some(end), _) => nanoseconds("end", end)?,
    };
    if end == 0 || end > now_ns.saturating_add(MAX_AHEAD_NS) {
        return Err(format!("end is {}, expected no more than an hour ahead", params.end.as_deref().unwrap_or("0")));
    }
    if end < now_ns.saturating_sub(MAX_AGE_NS) {
        let end = params.end.as_deref().unwrap_or("0");
        return Err(format!("end is {end}, expected no more than 14 days ago: what is older is not stored"));
    }
    let start = params.start.as_deref().map(|start| nanoseconds("start", start)).transpose()?;
    if let (Some(start), Some(text)) = (start, &params.start)
        && start > end
    {
        return Err(format!("start is {text}, expected a time before end"));
    }
    Ok((start.unwrap_or(end).min(end), end))
}

/// Unix seconds with up to 9 decimals as nanoseconds, exactly.
fn nanoseconds(name: &str, text: &str) -> Result<u64, String> {
    let wrong = || format!("{name} is {text:?}, expected Unix seconds such as 1790000000 or 1790000000.25");
    let (seconds, decimals) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(seconds) || !digits(decimals) || decimals.len() > 9 {
        return Err(wrong());
    }
    let seconds: u64 = seconds.parse().map_err(|_| wrong())?;
    let decimals: u64 = format!("{decimals:0<9}").parse().map_err(|_| wrong())?;
    let nanoseconds = seconds.checked_mul(1_000_000_000).and_then(|whole| whole.checked_add(decimals));
    nanoseconds.filter(|nanoseconds| i64::try_from(*nanoseconds).is_ok()).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_790_000_000_123_456_789;

    fn params(start: Option<&str>, end: Option<&str>, id: Option<&str>) -> Params {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        Params { start: owned(start), end: owned(end), id: owned(id), ..Params::default() }
    }

    #[test]
    fn times_are_exact() {
        assert_eq!(interval(&params(None, None, None), NOW), Ok((NOW, NOW)));
        assert_eq!(
            interval(&params(Some("1789999990.5"), Some("1790000000.000000001"), None), NOW),
            Ok((1_789_999_990_500_000_000, 1_790_000_000_000_000_001))
        );
    }

    #[test]
    fn impossible_times_are_refused() {
        for (start, end, id) in [
            (None, Some("yesterday"), None),
            (None, Some("-5"), None),
            (None, Some("0"), None),
            (None, Some("1790003601"), None),
            (None, Some("1788790399"), None),
            (None, Some("1e9"), None),
            (None, Some("99999999999999999999"), None),
            (Some("1790000001"), Some("1790000000"), None),
            (None, None, Some("a")),
        ] {
            let error = interval(&params(start, end, id), NOW).unwrap_err();
            assert!(error.contains("expected"), "{error}");
        }
    }
}
