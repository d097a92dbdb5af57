//! `contador commitments`.

use std::path::PathBuf;

use super::documents::{self, Which};
use super::{Failure, usage};
use crate::bill::audit;
use crate::bill::commitments::{Agreements, file, table};
use crate::store::{Store, StoreArgs};

/// Arguments of `contador commitments`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    /// Check the commitments and budgets in a TOML file, and show what they say
    Check {
        /// The commitments
        file: PathBuf,
        /// Write one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Put the commitments and budgets in a TOML file in force, in place of those before
    Load {
        /// The commitments
        file: PathBuf,
        #[command(flatten)]
        store: StoreArgs,
    },
    /// Show the commitments and budgets that are in force, or were
    Show {
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        store: StoreArgs,
    },
    /// List what was loaded, what is in force first
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
            let (agreements, store) = (read(&file)?, store.open()?);
            super::runtime()?.block_on(async {
                table::load(&store, &agreements).await?;
                audit::record(&store, "commitments load", &file.display().to_string(), &agreements.id()).await?;
                anyhow::Ok(())
            })?;
            super::print(&format!("{}: commitments {} are in force", file.display(), agreements.id()))
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

async fn kept(store: &Store, id: Option<&str>) -> Result<Agreements, Failure> {
    let agreements = match id {
        Some(id) => table::by_id(store, &documents::id(id, &table::all(store).await?)?).await?,
        None => table::current(store).await?,
    };
    agreements.ok_or_else(|| usage("no commitments are in force; load them with contador commitments load FILE"))
}

fn shown(agreements: &Agreements, json: bool) -> Result<(), Failure> {
    documents::shown(json, || agreements.to_json(), |width| agreements.to_text(width))
}
