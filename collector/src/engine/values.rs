//! Finds a second statement behind the rows of `INSERT … VALUES`: the engine stops reading at the semicolon.

use super::error::Failure;

/// Follows the rows as they pass, however they are cut.
#[derive(Debug, Default)]
pub struct Values {
    state: State,
    depth: usize,
    /// Bytes seen so far.
    seen: usize,
    /// Where the semicolon stood.
    end: Option<usize>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Plain,
    /// Behind one `-` or `/`, which may begin a comment.
    Begun(u8),
    Quoted(u8),
    /// Behind a backslash between quotes.
    Escaped(u8),
    Line,
    Block,
    /// Behind a `*` in a comment.
    BlockStar,
}

impl Values {
    /// Looks at more of the rows.
    ///
    /// # Errors
    /// Something follows the semicolon behind the last row.
    pub fn pass(&mut self, rows: &[u8]) -> Result<(), Failure> {
        for &byte in rows {
            self.state = self.step(byte)?;
            self.seen += 1;
        }
        Ok(())
    }

    fn step(&mut self, byte: u8) -> Result<State, Failure> {
        Ok(match (self.state, byte) {
            (State::Quoted(quote), b'\\') => State::Escaped(quote),
            // Two quotes in a row are read as an end and a beginning, which comes to the same.
            (State::Quoted(quote), _) if byte == quote => State::Plain,
            (State::Escaped(quote) | State::Quoted(quote), _) => State::Quoted(quote),
            (State::Begun(b'-'), b'-') => State::Line,
            (State::Block | State::BlockStar, b'*') => State::BlockStar,
            (State::BlockStar, b'/') | (State::Line, b'\n') => State::Plain,
            (State::Begun(b'/'), b'*') | (State::Block | State::BlockStar, _) => State::Block,
            (State::Line, _) => State::Line,
            (State::Begun(_), _) if self.end.is_some() => return Err(self.second()),
            (State::Plain | State::Begun(_), _) => self.plain(byte)?,
        })
    }

    fn plain(&mut self, byte: u8) -> Result<State, Failure> {
        match byte {
            b'-' | b'/' => return Ok(State::Begun(byte)),
            b';' if self.depth == 0 => self.end = self.end.or(Some(self.seen)),
            _ if self.end.is_some() && !byte.is_ascii_whitespace() => return Err(self.second()),
            b'\'' | b'"' | b'`' => return Ok(State::Quoted(byte)),
            b'(' | b'[' | b'{' => self.depth += 1,
            b')' | b']' | b'}' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        Ok(State::Plain)
    }

    fn second(&self) -> Failure {
        let at = self.end.unwrap_or_default() + 1;
        let text = format!(
            "Syntax error: multi-statements are not allowed: something follows the semicolon at position {at} of the rows"
        );
        Failure::new(62, "SYNTAX_ERROR", text)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn refused(rows: &[&[u8]]) -> bool {
        let mut values = Values::default();
        rows.iter().any(|piece| values.pass(piece).is_err())
    }

    #[test]
    fn only_what_follows_the_rows_is_refused() {
        for rows in [
            " (1,'a'),(2,'b')",
            "(1,'a;b'),(2,'it''s; \\'; x');",
            "(1, ';') ; ; -- the end; really\n /* ; x **/ ;",
            "(1 - -1, 4 / 2, [';'], `a;b`) /* ; */ ,(2) -- ; x\n,(3)",
            "(1 /* ; ' */, 2);",
            "",
        ] {
            assert!(!refused(&[rows.as_bytes()]), "{rows}");
        }
        for rows in ["(1); SELECT 1", "(1);(2)", "('a;');x", "(1); /* x */ 2", "(1); -- x\n3", "(1);'", "(1); - 1"] {
            assert!(refused(&[rows.as_bytes()]), "{rows}");
        }
    }

    proptest! {
        #[test]
        fn the_cuts_do_not_matter(rows in "[();'\"`/* a\\\\\n-]{0,40}", cut in 0..40_usize) {
            let (first, second) = rows.as_bytes().split_at(cut.min(rows.len()));
            prop_assert_eq!(refused(&[rows.as_bytes()]), refused(&[first, second]));
        }
    }
}
