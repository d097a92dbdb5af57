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

mod error;
mod mend;
mod position;

pub use error::SpoolError;
use error::io_error;
pub use mend::Damage;
pub use position::Position;

/// Some records from the front of a queue.
#[derive(Debug, Default, PartialEq)]
pub struct Batch {
    /// In the queue's order.
    pub records: Vec<Record>,
    /// Where each record ends.
    pub ends: Vec<Position>,
}

impl Batch {
    /// Leaves out what makes the sum of the records' `size` greater than `most`; the first stays in any case.
    pub fn hold_to(&mut self, most: usize, size: impl Fn(&Record) -> usize) {
        let mut sum = 0_usize;
        let fits = |record: &&Record| {
            sum = sum.saturating_add(size(record));
            sum <= most
        };
        let kept = self.records.iter().take_while(fits).count().max(1);
        self.records.truncate(kept);
        self.ends.truncate(kept);
    }
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
        let acknowledged = Position::read(dir);
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
        // A position that a full disk can't take brings records back after a restart, no more (invariant 4).
        self.acknowledged.write(&self.dir).or_else(|error| if error.is_out_of_space() { Ok(()) } else { Err(error) })
    }

    /// Drops the oldest segment, whatever is in it; how many records were lost by that. `None`: there is nothing to drop.
    ///
    /// # Errors
    /// [`SpoolError::Io`].
    pub fn drop_oldest(&mut self) -> Result<Option<u64>, SpoolError> {
        let Some(front) = self.segments.front() else { return Ok(None) };
        let lost = if front.number == self.acknowledged.segment && self.acknowledged.offset > HEADER_BYTES {
            self.count_from(self.acknowledged).unwrap_or(front.records)
        } else {
            front.records
        };
        self.remove_front()?;
        // It is for want of room that this is called: without the position, what was acknowledged comes again, no more.
        let _ = self.acknowledged.write(&self.dir);
        Ok(Some(lost))
    }

    /// Gives back the space of what is acknowledged, where that is everything.
    ///
    /// # Errors
    /// [`SpoolError::Io`].
    pub fn release(&mut self) -> Result<(), SpoolError> {
        if self.segments.is_empty() || !self.is_empty() {
            return Ok(());
        }
        while !self.segments.is_empty() {
            self.remove_front()?;
        }
        let _ = self.acknowledged.write(&self.dir);
        Ok(())
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

#[cfg(test)]
mod model;
