//! `contador close`.

use serde_json::{Value, json};

use super::Failure;
use crate::bill::adjust::shown;
use crate::bill::close::closing::{self, Prepared, Wanted};
use crate::bill::close::replay::{self, Verified};
use crate::bill::close::{CloseError, invoice, table};
use crate::bill::period;
use crate::store::StoreArgs;
use contador_schemas::rows::Invoice;

/// Arguments of `contador close`.
#[derive(clap::Args, Debug)]
#[command(group(clap::ArgGroup::new("what").required(true).multiple(true).args(["month", "verify", "list"])))]
pub struct Args {
    /// Month such as 2026-10
    #[arg(long)]
    month: Option<String>,
    /// Time zone in which the month is meant [default: that of the month before, else the price book's]
    #[arg(long, value_name = "ZONE", requires = "month")]
    time_zone: Option<String>,
    /// What is to be noted on the invoice
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    note: String,
    /// It is the first month that is closed: what is from before it is in no bill
    #[arg(long, conflicts_with_all = ["verify", "list"])]
    first: bool,
    /// Leave without a price what came late for a closed month whose price book has none
    #[arg(long, conflicts_with_all = ["verify", "list"])]
    allow_unpriced_corrections: bool,
    /// Only tell what would be closed
    #[arg(long, conflicts_with_all = ["verify", "list"])]
    dry_run: bool,
    /// Prove that closed months are as they were closed: make them again of their stored facts, and check the chain
    #[arg(long, conflicts_with = "list")]
    verify: bool,
    /// Show the closed months
    #[arg(long, conflicts_with = "month")]
    list: bool,
    /// Write one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
}

/// Runs the command.
pub fn run(args: Args) -> Result<(), Failure> {
    let (store, runtime) = (args.store.open()?, super::runtime()?);
    if args.list {
        let invoices = runtime.block_on(table::invoices(&store))?;
        return super::print(&listed(&invoices, args.json)?);
    }
    if args.verify {
        let verified = runtime.block_on(replay::verify(&store, args.month.as_deref()))?;
        super::print(&told(&verified, args.json)?)?;
        return match verified.faults.len() {
            0 => Ok(()),
            count => Err(anyhow::anyhow!("{count} faults: closed months are not as they were closed").into()),
        };
    }
    let wanted = Wanted {
        month: args.month.unwrap_or_default(),
        time_zone: args.time_zone,
        note: args.note,
        first: args.first,
        allow_unpriced_corrections: args.allow_unpriced_corrections,
    };
    let closed: Result<(Prepared, Option<Invoice>), CloseError> = runtime.block_on(async {
        let prepared = match closing::prepare(&store, &wanted).await {
            Err(error @ CloseError::Already { .. }) => {
                closing::log_again(&store, &wanted.month).await?;
                return Err(error);
            }
            prepared => prepared?,
        };
        if args.dry_run {
            return Ok((prepared, None));
        }
        prepared.snapshot(&store).await?;
        let invoice = prepared.finish(&store).await?;
        Ok((prepared, Some(invoice)))
    });
    let (prepared, invoice) = closed.map_err(|error| match error {
        CloseError::Period(_) | CloseError::NoPrices => super::usage(error),
        error => error.into(),
    })?;
    super::print(&done(&prepared, invoice.as_ref(), args.json)?)
}

fn as_json(invoice: &Invoice) -> Value {
    json!({
        "number": invoice.number,
        "month": invoice.month,
        "time_zone": invoice.time_zone,
        "currency": invoice.currency,
        "total": shown(invoice.total),
        "corrects": invoice.corrected.iter().map(|(month, _)| month).collect::<Vec<_>>(),
        "closed_at": at(invoice),
        "closed_by": invoice.closed_by,
        "note": invoice.note,
        "previous": invoice.previous,
        "hash": invoice.hash,
    })
}

fn at(invoice: &Invoice) -> Option<String> {
    (invoice.closed_at != 0).then(|| period::utc(invoice.closed_at))
}

fn done(prepared: &Prepared, invoice: Option<&Invoice>, json: bool) -> Result<String, Failure> {
    let of = invoice.unwrap_or(&prepared.invoice);
    if json {
        let mut value = as_json(of);
        value["lines"] = prepared.lines.len().into();
        if invoice.is_none() {
            (value["hash"], value["dry_run"]) = (Value::Null, true.into());
        }
        return Ok(serde_json::to_string_pretty(&value)?);
    }
    let lines = prepared.lines.len();
    let (named, total, currency) = (invoice::named(of), shown(of.total), &of.currency);
    let mut text = match invoice {
        Some(invoice) => format!("{named} is closed: {lines} lines, {total} {currency}\nhash {}", invoice.hash),
        None => format!("{named} can be closed: {lines} lines, {total} {currency}"),
    };
    for (month, _) in &of.corrected {
        text += &format!("\nit corrects {month}");
    }
    Ok(text)
}

fn listed(invoices: &[Invoice], json: bool) -> Result<String, Failure> {
    if json {
        return Ok(serde_json::to_string_pretty(
            &json!({ "invoices": invoices.iter().map(as_json).collect::<Vec<_>>() }),
        )?);
    }
    if invoices.is_empty() {
        return Ok("no month is closed".to_owned());
    }
    let line = |of: &Invoice| {
        let (named, total, at) = (invoice::named(of), shown(of.total), at(of).unwrap_or_default());
        let note = if of.note.is_empty() { String::new() } else { format!(", {:?}", of.note) };
        format!("{named}: {total} {}, closed {at} by {}, {}{note}", of.currency, of.closed_by, of.hash)
    };
    Ok(invoices.iter().map(line).collect::<Vec<_>>().join("\n"))
}

fn told(verified: &Verified, json: bool) -> Result<String, Failure> {
    if json {
        let invoices: Vec<Value> = verified.invoices.iter().map(|(invoice, _)| as_json(invoice)).collect();
        return Ok(serde_json::to_string_pretty(&json!({ "invoices": invoices, "faults": verified.faults }))?);
    }
    let mut lines = verified.faults.clone();
    if lines.is_empty() {
        let made =
            |(of, lines): &(Invoice, usize)| format!("{}: {lines} lines, as they were closed", invoice::named(of));
        lines.extend(verified.invoices.iter().map(made));
        lines.push(format!("{} invoices, one chain", verified.invoices.len()));
    }
    Ok(lines.join("\n"))
}
