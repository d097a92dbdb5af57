//! Whose latencies a push has, and when: the query of `POST /v1/latency`.

use serde::Deserialize;

use crate::owners::label;
use crate::owners::labels::percent_decoded;

/// Furthest that an interval may end in the future, in nanoseconds: clocks differ.
const MAX_AHEAD_NS: u64 = 3_600_000_000_000;

/// Oldest end of an interval, in nanoseconds before now: as long as latencies are stored.
const MAX_AGE_NS: u64 = 14 * 24 * 3_600_000_000_000;

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

/// Finds fault with a query before it is read: a value whose escapes are no UTF-8 would be read as another.
///
/// # Errors
/// What is wrong, for the client.
pub fn check_query(query: &str) -> Result<(), String> {
    for pair in query.split('&') {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        for text in [name, value] {
            let bytes = percent_decoded(text);
            if let Err(fault) = std::str::from_utf8(&bytes) {
                let shown = label::shown(&bytes[..bytes.len().min(256)].escape_ascii().to_string());
                let name = label::shown(name);
                let at = fault.valid_up_to();
                return Err(format!(
                    "{name} has bytes that are no UTF-8 at {at}: {shown}, expected {}",
                    label::EXPECTED
                ));
            }
        }
    }
    Ok(())
}

impl Params {
    /// Finds fault with the labels.
    ///
    /// # Errors
    /// What is wrong, for the client.
    pub fn check_labels(&self) -> Result<(), String> {
        if self.service.is_empty() {
            return Err("service is missing, expected the name of the service that answered".to_owned());
        }
        for (name, value) in [
            ("service", &self.service),
            ("metric", &self.metric),
            ("model", &self.model),
            ("route", &self.route),
            ("environment", &self.environment),
            ("instance", &self.instance),
            ("device", &self.device),
            ("id", self.id.as_ref().unwrap_or(&String::new())),
        ] {
            if !label::is_valid(value) {
                return Err(format!("{name} is {}, expected {}", label::shown(value), label::EXPECTED));
            }
        }
        Ok(())
    }

    /// Which replica the row is of: the instance, and with an id `<instance>#<id>`. The id is a part of what tells rows
    /// apart then: pushes of one series that end at the same time are different rows, and tries of one push are the same.
    /// What follows the last `#` is the id, with `#` and `%` in it escaped, so that no two pairs are alike.
    pub fn source(&self) -> String {
        match &self.id {
            None => self.instance.clone(),
            Some(id) => format!("{}#{}", self.instance, id.replace('%', "%25").replace('#', "%23")),
        }
    }
}

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
    fn tries_of_one_push_are_one_row_and_pushes_are_not() {
        let of = |instance: &str, id: &str| {
            let params = params(None, Some("1790000000"), Some(id));
            assert_eq!(interval(&params, NOW).unwrap().1, 1_790_000_000_000_000_000);
            Params { instance: instance.to_owned(), ..params }.source()
        };
        assert_eq!(of("r1", "a"), "r1#a");
        let pairs = [("r1", "a"), ("r1", "b"), ("r1#a", "b"), ("r1", "a#b"), ("r1", "a%23b"), ("", "r1#a"), ("r1", "")];
        let sources: std::collections::BTreeSet<String> = pairs.iter().map(|(instance, id)| of(instance, id)).collect();
        assert_eq!(sources.len(), pairs.len());
        // By their CRC-32 modulo a million, hundreds of these were one row with another.
        let many: std::collections::BTreeSet<String> = (0..20_000).map(|id| of("r1", &id.to_string())).collect();
        assert_eq!(many.len(), 20_000);
        assert_eq!(Params { instance: "r1".to_owned(), ..Params::default() }.source(), "r1");
    }

    #[test]
    fn labels_that_are_no_short_text_are_refused_by_name() {
        let of = |route: &str| Params { service: "s".to_owned(), route: route.to_owned(), ..Params::default() };
        assert_eq!(of("/rank").check_labels(), Ok(()));
        assert!(Params::default().check_labels().unwrap_err().starts_with("service is missing"));
        for (route, shown) in [
            ("a\0", r#""a\0""#),
            ("a\nb", r#""a\nb""#),
            ("\u{1b}[2J", r#""\u{1b}[2J""#),
            (&"x".repeat(60_000), "of 60000 bytes"),
        ] {
            let error = of(route).check_labels().unwrap_err();
            assert!(error.starts_with("route is ") && error.contains(shown) && error.len() < 200, "{error}");
            assert!(error.ends_with(label::EXPECTED), "{error}");
        }
        assert_eq!(check_query("service=a%C3%B1o&route=%zz%"), Ok(()));
        let error = check_query("service=a&route=%2F%ff%FE").unwrap_err();
        assert!(
            error.starts_with(r#""route" has bytes that are no UTF-8 at 1:"#) && error.contains(r"\xff"),
            "{error}"
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
