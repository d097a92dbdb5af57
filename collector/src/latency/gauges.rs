//! Quantiles of the last five minutes as gauges for Prometheus, asked now and then and not when they are scraped. How often is a
//! question of what a look costs: the more there is to read, the longer is the pause, and when it was is a gauge, too.

use std::cmp::Reverse;
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use contador_schemas::quantile::{Quantile, State};
use prometheus::{GaugeVec, IntGauge, IntGaugeVec, Opts, Registry};
use tokio::sync::watch;

use super::ask::{Ask, Label, MOST_RATIO};
use super::query::{Series, Told, tell};
use crate::store::watch::chain;
use crate::store::{Store, StoreState};

/// The shortest pause after a look, and the longest: that of a time that is looked at once.
const PAUSES: (Duration, Duration) = (Duration::from_secs(15), Duration::from_secs(BACK_SECONDS as u64));

/// A pause is at least so many times as long as its look took, so that looks are a twentieth of ClickHouse's work at most.
const REST: u32 = 20;

/// Longest wait for one look.
const PATIENCE: Duration = Duration::from_secs(60);

/// How far a look goes back, in seconds.
const BACK_SECONDS: u32 = 300;

/// Most combinations of service, metric and model that are shown: each has ten lines or so.
const MOST_SERIES: usize = 200;

/// The quantiles that are shown.
const QUANTILES: [Quantile; 3] = [Quantile::P50, Quantile::P95, Quantile::P99];

/// What was seen last.
#[derive(Clone, Default)]
pub struct Gauges {
    seen: Arc<RwLock<Option<Registry>>>,
}

impl Gauges {
    /// In Prometheus' text format; empty before the first look and while ClickHouse is away.
    ///
    /// # Errors
    /// When a name can't be written in that format.
    pub fn text(&self) -> Result<String, prometheus::Error> {
        let mut text = String::new();
        if let Some(registry) = self.seen.read().ok().and_then(|seen| seen.clone()) {
            prometheus::TextEncoder::new().encode_utf8(&registry.gather(), &mut text)?;
        }
        Ok(text)
    }

    /// Looks now and then; never ends by itself.
    pub async fn keep(self, store: Store, mut state: watch::Receiver<StoreState>) {
        loop {
            // What was seen last says nothing of a time in which nothing can be seen.
            if state.borrow().reason().is_some() {
                self.set(None);
            }
            if state.wait_for(|state| state.reason().is_none()).await.is_err() {
                return;
            }
            let began = Instant::now();
            let looked = tokio::time::timeout(PATIENCE, look(&store)).await;
            let pause = pause(began.elapsed());
            let seen = looked.unwrap_or_else(|_| Err(format!("no answer within {} s", PATIENCE.as_secs())));
            if let Err(message) = &seen {
                tracing::warn!(error = message, "the latencies of the last five minutes could not be read");
            }
            self.set(seen.ok());
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                gone = state.wait_for(|state| state.reason().is_some()) => if gone.is_err() { return },
            }
        }
    }

    fn set(&self, seen: Option<Registry>) {
        if let Ok(mut place) = self.seen.write() {
            *place = seen;
        }
    }
}

/// After a look that took so long.
fn pause(took: Duration) -> Duration {
    took.saturating_mul(REST).clamp(PAUSES.0, PAUSES.1)
}

async fn look(store: &Store) -> Result<Registry, String> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_err(|error| error.to_string())?.as_secs();
    let to = u32::try_from(now).map_err(|error| error.to_string())?;
    let ask = Ask {
        equal: Vec::new(),
        by: vec![Label::Service, Label::Metric, Label::Model],
        from: to.saturating_sub(BACK_SECONDS),
        to: to.saturating_add(1),
        step: None,
        quantiles: QUANTILES.to_vec(),
        max_ratio: MOST_RATIO,
    };
    let told = tell(store, &ask).await.map_err(|error| chain(&error))?;
    registry(told, to).map_err(|error| error.to_string())
}

/// How many requests a series has.
fn requests_of(series: &Series) -> u64 {
    series.points.first().and_then(|point| point.answers.first()).map_or(0, |answer| answer.n)
}

/// The series that are shown: those with most requests, in the order of their labels where they have as many.
fn shown(mut series: Vec<Series>) -> Vec<Series> {
    series.sort_by_key(|series| Reverse(requests_of(series)));
    series.truncate(MOST_SERIES);
    series
}

