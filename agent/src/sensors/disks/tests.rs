//! A kernel faked by a directory.

use std::fs;

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;

/// A kernel with these rows of diskstats, whose `/sys/block` has these devices with these slaves.
fn kernel(rows: &[&str], devices: &[(&str, &[&str])]) -> (TempDir, Disks) {
    let root = tempfile::tempdir().expect("a directory");
    let (proc_root, sys_root) = (root.path().join("proc"), root.path().join("sys"));
    fs::create_dir_all(&proc_root).expect("a directory");
    fs::write(proc_root.join("diskstats"), rows.iter().map(|row| format!("{row}\n")).collect::<String>())
        .expect("rows");
    for (device, slaves) in devices {
        let slaves_of = sys_root.join("block").join(device).join("slaves");
        fs::create_dir_all(&slaves_of).expect("a device");
        for slave in *slaves {
            fs::create_dir(slaves_of.join(slave)).expect("a slave");
        }
    }
    let disks = Disks::new(proc_root, sys_root);
    (root, disks)
}

fn names(samples: &[DiskSample]) -> Vec<&str> {
    samples.iter().map(|sample| sample.device.as_str()).collect()
}

#[test]
fn every_field_is_read_in_its_unit() {
    let row = "259 0 nvme0n1 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17";
    let (_root, mut disks) = kernel(&[row], &[("nvme0n1", &[])]);
    let expected = DiskSample {
        ts_ms: 99,
        device: "nvme0n1".to_owned(),
        reads: 1,
        read_bytes: 3 * 512,
        read_time_ms: 4,
        writes: 5,
        written_bytes: 7 * 512,
        write_time_ms: 8,
        in_flight: 9,
        io_time_ms: 10,
        weighted_io_time_ms: 11,
        discards: Some(12),
        discarded_bytes: Some(14 * 512),
        flushes: Some(16),
        flush_time_ms: Some(17),
    };
    assert_eq!(disks.sample(99).expect("a sample"), [expected]);
}

#[test]
fn older_kernels_have_fewer_fields_which_are_absent() {
    let (_root, mut disks) = kernel(
        &["8 0 sda 1 2 3 4 5 6 7 8 9 10 11", "8 16 sdb 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15"],
        &[("sda", &[]), ("sdb", &[])],
    );
    let samples = disks.sample(0).expect("a sample");
    assert_eq!((samples[0].discards, samples[0].flushes), (None, None));
    assert_eq!((samples[1].discards, samples[1].flushes), (Some(12), None));
}

#[test]
fn whole_devices_count_once_and_nothing_twice() {
    let zeros = "0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0";
    let rows: Vec<String> = [
        "7 0 loop0",
        "1 0 ram0",
        "252 0 zram0",
        "230 0 zd0",
        "8 0 sda",
        "8 1 sda1",
        "8 16 sdb",
        "8 17 sdb1",
        "253 0 dm-0",
        "9 0 md0",
        "259 0 nvme0n1",
        "259 1 nvme0n1p1",
        "104 0 cciss/c0d0",
        "104 1 cciss/c0d0p1",
        "179 0 mmcblk0",
        "179 1 mmcblk0p1",
    ]
    .iter()
    .map(|device| format!("{device} {zeros}"))
    .collect();
    let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
    let (_root, mut disks) = kernel(
        &rows,
        &[
            ("loop0", &[]),
            ("ram0", &[]),
            ("zram0", &[]),
            ("zd0", &[]),
            ("sda", &[]),
            ("sdb", &[]),
            ("dm-0", &["sda1"]),
            ("md0", &["sda1", "sdb1"]),
            ("nvme0n1", &[]),
            ("cciss!c0d0", &[]),
            ("mmcblk0", &[]),
        ],
    );
    assert_eq!(names(&disks.sample(0).expect("a sample")), ["cciss/c0d0", "mmcblk0", "nvme0n1", "sda", "sdb"]);
}

