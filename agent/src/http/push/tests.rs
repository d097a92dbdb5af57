//! How much memory and time pushes may take.

use std::time::Duration;

use axum::body::to_bytes;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};

use super::*;
use crate::http::fixture;
use crate::http::room::{Held, Room};

/// All requests together may take 64 KiB.
const MAX: usize = 1 << 10;

fn shared(dir: &std::path::Path) -> Shared {
    fixture::shared(dir, MAX)
}

/// So many bytes, if they are free.
fn take(room: &Room, bytes: usize) -> Option<Held> {
    let mut held = room.hold();
    held.set(bytes).ok().map(|()| held)
}

/// A body of which no more comes.
fn never_whole(come: &str) -> Body {
    Body::new(Full::new(Bytes::from(come.to_owned())).with_trailers(std::future::pending()))
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
    // Of the greatest bodies, 64 may have come at once.
    let coming: Vec<_> = (0..64)
        .map(|_| {
            let shared = shared.clone();
            tokio::spawn(async move { pushed(&shared, &[TEXT], never_whole(&"1\n".repeat(MAX / 2))).await })
        })
        .collect();
    // All of them wait for the rest.
    for _ in 0..10 {
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
    assert!(take(&shared.room, shared.room.bytes()).is_some());
}

#[tokio::test]
async fn who_only_says_that_bytes_will_come_keeps_nobody_away() {
    let dir = tempfile::tempdir().unwrap();
    let shared = shared(dir.path());
    let idle: Vec<_> = (0..400)
        .map(|index| {
            let shared = shared.clone();
            tokio::spawn(async move {
                let length = (header::CONTENT_LENGTH, "1024");
                let headers: &[_] = if index % 2 == 0 { &[TEXT] } else { &[TEXT, length] };
                pushed(&shared, headers, never_whole("")).await
            })
        })
        .collect();
    // All of them wait once for their bodies.
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    let (status, _, answer) = pushed(&shared, &[TEXT], "1\n".repeat(MAX / 2).into()).await;
    assert_eq!(status, 200, "{answer}");
    for push in idle {
        assert!(!push.is_finished());
        push.abort();
    }
}

#[tokio::test]
async fn what_is_made_of_a_body_takes_its_part_too() {
    let dir = tempfile::tempdir().unwrap();
    let shared = shared(dir.path());
    let numbers = "1\n".repeat(MAX / 2);
    // A body of 1 KiB, and its numbers take 24 KiB.
    for (free, expected) in [(24, 503), (25, 200), (0, 503)] {
        let rest = take(&shared.room, shared.room.bytes() - (free << 10)).unwrap();
        let (status, ..) = pushed(&shared, &[TEXT, (header::CONTENT_LENGTH, "1024")], numbers.clone().into()).await;
        assert_eq!(status, expected, "{free} KiB");
        drop(rest);
    }
    assert_eq!(shared.telemetry.pushes.with_label_values(&["failed"]).get(), 2);
}

#[tokio::test]
async fn a_body_that_does_not_come_is_a_timeout() {
    let dir = tempfile::tempdir().unwrap();
    let shared = Shared { patience: Duration::from_millis(20), ..shared(dir.path()) };
    for come in ["", "1\n"] {
        let (status, retry, error) = pushed(&shared, &[TEXT], never_whole(come)).await;
        assert_eq!((status, retry), (408, None));
        assert_eq!(error, r#"{"error":"the body has not come within 0.02 s, expected all of it by then"}"#);
    }
    assert_eq!(shared.telemetry.pushes.with_label_values(&["refused"]).get(), 2);
}

#[tokio::test]
async fn a_number_that_is_no_latency_is_named_by_its_line() {
    let dir = tempfile::tempdir().unwrap();
    let shared = shared(dir.path());
    for (body, line, value) in [("1\n\n \n2\n-3\n", 5, "-3"), ("NaN", 1, "NaN"), ("\n1e17\n", 2, "100000000000000000")]
    {
        let (status, _, error) = pushed(&shared, &[TEXT], body.into()).await;
        let expected = format!("line {line} is {value}, expected a number from 0 to 9007199254740992 microseconds");
        assert_eq!((status, error), (400, json!({ "error": expected }).to_string()), "{body:?}");
    }
}

#[test]
fn lists_take_no_more_memory_than_was_asked_for() {
    for power in 3..16 {
        // A list that has just doubled is the largest for what is in it.
        let numbers = (1 << power) + 1;
        let lines = "1\n".repeat(numbers);
        let list = "1,".repeat(numbers - 1) + "1";
        let object = format!(r#"{{"aborted":[{list}],"values":[]}}"#);
        let of_lines = values::lines(lines.as_bytes()).unwrap();
        let aborted = values::json(object.as_bytes(), &mut Params::default()).unwrap().aborted.unwrap();
        for (form, body, values) in [(Form::Lines, lines, of_lines), (Form::Json, object, aborted)] {
            assert_eq!(values.len(), numbers);
            let capacity = values.capacity() * size_of::<f64>();
            // Its old place of half of that is beside it as it grows. Later the edges of aborted requests are, in a list of their
            // own, and a cell for each that is different, of which there is one here.
            let edges = values.len() * size_of::<f64>() + size_of::<Cell>();
            let most = (capacity + capacity / 2).max(capacity + edges);
            let room = form.room(body.len(), MAX);
            assert!(most <= room, "{form:?} of {} bytes: {most}, room for {room}", body.len());
        }
    }
}
