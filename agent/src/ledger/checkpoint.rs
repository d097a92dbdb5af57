//! The ledger on disk: the open minutes, and the closed ones that the outbox does not have yet.
//!
//! One file, replaced as a whole by a rename, so that it is either the old one or the new one. Its first line is
//! `contador-ledger <version> <crc32 of what follows, hexadecimal> <bytes of JSON> <bytes of samples>`; then comes the
//! ledger as JSON, and then the samples that the spool may lack, as they are sent. These are in it so that a kill between
//! the checkpoint and the spool can't part them: the counters that the ledger has booked are always among the samples that
//! are stored. (Version 1 had no length of the samples: they went to the file's end.) A file that fails the check is set
//! aside as `*.corrupt` and the ledger starts empty: the minute in which that happens is unmetered up to then.
//!
//! The old file trades places with the new one and is written over the next time, and both are longer than what is in
//! them: a disk that is full, but keeps what was given, can't stop a checkpoint that has about the length of the last one.

use std::fs::{self, File};
use std::io::{self, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FallocateFlags, RenameFlags, fallocate, renameat_with};

use super::Ledger;

const MAGIC: &str = "contador-ledger";
const VERSION: u32 = 2;

/// Files grow in steps of this many bytes, and have at least half a step to spare.
const STEP_BYTES: u64 = 32 << 10;

/// Why a checkpoint could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// The file system refused.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The ledger can't be written as JSON.
    #[error("cannot encode the ledger")]
    Encode(#[from] serde_json::Error),
}

impl CheckpointError {
    /// True when the disk is full.
    pub fn is_out_of_space(&self) -> bool {
        let kinds = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];
        matches!(self, Self::Io { source, .. } if kinds.contains(&source.kind()))
    }
}

/// What was found on disk.
#[derive(Debug, PartialEq)]
pub enum Loaded {
    /// No checkpoint: a first start.
    Nothing,
    /// The ledger as it was, marked as interrupted, and the samples of its last tick, which may be in the spool or not.
    Ledger(Box<Ledger>, Vec<u8>),
    /// Damaged or of an unknown version; with the reason. It was set aside.
    Corrupt(String),
}

/// Where the checkpoint is kept.
#[derive(Clone, Debug)]
pub struct CheckpointFile {
    path: PathBuf,
}

impl CheckpointFile {
    /// The checkpoint in `state_dir`, which must exist.
    pub fn new(state_dir: &Path) -> Self {
        Self::at(state_dir.join("ledger.checkpoint"))
    }

    /// The checkpoint of something else, at this place.
    pub fn at(path: PathBuf) -> Self {
        Self { path }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the checkpoint.
    ///
    /// # Errors
    /// [`CheckpointError::Io`] when the file is there and can't be read.
    pub fn load(&self) -> Result<Loaded, CheckpointError> {
        let Some(bytes) = self.read()? else { return Ok(Loaded::Nothing) };
        match decode(&bytes) {
            Ok((mut ledger, samples)) => {
                ledger.resume();
                Ok(Loaded::Ledger(Box::new(ledger), samples))
            }
            Err(reason) => {
                self.set_aside()?;
                Ok(Loaded::Corrupt(reason))
            }
        }
    }

    /// What is in the file; `None` when there is none.
    ///
    /// # Errors
    /// [`CheckpointError::Io`].
    pub fn read(&self) -> Result<Option<Vec<u8>>, CheckpointError> {
        match fs::read(&self.path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(self.io("read", source)),
        }
    }

    /// Sets a damaged file aside, as `*.corrupt`.
    ///
    /// # Errors
    /// [`CheckpointError::Io`].
    pub fn set_aside(&self) -> Result<(), CheckpointError> {
        let aside = self.path.with_extension("corrupt");
        fs::rename(&self.path, &aside).map_err(|source| self.io("set aside", source))
    }

    /// Replaces the checkpoint. `durable` waits until it would survive a loss of power; without it, a kill.
    ///
    /// # Errors
    /// [`CheckpointError`]; the old checkpoint is in place then.
    pub fn store(&self, bytes: &[u8], durable: bool) -> Result<(), CheckpointError> {
        let temporary = self.path.with_extension("new");
        // What is there from the time before is room that a full disk can't take.
        let opened = File::options().create(true).truncate(false).write(true).open(&temporary);
        let written = opened.and_then(|mut file| {
            reserve(&file, bytes.len() as u64);
            file.rewind()?;
            file.write_all(bytes)?;
            if durable { file.sync_data() } else { Ok(()) }
        });
        written.map_err(|source| self.io("write", source))?;
        if renameat_with(CWD, &temporary, CWD, &self.path, RenameFlags::EXCHANGE).is_err() {
            // There is no old one yet, or the file system can't exchange.
            fs::rename(&temporary, &self.path).map_err(|source| self.io("replace", source))?;
        }
        match self.path.parent().filter(|_| durable) {
            // Without this the rename itself may be lost, and an old minute would be open again.
            Some(dir) => File::open(dir).and_then(|dir| dir.sync_all()).map_err(|source| self.io("sync", source)),
            None => Ok(()),
        }
    }

    /// The fault of a write that did not come to its end.
    pub fn failed(&self, source: io::Error) -> CheckpointError {
        self.io("write", source)
    }

    fn io(&self, action: &'static str, source: io::Error) -> CheckpointError {
        CheckpointError::Io { action, path: self.path.clone(), source }
    }
}

/// Has the file be longer than `bytes`, as far as the disk has room: less is no fault. A file that has become far too long
/// gives back.
fn reserve(file: &File, bytes: u64) {
    let wanted = (bytes + STEP_BYTES / 2).next_multiple_of(STEP_BYTES);
    let length = file.metadata().map_or(0, |metadata| metadata.len());
    if length < wanted {
        let _ = fallocate(file, FallocateFlags::empty(), 0, wanted);
    } else if length / 4 > wanted {
        let _ = file.set_len(wanted);
    }
}

/// The bytes of a checkpoint of `ledger` and the samples that the spool may lack, in parts.
///
/// # Errors
/// [`CheckpointError::Encode`].
pub fn encode<'s>(
    ledger: &Ledger,
    samples: impl Iterator<Item = &'s [u8]> + Clone,
) -> Result<Vec<u8>, CheckpointError> {
    let json = serde_json::to_vec(ledger)?;
    let mut crc = crc32fast::Hasher::new();
    crc.update(&json);
    samples.clone().for_each(|part| crc.update(part));
    let length: usize = samples.clone().map(<[u8]>::len).sum();
    let header = format!("{MAGIC} {VERSION} {:08x} {} {length}\n", crc.finalize(), json.len());
    let mut bytes = Vec::with_capacity(header.len() + json.len() + length);
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend_from_slice(&json);
    samples.for_each(|part| bytes.extend_from_slice(part));
    Ok(bytes)
}

