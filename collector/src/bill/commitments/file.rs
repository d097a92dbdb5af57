//! Commitments and budgets as TOML (docs/price-book.md), read strictly: every fault with its file, line, value and what was expected.

use std::collections::BTreeMap;
use std::path::Path;

use jiff::tz::TimeZone;

use super::{Agreements, Budget, Commitment, Slot};
use crate::bill::document::device::device;
use crate::bill::document::table::Table;
use crate::bill::document::{self, DocumentError, Refused};
use crate::bill::period::Period;

const COMMITMENT: [&str; 9] = ["id", "department", "gpu_model", "mig_profile", "gpus", "hourly", "from", "to", "slot"];
const BUDGET: [&str; 3] = ["department", "from_month", "monthly"];

/// Names of slots.
pub(super) const SLOTS: [(&str, Slot); 2] = [("hour", Slot::Hour), ("minute", Slot::Minute)];

/// Reads the agreements in a file.
///
/// # Errors
/// [`DocumentError`] with every fault.
pub fn read(path: &Path) -> Result<Agreements, DocumentError> {
    document::read(path, parse)
}

/// Reads agreements; `path` is their name in messages.
///
/// # Errors
/// [`Refused`] with every fault.
pub fn parse(path: &str, text: &str) -> Result<Agreements, Refused> {
    document::parse(path, text, agreements)
}

fn agreements(top: &Table<'_>) -> Agreements {
    top.known(&["currency", "time_zone", "commitment", "budget"]);
    let zone = top.zone();
    Agreements { currency: top.currency(), commitments: commitments(top, &zone), budgets: budgets(top) }
}

fn commitments(top: &Table<'_>, zone: &TimeZone) -> Vec<Commitment> {
    let mut lines: BTreeMap<String, usize> = BTreeMap::new();
    let mut all = Vec::new();
    for table in top.tables("commitment") {
        let commitment = commitment(&table, zone);
        if !commitment.id.is_empty()
            && let Some(first) = lines.insert(commitment.id.clone(), table.line())
        {
            table.wrong("id", &format!("an id of its own; the commitment on line {first} has it"));
        }
        all.push(commitment);
    }
    all.sort_by(|a, b| a.id.cmp(&b.id));
    all
}

fn commitment(table: &Table<'_>, zone: &TimeZone) -> Commitment {
    table.known(&COMMITMENT);
    let (gpu_model, mig_profile) = device(table, false);
    let (from, to) = (table.instant("from", zone), table.instant("to", zone));
    if !table.has("from") {
        table.missing("from", "a date such as 2026-01-01, from which it holds");
    }
    if let (Some(from), Some(to)) = (from, to)
        && to <= from
    {
        table.wrong("to", "a time after from, at which it ends");
    }
    Commitment {
        id: table.needed_text("id", "what it is called").unwrap_or_default(),
        department: table.needed_text("department", "who pays").unwrap_or_default(),
        gpu_model,
        mig_profile,
        gpus: table.needed_whole("gpus", 1..=1_000_000),
        hourly: table.needed_decimal("hourly"),
        from: from.unwrap_or_default(),
        to,
        slot: table.choice("slot", &SLOTS).unwrap_or_default(),
    }
}

fn budgets(top: &Table<'_>) -> Vec<Budget> {
    let mut lines: BTreeMap<(String, String), usize> = BTreeMap::new();
    let mut all = Vec::new();
    for table in top.tables("budget") {
        table.known(&BUDGET);
        let month = "a month such as \"2026-10\", from 1970-01 to 2099-12";
        let from_month = table.needed_text("from_month", month).unwrap_or_default();
        if !from_month.is_empty() && Period::month(&from_month, &TimeZone::UTC).is_err() {
            table.wrong("from_month", month);
        }
        let budget = Budget {
            department: table.text("department").unwrap_or_default(),
            from_month,
            monthly: table.needed_decimal("monthly"),
        };
        let key = (budget.department.clone(), budget.from_month.clone());
        if !budget.from_month.is_empty()
            && let Some(first) = lines.insert(key, table.line())
        {
            let of = if budget.department.is_empty() { "the fleet" } else { &budget.department };
            table.fault(format!("budget: a second one of {of} from the same month; the first is on line {first}"));
        }
        all.push(budget);
    }
    all.sort_by(|a, b| (&a.department, &a.from_month).cmp(&(&b.department, &b.from_month)));
    all
}
