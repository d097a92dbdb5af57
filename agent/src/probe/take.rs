//! Asks every sensor, on a thread of its own, and waits for none longer than it has patience.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use contador_schemas::mapping::Rules;
use contador_schemas::owner::Owner;

use super::gpus::GpuThreads;
use super::{Asked, Decided, ProbeReport};
use crate::config::Config;
use crate::errors::chain;
use crate::owners::claim::{Claim, Named, Snapshot};
use crate::owners::mapping::{self, Mapped};
use crate::owners::{Identified, ProcessOwners};
use crate::run::attribute::{self, Known};
use crate::run::clock::now_ms;
use crate::run::kernel::{KernelAnswer, KernelSensor, kernel_sensors};
use crate::run::schedulers::{self, Schedulers};
use crate::sensors::{
    Answer, GpuSample, KernelSample, Measures, Mounts, NvmlLibrary, Reading, SensorError, SensorTask,
};

/// How long a sensor is waited for.
pub const PATIENCE: Duration = Duration::from_secs(3);

/// How long the first sample and the second lie apart: what is measured between two needs that.
const APART: Duration = Duration::from_millis(250);

/// How long mounts are waited for: the first time, and then.
const MOUNTS_FIRST: Duration = Duration::from_millis(1_500);
const MOUNTS: Duration = Duration::from_millis(250);

/// Threads that stay, so that a second report has rates, and a stuck sensor grows older.
#[derive(Debug)]
pub struct Prober {
    node: String,
    gpus: GpuThreads,
    sensors: Vec<Sensor>,
    owners: SensorTask<HashMap<u32, Mapped>>,
    pids: Arc<Mutex<Vec<u32>>>,
    schedulers: Schedulers,
    /// What they have told, for the owners.
    told: Arc<Mutex<Vec<Arc<Snapshot>>>>,
    rules: Arc<Rules>,
    /// No sensor reads less often than this, in milliseconds.
    seldom_ms: i64,
    is_warm: bool,
}

#[derive(Debug)]
struct Sensor {
    name: &'static str,
    thread: SensorTask<KernelAnswer>,
    /// The last two answers, the older one first.
    last: Option<(Instant, Measures)>,
    before: Option<(Duration, Measures)>,
}

/// How long what was asked is waited for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waits {
    start: tokio::time::Instant,
    patience: Duration,
}

impl Waits {
    /// Until when. What has used up the patience before is not waited for again.
    pub fn until(&self, pending: Option<Duration>) -> tokio::time::Instant {
        match pending {
            Some(passed) if passed >= self.patience => self.start + APART.min(self.patience),
            _ => self.start + self.patience,
        }
    }
}

impl Prober {
    /// Starts a thread for each sensor, and begins to ask the schedulers. Within a tokio runtime.
    ///
    /// # Errors
    /// When the operating system refuses a thread.
    pub fn start(config: &Config, library: NvmlLibrary) -> std::io::Result<Self> {
        let roots = config.roots.clone();
        let pids = Arc::new(Mutex::new(Vec::new()));
        let (proc, passwd, wanted) = (roots.proc.clone(), roots.passwd.clone(), Arc::clone(&pids));
        let told = Arc::new(Mutex::new(Vec::new()));
        let (rules, by) = (Arc::clone(&config.rules), Arc::clone(&told));
        let owners = SensorTask::spawn("owners", move || {
            let mut owners = ProcessOwners::new(proc, passwd).with_variables(rules.variables());
            move |ts_ms| {
                let pids = wanted.lock().unwrap_or_else(PoisonError::into_inner).clone();
                let told = by.lock().unwrap_or_else(PoisonError::into_inner).clone();
                let found = owners.resolve(&pids, ts_ms, &told);
                found.iter().map(|(pid, named)| (*pid, mapping::apply(&rules, Named::clone(named)))).collect()
            }
        })?;
        let schedulers = Schedulers::start(config).map_err(std::io::Error::other)?;
        let gpus = GpuThreads::start(library, roots.proc.clone(), config.serial_numbers)?;
        let mut threads = Vec::new();
        for KernelSensor { name, make, .. } in kernel_sensors(config, &pids) {
            let thread = match name {
                "mounts" => mounts(config)?,
                _ => SensorTask::spawn(name, move || make())?,
            };
            threads.push((name, thread));
        }
        let sensors =
            threads.into_iter().map(|(name, thread)| Sensor { name, thread, last: None, before: None }).collect();
        let seldom = config.interval.max(config.mounts.interval).max(Duration::from_secs(1));
        let seldom_ms = i64::try_from(seldom.as_millis()).unwrap_or(i64::MAX);
        Ok(Self {
            node: config.node.clone(),
            gpus,
            sensors,
            owners,
            pids,
            schedulers,
            told,
            rules: Arc::clone(&config.rules),
            seldom_ms,
            is_warm: false,
        })
    }

