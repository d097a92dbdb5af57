//! Migrations on the real engine: two at once, again, interrupted, and what is refused.

use contador::store::migrate::{Report, pending, steps, up};
use contador_schemas::migrations::{MIGRATIONS, Migration};
use contador_schemas::rows::{Device, GpuSample, NodeSample, StorageSample};
use contador_tests::{Engine, binary};

mod collector_support;
use collector_support::{count, store};

const ALL: u64 = MIGRATIONS.len() as u64;

#[tokio::test]
async fn many_at_once_run_each_statement_once() {
    let engine = Engine::start().unwrap();
    let store = store(engine.url(), "race");
    let (a, b, c, d) = tokio::join!(up(&store), up(&store), up(&store), up(&store));
    let mut applied: Vec<u32> = [a, b, c, d].into_iter().flat_map(|report| report.unwrap().applied).collect();
    applied.sort_unstable();
    let versions: Vec<u32> = MIGRATIONS.iter().map(|migration| migration.version).collect();
    assert_eq!(applied, versions);
    // Once more is nothing, and no lock is left.
    let version = *versions.last().unwrap();
    assert_eq!(up(&store).await.unwrap(), Report { applied: Vec::new(), version });
    assert_eq!(count(&store.client, "SELECT count() FROM schema_migrations").await, ALL);
    let locks = "SELECT count() FROM system.tables WHERE database = 'race' AND name LIKE 'schema_lock%'";
    assert_eq!(count(&store.client, locks).await, 0);
}

#[tokio::test]
async fn a_failed_step_gives_the_lock_back_and_the_next_run_goes_on() {
    let engine = Engine::start().unwrap();
    let store = store(engine.url(), "failed");
    let wrong = Migration { version: 2, name: "wrong", sql: "CREATE TABLE nowhere.t (x UInt8) ENGINE = Memory" };
    let error = steps(&store, &[MIGRATIONS[0], wrong]).await.unwrap_err();
    assert!(error.to_string().starts_with("CREATE TABLE nowhere.t"), "{error}");
    let report = up(&store).await.unwrap();
    assert_eq!(report.applied.len() as u64, ALL - 1);
}

#[tokio::test]
async fn gaps_edits_and_newer_versions_are_refused_by_the_command() {
    let engine = Engine::start().unwrap();
    let store = store(engine.url(), "refused");
    let migrate = |arguments: &[&str]| {
        let command = std::process::Command::new(binary("contador").unwrap())
            .args(["migrate", "--clickhouse", engine.url(), "--clickhouse-database", "refused"])
            .args(arguments)
            .output()
            .unwrap();
        (command.status.code(), String::from_utf8(command.stdout).unwrap(), String::from_utf8(command.stderr).unwrap())
    };
    let (code, printed, _) = migrate(&["--dry-run"]);
    let statements = printed.matches("CREATE TABLE ").count() + printed.matches("ALTER TABLE ").count();
    assert_eq!((code, statements as u64), (Some(0), ALL));
    assert_eq!(pending(&store, MIGRATIONS).await.unwrap().len() as u64, ALL);
    assert_eq!(migrate(&[]).0, Some(0));

    let client = &store.client;
    let add = "INSERT INTO schema_migrations SELECT 99, 'x', 'x', now64(3)";
    client.query(add).execute().await.unwrap();
    let (code, _, told) = migrate(&[]);
    assert_eq!(code, Some(1));
    assert!(told.contains("database refused has schema version 99, but this program knows only"), "{told}");

    let delete = |version: u32| {
        format!("ALTER TABLE schema_migrations DELETE WHERE version = {version} SETTINGS mutations_sync = 2")
    };
    client.query(&delete(99)).execute().await.unwrap();
    client.query(&delete(3)).execute().await.unwrap();
    let (code, _, told) = migrate(&[]);
    assert_eq!(code, Some(1));
    assert!(told.contains("has version 4 but not 3, expected versions from 1 without a gap"), "{told}");

    client.query("INSERT INTO schema_migrations SELECT 3, 'node_samples', 'other', now64(3)").execute().await.unwrap();
    let (code, _, told) = migrate(&[]);
    assert_eq!(code, Some(1));
    assert!(told.contains("migration 3 (node_samples) ran in database refused with hash other"), "{told}");
}

/// How many migrations version 0.1.0 had.
const OF_0_1_0: usize = 12;

