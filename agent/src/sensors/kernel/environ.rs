//! `/proc/PID/environ`, as proc_pid_environ(5) has it: what a process was started with, `NAME=value`, each ended by NUL.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// Most of an environment that is read, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// The environment that a process was started with, of which a name may be there more than once.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Environ(Vec<u8>);

impl Environ {
    /// Of this process under `proc` (`/proc`), at most 1 MiB of it.
    ///
    /// # Errors
    /// When there is no such process, or it is somebody else's and this one may not look at it.
    pub fn read(proc: &Path, pid: u32) -> io::Result<Self> {
        let file = File::open(proc.join(pid.to_string()).join("environ"))?;
        let mut bytes = Vec::new();
        file.take(MAX_BYTES).read_to_end(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// Whether it has nothing: so is one that has no program yet.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Each variable's name and value, in their order. Both are bytes; what has no `=` is none.
    pub fn variables(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.0.split(|byte| *byte == 0).filter_map(|entry| {
            let (name, value) = entry.split_at_checked(entry.iter().position(|byte| *byte == b'=')?)?;
            Some((name, value.get(1..)?))
        })
    }
}

impl From<&[u8]> for Environ {
    /// As the kernel has it.
    fn from(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn it_is_what_a_process_was_started_with() {
        let mut child = std::process::Command::new("sleep").arg("600").env_clear().env("A", "b=c").spawn().unwrap();
        let start = std::time::Instant::now();
        let read = || Environ::read(Path::new("/proc"), child.id()).unwrap();
        // It is a copy of this process until it has its program.
        while read().variables().collect::<Vec<_>>() != [(&b"A"[..], &b"b=c"[..])] {
            assert!(start.elapsed().as_secs() < 60, "{:?}", read());
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Environ::read(dir.path(), 7).unwrap_err().kind(), io::ErrorKind::NotFound);
        let process = dir.path().join("7");
        std::fs::create_dir(&process).unwrap();
        std::fs::write(process.join("environ"), vec![b'x'; 2 << 20]).unwrap();
        assert_eq!(Environ::read(dir.path(), 7).unwrap().0.len(), 1 << 20);
    }

    #[test]
    fn what_has_no_sign_is_no_variable() {
        let environ = Environ::from(&b"A=1\0junk\0=x\0B=\0\0\xff=\xfe\0C=2"[..]);
        let found: Vec<_> = environ.variables().collect();
        let expected: [(&[u8], &[u8]); 5] = [(b"A", b"1"), (b"", b"x"), (b"B", b""), (b"\xff", b"\xfe"), (b"C", b"2")];
        assert_eq!(found, expected);
        assert!(Environ::default().is_empty() && Environ::default().variables().next().is_none());
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(of in proptest::collection::vec(("[A-Z_]{0,5}", "[a-z=]{0,5}"), 0..8)) {
            let text: String = of.iter().map(|(name, value)| format!("{name}={value}\0")).collect();
            let environ = Environ::from(text.as_bytes());
            let found: Vec<_> = environ.variables().collect();
            let written: Vec<_> = of.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
            prop_assert_eq!(found, written);
        }
    }
}
