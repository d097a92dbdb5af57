//! Disk and mount samples: one row of all metrics of one block device, or of one mount, at one instant.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use contador_schemas::names::{self, Group, MetricName};
use contador_schemas::rows::StorageSample;

use super::Point;
use super::columns::{Columns, Place};
use super::reject::Reason;

static COLUMNS: LazyLock<Columns<StorageSample>> =
    LazyLock::new(|| Columns::of(Group::Storage, &[names::SYSTEM_DEVICE, names::MOUNTPOINT]));

/// Samples by node, device and Unix milliseconds.
#[derive(Default)]
pub(super) struct Samples(BTreeMap<(String, String, i64), StorageSample>);

/// Where the point belongs, when it names a node and what the metric is of: a disk, by the kernel's name, or a mount, by its
/// path. A mount may say its device, a disk has no mount point. A path begins with a slash and a disk's name does not, so
/// that no disk and mount ever share a row.
pub(super) fn place(metric: &MetricName, point: &Point<'_>) -> Option<&'static Place<StorageSample>> {
    let mount = point.attributes.get(names::MOUNTPOINT);
    let names_it = if is_of_disks(metric) {
        mount.is_none() && point.attributes.get(names::SYSTEM_DEVICE).is_some_and(|disk| !disk.starts_with('/'))
    } else {
        mount.is_some_and(|path| path.starts_with('/'))
    };
    COLUMNS.place(metric, point.attributes).filter(|_| names_it && !point.node().is_empty())
}

/// Whether a metric of [`Group::Storage`] is of block devices; the others are of mounts.
fn is_of_disks(metric: &MetricName) -> bool {
    metric.name.split('.').any(|part| part == "disk")
}

impl Samples {
    pub(super) fn add(
        &mut self,
        metric: &MetricName,
        place: &Place<StorageSample>,
        point: &Point<'_>,
    ) -> Result<(), Reason> {
        let Some(value) = point.value else { return Ok(()) };
        let value = place.read(value)?;
        let (named, kind) =
            if is_of_disks(metric) { (names::SYSTEM_DEVICE, "disk") } else { (names::MOUNTPOINT, "mount") };
        let key = (point.node(), point.attributes.owned(named), point.millis());
        let row = self.0.entry(key).or_insert_with_key(|(node, device, ts)| StorageSample {
            ts: *ts,
            node: node.clone(),
            device: device.clone(),
            kind: kind.to_owned(),
            ..StorageSample::default()
        });
        row.simulated |= point.simulated();
        place.put(row, value)
    }

    pub(super) fn finish(self) -> Vec<StorageSample> {
        self.0.into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_and_mounts_are_told_by_their_metrics() {
        let of_disks = |name: &str| is_of_disks(names::metric(name).unwrap());
        assert!([names::DISK_IO, names::DISK_OPERATION_TIME, names::DISK_IN_FLIGHT].into_iter().all(of_disks));
        assert!(of_disks(names::DISK_WEIGHTED_IO_TIME) && of_disks(names::DISK_IO_TIME));
        let mounts = [names::FILESYSTEM_USAGE, names::FILESYSTEM_INODES, names::MOUNT_REACHABLE, names::NFS_IO];
        assert!(!mounts.into_iter().any(of_disks));
    }
}
