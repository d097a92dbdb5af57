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

/// How often is looked whether the file has changed.
const LOOK: Duration = Duration::from_secs(1);

/// The users of a passwd file, read again when it changes.
#[derive(Debug)]
pub struct Users {
    path: PathBuf,
    looked: Option<Instant>,
    changed: Option<SystemTime>,
    names: HashMap<u32, String>,
    /// Only beside the machine's own file: what another one stands for has users of its own.
    directory: Option<Directory>,
}

impl Users {
    /// The users in `path` (`/etc/passwd`). A file that can't be read names nobody.
    pub fn new(path: PathBuf) -> Self {
        let directory = (path == Path::new(PASSWD)).then(Directory::of_machine);
        Self { path, looked: None, changed: None, names: HashMap::new(), directory }
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
        if self.looked.is_none_or(|looked| now.duration_since(looked) >= LOOK) {
            self.looked = Some(now);
            self.read();
        }
        match self.names.get(&uid) {
            Some(name) => Some(name.as_str()),
            None => self.directory.as_mut()?.name(uid, now),
        }
    }

    fn read(&mut self) {
        let changed = fs::metadata(&self.path).and_then(|metadata| metadata.modified()).ok();
        if changed.is_none() || changed != self.changed {
            self.changed = changed;
            self.names = parse(&fs::read_to_string(&self.path).unwrap_or_default());
        }
    }

    /// Whether the directory is still being asked for this user.
    pub fn is_asking(&self, uid: u32) -> bool {
        self.directory.as_ref().is_some_and(|directory| directory.is_asking(uid))
    }

    /// Another one when the directory has named somebody since.
    pub fn version(&mut self) -> u64 {
        self.directory.as_mut().map_or(0, Directory::version)
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
        let mut users = Users::new(passwd);
        for (uid, name) in [(1_000, Some("ana")), (7, None), (8, None), (0, None)] {
            assert_eq!(users.name(uid), name, "{uid}");
        }
        // A user of this machine, of whom another one's file does not tell, is not asked for.
        assert!(!users.is_asking(0) && users.version() == 0);
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
