//! The tables, as numbered statements. `contador migrate` runs them in order; each is idempotent.

/// One step of the schema.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Migration {
    /// Number, from 1 without gaps.
    pub version: u32,
    /// Name, as in the file's.
    pub name: &'static str,
    /// One statement, without a final semicolon; tables are named without a database.
    pub sql: &'static str,
}

impl Migration {
    /// The statement without the comment above it.
    pub fn statement(&self) -> &'static str {
        let mut rest = self.sql;
        while let Some((_, after)) = rest.starts_with("--").then(|| rest.split_once('\n')).flatten() {
            rest = after;
        }
        rest
    }

    /// The table that it makes or changes.
    pub fn table(&self) -> &'static str {
        let statement = self.statement();
        let named = [CREATE, ALTER].into_iter().find_map(|head| statement.strip_prefix(head)).unwrap_or_default();
        named.split_whitespace().next().unwrap_or_default()
    }

    /// Whether it makes its table; otherwise it adds columns to it.
    pub fn makes_a_table(&self) -> bool {
        self.statement().starts_with(CREATE)
    }

    /// The columns that it declares, with their types: each has a line of its own.
    pub fn columns(&self) -> Vec<(&'static str, &'static str)> {
        let lines = self.statement().lines().skip(1);
        let declared = |line: &'static str| {
            let (name, rest) = line.trim_start().split_once(' ')?;
            Some((name, kind(rest.trim_start())))
        };
        if self.makes_a_table() {
            lines.skip_while(|line| *line != "(").skip(1).take_while(|line| *line != ")").filter_map(declared).collect()
        } else {
            lines.filter_map(|line| declared(line.trim_start().strip_prefix(ADD)?)).collect()
        }
    }
}

const CREATE: &str = "CREATE TABLE IF NOT EXISTS ";
const ALTER: &str = "ALTER TABLE ";
const ADD: &str = "ADD COLUMN IF NOT EXISTS ";

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

macro_rules! migrations {
    ($($version:literal $name:literal $file:literal),* $(,)?) => {
        &[$(Migration {
            version: $version,
            name: $name,
            sql: include_str!(concat!("../migrations/", $file)),
        }),*]
    };
}

