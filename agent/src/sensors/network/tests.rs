//! A kernel faked by a directory.

use std::fs;
use std::os::unix::fs::symlink;

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;

const HEADER: &str = "Inter-|   Receive                                                |  Transmit\n\
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n";

/// A kernel whose interfaces have these things in `/sys/class/net`; `master=x` is a link to another one.
fn kernel(interfaces: &[(&str, &[&str])]) -> (TempDir, Network) {
    let root = tempfile::tempdir().expect("a directory");
    let class = root.path().join("sys/class/net");
    fs::create_dir_all(root.path().join("proc/net")).expect("a directory");
    for (name, things) in interfaces {
        let place = class.join(name);
        fs::create_dir_all(&place).expect("an interface");
        for thing in *things {
            match thing.split_once('=') {
                Some(("uevent", text)) => {
                    fs::write(place.join("uevent"), format!("INTERFACE={name}\nDEVTYPE={text}\n"))
                }
                Some((link, other)) => symlink(class.join(other), place.join(link)),
                None => fs::create_dir(place.join(thing)),
            }
            .expect("a thing");
        }
    }
    let network = Network::new(root.path().join("proc"), root.path().join("sys"));
    (root, network)
}

/// Interfaces with the bytes that they have received; ten times as many were transmitted.
fn counts(root: &TempDir, rows: &[(&str, u64)]) {
    let rows = rows.iter().map(|(name, bytes)| {
        format!("{name:>6}: {bytes} 1 2 3 4 5 6 7 {} 9 10 11 12 13 14 15\n", bytes.saturating_mul(10))
    });
    fs::write(root.path().join("proc/net/dev"), format!("{HEADER}{}", rows.collect::<String>())).expect("rows");
}

fn of(sample: &KernelSample, name: &str, metric: &str) -> [Option<f64>; 2] {
    ["receive", "transmit"].map(|direction| {
        let wanted = [(names::IO_DIRECTION, direction), (names::NETWORK_INTERFACE, name)];
        sample.measures.reading_as(metric, &wanted)?.get().map(Number::f64)
    })
}

fn total(sample: &KernelSample) -> Option<f64> {
    let received = sample.measures.reading_as(names::NETWORK_IO, &[(names::IO_DIRECTION, "receive")]);
    received.expect("it was asked").get().map(Number::f64)
}

#[test]
fn every_counter_is_read() {
    let (root, mut network) = kernel(&[("eth0", &["device"])]);
    counts(&root, &[("eth0", 100)]);
    let sample = network.sample(3).expect("a sample");
    assert_eq!(of(&sample, "eth0", names::INTERFACE_IO), [Some(100.0), Some(1000.0)]);
    assert_eq!(of(&sample, "eth0", names::INTERFACE_ERRORS), [Some(2.0), Some(10.0)]);
    assert_eq!(of(&sample, "eth0", names::INTERFACE_DROPPED), [Some(3.0), Some(11.0)]);
    assert_eq!((total(&sample), sample.measures.iter().count(), sample.ts_ms), (Some(100.0), 8, 3));
}

#[test]
fn each_byte_counts_once_whatever_it_passes() {
    let (root, mut network) = kernel(&[
        ("lo", &[]),
        ("eth0", &["device", "master=bond0", "bonding_slave"]),
        ("eth1", &["device", "master=bond0", "bonding_slave"]),
        ("bond0", &["bonding"]),
        ("bond0.7", &["uevent=vlan"]),
        ("eth2", &["device", "master=br0"]),
        ("br0", &["bridge", "uevent=bridge"]),
        ("veth1", &["master=br0"]),
        ("synthetic", &["device"]),
        ("vf", &["device", "master=synthetic"]),
        ("ib0", &["device"]),
        ("odd", &["device", "uevent=vlan"]),
        ("docker0", &["bridge"]),
    ]);
    let names =
        ["lo", "eth0", "eth1", "bond0", "bond0.7", "eth2", "br0", "veth1", "synthetic", "vf", "ib0", "odd", "docker0"];
    let rows: Vec<(&str, u64)> = names.iter().zip(0..).map(|(name, at)| (*name, 1 << at)).collect();
    counts(&root, &rows);
    let sample = network.sample(0).expect("a sample");
    let own: Vec<&str> = names.into_iter().filter(|name| of(&sample, name, names::INTERFACE_IO)[0].is_some()).collect();
    assert_eq!(own, ["bond0", "eth2", "synthetic", "ib0"]);
    assert_eq!(total(&sample), Some(f64::from((1 << 3) + (1 << 5) + (1 << 8) + (1 << 10))));
}

#[test]
fn the_total_only_rises() {
    let (root, mut network) = kernel(&[("a", &["device"]), ("b", &["device"]), ("c", &["device"])]);
    let mut total_of = |rows: &[(&str, u64)], ts_ms| {
        counts(&root, rows);
        total(&network.sample(ts_ms).expect("a sample"))
    };
    assert_eq!(total_of(&[("a", 1_000), ("b", 50)], 0), Some(1_050.0));
    assert_eq!(total_of(&[("a", 1_001)], 1), Some(1_051.0), "b is gone, what it had moved is not");
    assert_eq!(total_of(&[("a", 1_001), ("c", 700)], 2), Some(1_051.0), "c was never seen before");
    assert_eq!(total_of(&[("a", 4), ("c", 705)], 3), Some(1_060.0), "a has begun anew");
    assert_eq!(total_of(&[("a", 4), ("c", 705)], KNOWN_MS + 1), Some(1_060.0));
}

#[test]
fn what_an_interface_is_may_change() {
    let (root, mut network) = kernel(&[("eth0", &["device"])]);
    counts(&root, &[("eth0", 1)]);
    assert_eq!(total(&network.sample(0).expect("a sample")), Some(1.0));
    fs::create_dir(root.path().join("sys/class/net/eth0/bonding_slave")).expect("enslaved");
    assert_eq!(total(&network.sample(KNOWN_MS - 1).expect("a sample")), Some(1.0));
    let sample = network.sample(KNOWN_MS).expect("a sample");
    assert_eq!((total(&sample), sample.measures.iter().count()), (None, 2));
    let [transmit, _] = [TRANSMIT, RECEIVE].map(|direction| sample.measures.reading_as(names::NETWORK_IO, direction));
    assert!(transmit.expect("it was asked").missing().expect("none").starts_with("unsupported (no interface"));
}

#[test]
fn rows_that_are_not_the_kernels_are_skipped_and_counted() {
    let (root, mut network) = kernel(&[("eth0", &["device"])]);
    let rows = "eth0: 5 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15\n(unknown)\neth1: 1 2 three\n: 1\n";
    fs::write(root.path().join("proc/net/dev"), format!("{HEADER}{rows}")).expect("rows");
    assert_eq!(total(&network.sample(0).expect("a sample")), Some(5.0));
    assert_eq!(network.skipped_rows(), 3);
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), count in any::<u64>()) {
        let (root, mut network) = kernel(&[("eth0", &["device"])]);
        counts(&root, &[("eth0", count), ("eth0", u64::MAX)]);
        network.sample(0).expect("a sample");
        let mut text = HEADER.as_bytes().to_vec();
        text.extend(&bytes);
        fs::write(root.path().join("proc/net/dev"), text).expect("rows");
        network.sample(1).expect("a sample");
    }
}
