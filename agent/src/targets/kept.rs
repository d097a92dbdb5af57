//! What is known of one server, on disk: what it said last, and the rows that the spool does not have yet.
//!
//! Invariant: rows are handed to the spool only when a file is on disk that has them together with the totals that they bring
//! the memory to; and they leave the file only when the spool has them. Whenever the agent is killed, either the file is from
//! before a scrape, and the next increase covers what that one saw; or it is from after it, and its rows are handed on again:
//! the same rows, by the same keys, which replace themselves.
//!
//! What a scrape tells that nothing came is not written: an increase begins earlier then, should the agent be killed, and is no
//! other. All that is written is synced, since a file whose name is on disk before its bytes are is none after a loss of power.
//!
//! One file a server, so that a damaged one is the loss of one, and a scrape writes no more than its own. Its first line is
//! `contador-scrape <version> <crc32 of what follows, hexadecimal> <bytes of JSON> <bytes of each record…>`; then come the
//! memory as JSON and the records.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::ledger::checkpoint::{CheckpointError, CheckpointFile};
use crate::scrape::server::Server;

const MAGIC: &str = "contador-scrape";
const VERSION: &str = "1";

/// How files end.
pub const EXTENSION: &str = "checkpoint";

/// Most bytes of records that wait for the spool. From then on nothing is taken from the server: the next increase covers it.
pub const MAX_PENDING_BYTES: usize = 256 << 10;

/// A file is written at least so often while its server is followed: by its age it is known who is not.
pub const REFRESH: Duration = Duration::from_secs(600);

/// What is remembered of a server.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Memory {
    /// Where it is, for people.
    pub url: String,
    /// How often it was scraped: a part of the instants of its rows.
    pub scrapes: u64,
    /// What it said last.
    pub server: Server,
}

/// The memory of a server, and what of it the spool lacks.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    /// What is remembered.
    pub memory: Memory,
    /// Encoded requests, the oldest first.
    pub pending: VecDeque<Vec<u8>>,
}

/// The folder of the files.
pub fn folder(state_dir: &Path) -> PathBuf {
    state_dir.join("scrape")
}

/// The file of the server of this id.
pub fn file(state_dir: &Path, id: Uuid) -> CheckpointFile {
    CheckpointFile::at(folder(state_dir).join(id.to_string()).with_extension(EXTENSION))
}

impl Kept {
    /// A server that is watched from this instant on, Unix nanoseconds.
    pub fn new(url: &str, since_ns: u64) -> Self {
        let memory = Memory { url: url.to_owned(), scrapes: 0, server: Server::new(since_ns) };
        Self { memory, pending: VecDeque::new() }
    }

    /// Bytes of what the spool lacks.
    pub fn pending_bytes(&self) -> usize {
        self.pending.iter().map(Vec::len).sum()
    }

    /// The file's bytes.
    ///
    /// # Errors
    /// [`CheckpointError::Encode`].
    pub fn encode(&self) -> Result<Vec<u8>, CheckpointError> {
        let json = serde_json::to_vec(&self.memory)?;
        let mut crc = crc32fast::Hasher::new();
        crc.update(&json);
        self.pending.iter().for_each(|record| crc.update(record));
        let lengths: String = self.pending.iter().map(|record| format!(" {}", record.len())).collect();
        let header = format!("{MAGIC} {VERSION} {:08x} {}{lengths}\n", crc.finalize(), json.len());
        let mut bytes = Vec::with_capacity(header.len() + json.len() + self.pending_bytes());
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend_from_slice(&json);
        self.pending.iter().for_each(|record| bytes.extend_from_slice(record));
        Ok(bytes)
    }

