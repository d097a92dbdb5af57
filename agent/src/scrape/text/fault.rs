//! What can be wrong with a page, and with a line of it.

/// Most characters of a line that a fault shows.
const SHOWN: usize = 80;

/// A line that can't be read.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("line {line}: {field} is {found:?}, expected {expected}")]
pub struct Fault {
    /// Number of the line, from 1.
    pub line: usize,
    /// Which part of it.
    pub field: &'static str,
    /// What is there, its beginning.
    pub found: String,
    /// What should be there.
    pub expected: &'static str,
}

impl Fault {
    /// A fault of a line whose number is not known yet.
    pub(super) fn new(field: &'static str, found: &str, expected: &'static str) -> Self {
        Self { line: 0, field, found: found.chars().take(SHOWN).collect(), expected }
    }
}

/// Why a page is not taken at all.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum PageError {
    /// OpenMetrics without its end.
    #[error("the page ends at line {0} without # EOF: it was cut")]
    Cut(usize),
    /// OpenMetrics with more after its end.
    #[error("line {0} comes after # EOF, expected the end of the page")]
    AfterEnd(usize),
    /// More samples than are taken.
    #[error("the page has more than {0} samples")]
    TooLarge(usize),
}
