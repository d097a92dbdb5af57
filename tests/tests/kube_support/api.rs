//! An API server that has pods, and tells what changes.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Certificates of one authority, made for this test.
pub struct Tls(TempDir);

impl Tls {
    pub fn new() -> Self {
        let tls = Self(tempfile::tempdir().unwrap());
        let key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-batch"];
        let ca = ["-x509", "-subj", "/CN=test authority", "-keyout", "ca.key", "-out", "ca.crt"];
        tls.openssl(&[&["req"], &key[..], &ca[..]].concat());
        let name = ["-subj", "/CN=apiserver", "-addext", "subjectAltName=IP:127.0.0.1"];
        let leaf = ["-keyout", "server.key", "-out", "server.csr"];
        tls.openssl(&[&["req"], &key[..], &name[..], &leaf[..]].concat());
        let sign = "x509 -req -in server.csr -CA ca.crt -CAkey ca.key -days 2 -copy_extensions copy -out server.crt";
        tls.openssl(&sign.split(' ').collect::<Vec<_>>());
        tls
    }

    pub fn ca(&self) -> PathBuf {
        self.0.path().join("ca.crt")
    }

    fn openssl(&self, arguments: &[&str]) {
        let made = Command::new("openssl").args(arguments).current_dir(self.0.path()).output().unwrap();
        assert!(made.status.success(), "openssl {arguments:?}: {}", String::from_utf8_lossy(&made.stderr));
    }

    fn acceptor(&self) -> TlsAcceptor {
        let file = |name: &str| self.0.path().join(name);
        let chain = vec![CertificateDer::from_pem_file(file("server.crt")).unwrap()];
        let key = PrivateKeyDer::from_pem_file(file("server.key")).unwrap();
        let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        TlsAcceptor::from(Arc::new(config.with_no_client_auth().with_single_cert(chain, key).unwrap()))
    }
}

/// What it was asked.
#[derive(Clone, Debug)]
pub struct Asked {
    pub query: BTreeMap<String, String>,
    pub authorization: Option<String>,
}

#[derive(Clone, Default)]
struct Inner {
    /// Pods by UID.
    pods: BTreeMap<String, Value>,
    version: u64,
    /// Events by version.
    events: Vec<(u64, String)>,
    /// Versions up to this one are forgotten.
    forgotten: u64,
    /// It answers this and nothing else.
    fault: Option<StatusCode>,
    /// It answers this text to lists.
    garbage: Option<String>,
    /// Counts what ends the watches.
    cuts: u64,
    /// Pods of one page.
    page: usize,
}

#[derive(Clone)]
struct Shared {
    inner: watch::Sender<Inner>,
    asked: Arc<Mutex<Vec<Asked>>>,
    token: Arc<Mutex<Option<String>>>,
}

/// An API server. It ends with the test's runtime.
pub struct Api {
    address: SocketAddr,
    secure: bool,
    shared: Shared,
}

impl Api {
    pub async fn start(tls: Option<&Tls>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let inner = Inner { version: 100, page: usize::MAX, ..Inner::default() };
        let shared = Shared { inner: watch::Sender::new(inner), asked: Arc::default(), token: Arc::default() };
        let router = Router::new().route("/api/v1/pods", get(pods)).with_state(shared.clone());
        match tls.map(Tls::acceptor) {
            Some(acceptor) => drop(tokio::spawn(axum::serve(Secure { listener, acceptor }, router).into_future())),
            None => drop(tokio::spawn(axum::serve(listener, router).into_future())),
        }
        Self { address, secure: tls.is_some(), shared }
    }

    pub fn url(&self) -> String {
        format!("http{}://{}", if self.secure { "s" } else { "" }, self.address)
    }

    /// These are the pods from now on: watches are told what is added, modified and deleted.
    pub fn have(&self, pods: &[Value]) {
        let uid = |pod: &Value| pod["metadata"]["uid"].as_str().unwrap().to_owned();
        let wanted: BTreeMap<String, Value> = pods.iter().map(|pod| (uid(pod), pod.clone())).collect();
        self.shared.inner.send_modify(|inner| {
            let before = std::mem::take(&mut inner.pods);
            for (uid, pod) in before.iter().filter(|(uid, _)| !wanted.contains_key(*uid)) {
                assert_eq!(pod["metadata"]["uid"], **uid);
                inner.happened("DELETED", pod);
            }
            for (uid, pod) in &wanted {
                match before.get(uid) {
                    None => inner.happened("ADDED", pod),
                    Some(known) if known != pod => inner.happened("MODIFIED", pod),
                    Some(_) => {}
                }
            }
            inner.pods = wanted;
        });
    }

    /// It answers with this status and ends the watches; `None`: it is well again.
    pub fn fail(&self, status: Option<StatusCode>) {
        self.shared.inner.send_modify(|inner| {
            inner.fault = status;
            inner.cuts += 1;
        });
    }

