//! The schedulers of this node: what they told last, for the owners of its processes and of its devices.
//!
//! Each has threads or tasks of its own that ask it; a tick takes what is there, and looks at the control groups of Slurm's
//! jobs. Kubernetes is asked where a kubelet has its folder, Slurm where `scontrol` is.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use contador_schemas::mapping::Rules;

use super::RunError;
use super::attribute::Claims;
use crate::config::Config;
use crate::owners::claim::{Claim, Snapshot};
use crate::owners::kubernetes::{ApiOptions, Kubernetes, Options};
use crate::owners::slurm::{SlurmOptions, SlurmWatch};
use crate::owners::{NodeDevice, mapping};
use crate::sensors::GpuIdentity;

/// Those that are asked.
#[derive(Debug, Default)]
pub struct Schedulers {
    kubernetes: Option<Kubernetes>,
    slurm: Option<SlurmWatch>,
    /// The GPUs and instances of this node.
    devices: Mutex<Vec<NodeDevice>>,
}

impl Schedulers {
    /// Begins to ask those that are here. Within a tokio runtime, when there is a kubelet.
    ///
    /// # Errors
    /// [`RunError::Thread`].
    pub fn start(config: &Config) -> Result<Self, RunError> {
        let mut options = Options::new(&config.kubernetes.node);
        options.socket.clone_from(&config.kubernetes.socket);
        options.api = ApiOptions::in_pod(|variable| std::env::var(variable).ok());
        let kubernetes = options.has_kubelet().then(|| Kubernetes::start(options));
        let slurm = is_there(&config.slurm.scontrol)
            .then(|| SlurmWatch::start(SlurmOptions::new(config)))
            .transpose()
            .map_err(RunError::Thread)?;
        Ok(Self { kubernetes, slurm, devices: Mutex::default() })
    }

    /// Says which GPUs and instances there are.
    pub fn set_devices(&self, devices: &[Arc<GpuIdentity>]) {
        let devices: Vec<NodeDevice> = devices.iter().map(|device| NodeDevice::from(device.as_ref())).collect();
        if let Some(slurm) = &self.slurm {
            slurm.set_devices(devices.clone());
        }
        *self.devices.lock().unwrap_or_else(PoisonError::into_inner) = devices;
    }

    /// What each told last, and which jobs there are now.
    pub fn snapshots(&self) -> Vec<Arc<Snapshot>> {
        let kubernetes = self.kubernetes.as_ref().map(Kubernetes::snapshot);
        kubernetes.into_iter().chain(self.slurm.as_ref().map(SlurmWatch::look)).collect()
    }

    /// Who holds which device by these snapshots, with who pays by these rules. A device that this node does not know (yet)
    /// is left out.
    pub fn claims(&self, snapshots: &[Arc<Snapshot>], rules: &Rules) -> Claims {
        let devices = self.devices.lock().unwrap_or_else(PoisonError::into_inner);
        let mut claims = Claims::new();
        for Claim { device, part, holder } in snapshots.iter().flat_map(|snapshot| &snapshot.claims) {
            if let Some(device) = device.on(&devices) {
                let owner = mapping::apply(rules, holder.clone()).owner;
                claims.entry(device.uuid.clone()).or_default().push((*part, owner));
            }
        }
        claims
    }
}

/// Whether a program is a file, or a name that `PATH` has.
fn is_there(program: &Path) -> bool {
    if program.components().count() > 1 {
        return program.is_file();
    }
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|folder| folder.join(program).is_file())
}
