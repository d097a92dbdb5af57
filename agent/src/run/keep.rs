//! What a node keeps at a tick, and in which order: the ledger's checkpoint, then samples, minutes and events.
//!
//! Invariant: samples and minutes are in the spool only when a checkpoint that has them is on disk, and minutes leave the
//! checkpoint only when they are in the spool. Whenever the agent is killed, it goes on from a ledger that knows
//! everything that was handed on, and a minute never gets another content. While there is no checkpoint, nothing is handed
//! on: it stays in memory, samples up to [`MAX_UNKEPT_BYTES`], minutes up to [`MAX_PENDING_MINUTES`] (from then on, time is
//! not booked, and becomes unmetered).

use super::node::Node;
use crate::errors::chain;
use crate::ledger::checkpoint::{self, CheckpointError};
use crate::outbox::encode::{Points, infos, rows};
use crate::outbox::{Kind, Lost, Record, SpoolError};

/// Most closed minutes in one record.
const MINUTES_PER_RECORD: usize = 240;

/// Most bytes of samples that wait for the checkpoint or the spool; beyond that the oldest go.
const MAX_UNKEPT_BYTES: usize = 1 << 20;

/// From so many minutes on that nobody could take over, no more are made.
const MAX_PENDING_MINUTES: usize = 20_000;

/// Most events that wait for a spool that can't take them.
const MAX_EVENTS: usize = 2_000;

/// Most events in one record.
const EVENTS_PER_RECORD: usize = 200;

/// Things that can go wrong at every tick, and are logged when that begins and ends.
#[derive(Debug, Default)]
pub(super) struct Troubles {
    checkpoint: Trouble,
    samples: Trouble,
    minutes: Trouble,
    events: Trouble,
}

#[derive(Debug, Default)]
struct Trouble(bool);

impl Trouble {
    fn note(&mut self, what: &str, result: Result<(), String>) {
        let before = std::mem::replace(&mut self.0, result.is_err());
        match result {
            Err(error) if !before => tracing::error!(error, "{what}"),
            Ok(()) if before => tracing::info!("no longer: {what}"),
            _ => {}
        }
    }
}

impl Node {
    /// Takes over the samples of a tick, for the next checkpoint.
    pub(super) fn hold_samples(&mut self, payload: Vec<u8>) {
        if payload.is_empty() {
            return;
        }
        // Without memory for it, they are kept as they are.
        let packed = self.packer.pack(&payload).unwrap_or(payload);
        self.unkept.push_back(packed);
        let mut bytes: usize = self.unkept.iter().map(Vec::len).sum();
        while bytes > MAX_UNKEPT_BYTES && self.unkept.len() > 1 {
            bytes -= self.unkept.pop_front().map_or(0, |oldest| oldest.len());
            self.telemetry.dropped.with_label_values(&["samples", "unkept"]).inc();
        }
    }

    /// Whether the ledger may make more minutes.
    pub(super) fn books(&self) -> bool {
        self.ledger.pending().len() < MAX_PENDING_MINUTES
    }

    /// Keeps what a tick has made: see this file's invariant.
    pub(super) async fn keep(&mut self) {
        let stored = self.store_checkpoint().await;
        self.telemetry.checkpoint_failing.set(stored.is_err().into());
        self.checkpoint_fault = stored.clone().err();
        self.troubles.checkpoint.note("cannot write the ledger's checkpoint, nothing is handed on", stored);
        if self.checkpoint_fault.is_none() {
            self.keep_samples().await;
            self.hand_on_minutes().await;
        }
        let pending = i64::try_from(self.ledger.pending().len()).unwrap_or(i64::MAX);
        self.telemetry.pending_minutes.set(pending);
        self.keep_events().await;
    }

    /// Writes the checkpoint, with all samples that the spool lacks. On a full disk, samples give way to it: first the
    /// oldest in the spool, when that is on the same disk, then all but the newest in the checkpoint itself.
    async fn store_checkpoint(&mut self) -> Result<(), String> {
        let Err(error) = self.store_and_keep().await else { return Ok(()) };
        if !error.is_out_of_space() {
            return Err(chain(&error));
        }
        if self.one_disk {
            match self.keeper.make_room().await {
                Ok(()) => match self.store(0).await {
                    Err(error) if error.is_out_of_space() => {}
                    other => return other.map_err(|error| chain(&error)),
                },
                Err(error) => tracing::debug!(error = chain(&error), "cannot drop samples for the checkpoint"),
            }
        }
        self.store(self.unkept.len().saturating_sub(1)).await.map_err(|error| chain(&error))
    }

