//! One mount's thread, which asks the file system how full it is. That can take for ever, and nobody waits for it.
//!
//! The thread lives as long as its mount, and is asked again only after it has answered: a mount that hangs costs one
//! thread, however long it hangs. A [`Probe`] that is dropped lets its thread end: at once when it is idle, else when its
//! call comes back.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Stack of a thread, in bytes: it makes one system call.
const STACK: usize = 64 << 10;

/// How full a file system is.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Usage {
    /// Bytes of files.
    pub used: u64,
    /// Bytes that anybody may use.
    pub free: u64,
    /// Bytes that only root may use.
    pub reserved: u64,
    /// Inodes in use and free; `None` where the file system makes them as needed.
    pub inodes: Option<(u64, u64)>,
}

/// Asks a file system how full it is; replaced in tests.
pub type Ask = Arc<dyn Fn(&Path) -> io::Result<Usage> + Send + Sync>;

/// What a probe came back with.
#[derive(Debug)]
pub struct Outcome {
    /// How long it took.
    pub took: Duration,
    /// What the file system said.
    pub answer: io::Result<Usage>,
}

/// A mount's thread.
#[derive(Debug)]
pub struct Probe {
    ask: SyncSender<()>,
    outcome: Arc<Mutex<Option<Outcome>>>,
    pending: Option<Instant>,
}

impl Probe {
    /// Starts the thread for the mount at `point`. It asks nothing yet.
    ///
    /// # Errors
    /// When the operating system refuses another thread.
    pub fn start(point: PathBuf, ask: Ask) -> io::Result<Self> {
        let (requests, asked) = sync_channel(1);
        let outcome = Arc::new(Mutex::new(None));
        let place = Arc::clone(&outcome);
        thread::Builder::new().name("mount".to_owned()).stack_size(STACK).spawn(move || {
            while asked.recv().is_ok() {
                let started = Instant::now();
                let answer = ask(&point);
                let outcome = Outcome { took: started.elapsed(), answer };
                *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
            }
        })?;
        Ok(Self { ask: requests, outcome, pending: None })
    }

    /// Asks, unless an answer is outstanding or was not taken yet.
    pub fn ask(&mut self) {
        if self.pending.is_none() && self.ask.try_send(()).is_ok() {
            self.pending = Some(Instant::now());
        }
    }

    /// Since when an answer is outstanding.
    pub fn pending(&self) -> Option<Duration> {
        self.pending.map(|since| since.elapsed())
    }

    /// The answer, once, if it has come.
    pub fn take(&mut self) -> Option<Outcome> {
        let outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner).take();
        if outcome.is_some() {
            self.pending = None;
        }
        outcome
    }

    /// Whether the answer is there to be taken.
    pub fn has_answered(&self) -> bool {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Whether its thread is in a call that has not come back.
    pub fn is_stuck(&self) -> bool {
        self.pending.is_some() && !self.has_answered()
    }
}

/// Asks the kernel, by `statvfs`.
///
/// # Errors
/// The kernel's.
pub fn statvfs(point: &Path) -> io::Result<Usage> {
    let about = rustix::fs::statvfs(point)?;
    let bytes = |blocks: u64| blocks.saturating_mul(about.f_frsize);
    Ok(Usage {
        used: bytes(about.f_blocks.saturating_sub(about.f_bfree)),
        free: bytes(about.f_bavail),
        reserved: bytes(about.f_bfree.saturating_sub(about.f_bavail)),
        inodes: (about.f_files > 0).then(|| (about.f_files.saturating_sub(about.f_ffree), about.f_ffree)),
    })
}
