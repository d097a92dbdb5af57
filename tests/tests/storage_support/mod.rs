//! A machine faked by a directory, and what samples of it say.
#![allow(dead_code, reason = "each test uses its part")]
#![allow(clippy::unwrap_used, reason = "a test ends at what it does not expect")]

use std::fs;
use std::path::PathBuf;

use contador_agent::sensors::{KernelSample, Measure, Number};
use contador_schemas::names;
use tempfile::TempDir;

/// The directory.
pub struct Machine(TempDir);

impl Machine {
    /// An empty one.
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// Where something of it is.
    pub fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    /// Makes a directory.
    pub fn dir(&self, path: &str) {
        fs::create_dir_all(self.path(path)).unwrap();
    }

    /// Writes a file.
    pub fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

/// The value with exactly these attributes.
pub fn value(sample: &KernelSample, metric: &str, attributes: &[(&str, &str)]) -> Option<Number> {
    sample.measures.reading_as(metric, attributes)?.get()
}

/// Every value of the metric that has at least these attributes.
pub fn counted(sample: &KernelSample, metric: &str, attributes: &[(&str, &str)]) -> Vec<u64> {
    let has_all = |measure: &&Measure| attributes.iter().all(|wanted| measure.attributes().any(|own| own == *wanted));
    let found = sample.measures.iter().filter(|measure| measure.metric == metric).filter(has_all);
    found.filter_map(|measure| measure.reading.get()?.count()).collect()
}

/// Each mount that the sample tells of, and whether it is reachable.
pub fn mounts_seen(sample: &KernelSample) -> Vec<(&str, u64)> {
    let found = sample.measures.iter().filter(|measure| measure.metric == names::MOUNT_REACHABLE);
    found
        .filter_map(|measure| {
            let point = measure.attributes().find(|(name, _)| *name == names::MOUNTPOINT)?.1;
            Some((point, measure.reading.get()?.count()?))
        })
        .collect()
}

/// Whether a mount is reachable, if the sample tells.
pub fn reachable(sample: &KernelSample, point: &str) -> Option<u64> {
    mounts_seen(sample).into_iter().find(|(seen, _)| *seen == point).map(|(_, up)| up)
}
