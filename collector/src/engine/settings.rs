//! A request's settings and database, put on its connection; and off again, when the connection is a session's.

use super::error::Failure;
use super::library::Connection;
use super::request::Request;

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
        match settings.iter_mut().find(|(name, _)| name == "log_comment") {
            Some((_, comment)) => *comment = format!("{comment} {marker}"),
            None => settings.push(("log_comment".to_owned(), marker.to_owned())),
        }
        for (name, _) in &settings {
            if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'.') {
                return Err(Failure::new(115, "UNKNOWN_SETTING", format!("Unknown setting '{name}'")));
            }
        }
        if lasting {
            scope.remember(connection, &settings, request.database.is_some())?;
        }
        // A read-only mode forbids further settings, so it comes last.
        let (mode, rest): (Vec<_>, Vec<_>) = settings.into_iter().partition(|(name, _)| name == "readonly");
        let set = set(connection, &rest).and_then(|()| match &request.database {
            Some(database) if !database.is_empty() => command(connection, &format!("USE {}", name(database))),
            _ => Ok(()),
        });
        let set = set.and_then(|()| match (mode.first(), request.readonly && !lasting) {
            (Some(_), _) => self::set(connection, &mode),
            (None, true) => command(connection, "SET readonly = 2"),
            (None, false) => Ok(()),
        });
        if let Err(failure) = set {
            scope.leave(connection, false);
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

    /// Restores what was there. `keeps`: the statement was a SET or a USE, whose effect is to stay.
    pub fn leave(self, connection: &mut Connection, keeps: bool) {
        let settings = if keeps {
            self.settings.into_iter().filter(|(name, _)| name == "log_comment").collect()
        } else {
            self.settings
        };
        if let Err(failure) = set(connection, &settings) {
            tracing::warn!("a session keeps a request's settings: {failure}");
        }
        if let Some(database) = self.database.filter(|_| !keeps)
            && let Err(failure) = command(connection, &format!("USE {}", name(&database)))
        {
            tracing::warn!("a session keeps a request's database: {failure}");
        }
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
