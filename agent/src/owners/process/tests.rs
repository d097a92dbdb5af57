use std::path::Path;
use std::process::Command;

use super::*;

fn process(proc: &Path, pid: u32, parent: u32, command: &str, environ: Option<&str>) {
    let dir = proc.join(pid.to_string());
    fs::create_dir_all(&dir).unwrap();
    let middle = "0 ".repeat(17);
    fs::write(dir.join("stat"), format!("{pid} ({command}) S {parent} {middle}{}", pid * 100)).unwrap();
    if let Some(environ) = environ {
        fs::write(dir.join("environ"), environ.replace(' ', "\0")).unwrap();
    }
}

fn cgroup(proc: &Path, pid: u32, path: &str) {
    fs::write(proc.join(pid.to_string()).join("cgroup"), format!("0::{path}\n")).unwrap();
}

fn owners(proc: &Path, passwd: &str) -> ProcessOwners {
    let file = proc.join("passwd");
    fs::write(&file, passwd).unwrap();
    ProcessOwners::new(proc.to_owned(), file)
}

#[test]
fn a_labelled_ancestor_decides() {
    let dir = tempfile::tempdir().unwrap();
    let uid = fs::metadata(dir.path()).unwrap().uid();
    process(dir.path(), 1, 0, "init", Some(""));
    process(dir.path(), 10, 1, "bash", Some("CONTADOR_OWNER_DEPARTMENT=research CONTADOR_OWNER_PROJECT=vision"));
    process(dir.path(), 11, 10, "odd) name (", None);
    process(dir.path(), 12, 11, "python3", Some("HOME=/root"));
    process(dir.path(), 13, 1, "python3", Some("HOME=/root"));
    let mut owners = owners(dir.path(), &format!("ana:x:{uid}:0::/:/bin/sh\n"));
    let found = owners.resolve(&[11, 12, 13, 4000], 0, &[]);
    assert_eq!(found.len(), 3, "a PID that is not there is nobody's");
    let labelled =
        Owner { department: "research".into(), project: "vision".into(), user: "ana".into(), ..Owner::default() };
    assert_eq!((&found[&11].owner, &found[&12].owner), (&labelled, &labelled));
    assert_eq!(found[&13].owner, Owner { user: "ana".into(), command: "python3".into(), ..Owner::default() });
}

#[test]
fn variables_that_rules_ask_for_are_those_of_the_nearest_that_has_them() {
    let dir = tempfile::tempdir().unwrap();
    process(dir.path(), 10, 0, "slurmstepd", Some("TEAM=outer RUN=1 KEY=secret"));
    process(dir.path(), 11, 10, "bash", Some("TEAM=vision CONTADOR_OWNER_PROJECT=p"));
    process(dir.path(), 12, 11, "python3", Some("RUN=2 QUEUE="));
    process(dir.path(), 13, 0, "python3", Some("HOME=/root"));
    cgroup(dir.path(), 12, "/slurm/uid_5/job_42/step_0");
    let wanted = BTreeSet::from(["TEAM", "RUN", "QUEUE"]);
    let mut owners = owners(dir.path(), "").with_variables(wanted);
    let told = telling("42", Owner { job: "42".into(), ..Owner::default() }, &[("slurm.account", "physics")]);
    let found = owners.resolve(&[12, 13], 0, &[told]);
    let labels = |pid: u32| -> Vec<(&str, &str)> {
        found[&pid].labels.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
    };
    assert_eq!(labels(12), [("env.RUN", "2"), ("env.TEAM", "vision"), ("slurm.account", "physics")]);
    assert_eq!((labels(13), found[&12].owner.project.as_str()), (vec![], "p"));
    // Without a rule that asks, nobody's environment is anybody's label.
    let mut owners = self::owners(dir.path(), "");
    assert!(owners.resolve(&[12], 0, &[])[&12].labels.is_empty());
    // What an exec brings is seen as other labels are.
    let mut owners = self::owners(dir.path(), "").with_variables(BTreeSet::from(["TEAM"]));
    assert!(owners.resolve(&[13], 0, &[])[&13].labels.is_empty());
    fs::write(dir.path().join("13/environ"), "TEAM=late").unwrap();
    assert!(owners.resolve(&[13], UNLABELLED_MS - 1, &[])[&13].labels.is_empty());
    assert_eq!(owners.resolve(&[13], UNLABELLED_MS, &[])[&13].labels["env.TEAM"], "late");
    assert_eq!(owners.looks(), 2);
}