/// Every migration, in order.
pub const MIGRATIONS: &[Migration] = migrations![
    1 "gpu_samples" "0001_gpu_samples.sql",
    2 "storage_samples" "0002_storage_samples.sql",
    3 "node_samples" "0003_node_samples.sql",
    4 "latency" "0004_latency.sql",
    5 "ledger" "0005_ledger.sql",
    6 "owners" "0006_owners.sql",
    7 "devices" "0007_devices.sql",
    8 "events" "0008_events.sql",
    9 "metrics" "0009_metrics.sql",
    10 "allocations" "0010_allocations.sql",
    11 "prices" "0011_prices.sql",
    12 "dead_letters" "0012_dead_letters.sql",
    13 "gpu_samples_sensors" "0013_gpu_samples_sensors.sql",
    14 "storage_samples_mounts" "0014_storage_samples_mounts.sql",
    15 "node_samples_pressure" "0015_node_samples_pressure.sql",
    16 "devices_inventory" "0016_devices_inventory.sql",
    17 "ledger_idle" "0017_ledger_idle.sql",
    18 "directory" "0018_directory.sql",
    19 "served" "0019_served.sql",
    20 "latency_stored" "0020_latency_stored.sql",
    21 "latency_5m" "0021_latency_5m.sql",
    22 "latency_1h" "0022_latency_1h.sql",
    23 "latency_1d" "0023_latency_1d.sql",
    24 "rollups" "0024_rollups.sql",
    25 "latency_totals" "0025_latency_totals.sql",
    26 "commitments" "0026_commitments.sql",
    27 "ledger_stored" "0027_ledger_stored.sql",
    28 "allocations_stored" "0028_allocations_stored.sql",
    29 "ledger_hours" "0029_ledger_hours.sql",
    30 "invoices" "0030_invoices.sql",
    31 "invoice_lines" "0031_invoice_lines.sql",
    32 "invoice_facts" "0032_invoice_facts.sql",
    33 "invoice_inputs" "0033_invoice_inputs.sql",
    34 "adjustments" "0034_adjustments.sql",
    35 "audit" "0035_audit.sql",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::{ByColumn, Device, GpuSample, NodeSample, StorageSample, Table};

    /// All columns of a table, in the order in which it has them.
    fn columns(table: &str) -> Vec<(&'static str, &'static str)> {
        MIGRATIONS.iter().filter(|migration| migration.table() == table).flat_map(Migration::columns).collect()
    }

    #[test]
    fn declared_types_are_whole() {
        let latency = columns("latency");
        assert_eq!(latency.len(), 23);
        assert!(latency.contains(&("attributes", "Map(LowCardinality(String), String)")));
        assert!(latency.contains(&("ts", "DateTime64(9, 'UTC')")));
        assert!(latency.contains(&("simulated", "Bool")));
        assert!(columns("gpu_samples").contains(&("status", "LowCardinality(Nullable(String))")));
        let topology = ("topology", "SimpleAggregateFunction(anyLast, Nullable(String))");
        assert!(columns("devices").contains(&topology));
    }

    /// Those of the columns that can be found by name.
    fn fit<R: ByColumn + Table>() {
        let live = columns(R::TABLE);
        let tail: Vec<&str> = live.iter().skip(live.len() - R::COLUMNS.len()).map(|(name, _)| *name).collect();
        assert_eq!(tail, R::COLUMNS, "{}", R::TABLE);
        for (name, kind) in live {
            let expected = match R::column(name).map(|column| format!("{:?}", column(&mut R::default()))) {
                Some(slot) if slot.starts_with("F32") => "Nullable(Float32)",
                Some(slot) if slot.starts_with("U64") => "Nullable(UInt64)",
                Some(slot) if slot.starts_with("U32") => "Nullable(UInt32)",
                Some(slot) if slot.starts_with("I16") => "Nullable(Int16)",
                Some(slot) if slot.starts_with("Bool") => "Nullable(Bool)",
                Some(_) => "Nullable(String)",
                None => continue,
            };
            assert!(kind.contains(expected), "{name} of {} is {kind}, expected {expected}", R::TABLE);
        }
    }

    #[test]
    fn each_column_of_the_registry_is_in_its_table_in_the_order_of_the_row() {
        fit::<GpuSample>();
        fit::<StorageSample>();
        fit::<NodeSample>();
        fit::<Device>();
    }

    #[test]
    fn a_change_comes_after_its_table_and_spares_programs_that_do_not_know_it() {
        for (index, migration) in MIGRATIONS.iter().enumerate() {
            assert!(!migration.table().is_empty() && !migration.columns().is_empty(), "{}", migration.name);
            if migration.makes_a_table() {
                assert_eq!(migration.table(), migration.name);
                continue;
            }
            let before = &MIGRATIONS[..index];
            assert!(before.iter().any(|made| made.makes_a_table() && made.table() == migration.table()));
            // A row of an older program lacks it.
            for line in migration.statement().lines().skip(1) {
                let line = line.trim_start();
                let spares = (line.starts_with(ADD) && line.contains(" DEFAULT "))
                    || line.starts_with("ADD INDEX IF NOT EXISTS ")
                    || line.starts_with("MATERIALIZE COLUMN ");
                assert!(spares, "{}: {line}", migration.name);
            }
        }
    }

    #[test]
    fn versions_have_no_gap_and_no_file_is_forgotten() {
        for (index, migration) in MIGRATIONS.iter().enumerate() {
            assert_eq!(migration.version as usize, index + 1);
            assert!(!migration.sql.trim_end().ends_with(';'), "{}", migration.name);
        }
        let mut files: Vec<String> = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.ends_with(".sql"))
            .collect();
        files.sort();
        let listed: Vec<String> =
            MIGRATIONS.iter().map(|migration| format!("{:04}_{}.sql", migration.version, migration.name)).collect();
        assert_eq!(files, listed);
    }
}
