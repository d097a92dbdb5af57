//! Whose work a control group is, by the group's path.
//!
//! The text of `/proc/PID/cgroup` has a line for each hierarchy: `0::/path` for v2, `6:freezer:/path` for v1, both on hybrid
//! systems. Schedulers and container runtimes name the groups that they make, each in the ways of its drivers (`cgroupfs`
//! makes plain folders, `systemd` makes slices and scopes):
//!
//! | who | path |
//! |---|---|
//! | kubelet | `/kubepods[/burstable\|/besteffort]/pod<uid>/<id>` |
//! | | `/kubepods.slice/[kubepods-burstable.slice/]kubepods-[burstable-]pod<uid, - as _>.slice/<runtime>-<id>.scope` |
//! | | `…/kubepods-…-pod<uid>.slice:<runtime>:<id>`, where the runtime's driver is not the kubelet's |
//! | Slurm | `/slurm[_<node>]/uid_<uid>/job_<job>[/step_<step>[/…]]` with cgroup v1 |
//! | | `/system.slice/[<node>_]slurmstepd.scope/job_<job>[/step_<step>[/user\|slurm[/…]]]` with cgroup v2 |
//! | Docker | `/docker/<id>`, `/system.slice/docker-<id>.scope`, `/…/user.slice/docker-<id>.scope` |
//! | Podman | `/machine.slice/libpod-<id>.scope`, `/user.slice/…/libpod-<id>.scope`, `/libpod_parent/libpod-<id>` |
//! | containerd | `…/cri-containerd-<id>.scope`, `…/nerdctl-<id>.scope`, `/default/<id>` |
//! | CRI-O | `…/crio-<id>.scope`, `…/crio-<id>` |
//!
//! Groups are nested: a container inside of a pod is the pod's, a container inside of a Slurm job is the job's, and a pod of a
//! cluster that runs inside of a container is itself. Of groups of one sort the outermost counts.
//! Sources: `pkg/kubelet/cm` of Kubernetes, `src/plugins/cgroup` of Slurm, `libcontainer/cgroups` of runc.

/// Most of the text that is looked at, in bytes; a path has at most 4096.
const MAX_TEXT_BYTES: usize = 64 << 10;

/// Digits of a container's id: at least, and at most.
const ID_DIGITS: std::ops::RangeInclusive<usize> = 32..=64;

/// Most characters of a pod's UID, a job or a step.
const MAX_NAME_BYTES: usize = 64;

/// What runs in a control group.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Work {
    /// A pod of Kubernetes, or a container of it.
    Pod {
        /// The pod's UID with dashes. That of a static pod is the hash of its manifest, as the kubelet lists it.
        uid: String,
        /// The container's id; `None` in the pod's own group.
        container: Option<String>,
    },
    /// A job of Slurm, or a step of it.
    SlurmJob {
        /// The job's number, or the id that newer releases have in its place.
        job: String,
        /// `0`, `batch`, `extern`, `interactive` and so on; `None` in the job's own group.
        step: Option<String>,
        /// Who runs it, where the path tells (cgroup v1).
        uid: Option<u32>,
    },
    /// A container that no scheduler started.
    Container {
        /// The runtime: `docker`, `podman`, `containerd`, `cri-o`; empty where the path does not tell.
        runtime: &'static str,
        /// The whole id.
        id: String,
    },
}

impl Work {
    /// How much a work says about whose it is.
    fn rank(&self) -> u8 {
        match self {
            Self::Pod { container: Some(_), .. } => 5,
            Self::Pod { container: None, .. } => 4,
            Self::SlurmJob { step: Some(_), .. } => 3,
            Self::SlurmJob { step: None, .. } => 2,
            Self::Container { .. } => 1,
        }
    }
}

/// The work that the text of `/proc/PID/cgroup` names, in the hierarchy that tells most; `None` when no hierarchy names any.
/// Any text has an answer.
pub fn work_in(text: &str) -> Option<Work> {
    let mut best: Option<Work> = None;
    let mut end = text.len().min(MAX_TEXT_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    for line in text[..end].lines() {
        let Some(path) = line.splitn(3, ':').nth(2) else { continue };
        let Some(found) = work_of(path) else { continue };
        if best.as_ref().is_none_or(|best| found.rank() > best.rank()) {
            best = Some(found);
        }
    }
    best
}

/// The work that a group's path names.
pub fn work_of(path: &str) -> Option<Work> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    pod(&parts).or_else(|| slurm_job(&parts)).or_else(|| first_container(&parts))
}

