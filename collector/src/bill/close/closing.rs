//! Closing: refuse what cannot be closed, write the snapshot, and then, under the lock, the invoice.

use contador_schemas::rows::{Invoice, InvoiceFact, InvoiceInput, InvoiceLine};
use jiff::Timestamp;
use num_traits::{Signed, ToPrimitive};

use super::open::{self, Open};
use super::{CloseError, Inputs, closed, corrections, invoice, rows, table};
use crate::bill::apportion::{round, sum};
use crate::bill::decimal::Millionths;
use crate::bill::period::{self, Period, next_month};
use crate::bill::rate::exact::MEASURES;
use crate::bill::rate::{Category, Rated};
use crate::bill::settle::Line;
use crate::bill::statement::Statement;
use crate::bill::{StoreError, adjust, audit};
use crate::store::Store;
use crate::store::lock::Lock;

/// How long an insert can take: until then, what it writes is not seen though it was stored earlier by its time.
const LONGEST_INSERT_MS: i64 = 10 * 60_000;

/// What somebody wants when he closes a month.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// The month, such as `2026-10`.
    pub month: String,
    /// Its time zone; else that of the invoice before, else the price book's.
    pub time_zone: Option<String>,
    /// What is to be noted.
    pub note: String,
    /// It is the first: what came before is not billed.
    pub first: bool,
    /// Late use of earlier months may stay without a price: their books have none, and never will.
    pub allow_unpriced_corrections: bool,
}

/// A month that can be closed.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// The invoice, without when it was closed and its hash.
    pub invoice: Invoice,
    /// Its lines.
    pub lines: Vec<InvoiceLine>,
    facts: Vec<InvoiceFact>,
    inputs: Vec<InvoiceInput>,
}

/// Looks whether a month can be closed, and makes its invoice. Nothing is written.
///
/// # Errors
/// [`CloseError::Already`] and [`CloseError::Refused`], which say why not; others.
pub async fn prepare(store: &Store, wanted: &Wanted) -> Result<Prepared, CloseError> {
    let refused = |why| CloseError::Refused { month: wanted.month.clone(), why };
    let invoices = table::invoices(store).await?;
    if let Some(fault) = invoice::faults(&invoices).into_iter().next() {
        return Err(CloseError::Damaged(fault));
    }
    let inputs = Inputs::in_force(store).await?;
    let zone = wanted.time_zone.clone().or_else(|| invoices.last().map(|last| last.time_zone.clone()));
    let zone = period::zone(&zone.unwrap_or_else(|| inputs.book.time_zone.clone()))?;
    let period = Period::month(&wanted.month, &zone)?;
    order(&period, &invoices, &refused)?;
    if invoices.is_empty() && !wanted.first {
        nothing_before(store, &period).await?.map_err(&refused)?;
    }
    let seen_at = seen(store).await?;
    let mut open = open::make(store, &period, &inputs, &invoices).await?;
    complete(&open.statement, wanted.allow_unpriced_corrections).map_err(&refused)?;
    adds_up(&open.statement).map_err(&refused)?;
    // The exact charges take more memory than all the rest, and nothing asks for them any more.
    open.statement.rated = Rated::default();
    let mut prepared = made(open, &inputs, &invoices, wanted).map_err(&refused)?;
    prepared.invoice.seen_at = seen_at;
    Ok(prepared)
}

/// An instant of ClickHouse's clock: whatever was stored up to then is seen by who asks now. An insert that has begun then has ended.
async fn seen(store: &Store) -> Result<i64, StoreError> {
    let sql = "SELECT toUnixTimestamp64Milli(now64(3))";
    let now: i64 = store.client.query(sql).fetch_one().await.map_err(StoreError::doing("ask for the time"))?;
    Ok(now - LONGEST_INSERT_MS)
}

/// Whether the month is over, open, and the next one.
fn order(period: &Period, invoices: &[Invoice], refused: &impl Fn(String) -> CloseError) -> Result<(), CloseError> {
    let (month, zone) = (period.month.clone().unwrap_or_default(), period.zone_name());
    if let Some(same) = invoices.iter().find(|invoice| invoice.month == month) {
        return Err(CloseError::Already { month, number: same.number, hash: same.hash.clone() });
    }
    if let Some(last) = invoices.last() {
        let next = next_month(&last.month);
        if last.time_zone != zone {
            return Err(refused(format!(
                "its time zone is {zone}, expected {}, that of the months before",
                last.time_zone
            )));
        }
        if month < next {
            return Err(refused(format!("{} is closed; enter what it lacks with contador adjust", last.month)));
        }
        if month != next {
            return Err(refused(format!("{next} is not closed; close the months in their order")));
        }
    }
    if Timestamp::now().as_millisecond() < period.to {
        return Err(refused(format!("it is not over before {} ({zone})", period.local(period.to))));
    }
    Ok(())
}

