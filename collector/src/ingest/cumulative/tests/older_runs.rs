//! Runs that seem older than the last point: of clocks that were set back, and of points that come late.

use super::*;

const SECOND: i64 = 1_000_000_000;

/// A point of the run that began at `start`, with so many values, at `time`, both in seconds after [`T`].
fn point(start: i64, time: i64, count: u64) -> Vec<Running> {
    vec![total(Some(T + start * SECOND), T + time * SECOND, [count, 0])]
}

/// A collector that writes as `writer` takes a point at its time; times of rows in seconds after [`T`].
async fn at_its_time(world: &mut World, memory: &Memory, writer: Uuid, points: Vec<Running>) -> (Told, Rejected) {
    let now = points[0].reading.time + SECOND;
    let (told, rejected) = send_at(world, memory, writer, points, now).await;
    (told.into_iter().map(|(time, count, reset)| (time / SECOND, count, reset)).collect(), rejected)
}

#[tokio::test]
async fn l7_a_service_whose_clock_was_set_back_counts_again_after_five_minutes() {
    let (mut world, memory) = (World::default(), Memory::new(10));
    // Its clock is 500 s ahead.
    let now = T + 11 * SECOND;
    send_at(&mut world, &memory, WRITER, point(500, 505, 4), now).await;
    send_at(&mut world, &memory, WRITER, point(500, 510, 7), now).await;
    for time in (20..320).step_by(10) {
        let (told, rejected) = at_its_time(&mut world, &memory, WRITER, point(15, time, 1)).await;
        assert_eq!((told, rejected.of(Reason::OutOfOrder)), (vec![], 1), "{time}");
    }
    let taken = at_its_time(&mut world, &memory, WRITER, point(15, 320, 30)).await;
    assert_eq!((taken.0, taken.1.points()), (vec![], 0));
    let told = at_its_time(&mut world, &memory, WRITER, point(15, 330, 32)).await.0;
    assert_eq!(told, [(330, 2, false)]);
    // What comes late of the run before is no new run, though it seems later; and another one is.
    for (time, count, refused) in [(505, 4, 0), (510, 7, 0), (520, 9, 1)] {
        let (told, rejected) = send_at(&mut world, &memory, WRITER, point(500, time, count), T + 335 * SECOND).await;
        assert_eq!((told, rejected.of(Reason::OutOfOrder)), (vec![], refused), "{time}");
    }
    let told = at_its_time(&mut world, &memory, WRITER, point(340, 350, 5)).await.0;
    assert_eq!(told, [(350, 5, true)]);
    assert_eq!(world.count(), 7 + 2 + 5);
}

#[tokio::test]
async fn points_of_a_run_that_ended_never_begin_one() {
    let (mut world, memory) = (World::default(), Memory::new(10));
    let mut all = Vec::new();
    for (start, time, count) in [(0, 10, 3), (0, 400, 5), (401, 410, 2)] {
        all.extend(point(start, time, count));
        at_its_time(&mut world, &memory, WRITER, point(start, time, count)).await;
    }
    let count = world.count();
    // Again by who knows them, at the pace at which they were made, and by a collector that was started since.
    for (later, memory) in [(1_000, &memory), (2_000, &Memory::new(10))] {
        for point in &all {
            let now = point.reading.time + later * SECOND;
            send_at(&mut world, memory, WRITER, vec![point.clone()], now).await;
            assert_eq!(world.count(), count);
        }
    }
}

#[tokio::test]
async fn what_one_collector_has_take_over_all_of_them_follow() {
    let (mut world, one, other) = (World::default(), Memory::new(10), Memory::new(10));
    let (writer, another) = (Uuid::from_u128(8), Uuid::from_u128(9));
    at_its_time(&mut world, &one, writer, point(500, 510, 7)).await;
    at_its_time(&mut world, &other, another, point(500, 520, 9)).await;
    for time in [20, 120, 220, 319] {
        let (_, rejected) = at_its_time(&mut world, &one, writer, point(15, time, 1)).await;
        assert_eq!(rejected.of(Reason::OutOfOrder), 1, "{time}");
    }
    at_its_time(&mut world, &one, writer, point(15, 320, 30)).await;
    // The other one has the last point of before in its memory, and its row of it is stored in `latency_totals`.
    assert_eq!(at_its_time(&mut world, &other, another, point(15, 330, 32)).await.0, [(330, 2, false)]);
    let told = at_its_time(&mut world, &one, writer, point(15, 340, 35)).await.0;
    assert!(told.ends_with(&[(340, 3, false)]), "{told:?}");
    let told = at_its_time(&mut world, &Memory::new(10), Uuid::from_u128(10), point(15, 350, 36)).await.0;
    assert!(told.ends_with(&[(350, 1, false)]), "{told:?}");
    assert_eq!(world.count(), 9 + 6);
}

