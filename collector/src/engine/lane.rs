//! Which slots a statement waits for: told from its beginning, before it has one.

use std::io::Read;

use bytes::Bytes;

use super::decode;
use super::request::Request;
use super::statement::{Statement, cut};
use super::tokens::{Kind, Tokens};

/// Raw bytes of a body that are looked at.
const PEEKED: u64 = 64 << 10;

/// A kind of statement that has slots of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// KILL: it must get through when nothing else does.
    Kill,
    /// A statement that reads no table: a probe's `SELECT 1`, a session's SET.
    Probe,
    /// An INSERT whose rows come with it.
    Rows,
    /// Everything else: what reads, and what changes tables from within.
    Work,
}

impl Lane {
    /// The lane of a request of whose body this much is there; `whole`: all of it.
    pub fn of(request: &Request, body: &Bytes, whole: bool) -> Self {
        let mut text = request.query.clone().into_bytes();
        if !text.is_empty() {
            text.push(b'\n');
        }
        // Most INSERTs are told by their URL, and their rows need not be looked at.
        if matches!(cut(&text, false), Ok(Some(Statement::Insert { .. }))) {
            return Self::Rows;
        }
        let before = text.len() as u64;
        // A body that is cut here, or is faulty, is judged by what can be read of it.
        let ended = decode::body(std::io::Cursor::new(body.clone()), &request.content_encoding, request.decompress)
            .is_ok_and(|raw| raw.take(PEEKED).read_to_end(&mut text).is_ok());
        Self::of_text(&text, whole && ended && text.len() as u64 - before < PEEKED)
    }

    fn of_text(text: &[u8], complete: bool) -> Self {
        let mut tokens = Tokens::new(text).peekable();
        let first = tokens.peek().map(|token| text[token.start..token.end].to_ascii_uppercase()).unwrap_or_default();
        match (first.as_slice(), cut(text, complete)) {
            (b"KILL", _) => Self::Kill,
            (b"INSERT", Ok(None | Some(Statement::Insert { .. } | Statement::Input { .. }))) => Self::Rows,
            (b"SELECT" | b"SHOW" | b"EXISTS" | b"SET" | b"USE", Ok(Some(_))) => {
                let from = |word: &[u8]| word.eq_ignore_ascii_case(b"FROM");
                match tokens.any(|token| token.kind == Kind::Word && from(&text[token.start..token.end])) {
                    true => Self::Work,
                    false => Self::Probe,
                }
            }
            _ => Self::Work,
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderMap, Method};

    use super::*;

    #[test]
    fn the_body_belongs_to_it() {
        let lane = |uri: &str, body: &'static [u8], whole: bool| {
            let uri = uri.parse().expect("a URI");
            let request = Request::parse(&Method::POST, &uri, &HeaderMap::new());
            Lane::of(&request.expect("a request"), &Bytes::from_static(body), whole)
        };
        assert_eq!(lane("/", b"SELECT 1", true), Lane::Probe);
        assert_eq!(lane("/?query=SELECT+1", b"FROM t", true), Lane::Work);
        assert_eq!(lane("/?query=INSERT+INTO+t+FORMAT+CSV", b"1", false), Lane::Rows);
        assert_eq!(lane("/?query=INSERT+INTO+t", b"SELECT 1", true), Lane::Work);
        assert_eq!(lane("/?query=INSERT+INTO+t+SELECT+1", b"", true), Lane::Work);
        assert_eq!(lane("/?query=SELECT+1&decompress=1", b"no block", true), Lane::Work);
    }

    #[test]
    fn statements_have_their_lanes() {
        for (text, lane) in [
            ("KILL QUERY WHERE query_id = 'x'", Lane::Kill),
            ("SELECT 1", Lane::Probe),
            ("select version() format TSV", Lane::Probe),
            ("SET max_threads = 1", Lane::Probe),
            ("SELECT count() FROM t", Lane::Work),
            ("SELECT (SELECT max(x) from t)", Lane::Work),
            ("WITH 1 AS x SELECT x", Lane::Work),
            ("INSERT INTO t FORMAT CSV\n1", Lane::Rows),
            ("INSERT INTO t VALUES (1)", Lane::Rows),
            ("INSERT INTO t SELECT a FROM input('a Int') FORMAT CSV\n1", Lane::Rows),
            ("INSERT INTO t SELECT * FROM u", Lane::Work),
            ("OPTIMIZE TABLE t", Lane::Work),
            ("", Lane::Work),
        ] {
            assert_eq!(Lane::of_text(text.as_bytes(), true), lane, "{text}");
        }
        assert_eq!(Lane::of_text(b"SELECT 1", false), Lane::Work);
        assert_eq!(Lane::of_text(b"INSERT INTO t (a, b", false), Lane::Rows);
        assert_eq!(Lane::of_text(b"INSERT INTO t SELECT * FROM u WHERE", false), Lane::Rows);
    }
}
