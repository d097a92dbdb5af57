//! Prometheus's text format 0.0.4 and OpenMetrics 1.0, read without copying.
//!
//! [`lines`] takes a page apart: [`meta`] lines say which families there are, [`sample`] lines hold the values. [`page`]
//! is what comes of it. A line that can't be read spoils its own family, no other; a page that was cut is no page at all.
//!
//! Written here because no crate does all of it: `openmetrics-parser` 0.5 is under the LGPL; `prometheus-parse` 0.2 does not
//! read names with a colon, such as vLLM's, knows neither exemplars nor the end of a page, and leaves out what it does not
//! understand without a word.

mod fault;
mod lines;
mod meta;
mod page;
mod sample;

pub use fault::{Fault, PageError};
pub use lines::{MOST_SAMPLES, parse};
pub use page::{Family, Kind, Label, Page, Sample};

/// How a page is written.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Format {
    /// Prometheus's text format.
    #[default]
    Prometheus,
    /// OpenMetrics, which says where the page ends.
    OpenMetrics,
}

impl Format {
    /// By an answer's `Content-Type`; Prometheus's format when it says nothing.
    pub fn of(content_type: &str) -> Self {
        let kind = content_type.split(';').next().unwrap_or_default().trim();
        if kind.eq_ignore_ascii_case("application/openmetrics-text") { Self::OpenMetrics } else { Self::Prometheus }
    }
}

#[cfg(test)]
mod tests;
