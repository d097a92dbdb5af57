//! Forms: clients send a query's parameters as `multipart/form-data` when they don't fit into a URL.

use super::error::Failure;

/// One field of a form.
#[derive(Debug, PartialEq, Eq)]
pub struct Field<'a> {
    /// Its name.
    pub name: String,
    /// A file's name, if it is a file.
    pub file: Option<String>,
    /// Its value.
    pub value: &'a [u8],
}

/// Reads a form's fields.
///
/// # Errors
/// A form that does not follow its boundary.
pub fn fields<'a>(body: &'a [u8], boundary: &str) -> Result<Vec<Field<'a>>, Failure> {
    let bad = |what: &str| {
        Failure::new(36, "BAD_ARGUMENTS", format!("the form cannot be read: {what}; expected multipart/form-data"))
    };
    if boundary.is_empty() {
        return Err(bad("its header names no boundary"));
    }
    let mark = format!("--{boundary}");
    let between = format!("\r\n--{boundary}");
    let start = find(body, mark.as_bytes()).ok_or_else(|| bad("its boundary is not there"))?;
    let mut rest = &body[start + mark.len()..];
    let mut fields = Vec::new();
    while !rest.starts_with(b"--") {
        let head_end = find(rest, b"\r\n\r\n").ok_or_else(|| bad("a field has no end of its headers"))?;
        let head = String::from_utf8_lossy(&rest[..head_end]).into_owned();
        let data = &rest[head_end + 4..];
        let end = find(data, between.as_bytes()).ok_or_else(|| bad("a field has no end"))?;
        let name = attribute(&head, "name").ok_or_else(|| bad("a field has no name"))?;
        fields.push(Field { name, file: attribute(&head, "filename"), value: &data[..end] });
        rest = &data[end + between.len()..];
    }
    Ok(fields)
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}

/// An attribute of the field's `Content-Disposition`, without its quotes.
fn attribute(head: &str, name: &str) -> Option<String> {
    let line = head.lines().find(|line| line.to_ascii_lowercase().starts_with("content-disposition:"))?;
    line.split(';').map(str::trim).find_map(|part| {
        let (key, value) = part.split_once('=')?;
        key.eq_ignore_ascii_case(name).then(|| value.trim_matches('"').to_owned())
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn fields_keep_their_bytes() {
        let body = b"--x\r\nContent-Disposition: form-data; name=\"param_a\"\r\n\r\n1\r\n2\r\n--x\r\n\
            content-disposition: form-data; name=\"t\"; filename=\"f\"\r\nContent-Type: a/b\r\n\r\n\xff\r\n--x--\r\n";
        let read = fields(body, "x").expect("a form");
        assert_eq!(read.len(), 2);
        assert_eq!((read[0].name.as_str(), read[0].value), ("param_a", &b"1\r\n2"[..]));
        assert_eq!((read[1].file.as_deref(), read[1].value), (Some("f"), &b"\xff"[..]));
    }

    #[test]
    fn a_form_without_an_end_is_refused() {
        assert_eq!(fields(b"--x\r\nContent-Disposition: form-data; name=a\r\n\r\n1", "x").map_err(|f| f.code), Err(36));
        assert_eq!(fields(b"", "x").map_err(|f| f.code), Err(36));
        assert_eq!(fields(b"--\r\n\r\n", "").map_err(|f| f.code), Err(36));
    }

    proptest! {
        #[test]
        fn any_form_is_read_or_refused(body in "(--x|\r\n|--|name=a|content-disposition: form-data; |[a-z\"]){0,12}") {
            match fields(body.as_bytes(), "x") {
                Ok(read) => prop_assert!(read.iter().all(|field| field.value.len() < body.len())),
                Err(failure) => prop_assert_eq!(failure.code, 36),
            }
        }
    }
}