#[test]
fn without_an_environment_and_a_name_it_is_unattributed() {
    let dir = tempfile::tempdir().unwrap();
    process(dir.path(), 7, 1, "thing", None);
    let mut nobody = owners(dir.path(), "");
    assert_eq!(nobody.resolve(&[7], 0, &[])[&7].owner, Owner::of_kind(OwnerKind::Unattributed));
    let uid = fs::metadata(dir.path()).unwrap().uid();
    process(dir.path(), 8, 1, "thing", Some(""));
    let owner = nobody.resolve(&[8], 0, &[])[&8].owner.clone();
    assert_eq!((owner.user, owner.command), (uid.to_string(), "thing".to_owned()));
}

#[test]
fn a_name_that_comes_late_is_taken_without_another_look() {
    let dir = tempfile::tempdir().unwrap();
    let uid = fs::metadata(dir.path()).unwrap().uid();
    process(dir.path(), 7, 1, "python3", Some(""));
    process(dir.path(), 8, 1, "python3", Some("CONTADOR_OWNER_PROJECT=vision"));
    process(dir.path(), 9, 1, "python3", None);
    let (answer, held) = std::sync::mpsc::channel::<()>();
    let held = std::sync::Mutex::new(held);
    let mut owners = owners(dir.path(), "");
    owners.users = Users::beside(dir.path().join("passwd"), move |_| {
        held.lock().unwrap().recv().unwrap();
        Ok(Some("ana".into()))
    });
    let users = |owners: &mut ProcessOwners| {
        let found = owners.resolve(&[7, 8, 9], 0, &[]);
        [7, 8, 9].map(|pid| found[&pid].owner.user.clone())
    };
    assert_eq!(users(&mut owners), [uid.to_string(), String::new(), String::new()]);
    assert_eq!(owners.resolve(&[9], 0, &[])[&9].owner, Owner::of_kind(OwnerKind::Unattributed));
    users(&mut owners);
    answer.send(()).unwrap();
    let start = std::time::Instant::now();
    while users(&mut owners) != ["ana", "ana", "ana"] {
        assert!(start.elapsed().as_secs() < 60);
        std::thread::yield_now();
    }
    assert_eq!(owners.looks(), 5, "7 and 8 were forgotten once");
}

