//! `contador p99`.

use std::time::{SystemTime, UNIX_EPOCH};

use contador_schemas::quantile::{Answer, Quantile, State};
use serde_json::json;

use super::{Failure, print, usage};
use crate::latency::{Asked, Error, Told, services, tell};
use crate::store::StoreArgs;
use crate::store::watch::chain;

/// Most services that are named when the one asked for has nothing.
const MOST_NAMES: usize = 20;

/// Arguments of `contador p99`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Service (service.name).
    #[arg(long, value_name = "NAME")]
    service: String,
    /// What was timed: request_duration, time_to_first_token, time_per_output_token, queue_time, ….
    #[arg(long, value_name = "NAME", default_value = "request_duration")]
    metric: String,
    /// Only requests of this machine-learning model.
    #[arg(long, value_name = "NAME", default_value = "")]
    model: String,
    /// How far back to look: a number and s, m, h or d.
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = seconds)]
    last: u32,
    /// The quantile, from 0 to 1.
    #[arg(long, value_name = "Q", default_value = "0.99", value_parser = ppm)]
    q: Quantile,
    /// For machines: one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
}

fn seconds(text: &str) -> Result<u32, String> {
    let expected = || format!("{text:?}, expected a number and s, m, h or d, such as 1h");
    let (number, unit) = text.split_at_checked(text.len().saturating_sub(1)).ok_or_else(expected)?;
    let unit = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return Err(expected()),
    };
    let seconds = number.parse::<u32>().ok().and_then(|number| number.checked_mul(unit));
    seconds.filter(|seconds| *seconds > 0).ok_or_else(expected)
}

fn ppm(text: &str) -> Result<Quantile, String> {
    let expected = || format!("{text:?}, expected a number from 0 to 1 with at most 6 digits after the point");
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if fraction.len() > 6 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
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

/// Runs the command.
pub fn run(args: Args) -> Result<(), Failure> {
    let store = args.store.open()?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    // Windows are told by their start; the one that is still open counts too.
    let to = u32::try_from(now + 1)?;
    let from = to.saturating_sub(args.last);
    super::runtime()?.block_on(async {
        let Args { service, metric, model, q, .. } = &args;
        let asked = Asked { service, metric, model, from, to };
        let told = tell(&store, asked, *q).await.map_err(failed)?;
        if told.answer.state == State::NoTraffic {
            let known = services(&store, from, to).await.map_err(failed)?;
            if !known.iter().any(|(name, _)| name == service) {
                return Err(unknown(service, &known));
            }
        }
        if args.json {
            let Told { answer: Answer { low, high, point, state, n }, simulated } = told;
            let object = json!({
                "service": service, "metric": metric, "model": model, "q": q.fraction(), "from": from, "to": to,
                "low_us": low, "high_us": high, "point_us": point, "state": state, "n": n, "simulated": simulated,
            });
            print(&object.to_string())
        } else {
            print(&sentence(&args, &told))
        }
    })
}

/// With each source said once: the client's errors repeat theirs.
fn failed(error: Error) -> Failure {
    Failure::Running(anyhow::anyhow!(chain(&error)))
}

fn unknown(service: &str, known: &[(String, String)]) -> Failure {
    let mut names: Vec<&str> = known.iter().map(|(name, _)| name.as_str()).collect();
    names.dedup();
    let more = names.len().saturating_sub(MOST_NAMES);
    let shown: Vec<String> = names.iter().take(MOST_NAMES).map(|name| printable(name)).collect();
    let names = match more {
        0 if shown.is_empty() => "none".to_owned(),
        0 => shown.join(", "),
        _ => format!("{} and {more} more", shown.join(", ")),
    };
    usage(format!("--service {service:?}: no latencies in this time; services that have some: {names}"))
}

/// A name as a terminal may have it: what is not printable is escaped.
fn printable(name: &str) -> String {
    let mut told = String::with_capacity(name.len());
    for character in name.chars() {
        match character {
            '"' | '\'' | '\\' => told.push(character),
            _ => told.extend(character.escape_debug()),
        }
    }
    told
}

fn sentence(args: &Args, told: &Told) -> String {
    let Told { answer, simulated } = told;
    let what = format!("{} {} q{}", args.service, args.metric, args.q.fraction());
    let (Some(low), n) = (answer.low, answer.n) else {
        return format!("{what}: no traffic");
    };
    let value = match (answer.point, answer.high) {
        (Some(point), Some(high)) => format!("{} (from {} to {})", time(point), time(low), time(high)),
        _ => format!("over {}", time(low)),
    };
    let state = match answer.state {
        State::Ok | State::NoTraffic => "",
        State::TooFew => "; too few requests to rely on",
        State::Unresolved => "; unresolved, the source's buckets are too wide",
        State::Censored => "; censored, aborted requests make it a lower bound",
    };
    let simulated = if *simulated { "; simulated" } else { "" };
    format!("{what}: {value}, {n} requests{state}{simulated}")
}

/// Microseconds in the largest unit that keeps the number at 1 or more.
fn time(us: f64) -> String {
    if us >= 1e6 {
        format!("{:.3} s", us / 1e6)
    } else if us >= 1e3 {
        format!("{:.3} ms", us / 1e3)
    } else {
        format!("{us:.0} µs")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_quantiles_are_read_exactly() {
        assert_eq!(seconds("90m"), Ok(5_400));
        assert_eq!(ppm("0.99"), Ok(Quantile::P99));
        assert_eq!(ppm("0.999"), Ok(Quantile::P999));
        assert_eq!(ppm("1"), Ok(Quantile::from_ppm(1_000_000).unwrap()));
        for bad in ["", "h", "1", "-1h", "1w", "µ"] {
            assert!(seconds(bad).is_err(), "{bad:?}");
        }
        for bad in ["", "1.1", "99", "0.9999999", "-0.5", ".5", "0.x"] {
            assert!(ppm(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn names_of_senders_move_no_cursor_and_are_not_all_told() {
        assert_eq!(printable("a\u{1b}[2Jb\n\u{202e}é'"), "a\\u{1b}[2Jb\\n\\u{202e}é'");
        let known: Vec<_> = (0..25).map(|index| (format!("s{index:02}"), String::new())).collect();
        let told = unknown("x", &known).into_error().to_string();
        assert!(told.ends_with("s18, s19 and 5 more"), "{told}");
    }

    #[test]
    fn times_have_readable_units() {
        assert_eq!(time(12.0), "12 µs");
        assert_eq!(time(1_500.0), "1.500 ms");
        assert_eq!(time(2_513_000.0), "2.513 s");
    }
}
