//! `contador directory`.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::import::opened;
use super::{Failure, usage};
use crate::bill::audit;
use crate::bill::directory::{Day, Directory, Entry, date, file, table};
use crate::store::StoreArgs;

/// Arguments of `contador directory`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    /// Put the directory in a CSV file in force, in place of the one before
    Load {
        /// CSV with the header project,department,cost_centre,valid_from and maybe valid_to, the day after the last one; - is
        /// standard input
        file: PathBuf,
        /// Only check the file
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        store: StoreArgs,
    },
    /// Show the directory that is in force
    List {
        /// Only what holds on this day, such as 2026-10-01
        #[arg(long, value_name = "DATE", value_parser = at)]
        at: Option<Day>,
        /// Write one JSON object
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        store: StoreArgs,
    },
}

fn at(text: &str) -> Result<Day, String> {
    file::read_day(text).ok_or_else(|| format!("expected {}", file::DATE))
}

/// Runs the command.
pub fn run(args: Args) -> Result<(), Failure> {
    match args.action {
        Action::Load { file, dry_run, store } => load(&file, dry_run, &store),
        Action::List { at, json, store } => {
            let store = store.open()?;
            let directory = super::runtime()?.block_on(table::current(&store))?;
            let directory = directory
                .ok_or_else(|| usage("no directory is in force; load one with contador directory load FILE"))?;
            let entries = directory
                .entries()
                .filter(|(_, from, _, until)| at.is_none_or(|at| *from <= at && until.is_none_or(|until| at < until)));
            let shown = if json { as_json(&directory, entries)? } else { as_text(&directory, entries) };
            super::print(&shown)
        }
    }
}

fn load(path: &Path, dry_run: bool, store: &StoreArgs) -> Result<(), Failure> {
    let (name, bar, reader) = opened(path).map_err(Failure::Usage)?;
    let read = file::parse(&name, reader);
    bar.finish_and_clear();
    let directory = read.map_err(|error| Failure::Usage(error.into()))?;
    let entries = directory.entries().count();
    let what = format!("directory {} of {entries} entries for {} projects", directory.id(), directory.projects());
    if dry_run {
        return super::print(&format!("{name}: {what} can be loaded"));
    }
    let store = store.open()?;
    super::runtime()?.block_on(async {
        table::load(&store, &directory).await?;
        audit::record(&store, "directory load", &name, &directory.id()).await?;
        anyhow::Ok(())
    })?;
    super::print(&format!("{name}: {what} is in force"))
}

type Shown<'d> = (&'d str, Day, &'d Entry, Option<Day>);

fn as_text<'d>(directory: &Directory, entries: impl Iterator<Item = Shown<'d>>) -> String {
    let mut text = format!("directory {}", directory.id());
    for (project, from, entry, until) in entries {
        let centre = match entry.cost_centre.as_ref() {
            "" => String::new(),
            centre => format!(", cost centre {centre}"),
        };
        let until = until.map(|until| format!(" up to, and without, {}", date(until))).unwrap_or_default();
        text += &format!("\n{project}: {}{centre}, from {}{until}", entry.department, date(from));
    }
    text
}

fn as_json<'d>(directory: &Directory, entries: impl Iterator<Item = Shown<'d>>) -> Result<String, Failure> {
    let entries = entries.map(|(project, from, entry, until)| {
        json!({
            "project": project,
            "department": entry.department.as_ref(),
            "cost_centre": entry.cost_centre.as_ref(),
            "valid_from": date(from).to_string(),
            "valid_to": until.map(|until| date(until).to_string()),
        })
    });
    let entries: Vec<Value> = entries.collect();
    Ok(serde_json::to_string_pretty(&json!({ "directory": directory.id(), "entries": entries }))?)
}
