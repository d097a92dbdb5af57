//! What `contador p99` says to people: a sentence, or a table of steps, labels or phases.

use comfy_table::{LineStyle, Table, TableStyle};
use contador_schemas::quantile::{Answer, Quantile, State};

use crate::latency::phases::{Network, Phases};
use crate::latency::{Ask, Point, Told};

/// The line under the head of a table.
const RULE: LineStyle = LineStyle::none().fill('─').junction('─');

/// A name as a terminal may have it: what is not printable is escaped.
pub(super) fn printable(name: &str) -> String {
    let mut told = String::with_capacity(name.len());
    for character in name.chars() {
        match character {
            '"' | '\'' | '\\' => told.push(character),
            _ => told.extend(character.escape_debug()),
        }
    }
    told
}

/// One answer.
pub(super) fn sentence(service: &str, metric: &str, q: Quantile, point: &Point) -> String {
    let what = format!("{} {} q{}", printable(service), printable(metric), q.fraction());
    let Some(answer) = point.answers.first().filter(|answer| answer.state != State::NoTraffic) else {
        return format!("{what}: no traffic");
    };
    let simulated = if point.simulated { "; simulated" } else { "" };
    let confidence = match (answer.ci_low, answer.ci_high) {
        (None, None) => String::new(),
        _ => format!("; with 95 % confidence {}", confidence(answer)),
    };
    format!("{what}: {}, {} requests{confidence}{}{simulated}", value(answer), answer.n, trust(answer.state))
}

/// The interval with a guess inside of it.
fn value(answer: &Answer) -> String {
    match (answer.low, answer.point, answer.high) {
        (Some(low), Some(point), Some(high)) => format!("{} (from {} to {})", time(point), time(low), time(high)),
        (Some(low), ..) => format!("over {}", time(low)),
        _ => "–".to_owned(),
    }
}

/// The interval that holds the service's own quantile.
fn confidence(answer: &Answer) -> String {
    match (answer.ci_low, answer.ci_high) {
        (Some(low), Some(high)) => format!("from {} to {}", time(low), time(high)),
        (Some(low), None) => format!("over {}", time(low)),
        (None, Some(high)) => format!("up to {}", time(high)),
        (None, None) => "–".to_owned(),
    }
}

/// Why not to trust it.
fn trust(state: State) -> &'static str {
    match state {
        State::Ok | State::NoTraffic => "",
        State::TooFew => "; too few requests to rely on",
        State::Unresolved => "; unresolved, the source's buckets are too wide",
        State::Censored => "; censored, aborted requests make it a lower bound",
    }
}

/// A line for each step of each combination of labels.
pub(super) fn table(service: &str, metric: &str, ask: &Ask, told: &Told) -> String {
    let q = ask.quantiles.first().map_or(0.0, |q| q.fraction());
    let mut table = Table::new();
    table.load_style(TableStyle::new().header_separator(RULE));
    let labels = ask.by.iter().map(|label| printable(&label.shown()));
    let rest = ["from", "requests", "low", "point", "high", "95 % confidence", "state"];
    table.set_header(labels.chain(rest.map(str::to_owned)));
    let shown = |us: Option<f64>| us.map_or_else(|| "–".to_owned(), time);
    for series in &told.series {
        for point in &series.points {
            let Some(answer) = point.answers.first() else { continue };
            let labels = series.labels.iter().map(|value| printable(value));
            let rest = [
                utc(point.span.0),
                answer.n.to_string(),
                shown(answer.low),
                shown(answer.point),
                shown(answer.high),
                confidence(answer),
                format!("{}{}", answer.state.as_str(), if point.simulated { ", simulated" } else { "" }),
            ];
            table.add_row(labels.chain(rest));
        }
    }
    let (from, to) = told.windows;
    let what = format!("{} {} q{q}, {} to {}", printable(service), printable(metric), utc(from), utc(to));
    if told.series.is_empty() { format!("{what}: no traffic") } else { format!("{what}\n{table}") }
}

/// A line for each phase.
pub(super) fn phase_table(service: &str, told: &Phases) -> String {
    if told.phases.is_empty() {
        return format!("{}: no traffic of any phase", printable(service));
    }
    let mut table = Table::new();
    table.load_style(TableStyle::new().header_separator(RULE));
    table.set_header(["phase", "requests", "mean", "median", "p99", "state of the p99"]);
    for phase in &told.phases {
        let mean = phase.mean_us.map_or_else(|| "–".to_owned(), time);
        let state = format!("{}{}", phase.p99.state.as_str(), if phase.simulated { ", simulated" } else { "" });
        table.add_row([phase.name.to_owned(), phase.n.to_string(), mean, value(&phase.p50), value(&phase.p99), state]);
    }
    let network = match told.network {
        Network::Unknown => "network: unknown, client and server must both tell sums".to_owned(),
        Network::Mean(mean) => {
            format!("network: {} of the mean (client less server; quantiles can't be subtracted)", time(mean))
        }
        Network::Inconsistent(by) => format!(
            "network: inconsistent, the server's mean is {} above the client's: they did not measure the same requests",
            time(by)
        ),
    };
    format!("{}\n{table}\n{network}", printable(service))
}

/// Unix seconds as RFC 3339.
fn utc(seconds: u32) -> String {
    jiff::Timestamp::from_second(seconds.into()).map_or_else(|_| seconds.to_string(), |time| time.to_string())
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
    fn times_have_readable_units() {
        assert_eq!(time(12.0), "12 µs");
        assert_eq!(time(1_500.0), "1.500 ms");
        assert_eq!(time(2_513_000.0), "2.513 s");
    }
}
