//! A queue on disk. Invariants:
//!
//! 1. Records come out in the order in which they went in, unchanged, at least once, unless they were dropped by
//!    [`Queue::drop_oldest`] or damaged on disk.
//! 2. A queue is a folder of segments `<number>.spool`, numbered upwards without reuse. Only the one with the greatest
//!    number is written to, and only at its end.
//! 3. A record is in the queue once [`Queue::append`] has returned success. With `durable` it survives a loss of power
//!    then, without it a kill of the process.
//! 4. What is before the position in the file `acknowledged` is not handed out again. That file is replaced by rename,
//!    without a sync: losing it brings back records that were sent already, which is harmless, and never loses one.
//! 5. A segment is deleted when everything in it is acknowledged and it is not written to any more, or when it is dropped.
//! 6. A torn end (a kill in the middle of a write) is cut off when the queue is opened: that record was never reported as
//!    kept. A failed append is cut off at once.
//! 7. A segment that is damaged elsewhere is set aside as `<number>.corrupt`. The records in it that pass their check are
//!    kept, in place, in a new segment of the same number; everything after it is untouched.
//! 8. The bytes held in memory are those of one batch; the queue itself keeps a few numbers a segment.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use super::segment::{self, HEADER_BYTES, Kind, MAX_PAYLOAD_BYTES, Next, Record};

/// Why the spool could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    /// The file system refused.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A payload that no collector would take.
    #[error("payload of {bytes} bytes, expected at most {MAX_PAYLOAD_BYTES}")]
    TooLarge {
        /// Its length.
        bytes: usize,
    },
    /// Records alone fill the spool.
    #[error("the spool {} is full of records: {used} of {limit} bytes", path.display())]
    Full {
        /// The spool's folder.
        path: PathBuf,
        /// Bytes in it.
        used: u64,
        /// Bytes that it may have.
        limit: u64,
    },
}

/// A place in a queue: up to here, exclusive.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Position {
    segment: u64,
    offset: u64,
}

/// Some records from the front of a queue.
#[derive(Debug, Default, PartialEq)]
pub struct Batch {
    /// In the queue's order.
    pub records: Vec<Record>,
    /// Where each record ends.
    pub ends: Vec<Position>,
}

/// What was wrong with a segment that was set aside.
#[derive(Debug, Eq, PartialEq)]
pub struct Damage {
    /// Where it is now.
    pub path: PathBuf,
    /// What was wrong.
    pub reason: String,
    /// Records that could be kept.
    pub kept: u64,
}

#[derive(Debug)]
struct Segment {
    number: u64,
    bytes: u64,
    records: u64,
}

/// A queue on disk.
#[derive(Debug)]
pub struct Queue {
    dir: PathBuf,
    segment_bytes: u64,
    segments: VecDeque<Segment>,
    acknowledged: Position,
    active: Option<File>,
    damage: Vec<Damage>,
}

impl Queue {
    /// Opens the queue in `dir`, creating it if need be; segments are begun anew from `segment_bytes` on.
    ///
    /// # Errors
    /// [`SpoolError::Io`]. Damage is no error: see [`Queue::take_damage`].
    pub fn open(dir: &Path, segment_bytes: u64) -> Result<Self, SpoolError> {
        fs::create_dir_all(dir).map_err(io_error("create", dir))?;
        let mut numbers = Vec::new();
        for entry in fs::read_dir(dir).map_err(io_error("list", dir))? {
            let path = entry.map_err(io_error("list", dir))?.path();
            if path.extension().is_some_and(|extension| extension == "spool") {
                numbers.extend(path.file_stem().and_then(|stem| u64::from_str_radix(stem.to_str()?, 16).ok()));
            }
        }
        numbers.sort_unstable();
        let acknowledged = read_acknowledged(&dir.join("acknowledged"));
        let mut queue = Self {
            dir: dir.to_owned(),
            segment_bytes,
            segments: VecDeque::new(),
            acknowledged,
            active: None,
            damage: Vec::new(),
        };
        let newest = numbers.last().copied();
        for number in numbers {
            if number < acknowledged.segment {
                remove(&queue.path(number))?;
                continue;
            }
            let segment = queue.check(number, Some(number) == newest)?;
            queue.segments.push_back(segment);
        }
        // Numbers go on where they were, even when every segment is gone: an old position must not cover new records.
        if queue.segments.is_empty() && acknowledged.segment > 0 {
            queue.acknowledged = Position { segment: acknowledged.segment + 1, offset: 0 };
        }
        queue.clamp();
        Ok(queue)
    }