#[tokio::test]
async fn what_a_collector_left_that_has_ended_does_not_keep_a_run_from_taking_over() {
    let (mut world, memory) = (World::default(), Memory::new(10));
    at_its_time(&mut world, &memory, WRITER, point(500, 505, 4)).await;
    // It took the point of 520 s before that of 510 s was known to it, and was killed.
    let (other, writer) = (Memory::new(10), Uuid::from_u128(8));
    let mut rejected = Rejected::default();
    let mut work = other.hold(point(500, 520, 9), &mut rejected).await;
    work.take(world.read(&work, writer), T + 521 * SECOND, &mut rejected);
    at_its_time(&mut world, &memory, WRITER, point(500, 510, 7)).await;
    world.write_records(&work, writer);
    drop(work);
    for time in (20..320).step_by(10) {
        let (_, rejected) = at_its_time(&mut world, &memory, WRITER, point(15, time, 1)).await;
        assert_eq!(rejected.of(Reason::OutOfOrder), 1, "{time}");
    }
    let (_, rejected) = at_its_time(&mut world, &memory, WRITER, point(15, 320, 1)).await;
    assert_eq!(rejected.points(), 0);
    assert_eq!(at_its_time(&mut world, &memory, WRITER, point(15, 330, 4)).await.0, [(330, 3, false)]);
    assert_eq!(world.count(), 9 + 3);
}

#[tokio::test]
async fn a_point_whose_run_another_collector_ends_meanwhile_is_not_answered_as_stored() {
    let (mut world, one, other) = (World::default(), Memory::new(10), Memory::new(10));
    let writer = Uuid::from_u128(8);
    at_its_time(&mut world, &one, WRITER, point(500, 510, 7)).await;
    for time in (20..320).step_by(10) {
        at_its_time(&mut world, &other, writer, point(15, time, 1)).await;
    }
    // One of them takes a point of the newer run, when at the other one the older run takes over.
    let mut rejected = Rejected::default();
    let mut work = one.hold(point(500, 520, 9), &mut rejected).await;
    work.take(world.read(&work, WRITER), T + 321 * SECOND, &mut rejected);
    let (_, taken) = at_its_time(&mut world, &other, writer, point(15, 320, 1)).await;
    world.write_records(&work, WRITER);
    work.merge(world.read(&work, WRITER));
    assert_eq!((rejected.points(), taken.points(), work.overtaken, work.rows().len()), (0, 0, 1, 0));
    drop(work);
    // It comes again, and is refused.
    let (told, rejected) = send_at(&mut world, &one, WRITER, point(500, 520, 9), T + 322 * SECOND).await;
    assert_eq!((told, rejected.of(Reason::OutOfOrder), world.count()), (vec![], 1, 7));
}

#[tokio::test]
async fn a_batch_that_ends_a_run_comes_again_as_known() {
    let (mut world, memory) = (World::default(), Memory::new(10));
    let batch = || [point(0, 100, 3), point(101, 110, 2)].concat();
    at_its_time(&mut world, &memory, WRITER, point(0, 90, 1)).await;
    for _ in 0..2 {
        let (_, rejected) = send_at(&mut world, &memory, WRITER, batch(), T + 111 * SECOND).await;
        assert_eq!((rejected.points(), world.count()), (0, 5));
    }
}

#[tokio::test]
async fn rows_of_the_run_before_are_written_before_another_takes_over() {
    let (mut world, memory) = (World::default(), Memory::new(10));
    at_its_time(&mut world, &memory, WRITER, point(500, 510, 7)).await;
    // A collector that was killed when it had written its point, and no row of it.
    let other = Memory::new(10);
    let mut rejected = Rejected::default();
    let mut work = other.hold(point(500, 520, 9), &mut rejected).await;
    work.take(world.read(&work, Uuid::from_u128(8)), T + 521 * SECOND, &mut rejected);
    world.write_records(&work, Uuid::from_u128(8));
    drop(work);
    for time in (20..=330).step_by(10) {
        at_its_time(&mut world, &memory, WRITER, point(15, time, 1)).await;
    }
    assert_eq!(at_its_time(&mut world, &memory, WRITER, point(15, 340, 4)).await.0, [(340, 3, false)]);
    assert_eq!(world.count(), 9 + 3);
}
