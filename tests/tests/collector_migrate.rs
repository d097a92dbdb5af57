//! Migrations on the real engine: two at once, again, interrupted, and what is refused.

use contador::store::migrate::{Report, pending, steps, up};
use contador_schemas::migrations::{MIGRATIONS, Migration};
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
    assert_eq!((code, printed.matches("CREATE TABLE").count() as u64), (Some(0), ALL));
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