fn pod(parts: &[&str]) -> Option<Work> {
    let mut below_kubepods = false;
    for (place, part) in parts.iter().enumerate() {
        // `slice:runtime:id` has the container in the same part.
        let (group, own) = match container_of_triple(part) {
            Some((slice, _, id)) => (slice, Some(id)),
            None => (*part, None),
        };
        let uid = match group.strip_suffix(".slice") {
            Some(slice) => slice.contains("kubepods").then(|| slice.rsplit_once("-pod")).flatten().map(|(_, uid)| uid),
            None if below_kubepods => group.strip_prefix("pod"),
            None => None,
        };
        let uid = uid.map(|uid| uid.replace('_', "-")).filter(|uid| is_name(uid, "-"));
        if let Some(uid) = uid {
            let below = || parts[place + 1..].iter().find_map(|part| container(part, "").map(|(_, id)| id));
            let container = own.or_else(below).map(str::to_owned);
            return Some(Work::Pod { uid, container });
        }
        below_kubepods |= group == "kubepods";
    }
    None
}

fn slurm_job(parts: &[&str]) -> Option<Work> {
    parts.iter().enumerate().find_map(|(place, part)| {
        let rest = &parts[place + 1..];
        let (uid, rest) = if *part == "slurm" || part.starts_with("slurm_") {
            (Some(rest.first()?.strip_prefix("uid_")?.parse().ok()?), &rest[1..])
        } else if *part == "slurmstepd.scope" || part.ends_with("_slurmstepd.scope") {
            (None, rest)
        } else {
            return None;
        };
        let job = name_after(rest.first()?, "job_")?;
        Some(Work::SlurmJob { job, step: rest.get(1).and_then(|part| name_after(part, "step_")), uid })
    })
}

/// The name behind a prefix, as Slurm gives it to jobs and steps.
pub(super) fn name_after(part: &str, prefix: &str) -> Option<String> {
    part.strip_prefix(prefix).filter(|name| is_name(name, "+._-")).map(str::to_owned)
}

fn first_container(parts: &[&str]) -> Option<Work> {
    let mut parent = "";
    for part in parts {
        let found = match container_of_triple(part) {
            Some((_, runtime, id)) => Some((runtime, id)),
            None => container(part, parent),
        };
        if let Some((runtime, id)) = found {
            return Some(Work::Container { runtime, id: id.to_owned() });
        }
        parent = part;
    }
    None
}

/// `slice:runtime:id`: a path for a runtime whose driver is `systemd`, taken as a folder by one whose driver is `cgroupfs`.
fn container_of_triple(part: &str) -> Option<(&str, &'static str, &str)> {
    let mut fields = part.splitn(3, ':');
    let (slice, prefix, id) = (fields.next()?, fields.next()?, fields.next()?);
    is_id(id).then(|| (slice, runtime(prefix).unwrap_or_default(), id))
}

/// The container of a folder or a scope, with its runtime.
fn container<'p>(part: &'p str, parent: &str) -> Option<(&'static str, &'p str)> {
    let name = part.strip_suffix(".scope").unwrap_or(part);
    match name.rsplit_once('-') {
        // A monitor such as `libpod-conmon-<id>` is told by its container's id, too.
        Some((prefix, id)) if is_id(id) => Some((runtime(prefix)?, id)),
        Some(_) => None,
        None if is_id(name) => Some((
            match parent {
                "docker" => "docker",
                "default" => "containerd",
                _ => "",
            },
            name,
        )),
        None => None,
    }
}

/// The runtime of what comes before the id.
fn runtime(prefix: &str) -> Option<&'static str> {
    match prefix {
        "docker" => Some("docker"),
        "libpod" | "libpod-conmon" | "libpod-payload" => Some("podman"),
        "cri-containerd" | "nerdctl" | "containerd" => Some("containerd"),
        "crio" | "crio-conmon" => Some("cri-o"),
        _ => None,
    }
}

