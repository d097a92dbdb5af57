//! A query string to a question. Parameters that are not known are refused, since one that does nothing is worse than none.

use std::time::{SystemTime, UNIX_EPOCH};

use contador_schemas::quantile::Quantile;

use crate::latency::{Ask, Label, MOST_RATIO, ask::COLUMNS, read};

/// How far back a question goes that does not say from when, in seconds.
const DEFAULT_BACK: u32 = 3_600;

/// Parameters beside the labels.
const OTHERS: [&str; 7] = ["from", "to", "last", "step", "q", "by", "max_ratio"];

/// What is wrong with a parameter: its name, its value and what was expected.
#[derive(Debug, thiserror::Error)]
#[error("{name}: {message}")]
pub struct Fault {
    name: String,
    message: String,
}

/// The question of a query string.
///
/// # Errors
/// [`Fault`].
pub fn ask(query: &str) -> Result<Ask, Fault> {
    let mut ask = Ask {
        equal: Vec::new(),
        by: Vec::new(),
        from: 0,
        to: 0,
        step: None,
        quantiles: vec![Quantile::P99],
        max_ratio: MOST_RATIO,
    };
    let (mut from, mut to, mut last) = (None, None, None);
    let mut seen: Vec<String> = Vec::new();
    for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
        let fault = |message| Fault { name: name.to_string(), message };
        if name != "by" && seen.iter().any(|seen| *seen == *name) {
            return Err(fault(format!("{value:?} is a second value, expected one")));
        }
        seen.push(name.to_string());
        match name.as_ref() {
            "from" => from = Some(read::from(&value).map_err(fault)?),
            "to" => to = Some(read::to(&value).map_err(fault)?),
            "last" => last = Some(read::duration(&value).map_err(fault)?),
            "step" => {
                let seconds = value.parse::<u32>().or_else(|_| read::duration(&value)).map_err(fault)?;
                ask.step = Some(seconds);
            }
            "q" => ask.quantiles = vec![read::quantile(&value).map_err(fault)?],
            "max_ratio" => ask.max_ratio = read::ratio(&value).map_err(fault)?,
            "by" => ask.by.extend(value.split(',').filter(|name| !name.is_empty()).map(Label::named)),
            // An empty value of a label asks for those that lack it.
            label if label.starts_with("label.") => ask.equal.push((Label::named(label), value.into_owned())),
            column if COLUMNS.iter().any(|(name, _)| *name == column) => {
                ask = ask.only(Label::named(column), &value);
            }
            other => {
                let known = COLUMNS.iter().map(|(name, _)| *name).chain(OTHERS).chain(["label.NAME"]);
                let known: Vec<&str> = known.collect();
                return Err(fault(format!("unknown parameter, expected one of {} (not {other:?})", known.join(", "))));
            }
        }
    }
    let missing = |name: &str, message: &str| Fault { name: name.to_owned(), message: message.to_owned() };
    if ask.value(&Label::Service).is_none() {
        return Err(missing("service", "missing, expected the name of a service"));
    }
    if ask.value(&Label::Metric).is_none() {
        ask = ask.only(Label::Metric, "request_duration");
    }
    if from.is_some() && last.is_some() {
        return Err(missing("last", "expected it without from"));
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    // The window that is still open counts too.
    ask.to = to.unwrap_or_else(|| u32::try_from(now + 1).unwrap_or(u32::MAX - 5));
    ask.from = from.unwrap_or_else(|| ask.to.saturating_sub(last.unwrap_or(DEFAULT_BACK)));
    Ok(ask)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_string_is_a_question() {
        let asked = ask("service=a%20b&q=0.5&from=1000&to=2026-11-30T12:00:00Z&step=5m&model=m&label.cloud.region=eu\
                         &by=route,label.x&by=device&max_ratio=2")
        .unwrap();
        assert_eq!(
            asked.equal,
            [
                (Label::Service, "a b".to_owned()),
                (Label::Model, "m".to_owned()),
                (Label::Attribute("cloud.region".to_owned()), "eu".to_owned()),
                (Label::Metric, "request_duration".to_owned()),
            ]
        );
        assert_eq!(asked.by, [Label::Route, Label::Attribute("x".to_owned()), Label::Device]);
        assert_eq!((asked.from, asked.to, asked.step), (1_000, 1_796_040_000, Some(300)));
        assert_eq!((asked.quantiles, asked.max_ratio), (vec![Quantile::P50], 2.0));
        let short = ask("service=a&last=10m").unwrap();
        assert_eq!(short.to - short.from, 600);
    }

    #[test]
    fn faults_name_the_parameter_its_value_and_what_was_expected() {
        let fault = |query: &str| ask(query).unwrap_err().to_string();
        assert_eq!(fault(""), "service: missing, expected the name of a service");
        assert_eq!(fault("service="), "service: missing, expected the name of a service");
        assert_eq!(
            fault("service=a&q=99"),
            "q: \"99\", expected a number from 0 to 1 with at most 6 digits after the point"
        );
        assert!(fault("service=a&from=now").starts_with("from: \"now\", expected an instant such as 2026-11-30T12"));
        assert_eq!(fault("service=a&step=x"), "step: \"x\", expected a number and s, m, h or d, such as 1h");
        assert_eq!(fault("service=a&service=b"), "service: \"b\" is a second value, expected one");
        assert!(
            fault("service=a&serivce=b").starts_with("serivce: unknown parameter, expected one of service, metric")
        );
        assert_eq!(fault("service=a&from=1&last=1h"), "last: expected it without from");
    }
}
