//! `contador-agent probe`: everything that the agent sees here now, for people or for machines.

use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

use super::options::LookArgs;
use super::{DriverArgs, print};
use crate::probe::take::{PATIENCE, Prober};
use crate::probe::watch::{self, Form, Screen};

#[derive(Args, Debug)]
pub(super) struct ProbeArgs {
    #[command(flatten)]
    config: LookArgs,
    #[command(flatten)]
    driver: DriverArgs,
    /// Write JSON: one object, or with --watch one a line.
    #[arg(long)]
    json: bool,
    /// Show it again every so many seconds, from 0.5 to 3600 and 1 without a number, until Ctrl-C.
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1", value_parser = seconds)]
    watch: Option<Duration>,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.5..=3_600.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "expected a number of seconds from 0.5 to 3600".to_owned())
}

pub(super) fn main(args: &ProbeArgs) -> anyhow::Result<()> {
    let config = args.config.0.load()?;
    let library = args.driver.library(&config)?;
    let screen = Screen::of(if args.json { Form::Json } else { Form::Table });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
    let inside = runtime.enter();
    let mut prober = Prober::start(&config, library).context("cannot start the threads of the sensors")?;
    drop(inside);
    let result = runtime.block_on(async {
        let Some(interval) = args.watch else {
            return print(&screen.whole(&prober.take(PATIENCE).await?));
        };
        let mut interrupt = signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?;
        let mut terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
        let end = async {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        };
        watch::run(&mut prober, screen, interval, end).await
    });
    // A thread that hangs must not keep the process, and neither must a driver that hangs when it is closed: the threads stay
    // as they are, and end with the process.
    std::mem::forget(prober);
    runtime.shutdown_background();
    result
}
