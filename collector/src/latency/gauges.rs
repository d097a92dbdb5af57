//! Quantiles of the last five minutes as gauges for Prometheus, asked now and then and not when they are scraped.

use std::sync::{Arc, RwLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use contador_schemas::quantile::{Quantile, State};
use prometheus::{GaugeVec, IntGauge, IntGaugeVec, Opts, Registry};
use tokio::sync::watch;

use super::ask::{Ask, Label, MOST_RATIO};
use super::query::{Series, Told, tell};
use crate::store::watch::chain;
use crate::store::{Store, StoreState};

/// Time between two looks.
const INTERVAL: Duration = Duration::from_secs(15);

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
            let looked = tokio::time::timeout(PATIENCE, look(&store)).await;
            let seen = looked.unwrap_or_else(|_| Err(format!("no answer within {} s", PATIENCE.as_secs())));
            if let Err(message) = &seen {
                tracing::warn!(error = message, "the latencies of the last five minutes could not be read");
            }
            self.set(seen.ok());
            tokio::select! {
                () = tokio::time::sleep(INTERVAL) => {}
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
    registry(told).map_err(|error| error.to_string())
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
        "Combinations of service, metric and model that had traffic and are not shown, since there are too many.",
    )?;
    registry.register(Box::new(seconds.clone()))?;
    registry.register(Box::new(requests.clone()))?;
    registry.register(Box::new(state.clone()))?;
    registry.register(Box::new(left_out.clone()))?;
    let all = told.series.len();
    left_out.set(i64::try_from(all.saturating_sub(MOST_SERIES)).unwrap_or(i64::MAX));
    for Series { labels, points } in told.series.iter().take(MOST_SERIES) {
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
