//! The sensors' threads, and what they answer.
//!
//! A [`Round`] asks them all, and waits for them until one common deadline; each is [`Watched`]. The GPUs have a watch of
//! their own ([`crate::run::gpus`]). What reads the kernel is *registered* in [`Sensors::start`]: a name, and a function
//! that starts its thread; what it answers goes out under the names of the registry, and nothing else has to know of it.

mod round;
mod watched;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use contador_schemas::owner::Owner;

pub use self::round::Round;
pub use self::watched::{STUCK_AFTER_MS, Watched};
use crate::config::Config;
use crate::outbox::send::chain;
use crate::owners::ProcessOwners;
use crate::run::RunError;
use crate::run::gpus::{GpuWatch, Release};
use crate::run::kernel::kernel_sensors;
use crate::sensors::{Change, Disks, Host, KernelSample, Measures, NvmlLibrary, SensorThread};

/// What a sensor of the node saw at one instant.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeSample {
    /// What it is a sample of: of one stream, no two go out for one instant.
    pub stream: Cow<'static, str>,
    /// When it was taken, in Unix milliseconds.
    pub ts_ms: i64,
    /// What it measures; nothing when it is not yet time to read again.
    pub measures: Measures,
    /// What has changed since the sample before.
    pub changes: Vec<Change>,
}

/// What a sensor of the node answers: samples, of which each is of another stream, or why there are none.
pub type NodeAnswer = Result<Vec<NodeSample>, String>;

/// Every sensor of a node.
#[derive(Debug)]
pub struct Sensors {
    /// The GPUs.
    pub gpus: GpuWatch,
    /// What reads the kernel.
    node: Vec<Watched<NodeAnswer>>,
    /// Whose processes are, and when that was asked (Unix milliseconds).
    pub owners: Watched<(i64, HashMap<u32, Owner>)>,
    pids: Arc<Mutex<Vec<u32>>>,
}

impl Sensors {
    /// Starts the threads.
    ///
    /// # Errors
    /// [`RunError::Thread`].
    pub fn start(config: &Config, library: NvmlLibrary, release: Release) -> Result<Self, RunError> {
        let pids = Arc::new(Mutex::new(Vec::new()));
        let wanted = Arc::clone(&pids);
        let roots = config.roots.clone();
        let owners = Watched::new(move || {
            let (proc, passwd, wanted) = (roots.proc.clone(), roots.passwd.clone(), Arc::clone(&wanted));
            SensorThread::spawn("owners", move || {
                let mut owners = ProcessOwners::new(proc, passwd);
                move |ts_ms| {
                    let pids = wanted.lock().unwrap_or_else(PoisonError::into_inner).clone();
                    (ts_ms, owners.resolve(&pids, ts_ms))
                }
            })
        })?;
        let gpus = GpuWatch::new(library, config.roots.proc.clone(), release);
        let mut sensors = Self { gpus, node: Vec::new(), owners, pids };
        let (proc, sys) = (config.roots.proc.clone(), config.roots.sys.clone());
        sensors.register("disks", move || {
            let mut disks = Disks::new(proc.clone(), sys.clone());
            move |ts_ms| {
                let disks = disks.sample(ts_ms).map_err(|error| chain(&error))?;
                let mut measures = Measures::default();
                disks.iter().for_each(|disk| measures.append(disk.measures()));
                Ok(vec![NodeSample { stream: "disks".into(), ts_ms, measures, changes: Vec::new() }])
            }
        })?;
        let proc = config.roots.proc.clone();
        sensors.register("host", move || {
            let mut host = Host::new(proc.clone());
            move |ts_ms| {
                let host = host.sample(ts_ms).map_err(|error| chain(&error))?;
                let measures = host.measures();
                Ok(vec![NodeSample { stream: "host".into(), ts_ms, measures, changes: Vec::new() }])
            }
        })?;
        for (name, make) in kernel_sensors(config, &sensors.pids) {
            sensors.register(name, move || {
                let mut read = make();
                move |ts_ms| {
                    let KernelSample { ts_ms, measures, changes, .. } = read(ts_ms)?;
                    Ok(vec![NodeSample { stream: name.into(), ts_ms, measures, changes }])
                }
            })?;
        }
        Ok(sensors)
    }

    /// Adds a sensor of the node. `make` gives the function that takes its samples for an instant in Unix milliseconds; both
    /// run on the sensor's own thread, and again on another one should it panic.
    ///
    /// # Errors
    /// [`RunError::Thread`].
    pub fn register<M, F>(&mut self, name: &'static str, make: M) -> Result<(), RunError>
    where
        M: Fn() -> F + Clone + Send + Sync + 'static,
        F: FnMut(i64) -> NodeAnswer,
    {
        self.node.push(Watched::new(move || SensorThread::spawn(name, make.clone()))?);
        Ok(())
    }

    /// Asks the sensors of the node; what some of them answer late is given at once.
    pub fn begin(&mut self, round: &mut Round) -> Vec<NodeSample> {
        let late: Vec<_> =
            self.node.iter_mut().filter_map(|sensor| Some((Arc::clone(sensor.name()), sensor.begin(round)?))).collect();
        late.into_iter().flat_map(|(name, answer)| logged(&name, answer)).collect()
    }

    /// What the sensors of the node answer until the round's deadline.
    pub async fn collect(&mut self, round: &mut Round) -> Vec<NodeSample> {
        let mut samples = Vec::new();
        for sensor in &mut self.node {
            if let Some(answer) = sensor.collect(round).await {
                samples.extend(logged(sensor.name(), answer));
            }
            sensor.report(round);
        }
        samples
    }

    /// Says whose owners are wanted by the next request.
    pub fn want_owners_of(&self, pids: Vec<u32>) {
        *self.pids.lock().unwrap_or_else(PoisonError::into_inner) = pids;
    }
}

fn logged(sensor: &str, answer: NodeAnswer) -> Vec<NodeSample> {
    answer.inspect_err(|error| tracing::debug!(sensor, error, "the sensor failed")).unwrap_or_default()
}