fn decode(bytes: &[u8]) -> Result<(Ledger, Vec<u8>), String> {
    let end = bytes.iter().position(|&byte| byte == b'\n').ok_or("no header line")?;
    let header = std::str::from_utf8(&bytes[..end]).map_err(|_| "no header line")?;
    let body = &bytes[end + 1..];
    let fields: Vec<&str> = header.split(' ').collect();
    let (crc, json, samples) = match fields[..] {
        [MAGIC, "1", crc, json] => (crc, json, None),
        [MAGIC, "2", crc, json, samples] => (crc, json, Some(samples)),
        [MAGIC, version, ..] if version != "1" && version != "2" => {
            return Err(format!("version {version}, expected {VERSION}"));
        }
        _ => return Err(format!("header {header:?}, expected {MAGIC:?} and four fields")),
    };
    let body = match samples {
        None => body,
        Some(samples) => json
            .parse::<usize>()
            .ok()
            .zip(samples.parse::<usize>().ok())
            .and_then(|(json, samples)| body.get(..json.checked_add(samples)?))
            .ok_or_else(|| format!("{json} and {samples} bytes in a body of {}", body.len()))?,
    };
    if crc != format!("{:08x}", crc32fast::hash(body)) {
        return Err(format!("checksum is not {crc}"));
    }
    let (json, samples) = json
        .parse()
        .ok()
        .and_then(|length| body.split_at_checked(length))
        .ok_or_else(|| format!("{json} bytes of JSON in a body of {}", body.len()))?;
    let ledger = serde_json::from_slice(json).map_err(|error| error.to_string())?;
    Ok((ledger, samples.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_checkpoint_is_set_aside() {
        let dir = tempfile::tempdir().unwrap();
        let file = CheckpointFile::new(dir.path());
        assert_eq!(file.load().unwrap(), Loaded::Nothing);
        let mut bytes = encode(&Ledger::default(), [&b"sam"[..], b"ples"].into_iter()).unwrap();
        file.store(&bytes, true).unwrap();
        assert_eq!(file.load().unwrap(), Loaded::Ledger(Box::default(), b"samples".to_vec()));
        // One of the version before.
        let body = serde_json::to_string(&Ledger::default()).unwrap() + "s";
        let old = format!("contador-ledger 1 {:08x} {}\n{body}", crc32fast::hash(body.as_bytes()), body.len() - 1);
        fs::write(&file.path, old).unwrap();
        assert_eq!(file.load().unwrap(), Loaded::Ledger(Box::default(), b"s".to_vec()));
        *bytes.last_mut().unwrap() ^= 1;
        file.store(&bytes, false).unwrap();
        assert!(matches!(file.load().unwrap(), Loaded::Corrupt(reason) if reason.starts_with("checksum")));
        assert!(dir.path().join("ledger.corrupt").exists());
        assert_eq!(file.load().unwrap(), Loaded::Nothing);
    }

    #[test]
    fn a_checkpoint_of_about_the_same_length_needs_no_new_room() {
        let dir = tempfile::tempdir().unwrap();
        let file = CheckpointFile::new(dir.path());
        let inode = |name: &str| {
            let metadata = fs::metadata(dir.path().join(name)).unwrap();
            (std::os::unix::fs::MetadataExt::ino(&metadata), metadata.len())
        };
        for samples in [&b"a"[..], b"b"] {
            file.store(&encode(&Ledger::default(), [samples].into_iter()).unwrap(), true).unwrap();
        }
        let (current, spare) = (inode("ledger.checkpoint"), inode("ledger.new"));
        for samples in 1..15_000 {
            let bytes = encode(&Ledger::default(), [&vec![7; samples][..]].into_iter()).unwrap();
            if samples % 1_000 == 0 {
                file.store(&bytes, samples % 2_000 == 0).unwrap();
                assert_eq!(file.load().unwrap(), Loaded::Ledger(Box::default(), vec![7; samples]));
            }
        }
        // The same two files, neither longer than before, took turns.
        let after = [inode("ledger.checkpoint"), inode("ledger.new")];
        assert!(after.contains(&current) && after.contains(&spare), "{after:?} {current:?} {spare:?}");
    }
}
