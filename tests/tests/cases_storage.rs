//! The storage cases: what others have reported of disks, mounts, NFS and control groups, with the right values.
#![allow(clippy::unwrap_used, reason = "a test ends at what it does not expect")]

mod storage_support;

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use contador_agent::config::{Config, Overrides};
use contador_agent::probe::take::{PATIENCE, Prober};
use contador_agent::sensors::mounts::probe::Usage;
use contador_agent::sensors::{Cgroups, Disks, KernelSample, MountOptions, Mounts, Nfs, Number, NvmlLibrary};
use contador_schemas::names;
use contador_tests::hung_mount::HungMount;
use storage_support::{Machine, counted, mounts_seen, reachable, value};

/// The tests that count the threads of mounts, one after the other.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    wait("the threads of the test before end", || mount_threads() == 0);
    alone
}

/// This process's threads that probe mounts.
fn mount_threads() -> usize {
    let tasks = fs::read_dir("/proc/self/task").unwrap().flatten();
    let names = tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|name| name.trim() == "mount").count()
}

fn wait(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Partitions, logical volumes and RAIDs repeat what their disks count: each disk is there once, and nothing else.
#[test]
fn s1_each_byte_counts_at_one_device() {
    let machine = Machine::new();
    for device in ["sda", "sdb", "dm-0", "dm-1", "md127", "nvme0n1"] {
        machine.dir(&format!("sys/block/{device}/slaves"));
    }
    // An LVM volume on a RAID on two partitions, and a multipath of both disks.
    for slave in ["dm-0/slaves/md127", "md127/slaves/sda1", "md127/slaves/sdb1", "dm-1/slaves/sda", "dm-1/slaves/sdb"] {
        machine.dir(&format!("sys/block/{slave}"));
    }
    let rows =
        ["8 0 sda", "8 1 sda1", "8 16 sdb", "8 17 sdb1", "253 0 dm-0", "253 1 dm-1", "9 127 md127", "259 0 nvme0n1"];
    let rows = rows.map(|device| format!(" {device} 10 0 80 5 20 0 160 7 0 9 12 0 0 0 0 0 0\n"));
    machine.write("proc/diskstats", &rows.concat());
    let mut disks = Disks::new(machine.path("proc"), machine.path("sys"));
    let seen = disks.sample(0).unwrap();
    let names: Vec<&str> = seen.iter().map(|disk| disk.device.as_str()).collect();
    assert_eq!(names, ["nvme0n1", "sda", "sdb"]);
    assert_eq!(seen.iter().map(|disk| disk.written_bytes).sum::<u64>(), 3 * 160 * 512);
}

/// A multipath namespace counts at its head, or, on kernels that leave the head at zero, at its paths: their sum.
#[test]
fn s2_an_nvme_head_or_the_sum_of_its_paths() {
    let machine = Machine::new();
    for device in ["nvme1n1", "nvme1c0n1", "nvme1c2n1"] {
        machine.dir(&format!("sys/block/{device}/slaves"));
    }
    let paths =
        "259 2 nvme1c0n1 3 0 30 1 4 0 40 1 0 1 1 0 0 0 0 0 0\n259 3 nvme1c2n1 5 0 50 1 6 0 60 1 0 1 1 0 0 0 0 0 0\n";
    let read = |head: &str| {
        machine.write("proc/diskstats", &format!("259 1 nvme1n1 {head}\n{paths}"));
        let seen = Disks::new(machine.path("proc"), machine.path("sys")).sample(0).unwrap();
        assert_eq!(seen.len(), 1);
        (seen[0].device.clone(), seen[0].reads, seen[0].read_bytes)
    };
    assert_eq!(read("0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0"), ("nvme1n1".to_owned(), 8, 80 * 512));
    assert_eq!(read("7 0 70 1 0 0 0 0 0 1 1 0 0 0 0 0 0"), ("nvme1n1".to_owned(), 7, 70 * 512));
}

/// A mount that hangs costs one thread, however often samples are taken, and none when it is gone: with a real one.
#[test]
fn s3_a_hung_mount_costs_one_thread() {
    let _alone = alone();
    let mut hung = match HungMount::new() {
        Ok(hung) => hung,
        Err(error) => {
            println!("s3: this machine does not let the test mount FUSE ({error}): with an injected call instead");
            return injected_hung_mount();
        }
    };
    let point = hung.point().to_str().unwrap().to_owned();
    // Of this machine's table the line of this mount: what others mount meanwhile is none of this test's.
    let machine = Machine::new();
    let table = |points: &[&str]| {
        let all = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let lines = all.lines().filter(|line| points.contains(&line.split(' ').nth(4).unwrap()));
        machine.write("proc/self/mountinfo", &lines.map(|line| format!("{line}\n")).collect::<String>());
    };
    table(&[&point]);
    let options = MountOptions { interval: Duration::from_secs(1), ..MountOptions::default() };
    let mut mounts = Mounts::new(machine.path("proc"), options);
    let before = mount_threads();
    mounts.sample(0).unwrap();
    for second in 1..1_000 {
        let sample = mounts.sample(second * 1_000).unwrap();
        assert_eq!(mounts_seen(&sample), [(point.as_str(), 0)], "second {second}");
    }
    wait("its thread has its name", || mount_threads() == before + 1);
    // Unmounted while its thread waits in it, and back to life.
    hung.detach().unwrap();
    table(&[]);
    let sample = mounts.sample(1_000_000).unwrap();
    assert_eq!(sample.changes.iter().map(|change| change.kind).collect::<Vec<_>>(), ["mount_removed"]);
    assert_eq!((mounts.leftovers(), mount_threads()), (1, before + 1));
    hung.abort();
    wait("the thread ends", || {
        mounts.sample(1_001_000).unwrap();
        mounts.leftovers() == 0 && mount_threads() == before
    });
}

/// The same where nothing can be mounted: the call to the file system waits until the test lets it go.
fn injected_hung_mount() {
    let machine = Machine::new();
    machine.write(
        "proc/self/mountinfo",
        "1 0 0:50 / /dead rw - nfs4 fs:/dead rw\n2 0 8:1 / /fine rw - xfs /dev/sda1 rw\n",
    );
    let gate = Arc::new((Mutex::new(false), Condvar::new()));
    let calls = Arc::new(AtomicUsize::new(0));
    let (opened, counted_calls) = (Arc::clone(&gate), Arc::clone(&calls));
    let ask = move |point: &Path| {
        if point == Path::new("/dead") {
            counted_calls.fetch_add(1, Ordering::SeqCst);
            let (open, news) = &*opened;
            drop(news.wait_while(open.lock().unwrap(), |open| !*open).unwrap());
        }
        Ok(Usage { used: 1, free: 2, reserved: 3, inodes: None })
    };
    let options = MountOptions { interval: Duration::from_secs(1), ..MountOptions::default() };
    let mut mounts = Mounts::asking(machine.path("proc"), options, Arc::new(ask));
    let before = mount_threads();
    mounts.sample(0).unwrap();
    for second in 1..1_000 {
        assert_eq!(reachable(&mounts.sample(second * 1_000).unwrap(), "/dead"), Some(0));
    }
    let mut second = 1_000;
    let mut is_up = |point| {
        second += 1;
        reachable(&mounts.sample(second * 1_000).unwrap(), point) == Some(1)
    };
    wait("the other one answers", || is_up("/fine"));
    assert_eq!((calls.load(Ordering::SeqCst), mount_threads()), (1, before + 2));
    *gate.0.lock().unwrap() = true;
    gate.1.notify_all();
    wait("it is back", || is_up("/dead"));
    drop(mounts);
    wait("all threads end", || mount_threads() == before);
}

/// What is mounted and unmounted while the agent runs is noticed: here the kernel itself says that its table has changed.
#[test]
fn s3_a_mount_that_hangs_from_the_start_is_seen_to_come_and_to_go() {
    let _alone = alone();
    let mut mounts = Mounts::new("/proc", MountOptions::default());
    mounts.sample(0).unwrap();
    let hung = match HungMount::new() {
        Ok(hung) => hung,
        Err(error) => return println!("s3: left out, this machine does not let the test mount FUSE ({error})"),
    };
    let point = hung.point().to_str().unwrap().to_owned();
    let mut next = {
        let mut ts_ms = 0;
        move || {
            ts_ms += 5_000;
            mounts.sample(ts_ms).unwrap()
        }
    };
    let kinds = |sample: &KernelSample| -> Vec<&str> {
        let own = sample.changes.iter().filter(|change| change.attributes.iter().any(|(_, value)| *value == point));
        own.map(|change| change.kind).collect()
    };
    assert_eq!(kinds(&next()), ["mount_added"]);
    assert_eq!(kinds(&next()), ["mount_lost"]);
    assert_eq!(kinds(&next()), [""; 0]);
    hung.detach().unwrap();
    assert_eq!(kinds(&next()), ["mount_removed"]);
}

/// A look at the node, once, has every mount that answers, and does not wait for the one that hangs.
#[test]
fn s4_a_single_look_does_not_wait_for_a_dead_mount() {
    let _alone = alone();
    let hung = HungMount::new();
    let config = Config::load(None, &Overrides::default()).unwrap();
    let library = NvmlLibrary::at("/nonexistent/libnvidia-ml.so.1");
    let mut prober = Prober::start(&config, library).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let seen = runtime.block_on(prober.take(PATIENCE)).unwrap().sensors;
    let names: Vec<&str> = seen.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["disks", "host", "mounts", "nfs", "psi", "network", "rdma", "cgroup"]);
    let measures = seen[2].1.value().unwrap().clone();
    if let Ok(hung) = &hung {
        let mounts = KernelSample { measures, ..KernelSample::default() };
        assert_eq!(reachable(&mounts, hung.point().to_str().unwrap()), Some(0));
    }
}

