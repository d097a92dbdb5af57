//! A segment: one file of the spool, and how its bytes are checked.
//!
//! All numbers are little-endian. A segment begins with the 8 bytes `CONTSPL` and 0, and the format version (`u32`, now
//! [`VERSION`]). Records follow, each
//!
//! | bytes | what |
//! |---|---|
//! | 4 | length of the payload |
//! | 4 | CRC-32 of the length, the kind and the payload |
//! | 1 | kind |
//! | … | payload |
//!
//! A change of the format gets a new version; older ones must stay readable (`tests/data/spool/` has one of each).

use std::io::{self, Read};

/// First bytes of a segment.
pub const MAGIC: [u8; 8] = *b"CONTSPL\0";

/// Version of the format that is written.
pub const VERSION: u32 = 1;

/// Bytes before the first record.
pub const HEADER_BYTES: u64 = 12;

/// Bytes before a record's payload.
pub const RECORD_HEADER_BYTES: u64 = 9;

/// Greatest payload, in bytes: what a collector takes in one request.
pub const MAX_PAYLOAD_BYTES: usize = 64 << 20;

/// What a record is about.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Kind {
    /// Samples of one instant.
    Samples,
    /// Rows of the ledger, with the owners in them.
    Ledger,
    /// One pushed histogram.
    Latency,
    /// Something that happened.
    Event,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Samples, Self::Ledger, Self::Latency, Self::Event];

    /// The kind's byte on disk.
    pub const fn byte(self) -> u8 {
        match self {
            Self::Samples => 1,
            Self::Ledger => 2,
            Self::Latency => 3,
            Self::Event => 4,
        }
    }

    /// The kind's name in metrics and messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Samples => "samples",
            Self::Ledger => "ledger",
            Self::Latency => "latency",
            Self::Event => "event",
        }
    }

    fn of_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.byte() == byte)
    }
}

/// One thing to be sent.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Record {
    /// What it is about.
    pub kind: Kind,
    /// An OTLP `ExportMetricsServiceRequest`, plain or packed (see [`super::pack`]).
    pub payload: Vec<u8>,
}

/// Bytes that a payload of this length takes in a segment.
pub fn stored_bytes(payload: usize) -> u64 {
    RECORD_HEADER_BYTES + payload as u64
}

/// A segment's first bytes.
pub fn header() -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes
}

/// Adds a record to `bytes`. The payload must be at most [`MAX_PAYLOAD_BYTES`] long.
pub fn put(bytes: &mut Vec<u8>, kind: Kind, payload: &[u8]) {
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX).to_le_bytes();
    bytes.extend_from_slice(&length);
    bytes.extend_from_slice(&checksum(length, kind.byte(), payload).to_le_bytes());
    bytes.push(kind.byte());
    bytes.extend_from_slice(payload);
}

fn checksum(length: [u8; 4], kind: u8, payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&length);
    hasher.update(&[kind]);
    hasher.update(payload);
    hasher.finalize()
}

/// What comes next in a segment.
#[derive(Debug, Eq, PartialEq)]
pub enum Next {
    /// A record.
    Record(Record),
    /// Nothing: the segment ends here.
    End,
    /// The segment ends within a record, as after a kill in the middle of a write.
    Torn,
    /// A record that fails its check; its length, if that is possible at all.
    Damaged(Option<u64>),
}

/// Checks a segment's first bytes; `Err` with what is wrong.
///
/// # Errors
/// As [`io::Read`].
pub fn read_header(source: &mut impl Read) -> io::Result<Result<(), String>> {
    let mut bytes = [0; 12];
    let got = fill(source, &mut bytes)?;
    if got < bytes.len() {
        return Ok(Err(format!("{got} bytes, expected a header of {}", bytes.len())));
    }
    let (magic, version) = bytes.split_at(MAGIC.len());
    if magic != MAGIC {
        return Ok(Err(format!("it begins with {magic:02x?}, expected {MAGIC:02x?}")));
    }
    if version != VERSION.to_le_bytes() {
        return Ok(Err(format!("format version {version:02x?}, expected {VERSION}")));
    }
    Ok(Ok(()))
}

/// Reads the record that `source` stands at; `left` is how many bytes the segment has from here on.
///
/// # Errors
/// As [`io::Read`].
pub fn read_record(source: &mut impl Read, left: u64) -> io::Result<Next> {
    if left == 0 {
        return Ok(Next::End);
    }
    if left < RECORD_HEADER_BYTES {
        return Ok(Next::Torn);
    }
    let mut header = [0; 9];
    if fill(source, &mut header)? < header.len() {
        return Ok(Next::Torn);
    }
    let [a, b, c, d, e, f, g, h, kind_byte] = header;
    let (length, crc) = ([a, b, c, d], u32::from_le_bytes([e, f, g, h]));
    let payload_bytes = u32::from_le_bytes(length) as usize;
    if payload_bytes > MAX_PAYLOAD_BYTES {
        return Ok(Next::Damaged(None));
    }
    if stored_bytes(payload_bytes) > left {
        return Ok(Next::Torn);
    }
    let mut payload = vec![0; payload_bytes];
    if fill(source, &mut payload)? < payload_bytes {
        return Ok(Next::Torn);
    }
    if checksum(length, kind_byte, &payload) != crc {
        return Ok(Next::Damaged(Some(stored_bytes(payload_bytes))));
    }
    match Kind::of_byte(kind_byte) {
        Some(kind) => Ok(Next::Record(Record { kind, payload })),
        None => Ok(Next::Damaged(Some(stored_bytes(payload_bytes)))),
    }
}

/// Reads until `bytes` are full or the source ends; how many there were.
fn fill(source: &mut impl Read, bytes: &mut [u8]) -> io::Result<usize> {
    let mut got = 0;
    while got < bytes.len() {
        match source.read(&mut bytes[got..]) {
            Ok(0) => break,
            Ok(more) => got += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(got)
}
