//! Which block devices are counted: the whole ones at the bottom, so that no byte counts twice.
//!
//! A request to a partition, to a volume (dm, md, bcache, a dm multipath) or to an NVMe path is counted by the kernel once
//! more at the disk below or above it. Whole are names that `/sys/block` knows (partitions are only inside it), that are
//! not made of other devices (`slaves` is empty), and whose data is on no other device (not loop, ram, zram or zd, which
//! is a volume of ZFS).

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;

/// How long it is remembered what a device is, in milliseconds: a volume may get its members after its name.
const KNOWN_MS: i64 = 10_000;

/// Kinds of devices whose data is elsewhere.
const ELSEWHERE: [&str; 4] = ["loop", "ram", "zram", "zd"];

/// What is known of block devices.
#[derive(Debug, Clone)]
pub(crate) struct Whole {
    block: PathBuf,
    known: HashMap<String, bool>,
    span: Option<i64>,
}

impl Whole {
    /// By `sys_root` (`/sys`).
    pub(crate) fn new(sys_root: impl Into<PathBuf>) -> Self {
        Self { block: sys_root.into().join("block"), known: HashMap::new(), span: None }
    }

    /// Forgets at `ts_ms` (Unix milliseconds) what may have changed.
    pub(crate) fn tick(&mut self, ts_ms: i64) {
        let span = Some(ts_ms.div_euclid(KNOWN_MS));
        if std::mem::replace(&mut self.span, span) != span {
            self.known.clear();
        }
    }

    /// Whether the device of this name, as the kernel writes it, is whole.
    pub(crate) fn is_whole(&mut self, name: &str) -> bool {
        if let Some(known) = self.known.get(name) {
            return *known;
        }
        let is_whole = self.look(name);
        self.known.insert(name.to_owned(), is_whole);
        is_whole
    }

    fn look(&self, name: &str) -> bool {
        if ELSEWHERE.iter().any(|kind| is_numbered(name, kind)) {
            return false;
        }
        // A name with a slash, such as cciss/c0d0, has an exclamation mark in /sys.
        let device = self.block.join(name.replace('/', "!"));
        let has_slaves = fs::read_dir(device.join("slaves")).is_ok_and(|mut slaves| slaves.next().is_some());
        device.is_dir() && !has_slaves
    }
}

/// True for `kind` and a number.
fn is_numbered(name: &str, kind: &str) -> bool {
    name.strip_prefix(kind).is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
}

/// `nvme0n1` for the path `nvme0c3n1`; none for anything else.
pub(crate) fn head_of_path(name: &str) -> Option<String> {
    let (subsystem, rest) = name.strip_prefix("nvme")?.split_once('c')?;
    let (controller, namespace) = rest.split_once('n')?;
    let are_numbers = [subsystem, controller, namespace].iter().all(|part| part.parse::<u32>().is_ok());
    are_numbers.then(|| format!("nvme{subsystem}n{namespace}"))
}
