//! Running totals by several collectors, step by step, as the pipeline does it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use contador_schemas::running::Buckets;
use contador_schemas::runs::{Ended, Runs, Untold};
use proptest::prelude::*;
use uuid::Uuid;

use super::chain::LONGEST_CHAIN;
use super::store::Known;
use super::work::Begun;
use super::*;
use crate::ingest::decode::histogram::Reading;
use crate::ingest::decode::latency::{Identity, Running};
use crate::ingest::decode::reject::{Reason, Rejected};

mod clocks;
mod crashes;
mod late;
mod older_runs;

const T: i64 = 1_700_000_000_000_000_000;
const DAY: i64 = 86_400_000_000_000;

/// Counts, and whether the source began again, by the time of the row after [`T`].
type Told = Vec<(i64, u64, bool)>;

fn total(start: Option<i64>, time: i64, counts: [u64; 2]) -> Running {
    let buckets = Buckets::Explicit { bounds: vec![1.0], counts: counts.to_vec(), whole: false };
    let reading = Reading { start, time, buckets, sum: None, min: None, max: None, factor: 1.0 };
    Running { identity: Arc::new(Identity::default()), reading, name: "x".to_owned() }
}

/// The two tables, as ClickHouse keeps them.
#[derive(Default)]
struct World {
    records: HashMap<(Uuid, Uuid), contador_schemas::rows::LatencyTotal>,
    rows: BTreeMap<(Uuid, i64), (u64, bool)>,
    /// Lower edges and counts of the same rows.
    cells: BTreeMap<(Uuid, i64), Vec<(f64, u64)>>,
    version: u64,
}

impl World {
    /// What the collector `writer` reads. Totals are kept since [`T`].
    fn read(&self, work: &Work, writer: Uuid) -> Stored {
        let mut stored = Stored { since: T, ..Stored::default() };
        for (total, remembered) in work.totals() {
            let of = self.records.iter().filter(|((of, by), _)| *of == total && !(remembered && *by == writer));
            let known = |((_, by), row): (&(Uuid, Uuid), &_)| Known {
                chain: record::chain(row).unwrap(),
                fresh: *by != writer,
            };
            let chains = of.map(known).collect();
            stored.chains.insert(total, chains);
        }
        stored
    }

    fn write_records(&mut self, work: &Work, writer: Uuid) {
        self.version += 1;
        for row in work.records() {
            self.records.insert((row.total, writer), row);
        }
    }

    fn write_rows(&mut self, work: &Work) {
        for row in work.rows() {
            self.rows.insert((row.series, row.ts), (row.count, row.reset));
            self.cells.insert((row.series, row.ts), row.lo.into_iter().zip(row.n).collect());
        }
    }

    fn count(&self) -> u64 {
        self.rows.values().map(|(count, _)| count).sum()
    }
}

/// What one collector answers to a request, and the rows that it made.
async fn send(world: &mut World, memory: &Memory, points: Vec<Running>) -> (Told, Rejected) {
    send_at(world, memory, WRITER, points, T + DAY).await
}

/// The same of one that writes as `writer`, at `now`.
async fn send_at(world: &mut World, memory: &Memory, writer: Uuid, points: Vec<Running>, now: i64) -> (Told, Rejected) {
    let mut rejected = Rejected::default();
    let mut work = memory.hold(points, &mut rejected).await;
    work.take(world.read(&work, writer), now, &mut rejected);
    world.write_records(&work, writer);
    work.merge(world.read(&work, writer));
    let rows = work.rows();
    world.write_rows(&work);
    assert!(!work.merge(world.read(&work, writer)));
    work.acknowledge();
    (rows.into_iter().map(|row| (row.ts - T, row.count, row.reset)).collect(), rejected)
}

const WRITER: Uuid = Uuid::from_u128(7);

#[tokio::test]
async fn c8_ten_twenty_five_fifteen_is_ten_then_a_reset_of_five_then_ten() {
    let (mut world, memory) = (World::default(), Memory::new(10));
    let mut told = Vec::new();
    for (index, count) in (1..).zip([10, 20, 5, 15]) {
        told.extend(send(&mut world, &memory, vec![total(None, T + index, [count, 0])]).await.0);
    }
    assert_eq!(told, [(2, 10, false), (3, 5, true), (4, 10, false)]);
}

