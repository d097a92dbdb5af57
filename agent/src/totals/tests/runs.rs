//! Runs that seem older than the last total: of clocks that were set back, and of points that come late.

use super::*;

/// What a memory makes of a point of the run that began at `start` at `time`, with so many values; all times in seconds after
/// [`T`].
fn taken(memory: &mut Memory, (start, time, count): (u64, u64, u64), now: u64) -> Result<Taken, Reason> {
    let total = Total::explicit(&point(T + start * SECOND, T + time * SECOND, &[count])).unwrap().unwrap();
    memory.take(Uuid::nil(), total, T + now * SECOND)
}

fn count(taken: Result<Taken, Reason>) -> Option<(u64, bool)> {
    match taken {
        Ok(Taken::Increase(increase, reset)) => Some((increase.count(), reset)),
        _ => None,
    }
}

#[test]
fn a_service_whose_clock_was_set_back_counts_again_after_five_minutes() {
    let mut memory = Memory::new(T);
    // The node's clock was an hour ahead, and so were the service's and the agent's.
    assert_eq!(count(taken(&mut memory, (3_600, 3_610, 4), 3_611)), Some((4, false)));
    for time in (20..320).step_by(10) {
        assert_eq!(taken(&mut memory, (15, time, 1), time + 1), Err(Reason::OutOfOrder), "{time}");
    }
    assert_eq!(taken(&mut memory, (15, 320, 30), 321), Ok(Taken::BaseLine));
    assert_eq!(count(taken(&mut memory, (15, 330, 32), 331)), Some((2, false)));
    // What comes late of the run before is no new run, though it seems later; and another one is.
    for (late, expected) in [((3_600, 3_610, 4), Ok(Taken::Nothing)), ((3_600, 3_620, 9), Err(Reason::OutOfOrder))] {
        assert_eq!(taken(&mut memory, late, 3_700), expected, "{late:?}");
    }
    assert_eq!(count(taken(&mut memory, (340, 350, 5), 351)), Some((5, true)));
}

#[tokio::test]
async fn which_runs_have_ended_is_known_after_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let totals = open(dir.path(), LIMITS);
    let keep = async |totals: &Totals, (start, time, count): (u64, u64, u64), later: u64| {
        let request = request(vec![cumulative(vec![point(T + start * SECOND, T + time * SECOND, &[count])])]);
        totals.keep(request, T + (time + 1 + later) * SECOND, ()).await.unwrap()
    };
    let first = [(1, 10, 3), (1, 200, 5), (1, 400, 6)];
    for point in first.into_iter().chain([(401, 410, 2)]) {
        assert_eq!(keep(&totals, point, 0).await, Counted::default());
    }
    assert_eq!(handed_on(&totals).await.len(), 4);
    drop(totals);
    let totals = open(dir.path(), LIMITS);
    totals.resume().await.unwrap();
    let last = handed_on(&totals).await;
    // The points of the first run again, as fast as they were made, while nothing else comes.
    for point in first {
        assert_eq!(keep(&totals, point, 1_000).await, Counted::default(), "{point:?}");
    }
    assert_eq!((handed_on(&totals).await, last.len()), (vec![], 1));
    // What follows is no more than what came since.
    keep(&totals, (401, 1_420, 9), 0).await;
    let row = (410 * SECOND, 1_420 * SECOND, vec![7], false);
    assert_eq!(handed_on(&totals).await, [row]);
}

#[test]
fn a_batch_that_ends_a_run_comes_again_as_known() {
    let mut memory = Memory::new(T);
    let batch = || [(1, 100), (101, 110)].map(|(start, time)| point(T + start * SECOND, T + time * SECOND, &[3]));
    for expected in [2, 1] {
        // Of the last point, the same row again.
        let (rows, counted) = converted(&mut memory, batch().to_vec());
        assert_eq!((rows.len(), counted), (expected, Counted::default()));
    }
}

#[test]
fn a_total_that_can_not_be_told_is_counted_once_however_often_it_comes() {
    let mut memory = Memory::new(T);
    converted(&mut memory, vec![point(T + SECOND, T + 2 * SECOND, &[3, 1])]);
    let other = || vec![point(T + SECOND, T + 3 * SECOND, &[3, 1, 1])];
    assert_eq!(by_reason(&converted(&mut memory, other()).1.untold), [(Untold::Buckets, 1)].into());
    assert_eq!(converted(&mut memory, other()), (vec![], Counted::default()));
}

/// What happens next to a service and its agent.
#[derive(Clone, Debug)]
enum Step {
    /// It answers so many requests.
    Count(u64),
    /// It sends its total, after so many seconds.
    Export(u64),
    /// It is started again, with a clock that is so many seconds ahead.
    Restart(u64),
    /// One of the last points that were taken comes once more.
    Again(prop::sample::Index),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1..5_u64).prop_map(Step::Count),
        12 => (1..90_u64).prop_map(Step::Export),
        1 => prop_oneof![2 => Just(0_u64), 2 => Just(600), 1 => 0..600_u64].prop_map(Step::Restart),
        6 => any::<prop::sample::Index>().prop_map(Step::Again),
    ]
}

