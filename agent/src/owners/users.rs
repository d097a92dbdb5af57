//! Names of users: from the passwd file, and of users that the machine's own does not have, from the [`directory`] that its C
//! library asks (LDAP, SSSD).

mod directory;

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use self::directory::Directory;

/// The machine's own passwd file: the one that its C library reads.
const PASSWD: &str = "/etc/passwd";

/// How often is looked whether the file has changed: when somebody wants a name, and when nobody does.
const LOOK: Duration = Duration::from_secs(1);
const IDLE_LOOK: Duration = Duration::from_secs(30);

/// The users of a passwd file, read again when it changes.
#[derive(Debug)]
pub struct Users {
    path: PathBuf,
    looked: Option<Instant>,
    changed: Option<SystemTime>,
    names: HashMap<u32, String>,
    /// How often the names in the file have been others.
    version: u64,
    /// Only beside the machine's own file: what another one stands for has users of its own.
    directory: Option<Directory>,
}

impl Users {
    /// The users in `path` (`/etc/passwd`). A file that can't be read names nobody whom it has not named before.
    pub fn new(path: PathBuf) -> Self {
        let directory = (path == Path::new(PASSWD)).then(Directory::of_machine);
        Self { path, looked: None, changed: None, names: HashMap::new(), version: 0, directory }
    }

    /// The same beside any file, with a directory that answers so.
    #[cfg(test)]
    pub(super) fn beside(path: PathBuf, ask: impl Fn(u32) -> directory::Answer + Send + 'static) -> Self {
        Self { directory: Some(Directory::new(Box::new(ask))), ..Self::new(path) }
    }

    /// The name of a user id, as far as it is known by now. It waits for the directory for no longer than a moment: what that
    /// says later is known then ([`version`](Self::version)).
    pub fn name(&mut self, uid: u32) -> Option<&str> {
        let now = Instant::now();
        self.look(now, LOOK);
        match self.names.get(&uid) {
            Some(name) => Some(name.as_str()),
            None => self.directory.as_mut()?.name(uid, now),
        }
    }

    /// Reads the file when it has changed, if the last look at it was so long ago.
    fn look(&mut self, now: Instant, every: Duration) {
        if self.looked.is_some_and(|looked| now.duration_since(looked) < every) {
            return;
        }
        self.looked = Some(now);
        let changed = fs::metadata(&self.path).and_then(|metadata| metadata.modified()).ok();
        if changed.is_some() && changed == self.changed {
            return;
        }
        let Ok(text) = fs::read_to_string(&self.path) else { return };
        self.changed = changed;
        let names = parse(&text);
        if names != self.names {
            (self.names, self.version) = (names, self.version + 1);
        }
    }

    /// Has the next call look at the file.
    #[cfg(test)]
    pub(super) fn look_again(&mut self) {
        self.looked = None;
    }

    /// Whether the directory is still being asked for this user.
    pub fn is_asking(&self, uid: u32) -> bool {
        self.directory.as_ref().is_some_and(|directory| directory.is_asking(uid))
    }

    /// Another one when somebody may have another name since, so that names are to be asked for anew: the file or the directory
    /// has named somebody, or what that has said does not hold any more. It costs next to nothing.
    pub fn version(&mut self) -> u64 {
        let now = Instant::now();
        self.look(now, IDLE_LOOK);
        self.version + self.directory.as_mut().map_or(0, |directory| directory.version(now))
    }
}

/// `name:password:uid:…` lines; the first of a uid counts, as for the C library.
fn parse(text: &str) -> HashMap<u32, String> {
    let mut names = HashMap::new();
    for line in text.lines() {
        let mut fields = line.split(':');
        let name = fields.next().filter(|name| !name.is_empty() && !name.starts_with('#'));
        if let (Some(name), Some(uid)) = (name, fields.nth(1).and_then(|uid| uid.parse().ok())) {
            names.entry(uid).or_insert_with(|| name.to_owned());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_name_of_a_user_counts() {
        let dir = tempfile::tempdir().unwrap();
        let passwd = dir.path().join("passwd");
        fs::write(&passwd, "#eva:x:7:\nana:x:1000:0::/:/bin/sh\nother:x:1000:0::/:\n:x:8:\nbroken\nneg:x:-1:\n")
            .unwrap();
        let mut users = Users::new(passwd.clone());
        for (uid, name) in [(1_000, Some("ana")), (7, None), (8, None), (0, None)] {
            assert_eq!(users.name(uid), name, "{uid}");
        }
        // A user of this machine, of whom another one's file does not tell, is not asked for.
        assert!(!users.is_asking(0) && users.version() == 1);
        // It is looked at again, is away for a while, and then names another.
        let mut names = |text: Option<&str>, second: u64| {
            match text {
                Some(text) => {
                    fs::write(&passwd, text).unwrap();
                    let changed = SystemTime::UNIX_EPOCH + Duration::from_secs(second);
                    fs::File::options().write(true).open(&passwd).unwrap().set_modified(changed).unwrap();
                }
                None => fs::remove_file(&passwd).unwrap(),
            }
            users.look_again();
            (users.version(), users.name(1_000).map(str::to_owned))
        };
        let found = |version, name: &str| (version, Some(name.to_owned()));
        assert_eq!(names(Some("ana:x:1000:\n"), 5), found(1, "ana"));
        assert_eq!(names(Some("eva:x:1000:\n"), 5), found(1, "ana"), "it has not changed");
        assert_eq!(names(None, 5), found(1, "ana"));
        assert_eq!(names(Some("eva:x:1000:\n"), 6), found(2, "eva"));
        assert_eq!(Users::new(dir.path().join("none")).name(1_000), None);
    }

    #[test]
    fn the_machine_has_the_users_that_its_library_knows() {
        let mut users = Users::new(PASSWD.into());
        assert_eq!(users.name(0), Some("root"));
        users.names.clear();
        let start = Instant::now();
        // The file is not read again: it has not changed.
        while users.name(0).is_none() {
            assert!(start.elapsed().as_secs() < 60);
        }
        assert_eq!(users.name(0), Some("root"));
    }
}
