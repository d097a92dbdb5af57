//! What one request does with its running totals. Its steps, each of which may be the last one when the collector ends:
//!
//! 1. [`Memory::hold`](super::Memory::hold) locks the totals in this collector.
//! 2. What all collectors have written of them is read, and put together with what is remembered ([`Work::take`]). Then the
//!    points are taken.
//! 3. [`Work::records`] are written: the points, before any row is made of them. So whoever comes next knows which rows there
//!    may be.
//! 4. What others have written meanwhile is read ([`Work::merge`]): nobody counts from points that others have left behind.
//! 5. [`Work::rows`] are written.
//! 6. It is read again. When there are other points, rows are written again, too, until there are none.
//! 7. [`Work::acknowledge`], and the answer.
//!
//! Two collectors that work on one total at the same time both write their points before they read the last time. So at
//! least one of them sees the other's points after both have written their rows, and puts them right. As long as one may
//! still be writing rows ([`STALLED`](super::store::STALLED)), the others keep the points that it may count from.

use std::collections::BTreeMap;
use std::sync::Arc;

use contador_schemas::rows::{Latency, LatencyTotal};
use contador_schemas::runs::Untold;
use uuid::Uuid;

use super::chain::{Refused, Taken};
use super::memory::Guard;
use super::record;
use super::store::{Known, Stored};
use super::watch::Watch;
use crate::ingest::decode::latency::{Identity, Running};
use crate::ingest::decode::reject::Rejected;
use crate::ingest::rows::Rows;

/// The totals of one request.
#[derive(Default)]
pub struct Work {
    held: Vec<Held>,
    /// Most bytes of acknowledged points that a total keeps while others may work on them.
    kept_bytes: usize,
    /// Points that were not taken, since too many before them are not acknowledged. Once the rows are written, there is
    /// room for them.
    pub postponed: u64,
    /// First points of totals that count from now on only, since it is not known what was counted before.
    pub base_lines: u64,
    /// Points of which it can't be told what came since the ones before, by reason.
    pub untold: BTreeMap<Untold, Begun>,
    /// Points that are not stored, since a run that seemed older took over at another collector meanwhile. When they come
    /// again, they are told what became of them.
    pub overtaken: usize,
}

/// Points with which counting began anew, and whose the first of them is.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Begun {
    /// How many.
    pub points: u64,
    /// Service of the first.
    pub service: String,
    /// The sender's name of its metric.
    pub metric: String,
}

struct Held {
    total: Uuid,
    identity: Arc<Identity>,
    points: Vec<Running>,
    chain: Guard,
    /// Whether what is known is to be written.
    changed: bool,
    /// The time of the first point that others may still count from.
    keep: Option<i64>,
}

impl Work {
    /// Nothing yet. Each total keeps `kept_bytes` of acknowledged points at most while others may work on them.
    pub(super) fn keeping(kept_bytes: usize) -> Self {
        Self { kept_bytes, ..Self::default() }
    }

    pub(super) fn add(&mut self, total: Uuid, points: Vec<Running>, chain: Guard) {
        let Some(identity) = points.first().map(|point| Arc::clone(&point.identity)) else { return };
        self.held.push(Held { total, identity, points, chain, changed: false, keep: None });
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// The totals that are held, and of each, whether anything is remembered of it.
    pub fn totals(&self) -> impl Iterator<Item = (Uuid, bool)> {
        self.held.iter().map(|held| (held.total, !held.chain.links.is_empty()))
    }

    /// Puts `stored` together with what is remembered, and takes the request's points.
    pub fn take(&mut self, mut stored: Stored, now: i64, rejected: &mut Rejected) {
        let watch = Watch::new(stored.since, now);
        for held in &mut self.held {
            held.merge(&mut stored);
            let watch = if stored.lost.contains(&held.total) { Watch::new(now, now) } else { watch };
            for Running { identity, reading, name } in std::mem::take(&mut held.points) {
                match held.chain.take(&identity, reading, watch, now) {
                    Ok(Taken::Known) => {}
                    Ok(taken) => {
                        held.changed = true;
                        if let Taken::Anew(why) = taken {
                            let service = identity.service().to_owned();
                            let first = || Begun { points: 0, service, metric: name };
                            self.untold.entry(why).or_insert_with(first).points += 1;
                        }
                    }
                    Err(Refused::Full) => self.postponed += 1,
                    Err(Refused::Rejected(reason)) => rejected.add(reason, 1, &name),
                }
            }
            self.base_lines += u64::from(held.changed && held.chain.is_base_line());
            held.changed |= held.chain.is_pending();
        }
        self.held.retain(|held| held.changed);
    }

    /// What is to be written before the rows.
    pub fn records(&self) -> Vec<LatencyTotal> {
        self.held.iter().map(|held| record::row(held.identity.key(), held.total, &held.chain)).collect()
    }

    /// The rows of all points that are not acknowledged.
    pub fn rows(&self) -> Vec<Latency> {
        self.held.iter().flat_map(|held| held.chain.rows(&held.identity)).collect()
    }

    /// Those rows by table: numbers of tokens are what was served.
    pub fn by_table(&self) -> Rows {
        let mut rows = Rows::default();
        for held in &self.held {
            for row in held.chain.rows(&held.identity) {
                match held.identity.served(&row) {
                    None => rows.latency.push(row),
                    Some(Ok(served)) => rows.served.push(served),
                    Some(Err(reason)) => tracing::warn!(reason = reason.as_str(), "tokens between two totals"),
                }
            }
        }
        rows
    }

    /// Takes what others have written meanwhile; whether rows are to be written again.
    pub fn merge(&mut self, mut stored: Stored) -> bool {
        let mut changed = false;
        for held in &mut self.held {
            let (epoch, at_work) = (held.chain.epoch, held.chain.unacknowledged());
            changed |= held.merge(&mut stored);
            self.overtaken += if held.chain.epoch > epoch { at_work } else { 0 };
        }
        changed
    }

    /// Says that ClickHouse has everything.
    pub fn acknowledge(mut self) {
        for held in &mut self.held {
            held.chain.acknowledge(held.keep, self.kept_bytes);
        }
    }
}

impl Held {
    fn merge(&mut self, stored: &mut Stored) -> bool {
        let chains: Vec<Known> = stored.chains.remove(&self.total).unwrap_or_default();
        self.keep = chains.iter().filter(|known| known.fresh).filter_map(|known| known.chain.counts_from()).min();
        chains.into_iter().fold(false, |changed, known| self.chain.merge(known.chain) | changed)
    }
}
