//! Who is to be scraped now: the configuration's targets, those of its files, and the pods of this node.

use std::collections::BTreeMap;
use std::sync::Arc;

use uuid::Uuid;

use super::files::Files;
use super::target::Target;
use super::told::Told;
use crate::config::{PodsScraped, Scrape};

/// Who is to be scraped, by id.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Wanted {
    /// Each address once.
    pub targets: BTreeMap<Uuid, Arc<Target>>,
    /// What is wrong with some of them, and how many were left out.
    pub remarks: Vec<String>,
}

/// Who is to be scraped. What the configuration says of an address counts before what files say of it, and that before what a
/// pod says. Beyond the most that there may be, those that come last in this order are left out.
pub fn wanted(config: &Scrape, files: &Files, told: &Told) -> Wanted {
    let mut remarks: Vec<String> = files.faults().cloned().collect();
    let mut pods: Vec<&Target> = Vec::new();
    if config.pods != PodsScraped::Off {
        for serving in told.servers() {
            let pod = &serving.pod;
            let is_meant =
                config.pods == PodsScraped::Annotated || serving.is_meant || told.has_device(&pod.namespace, &pod.name);
            match &serving.target {
                Ok(target) if is_meant => pods.push(target),
                Err(reason) if is_meant => remarks.push(format!("{reason}: it is not scraped")),
                _ => {}
            }
        }
    }
    let mut by_url: BTreeMap<&str, ()> = BTreeMap::new();
    let (mut targets, mut left_out) = (BTreeMap::new(), 0_usize);
    for target in config.targets.iter().chain(files.targets()).chain(pods) {
        if by_url.insert(&target.url, ()).is_some() {
            continue;
        }
        if targets.len() < config.max_targets {
            targets.insert(target.id(), Arc::new(target.clone()));
        } else {
            left_out += 1;
        }
    }
    if left_out > 0 {
        remarks.push(format!(
            "{left_out} servers are not scraped, expected at most {} (scrape.max_targets)",
            config.max_targets
        ));
    }
    Wanted { targets, remarks }
}
