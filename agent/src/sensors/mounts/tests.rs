//! A table of mounts in a directory, and file systems that answer or hang as the test says.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::{Condvar, Mutex};

use tempfile::TempDir;

use super::*;

/// File systems by where they are mounted: those that hang, and those that answer with an error.
#[derive(Default)]
struct World {
    dead: Mutex<HashSet<PathBuf>>,
    news: Condvar,
    errors: Mutex<HashMap<PathBuf, io::ErrorKind>>,
    calls: Mutex<HashMap<PathBuf, usize>>,
}

impl World {
    fn set_dead(&self, points: &[&str]) {
        *self.dead.lock().unwrap() = points.iter().map(PathBuf::from).collect();
        self.news.notify_all();
    }

    fn ask(&self, point: &Path) -> io::Result<Usage> {
        *self.calls.lock().unwrap().entry(point.to_owned()).or_default() += 1;
        let mut dead = self.dead.lock().unwrap();
        while dead.contains(point) {
            dead = self.news.wait(dead).unwrap();
        }
        match self.errors.lock().unwrap().get(point) {
            Some(kind) => Err((*kind).into()),
            None => Ok(Usage { used: 60, free: 30, reserved: 10, inodes: Some((5, 95)) }),
        }
    }

    fn calls(&self, point: &str) -> usize {
        self.calls.lock().unwrap().get(Path::new(point)).copied().unwrap_or(0)
    }
}

struct Node {
    root: TempDir,
    world: Arc<World>,
    mounts: Mounts,
    ts_ms: i64,
}