/// A row as version 0.1.0 writes it.
#[derive(Clone, Debug, Default, serde::Deserialize, PartialEq, clickhouse::Row, serde::Serialize)]
struct OldGpuSample {
    ts: i64,
    device: String,
    node: String,
    simulated: bool,
    unsupported: Vec<String>,
    utilization: Option<f32>,
    memory_utilization: Option<f32>,
    memory_total: Option<u64>,
    memory_used: Option<u64>,
    memory_free: Option<u64>,
    memory_reserved: Option<u64>,
    power_mw: Option<u32>,
    energy_mj: Option<u64>,
    temperature_c: Option<i16>,
    clock_sm_mhz: Option<u32>,
    clock_memory_mhz: Option<u32>,
    clock_graphics_mhz: Option<u32>,
    processes: Option<u32>,
}

/// The same of a device.
#[derive(Clone, Debug, Default, serde::Deserialize, PartialEq, clickhouse::Row, serde::Serialize)]
struct OldDevice {
    id: String,
    node: String,
    vendor: String,
    model: String,
    parent: String,
    mig_profile: String,
    pci_bus_id: String,
    driver_version: String,
    memory_bytes: u64,
    simulated: bool,
    first_seen: i64,
    last_seen: i64,
}

async fn write<T>(client: &clickhouse::Client, table: &str, row: &T)
where
    T: clickhouse::RowOwned + clickhouse::RowWrite,
    for<'a> T: clickhouse::Row<Value<'a> = T>,
{
    // As a program does that has been running since before the change.
    let mut insert = client.insert::<T>(table).await.unwrap_or_else(|error| panic!("{table}: {error}"));
    insert.write(row).await.unwrap_or_else(|error| panic!("{table}: {error}"));
    insert.end().await.unwrap_or_else(|error| panic!("{table}: {error}"));
}

#[tokio::test]
async fn a_database_of_0_1_0_keeps_its_rows_and_takes_those_of_old_and_new_programs() {
    let engine = Engine::start().unwrap();
    let store = store(engine.url(), "upgrade");
    steps(&store, &MIGRATIONS[..OF_0_1_0]).await.unwrap();
    let ts = i64::try_from(collector_support::now()).unwrap() * 1_000;
    let old =
        OldGpuSample { ts, device: "GPU-1".into(), node: "n".into(), power_mw: Some(7), ..OldGpuSample::default() };
    let device = OldDevice { id: "GPU-1".into(), first_seen: ts, last_seen: ts, ..OldDevice::default() };
    let client = &store.client;
    write(client, "gpu_samples", &old).await;
    write(client, "devices", &device).await;
    let others = [
        "INSERT INTO storage_samples (ts, node, device, kind, reads) SELECT now64(3), 'n', 'sda', 'disk', 5",
        "INSERT INTO node_samples (ts, node, cpus) SELECT now64(3), 'n', 2",
    ];
    for insert in others {
        client.query(insert).execute().await.unwrap();
    }

    let printed = std::process::Command::new(binary("contador").unwrap())
        .args(["migrate", "--dry-run", "--clickhouse", engine.url(), "--clickhouse-database", "upgrade"])
        .output()
        .unwrap();
    let printed = String::from_utf8(printed.stdout).unwrap();
    let since = &MIGRATIONS[OF_0_1_0..];
    let made = since.iter().filter(|migration| migration.makes_a_table()).count();
    let counted = (printed.matches("ALTER TABLE ").count(), printed.matches("CREATE TABLE ").count());
    assert_eq!(counted, (since.len() - made, made));
    let report = up(&store).await.unwrap();
    assert_eq!(report.applied.len(), since.len());

    // An old program that is still running goes on, even with the columns that it has been told.
    let later = OldGpuSample { ts: ts + 1_000, ..old.clone() };
    write(client, "gpu_samples", &later).await;
    client.clear_cached_metadata().await;
    let last = OldGpuSample { ts: ts + 2_000, ..old.clone() };
    write(client, "gpu_samples", &last).await;
    write(client, "devices", &OldDevice { last_seen: ts + 1_000, ..device.clone() }).await;
    let fresh = GpuSample { ts: ts + 3_000, device: "GPU-1".into(), power_mean_mw: Some(9), ..GpuSample::default() };
    write(client, "gpu_samples", &fresh).await;
    let told = Device { id: "GPU-1".into(), first_seen: ts, last_seen: ts, minor: Some(1), ..Device::default() };
    write(client, "devices", &told).await;

    let rows: Vec<OldGpuSample> =
        client.query("SELECT ?fields FROM gpu_samples FINAL ORDER BY ts").fetch_all().await.unwrap();
    assert_eq!(rows[..3], [old, later, last]);
    let rows: Vec<GpuSample> =
        client.query("SELECT ?fields FROM gpu_samples FINAL ORDER BY ts").fetch_all().await.unwrap();
    assert_eq!((rows[0].power_mw, rows[0].power_mean_mw, rows[0].status.as_deref()), (Some(7), None, None));
    assert_eq!(rows[3], fresh);
    let devices: Vec<Device> = client.query("SELECT ?fields FROM devices FINAL").fetch_all().await.unwrap();
    assert_eq!((devices.len(), devices[0].minor, devices[0].last_seen), (1, Some(1), ts + 1_000));
    let disks: Vec<StorageSample> = client.query("SELECT ?fields FROM storage_samples").fetch_all().await.unwrap();
    assert_eq!((disks[0].reads, disks[0].fs_used_bytes), (Some(5), None));
    let nodes: Vec<NodeSample> = client.query("SELECT ?fields FROM node_samples").fetch_all().await.unwrap();
    assert_eq!((nodes[0].cpus, nodes[0].psi_io_some_us), (Some(2), None));
}