#[tokio::test]
async fn l7_a_restart_counts_the_new_value() {
    let (mut world, memory) = (World::default(), Memory::new(10));
    send(&mut world, &memory, vec![total(Some(T - DAY), T + 1, [800, 0])]).await;
    let (told, _) = send(&mut world, &memory, vec![total(Some(T + 2), T + 3, [4, 0])]).await;
    assert_eq!(told, [(3, 4, true)]);
}

#[tokio::test]
async fn l8_the_first_point_counts_only_when_its_start_was_watched() {
    for (start, expected) in [(Some(T + 1), vec![(2, 3, false)]), (Some(T - 1), vec![]), (None, vec![])] {
        let (mut world, memory) = (World::default(), Memory::new(10));
        assert_eq!(send(&mut world, &memory, vec![total(start, T + 2, [3, 0])]).await.0, expected, "{start:?}");
        assert_eq!(send(&mut world, &memory, vec![total(start, T + 3, [4, 0])]).await.0, [(3, 1, false)]);
    }
}

#[tokio::test]
async fn l8_a_run_that_is_older_than_the_watch_by_the_senders_clock_is_a_base_line() {
    // Totals are kept since T; the sender's clock is two days ahead, and its run is a day and a half old.
    let (mut world, memory) = (World::default(), Memory::new(10));
    let start = Some(T + DAY / 2);
    assert_eq!(send(&mut world, &memory, vec![total(start, T + 2 * DAY, [100, 0])]).await.0, []);
    let (told, _) = send(&mut world, &memory, vec![total(start, T + 2 * DAY + 1, [103, 0])]).await;
    assert_eq!(told, [(2 * DAY + 1, 3, false)]);
}

#[tokio::test]
async fn a_restart_of_the_collector_makes_no_gap() {
    let (mut world, memory) = (World::default(), Memory::new(10));
    send(&mut world, &memory, vec![total(None, T + 1, [3, 0])]).await;
    send(&mut world, &memory, vec![total(None, T + 2, [5, 1])]).await;
    // Another process, which does not know whether the last row is stored: it is written again, the same.
    let memory = Memory::new(10);
    let (told, rejected) = send(&mut world, &memory, vec![total(None, T + 3, [5, 2])]).await;
    assert_eq!((told, rejected.points()), (vec![(2, 3, false), (3, 1, false)], 0));
    assert_eq!(world.count(), 4);
}

#[tokio::test]
async fn a_repeated_point_is_counted_once() {
    let (mut world, memory) = (World::default(), Memory::new(10));
    send(&mut world, &memory, vec![total(None, T + 1, [3, 0])]).await;
    for _ in 0..3 {
        send(&mut world, &memory, vec![total(None, T + 2, [5, 1])]).await;
        send(&mut world, &Memory::new(1), vec![total(None, T + 2, [5, 1])]).await;
    }
    assert_eq!(send(&mut world, &memory, vec![total(None, T + 1, [3, 0])]).await.0, []);
    let (told, rejected) = send(&mut world, &memory, vec![total(None, T + 2, [9, 9])]).await;
    assert_eq!((told, rejected.of(Reason::Conflicting), world.count()), (vec![], 1, 3));
}

#[tokio::test]
async fn rows_of_unknown_fate_are_written_again_with_the_next_point() {
    let (mut world, memory) = (World::default(), Memory::new(10));
    send(&mut world, &memory, vec![total(None, T + 1, [1, 0])]).await;
    for (time, count) in [(2, 3), (3, 7)] {
        let mut rejected = Rejected::default();
        let mut work = memory.hold(vec![total(None, T + time, [count, 0])], &mut rejected).await;
        work.take(world.read(&work, WRITER), T + DAY, &mut rejected);
    }
    let (told, _) = send(&mut world, &memory, vec![total(None, T + 4, [8, 0])]).await;
    assert_eq!(told, [(2, 2, false), (3, 4, false), (4, 1, false)]);
}

#[tokio::test]
async fn a_full_chain_is_written_before_it_takes_more() {
    let (mut world, memory) = (World::default(), Memory::new(10));
    let longest = i64::try_from(LONGEST_CHAIN).unwrap();
    let points = |upto| (1..=upto).map(|at| total(None, T + at, [u64::try_from(at).unwrap(), 0])).collect::<Vec<_>>();
    let mut rejected = Rejected::default();
    let mut work = memory.hold(points(longest + 3), &mut rejected).await;
    work.take(world.read(&work, WRITER), T + DAY, &mut rejected);
    assert_eq!((work.postponed, work.rows().len()), (2, LONGEST_CHAIN));
    work.acknowledge();
    let (told, _) = send(&mut world, &memory, points(longest + 3)).await;
    assert_eq!(told, [(longest + 2, 1, false), (longest + 3, 1, false)]);
}

