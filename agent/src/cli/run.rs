//! `contador-agent run`: the node service.

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

use super::{ConfigArgs, DriverArgs};
use crate::run::clock::now_ms;
use crate::run::{self, Options};
use crate::sensors::Driver;

#[derive(Args, Debug)]
pub(super) struct RunArgs {
    #[command(flatten)]
    config: ConfigArgs,
    #[command(flatten)]
    driver: DriverArgs,
    /// End after one sample and one attempt to send it.
    #[arg(long)]
    once: bool,
    /// How the log is written to standard error. What is logged: RUST_LOG, such as info or contador_agent=debug.
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

pub(super) fn main(args: RunArgs) -> anyhow::Result<()> {
    let config = args.config.load()?;
    log(args.log_format);
    let library = args.driver.library(&config)?;
    if args.driver.simulate.is_some() {
        // A wrong scenario is a fault to be told at once; a driver that is not there yet may come.
        Driver::open(&library, &config.roots.proc)?;
    }
    let options = Options { library, once: args.once, ..Options::default() };
    // One thread is enough for all that is not waiting for a disk or a driver.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
    runtime.block_on(async {
        let shutdown = CancellationToken::new();
        let mut terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
        let mut interrupt = signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?;
        let mut hangup = match hangup_is_ignored() {
            true => None,
            false => Some(signal(SignalKind::hangup()).context("cannot wait for SIGHUP")?),
        };
        let mut user = signal(SignalKind::user_defined1()).context("cannot wait for SIGUSR1")?;
        let (token, release) = (shutdown.clone(), options.release.clone());
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    _ = terminate.recv() => break,
                    _ = interrupt.recv() => break,
                    () = received(hangup.as_mut()) => break,
                    _ = user.recv() => {
                        tracing::info!("the driver's handles are released for a minute");
                        release.ask(now_ms());
                    }
                }
            }
            token.cancel();
        });
        // To wake the runtime's own future costs two calls of the kernel, to wake a task that runs beside it none.
        let node = tokio::spawn(run::run(config, options, shutdown));
        node.await.context("the agent has panicked")?.map_err(anyhow::Error::from)
    })?;
    // A driver's thread that hangs must not keep the process.
    runtime.shutdown_background();
    Ok(())
}

/// Whether this process was started with SIGHUP ignored, as `nohup` does: it is to outlive its terminal then.
fn hangup_is_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}

async fn received(signal: Option<&mut Signal>) {
    match signal {
        Some(signal) => _ = signal.recv().await,
        None => std::future::pending().await,
    }
}

fn log(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        LogFormat::Text => builder.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).init(),
        LogFormat::Json => builder.json().init(),
    }
}
