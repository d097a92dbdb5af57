//! Where the kernel accounts the I/O of control groups, and in which group a process is.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::rows::{self, Io};
use crate::sensors::kernel::text::{lines, words};

/// A hierarchy that accounts I/O.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Hierarchy {
    /// cgroup v2, mounted here, whose `io` controller is on.
    Unified(PathBuf),
    /// The `blkio` controller of v1, mounted here.
    Blkio(PathBuf),
}

/// A process's group.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Group {
    /// Path below the root of the hierarchy.
    At(String),
    /// One whose counters can't be had, and why.
    Unknown(String, &'static str),
    /// The process is gone, or in no group of this hierarchy.
    Gone,
}

impl Hierarchy {
    /// The one below `root` (`/sys/fs/cgroup`), if any.
    pub(super) fn find(root: &Path) -> Option<Self> {
        let is_on = |place: &Path| {
            let controllers = fs::read(place.join("cgroup.controllers")).unwrap_or_default();
            words(controllers.trim_ascii()).any(|controller| controller == b"io")
        };
        let unified = [root.to_owned(), root.join("unified")].into_iter().find(|place| is_on(place));
        let blkio = || Some(root.join("blkio")).filter(|place| place.is_dir());
        unified.map(Self::Unified).or_else(|| blkio().map(Self::Blkio))
    }

    /// The group that `/proc/PID/cgroup` names: `0::/path` in v2, `7:blkio,other:/path` in v1.
    pub(super) fn group_in(&self, text: &[u8]) -> Group {
        let path = lines(text).find_map(|line| {
            let mut parts = line.splitn(3, |byte| *byte == b':');
            let (id, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
            let is_this = match self {
                Self::Unified(_) => id == b"0" && controllers.is_empty(),
                Self::Blkio(_) => controllers.split(|byte| *byte == b',').any(|name| name == b"blkio"),
            };
            is_this.then(|| String::from_utf8_lossy(path).into_owned())
        });
        let Some(path) = path else { return Group::Gone };
        if path.split('/').any(|part| part == "..") {
            return Group::Unknown(path, "the group is outside the agent's own: it needs the host's cgroup namespace");
        }
        match self {
            Self::Blkio(_) => Group::At(path),
            Self::Unified(root) => accounted(root, &path),
        }
    }

    /// Whether it is v1's.
    pub(super) fn is_blkio(&self) -> bool {
        matches!(self, Self::Blkio(_))
    }

    /// What the kernel counts for a group; `None` when the group is gone.
    pub(super) fn read(&self, group: &str) -> io::Result<Option<BTreeMap<(u32, u32), Io>>> {
        let (root, files): (_, &[&str]) = match self {
            Self::Unified(root) => (root, &["io.stat"]),
            Self::Blkio(root) => (root, &["blkio.throttle.io_service_bytes", "blkio.throttle.io_serviced"]),
        };
        let dir = root.join(group.trim_start_matches('/'));
        let mut rows = BTreeMap::new();
        for name in files {
            let text = match fs::read(dir.join(name)) {
                Ok(text) => text,
                Err(error) if is_gone(&error) => return Ok(None),
                Err(error) => return Err(error),
            };
            match *name {
                "io.stat" => rows::unified(&text, &mut rows),
                "blkio.throttle.io_serviced" => rows::blkio(&text, &mut rows, rows::OPERATIONS),
                _ => rows::blkio(&text, &mut rows, rows::BYTES),
            }
        }
        Ok(Some(rows))
    }
}

/// The nearest group that the kernel accounts by itself: where its parent does not ask for that, it is the parent.
fn accounted(root: &Path, path: &str) -> Group {
    let mut group = path.trim_end_matches('/');
    while !group.is_empty() {
        if root.join(group.trim_start_matches('/')).join("io.stat").exists() {
            return Group::At(group.to_owned());
        }
        group = group.rsplit_once('/').map_or("", |(parent, _)| parent);
    }
    Group::Unknown(path.to_owned(), "the kernel counts it with the whole machine: the io controller is not on for it")
}

/// The kernel answers `ENODEV` when a group goes away while it is read.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(rustix::io::Errno::NODEV.raw_os_error())
}
