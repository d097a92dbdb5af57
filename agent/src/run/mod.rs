//! The loop that drives everything, once an interval:
//!
//! [`clock`] says when. [`sensors`] are asked, and waited for until a common deadline: [`kernel`] has the readers of the kernel,
//! and [`gpus`] watches the driver and its GPUs. [`ownership`] knows whose processes are, and who was given what by what
//! [`schedulers`] say; [`attribute`] joins that with a device's sample, and [`said`] keeps what is said of a work while it holds. The ledger takes it. [`keep`] writes its checkpoint, and
//! puts the samples, and the minutes that have closed, into the spool, from where a task of its own sends them. [`node`] holds it together, and [`watch`] notices that no GPU is sampled and a clock
//! that was set. What GPUs are is compared with the last [`inventory`]; what they reach each other by comes later, from
//! [`topology`]. [`export`] sends the agent's own counters, where that is wanted. The loop never waits for the collector. At the
//! end there is one last sample, and [`SHUTDOWN`] for what can still be sent.

pub mod attribute;
pub mod clock;
mod export;
pub mod gpus;
pub mod inventory;
mod keep;
pub mod kernel;
pub mod node;
pub mod ownership;
pub mod said;
pub mod schedulers;
pub mod sensors;
mod topology;
mod watch;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tokio::net::TcpListener;
pub use tokio_util::sync::CancellationToken;
use tonic::transport::Endpoint;

use crate::config::Config;
use crate::errors::chain;
use crate::exposition::Exposition;
use crate::http::{self, Health, Shared};
use crate::ledger::CheckpointError;
use crate::outbox::send::{self, Destination};
use crate::outbox::{Keeper, SpoolError};
use crate::sensors::NvmlLibrary;
use crate::targets::scraping::Scraping;
use crate::telemetry::Telemetry;
use crate::totals::Totals;
use crate::totals::journal::JournalError;

/// How long the end may take in all.
pub const SHUTDOWN: Duration = Duration::from_secs(2);

