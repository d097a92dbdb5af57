//! Whose latencies a push has: the query of `POST /v1/latency`, and the same keys in a body of JSON.

use axum::extract::Query;
use axum::http::Uri;
use contador_schemas::names;
use uuid::Uuid;

use super::unit::Unit;
use crate::owners::label;
use crate::owners::labels::percent_decoded;

/// What the keys of labels of the client's own begin with.
const LABEL: &str = "label.";

/// Most of them.
const MAX_LABELS: usize = 16;

/// Attributes that have a key of their own, or that only the agent may say.
const TAKEN: &[(&str, &str)] = &[
    (names::SERVICE_NAME, "the key service"),
    (names::LATENCY_METRIC, "the key metric"),
    (names::MODEL, "the key model"),
    (names::HTTP_ROUTE, "the key route"),
    (names::ENVIRONMENT, "the key environment"),
    (names::SERVICE_INSTANCE_ID, "the key instance"),
    (names::HW_ID, "the key device"),
    (names::OWNER_ID, "the key owner"),
    (names::LATENCY_CENSORED, "the key censored"),
    (names::SIMULATED, "the key simulated"),
    (names::HOST_NAME, "no such label, as the agent says it"),
];

/// The keys.
const KEYS: &str = "service, metric, model, route, environment, instance, device, owner, label.NAME, start, end, id, unit, \
                    censored, simulated, requests, aborted, input_tokens and output_tokens";

/// What a push says beside its values.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Params {
    /// The service that answered. Needed.
    pub service: String,
    /// What was timed; `request_duration` when empty.
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
    /// Id of the owner that served.
    pub owner: Option<Uuid>,
    /// Labels of the client's own, by name.
    pub labels: Vec<(String, String)>,
    /// Start of the interval, Unix seconds with up to 9 decimals.
    pub start: Option<String>,
    /// End of the interval, likewise.
    pub end: Option<String>,
    /// The client's name for this push: the same for each try.
    pub id: Option<String>,
    /// What the values are counted in.
    pub unit: Unit,
    /// Whether the values are times after which requests were aborted.
    pub censored: bool,
    /// Whether the values come from a simulation.
    pub simulated: bool,
    /// Requests that were answered to their end.
    pub requests: Option<u64>,
    /// Requests that ended before they were answered.
    pub aborted: Option<u64>,
    /// Tokens of prompts.
    pub input_tokens: Option<u64>,
    /// Tokens that were generated.
    pub output_tokens: Option<u64>,
    /// Keys that were there.
    pub(super) seen: Vec<String>,
}

impl Params {
    /// Reads a query.
    ///
    /// # Errors
    /// What is wrong, for the client.
    pub fn of_query(uri: &Uri) -> Result<Self, String> {
        check_query(uri.query().unwrap_or_default())?;
        let Query(pairs) = Query::<Vec<(String, String)>>::try_from_uri(uri).map_err(|fault| fault.body_text())?;
        let mut params = Self::default();
        for (name, value) in pairs {
            params.set(&name, &value)?;
        }
        Ok(params)
    }

