//! The sensors' tasks, and what they answer.
//!
//! A [`Round`] asks them all, and waits for them until one common deadline; each is [`Watched`]. The GPUs have a watch of
//! their own ([`crate::run::gpus`]), and [`crate::run::ownership`] says whose everything is. What reads the kernel is in one list ([`crate::run::kernel`]): a name, and a function that
//! makes a reader; what it answers goes out under the names of the registry, and nothing else has to know of it.

mod round;
mod watched;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

pub use self::round::Round;
pub use self::watched::{STUCK_AFTER_MS, Watched};
use crate::config::Config;
use crate::crew::Crew;
use crate::owners::ProcessOwners;
use crate::owners::claim::Snapshot;
use crate::run::RunError;
use crate::run::gpus::{GpuWatch, Release};
use crate::run::kernel::{KernelSensor, kernel_sensors};
use crate::run::ownership::{Given, GivenSample, OwnersSample, Ownership};
use crate::run::schedulers::Schedulers;
use crate::sensors::{Change, KernelSample, Measures, NvmlLibrary, SensorTask};

/// What a sensor of the node saw at one instant.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeSample {
    /// What it is a sample of: of one stream, no two go out for one instant.
    pub stream: &'static str,
    /// When it was taken, in Unix milliseconds.
    pub ts_ms: i64,
    /// How long it holds until it is taken again; 0 when that is at every tick.
    pub every: Duration,
    /// What it measures; nothing when it is not yet time to read again.
    pub measures: Measures,
    /// What has changed since the sample before.
    pub changes: Vec<Change>,
}

/// What a sensor of the node answers, or why nothing.
pub type NodeAnswer = Result<NodeSample, String>;

/// Every sensor of a node.
#[derive(Debug)]
pub struct Sensors {
    /// The GPUs.
    pub gpus: GpuWatch,
    /// What reads the kernel.
    node: Vec<Watched<NodeAnswer>>,
    /// Who runs all of them.
    crew: Crew,
    /// Who was given the GPUs.
    pub given: Watched<GivenSample>,
    /// Whose the processes on GPUs are.
    pub owners: Watched<OwnersSample>,
    /// Who is asked for more than the processes tell.
    pub schedulers: Arc<Schedulers>,
    pids: Arc<Mutex<Vec<u32>>>,
}

