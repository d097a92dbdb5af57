//! Pages for tests.

use std::fmt::Write as _;

use super::super::presets::{Custom, Preset, Rules};
use super::super::taken::{Increase, Reason, Taken};
use super::super::text::Format;
use super::Server;

/// When tests begin, Unix seconds.
pub const T: u64 = 1_700_000_000;

/// Unix nanoseconds of `T` and some seconds.
pub fn at(seconds: u64) -> u64 {
    (T + seconds) * 1_000_000_000
}

/// A histogram; `values` are by bucket, the last one above all bounds.
pub fn histogram(family: &str, labels: &str, bounds: &[&str], values: &[u64], sum: f64) -> String {
    let mut text = format!("# TYPE {family} histogram\n");
    let comma = if labels.is_empty() { "" } else { "," };
    let mut up_to = 0;
    for (bound, n) in bounds.iter().chain(&["+Inf"]).zip(values) {
        up_to += n;
        writeln!(text, "{family}_bucket{{{labels}{comma}le=\"{bound}\"}} {up_to}.0").unwrap();
    }
    writeln!(text, "{family}_sum{{{labels}}} {sum}\n{family}_count{{{labels}}} {up_to}").unwrap();
    text
}

/// A counter or a gauge.
pub fn value(name: &str, labels: &str, value: f64) -> String {
    format!("{name}{{{labels}}} {value}\n")
}

/// When the server's process started, seconds after `T`.
pub fn started(seconds: f64) -> String {
    #[expect(clippy::cast_precision_loss)]
    let start = T as f64 + seconds;
    format!("process_start_time_seconds {start}\n")
}

/// All presets.
pub fn rules() -> Rules {
    Rules::new(&Preset::ALL, &[]).unwrap()
}

/// All presets, and a histogram of a user's own.
pub fn custom(family: &str, metric: &str) -> Rules {
    let custom = Custom { family: family.to_owned(), metric: metric.to_owned(), ..Custom::default() };
    Rules::new(&Preset::ALL, &[custom]).unwrap()
}

/// A server that is watched, and pages of it.
pub struct Watched {
    pub server: Server,
    pub rules: Rules,
}

impl Watched {
    pub fn new(rules: Rules) -> Self {
        Self { server: Server::new(at(0)), rules }
    }

    /// Takes a page, `seconds` after `T`.
    pub fn take(&mut self, seconds: u64, page: &str) -> Taken {
        self.server.take(page, Format::Prometheus, at(seconds), &self.rules)
    }
}

/// How often something was left out for a reason.
pub fn dropped(taken: &Taken, reason: Reason) -> u64 {
    taken.dropped.iter().find(|(known, _)| *known == reason).map_or(0, |(_, n)| *n)
}

/// The only latency of a metric that is not censored.
pub fn only<'t>(taken: &'t Taken, metric: &str) -> &'t Increase {
    let mut found = taken.latencies.iter().filter(|latency| latency.metric == metric && !latency.censored);
    let first = found.next().unwrap_or_else(|| panic!("{metric} in {taken:?}"));
    assert_eq!(found.next(), None, "one {metric}");
    first
}

/// The cells of an increase as `(lo, hi, n)`.
pub fn cells(increase: &Increase) -> Vec<(f64, f64, u64)> {
    increase.cells.as_slice().iter().map(|cell| (cell.lo, cell.hi, cell.n)).collect()
}
