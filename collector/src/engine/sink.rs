//! Where an answer's bytes go on their way to the client: held back until the status is known, then sent on.
//!
//! Like a server, the endpoint sends a status only when the buffer is full or the query is done, so that an early
//! failure gets its own status. A failure after that is appended to the answer, in the form that clients look for, and
//! the connection is broken off.

use std::fs::File;
use std::io::{self, Read, Seek, Write};

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};

use super::error::Failure;
use super::library::Stats;

/// Bytes that are sent on at once.
const CHUNK: usize = 64 << 10;
/// Bytes of a held-back answer that stay in memory.
const IN_MEMORY: usize = 8 << 20;

/// What is known about an answer when its first byte goes out.
#[derive(Debug)]
pub struct Head {
    /// The result's format.
    pub format: String,
    /// The counts, when the query is done already.
    pub stats: Option<Stats>,
}

/// The end of an answer that failed half-way; it makes the connection break off.
#[derive(Debug, thiserror::Error)]
#[error("the query failed while its result was being sent")]
pub struct Broken;

/// A piece of an answer.
pub type Chunk = Result<Bytes, Broken>;

/// The writing end of an answer.
pub struct Sink {
    head: Option<oneshot::Sender<Result<Head, Failure>>>,
    chunks: mpsc::Sender<Chunk>,
    format: String,
    held: Vec<u8>,
    limit: usize,
    wait: bool,
    spill: Option<File>,
}

impl Sink {
    /// A sink that holds `limit` bytes back, or with `wait` the whole answer, in a temporary file if it is long.
    pub fn new(
        head: oneshot::Sender<Result<Head, Failure>>,
        chunks: mpsc::Sender<Chunk>,
        limit: usize,
        wait: bool,
    ) -> Self {
        Self { head: Some(head), chunks, format: String::new(), held: Vec::new(), limit, wait, spill: None }
    }

    /// Names the result's format, before its first byte.
    pub fn set_format(&mut self, format: &str) {
        format.clone_into(&mut self.format);
    }

    /// Whether the client has the status already.
    pub fn released(&self) -> bool {
        self.head.is_none()
    }

    fn release(&mut self, stats: Option<Stats>) {
        if let Some(head) = self.head.take() {
            // The receiver is gone only when the client is; the next chunk will tell.
            let _ = head.send(Ok(Head { format: std::mem::take(&mut self.format), stats }));
        }
    }

    fn send(&self, bytes: Bytes) -> io::Result<()> {
        self.chunks.blocking_send(Ok(bytes)).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    fn send_held(&mut self) -> io::Result<()> {
        let held = std::mem::take(&mut self.held);
        if held.is_empty() { Ok(()) } else { self.send(held.into()) }
    }

    /// Ends a good answer.
    pub fn done(mut self, stats: Stats) {
        self.release(Some(stats));
        let sent = match self.spill.take() {
            None => Ok(()),
            Some(file) => self.replay(file),
        };
        // A client that is gone needs no answer.
        if sent.and_then(|()| self.send_held()).is_err_and(|error| error.kind() != io::ErrorKind::BrokenPipe) {
            let _ = self.chunks.blocking_send(Err(Broken));
        }
    }

    fn replay(&mut self, mut file: File) -> io::Result<()> {
        file.rewind()?;
        loop {
            let mut chunk = Vec::with_capacity(CHUNK);
            if (&mut file).take(CHUNK as u64).read_to_end(&mut chunk)? == 0 {
                return Ok(());
            }
            self.send(chunk.into())?;
        }
    }

    /// Ends an answer of which nothing was sent yet.
    pub fn refuse(&mut self, failure: Failure) {
        if let Some(head) = self.head.take() {
            let _ = head.send(Err(failure));
        }
    }

    /// Breaks an answer off; what it holds is sent first.
    pub fn break_off(mut self) {
        let _ = self.send_held();
        let _ = self.chunks.blocking_send(Err(Broken));
    }
}

impl Write for Sink {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.held.extend_from_slice(data);
        if self.wait {
            if self.held.len() > IN_MEMORY {
                if self.spill.is_none() {
                    self.spill = Some(unnamed()?);
                }
                if let Some(file) = &mut self.spill {
                    file.write_all(&self.held)?;
                }
                self.held.clear();
            }
        } else if self.released() {
            if self.held.len() >= CHUNK {
                self.send_held()?;
            }
        } else if self.held.len() > self.limit {
            self.release(None);
            self.send_held()?;
        }
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A file without a name in the folder for temporary files.
pub fn unnamed() -> io::Result<File> {
    use rustix::fs::{Mode, OFlags};
    let folder = std::env::temp_dir();
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::open(&folder, flags, Mode::RUSR | Mode::WUSR)?))
}

/// The end of an answer that failed half-way, as ClickHouse writes it since 25.11 and as its clients find it.
pub fn trailer(tag: &str, message: &str) -> String {
    let message = format!("{}\n", message.trim_end());
    format!("\r\n__exception__\r\n{tag}\r\n{message}{} {tag}\r\n__exception__\r\n", message.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_answer_waits_for_its_status() {
        let (head, mut told) = oneshot::channel();
        let (chunks, mut sent) = mpsc::channel(4);
        let mut sink = Sink::new(head, chunks, 10, false);
        sink.write_all(b"12345").expect("room");
        assert!(told.try_recv().is_err());
        sink.write_all(b"678901").expect("room");
        assert!(told.try_recv().expect("a head").is_ok());
        sink.done(Stats::default());
        assert_eq!(sent.try_recv().expect("a chunk").expect("bytes"), "12345678901");
    }

    #[test]
    fn a_long_answer_that_waits_goes_through_a_file() {
        let (head, mut told) = oneshot::channel();
        let (chunks, mut sent) = mpsc::channel(1000);
        let mut sink = Sink::new(head, chunks, 10, true);
        let piece: Vec<u8> = (0..1 << 20).map(|n: u32| n.to_le_bytes()[1]).collect();
        for _ in 0..20 {
            sink.write_all(&piece).expect("room");
        }
        assert!(told.try_recv().is_err());
        sink.done(Stats::default());
        assert!(told.try_recv().expect("a head").expect("a good one").stats.is_some());
        let mut all = Vec::new();
        while let Ok(chunk) = sent.try_recv() {
            all.extend(chunk.expect("bytes"));
        }
        assert!(all == piece.repeat(20));
    }

    #[test]
    fn the_trailer_carries_the_message_and_its_length() {
        assert_eq!(
            trailer("TAG", "Code: 1. x\n"),
            "\r\n__exception__\r\nTAG\r\nCode: 1. x\n11 TAG\r\n__exception__\r\n"
        );
    }
}
