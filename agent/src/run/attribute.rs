//! A device's sample, who was given it, and the owners of its processes, as a tick of the ledger: the join.
//!
//! | | nobody was given the device | somebody was |
//! |---|---|---|
//! | a process of somebody who was, or of the pod or job that was | | is added to what he holds ([`is_work_of`](crate::owners::claim::is_work_of)) |
//! | a process of somebody else | holds an even part | has no part, but its memory, and its energy and busy time where they are measured |
//! | a process that nobody claims | is *unattributed*, with an even part | is *unattributed*, without a part |
//! | no process, no work | the device is idle | he holds it |
//! | no process, and it works | *unattributed* | he holds it |
//!
//! Who was given a GPU that is split holds each of its instances that was given to nobody, and what no instance covers.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use contador_schemas::names;
use contador_schemas::owner::{Owner, OwnerKind};

use crate::ledger::slices::{self, Board, Slices};
use crate::ledger::tick::{Holder, Instance, Tick, holders, ppm};
use crate::owners::Identified;
use crate::owners::claim::Part;
use crate::sensors::{GpuIdentity, GpuProcess, GpuSample, ProcessKind, Reading};

/// Of whom nothing is known.
static NOBODY: LazyLock<Identified> = LazyLock::new(|| Owner::of_kind(OwnerKind::Unattributed).into());

/// The kernel's name of `nvidia-cuda-mps-server`, which is cut to 15 bytes.
const MPS_SERVER: &str = "nvidia-cuda-mps";

/// Who was given a device, and how much of it, by the device's UUID.
pub type Claims = HashMap<String, Vec<(Part, Identified)>>;

/// Whose everything is, as far as it is known.
#[derive(Clone, Copy, Debug)]
pub struct Known<'k> {
    /// The owner of each process that exists.
    pub owners: &'k HashMap<u32, Identified>,
    /// Who was given what.
    pub claims: &'k Claims,
    /// When not, a process that `owners` lacks may be a new one.
    pub fresh: bool,
}

/// The tick that a GPU's sample makes, with those of its MIG instances that were taken with it, and their weights
/// ([`weights`]); `None` when the driver failed to say who holds one of them, and the state before still holds: until it is
/// `stale`, that is, would be too old at the next tick.
///
/// When the owners are not [`fresh`](Known::fresh), and lack one of the processes, there is no tick either until the state is
/// `stale`; then that process is *unattributed*. The holder of a device that was given to nobody is *unattributed*
///
/// - while the device works (its utilisation is above 0) and no process of it can be seen: the driver lists none, or those
///   that it lists are not under `/proc`, as in a container without the host's PIDs;
/// - while the device works or has memory in use, and the driver can't tell processes at all, or has failed to for as long
///   as a state may hold.
pub fn tick(
    sample: &GpuSample,
    instances: &[(&GpuSample, u64)],
    simulated: bool,
    known: Known<'_>,
    stale: bool,
) -> Option<Tick> {
    let given = given_of(sample, known.claims);
    let is_split = !instances.is_empty() || sample.measures.count(names::MIG_INSTANCES) == Some(0);
    let mut holders = held(sample, given, known, stale)?;
    let mut split = None;
    if is_split {
        holders = beside(sample, instances, given, known);
        let mut parts = Vec::with_capacity(instances.len());
        for &(instance, weight) in instances {
            parts.push(Instance {
                device: instance.uuid.clone(),
                weight,
                holders: held(instance, given_of(instance, known.claims), known, stale)?,
                utilization_ppm: activity(instance).map(ppm),
            });
        }
        split = Some(parts);
    }
    Some(Tick {
        device: sample.uuid.clone(),
        simulated,
        instant_ms: sample.ts_ms,
        holders,
        utilization_ppm: activity(sample).map(ppm),
        energy_mj: sample.measures.count(names::ENERGY),
        split,
    })
}

