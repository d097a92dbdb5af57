//! A chain as a row of `latency_totals`, and back.
//!
//! The points are one protobuf message, so that later versions can add fields: bounds and counts take a third of what they
//! take in memory, and ClickHouse compresses them.

use contador_schemas::rows::LatencyTotal;
use contador_schemas::running::Buckets;
use contador_schemas::runs::{self, Runs};
use prost::Message;
use uuid::Uuid;

use super::chain::{Chain, Link};
use crate::ingest::decode::histogram::Reading;

/// What is kept of a chain.
#[derive(Clone, PartialEq, Message)]
struct Stored {
    #[prost(message, repeated, tag = "1")]
    points: Vec<Point>,
    #[prost(uint32, tag = "2")]
    acknowledged: u32,
    #[prost(bool, tag = "3")]
    whole: bool,
    #[prost(uint32, tag = "4")]
    epoch: u32,
    #[prost(message, repeated, tag = "5")]
    ended: Vec<Ended>,
}

/// A run that has ended.
#[derive(Clone, PartialEq, Message)]
struct Ended {
    #[prost(sfixed64, tag = "1")]
    start: i64,
    #[prost(sfixed64, tag = "2")]
    time: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Point {
    #[prost(sfixed64, tag = "1")]
    time: i64,
    #[prost(sfixed64, optional, tag = "2")]
    start: Option<i64>,
    #[prost(double, tag = "3")]
    factor: f64,
    #[prost(double, optional, tag = "4")]
    sum: Option<f64>,
    #[prost(double, optional, tag = "5")]
    min: Option<f64>,
    #[prost(double, optional, tag = "6")]
    max: Option<f64>,
    #[prost(uint64, repeated, tag = "7")]
    counts: Vec<u64>,
    #[prost(double, repeated, tag = "8")]
    bounds: Vec<f64>,
    #[prost(bool, tag = "9")]
    whole: bool,
    #[prost(message, optional, tag = "10")]
    exponential: Option<Exponential>,
    #[prost(bool, tag = "11")]
    odd: bool,
}

/// Set when the buckets are exponential.
#[derive(Clone, PartialEq, Message)]
struct Exponential {
    #[prost(sint32, tag = "1")]
    scale: i32,
    #[prost(uint64, tag = "2")]
    zero_count: u64,
    #[prost(double, tag = "3")]
    zero_threshold: f64,
    #[prost(sint32, tag = "4")]
    offset: i32,
}

/// The row of `chain`, without who writes it and when.
pub(super) fn row((series, source): (Uuid, Uuid), total: Uuid, chain: &Chain) -> LatencyTotal {
    let time = |index: usize| chain.links.get(index).map_or(0, |link| link.reading.time);
    let stored = Stored {
        points: chain.links.iter().map(point).collect(),
        acknowledged: u32::try_from(chain.acknowledged).unwrap_or_default(),
        whole: chain.whole,
        epoch: chain.epoch,
        ended: chain.runs.ended().iter().map(|&runs::Ended { start, time }| Ended { start, time }).collect(),
    };
    LatencyTotal {
        total,
        series,
        source,
        ts: time(chain.links.len().saturating_sub(1)),
        acknowledged: time(chain.acknowledged),
        points: stored.encode_to_vec(),
        ..LatencyTotal::default()
    }
}

/// The chain that a row tells; `None` when it is of a program that keeps them otherwise.
pub(super) fn chain(row: &LatencyTotal) -> Option<Chain> {
    let stored = Stored::decode(row.points.as_slice()).ok()?;
    let acknowledged = usize::try_from(stored.acknowledged).ok()?;
    let rising = stored.points.windows(2).all(|pair| matches!(pair, [one, next] if one.time < next.time));
    if !rising || acknowledged >= stored.points.len() {
        return None;
    }
    let links = stored.points.into_iter().map(link).collect();
    let ended = stored.ended.into_iter().map(|Ended { start, time }| runs::Ended { start, time });
    let Stored { whole, epoch, .. } = stored;
    Some(Chain { links, acknowledged, whole, epoch, runs: Runs::new(ended.collect()), put_right: Vec::new() })
}

fn point(link: &Link) -> Point {
    let Reading { start, time, buckets, sum, min, max, factor } = link.reading.clone();
    let point = Point { time, start, factor, sum, min, max, odd: link.odd, ..Point::default() };
    match buckets {
        Buckets::Explicit { bounds, counts, whole } => Point { counts, bounds, whole, ..point },
        Buckets::Exponential { scale, zero_count, zero_threshold, offset, counts } => {
            let exponential = Some(Exponential { scale, zero_count, zero_threshold, offset });
            Point { counts, exponential, ..point }
        }
    }
}

fn link(point: Point) -> Link {
    let Point { time, start, factor, sum, min, max, counts, bounds, whole, exponential, odd } = point;
    let buckets = match exponential {
        None => Buckets::Explicit { bounds, counts, whole },
        Some(Exponential { scale, zero_count, zero_threshold, offset }) => {
            Buckets::Exponential { scale, zero_count, zero_threshold, offset, counts }
        }
    };
    Link { reading: Reading { start, time, buckets, sum, min, max, factor }, odd }
}
