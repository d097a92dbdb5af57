//! Quantiles of the last five minutes as gauges for Prometheus, asked now and then and not when they are scraped. How often is a
//! question of what a look costs: the more there is to read, the longer is the pause. When the last one that told anything was
//! is a gauge, too, which stays when the others go.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use contador_schemas::quantile::{Quantile, State};
use prometheus::core::Collector as _;
use prometheus::{GaugeVec, IntGauge, IntGaugeVec, Opts, Registry};
use tokio::sync::watch;

use super::ask::{Ask, Label, MOST_RATIO};
use super::query::{Series, Told, tell};
use crate::store::watch::chain;
use crate::store::{Store, StoreState};

/// The shortest pause after a look, and the longest: that of a time that is looked at once.
const PAUSES: (Duration, Duration) = (Duration::from_secs(15), Duration::from_secs(BACK_SECONDS as u64));

/// A pause is so many times as long as its look took, up to the longest. Looks of up to 15 s are a twentieth of the time at most;
/// one of a minute, which is the longest, is a sixth of it.
const REST: u32 = 20;

/// The shortest pause and the longest after a look that failed: what is not known now is looked for again soon.
const PAUSES_FAILED: (Duration, Duration) = (Duration::from_secs(15), Duration::from_secs(30));

/// Longest wait for one look.
const PATIENCE: Duration = Duration::from_secs(60);

/// How far a look goes back, in seconds.
const BACK_SECONDS: u32 = 300;

/// Most combinations of service, metric and model that are shown: each has twenty lines or so.
const MOST_SERIES: usize = 200;

/// The quantiles that are shown.
const QUANTILES: [Quantile; 3] = [Quantile::P50, Quantile::P95, Quantile::P99];

/// What was seen last.
#[derive(Clone, Default)]
pub struct Gauges {
    seen: Arc<RwLock<Seen>>,
}

#[derive(Default)]
struct Seen {
    /// What the last look told; `None` when it failed, and while ClickHouse is away.
    told: Option<Registry>,
    /// When a look last told something.
    at: Option<IntGauge>,
}

/// What a look tells, and when it was, in Unix seconds.
type Look = (Registry, u32);

impl Gauges {
    /// In Prometheus' text format. Empty before the first look that told something; of one that failed, and while ClickHouse is
    /// away, there is only when anything was seen last.
    ///
    /// # Errors
    /// When a name can't be written in that format.
    pub fn text(&self) -> Result<String, prometheus::Error> {
        let mut text = String::new();
        let Ok(seen) = self.seen.read() else { return Ok(text) };
        let mut families = seen.told.as_ref().map(Registry::gather).unwrap_or_default();
        families.extend(seen.at.iter().flat_map(|at| at.collect()));
        prometheus::TextEncoder::new().encode_utf8(&families, &mut text)?;
        Ok(text)
    }

    /// Looks now and then; never ends by itself.
    pub async fn keep(self, store: Store, mut state: watch::Receiver<StoreState>) {
        loop {
            // What was seen last says nothing of a time in which nothing can be seen.
            if state.borrow().reason().is_some() {
                self.forget();
            }
            if state.wait_for(|state| state.reason().is_none()).await.is_err() {
                return;
            }
            let began = Instant::now();
            let looked = tokio::time::timeout(PATIENCE, look(&store)).await;
            let looked = looked.unwrap_or_else(|_| Err(format!("no answer within {} s", PATIENCE.as_secs())));
            let pause = self.saw(looked, began.elapsed());
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                gone = state.wait_for(|state| state.reason().is_some()) => if gone.is_err() { return },
            }
        }
    }

    /// Takes what a look has told that took so long; the pause until the next one.
    fn saw(&self, looked: Result<Look, String>, took: Duration) -> Duration {
        match looked.and_then(|(told, at)| Ok((told, seen_at(at).map_err(|error| error.to_string())?))) {
            Ok((told, at)) => {
                if let Ok(mut seen) = self.seen.write() {
                    *seen = Seen { told: Some(told), at: Some(at) };
                }
                took.saturating_mul(REST).clamp(PAUSES.0, PAUSES.1)
            }
            Err(error) => {
                tracing::warn!(error, "the latencies of the last five minutes could not be read");
                self.forget();
                took.clamp(PAUSES_FAILED.0, PAUSES_FAILED.1)
            }
        }
    }

    /// Shows nothing any more but when it was seen.
    fn forget(&self) {
        if let Ok(mut seen) = self.seen.write() {
            seen.told = None;
        }
    }
}

