//! `contador audit`.

use serde_json::{Value, json};

use super::Failure;
use crate::bill::audit;
use crate::bill::period;
use crate::store::StoreArgs;

/// Arguments of `contador audit`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Write one JSON object
    #[arg(long)]
    json: bool,
    /// Prove that no entry was changed, taken out or put in
    #[arg(long)]
    verify: bool,
    #[command(flatten)]
    store: StoreArgs,
}

/// Runs the command.
pub fn run(args: Args) -> Result<(), Failure> {
    let store = args.store.open()?;
    let log = super::runtime()?.block_on(audit::all(&store))?;
    let faults = if args.verify { audit::faults(&log) } else { Vec::new() };
    let text = if args.json {
        let entry = |row: &contador_schemas::rows::Audit| {
            json!({
                "number": row.number,
                "at": period::utc(row.at),
                "who": row.who,
                "action": row.action,
                "subject": row.subject,
                "details": row.details,
                "hash": row.hash,
            })
        };
        let mut value = json!({ "entries": log.iter().map(entry).collect::<Vec<Value>>() });
        if args.verify {
            value["faults"] = json!(faults);
        }
        serde_json::to_string_pretty(&value)?
    } else if args.verify {
        let last = log.last().map_or(String::new(), |row| format!(", the last {}", row.hash));
        if faults.is_empty() { format!("{} entries, one chain{last}", log.len()) } else { faults.join("\n") }
    } else if log.is_empty() {
        "the audit log is empty".to_owned()
    } else {
        let line = |row: &contador_schemas::rows::Audit| {
            let at = period::utc(row.at);
            let details = if row.details.is_empty() { String::new() } else { format!(": {}", row.details) };
            format!("{} {at} {} {} {}{details}", row.number, row.who, row.action, row.subject)
        };
        log.iter().map(line).collect::<Vec<_>>().join("\n")
    };
    super::print(&text)?;
    match faults.len() {
        0 => Ok(()),
        count => Err(anyhow::anyhow!("{count} faults: the audit log is not as it was written").into()),
    }
}