/// Whether nothing is known of the time before the first month that is closed.
async fn nothing_before(store: &Store, period: &Period) -> Result<Result<(), String>, StoreError> {
    let sql = "SELECT assumeNotNull((SELECT count() FROM allocations FINAL WHERE start < fromUnixTimestamp64Milli(toInt64(?)))), \
               assumeNotNull((SELECT count() FROM ledger WHERE minute < toDateTime(?, 'UTC')))";
    let query = store.client.query(sql).bind(period.from).bind(period.from.div_euclid(1_000));
    let (imported, metered): (u64, u64) =
        query.fetch_one().await.map_err(StoreError::doing("look for earlier months"))?;
    if imported == 0 && metered == 0 {
        return Ok(Ok(()));
    }
    Ok(Err(format!(
        "{imported} imported allocations and {metered} ledger rows are from before it, and no earlier month is closed; close those \
         first, or leave them out of all bills with --first"
    )))
}

/// Whether everything has a price and a place in the bill.
fn complete(statement: &Statement, allow_unpriced_corrections: bool) -> Result<(), String> {
    let late: Vec<&str> = if allow_unpriced_corrections {
        let of = |line: &&Line| line.key.category == Category::Correction;
        statement.lines.iter().filter(of).filter_map(|line| line.key.origin_month.as_deref()).collect()
    } else {
        Vec::new()
    };
    let is_late = |what: &str| late.iter().any(|month| what.ends_with(&format!(" of {month}, late")));
    let unpriced = statement.unpriced.iter().filter(|(what, _)| !is_late(what));
    let unpriced: Vec<String> = unpriced.map(|(what, hours)| format!("{what} ({hours} h)")).collect();
    if !unpriced.is_empty() {
        let hint = match unpriced.iter().any(|what| what.contains(", late (")) {
            true => "; what came late for a closed month can be left so with --allow-unpriced-corrections",
            false => "",
        };
        return Err(format!("unpriced: {}; price it with contador prices load{hint}", unpriced.join(", ")));
    }
    if statement.standing.missing.is_empty() {
        return Ok(());
    }
    Err(format!("not in its bill: {}", statement.standing.missing.join("; ")))
}

/// Whether the lines that were made of facts sum to the exact amounts, rounded once, and none is negative (a mark-up may be a rebate).
pub(super) fn adds_up(statement: &Statement) -> Result<(), String> {
    const NAMES: [&str; MEASURES] = [
        "GPU-hours",
        "quantity",
        "unpriced GPU-hours",
        "busy GPU-hours",
        "GPU-hours of unknown use",
        "kWh",
        "kWh of the site",
        "gCO2e",
        "cost",
        "effective cost",
    ];
    const COST: usize = 8;
    let rated: Vec<_> = statement.lines.iter().filter(|line| corrections::is_rated(line.key.category)).collect();
    let exact = statement.rated.charges.iter().filter(|(key, _)| corrections::is_rated(key.category));
    let exact: Vec<_> = exact.map(|(_, exact)| exact.all()).collect();
    for (measure, name) in NAMES.into_iter().enumerate() {
        let told: Millionths = rated.iter().map(|line| line.amounts.all()[measure]).sum();
        let expected = match measure {
            // Effective costs are the billed ones in another place.
            measure if measure > COST => rated.iter().map(|line| line.amounts.all()[COST]).sum(),
            measure => {
                let units = if measure == COST { 10_u32.pow(statement.book.decimals.min(6).into()) } else { 1_000_000 };
                Millionths(round(&sum(exact.iter().map(|all| all[measure])), units) * (1_000_000 / units))
            }
        };
        if told != expected {
            return Err(format!("its lines do not add up: {name} of {told}, expected {expected}"));
        }
        let is_rebate = |category| matches!(category, Category::Markup | Category::Tax);
        let below = |line: &&&Line| !is_rebate(line.key.category) && line.amounts.all()[measure].0.is_negative();
        if let Some(line) = rated.iter().find(below) {
            let (key, amount) = (&line.key, line.amounts.all()[measure]);
            return Err(format!("a line of {} of {:?} has a {name} of {amount}", key.category, key.payer.department));
        }
    }
    Ok(())
}

