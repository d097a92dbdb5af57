//! One file of the kernel that is read at every tick: it stays open, and its buffer is used again.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::KernelError;

/// Room that is made for what a file has, before its size is known (files of the kernel don't tell).
const CHUNK: usize = 4 << 10;

/// A file that is kept open. After an error it is opened again at the next reading.
#[derive(Debug)]
pub struct KernelFile {
    path: PathBuf,
    file: Option<File>,
    buffer: Vec<u8>,
}

impl KernelFile {
    /// The file at `path`, which is opened when it is first read.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), file: None, buffer: Vec::new() }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All of it, as it is now.
    ///
    /// # Errors
    /// When it cannot be opened or read.
    pub fn read(&mut self) -> Result<&[u8], KernelError> {
        match self.fill() {
            Ok(length) => Ok(self.buffer.get(..length).unwrap_or_default()),
            Err(source) => {
                self.file = None;
                Err(KernelError::read(&self.path, source))
            }
        }
    }

    /// Whether the kernel says that the file has changed since the last call, or since it was opened: `true` also when
    /// that can't be known, since the file is not open, or not one that says so.
    pub fn has_changed(&self) -> bool {
        let Some(file) = &self.file else { return true };
        let is_procs = rustix::fs::fstatfs(file).is_ok_and(|about| about.f_type == rustix::fs::PROC_SUPER_MAGIC);
        if !is_procs {
            return true;
        }
        let news = PollFlags::PRI | PollFlags::ERR;
        let mut asked = [PollFd::from_borrowed_fd(file.as_fd(), PollFlags::PRI)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        match poll(&mut asked, Some(&at_once)) {
            Ok(_) => asked.iter().any(|asked| asked.revents().intersects(news)),
            Err(_) => true,
        }
    }

    fn fill(&mut self) -> io::Result<usize> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(File::open(&self.path)?),
        };
        let mut length = 0;
        loop {
            if self.buffer.len() - length < CHUNK {
                self.buffer.resize(length + 2 * CHUNK, 0);
            }
            let room = self.buffer.get_mut(length..).unwrap_or_default();
            match file.read_at(room, length as u64) {
                Ok(0) => return Ok(length),
                Ok(read) => length += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// A file that the kernel gives as a whole, as it does one line: as much of it as there is room for.
///
/// # Errors
/// When it cannot be opened or read.
pub(super) fn read_at_once<'b>(path: &Path, room: &'b mut [u8]) -> io::Result<&'b [u8]> {
    let mut file = File::open(path)?;
    loop {
        match file.read(room) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return Ok(room.get(..read?).unwrap_or_default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_as_it_is_now_and_opened_again_after_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("stat");
        let mut file = KernelFile::new(&path);
        assert!(file.read().unwrap_err().to_string().starts_with(&path.display().to_string()));
        std::fs::write(&path, "one").unwrap();
        assert_eq!(file.read().unwrap(), b"one");
        let long: Vec<u8> = (0..40_000_u32).map(|at| at.to_le_bytes()[0]).collect();
        std::fs::write(&path, &long).unwrap();
        assert_eq!(file.read().unwrap(), long);
        std::fs::write(&path, "two").unwrap();
        assert_eq!(file.read().unwrap(), b"two");
        assert!(file.has_changed(), "an ordinary file doesn't say");
    }

    #[test]
    fn the_kernel_says_when_its_mounts_have_changed() {
        let mut file = KernelFile::new("/proc/self/mountinfo");
        assert!(file.has_changed(), "it is not open yet");
        let first = file.read().unwrap().to_vec();
        // Another program may mount something meanwhile; then it is read once more.
        if file.has_changed() {
            return;
        }
        assert_eq!(file.read().unwrap(), first);
    }
}
