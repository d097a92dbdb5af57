//! The totals on disk: frames, each of which is what one request changed, with the request as it is handed on.
//!
//! A frame is four bytes of length, the CRC-32 of these four, the CRC-32 of the message, and the message, which is protobuf.
//! Frames are added to the end, and are on disk when that returns. The last one may be cut off: nothing of it was answered. One
//! that is damaged is lost with all that follows: series that are not remembered then begin with a base line. When the file has
//! become long, one frame with everything takes its place by a rename.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use contador_schemas::runs::{self, Runs};
use opentelemetry_proto::tonic::metrics::v1::{ExponentialHistogramDataPoint, HistogramDataPoint};
use prost::Message;
use uuid::Uuid;

use super::memory::{Memory, Series};
use super::point::Total;

/// The file is made anew when it is longer than this and than twice what it was when it was made.
const LONG_BYTES: u64 = 4 << 20;

/// The totals can't be kept on disk, or not be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {}", path.display())]
pub struct JournalError {
    action: &'static str,
    path: PathBuf,
    source: io::Error,
    /// Whether the file may have what was to be written.
    pub may_have_it: bool,
}

/// What a request changed.
#[derive(Clone, PartialEq, Message)]
pub struct Frame {
    /// Since when series that are not remembered have not been seen, Unix nanoseconds.
    #[prost(fixed64, tag = "1")]
    pub since: u64,
    /// Series as they are now.
    #[prost(message, repeated, tag = "2")]
    pub entries: Vec<Entry>,
    /// Series that are not remembered any more.
    #[prost(bytes = "vec", repeated, tag = "3")]
    pub forgotten: Vec<Vec<u8>>,
    /// The request as it is handed on.
    #[prost(bytes = "vec", tag = "4")]
    pub payload: Vec<u8>,
}

/// A series.
#[derive(Clone, PartialEq, Message)]
pub struct Entry {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(uint64, tag = "2")]
    received: u64,
    #[prost(message, optional, tag = "3")]
    explicit: Option<HistogramDataPoint>,
    #[prost(message, optional, tag = "4")]
    exponential: Option<ExponentialHistogramDataPoint>,
    #[prost(message, optional, tag = "5")]
    explicit_before: Option<HistogramDataPoint>,
    #[prost(message, optional, tag = "6")]
    exponential_before: Option<ExponentialHistogramDataPoint>,
    #[prost(message, repeated, tag = "7")]
    ended: Vec<Ended>,
    /// Which keys it has: 0 of those that may have the node's name in them.
    #[prost(uint32, tag = "8")]
    pub(super) keys: u32,
}

/// A run that has ended.
#[derive(Clone, PartialEq, Message)]
struct Ended {
    #[prost(sfixed64, tag = "1")]
    start: i64,
    #[prost(sfixed64, tag = "2")]
    time: i64,
}

impl Entry {
    /// Of this series.
    pub fn of(key: Uuid, series: &Series) -> Self {
        let ended = series.runs.ended().iter().map(|&runs::Ended { start, time }| Ended { start, time }).collect();
        let (key, received, keys) = (key.as_bytes().to_vec(), series.received, u32::from(!series.former));
        let mut entry = Self { key, received, ended, keys, ..Self::default() };
        match &series.last {
            Total::Explicit(point) => entry.explicit = Some(point.clone()),
            Total::Exponential(point) => entry.exponential = Some(point.clone()),
        }
        match &series.before {
            Some(Total::Explicit(point)) => entry.explicit_before = Some(point.clone()),
            Some(Total::Exponential(point)) => entry.exponential_before = Some(point.clone()),
            None => {}
        }
        entry
    }

    /// The series; `None` for what no version has written.
    pub fn read(&self) -> Option<(Uuid, Series)> {
        let total = |explicit: &Option<HistogramDataPoint>, exponential: &Option<ExponentialHistogramDataPoint>| {
            let explicit = explicit.clone().map(Total::Explicit);
            explicit.or_else(|| exponential.clone().map(Total::Exponential))
        };
        let last = total(&self.explicit, &self.exponential)?;
        let before = total(&self.explicit_before, &self.exponential_before);
        let ended = self.ended.iter().map(|&Ended { start, time }| runs::Ended { start, time });
        let runs = Runs::new(ended.collect());
        let series = Series { before, last, runs, received: self.received, former: self.keys == 0 };
        Some((Uuid::from_slice(&self.key).ok()?, series))
    }
}

/// The open file.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    bytes: u64,
    /// How long it was when it was made.
    made_bytes: u64,
    /// Whether a part of a frame is at its end.
    is_torn: bool,
}

