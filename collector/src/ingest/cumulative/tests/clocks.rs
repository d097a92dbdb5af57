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
    /// One of the points that were taken comes to this collector once more.
    Again(prop::sample::Index, usize),
    /// This collector is started again.
    Forget(usize),
}

fn any_step() -> impl Strategy<Value = Step> {
    let which = 0..2_usize;
    prop_oneof![
        3 => (0..5_u64).prop_map(Step::Count),
        8 => (1..120_i64, which.clone()).prop_map(|(after, which)| Step::Export(after, which)),
        1 => (1..120_i64, which.clone()).prop_map(|(after, which)| Step::Killed(after, which)),
        1 => (0..600_i64).prop_map(Step::Restart),
        3 => (any::<prop::sample::Index>(), which.clone()).prop_map(|(point, which)| Step::Again(point, which)),
        1 => which.prop_map(Step::Forget),
    ]
}

#[derive(Default)]
struct Service {
    now: i64,
    ahead: i64,
    start: i64,
    counted: u64,
    all: u64,
}

impl Service {
    fn point(&mut self, after: i64) -> Running {
        self.now += after * SECOND;
        total(Some(self.start), self.now + self.ahead, [self.counted, 0])
    }
}

async fn run(steps: Vec<Step>) -> (u64, u64) {
    let mut world = World::default();
    let mut collectors = [Memory::new(10), Memory::new(10)];
    let writers = [Uuid::from_u128(8), Uuid::from_u128(9)];
    let mut service = Service { now: T + SECOND, start: T + SECOND, ..Service::default() };
    let mut sent: Vec<Running> = Vec::new();
    for step in steps {
        let (point, which) = match step {
            Step::Count(more) => {
                (service.counted, service.all) = (service.counted + more, service.all + more);
                continue;
            }
            Step::Restart(ahead) => {
                service.now += SECOND;
                (service.ahead, service.counted) = (ahead * SECOND, 0);
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
            Step::Again(index, which) if !sent.is_empty() => (index.get(&sent).clone(), which),
            Step::Again(..) => continue,
        };
        let points = vec![point.clone()];
        let (_, rejected) = send_at(&mut world, &collectors[which], writers[which], points, service.now).await;
        if rejected.points() == 0 {
            sent.push(point);
        }
    }
    (world.count(), service.all)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_counted_twice_whatever_clocks_say_and_whatever_comes_again(
        steps in prop::collection::vec(any_step(), 0..150),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (stored, counted) = runtime.block_on(run(steps));
        prop_assert!(stored <= counted, "{stored} of {counted}");
    }
}
