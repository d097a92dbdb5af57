//! `serve` as a library call: binds every listener, starts every part, waits for the shutdown, drains.
//!
//! The parts share the ingest's pipeline and what [`crate::store::watch`] knows of ClickHouse, nothing else. When the
//! shutdown begins, listeners stop accepting, requests that were taken whole are answered, the others
//! dropped, and one deadline bounds all of it; what is late is named. [`health`] answers `/readyz`, `/healthz` and `/metrics`, [`telemetry`] sends own metrics.
//! Rolling up latencies and hours of the ledger is left where it is: the next pass does again what this one has not finished.

mod health;
mod telemetry;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::bill::hours;
use crate::config::Config;
use crate::ingest::meters::Meters;
use crate::ingest::{Pipeline, receive};
use crate::latency::gauges::Gauges;
use crate::latency::job;
use crate::store::watch::chain;
use crate::store::{self, Store};
use crate::web;

/// How long the last answers have to leave.
const ANSWER_LEAVES: Duration = Duration::from_secs(1);

/// Where the parts listen, ports of 0 resolved.
#[derive(Clone, Copy, Debug)]
pub struct Listening {
    /// OTLP by gRPC.
    pub grpc: SocketAddr,
    /// OTLP by HTTP.
    pub http: SocketAddr,
    /// Pages, API, `/readyz`, `/healthz` and `/metrics`.
    pub web: SocketAddr,
}

/// Why `serve` could not start, or stopped.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// An address can't be listened on.
    #[error("listening on {address} for {what}")]
    Bind {
        /// What it is for.
        what: &'static str,
        /// The address.
        address: SocketAddr,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Own telemetry can't be set up.
    #[error("own telemetry: {0}")]
    Telemetry(String),
    /// A part ended by itself.
    #[error("{what}: {message}")]
    Part {
        /// The part.
        what: &'static str,
        /// Why.
        message: String,
    },
    /// The shutdown took too long.
    #[error("after {seconds} s these have not ended: {late}")]
    Late {
        /// The deadline.
        seconds: u64,
        /// The parts.
        late: String,
    },
}

/// Serves until `shutdown` is cancelled; `listening` is told the addresses once all of them are bound. ClickHouse need
/// not be there: until it is, requests are refused in a way that makes senders keep what they have.
///
/// # Errors
/// [`RunError`].
pub async fn run(
    config: Config,
    store: Store,
    shutdown: CancellationToken,
    listening: impl FnOnce(Listening),
) -> Result<(), RunError> {
    let (grpc, grpc_at) = bind("otlp/grpc", config.grpc).await?;
    let (http, http_at) = bind("otlp/http", config.http).await?;
    let (web, web_at) = bind("web", config.web).await?;
    let telemetry = telemetry::Telemetry::start(config.telemetry.as_deref())?;
    let meters = Meters::new(&telemetry.meter()).map_err(|error| RunError::Telemetry(error.to_string()))?;
    let meters = Arc::new(meters);
    let (state, seen) = watch::channel(store::watch::starting(&store));
    let alarm = Arc::new(Notify::new());
    let pipeline = Pipeline::start(&store.client, seen.clone(), config.ingest, Arc::clone(&meters), &alarm);
    let watcher = tokio::spawn(store::watch::watch(store.clone(), state, Arc::clone(&alarm)));

    // Cancelled by the shutdown, or when a part ends by itself.
    let stop = shutdown.child_token();
    let mut parts: JoinSet<(&'static str, Result<(), String>)> = JoinSet::new();
    let (pipe, token) = (Arc::clone(&pipeline), stop.clone());
    parts.spawn(async move {
        let served = receive::grpc::serve(grpc, pipe, token).await;
        ("otlp/grpc", served.map_err(|error| chain(&error)))
    });
    let (pipe, token) = (Arc::clone(&pipeline), stop.clone());
    parts.spawn(async move {
        let served = receive::http::serve(http, pipe, token).await;
        ("otlp/http", served.map_err(|error| chain(&error)))
    });
    let gauges = Gauges::default();
    let beside = [
        tokio::spawn(job::run(store.clone(), seen.clone())),
        tokio::spawn(hours::job::run(store.clone(), seen.clone())),
        tokio::spawn(gauges.clone().keep(store.clone(), seen.clone())),
    ];
    let pages = web::router(store.clone(), seen.clone());
    let (router, token) = (health::router(store, seen, meters, gauges).merge(pages), stop.clone());
    parts.spawn(async move {
        let served = axum::serve(web, router).with_graceful_shutdown(token.cancelled_owned()).await;
        ("web", served.map_err(|error| chain(&error)))
    });
    listening(Listening { grpc: grpc_at, http: http_at, web: web_at });

    let mut waiting = vec!["otlp/grpc", "otlp/http", "web"];
    let mut failed = None;
    tokio::select! {
        () = shutdown.cancelled() => tracing::info!("stopping"),
        ended = parts.join_next() => failed = ended.and_then(|ended| fault(ended, &mut waiting)),
    }
    stop.cancel();
    let drained = tokio::time::timeout(config.deadline, async {
        loop {
            tokio::select! {
                ended = parts.join_next() => match ended {
                    Some(ended) => failed = failed.take().or(fault(ended, &mut waiting)),
                    None => break,
                },
                () = settled(&pipeline) => break,
            }
        }
        pipeline.drained().await;
        waiting.clear();
    });
    let in_time = drained.await.is_ok();
    parts.abort_all();
    watcher.abort();
    beside.iter().for_each(tokio::task::JoinHandle::abort);
    telemetry.stop().await;
    if let Some(error) = failed {
        return Err(error);
    }
    if in_time {
        return Ok(());
    }
    if waiting.is_empty() {
        waiting.push("inserts");
    }
    Err(RunError::Late { seconds: config.deadline.as_secs(), late: waiting.join(", ") })
}

/// Ends when all requests that were taken are answered and the answers had time to leave: connections that are still
/// open then have sent no whole request, and are not waited for.
async fn settled(pipeline: &Pipeline) {
    loop {
        pipeline.drained().await;
        tokio::time::sleep(ANSWER_LEAVES).await;
        if pipeline.is_idle() {
            return;
        }
    }
}

async fn bind(what: &'static str, address: SocketAddr) -> Result<(TcpListener, SocketAddr), RunError> {
    let fault = |source| RunError::Bind { what, address, source };
    let listener = TcpListener::bind(address).await.map_err(fault)?;
    let bound = listener.local_addr().map_err(fault)?;
    Ok((listener, bound))
}

type Ended = Result<(&'static str, Result<(), String>), tokio::task::JoinError>;

/// Crosses a part off the list; its fault, if it has one.
fn fault(ended: Ended, waiting: &mut Vec<&'static str>) -> Option<RunError> {
    match ended {
        Ok((what, result)) => {
            waiting.retain(|part| *part != what);
            result.err().map(|message| RunError::Part { what, message })
        }
        Err(error) => Some(RunError::Part { what: "a part", message: error.to_string() }),
    }
}