/// The logic of the hung mount holds on every machine, with an injected call.
#[test]
fn s3_a_call_that_never_returns_is_made_once() {
    let _alone = alone();
    injected_hung_mount();
}

/// The first sample comes at once, with a mount that was dead before the agent started.
#[test]
fn s4_the_first_sample_waits_for_no_mount() {
    let _alone = alone();
    let (sender, receiver) = std::sync::mpsc::channel();
    let hung = HungMount::new();
    let machine = Machine::new();
    let (proc, point) = match &hung {
        Ok(hung) => (Path::new("/proc").to_owned(), hung.point().to_str().unwrap().to_owned()),
        Err(error) => {
            println!("s4: this machine does not let the test mount FUSE ({error}): with an injected call instead");
            machine.write("proc/self/mountinfo", "1 0 0:50 / /dead rw - nfs4 fs:/dead rw\n");
            (machine.path("proc"), "/dead".to_owned())
        }
    };
    let is_injected = hung.is_err();
    // An injected call comes back when the test has ended.
    let (_end, ended) = std::sync::mpsc::channel::<()>();
    let ended = Mutex::new(ended);
    // On a thread of its own, so that a sample that waits fails the test and does not hang it.
    std::thread::spawn(move || {
        let options = MountOptions::default();
        let mut mounts = if is_injected {
            Mounts::asking(
                proc,
                options,
                Arc::new(move |_: &Path| {
                    let _ = ended.lock().unwrap().recv();
                    Ok(Usage::default())
                }),
            )
        } else {
            Mounts::new(proc, options)
        };
        let first = mounts.sample(0).unwrap();
        let second = mounts.sample(5_000).unwrap();
        sender.send((first, second)).unwrap();
    });
    let (first, second) = receiver.recv_timeout(Duration::from_secs(60)).expect("two samples that waited for nothing");
    assert_eq!(reachable(&first, &point), None, "nothing is known yet, and nothing is made up");
    assert_eq!(reachable(&second, &point), Some(0));
}

