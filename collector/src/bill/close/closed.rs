//! The bill of a closed month: the lines that were closed, with what they were made of, whatever is in force now.

use contador_schemas::rows::Invoice;
use serde::{Deserialize, Serialize};

use super::{CloseError, Standing, period_of, table};
use crate::bill::adjust;
use crate::bill::facts::Facts;
use crate::bill::period::Period;
use crate::bill::rate::Rated;
use crate::bill::statement::{Made, Statement};
use crate::store::Store;

/// What the facts of a month were made of, as it is kept with the invoice.
#[derive(Deserialize, Serialize)]
struct Counts {
    allocations: u64,
    ledger_rows: u64,
    simulated: bool,
    unknown_owners: usize,
    metered_too: u64,
    /// In quotes, since JSON numbers are not exact.
    over_allocated: String,
    gaps_given: String,
    directory: Option<String>,
}

/// What facts were made of, as text.
pub fn counts(facts: &Facts) -> String {
    let counts = Counts {
        allocations: facts.allocations,
        ledger_rows: facts.ledger_rows,
        simulated: facts.simulated,
        unknown_owners: facts.unknown_owners,
        metered_too: facts.metered_too,
        over_allocated: facts.over_allocated.to_string(),
        gaps_given: facts.gaps_given.to_string(),
        directory: facts.directory.clone(),
    };
    serde_json::to_string(&counts).unwrap_or_default()
}

/// Facts without any, but with the counts of that text.
fn read_counts(text: &str) -> Result<Facts, String> {
    let counts: Counts = serde_json::from_str(text).map_err(|error| format!("counts {text:?}: {error}"))?;
    let whole = |text: &str| text.parse().map_err(|_| format!("counts: {text:?}, expected a whole number"));
    Ok(Facts {
        allocations: counts.allocations,
        ledger_rows: counts.ledger_rows,
        simulated: counts.simulated,
        unknown_owners: counts.unknown_owners,
        metered_too: counts.metered_too,
        over_allocated: whole(&counts.over_allocated)?,
        gaps_given: whole(&counts.gaps_given)?,
        directory: counts.directory,
        ..Facts::default()
    })
}

/// The invoice of a period, if that is a closed month, however it was asked for.
pub fn of<'i>(invoices: &'i [Invoice], period: &Period) -> Option<&'i Invoice> {
    invoices.iter().find(|invoice| (invoice.start_ms, invoice.end_ms) == (period.from, period.to))
}

/// The bill of a closed month.
///
/// # Errors
/// [`CloseError`], [`CloseError::Damaged`] if its lines are not those that were closed.
pub async fn statement(store: &Store, invoice: &Invoice) -> Result<Statement, CloseError> {
    if super::invoice::hash(invoice) != invoice.hash {
        let named = super::invoice::named(invoice);
        return Err(CloseError::Damaged(format!("{named}: what it says is not what was closed")));
    }
    let (inputs, lines) = (table::inputs(store, invoice).await?, table::lines(store, invoice).await?);
    let rows = adjust::table::read(store, Some(&invoice.month)).await?;
    let made = read_counts(&invoice.counts).map_err(CloseError::Damaged)?;
    let mut statement = Statement {
        period: period_of(invoice)?,
        book: inputs.book,
        agreements: inputs.agreements,
        lines: Vec::new(),
        unpriced: Vec::new(),
        rated: Rated::default(),
        made: Made::of(&made),
        standing: Standing { invoice: Some(invoice.clone()), claims: adjust::claims(&rows), ..Standing::default() },
    };
    statement.add(lines);
    Ok(statement)
}