/// A registry of what was told at `now`, Unix seconds. Without traffic a series is not there.
fn registry(told: Told, now: u32) -> Result<Registry, prometheus::Error> {
    let labels = ["service", "metric", "model"];
    let registry = Registry::new();
    let seconds = GaugeVec::new(
        Opts::new(
            "contador_latency_quantile_seconds",
            "Quantile of the last five minutes: the true one is between low and high, ci_low and ci_high hold that of the \
             service with 95 % confidence, point is a guess between low and high.",
        ),
        &[labels[0], labels[1], labels[2], "q", "bound"],
    )?;
    let requests = IntGaugeVec::new(
        Opts::new("contador_latency_requests", "Values that the quantiles of the last five minutes are made of."),
        &labels,
    )?;
    let state = IntGaugeVec::new(
        Opts::new(
            "contador_latency_state",
            "1 for the state of the quantile: ok, too_few, unresolved (the source's buckets are too wide) or censored.",
        ),
        &[labels[0], labels[1], labels[2], "q", "state"],
    )?;
    let left_out = IntGauge::new(
        "contador_latency_left_out",
        "Combinations of service, metric and model that had traffic and are not shown: those with the fewest requests.",
    )?;
    let seen = IntGauge::new(
        "contador_latency_seen_timestamp_seconds",
        "When the gauges of latencies were read from ClickHouse, Unix seconds: they tell of the five minutes before.",
    )?;
    registry.register(Box::new(seconds.clone()))?;
    registry.register(Box::new(requests.clone()))?;
    registry.register(Box::new(state.clone()))?;
    registry.register(Box::new(left_out.clone()))?;
    registry.register(Box::new(seen.clone()))?;
    seen.set(i64::from(now));
    let all = told.series.len();
    left_out.set(i64::try_from(all.saturating_sub(MOST_SERIES)).unwrap_or(i64::MAX));
    for Series { labels, points } in &shown(told.series) {
        let ([service, metric, model], Some(point)) = (labels.as_slice(), points.first()) else { continue };
        for (q, answer) in QUANTILES.iter().zip(&point.answers) {
            if answer.state == State::NoTraffic {
                continue;
            }
            let q = q.fraction().to_string();
            let bounds = [
                ("low", answer.low),
                ("high", answer.high),
                ("point", answer.point),
                ("ci_low", answer.ci_low),
                ("ci_high", answer.ci_high),
            ];
            for (bound, us) in bounds {
                if let Some(us) = us {
                    seconds.with_label_values(&[service, metric, model, &q, bound]).set(us / 1e6);
                }
            }
            state.with_label_values(&[service, metric, model, &q, answer.state.as_str()]).set(1);
            let n = i64::try_from(answer.n).unwrap_or(i64::MAX);
            requests.with_label_values(&[service, metric, model]).set(n);
        }
    }
    Ok(registry)
}

#[cfg(test)]
mod tests {
    use contador_schemas::cells::{Cell, Cells};

    use super::*;
    use crate::latency::Point;

    /// A service with so many requests of 250 ms.
    fn series(service: &str, n: u64) -> Series {
        let cells = Cells::new([Cell { lo: 250_000.0, hi: 250_000.0, n }]).unwrap();
        let answers = QUANTILES.map(|q| cells.quantile(q, MOST_RATIO, 0)).to_vec();
        let point = Point { span: (0, 300), answers, mean_us: None, mean_n: 0, censored: 0, simulated: false };
        Series { labels: [service, "request_duration", ""].map(str::to_owned).to_vec(), points: vec![point] }
    }

    fn text(told: Vec<Series>) -> String {
        let registry = registry(Told { windows: (0, 300), series: told }, 1_796_040_000).unwrap();
        Gauges { seen: Arc::new(RwLock::new(Some(registry))) }.text().unwrap()
    }

    #[test]
    fn of_too_many_those_with_most_requests_are_shown() {
        // In the order of names, as they are told; the later, the more requests.
        let told: Vec<Series> = (1..=1_500).map(|index| series(&format!("s{index:04}"), index)).collect();
        let text = text(told);
        let requests: Vec<&str> = text.lines().filter(|line| line.starts_with("contador_latency_requests{")).collect();
        let expected: Vec<String> = (1_301..=1_500)
            .map(|n| {
                format!("contador_latency_requests{{metric=\"request_duration\",model=\"\",service=\"s{n:04}\"}} {n}")
            })
            .collect();
        assert_eq!(requests, expected);
        assert!(text.contains("\ncontador_latency_left_out 1300\n"));
        assert!(text.contains("\ncontador_latency_seen_timestamp_seconds 1796040000\n"));
    }

    #[test]
    fn odd_characters_of_a_name_end_no_line() {
        let text = text(vec![series("a\"b\\c\nd\u{7f}é", 7)]);
        let line = text.lines().find(|line| line.starts_with("contador_latency_requests{")).unwrap();
        assert!(line.ends_with("service=\"a\\\"b\\\\c\\nd\u{7f}é\"} 7"), "{line}");
    }

    #[test]
    fn the_more_a_look_takes_the_longer_is_the_pause() {
        for (took, seconds) in [(0, 15), (749, 15), (1_000, 20), (5_000, 100), (60_000, 300)] {
            assert_eq!(pause(Duration::from_millis(took)), Duration::from_secs(seconds), "{took} ms");
        }
        assert_eq!(pause(Duration::MAX), Duration::from_secs(300));
    }
}
