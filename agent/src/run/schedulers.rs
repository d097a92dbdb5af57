//! The schedulers of this node: what they told last, for the owners of its processes and of its devices.
//!
//! Each has threads or tasks of its own that ask it; a tick takes what is there, and looks at the control groups of Slurm's
//! jobs. Kubernetes is asked where a kubelet has its folder, Slurm where `scontrol` is. One that is not there at the start may
//! come later, as when the node is being set up: it is looked for again by a thread that does nothing else, since a path may be on
//! a file system that hangs.
//!
//! # In order
//!
//! Kubernetes comes first. A device of which it says who holds it, or that is an instance of such a GPU, is not held by Slurm's
//! word, whatever that says: where Slurm runs inside of pods, its jobs have what their pods were given, and a node that both
//! give away has one of them wrong, most likely the one that counts devices without asking for them (`gres.conf`). So no device
//! is held twice, and a job's processes there are like any process beside those who were given a device
//! ([`attribute`](super::attribute)): the pod's where their control group is the pod's, else without a part. What Kubernetes
//! says of an instance leaves Slurm's word on the rest of the GPU, and when it ceases to count
//! ([`Snapshot::expired`]), Slurm's counts again.

use std::collections::HashSet;
use std::io;
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::Builder;
use std::time::Duration;

use contador_schemas::mapping::Rules;
use contador_schemas::owner::Owner;
use tokio::runtime::Handle;
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

/// How often those that are not there are looked for.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// Stack of the thread that looks, in bytes.
const STACK_BYTES: usize = 256 << 10;

/// Those that are asked.
#[derive(Debug)]
pub struct Schedulers {
    known: Arc<Known>,
    /// Ends the thread that looks for others.
    _looks: Option<mpsc::Sender<()>>,
}

/// Those that are there.
#[derive(Debug, Default)]
struct Known {
    kubernetes: OnceLock<Kubernetes>,
    slurm: OnceLock<SlurmWatch>,
    /// The GPUs and instances of this node. Whoever is found is told of them before others may be said.
    devices: Mutex<Arc<[NodeDevice]>>,
}

/// Where each is looked for.
#[derive(Clone, Debug)]
struct Places {
    kubernetes: Options,
    slurm: SlurmOptions,
}

impl Schedulers {
    /// Begins to ask those that are here, and to look for the others now and then. Within a tokio runtime, when there is a
    /// kubelet.
    ///
    /// # Errors
    /// [`RunError::Thread`].
    pub fn start(config: &Config) -> Result<Self, RunError> {
        Self::looking_every(config, LOOK_AGAIN).map_err(RunError::Thread)
    }

