//! The bill of a period, whole: its lines, and what they were made of. Every report is a view of one.

use jiff::tz::TimeZone;
use num_rational::BigRational;
use num_traits::Zero;
use thiserror::Error;

use super::StoreError;
use super::apportion::{apportion, round, sum};
use super::close::{self, CloseError, Inputs, Standing};
use super::commitments::{self, Agreements, Slot};
use super::decimal::Millionths;
use super::directory::{self, Directory};
use super::facts::{Facts, Grain};
use super::period::{self, Period};
use super::prices::{self, ANY, NO_CURRENCY, PriceBook};
use super::rate::exact::{Amount, Exact};
use super::rate::{self, Rated, Terms};
use super::settle::{Amounts, Line, settle};
use crate::store::Store;

/// Why there is no bill.
#[derive(Debug, Error)]
pub enum BillError {
    /// There is nothing to price with.
    #[error("no prices: load a price book with contador prices load FILE, or give --prices FILE or --flat-rate 1.00")]
    NoPrices,
    /// Commitments cannot be added to amounts of another currency.
    #[error("the commitments are in {commitments}, and the price book is in {book}: expected one currency")]
    Currencies {
        /// Of the commitments.
        commitments: String,
        /// Of the price book.
        book: String,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The month is closed, and cannot be told as it was closed.
    #[error(transparent)]
    Closed(CloseError),
}

impl From<CloseError> for BillError {
    fn from(error: CloseError) -> Self {
        match error {
            CloseError::NoPrices => Self::NoPrices,
            CloseError::Store(error) => Self::Store(error),
            error => Self::Closed(error),
        }
    }
}

/// What a bill was made of.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Made {
    /// Imported allocations that touch the period.
    pub allocations: u64,
    /// Ledger rows in the period.
    pub ledger_rows: u64,
    /// Whether part of it was generated, not measured.
    pub simulated: bool,
    /// Owner ids that the store has no meaning for.
    pub unknown_owners: usize,
    /// Imported allocations of a device that was metered in the period too: both are counted.
    pub metered_too: u64,
    /// GPU-hours that imports claim over the whole of a device. They are charged.
    pub over_allocated: Millionths,
    /// Unmetered GPU-hours that were given to whom the device belonged to before and after.
    pub gaps_given: Millionths,
    /// Id of the directory that departments are from, where the owners have none themselves.
    pub directory: Option<String>,
}

/// The bill of a period.
#[derive(Clone, Debug)]
pub struct Statement {
    /// The period.
    pub period: Period,
    /// What it was priced with.
    pub book: PriceBook,
    /// Commitments and budgets.
    pub agreements: Agreements,
    /// In the order of their keys.
    pub lines: Vec<Line>,
    /// What has no price: GPU-hours by model, and GiB or GiB-months by class. They are in no sum.
    pub unpriced: Vec<(String, Millionths)>,
    /// What was rated, before anything was rounded.
    pub rated: Rated,
    /// What it was made of.
    pub made: Made,
    /// Whether it is closed, and what departments say of it.
    pub standing: Standing,
}

/// Makes the bill of a period from what the store holds: that of a closed month as it was closed. With a `book`, it is what the period
/// would cost by that one, without adjustments and corrections.
///
/// # Errors
/// [`BillError`].
pub async fn build(store: &Store, period: &Period, book: Option<PriceBook>) -> Result<Statement, BillError> {
    if let Some(book) = book {
        let agreements = agreements_or_current(store, None, &book).await?;
        return build_with(store, period, book, agreements).await;
    }
    let invoices = close::table::invoices(store).await?;
    if let Some(invoice) = close::closed::of(&invoices, period) {
        return Ok(Box::pin(close::closed::statement(store, invoice)).await?);
    }
    let inputs = Inputs::in_force(store).await?;
    // Large, and seldom: whoever awaits this should not have to hold it.
    Ok(Box::pin(close::open::make(store, period, &inputs, &invoices)).await?.statement)
}

/// Whether the period is a closed month.
///
/// # Errors
/// [`BillError::Store`] and [`BillError::Closed`].
pub async fn is_closed(store: &Store, period: &Period) -> Result<bool, BillError> {
    Ok(close::closed::of(&close::table::invoices(store).await?, period).is_some())
}

/// The given book, or else the one in force.
///
/// # Errors
/// [`BillError::NoPrices`] and [`BillError::Store`].
pub async fn book_or_current(store: &Store, book: Option<PriceBook>) -> Result<PriceBook, BillError> {
    match book {
        Some(book) => Ok(book),
        None => prices::table::current(store).await?.ok_or(BillError::NoPrices),
    }
}

/// The given agreements, or else those in force, which may be none. Those in force do not go with a book without a currency: a flat
/// rate counts hours, and commitments are money.
///
/// # Errors
/// [`BillError::Currencies`] and [`BillError::Store`].
pub async fn agreements_or_current(
    store: &Store,
    agreements: Option<Agreements>,
    book: &PriceBook,
) -> Result<Agreements, BillError> {
    let agreements = match agreements {
        Some(agreements) => agreements,
        None if book.currency == NO_CURRENCY => Agreements::default(),
        None => commitments::table::current(store).await?.unwrap_or_default(),
    };
    let is_empty = agreements.commitments.is_empty() && agreements.budgets.is_empty();
    if is_empty || agreements.currency == book.currency {
        return Ok(agreements);
    }
    Err(BillError::Currencies { commitments: agreements.currency, book: book.currency.clone() })
}