    /// What is in these bytes; those that follow are room for the next file.
    ///
    /// # Errors
    /// What is wrong, and what was expected.
    pub fn decode(bytes: &[u8]) -> Result<Self, String> {
        let end = bytes.iter().position(|&byte| byte == b'\n').ok_or("no header line")?;
        let header = std::str::from_utf8(&bytes[..end]).map_err(|_| "no header line")?;
        let fields: Vec<&str> = header.split(' ').collect();
        let [MAGIC, version, crc, lengths @ ..] = &fields[..] else {
            return Err(format!("header {header:?}, expected {MAGIC:?} and at least three fields"));
        };
        if *version != VERSION {
            return Err(format!("version {version}, expected {VERSION}"));
        }
        let lengths: Option<Vec<usize>> = lengths.iter().map(|length| length.parse().ok()).collect();
        let lengths = lengths.filter(|lengths| !lengths.is_empty()).ok_or_else(|| format!("header {header:?}"))?;
        let total = lengths.iter().try_fold(0_usize, |sum, length| sum.checked_add(*length));
        let body = total.and_then(|total| bytes[end + 1..].get(..total));
        let body = body.ok_or_else(|| format!("{lengths:?} bytes in a body of {}", bytes.len() - end - 1))?;
        if *crc != format!("{:08x}", crc32fast::hash(body)) {
            return Err(format!("checksum is not {crc}"));
        }
        let (json, mut rest) = body.split_at(lengths[0]);
        let memory = serde_json::from_slice(json).map_err(|error| error.to_string())?;
        let mut pending = VecDeque::new();
        for length in &lengths[1..] {
            let (record, after) = rest.split_at(*length);
            pending.push_back(record.to_vec());
            rest = after;
        }
        Ok(Self { memory, pending })
    }
}

/// What was found on disk.
#[derive(Debug, PartialEq)]
pub enum Loaded {
    /// Nothing: it was never scraped.
    Nothing,
    /// What was kept.
    Kept(Box<Kept>),
    /// A damaged file, with the reason. It was set aside.
    Damaged(String),
}

/// Reads a file.
///
/// # Errors
/// [`CheckpointError::Io`] when it is there and can't be read.
pub fn load(file: &CheckpointFile) -> Result<Loaded, CheckpointError> {
    let Some(bytes) = file.read()? else { return Ok(Loaded::Nothing) };
    match Kept::decode(&bytes) {
        Ok(kept) => Ok(Loaded::Kept(Box::new(kept))),
        Err(reason) => file.set_aside().map(|()| Loaded::Damaged(reason)),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn kept(pending: Vec<Vec<u8>>) -> Kept {
        let mut kept = Kept::new("http://chat:8000/metrics", 7);
        kept.memory.scrapes = 3;
        kept.pending = pending.into();
        kept
    }

    proptest! {
        #[test]
        fn what_is_kept_is_read_again_and_damage_is_seen(
            pending in vec(vec(any::<u8>(), 0..40), 0..5), room in vec(any::<u8>(), 0..40), at in any::<prop::sample::Index>(), flip in 1_u8..=255,
        ) {
            let kept = kept(pending);
            let bytes = kept.encode().unwrap();
            let longer: Vec<u8> = bytes.iter().chain(&room).copied().collect();
            prop_assert_eq!(Kept::decode(&longer), Ok(kept.clone()));
            let mut damaged = bytes.clone();
            damaged[at.index(bytes.len())] ^= flip;
            // A length that still gives the same body is no damage.
            prop_assert!(Kept::decode(&damaged).map_or(true, |read| read.memory == kept.memory));
            let cut = &bytes[..at.index(bytes.len())];
            prop_assert!(Kept::decode(cut).is_err());
        }
    }

    #[test]
    fn a_damaged_file_is_set_aside() {
        let dir = tempfile::tempdir().unwrap();
        let id = Uuid::from_u128(5);
        fs::create_dir_all(folder(dir.path())).unwrap();
        let file = file(dir.path(), id);
        assert_eq!(load(&file).unwrap(), Loaded::Nothing);
        let kept = kept(vec![b"one".to_vec(), b"two".to_vec()]);
        file.store(&kept.encode().unwrap(), true).unwrap();
        assert_eq!(load(&file).unwrap(), Loaded::Kept(Box::new(kept.clone())));
        let mut bytes = kept.encode().unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        file.store(&bytes, true).unwrap();
        assert!(matches!(load(&file).unwrap(), Loaded::Damaged(reason) if reason.starts_with("checksum")));
        assert_eq!(load(&file).unwrap(), Loaded::Nothing);
        assert!(file.path().with_extension("corrupt").exists());
        let other = "contador-scrape 2 00000000 0\n";
        assert_eq!(Kept::decode(other.as_bytes()).unwrap_err(), "version 2, expected 1");
    }
}
