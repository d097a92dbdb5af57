//! The disks that the agent sees are this machine's: they move when a file is written and synced.
#![allow(clippy::unwrap_used, reason = "a test ends at what it does not expect")]

use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use contador_agent::sensors::Disks;

/// Bytes of the file: much more than what else is written in the meantime.
const BYTES: usize = 32 << 20;

fn written(disks: &mut Disks) -> u64 {
    disks.sample(0).unwrap().iter().map(|disk| disk.written_bytes).sum()
}

#[test]
fn a_file_that_is_written_and_synced_shows_on_the_disks() {
    let mut disks = Disks::new(Path::new("/proc"), Path::new("/sys"));
    let seen: Vec<String> = disks.sample(0).unwrap().into_iter().map(|disk| disk.device).collect();
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let mount = target_device(target);
    if !seen.iter().any(|disk| mount.starts_with(disk.as_str())) {
        println!("left out: {} is on {mount:?}, which is none of this machine's disks {seen:?}", target.display());
        return;
    }
    let before = written(&mut disks);
    let mut file = tempfile::tempfile_in(target).unwrap();
    // Not compressible, in case the file system compresses.
    let mut state = 1_u64;
    let block: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_be_bytes()[0]
    })
    .take(BYTES)
    .collect();
    file.write_all(&block).unwrap();
    file.sync_all().unwrap();
    // The kernel counts a request when it is done; that may be an instant after the sync returns.
    let deadline = Instant::now() + Duration::from_secs(30);
    while written(&mut disks) < before + BYTES as u64 {
        assert!(Instant::now() < deadline, "{} of {BYTES} bytes showed", written(&mut disks) - before);
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Name of the block device that a path is on, such as `sda1`; empty when it is on none.
fn target_device(path: &Path) -> String {
    use std::os::unix::fs::MetadataExt as _;
    let device = std::fs::metadata(path).unwrap().dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    std::fs::read_link(format!("/sys/dev/block/{major}:{minor}"))
        .ok()
        .and_then(|link| Some(link.file_name()?.to_str()?.to_owned()))
        .unwrap_or_default()
}
