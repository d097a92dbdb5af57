//! A kernel faked by a directory.

use std::os::unix::fs::symlink;
use std::path::Path;

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;

/// A machine with the disks sda (8:0) with a partition (8:1), nvme0n1 (259:0) with a path (259:1), dm-0 (253:0) on sda,
/// and loop0 (7:0).
struct Machine(TempDir);

impl Machine {
    fn new() -> Self {
        let machine = Self(tempfile::tempdir().expect("a directory"));
        let devices = machine.dir("sys/dev/block");
        for (number, name) in [
            ("8:0", "sda"),
            ("8:1", "sda1"),
            ("259:0", "nvme0n1"),
            ("259:1", "nvme0c0n1"),
            ("253:0", "dm-0"),
            ("7:0", "loop0"),
            ("104:0", "cciss!c0d0"),
        ] {
            symlink(format!("../../devices/x/block/{name}"), devices.join(number)).expect("a device");
            if name != "sda1" {
                machine.dir(&format!("sys/block/{name}/slaves"));
            }
        }
        machine.dir("sys/block/dm-0/slaves/sda");
        machine
    }

    fn dir(&self, path: &str) -> PathBuf {
        let dir = self.0.path().join(path);
        fs::create_dir_all(&dir).expect("a directory");
        dir
    }

    fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.0.path().join(path);
        self.dir(path.parent().and_then(Path::to_str).expect("a folder"));
        fs::write(path, text).expect("a file");
    }

    fn cgroups(&self) -> Cgroups {
        let root = self.0.path();
        Cgroups::new(root.join("proc"), root.join("sys"), root.join("cgroup"))
    }
}

/// Bytes read and written, requests read and written.
fn io(sample: &KernelSample, group: &str, device: &str) -> Option<[u64; 4]> {
    let values = [names::CGROUP_IO, names::CGROUP_OPERATIONS].map(|metric| {
        ["read", "write"].map(|direction| {
            let wanted = [(names::DISK_DIRECTION, direction), (names::CGROUP, group), (names::SYSTEM_DEVICE, device)];
            sample.measures.reading_as(metric, &wanted)?.get().and_then(Number::count)
        })
    });
    let [[read, written], [reads, writes]] = values;
    Some([read?, written?, reads?, writes?])
}

#[test]
fn v2_counts_whole_devices_of_the_processes_groups() {
    let machine = Machine::new();
    machine.write("cgroup/cgroup.controllers", "cpuset cpu io memory\n");
    machine.write("proc/7/cgroup", "0::/pods/a:b\n");
    machine.write("proc/8/cgroup", "0::/pods/a:b\n");
    machine.write(
        "cgroup/pods/a:b/io.stat",
        "8:0 rbytes=10 wbytes=20 rios=3 wios=4 dbytes=5 dios=6 cost.usage=9\n8:1 rbytes=10 wbytes=20 rios=3 wios=4\n\
         253:0 rbytes=10 wbytes=20 rios=3 wios=4\n7:0 rbytes=1 wbytes=1 rios=1 wios=1\n\
         259:0 259:1 rbytes=7 wbytes=8 rios=1 wios=2\n104:0 wbytes=512 rbytes=x\n(unknown) rbytes=5 wbytes=5\n9:9 rbytes=1\n",
    );
    let sample = machine.cgroups().sample(&[7, 8, 4_000], 5);
    assert_eq!(io(&sample, "/pods/a:b", "sda"), Some([10, 20, 3, 4]));
    assert_eq!(io(&sample, "/pods/a:b", "nvme0n1"), Some([7, 8, 1, 2]));
    assert_eq!(io(&sample, "/pods/a:b", "cciss/c0d0"), Some([0, 512, 0, 0]));
    assert_eq!((sample.measures.iter().count(), sample.ts_ms), (12, 5));
}

#[test]
fn v1_counts_them_too_and_skips_unknown_devices() {
    let machine = Machine::new();
    machine.write("cgroup/unified/cgroup.controllers", "hugetlb\n");
    machine.write("proc/7/cgroup", "7:cpu,blkio:/job\n1:name=systemd:/x\n0::/\n");
    let rows = |read: u32, write: u32| {
        format!(
            "8:0 Read {read}\n8:0 Write {write}\n8:0 Sync 1\n8:0 Async 2\n8:0 Discard 0\n8:0 Total 3\n\
             (unknown) Read 5\n(unknown) Total 5\n253:0 Read 9\nTotal 99\n"
        )
    };
    machine.write("cgroup/blkio/job/blkio.throttle.io_service_bytes", rows(100, 200));
    machine.write("cgroup/blkio/job/blkio.throttle.io_serviced", rows(1, 2));
    let sample = machine.cgroups().sample(&[7], 0);
    assert_eq!(io(&sample, "/job", "sda"), Some([100, 200, 1, 2]));
    assert_eq!(sample.measures.iter().count(), 4);
}

