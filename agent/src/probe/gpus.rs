//! The GPUs' threads: one that opens the driver and looks whether it is still the same, one for each GPU, one for the XIDs,
//! and one for the topology. A GPU that hangs is stuck alone: who it is may not be known, but its index is.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use contador_schemas::names;

use super::take::Waits;
use super::{Asked, ProbeGpus, StuckGpu};
use crate::errors::chain;
use crate::run::gpus::xids::{Said, XidWatch};
use crate::sensors::nvml::topology::{self, Topology};
use crate::sensors::nvml::xids::XidBook;
use crate::sensors::nvml::{Driver, Same};
use crate::sensors::{
    Answer, GpuAnswer, GpuIdentity, GpuReader, GpuSample, NvmlLibrary, Reading, SensorError, SensorTask,
};

/// A driver that has lost every GPU is not opened again more often than this.
const REOPEN: Duration = Duration::from_secs(5);

/// How long a new driver's thread waits for the others to let go of the old one.
const LEAVING: Duration = Duration::from_secs(1);

/// How long it may take until the XIDs of a new GPU are watched.
const WATCHED: Duration = Duration::from_secs(1);

/// Time between two looks at something that is waited for.
const LOOK: Duration = Duration::from_millis(5);

/// What the driver's thread answers.
#[derive(Debug)]
pub(super) enum Found {
    /// The driver is open now. The thread holds it open; who asks it lets go of it before.
    Opened(Weak<Driver>),
    /// It can't be opened.
    Refused(SensorError),
    /// It is still the same.
    Same,
    /// It was reloaded, or has other GPUs.
    Other,
}

/// The threads of the GPUs.
#[derive(Debug)]
pub(super) struct GpuThreads {
    library: NvmlLibrary,
    proc_root: PathBuf,
    serial_numbers: bool,
    pub(super) driver: SensorTask<Found>,
    open: Option<Open>,
    opened: Instant,
    /// Every XID that came, also by a driver that was closed since.
    book: XidBook,
}

/// An open driver, and who asks it.
#[derive(Debug)]
struct Open {
    driver: Weak<Driver>,
    version: String,
    simulated: bool,
    gpus: Vec<OneGpu>,
    xids: XidWatch,
    topology: SensorTask<Result<Topology, String>>,
    found: Option<Reading<Topology>>,
}

#[derive(Debug)]
struct OneGpu {
    index: u32,
    thread: SensorTask<GpuAnswer>,
    identity: Option<GpuIdentity>,
    instances: Vec<GpuIdentity>,
}

impl GpuThreads {
    /// Starts the thread that opens the driver; it opens it when it is first asked.
    pub fn start(library: NvmlLibrary, proc_root: PathBuf, serial_numbers: bool) -> std::io::Result<Self> {
        let driver = opener(library.clone(), proc_root.clone(), Weak::new())?;
        let (open, opened, book) = (None, Instant::now(), XidBook::default());
        Ok(Self { library, proc_root, serial_numbers, driver, open, opened, book })
    }

    /// Asks for a sample at `ts_ms` (Unix milliseconds).
    pub fn request(&mut self, ts_ms: i64) {
        self.driver.request(ts_ms);
        if let Some(open) = &mut self.open {
            open.request(ts_ms);
        }
    }

