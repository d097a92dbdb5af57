//! `contador-agent`: parses the command line and calls the library.

use std::process::ExitCode;

use rustix::process::{Signal, set_parent_process_death_signal};

fn main() -> ExitCode {
    if std::env::var_os("CONTADOR_END_WITH_PARENT").is_some() {
        // Only a program that starts this one sets the variable; it would not be there to end it.
        let _ = set_parent_process_death_signal(Some(Signal::TERM));
    }
    contador_agent::cli::main()
}