/// How many of the last points may come again.
const RECENT: usize = 8;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn nothing_is_counted_twice_and_nothing_lost_unsaid_whatever_clocks_say_and_whatever_comes_again(
        steps in prop::collection::vec(any_step(), 0..300),
    ) {
        let mut memory = Memory::new(T);
        let (mut now, mut ahead, mut start) = (1, 0, 1);
        // Of each run, in a bucket of its own.
        let (mut run, mut counted) = (0, vec![0_u64; 300]);
        let (mut sent, mut rows) = (Vec::<HistogramDataPoint>::new(), std::collections::HashMap::new());
        // Of each run, what counts from its first point on, what its last point counts, and whether any was refused.
        let mut exports = vec![(None, 0, false); 300];
        for step in steps {
            let is_export = matches!(step, Step::Export(_));
            let point = match step {
                Step::Count(more) => {
                    counted[run] += more;
                    continue;
                }
                Step::Restart(clock) => {
                    now += 1;
                    (ahead, start, run) = (clock, now + clock, run + 1);
                    continue;
                }
                Step::Export(after) => {
                    now += after;
                    let mut counts = vec![0; counted.len()];
                    counts[run] = counted[run];
                    // Of each run at times of its own: a row takes the place of the one of the same time.
                    point(T + start * SECOND, T + (now + ahead) * SECOND - run as u64, &counts)
                }
                Step::Again(which) if !sent.is_empty() => which.get(&sent[sent.len().saturating_sub(RECENT)..]).clone(),
                Step::Again(_) => continue,
            };
            let time = point.time_unix_nano;
            let taken = memory.take(Uuid::nil(), Total::explicit(&point).unwrap().unwrap(), T + now * SECOND);
            if is_export {
                let (base, last, is_refused) = &mut exports[run];
                match &taken {
                    Ok(taken) => {
                        let begins = matches!(taken, Taken::BaseLine | Taken::Untold(_));
                        base.get_or_insert(if begins { counted[run] } else { 0 });
                        *last = counted[run];
                    }
                    Err(_) => *is_refused = true,
                }
            }
            if taken.is_ok() {
                sent.push(point);
            }
            if let Ok(Taken::Increase(increase, _)) = taken {
                // A row of the same time takes the place of the one before.
                rows.insert(time, increase.buckets().counts().to_vec());
            }
        }
        for (run, counted) in counted.iter().enumerate() {
            let stored: u64 = rows.values().map(|row| row[run]).sum();
            let floor = match exports[run] {
                (Some(base), last, false) => last - base,
                _ => 0,
            };
            prop_assert!((floor..=*counted).contains(&stored), "{stored} of {floor} to {counted} of run {run}");
        }
    }
}

/// What a node of this name makes of a service's point.
fn on_node(memory: &mut Memory, node: &str, host: Option<&str>, (time, count): (u64, u64)) -> (Told, Counted) {
    let mut request = request(vec![cumulative(vec![point(T + SECOND, T + time * SECOND, &[count])])]);
    let resource = request.resource_metrics[0].resource.as_mut().unwrap();
    resource.attributes.extend(host.map(|host| text(names::HOST_NAME, host)));
    let counted = deltas::convert(&mut request, node, memory, T + (time + 1) * SECOND);
    memory.settle();
    let resource = request.resource_metrics.first().and_then(|metrics| metrics.resource.as_ref());
    assert!(
        resource.is_none_or(|resource| resource.attributes.contains(&text(names::HOST_NAME, host.unwrap_or(node))))
    );
    (told(&request), counted)
}

#[test]
fn a_node_that_is_renamed_counts_nothing_again() {
    let mut memory = Memory::new(T);
    assert_eq!(on_node(&mut memory, "n1", None, (10, 3)).0, [(SECOND, 10 * SECOND, vec![3], false)]);
    assert_eq!(on_node(&mut memory, "n2", None, (20, 5)).0, [(10 * SECOND, 20 * SECOND, vec![2], false)]);
    // Hosts that services name are theirs.
    assert_eq!(on_node(&mut memory, "n2", Some("n1"), (20, 7)).0, [(SECOND, 20 * SECOND, vec![7], false)]);
    assert_eq!(memory.len(), 2);
}

#[test]
fn series_of_journals_that_had_the_nodes_name_in_their_keys_go_on() {
    // What such a journal has under a service's key is what now has it when the service names its host.
    let mut memory = Memory::new(T);
    on_node(&mut memory, "n1", Some("n1"), (10, 3));
    let former = |memory: &Memory| {
        let mut frame = memory.snapshot();
        frame.entries.iter_mut().for_each(|entry| entry.keys = 0);
        let mut memory = Memory::new(T);
        memory.restore(&frame);
        memory
    };
    let mut upgraded = former(&memory);
    let (rows, counted) = on_node(&mut upgraded, "n1", None, (20, 5));
    assert_eq!((rows, counted.base_lines, upgraded.len()), (vec![(10 * SECOND, 20 * SECOND, vec![2], false)], 0, 1));
    // In the journal it has the new key, and not the old one.
    let mut upgraded = former(&memory);
    let mut request = request(vec![cumulative(vec![point(T + SECOND, T + 10 * SECOND, &[3])])]);
    deltas::convert(&mut request, "n1", &mut upgraded, T + 11 * SECOND);
    let frame = upgraded.changes(&[]).unwrap();
    assert_eq!((frame.entries.len(), frame.forgotten.len(), frame.entries[0].keys), (1, 1, 1));
    upgraded.undo();
    assert_eq!(upgraded.snapshot().entries[0].keys, 0);
    // A service that names its host itself keeps its series.
    let mut upgraded = former(&memory);
    on_node(&mut upgraded, "n1", Some("n1"), (20, 5));
    let (rows, _) = on_node(&mut upgraded, "n1", None, (30, 1));
    assert_eq!((rows, upgraded.len()), (vec![(SECOND, 30 * SECOND, vec![1], false)], 2));
}
