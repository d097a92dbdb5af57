//! Nothing is counted twice, whatever clocks say, whatever comes again, and whichever collectors end.

use super::*;

const SECOND: i64 = 1_000_000_000;

/// What happens next to a service and to its collectors.
#[derive(Clone, Debug)]
enum Step {
    /// It answers so many requests.
    Count(u64),
    /// It sends its total, after so many seconds, to this collector.
    Export(i64, usize),
    /// The same, and the collector is killed when it has written the point, and no row of it.
    Killed(i64, usize),
    /// It is started again, with a clock that is so many seconds ahead.
    Restart(i64),
    /// One of the last points that were taken comes to this collector once more.
    Again(prop::sample::Index, usize),
    /// This collector is started again.
    Forget(usize),
}

fn any_step() -> impl Strategy<Value = Step> {
    let which = prop_oneof![9 => Just(0_usize), 1 => Just(1)];
    prop_oneof![
        6 => (1..5_u64).prop_map(Step::Count),
        12 => (1..90_i64, which.clone()).prop_map(|(after, which)| Step::Export(after, which)),
        1 => (1..120_i64, which.clone()).prop_map(|(after, which)| Step::Killed(after, which)),
        1 => prop_oneof![2 => Just(0_i64), 2 => Just(600), 1 => 0..600_i64].prop_map(Step::Restart),
        6 => (any::<prop::sample::Index>(), which.clone()).prop_map(|(point, which)| Step::Again(point, which)),
        1 => which.prop_map(Step::Forget),
    ]
}

/// How many of the last points may come again.
const RECENT: usize = 8;

#[derive(Default)]
struct Service {
    now: i64,
    ahead: i64,
    start: i64,
    run: usize,
    /// By run, each of which counts in a bucket of its own.
    counted: Vec<u64>,
}

impl Service {
    fn point(&mut self, after: i64) -> Running {
        self.now += after * SECOND;
        // Of each run at times of its own: a row takes the place of the one of the same time.
        let time = self.now + self.ahead - i64::try_from(self.run).unwrap();
        let mut running = total(Some(self.start), time, [0, 0]);
        let mut counts = vec![0; self.counted.len()];
        counts[self.run] = self.counted[self.run];
        let bounds = (1..).map(f64::from).take(counts.len() - 1).collect();
        running.reading.buckets = Buckets::Explicit { bounds, counts, whole: false };
        running
    }
}

/// What became of a run's exports.
#[derive(Clone, Default)]
struct Exports {
    /// What the first one that was taken counts, and the last one.
    taken: Option<(u64, u64)>,
    is_refused: bool,
}

impl Exports {
    fn add(&mut self, counts: u64, is_taken: bool) {
        if is_taken {
            self.taken = Some((self.taken.map_or(counts, |(first, _)| first), counts));
        }
        self.is_refused |= !is_taken;
    }

    /// What must be stored at least: of a run of which nothing was refused, all that came after its first point.
    fn floor(&self) -> u64 {
        self.taken.filter(|_| !self.is_refused).map_or(0, |(first, last)| last - first)
    }
}

/// What is stored at least, what is, and what was counted, by run.
async fn run(steps: Vec<Step>) -> Vec<(u64, u64, u64)> {
    let mut world = World::default();
    let mut collectors = [Memory::new(10), Memory::new(10)];
    let writers = [Uuid::from_u128(8), Uuid::from_u128(9)];
    let counted = vec![0; steps.len() + 2];
    let mut service = Service { now: T + SECOND, start: T + SECOND, counted, ..Service::default() };
    let mut sent: Vec<Running> = Vec::new();
    let mut exports = vec![Exports::default(); service.counted.len()];
    for step in steps {
        let is_export = matches!(step, Step::Export(..));
        let (point, which) = match step {
            Step::Count(more) => {
                service.counted[service.run] += more;
                continue;
            }
            Step::Restart(ahead) => {
                service.now += SECOND;
                (service.ahead, service.run) = (ahead * SECOND, service.run + 1);
                service.start = service.now + service.ahead;
                continue;
            }
            Step::Forget(which) => {
                collectors[which] = Memory::new(10);
                continue;
            }
            Step::Killed(after, which) => {
                let mut rejected = Rejected::default();
                let mut work = collectors[which].hold(vec![service.point(after)], &mut rejected).await;
                work.take(world.read(&work, writers[which]), service.now, &mut rejected);
                world.write_records(&work, writers[which]);
                drop(work);
                collectors[which] = Memory::new(10);
                continue;
            }
            Step::Export(after, which) => (service.point(after), which),
            Step::Again(index, which) if !sent.is_empty() => {
                (index.get(&sent[sent.len().saturating_sub(RECENT)..]).clone(), which)
            }
            Step::Again(..) => continue,
        };
        let points = vec![point.clone()];
        let (_, rejected) = send_at(&mut world, &collectors[which], writers[which], points, service.now).await;
        if is_export {
            exports[service.run].add(service.counted[service.run], rejected.points() == 0);
        }
        if rejected.points() == 0 {
            sent.push(point);
        }
    }
    let stored = |run: usize| -> u64 {
        let cells = world.cells.values().flatten();
        // Bucket `run` begins at that bound.
        cells.filter(|(lo, _)| (*lo - run as f64).abs() < 0.5).map(|(_, n)| n).sum()
    };
    let runs = exports.iter().zip(&service.counted).enumerate();
    runs.map(|(run, (exports, counted))| (exports.floor(), stored(run), *counted)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_counted_twice_and_nothing_lost_unsaid_whatever_clocks_say_and_whatever_comes_again(
        steps in prop::collection::vec(any_step(), 0..300),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for (run, (floor, stored, counted)) in runtime.block_on(run(steps)).into_iter().enumerate() {
            prop_assert!((floor..=counted).contains(&stored), "{stored} of {floor} to {counted} of run {run}");
        }
    }
}
