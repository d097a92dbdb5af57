//! The HTTP side: accepts connections, prepares each request, hands it to a thread, and shuts down in order.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::State;
use axum::http::{Method, Request as HttpRequest, Response, StatusCode};
use axum::serve::ListenerExt;
use bytes::{Bytes, BytesMut};
use futures::{Stream, StreamExt};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};

use super::decode::{Piece, Wire};
use super::error::{Error, Failure};
use super::execute::Job;
use super::lane::Lane;
use super::request::Request;
use super::sink::Sink;
use super::slots::{Pace, Permit, Running, Wanted};
use super::{Engine, Options, multipart, reply};

/// Bytes of a body that are read before a slot is waited for, so that most requests never hold a slot while they come.
const EAGER: usize = 256 << 10;
/// The largest form, in bytes.
const FORM: usize = 64 << 20;
/// Bytes of a refused request that are read to their end, so that its client sees the answer.
const DRAINED: usize = 256 << 20;
/// How long a shutdown waits for what runs, and then again for what it stopped.
const GRACE: Duration = Duration::from_secs(10);
/// How long a client may send no byte of its body.
const STALLED: Duration = Duration::from_secs(60);
/// How often a client that sends nothing is looked at.
const TICK: Duration = Duration::from_millis(500);
/// How long a query waits for the one of the same id that it is to replace.
const REPLACED: Duration = Duration::from_secs(5);
/// How long the last bytes of a broken answer may take to be sent.
const FLUSH: Duration = Duration::from_millis(250);

/// Opens the engine, serves it on `address`, and returns after `shutdown` once everything is closed.
///
/// `ready` is called with the address that is listened on.
///
/// # Errors
/// The engine cannot be opened, the address cannot be listened on, or it is not protected by a password.
pub async fn serve(
    options: Options,
    address: SocketAddr,
    ready: impl FnOnce(SocketAddr),
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<(), Error> {
    if !address.ip().is_loopback() && options.credentials.password.is_empty() {
        return Err(Error::Unprotected(address));
    }
    let listener = TcpListener::bind(address).await.map_err(|source| Error::Listen { address, source })?;
    let address = listener.local_addr().map_err(|source| Error::Listen { address, source })?;
    let engine = Engine::open(&options)?;
    let reaper = {
        let engine = Arc::clone(&engine);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_secs(1)).await;
                engine.sessions.expire();
            }
        })
    };
    ready(address);
    let app = axum::Router::new().fallback(handle).with_state(Arc::clone(&engine));
    let (closing, closed) = oneshot::channel();
    let stop = async move {
        shutdown.await;
        // The receiver is gone only when the server ended by itself.
        let _ = closing.send(());
    };
    let listener = listener.tap_io(|stream| {
        // Small answers must not wait for more.
        let _ = stream.set_nodelay(true);
    });
    let mut server = tokio::spawn(axum::serve(listener, app).with_graceful_shutdown(stop).into_future());
    let ended = tokio::select! {
        ended = &mut server => ended,
        () = closed_and_drained(closed, &engine) => {
            server.abort();
            Ok(Ok(()))
        }
    };
    // An insert may go on without its client.
    drain(&engine).await;
    reaper.abort();
    engine.close();
    match ended {
        Ok(Err(error)) => Err(Error::Serve(error)),
        _ => Ok(()),
    }
}

/// Returns once the shutdown has begun and nothing runs any more.
async fn closed_and_drained(closed: oneshot::Receiver<()>, engine: &Arc<Engine>) {
    if closed.await.is_err() {
        // The server ended by itself, and says why.
        std::future::pending::<()>().await;
    }
    drain(engine).await;
    // Answers on their way may go out.
    tokio::time::sleep(Duration::from_millis(200)).await;
}

/// Waits for what runs, stops it when that takes too long, and waits again.
async fn drain(engine: &Arc<Engine>) {
    let idle = async |limit: Duration| {
        let deadline = Instant::now() + limit;
        while !engine.slots.all().is_empty() && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        engine.slots.all()
    };
    for running in idle(GRACE).await {
        tracing::warn!("stopping query {} to shut down", running.query_id);
        engine.stop(&running);
    }
    for running in idle(GRACE).await {
        tracing::error!("query {} did not stop", running.query_id);
    }
}

async fn handle(State(engine): State<Arc<Engine>>, request: HttpRequest<Body>) -> Result<Response<Body>, Infallible> {
    Ok(match request.uri().path() {
        "/ping" | "/replicas_status" => reply::plain(StatusCode::OK, "Ok.\n"),
        "/" => query(engine, request).await,
        path => {
            let text = format!(
                "There is no handle {path}\nUse / or /ping for health checks.\nOr / and POST or GET for queries.\n"
            );
            reply::plain(StatusCode::NOT_FOUND, text)
        }
    })
}