    /// What each GPU answers in time. The driver is opened first, if it is not.
    ///
    /// # Errors
    /// When a scenario was asked for that the simulator refuses, or of something that is no simulator.
    pub async fn collect(&mut self, ts_ms: i64, waits: &Waits) -> Result<Asked<ProbeGpus>, SensorError> {
        let failed = |reason: String| Asked::Answered(Reading::Failed(reason.into()));
        let mut is_other = false;
        match self.driver.collect(waits.until(self.driver.pending())).await {
            Answer::Ready(Found::Opened(driver)) => match Open::start(driver, &self.library) {
                Ok(mut open) => {
                    open.request(ts_ms);
                    self.opened = Instant::now();
                    self.open = Some(open);
                }
                Err(error) => {
                    self.close();
                    return Ok(failed(format!("cannot start their threads: {error}")));
                }
            },
            // Somebody asked for this scenario.
            Answer::Ready(Found::Refused(
                error @ (SensorError::Scenario { .. } | SensorError::NotTheSimulator { .. }),
            )) => return Err(error),
            Answer::Ready(Found::Refused(error)) if error.is_no_driver() => {
                return Ok(Asked::Answered(Reading::Unsupported(chain(&error).into())));
            }
            Answer::Ready(Found::Refused(error)) => return Ok(failed(chain(&error))),
            Answer::Ready(Found::Same) => {}
            Answer::Ready(Found::Other) => is_other = true,
            // While it is open, the GPUs tell more than the driver as a whole.
            Answer::Stuck(passed) if self.open.is_none() => return Ok(Asked::Stuck(passed)),
            Answer::Gone if self.open.is_none() => return Ok(failed("the driver's thread has panicked".to_owned())),
            Answer::Stuck(_) | Answer::Gone | Answer::Idle => {}
        }
        let Some(open) = &mut self.open else { return Ok(failed("the driver is not open".to_owned())) };
        let mut gpus = open.collect(waits, &mut self.book).await;
        let is_none_there = gpus.stuck.is_empty() && gpus.devices.iter().all(|(_, sample)| is_lost(sample));
        if is_other || is_none_there && !open.gpus.is_empty() && self.opened.elapsed() >= REOPEN {
            self.close();
        }
        if !self.serial_numbers {
            gpus.devices.iter_mut().for_each(|(identity, _)| identity.forget_serial());
            gpus.stuck.iter_mut().filter_map(|stuck| stuck.identity.as_mut()).for_each(GpuIdentity::forget_serial);
        }
        Ok(Asked::Answered(Reading::Value(gpus)))
    }

    /// Has every thread let go of the driver; the next sample opens it again.
    fn close(&mut self) {
        let leaving = self.open.take().map(|open| open.driver).unwrap_or_default();
        // Without another thread, the old one goes on, and says again what it has found.
        if let Ok(driver) = opener(self.library.clone(), self.proc_root.clone(), leaving) {
            self.driver = driver;
        }
    }
}

/// The thread that opens the driver, once nobody holds the one that is `leaving`.
fn opener(library: NvmlLibrary, proc_root: PathBuf, leaving: Weak<Driver>) -> std::io::Result<SensorTask<Found>> {
    SensorTask::spawn("driver", move || {
        // A driver that was reloaded is only found when the old one is closed. A thread inside of a call holds it for longer.
        let start = Instant::now();
        while leaving.strong_count() > 0 && start.elapsed() < LEAVING {
            std::thread::sleep(LOOK);
        }
        let mut open: Option<Arc<Driver>> = None;
        move |_| match &open {
            None => match Driver::open(&library, &proc_root) {
                Ok(driver) => Found::Opened(Arc::downgrade(open.insert(driver))),
                Err(error) => Found::Refused(error),
            },
            Some(driver) => match driver.check() {
                Ok(Same::Yes) => Found::Same,
                Ok(Same::No(_)) | Err(_) => Found::Other,
            },
        }
    })
}

impl Open {
    fn start(driver: Weak<Driver>, library: &NvmlLibrary) -> std::io::Result<Self> {
        let held = || driver.upgrade().ok_or_else(|| std::io::Error::other("the driver is closed"));
        let (count, version, simulated) = {
            let driver = held()?;
            (driver.count(), driver.version().to_owned(), driver.simulated())
        };
        let mut gpus = Vec::new();
        for index in 0..count {
            let driver = held()?;
            let thread = SensorTask::spawn(format!("gpu-{index}"), move || {
                let mut reader = GpuReader::new(driver, index);
                move |ts_ms| reader.sample(ts_ms)
            })?;
            gpus.push(OneGpu { index, thread, identity: None, instances: Vec::new() });
        }
        let xids = XidWatch::start(held()?)?;
        let library = library.clone();
        // It asks once, and lets go of the driver then.
        let topology =
            SensorTask::spawn("topology", move || move |_| topology::read(&library).map_err(|error| chain(&error)))?;
        Ok(Self { driver, version, simulated, gpus, xids, topology, found: None })
    }

