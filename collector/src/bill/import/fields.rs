//! One line of CSV to its fields (RFC 4180, on one line).

/// Cuts a line, without its line end, into fields, with the quotes of quoted ones removed.
///
/// # Errors
/// What was expected, when a quote stands where none may, or is not closed on this line.
pub fn split(line: &str) -> Result<Vec<String>, &'static str> {
    let mut fields = Vec::with_capacity(16);
    let mut rest = line;
    loop {
        let after = if let Some(quoted) = rest.strip_prefix('"') {
            let (field, after) = unquote(quoted)?;
            fields.push(field);
            after
        } else {
            let end = rest.find(',').unwrap_or(rest.len());
            let (field, after) = rest.split_at(end);
            if field.contains('"') {
                return Err("a field with a quote in it to be quoted whole, and the quote doubled");
            }
            fields.push(field.to_owned());
            after
        };
        match after.strip_prefix(',') {
            Some(next) => rest = next,
            None if after.is_empty() => return Ok(fields),
            None => return Err("a comma or the line's end after a closing quote"),
        }
    }
}

/// The field that ends at the closing quote, and what comes after the quote.
fn unquote(quoted: &str) -> Result<(String, &str), &'static str> {
    let mut field = String::new();
    let mut rest = quoted;
    loop {
        let at = rest.find('"').ok_or("a closing quote on the same line")?;
        field.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        match rest.strip_prefix('"') {
            Some(after) => {
                field.push('"');
                rest = after;
            }
            None => return Ok((field, rest)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn quotes_are_removed_and_checked() {
        assert_eq!(split("a,,\"b,c\",\"d\"\"e\",").unwrap(), ["a", "", "b,c", "d\"e", ""]);
        assert_eq!(split("").unwrap(), [""]);
        assert_eq!(split("a,\"b"), Err("a closing quote on the same line"));
        assert_eq!(split("a,\"b\"c"), Err("a comma or the line's end after a closing quote"));
        assert_eq!(split("a,b\"c\""), Err("a field with a quote in it to be quoted whole, and the quote doubled"));
    }

    proptest! {
        /// What a well-known CSV writer writes is read back as it was.
        #[test]
        fn reads_what_another_writer_writes(fields in prop::collection::vec("[^\r\n\0]{0,12}", 2..16)) {
            let mut writer = csv::WriterBuilder::new().from_writer(Vec::new());
            writer.write_record(&fields).unwrap();
            let line = String::from_utf8(writer.into_inner().unwrap()).unwrap();
            prop_assert_eq!(split(line.trim_end_matches('\n')).unwrap(), fields);
        }

        #[test]
        fn never_panics(line in ".{0,200}") {
            let _ = split(&line);
        }
    }
}
