//! Whether ClickHouse is there: connects and migrates until it is, then looks every second whether it still is, and now
//! and then whether its tables still are as they must be.
//!
//! It is there as long as it answers `/ping`. A query that takes long makes it busy, and is no reason to refuse what
//! senders have: inserts have their own time limits.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::expected::{Column, Difference, compare};
use super::{Store, migrate};

/// Time between two pings.
const INTERVAL: Duration = Duration::from_secs(1);

/// Time between two looks at the tables, unless an insert complains of them.
const LOOKS: Duration = Duration::from_secs(10);

/// Longest wait for one answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Refused connections in a row after which ClickHouse is down; one may be a restart of something between.
const MOST_REFUSED: u32 = 2;

/// Pings without an answer in a row after which ClickHouse is down.
const MOST_LATE: u32 = 6;

/// What is known of ClickHouse.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum StoreState {
    /// Not there yet, or its tables could not be made; why.
    Starting(String),
    /// There, with all tables.
    Up,
    /// There, but it did not answer a query in time; what happened.
    Busy(String),
    /// There, but tables are not as they must be; which.
    Unfit(String),
    /// It was there; why it is not any more.
    Down(String),
}

impl StoreState {
    /// Why nothing can be written; `None` when it can be tried.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Up | Self::Busy(_) | Self::Unfit(_) => None,
            Self::Starting(reason) | Self::Down(reason) => Some(reason),
        }
    }

    /// What there is to say of it.
    pub fn note(&self) -> Option<&str> {
        match self {
            Self::Up => None,
            Self::Starting(note) | Self::Busy(note) | Self::Unfit(note) | Self::Down(note) => Some(note),
        }
    }

    /// Whether everything that is sent can be written.
    pub fn is_ready(&self) -> bool {
        matches!(self, Self::Up | Self::Busy(_))
    }

    /// Its name.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Starting(_) => "starting",
            Self::Up => "up",
            Self::Busy(_) => "busy",
            Self::Unfit(_) => "unfit",
            Self::Down(_) => "down",
        }
    }
}

/// A state to begin with.
pub fn starting(store: &Store) -> StoreState {
    StoreState::Starting(format!("connecting to clickhouse at {}", store.place()))
}