    /// Adds a record at the end.
    ///
    /// # Errors
    /// [`SpoolError`]; the queue is as before then.
    pub fn append(&mut self, kind: Kind, payload: &[u8], durable: bool) -> Result<(), SpoolError> {
        if payload.len() > MAX_PAYLOAD_BYTES {
            return Err(SpoolError::TooLarge { bytes: payload.len() });
        }
        let mut bytes = Vec::with_capacity(payload.len() + 16);
        segment::put(&mut bytes, kind, payload);
        let full = self.segments.back().is_none_or(|last| last.bytes >= self.segment_bytes);
        if full {
            self.begin_segment(durable)?;
        }
        let Some(last) = self.segments.back_mut() else { return Ok(()) };
        let path = path_of(&self.dir, last.number);
        let file = match &mut self.active {
            Some(file) => file,
            none => {
                let file = OpenOptions::new().append(true).open(&path).map_err(io_error("open", &path))?;
                none.insert(file)
            }
        };
        let written = file.write_all(&bytes).and_then(|()| if durable { file.sync_data() } else { Ok(()) });
        if let Err(source) = written {
            // What is there of the record would hide the ones after it.
            let _ = file.set_len(last.bytes);
            self.active = None;
            return Err(SpoolError::Io { action: "append to", path, source });
        }
        last.bytes += bytes.len() as u64;
        last.records += 1;
        Ok(())
    }

