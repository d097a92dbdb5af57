//! A query string to a question. Parameters that are not known, or that a page has no use for, are refused, since one that does
//! nothing is worse than none.

use std::time::{SystemTime, UNIX_EPOCH};

use contador_schemas::quantile::Quantile;

use crate::latency::{Ask, Label, MOST_RATIO, ask::COLUMNS, read};

/// How far back a question goes that does not say from when, in seconds.
const DEFAULT_BACK: u32 = 3_600;

/// A page, which takes some of the parameters.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Page {
    /// Quantiles: all of them.
    Quantile,
    /// Phases: its metrics and quantiles are always the same ones, of the whole time.
    Phases,
    /// Services: a time.
    Services,
}

impl Page {
    /// Parameters beside the labels.
    fn others(self) -> &'static [&'static str] {
        match self {
            Self::Quantile => &["from", "to", "last", "step", "q", "by", "max_ratio"],
            Self::Phases => &["from", "to", "last", "max_ratio"],
            Self::Services => &["from", "to", "last"],
        }
    }

    fn takes(self, label: &Label) -> bool {
        match self {
            Self::Quantile => true,
            Self::Phases => *label != Label::Metric,
            Self::Services => false,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Quantile => "quantile",
            Self::Phases => "phases",
            Self::Services => "services",
        }
    }

    /// Says no to a parameter, if it is none of this page.
    fn check(self, name: &str, value: &str) -> Result<(), Fault> {
        let own = Label::Attribute(String::new());
        let is_label = match name.strip_prefix("label.") {
            Some(_) => self.takes(&own),
            None => COLUMNS.iter().any(|(column, label)| *column == name && self.takes(label)),
        };
        if is_label || self.others().contains(&name) {
            return Ok(());
        }
        let columns = COLUMNS.iter().filter(|(_, label)| self.takes(label)).map(|(name, _)| *name);
        let named = self.takes(&own).then_some("label.NAME");
        let known: Vec<&str> = columns.chain(self.others().iter().copied()).chain(named).collect();
        let message = format!("{value:?}, expected no such parameter of {}, but {}", self.name(), known.join(", "));
        Err(Fault { name: name.to_owned(), message })
    }
}

/// What is wrong with a parameter: its name, its value and what was expected.
#[derive(Debug, thiserror::Error)]
#[error("{name}: {message}")]
pub struct Fault {
    name: String,
    message: String,
}

/// The question of a page's query string.
///
/// # Errors
/// [`Fault`].
pub fn ask(page: Page, query: &str) -> Result<Ask, Fault> {
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
        page.check(&name, &value)?;
        let fault = |message| Fault { name: name.to_string(), message };
        if name != "by" && seen.iter().any(|seen| *seen == *name) {
            return Err(fault(format!("{value:?} is a second value, expected one")));
        }
        seen.push(name.to_string());
        match name.as_ref() {
            "from" => from = Some(read::from(&instant(&value)).map_err(fault)?),
            "to" => to = Some(read::to(&instant(&value)).map_err(fault)?),
            "last" => last = Some((read::duration(&value).map_err(fault)?, value)),
            "step" => {
                let seconds = value.parse::<u32>().or_else(|_| read::duration(&value)).map_err(fault)?;
                ask.step = Some(seconds);
            }
            "q" => ask.quantiles = vec![read::quantile(&value).map_err(fault)?],
            "max_ratio" => ask.max_ratio = read::ratio(&value).map_err(fault)?,
            "by" => {
                for label in value.split(',') {
                    ask.by.push(Label::read(label).map_err(fault)?);
                }
            }
            "owner" if !value.is_empty() => ask = ask.only(Label::Owner, &read::owner(&value).map_err(fault)?),
            "label." => return Err(fault(format!("{value:?}, expected the name of an attribute after the point"))),
            // An empty value of a label asks for those that lack it.
            label if label.starts_with("label.") => {
                ask.equal.push((Label::read(label).map_err(fault)?, value.into_owned()));
            }
            column => ask = ask.only(Label::read(column).map_err(fault)?, &value),
        }
    }
    let fault = |name: &str, message: String| Fault { name: name.to_owned(), message };
    if page != Page::Services && ask.value(&Label::Service).is_none() {
        return Err(fault("service", "missing, expected the name of a service".to_owned()));
    }
    if page == Page::Quantile && ask.value(&Label::Metric).is_none() {
        ask = ask.only(Label::Metric, "request_duration");
    }
    if let (Some(_), Some((_, value))) = (from, &last) {
        return Err(fault("last", format!("{value:?}, expected it without from")));
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    // The window that is still open counts too.
    ask.to = to.unwrap_or_else(|| u32::try_from(now + 1).unwrap_or(u32::MAX - 5));
    ask.from = from.unwrap_or_else(|| ask.to.saturating_sub(last.map_or(DEFAULT_BACK, |(seconds, _)| seconds)));
    Ok(ask)
}

