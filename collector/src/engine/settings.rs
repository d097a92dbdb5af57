//! A request's settings and database, put on its connection; and off again, when the connection is a session's.

use super::error::Failure;
use super::library::Connection;
use super::request::Request;
use super::tokens::{Kind, Tokens};

/// The setting that carries a statement's marker.
const MARKER: &str = "log_comment";
/// ClickHouse's code for a change that a read-only mode forbids.
const READONLY: u32 = 164;

/// What has to be undone on a session's connection.
#[derive(Debug, Default)]
pub struct Scope {
    settings: Vec<(String, String)>,
    database: Option<String>,
}

impl Scope {
    /// Sets what the request asks for. `lasting`: the connection outlives the request, so remember what was there.
    ///
    /// # Errors
    /// The engine's: an unknown setting, a value it can't have, an unknown database.
    pub fn enter(connection: &mut Connection, request: &Request, marker: &str, lasting: bool) -> Result<Self, Failure> {
        let mut scope = Self::default();
        let mut settings = request.settings.clone();
        match settings.iter_mut().find(|(name, _)| name == MARKER) {
            Some((_, comment)) => *comment = format!("{comment} {marker}"),
            None => settings.push((MARKER.to_owned(), marker.to_owned())),
        }
        for (name, _) in &settings {
            if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'.') {
                return Err(Failure::new(115, "UNKNOWN_SETTING", format!("Unknown setting '{name}'")));
            }
        }
        if lasting {
            scope.remember(connection, &settings, request.database.is_some())?;
        }
        // A read-only mode forbids further settings, so it comes last, and could not be taken off a session's connection
        // again, where the endpoint sees to it itself.
        let (mode, rest): (Vec<_>, Vec<_>) = settings.into_iter().partition(|(name, _)| name == "readonly");
        let mode = if lasting && request.read_only_mode().is_some() { Vec::new() } else { mode };
        let set = match set(connection, &rest) {
            // A session that was made read-only by a SET can still read; the marker is in its queries' texts, then.
            Err(failure) if failure.code == READONLY && lasting => {
                scope.settings.clear();
                if request.settings.is_empty() { Ok(()) } else { set(connection, &request.settings) }
            }
            set => set,
        };
        let set = set.and_then(|()| match &request.database {
            Some(database) if !database.is_empty() => command(connection, &format!("USE {}", name(database))),
            _ => Ok(()),
        });
        let set = set.and_then(|()| match (mode.first(), request.readonly && !lasting) {
            (Some(_), _) => self::set(connection, &mode),
            (None, true) => command(connection, "SET readonly = 2"),
            (None, false) => Ok(()),
        });
        if let Err(failure) = set {
            // What can't be taken off again was not put on either.
            let _ = scope.leave(connection, &Keeps::Nothing);
            return Err(failure);
        }
        Ok(scope)
    }

    fn remember(
        &mut self,
        connection: &mut Connection,
        settings: &[(String, String)],
        database: bool,
    ) -> Result<(), Failure> {
        let names: Vec<String> = settings.iter().map(|(name, _)| text(name)).collect();
        let sql = format!("SELECT name, value FROM system.settings WHERE name IN ({})", names.join(", "));
        let (rows, _) = connection.query(sql.as_bytes(), "JSONCompactEachRow", &Vec::new())?;
        for line in rows.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let pair: (String, String) = serde_json::from_slice(line)
                .map_err(|error| Failure::engine(&format!("cannot read the session's settings: {error}")))?;
            self.settings.push(pair);
        }
        if database {
            let (name, _) = connection.query(b"SELECT currentDatabase()", "TabSeparatedRaw", &Vec::new())?;
            self.database = Some(String::from_utf8_lossy(&name).trim_end_matches('\n').to_owned());
        }
        Ok(())
    }

    /// Restores what was there, but for what the statement was to change.
    ///
    /// # Errors
    /// The engine's, when it can't be restored.
    pub fn leave(self, connection: &mut Connection, keeps: &Keeps) -> Result<(), Failure> {
        let (marker, settings): (Vec<_>, Vec<_>) =
            self.settings.into_iter().filter(|(name, _)| !keeps.setting(name)).partition(|(name, _)| name == MARKER);
        set(connection, &settings)?;
        match set(connection, &marker) {
            // The statement made the session read-only; an old marker does no harm.
            Err(failure) if failure.code == READONLY => {}
            set => set?,
        }
        match self.database.filter(|_| *keeps != Keeps::Database) {
            Some(database) => command(connection, &format!("USE {}", name(&database))),
            None => Ok(()),
        }
    }
}

/// What a session's statement changed for good.
#[derive(Debug, PartialEq, Eq)]
pub enum Keeps {
    /// Nothing.
    Nothing,
    /// The database, by a USE.
    Database,
    /// These settings, and perhaps other words, by a SET.
    Settings(Vec<String>),
}

impl Keeps {
    /// What a statement changes.
    pub fn of(statement: &[u8]) -> Self {
        let words = Tokens::new(statement).filter(|token| matches!(token.kind, Kind::Word | Kind::Name));
        let mut words = words.map(|token| {
            String::from_utf8_lossy(&statement[token.start..token.end]).trim_matches(['`', '"']).to_owned()
        });
        match words.next().unwrap_or_default().to_ascii_uppercase().as_str() {
            "USE" => Self::Database,
            "SET" => Self::Settings(words.collect()),
            _ => Self::Nothing,
        }
    }

    fn setting(&self, name: &str) -> bool {
        // The marker is never a session's own.
        matches!(self, Self::Settings(words) if name != MARKER && words.iter().any(|word| word == name))
    }
}

fn set(connection: &mut Connection, settings: &[(String, String)]) -> Result<(), Failure> {
    if settings.is_empty() {
        return Ok(());
    }
    let pairs: Vec<String> = settings.iter().map(|(name, value)| format!("{name} = {}", text(value))).collect();
    command(connection, &format!("SET {}", pairs.join(", ")))
}

fn command(connection: &mut Connection, sql: &str) -> Result<(), Failure> {
    connection.query(sql.as_bytes(), "TabSeparated", &Vec::new()).map(|_| ())
}

/// A text in quotes.
pub fn text(value: &str) -> String {
    format!("'{}'", value.replace('\\', "\\\\").replace('\'', "\\'"))
}

/// A name in quotes.
fn name(value: &str) -> String {
    format!("`{}`", value.replace('\\', "\\\\").replace('`', "\\`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_hold_anything() {
        assert_eq!(text("a'b\\"), "'a\\'b\\\\'");
        assert_eq!(name("a`b\\"), "`a\\`b\\\\`");
    }
}
