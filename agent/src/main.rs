//! `contador-agent`: parses the command line and calls the library.

use std::process::ExitCode;

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

fn main() -> ExitCode {
    if let Ok(parent) = std::env::var("CONTADOR_END_WITH_PARENT") {
        // Only a program that starts this one sets the variable, to its PID; it would not be there to end it.
        let _ = set_parent_process_death_signal(Some(Signal::TERM));
        // It may have ended before that.
        if getppid().map(Pid::as_raw_pid) != parent.parse().ok() {
            return ExitCode::FAILURE;
        }
    }
    contador_agent::cli::main()
}
