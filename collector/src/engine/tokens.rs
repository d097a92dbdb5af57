//! ClickHouse's tokens, as far as statements must be told from data: words, quotes, comments, brackets.

/// One token and where it lies in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// What it is.
    pub kind: Kind,
    /// Offset of its first byte.
    pub start: usize,
    /// Offset after its last byte.
    pub end: usize,
    /// How many brackets are open around it.
    pub depth: usize,
}

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A bare word: a keyword, a name or a number.
    Word,
    /// `'…'` or a heredoc.
    Text,
    /// `"…"` or `` `…` ``.
    Name,
    /// `(`, `[` or `{`.
    Open,
    /// `)`, `]` or `}`.
    Close,
    /// `;`
    Semicolon,
    /// Any other byte.
    Other,
    /// A quote or a comment that the text does not close.
    Unclosed,
}

/// The tokens of a text, without white space and comments.
pub struct Tokens<'a> {
    text: &'a [u8],
    at: usize,
    depth: usize,
}

impl<'a> Tokens<'a> {
    /// Starts at the text's first byte.
    pub fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0, depth: 0 }
    }

    fn find_bytes(&self, from: usize, what: &[u8]) -> Option<usize> {
        let rest = self.text.get(from..)?;
        rest.windows(what.len()).position(|window| window == what).map(|at| from + at)
    }

    /// The end of a quoted token that starts at `self.at`, past the closing quote.
    fn quoted(&self, quote: u8) -> Option<usize> {
        let mut at = self.at + 1;
        while let Some(&byte) = self.text.get(at) {
            if byte == b'\\' {
                at += 2;
            } else if byte != quote {
                at += 1;
            } else if self.text.get(at + 1) == Some(&quote) {
                at += 2;
            } else {
                return Some(at + 1);
            }
        }
        None
    }

    /// Skips white space and comments; false when a comment is not closed.
    fn skip(&mut self) -> bool {
        loop {
            match self.text.get(self.at..).unwrap_or_default() {
                [byte, ..] if byte.is_ascii_whitespace() || *byte == 0x0b => self.at += 1,
                [0xc2, 0xa0, ..] => self.at += 2,
                [b'-', b'-', ..] | [b'#', b' ' | b'!', ..] => {
                    self.at = self.find_bytes(self.at, b"\n").unwrap_or(self.text.len());
                }
                [b'/', b'*', ..] => match self.find_bytes(self.at + 2, b"*/") {
                    Some(end) => self.at = end + 2,
                    None => return false,
                },
                _ => return true,
            }
        }
    }

    /// The end of a heredoc (`$tag$ … $tag$`) that starts here: `None` if none does, `Some(None)` if it isn't closed.
    fn heredoc(&self) -> Option<Option<usize>> {
        let tag_end = self.find_bytes(self.at + 1, b"$")?;
        let inner = &self.text[self.at + 1..tag_end];
        if !inner.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_') {
            return None;
        }
        let tag = &self.text[self.at..=tag_end];
        Some(self.find_bytes(tag_end + 1, tag).map(|at| at + tag.len()))
    }
}

impl Iterator for Tokens<'_> {
    type Item = Token;

    fn next(&mut self) -> Option<Token> {
        let closed = self.skip();
        let start = self.at;
        let first = *self.text.get(start)?;
        let word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte >= 0x80;
        let length = self.text[start..].iter().take_while(|byte| word(byte)).count();
        let (kind, end) = match first {
            _ if !closed => (Kind::Unclosed, None),
            b'\'' => (Kind::Text, self.quoted(b'\'')),
            b'"' | b'`' => (Kind::Name, self.quoted(first)),
            b'(' | b'[' | b'{' => (Kind::Open, Some(start + 1)),
            b')' | b']' | b'}' => (Kind::Close, Some(start + 1)),
            b';' => (Kind::Semicolon, Some(start + 1)),
            b'$' => match self.heredoc() {
                Some(end) => (Kind::Text, end),
                None => (Kind::Other, Some(start + 1)),
            },
            _ if length > 0 => (Kind::Word, Some(start + length)),
            _ => (Kind::Other, Some(start + 1)),
        };
        let (kind, end) = match end {
            Some(end) => (kind, end),
            None => (Kind::Unclosed, self.text.len()),
        };
        if kind == Kind::Close {
            self.depth = self.depth.saturating_sub(1);
        }
        let token = Token { kind, start, end, depth: self.depth };
        if kind == Kind::Open {
            self.depth += 1;
        }
        self.at = end;
        Some(token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<(Kind, &str)> {
        Tokens::new(text.as_bytes()).map(|token| (token.kind, &text[token.start..token.end])).collect()
    }

    #[test]
    fn quotes_and_comments_are_one_token_or_none() {
        assert_eq!(
            texts("a 'it''s \\' x' -- FORMAT\n`b``c` /* ; */ $x$ ' $x$; #!c"),
            [
                (Kind::Word, "a"),
                (Kind::Text, "'it''s \\' x'"),
                (Kind::Name, "`b``c`"),
                (Kind::Text, "$x$ ' $x$"),
                (Kind::Semicolon, ";"),
            ]
        );
    }

    #[test]
    fn what_is_not_closed_is_said() {
        assert_eq!(texts("a 'b").last().map(|token| token.0), Some(Kind::Unclosed));
        assert_eq!(texts("a /* b").last().map(|token| token.0), Some(Kind::Unclosed));
        assert_eq!(texts("a 'b\\").last().map(|token| token.0), Some(Kind::Unclosed));
    }

    #[test]
    fn depth_counts_brackets() {
        let depths: Vec<usize> = Tokens::new(b"a (b [c]) d").map(|token| token.depth).collect();
        assert_eq!(depths, [0, 0, 1, 1, 2, 1, 0, 0]);
    }
}
