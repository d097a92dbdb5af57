//! The command line: arguments are parsed here, and each command's file calls the library.
//!
//! Exit codes: 0 done, 1 failed while running, 2 bad usage or configuration; `exec` ends as its command does.

mod check;
mod exec;
mod options;
mod probe;
mod run;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, Parser, Subcommand};

use self::options::ConfigArgs;
use crate::config::{Config, ConfigError};
use crate::sensors::{NvmlLibrary, SensorError};

/// Meters every GPU second of this node, and whose it was.
#[derive(Debug, Parser)]
#[command(name = "contador-agent", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Sample this node and send it to a collector, until told to end.
    Run(run::RunArgs),
    /// Show one sample of everything: each device, its owners, and what is missing and why.
    Probe(probe::ProbeArgs),
    /// Run a command whose GPU time is booked on an experiment.
    Exec(exec::ExecArgs),
    /// Check a configuration file, and show what is in force with it.
    Check(check::CheckArgs),
}

/// Which driver to ask.
#[derive(Args, Clone, Debug, Default)]
struct DriverArgs {
    /// Ask contador's NVML simulator instead of the driver; with a scenario file, or its built-in one.
    #[arg(long, value_name = "SCENARIO")]
    simulate: Option<Option<PathBuf>>,
}

impl DriverArgs {
    fn library(&self, config: &Config) -> Result<NvmlLibrary, SensorError> {
        match &self.simulate {
            Some(scenario) => Ok(NvmlLibrary::simulator(scenario.clone())?.seeded(&config.node)),
            None => Ok(config.roots.nvml.clone().map_or_else(NvmlLibrary::default, NvmlLibrary::at)),
        }
    }
}

/// Writes to standard output. A reader that has left is no fault; anything else is.
fn print(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to standard output")
        }
        _ => Ok(()),
    }
}

/// Parses the arguments of this process and does what they say.
pub fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Run(args) => run::main(args),
        Command::Probe(args) => probe::main(&args),
        Command::Exec(args) => return exec::main(args),
        Command::Check(args) => check::main(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("contador-agent: {error:#}");
            let scenario = error.downcast_ref().is_some_and(|error| {
                matches!(error, SensorError::Scenario { .. } | SensorError::NotTheSimulator { .. })
            });
            let usage = scenario || error.downcast_ref::<ConfigError>().is_some();
            ExitCode::from(if usage { 2 } else { 1 })
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        super::Cli::command().debug_assert();
    }

    /// What only a service does has no flag of a probe.
    #[test]
    fn a_probe_has_the_flags_that_it_heeds() {
        let flags = |name| {
            let command = super::Cli::command();
            let command = command.find_subcommand(name).expect(name).clone();
            command.get_arguments().filter_map(|arg| arg.get_long().map(str::to_owned)).collect::<Vec<_>>()
        };
        assert_eq!(flags("probe"), ["config", "node", "simulate", "json", "watch"]);
        for flag in ["config", "node", "interval", "state-dir", "endpoint", "listen", "dcgm"] {
            assert!(flags("run").iter().any(|known| known == flag), "{flag}");
        }
    }
}
