//! The embedded engine and the `clickhouse` crate: everything that contador itself asks of its store.

use clickhouse::Row;
use contador_tests::Engine;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Deserialize, PartialEq, Row, Serialize)]
struct Line {
    n: u64,
    text: String,
    cells: Vec<f64>,
    maybe: Option<i32>,
}

fn line(n: u64) -> Line {
    Line {
        n,
        text: format!("a'b\\\t{n}"),
        cells: vec![0.5; usize::try_from(n % 4).expect("small")],
        maybe: n.is_multiple_of(2).then_some(-7),
    }
}

const CREATE: &str = "CREATE TABLE lines (n UInt64, text String, cells Array(Float64), maybe Nullable(Int32)) \
                      ENGINE = MergeTree ORDER BY n";

#[tokio::test]
async fn rows_go_in_and_come_out() -> anyhow::Result<()> {
    let engine = Engine::start()?;
    let client = engine.client();
    client.query("CREATE DATABASE d").execute().await?;
    let client = client.with_database("d");
    client.query(CREATE).execute().await?;
    for validated in [true, false] {
        let writer = client.clone().with_validation(validated);
        let mut insert = writer.insert::<Line>("lines").await?;
        for n in 0..10_000 {
            insert.write(&line(n)).await?;
        }
        insert.end().await?;
    }
    let count: u64 = client.query("SELECT count() FROM lines").fetch_one().await?;
    assert_eq!(count, 20_000);
    let mut cursor = client.query("SELECT ?fields FROM lines ORDER BY n").fetch::<Line>()?;
    let mut seen = 0;
    while let Some(read) = cursor.next().await? {
        assert_eq!(read, line(seen / 2));
        seen += 1;
    }
    assert_eq!(seen, 20_000);
    Ok(())
}

#[tokio::test]
async fn parameters_keep_every_byte() -> anyhow::Result<()> {
    let engine = Engine::start()?;
    let client = engine.client();
    let awkward = "tab\t, line\n, quote', \\backslash\\n, `back`, {brace:String}, ünï, end\\";
    let bound: String = client.query("SELECT ?").bind(awkward).fetch_one().await?;
    assert_eq!(bound, awkward);
    let named: String = client.query("SELECT {x:String}").param("x", awkward).fetch_one().await?;
    assert_eq!(named, awkward);
    let list: Vec<String> = client.query("SELECT {x:Array(String)}").param("x", vec![awkward, ""]).fetch_one().await?;
    assert_eq!(list, [awkward, ""]);
    Ok(())
}

#[tokio::test]
async fn settings_and_databases_do_not_leak() -> anyhow::Result<()> {
    let engine = Engine::start()?;
    let client = engine.client();
    let asks = "SELECT concat(currentDatabase(), ' ', toString(getSetting('max_block_size')))";
    let before: String = client.query(asks).fetch_one().await?;
    let other = client.clone().with_database("system").with_setting("max_block_size", "77");
    assert_eq!(other.query(asks).fetch_one::<String>().await?, "system 77");
    assert_eq!(client.query(asks).fetch_one::<String>().await?, before);
    let unknown = client.clone().with_setting("no_such_setting", "1").query(asks).fetch_one::<String>().await;
    assert!(unknown.expect_err("an unknown setting").to_string().contains("Code: 115"));
    let missing = client.clone().with_database("nowhere").query(asks).fetch_one::<String>().await;
    assert!(missing.expect_err("an unknown database").to_string().contains("Code: 81"));
    Ok(())
}

#[tokio::test]
async fn failures_carry_their_code() -> anyhow::Result<()> {
    let engine = Engine::start()?;
    let client = engine.client();
    let early = client.query("SELECT * FROM nowhere").fetch_one::<u8>().await.expect_err("no table");
    assert!(early.to_string().contains("Code: 60."), "{early}");
    // Long after the first bytes of the answer went out.
    let mut late = client
        .query("SELECT throwIf(number = 2000000)::UInt64 + number FROM numbers(3000000) SETTINGS max_threads = 1")
        .fetch::<u64>()?;
    let mut rows = 0_u64;
    let failure = loop {
        match late.next().await {
            Ok(Some(_)) => rows += 1,
            Ok(None) => panic!("the failure was lost after {rows} rows"),
            Err(failure) => break failure,
        }
    };
    assert!(failure.to_string().contains("Code: 395."), "{failure}");
    assert!(rows > 1_000_000, "{rows}");
    Ok(())
}

#[tokio::test]
async fn an_insert_that_fails_is_not_acknowledged() -> anyhow::Result<()> {
    let engine = Engine::start()?;
    let client = engine.client();
    client.query(CREATE).execute().await?;
    let mut insert = client.insert_formatted_with("INSERT INTO lines FORMAT JSONEachRow");
    insert.send(r#"{"n":1,"text":"a"} {"n":"x"}"#.into()).await?;
    let failure = insert.end().await.expect_err("no number");
    assert!(failure.to_string().contains("Code: 27."), "{failure}");
    let dropped = client.insert_formatted_with("INSERT INTO lines FORMAT JSONEachRow");
    drop(dropped);
    assert_eq!(client.query("SELECT count() FROM lines").fetch_one::<u64>().await?, 0);
    Ok(())
}

#[tokio::test]
async fn a_token_makes_a_repeated_insert_harmless() -> anyhow::Result<()> {
    let engine = Engine::start()?;
    let client = engine.client();
    let create = format!("{CREATE} SETTINGS non_replicated_deduplication_window = 100");
    client.query(&create).execute().await?;
    for token in ["first", "first", "second", "first"] {
        let writer = client.clone().with_setting("insert_deduplication_token", token);
        let mut insert = writer.insert::<Line>("lines").await?;
        for n in 0..1000 {
            insert.write(&line(n)).await?;
        }
        insert.end().await?;
    }
    assert_eq!(client.query("SELECT count() FROM lines").fetch_one::<u64>().await?, 2000);
    Ok(())
}

#[tokio::test]
async fn one_insert_is_one_part() -> anyhow::Result<()> {
    let engine = Engine::start()?;
    let client = engine.client();
    client.query(CREATE).execute().await?;
    let mut insert = client.insert::<Line>("lines").await?;
    for n in 0..100_000 {
        insert.write(&line(n)).await?;
    }
    insert.end().await?;
    let parts: Vec<u64> =
        client.query("SELECT rows FROM system.parts WHERE table = 'lines' AND active").fetch_all().await?;
    assert_eq!(parts, [100_000]);
    Ok(())
}
