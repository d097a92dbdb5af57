//! Nothing that a server counts is lost or counted twice, whatever fails at whatever step.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use proptest::collection::vec;
use proptest::prelude::*;
use prost::Message as _;

use super::super::fixture;
use super::*;
use crate::scrape::presets::Custom;

/// What happens next.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// So many requests are served, and the server is asked.
    Scrape(u64),
    /// The agent is killed and started again.
    Kill,
    /// The folder of memories can't be written, or can again.
    Folder(bool),
    /// The collector takes what is in the spool.
    Send,
    /// The server starts again, having been asked right before.
    Restart(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0_u64..50).prop_map(Step::Scrape),
        2 => Just(Step::Kill),
        1 => any::<bool>().prop_map(Step::Folder),
        1 => Just(Step::Send),
        1 => (0_u64..50).prop_map(Step::Restart),
    ]
}

/// Unix seconds.
#[expect(clippy::cast_precision_loss, reason = "a time to the millisecond")]
fn now_s() -> f64 {
    now_ms() as f64 / 1e3
}

/// Requests and the start of a server, which are on its page.
type Shown = Arc<Mutex<(u64, f64)>>;

async fn page(State(shown): State<Shown>) -> String {
    let (count, started) = *shown.lock().unwrap();
    format!(
        "# TYPE h_seconds histogram\nh_seconds_bucket{{le=\"1\"}} {count}\nh_seconds_bucket{{le=\"+Inf\"}} {count}\n\
         h_seconds_sum {}\nh_seconds_count {count}\n# TYPE process_start_time_seconds gauge\n\
         process_start_time_seconds {started}\n",
        count / 2
    )
}

/// A node with a spool of few bytes.
struct Node {
    dir: tempfile::TempDir,
    target: Arc<Target>,
    shown: Shown,
    /// Counts by instant, of all that the collector has.
    stored: BTreeMap<u64, u64>,
}

impl Node {
    async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/metrics", listener.local_addr().unwrap());
        let shown: Shown = Arc::new(Mutex::new((1_000, now_s() - 1_000.0)));
        let router = Router::new().route("/metrics", get(page)).with_state(Arc::clone(&shown));
        tokio::spawn(axum::serve(listener, router).into_future());
        let custom = Custom { family: "h_seconds".into(), ..Custom::default() };
        // Whoever listens is this test, which is not looked for.
        let owner = contador_schemas::owner::Owner { project: "p".into(), ..Default::default() };
        let target = Arc::new(Target { url, histograms: vec![custom], owner, ..Target::default() });
        let dir = tempfile::tempdir().unwrap();
        Self { dir, target, shown, stored: BTreeMap::new() }
    }

    fn folder(&self) -> PathBuf {
        kept::folder(&self.dir.path().join("state"))
    }

    fn keeper(&self) -> Keeper {
        fixture::keeper(self.dir.path())
    }

    async fn follower(&self, keeper: &Keeper) -> Option<Follower> {
        let watched = Watched { since_ns: due::instant_ns(now_ms(), 0), alone_ns: 0 };
        let followee = Followee { target: Arc::clone(&self.target), watched };
        let shared = Arc::new(fixture::shared(self.dir.path(), keeper));
        Follower::load(&shared, self.target.id(), Some(&followee)).await
    }

    /// The collector takes all that there is: rows of one instant replace each other.
    async fn send(&mut self, keeper: &Keeper) {
        while let Some((lane, batch)) = keeper.peek(100, 1 << 20).await.unwrap() {
            for record in &batch.records {
                let request = ExportMetricsServiceRequest::decode(record.payload.as_slice()).unwrap();
                let scopes = request.resource_metrics.into_iter().flat_map(|resource| resource.scope_metrics);
                for metric in scopes.flat_map(|scope| scope.metrics) {
                    if let Some(Data::Histogram(histogram)) = metric.data {
                        for point in histogram.data_points {
                            let before = self.stored.insert(point.time_unix_nano, point.count);
                            assert!(before.is_none_or(|before| before == point.count), "an instant with two contents");
                        }
                    }
                }
            }
            keeper.acknowledge(lane, *batch.ends.last().unwrap()).await.unwrap();
        }
    }
}

/// Has the folder be a file, so that nothing can be written there, or the folder again.
fn block(folder: &Path, is_blocked: bool) {
    let aside = folder.with_extension("aside");
    match is_blocked {
        true if !aside.exists() => {
            std::fs::rename(folder, &aside).unwrap();
            std::fs::write(folder, "").unwrap();
        }
        false if aside.exists() => {
            std::fs::remove_file(folder).unwrap();
            std::fs::rename(&aside, folder).unwrap();
        }
        _ => {}
    }
}

async fn run(steps: Vec<Step>) {
    let mut node = Node::start().await;
    let mut keeper = node.keeper();
    let mut follower = node.follower(&keeper).await.unwrap();
    let target = Arc::clone(&node.target);
    // What it had counted before is a base line.
    follower.scrape(&target).await;
    let (mut served, mut started) = (0, now_s() - 1_000.0);
    for step in steps.into_iter().chain([Step::Folder(true), Step::Send, Step::Scrape(1), Step::Send]) {
        match step {
            Step::Scrape(requests) => {
                node.shown.lock().unwrap().0 += requests;
                served += requests;
                follower.scrape(&target).await;
            }
            Step::Kill => {
                block(&node.folder(), false);
                drop((follower, keeper));
                keeper = node.keeper();
                follower = node.follower(&keeper).await.unwrap();
            }
            Step::Folder(is_well) => block(&node.folder(), !is_well),
            Step::Send => {
                node.send(&keeper).await;
                follower.keep().await;
                node.send(&keeper).await;
            }
            Step::Restart(requests) => {
                block(&node.folder(), false);
                node.send(&keeper).await;
                follower.scrape(&target).await;
                node.send(&keeper).await;
                // Starts that differ by less than a second are one.
                started = now_s().max(started + 2.0);
                *node.shown.lock().unwrap() = (requests, started);
                served += requests;
            }
        }
    }
    assert_eq!(follower.kept.pending.len(), 0);
    assert_eq!(node.stored.values().sum::<u64>(), served, "{:?}", node.stored);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn what_is_stored_is_what_was_served(steps in vec(step(), 1..30)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(run(steps));
    }
}

