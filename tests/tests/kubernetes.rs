//! What Kubernetes says of owners, from a kubelet on a socket and an API server that replay files.
#![allow(clippy::unwrap_used, reason = "a test ends at what it does not expect")]

use std::time::Duration;

use axum::http::StatusCode;
use contador_agent::owners::claim::Snapshot;
use contador_agent::owners::kubernetes::{ApiOptions, Kubernetes, Options};

mod kube_support;
use kube_support::{Cluster, Manner, Tls, held, holders, until};

const GPU: &str = "GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77";
const OTHER: &str = "GPU-77777777-d33d-2b2c-524d-9e3d8d2b8a77";

/// What a holder on the first GPU is known by under this name.
fn said<'s>(snapshot: &'s Snapshot, name: &str) -> Option<&'s str> {
    let claim = snapshot.claims.iter().find(|claim| claim.device.to_string() == GPU)?;
    claim.holder.labels.get(name).map(String::as_str)
}

fn is_told(snapshot: &Snapshot) -> bool {
    said(snapshot, "k8s.label.team").is_some()
}

fn fault(snapshot: &Snapshot) -> &str {
    snapshot.fault.as_deref().unwrap_or_default()
}

#[tokio::test]
async fn pods_hold_what_they_were_given_from_their_start_to_their_end() {
    let cluster = Cluster::replay("shared", "empty").await;
    let kubernetes = Kubernetes::start(cluster.options());
    let snapshot = until(&kubernetes, |snapshot| snapshot.told_ms > 0 && !snapshot.works.is_empty()).await;
    assert_eq!((snapshot.claims.len(), &snapshot.fault), (0, &None));

    cluster.step("running");
    let snapshot = until(&kubernetes, |snapshot| snapshot.claims.len() == 3 && is_told(snapshot)).await;
    // Thirds of a million are 333333, 333333 and 333334: train-0 has the first and the last.
    let expected = held(&[
        (GPU, &["vision/train-0/main 666667"]),
        (OTHER, &["web/serve/server 500000", "web/serve/draft 500000"]),
    ]);
    assert_eq!(holders(&snapshot), expected);
    assert_eq!(said(&snapshot, "k8s.annotation.experiment"), Some("resnet-7"));
    let mut works: Vec<&str> = snapshot.works.keys().map(String::as_str).collect();
    works.sort_unstable();
    assert_eq!(works, ["a0", "agent-1", "c1", "c2", "c3", "serve-a", "train-a"]);
    let draft = &snapshot.works["c3"];
    assert_eq!((draft.owner.pod.as_str(), draft.owner.container.as_str()), ("serve", "draft"));
    assert_eq!(draft.labels["k8s.label.team"], "web");
    assert_eq!(snapshot.works["train-a"].owner.container, "");

    // The kubelet lists on what has ended.
    cluster.step("completed");
    let snapshot = until(&kubernetes, |snapshot| snapshot.claims.is_empty()).await;
    assert!(!snapshot.works.contains_key("train-a") && !snapshot.works.contains_key("c1"));

    // Another pod of the same name has what the kubelet gave to it, and not what the first one had.
    cluster.step("rescheduled");
    let snapshot = until(&kubernetes, |snapshot| !snapshot.claims.is_empty()).await;
    assert_eq!(holders(&snapshot), held(&[(GPU, &["vision/train-0/main 333333"])]));
    assert_eq!(said(&snapshot, "k8s.annotation.experiment"), Some("resnet-8"));
    assert!(snapshot.works.contains_key("train-b"));
}

