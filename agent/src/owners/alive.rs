//! Whether processes are still there, asked of all of them at once and without reading anything.
//!
//! A pidfd (`pidfd_open(2)`) stands for one process, and never for another that has its PID later; it becomes readable when
//! the process has ended, also before its parent has collected it. An epoll instance tells which of them are, at a cost that
//! does not grow with their number. There is no pidfd where the kernel is older than 5.3, for a folder that stands for
//! `/proc`, and where `/proc` numbers other processes than this program sees.

use std::collections::HashMap;
use std::fs;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::PathBuf;

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// Processes that are watched until they end.
#[derive(Debug)]
pub struct Watched {
    proc: PathBuf,
    most: usize,
    epoll: Option<OwnedFd>,
    files: HashMap<u32, OwnedFd>,
    tries: u64,
}

impl Watched {
    /// None yet, of those in `proc` (`/proc`), and at most so many at once: each is an open file.
    pub fn new(proc: PathBuf, most: usize) -> Self {
        Self { proc, most, epoll: epoll::create(epoll::CreateFlags::CLOEXEC).ok(), files: HashMap::new(), tries: 0 }
    }

    /// Whether the process that has this PID is watched from now on, if it was not already; not when too many are.
    pub fn watch(&mut self, pid: u32) -> bool {
        if !self.files.contains_key(&pid) && !self.is_full() {
            self.tries += 1;
            self.files.extend(self.open(pid).map(|file| (pid, file)));
        }
        self.files.contains_key(&pid)
    }

    /// Whether there are as many as may be.
    pub fn is_full(&self) -> bool {
        self.files.len() >= self.most
    }

    /// How often it was tried to watch one, which costs some calls into the kernel.
    pub fn tries(&self) -> u64 {
        self.tries
    }

    fn open(&self, pid: u32) -> Option<OwnedFd> {
        let file = pidfd_open(Pid::from_raw(i32::try_from(pid).ok()?)?, PidfdFlags::empty()).ok()?;
        // What `proc` calls the process that the file stands for.
        let info = fs::read_to_string(self.proc.join("self/fdinfo").join(file.as_raw_fd().to_string())).ok()?;
        let told = info.lines().find_map(|line| line.strip_prefix("Pid:"))?.trim().parse();
        let data = epoll::EventData::new_u64(pid.into());
        epoll::add(self.epoll.as_ref()?, &file, data, epoll::EventFlags::IN).ok()?;
        (told == Ok(pid)).then_some(file)
    }

    /// Those that have ended, each told once, and not watched any more; all of them when the kernel does not tell.
    pub fn take_ended(&mut self) -> Vec<u32> {
        let Some(epoll) = self.epoll.as_ref().filter(|_| !self.files.is_empty()) else { return Vec::new() };
        let mut events = Vec::with_capacity(self.files.len());
        let ended: Vec<u32> = match epoll::wait(epoll, spare_capacity(&mut events), Some(&Timespec::default())) {
            Ok(_) => events.iter().filter_map(|event| u32::try_from(event.data.u64()).ok()).collect(),
            Err(_) => self.files.keys().copied().collect(),
        };
        ended.iter().for_each(|pid| self.forget(*pid));
        ended
    }

    /// Watches a process no more.
    pub fn forget(&mut self, pid: u32) {
        // What is closed leaves the epoll instance.
        self.files.remove(&pid);
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn watched() -> Watched {
        Watched::new("/proc".into(), 3)
    }

    #[test]
    fn a_process_that_has_ended_is_told_before_it_is_collected() {
        let mut children = [(); 3].map(|()| Command::new("sleep").arg("600").spawn().unwrap());
        let mut watched = watched();
        assert!(watched.take_ended().is_empty());
        for child in &children {
            assert!(watched.watch(child.id()) && watched.watch(child.id()));
        }
        assert!(watched.take_ended().is_empty() && !watched.watch(std::process::id()), "three at most");
        // Nobody asks for it any more.
        watched.forget(children[2].id());
        children[2].kill().unwrap();
        children[0].kill().unwrap();
        let start = std::time::Instant::now();
        let ended = loop {
            let ended = watched.take_ended();
            assert!(start.elapsed().as_secs() < 60);
            if !ended.is_empty() {
                break ended;
            }
            std::thread::yield_now();
        };
        assert_eq!(ended, [children[0].id()]);
        assert!(watched.take_ended().is_empty(), "once");
        children[0].wait().unwrap();
        assert!(!watched.watch(children[0].id()), "it is gone");
        children[1].kill().unwrap();
        children[1].wait().unwrap();
        children[2].wait().unwrap();
        assert_eq!(watched.take_ended(), [children[1].id()]);
    }

    #[test]
    fn a_folder_that_stands_for_proc_has_processes_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let own = std::process::id();
        fs::create_dir_all(dir.path().join(own.to_string())).unwrap();
        assert!(!Watched::new(dir.path().to_owned(), 3).watch(own));
        let mut watched = watched();
        assert!(watched.watch(own) && !watched.watch(0) && !watched.watch(u32::MAX));
    }
}
