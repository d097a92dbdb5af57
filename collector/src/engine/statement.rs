//! Tells a request's statement from its data, and a statement that reads from one that writes.
//!
//! The text is what ClickHouse sees: the URL's `query`, a line feed, and the body. An INSERT's rows start after
//! `VALUES` or after `FORMAT Name`; they may be binary, so nothing behind that point is looked at. For everything else
//! the statement is the whole text, and a result's `FORMAT` clause is found at its end.

use super::error::Failure;
use super::tokens::{Kind, Token, Tokens};

/// A statement, as offsets into its text.
#[derive(Debug, PartialEq, Eq)]
pub enum Statement {
    /// An INSERT whose rows are in the text from `data` on.
    Insert {
        /// End of the part without `FORMAT` or `VALUES`.
        head: usize,
        /// The rows' format.
        format: String,
        /// Where the rows start.
        data: usize,
    },
    /// An INSERT … SELECT whose SELECT reads the request's rows by `input('structure')`.
    Input {
        /// Where the word `input` starts.
        input: usize,
        /// Where the arguments start, behind the bracket.
        arguments: usize,
        /// End of the part without `FORMAT`.
        head: usize,
        /// The rows' format.
        format: String,
        /// Where the rows start.
        data: usize,
    },
    /// A statement with a result: SELECT, SHOW, DESCRIBE and their like.
    Read {
        /// End of the part without the closing `FORMAT` clause.
        head: usize,
        /// End of the statement.
        end: usize,
        /// The format that the statement names.
        format: Option<String>,
    },
    /// Any other statement; a short result, if any.
    Other {
        /// End of the statement.
        end: usize,
        /// The format that the statement names.
        format: Option<String>,
        /// It is a SET or a USE: what it changes outlives it.
        lasting: bool,
    },
}

/// Cuts `text`. `None` when it is not `complete` and more of it is needed.
///
/// # Errors
/// An empty query, several statements, `INTO OUTFILE` and `FROM INFILE`, with ClickHouse's codes.
pub fn cut(text: &[u8], complete: bool) -> Result<Option<Statement>, Failure> {
    let mut tokens = Tokens::new(text);
    let Some(first) = tokens.next() else {
        return if complete { Err(syntax("empty query")) } else { Ok(None) };
    };
    let word = |token: &Token, expected: &str| is_word(text, token, expected);
    if word(&first, "INSERT") {
        return insert(text, complete);
    }
    if !complete {
        return Ok(None);
    }
    let all = one_statement(Tokens::new(text).collect())?;
    let end = all.last().map_or(0, |token| token.end);
    outfile(text, &all)?;
    let writes = all.iter().any(|token| token.depth == 0 && word(token, "INSERT"));
    let reads = first.kind == Kind::Open
        || ["SELECT", "FROM", "SHOW", "DESCRIBE", "DESC", "EXPLAIN", "EXISTS", "CHECK"].iter().any(|k| word(&first, k))
        || (word(&first, "WITH") && !writes);
    let (head, format) = match format_clause(text, &all) {
        Some((clause, name)) => (clause.start, Some(string(text, &name))),
        None => (end, None),
    };
    Ok(Some(if reads {
        Statement::Read { head, end, format }
    } else {
        Statement::Other { end, format, lasting: word(&first, "SET") || word(&first, "USE") }
    }))
}

fn is_word(text: &[u8], token: &Token, expected: &str) -> bool {
    token.kind == Kind::Word && text[token.start..token.end].eq_ignore_ascii_case(expected.as_bytes())
}

fn string(text: &[u8], token: &Token) -> String {
    String::from_utf8_lossy(&text[token.start..token.end]).into_owned()
}

fn syntax(message: &str) -> Failure {
    Failure::new(62, "SYNTAX_ERROR", format!("Syntax error: {message}"))
}

/// The tokens up to the closing semicolon; what follows it must be nothing.
fn one_statement(mut all: Vec<Token>) -> Result<Vec<Token>, Failure> {
    if let Some(at) = all.iter().position(|token| token.kind == Kind::Semicolon) {
        if all[at..].iter().any(|token| token.kind != Kind::Semicolon) {
            return Err(syntax(&format!(
                "multi-statements are not allowed: there is a second statement after the semicolon at position {}",
                all[at].start + 1
            )));
        }
        all.truncate(at);
    }
    if all.is_empty() { Err(syntax("empty query")) } else { Ok(all) }
}

