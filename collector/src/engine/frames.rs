//! Content encodings whose libraries take a body that was cut off for one that ended: LZ4 frames and zlib.

use std::io::{self, Read};

use flate2::{Decompress, FlushDecompress, Status};

/// Packed bytes that are read at once.
const PACKED: usize = 64 << 10;

fn cut_short(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, format!("it ends before its {what} does"))
}

/// LZ4 frames, one after the other. The input may end behind a frame's end mark and nowhere else.
pub struct Lz4<R: Read> {
    frames: lz4_flex::frame::FrameDecoder<Watched<R>>,
    /// Packed bytes up to the end of the last whole frame.
    whole: u64,
}

/// Notes how far its input was read, and whether it ended.
struct Watched<R> {
    inner: R,
    read: u64,
    ended: bool,
}

impl<R: Read> Read for Watched<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(out)?;
        self.read += count as u64;
        self.ended |= count == 0 && !out.is_empty();
        Ok(count)
    }
}

impl<R: Read> Lz4<R> {
    /// Frames come from `inner`.
    pub fn new(inner: R) -> Self {
        let watched = Watched { inner, read: 0, ended: false };
        Self { frames: lz4_flex::frame::FrameDecoder::new(watched), whole: 0 }
    }
}

impl<R: Read> Read for Lz4<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            let count = self.frames.read(out)?;
            let input = self.frames.get_ref();
            // Nothing is what the decoder says behind an end mark, and also where its input ends, wherever that is.
            match (count > 0 || out.is_empty(), input.ended) {
                (true, _) => return Ok(count),
                (false, false) => self.whole = input.read,
                (false, true) if input.read == self.whole => return Ok(0),
                (false, true) => return Err(cut_short("LZ4 frame")),
            }
        }
    }
}

/// One zlib stream, which HTTP calls deflate. The input may end behind its checksum and nowhere else.
pub struct Zlib<R> {
    inner: R,
    state: Decompress,
    packed: Vec<u8>,
    at: usize,
    done: bool,
}

impl<R: Read> Zlib<R> {
    /// The stream comes from `inner`.
    pub fn new(inner: R) -> Self {
        Self { inner, state: Decompress::new(true), packed: Vec::new(), at: 0, done: false }
    }

    /// Reads more packed bytes when none are left; false at the end of the input.
    fn fill(&mut self) -> io::Result<bool> {
        if self.at == self.packed.len() {
            self.packed.resize(PACKED, 0);
            let count = self.inner.read(&mut self.packed)?;
            self.packed.truncate(count);
            self.at = 0;
        }
        Ok(!self.packed.is_empty())
    }
}

impl<R: Read> Read for Zlib<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while !self.done && !out.is_empty() {
            let more = self.fill()?;
            let (taken, given) = (self.state.total_in(), self.state.total_out());
            let status = self.state.decompress(&self.packed[self.at..], out, FlushDecompress::None)?;
            let passed = |now: u64, before: u64| usize::try_from(now - before).unwrap_or(usize::MAX);
            self.at += passed(self.state.total_in(), taken);
            let count = passed(self.state.total_out(), given);
            self.done = status == Status::StreamEnd;
            if count > 0 {
                return Ok(count);
            }
            if !self.done && !more {
                return Err(cut_short("zlib stream"));
            }
        }
        if self.done && !out.is_empty() && self.fill()? {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "more bytes follow the zlib stream's end"));
        }
        Ok(0)
    }
}