    fn request(&mut self, ts_ms: i64) {
        self.gpus.iter_mut().for_each(|gpu| _ = gpu.thread.request(ts_ms));
        if !matches!(self.found, Some(Reading::Value(_))) {
            self.topology.request(ts_ms);
        }
    }

    async fn collect(&mut self, waits: &Waits, book: &mut XidBook) -> ProbeGpus {
        let (mut devices, mut unreadable, mut stuck) = (Vec::new(), Vec::new(), Vec::new());
        let mut unwatched = 0_usize;
        for gpu in &mut self.gpus {
            let until = waits.until(gpu.thread.pending());
            match gpu.thread.collect(until).await {
                Answer::Ready(answer) => {
                    let was_known = gpu.identity.is_some();
                    match gpu.take(answer) {
                        Ok(taken) => devices.extend(taken),
                        Err(reason) => unreadable.push((gpu.index, reason)),
                    }
                    if let (false, Some(identity)) = (was_known, &gpu.identity) {
                        book.watch(&identity.uuid, Reading::Failed("not watched yet".into()));
                        self.xids.register(gpu.index, &identity.uuid);
                        unwatched += 1;
                    }
                }
                Answer::Stuck(passed) => {
                    stuck.push(StuckGpu { index: gpu.index, identity: gpu.identity.clone(), passed });
                }
                Answer::Gone | Answer::Idle => unreadable.push((gpu.index, "its thread has panicked".to_owned())),
            }
        }
        let registering = tokio::time::Instant::now();
        loop {
            for said in std::iter::from_fn(|| self.xids.next()) {
                match said {
                    Said::Watched(uuid, watched) => {
                        unwatched = unwatched.saturating_sub(1);
                        book.watch(&uuid, watched);
                    }
                    Said::Xid(_, xid) => book.note(&xid),
                }
            }
            // Its thread waits for XIDs of those before, and takes a new one in between.
            if unwatched == 0 || registering.elapsed() >= WATCHED {
                break;
            }
            tokio::time::sleep(LOOK).await;
        }
        devices.iter_mut().for_each(|(_, sample)| book.read(&sample.uuid, &mut sample.measures));
        let topology = match self.topology.collect(waits.until(self.topology.pending())).await {
            Answer::Ready(Ok(found)) => Asked::Answered(self.found.insert(Reading::Value(found)).clone()),
            Answer::Ready(Err(reason)) => Asked::Answered(self.found.insert(Reading::Failed(reason.into())).clone()),
            Answer::Stuck(passed) => Asked::Stuck(passed),
            Answer::Idle => Asked::Answered(self.found.clone().unwrap_or_else(|| Reading::Value(BTreeMap::new()))),
            Answer::Gone => Asked::Answered(Reading::Failed("its thread has panicked".into())),
        };
        ProbeGpus {
            devices,
            unreadable,
            stuck,
            driver_version: self.version.clone(),
            topology,
            simulated: self.simulated,
        }
    }
}

impl OneGpu {
    /// The GPU and its instances, each with its sample; or why it is not known who it is.
    fn take(&mut self, answer: GpuAnswer) -> Result<Vec<(GpuIdentity, GpuSample)>, String> {
        let found = answer.identity?;
        let identity = self.identity.insert(GpuIdentity::clone(&found));
        if let Some(instances) = answer.instances {
            self.instances = instances;
        }
        let known = || std::iter::once(&*identity).chain(&self.instances);
        let identified = answer.samples.into_iter().filter_map(|sample| {
            let identity = known().find(|identity| identity.uuid == sample.uuid)?;
            Some((identity.clone(), sample))
        });
        Ok(identified.collect())
    }
}

/// True of a device that answers nothing any more.
fn is_lost(sample: &GpuSample) -> bool {
    sample.measures.reading(names::GPU_MEMORY_LIMIT).is_none_or(Reading::is_failed) && sample.processes.is_failed()
}
