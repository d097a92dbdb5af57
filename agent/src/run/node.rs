//! One node: what happens at a tick.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use contador_schemas::names;
use tokio::sync::watch;

use super::attribute::Known;
use super::clock::now_ms;
use super::gpus::GpuTick;
use super::inventory::InventoryLog;
use super::keep::Troubles;
use super::ownership::{GivenSample, OwnersSample};
use super::said::Said;
use super::schedulers::{End, Schedulers};
use super::sensors::{NodeSample, Round, Sensors};
use super::topology::TopologyWatch;
use super::watch::Silence;
use super::{Options, RunError};
use super::{attribute, kernel, schedulers};
use crate::config::Config;
use crate::exposition::Latest;
use crate::http::Health;
use crate::ledger::checkpoint::{CheckpointFile, Loaded};
use crate::ledger::{self, Ledger, Tick};
use crate::outbox::Keeper;
use crate::outbox::encode::infos::{self, Event};
use crate::outbox::encode::{Identity, Points, samples};
use crate::outbox::pack::{self, Packer};
use crate::owners::claim::Scheduler;
use crate::sensors::{GpuIdentity, GpuSample};
use crate::targets::told::Told;
use crate::telemetry::Telemetry;

/// How often devices are described again, in milliseconds.
const DESCRIBE_MS: i64 = 60_000;

/// How long, at the start, time is nobody's since schedulers have said nothing yet: less than a state holds, and long enough for a
/// kubelet that does not answer to have failed.
const FIRST_WORD: Duration = Duration::from_secs(3);

/// How long who was given what holds, in milliseconds, when it can't be looked at again.
const GIVEN_HOLDS_MS: i64 = 300_000;

