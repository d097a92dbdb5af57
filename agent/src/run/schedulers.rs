//! The schedulers of this node: what they told last, for the owners of its processes and of its devices.
//!
//! Each has threads or tasks of its own that ask it; a tick takes what is there, and looks at the control groups of Slurm's
//! jobs. Kubernetes is asked where a kubelet has its folder, Slurm where `scontrol` is.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use contador_schemas::mapping::Rules;
use contador_schemas::owner::Owner;
use tokio::time::Instant;

use super::RunError;
use super::attribute::Claims;
use crate::config::Config;
use crate::owners::claim::{Claim, Ended, Snapshot};
use crate::owners::kubernetes::{Kubernetes, Options};
use crate::owners::slurm::{SlurmOptions, SlurmWatch};
use crate::owners::{NodeDevice, mapping};
use crate::sensors::GpuIdentity;

/// How often is looked whether a scheduler has answered.
const LOOK: Duration = Duration::from_millis(10);

/// Those that are asked.
#[derive(Debug, Default)]
pub struct Schedulers {
    kubernetes: Option<Kubernetes>,
    slurm: Option<SlurmWatch>,
    /// The GPUs and instances of this node.
    devices: Mutex<Arc<[NodeDevice]>>,
}

impl Schedulers {
    /// Begins to ask those that are here. Within a tokio runtime, when there is a kubelet.
    ///
    /// # Errors
    /// [`RunError::Thread`].
    pub fn start(config: &Config) -> Result<Self, RunError> {
        let options = Options::configured(&config.kubernetes, |variable| std::env::var(variable).ok());
        let kubernetes = options.has_kubelet().then(|| Kubernetes::start(options));
        let slurm = is_there(&config.slurm.scontrol)
            .then(|| SlurmWatch::start(SlurmOptions::new(config)))
            .transpose()
            .map_err(RunError::Thread)?;
        Ok(Self { kubernetes, slurm, devices: Mutex::default() })
    }

    /// Says which GPUs and instances there are.
    pub fn set_devices(&self, devices: &[Arc<GpuIdentity>]) {
        let devices: Arc<[NodeDevice]> = NodeDevice::all(devices).into();
        if let Some(kubernetes) = &self.kubernetes {
            kubernetes.set_devices(Arc::clone(&devices));
        }
        if let Some(slurm) = &self.slurm {
            slurm.set_devices(Arc::clone(&devices));
        }
        *self.devices.lock().unwrap_or_else(PoisonError::into_inner) = devices;
    }

    /// What each told last, and which jobs there are now.
    pub fn snapshots(&self) -> Vec<Arc<Snapshot>> {
        let kubernetes = self.kubernetes.as_ref().map(Kubernetes::snapshot);
        kubernetes.into_iter().chain(self.slurm.as_ref().map(SlurmWatch::look)).collect()
    }

    /// The same, as soon as all have told what there is, or that they can't; when some have not by `deadline`, that is their
    /// fault.
    pub async fn asked(&self, deadline: Instant) -> Vec<Arc<Snapshot>> {
        loop {
            let mut told = self.snapshots();
            let is_silent = |told: &Snapshot| told.waiting || (told.told_ms == 0 && told.fault.is_none());
            let is_late = Instant::now() >= deadline;
            if is_late {
                for silent in told.iter_mut().filter(|told| is_silent(told)) {
                    let silent = Arc::make_mut(silent);
                    silent.fault.get_or_insert_with(|| "a scheduler has not answered yet".to_owned());
                }
            }
            if is_late || !told.iter().any(|told| is_silent(told)) {
                return told;
            }
            tokio::time::sleep_until((Instant::now() + LOOK).min(deadline)).await;
        }
    }

    /// The GPUs and instances there are: the same [`Arc`] until others are said.
    pub fn devices(&self) -> Arc<[NodeDevice]> {
        Arc::clone(&self.devices.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Somebody has held a device until an instant.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct End {
    /// The device's UUID.
    pub device: String,
    /// Who, without who pays for him.
    pub owner: Owner,
    /// When that was, Unix milliseconds.
    pub at_ms: i64,
}

/// Who holds which of `devices` by these snapshots, with who pays by these rules. A device that this node does not know (yet)
/// is left out.
pub fn claims(snapshots: &[Arc<Snapshot>], devices: &[NodeDevice], rules: &Rules) -> Claims {
    let mut claims = Claims::new();
    for Claim { device, part, holder } in snapshots.iter().flat_map(|snapshot| snapshot.claims.iter()) {
        if let Some(device) = device.on(devices) {
            let owner = mapping::apply(rules, holder.clone()).owner.into();
            claims.entry(device.uuid.clone()).or_default().push((*part, owner));
        }
    }
    claims
}

/// Who, by these snapshots, has held which of `devices` until when. As with [`claims`].
pub fn ends(snapshots: &[Arc<Snapshot>], devices: &[NodeDevice]) -> Vec<End> {
    let end = |Ended { device, owner, at_ms }: &Ended| {
        Some(End { device: device.on(devices)?.uuid.clone(), owner: owner.clone(), at_ms: *at_ms })
    };
    snapshots.iter().flat_map(|snapshot| &snapshot.ended).filter_map(end).collect()
}

/// Whether a program is a file, or a name that `PATH` has.
fn is_there(program: &Path) -> bool {
    if program.components().count() > 1 {
        return program.is_file();
    }
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|folder| folder.join(program).is_file())
}