impl Node {
    fn new(points: &[&str], options: MountOptions) -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("self")).unwrap();
        let world = Arc::new(World::default());
        let asked = Arc::clone(&world);
        let mounts = Mounts::asking(root.path(), options, Arc::new(move |point: &Path| asked.ask(point)));
        let node = Self { root, world, mounts, ts_ms: 0 };
        node.mount(points);
        node
    }

    /// What is mounted from now on.
    fn mount(&self, points: &[&str]) {
        let lines: String = points
            .iter()
            .map(|point| {
                let number: u32 = point.bytes().map(u32::from).sum();
                format!("1 0 8:{number} / {point} rw - xfs /dev/{number} rw\n")
            })
            .collect();
        fs::write(self.root.path().join("self/mountinfo"), lines).unwrap();
    }

    /// A sample an interval later; then every mount has answered that can.
    fn next(&mut self) -> KernelSample {
        self.ts_ms += 5_000;
        let sample = self.mounts.sample(self.ts_ms).unwrap();
        self.wait();
        sample
    }

    fn wait(&self) {
        let start = Instant::now();
        let dead = self.world.dead.lock().unwrap().clone();
        let all = || self.mounts.watched.iter().chain(&self.mounts.leftovers);
        while all().any(|watched| watched.probe.is_stuck() && !dead.contains(&watched.mount.point)) {
            assert!(start.elapsed() < Duration::from_secs(60), "the living mounts answer");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn reading(sample: &KernelSample, point: &str, metric: &str, state: Option<&str>) -> Option<Reading<Number>> {
    let mut wanted: Vec<_> = state.map(|state| (names::FILESYSTEM_STATE, state)).into_iter().collect();
    wanted.extend([(names::MOUNTPOINT, point), (names::FILESYSTEM_TYPE, "xfs")]);
    sample.measures.reading_as(metric, &wanted).cloned()
}

fn reachable(sample: &KernelSample, point: &str) -> Option<u64> {
    reading(sample, point, names::MOUNT_REACHABLE, None)?.get()?.count()
}

fn kinds(sample: &KernelSample) -> Vec<(&'static str, &str)> {
    sample.changes.iter().map(|change| (change.kind, change.attributes[0].1.as_str())).collect()
}

#[test]
fn each_value_is_handed_on_once_it_has_come_back() {
    let mut node = Node::new(&["/data"], MountOptions::default());
    let first = node.next();
    assert!(first.measures.is_empty() && first.changes.is_empty(), "nothing was waited for: {first:?}");
    let sample = node.next();
    let of = |metric, state| reading(&sample, "/data", metric, state).unwrap().get().and_then(Number::count);
    assert_eq!(of(names::FILESYSTEM_USAGE, Some("used")), Some(60));
    assert_eq!(of(names::FILESYSTEM_USAGE, Some("free")), Some(30));
    assert_eq!(of(names::FILESYSTEM_USAGE, Some("reserved")), Some(10));
    assert_eq!(of(names::FILESYSTEM_INODES, Some("used")), Some(5));
    assert_eq!(of(names::FILESYSTEM_INODES, Some("free")), Some(95));
    assert_eq!(reachable(&sample, "/data"), Some(1));
    assert_eq!(sample.ts_ms, 10_000);
    // Between two intervals there is nothing new, and nothing is asked.
    assert!(node.mounts.sample(10_001).unwrap().measures.iter().count() > 0, "the answer of the second probe");
    assert!(node.mounts.sample(14_999).unwrap().measures.is_empty());
    assert_eq!(node.world.calls("/data"), 2);
}

#[test]
fn a_mount_that_hangs_is_unreachable_and_the_others_go_on() {
    let mut node = Node::new(&["/dead", "/fine"], MountOptions::default());
    node.world.set_dead(&["/dead"]);
    node.next();
    let sample = node.next();
    assert_eq!((reachable(&sample, "/dead"), reachable(&sample, "/fine")), (Some(0), Some(1)));
    assert_eq!(kinds(&sample), [("mount_lost", "/dead")]);
    assert!(reading(&sample, "/dead", names::FILESYSTEM_USAGE, Some("used")).unwrap().is_failed());
    let age = |sample: &KernelSample| {
        reading(sample, "/dead", names::MOUNT_PROBE_TIME, None).unwrap().get().map(Number::f64).unwrap()
    };
    for _ in 0..50 {
        let later = node.next();
        assert_eq!((reachable(&later, "/dead"), reachable(&later, "/fine")), (Some(0), Some(1)));
        assert!(age(&later) > age(&sample) && later.changes.is_empty(), "it is said once");
    }
    assert_eq!((node.world.calls("/dead"), node.world.calls("/fine")), (1, 52));
    node.world.set_dead(&[]);
    // Its late answer comes, and it is asked anew.
    node.wait();
    let back = node.next();
    assert_eq!((kinds(&back), reachable(&back, "/dead")), (vec![("mount_back", "/dead")], Some(1)));
    assert_eq!(node.world.calls("/dead"), 2);
}

#[test]
fn an_error_is_unreachable_and_a_refusal_says_nothing() {
    let mut node = Node::new(&["/stale", "/private"], MountOptions::default());
    node.world.errors.lock().unwrap().insert("/stale".into(), io::ErrorKind::StaleNetworkFileHandle);
    node.world.errors.lock().unwrap().insert("/private".into(), io::ErrorKind::PermissionDenied);
    node.next();
    let sample = node.next();
    assert_eq!(reachable(&sample, "/stale"), Some(0));
    assert_eq!(kinds(&sample), [("mount_lost", "/stale")]);
    let private = reading(&sample, "/private", names::MOUNT_REACHABLE, None).unwrap();
    assert!(private.missing().unwrap().starts_with("unsupported (no permission"), "{private:?}");
    node.world.errors.lock().unwrap().clear();
    node.next();
    let sample = node.next();
    assert_eq!((kinds(&sample), reachable(&sample, "/stale")), (vec![("mount_back", "/stale")], Some(1)));
}

#[test]
fn mounts_come_and_go_and_their_threads_with_them() {
    let mut node = Node::new(&["/a", "/b"], MountOptions::default());
    node.world.set_dead(&["/b"]);
    node.next();
    node.mount(&["/a", "/c"]);
    let sample = node.next();
    assert_eq!(kinds(&sample), [("mount_removed", "/b"), ("mount_added", "/c")]);
    assert_eq!((node.mounts.leftovers(), node.mounts.watched.len()), (1, 2), "its thread is still stuck");
    // It is mounted again: there is no second thread for it.
    node.mount(&["/a", "/b", "/c"]);
    assert_eq!(kinds(&node.next()), [("mount_added", "/b"), ("mount_lost", "/b")]);
    assert_eq!((node.mounts.leftovers(), node.world.calls("/b")), (0, 1));
    node.mount(&["/a"]);
    node.next();
    assert_eq!(node.mounts.leftovers(), 1);
    node.world.set_dead(&[]);
    node.wait();
    node.next();
    assert_eq!((node.mounts.leftovers(), node.mounts.watched.len()), (0, 1));
}

#[test]
fn there_are_never_more_threads_than_allowed() {
    let options = MountOptions { max: 2, ..MountOptions::default() };
    let mut node = Node::new(&["/a", "/b", "/c", "/d"], options);
    node.world.set_dead(&["/a"]);
    node.next();
    assert_eq!((node.mounts.watched.len(), node.mounts.left_out()), (2, 2));
    node.mount(&["/c", "/d"]);
    node.next();
    assert_eq!((node.mounts.watched.len(), node.mounts.leftovers(), node.mounts.left_out()), (1, 1, 1));
    node.world.set_dead(&[]);
    node.wait();
    node.next();
    assert_eq!((node.mounts.watched.len(), node.mounts.left_out()), (2, 0), "there is room once the call is back");
}

#[test]
fn places_and_types_can_be_excluded() {
    let options = MountOptions {
        exclude_points: vec!["/var/lib/kubelet".into()],
        exclude_types: vec!["fuse".to_owned(), "nfs4".to_owned()],
        ..MountOptions::default()
    };
    let mut node = Node::new(&[], options);
    let line =
        |number: u32, point: &str, fs_type: &str| format!("1 0 8:{number} / {point} rw - {fs_type} x{number} rw\n");
    let text = [
        line(1, "/var/lib/kubelet/pods/x", "xfs"),
        line(2, "/var/lib/kubelet2", "xfs"),
        line(3, "/ssh", "fuse.sshfs"),
        line(4, "/win", "fuseblk"),
        line(5, "/n", "nfs4"),
    ];
    fs::write(node.root.path().join("self/mountinfo"), text.concat()).unwrap();
    node.next();
    let seen: Vec<String> = node.mounts.watched.iter().map(|watched| watched.mount.shown()).collect();
    assert_eq!(seen, ["/var/lib/kubelet2", "/win"]);
}

#[test]
fn a_file_system_without_a_size_or_inodes_says_so() {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join("self")).unwrap();
    fs::write(root.path().join("self/mountinfo"), "1 0 8:1 / /data rw - xfs /dev/sda rw\n").unwrap();
    let mut mounts = Mounts::asking(root.path(), MountOptions::default(), Arc::new(|_| Ok(Usage::default())));
    mounts.sample(0).unwrap();
    mounts.settle(Duration::from_secs(60));
    let sample = mounts.sample(5_000).unwrap();
    assert_eq!(reachable(&sample, "/data"), Some(1));
    let missing = |metric| reading(&sample, "/data", metric, Some("used")).unwrap().missing().unwrap();
    assert_eq!(missing(names::FILESYSTEM_USAGE), "unsupported (the file system does not tell its size)");
    assert_eq!(missing(names::FILESYSTEM_INODES), "unsupported (the file system makes inodes as they are needed)");
}

#[test]
fn a_missing_table_is_named() {
    let error = Mounts::new("/nonexistent/proc", MountOptions::default()).sample(0).unwrap_err();
    assert!(error.to_string().starts_with("/nonexistent/proc/self/mountinfo: expected a readable file"), "{error}");
}