impl Journal {
    /// Reads the totals in `state_dir`, or begins at `now`, Unix nanoseconds; what they are, and the last request.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn open(state_dir: &Path, now: u64) -> Result<(Self, Memory, Option<Vec<u8>>), JournalError> {
        let path = state_dir.join("totals.journal");
        let failed = |action| {
            let path = path.clone();
            move |source| JournalError { action, path, source, may_have_it: false }
        };
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(failed("read")(error)),
        };
        let (mut rest, mut memory, mut pending) = (bytes.as_slice(), None::<Memory>, None);
        let end = loop {
            match next(rest) {
                Next::Frame(frame, after) => {
                    memory.get_or_insert_with(|| Memory::new(frame.since)).restore(&frame);
                    pending = Some(frame.payload).filter(|payload| !payload.is_empty());
                    rest = after;
                }
                end => break end,
            }
        };
        let mut memory = memory.unwrap_or_else(|| Memory::new(now));
        if matches!(end, Next::Damaged) {
            let (path, lost) = (path.display(), rest.len());
            tracing::error!(%path, lost, "the running totals are damaged, and these bytes are left out");
            // Series that are not remembered now may have been counted.
            memory.watch_from(now);
        }
        let snapshot = Frame { payload: pending.clone().unwrap_or_default(), ..memory.snapshot() };
        memory.settle();
        let file = OpenOptions::new().create(true).append(true).open(&path).map_err(failed("open"))?;
        let mut journal = Self { path, file, bytes: 0, made_bytes: 0, is_torn: false };
        journal.replace(&snapshot)?;
        Ok((journal, memory, pending))
    }

    /// Whether it is to be made anew.
    pub fn is_long(&self) -> bool {
        self.is_torn || self.bytes > LONG_BYTES.max(2 * self.made_bytes)
    }

    /// Adds a frame, which is on disk then.
    ///
    /// # Errors
    /// [`JournalError`]; the file is as it was.
    pub fn append(&mut self, frame: &Frame) -> Result<(), JournalError> {
        let bytes = framed(frame);
        let written = self.file.write_all(&bytes).and_then(|()| self.file.sync_data());
        if let Err(source) = written {
            self.is_torn = self.file.set_len(self.bytes).is_err();
            return Err(self.failed("append to", source));
        }
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Has one frame take the place of all.
    ///
    /// # Errors
    /// [`JournalError`]; the file is as it was, but where it says that it may have it.
    pub fn replace(&mut self, frame: &Frame) -> Result<(), JournalError> {
        let (bytes, temporary) = (framed(frame), self.path.with_extension("new"));
        let written = fs::remove_file(&temporary)
            .or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
            .and_then(|()| OpenOptions::new().create_new(true).append(true).open(&temporary))
            .and_then(|mut file| {
                file.write_all(&bytes)?;
                file.sync_all()?;
                Ok(file)
            });
        let file = written.map_err(|source| self.failed("write", source))?;
        fs::rename(&temporary, &self.path).map_err(|source| self.failed("replace", source))?;
        (self.file, self.is_torn) = (file, false);
        (self.bytes, self.made_bytes) = (bytes.len() as u64, bytes.len() as u64);
        let synced = self.path.parent().map_or(Ok(()), |dir| File::open(dir).and_then(|dir| dir.sync_all()));
        synced.map_err(|source| JournalError { may_have_it: true, ..self.failed("sync", source) })
    }

    fn failed(&self, action: &'static str, source: io::Error) -> JournalError {
        JournalError { action, path: self.path.clone(), source, may_have_it: false }
    }
}

fn framed(frame: &Frame) -> Vec<u8> {
    let message = frame.encode_to_vec();
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    let length = length.to_le_bytes();
    let mut bytes = Vec::with_capacity(message.len() + 12);
    bytes.extend(length);
    bytes.extend(crc32fast::hash(&length).to_le_bytes());
    bytes.extend(crc32fast::hash(&message).to_le_bytes());
    bytes.extend(message);
    bytes
}

/// What is at the start of some bytes.
enum Next<'a> {
    /// A frame, and what is after it.
    Frame(Frame, &'a [u8]),
    /// Nothing, or a part of a frame.
    End,
    /// No frame.
    Damaged,
}

fn next(bytes: &[u8]) -> Next<'_> {
    let Some((header, rest)) = bytes.split_first_chunk::<12>() else { return Next::End };
    let [length, of_length, of_message] =
        [0, 4, 8].map(|at| [header[at], header[at + 1], header[at + 2], header[at + 3]]);
    if crc32fast::hash(&length) != u32::from_le_bytes(of_length) {
        return Next::Damaged;
    }
    let Some((message, rest)) = rest.split_at_checked(u32::from_le_bytes(length) as usize) else { return Next::End };
    match Frame::decode(message) {
        Ok(frame) if crc32fast::hash(message) == u32::from_le_bytes(of_message) => Next::Frame(frame, rest),
        _ => Next::Damaged,
    }
}
