//! `contador p99`.

mod words;

use std::time::{SystemTime, UNIX_EPOCH};

use contador_schemas::quantile::{Quantile, State};

use self::words::{phase_table, printable, sentence, table};
use super::{Failure, print, usage};
use crate::latency::query::metrics_of;
use crate::latency::{Ask, Error, Label, MOST_RATIO, Told, phases, read, services, show, tell};
use crate::store::StoreArgs;
use crate::store::watch::chain;

/// Most services that are named when the one asked for has nothing.
const MOST_NAMES: usize = 20;

/// What is said below the flags.
const STATES: &str = "States: ok; no_traffic; too_few, under 299 requests for a p99; unresolved, the source's buckets are \
                      wider than --max-ratio; censored, so many requests were aborted that it is a lower bound.";

/// Arguments of `contador p99`.
#[derive(clap::Args, Debug)]
#[command(after_help = STATES)]
pub struct Args {
    /// Service (service.name).
    #[arg(long, value_name = "NAME", value_parser = name)]
    service: String,
    /// What was timed: request_duration, time_to_first_token, time_per_output_token, inter_token_latency, queue_time,
    /// prefill_time, decode_time, inference_time, client_request_duration, or the sender's own name.
    #[arg(long, value_name = "NAME", default_value = "request_duration", value_parser = name)]
    metric: String,
    /// Only requests of this machine-learning model.
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    model: String,
    /// Only requests of this route or operation.
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    route: String,
    /// Only requests in this environment (deployment.environment.name).
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    environment: String,
    /// Only requests that this owner served.
    #[arg(long, value_name = "UUID", value_parser = read::owner)]
    owner: Option<String>,
    /// Only requests that this device served.
    #[arg(long, value_name = "ID", default_value = "", hide_default_value = true)]
    device: String,
    /// Only requests whose attribute has this value, an empty one being those without it; may be given several times.
    #[arg(long, value_name = "NAME=VALUE", value_parser = label)]
    label: Vec<(String, String)>,
    /// How far back to look: a number and s, m, h or d.
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = read::duration, conflicts_with = "from")]
    last: u32,
    /// From when: such as 2026-11-30T12:00:00Z, or Unix seconds. Times are widened to windows of 10 s.
    #[arg(long, value_name = "TIME", value_parser = read::from)]
    from: Option<u32>,
    /// Until when [default: now].
    #[arg(long, value_name = "TIME", value_parser = read::to)]
    to: Option<u32>,
    /// An answer for each step of this length, aligned to UTC: a number and s, m, h or d, a multiple of 10 s.
    #[arg(long, value_name = "DURATION", value_parser = read::duration)]
    step: Option<u32>,
    /// An answer for each value of this label: model, route, environment, owner, device, or an attribute's name; of several,
    /// with commas, for each combination.
    #[arg(long, value_name = "LABEL", value_delimiter = ',', value_parser = Label::read)]
    by: Vec<Label>,
    /// Where the time goes: queue, prefill, decode, and the network's part of the mean.
    #[arg(long, conflicts_with_all = ["step", "by", "q", "metric"])]
    phases: bool,
    /// The quantile, from 0 to 1, at most 6 digits after the point.
    #[arg(long, value_name = "Q", default_value = "0.99", value_parser = read::quantile)]
    q: Quantile,
    /// Widest ratio of the interval's ends that is not told as unresolved.
    #[arg(long, value_name = "RATIO", default_value_t = MOST_RATIO, value_parser = read::ratio)]
    max_ratio: f64,
    /// For machines: one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
}

fn name(text: &str) -> Result<String, String> {
    if text.is_empty() { Err("expected a name".to_owned()) } else { Ok(text.to_owned()) }
}

fn label(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once('=').filter(|(name, _)| !name.is_empty());
    let (name, value) = parts.ok_or_else(|| format!("{text:?}, expected an attribute's name, =, and its value"))?;
    Ok((name.to_owned(), value.to_owned()))
}

impl Args {
    fn ask(&self) -> Result<Ask, Failure> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        // Windows are told by their start; the one that is still open counts too.
        let to = self.to.map_or_else(|| u32::try_from(now + 1), Ok)?;
        let from = self.from.unwrap_or_else(|| to.saturating_sub(self.last));
        let mut ask = Ask::p99(&self.service, &self.metric, from, to)
            .only(Label::Model, &self.model)
            .only(Label::Route, &self.route)
            .only(Label::Environment, &self.environment)
            .only(Label::Owner, self.owner.as_deref().unwrap_or_default())
            .only(Label::Device, &self.device);
        let labels = self.label.iter().cloned();
        ask.equal.extend(labels.map(|(name, value)| (Label::Attribute(name), value)));
        ask.by = self.by.clone();
        (ask.step, ask.quantiles, ask.max_ratio) = (self.step, vec![self.q], self.max_ratio);
        ask.check().map_err(|error| usage(format!("--{error}")))?;
        Ok(ask)
    }
}