async fn query(engine: Arc<Engine>, http: HttpRequest<Body>) -> Response<Body> {
    let (parts, body) = http.into_parts();
    let pieces = body.into_data_stream().boxed();
    if parts.method != Method::GET && parts.method != Method::POST && parts.method != Method::HEAD {
        return reply::plain(StatusCode::METHOD_NOT_ALLOWED, format!("method {} is not allowed\n", parts.method));
    }
    let mut request = match Request::parse(&parts.method, &parts.uri, &parts.headers) {
        Ok(request) => request,
        Err(failure) => return refused(&engine, &failure, "", pieces),
    };
    let query_id = request.query_id.clone();
    let checked = match &request.credentials {
        Ok(given) => engine.credentials.check(given),
        Err(failure) => Err(failure.clone()),
    };
    if let Err(failure) = checked {
        return refused(&engine, &failure, &query_id, pieces);
    }
    if request.readonly && request.query.is_empty() && request.boundary.is_none() {
        return reply::plain(StatusCode::OK, "Ok.\n");
    }
    let mut upload = Upload { pieces, wanted: None, pace: Pace::default() };
    let limit = if request.boundary.is_some() { FORM } else { EAGER };
    let (mut first, mut whole) = match eager(&mut upload, limit).await {
        Ok(read) => read,
        Err(failure) => return refused(&engine, &failure, &query_id, upload.pieces),
    };
    if let Some(boundary) = request.boundary.take() {
        if let Err(failure) = form(&mut request, &first, &boundary) {
            return refused(&engine, &failure, &query_id, upload.pieces);
        }
        (first, whole) = (Bytes::new(), true);
    }
    let lane = Lane::of(&request, &first, whole);
    let permit = match engine.slots.acquire(lane).await {
        Ok(permit) => permit,
        Err(failure) => return refused(&engine, &failure, &query_id, upload.pieces),
    };
    replace(&engine, &request).await;
    let running = match engine.slots.enter(&query_id) {
        Ok(running) => running,
        Err(failure) => return refused(&engine, &failure, &query_id, upload.pieces),
    };
    let (encoding, tag, wanted) = (request.encoding, tag(), engine.slots.wanted(lane));
    let leaving = Leaving { engine: Arc::clone(&engine), running: Arc::clone(&running) };
    let (sink, answer) = Sink::new(request.buffer, request.wait_end, wanted.clone());
    upload.wanted = Some(wanted);
    upload.pace = Pace::default();
    let wire = Wire::new(first, forward(upload));
    let job = Job { engine: Arc::clone(&engine), request, wire, sink, running: Arc::clone(&running), tag: tag.clone() };
    let worker = Arc::clone(&engine);
    engine.workers.run(move || {
        let _slot = Slot { engine: worker, running, _permit: permit };
        job.run();
    });
    match answer.head.await {
        Ok(Ok(head)) => {
            let body = Body::from_stream(to_its_end(answer.chunks, answer.whole, leaving));
            reply::good(&engine, &head, &query_id, &tag, encoding, body)
        }
        Ok(Err(failure)) => reply::failed(&engine, &failure, &query_id),
        Err(_) => reply::failed(&engine, &Failure::engine("the statement's thread ended without an answer"), &query_id),
    }
}

/// Stops the query whose id this one has, if it asks for that.
async fn replace(engine: &Engine, request: &Request) {
    let asked = |(name, value): &(String, String)| name == "replace_running_query" && value != "0" && value != "false";
    let deadline = Instant::now() + REPLACED;
    while request.settings.iter().any(asked)
        && Instant::now() < deadline
        && let Some(running) = engine.slots.named(&request.query_id)
    {
        engine.stop(&running);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The end of an answer that is not whole; it makes the connection break off.
#[derive(Debug, thiserror::Error)]
#[error("the query failed while its result was being sent")]
struct Broken;

/// An answer's body, which ends with an error when it is not whole.
fn to_its_end(
    chunks: mpsc::Receiver<Bytes>,
    whole: Arc<AtomicBool>,
    leaving: Leaving,
) -> impl Stream<Item = Result<Bytes, Broken>> {
    futures::stream::unfold(Some((chunks, whole, leaving)), async |state| {
        let (mut chunks, whole, leaving) = state?;
        match chunks.recv().await {
            Some(chunk) => Some((Ok(chunk), Some((chunks, whole, leaving)))),
            None if whole.load(Ordering::SeqCst) => None,
            None => {
                // The error breaks the connection off at once, and with it what isn't sent yet: the failure's text.
                tokio::time::sleep(FLUSH).await;
                Some((Err(Broken), None))
            }
        }
    })
}

/// Held as long as a statement runs, even if its thread panics.
struct Slot {
    engine: Arc<Engine>,
    running: Arc<Running>,
    _permit: Permit,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.engine.slots.leave(&self.running);
    }
}

/// Held as long as a client waits for an answer; when the client goes away, its reading statement is stopped.
struct Leaving {
    engine: Arc<Engine>,
    running: Arc<Running>,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        // The statement's thread looks at these in the other order, so that one of the two sees the other.
        self.running.abandoned.store(true, Ordering::SeqCst);
        if self.running.reads.load(Ordering::SeqCst) {
            self.engine.stop(&self.running);
        }
    }
}

