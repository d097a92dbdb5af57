//! What is stored is what was counted, whatever collectors do at the same time and wherever they end.

use super::*;

/// What happens next.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// The source answers so many requests.
    Count(u8),
    /// It sends its total to this collector, if that has nothing to do.
    Export(usize),
    /// It sends the same point again, to this collector.
    Again(usize),
    /// This collector goes on to the next stage.
    Go(usize),
    /// What this collector does next fails. It remembers what it knows, and the source is told to come again.
    Fail(usize),
    /// This collector is killed, and another process is in its place.
    Kill(usize),
    /// This collector forgets what it remembers.
    Forget(usize),
    /// The source begins again, after its last total was acknowledged.
    Restart,
}

fn any_step() -> impl Strategy<Value = Step> {
    let which = 0..3_usize;
    prop_oneof![
        3 => (0..5_u8).prop_map(Step::Count),
        4 => which.clone().prop_map(Step::Export),
        2 => which.clone().prop_map(Step::Again),
        16 => which.clone().prop_map(Step::Go),
        1 => which.clone().prop_map(Step::Fail),
        1 => which.clone().prop_map(Step::Kill),
        1 => which.prop_map(Step::Forget),
        1 => Just(Step::Restart),
    ]
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    Read,
    Records,
    Check,
    Rows,
    ReadAgain,
}

struct Collector {
    memory: Memory,
    writer: Uuid,
    job: Option<(Work, Stage)>,
}

impl Collector {
    fn new(writer: u128) -> Self {
        Self { memory: Memory::new(10), writer: Uuid::from_u128(writer), job: None }
    }

    async fn begin(&mut self, point: Running) {
        if self.job.is_none() {
            let work = self.memory.hold(vec![point], &mut Rejected::default()).await;
            self.job = Some((work, Stage::Read));
        }
    }

    /// One stage; whether there is nothing more to do.
    fn go(&mut self, world: &mut World) -> bool {
        let Some((mut work, stage)) = self.job.take() else { return true };
        let next = match stage {
            Stage::Read => {
                let mut rejected = Rejected::default();
                work.take(world.read(&work, self.writer), T + DAY, &mut rejected);
                Stage::Records
            }
            Stage::Records => {
                world.write_records(&work, self.writer);
                Stage::Check
            }
            Stage::Check => {
                work.merge(world.read(&work, self.writer));
                Stage::Rows
            }
            Stage::Rows => {
                world.write_rows(&work);
                Stage::ReadAgain
            }
            Stage::ReadAgain => {
                if !work.merge(world.read(&work, self.writer)) {
                    work.acknowledge();
                    return true;
                }
                Stage::Rows
            }
        };
        self.job = Some((work, next));
        false
    }

    /// The rest of what it does. It comes to an end.
    fn finish(&mut self, world: &mut World) {
        let stages = (0..100).take_while(|_| !self.go(world)).count();
        assert!(stages < 100, "rows are written again and again");
    }

    async fn whole(&mut self, world: &mut World, point: Running) {
        self.begin(point).await;
        self.finish(world);
    }
}

/// A source that counts.
struct Source {
    start: i64,
    time: i64,
    /// Of this run, and of all runs.
    count: u64,
    all: u64,
    last: Option<Running>,
}

impl Source {
    fn point(&mut self) -> Running {
        self.time += 1_000;
        let point = total(Some(self.start), self.time, [self.count, 0]);
        self.last = Some(point.clone());
        point
    }
}

async fn run(steps: Vec<Step>, stalled_first: bool) -> (u64, u64, World) {
    let mut world = World::default();
    let mut collectors: Vec<Collector> = (1..4).map(Collector::new).collect();
    let mut next_writer = 10;
    let mut source = Source { start: T + 1, time: T + 1, count: 0, all: 0, last: None };
    for step in steps {
        match step {
            Step::Count(count) => {
                source.count += u64::from(count);
                source.all += u64::from(count);
            }
            Step::Export(at) => {
                let point = source.point();
                collectors[at].begin(point).await;
            }
            Step::Again(at) => {
                if let Some(point) = source.last.clone() {
                    collectors[at].begin(point).await;
                }
            }
            Step::Go(at) => {
                collectors[at].go(&mut world);
            }
            Step::Fail(at) => collectors[at].job = None,
            Step::Kill(at) => {
                collectors[at] = Collector::new(next_writer);
                next_writer += 1;
            }
            Step::Forget(at) => {
                if collectors[at].job.is_none() {
                    collectors[at].memory = Memory::new(10);
                }
            }
            Step::Restart => {
                let point = source.point();
                Collector::new(next_writer).whole(&mut world, point).await;
                next_writer += 1;
                source.time += 1_000;
                (source.start, source.count, source.last) = (source.time, 0, None);
            }
        }
    }
    // Those that were slow end before or after the last total.
    let finish = |collectors: &mut Vec<Collector>, world: &mut World| {
        collectors.iter_mut().for_each(|collector| collector.finish(world));
    };
    if stalled_first {
        finish(&mut collectors, &mut world);
    }
    let point = source.point();
    Collector::new(next_writer).whole(&mut world, point).await;
    finish(&mut collectors, &mut world);
    (world.count(), source.all, world)
}

/// How the source counts 0, 3 and 5, at the times 1, 2 and 3.
fn zero_three_five() -> [Running; 3] {
    [(1, 0), (2, 3), (3, 5)].map(|(time, count)| total(Some(T + 1), T + time * 1_000, [count, 0]))
}

#[tokio::test]
async fn l7_a_row_that_was_to_be_put_right_is_so_when_its_collector_ends() {
    let mut world = World::default();
    let (mut one, mut other) = (Collector::new(1), Collector::new(2));
    let [zero, three, five] = zero_three_five();
    one.whole(&mut world, zero.clone()).await;
    other.whole(&mut world, zero).await;
    // Both read; the other one writes the point 5, and stops before it writes its row, which counts from 0.
    one.begin(three).await;
    one.go(&mut world);
    other.begin(five.clone()).await;
    (0..3).for_each(|_| _ = other.go(&mut world));
    one.finish(&mut world);
    assert_eq!(world.count(), 5);
    other.go(&mut world);
    assert_eq!(world.count(), 8);
    // It sees the point 3 now, and can't write the row again. At the next try it says so, and is killed.
    assert!(!other.go(&mut world));
    other.job = None;
    other.begin(five).await;
    (0..2).for_each(|_| _ = other.go(&mut world));
    drop(other);
    one.whole(&mut world, total(Some(T + 1), T + 4_000, [6, 0])).await;
    assert_eq!(world.count(), 6);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn l7_what_is_stored_is_what_was_counted_wherever_collectors_end(
        steps in prop::collection::vec(any_step(), 0..80),
        stalled_first in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (stored, counted, world) = runtime.block_on(run(steps, stalled_first));
        prop_assert_eq!(stored, counted, "{:?}", world.rows);
    }
}
