//! `contador p99`.

use super::Failure;

/// Arguments of `contador p99`.
#[derive(clap::Args, Debug)]
pub struct Args {}

/// Runs the command.
pub fn run(_args: Args) -> Result<(), Failure> {
    Err(super::usage("not built yet"))
}
