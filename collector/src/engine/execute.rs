//! Runs one request's statement on its own thread: settings, statement, rows in, result out.

use std::borrow::Cow;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Engine;
use super::decode::{self, Body, Wire};
use super::encode::Encoder;
use super::error::Failure;
use super::kill::{is_kill, translate};
use super::library::{Connection, Stats};
use super::native::{self, Revised};
use super::request::Request;
use super::session::Lease;
use super::settings::{Keeps, Scope};
use super::sink::{Sink, trailer, unnamed};
use super::slots::Running;
use super::statement::{Statement, cut};
use super::values::Values;

/// The longest statement, without an INSERT's rows, in bytes.
const LONGEST: usize = 16 << 20;
/// ClickHouse's code for it.
const SYNTAX_ERROR: u32 = 62;
/// What it then says, unless it isn't the statement itself that is faulty.
const FAULTY_TEXT: &str = "Syntax error: failed at position";
/// Where this process's open files are, such as the pipe of a result.
const OWN_FILES: &str = "/proc/self/fd/";
/// Bytes that are read from a body or from a result at once.
const PIECE: usize = 1 << 20;

/// One request, ready to run.
pub struct Job {
    /// The engine.
    pub engine: Arc<Engine>,
    /// What the client asks.
    pub request: Request,
    /// The body.
    pub wire: Wire,
    /// Where the answer goes.
    pub sink: Sink,
    /// The entry in the list of running statements.
    pub running: Arc<Running>,
    /// Marks the end of an answer that fails half-way.
    pub tag: String,
}

impl Job {
    /// Runs it to its end; every outcome is told through the sink.
    pub fn run(self) {
        let Self { engine, request, wire, sink, running, tag } = self;
        let mut encoder = match Encoder::new(request.encoding, sink) {
            Ok(encoder) => encoder,
            Err(error) => return tracing::error!("cannot compress an answer: {error}"),
        };
        let outcome = match engine.lease(&request) {
            Ok(lease) => Call { engine: &engine, request: &request, running: &running }.run(lease, wire, &mut encoder),
            Err(failure) => Err(failure),
        };
        let outcome = outcome.map_err(nameless);
        // From here on nothing runs in the engine, and the session is free for the next request.
        engine.slots.leave(&running);
        match outcome {
            Ok(stats) => match encoder.finish() {
                Ok(sink) => sink.done(stats),
                Err(error) => tracing::debug!("an answer could not be sent: {error}"),
            },
            Err(failure) if !encoder.sink().released() => encoder.sink().refuse(failure),
            Err(failure) => {
                tracing::debug!("a query failed after its status was sent: {failure}");
                let text = trailer(&tag, &failure.body(&engine.version));
                if encoder.write_all(text.as_bytes()).is_ok()
                    && let Ok(sink) = encoder.finish()
                {
                    sink.break_off();
                }
            }
        }
    }
}

/// What every step needs to know.
struct Call<'a> {
    engine: &'a Engine,
    request: &'a Request,
    running: &'a Running,
}

