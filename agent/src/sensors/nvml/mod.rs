//! GPUs by NVML.
//!
//! [`library`] says which library to load, the driver's or the simulator's, and `simulator` hands a scenario to the
//! latter. A [`Driver`] is the open library; it is shared by all who ask it, and closed when the last of them has let go of
//! it, never under a call. Each GPU has a [`GpuReader`], which finds out who the GPU is (`identity`), and then has the GPU's
//! `device` reader ask it (`asking`) for its `fields`, its `gauges`, what happened in between (`samples`), its `links`, its
//! `memory_errors`, its activity by `gpm`, its `processes` and its instances by [`mig`], and make a `status` of them. Every
//! answer goes through `answer`, which tells a value from an unsupported one, a failed one and an impossible one. A GPU that
//! does not answer is reported with a failed sample: it is never left out. XIDs come by [`events`], and are counted in a
//! [`xids::XidBook`]. What GPUs reach each other by is asked apart, by [`topology`].

mod answer;
mod asking;
mod device;
pub mod events;
mod fields;
mod gauges;
mod gpm;
mod identity;
pub mod library;
mod links;
mod memory_errors;
pub mod mig;
mod processes;
mod samples;
mod simulator;
pub(super) mod status;
mod throttle;
pub mod topology;
pub mod xids;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use nvml_wrapper::Nvml;

pub use library::{NvmlLibrary, SensorError};
pub use mig::LayoutChange;
pub use throttle::throttle_reasons;

use self::device::DeviceReader;
use self::events::XidSet;
use self::xids::XidBook;
use super::Reading;
use super::sample::{GpuIdentity, GpuSample};

/// An open NVML library. Dropping the last clone of its `Arc` closes it.
#[derive(Debug)]
pub struct Driver {
    nvml: Nvml,
    simulated: bool,
    version: String,
    /// The GPUs that the driver's files under `/proc` name.
    listed: Option<BTreeSet<String>>,
    proc_root: PathBuf,
    count: u32,
    /// Goes last, when the library has been closed.
    token: Arc<()>,
}

impl Driver {
    /// Opens the library and counts its GPUs; the driver's own files are looked for under `proc_root` (`/proc`).
    ///
    /// May block for as long as the driver likes.
    ///
    /// # Errors
    /// [`SensorError::NoDriver`] when there is no driver, which is a state and not a fault of this machine;
    /// otherwise when the library does not start or cannot count its GPUs.
    pub fn open(library: &NvmlLibrary, proc_root: &Path) -> Result<Arc<Self>, SensorError> {
        let (nvml, simulated) = library::open(library)?;
        let count = nvml.device_count().map_err(|source| SensorError::Call { what: "the number of GPUs", source })?;
        let version = nvml.sys_driver_version().unwrap_or_else(|_| "unknown".to_owned());
        let listed = if simulated { None } else { listed(proc_root) };
        Ok(Arc::new(Self {
            nvml,
            simulated,
            version,
            listed,
            proc_root: proc_root.to_owned(),
            count,
            token: Arc::new(()),
        }))
    }

    /// What is gone when the library has been closed, after the last call into it.
    pub fn token(&self) -> Weak<()> {
        Arc::downgrade(&self.token)
    }

    /// How many GPUs there were when it was opened.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The driver's version.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// True when the library is contador's simulator.
    pub fn simulated(&self) -> bool {
        self.simulated
    }

    /// Whether it is still as it was when it was opened. The driver counts its GPUs once, when it is opened: that there are
    /// others is seen in its files.
    ///
    /// # Errors
    /// Why it is of no use any more.
    pub fn check(&self) -> Result<Same, String> {
        let count = self.nvml.device_count().map_err(|error| error.to_string())?;
        let version = self.nvml.sys_driver_version().map_err(|error| error.to_string())?;
        if version != self.version {
            return Err(format!("its version is {version} now"));
        }
        let same = count == self.count && (self.listed.is_none() || listed(&self.proc_root) == self.listed);
        Ok(if same { Same::Yes } else { Same::No(count) })
    }
}

/// Whether a driver's GPUs are those that it was opened with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Same {
    /// They are.
    Yes,
    /// They are not; with how many it counts.
    No(u32),
}

/// PCI addresses of the GPUs that the driver has taken, as it lists them.
fn listed(proc_root: &Path) -> Option<BTreeSet<String>> {
    let entries = std::fs::read_dir(proc_root.join("driver/nvidia/gpus")).ok()?;
    Some(entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect())
}

/// One GPU of a driver, by its index.
#[derive(Debug)]
pub struct GpuReader {
    driver: Arc<Driver>,
    index: u32,
    known: Option<(Arc<GpuIdentity>, DeviceReader)>,
}

/// What one GPU has to say.
#[derive(Debug, Clone, PartialEq)]
pub struct GpuAnswer {
    /// Who it is, or why it can't be told.
    pub identity: Result<Arc<GpuIdentity>, String>,
    /// Its sample, and those of its instances; none while it isn't known who it is.
    pub samples: Vec<GpuSample>,
    /// What its MIG instances are, when it was found out who it is, or others exist than before.
    pub instances: Option<Vec<GpuIdentity>>,
    /// How its MIG instances have changed.
    pub change: Option<LayoutChange>,
}

impl GpuReader {
    /// The GPU at this index. PIDs are looked up under the driver's `proc_root`.
    pub fn new(driver: Arc<Driver>, index: u32) -> Self {
        Self { driver, index, known: None }
    }

