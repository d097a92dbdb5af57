//! How far a queue is acknowledged, and the file that remembers it.

use std::fs;
use std::path::Path;

use super::error::{SpoolError, io_error};

/// A place in a queue: up to here, exclusive.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Position {
    pub(super) segment: u64,
    pub(super) offset: u64,
}

impl Position {
    /// The position in a queue's folder; the beginning when there is none or it is damaged.
    pub(super) fn read(dir: &Path) -> Self {
        let parse = |text: String| {
            let (crc, rest) = text.split_once(' ')?;
            (crc == format!("{:08x}", crc32fast::hash(rest.as_bytes()))).then_some(())?;
            let (segment, offset) = rest.trim_end().split_once(' ')?;
            Some(Self { segment: u64::from_str_radix(segment, 16).ok()?, offset: offset.parse().ok()? })
        };
        fs::read_to_string(dir.join("acknowledged")).ok().and_then(parse).unwrap_or_default()
    }

    /// Keeps the position in a queue's folder.
    pub(super) fn write(self, dir: &Path) -> Result<(), SpoolError> {
        let path = dir.join("acknowledged");
        let temporary = dir.join("acknowledged.new");
        let text = format!("{:016x} {}\n", self.segment, self.offset);
        let bytes = format!("{:08x} {text}", crc32fast::hash(text.as_bytes()));
        fs::write(&temporary, bytes).map_err(io_error("write", &temporary))?;
        fs::rename(&temporary, &path).map_err(io_error("replace", &path))
    }
}
