//! `contador prices`.

use std::path::PathBuf;

use jiff::Timestamp;

use super::{Failure, usage};
use crate::bill::prices::{PriceBook, file, table};
use crate::bill::{audit, decimal};
use crate::store::StoreArgs;

/// Arguments of `contador prices`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    /// Put the price book in a TOML file in force
    Load {
        /// The price book
        file: PathBuf,
        #[command(flatten)]
        store: StoreArgs,
    },
    /// Check the price book in a TOML file
    Check {
        /// The price book
        file: PathBuf,
    },
    /// Show the price book that is in force
    Show {
        #[command(flatten)]
        store: StoreArgs,
    },
}

/// Runs the command.
pub fn run(args: Args) -> Result<(), Failure> {
    let read = |path: &PathBuf| file::read(path).map_err(|error| Failure::Usage(error.into()));
    match args.action {
        Action::Check { file } => show(&read(&file)?),
        Action::Load { file, store } => {
            let (book, store) = (read(&file)?, store.open()?);
            super::runtime()?.block_on(async {
                table::load(&store, &book).await?;
                audit::record(&store, "prices load", &file.display().to_string(), &book.id()).await?;
                anyhow::Ok(())
            })?;
            super::print(&format!("{}: price book {} is in force", file.display(), book.id()))
        }
        Action::Show { store } => {
            let store = store.open()?;
            let book = super::runtime()?.block_on(table::current(&store))?;
            show(&book.ok_or_else(|| usage("no price book is in force; load one with contador prices load FILE"))?)
        }
    }
}

fn show(book: &PriceBook) -> Result<(), Failure> {
    let mut text = format!("price book {}", book.id());
    for rate in &book.rates {
        let model = rate
            .mig_profile
            .as_ref()
            .map_or_else(|| rate.gpu_model.clone(), |profile| format!("{} MIG {profile}", rate.gpu_model));
        let from = match rate.valid_from {
            0 => "always".to_owned(),
            second => format!("from {}", Timestamp::from_second(second.into()).unwrap_or_default()),
        };
        text += &format!("\n{model}: {} {} a GPU-hour, {from}", decimal::format(rate.hourly), book.currency);
    }
    super::print(&text)
}