    /// Asks it for everything, at `ts_ms` (Unix milliseconds). May block for as long as the driver likes.
    pub fn sample(&mut self, ts_ms: i64) -> GpuAnswer {
        let is_new = self.known.is_none();
        let (identity, reader) = match &mut self.known {
            Some(known) => known,
            none => match recognise(&self.driver, self.index) {
                Ok(known) => none.insert(known),
                Err(reason) => {
                    return GpuAnswer { identity: Err(reason), samples: Vec::new(), instances: None, change: None };
                }
            },
        };
        let samples = reader.sample(&self.driver.nvml, ts_ms, &self.driver.proc_root);
        let change = reader.take_change();
        let instances = (is_new || change.is_some()).then(|| reader.identities().skip(1).cloned().collect());
        GpuAnswer { identity: Ok(Arc::clone(identity)), samples, instances, change }
    }
}

impl Drop for GpuReader {
    fn drop(&mut self) {
        if let Some((_, reader)) = &mut self.known {
            reader.release(&self.driver.nvml);
        }
    }
}

/// Who the GPU at `index` is, and its reader.
fn recognise(driver: &Driver, index: u32) -> Result<(Arc<GpuIdentity>, DeviceReader), String> {
    let machine = identity::Machine::read(&driver.nvml, driver.simulated, &driver.proc_root);
    let device = driver.nvml.device_by_index(index).map_err(|error| error.to_string())?;
    let identity = identity::read(&device, index, &machine).map_err(|error| error.to_string())?;
    let reader = DeviceReader::new(&driver.nvml, &device, identity.clone());
    Ok((Arc::new(identity), reader))
}

/// The GPUs of this machine, one after the other on the caller's thread: for tests, and for who can wait for a driver that
/// hangs. The agent has a thread for each GPU.
#[derive(Debug)]
pub struct Gpus {
    driver: Arc<Driver>,
    identities: Vec<GpuIdentity>,
    /// The reader of each GPU.
    readers: Vec<GpuReader>,
    changes: Vec<LayoutChange>,
    unreadable: Vec<(u32, String)>,
    xids: Option<XidSet>,
    book: XidBook,
}

impl Gpus {
    /// Opens the library and identifies every GPU. PIDs are looked up under `proc_root` (`/proc`).
    ///
    /// May block for as long as the driver likes: call it on the sensor's own thread.
    ///
    /// # Errors
    /// As [`Driver::open`]. A single GPU that cannot be identified is no error: see [`unreadable`](Self::unreadable).
    pub fn open(library: &NvmlLibrary, proc_root: &Path) -> Result<Self, SensorError> {
        let driver = Driver::open(library, proc_root)?;
        let (xids, refused) = match XidSet::create(Arc::clone(&driver)) {
            Ok(set) => (Some(set), None),
            Err(refused) => (None, Some(refused)),
        };
        let mut gpus = Self {
            driver,
            identities: Vec::new(),
            readers: Vec::new(),
            changes: Vec::new(),
            unreadable: Vec::new(),
            xids,
            book: XidBook::default(),
        };
        for index in 0..gpus.driver.count {
            match recognise(&gpus.driver, index) {
                Ok(known) => {
                    let uuid = &known.0.uuid;
                    let registered = gpus.xids.as_mut().map(|set| set.register(index, uuid));
                    let reading = registered.or_else(|| refused.clone());
                    gpus.book.watch(uuid, reading.unwrap_or(Reading::Value(())));
                    gpus.readers.push(GpuReader { driver: Arc::clone(&gpus.driver), index, known: Some(known) });
                }
                Err(reason) => gpus.unreadable.push((index, reason)),
            }
        }
        gpus.identify();
        Ok(gpus)
    }

    fn identify(&mut self) {
        let readers = self.readers.iter().filter_map(|reader| reader.known.as_ref());
        self.identities = readers.flat_map(|(_, reader)| reader.identities()).cloned().collect();
    }

    /// Every GPU that could be identified, in the driver's order, and after each one its MIG instances.
    pub fn identities(&self) -> &[GpuIdentity] {
        &self.identities
    }

    /// The driver's index of each GPU that could not be identified, and why.
    pub fn unreadable(&self) -> &[(u32, String)] {
        &self.unreadable
    }

    /// True when the library is contador's simulator.
    pub fn simulated(&self) -> bool {
        self.driver.simulated
    }

    /// One sample of each of [`identities`](Self::identities), in that order, all stamped `ts_ms` (Unix milliseconds). When
    /// other MIG instances exist than before, the identities are those of the new ones.
    pub fn sample_all(&mut self, ts_ms: i64) -> Vec<GpuSample> {
        self.take_xids();
        let mut samples = Vec::new();
        for answer in self.readers.iter_mut().map(|reader| reader.sample(ts_ms)) {
            self.changes.extend(answer.change);
            samples.extend(answer.samples.into_iter().map(|sample| with_xids(sample, &self.book)));
        }
        self.identify();
        samples
    }

    /// One sample of the GPU at the driver's `position` among those that could be identified, without its MIG instances;
    /// none beyond the last.
    pub fn sample(&mut self, position: usize, ts_ms: i64) -> Option<GpuSample> {
        self.take_xids();
        let answer = self.readers.get_mut(position)?.sample(ts_ms);
        self.changes.extend(answer.change);
        answer.samples.into_iter().next().map(|sample| with_xids(sample, &self.book))
    }

    /// On which GPUs other MIG instances exist than at the last call, or when the library was opened.
    pub fn take_changes(&mut self) -> Vec<LayoutChange> {
        std::mem::take(&mut self.changes)
    }

    fn take_xids(&mut self) {
        while let Some(Ok(Some(xid))) = self.xids.as_ref().map(|set| set.wait(0)) {
            self.book.note(&xid);
        }
    }
}

fn with_xids(mut sample: GpuSample, book: &XidBook) -> GpuSample {
    book.read(&sample.uuid, &mut sample.measures);
    sample
}
