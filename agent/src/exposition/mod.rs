//! What was last measured, as Prometheus sees it at `/metrics`.
//!
//! The run loop hands on what each sensor measured, and who holds which device, to [`latest`]: it keeps the last of each
//! stream, and how old that is. When somebody scrapes, and only then, a snapshot of it becomes metric families: [`own`] by
//! the names of the registry, [`info`] what devices are and who holds them, and [`dcgm`], when it is wanted, the same
//! values by the names of dcgm-exporter. [`family`] puts values with their labels together. What the agent tells of itself
//! ([`crate::telemetry`]) comes beside them.
//!
//! A value that is unsupported or failed has no series, and neither has one that is too old: nothing stands for it, least
//! of all a 0. A sensor's age and for how long it is stuck are told by its stream, or else by its thread.

pub mod dcgm;
mod family;
mod info;
pub mod latest;
pub mod own;
#[cfg(test)]
mod tests;

use std::time::Instant;

use prometheus::{Encoder as _, TextEncoder};

pub use latest::{Device, Latest};

use self::family::Families;
use crate::telemetry::Telemetry;

/// What a scrape is answered with. Clones show the same.
#[derive(Clone, Debug)]
pub struct Exposition {
    latest: Latest,
    node: String,
    dcgm: bool,
}

impl Exposition {
    /// Shows what `latest` has, of this node; with dcgm-exporter's names, too, if `dcgm` is wanted.
    pub fn new(latest: Latest, node: &str, dcgm: bool) -> Self {
        Self { latest, node: node.to_owned(), dcgm }
    }

    /// Prometheus text at an instant.
    ///
    /// # Errors
    /// As [`TextEncoder`].
    pub fn text(&self, telemetry: &Telemetry, now: Instant) -> Result<Vec<u8>, prometheus::Error> {
        let snapshot = self.latest.snapshot(now);
        let mut families = Families::default();
        own::add(&mut families, &snapshot);
        info::add(&mut families, &snapshot, &self.node);
        if self.dcgm {
            dcgm::add(&mut families, &snapshot, &self.node);
        }
        let mut text = Vec::new();
        TextEncoder::new().encode(&families.beside(telemetry.gather()), &mut text)?;
        Ok(text)
    }
}