type Pieces = futures::stream::BoxStream<'static, Result<Bytes, axum::Error>>;

/// Reads a body's pieces, and gives up a client that sends too little.
struct Upload {
    pieces: Pieces,
    /// Whether others wait for what this holds; `None` while it holds nothing.
    wanted: Option<Wanted>,
    pace: Pace,
}

impl Upload {
    /// The next piece, or that none comes.
    async fn next(&mut self) -> Option<Piece> {
        let began = Instant::now();
        let lost = |text: String| Failure::new(210, "NETWORK_ERROR", format!("the request's body ended early: {text}"));
        loop {
            let asked = Instant::now();
            let piece = tokio::time::timeout(TICK, self.pieces.next()).await;
            let bytes =
                piece.as_ref().map_or(0, |piece| piece.as_ref().map_or(0, |p| p.as_ref().map_or(0, Bytes::len)));
            self.pace.took(asked.elapsed(), bytes);
            match piece {
                Ok(None) => return None,
                Ok(Some(Err(error))) => return Some(Err(lost(error.to_string()))),
                _ if self.pace.is_slow() && self.wanted.as_ref().is_some_and(Wanted::now) => {
                    let text = format!(
                        "the client sent less than {} KiB while it was waited for {} s, and others wait for its slot",
                        Pace::BYTES >> 10,
                        Pace::WITHIN.as_secs()
                    );
                    return Some(Err(Failure::new(209, "SOCKET_TIMEOUT", text)));
                }
                Ok(Some(Ok(bytes))) => return Some(Ok(bytes)),
                Err(_) if began.elapsed() >= STALLED => {
                    return Some(Err(lost(format!("nothing came for {} s", STALLED.as_secs()))));
                }
                Err(_) => {}
            }
        }
    }
}

/// Reads a body's beginning, at least `limit` bytes if it has them; also tells whether that is all of it.
async fn eager(upload: &mut Upload, limit: usize) -> Result<(Bytes, bool), Failure> {
    let mut first = BytesMut::new();
    while first.len() < limit {
        match upload.next().await {
            Some(Ok(bytes)) => first.extend_from_slice(&bytes),
            Some(Err(failure)) => return Err(failure),
            None => return Ok((first.freeze(), true)),
        }
    }
    Ok((first.freeze(), false))
}

/// Forwards the rest of a body to the statement's thread; what the thread does not want is read and dropped.
fn forward(mut upload: Upload) -> mpsc::Receiver<Piece> {
    let (sender, receiver) = mpsc::channel(8);
    tokio::spawn(async move {
        while let Some(piece) = upload.next().await {
            let last = piece.is_err();
            if sender.send(piece).await.is_err() || last {
                return discard(upload.pieces).await;
            }
        }
    });
    receiver
}

async fn discard(mut pieces: Pieces) {
    let draining = async {
        let mut read = 0;
        while let Some(Ok(bytes)) = pieces.next().await {
            read += bytes.len();
            if read > DRAINED {
                break;
            }
        }
    };
    // One that takes longer is cut off.
    let _ = tokio::time::timeout(STALLED, draining).await;
}

fn refused(engine: &Engine, failure: &Failure, query_id: &str, pieces: Pieces) -> Response<Body> {
    tokio::spawn(discard(pieces));
    reply::failed(engine, failure, query_id)
}

fn form(request: &mut Request, body: &[u8], boundary: &str) -> Result<(), Failure> {
    if body.len() > FORM {
        let text = format!("the form has more than {FORM} bytes; expected fewer");
        return Err(Failure::new(36, "BAD_ARGUMENTS", text));
    }
    for field in multipart::fields(body, boundary)? {
        if field.file.is_some() && !field.name.starts_with("param_") {
            let text = format!("external data ({:?} in the form) is not supported by this endpoint", field.name);
            return Err(Failure::new(48, "NOT_IMPLEMENTED", text));
        }
        let value = String::from_utf8_lossy(field.value).into_owned();
        request.form(&field.name, value);
    }
    Ok(())
}

/// 16 letters that mark the end of a failed answer.
fn tag() -> String {
    uuid::Uuid::new_v4().as_bytes().iter().map(|byte| char::from(b'a' + byte % 26)).collect()
}