fn made(open: Open, inputs: &Inputs, invoices: &[Invoice], wanted: &Wanted) -> Result<Prepared, String> {
    let Open { statement, facts, corrected, adjustments } = open;
    let period = &statement.period;
    let documents = inputs.documents()?;
    let (lines_id, lines) = rows::of_lines(&statement.lines)?;
    let (facts_id, mut all_facts) = rows::of_facts(&facts)?;
    let counts = closed::counts(&facts);
    let (period, currency, total) = (period.clone(), statement.book.currency.clone(), statement.total().cost);
    // A month may have millions of them: they are rows now.
    drop((facts, statement));
    let mut corrects = Vec::new();
    for month in corrected {
        let (id, rows) = rows::of_facts(&month.facts)?;
        corrects.push((month.month, id));
        all_facts.extend(rows);
    }
    let last = invoices.last();
    let [book, agreements, directory] = documents.clone().map(|input| input.id);
    let invoice = Invoice {
        number: last.map_or(0, |last| last.number) + 1,
        month: wanted.month.clone(),
        time_zone: period.zone_name(),
        start_ms: period.from,
        end_ms: period.to,
        currency,
        total: total.0.to_i128().ok_or_else(|| format!("its total is {total}, expected at most 32 digits"))?,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        book,
        agreements,
        directory,
        adjustments: adjust::hash(&adjustments),
        facts: facts_id,
        lines: lines_id,
        corrected: corrects,
        counts,
        previous: last.map(|last| last.hash.clone()).unwrap_or_default(),
        closed_by: audit::who(),
        note: wanted.note.clone(),
        ..Invoice::default()
    };
    let inputs = documents.into_iter().filter(|input| !input.id.is_empty()).collect();
    Ok(Prepared { invoice, lines, facts: all_facts, inputs })
}

impl Prepared {
    /// Writes everything but the invoice. The month stays open, and doing so twice is harmless.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn snapshot(&self, store: &Store) -> Result<(), StoreError> {
        table::write(store, &self.facts).await?;
        table::write(store, &self.lines).await?;
        table::write(store, &self.inputs).await
    }

    /// Closes the month, unless somebody else has changed something meanwhile.
    ///
    /// # Errors
    /// [`CloseError::Already`], [`CloseError::Refused`], others.
    pub async fn finish(&self, store: &Store) -> Result<Invoice, CloseError> {
        Lock::hold(store, async |lock| {
            self.unchanged(store).await?;
            let mut invoice = self.invoice.clone();
            invoice.closed_at = Timestamp::now().as_millisecond();
            invoice.hash = invoice::hash(&invoice);
            lock.check().await?;
            table::write(store, std::slice::from_ref(&invoice)).await?;
            log(store, &invoice).await?;
            Ok(invoice)
        })
        .await
    }

    async fn unchanged(&self, store: &Store) -> Result<(), CloseError> {
        let month = self.invoice.month.clone();
        let invoices = table::invoices(store).await?;
        let last = invoices.last();
        if let Some(same) = invoices.iter().find(|invoice| invoice.month == month) {
            return Err(CloseError::Already { month, number: same.number, hash: same.hash.clone() });
        }
        let adjustments = adjust::hash(&adjust::table::read(store, Some(&month)).await?);
        let same = last.map_or("", |last| &last.hash) == self.invoice.previous;
        if same && adjustments == self.invoice.adjustments {
            return Ok(());
        }
        let why = "another month or its adjustments were changed meanwhile; close it again".to_owned();
        Err(CloseError::Refused { month, why })
    }
}

/// Tells the audit log of an invoice, unless it knows.
async fn log(store: &Store, invoice: &Invoice) -> Result<(), StoreError> {
    let known = audit::all(store).await?;
    if known.iter().any(|row| row.action == "close" && row.details.contains(&invoice.hash)) {
        return Ok(());
    }
    let total = adjust::shown(invoice.total);
    let details = format!("invoice {}, {total} {}, {}", invoice.number, invoice.currency, invoice.hash);
    audit::append(store, "close", &invoice.month, &details).await
}

/// Tells the audit log of a closed month again, in case that failed when it was closed.
///
/// # Errors
/// [`CloseError`].
pub async fn log_again(store: &Store, month: &str) -> Result<(), CloseError> {
    Lock::hold(store, async |_| {
        let invoices = table::invoices(store).await?;
        match invoices.iter().find(|invoice| invoice.month == month) {
            Some(invoice) => Ok(log(store, invoice).await?),
            None => Ok(()),
        }
    })
    .await
}
