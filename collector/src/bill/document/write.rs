//! Values to the canonical text of a document: keys in a fixed order, none for what is as it would be without.

use std::fmt::Write;

use jiff::Timestamp;
use sha2::{Digest, Sha256};

use crate::bill::decimal;
use crate::bill::prices::hex;

/// A document that is being written.
#[derive(Debug, Default)]
pub struct Writer {
    text: String,
}

impl Writer {
    /// A document that begins with a comment.
    pub fn new(comment: &str) -> Self {
        Self { text: format!("# {comment}\n") }
    }

    /// Begins a table: `[name]`, or `[[name]]` of an array of them.
    pub fn header(&mut self, header: &str) {
        _ = writeln!(self.text, "\n{header}");
    }

    /// A value that is written as it is shown: a number, or `true`.
    pub fn plain(&mut self, key: &str, value: impl std::fmt::Display) {
        _ = writeln!(self.text, "{key} = {value}");
    }

    /// A text.
    pub fn text(&mut self, key: &str, value: &str) {
        self.plain(key, quoted(value));
    }

    /// A text, or nothing if it is empty.
    pub fn known(&mut self, key: &str, value: &str) {
        if !value.is_empty() {
            self.text(key, value);
        }
    }

    /// A decimal, from whole numbers of `10^-12`.
    pub fn decimal(&mut self, key: &str, value: i128) {
        self.text(key, &decimal::format(value));
    }

    /// An instant in UTC.
    pub fn instant(&mut self, key: &str, second: u32) {
        self.plain(key, Timestamp::from_second(second.into()).unwrap_or_default());
    }

    /// The instant from which something is valid, or nothing if that is always.
    pub fn valid_from(&mut self, second: u32) {
        if second != 0 {
            self.instant("valid_from", second);
        }
    }

    /// An array of texts, or nothing if there is none.
    pub fn texts<'v>(&mut self, key: &str, values: impl IntoIterator<Item = &'v str>) {
        let values: Vec<String> = values.into_iter().map(quoted).collect();
        if !values.is_empty() {
            self.plain(key, format!("[{}]", values.join(", ")));
        }
    }

    /// The document.
    pub fn finish(self) -> String {
        self.text
    }
}

/// A text as a basic string of TOML.
pub fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            control if control.is_control() => _ = write!(quoted, "\\u{:04X}", u32::from(control)),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

/// The id of a document: the hash of its canonical text, 64 hexadecimal digits.
pub fn id(canonical: &str) -> String {
    hex(&Sha256::digest(canonical))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// TOML's own reader reads it back.
        #[test]
        fn any_text_reads_back(text in "\\PC{0,20}", ugly in "[\\\\\"'\u{1}\u{7f}\u{85}\n\t#]{0,8}") {
            let text = text + &ugly;
            let mut writer = Writer::new("test");
            writer.text("key", &text);
            let read: toml::Table = writer.finish().parse().unwrap();
            prop_assert_eq!(read["key"].as_str().unwrap(), text);
        }
    }
}
