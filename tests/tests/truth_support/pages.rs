//! Inference servers that have counted the values, each a page of Prometheus's text with the families and bounds of its kind.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::get;
use tokio::net::TcpListener;

use super::layouts::SERVERS;
use super::{Part, SOURCES};

/// A family, what the agent is to call it, and whose bounds in [`SERVERS`] it has.
type Family = (&'static str, &'static str, &'static str);

/// Kinds of servers, with families of theirs.
const KINDS: [(&str, &[Family]); 3] = [
    (
        "vllm",
        &[
            ("vllm:e2e_request_latency_seconds", "request_duration", "vllm-e2e"),
            ("vllm:time_to_first_token_seconds", "time_to_first_token", "vllm-ttft"),
            ("vllm:inter_token_latency_seconds", "inter_token_latency", "vllm-inter-token"),
        ],
    ),
    (
        "sglang",
        &[
            ("sglang:e2e_request_latency_seconds", "request_duration", "sglang-e2e"),
            ("sglang:time_to_first_token_seconds", "time_to_first_token", "sglang-ttft"),
        ],
    ),
    ("tgi", &[("tgi_request_duration", "request_duration", "tgi")]),
];

/// Kinds and metrics that are scraped: services and metrics of the answers. A distribution is a model.
pub fn scraped() -> impl Iterator<Item = (&'static str, &'static str)> {
    KINDS.into_iter().flat_map(|(kind, families)| families.iter().map(move |(_, metric, _)| (kind, *metric)))
}

/// What all servers have counted by now, and how often each page was read.
#[derive(Default)]
struct Shown {
    /// By place of the kind in [`KINDS`], distribution, source and family: counts of buckets.
    counts: BTreeMap<(usize, &'static str, usize, usize), Counted>,
    /// When they were started, Unix seconds.
    started: f64,
    asked: BTreeMap<(usize, usize), usize>,
}

#[derive(Clone, Default)]
struct Counted {
    upto: Vec<usize>,
    all: usize,
    sum: f64,
}

/// A server of each kind for each source. They end with the test's runtime.
#[derive(Clone)]
pub struct Pages {
    address: std::net::SocketAddr,
    shown: Arc<Mutex<Shown>>,
}

impl Pages {
    /// Servers that know these models and have served nothing yet.
    pub async fn start(models: impl Iterator<Item = &'static str>) -> Self {
        // Long before: no request takes longer than its server runs.
        let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64() - 20.0 * 86_400.0;
        let shown = Arc::new(Mutex::new(Shown { started, ..Shown::default() }));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/{kind}/{source}/metrics", get(page)).with_state(Arc::clone(&shown));
        tokio::spawn(axum::serve(listener, router).into_future());
        let pages = Self { address, shown };
        for model in models {
            for source in 0..SOURCES {
                pages.count(model, &Part { source, interval: 0, sorted: Vec::new() });
            }
        }
        pages
    }

    /// Targets for the agent's configuration.
    pub fn targets(&self) -> String {
        let target = |kind: &str, source: usize| {
            let Self { address, .. } = self;
            format!("[[scrape.target]]\nurl = \"http://{address}/{kind}/{source}/metrics\"\nservice = \"{kind}\"\n")
        };
        KINDS.iter().flat_map(|(kind, _)| (0..SOURCES).map(|source| target(kind, source))).collect()
    }

    /// A source serves requests of a model that take so long.
    pub fn count(&self, model: &'static str, part: &Part) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        for (kind, (_, families)) in KINDS.iter().enumerate() {
            for (family, (.., layout)) in families.iter().enumerate() {
                let bounds = SERVERS.iter().find(|(name, _)| name == layout).map(|(_, bounds)| *bounds).unwrap();
                let counted = shown.counts.entry((kind, model, part.source, family)).or_default();
                counted.upto.resize(bounds.len(), 0);
                for (upto, bound) in counted.upto.iter_mut().zip(bounds) {
                    *upto += part.sorted.partition_point(|ns| *ns as f64 / 1e9 <= *bound);
                }
                counted.all += part.sorted.len();
                counted.sum += part.sorted.iter().map(|ns| *ns as f64 / 1e9).sum::<f64>();
            }
        }
    }

    /// Returns when each server was asked twice more: the first may have begun before.
    pub async fn are_read(&self, patience: Duration) {
        let asked = || self.shown.lock().unwrap_or_else(PoisonError::into_inner).asked.clone();
        let before = asked();
        let deadline = Instant::now() + patience;
        let all = KINDS.len() * SOURCES;
        let more = |now: &BTreeMap<(usize, usize), usize>| {
            now.iter().filter(|(key, count)| **count >= before.get(key).unwrap_or(&0) + 2).count()
        };
        while more(&asked()) < all {
            assert!(Instant::now() < deadline, "servers were read {:?} times, {all} are expected", asked());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

async fn page(
    State(shown): State<Arc<Mutex<Shown>>>,
    Path((kind, source)): Path<(String, usize)>,
) -> Result<String, StatusCode> {
    let kind = KINDS.iter().position(|(name, _)| *name == kind).ok_or(StatusCode::NOT_FOUND)?;
    let mut shown = shown.lock().unwrap_or_else(PoisonError::into_inner);
    *shown.asked.entry((kind, source)).or_default() += 1;
    shown.text(kind, source).map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)
}

impl Shown {
    fn text(&self, kind: usize, source: usize) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        for (family, (name, _, layout)) in KINDS[kind].1.iter().enumerate() {
            writeln!(text, "# TYPE {name} histogram")?;
            let bounds = SERVERS.iter().find(|(known, _)| known == layout).map_or(&[][..], |(_, bounds)| bounds);
            let own = self.counts.iter().filter(|((k, _, s, f), _)| (*k, *s, *f) == (kind, source, family));
            for ((_, model, ..), counted) in own {
                let label = format!("model_name=\"{model}\"");
                for (bound, upto) in bounds.iter().zip(&counted.upto) {
                    writeln!(text, "{name}_bucket{{{label},le=\"{bound}\"}} {upto}")?;
                }
                writeln!(text, "{name}_bucket{{{label},le=\"+Inf\"}} {}", counted.all)?;
                writeln!(text, "{name}_sum{{{label}}} {}\n{name}_count{{{label}}} {}", counted.sum, counted.all)?;
            }
        }
        writeln!(text, "# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds {}", self.started)?;
        Ok(text)
    }
}