    /// One report. The first one takes two samples, since some values lie between two.
    ///
    /// # Errors
    /// When a scenario was asked for that the simulator refuses, or of something that is no simulator.
    pub async fn take(&mut self, patience: Duration) -> Result<ProbeReport, SensorError> {
        if !self.is_warm {
            // The kernel's readers don't read more often than they are meant to: to them, this one was long ago.
            self.sample(patience, self.seldom_ms).await?;
            self.is_warm = true;
            tokio::time::sleep(APART).await;
        }
        self.sample(patience, 0).await
    }

    async fn sample(&mut self, patience: Duration, ago_ms: i64) -> Result<ProbeReport, SensorError> {
        let ts_ms = now_ms();
        let waits = Waits { start: tokio::time::Instant::now(), patience };
        self.gpus.request(ts_ms);
        self.sensors.iter_mut().for_each(|sensor| _ = sensor.thread.request(ts_ms - ago_ms));
        let gpus = self.gpus.collect(ts_ms, &waits).await?;
        let mut sensors = Vec::new();
        for sensor in &mut self.sensors {
            let until = waits.until(sensor.thread.pending());
            sensors.push((sensor.name, sensor.collect(until).await));
        }
        let devices = gpus.value().map(|gpus| gpus.devices.as_slice()).unwrap_or_default();
        let deadline = waits.until(None);
        let identities: Vec<_> = devices.iter().map(|(identity, _)| Arc::new(identity.clone())).collect();
        self.schedulers.set_devices(&identities);
        // Who has used up the time once is not waited for again.
        let until = if self.is_warm { waits.start } else { deadline.max(tokio::time::Instant::now() + APART) };
        let told = self.schedulers.asked(until).await;
        self.told.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&told);
        let mapped = self.processes(devices.iter().map(|(_, sample)| sample), ts_ms, deadline).await;
        let mut decided = Decided::new();
        for Mapped { owner, decision } in mapped.values() {
            decided.entry(owner.clone()).or_default().insert(decision.clone());
        }
        for Claim { holder, .. } in told.iter().flat_map(|told| told.claims.iter()) {
            let Mapped { owner, decision } = mapping::apply(&self.rules, holder.clone());
            decided.entry(owner).or_default().insert(decision);
        }
        let processes = mapped.into_iter().map(|(pid, mapped)| (pid, mapped.owner.into())).collect();
        let claims = schedulers::claims(&told, &self.schedulers.devices(), &self.rules);
        let known = Known { owners: &processes, claims: &claims, fresh: true };
        let held = devices.iter().filter_map(|(_, sample)| {
            let holders = attribute::held(sample, attribute::given_of(sample, &claims), known, true)?;
            Some(holders.into_iter().map(|holder| (sample.uuid.clone(), holder.owner.into())))
        });
        let owners: Vec<_> = held.flatten().collect();
        let shown = |owner: &Owner| owners.iter().any(|(_, held)| held == owner);
        decided.retain(|owner, _| shown(owner) || processes.values().any(|of: &Identified| **of == *owner));
        Ok(ProbeReport {
            node: self.node.clone(),
            ts_ms,
            owners,
            given: claims,
            silent: told.iter().flat_map(|told| told.fault.iter().chain(&told.unclear)).cloned().collect(),
            sensors,
            before: self.sensors.iter().filter_map(|sensor| Some((sensor.name, sensor.before.clone()?))).collect(),
            processes,
            decided,
            gpus,
        })
    }

    async fn processes(
        &mut self,
        samples: impl Iterator<Item = &GpuSample>,
        ts_ms: i64,
        deadline: tokio::time::Instant,
    ) -> HashMap<u32, Mapped> {
        let pids = samples.flat_map(|sample| sample.processes.value()).flatten().map(|process| process.pid).collect();
        *self.pids.lock().unwrap_or_else(PoisonError::into_inner) = pids;
        self.owners.request(ts_ms);
        // What hangs elsewhere may have used up the time.
        let deadline = deadline.max(tokio::time::Instant::now() + APART);
        match self.owners.collect(deadline).await {
            Answer::Ready(owners) => owners,
            Answer::Stuck(_) | Answer::Gone | Answer::Idle => HashMap::new(),
        }
    }
}

