//! Prometheus's text format 0.0.4 and OpenMetrics 1.0, read without copying.

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
