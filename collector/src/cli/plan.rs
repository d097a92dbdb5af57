//! `contador plan`: what other ways of having GPUs would cost, and how many are needed.

mod capacity;
mod commitments;

use std::path::{Path, PathBuf};

use anyhow::Context;

use super::Failure;
use crate::bill::decimal::{self, ONE};
use crate::bill::prices::{PriceBook, file, table};
use crate::store::Store;

/// Arguments of `contador plan`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    /// Reserve, pay by the minute, or share: on the demand of a period
    Commitments(Box<commitments::Args>),
    /// GPUs that a service needs for its peaks
    Capacity(Box<capacity::Args>),
}

/// Runs the command.
pub fn run(args: Args) -> Result<(), Failure> {
    match args.action {
        Action::Commitments(args) => commitments::run(*args),
        Action::Capacity(args) => capacity::run(*args),
    }
}

/// The book of a file, else the one in force, if any.
async fn book(store: &Store, path: Option<&PathBuf>) -> Result<Option<PriceBook>, Failure> {
    match path {
        Some(path) => Ok(Some(file::read(path).map_err(|error| Failure::Usage(error.into()))?)),
        None => Ok(table::current(store).await?),
    }
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    Ok(std::fs::write(path, text).with_context(|| format!("{}: cannot be written", path.display()))?)
}

/// A percentage such as `20%`, as a part times `10^12`.
fn percentage(text: &str) -> Result<i128, String> {
    let expected = || format!("{text:?}, expected a percentage such as 20%, with at most 10 digits after the point");
    let number = text.strip_suffix('%').ok_or_else(expected)?.trim_end();
    let hundredths = decimal::parse(number).map_err(|_| expected())?;
    if hundredths % 100 != 0 { Err(expected()) } else { Ok(hundredths / 100) }
}

/// A percentage of at most 100 %.
fn discount(text: &str) -> Result<i128, String> {
    percentage(text).and_then(
        |part| {
            if part <= ONE { Ok(part) } else { Err(format!("{text:?}, expected at most 100%")) }
        },
    )
}

/// A decimal such as `1.50`, times `10^12`.
fn exact(text: &str) -> Result<i128, String> {
    decimal::parse(text).map_err(|expected| format!("{text:?}, expected {expected}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_exact() {
        assert_eq!(percentage("20%"), Ok(ONE / 5));
        assert_eq!(percentage("33.3333333333 %"), Ok(333_333_333_333));
        assert_eq!(percentage("250%"), Ok(ONE * 5 / 2));
        for bad in ["20", "%", "-5%", "1e2%", "0.00000000001%"] {
            assert!(percentage(bad).is_err(), "{bad}");
        }
        assert_eq!(discount("250%"), Err("\"250%\", expected at most 100%".to_owned()));
    }
}
