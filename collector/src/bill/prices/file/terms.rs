//! `[[consumption]]`, `[policy]`, `[[markup]]` and `[[tax]]`.

use contador_schemas::owner::Owner;
use jiff::tz::TimeZone;

use super::words::{GAPS, OVER_ALLOCATION, SPREADS};
use crate::bill::decimal::ONE;
use crate::bill::document::table::Table;
use crate::bill::prices::{Consumption, ConsumptionRule, Percentage, Policy, Spread};

const PERCENTAGE: [&str; 5] = ["name", "percent", "departments", "valid_from", "valid_to"];
const POLICY: [&str; 7] = ["idle", "stranded", "unattributed", "unmetered", "gaps", "over_allocation", "platform"];

/// The greatest percentage, hundredths.
const PERCENT_MAX: i128 = 1_000 * ONE;

/// Who consumes by which model, in the book's order.
pub(super) fn consumption(top: &Table<'_>) -> Vec<ConsumptionRule> {
    let owner = Owner::default();
    let mut known: Vec<&str> = owner.attributes().into_iter().map(|(name, _)| name).collect();
    known.push("gpu_model");
    let models = Consumption::ALL.map(|model| (model.as_str(), model));
    let one = |table: Table<'_>| {
        table.known(&["model", "match"]);
        if !table.has("model") {
            table.missing("model", "\"exclusive\", \"time-sharing\" or \"fraction\"");
        }
        let mut matches = Vec::new();
        if let Some(patterns) = table.table("match") {
            patterns.known(&known);
            let mut names: Vec<&str> = patterns.keys().filter(|name| known.contains(name)).collect();
            names.sort_unstable();
            matches.extend(names.into_iter().filter_map(|name| Some((name.to_owned(), patterns.glob(name)?))));
        }
        Some(ConsumptionRule { model: table.choice("model", &models)?, matches })
    };
    top.tables("consumption").into_iter().filter_map(one).collect()
}

/// What becomes of time that nobody's workload held.
pub(super) fn policy(top: &Table<'_>) -> Policy {
    let Some(table) = top.table("policy") else { return Policy::default() };
    table.known(&POLICY);
    let spread = |key: &str| table.choice(key, &SPREADS).unwrap_or_default();
    let policy = Policy {
        idle: spread("idle"),
        stranded: spread("stranded"),
        unattributed: spread("unattributed"),
        unmetered: spread("unmetered"),
        gaps_to_last_owner: table.choice("gaps", &GAPS).unwrap_or_default(),
        split_over_allocation: table.choice("over_allocation", &OVER_ALLOCATION).unwrap_or_default(),
        platform: table.text("platform").unwrap_or_default(),
    };
    let spreads = [policy.idle, policy.stranded, policy.unattributed, policy.unmetered];
    if spreads.contains(&Spread::Platform) && !table.has("platform") {
        table.missing("platform", "the department that pays for what is charged to the platform");
    }
    policy
}

/// Mark-ups or taxes, in the book's order.
pub(super) fn percentages<'r>(top: &Table<'r>, key: &'r str, zone: &TimeZone) -> Vec<Percentage> {
    let mut all: Vec<(Percentage, usize)> = Vec::new();
    for table in top.tables(key) {
        table.known(&PERCENTAGE);
        let before = table.count();
        let percentage = Percentage {
            name: table.needed_text("name", "what its line is called").unwrap_or_default(),
            percent: table.needed_decimal("percent"),
            departments: table.texts("departments"),
            valid_from: table.valid_from(zone),
            valid_to: table.instant("valid_to", zone),
        };
        if percentage.percent > PERCENT_MAX {
            table.wrong("percent", "at most 1000");
        }
        if percentage.valid_to.is_some_and(|to| to <= percentage.valid_from) {
            table.wrong("valid_to", "a time after valid_from");
        }
        if table.count() > before {
            continue;
        }
        if let Some((_, first)) = all.iter().find(|(other, _)| both_apply(other, &percentage)) {
            let name = &percentage.name;
            table.fault(format!("{key}: {name:?} applies twice to the same department; the first is on line {first}"));
        }
        all.push((percentage, table.line()));
    }
    all.into_iter().map(|(percentage, _)| percentage).collect()
}

/// Whether two lines of one name would be added to one department at some time.
fn both_apply(one: &Percentage, other: &Percentage) -> bool {
    let ends = |percentage: &Percentage| percentage.valid_to.unwrap_or(u32::MAX);
    let all = one.departments.is_empty() || other.departments.is_empty();
    one.name == other.name
        && one.valid_from < ends(other)
        && other.valid_from < ends(one)
        && (all || !one.departments.is_disjoint(&other.departments))
}
