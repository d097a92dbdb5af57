//! Patterns of values: `*` stands for any text, `?` for one character, and `\` takes the next character as it is.
//!
//! A matcher of its own, since the known crates have other signs than these: classes in brackets that a label may have as
//! text, no escape, or separators that stop a `*`.

/// Longest pattern, in bytes.
pub const MAX_BYTES: usize = 256;

/// A pattern of a whole value.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Glob {
    text: String,
    signs: Vec<Sign>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Sign {
    /// This character.
    One(char),
    /// Any character.
    Any,
    /// Any text, also none.
    Many,
}

impl Glob {
    /// Reads a pattern.
    ///
    /// # Errors
    /// What was expected.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if text.len() > MAX_BYTES {
            return Err("a pattern of at most 256 bytes");
        }
        if text.chars().any(char::is_control) {
            return Err("a pattern without control characters");
        }
        let mut signs = Vec::new();
        let mut rest = text.chars();
        while let Some(sign) = rest.next() {
            match sign {
                '*' if signs.last() == Some(&Sign::Many) => {}
                '*' => signs.push(Sign::Many),
                '?' => signs.push(Sign::Any),
                '\\' => signs.push(Sign::One(rest.next().ok_or("a character after the last \\")?)),
                other => signs.push(Sign::One(other)),
            }
        }
        Ok(Self { text: text.to_owned(), signs })
    }

    /// The pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the whole value is as the pattern says. An empty value, which is one that is not known, is matched by the empty
    /// pattern alone, and not by `*`. Takes at most as many steps as the value has characters, times the pattern's signs.
    pub fn matches(&self, value: &str) -> bool {
        if self.signs.is_empty() || value.is_empty() {
            return self.signs.is_empty() && value.is_empty();
        }
        let (mut at, mut rest) = (0, value.chars());
        // The sign after the last `*`, and what may still follow the text that the `*` stands for.
        let mut retry = None;
        loop {
            match (self.signs.get(at), rest.clone().next()) {
                (Some(Sign::Many), _) => {
                    at += 1;
                    if at == self.signs.len() {
                        return true;
                    }
                    retry = Some((at, rest.clone()));
                    continue;
                }
                (None, None) => return true,
                // A longer text for the last `*` leaves even less for what follows it.
                (Some(_), None) => return false,
                (Some(sign), Some(found)) if *sign == Sign::Any || *sign == Sign::One(found) => {
                    at += 1;
                    rest.next();
                    continue;
                }
                (_, Some(_)) => {}
            }
            let Some((after, from)) = &mut retry else { return false };
            from.next();
            (at, rest) = (*after, from.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn matches(pattern: &str, value: &str) -> bool {
        Glob::parse(pattern).unwrap().matches(value)
    }

    #[test]
    fn signs_mean_what_they_should() {
        for (pattern, value, expected) in [
            ("team-*", "team-", true),
            ("team-*", "team-a/b.c", true),
            ("team-*", "a-team-", false),
            ("*-prod", "a-prod-prod", true),
            ("a?c", "aéc", true),
            ("a?c", "ac", false),
            ("[a]{b}", "[a]{b}", true),
            (r"\*\?\\", r"*?\", true),
            (r"\*", "x", false),
            ("*", "x", true),
            ("*", "", false),
            ("", "", true),
            ("", "x", false),
            ("?", "", false),
        ] {
            assert_eq!(matches(pattern, value), expected, "{pattern} on {value}");
        }
        assert_eq!(Glob::parse("a\\"), Err("a character after the last \\"));
        assert!(Glob::parse(&"x".repeat(257)).is_err() && Glob::parse("a\n").is_err());
    }

    /// One that tries every way would not end before the sun does.
    #[test]
    fn a_hostile_pattern_takes_no_longer_than_its_length_times_the_values() {
        let pattern = format!("{}b", "a*".repeat(120));
        assert!(!matches(&pattern, &"a".repeat(20_000)));
        assert!(matches(&pattern, &format!("{}b", "a".repeat(20_000))));
        assert!(!matches(&"*?".repeat(100), &"é".repeat(99)));
    }

    /// What the signs mean, said as plainly as it can be, and too slow for anything but a test.
    fn model(pattern: &[char], value: &[char]) -> bool {
        match pattern {
            [] => value.is_empty(),
            ['*', rest @ ..] => (0..=value.len()).any(|taken| model(rest, &value[taken..])),
            ['?', rest @ ..] => !value.is_empty() && model(rest, &value[1..]),
            ['\\', sign, rest @ ..] | [sign, rest @ ..] => value.first() == Some(sign) && model(rest, &value[1..]),
        }
    }

    proptest! {
        #[test]
        fn it_is_the_model(pattern in r"([ab*?é]|\\[ab*?\\]){0,8}", value in r"[ab*?é\\]{1,9}") {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            prop_assert_eq!(matches(&pattern, &value), model(&chars(&pattern), &chars(&value)));
        }

        #[test]
        fn no_text_makes_it_panic(pattern in ".{0,80}", value in ".{0,80}") {
            if let Ok(glob) = Glob::parse(&pattern) {
                glob.matches(&value);
                prop_assert_eq!(glob.as_str(), pattern);
            }
        }
    }
}