#[tokio::test]
async fn what_was_asked_for_least_recently_is_forgotten_and_read_again() {
    let (mut world, memory) = (World::default(), Memory::new(8));
    let of = |series: u128, time: i64, count| {
        let mut running = total(None, T + time, [count, 0]);
        running.identity = Arc::new(Identity::of_series(Uuid::from_u128(series)));
        vec![running]
    };
    for series in 0..40 {
        send(&mut world, &memory, of(series, 1, 10)).await;
    }
    assert!(memory.len() <= 8 && memory.evicted() >= 32, "{}", memory.len());
    for series in 0..40 {
        let (told, rejected) = send(&mut world, &memory, of(series, 2, 11)).await;
        assert_eq!((told, rejected.points()), (vec![(2, 1, false)], 0));
    }
}

#[tokio::test]
async fn an_older_point_that_counts_more_than_a_newer_one_is_rejected() {
    let (mut world, memory) = (World::default(), Memory::new(10));
    send(&mut world, &memory, vec![total(None, T + 1, [10, 0])]).await;
    // From a clock that was ahead.
    send(&mut world, &memory, vec![total(None, T + 500, [20, 0])]).await;
    let (told, rejected) = send(&mut world, &memory, vec![total(None, T + 2, [30, 0])]).await;
    assert_eq!((told, rejected.of(Reason::OutOfOrder)), (vec![], 1));
    // What the newer one contains is no contradiction.
    let (told, rejected) = send(&mut world, &memory, vec![total(None, T + 2, [15, 0])]).await;
    assert_eq!((told, rejected.points()), (vec![], 0));
    // A run whose end the newer point doesn't contain.
    let (mut world, memory) = (World::default(), Memory::new(10));
    send(&mut world, &memory, vec![total(None, T + 1, [10, 0])]).await;
    send(&mut world, &memory, vec![total(Some(T + 3), T + 5, [2, 0])]).await;
    let (_, rejected) = send(&mut world, &memory, vec![total(None, T + 2, [1, 0])]).await;
    assert_eq!(rejected.of(Reason::OutOfOrder), 1);
}

#[tokio::test]
async fn several_points_of_one_request_are_taken_in_the_order_of_time() {
    let (mut world, memory) = (World::default(), Memory::new(10));
    let totals = vec![total(None, T + 3, [9, 0]), total(None, T + 1, [1, 0]), total(None, T + 2, [4, 0])];
    assert_eq!(send(&mut world, &memory, totals).await.0, [(2, 3, false), (3, 5, false)]);
}

#[tokio::test]
async fn l9_other_bounds_are_a_new_epoch() {
    let (mut world, memory) = (World::default(), Memory::new(10));
    let other = |start, time, counts: &[u64]| {
        let mut running = total(start, time, [0, 0]);
        running.reading.buckets = Buckets::Explicit { bounds: vec![1.0, 2.0], counts: counts.to_vec(), whole: false };
        vec![running]
    };
    send(&mut world, &memory, vec![total(None, T + 1, [10, 0])]).await;
    // Of a source that doesn't say when it began, what came in between can't be told.
    assert_eq!(send(&mut world, &memory, other(None, T + 2, &[12, 1, 0])).await.0, []);
    assert_eq!(send(&mut world, &memory, other(None, T + 3, &[12, 4, 0])).await.0, [(3, 3, false)]);
    // A new version of the server has begun since.
    let (told, _) = send(&mut world, &memory, vec![total(Some(T + 4), T + 5, [2, 2])]).await;
    assert_eq!(told, [(5, 4, true)]);
}

