//! `contador-agent probe`: one sample of everything, for people or for machines.

use clap::Args;

use super::{ConfigArgs, DriverArgs, print};
use crate::ledger::Tick;
use crate::outbox::send::chain;
use crate::owners::ProcessOwners;
use crate::probe::{ProbeGpus, ProbeReport, render_json, render_table};
use crate::run::attribute;
use crate::run::clock::now_ms;
use crate::sensors::{Disks, Gpus, Host, Reading, SensorError};

#[derive(Args, Debug)]
pub(super) struct ProbeArgs {
    #[command(flatten)]
    config: ConfigArgs,
    #[command(flatten)]
    driver: DriverArgs,
    /// Write JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn main(args: &ProbeArgs) -> anyhow::Result<()> {
    let config = args.config.load()?;
    let library = args.driver.library(&config)?;
    let roots = &config.roots;
    let ts_ms = now_ms();
    let gpus = match Gpus::open(&library, &roots.proc) {
        Ok(mut gpus) => Reading::Value(ProbeGpus::take(&mut gpus, ts_ms)),
        Err(error) if error.is_no_driver() => Reading::Unsupported(chain(&error).into()),
        // Somebody asked for this scenario.
        Err(error @ (SensorError::Scenario { .. } | SensorError::NotTheSimulator { .. })) => return Err(error.into()),
        Err(error) => Reading::Failed(chain(&error).into()),
    };
    let mut owners = ProcessOwners::new(roots.proc.clone(), roots.passwd.clone());
    let devices = gpus.value().map(|gpus| gpus.devices.as_slice()).unwrap_or_default();
    let pids: Vec<u32> =
        devices.iter().flat_map(|(_, sample)| sample.processes.value()).flatten().map(|process| process.pid).collect();
    let found = owners.resolve(&pids, ts_ms);
    let ticks = devices.iter().filter_map(|(gpu, sample)| attribute::tick(sample, gpu.simulated, &found, true, true));
    let owners = ticks.flat_map(|Tick { device, holders, .. }| {
        holders.into_iter().map(move |holder| (device.clone(), holder.owner.label()))
    });
    let report = ProbeReport {
        node: config.node.clone(),
        ts_ms,
        owners: owners.collect(),
        disks: Disks::new(&roots.proc, &roots.sys)
            .sample(ts_ms)
            .map_or_else(|error| Reading::Failed(chain(&error).into()), Reading::Value),
        host: Host::new(&roots.proc)
            .sample(ts_ms)
            .map_or_else(|error| Reading::Failed(chain(&error).into()), Reading::Value),
        gpus,
    };
    if args.json {
        print(&format!("{:#}\n", render_json(&report)))
    } else {
        print(&format!("{}\n", render_table(&report, width())))
    }
}

/// Columns of the terminal; of none: what `COLUMNS` says, else 80.
fn width() -> u16 {
    let terminal = rustix::termios::tcgetwinsize(std::io::stdout()).ok().map(|size| size.ws_col);
    let said = || std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    terminal.filter(|&columns| columns > 0).or_else(said).unwrap_or(80)
}