/// Keeps `state` true; never ends by itself. Each time that ClickHouse comes back, its tables are looked at again: it may
/// be another one. They are also looked at when somebody rings `alarm`.
pub async fn watch(store: Store, state: watch::Sender<StoreState>, alarm: Arc<Notify>) {
    let mut was_up = false;
    loop {
        match migrate::up(&store).await {
            Ok(report) => {
                tracing::info!(version = report.version, applied = report.applied.len(), "clickhouse is up");
                let reason = until_down(&store, &state, &alarm).await;
                was_up = true;
                set(&state, StoreState::Down(reason));
            }
            Err(error) => {
                let reason = format!("clickhouse at {}: {}", store.place(), chain(&error));
                set(&state, if was_up { StoreState::Down(reason) } else { StoreState::Starting(reason) });
            }
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Says a new state. The same one again is not said again.
fn set(state: &watch::Sender<StoreState>, new: StoreState) {
    state.send_if_modified(|state| {
        let changed = *state != new;
        if changed {
            match new.note() {
                Some(note) => tracing::warn!(state = new.as_str(), note, "clickhouse"),
                None => tracing::info!(state = new.as_str(), "clickhouse"),
            }
            *state = new;
        }
        changed
    });
}

/// Pings every second and looks at the tables; returns why, once ClickHouse is not there any more.
async fn until_down(store: &Store, state: &watch::Sender<StoreState>, alarm: &Notify) -> String {
    let (mut refused, mut late) = (0, 0);
    let mut next_look = Instant::now();
    loop {
        match ping(store).await {
            Ok(()) => (refused, late) = (0, 0),
            Err(Silence::Refused(_)) if refused + 1 < MOST_REFUSED => refused += 1,
            Err(Silence::Late(_)) if late + 1 < MOST_LATE => late += 1,
            Err(Silence::Refused(reason) | Silence::Late(reason)) => {
                return format!("clickhouse at {}: {reason}", store.place());
            }
        }
        if (refused, late) == (0, 0) && Instant::now() >= next_look {
            let seen = look(store, PATIENCE).await;
            let wait = if matches!(seen, StoreState::Unfit(_)) { INTERVAL } else { LOOKS };
            next_look = Instant::now() + wait;
            set(state, seen);
        }
        let begun = Instant::now();
        tokio::select! {
            () = tokio::time::sleep(INTERVAL) => {}
            () = alarm.notified() => {
                next_look = begun;
                // Many inserts may complain at once.
                tokio::time::sleep(INTERVAL / 10).await;
            }
        }
    }
}

/// Why there was no answer to a ping.
enum Silence {
    /// Nobody listens.
    Refused(String),
    /// None came in time, or one that is not ClickHouse's.
    Late(String),
}

async fn ping(store: &Store) -> Result<(), Silence> {
    let asked = tokio::time::timeout(PATIENCE, ask(store)).await;
    asked.unwrap_or_else(|_| Err(Silence::Late(format!("no answer to /ping within {} s", PATIENCE.as_secs()))))
}

async fn ask(store: &Store) -> Result<(), Silence> {
    let odd = |error: &dyn std::fmt::Display| Silence::Late(error.to_string());
    let mut url = url::Url::parse(&store.url).map_err(|error| odd(&error))?;
    if url.scheme() == "https" {
        // Whoever takes the connection is there; the look at the tables speaks TLS.
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let port = url.port_or_known_default().unwrap_or(8443);
        let connected = tokio::net::TcpStream::connect((host, port)).await;
        return connected.map(drop).map_err(|error| Silence::Refused(error.to_string()));
    }
    let path = format!("{}/ping", url.path().trim_end_matches('/'));
    url.set_path(&path);
    url.set_query(None);
    // Nobody needs a password to ping, and an error would tell it.
    if url.set_username("").is_err() || url.set_password(None).is_err() {
        return Err(odd(&"a url without a host"));
    }
    let client = reqwest::Client::builder().no_proxy().build().map_err(|error| odd(&chain(&error)))?;
    match client.get(url).send().await {
        Ok(answer) if answer.status().is_success() => Ok(()),
        Ok(answer) => Err(odd(&format!("{} to /ping", answer.status()))),
        Err(error) if error.is_connect() => Err(Silence::Refused(chain(&error))),
        Err(error) => Err(odd(&chain(&error))),
    }
}

/// Looks at the tables, and makes those that are missing.
async fn look(store: &Store, patience: Duration) -> StoreState {
    let mut difference = match found(store, patience).await {
        Ok(columns) => compare(&columns),
        Err(note) => return StoreState::Busy(note),
    };
    if !difference.missing.is_empty() {
        if let Err(error) = migrate::restore(store, &difference.missing).await {
            return StoreState::Unfit(format!("{}: {}", told(&difference), chain(&error)));
        }
        difference.missing.clear();
    }
    if difference == Difference::default() { StoreState::Up } else { StoreState::Unfit(told(&difference)) }
}

fn told(difference: &Difference) -> String {
    let tables = difference.missing.iter().filter(|migration| migration.makes_a_table());
    let missing = tables.map(|migration| format!("table {} is missing", migration.table()));
    missing.chain(difference.changed.iter().cloned()).collect::<Vec<_>>().join("; ")
}

async fn found(store: &Store, patience: Duration) -> Result<Vec<Column>, String> {
    let columns =
        "SELECT table, name, type, toString(default_kind) AS default_kind FROM system.columns WHERE database = ?";
    // Asked from outside of the database, which may be gone.
    let outside = store.client.clone().with_database("default");
    let asked = outside.query(columns).bind(&store.database).fetch_all();
    match tokio::time::timeout(patience, asked).await {
        Ok(Ok(columns)) => Ok(columns),
        Ok(Err(error)) => Err(chain(&error)),
        Err(_) => Err(format!("no answer to a query within {patience:?}")),
    }
}

/// An error with all of its sources, each once.
pub fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let next = error.to_string();
        if !text.ends_with(&next) {
            text = format!("{text}: {next}");
        }
        source = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;
    use crate::store::StoreArgs;

    fn store(url: String) -> Store {
        StoreArgs { url, user: "default".to_owned(), database: "d".to_owned() }.open().unwrap()
    }

    /// Answers pings, and keeps every query waiting.
    async fn busy() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let mut open = Vec::new();
            while let Ok((mut socket, _)) = listener.accept().await {
                let mut head = vec![0; 4_096];
                let read = socket.read(&mut head).await.unwrap_or_default();
                if head[..read].starts_with(b"GET /ping ") {
                    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nOk.\n";
                    socket.write_all(answer).await.unwrap();
                } else {
                    open.push(socket);
                }
            }
        });
        format!("http://{address}")
    }

    #[tokio::test]
    async fn a_query_that_takes_long_is_busy_and_refuses_nothing() {
        let store = store(busy().await);
        assert!(ping(&store).await.is_ok());
        let state = look(&store, Duration::from_millis(100)).await;
        assert_eq!(state, StoreState::Busy("no answer to a query within 100ms".to_owned()));
        assert!(state.is_ready() && state.reason().is_none() && state.note().is_some());
    }

    #[tokio::test]
    async fn nobody_who_listens_is_down() {
        let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let store = store(format!("http://user:secret@{closed}"));
        let (state, _seen) = watch::channel(StoreState::Up);
        let reason = until_down(&store, &state, &Notify::new()).await;
        assert!(reason.contains("efused") && !reason.contains("secret"), "{reason}");
    }
}
