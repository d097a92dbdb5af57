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
    /// Tables that are not there.
    pub(super) missing: Vec<&'static Migration>,
    /// Tables that are, with what is wrong.
    pub(super) changed: Vec<String>,
}

/// Compares what is there with what this program knows.
pub(super) fn compare(found: &[Column]) -> Difference {
    let mut tables: BTreeMap<&str, BTreeMap<&str, &Column>> = BTreeMap::new();
    for column in found {
        tables.entry(&column.table).or_default().insert(&column.name, column);
    }
    let mut difference = Difference::default();
    for migration in MIGRATIONS {
        let Some(columns) = tables.get(migration.name) else {
            if tables.contains_key(format!("{}_local", migration.name).as_str()) {
                let table = migration.name;
                difference.changed.push(format!("table {table} is missing, and {table}_local is there"));
            } else {
                difference.missing.push(migration);
            }
            continue;
        };
        let declared = declared(migration.sql);
        for (name, kind) in &declared {
            match columns.get(name) {
                None => difference.changed.push(format!("table {} has no column {name}", migration.name)),
                Some(column) if column.kind != *kind => difference
                    .changed
                    .push(format!("column {name} of table {} is {}, expected {kind}", migration.name, column.kind)),
                Some(_) => {}
            }
        }
        let known: BTreeSet<&str> = declared.iter().map(|(name, _)| *name).collect();
        for (name, column) in columns {
            if !known.contains(name) && column.default_kind.is_empty() {
                difference.changed.push(format!("table {} has a column {name} without a default", migration.name));
            }
        }
    }
    difference
}

/// The columns of a `CREATE TABLE` whose columns have a line each, with their types.
fn declared(sql: &str) -> Vec<(&str, &str)> {
    let lines = sql.lines().skip_while(|line| *line != "(").skip(1).take_while(|line| *line != ")");
    lines
        .filter_map(|line| line.trim_start().split_once(' '))
        .map(|(name, rest)| (name, kind(rest.trim_start())))
        .collect()
}

/// The type at the beginning of `rest`: up to the first space or comma that is in no parentheses.
fn kind(rest: &str) -> &str {
    let mut depth = 0_i32;
    let end = rest.find(|character| {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        depth == 0 && matches!(character, ' ' | ',')
    });
    rest.get(..end.unwrap_or(rest.len())).unwrap_or(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Column> {
        let columns = MIGRATIONS.iter().flat_map(|migration| {
            declared(migration.sql).into_iter().map(|(name, kind)| Column {
                table: migration.name.to_owned(),
                name: name.to_owned(),
                kind: kind.to_owned(),
                default_kind: String::new(),
            })
        });
        columns.collect()
    }

    #[test]
    fn declared_types_are_whole() {
        let latency = MIGRATIONS.iter().find(|migration| migration.name == "latency").unwrap();
        let columns = declared(latency.sql);
        assert_eq!(columns.len(), 22);
        assert!(columns.contains(&("attributes", "Map(LowCardinality(String), String)")));
        assert!(columns.contains(&("ts", "DateTime64(9, 'UTC')")));
        assert!(columns.contains(&("simulated", "Bool")));
    }

    #[test]
    fn what_is_missing_or_changed_is_named() {
        assert_eq!(compare(&all()), Difference::default());
        let mut found = all();
        found.retain(|column| column.table != "metrics" && column.name != "sum_us");
        found.iter_mut().filter(|column| column.name == "held_ms").for_each(|column| column.kind = "String".to_owned());
        let extra = |name: &str, default: &str| Column {
            table: "owners".to_owned(),
            name: name.to_owned(),
            kind: "UInt8".to_owned(),
            default_kind: default.to_owned(),
        };
        found.extend([extra("more", ""), extra("fine", "DEFAULT")]);
        let Difference { missing, changed } = compare(&found);
        assert_eq!(missing.iter().map(|migration| migration.name).collect::<Vec<_>>(), ["metrics"]);
        assert_eq!(
            changed,
            [
                "table latency has no column sum_us",
                "column held_ms of table ledger is String, expected UInt32",
                "table owners has a column more without a default",
            ]
        );
    }
}