/// An instant whose offset from UTC was written `+01:00`, where a plus is a blank.
fn instant(value: &str) -> String {
    match value.rsplit_once(' ') {
        Some((time, offset)) if time.contains(['T', 't']) => format!("{time}+{offset}"),
        _ => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(query: &str) -> Result<Ask, Fault> {
        super::ask(Page::Quantile, query)
    }

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
        // A plus, written or escaped.
        let east = ask("service=a&from=2026-11-30T12:00:00+01:00&to=2026-11-30T13:00:00%2B01:00").unwrap();
        assert_eq!((east.from, east.to), (1_796_036_400, 1_796_040_000));
        assert!(ask("service=a&from=2026-11-30T12:00:00+1").is_err() && ask("service=a&from=T+").is_err());
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
        assert_eq!(
            fault("service=a&serivce=b"),
            "serivce: \"b\", expected no such parameter of quantile, but service, metric, model, route, environment, owner, \
             device, from, to, last, step, q, by, max_ratio, label.NAME"
        );
        assert_eq!(fault("service=a&from=1&last=1h"), "last: \"1h\", expected it without from");
        for by in ["by=label.", "by=model,label.", "by=model&by=label."] {
            let expected = "by: \"label.\", expected the name of an attribute after the point";
            assert_eq!(fault(&format!("service=a&{by}")), expected, "{by}");
        }
        for by in ["by=", "by", "by=model,", "by=,model"] {
            let expected = "by: \"\", expected a name of a column or of an attribute";
            assert_eq!(fault(&format!("service=a&{by}")), expected, "{by}");
        }
        assert_eq!(fault("service=a&label.=x"), "label.: \"x\", expected the name of an attribute after the point");
    }

    #[test]
    fn what_a_page_has_no_use_for_is_refused() {
        let fault = |page, query: &str| super::ask(page, query).unwrap_err().to_string();
        for parameter in ["q=0.5", "step=60", "by=model", "metric=queue_time"] {
            let (name, value) = parameter.split_once('=').unwrap();
            assert_eq!(
                fault(Page::Phases, &format!("service=a&{parameter}")),
                format!(
                    "{name}: \"{value}\", expected no such parameter of phases, but service, model, route, environment, owner, \
                     device, from, to, last, max_ratio, label.NAME"
                )
            );
            assert_eq!(
                fault(Page::Services, parameter),
                format!("{name}: \"{value}\", expected no such parameter of services, but from, to, last")
            );
        }
        for parameter in ["service=a", "label.x=a", "owner=a", "max_ratio=2"] {
            assert!(fault(Page::Services, parameter).ends_with("of services, but from, to, last"), "{parameter}");
        }
        let phases = super::ask(Page::Phases, "service=a&model=m&label.x=y&max_ratio=2").unwrap();
        assert_eq!((phases.equal.len(), phases.max_ratio), (3, 2.0));
        assert_eq!(super::ask(Page::Services, "last=10m").unwrap().equal, []);
        assert_eq!(fault(Page::Phases, "last=1h"), "service: missing, expected the name of a service");
    }

    #[test]
    fn an_owner_is_a_uuid_however_it_is_written() {
        let owner = "84192a7a-9828-5cd3-9ac0-9ba51682be12";
        for page in [Page::Quantile, Page::Phases] {
            let of = |value: &str| super::ask(page, &format!("service=a&owner={value}"));
            assert_eq!(
                of("me").unwrap_err().to_string(),
                "owner: \"me\", expected the UUID of an owner, such as 84192a7a-9828-5cd3-9ac0-9ba51682be12"
            );
            for value in [owner.to_uppercase(), owner.replace('-', "")] {
                assert_eq!(of(&value).unwrap().value(&Label::Owner), Some(owner), "{value}");
            }
            assert_eq!(of("").unwrap().value(&Label::Owner), None);
        }
    }
}
