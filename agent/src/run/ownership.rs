//! Whose the processes and the devices of this node are at an instant, with who pays for them.
//!
//! [`ProcessOwners`] says whose a process is, a scheduler's snapshot who was given a device, and the rules who pays. Both are
//! sensors: samples don't wait for them longer than for any other, and a process of which nothing can be read for ever does not
//! have anybody hold a device that a scheduler has taken from him. Most of it is as it was at the instant before, so what
//! was made of it is kept, and made again only when what it is made of is another:
//!
//! | what | is made of |
//! |---|---|
//! | the owner of a process | what [`ProcessOwners`] says of it: as long as that is the same, it is the same [`Arc`]; and the rules |
//! | the claims on devices | the claims in the snapshots, which are the same [`Arc`] as long as schedulers tell the same; which devices there are; and the rules |
//!
//! The rules are the configuration's, which does not change while an agent runs.

use std::collections::HashMap;
use std::sync::Arc;

use contador_schemas::mapping::Rules;

use super::attribute::Claims;
use super::schedulers;
use crate::owners::claim::{Named, Snapshot};
use crate::owners::process::{Owners, is_same};
use crate::owners::{Identified, NodeDevice, ProcessOwners, mapping};

/// Whose the processes were at one instant.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OwnersSample {
    /// When that was asked, Unix milliseconds.
    pub ts_ms: i64,
    /// Of which processes.
    pub pids: Vec<u32>,
    /// The owner of each that exists.
    pub owners: Arc<HashMap<u32, Identified>>,
}

/// Who was given the devices at one instant.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GivenSample {
    /// When that was asked, Unix milliseconds.
    pub ts_ms: i64,
    /// Who was given a device, or a part of it, by the device's UUID.
    pub claims: Arc<Claims>,
    /// What that is from: what each scheduler had told.
    pub snapshots: Vec<Arc<Snapshot>>,
    /// Of these GPUs and instances.
    pub devices: Arc<[NodeDevice]>,
}

/// Whose the processes were found to be at the last instant.
#[derive(Debug)]
pub struct Ownership {
    processes: ProcessOwners,
    rules: Arc<Rules>,
    /// Whose each process is, without who pays.
    found: Owners,
    owners: Arc<HashMap<u32, Identified>>,
}

/// Who was given what at the last instant.
#[derive(Debug)]
pub struct Given {
    rules: Arc<Rules>,
    last: GivenSample,
}

impl Given {
    /// Nothing was told yet.
    pub fn new(rules: Arc<Rules>) -> Self {
        Self { rules, last: GivenSample::default() }
    }

    /// Who was given which of these devices at `ts_ms` (Unix milliseconds), by what schedulers have told last.
    pub fn at(&mut self, ts_ms: i64, snapshots: Vec<Arc<Snapshot>>, devices: Arc<[NodeDevice]>) -> GivenSample {
        let is_same = Arc::ptr_eq(&devices, &self.last.devices) && has_same_claims(&snapshots, &self.last.snapshots);
        let claims = match is_same {
            true => Arc::clone(&self.last.claims),
            false => Arc::new(schedulers::claims(&snapshots, &devices, &self.rules)),
        };
        self.last = GivenSample { ts_ms, claims, snapshots, devices };
        self.last.clone()
    }
}

impl Ownership {
    /// Nothing is known yet.
    pub fn new(processes: ProcessOwners, rules: Arc<Rules>) -> Self {
        Self {
            processes: processes.with_variables(rules.variables()),
            rules,
            found: Owners::default(),
            owners: Arc::default(),
        }
    }

    /// Whose these processes are at `ts_ms` (Unix milliseconds), by what schedulers have told last.
    pub fn at(&mut self, ts_ms: i64, pids: Vec<u32>, snapshots: &[Arc<Snapshot>]) -> OwnersSample {
        let found = self.processes.resolve(&pids, ts_ms, snapshots);
        if !Arc::ptr_eq(&found, &self.found) {
            let owner = |(pid, named): (&u32, &Arc<Named>)| {
                let known = self.owners.get(pid).filter(|_| is_same(self.found.get(pid), named));
                (*pid, known.cloned().unwrap_or_else(|| self.payer(named)))
            };
            self.owners = Arc::new(found.iter().map(owner).collect());
            self.found = found;
        }
        OwnersSample { ts_ms, pids, owners: Arc::clone(&self.owners) }
    }