/// How soon it is looked for again: only with an interval that is longer.
const FIRST_LOOK: Duration = Duration::from_secs(1);

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
    /// The GPUs that are there.
    pub(super) gpus: Vec<Arc<GpuIdentity>>,
    /// What is wrong with single GPUs.
    pub(super) gpu_faults: Vec<String>,
    inventory: InventoryLog,
    topology: TopologyWatch,
    serial_numbers: bool,
    pub(super) given: GivenSample,
    owners: OwnersSample,
    said: Said,
    described_ms: i64,
    ignored_ticks: u64,
    pub(super) fault: Option<String>,
    /// That there is no GPU was said.
    pub(super) missing: bool,
    /// GPUs were sampled once.
    pub(super) sampled: bool,
    /// Of each scheduler that does not answer, what holds until it does, and why.
    pub(super) silent: BTreeMap<Scheduler, (Silence, String)>,
    /// How long it is waited for what schedulers, and whoever knows the processes, say first; `None`: they have said it.
    awaited: Option<tokio::time::Instant>,
    /// What of schedulers' word can't be used.
    pub(super) unclear: BTreeSet<String>,
    pub(super) events: Vec<Event>,
    pub(super) troubles: Troubles,
    /// Samples that the spool lacks, the oldest first.
    pub(super) unkept: VecDeque<Vec<u8>>,
    /// Why the last checkpoint could not be written.
    pub(super) checkpoint_fault: Option<String>,
    /// Whether the checkpoint and the spool share a file system.
    pub(super) one_disk: bool,
    pub(super) packer: Packer,
    /// Empty between ticks; what it is made of is kept.
    points: Points,
    pub(super) last_tick: Option<(i64, tokio::time::Instant)>,
    /// What was last measured, for `/metrics`.
    latest: Latest,
    /// What the node is, for who scrapes servers.
    told: watch::Sender<Told>,
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
                unkept.extend((!samples.is_empty()).then_some(samples).map(packed));
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
            sensors: Sensors::start(config, keeper.crew(), options.library.clone(), options.release.clone())?,
            ignored_ticks: ledger.ignored_ticks(),
            ledger,
            checkpoint,
            keeper,
            telemetry,
            health,
            gpus: Vec::new(),
            gpu_faults: Vec::new(),
            inventory: InventoryLog::open(&config.state_dir, config.serial_numbers, &mut events, now_ms()),
            topology: TopologyWatch::new(options.library.clone()),
            serial_numbers: config.serial_numbers,
            given: GivenSample::default(),
            owners: OwnersSample::default(),
            said: Said::default(),
            described_ms: 0,
            fault: Some("no GPU has been sampled yet".to_owned()),
            missing: false,
            sampled: false,
            silent: BTreeMap::new(),
            awaited: Some(tokio::time::Instant::now() + FIRST_WORD),
            unclear: BTreeSet::new(),
            events,
            troubles: Troubles::default(),
            unkept,
            checkpoint_fault: None,
            one_disk: disk(&config.state_dir) == disk(&config.spool_dir),
            packer: Packer::default(),
            points: Points::default(),
            last_tick: None,
            latest: Latest::new(config.interval),
            told: watch::Sender::new(Told::default()),
        })
    }

    /// What was last measured.
    pub fn latest(&self) -> Latest {
        self.latest.clone()
    }

    /// What the node is, now and from now on, for who scrapes its servers.
    pub fn told(&self) -> watch::Receiver<Told> {
        self.told.subscribe()
    }

    /// Who is asked for more than the processes tell.
    pub fn schedulers(&self) -> &Schedulers {
        &self.sensors.schedulers
    }

    /// When it is time to look again for the first word of schedulers; never, when they have said it.
    pub async fn first_word(&self) {
        match self.awaited {
            Some(_) if self.sampled && self.interval > FIRST_LOOK => tokio::time::sleep(FIRST_LOOK).await,
            _ => std::future::pending().await,
        }
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
        let mut round = Round::new(instant_ms, patience, self.telemetry.clone());
        let mut seen = self.sensors.begin(&mut round);
        // Mostly they are the devices and processes of the last round: so nobody has to be woken for them alone.
        if let Some(late) = self.sensors.given.begin(&mut round) {
            self.given = late;
        }
        if let Some(late) = self.sensors.owners.begin(&mut round) {
            self.owners = late;
        }
        let gpus = self.sensors.gpus.tick(&mut round).await;
        seen.extend(self.sensors.collect(&mut round).await);

        self.note_clock(instant_ms);
        // While nothing is sampled, the handles may be somebody else's.
        if self.fault.is_none() {
            self.take_topology(&round);
        }
        let mut points = std::mem::take(&mut self.points);
        self.note_health(&gpus, instant_ms);
        self.take_gpus(gpus, &mut points, &mut round).await;
        self.note_schedulers(instant_ms);
        for NodeSample { stream, ts_ms, every, measures, changes } in seen {
            if !measures.is_empty() && self.admit(stream, stream, ts_ms) {
                samples::node(&mut points, &measures, ts_ms);
            }
            self.latest.sensor(stream, measures, Instant::now(), every);
            self.events.extend(changes.into_iter().map(|change| kernel::event(ts_ms, change)));
        }
        self.sensors.given.report(&mut round);
        self.sensors.owners.report(&mut round);
        if self.admit("sensors", "sensors", instant_ms) {
            samples::node(&mut points, &round.seen, instant_ms);
        }
        self.events.append(&mut round.events);
        if self.books() {
            self.ledger.advance(instant_ms);
        }
        self.hold_samples(if points.is_empty() { Vec::new() } else { points.encode(&self.identity) });
        self.points = points;
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

    /// Compares what the GPUs are with what they were; `complete` when all of them are known. What the GPUs' watch has said
    /// in this round is not said twice, and how a GPU is split is told as `mig_changed`.
    fn note_inventory(&mut self, complete: bool, round: &Round) {
        let boards = self.gpus.iter().map(AsRef::as_ref).filter(|gpu: &&GpuIdentity| gpu.mig.is_none());
        let mut events = self.inventory.note(boards, complete, round.instant_ms);
        let said =
            |event: &Event| round.events.iter().any(|said| (said.kind, &said.device) == (event.kind, &event.device));
        events.retain(|event| !said(event));
        self.events.append(&mut events);
    }

    /// Takes over what GPUs reach each other by, when that was found out.
    fn take_topology(&mut self, round: &Round) {
        let found = self.topology.take();
        if let Some(thread) = self.topology.take_begun() {
            self.sensors.gpus.count_in(thread);
        }
        let Some(found) = found else { return };
        for gpu in &mut self.gpus {
            if let Some(paths) = found.get(&gpu.uuid) {
                Arc::make_mut(gpu).facts.set(names::DEVICE_TOPOLOGY, paths.clone());
            }
        }
        self.described_ms = 0;
        self.note_inventory(false, round);
    }

    async fn take_gpus(&mut self, answer: GpuTick, points: &mut Points, round: &mut Round) {
        let instant_ms = round.instant_ms;
        if let Some(changed) = answer.changed {
            self.gpus = changed;
            if !self.serial_numbers {
                self.gpus.iter_mut().for_each(|gpu| Arc::make_mut(gpu).forget_serial());
            }
            self.latest.identify(self.gpus.iter().map(AsRef::as_ref));
            self.sensors.schedulers.set_devices(&self.gpus);
            self.described_ms = 0;
            self.topology.ask();
            self.note_inventory(answer.complete, round);
        }
        self.events.extend(answer.changes.iter().map(|change| infos::mig_changed(change, instant_ms)));
        let described = (instant_ms - self.described_ms).abs() >= DESCRIBE_MS;
        if described {
            self.described_ms = instant_ms;
            for gpu in &self.gpus {
                infos::device(points, gpu, instant_ms);
            }
        }
        // The processes of MIG instances are those of their GPUs.
        let gpus = answer.samples.iter().filter(|sample| sample.parent.is_none());
        let processes = gpus.flat_map(|sample| sample.processes.value()).flatten();
        let pids: BTreeSet<u32> = processes.map(|process| process.pid).collect();
        // Without an answer, what was known of the processes before still holds. A GPU that has used up the time must not
        // make the owners late.
        let deadline = round.deadline.max(tokio::time::Instant::now() + self.interval / 10);
        let pids = pids.into_iter().collect();
        let is_given = self.sensors.given(&mut self.given, deadline, round).await;
        if !is_given && instant_ms - self.given.ts_ms > GIVEN_HOLDS_MS {
            self.given.claims = Arc::default();
        }
        let fresh = self.sensors.owners_of(pids, &mut self.owners, deadline, round).await;
        let (simulated, samples) = (answer.simulated, answer.samples);
        for sample in &samples {
            self.telemetry.rejected_readings.inc_by(sample.rejected.into());
            // What the ledger has covered must be asked before it takes this tick.
            if self.admit(&sample.uuid, "gpus", sample.ts_ms) {
                samples::gpu(points, sample, simulated, described);
            }
        }
        let ends = schedulers::ends(&self.given.snapshots, &self.given.devices);
        let mut ticks = Vec::new();
        let is_early = self.awaits_first_word(is_given);
        for sample in samples.iter().filter(|sample| sample.parent.is_none()) {
            let stale = self.is_stale(sample);
            let instances = attribute::weights(sample, &samples, &self.gpus);
            let known = Known { owners: &self.owners.owners, claims: &self.given.claims, fresh };
            let Some(mut tick) = attribute::tick(sample, &instances, simulated, known, stale) else { continue };
            self.said.keep(&mut tick, sample, &instances, known);
            if self.books() {
                let is_part = |device: &str| instances.iter().any(|(instance, _)| instance.uuid == device);
                for End { device, owner, at_ms } in &ends {
                    if *device == sample.uuid || is_part(device) {
                        self.ledger.end(&sample.uuid, device, owner, *at_ms);
                    }
                }
                self.ledger.tick(tick.clone(), self.interval);
                if is_early {
                    // A pod would be known by its UID alone, and who holds a GPU without work not at all.
                    self.ledger.interrupt(&sample.uuid);
                }
            }
            if !is_early {
                ticks.push(tick);
            }
        }
        self.said.forget(&self.given.claims, &self.given.snapshots);
        for GpuSample { uuid, measures, .. } in samples {
            self.latest.device(&uuid, measures, Instant::now());
        }
        ticks.iter().for_each(|tick| self.show_owners(tick));
        if self.told.receiver_count() > 0 {
            let (given, gpus) = (&self.given, &self.gpus);
            let is_there = |device: &str| gpus.iter().any(|gpu| gpu.uuid == device);
            self.told.send_if_modified(|told| {
                let is_held_anew = !is_early && told.hold(&ticks, is_there);
                let is_first = !is_early && !std::mem::replace(&mut told.is_known, true);
                told.hear(&given.claims, &given.snapshots) || is_held_anew || is_first
            });
        }
        let ignored = self.ledger.ignored_ticks();
        self.telemetry.ledger_ignored.inc_by(ignored.saturating_sub(self.ignored_ticks));
        self.ignored_ticks = ignored;
    }

    /// Whether it is waited for the first word of schedulers (`is_given`: of the devices that there are), or of whoever knows the
    /// processes.
    fn awaits_first_word(&mut self, is_given: bool) -> bool {
        let is_silent = self.given.snapshots.iter().any(|told| told.is_silent());
        let is_silent = is_silent || !is_given || self.owners.ts_ms == 0;
        self.awaited = self.awaited.filter(|until| is_silent && tokio::time::Instant::now() < *until);
        self.awaited.is_some()
    }

    /// Whether what the ledger knows of a GPU would be too old at the next tick.
    fn is_stale(&self, sample: &GpuSample) -> bool {
        let interval_ms = i64::try_from(self.interval.as_millis()).unwrap_or(i64::MAX);
        let limit_ms = ledger::gap_limit_ms(self.interval);
        let covered = self.ledger.covered_ms(&sample.uuid);
        covered.is_none_or(|covered| sample.ts_ms + interval_ms - covered > limit_ms)
    }

    /// Puts at `/metrics` who holds a GPU, or any part of it, and who each of its instances.
    fn show_owners(&self, tick: &Tick) {
        self.latest.hold(&tick.device, tick.owners().into_iter());
        for instance in tick.split.iter().flatten() {
            self.latest.hold(&instance.device, instance.holders.iter().map(|holder| &holder.owner));
        }
    }
}

/// Samples as they are kept now: an older version kept them as they were, and would have parts of both kinds be one.
fn packed(samples: Vec<u8>) -> Vec<u8> {
    match pack::is_packed(&samples) {
        true => samples,
        false => Packer::default().pack(&samples).unwrap_or(samples),
    }
}

/// The file system that a folder is on.
fn disk(dir: &Path) -> Option<u64> {
    std::fs::metadata(dir).ok().map(|metadata| metadata.dev())
}