/// Nothing else is looked at any more: it names an owner, and its end is told.
#[test]
fn a_user_that_is_added_is_named_also_of_labelled_processes() {
    let dir = tempfile::tempdir().unwrap();
    let uid = fs::metadata(dir.path()).unwrap().uid();
    let mut child = Command::new("sleep").arg("600").env("CONTADOR_OWNER_PROJECT", "vision").spawn().unwrap();
    let pid = child.id();
    let passwd = dir.path().join("passwd");
    let mut owners = ProcessOwners::new("/proc".into(), passwd.clone());
    let start = std::time::Instant::now();
    while owners.environ(pid).unwrap().is_empty() {
        assert!(start.elapsed().as_secs() < 60);
        std::thread::yield_now();
    }
    assert_eq!(owners.resolve(&[pid], 0, &[])[&pid].owner.user, "");
    assert!(owners.settled.is_some());
    fs::write(passwd, format!("ana:x:{uid}:0::/:/bin/sh\n")).unwrap();
    assert_eq!(owners.resolve(&[pid], 1, &[])[&pid].owner.user, "", "it is not looked at each time");
    owners.users.look_again();
    let owner = owners.resolve(&[pid], 2, &[])[&pid].owner.clone();
    assert_eq!((owner.user.as_str(), owner.project.as_str(), owners.looks()), ("ana", "vision", 1));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_reused_pid_is_a_new_process_and_labels_may_come_later() {
    let dir = tempfile::tempdir().unwrap();
    process(dir.path(), 7, 1, "sh", Some(""));
    let mut owners = owners(dir.path(), "");
    assert_eq!(owners.resolve(&[7], 0, &[])[&7].owner.command, "sh");
    process(dir.path(), 7, 1, "sh", Some("CONTADOR_OWNER_JOB=j1"));
    assert_eq!(owners.resolve(&[7], UNLABELLED_MS - 1, &[])[&7].owner.command, "sh");
    assert_eq!(owners.resolve(&[7], UNLABELLED_MS, &[])[&7].owner.job, "j1");
    fs::write(dir.path().join("7/stat"), format!("7 (new) S 1 {}9999", "0 ".repeat(17))).unwrap();
    fs::write(dir.path().join("7/environ"), "").unwrap();
    assert_eq!(owners.resolve(&[7], UNLABELLED_MS, &[])[&7].owner.command, "new");
    // Its first thread has ended: only without others is it dead.
    for (threads, found) in [(2, 1), (1, 0)] {
        let stat = format!("7 (new) Z 1 {}{threads} 0 9999", "0 ".repeat(15));
        fs::write(dir.path().join("7/stat"), stat).unwrap();
        assert_eq!(owners.resolve(&[7], UNLABELLED_MS, &[]).len(), found, "{threads} threads");
    }
}

#[test]
fn who_has_no_labels_is_looked_up_less_and_less() {
    let dir = tempfile::tempdir().unwrap();
    process(dir.path(), 7, 1, "sh", Some(""));
    let mut owners = owners(dir.path(), "");
    let mut looks = Vec::new();
    for second in 0..1_500 {
        let before = owners.looks();
        assert_eq!(owners.resolve(&[7], second * 1_000, &[])[&7].owner.command, "sh");
        looks.extend((owners.looks() > before).then_some(second));
    }
    assert_eq!(looks, [0, 30, 90, 210, 450, 930, 1_410]);
    // Another one has that PID.
    process(dir.path(), 7, 2, "sh", Some(""));
    fs::write(dir.path().join("7/stat"), format!("7 (sh) S 1 {}9999", "0 ".repeat(17))).unwrap();
    for second in [1_500, 1_530, 1_590] {
        owners.resolve(&[7], second * 1_000, &[]);
    }
    assert_eq!(owners.looks(), 10);
}

#[test]
fn a_clock_that_is_set_back_does_not_put_off_a_look() {
    let dir = tempfile::tempdir().unwrap();
    process(dir.path(), 7, 1, "sh", Some(""));
    let mut owners = owners(dir.path(), "");
    let day_ms = 86_400_000;
    assert_eq!(owners.resolve(&[7], day_ms, &[])[&7].owner.command, "sh");
    process(dir.path(), 7, 1, "sh", Some("CONTADOR_OWNER_JOB=j1"));
    assert_eq!(owners.resolve(&[7], day_ms + 1, &[])[&7].owner.command, "sh");
    assert_eq!(owners.resolve(&[7], 0, &[])[&7].owner.job, "j1");
}

#[test]
fn this_very_process_is_found() {
    let mut owners = ProcessOwners::new("/proc".into(), "/etc/passwd".into());
    let pid = std::process::id();
    assert!(owners.resolve(&[pid], 0, &[]).contains_key(&pid));
}

#[test]
fn a_process_that_has_ended_is_nobodys_before_its_parent_collects_it() {
    let mut child = Command::new("sleep").arg("600").env("CONTADOR_OWNER_JOB", "j1").spawn().unwrap();
    let mut owners = ProcessOwners::new("/proc".into(), "/etc/passwd".into());
    let pid = child.id();
    let start = std::time::Instant::now();
    // The kernel lets go of who has started it before the new program has its environment.
    while owners.environ(pid).unwrap().is_empty() {
        assert!(start.elapsed().as_secs() < 60);
        std::thread::yield_now();
    }
    let found = owners.resolve(&[pid, pid], 0, &[]);
    assert!(owners.known[&pid].is_watched);
    let again = owners.resolve(&[pid], UNLABELLED_MS, &[]);
    assert_eq!((owners.looks(), again[&pid].owner.job.as_str()), (1, "j1"));
    assert!(Arc::ptr_eq(&found[&pid], &again[&pid]));
    child.kill().unwrap();
    let start = std::time::Instant::now();
    while !owners.resolve(&[pid], 0, &[]).is_empty() {
        assert!(start.elapsed().as_secs() < 60);
        std::thread::yield_now();
    }
    child.wait().unwrap();
}

#[test]
fn more_processes_than_files_may_be_open_are_told_apart_all_the_same() {
    let dir = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/proc/self", dir.path().join("self")).unwrap();
    let mut child = Command::new("sleep").arg("600").spawn().unwrap();
    let pid = child.id();
    process(dir.path(), pid, 1, "sh", Some(""));
    let mut owners = owners(dir.path(), "");
    owners.watched = Watched::new(dir.path().to_owned(), 0);
    assert_eq!(owners.resolve(&[pid], 0, &[])[&pid].owner.command, "sh");
    assert!(!owners.known[&pid].is_watched);
    fs::write(dir.path().join(format!("{pid}/stat")), format!("{pid} (new) S 1 {}9999", "0 ".repeat(17))).unwrap();
    assert_eq!(owners.resolve(&[pid], 1, &[])[&pid].owner.command, "new");
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Where `/proc` is that of another PID namespace, nobody can be watched.
#[test]
fn whoever_can_not_be_watched_is_tried_when_he_is_looked_up() {
    let dir = tempfile::tempdir().unwrap();
    let own = std::process::id();
    process(dir.path(), own, 1, "sh", Some(""));
    process(dir.path(), own + 1, 1, "sh", Some("CONTADOR_OWNER_JOB=j1"));
    let mut owners = owners(dir.path(), "");
    let mut tried = Vec::new();
    for second in 0..100 {
        let before = owners.watched.tries();
        assert_eq!(owners.resolve(&[own, own + 1], second * 1_000, &[]).len(), 2);
        let tries = owners.watched.tries() - before;
        tried.extend((tries > 0).then_some((second, tries)));
    }
    assert_eq!(tried, [(0, 2), (30, 1), (90, 1)]);
    // Another process has that PID.
    fs::write(dir.path().join(format!("{own}/stat")), format!("{own} (sh) S 1 {}9999", "0 ".repeat(17))).unwrap();
    let before = owners.watched.tries();
    for _ in 0..3 {
        owners.resolve(&[own, own + 1], 100_000, &[]);
    }
    assert_eq!(owners.watched.tries() - before, 1);
}

const ID: &str = "7be92808767a667f35c8505cbf40d14e931ef6db5b0210329cf193b15ba9d605";

fn telling(work: &str, owner: Owner, labels: &[(&str, &str)]) -> Arc<Snapshot> {
    let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let works = HashMap::from([(work.to_owned(), Named { owner, labels })]).into();
    Arc::new(Snapshot { told_ms: 1, works, ..Snapshot::default() })
}

#[test]
fn a_work_is_whose_its_scheduler_says_as_soon_as_it_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let uid = fs::metadata(dir.path()).unwrap().uid();
    let pod_uid = "3a6f0f0e-1c61-4d5c-9f6b-1f1c3e0d7a55";
    for (pid, environ) in [(5, ""), (6, ""), (7, ""), (8, ""), (9, "CONTADOR_OWNER_PROJECT=vision")] {
        process(dir.path(), pid, 1, "python3", Some(environ));
    }
    cgroup(dir.path(), 5, &format!("/kubepods/burstable/pod{pod_uid}/{ID}"));
    cgroup(dir.path(), 6, "/system.slice/slurmstepd.scope/job_42/step_0/user/task_0");
    cgroup(dir.path(), 7, &format!("/system.slice/docker-{ID}.scope"));
    cgroup(dir.path(), 9, "/slurm/uid_5/job_42/step_0");
    let mut owners = owners(dir.path(), &format!("ana:x:{uid}:0::/:/bin/sh\n"));
    let pids = [5, 6, 7, 8, 9];
    let alone = Owner { user: "ana".into(), command: "python3".into(), ..Owner::default() };
    let container = Owner { container: ID[..12].into(), ..alone.clone() };
    let found = owners.resolve(&pids, 0, &[]);
    let in_pod = Owner { pod: pod_uid.into(), ..container.clone() };
    assert_eq!((&found[&5].owner, &found[&7].owner, &found[&8].owner), (&in_pod, &container, &alone));
    assert_eq!(
        (found[&5].labels["k8s.pod.uid"].as_str(), found[&7].labels["container.runtime.name"].as_str()),
        (pod_uid, "docker")
    );
    assert_eq!(found[&6].owner, Owner { job: "42".into(), user: "ana".into(), ..Owner::default() });

    let pod = Owner { namespace: "ml".into(), pod: "train-0".into(), ..Owner::default() };
    let job = Owner { job: "42".into(), user: "eva".into(), cluster: "c".into(), ..Owner::default() };
    let slurm = telling("42", job.clone(), &[("slurm.account", "physics")]);
    let told = [telling(pod_uid, pod.clone(), &[]), slurm];
    let found = owners.resolve(&pids, 1, &told);
    assert_eq!(owners.looks(), 5, "what schedulers say costs no look");
    assert_eq!((&found[&5].owner, &found[&6].owner, &found[&7].owner), (&pod, &job, &container));
    // The environment names the owner; what the scheduler knows of the work stays known.
    assert_eq!(found[&9].owner, Owner { project: "vision".into(), ..job.clone() });
    assert_eq!(found[&9].labels["slurm.account"], "physics");
    // A container that is told by itself is more than its pod.
    let init = Owner { container: "init".into(), ..pod.clone() };
    let found = owners.resolve(&pids, 2, &[Arc::clone(&told[0]), telling(ID, init.clone(), &[])]);
    assert_eq!(found[&5].owner, init);
}

#[test]
fn a_process_of_a_suspended_job_holds_nothing() {
    let dir = tempfile::tempdir().unwrap();
    process(dir.path(), 6, 1, "python3", Some("CONTADOR_OWNER_PROJECT=vision"));
    cgroup(dir.path(), 6, "/slurm/uid_5/job_42/step_0");
    let mut owners = owners(dir.path(), "");
    let suspended = telling("42", Owner::default(), &[("slurm.state", "SUSPENDED")]);
    assert!(owners.resolve(&[6], 0, &[suspended]).is_empty());
    let resumed = telling("42", Owner::default(), &[("slurm.state", "RUNNING")]);
    assert_eq!(owners.resolve(&[6], 1, &[resumed])[&6].owner.project, "vision");
}
