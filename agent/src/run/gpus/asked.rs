//! The threads of an open driver: one for each GPU, and the one that XIDs come by.

use std::sync::{Arc, Weak};

use super::known::{KnownGpus, is_lost, reason};
use super::xids::XidWatch;
use super::{GpuTick, Sampling};
use crate::crew::Crew;
use crate::run::sensors::{Round, Watched};
use crate::sensors::nvml::Driver;
use crate::sensors::{GpuAnswer, GpuIdentity, GpuReader, SensorTask};

/// One GPU's thread.
#[derive(Debug)]
pub(super) struct GpuThread {
    /// The driver's index.
    pub index: u32,
    watched: Watched<GpuAnswer>,
    /// Who the GPU is, once it was found out.
    pub identity: Option<Arc<GpuIdentity>>,
    /// Why it could not be found out at the last answer.
    pub unknown: Option<String>,
    /// It has answered since the driver was opened.
    answered: bool,
}

impl GpuThread {
    /// True when nothing more will be learned of it soon: it has answered, or it does not.
    pub fn is_settled(&self) -> bool {
        self.answered || self.watched.is_late()
    }
}

/// An open driver, and who asks it.
#[derive(Debug)]
pub(super) struct OpenDriver {
    closed: Weak<()>,
    pub simulated: bool,
    /// When it was opened, Unix milliseconds.
    pub since_ms: i64,
    gpus: Vec<GpuThread>,
    pub xids: Option<XidWatch>,
}

impl OpenDriver {
    /// Starts a thread for each GPU. `stuck` are the names of those that were said to be stuck when it was closed.
    pub fn start(
        crew: &Crew,
        driver: &Arc<Driver>,
        known: &KnownGpus,
        stuck: &[Arc<str>],
        now_ms: i64,
    ) -> std::io::Result<Self> {
        let mut gpus = Vec::new();
        for index in 0..driver.count() {
            let (crew, weak) = (crew.clone(), Arc::downgrade(driver));
            let spawn = move || {
                let driver = weak.upgrade().ok_or_else(|| std::io::Error::other("the driver is closed"))?;
                Ok(SensorTask::on(&crew, format!("gpu-{index}"), move || {
                    let mut reader = GpuReader::new(driver, index);
                    move |ts_ms| reader.sample(ts_ms)
                }))
            };
            let mut watched = Watched::new(spawn).map_err(|error| match error {
                crate::run::RunError::Thread(error) => error,
                other => std::io::Error::other(other),
            })?;
            // Until it is found out who it is, it is taken for who had this index before.
            if let Some((uuid, answered_ms)) = known.at(index) {
                watched.succeed(uuid, answered_ms);
            }
            if stuck.contains(watched.name()) {
                watched.succeed_stuck();
            }
            gpus.push(GpuThread { index, watched, identity: None, unknown: None, answered: false });
        }
        let xids = XidWatch::start(Arc::clone(driver))?;
        Ok(Self { closed: driver.token(), simulated: driver.simulated(), since_ms: now_ms, gpus, xids: Some(xids) })
    }

    /// What is gone when the driver has been closed, after its last call.
    pub fn closed(&self) -> Weak<()> {
        self.closed.clone()
    }

    /// The GPUs' threads.
    pub fn gpus(&self) -> &[GpuThread] {
        &self.gpus
    }

    /// The threads that are inside of a call which has not returned in time.
    pub fn hung(&self) -> Vec<Weak<()>> {
        let late = self.gpus.iter().filter(|gpu| gpu.watched.is_late()).map(|gpu| gpu.watched.alive());
        late.chain(self.xids.iter().filter_map(XidWatch::hung)).collect()
    }

    /// What the GPUs' threads are called.
    pub fn names(&self) -> Vec<Arc<str>> {
        self.gpus.iter().map(|gpu| Arc::clone(gpu.watched.name())).collect()
    }

    /// The names of those that are said to be stuck.
    pub fn stuck(&self) -> Vec<Arc<str>> {
        self.gpus.iter().filter(|gpu| gpu.watched.is_stuck()).map(|gpu| Arc::clone(gpu.watched.name())).collect()
    }

