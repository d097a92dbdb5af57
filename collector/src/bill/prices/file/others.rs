//! `[[energy]]`, `[[storage]]` and `[[network]]`.

use std::collections::BTreeMap;

use contador_schemas::mapping::Glob;
use jiff::tz::TimeZone;

use super::rates::MONTH_HOURS;
use super::words::BILLING;
use crate::bill::decimal::ONE;
use crate::bill::document::table::Table;
use crate::bill::prices::{Energy, NetworkRate, StorageRate};

const ENERGY: [&str; 7] = ["valid_from", "nodes", "tariff", "pue", "carbon_g_per_kwh", "billing", "source"];
const STORAGE: [&str; 6] = ["class", "department", "project", "valid_from", "per_gib_month", "month_hours"];
const NETWORK: [&str; 5] = ["class", "department", "project", "valid_from", "per_gib"];

/// What energy costs, and whether it is billed as a line: `[energy]`, or several of `[[energy]]`, which must agree on that.
pub(super) fn energy(top: &Table<'_>, zone: &TimeZone) -> (Vec<Energy>, bool) {
    let (mut all, mut billed, mut seen) = (Vec::new(), None, Seen::default());
    for table in top.one_or_several("energy") {
        table.known(&ENERGY);
        let energy = Energy {
            valid_from: table.valid_from(zone),
            nodes: table.globs("nodes"),
            tariff: table.needed_decimal("tariff"),
            pue: if table.has("pue") { table.needed_decimal("pue") } else { ONE },
            carbon_g_per_kwh: table.decimal("carbon_g_per_kwh"),
            source: table.text("source").unwrap_or_default(),
        };
        if energy.pue < ONE {
            table.wrong("pue", "at least 1");
        }
        let names: Vec<&str> = energy.nodes.iter().map(Glob::as_str).collect();
        let of = if names.is_empty() { "the nodes that no other names".to_owned() } else { names.join(", ") };
        seen.check(&table, of, energy.valid_from);
        let line = table.choice("billing", &BILLING);
        if line.is_some_and(|line| *billed.get_or_insert(line) != line) {
            table.wrong("billing", "the same in each [[energy]]");
        }
        all.push(energy);
    }
    (all, billed.unwrap_or_default())
}

/// What stored data costs, in the book's order.
pub(super) fn storage(top: &Table<'_>, zone: &TimeZone) -> Vec<StorageRate> {
    let mut seen = Seen::default();
    let one = |table: Table<'_>| {
        table.known(&STORAGE);
        let rate = StorageRate {
            class: class(&table)?,
            department: table.text("department").unwrap_or_default(),
            project: table.text("project").unwrap_or_default(),
            valid_from: table.valid_from(zone),
            per_gib_month: table.needed_decimal("per_gib_month"),
            month_hours: table.needed_whole("month_hours", MONTH_HOURS),
        };
        seen.check(&table, rate.class.as_str().to_owned(), rate.valid_from);
        Some(rate)
    };
    top.tables("storage").into_iter().filter_map(one).collect()
}

/// What moved data costs, in the book's order.
pub(super) fn network(top: &Table<'_>, zone: &TimeZone) -> Vec<NetworkRate> {
    let mut seen = Seen::default();
    let one = |table: Table<'_>| {
        table.known(&NETWORK);
        let rate = NetworkRate {
            class: class(&table)?,
            department: table.text("department").unwrap_or_default(),
            project: table.text("project").unwrap_or_default(),
            valid_from: table.valid_from(zone),
            per_gib: table.needed_decimal("per_gib"),
        };
        seen.check(&table, rate.class.as_str().to_owned(), rate.valid_from);
        Some(rate)
    };
    top.tables("network").into_iter().filter_map(one).collect()
}

fn class(table: &Table<'_>) -> Option<Glob> {
    let class = table.glob("class");
    if !table.has("class") {
        table.missing("class", "a pattern of mount points, interfaces or imported classes");
    }
    class
}

/// Where each was first said: of what, and from when.
#[derive(Default)]
struct Seen(BTreeMap<(String, u32), usize>);

impl Seen {
    fn check(&mut self, table: &Table<'_>, of: String, valid_from: u32) {
        let message = format!("{}: a second one of {of:?} from the same instant", table.name());
        if let Some(first) = self.0.insert((of, valid_from), table.line()) {
            table.fault(format!("{message}; the first is on line {first}"));
        }
    }
}
