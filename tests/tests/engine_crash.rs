//! The embedded engine, killed: what it acknowledged is there when it comes back.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use clickhouse::Row;
use contador_tests::Engine;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

const WRITERS: u32 = 4;
const BATCH: u64 = 2_000;

#[derive(Deserialize, Row, Serialize)]
struct Entry {
    writer: u32,
    batch: u64,
    n: u64,
}

/// Inserts batch after batch until the engine is gone; tells each batch that was acknowledged.
async fn write(client: clickhouse::Client, writer: u32, first: u64, acknowledged: mpsc::UnboundedSender<(u32, u64)>) {
    for batch in first.. {
        let done = async {
            let mut insert = client.insert::<Entry>("entries").await?;
            for n in 0..BATCH {
                insert.write(&Entry { writer, batch, n }).await?;
            }
            insert.end().await
        };
        if done.await.is_err() || acknowledged.send((writer, batch)).is_err() {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_acknowledged_row_survives_sigkill() -> anyhow::Result<()> {
    let mut engine = Engine::start()?;
    let create = "CREATE TABLE entries (writer UInt32, batch UInt64, n UInt64) \
                  ENGINE = MergeTree ORDER BY (writer, batch, n)";
    engine.client().query(create).execute().await?;
    let mut kept = Vec::new();
    for round in 0..3_u64 {
        let (sender, mut receiver) = mpsc::unbounded_channel();
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| tokio::spawn(write(engine.client(), writer, round * 1_000_000, sender.clone())))
            .collect();
        drop(sender);
        // In the middle of the inserts: some are acknowledged, and the next of each writer is on its way.
        for _ in 0..40 * (round + 1) {
            kept.push(receiver.recv().await.expect("an acknowledged batch"));
        }
        engine.kill()?;
        for writer in writers {
            writer.await?;
        }
        while let Some(batch) = receiver.recv().await {
            kept.push(batch);
        }
        engine.restart()?;
        let there: HashMap<(u32, u64), (u64, u64)> = engine
            .client()
            .query("SELECT writer, batch, count(), sum(n) FROM entries GROUP BY writer, batch")
            .fetch_all::<(u32, u64, u64, u64)>()
            .await?
            .into_iter()
            .map(|(writer, batch, count, sum)| ((writer, batch), (count, sum)))
            .collect();
        for batch in &kept {
            assert_eq!(there.get(batch), Some(&(BATCH, BATCH * (BATCH - 1) / 2)), "{batch:?} in round {round}");
        }
    }
    println!("{} batches of {BATCH} rows were acknowledged over three kills", kept.len());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_lets_inserts_end_and_stops_what_would_not() -> anyhow::Result<()> {
    let mut engine = Engine::start()?;
    let client = engine.client();
    client.query("CREATE TABLE t (x UInt64) ENGINE = MergeTree ORDER BY x").execute().await?;
    let insert =
        client.query("INSERT INTO t SELECT number + sleepEachRow(0.5) FROM numbers(4) SETTINGS max_block_size = 1");
    let insert = tokio::spawn(insert.execute());
    let endless = client.query("SELECT count() FROM numbers(1000000000000000) WHERE NOT ignore(sipHash64(number))");
    let endless = tokio::spawn(endless.fetch_one::<u64>());
    running(&client, 2).await?;
    let begun = Instant::now();
    let status = tokio::task::spawn_blocking(move || engine.terminate().map(|status| (engine, status)));
    insert.await??;
    assert!(endless.await?.is_err());
    let (mut engine, status) = status.await??;
    assert!(status.success(), "{status}: {}", engine.log());
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    engine.restart()?;
    assert_eq!(engine.client().query("SELECT sum(x) FROM t").fetch_one::<u64>().await?, 6);
    Ok(())
}

/// Waits until so many statements run beside the one that asks.
async fn running(client: &clickhouse::Client, expected: u64) -> anyhow::Result<()> {
    let deadline = Instant::now() + Duration::from_secs(20);
    let mut seen = 0;
    while Instant::now() < deadline {
        seen = client.query("SELECT count() - 1 FROM system.processes").fetch_one::<i64>().await?.unsigned_abs();
        if seen == expected {
            return Ok(());
        }
    }
    anyhow::bail!("{seen} statements were running; expected {expected}")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_endpoint_lets_statements_wait() -> anyhow::Result<()> {
    let engine = Engine::start_with(&["--connections", "2"], None)?;
    let most = Arc::new(AtomicUsize::new(0));
    let statements: Vec<_> = (0..20)
        .map(|_| {
            let (client, most) = (engine.client(), Arc::clone(&most));
            tokio::spawn(async move {
                let asks = "SELECT count() + sum(sleepEachRow(0.01)) FROM system.processes";
                let now = client.query(asks).fetch_one::<u64>().await?;
                most.fetch_max(now as usize, Ordering::SeqCst);
                anyhow::Ok(())
            })
        })
        .collect();
    for statement in statements {
        statement.await??;
    }
    assert!((1..=2).contains(&most.load(Ordering::SeqCst)), "{most:?}");
    Ok(())
}
