//! How much memory and time pushes may take.

use std::time::Duration;

use axum::body::to_bytes;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};

use super::*;
use crate::exposition::{Exposition, Latest};
use crate::http::Health;
use crate::outbox::{Keeper, SpoolLimits};
use crate::telemetry::Telemetry;
use crate::totals::Totals;

/// All requests together may take 64 KiB.
const MAX: usize = 1 << 10;

fn shared(dir: &std::path::Path) -> Shared {
    let telemetry = Telemetry::new().unwrap();
    let limits = SpoolLimits { max_bytes: 8 << 20, segment_bytes: 1 << 20, rejected_bytes: 1 << 20 };
    let keeper = Keeper::open(&dir.join("spool"), limits, telemetry.clone()).unwrap();
    Shared {
        node: "n1".to_owned(),
        max_push_bytes: MAX,
        totals: Totals::open(dir, now_ns(), "n1", keeper.clone(), limits.max_bytes).unwrap(),
        keeper,
        room: Room::new(MAX),
        telemetry,
        health: Health::default(),
        exposition: Exposition::new(Latest::new(Duration::from_secs(1)), "n1", false),
    }
}

/// Status, `Retry-After` and text of the answer to a push.
async fn pushed(shared: &Shared, headers: &[(header::HeaderName, &str)], body: Body) -> (u16, Option<String>, String) {
    let headers = headers.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect();
    let uri = "/v1/latency?service=s".parse().unwrap();
    let answer = push(State(shared.clone()), uri, headers, body).await;
    let retry = answer.headers().get(header::RETRY_AFTER).map(|after| after.to_str().unwrap().to_owned());
    let status = answer.status().as_u16();
    (status, retry, String::from_utf8(to_bytes(answer.into_body(), 1 << 16).await.unwrap().to_vec()).unwrap())
}

const TEXT: (header::HeaderName, &str) = (header::CONTENT_TYPE, "text/plain");

#[tokio::test]
async fn all_pushes_at_work_have_a_bound_and_those_beyond_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let shared = shared(dir.path());
    // Of bodies whose length is not told, 32 may come at once.
    let coming: Vec<_> = (0..32)
        .map(|_| {
            let shared = shared.clone();
            tokio::spawn(async move {
                let never = Full::new(Bytes::from("1\n")).with_trailers(std::future::pending());
                pushed(&shared, &[TEXT], Body::new(never)).await
            })
        })
        .collect();
    while shared.room.take(1).is_some() {
        tokio::task::yield_now().await;
    }
    let (status, retry, error) = pushed(&shared, &[TEXT, (header::CONTENT_LENGTH, "2")], "1\n".into()).await;
    assert_eq!((status, retry.as_deref()), (503, Some("5")));
    assert!(error.contains("there is no room for it beside what is at work"), "{error}");
    // When they have gone away, there is room again, and all of it.
    for push in coming {
        push.abort();
        assert!(push.await.unwrap_err().is_cancelled());
    }
    let (status, _, answer) = pushed(&shared, &[TEXT], "1\n".into()).await;
    assert!(status == 200 && answer.contains(r#""count":1"#), "{status} {answer}");
    assert!(shared.room.take(shared.room.bytes()).is_some());
}

#[tokio::test]
async fn what_is_made_of_a_body_takes_its_part_too() {
    let dir = tempfile::tempdir().unwrap();
    let shared = shared(dir.path());
    let numbers = "1\n".repeat(MAX / 2);
    // A body of 1 KiB is read in 2 KiB, and its numbers take 24 KiB.
    for (free, expected) in [(25, 503), (26, 200), (1, 503)] {
        let rest = shared.room.take(shared.room.bytes() - (free << 10)).unwrap();
        let (status, ..) = pushed(&shared, &[TEXT, (header::CONTENT_LENGTH, "1024")], numbers.clone().into()).await;
        assert_eq!(status, expected, "{free} KiB");
        drop(rest);
    }
    assert_eq!(shared.telemetry.pushes.with_label_values(&["failed"]).get(), 2);
}

#[test]
fn a_body_that_does_not_come_is_a_timeout() {
    let late = PushError::Body(BodyError::Late(Duration::from_secs(10)));
    assert_eq!(late.status(), StatusCode::REQUEST_TIMEOUT);
    assert_eq!(late.to_string(), "the body has not come within 10 s, expected all of it by then");
}

#[test]
fn lists_take_no_more_memory_than_was_asked_for() {
    // Two bytes each; a list that grows has its old place beside the new one, three floats for each number.
    let numbers = MAX / 2;
    assert!(Form::Lines.room(MAX, MAX) >= numbers * 3 * size_of::<f64>() + numbers * 2 * size_of::<f64>());
    // Inflated in a list that doubles.
    assert!(Form::Histogram.room(MAX, MAX) >= 2 * MAX + 2 * MAX);
}