    /// It answers lists with this, and ends the watches.
    pub fn garbage(&self, text: Option<&str>) {
        self.shared.inner.send_modify(|inner| {
            inner.garbage = text.map(str::to_owned);
            inner.version += 1;
            inner.forgotten = inner.version - 1;
            inner.cuts += 1;
        });
    }

    /// It forgets all versions until now, and ends the watches: whoever goes on from one is answered 410.
    pub fn forget(&self) {
        self.shared.inner.send_modify(|inner| {
            inner.version += 1;
            inner.forgotten = inner.version - 1;
            inner.events.clear();
            inner.cuts += 1;
        });
    }

    /// Lists have so many pods a page.
    pub fn page(&self, pods: usize) {
        self.shared.inner.send_modify(|inner| inner.page = pods);
    }

    /// Only this token is let in.
    pub fn expect(&self, token: &str) {
        *self.shared.token.lock().unwrap() = Some(token.to_owned());
    }

    /// What it was asked so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.shared.asked.lock().unwrap().clone()
    }

    /// How many lists and watches it was asked for.
    pub fn counts(&self) -> (usize, usize) {
        let asked = self.asked();
        let watches = asked.iter().filter(|asked| asked.query.contains_key("watch")).count();
        (asked.len() - watches, watches)
    }
}

impl Inner {
    fn happened(&mut self, kind: &str, pod: &Value) {
        self.version += 1;
        let mut pod = pod.clone();
        pod["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.events.push((self.version, format!("{}\n", json!({"type": kind, "object": pod}))));
    }
}

fn status(code: StatusCode, message: &str) -> Response {
    let body = json!({"kind": "Status", "status": "Failure", "message": message, "code": code.as_u16()});
    (code, body.to_string()).into_response()
}

async fn pods(
    State(shared): State<Shared>,
    Query(query): Query<BTreeMap<String, String>>,
    headers: HeaderMap,
) -> Response {
    let authorization = headers.get("authorization").map(|value| value.to_str().unwrap().to_owned());
    shared.asked.lock().unwrap().push(Asked { query: query.clone(), authorization: authorization.clone() });
    let inner = shared.inner.borrow().clone();
    if let Some(code) = inner.fault {
        return status(code, "it is not well");
    }
    let wanted = shared.token.lock().unwrap().clone();
    if wanted.is_some_and(|token| authorization != Some(format!("Bearer {token}"))) {
        return status(StatusCode::UNAUTHORIZED, "Unauthorized");
    }
    if query.get("fieldSelector").map(String::as_str) != Some("spec.nodeName=n1") {
        return status(StatusCode::FORBIDDEN, "pods of other nodes are not yours");
    }
    match query.contains_key("watch") {
        true => watch(&shared, &query, &inner),
        false => list(&query, &inner),
    }
}

fn list(query: &BTreeMap<String, String>, inner: &Inner) -> Response {
    if let Some(garbage) = &inner.garbage {
        return garbage.clone().into_response();
    }
    let first: usize = query.get("continue").map_or(0, |page| page.parse().unwrap());
    let items: Vec<&Value> = inner.pods.values().skip(first).take(inner.page).collect();
    let more = first + items.len() < inner.pods.len();
    let next = if more { (first + items.len()).to_string() } else { String::new() };
    let metadata = json!({"resourceVersion": inner.version.to_string(), "continue": next});
    json!({"kind": "PodList", "metadata": metadata, "items": items}).to_string().into_response()
}

fn watch(shared: &Shared, query: &BTreeMap<String, String>, inner: &Inner) -> Response {
    let version: u64 = query["resourceVersion"].parse().unwrap();
    if version <= inner.forgotten {
        return status(StatusCode::GONE, "too old resource version");
    }
    let (told, cuts) = (shared.inner.subscribe(), inner.cuts);
    let stream = futures::stream::unfold((told, version), move |(mut told, from)| async move {
        let (events, version) = {
            let inner = told.wait_for(|inner| inner.cuts != cuts || inner.version > from).await.ok()?;
            if inner.cuts != cuts {
                return None;
            }
            let events = inner.events.iter().filter(|(version, _)| *version > from);
            (events.map(|(_, event)| event.as_str()).collect::<String>(), inner.version)
        };
        Some((Ok::<_, std::io::Error>(events), (told, version)))
    });
    Body::from_stream(stream).into_response()
}

/// Connections by TLS.
struct Secure {
    listener: TcpListener,
    acceptor: TlsAcceptor,
}

impl axum::serve::Listener for Secure {
    type Io = tokio_rustls::server::TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let (stream, address) = self.listener.accept().await.unwrap();
            // Who does not trust it goes away.
            if let Ok(stream) = self.acceptor.accept(stream).await {
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}
