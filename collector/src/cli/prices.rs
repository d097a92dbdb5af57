//! `contador prices`.

use std::path::PathBuf;

use super::documents::{self, Which};
use super::{Failure, usage};
use crate::bill::audit;
use crate::bill::prices::{PriceBook, file, table};
use crate::store::{Store, StoreArgs};

/// Arguments of `contador prices`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    /// Check the price book in a TOML file, and show what it says
    Check {
        /// The price book
        file: PathBuf,
        /// Write one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Put the price book in a TOML file in force
    Load {
        /// The price book
        file: PathBuf,
        #[command(flatten)]
        store: StoreArgs,
    },
    /// Show the price book that is in force, or one that was
    Show {
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        store: StoreArgs,
    },
    /// List the price books that were loaded, the one in force first
    List {
        /// Write one JSON array
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        store: StoreArgs,
    },
}

/// Runs the command.
pub fn run(args: Args) -> Result<(), Failure> {
    let read = |path: &PathBuf| file::read(path).map_err(|error| Failure::Usage(error.into()));
    match args.action {
        Action::Check { file, json } => shown(&read(&file)?, json),
        Action::Load { file, store } => {
            let (book, store) = (read(&file)?, store.open()?);
            super::runtime()?.block_on(async {
                table::load(&store, &book).await?;
                audit::record(&store, "prices load", &file.display().to_string(), &book.id()).await?;
                anyhow::Ok(())
            })?;
            super::print(&format!("{}: price book {} is in force", file.display(), book.id()))
        }
        Action::Show { which, store } => {
            let store = store.open()?;
            shown(&super::runtime()?.block_on(kept(&store, which.id.as_deref()))?, which.json)
        }
        Action::List { json, store } => {
            let store = store.open()?;
            documents::list(&super::runtime()?.block_on(table::all(&store))?, json)
        }
    }
}

async fn kept(store: &Store, id: Option<&str>) -> Result<PriceBook, Failure> {
    let book = match id {
        Some(id) => table::by_id(store, &documents::id(id, &table::all(store).await?)?).await?,
        None => table::current(store).await?,
    };
    book.ok_or_else(|| usage("no price book is in force; load one with contador prices load FILE"))
}

fn shown(book: &PriceBook, json: bool) -> Result<(), Failure> {
    documents::shown(json, || book.to_json(), |width| book.to_text(width))
}
