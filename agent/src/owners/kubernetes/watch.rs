//! Follows the pods of this node at the API server: a list, and then the changes since it.
//!
//! A watch is a stream of events, one JSON object a line, that goes on from the version of what was known. The server ends it
//! after a while, and another one goes on from there. When the server has forgotten that version (410), all pods are listed
//! again. Whatever fails is tried again, less and less often; until then, what is known stays.
//!
//! Source: <https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes>.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use bytes::{Buf as _, Bytes, BytesMut};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Incoming;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use super::api::{ANSWER_TIMEOUT, Api, ApiError, unreachable};
use super::outage::{Backoff, Outage};
use super::pod::{MetadataJson, Pod, PodJson};
use super::pods::Pods;

/// Pods of one page of a list.
const PAGE: usize = 250;

/// Most pages: more pods than a node can have.
const MAX_PAGES: usize = 64;

/// Greatest page, in bytes.
const MAX_PAGE_BYTES: usize = 64 << 20;

/// Greatest event, in bytes: the server stores no object of this size.
const MAX_EVENT_BYTES: usize = 8 << 20;

/// How long the server is asked to keep a watch open.
const WATCH: Duration = Duration::from_secs(120);

/// First and longest limit of the wait after a failure.
const WAITS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(30)];

/// Follows the pods of the node of this name for ever, and keeps `pods` as they are told.
pub async fn follow(mut api: Api, node: &str, pods: watch::Sender<Pods>) {
    let mut backoff = Backoff::new(WAITS[0], WAITS[1]);
    // From where a watch goes on; without it, pods have to be listed.
    let mut version: Option<String> = None;
    // The first list may be what the server remembers, which costs it little; one after a 410 must be of now.
    let mut of_now = false;
    loop {
        let began = Instant::now();
        let result = match &mut version {
            Some(version) => watch(&mut api, node, version, &pods).await,
            None => match list(&mut api, node, of_now, &pods).await {
                Ok(listed) => {
                    backoff.reset();
                    version = Some(listed);
                    continue;
                }
                Err(error) => Err(error),
            },
        };
        let rest = match result {
            // One that ends at once must not become a loop without a rest.
            Ok(()) => WAITS[0].saturating_sub(began.elapsed()),
            Err(error) => {
                if matches!(error, ApiError::Gone | ApiError::Garbage(_)) {
                    (version, of_now) = (None, true);
                }
                if !matches!(error, ApiError::Gone) {
                    let reason = format!("API server at {}: {error}", api.url());
                    pods.send_modify(|pods| Outage::go_on(&mut pods.outage, reason));
                }
                if began.elapsed() >= WAITS[1] {
                    backoff.reset();
                }
                backoff.wait()
            }
        };
        tokio::time::sleep(rest).await;
    }
}

/// Lists all pods of the node; their version.
async fn list(api: &mut Api, node: &str, of_now: bool, pods: &watch::Sender<Pods>) -> Result<String, ApiError> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct List {
        metadata: MetadataJson,
        items: Option<Vec<PodJson>>,
    }
    let mut path = format!("/api/v1/pods?fieldSelector=spec.nodeName%3D{}&limit={PAGE}", escaped(node));
    let first = path.clone();
    if !of_now {
        path.push_str("&resourceVersion=0");
    }
    let mut found: Vec<Pod> = Vec::new();
    for _ in 0..MAX_PAGES {
        let answer = api.get(&path).await?;
        let body = Limited::new(answer.into_body(), MAX_PAGE_BYTES).collect();
        let body = tokio::time::timeout(ANSWER_TIMEOUT, body).await.map_err(|_| ApiError::Slow(ANSWER_TIMEOUT))?;
        let body = body.map_err(|error| match error.is::<LengthLimitError>() {
            true => ApiError::Garbage(format!("more than {MAX_PAGE_BYTES} bytes, expected a page of {PAGE} pods")),
            false => unreachable(&*error),
        })?;
        let List { metadata, items } = read(&body.to_bytes(), "a list of pods")?;
        found.extend(items.unwrap_or_default().into_iter().filter_map(PodJson::into_pod));
        if let Some(next) = metadata.next_page.filter(|next| !next.is_empty()) {
            path = format!("{first}&continue={}", escaped(&next));
            continue;
        }
        let version = metadata.resource_version.filter(|version| !version.is_empty());
        let version = version.ok_or_else(|| ApiError::Garbage("no resourceVersion, expected a list of pods".into()))?;
        pods.send_modify(|pods| {
            pods.replace(found);
            pods.outage = None;
        });
        return Ok(version);
    }
    Err(ApiError::Garbage(format!("more than {MAX_PAGES} pages, expected the pods of one node")))
}

/// Takes up the changes since `version`, which goes on with them, until the server ends the watch.
async fn watch(api: &mut Api, node: &str, version: &mut String, pods: &watch::Sender<Pods>) -> Result<(), ApiError> {
    let path = format!(
        "/api/v1/pods?fieldSelector=spec.nodeName%3D{}&watch=1&allowWatchBookmarks=true&timeoutSeconds={}&resourceVersion={}",
        escaped(node),
        WATCH.as_secs(),
        escaped(version)
    );
    let mut lines = Lines { body: api.get(&path).await?.into_body(), read: BytesMut::new(), searched: 0 };
    pods.send_if_modified(|pods| pods.outage.take().is_some());
    let deadline = tokio::time::Instant::now() + WATCH + ANSWER_TIMEOUT;
    loop {
        let line = tokio::time::timeout_at(deadline, lines.next()).await;
        match line.map_err(|_| ApiError::Slow(WATCH + ANSWER_TIMEOUT))?? {
            Some(line) => take(&line, version, pods)?,
            None => return Ok(()),
        }
    }
}

