//! Targets of files, in the JSON of Prometheus's file_sd, which other programs write.
//!
//! ```json
//! [{"targets": ["10.0.0.5:8000", "10.0.0.6:8000"], "labels": {"service": "chat", "team": "vision"}}]
//! ```
//!
//! A file is read when it has changed. While one can't be read, or is wrong, its targets of before go on, and it is said. Some
//! labels say what a target is ([`label`]); others are of its series, but for those that begin with `__`.
//!
//! Source: <https://prometheus.io/docs/prometheus/latest/configuration/configuration/#file_sd_config>.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::Deserialize;

use super::target::{EXPECTED_URL, MAX_LABELS, METRICS_PATH, Target, is_label, whole_url};
use crate::config::OWNER_KEYS;
use crate::owners::label as text;
use crate::scrape::presets::Preset;

/// Greatest file in bytes.
const MAX_BYTES: u64 = 4 << 20;

/// Most targets of one file.
const MAX_TARGETS: usize = 4_096;

/// What tells whether a file has changed: when, its length, and its inode.
type Seen = (Option<SystemTime>, u64, u64);

/// A file.
#[derive(Clone, Debug, Default)]
struct Listed {
    seen: Option<Seen>,
    targets: Vec<Target>,
    fault: Option<String>,
}

/// All files, as they were read last.
#[derive(Clone, Debug)]
pub struct Files(BTreeMap<PathBuf, Listed>);

