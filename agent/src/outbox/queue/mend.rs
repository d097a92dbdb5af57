//! Checking a segment, and saving what can be saved of a damaged one.

use std::fs::{self, File, OpenOptions};
use std::io::{BufReader, Read as _};
use std::path::{Path, PathBuf};

use super::error::{SpoolError, io_error};
use super::{Queue, Segment};
use crate::outbox::segment::{self, HEADER_BYTES, Next};

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

impl Queue {
    /// Reads a segment through; cuts a torn end off the newest, sets a damaged one aside and keeps what is whole.
    pub(super) fn check(&mut self, number: u64, newest: bool) -> Result<Segment, SpoolError> {
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
            self.acknowledged.write(&self.dir)?;
        }
        fs::rename(&path, &aside).map_err(io_error("set aside", &path))?;
        fs::rename(&mended, &path).map_err(io_error("replace", &path))?;
        self.damage.push(Damage { path: aside, reason, kept: records });
        Ok(Segment { number, bytes: whole.len() as u64, records })
    }

    fn prefix(&self, path: &Path, bytes: u64) -> Result<Vec<u8>, SpoolError> {
        let mut prefix = Vec::new();
        let file = File::open(path).map_err(io_error("open", path))?;
        file.take(bytes).read_to_end(&mut prefix).map_err(io_error("read", path))?;
        Ok(prefix)
    }
}
