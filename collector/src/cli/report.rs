//! `contador report`.

use super::Failure;

/// Arguments of `contador report`.
#[derive(clap::Args, Debug)]
pub struct Args {}

/// Runs the command.
pub fn run(_args: Args) -> Result<(), Failure> {
    Err(super::usage("not built yet"))
}