    /// True while a GPU owes an answer.
    pub fn is_any_late(&self) -> bool {
        self.gpus.iter().any(|gpu| gpu.watched.is_late())
    }

    /// Asks every GPU, and takes what they answer in time, and what they had not before.
    pub async fn ask(&mut self, tick: &mut GpuTick, known: &mut KnownGpus, round: &mut Round) {
        let mut answers = Vec::new();
        for (position, gpu) in self.gpus.iter_mut().enumerate() {
            answers.extend(gpu.watched.begin(round).map(|late| (position, late)));
        }
        // The last one asked is the last to answer: to wait for it first is to be woken once, and not by each of them.
        for (position, gpu) in self.gpus.iter_mut().enumerate().rev() {
            answers.extend(gpu.watched.collect(round).await.map(|answer| (position, answer)));
        }
        answers.sort_by_key(|(position, _)| *position);
        for (position, answer) in answers {
            let Some(gpu) = self.gpus.get_mut(position) else { continue };
            match answer.identity {
                Ok(identity) => {
                    if gpu.watched.name().as_ref() != identity.uuid {
                        round.telemetry.forget_sensor(gpu.watched.name());
                        gpu.watched.rename(&identity.uuid);
                    }
                    known.answered(&identity.uuid, gpu.watched.answered_ms());
                    if gpu.identity.is_none() {
                        known.identified(&identity, round);
                        if let Some(xids) = &self.xids {
                            xids.register(gpu.index, &identity.uuid);
                        }
                    }
                    if let Some(instances) = answer.instances {
                        known.split(&identity.uuid, instances);
                    }
                    gpu.unknown = None;
                    gpu.identity = Some(identity);
                }
                Err(reason) => gpu.unknown = Some(reason),
            }
            gpu.answered = true;
            tick.changes.extend(answer.change);
            known.sampled(&answer.samples, round);
            tick.samples.extend(answer.samples);
        }
        known.settle(self.gpus.iter().all(GpuThread::is_settled));
    }

    /// Says whether GPUs are sampled, and what is wrong with those that aren't.
    pub fn describe(&self, tick: &mut GpuTick, known: &KnownGpus, now_ms: i64) {
        let mut unsure = false;
        for gpu in &self.gpus {
            let named = gpu.identity.as_ref().map(|identity| &identity.uuid);
            let before = known.at(gpu.index).map(|(uuid, _)| uuid);
            let name = named
                .map(String::as_str)
                .or(before)
                .map_or_else(|| format!("the GPU of index {}", gpu.index), |uuid| known.name(uuid));
            let sampled = named.is_some_and(|uuid| tick.samples.iter().any(|s| s.uuid == *uuid && !is_lost(s)));
            if gpu.watched.is_late() && !gpu.watched.is_stuck() {
                unsure = true;
            } else if gpu.watched.is_late() {
                tick.faults.push(format!("{name} has not answered for {} ms", gpu.watched.stuck_ms(now_ms)));
            } else if let Some(reason) = &gpu.unknown {
                tick.faults.push(format!("{name} can't be identified: {reason}"));
            } else if !sampled && gpu.answered {
                let sample = tick.samples.iter().find(|sample| named == Some(&sample.uuid));
                tick.faults.push(format!("{name} is lost: {}", sample.map(reason).unwrap_or_default()));
            }
        }
        tick.complete = tick.faults.is_empty() && self.gpus.iter().all(|gpu| gpu.identity.is_some());
        tick.sampling = match tick.faults.first() {
            _ if tick.samples.iter().any(|sample| !is_lost(sample)) => Sampling::Works,
            _ if unsure => Sampling::Unsure,
            Some(fault) => Sampling::Fails(fault.clone()),
            None if self.gpus.is_empty() => Sampling::Fails("the driver has no GPU".to_owned()),
            None => Sampling::Unsure,
        };
    }

    /// How each thread is.
    pub fn report(&mut self, round: &mut Round) {
        for gpu in &self.gpus {
            gpu.watched.report(round);
        }
        if let Some(xids) = &mut self.xids {
            xids.report(round);
        }
    }
}
