//! What the storage sensors read of this machine is what others read of it.
#![allow(clippy::unwrap_used, reason = "a test ends at what it does not expect")]

mod storage_support;

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use contador_agent::sensors::{Cgroups, Disks, MountOptions, Mounts, Network, Pressure, Reading};
use contador_schemas::names;
use storage_support::{counted, mounts_seen};

/// Bytes that are written in a control group.
const BYTES: u64 = 32 << 20;

/// A group of this test's own, and the process in it.
struct Group {
    dir: PathBuf,
    child: Option<Child>,
}

impl Group {
    /// Below the hierarchy that accounts I/O; `None`, with the reason on the screen, where there is none for us.
    fn new() -> Option<Self> {
        let root = Path::new("/sys/fs/cgroup");
        let has_io = |file: &str| {
            fs::read_to_string(root.join(file)).is_ok_and(|text| text.split_whitespace().any(|name| name == "io"))
        };
        let place = if has_io("cgroup.subtree_control") {
            root.to_owned()
        } else if root.join("blkio").is_dir() {
            root.join("blkio")
        } else {
            println!("left out: {} accounts no I/O of groups (neither blkio nor io)", root.display());
            return None;
        };
        let dir = place.join(format!("contador-test-{}", std::process::id()));
        match fs::create_dir(&dir) {
            Ok(()) => Some(Self { dir, child: None }),
            Err(error) => {
                println!("left out: cannot make a group at {}: {error}", dir.display());
                None
            }
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
        // A group can be removed once its processes are gone, which may be an instant later.
        let start = Instant::now();
        while fs::remove_dir(&self.dir).is_err() && start.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn what_is_written_in_a_group_shows_in_its_io() {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let disk = disk_of(target);
    let Some(disk) =
        disk.filter(|disk| Disks::new("/proc", "/sys").sample(0).unwrap().iter().any(|d| d.device == *disk))
    else {
        println!("left out: {} is on none of this machine's disks", target.display());
        return;
    };
    let Some(mut group) = Group::new() else { return };
    // Many kernels count v1's groups only on disks that have a limit in some group: one that nothing reaches.
    let limit = group.dir.join("blkio.throttle.write_bps_device");
    if limit.exists() {
        let number = fs::read_to_string(format!("/sys/block/{disk}/dev")).unwrap();
        fs::write(limit, format!("{} 1000000000000\n", number.trim())).unwrap();
    }
    let file = tempfile::NamedTempFile::new_in(target).unwrap();
    // Past the page cache: v1 counts what the kernel writes later as its own.
    let script = "echo $$ > \"$1/cgroup.procs\" && dd if=/dev/urandom of=\"$2\" bs=1M count=32 oflag=direct conv=notrunc,fsync \
        2>&1 && echo written; read -r _";
    let mut shell = Command::new("sh");
    shell.args(["-c", script, "sh"]).arg(&group.dir).arg(file.path());
    let child = group.child.insert(shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
    let pid = child.id();
    let output = BufReader::new(child.stdout.take().unwrap());
    let lines: Vec<String> = output.lines().map_while(Result::ok).take_while(|line| line != "written").collect();
    assert!(group.child.as_mut().unwrap().try_wait().unwrap().is_none(), "{lines:?}");

    let mut cgroups = Cgroups::new("/proc", "/sys", "/sys/fs/cgroup");
    let name = format!("/{}", group.dir.file_name().unwrap().to_str().unwrap());
    let of = [(names::DISK_DIRECTION, "write"), (names::CGROUP, name.as_str()), (names::SYSTEM_DEVICE, disk.as_str())];
    let start = Instant::now();
    loop {
        let sample = cgroups.sample(&[pid], 0);
        let written = counted(&sample, names::CGROUP_IO, &of);
        if written.first().is_some_and(|written| *written >= BYTES) {
            let operations = counted(&sample, names::CGROUP_OPERATIONS, &of);
            assert!(written[0] < BYTES * 2 && operations[0] > 0, "{written:?} {operations:?}");
            break;
        }
        assert!(
            start.elapsed() < Duration::from_secs(30),
            "{written:?} of {BYTES} bytes: {:?} {lines:?}",
            sample.measures
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    let _ = writeln!(group.child.as_mut().unwrap().stdin.take().unwrap());
}

/// Bytes of each mount that answers, by its place.
fn sizes() -> Vec<(String, u64)> {
    let mut mounts = Mounts::new("/proc", MountOptions::default());
    mounts.sample(0).unwrap();
    mounts.settle(Duration::from_secs(5));
    let sample = mounts.sample(5_000).unwrap();
    let up = mounts_seen(&sample).into_iter().filter(|(_, up)| *up == 1);
    up.map(|(point, _)| {
        let parts = counted(&sample, names::FILESYSTEM_USAGE, &[(names::MOUNTPOINT, point)]);
        (point.to_owned(), parts.iter().sum())
    })
    .collect()
}

#[test]
fn sizes_are_those_of_df() {
    let start = Instant::now();
    loop {
        let sizes = sizes();
        let differs = sizes.iter().find_map(|(point, size)| {
            let output = Command::new("df").args(["-B1", "--output=size", point]).output().unwrap();
            let told = String::from_utf8(output.stdout).unwrap().lines().nth(1).map(|line| line.trim().to_owned());
            (told != Some(size.to_string())).then(|| format!("{point}: {size}, df tells {told:?}"))
        });
        let Some(differs) = differs else {
            println!("compared {sizes:?}");
            return;
        };
        // A file system that grows as it is needed may have grown in between, and a mount may have gone.
        assert!(start.elapsed() < Duration::from_secs(30), "{differs}");
    }
}

#[test]
fn interfaces_and_pressure_of_this_machine_can_be_read() {
    let mut network = Network::new("/proc", "/sys");
    let received = |sample| counted(sample, names::NETWORK_IO, &[(names::IO_DIRECTION, "receive")]).first().copied();
    let first = network.sample(0).unwrap();
    let second = network.sample(1_000).unwrap();
    assert!(received(&second) >= received(&first));
    // Each interface has what its files in /sys say, or a little less, since it goes on.
    for measure in first.measures.iter().filter(|measure| measure.metric == names::INTERFACE_IO) {
        let of = |wanted| measure.attributes().find(|(name, _)| *name == wanted).unwrap().1;
        let file = if of(names::IO_DIRECTION) == "receive" { "rx_bytes" } else { "tx_bytes" };
        let path = format!("/sys/class/net/{}/statistics/{file}", of(names::NETWORK_INTERFACE));
        let told: u64 = fs::read_to_string(path).unwrap().trim().parse().unwrap();
        let seen = measure.reading.get().unwrap().count().unwrap();
        assert!(seen <= told, "{seen} {told}");
    }
    let pressure = Pressure::new("/proc").sample(0);
    assert_eq!(pressure.measures.iter().count(), 5);
    assert!(pressure.measures.iter().all(|measure| !matches!(measure.reading, Reading::Failed(_))), "{pressure:?}");
}

/// Name of the whole disk that a path is on.
fn disk_of(path: &Path) -> Option<String> {
    use std::os::unix::fs::MetadataExt as _;
    let device = fs::metadata(path).unwrap().dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let mut place = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    if place.join("partition").exists() {
        place = place.parent()?.to_owned();
    }
    Some(place.file_name()?.to_str()?.to_owned())
}
