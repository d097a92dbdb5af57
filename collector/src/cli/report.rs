//! `contador report`.

use std::io::Write;
use std::path::PathBuf;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::{Failure, output, usage};
use crate::bill::commitments::{self, Agreements};
use crate::bill::decimal;
use crate::bill::directory;
use crate::bill::focus::lines::{Export, ExportError, Unpriced};
use crate::bill::period::{self, Period};
use crate::bill::prices::{NO_CURRENCY, PriceBook, file};
use crate::bill::report::view::Served;
use crate::bill::report::{self, Beside, Dimension, Lang, Report};
use crate::bill::statement::{self, BillError, Statement};
use crate::bill::units;
use crate::bill::view::Filter;
use crate::store::{Store, StoreArgs};

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
    /// Time zone in which the month and dates are meant [default: that of closed months, else the price book's]
    #[arg(long, value_name = "ZONE")]
    time_zone: Option<String>,
    /// Price every GPU-hour like this instead of by the price book in the store
    #[arg(long, value_name = "RATE", conflicts_with = "prices")]
    flat_rate: Option<String>,
    /// Currency of the flat rate, ISO 4217 [default: XXX, which is none]
    #[arg(long, requires = "flat_rate", value_name = "CODE")]
    currency: Option<String>,
    /// Price by the book in this file instead of by the one in the store
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
    /// Apply the commitments and budgets in this file instead of those in the store
    #[arg(long, value_name = "FILE")]
    commitments: Option<PathBuf>,
    /// What to group by; several times for groups in groups
    #[arg(long, value_enum, default_value = "department")]
    by: Vec<Dimension>,
    /// Only this department's lines
    #[arg(long)]
    department: Option<String>,
    /// How to show it
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Language of HTML
    #[arg(long, value_enum, default_value_t)]
    lang: Lang,
    /// Everything: each line in CSV and JSON, and in HTML not only the largest of many
    #[arg(long)]
    detail: bool,
    /// Do without last month, which is told in all formats but CSV
    #[arg(long)]
    no_compare: bool,
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
    /// One file for people, with everything in it
    Html,
    /// One object, amounts as decimal strings
    Json,
    /// One record a group, or with --detail a line
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
    // What can be said to be wrong without the store is said without it.
    period(&args, &zone(&args)?)?;
    let (book, agreements) = (prices(&args)?, commitments(&args)?);
    let store = args.store.open()?;
    let now = Timestamp::now().as_millisecond();
    let (statement, beside) = super::runtime()?.block_on(bill(&args, &store, book, agreements, now))?;
    let (by, then) = args.by.split_first().ok_or_else(|| usage("--by: expected at least one dimension"))?;
    let report = Report::of(statement, *by, then.to_vec(), args.department.clone()).beside(beside);
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

/// The bill of the period, and what is shown beside it: where it is a month, the bill of the month before. By prices or commitments of
/// this call alone, both are what would have been charged; else a closed month is as it was closed.
async fn bill(
    args: &Args,
    store: &Store,
    book: Option<PriceBook>,
    agreements: Option<Agreements>,
    now: i64,
) -> Result<(Statement, Beside), Failure> {
    let zone = match &args.time_zone {
        Some(_) => zone(args)?,
        None => statement::zone(store, book.as_ref()).await.map_err(failed)?,
    };
    let period = period(args, &zone)?;
    let terms = if book.is_some() || agreements.is_some() {
        let book = statement::book_or_current(store, book).await.map_err(failed)?;
        let agreements = statement::agreements_or_current(store, agreements, &book).await.map_err(failed)?;
        Some((book, agreements))
    } else {
        None
    };
    let of = async |period: &Period| match terms.clone() {
        Some((book, agreements)) => statement::build_with(store, period, book, agreements).await.map_err(failed),
        None => statement::build(store, period, None).await.map_err(failed),
    };
    let statement = of(&period).await?;
    let is_kept = statement.standing.invoice.is_some();
    let last = match statement.period.month_before().filter(|_| with_last(args)) {
        // What is closed is not compared with what may still change, and does not depend on what that would be priced with.
        Some(before) if is_kept && !statement::is_closed(store, &before).await.map_err(failed)? => None,
        Some(before) => Some(of(&before).await?),
        None => None,
    };
    // Nor are amounts of two currencies.
    let last = last.filter(|last| last.book.currency == statement.book.currency);
    let now = (period.from..period.to).contains(&now).then_some(now);
    // What is served may still be told later: a closed month is shown without it, so that it stays as it is.
    let served = match args.format {
        Format::Html if !is_kept => served(store, &period).await.map_err(failed)?,
        _ => Vec::new(),
    };
    Ok((statement, Beside { last, now, served }))
}

/// What services of departments have served in the period.
async fn served(store: &Store, period: &Period) -> Result<Vec<Served>, BillError> {
    let directory = directory::table::current(store).await?;
    let served = units::fetch(store, period, directory.as_ref()).await?;
    let (groups, _) = served.of(&[Dimension::Department, Dimension::Service], &Filter::default());
    let mut rows: Vec<Served> = groups
        .into_iter()
        .filter_map(|(values, counts)| {
            let [department, service] = <[String; 2]>::try_from(values).ok()?;
            let tokens = counts.output_tokens.unwrap_or_default();
            Some(Served { department, service, requests: counts.requests?, tokens })
        })
        .collect();
    rows.sort_by(|a, b| (&a.department, &a.service).cmp(&(&b.department, &b.service)));
    Ok(rows)
}

fn failed(error: BillError) -> Failure {
    match error {
        BillError::NoPrices | BillError::Currencies { .. } => usage(error),
        BillError::Store(error) => error.into(),
        BillError::Closed(error) => error.into(),
    }
}

/// The zone that was asked for, or UTC.
fn zone(args: &Args) -> Result<TimeZone, Failure> {
    period::zone(args.time_zone.as_deref().unwrap_or("UTC")).map_err(usage)
}

fn period(args: &Args, zone: &TimeZone) -> Result<Period, Failure> {
    let period = match (&args.month, &args.from, &args.to) {
        (Some(month), _, _) => Period::month(month, zone),
        (None, Some(from), Some(to)) => Period::between(from, to, zone),
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

fn commitments(args: &Args) -> Result<Option<Agreements>, Failure> {
    let read = args.commitments.as_deref().map(commitments::file::read).transpose();
    read.map_err(|error| Failure::Usage(error.into()))
}

/// Whether the bill of the month before is wanted.
const fn with_last(args: &Args) -> bool {
    !args.no_compare && matches!(args.format, Format::Table | Format::Html | Format::Json)
}

fn write(report: &Report, args: &Args, out: &mut (dyn Write + Send)) -> anyhow::Result<()> {
    let text = match args.format {
        Format::Table => report.to_table(WIDTH),
        Format::Html => report.to_html(args.lang, args.detail),
        Format::Json if args.detail => serde_json::to_string_pretty(&report.to_json_with_lines())? + "\n",
        Format::Json => serde_json::to_string_pretty(&report.to_json())? + "\n",
        Format::Csv if args.detail => report.to_csv_of_lines()?,
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
    let export = Export::new(&report.statement, |key| report.shows(key), unpriced)?;
    // One department's rows are not all of the invoice's.
    Ok(match &report.statement.standing.invoice {
        Some(invoice) if report.department.is_none() => export.on_invoice(&invoice.number.to_string()),
        _ => export,
    })
}
