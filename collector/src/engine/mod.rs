//! The embedded ClickHouse engine behind ClickHouse's HTTP interface, a process of its own.
//!
//! How a request goes through the files: [`server`] accepts it, [`request`] sorts its URL and headers, [`auth`] checks
//! who asks, [`multipart`] reads a form. A slot of the statement's [`lane`] is waited for ([`slots`]), then [`execute`] runs the statement on one of
//! the [`workers`], over a fresh connection or its session's ([`session`]), with the request's [`settings`]:
//! [`decode`] undoes the body's compressions ([`frames`] refuses those that were cut off, [`blocks`] are ClickHouse's own), [`statement`] cuts the statement from
//! an INSERT's rows by its [`tokens`] (and [`values`] what follows them), and [`library`] calls the engine, rows in through an insert stream, a result
//! out through a pipe, as [`native`] blocks of the client's revision (their
//! columns' ends told by [`shape`]) or as they are, [`encode`]d into the [`sink`], which holds it back until the status is known; [`reply`] makes
//! the status and the headers. [`kill`] finds a query by the id its client chose, and [`fetch`] gets the library from npm when it is missing.

pub mod auth;
mod blocks;
mod decode;
mod encode;
mod error;
mod execute;
mod fetch;
mod frames;
mod kill;
mod lane;
mod library;
mod multipart;
mod native;
mod reply;
mod request;
mod server;
mod session;
mod settings;
mod shape;
mod sink;
mod slots;
mod statement;
mod tokens;
mod values;
mod workers;

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

pub use auth::Credentials;
pub use error::{Error, Failure};
pub use fetch::{VERSION, ensure_library};
pub use server::serve;

use library::{Connection, Library};
use request::Request;
use session::{Lease, Sessions};
use slots::{Running, Slots};
use workers::Workers;

/// How the engine is opened and served.
#[derive(Clone, Debug)]
pub struct Options {
    /// The data folder.
    pub path: PathBuf,
    /// The library, as [`ensure_library`] returns it.
    pub library: PathBuf,
    /// The only user.
    pub credentials: Credentials,
    /// Statements that run at once.
    pub connections: usize,
    /// Memory that the engine may use, in bytes.
    pub max_memory: u64,
}

/// The opened engine.
pub struct Engine {
    library: &'static Library,
    arguments: Vec<String>,
    /// Keeps the data open while no request does.
    keeper: Mutex<Option<Connection>>,
    credentials: Credentials,
    slots: Slots,
    workers: Workers,
    sessions: Arc<Sessions>,
    version: String,
    timezone: String,
    host: String,
    _lock: File,
}

impl Engine {
    /// Loads the library and opens the data folder, which is made if it is missing.
    ///
    /// # Errors
    /// The library cannot be loaded, or the folder cannot be made, is open in another process, or is refused.
    pub fn open(options: &Options) -> Result<Arc<Self>, Error> {
        std::fs::create_dir_all(&options.path).map_err(Error::file(&options.path))?;
        let path = options.path.canonicalize().map_err(Error::file(&options.path))?;
        let lock = lock(&path)?;
        let library = Library::load(&options.library)?;
        let arguments = vec![
            format!("--path={}", path.display()),
            format!("--max_server_memory_usage={}", options.max_memory),
            // A server parses `1 + 1` as an error, and so do its clients' tests.
            "--implicit_select=0".to_owned(),
            // An acknowledged insert is in the table.
            "--async_insert=0".to_owned(),
        ];
        let mut keeper = library.connect(&arguments).ok_or_else(|| Error::Open(path.clone()))?;
        let facts = keeper
            .query(b"SELECT version(), timezone(), hostName()", "TabSeparatedRaw", &Vec::new())
            .map_err(|_| Error::Open(path))?;
        let facts = String::from_utf8_lossy(&facts.0).trim_end().to_owned();
        let mut facts = facts.split('\t').map(str::to_owned);
        let mut fact = || facts.next().unwrap_or_default();
        let slots = Slots::new(options.connections, slots::PATIENCE);
        let workers = Workers::start(slots.count()).map_err(Error::Threads)?;
        Ok(Arc::new(Self {
            library,
            arguments,
            keeper: Mutex::new(Some(keeper)),
            credentials: options.credentials.clone(),
            slots,
            workers,
            sessions: Arc::default(),
            version: fact(),
            timezone: fact(),
            host: fact(),
            _lock: lock,
        }))
    }

    fn connect(&self) -> Result<Connection, Failure> {
        let refused = || Failure::new(210, "NETWORK_ERROR", "the engine refused another connection");
        self.library.connect(&self.arguments).ok_or_else(refused)
    }

    /// The connection that a request runs on.
    fn lease(&self, request: &Request) -> Result<Lease, Failure> {
        match &request.session {
            Some(wish) => self.sessions.lease(wish, || self.connect()),
            None => self.connect().map(Lease::own),
        }
    }

    /// Stops a statement. Returns at once; a thread asks the engine until the statement is gone, since it may not
    /// have reached the engine yet.
    fn stop(&self, running: &Running) {
        if running.stopped.swap(true, Ordering::SeqCst) || running.finished.load(Ordering::SeqCst) {
            return;
        }
        let Some(running) = self.slots.all().into_iter().find(|entry| entry.marker == running.marker) else { return };
        let (library, arguments) = (self.library, self.arguments.clone());
        let asking = std::thread::Builder::new().name("stop".to_owned()).spawn(move || {
            let marker = &running.marker;
            let kill = format!(
                "KILL QUERY WHERE endsWith(Settings['log_comment'], '{marker}') OR position(query, '/* {marker} */') > 0 ASYNC"
            );
            let deadline = Instant::now() + Duration::from_secs(60);
            while !running.finished.load(Ordering::SeqCst) && Instant::now() < deadline {
                if let Some(mut connection) = library.connect(&arguments)
                    && let Err(failure) = connection.query(kill.as_bytes(), "TabSeparated", &Vec::new())
                {
                    tracing::warn!("a query could not be stopped: {failure}");
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        if let Err(error) = asking {
            tracing::warn!("a query could not be stopped: {error}");
        }
    }

    /// Closes every connection, for else the engine's threads crash when the process exits.
    fn close(&self) {
        self.sessions.clear();
        drop(self.keeper.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

/// Locks the data folder for this process, and notes who it is.
fn lock(path: &Path) -> Result<File, Error> {
    let name = path.join("contador.lock");
    let mut file =
        File::options().read(true).write(true).create(true).truncate(false).open(&name).map_err(Error::file(&name))?;
    if file.try_lock().is_err() {
        let mut owner = String::new();
        // Who it is is told if it can be.
        let _ = file.read_to_string(&mut owner);
        return Err(Error::InUse { path: path.to_owned(), owner: format!("process {}", owner.trim()) });
    }
    file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id())).map_err(Error::file(&name))?;
    Ok(file)
}
