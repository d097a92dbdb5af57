//! Who is followed, and what becomes of a follower that ends.

use std::collections::BTreeMap;

use super::super::fixture;
use super::*;

fn followers(dir: &Path) -> Followers {
    Followers::new(Arc::new(fixture::shared(dir, &fixture::keeper(dir))), 0)
}

fn followee(target: &Arc<Target>) -> Followee {
    Followee { target: Arc::clone(target), watched: Watched { since_ns: 0, alone_ns: 0 } }
}

fn wanted(urls: &[&str]) -> Wanted {
    let target = |url: &&str| Arc::new(Target { url: format!("http://{url}/metrics"), ..Target::default() });
    let targets: BTreeMap<Uuid, Arc<Target>> = urls.iter().map(target).map(|target| (target.id(), target)).collect();
    Wanted { targets, remarks: Vec::new() }
}

#[tokio::test]
async fn a_follower_that_panicked_begins_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut followers = followers(dir.path());
    let wanted = wanted(&["127.0.0.1:1"]);
    let (id, target) = wanted.targets.first_key_value().unwrap();
    let task = followers.tasks.spawn(async { panic!("as a fault would") }).id();
    followers.followed.insert(*id, Followed { target: Sender::new(Some(followee(target))), task });
    let ended = followers.tasks.join_next_with_id().await.unwrap().unwrap_err();
    assert!(!followers.ended(ended.id(), ended.is_panic()));
    let one = &followers.followed[id];
    assert_eq!(
        (one.target.borrow().as_ref().map(|now| &now.target), one.task != task, followers.tasks.len()),
        (Some(target), true, 1)
    );
    assert_eq!(followers.shared.telemetry.scrapes.with_label_values(&["panicked"]).get(), 1);
    assert!(followers.shared.health.remarks()[0].contains("http://127.0.0.1:1/metrics: what follows it panicked"));
}

#[tokio::test]
async fn a_follower_that_ended_while_its_server_was_asked_for_again_is_wanted() {
    let dir = tempfile::tempdir().unwrap();
    let mut followers = followers(dir.path());
    let wanted = wanted(&["127.0.0.1:1"]);
    let (id, target) = wanted.targets.first_key_value().unwrap();
    for (now, is_wanted) in [(Some(followee(target)), true), (None, false)] {
        let task = followers.tasks.spawn(async {}).id();
        followers.followed.insert(*id, Followed { target: Sender::new(now), task });
        let (task, ()) = followers.tasks.join_next_with_id().await.unwrap().unwrap();
        assert_eq!((followers.ended(task, false), followers.followed.len()), (is_wanted, 0));
    }
}

#[tokio::test]
async fn a_target_that_is_named_back_is_told_who_was_followed_there() {
    let dir = tempfile::tempdir().unwrap();
    let mut followers = followers(dir.path());
    let watched = |followers: &Followers, urls: &[&str]| -> Vec<Watched> {
        let ids = wanted(urls).targets.into_keys();
        ids.map(|id| followers.followed[&id].target.borrow().as_ref().unwrap().watched).collect()
    };
    let (hour, names) = (3_600_000_000_000, ["127.0.0.1:1", "localhost:1"]);
    for (now_ns, name, alone_ns) in [(hour, 0, 0), (2 * hour, 1, 2 * hour), (3 * hour, 0, 3 * hour)] {
        followers.apply(&wanted(&[names[name]]), now_ns);
        let told = watched(&followers, &[names[name]]);
        assert_eq!(told, [Watched { since_ns: alone_ns, alone_ns }], "{now_ns}");
    }
    // It comes again, alone.
    followers.apply(&wanted(&[]), 4 * hour);
    followers.apply(&wanted(&[names[0]]), 5 * hour);
    assert_eq!(watched(&followers, &names[..1]), [Watched { since_ns: 4 * hour, alone_ns: 3 * hour }]);
}
