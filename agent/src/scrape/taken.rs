//! What a scrape tells: what came since the last one.

use contador_schemas::cells::Cells;

/// What came of one scrape.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Taken {
    /// Latencies, as increases. No two have the same metric, labels and censoring.
    pub latencies: Vec<Increase>,
    /// Requests and tokens, as increases. No two have the same model and source.
    pub served: Vec<Served>,
    /// What was left out, by reason; each reason once, none with 0.
    pub dropped: Vec<(Reason, u64)>,
    /// The first faults of the page, for people: line, value and what was expected.
    pub faults: Vec<String>,
    /// Histograms that a user names and the page has no series of, for people.
    pub missing: Vec<String>,
    /// The presets whose families are on the page.
    pub presets: Vec<&'static str>,
    /// The preset that the server is called by: the same also for a page that lacks its families.
    pub preset: Option<&'static str>,
    /// Whether more is to be remembered than that the page was read.
    pub is_new: bool,
}

/// What came of one latency between two scrapes.
#[derive(Clone, Debug, PartialEq)]
pub struct Increase {
    /// What was timed: `request_duration`, `time_to_first_token`, ….
    pub metric: String,
    /// Machine-learning model, or empty.
    pub model: String,
    /// Route, or empty.
    pub route: String,
    /// Labels that are a part of the series, by name.
    pub attributes: Vec<(String, String)>,
    /// Labels that only say which part of the server measured (an engine, a replica), by name.
    pub source: Vec<(String, String)>,
    /// The values in microseconds; never empty.
    pub cells: Cells,
    /// Sum of the values in microseconds; `None` when unknown.
    pub sum_us: Option<f64>,
    /// Start of the interval, Unix nanoseconds: the last good scrape, or the server's start. Not above `end_ns`.
    pub start_ns: u64,
    /// End of the interval, Unix nanoseconds: the instant of this scrape.
    pub end_ns: u64,
    /// Whether the server started again in this interval.
    pub reset: bool,
    /// Whether all values are lower bounds only: requests that were aborted.
    pub censored: bool,
}

/// What a server did for one model between two scrapes. What the server does not count is `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Served {
    /// Machine-learning model, or empty.
    pub model: String,
    /// Labels that only say which part of the server counted, by name.
    pub source: Vec<(String, String)>,
    /// Requests that came to their end, without aborted ones.
    pub requests: Option<u64>,
    /// Requests that were aborted.
    pub aborted: Option<u64>,
    /// Tokens of prompts.
    pub input_tokens: Option<u64>,
    /// Tokens that were generated.
    pub output_tokens: Option<u64>,
    /// Start of the interval, Unix nanoseconds: the earliest of the counters' last good scrapes.
    pub start_ns: u64,
    /// End of the interval, Unix nanoseconds: the instant of this scrape.
    pub end_ns: u64,
}

/// Why something was left out, and what is counted then.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Reason {
    /// Pages that were cut, or have too many samples.
    Page,
    /// Lines that can't be read. What else the page says of their families is left out, too.
    Line,
    /// Histograms whose counts fall from one bucket to the next, or whose last bucket is not their count: they were read
    /// while they changed. The next good scrape covers the interval.
    Torn,
    /// Histograms without a bucket `+Inf`.
    NoInfinity,
    /// Series that say the same sample twice, with other values.
    Duplicate,
    /// Series with a count that is no whole number from 0 to 2^53, or a bound that is no number or below 0.
    Value,
    /// Histograms with more buckets than are taken.
    Buckets,
    /// Values whose sum contradicts them, such as negative latencies.
    Sum,
    /// Values that are longer than the server has been running.
    Uptime,
    /// Series beyond the most that one server may have.
    Series,
    /// First totals of series whose start is not known or was not watched, and totals in other bounds than before: base
    /// lines, no traffic. Those of 0 are not counted.
    BaseLine,
    /// Totals that can't be compared with the ones before, since several servers answer at one address: by their starts, or by totals
    /// that fall and come back.
    Overlap,
}

impl Reason {
    /// Its name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Page => "page",
            Self::Line => "line",
            Self::Torn => "torn",
            Self::NoInfinity => "no_infinity",
            Self::Duplicate => "duplicate",
            Self::Value => "value",
            Self::Buckets => "buckets",
            Self::Sum => "sum",
            Self::Uptime => "uptime",
            Self::Series => "series",
            Self::BaseLine => "base_line",
            Self::Overlap => "overlap",
        }
    }

    /// What people should know of it, after how often it was; `None` for what happens to any server for a moment, or once.
    pub const fn remark(self) -> Option<&'static str> {
        match self {
            Self::Page | Self::Line | Self::Torn | Self::Sum | Self::Uptime | Self::BaseLine => None,
            Self::NoInfinity => Some("histograms have no bucket +Inf"),
            Self::Duplicate => Some("series say one sample twice, with other values"),
            Self::Value => Some(
                "series have a count that is no whole number from 0 to 2^53, or a bound that is no number or below 0",
            ),
            Self::Buckets => Some("histograms have more than 1024 buckets"),
            Self::Series => Some("series are beyond the most of one server that are remembered"),
            Self::Overlap => {
                Some("totals are another server's than those before: scrape each of them at an address of its own")
            }
        }
    }
}

impl Taken {
    /// Counts `n` more that were left out for `reason`.
    pub(super) fn drop(&mut self, reason: Reason, n: u64) {
        if n == 0 {
            return;
        }
        match self.dropped.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, count)) => *count = count.saturating_add(n),
            None => self.dropped.push((reason, n)),
        }
    }
}
