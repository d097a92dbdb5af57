//! `KILL QUERY` by the id that a client chose: the engine gives its own ids, so the chosen ones are translated.

use super::error::Failure;
use super::library::{Connection, Params};
use super::settings::text as quoted;
use super::slots::Slots;
use super::tokens::{Kind, Tokens};

/// Whether the statement is a KILL.
pub fn is_kill(statement: &[u8]) -> bool {
    Tokens::new(statement).next().is_some_and(|token| statement[token.start..token.end].eq_ignore_ascii_case(b"KILL"))
}

/// Replaces every text that is a running query's chosen id by the engine's id for that query.
///
/// # Errors
/// The engine's, while it is asked for its ids.
pub fn translate(statement: &[u8], slots: &Slots, connection: &mut Connection) -> Result<Vec<u8>, Failure> {
    let mut translated = Vec::new();
    let mut copied = 0;
    for token in Tokens::new(statement).filter(|token| token.kind == Kind::Text) {
        let literal = &statement[token.start..token.end];
        let Some(running) = slots.all().into_iter().find(|running| quoted(&running.query_id).as_bytes() == literal)
        else {
            continue;
        };
        let asks = "SELECT query_id FROM system.processes WHERE endsWith(Settings['log_comment'], {marker:String}) \
                    OR position(query, concat('/* ', {marker:String}, ' */')) > 0";
        let marker: Params = vec![("marker".to_owned(), running.marker.clone())];
        let (id, _) = connection.query(asks.as_bytes(), "TabSeparatedRaw", &marker)?;
        let id = String::from_utf8_lossy(&id);
        // A query that the engine doesn't have yet, or no longer, keeps its own id, which matches nothing.
        if let Some(id) = id.lines().next().filter(|id| !id.is_empty()) {
            translated.extend_from_slice(&statement[copied..token.start]);
            translated.extend(quoted(id).into_bytes());
            copied = token.end;
        }
    }
    translated.extend_from_slice(&statement[copied..]);
    Ok(translated)
}