fn seen_at(unix_seconds: u32) -> Result<IntGauge, prometheus::Error> {
    let at = IntGauge::new(
        "contador_latency_seen_timestamp_seconds",
        "When the gauges of latencies were last read from ClickHouse, Unix seconds: they tell of the five minutes before.",
    )?;
    at.set(i64::from(unix_seconds));
    Ok(at)
}

async fn look(store: &Store) -> Result<Look, String> {
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
    Ok((registry(told).map_err(|error| error.to_string())?, to))
}

/// How many values a series has.
fn values_of(series: &Series) -> u64 {
    series.points.first().and_then(|point| point.answers.first()).map_or(0, |answer| answer.n)
}

/// The series that are shown: all of a service and its model or none, those with most requests first. Requests are what
/// `request_duration` has; where nobody measures it, the metric with most values stands in, which may have one for each token.
/// A service that has more metrics than there is room for makes way for the next ones.
fn shown(told: Vec<Series>) -> Vec<Series> {
    let mut services: BTreeMap<(String, String), Vec<Series>> = BTreeMap::new();
    for series in told {
        let [service, _, model] = series.labels.as_slice() else { continue };
        services.entry((service.clone(), model.clone())).or_default().push(series);
    }
    let requests = |all: &[Series]| {
        let whole = all.iter().find(|series| series.labels[1] == "request_duration").map(values_of);
        whole.or_else(|| all.iter().map(values_of).max()).unwrap_or(0)
    };
    let mut services: Vec<Vec<Series>> = services.into_values().collect();
    services.sort_by_cached_key(|all| Reverse(requests(all)));
    let mut shown = Vec::new();
    for all in services {
        if shown.len() + all.len() <= MOST_SERIES {
            shown.extend(all);
        }
    }
    shown
}

