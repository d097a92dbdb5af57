//! `contador-agent`: parses the command line and calls the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    contador_agent::cli::main()
}
