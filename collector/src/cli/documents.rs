//! What `contador prices` and `contador commitments` have in common.

use std::io::IsTerminal;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Failure, usage};
use crate::bill::document::store::Kept;

/// Columns of tables where standard output is no terminal.
const WIDTH: u16 = 120;

/// Which document to show, and how.
#[derive(clap::Args, Debug)]
pub struct Which {
    /// The one of this id, or of the only one that begins so, instead of the one in force
    #[arg(long, value_name = "ID")]
    pub id: Option<String>,
    /// Write one JSON object
    #[arg(long)]
    pub json: bool,
}

/// The id that `given` is the beginning of.
pub fn id(given: &str, kept: &[Kept]) -> Result<String, Failure> {
    let mut found = kept.iter().filter(|kept| kept.id.starts_with(given));
    match (found.next(), found.count()) {
        (Some(only), 0) => Ok(only.id.clone()),
        (None, _) => Err(usage(format!("--id {given:?}: expected an id that was loaded; list shows them"))),
        (Some(_), more) => Err(usage(format!("--id {given:?}: expected more digits, since {} ids begin so", more + 1))),
    }
}

/// Shows a document.
pub fn shown(json: bool, to_json: impl FnOnce() -> Value, to_text: impl FnOnce(u16) -> String) -> Result<(), Failure> {
    let text = if json { serde_json::to_string_pretty(&to_json())? } else { to_text(width()) };
    super::print(text.trim_end())
}

/// Lists documents, the one in force first.
pub fn list(kept: &[Kept], json: bool) -> Result<(), Failure> {
    let at = |kept: &Kept| Timestamp::from_millisecond(kept.loaded_at).unwrap_or_default();
    if json {
        let one = |kept: &Kept| {
            json!({
                "id": kept.id,
                "currency": kept.currency,
                "loaded_at": at(kept).to_string(),
                "loaded_by": kept.loaded_by,
            })
        };
        return super::print(&serde_json::to_string_pretty(&kept.iter().map(one).collect::<Value>())?);
    }
    let line = |(number, kept): (usize, &Kept)| {
        let in_force = if number == 0 { ", in force" } else { "" };
        format!("{} {}, loaded {:.0} by {}{in_force}", kept.id, kept.currency, at(kept), kept.loaded_by)
    };
    let lines: Vec<String> = kept.iter().enumerate().map(line).collect();
    super::print(&lines.join("\n"))
}

fn width() -> u16 {
    let size = std::io::stdout().is_terminal().then(|| crossterm::terminal::size().ok()).flatten();
    size.map_or(WIDTH, |(columns, _)| columns.max(80))
}