impl Call<'_> {
    fn run(&self, mut lease: Lease, wire: Wire, out: &mut Encoder<Sink>) -> Result<Stats, Failure> {
        let mut body = decode::body(wire, &self.request.content_encoding, self.request.decompress)?;
        let (text, statement) = self.statement(&mut body)?;
        self.running.reads.store(matches!(statement, Statement::Read { .. }), Ordering::SeqCst);
        let keeps = match statement {
            Statement::Other { end, lasting: true, .. } => Keeps::of(&text[..end]),
            _ => Keeps::Nothing,
        };
        let lasting = lease.lasting();
        self.allowed(&statement, &keeps, lasting)?;
        let connection = lease.connection()?;
        let scope = Scope::enter(connection, self.request, &self.running.marker, lasting)?;
        let outcome = if self.is_over() {
            Err(Failure::new(394, "QUERY_WAS_CANCELLED", "Query was cancelled"))
        } else {
            self.dispatch(connection, &text, statement, body, out)
        };
        if let Err(failure) = scope.leave(connection, &keeps) {
            tracing::warn!("a session ends, since a request's settings cannot be taken off it: {failure}");
            lease.spoil();
        }
        outcome
    }

    /// Whether it was stopped, or is a reading statement whose client left, before it began.
    fn is_over(&self) -> bool {
        let running = self.running;
        running.stopped.load(Ordering::SeqCst)
            || running.reads.load(Ordering::SeqCst) && running.abandoned.load(Ordering::SeqCst)
    }

    /// Reads the body until the statement is complete; returns what was read and how it is cut.
    fn statement(&self, body: &mut Body) -> Result<(Vec<u8>, Statement), Failure> {
        let mut text = self.request.query.clone().into_bytes();
        if !text.is_empty() {
            text.push(b'\n');
        }
        let mut complete = false;
        let mut wanted = 64 << 10;
        loop {
            if let Some(statement) = cut(&text, complete)? {
                return Ok((text, statement));
            }
            if text.len() > LONGEST {
                let message = format!("the statement has more than {LONGEST} bytes; expected its end before that");
                return Err(Failure::new(62, "SYNTAX_ERROR", message));
            }
            let read = body.take(wanted).read_to_end(&mut text).map_err(|error| decode::failure(&error))?;
            complete = read == 0;
            wanted *= 2;
        }
    }

    fn allowed(&self, statement: &Statement, keeps: &Keeps, lasting: bool) -> Result<(), Failure> {
        let changes = !matches!(statement, Statement::Read { .. } | Statement::Other { lasting: true, .. });
        // For a request of its own the engine sees to a `readonly` among the settings, too.
        let mode = self.request.read_only_mode().filter(|_| lasting);
        let sets = mode == Some(1) && matches!(keeps, Keeps::Settings(_));
        if (self.request.readonly || mode.is_some()) && changes || sets {
            return Err(Failure::new(
                164,
                "READONLY",
                "Cannot execute query in readonly mode. For queries over HTTP, method GET implies readonly. \
                 You should use method POST for modifying queries",
            ));
        }
        Ok(())
    }

    fn dispatch(
        &self,
        connection: &mut Connection,
        text: &[u8],
        statement: Statement,
        mut body: Body,
        out: &mut Encoder<Sink>,
    ) -> Result<Stats, Failure> {
        let params = &self.request.params;
        match statement {
            Statement::Insert { head, format, data } => {
                let mut insert = connection.insert(&text[..head], &format, params)?;
                let mut rows = text[data..].chain(&mut body);
                let mut values = format.eq_ignore_ascii_case("Values").then(Values::default);
                each_piece(&mut rows, |piece| {
                    values.as_mut().map_or(Ok(()), |values| values.pass(piece))?;
                    insert.append(piece)
                })?;
                insert.finish()
            }
            Statement::Input { input, arguments, head, format, data } => {
                let mut file = unnamed().map_err(|error| spill_failed(&error))?;
                let mut rows = text[data..].chain(&mut body);
                each_piece(&mut rows, |piece| file.write_all(piece).map_err(|error| spill_failed(&error)))?;
                let mut sql = text[..input].to_vec();
                sql.extend(format!("file('/proc/self/fd/{}', '{format}', ", file.as_raw_fd()).into_bytes());
                sql.extend(&text[arguments..head]);
                connection.query(&sql, "TabSeparated", params).map(|(_, stats)| stats)
            }
            Statement::Read { head, end, format } => {
                let tail = match format {
                    Some(_) => String::from_utf8_lossy(&text[head..end]).into_owned(),
                    None => format!("FORMAT {}", self.default_format()?),
                };
                let format = format.as_deref().unwrap_or(&self.request.default_format);
                out.sink().set_format(format);
                let revision = self.request.revision;
                if format.eq_ignore_ascii_case("Native") && revision >= native::FIRST {
                    let revised = Revised::new(out, revision);
                    self.read(connection, &text[..head], &tail, revised, Revised::finish)
                } else {
                    self.read(connection, &text[..head], &tail, out, |_| Ok(()))
                }
                .map_err(|failure| match failure.code {
                    SYNTAX_ERROR if failure.text.contains(FAULTY_TEXT) => {
                        self.own_syntax_error(connection, &text[..end])
                    }
                    _ => failure,
                })
            }
            Statement::Other { end, format, .. } => {
                let format = format.map_or_else(|| self.default_format(), Ok)?;
                out.sink().set_format(&format);
                let statement = if is_kill(&text[..end]) {
                    Cow::Owned(translate(&text[..end], &self.engine.slots, connection)?)
                } else {
                    Cow::Borrowed(&text[..end])
                };
                let (result, stats) = connection.query(&statement, &format, params)?;
                // A client that is gone needs no answer.
                let _ = out.write_all(&result);
                Ok(stats)
            }
        }
    }

    /// What the engine says about a faulty statement as its client wrote it, without the words that were added.
    fn own_syntax_error(&self, connection: &mut Connection, statement: &[u8]) -> Failure {
        match connection.query(statement, "Null", &self.request.params) {
            Err(failure) => failure,
            Ok(_) => Failure::new(SYNTAX_ERROR, "SYNTAX_ERROR", "Syntax error: the statement's result has no format"),
        }
    }

    fn default_format(&self) -> Result<String, Failure> {
        let format = &self.request.default_format;
        if format.is_empty() || !format.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            return Err(Failure::new(73, "UNKNOWN_FORMAT", format!("Unknown format {format}")));
        }
        Ok(format.clone())
    }

    /// Runs a statement whose result the engine writes into a pipe, as one document of its format, while it is read
    /// from the other end: the memory is bounded by the pipe and the channel, and a slow client slows the query down.
    fn read<W: Write + Send>(
        &self,
        connection: &mut Connection,
        head: &[u8],
        tail: &str,
        mut out: W,
        finish: impl FnOnce(W) -> io::Result<()> + Send,
    ) -> Result<Stats, Failure> {
        let (reading, writing) = pipe().map_err(|error| spill_failed(&error))?;
        let mut sql = head.to_vec();
        // The marker is in the text too, for sessions that were made read-only and take no setting any more.
        let (file, marker) = (writing.as_raw_fd(), &self.running.marker);
        let outfile = format!("\nINTO OUTFILE '/proc/self/fd/{file}' TRUNCATE /* {marker} */\n{tail}");
        sql.extend(outfile.into_bytes());
        std::thread::scope(|scope| {
            let pump = std::thread::Builder::new().name("result".to_owned()).spawn_scoped(scope, move || {
                let copied = copy(reading, &mut out);
                if copied.is_err() {
                    self.engine.stop(self.running);
                }
                copied.map(|()| out)
            });
            // Without a reader the engine finds a closed pipe, and the failure below is told.
            let outcome = connection.query(&sql, "TabSeparated", &self.request.params);
            drop(writing);
            match pump.map(std::thread::ScopedJoinHandle::join) {
                Ok(Ok(Ok(out))) => {
                    let (_, stats) = outcome?;
                    finish(out).map_err(|error| out_failed(&error))?;
                    Ok(stats)
                }
                Ok(Ok(Err(error))) if error.kind() == io::ErrorKind::BrokenPipe => {
                    Err(Failure::new(210, "NETWORK_ERROR", "the client closed the connection"))
                }
                Ok(Ok(Err(error))) | Err(error) => Err(out_failed(&error)),
                Ok(Err(_)) => Err(Failure::engine("the result could not be copied")),
            }
        })
    }
}

