//! Where an answer's bytes go on their way to the client: held back until the status is known, then sent on.
//!
//! Like a server, the endpoint sends a status only when the buffer is full or the query is done, so that an early
//! failure gets its own status. A failure after that is appended to the answer, in the form that clients look for, and
//! the connection is broken off.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

use super::error::Failure;
use super::library::Stats;
use super::slots::{Pace, Wanted};

/// Bytes that are sent on at once.
const CHUNK: usize = 64 << 10;
/// Bytes of a held-back answer that stay in memory.
const IN_MEMORY: usize = 8 << 20;

/// Bytes of a held-back answer in its file; a longer one is refused.
const SPILLED: u64 = 16 << 30;

/// How long a client may take no byte of its answer.
const STALLED: Duration = Duration::from_secs(60);
/// How often a client that takes nothing is looked at.
const TICK: Duration = Duration::from_millis(500);

/// What is known about an answer when its first byte goes out.
#[derive(Debug)]
pub struct Head {
    /// The result's format.
    pub format: String,
    /// The counts, when the query is done already.
    pub stats: Option<Stats>,
}

/// The reading end of an answer.
pub struct Answer {
    /// Its status, or why there is none.
    pub head: oneshot::Receiver<Result<Head, Failure>>,
    /// Its body.
    pub chunks: mpsc::Receiver<Bytes>,
    /// Whether the body is whole when no more of it comes.
    pub whole: Arc<AtomicBool>,
}

/// The writing end of an answer. Dropped before [`Sink::done`], it leaves an answer that is not whole.
pub struct Sink {
    head: Option<oneshot::Sender<Result<Head, Failure>>>,
    chunks: mpsc::Sender<Bytes>,
    whole: Arc<AtomicBool>,
    runtime: Option<Handle>,
    format: String,
    held: Vec<u8>,
    limit: usize,
    wait: bool,
    spill: Option<File>,
    spilled: u64,
    most: u64,
    wanted: Wanted,
    gone: bool,
}

impl Sink {
    /// A sink that holds `limit` bytes back, or with `wait` the whole answer, in a temporary file if it is long.
    /// `wanted` tells whether others wait for the slot.
    pub fn new(limit: usize, wait: bool, wanted: Wanted) -> (Self, Answer) {
        let (head_sender, head) = oneshot::channel();
        let (chunk_sender, chunks) = mpsc::channel(4);
        let whole = Arc::new(AtomicBool::new(false));
        let sink = Self {
            head: Some(head_sender),
            chunks: chunk_sender,
            whole: Arc::clone(&whole),
            runtime: Handle::try_current().ok(),
            format: String::new(),
            held: Vec::new(),
            limit,
            wait,
            spill: None,
            spilled: 0,
            most: SPILLED,
            wanted,
            gone: false,
        };
        (sink, Answer { head, chunks, whole })
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

    fn send(&mut self, mut bytes: Bytes) -> io::Result<()> {
        while !bytes.is_empty() {
            let piece = bytes.split_to(bytes.len().min(Pace::BYTES));
            if self.gone {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            let sent = match &self.runtime {
                Some(runtime) => runtime.block_on(give(&self.chunks, piece, &self.wanted)),
                None => self.chunks.blocking_send(piece).map_err(|_| io::ErrorKind::BrokenPipe),
            };
            if let Err(failed) = sent {
                self.gone = true;
                return Err(failed.into());
            }
        }
        Ok(())
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
        match sent.and_then(|()| self.send_held()) {
            Ok(()) => self.whole.store(true, Ordering::SeqCst),
            Err(error) => tracing::debug!("an answer was not sent to its end: {error}"),
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
        // A client that is gone needs no reason.
        let _ = self.send_held();
    }
}

impl Write for Sink {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.held.extend_from_slice(data);
        if self.wait {
            if self.held.len() > IN_MEMORY {
                self.spilled += self.held.len() as u64;
                if self.spilled > self.most {
                    let text = format!("an answer that is waited for has more than {} bytes", self.most);
                    return Err(io::Error::other(Failure::new(307, "TOO_MANY_BYTES", text)));
                }
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

/// Hands a piece over to a client that takes its time; for how long it may depends on whether others wait.
async fn give(chunks: &mpsc::Sender<Bytes>, piece: Bytes, wanted: &Wanted) -> Result<(), io::ErrorKind> {
    let began = Instant::now();
    let room = loop {
        match tokio::time::timeout(TICK, chunks.reserve()).await {
            Ok(room) => break room,
            Err(_) if began.elapsed() >= STALLED => return Err(io::ErrorKind::TimedOut),
            Err(_) if began.elapsed() >= Pace::WITHIN && wanted.now() => return Err(io::ErrorKind::TimedOut),
            Err(_) => {}
        }
    };
    room.map(|room| room.send(piece)).map_err(|_| io::ErrorKind::BrokenPipe)
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
        let (mut sink, mut answer) = Sink::new(10, false, Wanted::default());
        sink.write_all(b"12345").expect("room");
        assert!(answer.head.try_recv().is_err());
        sink.write_all(b"678901").expect("room");
        assert!(answer.head.try_recv().expect("a head").is_ok());
        sink.done(Stats::default());
        assert_eq!(answer.chunks.try_recv().expect("a chunk"), "12345678901");
        assert!(answer.whole.load(Ordering::SeqCst));
    }

    #[test]
    fn a_long_answer_that_waits_goes_through_a_file() {
        let (mut sink, mut answer) = Sink::new(10, true, Wanted::default());
        let piece: Vec<u8> = (0..1 << 20).map(|n: u32| n.to_le_bytes()[1]).collect();
        for _ in 0..20 {
            sink.write_all(&piece).expect("room");
        }
        assert!(answer.head.try_recv().is_err());
        let sending = std::thread::spawn(move || sink.done(Stats::default()));
        assert!(answer.head.blocking_recv().expect("a head").expect("a good one").stats.is_some());
        let mut all = Vec::new();
        while let Some(chunk) = answer.chunks.blocking_recv() {
            all.extend(chunk);
        }
        sending.join().expect("a thread");
        assert!(all == piece.repeat(20) && answer.whole.load(Ordering::SeqCst));
    }

    #[test]
    fn an_answer_that_waits_has_an_end() {
        let (mut sink, _answer) = Sink::new(10, true, Wanted::default());
        sink.most = 20 << 20;
        let piece = vec![0; 1 << 20];
        let refused = (0..40).find_map(|_| sink.write_all(&piece).err()).expect("a refusal");
        let failure = refused.get_ref().and_then(|inner| inner.downcast_ref::<Failure>()).expect("a failure");
        assert_eq!(failure.code, 307);
    }

    #[test]
    fn an_answer_that_breaks_off_is_not_whole() {
        let (mut sink, mut answer) = Sink::new(1, false, Wanted::default());
        sink.write_all(b"some").expect("room");
        sink.break_off();
        assert_eq!(answer.chunks.blocking_recv().expect("a chunk"), "some");
        assert!(answer.chunks.blocking_recv().is_none() && !answer.whole.load(Ordering::SeqCst));
    }

    #[test]
    fn the_trailer_carries_the_message_and_its_length() {
        assert_eq!(
            trailer("TAG", "Code: 1. x\n"),
            "\r\n__exception__\r\nTAG\r\nCode: 1. x\n11 TAG\r\n__exception__\r\n"
        );
    }
}