/// Why an agent could not run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The state can't be kept.
    #[error("cannot use the state directory {}", path.display())]
    State {
        /// The directory.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Another agent keeps its state there.
    #[error("{} is locked, expected no other agent with this state directory", path.display())]
    Locked {
        /// The lock.
        path: PathBuf,
    },
    /// The spool can't be opened.
    #[error("cannot open the spool")]
    Spool(#[from] SpoolError),
    /// The ledger's checkpoint can't be read.
    #[error("cannot read the ledger's checkpoint")]
    Checkpoint(#[from] CheckpointError),
    /// The running totals can't be read.
    #[error("cannot read the running totals")]
    Totals(#[from] JournalError),
    /// The HTTP listener can't be bound.
    #[error("cannot listen on {address}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// The endpoint is none.
    #[error("{endpoint} is no endpoint, expected an URL such as http://collector:4317")]
    Endpoint {
        /// The endpoint.
        endpoint: String,
        /// Why not.
        source: tonic::transport::Error,
    },
    /// A sensor's thread can't be started.
    #[error("cannot start the thread of a sensor")]
    Thread(#[source] io::Error),
    /// The agent's own metrics can't be sent.
    #[error("cannot send the agent's own metrics: {0}")]
    Export(String),
    /// The agent's own counters can't be made.
    #[error("cannot make the agent's own metrics")]
    Telemetry(#[from] prometheus::Error),
}

/// How to run, beside the configuration.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Which NVML library to load.
    pub library: NvmlLibrary,
    /// Whether to end after one sample.
    pub once: bool,
    /// Has the driver's handles released for a while, so that the driver can be reloaded.
    pub release: gpus::Release,
}

/// Runs until `shutdown` is cancelled; what is not sent by then stays in the spool.
///
/// # Errors
/// [`RunError`], from the start only: nothing that happens later ends the agent.
pub async fn run(config: Config, options: Options, shutdown: CancellationToken) -> Result<(), RunError> {
    let state_error = |source| RunError::State { path: config.state_dir.clone(), source };
    std::fs::create_dir_all(&config.state_dir).map_err(state_error)?;
    let _lock = lock(&config)?;
    let telemetry = Telemetry::new()?;
    let export =
        export::Export::start(config.telemetry.as_deref(), &config.node, &telemetry).map_err(RunError::Export)?;
    let keeper = Keeper::open(&config.spool_dir, config.spool, telemetry.clone())?;
    let endpoint = Endpoint::from_shared(config.endpoint.clone())
        .map_err(|source| RunError::Endpoint { endpoint: config.endpoint.clone(), source })?
        .connect_timeout(config.timeout)
        .timeout(config.timeout)
        .tcp_nodelay(true);
    let listener =
        TcpListener::bind(config.listen).await.map_err(|source| RunError::Listen { address: config.listen, source })?;
    let now_ns = u64::try_from(clock::now_ms()).unwrap_or_default() * 1_000_000;
    let totals = Totals::open(&config.state_dir, now_ns, &config.node, keeper.clone(), config.spool.max_bytes)?;
    if let Err(error) = totals.resume().await {
        tracing::warn!(error = chain(&error), "the last request of OTLP is kept when the spool takes it");
    }
    let health = Health::default();
    let (shared_keeper, scrape_health) = (keeper.clone(), health.clone());
    let mut node = node::Node::start(&config, &options, keeper.clone(), telemetry.clone(), health.clone())?;

    let address = listener.local_addr().unwrap_or(config.listen);
    tracing::info!(node = config.node, endpoint = config.endpoint, %address, "the agent runs");
    let destination = Destination { endpoint, compression: config.compression };
    let closing = CancellationToken::new();
    let sender = tokio::spawn(send::run(keeper.clone(), destination, telemetry.clone(), closing.clone()));
    let shared = Shared {
        node: config.node.clone(),
        max_push_bytes: config.max_push_bytes,
        patience: http::body::PATIENCE,
        keeper,
        totals,
        room: http::Room::new(config.max_push_bytes),
        telemetry: telemetry.clone(),
        health,
        exposition: Exposition::new(node.latest(), &config.node, config.dcgm),
    };
    let inputs = CancellationToken::new();
    let server = axum::serve(listener, http::router(shared)).with_graceful_shutdown(inputs.clone().cancelled_owned());
    let server = tokio::spawn(async move { server.await });

    let scraping = (!options.once).then(|| {
        let (keeper, health) = (shared_keeper, scrape_health);
        Scraping::start(&config, keeper, telemetry.clone(), health, node.told())
    });

    node.started().await;
    let mut clock = clock::Clock::new(config.interval);
    loop {
        tokio::select! {
            instant_ms = clock.next() => node.tick(instant_ms).await,
            () = node.first_word() => node.tick(clock::now_ms()).await,
            () = shutdown.cancelled() => break,
        }
        telemetry.ticks.with_label_values(&["missed"]).inc_by(clock.take_missed());
        if options.once {
            break;
        }
    }

    tracing::info!("the agent ends");
    let deadline = tokio::time::Instant::now() + SHUTDOWN;
    inputs.cancel();
    if !options.once {
        node.tick(clock::now_ms()).await;
    }
    node.stopped().await;
    if let Some(scraping) = scraping {
        scraping.stop().await;
    }
    closing.cancel();
    let late = |name: &'static str| tracing::warn!("{name} did not end in time, what it has stays in the spool");
    if tokio::time::timeout_at(deadline, sender).await.is_err() {
        late("the sender");
    }
    if tokio::time::timeout_at(deadline, server).await.is_err() {
        late("the HTTP listener");
    }
    if let Some(export) = export {
        export.stop().await;
    }
    Ok(())
}

/// Holds the state directory for this process alone.
fn lock(config: &Config) -> Result<std::fs::File, RunError> {
    let path = config.state_dir.join("lock");
    let file = std::fs::OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(|source| RunError::State { path: config.state_dir.clone(), source })?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => Err(RunError::Locked { path }),
        Err(std::fs::TryLockError::Error(source)) => Err(RunError::State { path, source }),
    }
}
