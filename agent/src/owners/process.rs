//! Whose a process is.
//!
//! The first of it and its ancestors whose environment names an owner decides. When none does, the owner is the user who
//! runs it and the program's name; when the environment can't be read and the user has no name, it is *unattributed*. A
//! process that does not exist is nobody's. Answers are kept by PID and start time, so that a reused PID is a new process;
//! those without labels, also where nothing could be found out, are looked up again after a while, since an `exec` may have
//! brought them: a look reads the environments of the process and of its ancestors, and a process has at most one in that
//! while. What an ancestor says is read once for all that are looked up together.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use contador_schemas::owner::{Owner, OwnerKind};

use super::labels;
use super::users::Users;

/// Most ancestors that are asked.
const MAX_ANCESTORS: usize = 64;

/// Most of an environment that is read, in bytes.
const MAX_ENVIRON_BYTES: u64 = 1 << 20;

/// How long an answer without labels is kept, in milliseconds.
const UNLABELLED_MS: i64 = 30_000;

/// The owners of processes, by what `/proc` tells.
#[derive(Debug)]
pub struct ProcessOwners {
    proc: PathBuf,
    users: Users,
    known: HashMap<(u32, u64), Known>,
    looks: u64,
}

/// What the ancestors of the processes of one call say: by PID, the owner that one names and who its parent is.
type Ancestors = HashMap<u32, (Option<Owner>, u32)>;

#[derive(Debug)]
struct Known {
    owner: Owner,
    /// `None` for ever, as labels don't change.
    until_ms: Option<i64>,
}

/// The fields of `/proc/PID/stat` that matter here.
#[derive(Debug, Eq, PartialEq)]
struct Stat {
    command: String,
    parent: u32,
    /// Clock ticks since boot.
    started: u64,
}

impl ProcessOwners {
    /// Looks under `proc` (`/proc`); names of users are in `passwd` (`/etc/passwd`).
    pub fn new(proc: PathBuf, passwd: PathBuf) -> Self {
        Self { proc, users: Users::new(passwd), known: HashMap::new(), looks: 0 }
    }

    /// The owner of each of these processes that exists, at `now_ms` (Unix milliseconds). What is known of others is
    /// forgotten.
    pub fn resolve(&mut self, pids: &[u32], now_ms: i64) -> HashMap<u32, Owner> {
        let (mut found, mut ancestors) = (HashMap::new(), Ancestors::new());
        let mut seen = HashSet::new();
        for &pid in pids {
            let Some(stat) = self.stat(pid) else { continue };
            let key = (pid, stat.started);
            seen.insert(key);
            let known = self.known.get(&key).filter(|known| known.until_ms.is_none_or(|until| now_ms < until));
            let owner = match known {
                Some(known) => known.owner.clone(),
                None => {
                    let (owner, labelled) = self.look_up(pid, &stat, &mut ancestors);
                    let until_ms = (!labelled).then_some(now_ms + UNLABELLED_MS);
                    self.known.insert(key, Known { owner: owner.clone(), until_ms });
                    owner
                }
            };
            found.insert(pid, owner);
        }
        self.known.retain(|key, _| seen.contains(key));
        found
    }

    /// How often a process was looked up so far, as opposed to known.
    pub fn looks(&self) -> u64 {
        self.looks
    }

    /// The owner, and whether it comes from labels.
    fn look_up(&mut self, pid: u32, stat: &Stat, ancestors: &mut Ancestors) -> (Owner, bool) {
        self.looks += 1;
        let uid = fs::metadata(self.proc.join(pid.to_string())).map(|metadata| metadata.uid());
        let user = uid.as_ref().ok().and_then(|&uid| self.users.name(uid)).unwrap_or_default().to_owned();
        let own = self.environ(pid);
        let readable = own.is_ok();
        let mut said = own.ok().as_deref().and_then(labels::owner_in);
        let mut parent = stat.parent;
        for _ in 0..MAX_ANCESTORS {
            if let Some(mut owner) = said {
                if owner.user.is_empty() {
                    owner.user = user;
                }
                return (owner, true);
            }
            if parent == 0 {
                break;
            }
            (said, parent) = ancestors.entry(parent).or_insert_with(|| self.ancestor(parent)).clone();
        }
        if !readable && user.is_empty() {
            return (Owner::of_kind(OwnerKind::Unattributed), false);
        }
        let user = if user.is_empty() { uid.map(|uid| uid.to_string()).unwrap_or_default() } else { user };
        (Owner { user, command: stat.command.clone(), ..Owner::default() }, false)
    }

    fn ancestor(&self, pid: u32) -> (Option<Owner>, u32) {
        let said = self.environ(pid).ok().as_deref().and_then(labels::owner_in);
        (said, self.stat(pid).map_or(0, |stat| stat.parent))
    }

    fn stat(&self, pid: u32) -> Option<Stat> {
        let bytes = fs::read(self.proc.join(pid.to_string()).join("stat")).ok()?;
        parse_stat(&String::from_utf8_lossy(&bytes))
    }