impl Files {
    /// These; none was read yet.
    pub fn new(paths: &[PathBuf]) -> Self {
        Self(paths.iter().map(|path| (path.clone(), Listed::default())).collect())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads those that have changed; whether any of their targets or faults has.
    pub fn look(&mut self) -> bool {
        let mut is_new = false;
        for (path, listed) in &mut self.0 {
            let before = (listed.targets.clone(), listed.fault.clone());
            match read(path, listed.seen) {
                Ok(None) => continue,
                Ok(Some((seen, targets))) => *listed = Listed { seen: Some(seen), targets, fault: None },
                // It is read again also when it has not changed: it may be half of what is being written.
                Err(fault) => (listed.seen, listed.fault) = (None, Some(fault)),
            }
            is_new |= before != (listed.targets.clone(), listed.fault.clone());
        }
        is_new
    }

    /// The targets, in the order of the files' paths.
    pub fn targets(&self) -> impl Iterator<Item = &Target> {
        self.0.values().flat_map(|listed| &listed.targets)
    }

    /// What is wrong with files.
    pub fn faults(&self) -> impl Iterator<Item = &String> {
        self.0.values().filter_map(|listed| listed.fault.as_ref())
    }
}

/// The targets of a file that is not as it was seen before; `None`: it is.
fn read(path: &Path, before: Option<Seen>) -> Result<Option<(Seen, Vec<Target>)>, String> {
    use std::os::unix::fs::MetadataExt as _;
    let wrong = |reason: String| format!("{}: {reason}", path.display());
    let file = fs::File::open(path).map_err(|error| wrong(error.to_string()))?;
    let metadata = file.metadata().map_err(|error| wrong(error.to_string()))?;
    if !metadata.is_file() || metadata.len() > MAX_BYTES {
        return Err(wrong(format!("expected a file of at most {MAX_BYTES} bytes")));
    }
    let seen = (metadata.modified().ok(), metadata.len(), metadata.ino());
    if before == Some(seen) {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut bytes).map_err(|error| wrong(error.to_string()))?;
    Ok(Some((seen, parse(&bytes).map_err(wrong)?)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    targets: Vec<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

/// The targets of a file's text.
///
/// # Errors
/// What is wrong, where, and what was expected.
pub fn parse(bytes: &[u8]) -> Result<Vec<Target>, String> {
    let groups: Vec<Group> =
        serde_json::from_slice(bytes).map_err(|error| format!("{error}, expected a list of targets with labels"))?;
    let mut all = Vec::new();
    for (number, Group { targets, labels }) in groups.into_iter().enumerate() {
        let wrong = |reason: String| format!("group {}: {reason}", number + 1);
        if labels.len() > MAX_LABELS || all.len() + targets.len() > MAX_TARGETS {
            let (has, most) = (labels.len(), all.len() + targets.len());
            return Err(wrong(format!(
                "{has} labels and {most} targets, expected {MAX_LABELS} and {MAX_TARGETS} at most"
            )));
        }
        let (mut scheme, mut path) = ("http", METRICS_PATH);
        let mut group = Target::default();
        for (name, value) in &labels {
            match name.as_str() {
                "__scheme__" => scheme = value,
                "__metrics_path__" => path = value,
                _ => label(&mut group, name, value).map_err(wrong)?,
            }
        }
        if group.service.is_empty() {
            group.service = group.labels.remove("job").unwrap_or_default();
        }
        for address in targets {
            let url = whole_url(&address, scheme, path);
            let url =
                url.map_err(|_| wrong(format!("target is {}, expected {EXPECTED_URL}", text::shown(&address))))?;
            all.push(Target { url, ..group.clone() });
        }
    }
    Ok(all)
}

/// What a label says of a target.
fn label(target: &mut Target, name: &str, value: &str) -> Result<(), String> {
    let is_ours = name.starts_with("__");
    if !is_ours && (!text::is_valid(value) || !is_label(name)) {
        let (name, value) = (text::shown(name), text::shown(value));
        return Err(format!(
            "label {name} is {value}, expected {} with a name of letters, digits and _",
            text::EXPECTED
        ));
    }
    match name {
        "service" => target.service = value.to_owned(),
        "environment" => target.environment = value.to_owned(),
        "model" => target.model = value.to_owned(),
        "device" => target.device = value.to_owned(),
        "preset" => {
            target.preset = match value {
                "auto" => None,
                name => Some(name.parse::<Preset>().map_err(|error| error.to_string())?),
            }
        }
        _ if is_ours => {}
        name if OWNER_KEYS.contains(&name) => _ = target.owner.set(name, value),
        name => _ = target.labels.insert(name.to_owned(), value.to_owned()),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_say_what_a_target_is() {
        let text = r#"[
            {"targets": ["10.0.0.5:8000", "10.0.0.6:8000"], "labels": {"job": "chat", "team": "a", "__meta_x": "y"}},
            {"targets": ["ranker:9000"], "labels": {"__scheme__": "https", "__metrics_path__": "/stats", "job": "j",
              "service": "ranker", "preset": "triton", "environment": "lab", "model": "m", "device": "GPU-1", "department": "d"}}
        ]"#;
        let targets = parse(text.as_bytes()).unwrap();
        let urls: Vec<&str> = targets.iter().map(|target| target.url.as_str()).collect();
        let expected = ["http://10.0.0.5:8000/metrics", "http://10.0.0.6:8000/metrics", "https://ranker:9000/stats"];
        assert_eq!(urls, expected);
        assert_eq!((targets[0].service.as_str(), targets[0].labels.len()), ("chat", 1));
        let ranker = &targets[2];
        assert_eq!((ranker.service.as_str(), ranker.labels["job"].as_str()), ("ranker", "j"));
        assert_eq!((ranker.preset, ranker.owner.department.as_str()), (Some(Preset::Triton), "d"));
        assert_eq!((ranker.environment.as_str(), ranker.model.as_str(), ranker.device.as_str()), ("lab", "m", "GPU-1"));
    }

    #[test]
    fn a_file_that_is_wrong_keeps_what_it_said_before() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("targets.json");
        let mut files = Files::new(std::slice::from_ref(&path));
        let told = |files: &Files| (files.targets().count(), files.faults().next().cloned());
        assert!(files.look());
        let missing = format!("{}: No such file or directory (os error 2)", path.display());
        assert_eq!(told(&files), (0, Some(missing)));
        assert!(!files.look(), "it is as it was");
        fs::write(&path, r#"[{"targets": ["a:1", "b:1"]}]"#).unwrap();
        assert!(files.look());
        assert_eq!(told(&files), (2, None));
        assert!(!files.look());
        for (text, expected) in [
            ("[{", "EOF while parsing"),
            (r#"[{"target": []}]"#, "unknown field `target`"),
            (r#"[{"targets": ["a:1"], "labels": {"preset": "vlm"}}]"#, "group 1: preset is \"vlm\", expected one of"),
            (r#"[{"targets": []}, {"targets": ["a b"]}]"#, "group 2: target is \"a b\", expected host:port"),
            (r#"[{"targets": [], "labels": {"a": "\u0007"}}]"#, "group 1: label \"a\" is \"\\u{7}\", expected UTF-8"),
        ] {
            fs::write(&path, text).unwrap();
            assert!(files.look(), "{text}");
            let (count, fault) = told(&files);
            let fault = fault.unwrap_or_default();
            assert!(count == 2 && fault.contains(expected), "{fault}");
        }
        fs::write(&path, "[]").unwrap();
        assert!(files.look());
        assert_eq!(told(&files), (0, None));
    }
}