/// One export that is mounted twice is one file system with one set of counters, and the transports of a mount are summed.
#[test]
fn s5_an_export_mounted_twice_counts_once_and_transports_are_summed() {
    let _alone = alone();
    let machine = Machine::new();
    machine.write(
        "proc/self/mountinfo",
        "1 0 0:50 / /data rw - nfs4 fs:/data rw\n2 0 0:50 / /home/ana/data rw - nfs4 fs:/data rw\n\
         3 0 8:2 / /scratch rw - xfs /dev/sda2 rw\n4 0 8:2 /jobs /var/jobs rw - xfs /dev/sda2 rw\n",
    );
    let block = |point: &str| {
        format!(
            "device fs:/data mounted on {point} with fstype nfs4 statvers=1.1\n\tbytes:\t1 2 3 4 1000 2000 5 6\n\
             \txprt:\ttcp 700 0 1 0 0 40 40 0 1 0\n\txprt:\ttcp 701 0 2 0 0 50 50 0 1 0\n\tper-op statistics\n\
             \t  READ: 10 12 1 0 0 1 2 3 0\n"
        )
    };
    machine.write("proc/self/mountstats", &format!("{}{}", block("/data"), block("/home/ana/data")));
    let sample = Nfs::new(machine.path("proc"), Vec::new()).sample(0).unwrap();
    assert_eq!(counted(&sample, names::NFS_IO, &[(names::DISK_DIRECTION, "read")]), [1000]);
    assert_eq!(counted(&sample, names::NFS_RETRANSMISSIONS, &[]), [2]);
    assert_eq!(counted(&sample, names::NFS_CONNECTIONS, &[]), [3]);
    assert_eq!(counted(&sample, names::NFS_SENT, &[]), [90]);

    let usage = Arc::new(|_: &Path| Ok(Usage { used: 7, free: 2, reserved: 1, inodes: None }));
    let mut mounts = Mounts::asking(machine.path("proc"), MountOptions::default(), usage);
    mounts.sample(0).unwrap();
    mounts.settle(Duration::from_secs(60));
    let sample = mounts.sample(5_000).unwrap();
    assert_eq!(mounts_seen(&sample), [("/data", 1), ("/scratch", 1)]);
    assert_eq!(counted(&sample, names::FILESYSTEM_USAGE, &[(names::FILESYSTEM_STATE, "used")]), [7, 7]);
}

