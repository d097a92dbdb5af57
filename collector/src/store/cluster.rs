//! The same statements for a cluster: every table replicated on its shard, and one distributed table over the shards.
//!
//! Rows are spread by the first columns of a table's key, so that a row that is written twice meets itself on one shard
//! and is replaced there.

use contador_schemas::migrations::Migration;

/// How the rows of each table are spread. What is small and asked for everywhere is still on one shard a key.
const SHARDING: &[(&str, &str)] = &[
    ("gpu_samples", "cityHash64(device)"),
    ("storage_samples", "cityHash64(node)"),
    ("node_samples", "cityHash64(node)"),
    ("latency", "cityHash64(series)"),
    ("latency_5m", "cityHash64(series)"),
    ("latency_1h", "cityHash64(series)"),
    ("latency_1d", "cityHash64(series)"),
    ("rollups", "cityHash64(level)"),
    ("served", "cityHash64(source)"),
    ("ledger", "cityHash64(device)"),
    ("ledger_hours", "cityHash64(device)"),
    ("latency_totals", "cityHash64(total)"),
    ("owners", "cityHash64(id)"),
    ("devices", "cityHash64(id)"),
    ("events", "cityHash64(id)"),
    ("metrics", "cityHash64(series)"),
    ("allocations", "cityHash64(id)"),
    ("prices", "cityHash64(id)"),
    ("commitments", "cityHash64(id)"),
    ("dead_letters", "cityHash64(id)"),
    ("directory", "cityHash64(project)"),
    ("invoices", "cityHash64(number)"),
    ("invoice_lines", "cityHash64(lines)"),
    ("invoice_facts", "cityHash64(snapshot)"),
    ("invoice_inputs", "cityHash64(id)"),
    ("adjustments", "cityHash64(id)"),
    ("audit", "cityHash64(number)"),
];

/// The statements of `migration` on the cluster `cluster` for the database `database`; `None` when it is neither a plain
/// `CREATE TABLE … ENGINE = …MergeTree` of a table that is known here, nor an `ALTER TABLE` of one.
pub fn render(migration: &Migration, cluster: &str, database: &str) -> Option<Vec<String>> {
    let table = migration.table();
    let (_, sharding) = SHARDING.iter().find(|(name, _)| *name == table)?;
    if !migration.makes_a_table() {
        return alter(migration, cluster, database);
    }
    let head = format!("CREATE TABLE IF NOT EXISTS {table}\n(");
    let (comment, body) = migration.sql.split_once(&head)?;
    let (columns, rest) = body.split_once("\nENGINE = ")?;
    let end = rest.find(|character: char| !character.is_ascii_alphanumeric())?;
    let (engine, rest) = rest.split_at(end);
    if !engine.ends_with("MergeTree") {
        return None;
    }
    let (arguments, rest) = match rest.strip_prefix('(') {
        Some(inner) => inner.split_once(')').map(|(arguments, rest)| (format!(", {arguments}"), rest))?,
        None => (String::new(), rest),
    };
    let local = format!(
        "{comment}CREATE TABLE IF NOT EXISTS {database}.{table}_local ON CLUSTER '{cluster}'\n({columns}\n\
         ENGINE = Replicated{engine}('/clickhouse/tables/{{shard}}/{database}/{table}', '{{replica}}'{arguments}){rest}"
    );
    let distributed = format!(
        "CREATE TABLE IF NOT EXISTS {database}.{table} ON CLUSTER '{cluster}' AS {database}.{table}_local\n\
         ENGINE = Distributed('{cluster}', '{database}', '{table}_local', {sharding})"
    );
    Some(vec![local, distributed])
}

/// A change of a table: first of the replicated one, so that the distributed one never names a column that is not there.
fn alter(migration: &Migration, cluster: &str, database: &str) -> Option<Vec<String>> {
    let table = migration.table();
    let (comment, changes) = migration.sql.split_once(&format!("ALTER TABLE {table}\n"))?;
    let local = format!("{comment}ALTER TABLE {database}.{table}_local ON CLUSTER '{cluster}'\n{changes}");
    // Indices and what is stored are the replicated table's alone.
    let columns: Vec<&str> = changes
        .lines()
        .filter(|line| line.trim_start().starts_with("ADD COLUMN"))
        .map(|line| line.trim_end().trim_end_matches(','))
        .collect();
    let columns = columns.join(",\n");
    let distributed = format!("ALTER TABLE {database}.{table} ON CLUSTER '{cluster}'\n{columns}");
    Some(vec![local, distributed])
}

#[cfg(test)]
mod tests {
    use contador_schemas::migrations::MIGRATIONS;

    use super::*;

    #[test]
    fn every_migration_has_a_form_for_a_cluster() {
        for migration in MIGRATIONS {
            let statements = render(migration, "fleet", "contador").unwrap_or_else(|| panic!("{}", migration.name));
            assert!(statements[0].contains("ON CLUSTER 'fleet'"));
            assert_eq!(statements[0].contains("ENGINE = Replicated"), migration.makes_a_table(), "{}", migration.name);
            assert_eq!(statements[0].matches('(').count(), statements[0].matches(')').count(), "{}", migration.name);
        }
    }

    #[test]
    fn a_change_is_of_both_tables_the_local_one_first() {
        let change = MIGRATIONS.iter().find(|migration| migration.name == "node_samples_pressure").unwrap();
        let statements = render(change, "fleet", "contador").unwrap();
        let heads = ["contador.node_samples_local", "contador.node_samples"];
        for (statement, table) in statements.iter().zip(heads) {
            assert!(
                statement.contains(&format!("ALTER TABLE {table} ON CLUSTER 'fleet'\n    ADD COLUMN")),
                "{statement}"
            );
            assert!(statement.trim_end().ends_with("CODEC(Delta, ZSTD(1))"));
        }
    }

    #[test]
    fn arguments_of_an_engine_come_after_the_path() {
        let prices = MIGRATIONS.iter().find(|migration| migration.name == "prices").unwrap();
        let statements = render(prices, "fleet", "contador").unwrap();
        assert!(statements[0].contains(
            "ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/contador/prices', '{replica}', loaded_at)\n"
        ));
        assert!(statements[1].ends_with("Distributed('fleet', 'contador', 'prices_local', cityHash64(id))"));
    }
}
