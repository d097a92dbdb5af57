//! The bill of a month that is not closed: what its facts make, what was adjusted by hand, and what was billed wrongly of closed
//! months, which the next month after the last closed one corrects.

use contador_schemas::rows::{Adjustment, Invoice};

use super::{CloseError, Inputs, corrections, period_of, rows, table};
use crate::bill::adjust;
use crate::bill::facts::{self, Facts};
use crate::bill::period::Period;
use crate::bill::settle::Line;
use crate::bill::statement::{self, Statement};
use crate::store::Store;

/// How many closed months are looked at for what came late.
pub const LOOK_BACK: usize = 12;

/// The bill of an open period, with what it was made of.
#[derive(Clone, Debug)]
pub struct Open {
    /// The bill.
    pub statement: Statement,
    /// The facts of the period.
    pub facts: Facts,
    /// The months that it corrects.
    pub corrected: Vec<Corrected>,
    /// What was entered by hand for it.
    pub adjustments: Vec<Adjustment>,
}

/// A closed month that has changed since it was billed or last corrected.
#[derive(Clone, Debug)]
pub struct Corrected {
    /// The month.
    pub month: String,
    /// The currency of its invoice.
    pub currency: String,
    /// Its facts now.
    pub facts: Facts,
    /// What corrects it.
    pub lines: Vec<Line>,
}

/// Makes the bill of a period. Only that of a month, in the zone of the invoices, has adjustments and corrections.
///
/// # Errors
/// [`CloseError`].
pub async fn make(store: &Store, period: &Period, inputs: &Inputs, invoices: &[Invoice]) -> Result<Open, CloseError> {
    let facts = inputs.facts(store, period).await?;
    let statement = statement::of_facts(&facts, period, inputs.book.clone(), inputs.agreements.clone());
    let mut open = Open { statement, facts, corrected: Vec::new(), adjustments: Vec::new() };
    let last = invoices.last();
    let Some(month) = period.month.as_deref().filter(|_| last.is_none_or(|last| last.time_zone == period.zone_name()))
    else {
        return Ok(open);
    };
    open.adjust(adjust::table::read(store, Some(month)).await?);
    if last.is_some_and(|last| last.end_ms == period.from) {
        for corrected in late(store, invoices).await? {
            open.correct(corrected);
        }
    }
    Ok(open)
}

impl Open {
    fn adjust(&mut self, rows: Vec<Adjustment>) {
        let currency = self.statement.book.currency.clone();
        let is_foreign = |row: &&Adjustment| row.amount != 0 && row.currency != currency;
        for row in rows.iter().filter(is_foreign) {
            let amount = adjust::shown(row.amount);
            let what = format!("adjustment {} of {amount} {}, expected {currency}", row.id, row.currency);
            self.statement.standing.missing.push(what);
        }
        let ours: Vec<Adjustment> = rows.iter().filter(|row| !is_foreign(row)).cloned().collect();
        self.statement.add(adjust::lines(&ours));
        self.statement.standing.claims = adjust::claims(&rows);
        self.adjustments = rows;
    }

    fn correct(&mut self, corrected: Corrected) {
        let (currency, month) = (&self.statement.book.currency, &corrected.month);
        if corrected.currency != *currency {
            let what =
                format!("corrections of {month}, which was billed in {}, expected {currency}", corrected.currency);
            self.statement.standing.missing.push(what);
            return;
        }
        for line in corrected.lines.iter().filter(|line| line.amounts.unpriced > Default::default()) {
            let model = crate::bill::report::Dimension::GpuModel.of(&line.key);
            let what = format!("{model} of {month}, late");
            self.statement.unpriced.push((what, line.amounts.unpriced.clone()));
        }
        self.statement.add(corrected.lines.clone());
        self.corrected.push(corrected);
    }
}

/// The closed months whose facts are not those that they were billed or last corrected by.
async fn late(store: &Store, invoices: &[Invoice]) -> Result<Vec<Corrected>, CloseError> {
    let mut late = Vec::new();
    for invoice in invoices.iter().skip(invoices.len().saturating_sub(LOOK_BACK)) {
        let (month, period) = (&invoice.month, period_of(invoice)?);
        let (known, seen_at) = last_seen(invoices, invoice);
        if !facts::late_since(store, &period, seen_at).await? {
            continue;
        }
        let inputs = table::inputs(store, invoice).await?;
        let facts = inputs.facts(store, &period).await?;
        let (snapshot, _) = rows::of_facts(&facts).map_err(CloseError::Damaged)?;
        if snapshot == known {
            continue;
        }
        let lines = difference(store, invoices, invoice, &inputs, &facts).await?;
        if !lines.is_empty() {
            late.push(Corrected { month: month.clone(), currency: invoice.currency.clone(), facts, lines });
        }
    }
    Ok(late)
}

/// The facts by which a closed month was billed or last corrected, and up to when those have seen the store.
fn last_seen<'i>(invoices: &'i [Invoice], invoice: &'i Invoice) -> (&'i str, i64) {
    let corrected = invoices.iter().rev().find_map(|later| {
        let (_, facts) = later.corrected.iter().find(|(month, _)| *month == invoice.month)?;
        Some((facts.as_str(), later.seen_at))
    });
    corrected.unwrap_or((&invoice.facts, invoice.seen_at))
}

/// What corrects a closed month that has these facts, after what `invoices` have corrected of it.
///
/// # Errors
/// [`CloseError`].
pub async fn difference(
    store: &Store,
    invoices: &[Invoice],
    of: &Invoice,
    inputs: &Inputs,
    facts: &Facts,
) -> Result<Vec<Line>, CloseError> {
    let (book, agreements) = (inputs.book.clone(), inputs.agreements.clone());
    let now = statement::of_facts(facts, &period_of(of)?, book, agreements).lines;
    let billed = table::lines(store, of).await?;
    let mut earlier = Vec::new();
    let corrects = |invoice: &&Invoice| invoice.corrected.iter().any(|(month, _)| *month == of.month);
    for invoice in invoices.iter().filter(corrects) {
        earlier.extend(table::lines(store, invoice).await?);
    }
    Ok(corrections::of(&of.month, &now, &billed, &earlier))
}
