//! Whose latencies a push has, and when: the query of `POST /v1/latency`.

use serde::Deserialize;

/// Furthest that an interval may end in the future, in nanoseconds: clocks differ.
const MAX_AHEAD_NS: u64 = 3_600_000_000_000;

/// The query's keys.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Params {
    /// The service that answered. Needed.
    pub service: String,
    /// What was timed; `request_duration` when absent.
    pub metric: String,
    /// Machine-learning model.
    pub model: String,
    /// Route.
    pub route: String,
    /// Deployment environment.
    pub environment: String,
    /// Replica of the service.
    pub instance: String,
    /// UUID of the device that served.
    pub device: String,
    /// Start of the interval, Unix seconds with up to 9 decimals.
    pub start: Option<String>,
    /// End of the interval, likewise.
    pub end: Option<String>,
    /// The client's name for this push: the same for each try.
    pub id: Option<String>,
    /// Whether the values come from a simulation.
    pub simulated: bool,
}

/// Start and end of a push's interval in Unix nanoseconds.
///
/// Without `end` it ends now. With `id`, the end is moved back by less than a millisecond, by how much the id says: pushes
/// of one series that end at the same time are different rows then, and tries of one push are the same.
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
    let start = params.start.as_deref().map(|start| nanoseconds("start", start)).transpose()?;
    if let (Some(start), Some(text)) = (start, &params.start)
        && start > end
    {
        return Err(format!("start is {text}, expected a time before end"));
    }
    let moved = params.id.as_ref().map_or(0, |id| u64::from(crc32fast::hash(id.as_bytes())) % 1_000_000);
    let end = end - moved.min(end - 1);
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
    fn tries_of_one_push_are_one_row_and_pushes_are_not() {
        let of = |id| interval(&params(None, Some("1790000000"), Some(id)), NOW).unwrap();
        assert_eq!(of("a"), of("a"));
        assert_ne!(of("a"), of("b"));
        assert!(of("a").1 > 1_789_999_999_999_000_000);
    }

    #[test]
    fn impossible_times_are_refused() {
        for (start, end, id) in [
            (None, Some("yesterday"), None),
            (None, Some("-5"), None),
            (None, Some("0"), None),
            (None, Some("1790003601"), None),
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
