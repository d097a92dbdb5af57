//! The sensors' threads, and what they answer.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use contador_schemas::names;
use contador_schemas::owner::Owner;
use tokio::time::Instant;

use crate::config::Config;
use crate::outbox::send::chain;
use crate::owners::ProcessOwners;
use crate::run::RunError;
use crate::sensors::{
    Answer, DiskSample, Disks, GpuIdentity, GpuSample, Gpus, Host, HostSample, NvmlLibrary, Reading, SensorThread,
};
use crate::telemetry::Telemetry;

/// How long to wait before the driver is opened once more, in milliseconds.
const REOPEN_MS: i64 = 10_000;

/// How soon a thread that has panicked may be started once more.
const RESPAWN: Duration = Duration::from_secs(10);

/// How long handles stay released, in milliseconds.
const RELEASED_MS: i64 = 60_000;

/// Until when the driver's handles are to be released (Unix milliseconds). Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Release(Arc<AtomicI64>);

impl Release {
    /// Has the handles released from the next sample on, for a minute.
    pub fn ask(&self, now_ms: i64) {
        self.0.store(now_ms + RELEASED_MS, Ordering::Relaxed);
    }

    fn is_asked(&self, now_ms: i64) -> bool {
        now_ms < self.0.load(Ordering::Relaxed)
    }
}

/// What the GPU sensor answers.
#[derive(Debug, Default)]
pub struct GpuAnswer {
    /// What the devices are, when the driver was opened for this sample.
    pub opened: Option<Vec<GpuIdentity>>,
    /// Their samples.
    pub samples: Vec<GpuSample>,
    /// Why there are none, or which devices are missing.
    pub fault: Option<String>,
}

/// One sensor's thread, and what was last said about it in the log.
pub struct Watched<T> {
    thread: SensorThread<T>,
    spawn: Box<dyn Fn() -> std::io::Result<SensorThread<T>> + Send + Sync>,
    silent: bool,
    /// When it may be started again, after a panic.
    respawn_at: Option<Instant>,
    restarted: bool,
}

impl<T> std::fmt::Debug for Watched<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watched").field("silent", &self.silent).finish_non_exhaustive()
    }
}

impl<T: Send + 'static> Watched<T> {
    fn new(spawn: impl Fn() -> std::io::Result<SensorThread<T>> + Send + Sync + 'static) -> Result<Self, RunError> {
        let thread = spawn().map_err(RunError::Thread)?;
        Ok(Self { thread, spawn: Box::new(spawn), silent: false, respawn_at: None, restarted: false })
    }

    /// Its name, when it was started again since the last call.
    fn take_restarted(&mut self) -> Option<&'static str> {
        std::mem::take(&mut self.restarted).then(|| self.thread.name())
    }

    /// Starts a thread in place of one that has panicked: at once, and then no more often than every [`RESPAWN`].
    fn respawn(&mut self, telemetry: &Telemetry) -> &'static str {
        const ENDED: &str = "its thread has ended";
        let now = Instant::now();
        if self.respawn_at.is_some_and(|at| now < at) {
            return ENDED;
        }
        self.respawn_at = Some(now + RESPAWN);
        match (self.spawn)() {
            Ok(thread) => {
                self.thread = thread;
                self.restarted = true;
                telemetry.sensor_restarts.with_label_values(&[self.thread.name()]).inc();
                "its thread has panicked, and was started again"
            }
            Err(_) => ENDED,
        }
    }

    /// Asks for a sample at `ts_ms`.
    pub fn request(&mut self, ts_ms: i64) {
        self.thread.request(ts_ms);
    }

    /// What it answered, if it has by `deadline`. A sensor that has become silent, or speaks again, is logged once.
    pub async fn collect(&mut self, deadline: Instant, now_ms: i64, telemetry: &Telemetry) -> Option<T> {
        let name = self.thread.name();
        let answer = self.thread.collect(deadline).await;
        let said = match answer {
            Answer::Ready(value) => {
                if std::mem::take(&mut self.silent) {
                    tracing::info!(sensor = name, "the sensor answers again");
                }
                #[expect(clippy::cast_precision_loss, reason = "milliseconds of this age are exact")]
                telemetry.sensor_answered.with_label_values(&[name]).set(now_ms as f64 / 1e3);
                return Some(value);
            }
            Answer::Stuck(since) => format!("no answer since {} ms", since.as_millis()),
            Answer::Gone => self.respawn(telemetry).to_owned(),
            Answer::Idle => return None,
        };
        if !std::mem::replace(&mut self.silent, true) {
            tracing::warn!(sensor = name, reason = said, "the sensor is silent");
        }
        None
    }
}