const PATHS: [&str; 2] = [
    "259 2 nvme0c0n1 10 0 100 1000 20 0 200 2000 1 500 3000 1 0 8 1 2 3",
    "259 3 nvme0c1n1 1 0 10 100 2 0 20 200 2 50 300 1 0 8 1 2 3",
];

#[test]
fn an_nvme_head_without_counters_is_the_sum_of_its_paths() {
    let head = "259 0 nvme0n1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0";
    let (_root, mut disks) =
        kernel(&[head, PATHS[0], PATHS[1]], &[("nvme0n1", &[]), ("nvme0c0n1", &[]), ("nvme0c1n1", &[])]);
    let samples = disks.sample(0).expect("a sample");
    assert_eq!(names(&samples), ["nvme0n1"]);
    let s = &samples[0];
    assert_eq!((s.reads, s.read_bytes, s.writes, s.written_bytes), (11, 110 * 512, 22, 220 * 512));
    assert_eq!((s.in_flight, s.io_time_ms, s.weighted_io_time_ms), (3, 550, 3_300));
    assert_eq!(
        (s.discards, s.discarded_bytes, s.flushes, s.flush_time_ms),
        (Some(2), Some(16 * 512), Some(4), Some(6))
    );
}

#[test]
fn an_nvme_head_with_counters_stands_for_its_paths() {
    let head = "259 0 nvme0n1 11 0 111 0 0 0 0 0 0 1 0 0 0 0 0 0 0";
    let (_root, mut disks) = kernel(&[PATHS[0], head, PATHS[1]], &[("nvme0n1", &[])]);
    let samples = disks.sample(0).expect("a sample");
    assert_eq!(names(&samples), ["nvme0n1"]);
    assert_eq!(samples[0].read_bytes, 111 * 512);
    // Kernels that hide the head's row.
    let (_root, mut disks) = kernel(&PATHS, &[("nvme0n1", &[])]);
    assert_eq!(names(&disks.sample(0).expect("a sample")), ["nvme0n1"]);
}

#[test]
fn counters_are_handed_on_as_the_kernel_wraps_them() {
    let before = "8 0 sda 1 0 8 4294967290 1 0 8 1 0 4294967295 7 0 0 0 0 0 0";
    let (root, mut disks) = kernel(&[before], &[("sda", &[])]);
    assert_eq!(disks.sample(0).expect("a sample")[0].io_time_ms, 4_294_967_295);
    fs::write(root.path().join("proc/diskstats"), before.replace("4294967295", "4").replace("4294967290", "2"))
        .expect("rows");
    let after = disks.sample(1_000).expect("a sample");
    assert_eq!((after[0].io_time_ms, after[0].read_time_ms), (4, 2));
}

#[test]
fn rows_that_are_not_the_kernels_are_skipped_and_counted() {
    let (_root, mut disks) =
        kernel(&["(unknown)", "8 0 sda one", "8 0 sda 1 2 3 4 5 6 7 8 9 10 11", ""], &[("sda", &[])]);
    assert_eq!(names(&disks.sample(0).expect("a sample")), ["sda"]);
    assert_eq!(disks.skipped_rows(), 3);
}

#[test]
fn a_missing_file_is_named() {
    let error = Disks::new("/nonexistent/proc", "/sys").sample(0).expect_err("no file");
    let text = format!("{:#}", anyhow::Error::from(error));
    assert_eq!(
        text,
        "/nonexistent/proc/diskstats: expected a readable file of the kernel: No such file or directory (os error 2)"
    );
}

proptest! {
    #[test]
    fn any_text_is_read_without_a_panic(text in "[ -~\n]{0,200}", major in any::<u64>()) {
        let row = format!("259 0 nvme0n1 {major} {major} {major} {major} {major} 1 {major} 1 1 1 {major}");
        let (_root, mut disks) = kernel(&[&text, &row], &[("nvme0n1", &[])]);
        let samples = disks.sample(0).expect("a sample");
        prop_assert_eq!(samples[0].reads, major);
        prop_assert_eq!(samples[0].read_bytes, major.saturating_mul(512));
    }
}