    /// The same, where those that are not here are looked for so often.
    ///
    /// # Errors
    /// When the operating system refuses a thread.
    pub fn looking_every(config: &Config, every: Duration) -> io::Result<Self> {
        let kubernetes = Options::configured(&config.kubernetes, |variable| std::env::var(variable).ok());
        let places = Places { kubernetes, slurm: SlurmOptions::new(config) };
        let (known, runtime) = (Arc::new(Known::default()), Handle::try_current().ok());
        if known.look(&places)? {
            return Ok(Self { known, _looks: None });
        }
        let (looks, ended) = mpsc::channel::<()>();
        let looking = Arc::downgrade(&known);
        let look = move || {
            let _inside = runtime.as_ref().map(Handle::enter);
            while ended.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                let Some(known) = looking.upgrade() else { return };
                match known.look(&places) {
                    Ok(false) => {}
                    Ok(true) => return,
                    Err(error) => tracing::warn!(%error, "cannot ask a scheduler"),
                }
            }
        };
        Builder::new().name("schedulers".into()).stack_size(STACK_BYTES).spawn(look)?;
        Ok(Self { known, _looks: Some(looks) })
    }

    /// Says which GPUs and instances there are.
    pub fn set_devices(&self, devices: &[Arc<GpuIdentity>]) {
        let devices: Arc<[NodeDevice]> = NodeDevice::all(devices).into();
        let mut known = self.known.devices.lock().unwrap_or_else(PoisonError::into_inner);
        *known = Arc::clone(&devices);
        if let Some(kubernetes) = self.known.kubernetes.get() {
            kubernetes.set_devices(Arc::clone(&devices));
        }
        if let Some(slurm) = self.known.slurm.get() {
            slurm.set_devices(devices);
        }
    }

    /// What each told last, and which jobs there are now: Kubernetes before Slurm.
    pub fn snapshots(&self) -> Vec<Arc<Snapshot>> {
        let kubernetes = self.known.kubernetes.get().map(Kubernetes::snapshot);
        kubernetes.into_iter().chain(self.known.slurm.get().map(SlurmWatch::look)).collect()
    }

    /// The same, as soon as all have told what there is, or that they can't; when some have not by `deadline`, that is their
    /// fault.
    pub async fn asked(&self, deadline: Instant) -> Vec<Arc<Snapshot>> {
        loop {
            let mut told = self.snapshots();
            let is_late = Instant::now() >= deadline;
            if is_late {
                for silent in told.iter_mut().filter(|told| told.is_silent()) {
                    let silent = Arc::make_mut(silent);
                    silent.fault.get_or_insert_with(|| "a scheduler has not answered yet".to_owned());
                }
            }
            if is_late || !told.iter().any(|told| told.is_silent()) {
                return told;
            }
            tokio::time::sleep_until((Instant::now() + LOOK).min(deadline)).await;
        }
    }

    /// The GPUs and instances there are: the same [`Arc`] until others are said.
    pub fn devices(&self) -> Arc<[NodeDevice]> {
        Arc::clone(&self.known.devices.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Known {
    /// Begins to ask whoever is there now, and was not before; whether all are.
    fn look(&self, places: &Places) -> io::Result<bool> {
        let may_come = self.kubernetes.get().is_none() && Handle::try_current().is_ok();
        if may_come && places.kubernetes.has_kubelet() {
            tracing::info!(socket = %places.kubernetes.socket.display(), "the kubelet is asked who holds GPUs");
            let kubernetes = Kubernetes::start(places.kubernetes.clone());
            let devices = self.devices.lock().unwrap_or_else(PoisonError::into_inner);
            kubernetes.set_devices(Arc::clone(&devices));
            _ = self.kubernetes.set(kubernetes);
        }
        if self.slurm.get().is_none() && is_there(&places.slurm.scontrol) {
            tracing::info!(scontrol = %places.slurm.scontrol.display(), "Slurm is asked who holds GPUs");
            let slurm = SlurmWatch::start(places.slurm.clone())?;
            let devices = self.devices.lock().unwrap_or_else(PoisonError::into_inner);
            slurm.set_devices(Arc::clone(&devices));
            _ = self.slurm.set(slurm);
        }
        Ok(self.kubernetes.get().is_some() && self.slurm.get().is_some())
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
/// is left out; so is what an earlier snapshot has given already, itself or with its GPU.
pub fn claims(snapshots: &[Arc<Snapshot>], devices: &[NodeDevice], rules: &Rules) -> Claims {
    let mut claims = Claims::new();
    for told in snapshots {
        let given: HashSet<String> = claims.keys().cloned().collect();
        for Claim { device, part, holder } in told.claims.iter() {
            let Some(device) = device.on(devices).filter(|device| !is_given(device, &given, devices)) else { continue };
            let owner = mapping::apply(rules, holder.clone()).owner.into();
            claims.entry(device.uuid.clone()).or_default().push((*part, owner));
        }
    }
    claims
}

/// Whether a device, or the GPU that it is an instance of, is among those that were given.
fn is_given(device: &NodeDevice, given: &HashSet<String>, devices: &[NodeDevice]) -> bool {
    let is_gpu = |gpu: &&NodeDevice| gpu.gpu_instance.is_none() && gpu.minor.is_some() && gpu.minor == device.minor;
    let gpu = || devices.iter().find(is_gpu).filter(|_| device.gpu_instance.is_some());
    given.contains(&device.uuid) || (!given.is_empty() && gpu().is_some_and(|gpu| given.contains(&gpu.uuid)))
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::config::Overrides;
    use crate::owners::DeviceId;
    use crate::owners::claim::{Named, Part};
    use crate::owners::slurm::fixture;

    fn node() -> Vec<NodeDevice> {
        let gpu = |minor| NodeDevice { uuid: format!("GPU-{minor}"), minor: Some(minor), ..NodeDevice::default() };
        let instance = |uuid: &str, gpu_instance| NodeDevice {
            uuid: uuid.into(),
            minor: Some(1),
            gpu_instance: Some(gpu_instance),
            ..NodeDevice::default()
        };
        vec![gpu(0), gpu(1), instance("MIG-1", 1), instance("MIG-2", 2), gpu(2)]
    }

    /// A pod or a job, `name`, was given devices, each a minor number and an instance.
    fn told(name: &str, devices: &[(u32, Option<u32>)]) -> Arc<Snapshot> {
        let owner = Owner { job: name.into(), ..Owner::default() };
        let claim = |&(minor, gpu_instance): &(u32, Option<u32>)| Claim {
            device: DeviceId::Node { minor, gpu_instance },
            part: Part::Even,
            holder: Named { owner: owner.clone(), ..Named::default() },
        };
        let claims: Vec<Claim> = devices.iter().map(claim).collect();
        Arc::new(Snapshot { claims: claims.into(), ..Snapshot::default() })
    }

    /// Who holds which device.
    fn held(snapshots: &[Arc<Snapshot>]) -> Vec<(String, Vec<String>)> {
        let claims = claims(snapshots, &node(), &Rules::default());
        let names = claims
            .into_iter()
            .map(|(uuid, given)| (uuid, given.into_iter().map(|(_, owner)| owner.job.clone()).collect::<Vec<_>>()));
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }

    #[test]
    fn the_word_of_kubernetes_comes_before_that_of_slurm() {
        let by = |of: &[(&str, &[&str])]| -> Vec<(String, Vec<String>)> {
            let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
            of.iter().map(|(uuid, given)| ((*uuid).to_owned(), names(given))).collect()
        };
        let (whole, instance) = ((1, None), (1, Some(1)));
        for (pod, job, expected) in [
            (&[(0, None)][..], &[(0, None), (2, None)][..], by(&[("GPU-0", &["pod"]), ("GPU-2", &["job"])])),
            // Twice by one of them is not both.
            (&[(0, None), (0, None)], &[(0, None)], by(&[("GPU-0", &["pod", "pod"])])),
            (&[], &[(0, None), (0, None)], by(&[("GPU-0", &["job", "job"])])),
            // A GPU is given with its instances, and an instance leaves the rest of its GPU.
            (&[whole], &[instance, (2, None)], by(&[("GPU-1", &["pod"]), ("GPU-2", &["job"])])),
            (
                &[instance],
                &[whole, instance, (1, Some(2))],
                by(&[("GPU-1", &["job"]), ("MIG-1", &["pod"]), ("MIG-2", &["job"])]),
            ),
        ] {
            assert_eq!(held(&[told("pod", pod), told("job", job)]), expected, "{pod:?} {job:?}");
        }
    }

    async fn until(schedulers: &Schedulers, is_so: impl Fn(&[Arc<Snapshot>]) -> bool) {
        let start = std::time::Instant::now();
        while !is_so(&schedulers.snapshots()) {
            assert!(start.elapsed() < Duration::from_secs(30), "{:?}", schedulers.snapshots());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    #[tokio::test]
    async fn who_comes_later_is_found_and_knows_the_devices() {
        let dir = tempfile::tempdir().unwrap();
        let (socket, scontrol) = (dir.path().join("pod-resources/kubelet.sock"), dir.path().join("bin/scontrol"));
        let mut config = Config::parse("", Path::new("agent.toml"), &Overrides::default()).unwrap();
        (config.kubernetes.socket, config.slurm.scontrol) = (socket.clone(), scontrol.clone());
        config.roots.cgroup = dir.path().join("cgroup");
        config.roots.proc = dir.path().join("proc");
        let schedulers = Schedulers::looking_every(&config, Duration::from_millis(5)).unwrap();
        assert!(schedulers.snapshots().is_empty());
        let gpu = |uuid: &str| NodeDevice { uuid: uuid.into(), minor: Some(0), ..NodeDevice::default() };
        *schedulers.known.devices.lock().unwrap() = [gpu("GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77")].into();

        fs::create_dir_all(dir.path().join("bin")).unwrap();
        fs::write(&scontrol, "#!/bin/sh\nexit 1\n").unwrap();
        fs::set_permissions(&scontrol, fs::Permissions::from_mode(0o755)).unwrap();
        until(&schedulers, |told| told.len() == 1).await;
        // It knows which device the job's is.
        fixture::job_on_first_device(dir.path());
        let uuid = "GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77";
        until(&schedulers, |told| told[0].claims.iter().any(|claim| claim.device.to_string() == uuid)).await;

        fs::create_dir_all(socket.parent().unwrap()).unwrap();
        until(&schedulers, |told| told.len() == 2).await;
        // Kubernetes is the first: there is no socket yet.
        let reason = |told: &[Arc<Snapshot>]| told[0].fault.clone().unwrap_or_default();
        until(&schedulers, |told| reason(told).starts_with("kubelet at /")).await;
        // Nobody is looked for any more.
        until(&schedulers, |_| Arc::weak_count(&schedulers.known) == 0).await;
    }

    #[test]
    fn nobody_looks_when_nobody_asks() {
        let mut config = Config::parse("", Path::new("agent.toml"), &Overrides::default()).unwrap();
        config.kubernetes.socket = "/nonexistent/kubelet.sock".into();
        config.slurm.scontrol = "/nonexistent/scontrol".into();
        let schedulers = Schedulers::looking_every(&config, Duration::from_secs(3_600)).unwrap();
        let known = Arc::clone(&schedulers.known);
        assert_eq!(Arc::weak_count(&known), 1);
        drop(schedulers);
        let start = std::time::Instant::now();
        while Arc::weak_count(&known) > 0 {
            assert!(start.elapsed() < Duration::from_secs(30), "the thread goes on");
            std::thread::yield_now();
        }
    }
}