#[tokio::test]
async fn every_form_of_a_device_is_read_without_an_api_server() {
    let cluster = Cluster::replay("forms", "all").await;
    for manner in [Manner::Well, Manner::Old, Manner::Partly] {
        cluster.kubelet.answer(manner);
        let kubernetes = Kubernetes::start(cluster.without_api());
        let snapshot = until(&kubernetes, |snapshot| !snapshot.claims.is_empty() || snapshot.fault.is_some()).await;
        let expected = held(&[
            (GPU, &["lab/whole/main even"]),
            (OTHER, &["lab/replica/main even"]),
            ("GPU-88888888-d33d-2b2c-524d-9e3d8d2b8a77", &["lab/numbered/main even"]),
            ("MIG-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77", &["lab/mig/main even"]),
            ("nvidia3", &["lab/gke/main even"]),
            ("nvidia4", &["lab/gke/main even"]),
            ("nvidia2/gi2", &["lab/gke-mig/main even"]),
            ("nvidia2/gi7", &["lab/gke-mig/main even"]),
            ("nvidia5", &["lab/claimed/main even"]),
        ]);
        assert_eq!(holders(&snapshot), expected, "{manner:?}");
        assert!(snapshot.claims.iter().all(|claim| claim.holder.labels.is_empty()));
        assert_eq!((snapshot.works.len(), &snapshot.fault), (0, &None), "{manner:?}");
    }
}

#[tokio::test]
async fn the_last_word_of_a_kubelet_that_fails_counts_for_a_while() {
    let cluster = Cluster::replay("shared", "running").await;
    cluster.kubelet.down();
    let kubernetes = Kubernetes::start(cluster.options());
    let socket = cluster.kubelet.socket().display().to_string();
    let snapshot = until(&kubernetes, |snapshot| fault(snapshot).contains("No such file")).await;
    assert!(fault(&snapshot).contains(&socket) && snapshot.told_ms == 0, "{snapshot:?}");

    cluster.kubelet.up();
    let whole = until(&kubernetes, |snapshot| snapshot.claims.len() == 3 && is_told(snapshot)).await;
    for (manner, why) in [(Manner::Garbage, "decode"), (Manner::Failing, "checkpoint is corrupt")] {
        cluster.kubelet.answer(manner);
        let snapshot = until(&kubernetes, |snapshot| fault(snapshot).contains(why)).await;
        assert_eq!(snapshot.claims, whole.claims, "{manner:?}");
        cluster.kubelet.answer(Manner::Well);
        until(&kubernetes, |snapshot| snapshot.fault.is_none()).await;
    }
    drop(kubernetes);

    let short = Options { keep_for: Duration::from_millis(500), ..cluster.options() };
    let kubernetes = Kubernetes::start(short);
    until(&kubernetes, |snapshot| snapshot.claims.len() == 3).await;
    cluster.kubelet.down();
    until(&kubernetes, |snapshot| snapshot.fault.is_some() && snapshot.claims.len() == 3).await;
    let snapshot = until(&kubernetes, |snapshot| snapshot.claims.is_empty()).await;
    assert!(snapshot.fault.is_some() && snapshot.works.contains_key("c1"), "{snapshot:?}");
    cluster.kubelet.up();
    until(&kubernetes, |snapshot| snapshot.claims.len() == 3 && snapshot.fault.is_none()).await;
}

#[tokio::test]
async fn a_slow_kubelet_is_asked_once_at_a_time_and_ends_are_seen_meanwhile() {
    let cluster = Cluster::replay("shared", "running").await;
    let kubernetes = Kubernetes::start(cluster.options());
    until(&kubernetes, |snapshot| snapshot.claims.len() == 3 && is_told(snapshot)).await;
    cluster.kubelet.answer(Manner::Never);
    let snapshot = until(&kubernetes, |snapshot| fault(snapshot).contains("no answer within 2 s")).await;
    assert_eq!(snapshot.claims.len(), 3);
    cluster.step("completed");
    until(&kubernetes, |snapshot| snapshot.claims.is_empty()).await;
    cluster.kubelet.answer(Manner::Well);
    until(&kubernetes, |snapshot| snapshot.fault.is_none()).await;
    assert_eq!(cluster.kubelet.most_open(), 1);
}

