//! `contador adjust`.

use contador_schemas::rows::Adjustment;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use super::{Failure, usage};
use crate::bill::adjust::table::{self, AdjustError};
use crate::bill::adjust::{self, Entry, Kind, shown};
use crate::bill::period::{self, Period};
use crate::store::StoreArgs;

/// Longest text, bytes.
const TEXT_MAX: usize = 1_000;

/// Arguments of `contador adjust`.
#[derive(clap::Args, Debug)]
#[command(group(clap::ArgGroup::new("what").required(true).args(["amount", "list", "dispute", "accept", "resolve", "withdraw"])))]
pub struct Args {
    /// Month in whose bill it is, such as 2026-10
    #[arg(long, required_unless_present = "list")]
    month: Option<String>,
    /// Department whose bill it is
    #[arg(long, required_unless_present_any = ["list", "withdraw"])]
    department: Option<String>,
    /// Project of the department that the amount is for
    #[arg(long, requires = "amount")]
    project: Option<String>,
    /// Amount in the price book's currency, such as -50.00: negative is a credit, positive a charge
    #[arg(long, allow_hyphen_values = true, requires = "reason")]
    amount: Option<String>,
    /// Why
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// What the amount must be: a credit is negative, a charge positive
    #[arg(long, value_enum, requires = "amount")]
    kind: Option<Amount>,
    /// Month that the amount is for, where that is another one
    #[arg(long, value_name = "MONTH", requires = "amount")]
    of: Option<String>,
    /// Line of a bill that the amount is for
    #[arg(long, value_name = "TEXT", requires = "amount")]
    line: Option<String>,
    /// Number of a ticket or a document; the same amount with another one is another amount
    #[arg(long, value_name = "TEXT", requires = "amount")]
    reference: Option<String>,
    /// Take back the amount of this id, by the opposite one in --month
    #[arg(long, value_name = "ID", conflicts_with = "department")]
    withdraw: Option<String>,
    /// The department disputes its bill
    #[arg(long, requires = "reason")]
    dispute: bool,
    /// The department accepts its bill
    #[arg(long)]
    accept: bool,
    /// What the department said of its bill is settled
    #[arg(long)]
    resolve: bool,
    /// Show what was entered, of --month or of all
    #[arg(long)]
    list: bool,
    /// Write one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Amount {
    /// Something given back
    Credit,
    /// Something charged
    Charge,
}

/// Runs the command.
pub fn run(args: Args) -> Result<(), Failure> {
    for month in [&args.month, &args.of].into_iter().flatten() {
        Period::month(month, &TimeZone::UTC).map_err(usage)?;
    }
    let entry = if args.list || args.withdraw.is_some() { None } else { Some(entry(&args)?) };
    let (store, runtime) = (args.store.open()?, super::runtime()?);
    let month = args.month.clone().unwrap_or_default();
    let entered = match (&entry, &args.withdraw) {
        (Some(entry), _) => runtime.block_on(table::enter(&store, entry)),
        (None, Some(id)) => runtime.block_on(table::withdraw(&store, id, &month)),
        (None, None) => {
            let rows = runtime.block_on(table::read(&store, args.month.as_deref()))?;
            return super::print(&listed(&rows, args.json)?);
        }
    };
    let (row, is_new) = entered.map_err(|error| match error {
        AdjustError::NoPrices | AdjustError::Unknown(_) => usage(error),
        error => error.into(),
    })?;
    let said = if is_new { "entered" } else { "was entered before" };
    super::print(&if args.json {
        serde_json::to_string_pretty(&as_json(&row))?
    } else {
        format!("{said}: {}", line(&row))
    })
}

fn entry(args: &Args) -> Result<Entry, Failure> {
    let amount = args
        .amount
        .as_deref()
        .map(|text| adjust::amount(text).map_err(|expected| usage(format!("--amount {text:?}: expected {expected}"))));
    let amount = amount.transpose()?.unwrap_or_default();
    let kind = match (args.dispute, args.accept, args.resolve) {
        (true, _, _) => Kind::Dispute,
        (_, true, _) => Kind::Accept,
        (_, _, true) => Kind::Resolve,
        _ if amount < 0 => Kind::Credit,
        _ => Kind::Charge,
    };
    match (args.kind, kind) {
        (Some(Amount::Credit), Kind::Charge) => {
            return Err(usage(format!("--amount {}: expected a negative one of a credit", shown(amount))));
        }
        (Some(Amount::Charge), Kind::Credit) => {
            return Err(usage(format!("--amount {}: expected a positive one of a charge", shown(amount))));
        }
        _ => {}
    }
    let month = args.month.clone().unwrap_or_default();
    Ok(Entry {
        department: text("--department", args.department.as_ref())?,
        project: text("--project", args.project.as_ref())?,
        kind,
        amount,
        reason: text("--reason", args.reason.as_ref())?,
        origin_month: args.of.clone().filter(|of| *of != month).unwrap_or_default(),
        line: text("--line", args.line.as_ref())?,
        reference: text("--reference", args.reference.as_ref())?,
        withdraws: String::new(),
        month,
    })
}

fn text(name: &str, given: Option<&String>) -> Result<String, Failure> {
    let Some(text) = given else { return Ok(String::new()) };
    let expected = |what: &str| usage(format!("{name} {text:?}: expected {what}"));
    if text.len() > TEXT_MAX {
        return Err(expected("up to 1000 bytes"));
    }
    if text.chars().any(char::is_control) {
        return Err(expected("no control characters"));
    }
    if text.trim().is_empty() && name != "--department" {
        return Err(expected("a text"));
    }
    Ok(text.trim().to_owned())
}

fn line(row: &Adjustment) -> String {
    let Adjustment { id, month, department, kind, reason, .. } = row;
    let amount = if row.amount == 0 { String::new() } else { format!(" of {} {}", shown(row.amount), row.currency) };
    let project = if row.project.is_empty() { String::new() } else { format!(", project {}", row.project) };
    let origin = if row.origin_month.is_empty() { String::new() } else { format!(", for {}", row.origin_month) };
    let reference = if row.reference.is_empty() { String::new() } else { format!(" ({})", row.reference) };
    let (at, who) = (period::utc(row.at), &row.who);
    format!("{id} {kind}{amount} in {month} for {department}{project}{origin}: {reason}{reference}, {at} by {who}")
}

fn as_json(row: &Adjustment) -> Value {
    json!({
        "id": row.id,
        "month": row.month,
        "department": row.department,
        "project": row.project,
        "kind": row.kind,
        "amount": (row.amount != 0).then(|| shown(row.amount)),
        "currency": row.currency,
        "reason": row.reason,
        "origin_month": row.origin_month,
        "line": row.line,
        "reference": row.reference,
        "withdraws": row.withdraws,
        "at": period::utc(row.at),
        "who": row.who,
    })
}

fn listed(rows: &[Adjustment], json: bool) -> Result<String, Failure> {
    if json {
        return Ok(serde_json::to_string_pretty(
            &json!({ "adjustments": rows.iter().map(as_json).collect::<Vec<_>>() }),
        )?);
    }
    if rows.is_empty() {
        return Ok("nothing was entered".to_owned());
    }
    Ok(rows.iter().map(line).collect::<Vec<_>>().join("\n"))
}
