//! `/proc/PID/stat`, of which proc_pid_stat(5) tells the fields.

use std::path::Path;

use super::read_at_once;

/// More than the file has, in bytes: a name of at most 64, and numbers of at most 20 digits.
const MAX_BYTES: usize = 2_048;

/// The fields that matter here.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Stat {
    /// The program's name, as the kernel cuts it.
    pub command: String,
    /// Such as `R`, `S`, `T` or `Z`.
    pub state: char,
    /// PID of the parent.
    pub parent: u32,
    /// How many threads it has; 1 when that is not told.
    pub threads: u32,
    /// Clock ticks since boot, when it was started.
    pub started: Option<u64>,
}

impl Stat {
    /// Of this process under `proc` (`/proc`); `None` when there is no such process.
    pub fn read(proc: &Path, pid: u32) -> Option<Self> {
        let mut room = [0; MAX_BYTES];
        let line = read_at_once(&proc.join(pid.to_string()).join("stat"), &mut room).ok()?;
        Self::parse(&String::from_utf8_lossy(line))
    }

    /// `pid (command) state ppid …`; the command may have any characters, parentheses and blanks too.
    fn parse(text: &str) -> Option<Self> {
        let (open, close) = (text.find('(')?, text.rfind(')')?);
        let command = text.get(open + 1..close)?.to_owned();
        // From here on: state is field 3, the parent 4, the number of threads 20, the start time 22.
        let mut fields = text.get(close + 1..)?.split_ascii_whitespace();
        let state = fields.next()?.chars().next()?;
        let parent = fields.next()?.parse().ok()?;
        let threads = fields.nth(15).and_then(|count| count.parse().ok()).unwrap_or(1);
        let started = fields.nth(1).and_then(|ticks| ticks.parse().ok());
        Some(Self { command, state, parent, threads, started })
    }

    /// Whether it has ended and is only not collected yet: its first thread has, and no other one goes on.
    pub fn is_dead(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x') && self.threads <= 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_may_have_any_characters_and_fields_may_lack() {
        let whole = Stat::parse("7 (a) b ( c) R 1 1 1 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 3 0 900 0 0").unwrap();
        assert_eq!((whole.command.as_str(), whole.state, whole.parent), ("a) b ( c", 'R', 1));
        assert_eq!((whole.threads, whole.started), (3, Some(900)));
        let short = Stat::parse("7 (sh) T 1 1 1").unwrap();
        assert_eq!((short.threads, short.started, short.is_dead()), (1, None, false));
        assert_eq!(["", "7", "7 (sh", "7 (sh)", "7 (sh) S", "7 (sh) S x"].map(Stat::parse), [const { None }; 6]);
    }

    #[test]
    fn it_is_dead_when_no_thread_goes_on() {
        let dead = |state: &str, threads: u32| {
            Stat::parse(&format!("7 (a) {state} 1 {}{threads} 0 900", "0 ".repeat(15))).unwrap().is_dead()
        };
        assert_eq!([dead("Z", 1), dead("X", 1), dead("Z", 2), dead("S", 1)], [true, true, false, false]);
    }
}