/// Who holds a device, of itself: a GPU, whether or not it is split, or a MIG instance. See [`tick`].
pub fn held(sample: &GpuSample, given: &[(Part, Identified)], known: Known<'_>, stale: bool) -> Option<Vec<Holder>> {
    let memory = sample.measures.count(names::GPU_MEMORY_USAGE);
    let used = memory.unwrap_or(0);
    let activity = activity(sample);
    let busy = activity.is_some_and(|share| share > 0.0);
    let unattributed = || holders([], [(&*NOBODY, used, None)]);
    let claims = || given.iter().map(|(part, owner)| (*part, owner));
    match &sample.processes {
        Reading::Value(processes) => {
            if !known.fresh && !stale && processes.iter().any(|process| !known.owners.contains_key(&process.pid)) {
                return None;
            }
            let held = holders(claims(), owned(processes.iter(), known));
            Some(if held.is_empty() && busy { unattributed() } else { held })
        }
        // A device of which nothing is known is not metered at all. Of one that is split by MIG only its memory is.
        Reading::Failed(_) if !stale || (activity.is_none() && memory.is_none()) => None,
        Reading::Unsupported(_) | Reading::Failed(_) => Some(match given {
            [] if busy || used > 0 => unattributed(),
            [] => Vec::new(),
            // All of its memory is his.
            [(part, owner)] => holders([(*part, owner)], [(owner, used, None)]),
            _ => holders(claims(), []),
        }),
    }
}

/// Who holds what no instance of a GPU covers: who was given the GPU, and processes that are on no instance.
fn beside(
    sample: &GpuSample,
    instances: &[(&GpuSample, u64)],
    given: &[(Part, Identified)],
    known: Known<'_>,
) -> Vec<Holder> {
    let place = |process: &GpuProcess| (process.pid, process.gpu_instance, process.compute_instance);
    let on_instances = instances.iter().flat_map(|(instance, _)| instance.processes.value()).flatten();
    let on_instances: HashSet<_> = on_instances.map(place).collect();
    let all = sample.processes.value().into_iter().flatten();
    let rest = all.filter(|process| !on_instances.contains(&place(process)));
    holders(given.iter().map(|(part, owner)| (*part, owner)), owned(rest, known))
}

/// What the processes that exist have of a device, by owner. The server of MPS works for its clients, and has nothing beside
/// them.
fn owned<'k>(
    processes: impl Iterator<Item = &'k GpuProcess> + Clone,
    known: Known<'k>,
) -> impl Iterator<Item = (&'k Identified, u64, Option<f64>)> {
    let has_clients = processes.clone().any(|process| process.kind == ProcessKind::Mps);
    let is_server = move |process: &GpuProcess, owner: &Owner| {
        has_clients && process.kind == ProcessKind::Compute && owner.command.starts_with(MPS_SERVER)
    };
    processes.filter_map(move |process| {
        // When it can't be found out whose it is, it is nobody's, and not dead.
        let owner = known.owners.get(&process.pid).or_else(|| (!known.fresh).then_some(&*NOBODY))?;
        let has = (owner, process.memory_bytes.get().unwrap_or(0), process.sm_util);
        (!is_server(process, owner)).then_some(has)
    })
}

/// Who was given a device; of an instance that was given to nobody, its GPU.
pub fn given_of<'c>(sample: &GpuSample, claims: &'c Claims) -> &'c [(Part, Identified)] {
    let given = |device: &String| claims.get(device).map(Vec::as_slice);
    given(&sample.uuid).or_else(|| given(sample.parent.as_ref()?)).unwrap_or_default()
}

/// How much of the time a device works: its utilisation, and a MIG instance's, which has none, by GPM.
fn activity(sample: &GpuSample) -> Option<f64> {
    let of_part = || sample.parent.as_ref().and_then(|_| sample.measures.f64(names::GPM_GRAPHICS));
    sample.measures.f64(names::GPU_UTILIZATION).or_else(of_part)
}

