//! The faults in force: those of the scenario, of the control file, and those that a test has given.
//!
//! A fault is *begun* once, when its time has come (or, in the control file, when it is first listed), and *active* until
//! its time is over or it is listed no longer. The control file is looked at no more often than every [`LOOK`], and read
//! when it has changed; what is in it twice in a row does not begin again.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use crate::scenario::ScenarioError;
use crate::scenario::fault::{self, FaultSpec};

/// How often the control file is looked at, at most.
pub const LOOK: Duration = Duration::from_millis(20);

/// Every fault that there is.
#[derive(Debug, Default)]
pub struct Faults {
    scenario: Vec<Entry>,
    given: Vec<Entry>,
    listed: Vec<Entry>,
    control: Option<Control>,
}

#[derive(Debug)]
struct Entry {
    spec: FaultSpec,
    begun: bool,
}

#[derive(Debug)]
struct Control {
    path: PathBuf,
    looked: Option<Instant>,
    stamp: Option<(SystemTime, u64)>,
}

impl Faults {
    /// None.
    pub const fn none() -> Self {
        Self { scenario: Vec::new(), given: Vec::new(), listed: Vec::new(), control: None }
    }

    /// Takes over those of a scenario, and its control file.
    pub fn take_scenario(&mut self, faults: &[FaultSpec], control: Option<PathBuf>) {
        self.scenario = entries(faults.to_vec(), &[]);
        if self.control.as_ref().map(|control| &control.path) != control.as_ref() {
            self.listed = Vec::new();
            self.control = control.map(|path| Control { path, looked: None, stamp: None });
        }
    }

    /// Takes over what a test gives, in place of what it gave before.
    pub fn give(&mut self, faults: Vec<FaultSpec>) {
        self.given = entries(faults, &self.given);
    }

    /// Looks at the control file, if it is time for it. A faulty one is said on standard error, and changes nothing.
    pub fn look(&mut self, gpus: usize) {
        let Some(control) = &mut self.control else { return };
        if control.looked.is_some_and(|at| at.elapsed() < LOOK) {
            return;
        }
        control.looked = Some(Instant::now());
        let file = std::fs::metadata(&control.path).ok();
        let stamp = file.and_then(|file| Some((file.modified().ok()?, file.len())));
        if stamp == control.stamp {
            return;
        }
        control.stamp = stamp;
        match read(&control.path, gpus) {
            Ok(faults) => self.listed = entries(faults, &self.listed),
            Err(error) => eprintln!("contador's NVML simulator keeps its faults as they were: {error}"),
        }
    }

    /// Those that have begun since the last call.
    pub fn begin(&mut self, now_ms: u64) -> Vec<FaultSpec> {
        let all = self.scenario.iter_mut().chain(&mut self.given).chain(&mut self.listed);
        let begun = all.filter(|entry| !entry.begun && entry.spec.from_ms <= now_ms);
        begun
            .map(|entry| {
                entry.begun = true;
                entry.spec.clone()
            })
            .collect()
    }

    /// Those in force at `now_ms`.
    pub fn active(&self, now_ms: u64) -> impl Iterator<Item = &FaultSpec> {
        let all = self.scenario.iter().chain(&self.given).chain(&self.listed);
        all.map(|entry| &entry.spec).filter(move |spec| spec.is_active(now_ms))
    }

    /// True when nothing can happen but by a call.
    pub fn is_quiet(&self) -> bool {
        let waits = |entry: &Entry| !entry.begun || entry.spec.until_ms.is_some();
        self.control.is_none() && !self.scenario.iter().chain(&self.given).any(waits)
    }
}

/// A file that is not there lists nothing.
fn read(path: &Path, gpus: usize) -> Result<Vec<FaultSpec>, ScenarioError> {
    match std::fs::read_to_string(path) {
        Ok(text) => fault::parse(path, &text, gpus),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(source) => Err(ScenarioError::Read { path: path.to_owned(), source }),
    }
}

/// Those that were there before have begun already, each as often as it was there.
fn entries(specs: Vec<FaultSpec>, before: &[Entry]) -> Vec<Entry> {
    let mut begun: Vec<&FaultSpec> = before.iter().filter(|entry| entry.begun).map(|entry| &entry.spec).collect();
    let entry = |spec: FaultSpec| {
        let known = begun.iter().position(|known| **known == spec);
        known.map(|at| begun.swap_remove(at));
        Entry { begun: known.is_some(), spec }
    };
    specs.into_iter().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn specs(text: &str) -> Vec<FaultSpec> {
        fault::parse(Path::new("test"), text, 4).expect("faults")
    }

    const XID: &str = "[[fault]]\nkind = \"xid\"\ncode = 79\n";

    #[test]
    fn a_fault_begins_once_and_again_when_it_is_given_twice() {
        let mut faults = Faults::none();
        faults.give(specs(XID));
        assert_eq!((faults.begin(0).len(), faults.begin(1).len()), (1, 0));
        faults.give(specs(&format!("{XID}{XID}")));
        assert_eq!((faults.begin(2).len(), faults.begin(3).len()), (1, 0));
        faults.give(Vec::new());
        faults.give(specs(XID));
        assert_eq!(faults.begin(4).len(), 1);
        assert!(faults.is_quiet());
    }

    #[test]
    fn a_fault_whose_time_was_slept_through_has_begun_and_is_over() {
        let mut faults = Faults::none();
        faults.take_scenario(&specs("[[fault]]\nkind = \"restart\"\nfrom = \"1s\"\nuntil = \"2s\""), None);
        assert!(!faults.is_quiet());
        assert_eq!(faults.begin(999).len(), 0);
        assert_eq!((faults.begin(5_000).len(), faults.active(5_000).count()), (1, 0));
    }

    #[test]
    fn the_control_file_is_read_when_it_changes_and_a_faulty_one_changes_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("faults.toml");
        let mut faults = Faults::none();
        faults.take_scenario(&[], Some(path.clone()));
        let mut look = |text: Option<&str>| {
            match text {
                Some(text) => std::fs::write(&path, text).expect("a file"),
                None => std::fs::remove_file(&path).expect("no file"),
            }
            faults.control.as_mut().expect("a file").looked = None;
            faults.look(4);
            (faults.begin(0).len(), faults.active(0).count())
        };
        assert_eq!(look(Some(XID)), (1, 1));
        assert_eq!(look(Some("[[fault]]\nkind = \"none of ours\"")), (0, 1));
        assert_eq!(look(Some(&format!("{XID}[[fault]]\nkind = \"lost\"\n"))), (1, 2));
        assert_eq!(look(None), (0, 0));
    }
}
