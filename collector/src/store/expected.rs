//! Whether the tables are the ones that this program writes: the columns that its migrations declare, with their types.

use std::collections::{BTreeMap, BTreeSet};

use contador_schemas::migrations::{MIGRATIONS, Migration};

/// A column as `system.columns` tells it.
#[derive(Clone, Debug, PartialEq, serde::Deserialize, clickhouse::Row)]
pub(super) struct Column {
    pub(super) table: String,
    pub(super) name: String,
    #[serde(rename = "type")]
    pub(super) kind: String,
    /// Empty: rows without it are refused by the client.
    pub(super) default_kind: String,
}

/// What is not as it must be.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Difference {
    /// What makes the tables that are not there, in order: each by one migration, and changes of it by others.
    pub(super) missing: Vec<&'static Migration>,
    /// Tables that are, with what is wrong.
    pub(super) changed: Vec<String>,
}

/// Compares what is there with what this program knows: each table with the columns of the migration that makes it and of
/// those that change it.
pub(super) fn compare(found: &[Column]) -> Difference {
    let mut tables: BTreeMap<&str, BTreeMap<&str, &Column>> = BTreeMap::new();
    for column in found {
        tables.entry(&column.table).or_default().insert(&column.name, column);
    }
    let mut difference = Difference::default();
    for table in MIGRATIONS.iter().filter(|migration| migration.makes_a_table()).map(Migration::table) {
        let migrations = || MIGRATIONS.iter().filter(|migration| migration.table() == table);
        let Some(columns) = tables.get(table) else {
            if tables.contains_key(format!("{table}_local").as_str()) {
                difference.changed.push(format!("table {table} is missing, and {table}_local is there"));
            } else {
                difference.missing.extend(migrations());
            }
            continue;
        };
        let declared: Vec<(&str, &str)> = migrations().flat_map(Migration::columns).collect();
        for (name, kind) in &declared {
            match columns.get(name) {
                None => difference.changed.push(format!("table {table} has no column {name}")),
                Some(column) if column.kind != *kind => difference
                    .changed
                    .push(format!("column {name} of table {table} is {}, expected {kind}", column.kind)),
                Some(_) => {}
            }
        }
        let known: BTreeSet<&str> = declared.iter().map(|(name, _)| *name).collect();
        for (name, column) in columns {
            if !known.contains(name) && column.default_kind.is_empty() {
                difference.changed.push(format!("table {table} has a column {name} without a default"));
            }
        }
    }
    difference
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Column> {
        let columns = MIGRATIONS.iter().flat_map(|migration| {
            migration.columns().into_iter().map(|(name, kind)| Column {
                table: migration.table().to_owned(),
                name: name.to_owned(),
                kind: kind.to_owned(),
                default_kind: String::new(),
            })
        });
        columns.collect()
    }

    #[test]
    fn what_is_missing_or_changed_is_named() {
        assert_eq!(compare(&all()), Difference::default());
        let mut found = all();
        found.retain(|column| column.table != "metrics" && column.table != "gpu_samples");
        found.retain(|column| column.table != "latency" || column.name != "sum_us");
        found.retain(|column| column.name != "swap_used");
        let held = |column: &&mut Column| column.table == "ledger" && column.name == "held_ms";
        found.iter_mut().filter(held).for_each(|column| column.kind = "String".to_owned());
        let extra = |name: &str, default: &str| Column {
            table: "owners".to_owned(),
            name: name.to_owned(),
            kind: "UInt8".to_owned(),
            default_kind: default.to_owned(),
        };
        found.extend([extra("more", ""), extra("fine", "DEFAULT")]);
        let Difference { missing, changed } = compare(&found);
        let names: Vec<&str> = missing.iter().map(|migration| migration.name).collect();
        assert_eq!(names, ["gpu_samples", "gpu_samples_sensors", "metrics"], "a table is made with its changes");
        assert_eq!(
            changed,
            [
                "table node_samples has no column swap_used",
                "table latency has no column sum_us",
                "column held_ms of table ledger is String, expected UInt32",
                "table owners has a column more without a default",
            ]
        );
    }
}
