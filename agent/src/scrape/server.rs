//! What one server said, remembered from scrape to scrape.

use serde::{Deserialize, Serialize};

use super::presets::Rules;
use super::taken::Taken;
use super::text::Format;

/// The memory of one server. It can be kept on disk and goes on after that as if nothing had been.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Server {
    watched_since_ns: u64,
}

impl Server {
    /// The memory of a server that is watched from `watched_since_ns` on (Unix nanoseconds): what it counted before is a
    /// base line. What a server counted that started after it is traffic.
    pub fn new(watched_since_ns: u64) -> Self {
        Self { watched_since_ns }
    }

    /// Takes a page that was read at `at_ns` (Unix nanoseconds): what came since the last one.
    pub fn take(&mut self, _text: &str, _format: Format, _at_ns: u64, _rules: &Rules) -> Taken {
        Taken::default()
    }
}