/// Runs the command.
pub fn run(args: Args) -> Result<(), Failure> {
    let ask = args.ask()?;
    let store = args.store.open()?;
    super::runtime()?.block_on(async {
        if args.phases {
            let told = phases::phases(&store, &ask).await.map_err(failed)?;
            if told.phases.is_empty() {
                known(&store, &args, &ask).await?;
            }
            return print(&if args.json {
                show::phases(&ask, &told).to_string()
            } else {
                phase_table(&args.service, &told)
            });
        }
        let told = tell(&store, &ask).await.map_err(failed)?;
        let mut states = told.series.iter().flat_map(|series| &series.points).flat_map(|point| &point.answers);
        if !states.any(|answer| answer.state != State::NoTraffic) {
            known(&store, &args, &ask).await?;
        }
        print(&if args.json {
            json(&args, &ask, &told)
        } else if let (None, true, [series]) = (ask.step, ask.by.is_empty(), told.series.as_slice()) {
            series.points.first().map(|point| sentence(&args.service, &args.metric, args.q, point)).unwrap_or_default()
        } else {
            table(&args.service, &args.metric, &ask, &told)
        })
    })
}

/// One answer, flat; with steps or labels as the API tells it.
fn json(args: &Args, ask: &Ask, told: &Told) -> String {
    let point = told.series.first().and_then(|series| series.points.first());
    let (None, true, Some(point)) = (ask.step, ask.by.is_empty(), point) else {
        return show::told(ask, told).to_string();
    };
    let mut object = show::asked(ask);
    object.entry("model").or_insert_with(|| args.model.as_str().into());
    object.insert("q".to_owned(), args.q.fraction().into());
    if let serde_json::Value::Object(point) = show::point(point) {
        object.extend(point);
    }
    serde_json::Value::Object(object).to_string()
}

/// Whether the service has latencies of any metric in this time; else the error says which services have. Who asked for
/// another metric is told, beside the answer, which it has.
async fn known(store: &crate::store::Store, args: &Args, ask: &Ask) -> Result<(), Failure> {
    let (from, to) = ask.windows();
    let known = services(store, from, to).await.map_err(failed)?;
    let metrics = metrics_of(&known, &args.service);
    if metrics.is_empty() {
        return Err(unknown(&args.service, &known));
    }
    if !metrics.contains(&args.metric.as_str()) {
        let flag = if args.phases { "--phases".to_owned() } else { format!("--metric {:?}", args.metric) };
        eprintln!("contador: {flag}: no latencies in this time; metrics that have some: {}", names(&metrics));
    }
    Ok(())
}

/// With each source said once: the client's errors repeat theirs.
fn failed(error: Error) -> Failure {
    if let Error::Asked { .. } = error {
        return usage(format!("--{error}"));
    }
    Failure::Running(anyhow::anyhow!(chain(&error)))
}

fn unknown(service: &str, known: &[(String, String)]) -> Failure {
    let mut found: Vec<&str> = known.iter().map(|(name, _)| name.as_str()).collect();
    found.dedup();
    let found = names(&found);
    usage(format!("--service {service:?}: no latencies in this time; services that have some: {found}"))
}

/// The first of them, and how many more there are.
fn names(all: &[&str]) -> String {
    let more = all.len().saturating_sub(MOST_NAMES);
    let shown: Vec<String> = all.iter().take(MOST_NAMES).map(|name| printable(name)).collect();
    match more {
        0 if shown.is_empty() => "none".to_owned(),
        0 => shown.join(", "),
        _ => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn what_names_no_label_tells_nothing_apart() {
        let by = |by: &str| Command::try_parse_from(["p99", "--service", "s", "--by", by]).map(|told| told.args.by);
        assert_eq!(by("model,label.model").unwrap(), [Label::Model, Label::Attribute("model".to_owned())]);
        for (bad, expected) in [
            ("label.", "\"label.\", expected the name of an attribute after the point"),
            ("model,", "\"\", expected a name of a column or of an attribute"),
        ] {
            let error = by(bad).unwrap_err().to_string();
            assert!(error.contains(expected), "{bad}: {error}");
        }
    }

    #[test]
    fn names_of_senders_move_no_cursor_and_are_not_all_told() {
        assert_eq!(printable("a\u{1b}[2Jb\n\u{202e}é'"), "a\\u{1b}[2Jb\\n\\u{202e}é'");
        let known: Vec<_> = (0..25).map(|index| (format!("s{index:02}"), String::new())).collect();
        let told = unknown("x", &known).into_error().to_string();
        assert!(told.ends_with("s18, s19 and 5 more"), "{told}");
    }
}
