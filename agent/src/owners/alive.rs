//! Whether processes are still there, asked of all of them at once and without reading anything.
//!
//! A pidfd (`pidfd_open(2)`) stands for one process, and never for another that has its PID later; it becomes readable when
//! the process has ended, also before its parent has collected it. There is none where the kernel is older than 5.3, for a
//! folder that stands for `/proc`, and where `/proc` numbers other processes than this program sees.

use std::collections::HashSet;
use std::fs;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// The file of the process that has this PID in `proc`.
pub fn pidfd(proc: &Path, pid: u32) -> Option<OwnedFd> {
    let file = pidfd_open(Pid::from_raw(i32::try_from(pid).ok()?)?, PidfdFlags::empty()).ok()?;
    // What `proc` calls the process that the file stands for.
    let info = fs::read_to_string(proc.join("self/fdinfo").join(file.as_raw_fd().to_string())).ok()?;
    let told = info.lines().find_map(|line| line.strip_prefix("Pid:"))?.trim().parse();
    (told == Ok(pid)).then_some(file)
}

/// Those of `processes` that have ended; all of them when the kernel does not tell.
pub fn ended<'f>(processes: impl Iterator<Item = (u32, &'f OwnedFd)>) -> HashSet<u32> {
    let (pids, mut files): (Vec<u32>, Vec<PollFd<'_>>) =
        processes.map(|(pid, file)| (pid, PollFd::new(file, PollFlags::IN))).unzip();
    let is_told = poll(&mut files, Some(&Timespec::default())).is_ok();
    let ended = |file: &PollFd<'_>| !is_told || !file.revents().is_empty();
    pids.into_iter().zip(&files).filter(|(_, file)| ended(file)).map(|(pid, _)| pid).collect()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_process_that_has_ended_is_told_before_it_is_collected() {
        let mut children = [(); 2].map(|()| Command::new("sleep").arg("600").spawn().unwrap());
        let pids = [children[0].id(), children[1].id()];
        let files = pids.map(|pid| pidfd(Path::new("/proc"), pid).unwrap());
        let ended = || ended(pids.into_iter().zip(&files));
        assert_eq!(ended(), HashSet::new());
        children[0].kill().unwrap();
        let start = std::time::Instant::now();
        while ended().is_empty() {
            assert!(start.elapsed().as_secs() < 60);
            std::thread::yield_now();
        }
        assert_eq!(ended(), HashSet::from([pids[0]]));
        // What has its PID now, if anything, is another process.
        children[0].wait().unwrap();
        assert_eq!(ended(), HashSet::from([pids[0]]));
        children[1].kill().unwrap();
        children[1].wait().unwrap();
    }

    #[test]
    fn a_folder_that_stands_for_proc_has_processes_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let own = std::process::id();
        fs::create_dir_all(dir.path().join(own.to_string())).unwrap();
        assert!(pidfd(dir.path(), own).is_none());
        assert!(pidfd(Path::new("/proc"), own).is_some());
        assert!(pidfd(Path::new("/proc"), 0).is_none() && pidfd(Path::new("/proc"), u32::MAX).is_none());
    }
}
