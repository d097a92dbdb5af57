//! A file system that never answers: a FUSE mount whose server reads nothing.
//!
//! Every call that has to ask it blocks until the mount is aborted. That happens when its device is closed: by
//! [`HungMount::abort`], when the [`HungMount`] is dropped, and when the process ends, however it ends. A killed process
//! leaves a mount that answers with an error; the next [`HungMount`] takes it away.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use tempfile::TempDir;

/// The source of such mounts begins so; the number of its process follows.
const SOURCE: &str = "contador-hung-";

/// A mount that hangs. Dropping it takes it away.
#[derive(Debug)]
pub struct HungMount {
    device: Option<File>,
    dir: TempDir,
}

impl HungMount {
    /// Mounts one in a directory of its own.
    ///
    /// # Errors
    /// When this machine has no FUSE, or does not let this process mount.
    pub fn new() -> io::Result<Self> {
        remove_orphans();
        let device = OpenOptions::new().read(true).write(true).open("/dev/fuse")?;
        let dir = tempfile::Builder::new().prefix("contador-hung").tempdir()?;
        let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", device.as_raw_fd());
        let options = CString::new(options)?;
        let source = format!("{SOURCE}{}", std::process::id());
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        mount(source, dir.path(), "fuse", flags, options.as_c_str())?;
        Ok(Self { device: Some(device), dir })
    }

    /// Where it is.
    pub fn point(&self) -> &Path {
        self.dir.path()
    }

    /// Has every call that waits come back with an error, as all later ones do.
    pub fn abort(&mut self) {
        self.device = None;
    }

    /// Takes it out of the tree of mounts, while calls go on waiting in it (a lazy unmount).
    ///
    /// # Errors
    /// The kernel's.
    pub fn detach(&self) -> io::Result<()> {
        Ok(unmount(self.point(), UnmountFlags::DETACH)?)
    }
}

impl Drop for HungMount {
    fn drop(&mut self) {
        self.abort();
        let _ = self.detach();
    }
}

/// Takes away what killed processes have left.
fn remove_orphans() {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    for line in mounts.lines() {
        let mut words = line.split(' ');
        let (Some(source), Some(point)) = (words.next(), words.next()) else { continue };
        let Some(process) = source.strip_prefix(SOURCE) else { continue };
        let is_digits = !process.is_empty() && process.bytes().all(|byte| byte.is_ascii_digit());
        if is_digits && !PathBuf::from("/proc").join(process).exists() {
            let _ = unmount(point, UnmountFlags::DETACH);
        }
    }
}
