//! `contador-agent check`: is the configuration right, and what does it say?

use clap::Args;

use super::{ConfigArgs, print};

#[derive(Args, Debug)]
pub(super) struct CheckArgs {
    #[command(flatten)]
    config: ConfigArgs,
}

pub(super) fn main(args: &CheckArgs) -> anyhow::Result<()> {
    print(&args.config.load()?.to_toml())
}