    /// The oldest records that are not acknowledged: at least one if there is any, then more while all their payloads
    /// together have at most `max_bytes` bytes and there are at most `max_records`.
    ///
    /// # Errors
    /// [`SpoolError::Io`].
    pub fn peek(&mut self, max_records: usize, max_bytes: usize) -> Result<Batch, SpoolError> {
        let mut batch = Batch::default();
        let mut bytes = 0;
        let mut at = 0;
        'segments: while let Some(segment) = self.segments.get(at) {
            let (number, end) = (segment.number, segment.bytes);
            let mut offset = HEADER_BYTES;
            if number == self.acknowledged.segment {
                offset = offset.max(self.acknowledged.offset);
            }
            if offset >= end {
                at += 1;
                continue;
            }
            let path = self.path(number);
            let mut file = BufReader::new(File::open(&path).map_err(io_error("open", &path))?);
            file.seek(SeekFrom::Start(offset)).map_err(io_error("read", &path))?;
            while batch.records.len() < max_records {
                match segment::read_record(&mut file, end - offset).map_err(io_error("read", &path))? {
                    Next::Record(record) => {
                        bytes += record.payload.len();
                        if !batch.records.is_empty() && bytes > max_bytes {
                            return Ok(batch);
                        }
                        offset += segment::stored_bytes(record.payload.len());
                        batch.records.push(record);
                        batch.ends.push(Position { segment: number, offset });
                    }
                    Next::End => {
                        at += 1;
                        continue 'segments;
                    }
                    Next::Torn | Next::Damaged(_) if batch.records.is_empty() => {
                        // It was whole when it was opened or written: the disk has changed it.
                        self.active = None;
                        let mended = self.check(number, false)?;
                        if let Some(segment) = self.segments.get_mut(at) {
                            *segment = mended;
                        }
                        continue 'segments;
                    }
                    // What is whole before the damage goes first.
                    Next::Torn | Next::Damaged(_) => return Ok(batch),
                }
            }
            return Ok(batch);
        }
        Ok(batch)
    }

    /// Lets everything before `end` go.
    ///
    /// # Errors
    /// [`SpoolError::Io`]; the records may come again after a restart then.
    pub fn acknowledge(&mut self, end: Position) -> Result<(), SpoolError> {
        self.acknowledged = self.acknowledged.max(end);
        while self.segments.len() > 1 && self.front_is_done() {
            self.remove_front()?;
        }
        // A large last segment that is done goes too: the next append begins a new one.
        if self.front_is_done() && self.segments.front().is_some_and(|front| front.bytes >= self.segment_bytes) {
            self.remove_front()?;
        }
        self.write_acknowledged()
    }

    /// Drops the oldest segment, whatever is in it; how many records were lost by that. `None`: there is nothing to drop.
    ///
    /// # Errors
    /// [`SpoolError::Io`].
    pub fn drop_oldest(&mut self) -> Result<Option<u64>, SpoolError> {
        let Some(front) = self.segments.front() else { return Ok(None) };
        let lost = if front.number == self.acknowledged.segment && self.acknowledged.offset > HEADER_BYTES {
            self.count_from(self.acknowledged)?
        } else {
            front.records
        };
        self.remove_front()?;
        self.write_acknowledged()?;
        Ok(Some(lost))
    }

    /// Bytes on disk.
    pub fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes).sum()
    }

    /// True when every record is acknowledged.
    pub fn is_empty(&self) -> bool {
        self.segments.iter().all(|segment| {
            let done = if segment.number == self.acknowledged.segment { self.acknowledged.offset } else { 0 };
            segment.bytes <= done.max(HEADER_BYTES)
        })
    }

    /// What was set aside since the last call.
    pub fn take_damage(&mut self) -> Vec<Damage> {
        std::mem::take(&mut self.damage)
    }

    fn begin_segment(&mut self, durable: bool) -> Result<(), SpoolError> {
        let after = self.segments.back().map_or(self.acknowledged.segment, |last| last.number + 1);
        let number = after.max(1);
        let path = self.path(number);
        let mut file =
            OpenOptions::new().create_new(true).append(true).open(&path).map_err(io_error("create", &path))?;
        let header = segment::header();
        let written = file.write_all(&header).and_then(|()| {
            if !durable {
                return Ok(());
            }
            file.sync_data()?;
            File::open(&self.dir)?.sync_all()
        });
        if let Err(source) = written {
            let _ = fs::remove_file(&path);
            return Err(SpoolError::Io { action: "begin", path, source });
        }
        self.active = Some(file);
        self.segments.push_back(Segment { number, bytes: header.len() as u64, records: 0 });
        Ok(())
    }

    /// Reads a segment through; cuts a torn end off the newest, sets a damaged one aside and keeps what is whole.
    fn check(&mut self, number: u64, newest: bool) -> Result<Segment, SpoolError> {
        let path = self.path(number);
        let bytes = fs::metadata(&path).map_err(io_error("read", &path))?.len();
        let mut file = BufReader::new(File::open(&path).map_err(io_error("open", &path))?);
        let mut whole = segment::header();
        let mut records = 0;
        let mut reason = segment::read_header(&mut file).map_err(io_error("read", &path))?.err();
        let torn_header = bytes < HEADER_BYTES && newest;
        let mut offset = HEADER_BYTES;
        let mut damaged = false;
        while reason.is_none() {
            match segment::read_record(&mut file, bytes - offset).map_err(io_error("read", &path))? {
                Next::Record(record) => {
                    records += 1;
                    offset += segment::stored_bytes(record.payload.len());
                    if damaged {
                        segment::put(&mut whole, record.kind, &record.payload);
                    }
                }
                Next::End if !damaged => return Ok(Segment { number, bytes, records }),
                Next::Torn if newest && !damaged => {
                    let file = OpenOptions::new().write(true).open(&path).map_err(io_error("open", &path))?;
                    file.set_len(offset).map_err(io_error("cut", &path))?;
                    return Ok(Segment { number, bytes: offset, records });
                }
                Next::Damaged(Some(length)) => {
                    if !damaged {
                        whole = self.prefix(&path, offset)?;
                    }
                    damaged = true;
                    offset += length;
                }
                Next::End => reason = Some("a record fails its checksum".to_owned()),
                Next::Torn | Next::Damaged(None) => {
                    if !damaged {
                        whole = self.prefix(&path, offset)?;
                    }
                    reason = Some(format!("no record can begin at byte {offset}"));
                }
            }
        }
        let reason = reason.unwrap_or_default();
        if torn_header {
            // A kill while the segment was begun: nothing was in it.
            fs::write(&path, &whole).map_err(io_error("begin", &path))?;
            return Ok(Segment { number, bytes: whole.len() as u64, records: 0 });
        }
        let aside = path.with_extension("corrupt");
        let mended = path.with_extension("mended");
        fs::write(&mended, &whole).map_err(io_error("write", &mended))?;
        if number == self.acknowledged.segment {
            // Offsets move: what is whole is sent again.
            self.acknowledged.offset = 0;
            self.write_acknowledged()?;
        }
        fs::rename(&path, &aside).map_err(io_error("set aside", &path))?;
        fs::rename(&mended, &path).map_err(io_error("replace", &path))?;
        self.damage.push(Damage { path: aside, reason, kept: records });
        Ok(Segment { number, bytes: whole.len() as u64, records })
    }

    fn prefix(&self, path: &Path, bytes: u64) -> Result<Vec<u8>, SpoolError> {
        use io::Read as _;
        let mut prefix = Vec::new();
        let file = File::open(path).map_err(io_error("open", path))?;
        file.take(bytes).read_to_end(&mut prefix).map_err(io_error("read", path))?;
        Ok(prefix)
    }

    fn count_from(&self, position: Position) -> Result<u64, SpoolError> {
        let path = self.path(position.segment);
        let mut file = BufReader::new(File::open(&path).map_err(io_error("open", &path))?);
        file.seek(SeekFrom::Start(position.offset)).map_err(io_error("read", &path))?;
        let end = self.segments.front().map_or(0, |front| front.bytes);
        let (mut offset, mut count) = (position.offset, 0);
        while let Next::Record(record) =
            segment::read_record(&mut file, end.saturating_sub(offset)).map_err(io_error("read", &path))?
        {
            offset += segment::stored_bytes(record.payload.len());
            count += 1;
        }
        Ok(count)
    }

    fn front_is_done(&self) -> bool {
        self.segments.front().is_some_and(|front| {
            (front.number, front.bytes) <= (self.acknowledged.segment, self.acknowledged.offset)
                || front.number < self.acknowledged.segment
        })
    }

    fn remove_front(&mut self) -> Result<(), SpoolError> {
        let Some(front) = self.segments.front() else { return Ok(()) };
        let number = front.number;
        remove(&self.path(number))?;
        self.segments.pop_front();
        if self.segments.is_empty() {
            self.active = None;
        }
        self.acknowledged = self.acknowledged.max(Position { segment: number + 1, offset: 0 });
        Ok(())
    }

    /// Holds a position that no segment has (its tail was lost with the power) to the segments that are there.
    fn clamp(&mut self) {
        let acknowledged = self.acknowledged;
        if let Some(segment) = self.segments.iter().find(|segment| segment.number == acknowledged.segment) {
            self.acknowledged.offset = acknowledged.offset.min(segment.bytes);
        }
    }

    fn write_acknowledged(&self) -> Result<(), SpoolError> {
        let path = self.dir.join("acknowledged");
        let temporary = self.dir.join("acknowledged.new");
        let text = format!("{:016x} {}\n", self.acknowledged.segment, self.acknowledged.offset);
        let bytes = format!("{:08x} {text}", crc32fast::hash(text.as_bytes()));
        fs::write(&temporary, bytes).map_err(io_error("write", &temporary))?;
        fs::rename(&temporary, &path).map_err(io_error("replace", &path))
    }

    fn path(&self, number: u64) -> PathBuf {
        path_of(&self.dir, number)
    }
}

fn path_of(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:016x}.spool"))
}

fn remove(path: &Path) -> Result<(), SpoolError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error("delete", path)(error)),
        _ => Ok(()),
    }
}

/// The position on disk; the beginning when there is none or it is damaged.
fn read_acknowledged(path: &Path) -> Position {
    let parse = |text: String| {
        let (crc, rest) = text.split_once(' ')?;
        (crc == format!("{:08x}", crc32fast::hash(rest.as_bytes()))).then_some(())?;
        let (segment, offset) = rest.trim_end().split_once(' ')?;
        Some(Position { segment: u64::from_str_radix(segment, 16).ok()?, offset: offset.parse().ok()? })
    };
    fs::read_to_string(path).ok().and_then(parse).unwrap_or_default()
}

fn io_error<'a>(action: &'static str, path: &'a Path) -> impl Fn(io::Error) -> SpoolError + use<'a> {
    move |source| SpoolError::Io { action, path: path.to_owned(), source }
}

#[cfg(test)]
mod model;