fn outfile(text: &[u8], all: &[Token]) -> Result<(), Failure> {
    let used = all
        .windows(2)
        .any(|pair| pair[0].depth == 0 && is_word(text, &pair[0], "INTO") && is_word(text, &pair[1], "OUTFILE"));
    if used { Err(Failure::new(1, "UNSUPPORTED_METHOD", "INTO OUTFILE is not allowed")) } else { Ok(()) }
}

/// The last `FORMAT Name` that ends the statement or is followed by SETTINGS.
fn format_clause(text: &[u8], all: &[Token]) -> Option<(Token, Token)> {
    (1..all.len().saturating_sub(1)).rev().find_map(|at| {
        let (before, clause, name) = (all[at - 1], all[at], all[at + 1]);
        let last = all.get(at + 2).is_none_or(|next| is_word(text, next, "SETTINGS"));
        let is_name = before.kind == Kind::Other || is_word(text, &before, "AS");
        (clause.depth == 0 && is_word(text, &clause, "FORMAT") && name.kind == Kind::Word && last && !is_name)
            .then_some((clause, name))
    })
}

/// Cuts a text that starts with INSERT.
fn insert(text: &[u8], complete: bool) -> Result<Option<Statement>, Failure> {
    let is = |token: &Token, expected: &str| is_word(text, token, expected);
    let mut tokens = Tokens::new(text).skip(1).peekable();
    for keyword in ["INTO", "TABLE", "FUNCTION"] {
        tokens.next_if(|token| is(token, keyword));
    }
    // The table's or the function's name may look like a keyword.
    tokens.next();
    while tokens.next_if(|token| token.kind == Kind::Other && text[token.start] == b'.').is_some() {
        tokens.next();
    }
    while let Some(token) = tokens.next() {
        if token.depth > 0 {
            continue;
        }
        let whole = complete || token.end < text.len();
        if whole && is(&token, "VALUES") {
            return Ok(Some(Statement::Insert { head: token.start, format: "Values".to_owned(), data: token.end }));
        }
        if is(&token, "FORMAT") {
            let Some(name) = tokens.peek().filter(|name| complete || name.end < text.len()).copied() else { break };
            let Some(data) = rows_start(text, name.end, complete)? else { break };
            return Ok(Some(Statement::Insert { head: token.start, format: string(text, &name), data }));
        }
        if is(&token, "FROM") && tokens.peek().is_some_and(|next| is(next, "INFILE")) {
            return Err(Failure::new(78, "UNKNOWN_TYPE_OF_QUERY", "FROM INFILE is not allowed"));
        }
        let inner = token.kind == Kind::Open
            && tokens.peek().is_some_and(|next| is(next, "SELECT") || is(next, "WITH") || next.kind == Kind::Open);
        if whole && (inner || ["SELECT", "WITH", "FROM", "EXPLAIN", "WATCH"].iter().any(|k| is(&token, k))) {
            return insert_select(text, complete);
        }
    }
    Ok(complete.then_some(Statement::Other { end: text.len(), format: None, lasting: false }))
}

/// Where the rows start behind a format's name: after the first line feed, if one follows, or after the blanks.
fn rows_start(text: &[u8], name_end: usize, complete: bool) -> Result<Option<usize>, Failure> {
    let mut at = name_end;
    while matches!(text.get(at), Some(b' ' | b'\t' | 0x0c)) {
        at += 1;
    }
    if text.get(at) == Some(&b';') {
        return Err(syntax("you have an excessive ';' symbol before data for INSERT"));
    }
    if text.get(at) == Some(&b'\r') {
        at += 1;
    }
    match text.get(at) {
        Some(b'\n') => Ok(Some(at + 1)),
        None if !complete => Ok(None),
        _ => Ok(Some(at)),
    }
}

