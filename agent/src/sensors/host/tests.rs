//! A kernel faked by a directory.

use std::fs;

use contador_schemas::names;
use tempfile::TempDir;

use super::*;

const STAT: &str = "cpu  1000 200 300 4000 50 6 7 8 100 20\ncpu0 500 100 150 2000 25 3 3 4 50 10\n\
cpu1 500 100 150 2000 25 3 4 4 50 10\nintr 1\nctxt 123\nbtime 1700000000\nprocesses 9\nprocs_running 1\nprocs_blocked 0\n";
const MEMINFO: &str = "MemTotal:       16000000 kB\nMemFree:         1000000 kB\nMemAvailable:    9000000 kB\n\
Buffers:          200000 kB\nCached:          4000000 kB\nSwapCached:            0 kB\nActive:          1 kB\n\
Inactive:        1 kB\nSwapTotal:       2000000 kB\nSwapFree:        1500000 kB\nDirty:           0 kB\n\
Writeback:       0 kB\nMapped: 1 kB\nSlab: 1 kB\nCommitted_AS: 1 kB\nVmallocTotal: 1 kB\nVmallocUsed: 0 kB\nVmallocChunk: 0 kB\n";

fn kernel(stat: &str, meminfo: &str, loadavg: &str) -> (TempDir, Host) {
    let root = tempfile::tempdir().expect("a directory");
    for (name, text) in [("stat", stat), ("meminfo", meminfo), ("loadavg", loadavg)] {
        fs::write(root.path().join(name), text).expect("a file");
    }
    let host = Host::new(root.path());
    (root, host)
}

#[test]
fn every_value_is_read_in_its_unit() {
    let (_root, mut host) = kernel(STAT, MEMINFO, "0.52 1.07 12.30 2/345 6789\n");
    let sample = host.sample(5).expect("a sample");
    // Ticks of 10 ms, as Linux reports them on every architecture that it runs on here.
    let tick = 1_000 / procfs::ticks_per_second();
    assert_eq!(sample.cpu_user_ms, 1_000 * tick);
    assert_eq!(sample.cpu_nice_ms, 200 * tick);
    assert_eq!((sample.cpu_system_ms, sample.cpu_idle_ms, sample.cpu_iowait_ms), (300 * tick, 4_000 * tick, 50 * tick));
    assert_eq!((sample.cpu_irq_ms, sample.cpu_softirq_ms, sample.cpu_steal_ms), (6 * tick, 7 * tick, 8 * tick));
    assert_eq!(sample.cpu_count, 2);
    assert_eq!(sample.memory_total_bytes, 16_000_000 * 1_024);
    assert_eq!(sample.memory_available_bytes, Some(9_000_000 * 1_024));
    assert_eq!(sample.memory_buffers_bytes, 200_000 * 1_024);
    assert_eq!(sample.memory_cached_bytes, 4_000_000 * 1_024);
    assert_eq!((sample.swap_total_bytes, sample.swap_free_bytes), (2_000_000 * 1_024, 1_500_000 * 1_024));
    assert_eq!((sample.load_1m, sample.load_5m, sample.load_15m), (0.52, 1.07, 12.3));
    assert_eq!(sample.ts_ms, 5);
}

/// Guests are in user and nice, as the kernel counts them: modes add up to the time that passed.
#[test]
fn the_modes_of_cpu_time_add_up_to_the_wall_time() {
    let (_root, mut host) = kernel(STAT, MEMINFO, "0.52 1.07 12.30 2/345 6789\n");
    let measures = host.sample(5).expect("a sample").measures();
    let modes = measures.iter().filter(|measure| measure.metric == names::CPU_TIME);
    let sum: f64 = modes.map(|measure| measure.reading.get().expect("a value").f64()).sum();
    // The first eight columns of /proc/stat; the last two are guests, which are in the first two.
    let ticks = f64::from(1_000 + 200 + 300 + 4_000 + 50 + 6 + 7 + 8);
    let hertz = f64::from(u32::try_from(procfs::ticks_per_second()).expect("some hundreds"));
    assert!((sum - ticks / hertz).abs() < 1e-6, "{sum}");
}

#[test]
fn the_running_kernel_can_be_read() {
    let sample = Host::new("/proc").sample(0).expect("a sample");
    assert!(sample.cpu_count >= 1 && sample.memory_total_bytes > 0 && sample.cpu_idle_ms > 0);
}

#[test]
fn faults_name_the_file_and_what_was_expected() {
    let (root, mut host) = kernel("cpu  1 2 three 4\n", MEMINFO, "0.1 0.2 0.3 1/2 3\n");
    let text = host.sample(0).expect_err("a fault").to_string();
    assert!(text.starts_with(&format!("{}/stat: ", root.path().display())), "{text}");
    assert!(text.ends_with(": expected CPU times as in proc_stat(5)"), "{text}");
    fs::remove_file(root.path().join("stat")).expect("removed");
    let text = format!("{:#}", anyhow::Error::from(Host::new(root.path()).sample(0).expect_err("a fault")));
    assert!(text.contains("/stat: expected a readable file of the kernel: "), "{text}");
}
