//! The rows of a group's counters, by the number of the device.

use std::collections::BTreeMap;

use crate::sensors::kernel::text::{device, lines, number, words};

/// What a group did on one device, since it was made.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Io {
    pub read_bytes: u64,
    pub written_bytes: u64,
    pub reads: u64,
    pub writes: u64,
}

impl Io {
    /// Adds what was done on another path to the same device.
    pub(super) fn add(&mut self, other: &Self) {
        self.read_bytes = self.read_bytes.saturating_add(other.read_bytes);
        self.written_bytes = self.written_bytes.saturating_add(other.written_bytes);
        self.reads = self.reads.saturating_add(other.reads);
        self.writes = self.writes.saturating_add(other.writes);
    }

    /// Whether nothing was done.
    pub(super) fn is_zero(&self) -> bool {
        *self == Self::default()
    }
}

/// Where the two numbers of a v1 file go: of reads and of writes.
pub(super) type Places = fn(&mut Io) -> [&mut u64; 2];

/// `blkio.throttle.io_service_bytes`.
pub(super) const BYTES: Places = |io| [&mut io.read_bytes, &mut io.written_bytes];

/// `blkio.throttle.io_serviced`.
pub(super) const OPERATIONS: Places = |io| [&mut io.reads, &mut io.writes];

/// v2: `8:16 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=5 dios=6`. Some kernels write the numbers of idle devices in front, on
/// the same line: the last one is the row's.
pub(super) fn unified(text: &[u8], rows: &mut BTreeMap<(u32, u32), Io>) {
    for line in lines(text) {
        let (mut of, mut io, mut has_any) = (None, Io::default(), false);
        for word in words(line) {
            let Some(equals) = word.iter().position(|byte| *byte == b'=') else {
                of = device(word);
                continue;
            };
            let (key, value) = word.split_at(equals);
            let place = match key {
                b"rbytes" => &mut io.read_bytes,
                b"wbytes" => &mut io.written_bytes,
                b"rios" => &mut io.reads,
                b"wios" => &mut io.writes,
                _ => continue,
            };
            if let Some(value) = value.get(1..).and_then(number) {
                *place = value;
                has_any = true;
            }
        }
        if let Some(of) = of.filter(|_| has_any) {
            rows.insert(of, io);
        }
    }
}

/// v1: `8:16 Read 1`, a line for each of Read, Write, Sync, Async, Discard and Total, and a `Total` of all devices.
pub(super) fn blkio(text: &[u8], rows: &mut BTreeMap<(u32, u32), Io>, places: Places) {
    for line in lines(text) {
        let mut words = words(line);
        let (Some(of), Some(kind), Some(value)) =
            (words.next().and_then(device), words.next(), words.next().and_then(number))
        else {
            continue;
        };
        let at = match kind {
            b"Read" => 0,
            b"Write" => 1,
            _ => continue,
        };
        if let Some(place) = places(rows.entry(of).or_default()).into_iter().nth(at) {
            *place = value;
        }
    }
}
