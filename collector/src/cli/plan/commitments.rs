//! `contador plan commitments`.

use std::path::PathBuf;

use super::super::{Failure, print, usage};
use super::{book, discount, exact, write};
use crate::bill::commitments::Slot;
use crate::bill::period::{self, Period};
use crate::bill::plan::advice::{self, Asked};
use crate::bill::plan::demand::By;
use crate::bill::plan::rates::Reserved;
use crate::bill::statement::BillError;
use crate::latency::read;
use crate::store::StoreArgs;

/// What is said below the flags.
const ABOUT: &str = "The demand is what workloads held, by the mean of each slot. The reserved rate is --reserved-hourly or --discount, else \
                     the book's exclusive rate of the model.";

/// Arguments of `contador plan commitments`.
#[derive(clap::Args, Debug)]
#[command(after_help = ABOUT, group(clap::ArgGroup::new("period").required(true).multiple(true).args(["month", "from", "to"])))]
pub struct Args {
    /// Month such as 2026-10
    #[arg(long, conflicts_with_all = ["from", "to"])]
    month: Option<String>,
    /// Start: RFC 3339, a date, or whole epoch seconds; of a whole minute
    #[arg(long, requires = "to", value_name = "TIME")]
    from: Option<String>,
    /// End, exclusive
    #[arg(long, requires = "from", value_name = "TIME")]
    to: Option<String>,
    /// Time zone in which the month and dates are meant
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    time_zone: String,
    /// Price by the book in this file instead of by the one in the store
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
    /// Only this GPU model
    #[arg(long, value_name = "MODEL")]
    gpu_model: Option<String>,
    /// Only this department's demand
    #[arg(long, value_name = "NAME")]
    department: Option<String>,
    /// Whose demand is planned for together [default: fleet, or department with --department]
    #[arg(long, value_enum)]
    by: Option<By>,
    /// What a reserved hour costs
    #[arg(long, value_name = "RATE", value_parser = exact, conflicts_with = "discount")]
    reserved_hourly: Option<i128>,
    /// How much less a reserved hour costs than one on demand, such as 40%
    #[arg(long, value_name = "PERCENT", value_parser = discount)]
    discount: Option<i128>,
    /// How long would be reserved for, such as 1y or 90d: tells what is saved in that time
    #[arg(long, value_name = "DURATION", value_parser = term)]
    term: Option<i64>,
    /// The time within which demand is averaged, as commitments are applied
    #[arg(long, value_enum, default_value_t)]
    slot: SlotName,
    /// The part of a GPU that shares are multiples of
    #[arg(long, value_name = "1/N", default_value = "1/7", value_parser = parts)]
    fraction_step: u32,
    /// For machines: one JSON object
    #[arg(long)]
    json: bool,
    /// Draw the curves to this file
    #[arg(long, value_name = "FILE.svg")]
    chart: Option<PathBuf>,
    #[command(flatten)]
    store: StoreArgs,
}

#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
enum SlotName {
    /// Clock hours of UTC
    #[default]
    Hour,
    /// Minutes
    Minute,
}

/// A term in milliseconds; a year has 365 days.
fn term(text: &str) -> Result<i64, String> {
    let years =
        text.strip_suffix('y').filter(|years| !years.is_empty() && years.bytes().all(|byte| byte.is_ascii_digit()));
    let seconds = match years {
        Some(years) => years.parse::<i64>().ok().and_then(|years| years.checked_mul(365 * 86_400)),
        None => read::duration(text).ok().map(i64::from),
    };
    let seconds = seconds.filter(|seconds| (1..=100 * 365 * 86_400).contains(seconds));
    seconds
        .map(|seconds| seconds * 1_000)
        .ok_or_else(|| format!("{text:?}, expected a term such as 1y or 90d, up to 100y"))
}

/// How many parts a GPU has.
fn parts(text: &str) -> Result<u32, String> {
    let parts = text.strip_prefix("1/").and_then(|parts| parts.parse().ok()).filter(|parts| (1..=100).contains(parts));
    parts.ok_or_else(|| format!("{text:?}, expected a part such as 1/7, from 1/1 to 1/100"))
}

impl Args {
    fn asked(&self) -> Result<Asked, Failure> {
        let zone = period::zone(&self.time_zone).map_err(usage)?;
        let period = match (&self.month, &self.from, &self.to) {
            (Some(month), _, _) => Period::month(month, &zone),
            (None, Some(from), Some(to)) => Period::between(from, to, &zone),
            _ => return Err(usage("expected --month, or --from and --to")),
        };
        let period = period.map_err(usage)?;
        if period.from % 60_000 != 0 || period.to % 60_000 != 0 {
            let (from, to) = (period.local(period.from), period.local(period.to));
            return Err(usage(format!("--from {from} --to {to}: expected whole minutes, as the ledger has them")));
        }
        let by = match (self.by, &self.department) {
            (Some(By::Fleet), Some(department)) => {
                return Err(usage(format!("--department {department:?}: expected --by department")));
            }
            (by, department) => by.unwrap_or(if department.is_some() { By::Department } else { By::Fleet }),
        };
        Ok(Asked {
            period,
            by,
            department: self.department.clone(),
            gpu_model: self.gpu_model.clone(),
            slot: match self.slot {
                SlotName::Hour => Slot::Hour,
                SlotName::Minute => Slot::Minute,
            },
            reserved: self.reserved_hourly.map(Reserved::Hourly).or(self.discount.map(Reserved::Discount)),
            parts: self.fraction_step,
            term_ms: self.term,
        })
    }
}

/// Runs the command.
pub fn run(args: Args) -> Result<(), Failure> {
    let asked = args.asked()?;
    let store = args.store.open()?;
    let plan = super::super::runtime()?.block_on(async {
        let book = book(&store, args.prices.as_ref()).await?;
        let book = book.ok_or_else(|| usage(BillError::NoPrices))?;
        Ok::<_, Failure>(advice::build(&store, asked, book).await?)
    })?;
    if let Some(path) = &args.chart {
        write(path, &plan.to_svg())?;
    }
    print(&if args.json {
        serde_json::to_string_pretty(&plan.to_json())?
    } else {
        plan.to_text().trim_end().to_owned()
    })?;
    if plan.advice.is_empty() && !plan.without.is_empty() {
        return Err(usage("no plan: no model has both a rate on demand and a reserved one (see above)"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_and_parts_are_read() {
        assert_eq!(term("1y"), Ok(31_536_000_000));
        assert_eq!(term("90d"), Ok(7_776_000_000));
        assert_eq!(parts("1/7"), Ok(7));
        for bad in ["", "y", "-1y", "1.5y", "101y", "1w"] {
            assert!(term(bad).is_err(), "{bad}");
        }
        for bad in ["", "7", "2/7", "1/0", "1/101", "0.25"] {
            assert!(parts(bad).is_err(), "{bad}");
        }
    }
}
