//! Collectors that are slow: what others keep for them, and how much of it.

use super::*;
use crate::ingest::cumulative::chain::{Chain, Link};

const SECOND: i64 = 1_000_000_000;

fn point(second: i64, count: u64) -> Vec<Running> {
    vec![total(None, T + second * SECOND, [count, 0])]
}

#[tokio::test]
async fn rows_of_a_collector_that_was_slow_for_two_minutes_are_put_right() {
    let (mut world, fast, slow) = (World::default(), Memory::new(10), Memory::new(10));
    let (writer, other) = (Uuid::from_u128(8), Uuid::from_u128(9));
    send_at(&mut world, &fast, writer, point(0, 0), T + DAY).await;
    let mut rejected = Rejected::default();
    let mut early = fast.hold(point(3, 3), &mut rejected).await;
    early.take(world.read(&early, writer), T + DAY, &mut rejected);
    // The slow one does not see the point of 3 s, and stops before it writes the row of its own.
    let mut stopped = slow.hold(point(5, 5), &mut rejected).await;
    stopped.take(world.read(&stopped, other), T + DAY, &mut rejected);
    world.write_records(&stopped, other);
    stopped.merge(world.read(&stopped, other));
    // The fast one sees both, and goes on with a point each second.
    world.write_records(&early, writer);
    early.merge(world.read(&early, writer));
    world.write_rows(&early);
    assert!(!early.merge(world.read(&early, writer)));
    early.acknowledge();
    for second in 6..120_u64 {
        send_at(&mut world, &fast, writer, point(second.cast_signed(), second), T + DAY).await;
    }
    assert_eq!(world.count(), 119);
    // Now its row of 5 requests is written, of which three are counted at 3 s.
    world.write_rows(&stopped);
    assert_eq!(world.count(), 122);
    while stopped.merge(world.read(&stopped, other)) {
        world.write_rows(&stopped);
    }
    stopped.acknowledge();
    assert_eq!((world.count(), rejected.points()), (119, 0));
}

#[test]
fn what_is_kept_for_others_is_bounded_in_bytes() {
    let link = |at: i64, buckets: usize| {
        let buckets =
            Buckets::Exponential { scale: 0, zero_count: 0, zero_threshold: 0.0, offset: 0, counts: vec![1; buckets] };
        let reading = Reading { start: None, time: at, buckets, sum: None, min: None, max: None, factor: 1.0 };
        Link { reading, odd: false }
    };
    let kept_each = |apart, buckets, keep, most_bytes| {
        let links = (0..1_000).map(|at| link(at * apart, buckets)).collect();
        let mut chain = Chain { links, whole: true, ..Chain::default() };
        chain.acknowledge(keep, most_bytes);
        chain.links.len()
    };
    let kept = |buckets, keep, most_bytes| kept_each(1, buckets, keep, most_bytes);
    // Of 1,000 points of a nanosecond each, and of two seconds each, of which 900 are half an hour.
    assert_eq!(kept_each(2 * SECOND, 1, Some(0), 1 << 30), 901);
    // Nobody else works on it.
    assert_eq!(kept(160, None, 1 << 20), 2);
    assert_eq!(kept(160, Some(900), 1 << 20), 100);
    // 160 counts of 8 bytes, and what is beside them.
    let each = 160 * 8 + size_of::<Link>();
    assert_eq!(kept(160, Some(0), 50 * each), 50);
    // The point that was acknowledged last, and 16 before it.
    assert_eq!(kept(10_000, Some(0), 64 << 10), 17);
}