/// The mounts, all of them at each sample: asked, and waited for a little. One that has not answered by then is unreachable.
fn mounts(config: &Config) -> std::io::Result<SensorTask<KernelAnswer>> {
    let (proc, options) = (config.roots.proc.clone(), config.mounts.clone());
    SensorTask::spawn("mounts", move || {
        let interval_ms = i64::try_from(options.interval.as_millis()).unwrap_or(i64::MAX).max(1);
        let (mut mounts, mut patience, mut turn_ms) = (Mounts::new(proc, options), MOUNTS_FIRST, 0_i64);
        let mut due = move |wait: bool| {
            if wait {
                mounts.settle(std::mem::replace(&mut patience, MOUNTS));
            }
            turn_ms = turn_ms.saturating_add(interval_ms);
            mounts.sample(turn_ms).map_err(|error| chain(&error))
        };
        move |ts_ms| {
            let asked = due(false)?;
            let answered = due(true)?;
            Ok(KernelSample { ts_ms, measures: answered.measures, ..asked })
        }
    })
}

impl Sensor {
    async fn collect(&mut self, deadline: tokio::time::Instant) -> Asked<Measures> {
        match self.thread.collect(deadline).await {
            Answer::Ready(Ok(KernelSample { measures, .. })) => {
                let now = Instant::now();
                // Nothing new: it is not its turn.
                if let (true, Some((_, last))) = (measures.is_empty(), &self.last) {
                    return Asked::Answered(Reading::Value(last.clone()));
                }
                let last = self.last.replace((now, measures.clone()));
                self.before = last.map(|(at, last)| (now.saturating_duration_since(at), last));
                Asked::Answered(Reading::Value(measures))
            }
            Answer::Ready(Err(reason)) => Asked::Answered(Reading::Failed(reason.into())),
            Answer::Stuck(passed) => Asked::Stuck(passed),
            Answer::Gone | Answer::Idle => Asked::Answered(Reading::Failed("its thread has panicked".into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::super::gpus::Found;
    use super::*;
    use crate::config::Overrides;

    #[tokio::test]
    async fn what_hangs_is_stuck_and_the_rest_is_there() {
        let config = Config::load(None, &Overrides::default()).unwrap();
        let library = NvmlLibrary::at("/nonexistent/libnvidia-ml.so.1");
        let mut prober = Prober::start(&config, library).unwrap();
        let (release, blocked) = mpsc::channel::<()>();
        prober.gpus.driver = SensorTask::spawn("driver", move || {
            move |_| {
                blocked.recv().ok();
                Found::Same
            }
        })
        .unwrap();
        let mut stuck = Duration::ZERO;
        loop {
            let report = prober.take(Duration::from_millis(20)).await.unwrap();
            let Asked::Stuck(passed) = report.gpus else { panic!("{:?}", report.gpus) };
            assert!(passed >= stuck, "its age only grows");
            stuck = passed;
            if report.sensors.iter().all(|(_, asked)| asked.value().is_some()) && report.before.len() >= 2 {
                break;
            }
        }
        release.send(()).unwrap();
        loop {
            let report = prober.take(Duration::from_millis(20)).await.unwrap();
            if let Asked::Answered(answer) = report.gpus {
                assert_eq!(answer, Reading::Failed("the driver is not open".into()));
                break;
            }
        }
    }
}
