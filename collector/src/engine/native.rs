//! The Native format as clients with a protocol revision expect it (`client_protocol_version`), such as Go's.
//!
//! The engine writes revision 0. From revision 54454 on, a block starts with its info, and each column says between its
//! type and its data whether it is serialized in an unusual way, which it never is here. Those bytes are put in, for
//! which the ends of the columns must be found. Clients of older revisions fall back to revision 0 themselves.

use std::io::{self, Write};

use super::error::Failure;
use super::shape::{Shape, varuint};

/// The first revision that is written.
pub const FIRST: u64 = 54454;
/// The first revision whose block info has the list of buckets that are out of order.
const OUT_OF_ORDER: u64 = 54480;

/// Writes Native blocks of a revision into `W`, out of such of revision 0.
pub struct Revised<W> {
    inner: W,
    revision: u64,
    /// What has arrived and could not be passed on yet.
    held: Vec<u8>,
    /// Columns that are left in the block, and its rows.
    block: Option<(usize, usize)>,
    /// The bytes that were there at the last try; the next is worth it when there are more by a good part.
    tried: usize,
}

impl<W: Write> Revised<W> {
    /// Starts with a block.
    pub fn new(inner: W, revision: u64) -> Self {
        Self { inner, revision, held: Vec::new(), block: None, tried: 0 }
    }

    /// Passes on what is left.
    ///
    /// # Errors
    /// The inner writer's, and an end in the middle of a block.
    pub fn finish(mut self) -> io::Result<()> {
        self.pass_on()?;
        if self.held.is_empty() && self.block.is_none() {
            return Ok(());
        }
        Err(io::Error::other(Failure::engine("a result in Native ends in the middle of a block")))
    }

    /// Passes on every column that is complete.
    fn pass_on(&mut self) -> io::Result<()> {
        let mut at = 0;
        loop {
            let step = match self.block {
                None => self.start_block(at)?,
                Some((0, _)) => {
                    self.block = None;
                    Some(at)
                }
                Some((columns, rows)) => self.column(at, columns, rows)?,
            };
            match step {
                Some(end) => at = end,
                None => break,
            }
        }
        self.held.drain(..at);
        self.tried = self.held.len();
        Ok(())
    }

    fn start_block(&mut self, at: usize) -> io::Result<Option<usize>> {
        let Some((columns, next)) = varuint(&self.held, at) else { return Ok(None) };
        let Some((rows, end)) = varuint(&self.held, next) else { return Ok(None) };
        // Field 1: no overflow rows; field 2: bucket -1; field 3: no buckets; 0: the end.
        self.inner.write_all(&[1, 0, 2, 0xff, 0xff, 0xff, 0xff])?;
        if self.revision >= OUT_OF_ORDER {
            self.inner.write_all(&[3, 0])?;
        }
        self.inner.write_all(&[0])?;
        self.inner.write_all(&self.held[at..end])?;
        self.block = Some((columns, rows));
        Ok(Some(end))
    }

    fn column(&mut self, at: usize, columns: usize, rows: usize) -> io::Result<Option<usize>> {
        let text = |at: usize| {
            let (length, start) = varuint(&self.held, at)?;
            let end = start.checked_add(length)?;
            Some((self.held.get(start..end)?, end))
        };
        let Some((kind, data)) = text(at).and_then(|(_, end)| text(end)) else { return Ok(None) };
        let shape = Shape::of(&String::from_utf8_lossy(kind)).map_err(io::Error::other)?;
        let Some(end) = shape.column_end(&self.held, data, rows) else { return Ok(None) };
        self.inner.write_all(&self.held[at..data])?;
        self.inner.write_all(&[0])?;
        self.inner.write_all(&self.held[data..end])?;
        self.block = Some((columns - 1, rows));
        Ok(Some(end))
    }
}

impl<W: Write> Write for Revised<W> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.held.extend_from_slice(data);
        // A long column is looked at a few times, not once for every piece of it.
        if self.held.len() >= self.tried + self.tried / 2 {
            self.pass_on()?;
        }
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two columns and two rows: `a UInt8` and `s String`.
    const PLAIN: &[u8] = b"\x02\x02\x01a\x05UInt8\x07\x08\x01s\x06String\x01x\x02yz";
    const REVISED: &[u8] =
        b"\x01\x00\x02\xff\xff\xff\xff\x00\x02\x02\x01a\x05UInt8\x00\x07\x08\x01s\x06String\x00\x01x\x02yz";

    fn revised(pieces: &[&[u8]], revision: u64) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        let mut writer = Revised::new(&mut out, revision);
        for piece in pieces {
            writer.write_all(piece)?;
        }
        writer.finish()?;
        Ok(out)
    }

    #[test]
    fn the_bytes_of_a_revision_are_put_in_however_the_blocks_arrive() {
        assert_eq!(revised(&[PLAIN], FIRST).expect("a block"), REVISED);
        assert_eq!(revised(&[], FIRST).expect("nothing"), b"");
        let two = [PLAIN, PLAIN].concat();
        for cut in 0..two.len() {
            let (first, second) = two.split_at(cut);
            assert_eq!(revised(&[first, second], FIRST).expect("two blocks"), [REVISED, REVISED].concat(), "{cut}");
        }
        let newer = revised(&[PLAIN], OUT_OF_ORDER).expect("a block");
        assert_eq!(&newer[..10], b"\x01\x00\x02\xff\xff\xff\xff\x03\x00\x00");
        assert_eq!(&newer[10..], &REVISED[8..]);
    }

    #[test]
    fn half_a_block_and_an_unknown_type_are_refused() {
        assert!(revised(&[&PLAIN[..PLAIN.len() - 1]], FIRST).is_err());
        assert!(revised(&[b"\x01\x01\x01j\x04JSON"], FIRST).is_err());
    }
}
