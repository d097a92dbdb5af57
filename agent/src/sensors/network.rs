//! Network interfaces: `/proc/net/dev`, each byte counted once.
//!
//! A byte passes several interfaces on its way: a container's veth, a bridge, a VLAN, a bond, and the hardware. Handed on
//! are those at the bottom, by `/sys/class/net`:
//!
//! - interfaces with hardware (`device`), virtual functions and IPoIB included, but no VLANs;
//! - bonds (`bonding`), in place of their members (`bonding_slave`);
//! - not the members of other interfaces with hardware, which count them (`master`): a virtual function under the
//!   hypervisor's own interface. Members of bridges and teams stand for these.
//!
//! All others, such as `lo`, veth, bridges, tunnels, VLANs and macvlans, send through these. The total over the node is
//! summed from what each interface has counted more since the last sample, so that it does not fall when one goes away.

use smallvec::smallvec;
use std::borrow::Cow;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use contador_schemas::names::{self, Fixed};

use super::kernel::text::{lines, number, words};
use super::kernel::{KernelError, KernelFile, KernelSample};
use super::{Number, Reading};
use crate::sensors::measure::Varying;

/// How long it is remembered what an interface is, in milliseconds: bonds get and lose members.
const KNOWN_MS: i64 = 30_000;

const TRANSMIT: Fixed = &[(names::IO_DIRECTION, "transmit")];
const RECEIVE: Fixed = &[(names::IO_DIRECTION, "receive")];

/// The reader of network interfaces.
#[derive(Debug)]
pub struct Network {
    file: KernelFile,
    class: PathBuf,
    known: HashMap<Vec<u8>, Interface>,
    known_until_ms: i64,
    /// Bytes of all interfaces so far, received and transmitted; `None` before the first sample.
    total: Option<[u64; 2]>,
    skipped_rows: u64,
}

/// What is known of an interface.
#[derive(Debug)]
struct Interface {
    is_own: bool,
    /// Bytes received and transmitted at the last sample.
    last: Option<[u64; 2]>,
    /// Whether it is in the sample that is being taken.
    is_there: bool,
}

/// A row of `/proc/net/dev`.
struct Row<'t> {
    name: &'t [u8],
    /// Received and transmitted.
    bytes: [u64; 2],
    errors: [u64; 2],
    dropped: [u64; 2],
}

impl Network {
    /// A reader under `proc_root` (`/proc`) and `sys_root` (`/sys`).
    pub fn new(proc_root: impl Into<PathBuf>, sys_root: impl Into<PathBuf>) -> Self {
        Self {
            file: KernelFile::new(proc_root.into().join("net/dev")),
            class: sys_root.into().join("class/net"),
            known: HashMap::new(),
            known_until_ms: i64::MIN,
            total: None,
            skipped_rows: 0,
        }
    }

    /// The node's own interfaces at `ts_ms` (Unix milliseconds), and their total.
    ///
    /// # Errors
    /// When `/proc/net/dev` cannot be read. A row that is not the kernel's is skipped and counted.
    pub fn sample(&mut self, ts_ms: i64) -> Result<KernelSample, KernelError> {
        let mut sample = KernelSample { ts_ms, ..KernelSample::default() };
        let forget = ts_ms >= self.known_until_ms || ts_ms < self.known_until_ms.saturating_sub(KNOWN_MS);
        if forget {
            self.known_until_ms = ts_ms.saturating_add(KNOWN_MS);
            let class = &self.class;
            self.known.iter_mut().for_each(|(name, interface)| interface.is_own = is_own(class, name));
        }
        self.known.values_mut().for_each(|interface| interface.is_there = false);
        let first = self.total.is_none();
        let mut total = self.total.unwrap_or_default();
        let mut has_own = false;
        for line in lines(self.file.read()?).skip(2).filter(|line| !line.is_empty()) {
            let Some(row) = parse(line) else {
                self.skipped_rows += 1;
                continue;
            };
            let interface = match self.known.get_mut(row.name) {
                Some(interface) => interface,
                None => {
                    // What a new one counted before is of no sample, unless this is the first one.
                    let last = first.then_some([0, 0]);
                    let new = Interface { is_own: is_own(&self.class, row.name), last, is_there: true };
                    self.known.entry(row.name.to_vec()).or_insert(new)
                }
            };
            interface.is_there = true;
            let last = interface.last.replace(row.bytes);
            if !interface.is_own {
                continue;
            }
            has_own = true;
            let last = last.unwrap_or(row.bytes);
            for ((total, now), last) in total.iter_mut().zip(row.bytes).zip(last) {
                // One that has fallen has begun anew.
                *total = total.saturating_add(now.checked_sub(last).unwrap_or(now));
            }
            row.hand_on(&mut sample);
        }
        self.known.retain(|_, interface| interface.is_there);
        self.total = Some(total);
        let [received, transmitted] = total.map(|bytes| {
            if has_own {
                Reading::Value(Number::Whole(bytes))
            } else {
                Reading::Unsupported(
                    "no interface of the node's own can be seen: the agent needs the host's network".into(),
                )
            }
        });
        sample.measures.add_as(names::NETWORK_IO, TRANSMIT, transmitted);
        sample.measures.add_as(names::NETWORK_IO, RECEIVE, received);
        Ok(sample)
    }

    /// Rows that could not be understood so far.
    pub fn skipped_rows(&self) -> u64 {
        self.skipped_rows
    }
}

impl Row<'_> {
    fn hand_on(&self, sample: &mut KernelSample) {
        let name = String::from_utf8_lossy(self.name).into_owned();
        let mut add = |metric, [received, transmitted]: [u64; 2]| {
            for (direction, value) in [(TRANSMIT, transmitted), (RECEIVE, received)] {
                let of: Varying = smallvec![(names::NETWORK_INTERFACE, Cow::Owned(name.clone()))];
                sample.measures.add_with(metric, direction, of, Reading::Value(Number::Whole(value)));
            }
        };
        add(names::INTERFACE_IO, self.bytes);
        add(names::INTERFACE_ERRORS, self.errors);
        add(names::INTERFACE_DROPPED, self.dropped);
    }
}

/// `name: bytes packets errors dropped fifo frame compressed multicast`, and the same for transmitted ones.
fn parse(line: &[u8]) -> Option<Row<'_>> {
    let colon = line.iter().position(|byte| *byte == b':')?;
    let (name, rest) = line.split_at_checked(colon)?;
    let name = words(name).next()?;
    let mut numbers = [0_u64; 16];
    let mut words = words(rest.get(1..)?);
    for place in &mut numbers {
        *place = number(words.next()?)?;
    }
    let [received, _, receive_errors, receive_dropped, _, _, _, _, transmitted, _, errors, dropped, ..] = numbers;
    Some(Row {
        name,
        bytes: [received, transmitted],
        errors: [receive_errors, errors],
        dropped: [receive_dropped, dropped],
    })
}

/// Whether an interface is one of those at the bottom: see this file's header.
fn is_own(class: &Path, name: &[u8]) -> bool {
    // The kernel allows no slash in a name, and no dots alone; what is not text is no name of hardware.
    let Ok(name) = std::str::from_utf8(name) else { return false };
    let place = class.join(name);
    let has = |what: &str| place.join(what).exists();
    if has("bonding") {
        return true;
    }
    if !has("device") || has("bonding_slave") || place.join("master/device").exists() {
        return false;
    }
    let uevent = fs::read(place.join("uevent")).unwrap_or_default();
    !lines(&uevent).any(|line| line == b"DEVTYPE=vlan")
}

#[cfg(test)]
mod tests;
