//! One node: what happens at a tick.

use std::collections::{HashMap, VecDeque};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use contador_schemas::names;
use contador_schemas::owner::Owner;

use super::attribute;
use super::clock::now_ms;
use super::inventory::InventoryLog;
use super::keep::Troubles;
use super::sensors::{GpuAnswer, Sensors};
use super::topology::TopologyWatch;
use super::{Options, RunError};
use crate::config::Config;
use crate::http::Health;
use crate::ledger::checkpoint::{CheckpointFile, Loaded};
use crate::ledger::{self, Ledger};
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
    inventory: InventoryLog,
    topology: TopologyWatch,
    owners: HashMap<u32, Owner>,
    described_ms: i64,
    ignored_ticks: u64,
    pub(super) fault: Option<String>,
    pub(super) events: Vec<Event>,
    pub(super) troubles: Troubles,
    /// Samples that the spool lacks, the oldest first.
    pub(super) unkept: VecDeque<Vec<u8>>,
    /// Why the last checkpoint could not be written.
    pub(super) checkpoint_fault: Option<String>,
    /// Whether the checkpoint and the spool share a file system.
    pub(super) one_disk: bool,
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
        let mut unkept = VecDeque::new();
        let ledger = match checkpoint.load()? {
            Loaded::Nothing => Ledger::default(),
            Loaded::Ledger(ledger, samples) => {
                // A kill may have taken them from the spool.
                unkept.extend((!samples.is_empty()).then_some(samples));
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
            inventory: InventoryLog::open(&config.state_dir, config.serial_numbers, &mut events, now_ms()),
            topology: TopologyWatch::new(options.library.clone()),
            owners: HashMap::new(),
            described_ms: 0,
            fault: None,
            events,
            troubles: Troubles::default(),
            unkept,
            checkpoint_fault: None,
            one_disk: disk(&config.state_dir) == disk(&config.spool_dir),
            last_tick: None,
        })
    }

    /// Says that the agent has started, and keeps what a kill may have taken from the spool.
    pub async fn started(&mut self) {
        self.keep_samples().await;
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
        self.take_topology(instant_ms);
        let mut points = Points::default();
        self.note_health(gpus.as_ref(), instant_ms);
        if let Some(gpus) = gpus {
            self.take_gpus(gpus, &mut points, instant_ms, deadline).await;
        }
        let disks = disks.and_then(|disks| logged("disks", disks)).unwrap_or_default();
        if disks.first().is_some_and(|disk| self.admit("disks", "disks", disk.ts_ms)) {
            disks.iter().for_each(|disk| samples::node(&mut points, &disk.measures(), disk.ts_ms));
        }
        if let Some(host) = host.and_then(|host| logged("host", host))
            && self.admit("host", "host", host.ts_ms)
        {
            samples::node(&mut points, &host.measures(), host.ts_ms);
        }
        if self.books() {
            self.ledger.advance(instant_ms);
        }
        self.events.extend(self.sensors.take_restarted().into_iter().map(|sensor| {
            Event::new(instant_ms, "sensor_restarted", format!("the sensor {sensor} panicked and was started again"))
        }));
        self.hold_samples(if points.is_empty() { Vec::new() } else { points.encode(&self.identity) });
        self.keep().await;
        // Only when the events of its changes were kept.
        if self.events.is_empty() {
            self.inventory.save().await;
        }
        self.show_health();
        self.telemetry.ticks.with_label_values(&["done"]).inc();
    }

    /// See [`Ledger::admit`]; what is left out is counted.
    fn admit(&mut self, stream: &str, sensor: &str, instant_ms: i64) -> bool {
        let admitted = self.ledger.admit(stream, instant_ms);
        if !admitted {
            self.telemetry.samples_set_back.with_label_values(&[sensor]).inc();
        }
        admitted
    }

    /// Compares what the GPUs are with what they were; `complete` when all of them are known.
    fn note_inventory(&mut self, complete: bool, instant_ms: i64) {
        self.events.extend(self.inventory.note(&self.gpus, complete, instant_ms));
    }

    /// Takes over what GPUs reach each other by, when that was found out.
    fn take_topology(&mut self, instant_ms: i64) {
        let Some(found) = self.topology.take() else { return };
        for gpu in &mut self.gpus {
            if let Some(paths) = found.get(&gpu.uuid) {
                gpu.facts.set(names::DEVICE_TOPOLOGY, paths.clone());
            }
        }
        self.described_ms = 0;
        self.note_inventory(false, instant_ms);
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
            self.topology.ask();
            self.note_inventory(answer.fault.is_none(), instant_ms);
        }
        let described = (instant_ms - self.described_ms).abs() >= DESCRIBE_MS;
        if described {
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
            // What the ledger has covered must be asked before it takes this tick.
            if self.admit(&sample.uuid, "gpus", sample.ts_ms) {
                samples::gpu(points, sample, simulated, described);
            }
            let interval_ms = i64::try_from(self.interval.as_millis()).unwrap_or(i64::MAX);
            let limit_ms = ledger::gap_limit_ms(self.interval);
            let covered = self.ledger.covered_ms(&sample.uuid);
            let stale = covered.is_none_or(|covered| sample.ts_ms + interval_ms - covered > limit_ms);
            if let Some(tick) = attribute::tick(sample, simulated, &self.owners, fresh, stale)
                && self.books()
            {
                self.ledger.tick(tick, self.interval);
            }
        }
        let ignored = self.ledger.ignored_ticks();
        self.telemetry.ledger_ignored.inc_by(ignored.saturating_sub(self.ignored_ticks));
        self.ignored_ticks = ignored;
    }
}

/// The file system that a folder is on.
fn disk(dir: &Path) -> Option<u64> {
    std::fs::metadata(dir).ok().map(|metadata| metadata.dev())
}

fn logged<T>(sensor: &str, result: Result<T, String>) -> Option<T> {
    result.inspect_err(|error| tracing::debug!(sensor, error, "the sensor failed")).ok()
}
