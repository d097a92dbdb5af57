//! Running totals that services send by OTLP become increases, here, where all of a service's points come to one place.
//!
//! [`deltas`] goes through a request: points of cumulative histograms become what came since the last one, and everything else
//! stays as it is. [`name`] is the key of a series, [`point`] one total, and what came between two of them. [`memory`] has the last two of each series, and
//! [`journal`] keeps them on disk. [`lanes`] parts a request: histograms are records, and other numbers are samples, which may go
//! when the spool is full.
//!
//! Invariant: what a request changes is in the journal, with its records as they are handed on, before these are in the spool;
//! and it is answered when they are in both. Whenever the agent is killed, it goes on from the journal, and hands the last records
//! on once more, which makes the same rows. A request that was not answered is sent again, and makes them, too.

pub mod deltas;
pub mod journal;
pub mod lanes;
pub mod memory;
mod name;
pub mod point;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use prost::Message as _;

use crate::outbox::segment::MAX_PAYLOAD_BYTES;
use crate::outbox::{Keeper, Kind, Lost, Record, SpoolError};
use deltas::Counted;
use journal::{Frame, Journal, JournalError};
use memory::Memory;

/// The totals, and the way from there into the spool. Clones are the same.
#[derive(Clone, Debug)]
pub struct Totals {
    state: Arc<tokio::sync::Mutex<State>>,
    journal: Arc<Mutex<Journal>>,
    keeper: Keeper,
    node: String,
    /// Most bytes of what is handed on of a request.
    max_bytes: usize,
}

#[derive(Debug)]
struct State {
    memory: Memory,
    /// What is in the journal, and may not be in the spool.
    pending: Option<Vec<u8>>,
}

/// Why a request was not taken. It may be sent again, unless it is too large.
#[derive(Debug, thiserror::Error)]
pub enum TotalsError {
    /// The spool does not take it.
    #[error("the request can't be kept")]
    Spool(#[from] SpoolError),
    /// The journal does not take it.
    #[error("the running totals can't be kept")]
    Journal(#[from] JournalError),
    /// What kept it has panicked.
    #[error("the request may not be kept")]
    Panicked(#[from] tokio::task::JoinError),
    /// The spool never will take it.
    #[error("the request has {bytes} bytes, expected at most {max_bytes}, as the spool has room for")]
    TooLarge {
        /// Its length.
        bytes: usize,
        /// The greatest.
        max_bytes: usize,
    },
}

impl Totals {
    /// Opens the journal in `state_dir`; at `now_ns`, Unix nanoseconds, a new one begins. The spool has at most `spool_bytes`.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn open(
        state_dir: &Path,
        now_ns: u64,
        node: &str,
        keeper: Keeper,
        spool_bytes: u64,
    ) -> Result<Self, JournalError> {
        let max_bytes = usize::try_from(spool_bytes / 2).map_or(MAX_PAYLOAD_BYTES, |half| half.min(MAX_PAYLOAD_BYTES));
        let (journal, memory, pending) = Journal::open(state_dir, now_ns)?;
        let state = State { memory, pending };
        Ok(Self {
            state: Arc::new(tokio::sync::Mutex::new(state)),
            journal: Arc::new(Mutex::new(journal)),
            keeper,
            node: node.to_owned(),
            max_bytes,
        })
    }

    /// Keeps a request: totals as increases, the rest as it is. Returns when it is on disk; what is `held` is let go of then. Goes
    /// on when nobody waits for it any more, since the memory is ahead of the disk until it is done.
    ///
    /// # Errors
    /// [`TotalsError`].
    pub async fn keep(
        &self,
        request: ExportMetricsServiceRequest,
        now_ns: u64,
        held: impl Send + 'static,
    ) -> Result<Counted, TotalsError> {
        let totals = self.clone();
        let done = tokio::spawn(async move {
            let _held = held;
            totals.keep_whole(request, now_ns).await
        });
        done.await?
    }

    async fn keep_whole(&self, mut request: ExportMetricsServiceRequest, now_ns: u64) -> Result<Counted, TotalsError> {
        let mut state = self.state.lock().await;
        self.flush(&mut state).await?;
        let counted = deltas::convert(&mut request, &self.node, &mut state.memory, now_ns);
        let numbers = lanes::take_numbers(&mut request).encode_to_vec();
        let payload = request.encode_to_vec();
        let bytes = payload.len().max(numbers.len());
        if bytes > self.max_bytes {
            state.memory.undo();
            return Err(TotalsError::TooLarge { bytes, max_bytes: self.max_bytes });
        }
        let parts = [(Kind::Latency, payload.clone()), (Kind::Samples, numbers)];
        let parts = parts.into_iter().filter(|(_, payload)| !payload.is_empty());
        let records = parts.map(|(kind, payload)| Record { kind, payload }).collect();
        let Some(frame) = state.memory.changes(&payload) else {
            return self.keeper.append(records).await.map(|_| counted).map_err(|(_, error)| error.into());
        };
        let (journal, snapshot) = (Arc::clone(&self.journal), state.memory.snapshot_when(&self.journal));
        let write = move || write(&journal, &frame, snapshot);
        let error = match self.keeper.append_after(write, records).await {
            Ok(Ok(_)) => {
                state.memory.settle();
                return Ok(counted);
            }
            Err(Lost::Refused(error)) if !error.may_have_it => {
                state.memory.undo();
                return Err(error.into());
            }
            Ok(Err((_, error))) | Err(Lost::Panicked(error)) => error.into(),
            Err(Lost::Refused(error)) => error.into(),
        };
        // The journal has it, or may have it.
        state.memory.settle();
        state.pending = Some(payload).filter(|payload| !payload.is_empty());
        Err(error)
    }

    /// Hands on what a kill, or a spool that was full, may have kept from the spool.
    ///
    /// # Errors
    /// [`TotalsError::Spool`].
    pub async fn resume(&self) -> Result<(), TotalsError> {
        let mut state = self.state.lock().await;
        self.flush(&mut state).await
    }

    async fn flush(&self, state: &mut State) -> Result<(), TotalsError> {
        let Some(payload) = &state.pending else { return Ok(()) };
        if payload.len() > self.max_bytes {
            // The spool was made smaller.
            tracing::error!(
                bytes = payload.len(),
                self.max_bytes,
                "the last request is too large for the spool, set aside"
            );
            self.keeper.reject(Record { kind: Kind::Latency, payload: payload.clone() }).await?;
        } else {
            self.keeper.keep(Kind::Latency, payload.clone()).await?;
        }
        state.pending = None;
        Ok(())
    }
}

fn write(journal: &Mutex<Journal>, frame: &Frame, snapshot: Option<Frame>) -> Result<(), JournalError> {
    let mut journal = journal.lock().unwrap_or_else(PoisonError::into_inner);
    match snapshot {
        // It has the changes, too.
        Some(mut snapshot) => {
            snapshot.payload.clone_from(&frame.payload);
            journal.replace(&snapshot)
        }
        None => journal.append(frame),
    }
}

#[cfg(test)]
mod tests;
