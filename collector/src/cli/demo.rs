//! `contador demo`.

use std::path::PathBuf;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

use super::Failure;
use crate::demo::{self, Options};

/// Arguments of `contador demo`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// End after so many seconds; over 60, so that a minute of the ledger closes and is checked, over 85 for the restarts
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    seconds: Option<u64>,
    /// Print nothing but one JSON object at the end
    #[arg(long)]
    json: bool,
    /// Keep the data in this directory; otherwise it is removed at the end
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

/// Runs the demo, prints its summary, and fails when what was stored does not add up.
pub fn run(args: Args) -> Result<(), Failure> {
    let options = Options { duration: args.seconds.map(Duration::from_secs), json: args.json, data: args.data };
    let summary = super::runtime()?.block_on(async {
        // A closed terminal ends the demo as well.
        let (asked, mut hangup) = (super::asked_to_end()?, signal(SignalKind::hangup())?);
        let shutdown = super::cancelled_by(async move {
            tokio::select! {
                () = asked => {}
                _ = hangup.recv() => {}
            }
        });
        demo::run(options, shutdown).await
    })?;
    super::print(&if args.json { serde_json::to_string(&summary)? } else { summary.to_string() })?;
    // A run that ended before the first full minute has nothing to add up, which is no failure.
    if !summary.conserved && summary.ledger_rows > 0 {
        return Err(anyhow::anyhow!("what was stored does not add up (see above)").into());
    }
    Ok(())
}