/// The samples of a GPU's instances that were taken with its own, each UUID once, with what each one weighs of the GPU. `devices`
/// say what their slices are.
pub fn weights<'s>(
    sample: &GpuSample,
    samples: &'s [GpuSample],
    devices: &[impl AsRef<GpuIdentity>],
) -> Vec<(&'s GpuSample, u64)> {
    let mut seen = HashSet::new();
    let is_part = |part: &&GpuSample| part.parent.as_deref() == Some(&sample.uuid) && part.ts_ms == sample.ts_ms;
    let parts: Vec<&GpuSample> = samples.iter().filter(is_part).filter(|part| seen.insert(&part.uuid)).collect();
    if parts.is_empty() {
        return Vec::new();
    }
    let identity = |uuid: &str| devices.iter().map(AsRef::as_ref).find(|device| device.uuid == uuid);
    let size = |device: &GpuIdentity| device.memory_total_bytes.get();
    let board_bytes = identity(&sample.uuid).and_then(size);
    let mut board = Board::default();
    let mut all = Vec::with_capacity(parts.len());
    for (part, place) in parts.iter().zip(0_u32..) {
        let device = identity(&part.uuid);
        // One that is not known yet is no other's sibling.
        let unknown = Slices { gpu_instance: u32::MAX - place, compute: None, memory: None };
        all.push(device.and_then(|device| device.mig.as_ref()).map_or(unknown, |mig| Slices {
            gpu_instance: mig.gpu_instance,
            compute: mig.compute_slices,
            memory: mig.memory_slices,
        }));
        let slices = all.last().and_then(|slices| slices.memory);
        if let (Some(board_bytes), Some(bytes), Some(slices)) = (board_bytes, device.and_then(size), slices) {
            board = Board::of_memory(board_bytes, bytes, slices);
        }
    }
    parts.into_iter().zip(slices::weights(&all, board)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sensors::{GpuProcess, Measures, Number, ProcessKind};

    fn sample(utilization: f64, used: u64, processes: Reading<Vec<GpuProcess>>) -> GpuSample {
        let mut measures = Measures::default();
        measures.add(names::GPU_UTILIZATION, Reading::Value(Number::Real(utilization / 100.0)));
        measures.add(names::GPU_MEMORY_USAGE, Reading::Value(Number::Whole(used)));
        let faults = Vec::new();
        GpuSample { ts_ms: 1_000, uuid: "GPU-1".into(), parent: None, measures, processes, faults, rejected: 0 }
    }

    fn owner(department: &str) -> Identified {
        Owner { department: department.into(), ..Owner::default() }.into()
    }

    fn booked(sample: &GpuSample, instances: &[(&GpuSample, u64)], claims: &Claims, stale: bool) -> Option<Tick> {
        let owners = HashMap::from([(7, owner("research")), (8, Owner::of_kind(OwnerKind::Unattributed).into())]);
        tick(sample, instances, false, Known { owners: &owners, claims, fresh: true }, stale)
    }

    fn held(sample: &GpuSample, stale: bool) -> Option<Vec<String>> {
        let tick = booked(sample, &[], &Claims::new(), stale)?;
        assert_eq!(tick.split, None);
        Some(tick.holders.iter().map(|holder| holder.owner.label()).collect())
    }

    /// Who holds what, by name: part and memory in MiB.
    fn told(holders: &[Holder]) -> Vec<(String, Option<Part>, u64)> {
        let mut told: Vec<_> =
            holders.iter().map(|holder| (holder.owner.label(), holder.part, holder.memory_mib)).collect();
        told.sort_by(|one, other| one.0.cmp(&other.0));
        told
    }

    fn process(pid: u32, instance: Option<u32>) -> GpuProcess {
        GpuProcess {
            pid,
            kind: ProcessKind::Compute,
            memory_bytes: Reading::Value(5 << 20),
            sm_util: None,
            gpu_instance: instance,
            compute_instance: instance.map(|_| 0),
        }
    }

    #[test]
    fn a_process_of_which_nothing_can_be_found_out_does_not_stop_the_metering() {
        let owners = HashMap::from([(7, owner("research"))]);
        let claims = Claims::new();
        let of = |pids: &[u32], fresh, stale| {
            let processes = Reading::Value(pids.iter().map(|&pid| process(pid, None)).collect());
            let known = Known { owners: &owners, claims: &claims, fresh };
            tick(&sample(40.0, 0, processes), &[], false, known, stale).map(|tick| told(&tick.holders))
        };
        let research = ("research".to_owned(), Some(Part::Even), 5);
        let nobody = ("unattributed".to_owned(), Some(Part::Even), 5);
        assert_eq!(of(&[7, 8], false, false), None, "it may be a new one: the state before holds");
        assert_eq!(of(&[7, 8], false, true), Some(vec![research.clone(), nobody]));
        assert_eq!(of(&[7, 8], true, false), Some(vec![research.clone()]), "it is dead");
        assert_eq!(of(&[7], false, false), Some(vec![research]));
    }

    #[test]
    fn the_server_of_mps_has_no_part_beside_its_clients() {
        let server = Owner { user: "root".into(), command: "nvidia-cuda-mps".into(), ..Owner::default() }.into();
        let owners = HashMap::from([(1, server), (7, owner("research")), (8, owner("physics"))]);
        let claims = Claims::new();
        let of = |clients: &[u32]| {
            let client = |&pid: &u32| GpuProcess { kind: ProcessKind::Mps, ..process(pid, None) };
            let processes = std::iter::once(process(1, None)).chain(clients.iter().map(client)).collect();
            let known = Known { owners: &owners, claims: &claims, fresh: true };
            let held = super::held(&sample(40.0, 0, Reading::Value(processes)), &[], known, false).unwrap();
            told(&held).into_iter().map(|(name, part, _)| (name, part)).collect::<Vec<_>>()
        };
        let even = |name: &str| (name.to_owned(), Some(Part::Even));
        assert_eq!(of(&[7, 8]), [even("physics"), even("research")]);
        // Without clients it holds the device itself.
        assert_eq!(of(&[]).len(), 1);
    }

    #[test]
    fn who_was_given_a_device_holds_it_whatever_runs_there() {
        let claims = |of: &[(Part, &str)]| {
            let of = of.iter().map(|(part, name)| (*part, owner(name))).collect();
            Claims::from([("GPU-1".to_owned(), of), ("GPU-2".to_owned(), vec![(Part::Even, owner("other"))])])
        };
        let list = |pids: &[u32]| Reading::Value(pids.iter().map(|&pid| process(pid, None)).collect());
        let held = |sample: &GpuSample, claims: &Claims| {
            booked(sample, &[], claims, true).map(|tick| told(&tick.holders)).unwrap()
        };
        let (even, half) = (Some(Part::Even), Some(Part::Ppm(500_000)));
        let alone = claims(&[(Part::Ppm(500_000), "pod")]);
        let pod = |part, mib| ("pod".to_owned(), part, mib);
        // Without a process, while it works or not; a PID that is gone holds nothing.
        for pids in [&[][..], &[99]] {
            assert_eq!(held(&sample(0.0, 0, list(pids)), &alone), [pod(half, 0)]);
            assert_eq!(held(&sample(40.0, 9 << 20, list(pids)), &alone), [pod(half, 0)]);
        }
        // Somebody else's processes, and nobody's.
        let others = [pod(half, 0), ("research".into(), None, 5), ("unattributed".into(), None, 5)];
        assert_eq!(held(&sample(40.0, 0, list(&[7, 8])), &alone), others);
        // His own, beside another one's.
        let both = claims(&[(Part::Even, "research"), (Part::Even, "pod")]);
        assert_eq!(held(&sample(40.0, 0, list(&[7])), &both), [pod(even, 0), ("research".into(), even, 5)]);
        // The driver does not tell processes: memory is his who is alone.
        let unsupported = || Reading::Unsupported("no".into());
        assert_eq!(held(&sample(40.0, 9 << 20, unsupported()), &alone), [pod(half, 9)]);
        let two = [pod(even, 0), ("research".into(), even, 0)];
        assert_eq!(held(&sample(40.0, 9 << 20, unsupported()), &both), two);
        let failed = sample(40.0, 0, Reading::Failed("lost".into()));
        assert_eq!(booked(&failed, &[], &alone, false), None, "the state before holds");
        assert_eq!(held(&failed, &alone), [pod(half, 0)]);
        assert_eq!(booked(&GpuSample::failed(1_000, "GPU-1", "lost"), &[], &alone, true), None);
    }

    #[test]
    fn a_split_gpu_is_held_by_instances() {
        let on = |id| process(7, Some(id));
        let part = |uuid: &str, processes: Vec<GpuProcess>, activity: f64| {
            let mut part = sample(0.0, 0, Reading::Value(processes));
            (part.uuid, part.parent) = (uuid.to_owned(), Some("GPU-1".to_owned()));
            part.measures = Measures::default();
            part.measures.add(names::GPU_UTILIZATION, Reading::Unsupported("MIG".into()));
            part.measures.add(names::GPM_GRAPHICS, Reading::Value(Number::Real(activity)));
            part
        };
        let board = |processes| {
            let mut board = sample(0.0, 1 << 30, Reading::Value(processes));
            board.measures = Measures::default();
            board.measures.add(names::ENERGY, Reading::Value(Number::Thousandths(7)));
            board
        };
        let (one, two) = (part("MIG-1", vec![on(1)], 0.25), part("MIG-2", vec![], 0.0));
        let instances = [(&one, 5), (&two, 3)];
        let holders = |tick: &Tick| -> Vec<Vec<(String, Option<Part>, u64)>> {
            let parts = tick.split.as_ref().unwrap().iter().map(|instance| told(&instance.holders));
            std::iter::once(told(&tick.holders)).chain(parts).collect()
        };
        let nobody = Vec::new;
        let research = vec![("research".to_owned(), Some(Part::Even), 5)];
        let tick = booked(&board(vec![on(1)]), &instances, &Claims::new(), false).unwrap();
        assert_eq!(holders(&tick), [nobody(), research.clone(), nobody()]);
        assert_eq!((tick.utilization_ppm, tick.energy_mj), (None, Some(7)));
        let parts: Vec<_> =
            tick.split.iter().flatten().map(|part| (part.device.as_str(), part.weight, part.utilization_ppm)).collect();
        assert_eq!(parts, [("MIG-1", 5, Some(250_000)), ("MIG-2", 3, Some(0))]);
        // On no instance that is known, the board has it.
        let tick = booked(&board(vec![on(1), process(7, None)]), &instances, &Claims::new(), false).unwrap();
        assert_eq!(holders(&tick), [research.clone(), research.clone(), nobody()]);
        // The whole was given to one, and an instance of it to another.
        let claims = Claims::from([
            ("GPU-1".to_owned(), vec![(Part::Even, owner("whole"))]),
            ("MIG-1".to_owned(), vec![(Part::Ppm(1), owner("part"))]),
        ]);
        let tick = booked(&board(vec![on(1)]), &instances, &claims, false).unwrap();
        let whole = vec![("whole".to_owned(), Some(Part::Even), 0)];
        let of_one = vec![("part".to_owned(), Some(Part::Ppm(1)), 0), ("research".to_owned(), None, 5)];
        assert_eq!(holders(&tick), [whole.clone(), of_one, whole]);
        // MIG is on and nothing was made: that is no GPU that could be held.
        let mut bare = board(vec![]);
        bare.measures.add(names::MIG_INSTANCES, Reading::Value(Number::Whole(0)));
        assert_eq!(booked(&bare, &[], &Claims::new(), false).unwrap().split, Some(vec![]));
        // One that failed says nothing of the whole.
        let lost = GpuSample { parent: Some("GPU-1".into()), ..GpuSample::failed(1_000, "MIG-2", "lost") };
        assert_eq!(booked(&board(vec![on(1)]), &[(&one, 5), (&lost, 3)], &Claims::new(), false), None);
    }

    #[test]
    fn a_device_that_works_is_never_idle() {
        let unattributed = vec![Owner::of_kind(OwnerKind::Unattributed).label()];
        let list = |pids: &[u32]| Reading::Value(pids.iter().map(|&pid| process(pid, None)).collect());
        // A list that is there: a PID that can't be seen, or none at all.
        for pids in [&[99][..], &[]] {
            assert_eq!(held(&sample(40.0, 0, list(pids)), false), Some(unattributed.clone()), "{pids:?}");
            assert_eq!(held(&sample(0.0, 1 << 30, list(pids)), false), Some(vec![]), "{pids:?}: the dead hold nothing");
        }
        assert_eq!(held(&sample(40.0, 0, list(&[7, 99])), false), Some(vec!["research".to_owned()]));
        // No list.
        let unsupported = || Reading::Unsupported("no".into());
        assert_eq!(held(&sample(40.0, 0, unsupported()), false), Some(unattributed.clone()));
        assert_eq!(held(&sample(0.0, 1, unsupported()), false), Some(unattributed.clone()));
        assert_eq!(held(&sample(0.0, 0, unsupported()), false), Some(vec![]));
        let failed = || Reading::Failed("lost".into());
        assert_eq!(held(&sample(40.0, 0, failed()), false), None, "the state before holds");
        assert_eq!(held(&sample(40.0, 0, failed()), true), Some(unattributed));
        assert_eq!(held(&sample(0.0, 0, failed()), true), Some(vec![]));
        let split = |used| {
            let mut sample = sample(0.0, used, failed());
            sample.measures = Measures::default();
            sample.measures.add(names::GPU_UTILIZATION, Reading::Unsupported("MIG".into()));
            sample.measures.add(names::GPU_MEMORY_USAGE, Reading::Value(Number::Whole(used)));
            sample
        };
        assert_eq!(held(&split(1), true).map(|held| held.len()), Some(1), "its memory says that it is held");
        assert_eq!((held(&split(0), true), held(&split(1), false)), (Some(vec![]), None));
        let lost = GpuSample::failed(1_000, "GPU-1", "lost");
        assert_eq!(held(&lost, true), None);
    }
}
