//! One node: what happens at a tick.

use std::collections::HashMap;
use std::time::Duration;

use contador_schemas::owner::Owner;

use super::attribute;
use super::clock::now_ms;
use super::sensors::{GpuAnswer, Sensors};
use super::{Options, RunError};
use crate::config::Config;
use crate::http::Health;
use crate::ledger::Ledger;
use crate::ledger::checkpoint::{self, CheckpointFile, Loaded};
use crate::outbox::encode::infos::{self, Event};
use crate::outbox::encode::{Identity, Points, rows, samples};
use crate::outbox::send::chain;
use crate::outbox::{Keeper, Kind, Record};
use crate::sensors::GpuIdentity;
use crate::telemetry::Telemetry;

/// How often devices are described again, in milliseconds.
const DESCRIBE_MS: i64 = 60_000;

/// A wall clock that is this far from where it should be has jumped, in milliseconds.
const CLOCK_JUMP_MS: i64 = 2_000;

/// Most closed minutes in one record.
const MINUTES_PER_RECORD: usize = 240;

/// The state of the loop.
#[derive(Debug)]
pub struct Node {
    identity: Identity,
    interval: Duration,
    sensors: Sensors,
    ledger: Ledger,
    checkpoint: CheckpointFile,
    keeper: Keeper,
    telemetry: Telemetry,
    health: Health,
    gpus: Vec<GpuIdentity>,
    owners: HashMap<u32, Owner>,
    described_ms: i64,
    ignored_ticks: u64,
    fault: Option<String>,
    events: Vec<Event>,
    /// Samples that the checkpoint has and the spool may lack.
    last_samples: Vec<u8>,
    last_tick: Option<(i64, tokio::time::Instant)>,
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
        if instant_ms - self.described_ms >= DESCRIBE_MS {
            self.described_ms = instant_ms;
            for gpu in &self.gpus {
                infos::device(points, gpu, instant_ms);
            }
        }
        let pids = answer.samples.iter().flat_map(|sample| sample.processes.value()).flatten();
        self.sensors.want_owners_of(pids.map(|process| process.pid).collect());
        self.sensors.owners.request(instant_ms);
        // Without an answer, what was known of the processes before still holds.
        let owners = self.sensors.owners.collect(deadline, instant_ms, &self.telemetry).await;
        let fresh = owners.is_some();
        self.owners = owners.unwrap_or_else(|| std::mem::take(&mut self.owners));
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

    fn note_health(&mut self, gpus: Option<&GpuAnswer>, instant_ms: i64) {
        let fault = match gpus {
            None => Some("the GPU sensor does not answer".to_owned()),
            Some(answer) if answer.samples.is_empty() => {
                Some(answer.fault.clone().unwrap_or_else(|| "the driver has no GPU".to_owned()))
            }
            Some(_) => None,
        };
        if fault != self.fault {
            match &fault {
                Some(reason) => tracing::warn!(reason, "no GPU is sampled"),
                None => tracing::info!("GPUs are sampled"),
            }
        }
        let event = match (&fault, &self.fault) {
            (Some(reason), None) if self.gpus.is_empty() => Some(("gpus_missing", reason.clone())),
            (Some(reason), None) => Some(("gpus_lost", reason.clone())),
            (None, Some(_)) => Some(("gpus_found", "GPUs are sampled again".to_owned())),
            _ => None,
        };
        self.events.extend(event.map(|(kind, message)| Event::new(instant_ms, kind, message)));
        self.health.set(fault.clone().map_or(Ok(()), Err));
        self.fault = fault;
    }

    /// Compares the wall clock with the one that nobody can set.
    fn note_clock(&mut self, instant_ms: i64) {
        let now = tokio::time::Instant::now();
        if let Some((wall_ms, steady)) = self.last_tick.replace((instant_ms, now)) {
            let passed = i64::try_from((now - steady).as_millis()).unwrap_or(i64::MAX);
            let jump = (instant_ms - wall_ms).saturating_sub(passed);
            if jump.abs() > CLOCK_JUMP_MS {
                tracing::warn!(jump_ms = jump, "the wall clock has jumped");
                let message = format!("the wall clock has jumped by {jump} ms");
                self.events.push(Event::new(instant_ms, "clock_jump", message));
            }
        }
    }

    /// The state on disk is never behind what is in the spool: minutes and samples are in it before they are sent.
    async fn store_checkpoint(&self, samples: &[u8]) {
        let durable = !self.ledger.pending().is_empty();
        let stored = match checkpoint::encode(&self.ledger, samples) {
            Ok(bytes) => {
                let file = self.checkpoint.clone();
                tokio::task::spawn_blocking(move || file.store(&bytes, durable)).await
            }
            Err(error) => Ok(Err(error)),
        };
        match stored {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(error = chain(&error), "cannot write the ledger's checkpoint"),
            Err(error) => tracing::error!(error = chain(&error), "cannot write the ledger's checkpoint"),
        }
    }

    async fn keep_samples(&self, payload: Vec<u8>) {
        if payload.is_empty() {
            return;
        }
        if let Err(error) = self.keeper.keep(Kind::Samples, payload).await {
            self.telemetry.dropped.with_label_values(&["samples", "spool"]).inc();
            tracing::error!(error = chain(&error), "cannot keep samples");
        }
    }

    async fn hand_on_minutes(&mut self) {
        let pending = self.ledger.pending();
        if pending.is_empty() {
            return;
        }
        let chunks: Vec<usize> = pending.chunks(MINUTES_PER_RECORD).map(<[_]>::len).collect();
        let records = pending.chunks(MINUTES_PER_RECORD).map(|minutes| {
            let mut points = Points::default();
            rows::minutes(&mut points, minutes);
            Record { kind: Kind::Ledger, payload: points.encode(&self.identity) }
        });
        let kept = match self.keeper.append(records.collect()).await {
            Ok(kept) => kept,
            Err((kept, error)) => {
                tracing::error!(error = chain(&error), "cannot keep the ledger's minutes, they stay in its checkpoint");
                kept
            }
        };
        let minutes: usize = chunks.iter().take(kept).sum();
        self.ledger.handed_on(minutes);
        self.telemetry.ledger_minutes.inc_by(minutes as u64);
    }

    async fn keep_events(&mut self) {
        if self.events.is_empty() {
            return;
        }
        let mut points = Points::default();
        for event in &self.events {
            infos::event(&mut points, event);
        }
        match self.keeper.keep(Kind::Event, points.encode(&self.identity)).await {
            Ok(()) => self.events.clear(),
            Err(error) => tracing::error!(error = chain(&error), "cannot keep events"),
        }
        self.events.truncate(100);
    }
}

fn logged<T>(sensor: &str, result: Result<T, String>) -> Option<T> {
    result.inspect_err(|error| tracing::debug!(sensor, error, "the sensor failed")).ok()
}