    /// Takes a key's value.
    ///
    /// # Errors
    /// What is wrong, for the client.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        if self.seen.iter().any(|seen| seen == name) {
            return Err(format!("{} is there twice, expected it once", label::shown(name)));
        }
        if !label::is_valid(value) {
            return Err(format!("{name} is {}, expected {}", label::shown(value), label::EXPECTED));
        }
        let text = || value.to_owned();
        match name {
            "service" => self.service = text(),
            "metric" => self.metric = text(),
            "model" => self.model = text(),
            "route" => self.route = text(),
            "environment" => self.environment = text(),
            "instance" => self.instance = text(),
            "device" => self.device = text(),
            "owner" => {
                self.owner = Some(Uuid::parse_str(value).map_err(|_| wrong(name, value, "the UUID of an owner"))?)
            }
            "start" => self.start = Some(text()),
            "end" => self.end = Some(text()),
            "id" => self.id = Some(text()),
            "unit" => self.unit = Unit::of(value).ok_or_else(|| wrong(name, value, Unit::EXPECTED))?,
            "censored" => self.censored = flag(name, value)?,
            "simulated" => self.simulated = flag(name, value)?,
            "requests" => self.requests = Some(count(name, value)?),
            "aborted" => self.aborted = Some(count(name, value)?),
            "input_tokens" => self.input_tokens = Some(count(name, value)?),
            "output_tokens" => self.output_tokens = Some(count(name, value)?),
            _ => match name.strip_prefix(LABEL) {
                Some(label) => self.label(label, value)?,
                None => return Err(format!("the key {} is not known, expected {KEYS}", label::shown(name))),
            },
        }
        self.seen.push(name.to_owned());
        Ok(())
    }

    fn label(&mut self, name: &str, value: &str) -> Result<(), String> {
        if self.labels.len() >= MAX_LABELS {
            return Err(format!("label.{name} is one too many, expected at most {MAX_LABELS} labels"));
        }
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-' | b'/');
        if name.is_empty() || name.len() > 64 || !name.bytes().all(is_name) {
            let shown = label::shown(name);
            return Err(format!("the label {shown} has no name, expected 1 to 64 of letters, digits, _, ., - and /"));
        }
        if let Some((_, instead)) = TAKEN.iter().find(|(taken, _)| *taken == name) {
            return Err(format!("label.{name} can't be set, expected {instead}"));
        }
        if name.starts_with("contador.") {
            return Err(format!("label.{name} can't be set, expected a name that does not begin with contador."));
        }
        self.labels.push((name.to_owned(), value.to_owned()));
        Ok(())
    }

    /// Finds fault with what is not there.
    ///
    /// # Errors
    /// What is wrong, for the client.
    pub fn check(&self) -> Result<(), String> {
        if self.service.is_empty() {
            return Err("service is missing, expected the name of the service that answered".to_owned());
        }
        Ok(())
    }

    /// What was timed.
    pub fn metric(&self) -> String {
        if self.metric.is_empty() { "request_duration".to_owned() } else { self.metric.clone() }
    }

    /// Whether it says how much was served.
    pub fn tells_served(&self) -> bool {
        [self.requests, self.aborted, self.input_tokens, self.output_tokens].iter().any(Option::is_some)
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

fn wrong(name: &str, value: &str, expected: &str) -> String {
    format!("{name} is {}, expected {expected}", label::shown(value))
}

fn flag(name: &str, value: &str) -> Result<bool, String> {
    value.parse().map_err(|_| wrong(name, value, "true or false"))
}

/// A count; so many requests or tokens that they don't fit into 63 bits were never served.
fn count(name: &str, value: &str) -> Result<u64, String> {
    let count = value.parse::<u64>().ok().filter(|count| i64::try_from(*count).is_ok());
    count.ok_or_else(|| wrong(name, value, "a whole number from 0 to 9223372036854775807"))
}

/// Finds fault with a query before it is read: a value whose escapes are no UTF-8 would be read as another.
fn check_query(query: &str) -> Result<(), String> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn query(text: &str) -> Result<Params, String> {
        Params::of_query(&format!("/v1/latency?{text}").parse().unwrap())
    }

    #[test]
    fn every_key_is_read() {
        let owner = "84192a7a-9828-5cd3-9ac0-9ba51682be12";
        let params = query(&format!(
            "service=s&metric=queue_time&model=m&route=%2Fr&environment=e&instance=i&device=GPU-1&owner={owner}\
             &label.tier=gold&label.cloud.region=a+b&start=1&end=2&id=7&unit=ns&censored=true&simulated=true\
             &requests=0&aborted=2&input_tokens=3&output_tokens=9223372036854775807"
        ))
        .unwrap();
        assert_eq!((params.service.as_str(), params.metric(), params.route.as_str()), ("s", "queue_time".into(), "/r"));
        assert_eq!(params.owner, Some(Uuid::parse_str(owner).unwrap()));
        let labels = [("tier".to_owned(), "gold".to_owned()), ("cloud.region".to_owned(), "a b".to_owned())];
        assert_eq!(params.labels, labels);
        assert!(params.unit == Unit::Nanoseconds && params.censored && params.simulated && params.tells_served());
        assert_eq!((params.requests, params.aborted), (Some(0), Some(2)));
        assert_eq!((params.input_tokens, params.output_tokens), (Some(3), Some(9_223_372_036_854_775_807)));
        let bare = query("service=s").unwrap();
        assert!(!bare.tells_served() && bare.metric() == "request_duration" && bare.unit == Unit::Microseconds);
    }

    #[test]
    fn what_is_no_such_key_or_value_is_refused_by_name() {
        let labels: String = (0..17).map(|label| format!("&label.l{label}=x")).collect();
        for (text, expected) in [
            ("service=s&colour=red", r#"the key "colour" is not known, expected service, metric"#),
            ("service=s&service=t", r#""service" is there twice"#),
            ("label.a=1&label.a=2", r#""label.a" is there twice"#),
            ("unit=min", r#"unit is "min", expected ns, us, ms or s"#),
            ("owner=me", r#"owner is "me", expected the UUID of an owner"#),
            ("censored=1", r#"censored is "1", expected true or false"#),
            ("requests=-1", r#"requests is "-1", expected a whole number"#),
            ("output_tokens=9223372036854775808", "expected a whole number from 0 to 9223372036854775807"),
            ("label.host.name=x", "label.host.name can't be set, expected no such label"),
            ("label.service.name=x", "label.service.name can't be set, expected the key service"),
            ("label.contador.x=x", "expected a name that does not begin with contador."),
            ("label.=x", r#"the label "" has no name"#),
            ("label.a%20b=x", r#"the label "a b" has no name"#),
            (&format!("service=s{labels}"), "label.l16 is one too many, expected at most 16 labels"),
        ] {
            let error = query(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn tries_of_one_push_are_one_row_and_pushes_are_not() {
        let of = |instance: &str, id: &str| {
            Params { instance: instance.to_owned(), id: Some(id.to_owned()), ..Params::default() }.source()
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
        let of = |route: &str| Params::default().set("route", route);
        assert_eq!(of("/rank"), Ok(()));
        assert!(Params::default().check().unwrap_err().starts_with("service is missing"));
        for (route, shown) in [
            ("a\0", r#""a\0""#),
            ("a\nb", r#""a\nb""#),
            ("\u{1b}[2J", r#""\u{1b}[2J""#),
            (&"x".repeat(60_000), "of 60000 bytes"),
        ] {
            let error = of(route).unwrap_err();
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
}