/// Rows of devices that the kernel can no longer name are left out, and the rest of the file is read.
#[test]
fn s6_rows_of_unknown_devices_are_skipped() {
    let machine = Machine::new();
    machine.dir("sys/block/sda/slaves");
    machine.dir("sys/dev/block");
    std::os::unix::fs::symlink("../../block/sda", machine.path("sys/dev/block/8:0")).unwrap();
    machine.write("proc/4711/cgroup", "5:blkio:/train\n");
    let rows = |read: u32, write: u32| {
        format!("(unknown) Read 9\n(unknown) Total 9\n8:0 Read {read}\n8:0 Write {write}\n8:0 Total 0\nTotal 9\n")
    };
    machine.write("cgroup/blkio/train/blkio.throttle.io_service_bytes", &rows(4096, 8192));
    machine.write("cgroup/blkio/train/blkio.throttle.io_serviced", &rows(1, 2));
    let mut cgroups = Cgroups::new(machine.path("proc"), machine.path("sys"), machine.path("cgroup"));
    let sample = cgroups.sample(&[4711], 0);
    let of = |metric, direction| counted(&sample, metric, &[(names::DISK_DIRECTION, direction)]);
    assert_eq!((of(names::CGROUP_IO, "read"), of(names::CGROUP_IO, "write")), (vec![4096], vec![8192]));
    assert_eq!((of(names::CGROUP_OPERATIONS, "read"), of(names::CGROUP_OPERATIONS, "write")), (vec![1], vec![2]));
    assert!(sample.measures.iter().all(|measure| measure.attributes().any(|(_, value)| value == "sda")));

    // And in cgroup v2.
    let machine_two = Machine::new();
    machine_two.dir("sys/block/sda/slaves");
    machine_two.dir("sys/dev/block");
    std::os::unix::fs::symlink("../../block/sda", machine_two.path("sys/dev/block/8:0")).unwrap();
    machine_two.write("proc/4711/cgroup", "0::/train\n");
    machine_two.write("cgroup/cgroup.controllers", "io\n");
    machine_two
        .write("cgroup/train/io.stat", "(unknown) rbytes=9 wbytes=9\n8:0 rbytes=1 wbytes=2 rios=3 wios=4 new=5\n");
    let mut cgroups = Cgroups::new(machine_two.path("proc"), machine_two.path("sys"), machine_two.path("cgroup"));
    let sample = cgroups.sample(&[4711], 0);
    let read = [(names::DISK_DIRECTION, "read"), (names::CGROUP, "/train"), (names::SYSTEM_DEVICE, "sda")];
    assert_eq!(value(&sample, names::CGROUP_IO, &read), Some(Number::Whole(1)));
    assert_eq!(sample.measures.iter().count(), 4);
}
