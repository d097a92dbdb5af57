//! Proof of what was closed: the chain, and each invoice's lines made again of its stored facts and inputs, compared byte by byte.

use contador_schemas::rows::{Adjustment, Invoice, InvoiceLine};
use num_traits::ToPrimitive;
use serde_json::Value;

use super::{CloseError, invoice, open, period_of, rows, table};
use crate::bill::adjust;
use crate::bill::statement::{self, Statement};
use crate::store::Store;

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Verified {
    /// The invoices that were made again, with the number of their lines.
    pub invoices: Vec<(Invoice, usize)>,
    /// What is wrong; nothing, if all is as it was closed.
    pub faults: Vec<String>,
}

/// Verifies the chain, and the invoice of a month or all of them.
///
/// # Errors
/// [`CloseError::Refused`] if the month is not closed, [`CloseError::Store`].
pub async fn verify(store: &Store, month: Option<&str>) -> Result<Verified, CloseError> {
    let invoices = table::invoices(store).await?;
    let mut verified = Verified { faults: invoice::faults(&invoices), ..Verified::default() };
    let wanted = |invoice: &&Invoice| month.is_none_or(|month| invoice.month == month);
    if let Some(month) = month.filter(|_| !invoices.iter().any(|invoice| wanted(&invoice))) {
        return Err(CloseError::Refused {
            month: month.to_owned(),
            why: "it is not closed, and so cannot be verified".into(),
        });
    }
    for invoice in invoices.iter().filter(wanted) {
        match again(store, &invoices, invoice).await {
            Ok((lines, faults)) => {
                verified.invoices.push((invoice.clone(), lines));
                verified.faults.extend(faults);
            }
            Err(CloseError::Store(error)) => return Err(error.into()),
            Err(CloseError::Damaged(fault)) => verified.faults.push(fault),
            Err(error) => verified.faults.push(format!("{}: {error}", invoice::named(invoice))),
        }
    }
    Ok(verified)
}

/// Makes an invoice again: how many lines it has, and what is not as it was closed.
async fn again(store: &Store, invoices: &[Invoice], of: &Invoice) -> Result<(usize, Vec<String>), CloseError> {
    let named = invoice::named(of);
    let adjustments = adjust::table::read(store, Some(&of.month)).await?;
    let mut faults = Vec::new();
    let hash = adjust::hash(&adjustments);
    if hash != of.adjustments {
        faults.push(format!("{named}: its adjustments have the hash {hash}, expected {}", of.adjustments));
    }
    let statement = remade(store, invoices, of, &adjustments).await?;
    let (_, expected) = rows::of_lines(&statement.lines).map_err(CloseError::Damaged)?;
    let found = table::line_rows(store, of).await?;
    if let Some(difference) = difference(&found, &expected) {
        faults.push(format!("{named}: {difference}"));
    }
    let hash = rows::hash_of_lines(&found).map_err(CloseError::Damaged)?;
    if hash != of.lines {
        faults.push(format!("{named}: its lines have the hash {hash}, expected {}", of.lines));
    }
    let total = statement.total().cost;
    if total.0.to_i128() != Some(of.total) {
        faults.push(format!("{named}: its total is {}, expected {total}", adjust::shown(of.total)));
    }
    Ok((found.len(), faults))
}

/// The bill of an invoice, made of its stored facts and inputs, its adjustments and what it corrects.
async fn remade(
    store: &Store,
    invoices: &[Invoice],
    of: &Invoice,
    adjustments: &[Adjustment],
) -> Result<Statement, CloseError> {
    let inputs = table::inputs(store, of).await?;
    let facts = table::facts(store, &of.facts).await?;
    let mut statement = statement::of_facts(&facts, &period_of(of)?, inputs.book, inputs.agreements);
    statement.add(adjust::lines(adjustments));
    let before = invoices.split(|invoice| invoice.number == of.number).next().unwrap_or_default();
    for (month, snapshot) in &of.corrected {
        let corrected = before.iter().find(|invoice| invoice.month == *month);
        let missing = || CloseError::Damaged(format!("{}: corrects {month}, which is not closed", invoice::named(of)));
        let corrected = corrected.ok_or_else(missing)?;
        let (inputs, facts) = (table::inputs(store, corrected).await?, table::facts(store, snapshot).await?);
        statement.add(open::difference(store, before, corrected, &inputs, &facts).await?);
    }
    Ok(statement)
}

/// The first difference between the lines that are stored and those that should be.
fn difference(found: &[InvoiceLine], expected: &[InvoiceLine]) -> Option<String> {
    let json = |line: &InvoiceLine| {
        serde_json::to_value(InvoiceLine { lines: String::new(), ..line.clone() }).unwrap_or_default()
    };
    for (found, expected) in found.iter().zip(expected) {
        let (one, other) = (json(found), json(expected));
        if one != other {
            let field = one.as_object()?.iter().find(|(name, value)| other.get(name.as_str()) != Some(value));
            let (name, value) = field.map_or(("", &Value::Null), |(name, value)| (name.as_str(), value));
            let (number, department) = (found.number, &expected.department);
            let category = &expected.category;
            let wanted = other.get(name).unwrap_or(&Value::Null);
            return Some(format!("line {number} ({category} of {department:?}): {name} is {value}, expected {wanted}"));
        }
    }
    (found.len() != expected.len()).then(|| format!("it has {} lines, expected {}", found.len(), expected.len()))
}
