//! A kernel faked by a directory.

use std::fs;

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;

/// A block with one connection of 7 requests, unless `xprt` says otherwise.
fn block(device: &str, point: &str, bytes: &str, xprt: &str, operations: &str) -> String {
    format!(
        "device {device} mounted on {point} with fstype nfs4 statvers=1.1\n\topts:\trw,vers=4.2\n\tage:\t7\n\
         \tsec:\tflavor=1,pseudoflavor=1\n\tevents:\t1 2 3\n\tbytes:\t{bytes}\n\
         \tRPC iostats version: 1.1  p/v: 100003/4 (nfs)\n{xprt}\tper-op statistics\n{operations}\n"
    )
}

const BYTES: &str = "100 200 300 400 5000 6000 7 8";
const TCP: &str = "\txprt:\ttcp 832 0 3 0 11 70 69 0 12154 0 24 26 5726\n";
const OPERATIONS: &str = "\t        NULL: 1 1 0 44 24 0 0 0 0\n\
     \t        READ: 1298 1300 4 207680 1210292152 6 79386 79407 0\n\
     \t       WRITE: 10 11 1 1000 200 2 30 41\n";

/// A kernel with these lines of mountinfo (number of the super block, mount point) and this mountstats.
fn kernel(mounts: &[(&str, &str)], mountstats: impl AsRef<[u8]>) -> (TempDir, Nfs) {
    let root = tempfile::tempdir().expect("a directory");
    let own = root.path().join("self");
    fs::create_dir(&own).expect("a directory");
    let lines = mounts.iter().map(|(device, point)| format!("9 1 {device} / {point} rw - nfs4 fs:/export rw\n"));
    fs::write(own.join("mountinfo"), lines.collect::<String>()).expect("mounts");
    fs::write(own.join("mountstats"), mountstats).expect("counters");
    let nfs = Nfs::new(root.path(), Vec::new());
    (root, nfs)
}

fn value(sample: &KernelSample, point: &str, metric: &str, direction: Option<&str>) -> Option<f64> {
    let of = direction.map(|direction| (names::DISK_DIRECTION, direction)).into_iter();
    let attributes: Vec<_> = of.chain([(names::MOUNTPOINT, point)]).collect();
    sample.measures.reading_as(metric, &attributes)?.get().map(Number::f64)
}

#[test]
fn every_counter_is_read_in_its_unit() {
    let text = block("fs:/export", "/mnt/a\\040b", BYTES, TCP, OPERATIONS);
    let (_root, mut nfs) = kernel(&[("0:50", "/mnt/a\\040b")], text);
    let sample = nfs.sample(5).expect("a sample");
    let of = |metric, direction| value(&sample, "/mnt/a b", metric, direction);
    assert_eq!(of(names::NFS_IO, Some("read")), Some(5000.0));
    assert_eq!(of(names::NFS_IO, Some("write")), Some(6000.0));
    assert_eq!(of(names::NFS_OPERATIONS, None), Some(1309.0));
    assert_eq!(of(names::NFS_OPERATION_TIME, None), Some(79.448));
    assert_eq!(of(names::NFS_RETRANSMISSIONS, None), Some(3.0));
    assert_eq!(of(names::NFS_TIMEOUTS, None), Some(5.0));
    assert_eq!(of(names::NFS_CONNECTIONS, None), Some(3.0));
    assert_eq!(of(names::NFS_SENT, None), Some(70.0));
    assert_eq!((sample.ts_ms, sample.measures.iter().count(), nfs.skipped_blocks()), (5, 8, 0));
}

#[test]
fn several_transports_are_summed() {
    let transports = "\txprt:\ttcp 832 0 3 0 11 70 69 0 12154 0\n\txprt:\trdma 0 0 2 0 0 30 30 0 1 0 1 2 3 4 5\n\
        \txprt:\tudp 900 1 5 5 0 1 1\n\txprt:\tlocal 0 1 0 0 4 4 0 1 1\n\txprt:\tquic x y z\n";
    let text = block("fs:/export", "/a", BYTES, transports, OPERATIONS);
    let (_root, mut nfs) = kernel(&[("0:50", "/a")], text);
    let sample = nfs.sample(0).expect("a sample");
    assert_eq!(value(&sample, "/a", names::NFS_CONNECTIONS, None), Some(6.0));
    assert_eq!(value(&sample, "/a", names::NFS_SENT, None), Some(109.0));
}

#[test]
fn a_super_block_counts_once_and_others_of_the_same_export_are_theirs() {
    let text = ["/long/place", "/a", "/b"].map(|point| block("fs:/export", point, BYTES, TCP, OPERATIONS)).concat();
    let (_root, mut nfs) = kernel(&[("0:50", "/long/place"), ("0:50", "/a"), ("0:51", "/b")], text);
    let sample = nfs.sample(0).expect("a sample");
    let read = |point| value(&sample, point, names::NFS_IO, Some("read"));
    assert_eq!((read("/a"), read("/b"), read("/long/place")), (Some(5000.0), Some(5000.0), None));
}

#[test]
fn a_broken_block_is_skipped_and_counted_and_the_others_are_read() {
    let text = [
        "device proc mounted on /proc with fstype proc\n".to_owned(),
        "no device mounted on /x with fstype nfs4\n".to_owned(),
        block("fs:/export", "/a", BYTES, TCP, "\t  READ: 1298 many 4 207680 1210292152 6 79386 79407\n"),
        block("fs:/export", "/b", "100 200", TCP, OPERATIONS),
        block("fs:/export", "/c", BYTES, "\txprt:\ttcp 832 0\n", OPERATIONS),
        block("fs:/export", "/d", BYTES, TCP, OPERATIONS),
        "device fs:/export mounted on /e with fstype nfs4 statvers=1.1\n\tage:\t7\n".to_owned(),
        "device\ndevice fs:/".to_owned(),
    ]
    .concat();
    let mounts = [("0:1", "/a"), ("0:2", "/b"), ("0:3", "/c"), ("0:4", "/d"), ("0:5", "/e")];
    let (_root, mut nfs) = kernel(&mounts, text);
    let sample = nfs.sample(0).expect("a sample");
    assert_eq!(value(&sample, "/d", names::NFS_OPERATIONS, None), Some(1309.0));
    assert_eq!((sample.measures.iter().count(), nfs.skipped_blocks()), (8, 4));
}

#[test]
fn without_nfs_it_is_unsupported_and_mountstats_is_not_read() {
    let (root, mut nfs) = kernel(&[], "");
    fs::remove_file(root.path().join("self/mountstats")).expect("removed");
    let sample = nfs.sample(0).expect("a sample");
    assert_eq!(sample.measures.missing(names::NFS_TIMEOUTS).as_deref(), Some("unsupported (there is no NFS mount)"));
    assert_eq!(sample.measures.iter().count(), 8);
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
        number in any::<u64>(),
        cut in any::<proptest::sample::Index>(),
    ) {
        let numbers = format!("{number} {number} {number} {number} {number} {number} {number} {number}");
        let xprt = format!("\txprt:\ttcp {numbers}\n\txprt:\ttcp {numbers}\n");
        let operations = format!("\t READ: {numbers}\n\t WRITE: {numbers}\n");
        let mut text = block("fs:/export", "/a", &numbers, &xprt, &operations).into_bytes();
        let whole = text.len();
        text.truncate(cut.index(whole + 1));
        text.extend(&bytes);
        block::blocks(&text);
        block::blocks(&bytes);
        let (_root, mut nfs) = kernel(&[("0:1", "/a")], &text);
        nfs.sample(0).expect("a sample");
    }
}
