//! From what is given to a whole configuration, and what one key asks of another.

use std::sync::Arc;
use std::time::Duration;

use super::fault::ConfigError;
use super::given::Given;
use super::key::Written;
use super::units::{show_duration, show_size};
use super::{Config, Kubernetes, Roots, Scrape, Slurm, raw};
use crate::outbox::SpoolLimits;
use crate::sensors::MountOptions;

pub(super) fn validate(given: &mut Given<'_>) -> Result<Config, ConfigError> {
    let node = given.get_or(raw::NODE, || Written::Text(host_name()))?;
    let interval = given.get(raw::INTERVAL)?;
    let state_dir = given.get(raw::STATE_DIR)?;
    let endpoint = given.get(raw::ENDPOINT)?;
    let compression = given.get(raw::COMPRESSION)?;
    let timeout = given.get(raw::TIMEOUT)?;
    let spool_dir = given.get_or(raw::SPOOL_DIR, || Written::from(state_dir.join("spool").into_os_string()))?;
    let max_bytes = given.get(raw::SPOOL_SIZE)?;
    // What is dropped at once must be a small part of what there is.
    let segment_bytes = given.get_or(raw::SEGMENT_SIZE, || Written::Text(show_size((max_bytes / 4).min(4 << 20))))?;
    if segment_bytes > max_bytes / 4
        && let Some(fault) = given.fault(raw::SEGMENT_SIZE, "at most a quarter of max_size")
    {
        return Err(fault);
    }
    let scrape_interval = given.get(raw::SCRAPE_INTERVAL)?;
    let scrape_timeout = given
        .get_or(raw::SCRAPE_TIMEOUT, || Written::Text(show_duration(scrape_interval.min(Duration::from_secs(3)))))?;
    if scrape_timeout > scrape_interval
        && let Some(fault) = given.fault(raw::SCRAPE_TIMEOUT, "at most scrape.interval")
    {
        return Err(fault);
    }
    let (proc, sys) = (given.get(raw::PROC)?, given.get(raw::SYS)?);
    let cgroup = given.get_or(raw::CGROUP, || Written::from(sys.join("fs/cgroup").into_os_string()))?;
    let kube_node = given.get_or(raw::KUBE_NODE, || Written::Text(node.clone()))?;
    Ok(Config {
        node,
        interval,
        state_dir,
        spool_dir,
        spool: SpoolLimits { max_bytes, segment_bytes, rejected_bytes: given.get(raw::REJECTED_SIZE)? },
        endpoint,
        compression,
        timeout,
        listen: given.get(raw::LISTEN)?,
        max_push_bytes: given.get(raw::PUSH_SIZE)?,
        dcgm: given.get(raw::DCGM)?,
        roots: Roots { proc, sys, cgroup, passwd: given.get(raw::PASSWD)?, nvml: given.find(raw::NVML)? },
        mounts: MountOptions {
            interval: given.get(raw::MOUNT_INTERVAL)?,
            max: given.get(raw::MAX_MOUNTS)?,
            exclude_points: given.get(raw::EXCLUDE_MOUNTS)?,
            exclude_types: given.get(raw::EXCLUDE_TYPES)?,
        },
        serial_numbers: given.get(raw::SERIAL_NUMBERS)?,
        kubernetes: Kubernetes {
            socket: given.get(raw::KUBELET)?,
            node: kube_node,
            api: given.find(raw::KUBE_API)?,
            token_file: given.find(raw::KUBE_TOKEN)?,
            ca_file: given.find(raw::KUBE_CA)?,
            resources: given.get(raw::KUBE_RESOURCES)?,
            requests: given.get(raw::KUBE_REQUESTS)?,
            keep_for: given.get(raw::KUBE_KEEP)?,
        },
        slurm: Slurm {
            scontrol: given.get(raw::SCONTROL)?,
            timeout: given.get(raw::SCONTROL_TIMEOUT)?,
            poll: given.get(raw::SLURM_POLL)?,
        },
        scrape: Scrape {
            interval: scrape_interval,
            timeout: scrape_timeout,
            max_bytes: given.get(raw::SCRAPE_SIZE)?,
            max_targets: given.get(raw::SCRAPE_TARGETS)?,
            files: given.get(raw::SCRAPE_FILES)?,
            pods: given.get(raw::SCRAPE_PODS)?,
            ca_file: given.find(raw::SCRAPE_CA)?,
            targets: Vec::new(),
        },
        telemetry: given.find(raw::TELEMETRY)?,
        rules: Arc::clone(&given.rules),
    })
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