fn insert_select(text: &[u8], complete: bool) -> Result<Option<Statement>, Failure> {
    let mut input = None;
    let mut tokens = Tokens::new(text).peekable();
    while let Some(token) = tokens.next() {
        let Some(next) = tokens.peek().copied() else { break };
        if input.is_none() && is_word(text, &token, "input") && next.kind == Kind::Open {
            input = Some((token.start, next.end));
        }
        if let Some((input, arguments)) = input
            && token.depth == 0
            && is_word(text, &token, "FORMAT")
            && (complete || next.end < text.len())
        {
            let Some(data) = rows_start(text, next.end, complete)? else { break };
            let format = string(text, &next);
            return Ok(Some(Statement::Input { input, arguments, head: token.start, format, data }));
        }
    }
    if !complete {
        return Ok(None);
    }
    let all = one_statement(Tokens::new(text).collect())?;
    outfile(text, &all)?;
    let end = all.last().map_or(0, |token| token.end);
    Ok(Some(Statement::Other { end, format: None, lasting: false }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn whole(text: &str) -> Statement {
        cut(text.as_bytes(), true).expect("no failure").expect("a statement")
    }

    /// The head, the format and the data of an INSERT.
    fn parts(text: &str) -> (&str, String, &str) {
        match whole(text) {
            Statement::Insert { head, format, data } => (&text[..head], format, &text[data..]),
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn rows_start_behind_the_format() {
        let cases = [
            ("INSERT INTO t FORMAT RowBinary\n\x01\n", "INSERT INTO t ", "RowBinary", "\x01\n"),
            ("insert into t format CSV 1,2", "insert into t ", "CSV", "1,2"),
            ("INSERT INTO t FORMAT TSV \r\n\n1", "INSERT INTO t ", "TSV", "\n1"),
            (
                "INSERT INTO t(a, `b FORMAT x`) VALUES (1,'FORMAT CSV')",
                "INSERT INTO t(a, `b FORMAT x`) ",
                "Values",
                " (1,'FORMAT CSV')",
            ),
            ("INSERT INTO format FORMAT CSV\n", "INSERT INTO format ", "CSV", ""),
            ("INSERT INTO db.values VALUES(1)", "INSERT INTO db.values ", "Values", "(1)"),
            (
                "INSERT INTO t SETTINGS a='FORMAT x' FORMAT JSONEachRow {}",
                "INSERT INTO t SETTINGS a='FORMAT x' ",
                "JSONEachRow",
                "{}",
            ),
            (
                "INSERT INTO t /* VALUES */ -- FORMAT\n FORMAT CSV\n1",
                "INSERT INTO t /* VALUES */ -- FORMAT\n ",
                "CSV",
                "1",
            ),
            ("INSERT INTO FUNCTION null('a Int') FORMAT CSV\n1", "INSERT INTO FUNCTION null('a Int') ", "CSV", "1"),
            ("INSERT INTO t (* EXCEPT(b)) Values (1)", "INSERT INTO t (* EXCEPT(b)) ", "Values", " (1)"),
        ];
        for (text, head, format, data) in cases {
            assert_eq!(parts(text), (head, format.to_owned(), data), "{text}");
        }
    }

    #[test]
    fn a_cut_anywhere_asks_for_more_and_then_agrees() {
        let text = b"INSERT INTO `a b`.t (a, b) SETTINGS x = 1 FORMAT RowBinary\n\xff\x00'rows";
        let expected = cut(text, true).expect("no failure");
        for length in 0..text.len() - 7 {
            let partial = cut(&text[..length], false).expect("no failure");
            assert!(partial.is_none() || partial == expected, "at {length}: {partial:?}");
        }
        assert_eq!(cut(&text[..text.len() - 7], false).expect("no failure"), expected);
    }

    #[test]
    fn insert_select_is_a_statement_without_rows() {
        for text in [
            "INSERT INTO t SELECT 1",
            "INSERT INTO t (a) (SELECT 1)",
            "INSERT INTO t WITH 1 AS x SELECT x",
            "INSERT INTO t SELECT format FROM values",
            "WITH x AS (SELECT 1) INSERT INTO t SELECT * FROM x",
        ] {
            assert!(matches!(whole(text), Statement::Other { end, .. } if end == text.len()), "{text}");
        }
        let text = "INSERT INTO t SELECT a FROM input('a Int') FORMAT CSV\n1";
        match whole(text) {
            Statement::Input { input, arguments, head, format, data } => {
                assert_eq!((&text[input..arguments], format.as_str(), &text[data..]), ("input(", "CSV", "1"));
                assert_eq!(&text[..head], "INSERT INTO t SELECT a FROM input('a Int') ");
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_result_s_format_is_found_at_the_end_only() {
        let read = |text: &str| match whole(text) {
            Statement::Read { head, end, format } => (text[..head].to_owned(), text[head..end].to_owned(), format),
            other => panic!("{text}: {other:?}"),
        };
        let format = |name: &str| Some(name.to_owned());
        assert_eq!(read("SELECT 1"), ("SELECT 1".into(), String::new(), None));
        assert_eq!(read("SELECT 1 FORMAT JSON;"), ("SELECT 1 ".into(), "FORMAT JSON".into(), format("JSON")));
        assert_eq!(
            read("(SELECT 1) SETTINGS a = 1 FORMAT CSV SETTINGS b = 2 -- x"),
            ("(SELECT 1) SETTINGS a = 1 ".into(), "FORMAT CSV SETTINGS b = 2".into(), format("CSV"))
        );
        assert_eq!(read("SELECT 'x' AS format").2, None);
        assert_eq!(read("SELECT t.format f").2, None);
        assert_eq!(read("SELECT ' FORMAT CSV' /* FORMAT CSV */").2, None);
        assert_eq!(read("SHOW TABLES FORMAT TSV").2, format("TSV"));
    }

    #[test]
    fn what_a_server_refuses_is_refused() {
        let code = |text: &str| cut(text.as_bytes(), true).expect_err(text).code;
        assert_eq!(code(" -- nothing"), 62);
        assert_eq!(code(";"), 62);
        assert_eq!(code("SELECT 1; SELECT 2"), 62);
        assert_eq!(code("SELECT 1 INTO OUTFILE 'x'"), 1);
        assert_eq!(code("INSERT INTO t FROM INFILE 'x' FORMAT CSV"), 78);
        assert_eq!(code("INSERT INTO t FORMAT CSV; 1"), 62);
    }

    /// Texts made of the pieces that matter, in any order.
    fn sql() -> impl Strategy<Value = Vec<u8>> {
        const PIECES: &[&str] = &[
            "INSERT", "INTO", "FORMAT", "VALUES", "SELECT", "WITH", "FROM", "SETTINGS", "CSV", "t", "input", "(", ")",
            "'", "\"", "`", "\\", ";", "\n", "--", "/*", "*/", "$a$", "$", ".", ",", "\u{a0}", "INFILE", "TABLE",
            "FUNCTION",
        ];
        let piece = prop_oneof![
            8 => proptest::sample::select(PIECES).prop_map(|piece| format!("{piece} ").into_bytes()),
            1 => proptest::collection::vec(any::<u8>(), 0..4),
        ];
        let start =
            proptest::sample::select(&["", "INSERT ", "INSERT INTO t ", "INSERT INTO t SELECT ", "SELECT 1 "][..]);
        let pieces = proptest::collection::vec(piece, 0..24);
        (start, pieces).prop_map(|(start, pieces)| [start.as_bytes(), &pieces.concat()].concat())
    }

    proptest! {
        #[test]
        fn any_text_is_cut_inside_itself_and_the_same_however_it_arrives(text in sql(), rest in sql()) {
            match cut(&text, true) {
                Ok(Some(Statement::Insert { head, data, .. })) => prop_assert!(head <= data && data <= text.len()),
                Ok(Some(Statement::Input { input, arguments, head, data, .. })) => {
                    prop_assert!(input < arguments && arguments <= head && head <= data && data <= text.len());
                }
                Ok(Some(Statement::Read { head, end, .. })) => prop_assert!(head <= end && end <= text.len()),
                Ok(Some(Statement::Other { end, .. })) => prop_assert!(end <= text.len()),
                Ok(None) => prop_assert!(false, "a complete text needs no more"),
                Err(_) => {}
            }
            // What is decided before the end arrives is not changed by what arrives.
            if let Ok(Some(early)) = cut(&text, false) {
                let longer = [&text[..], &rest[..]].concat();
                prop_assert_eq!(cut(&longer, true), Ok(Some(early)));
            }
        }
    }
}
