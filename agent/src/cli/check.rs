//! `contador-agent check`: is the configuration right, what does it say, and where is each value from?

use clap::Args;

use super::{ConfigArgs, print};

#[derive(Args, Debug)]
pub(super) struct CheckArgs {
    #[command(flatten)]
    config: ConfigArgs,
}

pub(super) fn main(args: &CheckArgs) -> anyhow::Result<()> {
    print(&args.config.loaded()?.to_toml())
}
