//! Sessions: a connection that outlives its request, with its temporary tables and its settings.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::error::Failure;
use super::library::Connection;
use super::request::SessionWish;

/// Sessions that may exist at once.
const MOST: usize = 1000;

/// All sessions.
#[derive(Default)]
pub struct Sessions {
    map: Mutex<HashMap<String, Entry>>,
}

struct Entry {
    /// `None` while a request uses it.
    connection: Option<Connection>,
    expires: Instant,
}

/// A connection that a request may use: its own, or its session's.
pub struct Lease {
    /// The connection; there until the lease is dropped.
    connection: Option<Connection>,
    session: Option<(Arc<Sessions>, SessionWish)>,
}

impl Sessions {
    /// Takes the session's connection, or opens one for a new session.
    ///
    /// # Errors
    /// `SESSION_IS_LOCKED` when another request uses it, `SESSION_NOT_FOUND` when it must exist and doesn't, and
    /// whatever `connect` says.
    pub fn lease(
        self: &Arc<Self>,
        wish: &SessionWish,
        connect: impl FnOnce() -> Result<Connection, Failure>,
    ) -> Result<Lease, Failure> {
        self.expire();
        let mut map = self.map.lock().unwrap_or_else(PoisonError::into_inner);
        let full = map.len() >= MOST;
        let connection = match map.get_mut(&wish.id) {
            Some(entry) => entry.connection.take().ok_or_else(|| {
                Failure::new(373, "SESSION_IS_LOCKED", format!("Session {} is locked by a concurrent client", wish.id))
            })?,
            None if wish.check => {
                return Err(Failure::new(372, "SESSION_NOT_FOUND", format!("Session {} not found", wish.id)));
            }
            None if full => {
                let text = format!("there are {MOST} sessions already; expected some to be closed or to time out");
                return Err(Failure::new(202, "TOO_MANY_SIMULTANEOUS_QUERIES", text));
            }
            None => {
                let connection = connect()?;
                map.insert(wish.id.clone(), Entry { connection: None, expires: Instant::now() });
                connection
            }
        };
        Ok(Lease { connection: Some(connection), session: Some((Arc::clone(self), wish.clone())) })
    }

    /// Closes the sessions that were not used for as long as they asked.
    pub fn expire(&self) {
        let now = Instant::now();
        let mut map = self.map.lock().unwrap_or_else(PoisonError::into_inner);
        map.retain(|_, entry| entry.connection.is_none() || entry.expires > now);
    }

    /// Closes all of them.
    pub fn clear(&self) {
        self.map.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl Lease {
    /// A lease of a connection that ends with the request.
    pub fn own(connection: Connection) -> Self {
        Self { connection: Some(connection), session: None }
    }

    /// Whether what is set on the connection outlives the request.
    pub fn lasting(&self) -> bool {
        self.session.is_some()
    }

    /// Ends the session with this request: what was set on its connection could not be taken off again.
    pub fn spoil(&mut self) {
        if let Some((_, wish)) = &mut self.session {
            wish.close = true;
        }
    }

    /// The connection.
    ///
    /// # Errors
    /// Never before the lease is dropped.
    pub fn connection(&mut self) -> Result<&mut Connection, Failure> {
        self.connection.as_mut().ok_or_else(|| Failure::engine("the connection was given back already"))
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let Some((sessions, wish)) = self.session.take() else { return };
        let mut map = sessions.map.lock().unwrap_or_else(PoisonError::into_inner);
        if wish.close {
            map.remove(&wish.id);
        } else if let Some(entry) = map.get_mut(&wish.id) {
            entry.connection = self.connection.take();
            entry.expires = Instant::now() + Duration::from_secs(wish.timeout);
        }
    }
}
