//! Names of users.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::time::SystemTime;

/// The users of a passwd file, read again when it changes.
#[derive(Debug)]
pub struct Users {
    path: PathBuf,
    changed: Option<SystemTime>,
    names: HashMap<u32, String>,
}

impl Users {
    /// The users in `path` (`/etc/passwd`). A file that can't be read names nobody.
    pub fn new(path: PathBuf) -> Self {
        Self { path, changed: None, names: HashMap::new() }
    }

    /// The name of a user id.
    pub fn name(&mut self, uid: u32) -> Option<&str> {
        let changed = fs::metadata(&self.path).and_then(|metadata| metadata.modified()).ok();
        if changed.is_none() || changed != self.changed {
            self.changed = changed;
            self.names = parse(&fs::read_to_string(&self.path).unwrap_or_default());
        }
        self.names.get(&uid).map(String::as_str)
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