#[tokio::test]
async fn while_the_spool_takes_nothing_the_server_is_not_asked_and_nothing_is_lost() {
    let mut steps = vec![Step::Scrape(3); 40];
    steps.push(Step::Kill);
    steps.extend(vec![Step::Scrape(3); 5]);
    run(steps).await;
}

#[tokio::test]
async fn a_page_that_tells_nothing_new_is_not_written_and_rows_leave_the_file() {
    let node = Node::start().await;
    let keeper = node.keeper();
    let mut follower = node.follower(&keeper).await.unwrap();
    let target = Arc::clone(&node.target);
    let file = kept::file(&node.dir.path().join("state"), target.id());
    let on_disk = || match kept::load(&file).unwrap() {
        Loaded::Kept(kept) => kept,
        other => panic!("{other:?}"),
    };
    follower.scrape(&target).await;
    // The base line is on disk.
    assert_eq!((on_disk().memory.scrapes, on_disk().memory), (1, follower.kept.memory.clone()));
    follower.scrape(&target).await;
    follower.scrape(&target).await;
    assert_eq!((on_disk().memory.scrapes, follower.kept.memory.scrapes), (1, 3));
    node.shown.lock().unwrap().0 += 5;
    follower.scrape(&target).await;
    assert_eq!((on_disk().memory.scrapes, on_disk().pending.len(), follower.kept.pending.len()), (4, 1, 0));
    // The spool has them.
    follower.scrape(&target).await;
    assert_eq!((on_disk().memory.scrapes, on_disk().pending.len()), (5, 0));
    follower.scrape(&target).await;
    assert_eq!(on_disk().memory.scrapes, 5);
    // One that is followed stays young.
    follower.stored = Instant::now().checked_sub(kept::REFRESH);
    follower.scrape(&target).await;
    assert_eq!(on_disk().memory.scrapes, 7);
}

#[tokio::test]
async fn rows_that_tell_nothing_to_remember_leave_the_file_all_the_same() {
    let node = Node::start().await;
    let keeper = node.keeper();
    let mut follower = node.follower(&keeper).await.unwrap();
    let target = Arc::clone(&node.target);
    let file = kept::file(&node.dir.path().join("state"), target.id());
    let on_disk = || matches!(kept::load(&file).unwrap(), Loaded::Kept(kept) if kept.pending.is_empty());
    follower.scrape(&target).await;
    assert!(follower.stored.is_some());
    follower.kept.pending.push_back(Points::default().encode(&follower.shared.identity));
    follower.keep().await;
    assert_eq!((follower.kept.pending.len(), on_disk()), (0, false));
    follower.scrape(&target).await;
    assert!(on_disk());
}

#[tokio::test]
async fn a_memory_from_before_another_target_counted_there_begins_anew() {
    let mut node = Node::start().await;
    let keeper = node.keeper();
    let target = Arc::clone(&node.target);
    let mut follower = node.follower(&keeper).await.unwrap();
    follower.scrape(&target).await;
    for (is_other, stored) in [(false, 5), (true, 5), (false, 10)] {
        // It is no target for a while, and serves five requests.
        node.shown.lock().unwrap().0 += 5;
        let now_ns = due::instant_ns(now_ms() + 1, 0);
        follower.begin_anew(Watched { since_ns: now_ns, alone_ns: if is_other { now_ns } else { 0 } });
        follower.scrape(&target).await;
        node.send(&keeper).await;
        assert_eq!(node.stored.values().sum::<u64>(), stored, "{is_other}");
    }
}

#[test]
fn what_a_server_shows_wrongly_at_each_scrape_is_a_remark() {
    let mut taken = Taken { dropped: vec![(Reason::Torn, 2), (Reason::BaseLine, 1)], ..Taken::default() };
    assert_eq!(remark(&taken, true), None);
    assert!(remark(&taken, false).unwrap().starts_with("no family of a known server"));
    for reason in
        [Reason::NoInfinity, Reason::Duplicate, Reason::Value, Reason::Buckets, Reason::Series, Reason::Overlap]
    {
        taken.dropped = vec![(Reason::Torn, 2), (reason, 3)];
        let said = remark(&taken, true).unwrap();
        assert_eq!(said, format!("left out: 3 {}", reason.remark().unwrap()));
    }
    let missing = vec!["h_seconds{handler=\"/a\"}".to_owned(), "g_ms".to_owned()];
    let told = remark(&Taken { missing, ..Taken::default() }, true);
    assert_eq!(told.unwrap(), "no series on the page of the histograms h_seconds{handler=\"/a\"}, g_ms");
    taken.dropped = vec![(Reason::NoInfinity, 1), (Reason::Overlap, 4)];
    assert!(remark(&taken, true).unwrap().contains("1 histograms have no bucket +Inf; 4 totals are another server's"));
    taken.faults = vec!["line 4: the value is \"x\"".to_owned()];
    assert_eq!(remark(&taken, true).unwrap(), taken.faults[0]);
}
