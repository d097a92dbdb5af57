//! One node: what happens at a tick.

use std::collections::HashMap;
use std::time::Duration;

use contador_schemas::owner::Owner;

use super::attribute;
use super::clock::now_ms;
use super::keep::Troubles;
use super::sensors::{GpuAnswer, Sensors};
use super::{Options, RunError};
use crate::config::Config;
use crate::http::Health;
use crate::ledger::Ledger;
use crate::ledger::checkpoint::{CheckpointFile, Loaded};
use crate::outbox::Keeper;
use crate::outbox::encode::infos::{self, Event};
use crate::outbox::encode::{Identity, Points, samples};
use crate::sensors::GpuIdentity;
use crate::telemetry::Telemetry;

/// How often devices are described again, in milliseconds.
const DESCRIBE_MS: i64 = 60_000;

/// The state of the loop.
#[derive(Debug)]
pub struct Node {
    pub(super) identity: Identity,
    interval: Duration,
    sensors: Sensors,
    pub(super) ledger: Ledger,
    pub(super) checkpoint: CheckpointFile,
    pub(super) keeper: Keeper,
    pub(super) telemetry: Telemetry,
    pub(super) health: Health,
    pub(super) gpus: Vec<GpuIdentity>,
    owners: HashMap<u32, Owner>,
    described_ms: i64,
    ignored_ticks: u64,
    pub(super) fault: Option<String>,
    pub(super) events: Vec<Event>,
    pub(super) troubles: Troubles,
    /// Samples that the checkpoint has and the spool may lack.
    last_samples: Vec<u8>,
    pub(super) last_tick: Option<(i64, tokio::time::Instant)>,
}

impl Node {
    /// Takes up the ledger where it was, and starts the sensors.
    ///
    /// # Errors
    /// [`RunError`].
    pub fn start(
        config: &Config,
        options: &Options,
        keeper: Keeper,
        telemetry: Telemetry,
        health: Health,
    ) -> Result<Self, RunError> {
        let checkpoint = CheckpointFile::new(&config.state_dir);
        let mut events = Vec::new();
        let mut last_samples = Vec::new();
        let ledger = match checkpoint.load()? {
            Loaded::Nothing => Ledger::default(),
            Loaded::Ledger(ledger, samples) => {
                last_samples = samples;
                *ledger
            }
            Loaded::Corrupt(reason) => {
                tracing::error!(reason, "the ledger's checkpoint is damaged, it was set aside");
                let message = format!("the ledger's checkpoint was damaged: {reason}");
                events.push(Event::new(now_ms(), "checkpoint_damaged", message));
                Ledger::default()
            }
        };
        Ok(Self {
            identity: Identity::of_node(&config.node),
            interval: config.interval,
            sensors: Sensors::start(config, options.library.clone(), options.release.clone())?,
            ignored_ticks: ledger.ignored_ticks(),
            ledger,
            checkpoint,
            keeper,
            telemetry,
            health,
            gpus: Vec::new(),
            owners: HashMap::new(),
            described_ms: 0,
            fault: None,
            events,
            troubles: Troubles::default(),
            last_samples,
            last_tick: None,
        })
    }

    /// Says that the agent has started, and keeps what a kill may have taken from the spool.
    pub async fn started(&mut self) {
        let samples = std::mem::take(&mut self.last_samples);
        self.keep_samples(samples).await;
        let message = format!("contador-agent {} started", env!("CARGO_PKG_VERSION"));
        self.events.push(Event::new(now_ms(), "agent_started", message));
        self.keep_events().await;
    }

    /// Says that the agent ends.
    pub async fn stopped(&mut self) {
        self.events.push(Event::new(now_ms(), "agent_stopped", "contador-agent stopped"));
        self.keep_events().await;
    }

    /// Samples everything at `instant_ms` (Unix milliseconds), and keeps what comes of it.
    pub async fn tick(&mut self, instant_ms: i64) {
        let patience = (self.interval * 4 / 5).min(Duration::from_secs(2));
        let deadline = tokio::time::Instant::now() + patience;
        self.sensors.gpus.request(instant_ms);
        self.sensors.disks.request(instant_ms);
        self.sensors.host.request(instant_ms);
        let gpus = self.sensors.gpus.collect(deadline, instant_ms, &self.telemetry).await;
        let disks = self.sensors.disks.collect(deadline, instant_ms, &self.telemetry).await;
        let host = self.sensors.host.collect(deadline, instant_ms, &self.telemetry).await;

        self.note_clock(instant_ms);
        let mut points = Points::default();
        self.note_health(gpus.as_ref(), instant_ms);
        if let Some(gpus) = gpus {
            self.take_gpus(gpus, &mut points, instant_ms, deadline).await;
        }
        for disk in disks.and_then(|disks| logged("disks", disks)).unwrap_or_default() {
            samples::disk(&mut points, &disk);
        }
        if let Some(host) = host.and_then(|host| logged("host", host)) {
            samples::host(&mut points, &host);
        }
        self.ledger.advance(instant_ms);
        let samples = if points.is_empty() { Vec::new() } else { points.encode(&self.identity) };
        self.store_checkpoint(&samples).await;
        self.keep_samples(samples).await;
        self.hand_on_minutes().await;
        self.keep_events().await;
        self.telemetry.ticks.with_label_values(&["done"]).inc();
    }

    async fn take_gpus(
        &mut self,
        answer: GpuAnswer,
        points: &mut Points,
        instant_ms: i64,
        deadline: tokio::time::Instant,
    ) {
        if let Some(opened) = answer.opened {
            self.gpus = opened;
            self.described_ms = 0;
        }
        if (instant_ms - self.described_ms).abs() >= DESCRIBE_MS {
            self.described_ms = instant_ms;
            for gpu in &self.gpus {
                infos::device(points, gpu, instant_ms);
            }
        }
        let pids = answer.samples.iter().flat_map(|sample| sample.processes.value()).flatten();
        self.sensors.want_owners_of(pids.map(|process| process.pid).collect());
        self.sensors.owners.request(instant_ms);
        // Without an answer, what was known of the processes before still holds.
        let mut fresh = false;
        if let Some((asked_ms, owners)) = self.sensors.owners.collect(deadline, instant_ms, &self.telemetry).await {
            fresh = asked_ms == instant_ms;
            self.owners = owners;
        }
        for sample in &answer.samples {
            let simulated = self.gpus.iter().any(|gpu| gpu.uuid == sample.uuid && gpu.simulated);
            self.telemetry.rejected_readings.inc_by(sample.rejected.into());
            samples::gpu(points, sample, simulated);
            if let Some(tick) = attribute::tick(sample, simulated, &self.owners, fresh) {
                self.ledger.tick(tick, self.interval);
            }
        }
        let ignored = self.ledger.ignored_ticks();
        self.telemetry.ledger_ignored.inc_by(ignored.saturating_sub(self.ignored_ticks));
        self.ignored_ticks = ignored;
    }
}

fn logged<T>(sensor: &str, result: Result<T, String>) -> Option<T> {
    result.inspect_err(|error| tracing::debug!(sensor, error, "the sensor failed")).ok()
}