/// A registry of what was told. Without traffic a series is not there.
fn registry(told: Told) -> Result<Registry, prometheus::Error> {
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
        "Combinations of service, metric and model that had traffic and are not shown: those of services with the fewest \
         requests, and of such as have more of them than there was room for.",
    )?;
    registry.register(Box::new(seconds.clone()))?;
    registry.register(Box::new(requests.clone()))?;
    registry.register(Box::new(state.clone()))?;
    registry.register(Box::new(left_out.clone()))?;
    let all = told.series.len();
    let shown = shown(told.series);
    left_out.set(i64::try_from(all.saturating_sub(shown.len())).unwrap_or(i64::MAX));
    for Series { labels, points } in &shown {
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

    /// So many values of 250 ms.
    fn series(service: &str, metric: &str, n: u64) -> Series {
        let cells = Cells::new([Cell { lo: 250_000.0, hi: 250_000.0, n }]).unwrap();
        let answers = QUANTILES.map(|q| cells.quantile(q, MOST_RATIO, 0)).to_vec();
        let point = Point { span: (0, 300), answers, mean_us: None, mean_n: 0, censored: 0, simulated: false };
        Series { labels: [service, metric, ""].map(str::to_owned).to_vec(), points: vec![point] }
    }

    fn look(told: Vec<Series>) -> Look {
        (registry(Told { windows: (0, 300), series: told }).unwrap(), 1_796_040_000)
    }

    fn text(told: Vec<Series>) -> String {
        let gauges = Gauges::default();
        gauges.saw(Ok(look(told)), Duration::ZERO);
        gauges.text().unwrap()
    }

    /// The lines that tell how many values there are.
    fn counts(text: &str) -> Vec<&str> {
        text.lines().filter(|line| line.starts_with("contador_latency_requests{")).collect()
    }

    #[test]
    fn of_too_many_those_with_most_requests_are_shown() {
        // In the order of names, as they are told; the later, the more requests.
        let told = (1..=1_500).map(|index| series(&format!("s{index:04}"), "request_duration", index)).collect();
        let text = text(told);
        let expected: Vec<String> = (1_301..=1_500)
            .map(|n| {
                format!("contador_latency_requests{{metric=\"request_duration\",model=\"\",service=\"s{n:04}\"}} {n}")
            })
            .collect();
        assert_eq!(counts(&text), expected);
        assert!(text.contains("\ncontador_latency_left_out 1300\n"));
        assert!(text.contains("\ncontador_latency_seen_timestamp_seconds 1796040000\n"));
    }

    #[test]
    fn a_value_for_each_token_makes_no_service_a_busier_one() {
        // 150 services that stream, with 1 to 150 requests of a thousand tokens each, and 100 that don't, with 1000 to 1099.
        let mut told = Vec::new();
        for n in 1..=150 {
            let streams = format!("streams{n:03}");
            told.push(series(&streams, "inter_token_latency", n * 1_000));
            told.push(series(&streams, "request_duration", n));
            told.extend((n <= 100).then(|| series(&format!("plain{n:03}"), "request_duration", 999 + n)));
        }
        // One that nobody measures whole requests of, and one with more metrics than can be shown.
        told.push(series("parts", "queue_time", 5));
        told.push(series("parts", "inter_token_latency", 500));
        told.extend((0..201).map(|index| series("odd", &format!("m{index}"), 1_000_000)));
        let all = told.len();
        let text = text(told);
        let counts = counts(&text);
        let of = |name: &str| counts.iter().filter(|line| line.contains(&format!("service=\"{name}"))).count();
        // 100 and 2, and of the rest 49 services with both metrics; the odd one makes way.
        assert_eq!((of("plain"), of("parts"), of("streams"), of("odd")), (100, 2, 98, 0));
        for n in [102, 150] {
            assert_eq!(of(&format!("streams{n}")), 2, "{n}");
        }
        assert_eq!(of("streams101"), 0);
        assert!(text.contains(&format!("\ncontador_latency_left_out {}\n", all - 200)));
    }

    #[test]
    fn odd_characters_of_a_name_end_no_line() {
        let text = text(vec![series("a\"b\\c\nd\u{7f}é", "request_duration", 7)]);
        assert!(counts(&text)[0].ends_with("service=\"a\\\"b\\\\c\\nd\u{7f}é\"} 7"), "{text}");
    }

    #[test]
    fn after_a_look_that_failed_it_is_still_told_when_anything_was_seen() {
        let gauges = Gauges::default();
        let failed = || Err("no answer within 60 s".to_owned());
        gauges.saw(failed(), Duration::from_secs(60));
        assert_eq!(gauges.text().unwrap(), "");
        gauges.saw(Ok(look(vec![series("a", "request_duration", 7)])), Duration::ZERO);
        assert_eq!(counts(&gauges.text().unwrap()).len(), 1);
        for away in [false, true] {
            gauges.saw(Ok(look(vec![series("a", "request_duration", 7)])), Duration::ZERO);
            if away {
                gauges.forget();
            } else {
                gauges.saw(failed(), Duration::ZERO);
            }
            let text = gauges.text().unwrap();
            let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
            assert_eq!(lines, ["contador_latency_seen_timestamp_seconds 1796040000"]);
        }
    }

    #[test]
    fn the_more_a_look_takes_the_longer_is_the_pause() {
        let gauges = Gauges::default();
        let pause = |took, fails: bool| {
            gauges.saw(if fails { Err("it broke".to_owned()) } else { Ok(look(Vec::new())) }, took).as_secs()
        };
        for (took, good, failed) in
            [(0, 15, 15), (749, 15, 15), (1_000, 20, 15), (5_000, 100, 15), (20_000, 300, 20), (60_000, 300, 30)]
        {
            let took = Duration::from_millis(took);
            assert_eq!((pause(took, false), pause(took, true)), (good, failed), "{took:?}");
        }
        assert_eq!((pause(Duration::MAX, false), pause(Duration::MAX, true)), (300, 30));
    }
}