/// What a period would cost by these prices and agreements, which must be of one currency: without adjustments and corrections,
/// whether it is closed or not.
///
/// # Errors
/// [`BillError::Store`].
pub async fn build_with(
    store: &Store,
    period: &Period,
    book: PriceBook,
    agreements: Agreements,
) -> Result<Statement, BillError> {
    let inputs = Inputs { book, agreements, directory: directory::table::current(store).await? };
    let facts = inputs.facts(store, period).await?;
    Ok(of_facts(&facts, period, inputs.book, inputs.agreements))
}

/// The time zone in which months are meant if nobody says: that of the closed months, else that of `book`, or of the one in force.
///
/// # Errors
/// [`BillError`].
pub async fn zone(store: &Store, book: Option<&PriceBook>) -> Result<TimeZone, BillError> {
    if let Some(last) = close::table::invoices(store).await?.last() {
        return Ok(period::zone(&last.time_zone).map_err(CloseError::from)?);
    }
    match book {
        Some(book) => Ok(book.zone()),
        None => Ok(book_or_current(store, None).await?.zone()),
    }
}

/// The directory that the bill of a period has its departments from: that of a closed month is the one that it was closed with.
///
/// # Errors
/// [`BillError`].
pub async fn directory(store: &Store, period: &Period) -> Result<Option<Directory>, BillError> {
    let invoices = close::table::invoices(store).await?;
    match close::closed::of(&invoices, period) {
        Some(invoice) => Ok(close::table::inputs(store, invoice).await?.directory),
        None => Ok(directory::table::current(store).await?),
    }
}

/// Where facts have to be cut for a book and for agreements.
pub fn grain(book: &PriceBook, agreements: &Agreements, period: &Period) -> Grain {
    let mut grain = Grain {
        gaps_to_last_owner: book.policy.gaps_to_last_owner,
        split_over_allocation: book.policy.split_over_allocation,
        ..Grain::default()
    };
    for rate in book.rates.iter().filter(|rate| rate.is_by_session()) {
        grain.all_by_session |= rate.gpu_model == ANY;
        grain.by_session.insert(rate.gpu_model.clone());
    }
    let mut ends = book.changes(period.from, period.to);
    for commitment in &agreements.commitments {
        let slots = if commitment.slot == Slot::Hour { &mut grain.by_hour } else { &mut grain.by_minute };
        slots.insert(commitment.gpu_model.clone());
        ends.extend([Some(commitment.from), commitment.to].into_iter().flatten().map(|at| i64::from(at) * 1_000));
    }
    grain.cut(ends.into_iter().chain(period.midnights()).filter(|at| period.from < *at && *at < period.to));
    grain
}

/// Makes the bill of given facts, which must be cut as [`grain`] says. Their owners have the departments that pay.
pub fn of_facts(facts: &Facts, period: &Period, book: PriceBook, agreements: Agreements) -> Statement {
    let rated = rate::rate(facts, &Terms { period, book: &book, agreements: &agreements });
    let lines = settle(&rated, book.decimals);
    let made = Made::of(facts);
    let unpriced = unpriced(&rated, &lines);
    let standing = Standing::default();
    Statement { period: period.clone(), book, agreements, lines, unpriced, rated, made, standing }
}

impl Made {
    /// What facts were made of.
    pub fn of(facts: &Facts) -> Self {
        let hours = |units: i128| Millionths(round(&Amount::new(units.into(), &rate::exact::hour()), 1_000_000));
        Self {
            allocations: facts.allocations,
            ledger_rows: facts.ledger_rows,
            simulated: facts.simulated,
            unknown_owners: facts.unknown_owners,
            metered_too: facts.metered_too,
            over_allocated: hours(facts.over_allocated),
            gaps_given: hours(facts.gaps_given),
            directory: facts.directory.clone(),
        }
    }
}

/// What has no price, by model: GPU-hours sum to those of the lines. Other items are rounded each.
fn unpriced(rated: &Rated, lines: &[Line]) -> Vec<(String, Millionths)> {
    let is_gpu = |name: &str| !(name.starts_with("storage ") || name.starts_with("network "));
    let (gpus, others): (Vec<_>, Vec<_>) = rated.unpriced.iter().partition(|(name, _)| is_gpu(name));
    let whole: Millionths = lines.iter().map(|line| &line.amounts.unpriced).sum();
    let parts: Vec<_> = gpus.iter().map(|(_, amount)| *amount).collect();
    let shares = apportion(&whole.0, &parts).into_iter().map(Millionths);
    let mut unpriced: Vec<_> = gpus.iter().map(|(name, _)| (*name).clone()).zip(shares).collect();
    unpriced.extend(others.into_iter().map(|(name, amount)| (name.clone(), Millionths(round(amount, 1_000_000)))));
    unpriced
}

impl Statement {
    /// Adds lines that are rounded already, as they are.
    pub fn add(&mut self, lines: Vec<Line>) {
        for line in &lines {
            *self.rated.charges.entry(line.key.clone()).or_default() += &Exact::of(&line.amounts);
        }
        self.lines.extend(lines);
        self.lines.sort_by(|one, other| one.key.cmp(&other.key));
    }

    /// What the whole fleet comes to.
    pub fn total(&self) -> Amounts {
        self.lines.iter().map(|line| &line.amounts).sum()
    }

    /// The exact cost and GPU-hours of the charges for which `wanted`, before anything was rounded.
    pub fn exact(&self, wanted: impl Fn(&rate::Key) -> bool) -> (BigRational, BigRational) {
        let of: Vec<_> = self.rated.charges.iter().filter(|(key, _)| wanted(key)).map(|(_, exact)| exact).collect();
        if of.is_empty() {
            return (BigRational::zero(), BigRational::zero());
        }
        let cost = sum(of.iter().map(|exact| &exact.cost)).reduced();
        (cost, sum(of.iter().map(|exact| &exact.gpu_hours)).reduced())
    }
}