#[tokio::test]
async fn pods_stay_known_while_the_api_server_is_away() {
    let cluster = Cluster::replay("shared", "empty").await;
    cluster.api.fail(Some(StatusCode::SERVICE_UNAVAILABLE));
    let kubernetes = Kubernetes::start(cluster.options());
    until(&kubernetes, |snapshot| fault(snapshot).contains("503")).await;
    // The kubelet's word alone.
    cluster.step("running");
    let snapshot = until(&kubernetes, |snapshot| snapshot.claims.len() == 3).await;
    assert!(!is_told(&snapshot) && fault(&snapshot).contains("it is not well"), "{snapshot:?}");
    assert!(snapshot.claims.iter().any(|claim| claim.holder.owner.namespace == "vision"));
    cluster.api.fail(None);
    let snapshot = until(&kubernetes, |snapshot| is_told(snapshot) && snapshot.fault.is_none()).await;
    assert_eq!(snapshot.claims.len(), 3);
    // Away again: what was told goes on to be used.
    cluster.api.fail(Some(StatusCode::INTERNAL_SERVER_ERROR));
    let snapshot = until(&kubernetes, |snapshot| fault(snapshot).contains("500")).await;
    assert!(is_told(&snapshot) && fault(&snapshot).contains("(for "), "{snapshot:?}");
    assert_eq!(snapshot.works.len(), 7);
    cluster.api.fail(None);
    // It does not say what it should.
    until(&kubernetes, |snapshot| snapshot.fault.is_none()).await;
    cluster.api.garbage(Some("<html>sign in</html>"));
    let snapshot = until(&kubernetes, |snapshot| fault(snapshot).contains("expected a list of pods")).await;
    assert!(is_told(&snapshot));
    cluster.api.garbage(None);
    until(&kubernetes, |snapshot| is_told(snapshot) && snapshot.fault.is_none()).await;
}

#[tokio::test]
async fn what_the_api_server_has_forgotten_is_listed_again() {
    let cluster = Cluster::replay("shared", "running").await;
    cluster.api.page(1);
    let kubernetes = Kubernetes::start(cluster.options());
    until(&kubernetes, |snapshot| snapshot.works.len() == 7 && is_told(snapshot)).await;
    let pages = |version: Option<&str>| {
        let asked = cluster.api.asked();
        let lists = asked.iter().filter(|asked| !asked.query.contains_key("watch"));
        let first = lists.clone().filter(|asked| !asked.query.contains_key("continue"));
        let of = first.filter(|asked| asked.query.get("resourceVersion").map(String::as_str) == version).count();
        (lists.count(), of)
    };
    assert_eq!(pages(Some("0")), (3, 1), "three pods are three pages, of what the server remembers");
    cluster.api.forget();
    cluster.step("completed");
    until(&kubernetes, |snapshot| snapshot.claims.is_empty() && snapshot.works.len() == 2).await;
    assert_eq!(pages(None), (3 + 2, 1), "two pods are left, of now");
    // From there it goes on with changes.
    cluster.step("rescheduled");
    until(&kubernetes, |snapshot| snapshot.works.contains_key("train-b")).await;
    assert_eq!(cluster.api.counts().0, 5);
}

#[tokio::test]
async fn the_api_server_is_reached_by_tls_with_a_token_that_changes() {
    let (tls, stranger) = (Tls::new(), Tls::new());
    let dir = tempfile::tempdir().unwrap();
    let token = dir.path().join("token");
    std::fs::write(&token, "first\n").unwrap();
    let cluster = Cluster::replay_secure("shared", "running", &tls).await;
    cluster.api.expect("first");
    let with = |tls: &Tls| {
        let api = ApiOptions { url: cluster.api.url(), token: Some(token.clone()), ca: Some(tls.ca()) };
        Options { api: Some(api), ..cluster.options() }
    };
    let kubernetes = Kubernetes::start(with(&stranger));
    until(&kubernetes, |snapshot| fault(snapshot).contains("certificate")).await;
    assert!(cluster.api.asked().is_empty(), "a token was shown to a server that is not trusted");

    let kubernetes = Kubernetes::start(with(&tls));
    until(&kubernetes, |snapshot| is_told(snapshot) && snapshot.fault.is_none()).await;
    cluster.api.expect("second");
    cluster.api.forget();
    let snapshot = until(&kubernetes, |snapshot| fault(snapshot).contains("401")).await;
    assert!(fault(&snapshot).contains("token is not valid") && !fault(&snapshot).contains("first"), "{snapshot:?}");
    std::fs::write(&token, "second\n").unwrap();
    until(&kubernetes, |snapshot| is_told(snapshot) && snapshot.fault.is_none()).await;
}
