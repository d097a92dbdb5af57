//! How fast `gpu_samples` takes rows: with the columns of version 0.1.0, with those of today and only the old values in
//! them, and with all values. Starts an engine of its own; prints one line of JSON.
//!
//! `cargo run -p contador-tests --example sample_inserts [ROWS]` (needs `target/debug/contador`).
#![allow(clippy::cast_precision_loss, reason = "rates")]

use std::time::Instant;

use anyhow::Context;
use clickhouse::Client;
use contador_schemas::migrations::MIGRATIONS;
use contador_schemas::rows::{ByColumn, GpuSample, Slot, Table};
use contador_tests::Engine;

/// Columns before and with `0013`.
const OLD: usize = 13;

/// Rows of one insert: what a collector writes at once from a large fleet.
const BATCH: usize = 20_000;

fn main() -> anyhow::Result<()> {
    let rows: usize = std::env::args().nth(1).as_deref().unwrap_or("400000").parse().context("a number of rows")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(measure(rows))
}

async fn measure(rows: usize) -> anyhow::Result<()> {
    let engine = Engine::start()?;
    let mut told = serde_json::Map::new();
    told.insert("rows".to_owned(), rows.into());
    for (case, migrations, filled) in [
        ("old_table", 1, OLD),
        ("new_table_old_values", MIGRATIONS.len(), OLD),
        ("new_table_all_values", MIGRATIONS.len(), GpuSample::COLUMNS.len()),
    ] {
        let database = format!("bench_{case}");
        engine.client().query(&format!("CREATE DATABASE {database}")).execute().await?;
        let client = engine.client().with_database(&database);
        for migration in MIGRATIONS.iter().take(migrations).filter(|migration| migration.table() == GpuSample::TABLE) {
            client.query_raw(migration.sql).execute().await?;
        }
        let mut seconds = 0.0;
        for batch in 0..rows / BATCH {
            let samples = (batch * BATCH..(batch + 1) * BATCH).map(|at| sample(at, filled));
            let samples: Vec<GpuSample> = samples.collect::<Result<_, _>>()?;
            let began = Instant::now();
            if migrations == 1 {
                insert(&client, samples.into_iter().map(OldSample::from)).await?;
            } else {
                insert(&client, samples.into_iter()).await?;
            }
            seconds += began.elapsed().as_secs_f64();
        }
        client.query("OPTIMIZE TABLE gpu_samples FINAL").execute().await?;
        let bytes: u64 = client
            .query("SELECT sum(data_compressed_bytes) FROM system.parts WHERE database = ? AND active")
            .bind(&database)
            .fetch_one()
            .await?;
        let stored = rows / BATCH * BATCH;
        let rate = (stored as f64 / seconds).round();
        told.insert(format!("{case}_rows_per_s"), rate.into());
        told.insert(format!("{case}_bytes_per_row"), ((bytes as f64 / stored as f64 * 10.0).round() / 10.0).into());
    }
    println!("{}", serde_json::Value::Object(told));
    Ok(())
}

/// 64 GPUs, one sample a second.
fn sample(at: usize, filled: usize) -> anyhow::Result<GpuSample> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_secs();
    let (second, device) = (at / 64, at % 64);
    let ts = (i64::try_from(now)? - 86_400 + i64::try_from(second)?) * 1_000;
    let mut row = GpuSample {
        ts,
        device: format!("GPU-00000000-0000-0000-0000-{device:012}"),
        node: "node".to_owned(),
        ..GpuSample::default()
    };
    for (salt, name) in GpuSample::COLUMNS.iter().take(filled).enumerate() {
        let value = u32::try_from((second * 7 + salt * 31 + device) % 1_000)?;
        match GpuSample::column(name).context("a column")?(&mut row) {
            Slot::F32(column) => *column = Some(value as f32 / 1_000.0),
            // Counters rise.
            Slot::U64(column) => *column = Some(second as u64 * 1_000_000 + u64::from(value)),
            Slot::U32(column) => *column = Some(value),
            Slot::I16(column) => *column = Some(i16::try_from(value)?),
            Slot::Bool(column) => *column = Some(false),
            Slot::Text(column) => *column = Some("ok".to_owned()),
        }
    }
    Ok(row)
}

async fn insert<T>(client: &Client, rows: impl Iterator<Item = T>) -> anyhow::Result<()>
where
    T: clickhouse::RowOwned + clickhouse::RowWrite,
    for<'a> T: clickhouse::Row<Value<'a> = T>,
{
    let mut insert = client.insert::<T>(GpuSample::TABLE).await?;
    for row in rows {
        insert.write(&row).await?;
    }
    Ok(insert.end().await?)
}

/// The row of version 0.1.0.
#[derive(clickhouse::Row, serde::Deserialize, serde::Serialize)]
struct OldSample {
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

impl From<GpuSample> for OldSample {
    fn from(row: GpuSample) -> Self {
        Self {
            ts: row.ts,
            device: row.device,
            node: row.node,
            simulated: row.simulated,
            unsupported: row.unsupported,
            utilization: row.utilization,
            memory_utilization: row.memory_utilization,
            memory_total: row.memory_total,
            memory_used: row.memory_used,
            memory_free: row.memory_free,
            memory_reserved: row.memory_reserved,
            power_mw: row.power_mw,
            energy_mj: row.energy_mj,
            temperature_c: row.temperature_c,
            clock_sm_mhz: row.clock_sm_mhz,
            clock_memory_mhz: row.clock_memory_mhz,
            clock_graphics_mhz: row.clock_graphics_mhz,
            processes: row.processes,
        }
    }
}
