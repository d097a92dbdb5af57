//! Who is followed, and what becomes of a follower that ends.

use std::collections::BTreeMap;

use contador_schemas::mapping::Rules as Payers;

use super::*;
use crate::outbox::SpoolLimits;

fn shared(dir: &Path) -> Arc<Shared> {
    let limits = SpoolLimits { max_bytes: 4_096, segment_bytes: 1_024, rejected_bytes: 1_024 };
    let telemetry = Telemetry::new().unwrap();
    let keeper = Keeper::open(&dir.join("spool"), limits, telemetry.clone()).unwrap();
    let rules = Arc::<Payers>::default();
    Arc::new(Shared {
        listeners: Listeners::new(
            keeper.crew().clone(),
            "/nonexistent".into(),
            "/nonexistent".into(),
            Arc::clone(&rules),
        ),
        keeper,
        telemetry,
        health: Health::default(),
        identity: Identity::of_node("n1"),
        state_dir: dir.join("state"),
        interval: Duration::from_secs(3_600),
        fetcher: Fetcher::new(Duration::from_secs(1), 1 << 20, None),
        rules,
        told: Sender::new(Told::default()).subscribe(),
        max_pending_bytes: kept::MAX_PENDING_BYTES,
        job: Crew::job_name("scrape"),
    })
}

fn wanted(urls: &[&str]) -> Wanted {
    let target = |url: &&str| Arc::new(Target { url: format!("http://{url}/metrics"), ..Target::default() });
    let targets: BTreeMap<Uuid, Arc<Target>> = urls.iter().map(target).map(|target| (target.id(), target)).collect();
    Wanted { targets, remarks: Vec::new() }
}

#[tokio::test]
async fn a_follower_that_panicked_begins_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut followers = Followers::new(shared(dir.path()), 0);
    let wanted = wanted(&["127.0.0.1:1"]);
    let (id, target) = wanted.targets.first_key_value().unwrap();
    let task = followers.tasks.spawn(async { panic!("as a fault would") }).id();
    followers.followed.insert(*id, Followed { target: Sender::new(Some(Arc::clone(target))), task });
    let ended = followers.tasks.join_next_with_id().await.unwrap().unwrap_err();
    assert!(!followers.ended(ended.id(), ended.is_panic()));
    let one = &followers.followed[id];
    assert_eq!(
        (one.target.borrow().clone(), one.task != task, followers.tasks.len()),
        (Some(Arc::clone(target)), true, 1)
    );
    assert_eq!(followers.shared.telemetry.scrapes.with_label_values(&["panicked"]).get(), 1);
    assert!(followers.shared.health.remarks()[0].contains("http://127.0.0.1:1/metrics: what follows it panicked"));
}

#[tokio::test]
async fn a_follower_that_ended_while_its_server_was_asked_for_again_is_wanted() {
    let dir = tempfile::tempdir().unwrap();
    let mut followers = Followers::new(shared(dir.path()), 0);
    let wanted = wanted(&["127.0.0.1:1"]);
    let (id, target) = wanted.targets.first_key_value().unwrap();
    for (now, is_wanted) in [(Some(Arc::clone(target)), true), (None, false)] {
        let task = followers.tasks.spawn(async {}).id();
        followers.followed.insert(*id, Followed { target: Sender::new(now), task });
        let (task, ()) = followers.tasks.join_next_with_id().await.unwrap().unwrap();
        assert_eq!((followers.ended(task, false), followers.followed.len()), (is_wanted, 0));
    }
}
