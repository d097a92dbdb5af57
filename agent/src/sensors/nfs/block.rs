//! The text of `/proc/self/mountstats`, a block a mount:
//!
//! ```text
//! device fs:/export mounted on /mnt/data with fstype nfs4 statvers=1.1
//!         bytes:  normal-read normal-write direct-read direct-write server-read server-write pages pages
//!         xprt:   tcp port binds connects connect-time idle-time sends receives bad-xids …
//!         per-op statistics
//!                 READ: operations transmissions timeouts bytes-sent bytes-received queue-ms rtt-ms execute-ms errors
//! ```

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use crate::sensors::kernel::text::{lines, number, unescaped, words};

/// What a super block counts, since it was mounted.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Counters {
    /// Bytes from the server.
    pub read_bytes: u64,
    /// Bytes to the server.
    pub written_bytes: u64,
    /// Requests that are done.
    pub operations: u64,
    /// Their time, from queueing to the end, in milliseconds.
    pub operation_ms: u64,
    /// How often a request was sent again.
    pub retransmissions: u64,
    /// Major timeouts.
    pub timeouts: u64,
    /// Connections that were made, over all transports.
    pub connections: u64,
    /// Requests that the transports have sent.
    pub sent: u64,
}

/// One NFS mount's block.
#[derive(Debug)]
pub(super) struct Block {
    /// Where it is mounted.
    pub point: PathBuf,
    /// `None`: it can't be understood.
    pub counters: Option<Counters>,
}

/// The blocks of NFS mounts; the others' are passed over.
pub(super) fn blocks(text: &[u8]) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut reader: Option<Reader> = None;
    let mut finish = |reader: Option<Reader>| blocks.extend(reader.map(Reader::finish));
    for line in lines(text) {
        if line.starts_with(b"device ") || line.starts_with(b"no device ") {
            finish(reader.take());
            reader = head(line).map(Reader::of);
        } else if let Some(reader) = &mut reader {
            reader.line(line);
        }
    }
    finish(reader);
    blocks
}

/// Where an NFS file system is mounted; `None` for other types.
fn head(line: &[u8]) -> Option<PathBuf> {
    let mut words = words(line).skip_while(|word| *word != b"on");
    let point = words.nth(1)?;
    let mut words = words.skip_while(|word| *word != b"fstype");
    let fs_type = words.nth(1)?;
    matches!(fs_type, b"nfs" | b"nfs4").then(|| PathBuf::from(OsString::from_vec(unescaped(point))))
}

/// A block, line by line.
struct Reader {
    point: PathBuf,
    counters: Counters,
    has_bytes: bool,
    in_operations: bool,
    is_broken: bool,
}

impl Reader {
    fn of(point: PathBuf) -> Self {
        Self { point, counters: Counters::default(), has_bytes: false, in_operations: false, is_broken: false }
    }

    fn line(&mut self, line: &[u8]) {
        let mut words = words(line);
        let Some(name) = words.next() else { return };
        let read = match name {
            b"per-op" => {
                self.in_operations = true;
                Some(())
            }
            b"bytes:" => self.bytes(words),
            b"xprt:" => self.transport(words),
            _ if self.in_operations && name.ends_with(b":") => self.operation(words),
            _ => Some(()),
        };
        self.is_broken |= read.is_none();
    }

    fn bytes<'t>(&mut self, words: impl Iterator<Item = &'t [u8]>) -> Option<()> {
        let mut words = words.skip(4);
        self.counters.read_bytes = number(words.next()?)?;
        self.counters.written_bytes = number(words.next()?)?;
        self.has_bytes = true;
        Some(())
    }

    /// `tcp` and `rdma` tell a port first, `local` does not; `udp` makes no connections.
    fn transport<'t>(&mut self, mut words: impl Iterator<Item = &'t [u8]>) -> Option<()> {
        let (connects, sends) = match words.next()? {
            b"tcp" | b"rdma" => (Some(2), 5),
            b"local" => (Some(1), 4),
            b"udp" => (None, 2),
            // A transport of tomorrow.
            _ => return Some(()),
        };
        let numbers = words.map(number).collect::<Option<Vec<u64>>>()?;
        let connections = connects.map_or(Some(0), |at: usize| numbers.get(at).copied())?;
        plus(&mut self.counters.connections, connections);
        plus(&mut self.counters.sent, *numbers.get(sends)?);
        Some(())
    }

    fn operation<'t>(&mut self, mut words: impl Iterator<Item = &'t [u8]>) -> Option<()> {
        let mut next = || number(words.next()?);
        let (operations, transmissions, timeouts) = (next()?, next()?, next()?);
        // Bytes sent and received, time in the queue, time of the round trips.
        for _ in 0..4 {
            next()?;
        }
        let execute_ms = next()?;
        plus(&mut self.counters.operations, operations);
        plus(&mut self.counters.retransmissions, transmissions.saturating_sub(operations));
        plus(&mut self.counters.timeouts, timeouts);
        plus(&mut self.counters.operation_ms, execute_ms);
        Some(())
    }

    fn finish(self) -> Block {
        let whole = !self.is_broken && self.has_bytes && self.in_operations;
        Block { point: self.point, counters: whole.then_some(self.counters) }
    }
}

fn plus(sum: &mut u64, more: u64) {
    *sum = sum.saturating_add(more);
}