impl Sensors {
    /// All of them run on `crew`.
    ///
    /// # Errors
    /// [`RunError::Thread`].
    pub fn start(config: &Config, crew: &Crew, library: NvmlLibrary, release: Release) -> Result<Self, RunError> {
        let pids = Arc::new(Mutex::new(Vec::new()));
        let (wanted, crew) = (Arc::clone(&pids), crew.clone());
        let schedulers = Arc::new(Schedulers::start(config)?);
        let told: Arc<Mutex<Vec<Arc<Snapshot>>>> = Arc::default();
        let (rules, runs) = (Arc::clone(&config.rules), crew.clone());
        let (asked, tells) = (Arc::clone(&schedulers), Arc::clone(&told));
        let given = Watched::new(move || {
            let (rules, schedulers, told) = (Arc::clone(&rules), Arc::clone(&asked), Arc::clone(&tells));
            Ok(SensorTask::on(&runs, "schedulers", move || {
                let mut given = Given::new(rules);
                move |ts_ms| {
                    // Before what is told of them.
                    let devices = schedulers.devices();
                    let given = given.at(ts_ms, schedulers.snapshots(), devices);
                    told.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&given.snapshots);
                    given
                }
            }))
        })?;
        let (roots, rules, runs) = (config.roots.clone(), Arc::clone(&config.rules), crew.clone());
        let owners = Watched::new(move || {
            let (proc, passwd, wanted) = (roots.proc.clone(), roots.passwd.clone(), Arc::clone(&wanted));
            let (rules, told) = (Arc::clone(&rules), Arc::clone(&told));
            Ok(SensorTask::on(&runs, "owners", move || {
                let mut owners = Ownership::new(ProcessOwners::new(proc, passwd), rules);
                move |ts_ms| {
                    let pids = wanted.lock().unwrap_or_else(PoisonError::into_inner).clone();
                    let told = told.lock().unwrap_or_else(PoisonError::into_inner).clone();
                    owners.at(ts_ms, pids, &told)
                }
            }))
        })?;
        let gpus = GpuWatch::new(library, config.roots.proc.clone(), release, crew.clone());
        let mut sensors = Self { gpus, node: Vec::new(), crew, given, owners, schedulers, pids };
        for KernelSensor { name, every, make } in kernel_sensors(config, &sensors.pids) {
            let crew = sensors.crew.clone();
            let spawn = move || {
                let make = Arc::clone(&make);
                Ok(SensorTask::on(&crew, name, move || {
                    let mut read = make();
                    move |ts_ms| {
                        let KernelSample { ts_ms, measures, changes } = read(ts_ms)?;
                        Ok(NodeSample { stream: name, ts_ms, every, measures, changes })
                    }
                }))
            };
            sensors.node.push(Watched::new(spawn)?);
        }
        Ok(sensors)
    }

    /// Asks the sensors of the node; what some of them answer late is given at once.
    pub fn begin(&mut self, round: &mut Round) -> Vec<NodeSample> {
        let late: Vec<_> =
            self.node.iter_mut().filter_map(|sensor| Some((Arc::clone(sensor.name()), sensor.begin(round)?))).collect();
        late.into_iter().filter_map(|(name, answer)| logged(&name, answer)).collect()
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

    /// Brings `known` to what it is at this round for the devices that there are; false when it could not be.
    pub async fn given(&mut self, known: &mut GivenSample, deadline: Instant, round: &mut Round) -> bool {
        for is_last in [false, true] {
            let Some(answer) = self.given.collect_until(deadline, round).await else { return false };
            *known = answer;
            if known.ts_ms == round.instant_ms && Arc::ptr_eq(&known.devices, &self.schedulers.devices()) {
                return true;
            }
            // There are other devices, or the answer was one of an earlier round.
            if !is_last {
                self.given.request(round);
            }
        }
        false
    }

    /// Brings `known` to what it is at this round for these processes, of which those that the last round had have been asked
    /// for already; false when it could not be, and what was known of them before is all that there is.
    pub async fn owners_of(
        &mut self,
        pids: Vec<u32>,
        known: &mut OwnersSample,
        deadline: Instant,
        round: &mut Round,
    ) -> bool {
        self.pids.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&pids);
        for is_last in [false, true] {
            let Some(answer) = self.owners.collect_until(deadline, round).await else { return false };
            *known = answer;
            if known.ts_ms == round.instant_ms && pids.iter().all(|pid| known.pids.contains(pid)) {
                return true;
            }
            // Some process is new, or the answer was one of an earlier round.
            if !is_last {
                self.owners.request(round);
            }
        }
        false
    }
}

fn logged(sensor: &str, answer: NodeAnswer) -> Option<NodeSample> {
    answer.inspect_err(|error| tracing::debug!(sensor, error, "the sensor failed")).ok()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::Overrides;
    use crate::telemetry::Telemetry;

    #[tokio::test]
    async fn owners_come_with_what_the_rules_say_of_them() {
        let text = "[[owners.rule]]\nname = \"all\"\nmatch.command = \"*\"\nset.project = \"of {command}\"\n\
                    [owners.default]\ndepartment = \"unassigned\"\n";
        let config = Config::parse(text, Path::new("agent.toml"), &Overrides::default()).unwrap();
        let library = NvmlLibrary::at("/nonexistent/libnvidia-ml.so.1");
        let mut sensors = Sensors::start(&config, &Crew::start().unwrap(), library, Release::default()).unwrap();
        let (pid, mut known) = (std::process::id(), OwnersSample::default());
        for second in 1..=100 {
            let mut round = Round::new(second * 1_000, Duration::from_secs(5), Telemetry::new().unwrap());
            let deadline = round.deadline;
            sensors.owners.begin(&mut round);
            if sensors.owners_of(vec![pid], &mut known, deadline, &mut round).await {
                break;
            }
        }
        let owner = &known.owners[&pid];
        assert!(!owner.command.is_empty());
        assert_eq!(owner.project, format!("of {}", owner.command));
        assert_eq!(owner.department, "unassigned");
    }
}
