//! What a label may be: the same for pushes, `exec` and the node's name.

/// Longest label in bytes.
pub const MAX_BYTES: usize = 256;

/// What is expected of a label.
pub const EXPECTED: &str = "UTF-8 of at most 256 bytes without control characters";

/// Longest part of a faulty label that a message shows, in characters.
const SHOWN_CHARS: usize = 40;

/// Whether `value` may be a label; it may be empty.
pub fn is_valid(value: &str) -> bool {
    value.len() <= MAX_BYTES && !value.chars().any(char::is_control)
}

/// Checks a label that must not be empty, for the command line.
///
/// # Errors
/// What is wrong, with what was expected.
pub fn given(value: &str) -> Result<String, String> {
    if value.trim().is_empty() {
        return Err(format!("it is empty, expected {EXPECTED}"));
    }
    if !is_valid(value) {
        return Err(format!("it is {}, expected {EXPECTED}", shown(value)));
    }
    Ok(value.to_owned())
}

/// A value for a message: quoted, escaped and shortened.
pub fn shown(value: &str) -> String {
    let count = value.chars().count();
    if count <= SHOWN_CHARS {
        return format!("{value:?}");
    }
    let start: String = value.chars().take(SHOWN_CHARS).collect();
    format!("{start:?}… of {} bytes", value.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_short_text() {
        assert!(is_valid("") && is_valid("España/α") && is_valid(&"x".repeat(256)));
        for wrong in ["a\0", "a\nb", "\u{1b}[31m", "\u{85}", &"x".repeat(257)] {
            assert!(!is_valid(wrong) && given(wrong).unwrap_err().ends_with(EXPECTED));
        }
        assert!(given(" ").is_err());
        assert_eq!(shown("\u{1b}[31m"), r#""\u{1b}[31m""#);
        assert_eq!(shown(&"x".repeat(60_000)), format!("\"{}\"… of 60000 bytes", "x".repeat(40)));
    }
}