/// Takes up one event.
fn take(line: &[u8], version: &mut String, pods: &watch::Sender<Pods>) -> Result<(), ApiError> {
    #[derive(Deserialize)]
    struct Event {
        #[serde(rename = "type")]
        kind: String,
    }
    #[derive(Deserialize)]
    struct Object<T> {
        object: T,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Status {
        code: u16,
        message: Option<String>,
    }
    let Event { kind } = read(line, "an event of a watch")?;
    if kind == "ERROR" {
        let status = read::<Object<Status>>(line, "a status")?.object;
        return Err(match status.code {
            410 => ApiError::Gone,
            _ => ApiError::Unreachable(status.message.unwrap_or_else(|| "the watch has failed".to_owned())),
        });
    }
    let mut object = read::<Object<PodJson>>(line, "a pod")?.object;
    let changed = object.metadata.resource_version.take();
    match (kind.as_str(), object.into_pod()) {
        ("ADDED" | "MODIFIED", Some(pod)) => pods.send_modify(|pods| pods.put(pod)),
        ("DELETED", Some(pod)) => pods.send_modify(|pods| pods.remove(&pod.uid)),
        // A bookmark, which is a pod without a name; and what later servers may say.
        _ => {}
    }
    if let Some(changed) = changed.filter(|changed| !changed.is_empty()) {
        *version = changed;
    }
    Ok(())
}

fn read<T: DeserializeOwned>(json: &[u8], expected: &str) -> Result<T, ApiError> {
    serde_json::from_slice(json).map_err(|error| ApiError::Garbage(format!("{error}, expected {expected}")))
}

/// A body by lines.
struct Lines {
    body: Incoming,
    read: BytesMut,
    /// So much of what was read has no end of a line.
    searched: usize,
}

impl Lines {
    /// The next line that is not empty; `None` at the end.
    async fn next(&mut self) -> Result<Option<Bytes>, ApiError> {
        loop {
            if let Some(end) = self.read[self.searched..].iter().position(|&byte| byte == b'\n') {
                let line = self.read.split_to(self.searched + end);
                self.read.advance(1);
                self.searched = 0;
                if line.iter().any(|byte| !byte.is_ascii_whitespace()) {
                    return Ok(Some(line.freeze()));
                }
                continue;
            }
            self.searched = self.read.len();
            if self.searched > MAX_EVENT_BYTES {
                let reason = format!("a line of more than {MAX_EVENT_BYTES} bytes, expected an event of a watch");
                return Err(ApiError::Garbage(reason));
            }
            match self.body.frame().await {
                Some(frame) => {
                    let frame = frame.map_err(|error| unreachable(&error))?;
                    self.read.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
                }
                // A last line without an end was cut off: the next watch has it again.
                None => return Ok(None),
            }
        }
    }
}

/// A value in a query (RFC 3986, 2.3).
fn escaped(text: &str) -> String {
    let mut query = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => query.push(char::from(byte)),
            _ => _ = write!(query, "%{byte:02X}"),
        }
    }
    query
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pod(kind: &str, version: &str, name: &str, uid: &str) -> String {
        format!(
            r#"{{"type":"{kind}","object":{{"kind":"Pod","metadata":{{"uid":"{uid}","namespace":"lab","name":"{name}","resourceVersion":"{version}"}}}}}}"#
        )
    }

    #[test]
    fn events_change_the_pods_and_the_version() {
        let pods = watch::Sender::new(Pods::default());
        let mut version = "1".to_owned();
        let mut apply = |line: &str| take(line.as_bytes(), &mut version, &pods).map(|()| version.clone());
        assert_eq!(apply(&pod("ADDED", "2", "a", "u1")).unwrap(), "2");
        assert_eq!(apply(&pod("MODIFIED", "3", "a", "u2")).unwrap(), "3");
        let bookmark = r#"{"type":"BOOKMARK","object":{"kind":"Pod","metadata":{"resourceVersion":"9"},"spec":{"containers":null}}}"#;
        assert_eq!(apply(bookmark).unwrap(), "9");
        let uid = || pods.borrow().of_name("lab", "a").map(|pod| pod.uid.clone());
        assert_eq!(uid().as_deref(), Some("u2"));
        assert_eq!(apply(&pod("DELETED", "10", "a", "u2")).unwrap(), "10");
        assert_eq!(uid(), None);
        let error = |code: u16| {
            format!(
                r#"{{"type":"ERROR","object":{{"kind":"Status","status":"Failure","message":"old","code":{code}}}}}"#
            )
        };
        assert!(matches!(apply(&error(410)), Err(ApiError::Gone)));
        assert!(matches!(apply(&error(500)), Err(ApiError::Unreachable(reason)) if reason == "old"));
        for garbage in ["", "{", "[]", r#"{"type":7}"#, r#"{"type":"ADDED"}"#, r#"{"type":"ADDED","object":7}"#] {
            assert!(matches!(apply(garbage), Err(ApiError::Garbage(_))), "{garbage}");
        }
    }

    #[test]
    fn a_query_is_escaped() {
        assert_eq!(escaped("gpu-node_1.lab~"), "gpu-node_1.lab~");
        assert_eq!(escaped("a&b=c/ñ"), "a%26b%3Dc%2F%C3%B1");
    }

    proptest! {
        #[test]
        fn no_line_makes_a_panic(line in ".{0,200}|\\{\"type\":\"(ADDED|ERROR)\",\"object\":.{0,80}\\}") {
            let pods = watch::Sender::new(Pods::default());
            _ = take(line.as_bytes(), &mut "1".to_owned(), &pods);
        }
    }
}
