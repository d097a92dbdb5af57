//! Words, numbers and widths of what is shown on a terminal, and their colours.
//!
//! What is coloured is marked by characters without width, so that it is laid out as if it were not. [`paint`] makes colours
//! of them, or nothing where there is no terminal.

use std::fmt::Display;

/// Marks, and the SGR code of each.
const MARKS: [(char, &str); 5] = [
    ('\u{2061}', "\x1b[32m"),
    ('\u{2062}', "\x1b[33m"),
    ('\u{2063}', "\x1b[31m"),
    ('\u{2064}', "\x1b[2m"),
    ('\u{2060}', "\x1b[0m"),
];

fn marked(mark: usize, text: impl Display) -> String {
    let (start, end) = (MARKS[mark].0, MARKS[4].0);
    format!("{start}{text}{end}")
}

/// As it should be.
pub(super) fn good(text: impl Display) -> String {
    marked(0, text)
}

/// To be looked at.
pub(super) fn warn(text: impl Display) -> String {
    marked(1, text)
}

/// Broken.
pub(super) fn bad(text: impl Display) -> String {
    marked(2, text)
}

/// Beside the point.
pub(super) fn dim(text: impl Display) -> String {
    marked(3, text)
}

/// With colours, or without.
pub(super) fn paint(text: &str, colour: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for sign in text.chars() {
        match MARKS.iter().find(|(mark, _)| *mark == sign) {
            Some((_, code)) if colour => out.push_str(code),
            Some(_) => {}
            None => out.push(sign),
        }
    }
    out
}

fn width(word: &str) -> usize {
    word.chars().filter(|sign| !MARKS.iter().any(|(mark, _)| mark == sign)).count()
}

/// One line, broken at blanks so that it fits; what follows the first line is set in by two. A word that is too long
/// stays whole.
pub(super) fn wrapped(line: &str, columns: u16) -> String {
    let (mut out, mut column) = (String::new(), 0);
    for word in line.split(' ') {
        let length = width(word);
        if column > 0 && column + 1 + length > usize::from(columns) {
            out += "\n  ";
            column = 2;
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out += word;
        column += length;
    }
    out.push('\n');
    out
}

/// Bytes in GiB.
pub(super) fn gib(bytes: f64) -> String {
    format!("{:.1}", bytes / f64::from(1 << 30))
}

/// Bytes a second in MiB.
pub(super) fn mib(bytes: f64) -> String {
    format!("{:.1}", bytes / f64::from(1 << 20))
}

/// Numbers as ranges: 0-3, 5.
pub(super) fn ranges(numbers: &[u32]) -> String {
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for &number in numbers {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => parts.push((number, number)),
        }
    }
    let shown =
        parts.iter().map(|(first, last)| if first == last { first.to_string() } else { format!("{first}-{last}") });
    shown.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_take_no_room_and_become_colours_or_nothing() {
        let line = format!("a {} c", bad("bb"));
        assert_eq!(paint(&line, false), "a bb c");
        assert_eq!(paint(&line, true), "a \x1b[31mbb\x1b[0m c");
        assert_eq!(paint(&wrapped(&line, 6), false), "a bb c\n");
        assert_eq!(paint(&wrapped(&line, 5), false), "a bb\n  c\n");
    }

    #[test]
    fn numbers_in_a_row_are_a_range() {
        assert_eq!(ranges(&[]), "");
        assert_eq!(ranges(&[0, 1, 2, 3, 5, 7, 8]), "0-3, 5, 7-8");
    }
}