#[tokio::test]
async fn a_collector_is_ready_on_an_upgraded_database_and_makes_a_lost_table_with_all_its_columns() {
    let engine = Engine::start().unwrap();
    // The collector's own database.
    let store = store(engine.url(), "contador");
    steps(&store, &MIGRATIONS[..OF_0_1_0]).await.unwrap();
    let collector = contador_tests::Collector::start(engine.url(), "").unwrap();
    collector.ready().await.unwrap();
    store.client.query("DROP TABLE gpu_samples SYNC").execute().await.unwrap();
    let there = "SELECT count() FROM system.columns WHERE database = 'contador' AND table = 'gpu_samples'";
    let columns: usize =
        MIGRATIONS.iter().filter(|made| made.table() == "gpu_samples").map(|made| made.columns().len()).sum();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(120);
    while count(&store.client, there).await != columns as u64 {
        assert!(std::time::Instant::now() < deadline, "{}", collector.log());
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    collector.ready().await.unwrap();
    store
        .client
        .query("ALTER TABLE node_samples DROP COLUMN swap_used SETTINGS alter_sync = 2")
        .execute()
        .await
        .unwrap();
    let (status, body) = collector.readiness_is(503).await.unwrap();
    assert_eq!(status, 503, "{body}");
    assert!(body.contains("table node_samples has no column swap_used"), "{body}");
}

#[tokio::test]
async fn a_lock_of_a_program_that_died_is_taken_over() {
    let engine = Engine::start().unwrap();
    let store = store(engine.url(), "stale");
    steps(&store, &MIGRATIONS[..1]).await.unwrap();
    let lock = "CREATE TABLE schema_lock (x UInt8) ENGINE = Memory COMMENT 'contador-1-dead 1000000000'";
    store.client.query(lock).execute().await.unwrap();
    let (one, other) = tokio::join!(up(&store), up(&store));
    assert_eq!((one.unwrap().applied.len() + other.unwrap().applied.len()) as u64, ALL - 1);
}

#[tokio::test]
async fn statements_for_a_cluster_are_ones_that_clickhouse_can_read() {
    let engine = Engine::start().unwrap();
    let printed = std::process::Command::new(binary("contador").unwrap())
        .args(["migrate", "--dry-run", "--cluster", "fleet", "--clickhouse-database", "metering"])
        .output()
        .unwrap();
    assert!(printed.status.success());
    let printed = String::from_utf8(printed.stdout).unwrap();
    let statements: Vec<&str> = printed.split(";\n\n").filter(|statement| !statement.trim().is_empty()).collect();
    assert_eq!(statements.len() as u64, 1 + 2 * ALL);
    for statement in statements {
        // The embedded engine has no Keeper, so it can read these but not run them.
        let explained = engine.client().query_raw(&format!("EXPLAIN AST {statement}")).execute().await;
        explained.unwrap_or_else(|error| panic!("{error}\n{statement}"));
    }
}