    fn payer(&self, named: &Named) -> Identified {
        mapping::apply(&self.rules, named.clone()).owner.into()
    }
}

/// Whether both say the same of devices.
fn has_same_claims(one: &[Arc<Snapshot>], other: &[Arc<Snapshot>]) -> bool {
    let is_same = |(one, other): (&Arc<Snapshot>, &Arc<Snapshot>)| {
        Arc::ptr_eq(&one.claims, &other.claims) || one.claims == other.claims
    };
    one.len() == other.len() && one.iter().zip(other).all(is_same)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::path::Path;

    use contador_schemas::owner::Owner;
    use proptest::collection::{btree_map, vec};
    use proptest::prelude::*;

    use super::*;
    use crate::config::{Config, Overrides};
    use crate::owners::DeviceId;
    use crate::owners::claim::{Claim, Part};

    const RULES: &str = "[[owners.rule]]\nname = \"a\"\nmatch.pod = \"pod-1\"\nset.department = \"{k8s.label.team}\"\n\
                         [owners.default]\nproject = \"of {command}\"\n";

    /// What is there at one instant.
    #[derive(Clone, Debug)]
    struct Step {
        /// By PID, when it was started: which says, too, what its environment and its control group are.
        processes: BTreeMap<u32, u32>,
        /// By pod, the team that its label names.
        works: BTreeMap<u32, u32>,
        /// Device, part and pod.
        claims: Vec<(u32, u32, u32)>,
        devices: u32,
    }

    fn step() -> impl Strategy<Value = Step> {
        let claims = vec((0_u32..3, 1_u32..3, 0_u32..3), 0..3);
        (btree_map(1_u32..5, 0_u32..9, 0..5), btree_map(0_u32..3, 0_u32..2, 0..3), claims, 0_u32..3)
            .prop_map(|(processes, works, claims, devices)| Step { processes, works, claims, devices })
    }

    fn named(pod: u32, team: u32) -> Named {
        let owner = Owner { namespace: "lab".into(), pod: format!("pod-{pod}"), ..Owner::default() };
        Named { owner, labels: [("k8s.label.team".to_owned(), format!("team-{team}"))].into() }
    }

    fn gpu(number: u32) -> NodeDevice {
        NodeDevice { uuid: format!("GPU-{number}"), minor: Some(number), ..NodeDevice::default() }
    }

    impl Step {
        /// Has the folder be `/proc`.
        fn write(&self, proc: &Path) {
            for pid in 1..5_u32 {
                let dir = proc.join(pid.to_string());
                _ = fs::remove_dir_all(&dir);
                let Some(started) = self.processes.get(&pid) else { continue };
                fs::create_dir_all(&dir).unwrap();
                fs::write(dir.join("stat"), format!("{pid} (python3) S 0 {}{started}", "0 ".repeat(17))).unwrap();
                let project =
                    if started % 2 == 0 { format!("CONTADOR_OWNER_PROJECT=p{started}") } else { String::new() };
                fs::write(dir.join("environ"), project).unwrap();
                fs::write(dir.join("cgroup"), format!("0::/kubepods/burstable/pod{}\n", uid(started % 3))).unwrap();
            }
        }

        fn snapshot(&self) -> Arc<Snapshot> {
            let works = self.works.iter().map(|(pod, team)| (uid(*pod), named(*pod, *team))).collect::<HashMap<_, _>>();
            let claims = self.claims.iter().map(|&(minor, part, pod)| Claim {
                device: DeviceId::Node { minor, gpu_instance: None },
                part: Part::Ppm(part),
                holder: named(pod, 0),
            });
            let (claims, works) = (Arc::new(claims.collect()), works.into());
            Arc::new(Snapshot { told_ms: 1, claims, works, ..Snapshot::default() })
        }
    }

    fn uid(pod: u32) -> String {
        format!("3a6f0f0e-1c61-4d5c-9f6b-{pod:012x}")
    }

    /// Both.
    struct Kept(Given, Ownership);

    impl Kept {
        fn new(proc: &Path) -> Self {
            let rules = Config::parse(RULES, Path::new("agent.toml"), &Overrides::default()).unwrap().rules;
            let processes = ProcessOwners::new(proc.to_owned(), proc.join("passwd"));
            Self(Given::new(Arc::clone(&rules)), Ownership::new(processes, rules))
        }

        fn at(
            &mut self,
            ts_ms: i64,
            pids: Vec<u32>,
            snapshot: Arc<Snapshot>,
            devices: &Arc<[NodeDevice]>,
        ) -> (GivenSample, OwnersSample) {
            let given = self.0.at(ts_ms, vec![snapshot], Arc::clone(devices));
            let owners = self.1.at(ts_ms, pids, &given.snapshots);
            (given, owners)
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn what_is_kept_is_what_would_be_found_anew(steps in vec(step(), 1..8)) {
            let proc = tempfile::tempdir().unwrap();
            let mut kept = Kept::new(proc.path());
            let mut devices: Arc<[NodeDevice]> = Arc::default();
            for (step, second) in steps.iter().zip(0..) {
                step.write(proc.path());
                if usize::try_from(step.devices).unwrap() != devices.len() {
                    devices = (0..step.devices).map(gpu).collect();
                }
                let pids: Vec<u32> = (1..5).collect();
                let found = kept.at(second * 1_000, pids.clone(), step.snapshot(), &devices);
                let anew = Kept::new(proc.path()).at(second * 1_000, pids, step.snapshot(), &devices);
                prop_assert_eq!(&found, &anew);
                prop_assert_eq!(found.1.owners.len(), step.processes.len());
            }
        }
    }

    #[test]
    fn a_gpu_instance_is_known_by_the_device_node_of_its_gpu() {
        let instance =
            NodeDevice { uuid: "MIG-5".into(), minor: Some(1), gpu_instance: Some(5), ..NodeDevice::default() };
        let devices = [gpu(0), gpu(1), instance];
        let claim = |minor, gpu_instance| Claim {
            device: DeviceId::Node { minor, gpu_instance },
            part: Part::Even,
            holder: named(1, 0),
        };
        let claims = vec![claim(1, Some(5)), claim(1, None), claim(0, Some(5)), claim(1, Some(4))];
        let snapshot = Arc::new(Snapshot { claims: claims.into(), ..Snapshot::default() });
        let found = schedulers::claims(&[snapshot], &devices, &Rules::default());
        let mut uuids: Vec<&str> = found.keys().map(String::as_str).collect();
        uuids.sort_unstable();
        assert_eq!(uuids, ["GPU-1", "MIG-5"]);
    }

    #[test]
    fn what_is_told_again_is_not_made_again() {
        let proc = tempfile::tempdir().unwrap();
        let step = Step {
            processes: [(1, 1), (2, 4)].into(),
            works: [(1, 0)].into(),
            claims: vec![(0, 1, 1), (7, 1, 1)],
            devices: 1,
        };
        step.write(proc.path());
        let (mut kept, devices) = (Kept::new(proc.path()), [gpu(0)].into());
        let mut at = |second: i64, step: &Step, devices: &Arc<[NodeDevice]>| {
            kept.at(second * 1_000, vec![1, 2], step.snapshot(), devices)
        };
        let (given, first) = at(0, &step, &devices);
        let owner = |sample: &OwnersSample| sample.owners[&1].clone();
        assert_eq!((owner(&first).pod.as_str(), owner(&first).department.as_str()), ("pod-1", "team-0"));
        assert_eq!(given.claims["GPU-0"], [(Part::Ppm(1), owner(&first))]);
        assert_eq!(given.claims.len(), 1, "a device that is not known (yet)");
        // Also when the processes are looked up again.
        for second in [1, 2, 31, 62] {
            let (still, again) = at(second, &step, &devices);
            assert!(Arc::ptr_eq(&again.owners, &first.owners) && Arc::ptr_eq(&still.claims, &given.claims));
        }
        let relabelled = Step { works: [(1, 1)].into(), ..step.clone() };
        let (still, then) = at(63, &relabelled, &devices);
        assert_eq!((owner(&then).department.as_str(), &still.claims), ("team-1", &given.claims));
        let more = [gpu(0), gpu(7)].into();
        assert_eq!(at(64, &relabelled, &more).0.claims.len(), 2);
    }
}