fn is_id(text: &str) -> bool {
    ID_DIGITS.contains(&text.len()) && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn is_name(text: &str, others: &str) -> bool {
    let is_fit = |character: char| character.is_ascii_alphanumeric() || others.contains(character);
    (1..=MAX_NAME_BYTES).contains(&text.len()) && text.chars().all(is_fit)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const UID: &str = "3a6f0f0e-1c61-4d5c-9f6b-1f1c3e0d7a55";
    const ID: &str = "7be92808767a667f35c8505cbf40d14e931ef6db5b0210329cf193b15ba9d605";
    const INNER: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

    /// A path with `@U` for the pod's UID, `@_` for it with underscores, `@I` for a container's id and `@J` for another's.
    fn path(text: &str) -> String {
        text.replace("@U", UID).replace("@_", &UID.replace('-', "_")).replace("@I", ID).replace("@J", INNER)
    }

    fn found(text: &str) -> Option<Work> {
        work_in(&format!("0::{}", path(text)))
    }

    fn pod(container: Option<&str>) -> Option<Work> {
        Some(Work::Pod { uid: UID.into(), container: container.map(str::to_owned) })
    }

    fn job(job: &str, step: Option<&str>, uid: Option<u32>) -> Option<Work> {
        Some(Work::SlurmJob { job: job.into(), step: step.map(str::to_owned), uid })
    }

    fn container(runtime: &'static str) -> Option<Work> {
        Some(Work::Container { runtime, id: ID.into() })
    }

    #[test]
    fn a_pod_is_told_by_each_driver_and_runtime() {
        for text in [
            "/kubepods/pod@U/@I",
            "/kubepods/burstable/pod@U/@I",
            "/kubepods/besteffort/pod@U/@I",
            "/kubepods/besteffort/pod@U/crio-@I",
            "/kubelet/kubepods/burstable/pod@U/@I",
            "/kubepods.slice/kubepods-pod@_.slice/cri-containerd-@I.scope",
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod@_.slice/cri-containerd-@I.scope",
            "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod@_.slice/crio-@I.scope/container",
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod@_.slice/docker-@I.scope",
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod@_.slice/crio-conmon-@I.scope",
            "/system.slice/containerd.service/kubepods-burstable-pod@_.slice:cri-containerd:@I",
            "/kubepods-pod@_.slice:cri-containerd:@I",
            // A cluster of its own inside of a container, and a container inside of a pod.
            "/docker/@J/kubelet/kubepods/burstable/pod@U/@I",
            "/system.slice/docker-@J.scope/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod@_.slice/cri-containerd-@I.scope",
            "/kubepods/burstable/pod@U/@I/docker/@J",
            "/kubepods.slice/kubepods-pod@_.slice/cri-containerd-@I.scope/system.slice/docker-@J.scope",
            "/kubepods.slice/kubepods-pod@_.slice/cri-containerd-@I.scope/system.slice/slurmstepd.scope/job_7/step_0",
        ] {
            assert_eq!(found(text), pod(Some(ID)), "{text}");
        }
        assert_eq!(found("/kubepods/burstable/pod@U"), pod(None));
        assert_eq!(found("/kubepods.slice/kubepods-pod@_.slice"), pod(None));
        // A static pod has the hash of its manifest as UID.
        let hash = "8f5f2a64d1c9f7f0a9ac5d5c2a3b1e77";
        let uid = Work::Pod { uid: hash.into(), container: Some(ID.into()) };
        assert_eq!(found(&format!("/kubepods/burstable/pod{hash}/@I")), Some(uid));
    }

    #[test]
    fn a_slurm_job_is_told_in_both_versions() {
        for (text, expected) in [
            ("/slurm/uid_1000/job_42/step_0", job("42", Some("0"), Some(1000))),
            ("/slurm/uid_1000/job_42/step_0/task_1", job("42", Some("0"), Some(1000))),
            ("/slurm_vm/uid_0/job_1/step_batch", job("1", Some("batch"), Some(0))),
            ("/slurm_gpu-07/uid_0/job_1", job("1", None, Some(0))),
            ("/system.slice/slurmstepd.scope/job_7/step_extern/user/task_special", job("7", Some("extern"), None)),
            ("/system.slice/gpu-07_slurmstepd.scope/job_7/step_0/user/task_0", job("7", Some("0"), None)),
            ("/system.slice/slurmstepd.scope/job_7/step_batch/slurm", job("7", Some("batch"), None)),
            ("/system.slice/slurmstepd.scope/job_7", job("7", None, None)),
            // Ids of newer releases, and containers inside of a job.
            ("/system.slice/slurmstepd.scope/job_sDM9MP4DP5HG00/step_0", job("sDM9MP4DP5HG00", Some("0"), None)),
            ("/system.slice/slurmstepd.scope/job_7/step_0/user/task_0/libpod-@I.scope", job("7", Some("0"), None)),
            ("/docker/@I/slurm/uid_1/job_2", job("2", None, Some(1))),
        ] {
            assert_eq!(found(text), expected, "{text}");
        }
        for text in ["/system.slice/slurmstepd.scope/system", "/slurm/uid_0", "/slurm/job_1", "/slurm/uid_x/job_1"] {
            assert_eq!(found(text), None, "{text}");
        }
    }

    #[test]
    fn a_container_is_told_by_each_runtime() {
        for (text, runtime) in [
            ("/docker/@I", "docker"),
            ("/docker/@I/docker/@J", "docker"),
            ("/system.slice/docker-@I.scope", "docker"),
            ("/user.slice/user-1000.slice/user@1000.service/user.slice/docker-@I.scope", "docker"),
            ("/system.slice:docker:@I", "docker"),
            ("/machine.slice/libpod-@I.scope", "podman"),
            ("/machine.slice/libpod-@I.scope/container", "podman"),
            ("/libpod_parent/libpod-@I", "podman"),
            ("/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-@I.scope/container", "podman"),
            (
                "/user.slice/user-1000.slice/user@1000.service/user.slice/user-libpod_pod_1.slice/libpod-@I.scope",
                "podman",
            ),
            ("/system.slice/cri-containerd-@I.scope", "containerd"),
            ("/system.slice/nerdctl-@I.scope", "containerd"),
            ("/default/@I", "containerd"),
            ("/system.slice/crio-@I.scope", "cri-o"),
            ("/ecs/0123/@I", ""),
        ] {
            assert_eq!(found(text), container(runtime), "{text}");
        }
    }

    #[test]
    fn what_is_nobodys_work_is_none() {
        for text in [
            "/",
            "/init.scope",
            "/system.slice/docker.service",
            "/system.slice/docker-compose.scope",
            "/user.slice/user-1000.slice/session-3.scope",
            "/kubepods.slice",
            "/kubepods/burstable",
            "/system.slice/podman.service",
            "/machine.slice/machine-@U.scope",
            "/../../docker",
        ] {
            assert_eq!(found(text), None, "{text}");
        }
        assert_eq!(work_in(""), None);
        assert_eq!(work_in("/docker"), None);
    }

    #[test]
    fn the_hierarchy_that_tells_most_counts() {
        let v1 = path("9:name=systemd:/\n4:memory:/docker/@I\n6:freezer:/slurm_vm/uid_0/job_1/step_batch\n0::/\n");
        assert_eq!(work_in(&v1), job("1", Some("batch"), Some(0)));
        let hybrid = path("5:devices:/kubepods/pod@U\n1:name=systemd:/kubepods/pod@U/@I\n0::/init.scope\n");
        assert_eq!(work_in(&hybrid), pod(Some(ID)));
        assert_eq!(work_in(&path("12:cpu,cpuacct:/docker/@I\n")), container("docker"));
    }

    proptest! {
        #[test]
        fn any_text_has_an_answer(text in "\\PC{0,200}|([0-9]{1,2}:[a-z,=]{0,9}:(/[a-z_.:0-9-]{0,30}){0,6}\n){0,5}") {
            let _ = work_in(&text);
        }

        #[test]
        fn any_path_of_known_parts_has_an_answer(parts in proptest::collection::vec(
            prop_oneof![
                Just(String::from("kubepods")), Just(String::from("slurm")), Just(String::from("slurmstepd.scope")),
                "(kubepods-|pod|uid_|job_|step_|docker-|libpod-|crio-)?[0-9a-f_-]{0,70}(\\.slice|\\.scope|:docker:|é)?",
            ], 0..8)) {
            let path = format!("/{}", parts.join("/"));
            if let Some(Work::Container { id, .. } | Work::Pod { container: Some(id), .. }) = work_of(&path) {
                prop_assert!(path.contains(&id) && is_id(&id));
            }
        }

        #[test]
        fn each_pod_and_job_is_itself(bits in any::<u128>(), number in any::<u32>(), uid in any::<u32>(), step in 0_u32..100) {
            let pod_uid = uuid::Uuid::from_u128(bits).to_string();
            let slice = format!("/kubepods.slice/kubepods-pod{}.slice/crio-{ID}.scope", pod_uid.replace('-', "_"));
            let expected = Some(Work::Pod { uid: pod_uid.clone(), container: Some(ID.into()) });
            prop_assert_eq!(work_of(&slice), expected.clone());
            prop_assert_eq!(work_of(&format!("/kubepods/burstable/pod{pod_uid}/{ID}")), expected);
            let (job, step) = (number.to_string(), step.to_string());
            let v1 = format!("/slurm/uid_{uid}/job_{job}/step_{step}");
            prop_assert_eq!(work_of(&v1), Some(Work::SlurmJob { job, step: Some(step), uid: Some(uid) }));
        }
    }
}
