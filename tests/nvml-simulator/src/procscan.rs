//! Finds processes by an entry of their environment.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The PIDs under `root` (`/proc`) whose environment has exactly one of `entries` (`KEY=value`), by entry, rising.
///
/// Processes that end meanwhile, that belong to others, or that are zombies have no readable environment and are
/// not found.
pub fn holders(root: &Path, entries: &BTreeSet<String>) -> BTreeMap<String, Vec<u32>> {
    let mut found: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    let Ok(processes) = fs::read_dir(root) else { return found };
    for process in processes.flatten() {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let Ok(environ) = fs::read(process.path().join("environ")) else { continue };
        for entry in entries {
            if environ.split(|&byte| byte == 0).any(|variable| variable == entry.as_bytes()) {
                found.entry(entry.clone()).or_default().push(pid);
            }
        }
    }
    found.values_mut().for_each(|pids| pids.sort_unstable());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_entries_of_numbered_directories_count() {
        let root = tempfile::tempdir().expect("a directory");
        for (name, environ) in
            [("7", "JOB=a\0"), ("30", "PATH=/bin\0JOB=a"), ("4", "JOB=ab\0XJOB=a\0"), ("5", ""), ("self", "JOB=a\0")]
        {
            fs::create_dir(root.path().join(name)).expect("a process");
            fs::write(root.path().join(name).join("environ"), environ).expect("its environment");
        }
        fs::create_dir(root.path().join("6")).expect("a process without a readable environment");
        let entries = BTreeSet::from(["JOB=a".to_owned(), "JOB=c".to_owned()]);
        assert_eq!(holders(root.path(), &entries), BTreeMap::from([("JOB=a".to_owned(), vec![7, 30])]));
        assert!(holders(Path::new("/nonexistent"), &entries).is_empty());
    }
}