/// A failure without the names that this endpoint gives to a request's rows and to its result.
fn nameless(mut failure: Failure) -> Failure {
    while let Some(at) = failure.text.find(OWN_FILES) {
        let digits = failure.text[at + OWN_FILES.len()..].bytes().take_while(u8::is_ascii_digit).count();
        failure.text.replace_range(at..at + OWN_FILES.len() + digits, "the request's data");
    }
    failure
}

/// Hands on what `from` brings, in large pieces.
fn each_piece(from: &mut impl Read, mut take: impl FnMut(&[u8]) -> Result<(), Failure>) -> Result<(), Failure> {
    let mut piece = Vec::with_capacity(PIECE);
    loop {
        piece.clear();
        let read = from.take(PIECE as u64).read_to_end(&mut piece).map_err(|error| decode::failure(&error))?;
        if read == 0 {
            return Ok(());
        }
        take(&piece)?;
    }
}

fn copy(reading: OwnedFd, out: &mut impl Write) -> io::Result<()> {
    let mut from = std::fs::File::from(reading);
    let mut piece = vec![0; PIECE];
    loop {
        match from.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(count) => out.write_all(&piece[..count])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (reading, writing) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    // Fewer switches between the two ends; the default will do where the limit is lower.
    let _ = rustix::pipe::fcntl_setpipe_size(&writing, PIECE);
    Ok((reading, writing))
}

/// Why a result could not be passed on.
fn out_failed(error: &io::Error) -> Failure {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<Failure>()) {
        Some(failure) => failure.clone(),
        None if error.kind() == io::ErrorKind::TimedOut => {
            Failure::new(209, "SOCKET_TIMEOUT", "the client took the result too slowly")
        }
        None => spill_failed(error),
    }
}

fn spill_failed(error: &io::Error) -> Failure {
    let text = format!("cannot keep the request's data in {}: {error}", std::env::temp_dir().display());
    Failure::new(75, "CANNOT_WRITE_TO_FILE_DESCRIPTOR", text)
}