/// Every sensor of a node.
#[derive(Debug)]
pub struct Sensors {
    /// The GPUs.
    pub gpus: Watched<GpuAnswer>,
    /// The block devices.
    pub disks: Watched<Result<Vec<DiskSample>, String>>,
    /// The machine.
    pub host: Watched<Result<HostSample, String>>,
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
        let (gpu_roots, disk_roots, host_roots) = (config.roots.clone(), config.roots.clone(), config.roots.clone());
        let roots = config.roots.clone();
        let serial_numbers = config.serial_numbers;
        Ok(Self {
            gpus: Watched::new(move || {
                let (library, proc, release) = (library.clone(), gpu_roots.proc.clone(), release.clone());
                SensorThread::spawn("gpus", move || {
                    let mut reader =
                        GpuReader { library, proc, release, serial_numbers, open: None, retry_ms: 0, fault: None };
                    move |ts_ms| reader.sample(ts_ms)
                })
            })?,
            disks: Watched::new(move || {
                let (proc, sys) = (disk_roots.proc.clone(), disk_roots.sys.clone());
                SensorThread::spawn("disks", move || {
                    let mut disks = Disks::new(proc, sys);
                    move |ts_ms| disks.sample(ts_ms).map_err(|error| chain(&error))
                })
            })?,
            host: Watched::new(move || {
                let proc = host_roots.proc.clone();
                SensorThread::spawn("host", move || {
                    let mut host = Host::new(proc);
                    move |ts_ms| host.sample(ts_ms).map_err(|error| chain(&error))
                })
            })?,
            owners: Watched::new(move || {
                let (proc, passwd, wanted) = (roots.proc.clone(), roots.passwd.clone(), Arc::clone(&wanted));
                SensorThread::spawn("owners", move || {
                    let mut owners = ProcessOwners::new(proc, passwd);
                    move |ts_ms| {
                        let pids = wanted.lock().unwrap_or_else(PoisonError::into_inner).clone();
                        (ts_ms, owners.resolve(&pids, ts_ms))
                    }
                })
            })?,
            pids,
        })
    }

    /// The sensors whose threads had panicked and were started again since the last call.
    pub fn take_restarted(&mut self) -> Vec<&'static str> {
        let names = [
            self.gpus.take_restarted(),
            self.disks.take_restarted(),
            self.host.take_restarted(),
            self.owners.take_restarted(),
        ];
        names.into_iter().flatten().collect()
    }

    /// Says whose owners are wanted by the next request.
    pub fn want_owners_of(&self, pids: Vec<u32>) {
        *self.pids.lock().unwrap_or_else(PoisonError::into_inner) = pids;
    }
}

/// The GPUs, opened again when the driver was lost.
struct GpuReader {
    library: NvmlLibrary,
    proc: PathBuf,
    release: Release,
    serial_numbers: bool,
    open: Option<Gpus>,
    retry_ms: i64,
    /// Why it is not open.
    fault: Option<String>,
}

impl GpuReader {
    fn sample(&mut self, ts_ms: i64) -> GpuAnswer {
        if self.release.is_asked(ts_ms) {
            self.open = None;
            return GpuAnswer { fault: Some("the driver's handles are released".into()), ..GpuAnswer::default() };
        }
        let mut answer = GpuAnswer::default();
        let gpus = match &mut self.open {
            Some(gpus) => gpus,
            none => {
                if ts_ms < self.retry_ms {
                    return GpuAnswer { fault: self.fault.clone(), ..answer };
                }
                match Gpus::open(&self.library, &self.proc) {
                    Ok(gpus) => {
                        let mut identities = gpus.identities().to_vec();
                        if !self.serial_numbers {
                            identities.iter_mut().for_each(GpuIdentity::forget_serial);
                        }
                        answer.opened = Some(identities);
                        none.insert(gpus)
                    }
                    Err(error) => {
                        self.retry_ms = ts_ms + REOPEN_MS;
                        self.fault = Some(chain(&error));
                        return GpuAnswer { fault: self.fault.clone(), ..answer };
                    }
                }
            }
        };
        answer.samples = gpus.sample_all(ts_ms);
        if let Some((index, reason)) = gpus.unreadable().first() {
            answer.fault = Some(format!("the GPU of index {index} can't be identified: {reason}"));
        }
        // A driver that was reloaded refuses every old handle: all of it is opened again.
        if !answer.samples.is_empty() && answer.samples.iter().all(is_lost) {
            answer.fault = answer.samples.first().and_then(|sample| sample.processes.missing());
            self.fault.clone_from(&answer.fault);
            self.open = None;
            self.retry_ms = ts_ms + REOPEN_MS;
        }
        answer
    }
}

fn is_lost(sample: &GpuSample) -> bool {
    let memory = sample.measures.reading(names::GPU_MEMORY_LIMIT);
    memory.is_none_or(Reading::is_failed) && sample.processes.is_failed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_sensor_that_panics_is_started_again() {
        let telemetry = Telemetry::new().unwrap();
        let mut watched = Watched::new(|| {
            SensorThread::spawn("broken", || {
                |ts_ms: i64| if ts_ms == 1 { std::panic::resume_unwind(Box::new("on purpose")) } else { ts_ms }
            })
        })
        .unwrap();
        let far = || Instant::now() + Duration::from_secs(3_600);
        watched.request(1);
        assert_eq!(watched.collect(far(), 1, &telemetry).await, None);
        assert_eq!((watched.take_restarted(), watched.take_restarted()), (Some("broken"), None));
        assert_eq!(telemetry.sensor_restarts.with_label_values(&["broken"]).get(), 1);
        watched.request(2);
        assert_eq!(watched.collect(far(), 2, &telemetry).await, Some(2));
        // And not in a loop.
        watched.request(1);
        assert_eq!(watched.collect(far(), 1, &telemetry).await, None);
        assert_eq!(watched.take_restarted(), None);
    }
}