#[test]
fn v1_without_any_row_counts_nothing() {
    let machine = Machine::new();
    machine.write("proc/7/cgroup", "7:blkio:/job\n");
    machine.write("cgroup/blkio/job/blkio.throttle.io_service_bytes", "Total 0\n");
    machine.write("cgroup/blkio/job/blkio.throttle.io_serviced", "Total 0\n");
    let sample = machine.cgroups().sample(&[7], 0);
    let why: Vec<String> = sample.measures.iter().filter_map(|measure| measure.reading.missing()).collect();
    assert!(why.len() == 4 && why[0].starts_with("unsupported (the kernel counts nothing for this group"), "{why:?}");
}

#[test]
fn a_group_that_is_not_accounted_is_its_parent_and_what_cannot_be_known_says_so() {
    let machine = Machine::new();
    machine.write("cgroup/unified/cgroup.controllers", "io\n");
    machine.dir("cgroup/blkio");
    machine.write("cgroup/unified/io.stat", "8:0 rbytes=1\n");
    machine.write("cgroup/unified/slice/io.stat", "8:0 rbytes=5 wbytes=0 rios=1 wios=0\n");
    machine.dir("cgroup/unified/slice/inner");
    for (pid, path) in [(1, "/slice/inner"), (2, "/"), (3, "/../other"), (4, "/plain")] {
        machine.write(&format!("proc/{pid}/cgroup"), format!("0::{path}\n"));
    }
    let mut cgroups = machine.cgroups();
    let sample = cgroups.sample(&[1, 2, 3, 4], 0);
    assert_eq!(io(&sample, "/slice", "sda"), Some([5, 0, 1, 0]));
    let why = |group| {
        let wanted = [(names::DISK_DIRECTION, "read"), (names::CGROUP, group)];
        sample.measures.reading_as(names::CGROUP_IO, &wanted).and_then(Reading::missing).expect("a reason")
    };
    assert!(why("/").starts_with("unsupported (the kernel counts it with the whole machine"));
    assert!(why("/plain").starts_with("unsupported (the kernel counts it with the whole machine"));
    assert!(why("/../other").starts_with("unsupported (the group is outside the agent's own"));
    // The group goes away: it has no values.
    fs::remove_file(machine.0.path().join("cgroup/unified/slice/io.stat")).expect("removed");
    assert!(cgroups.sample(&[1], 1).measures.is_empty());
}

#[test]
fn a_process_that_moves_is_found_again() {
    let machine = Machine::new();
    machine.write("cgroup/cgroup.controllers", "io\n");
    machine.write("cgroup/a/io.stat", "8:0 rbytes=1\n");
    machine.write("cgroup/b/io.stat", "8:0 rbytes=2\n");
    machine.write("proc/7/cgroup", "0::/a\n");
    let mut cgroups = machine.cgroups();
    assert!(io(&cgroups.sample(&[7], 0), "/a", "sda").is_some());
    machine.write("proc/7/cgroup", "0::/b\n");
    assert!(io(&cgroups.sample(&[7], PROCESS_MS), "/b", "sda").is_some());
}

#[test]
fn a_machine_without_it_is_unsupported() {
    let sample = Machine::new().cgroups().sample(&[], 0);
    let why = sample.measures.iter().map(|measure| measure.reading.missing());
    assert_eq!(why.collect::<Vec<_>>(), vec![Some("unsupported (no control group counts I/O)".to_owned()); 4]);
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut found = BTreeMap::new();
        for start in [&b""[..], b"8:0 rbytes=", b"8:0 Read ", b"8:", b"8:0 8:1 "] {
            let text = [start, &bytes].concat();
            rows::unified(&text, &mut found);
            rows::blkio(&text, &mut found, rows::BYTES);
            Hierarchy::Blkio("/nowhere".into()).group_in(&text);
            Hierarchy::Unified("/nowhere".into()).group_in(&text);
        }
    }
}
