//! What a node keeps at a tick, and in which order: the ledger's checkpoint, then samples, minutes and events.

use super::node::Node;
use crate::ledger::checkpoint;
use crate::outbox::encode::{Points, infos, rows};
use crate::outbox::send::chain;
use crate::outbox::{Kind, Record};

/// Most closed minutes in one record.
const MINUTES_PER_RECORD: usize = 240;

/// Most events that wait for a spool that can't take them.
const MAX_EVENTS: usize = 100;

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
    /// The state on disk is never behind what is in the spool: minutes and samples are in it before they are sent.
    pub(super) async fn store_checkpoint(&mut self, samples: &[u8]) {
        let durable = !self.ledger.pending().is_empty();
        let stored = match checkpoint::encode(&self.ledger, samples) {
            Ok(bytes) => {
                let file = self.checkpoint.clone();
                match tokio::task::spawn_blocking(move || file.store(&bytes, durable)).await {
                    Ok(stored) => stored.map_err(|error| (error.is_out_of_space(), chain(&error))),
                    Err(error) => Err((false, chain(&error))),
                }
            }
            Err(error) => Err((false, chain(&error))),
        };
        if let Err((true, _)) = &stored
            && let Err(error) = self.keeper.make_room().await
        {
            tracing::error!(error = chain(&error), "cannot drop samples for the checkpoint");
        }
        self.troubles.checkpoint.note("cannot write the ledger's checkpoint", stored.map_err(|(_, error)| error));
    }

    pub(super) async fn keep_samples(&mut self, payload: Vec<u8>) {
        if payload.is_empty() {
            return;
        }
        let kept = self.keeper.keep(Kind::Samples, payload).await.map_err(|error| chain(&error));
        if kept.is_err() {
            self.telemetry.dropped.with_label_values(&["samples", "spool"]).inc();
        }
        self.troubles.samples.note("cannot keep samples", kept);
    }

    pub(super) async fn hand_on_minutes(&mut self) {
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
        let mut points = Points::default();
        for event in &self.events {
            infos::event(&mut points, event);
        }
        let kept = self.keeper.keep(Kind::Event, points.encode(&self.identity)).await.map_err(|error| chain(&error));
        match kept {
            Ok(()) => self.events.clear(),
            Err(_) => self.events.truncate(MAX_EVENTS),
        }
        self.troubles.events.note("cannot keep events", kept);
    }
}
