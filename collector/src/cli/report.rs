//! `contador report`.

use std::io::Write;
use std::path::PathBuf;

use super::{Failure, output, usage};
use crate::bill::decimal;
use crate::bill::focus::lines::{Export, ExportError, Unpriced};
use crate::bill::period::{self, Period};
use crate::bill::prices::{NO_CURRENCY, PriceBook, file};
use crate::bill::report::{self, Dimension, Report};
use crate::bill::statement::{self, BillError};
use crate::store::StoreArgs;

/// Columns of a table.
const WIDTH: u16 = 80;

/// Arguments of `contador report`.
#[derive(clap::Args, Debug)]
#[command(group(clap::ArgGroup::new("period").required(true).multiple(true).args(["month", "from", "to"])))]
pub struct Args {
    /// Month such as 2026-10
    #[arg(long, conflicts_with_all = ["from", "to"])]
    month: Option<String>,
    /// Start: RFC 3339, a date, or whole epoch seconds
    #[arg(long, requires = "to", value_name = "TIME")]
    from: Option<String>,
    /// End, exclusive
    #[arg(long, requires = "from", value_name = "TIME")]
    to: Option<String>,
    /// Time zone in which the month and dates are meant
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    time_zone: String,
    /// Price every GPU-hour like this instead of by the price book in the store
    #[arg(long, value_name = "RATE", conflicts_with = "prices")]
    flat_rate: Option<String>,
    /// Currency of the flat rate, ISO 4217 [default: XXX, which is none]
    #[arg(long, requires = "flat_rate", value_name = "CODE")]
    currency: Option<String>,
    /// Price by the book in this file instead of by the one in the store
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
    /// What to group by
    #[arg(long, value_enum, default_value_t)]
    by: Dimension,
    /// Only this department's lines
    #[arg(long)]
    department: Option<String>,
    /// How to show it
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Write to this file instead of standard output: whole, or not at all
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Succeed even if something has no price
    #[arg(long)]
    allow_unpriced: bool,
    #[command(flatten)]
    store: StoreArgs,
}

#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
enum Format {
    /// For a terminal
    #[default]
    Table,
    /// One object, amounts as decimal strings
    Json,
    /// One record a group
    Csv,
    /// One record a line of the bill, for other programs
    Parquet,
    /// FOCUS 1.2, as CSV
    Focus,
    /// FOCUS 1.2, as Parquet
    FocusParquet,
}

/// Runs the command.
pub fn run(args: Args) -> Result<(), Failure> {
    let (period, book) = (period(&args)?, prices(&args)?);
    let store = args.store.open()?;
    let statement =
        super::runtime()?.block_on(statement::build(&store, &period, book)).map_err(|error| match error {
            BillError::NoPrices => usage(error),
            BillError::Store(error) => error.into(),
        })?;
    let report = Report::new(statement, args.by, args.department.clone());
    match &args.out {
        Some(path) => output::write(path, |out| write(&report, &args, out))?,
        None => output::show(|out| write(&report, &args, out))?,
    }
    if !report.statement.unpriced.is_empty() && !args.allow_unpriced {
        let models =
            report.statement.unpriced.iter().map(|(model, hours)| format!("{} ({hours} h)", report::named(model)));
        let models: Vec<String> = models.collect();
        let models = models.join(", ");
        return Err(
            anyhow::anyhow!("unpriced, and so not in the total: {models}; price it, or say --allow-unpriced").into()
        );
    }
    Ok(())
}

fn period(args: &Args) -> Result<Period, Failure> {
    let zone = period::zone(&args.time_zone).map_err(usage)?;
    let period = match (&args.month, &args.from, &args.to) {
        (Some(month), _, _) => Period::month(month, &zone),
        (None, Some(from), Some(to)) => Period::between(from, to, &zone),
        _ => return Err(usage("expected --month, or --from and --to")),
    };
    period.map_err(usage)
}

fn prices(args: &Args) -> Result<Option<PriceBook>, Failure> {
    if let Some(text) = &args.flat_rate {
        let rate =
            decimal::parse(text).map_err(|expected| usage(format!("--flat-rate {text:?}: expected {expected}")))?;
        let currency = args.currency.clone().unwrap_or_else(|| NO_CURRENCY.to_owned());
        file::currency_code(&currency).map_err(|error| usage(format!("--{error}")))?;
        return Ok(Some(PriceBook::flat(rate, currency)));
    }
    let Some(path) = &args.prices else { return Ok(None) };
    let book = file::read(path).map_err(|error| Failure::Usage(error.into()))?;
    Ok(Some(book))
}

fn write(report: &Report, args: &Args, out: &mut (dyn Write + Send)) -> anyhow::Result<()> {
    let text = match args.format {
        Format::Table => report.to_table(WIDTH),
        Format::Json => serde_json::to_string_pretty(&report.to_json())? + "\n",
        Format::Csv => report.to_csv()?,
        Format::Parquet => return Ok(report.write_parquet(out)?),
        Format::Focus => return Ok(focus(report, args)?.write_csv(out)?),
        Format::FocusParquet => return Ok(focus(report, args)?.write_parquet(out)?),
    };
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

fn focus<'a>(report: &'a Report, args: &Args) -> Result<Export<'a>, ExportError> {
    let unpriced = if args.allow_unpriced { Unpriced::Marked } else { Unpriced::Refused };
    Export::new(&report.statement, |key| report.shows(key), unpriced)
}