#[tokio::test]
async fn l9_totals_that_begin_anew_are_counted_by_reason() {
    let (mut world, memory) = (World::default(), Memory::new(10));
    let other = |start: Option<i64>, time| {
        let mut running = total(start, time, [0, 0]);
        running.reading.buckets = Buckets::Explicit { bounds: vec![2.0], counts: vec![1, 1], whole: false };
        running.identity = Arc::new(Identity::of_service("checkout"));
        running
    };
    let first = total(Some(T), T + DAY / 2, [10, 0]);
    send(&mut world, &memory, vec![Running { identity: Arc::new(Identity::of_service("checkout")), ..first }]).await;
    for (point, why) in
        [(other(Some(T), T + DAY / 2 + 1), Untold::Buckets), (other(Some(T + 1), T + DAY / 2 + 2), Untold::Overlap)]
    {
        let mut rejected = Rejected::default();
        let mut work = memory.hold(vec![point], &mut rejected).await;
        work.take(world.read(&work, WRITER), T + DAY, &mut rejected);
        assert_eq!((work.base_lines, rejected.points()), (0, 0));
        let first = Begun { points: 1, service: "checkout".to_owned(), metric: "x".to_owned() };
        assert_eq!(work.untold, [(why, first)].into());
    }
}

/// What two collectors know of a total, put together by a third.
#[tokio::test]
async fn what_several_collectors_left_is_put_together() {
    let (mut world, one) = (World::default(), Memory::new(10));
    send(&mut world, &one, vec![total(None, T + 1, [1, 0])]).await;
    // One that wrote its point, and ended before it wrote the row.
    let mut rejected = Rejected::default();
    let other = Memory::new(10);
    let mut work = other.hold(vec![total(None, T + 3, [6, 0])], &mut rejected).await;
    work.take(world.read(&work, Uuid::from_u128(8)), T + DAY, &mut rejected);
    world.write_records(&work, Uuid::from_u128(8));
    drop(work);
    // The first one doesn't lose sight of that while it goes on.
    let (told, _) = send(&mut world, &one, vec![total(None, T + 4, [7, 0])]).await;
    assert_eq!(told, [(3, 5, false), (4, 1, false)]);
    // A point from in between, which was under way for long, is contained in what was counted.
    let (told, rejected) = send(&mut world, &Memory::new(10), vec![total(None, T + 2, [2, 0])]).await;
    assert_eq!((told, rejected.points(), world.count()), (vec![(3, 5, false), (4, 1, false)], 0, 6));
}

#[test]
fn a_chain_comes_back_from_its_row() {
    let point = |time, buckets| {
        let reading = Reading {
            start: (time > T + 1).then_some(T),
            time,
            buckets,
            sum: Some(0.1),
            min: None,
            max: Some(f64::INFINITY),
            factor: 1e3,
        };
        chain::Link { reading, odd: time > T + 1 }
    };
    let exponential = |counts: &[u64]| Buckets::Exponential {
        scale: -3,
        zero_count: u64::MAX,
        zero_threshold: 0.02,
        offset: i32::MIN,
        counts: counts.to_vec(),
    };
    let explicit = Buckets::Explicit { bounds: vec![0.1, f64::MAX], counts: vec![0, u64::MAX, 1], whole: true };
    let links = vec![point(T + 1, explicit), point(T + 2, exponential(&[])), point(T + 3, exponential(&[0, 3, 0]))];
    let runs = Runs::new(vec![Ended { start: T - DAY, time: T - 1 }, Ended { start: T, time: T }]);
    let chain = chain::Chain { links, acknowledged: 1, whole: true, epoch: 3, runs, ..chain::Chain::default() };
    let (series, source) = (Uuid::from_u128(1), Uuid::from_u128(2));
    let row = record::row((series, source), Uuid::from_u128(3), &chain);
    assert_eq!((row.total.as_u128(), row.ts, row.acknowledged), (3, T + 3, T + 2));
    assert_eq!(record::chain(&row), Some(chain));
    for broken in [vec![0xff], Vec::new()] {
        let row = contador_schemas::rows::LatencyTotal { points: broken, ..row.clone() };
        assert_eq!(record::chain(&row), None);
    }
}

#[tokio::test]
async fn a_total_that_cannot_be_read_is_not_counted_from_its_start() {
    let memory = Memory::new(10);
    let mut rejected = Rejected::default();
    let mut work = memory.hold(vec![total(Some(T + 1), T + 2, [3, 0])], &mut rejected).await;
    let lost = work.totals().map(|(total, _)| total).collect();
    work.take(Stored { since: T, lost, ..Stored::default() }, T + DAY, &mut rejected);
    assert_eq!((work.base_lines, work.rows().len()), (1, 0));
}