    fn environ(&self, pid: u32) -> io::Result<Vec<u8>> {
        let file = fs::File::open(self.proc.join(pid.to_string()).join("environ"))?;
        let mut bytes = Vec::new();
        file.take(MAX_ENVIRON_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

/// `pid (command) state ppid …`; the command may have any characters, parentheses and blanks too. `None` also for a
/// process that is dead and only not collected yet.
fn parse_stat(text: &str) -> Option<Stat> {
    let (open, close) = (text.find('(')?, text.rfind(')')?);
    let command = text.get(open + 1..close)?.to_owned();
    // From here on: state is field 3 of proc(5), the parent 4, the start time 22.
    let mut fields = text.get(close + 1..)?.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let started = fields.nth(17)?.parse().ok()?;
    (!matches!(state, "Z" | "X" | "x")).then_some(Stat { command, parent, started })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn process(proc: &Path, pid: u32, parent: u32, command: &str, environ: Option<&str>) {
        let dir = proc.join(pid.to_string());
        fs::create_dir_all(&dir).unwrap();
        let middle = "0 ".repeat(17);
        fs::write(dir.join("stat"), format!("{pid} ({command}) S {parent} {middle}{}", pid * 100)).unwrap();
        if let Some(environ) = environ {
            fs::write(dir.join("environ"), environ.replace(' ', "\0")).unwrap();
        }
    }

    fn owners(proc: &Path, passwd: &str) -> ProcessOwners {
        let file = proc.join("passwd");
        fs::write(&file, passwd).unwrap();
        ProcessOwners::new(proc.to_owned(), file)
    }

    #[test]
    fn a_labelled_ancestor_decides() {
        let dir = tempfile::tempdir().unwrap();
        let uid = fs::metadata(dir.path()).unwrap().uid();
        process(dir.path(), 1, 0, "init", Some(""));
        process(dir.path(), 10, 1, "bash", Some("CONTADOR_OWNER_DEPARTMENT=research CONTADOR_OWNER_PROJECT=vision"));
        process(dir.path(), 11, 10, "odd) name (", None);
        process(dir.path(), 12, 11, "python3", Some("HOME=/root"));
        process(dir.path(), 13, 1, "python3", Some("HOME=/root"));
        let mut owners = owners(dir.path(), &format!("ana:x:{uid}:0::/:/bin/sh\n"));
        let found = owners.resolve(&[11, 12, 13, 4000], 0);
        assert_eq!(found.len(), 3, "a PID that is not there is nobody's");
        let labelled =
            Owner { department: "research".into(), project: "vision".into(), user: "ana".into(), ..Owner::default() };
        assert_eq!((&found[&11], &found[&12]), (&labelled, &labelled));
        assert_eq!(found[&13], Owner { user: "ana".into(), command: "python3".into(), ..Owner::default() });
    }

    #[test]
    fn without_an_environment_and_a_name_it_is_unattributed() {
        let dir = tempfile::tempdir().unwrap();
        process(dir.path(), 7, 1, "thing", None);
        let mut nobody = owners(dir.path(), "");
        assert_eq!(nobody.resolve(&[7], 0)[&7], Owner::of_kind(OwnerKind::Unattributed));
        let uid = fs::metadata(dir.path()).unwrap().uid();
        process(dir.path(), 8, 1, "thing", Some(""));
        let owner = nobody.resolve(&[8], 0)[&8].clone();
        assert_eq!((owner.user, owner.command), (uid.to_string(), "thing".to_owned()));
    }

    #[test]
    fn a_reused_pid_is_a_new_process_and_labels_may_come_later() {
        let dir = tempfile::tempdir().unwrap();
        process(dir.path(), 7, 1, "sh", Some(""));
        let mut owners = owners(dir.path(), "");
        assert_eq!(owners.resolve(&[7], 0)[&7].command, "sh");
        process(dir.path(), 7, 1, "sh", Some("CONTADOR_OWNER_JOB=j1"));
        assert_eq!(owners.resolve(&[7], UNLABELLED_MS - 1)[&7].command, "sh");
        assert_eq!(owners.resolve(&[7], UNLABELLED_MS)[&7].job, "j1");
        fs::write(dir.path().join("7/stat"), format!("7 (new) S 1 {}9999", "0 ".repeat(17))).unwrap();
        fs::write(dir.path().join("7/environ"), "").unwrap();
        assert_eq!(owners.resolve(&[7], UNLABELLED_MS)[&7].command, "new");
        fs::write(dir.path().join("7/stat"), format!("7 (new) Z 1 {}9999", "0 ".repeat(17))).unwrap();
        assert!(owners.resolve(&[7], UNLABELLED_MS).is_empty());
    }

    #[test]
    fn this_very_process_is_found() {
        let mut owners = ProcessOwners::new("/proc".into(), "/etc/passwd".into());
        let pid = std::process::id();
        assert!(owners.resolve(&[pid], 0).contains_key(&pid));
    }
}
