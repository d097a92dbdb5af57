//! Which rule decided who pays for which owners: a paragraph for each rule, and for each scheduler that tells no owners.

use std::collections::{BTreeMap, BTreeSet};

use contador_schemas::mapping::Decision;
use contador_schemas::owner::OwnerKind;

use super::ProbeReport;
use super::text::{warn, wrapped};

/// The paragraphs; what is nobody's workload is not decided on.
pub(super) fn part(report: &ProbeReport, columns: u16) -> String {
    let mut by: BTreeMap<&Decision, BTreeSet<String>> = BTreeMap::new();
    for (owner, decisions) in report.decided.iter().filter(|(owner, _)| owner.kind == OwnerKind::Workload) {
        for decision in decisions {
            by.entry(decision).or_default().insert(owner.label());
        }
    }
    let paragraphs = by.into_iter().map(|(decision, owners)| {
        let what = match decision {
            Decision::Rule(name) => format!("by rule {name:?}"),
            Decision::Default => "by the default".to_owned(),
            Decision::Itself => "as they say themselves".to_owned(),
            Decision::Nobody => "by no rule".to_owned(),
        };
        let owners: Vec<String> = owners.into_iter().collect();
        wrapped(&format!("owners {what}: {}", owners.join(", ")), columns)
    });
    let silent = report.silent.iter().map(|reason| wrapped(&format!("owners: {}", warn(reason)), columns));
    paragraphs.chain(silent).collect()
}
