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
];

#[cfg(test)]
mod tests {
    use super::*;

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