    /// Writes the checkpoint, and hands on the samples that it has, both on one thread that is woken once.
    async fn store_and_keep(&mut self) -> Result<(), CheckpointError> {
        let store = self.storing(0)?;
        match self.keeper.append_after(store, self.samples()).await {
            Ok(appended) => self.kept_samples(appended),
            Err(Lost::Refused(error)) => return Err(error),
            Err(Lost::Panicked(error)) => return Err(self.checkpoint.failed(std::io::Error::other(error))),
        }
        Ok(())
    }

    /// Writes the checkpoint without the oldest `without` of the samples that wait.
    async fn store(&self, without: usize) -> Result<(), CheckpointError> {
        match tokio::task::spawn_blocking(self.storing(without)?).await {
            Ok(stored) => stored,
            Err(error) => Err(self.checkpoint.failed(std::io::Error::other(error))),
        }
    }

    /// What writes it.
    fn storing(&self, without: usize) -> Result<impl FnOnce() -> Result<(), CheckpointError> + use<>, CheckpointError> {
        // Encoded messages one after the other are one message with all their parts.
        let samples = self.unkept.iter().skip(without).map(Vec::as_slice);
        let bytes = checkpoint::encode(&self.ledger, samples)?;
        let durable = !self.ledger.pending().is_empty();
        let file = self.checkpoint.clone();
        Ok(move || file.store(&bytes, durable))
    }

    /// Hands on the samples that wait, which the checkpoint has.
    pub(super) async fn keep_samples(&mut self) {
        if !self.unkept.is_empty() {
            let appended = self.keeper.append(self.samples()).await;
            self.kept_samples(appended);
        }
    }

    fn samples(&self) -> Vec<Record> {
        self.unkept.iter().map(|payload| Record { kind: Kind::Samples, payload: payload.clone() }).collect()
    }

    fn kept_samples(&mut self, appended: Result<usize, (usize, SpoolError)>) {
        let (kept, result) = match appended {
            Ok(kept) => (kept, Ok(())),
            Err((kept, error)) => (kept, Err(chain(&error))),
        };
        self.unkept.drain(..kept.min(self.unkept.len()));
        self.troubles.samples.note("cannot keep samples", result);
    }

    async fn hand_on_minutes(&mut self) {
        let pending = self.ledger.pending();
        if pending.is_empty() {
            return;
        }
        let chunks: Vec<usize> = pending.chunks(MINUTES_PER_RECORD).map(<[_]>::len).collect();
        let records = pending.chunks(MINUTES_PER_RECORD).map(|minutes| {
            let mut points = Points::default();
            rows::minutes(&mut points, minutes);
            Record { kind: Kind::Ledger, payload: points.encode(&self.identity) }
        });
        let (kept, result) = match self.keeper.append(records.collect()).await {
            Ok(kept) => (kept, Ok(())),
            Err((kept, error)) => (kept, Err(chain(&error))),
        };
        self.troubles.minutes.note("cannot keep the ledger's minutes, they stay in its checkpoint", result);
        let minutes: usize = chunks.iter().take(kept).sum();
        self.ledger.handed_on(minutes);
        self.telemetry.ledger_minutes.inc_by(minutes as u64);
    }

    pub(super) async fn keep_events(&mut self) {
        if self.events.is_empty() {
            return;
        }
        let records = self.events.chunks(EVENTS_PER_RECORD).map(|events| {
            let mut points = Points::default();
            events.iter().for_each(|event| infos::event(&mut points, event));
            Record { kind: Kind::Event, payload: points.encode(&self.identity) }
        });
        let (kept, result) = match self.keeper.append(records.collect()).await {
            Ok(kept) => (kept, Ok(())),
            Err((kept, error)) => (kept, Err(chain(&error))),
        };
        self.events.drain(..(kept * EVENTS_PER_RECORD).min(self.events.len()));
        self.events.truncate(MAX_EVENTS);
        self.troubles.events.note("cannot keep events", result);
    }
}
