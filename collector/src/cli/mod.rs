//! The command line: one file a command, each with its arguments and the call into the library.

pub mod adjust;
pub mod audit;
pub mod clickhouse;
pub mod close;
pub mod commitments;
pub mod demo;
pub mod directory;
pub mod documents;
pub mod import;
pub mod migrate;
mod output;
pub mod p99;
pub mod plan;
pub mod prices;
pub mod report;
pub mod serve;

use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

pub(crate) use crate::failure::{Failure, usage};

/// Observability and chargeback for GPU fleets.
#[derive(Debug, Parser)]
#[command(name = "contador", version, about = "Observability and chargeback for GPU fleets", propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Receive OTLP and write it to ClickHouse
    Serve(serve::Args),
    /// Run the embedded ClickHouse engine behind ClickHouse's HTTP interface
    Clickhouse(clickhouse::Args),
    /// Create or upgrade contador's tables
    Migrate(migrate::Args),
    /// Tell a service's p99 latency, as an interval
    P99(p99::Args),
    /// The bill of a month or of a period
    Report(report::Args),
    /// Freeze a month's bill; what comes later is corrected in the next one
    Close(close::Args),
    /// Credits and charges by hand, and what departments say of their bills
    Adjust(adjust::Args),
    /// Who did what to prices, imports and bills
    Audit(audit::Args),
    /// What reserving or sharing GPUs would cost, and how many are needed
    Plan(plan::Args),
    /// Check, load and show price books
    Prices(prices::Args),
    /// Check, load and show commitments and budgets
    Commitments(commitments::Args),
    /// Load and show which department a project belongs to, and from when
    Directory(directory::Args),
    /// Import allocations that contador did not meter itself
    Import(import::Args),
    /// Everything above on this machine, embedded
    Demo(demo::Args),
}

/// Parses the process's arguments, runs the command and returns its exit code.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    if let Ok(parent) = std::env::var(crate::demo::END_WITH_PARENT) {
        // Only a program that starts this one sets the variable, to its PID; it would not be there to end it.
        let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM));
        // It may have ended before that.
        if rustix::process::getppid().map(rustix::process::Pid::as_raw_pid) != parent.parse().ok() {
            return ExitCode::FAILURE;
        }
    }
    let done = match cli.command {
        Command::Serve(args) => serve::run(args),
        Command::Clickhouse(args) => clickhouse::run(args),
        Command::Migrate(args) => migrate::run(args),
        Command::P99(args) => p99::run(args),
        Command::Report(args) => report::run(args),
        Command::Close(args) => close::run(args),
        Command::Adjust(args) => adjust::run(args),
        Command::Audit(args) => audit::run(args),
        Command::Plan(args) => plan::run(args),
        Command::Prices(args) => prices::run(args),
        Command::Commitments(args) => commitments::run(args),
        Command::Directory(args) => directory::run(args),
        Command::Import(args) => import::run(args),
        Command::Demo(args) => demo::run(args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Running(error)) => {
            eprintln!("contador: {error:#}");
            ExitCode::from(1)
        }
        Err(Failure::Usage(error)) => {
            eprintln!("contador: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// A multi-threaded runtime for one command.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}

/// Writes text and a line's end to standard output. A reader that has left, or a full disk, is an error and not a panic.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    let written = writeln!(out, "{text}").and_then(|()| out.flush());
    written.map_err(|error| Failure::Running(anyhow::Error::new(error).context("standard output cannot be written")))
}

/// Ends at the first SIGINT or SIGTERM after this call.
pub(crate) fn asked_to_end() -> std::io::Result<impl Future<Output = ()> + Send + use<>> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// A token that is cancelled when `asked` ends.
pub(crate) fn cancelled_by(asked: impl Future<Output = ()> + Send + 'static) -> CancellationToken {
    let token = CancellationToken::new();
    let cancel = token.clone();
    tokio::spawn(async move {
        asked.await;
        cancel.cancel();
    });
    token
}
