//! The row types against the live tables: names, types and values, in both directions.

use clickhouse::Client;
use contador_schemas::rows::{
    Adjustment, Allocation, Audit, Commitments, DeadLetter, Device, DirectoryEntry, Event, GpuSample, Invoice,
    InvoiceFact, InvoiceInput, InvoiceLine, Latency, LatencyTotal, LedgerRow, Metric, NodeSample, OwnerRow, Price,
    Served, StorageSample, Table,
};
use contador_tests::Engine;
use uuid::Uuid;

mod collector_support;

/// Writes `row` with the client's check of every column's type, and reads it back.
async fn comes_back<T: Table + PartialEq + std::fmt::Debug>(client: &Client, row: T) {
    let mut insert = client.insert::<T>(T::TABLE).await.unwrap_or_else(|error| panic!("{}: {error}", T::TABLE));
    insert.write(&row).await.unwrap_or_else(|error| panic!("{}: {error}", T::TABLE));
    insert.end().await.unwrap_or_else(|error| panic!("{}: {error}", T::TABLE));
    let sql = format!("SELECT ?fields FROM {} FINAL", T::TABLE);
    let rows: Vec<T> = client.query(&sql).fetch_all().await.unwrap_or_else(|error| panic!("{}: {error}", T::TABLE));
    assert_eq!(rows, [row], "{}", T::TABLE);
}

#[tokio::test]
async fn every_row_type_is_its_table() {
    let engine = Engine::start().unwrap();
    let store = collector_support::store(engine.url(), "tables");
    contador::store::migrate::up(&store).await.unwrap();
    let client = store.client;
    let seconds = u32::try_from(collector_support::now()).unwrap();
    let millis = i64::from(seconds) * 1_000 + 7;
    let nanos = i64::from(seconds) * 1_000_000_000 + 7;
    let text = || "x".to_owned();
    let id = Uuid::from_u128(0x1234_5678_9abc_def0_1122_3344_5566_7788);

    comes_back(
        &client,
        GpuSample {
            ts: millis,
            device: text(),
            node: text(),
            simulated: true,
            unsupported: vec!["hw.power".to_owned()],
            utilization: Some(0.25),
            memory_used: Some(1 << 40),
            power_mw: Some(u32::MAX),
            temperature_c: Some(-3),
            status: Some("degraded".to_owned()),
            remap_pending: Some(true),
            nvlink_transmit_bytes: Some(u64::MAX),
            fan_speed: Some(1.0),
            memory_temperature_c: Some(95),
            ..GpuSample::default()
        },
    )
    .await;
    let storage = StorageSample { nfs_timeouts: Some(0), fs_reserved_bytes: Some(1 << 50), ..StorageSample::default() };
    let storage = StorageSample { ts: millis, reads: Some(1), reachable: Some(false), ..storage };
    comes_back(&client, StorageSample { probe_ms: Some(7), kind: "mount".to_owned(), ..storage }).await;
    comes_back(
        &client,
        NodeSample { ts: millis, load_1m: Some(1.5), cpus: Some(2), swap_used: Some(0), ..NodeSample::default() },
    )
    .await;
    comes_back(
        &client,
        Latency {
            window: seconds,
            start_ts: nanos - 5,
            ts: nanos,
            series: id,
            source: id,
            owner: id,
            service: text(),
            attributes: vec![("a".to_owned(), "b".to_owned())],
            lo: vec![0.0, 5.0],
            hi: vec![5.0_f64.next_up(), f64::INFINITY],
            n: vec![1, u64::MAX - 1],
            count: u64::MAX,
            sum_us: Some(0.1),
            censored: 3,
            reset: true,
            ..Latency::default()
        },
    )
    .await;
    let total = LatencyTotal { total: id, writer: id, version: u64::MAX, written: seconds, ..LatencyTotal::default() };
    comes_back(&client, LatencyTotal { ts: nanos, points: vec![0, 255, 10, 0], series: id, ..total }).await;
    let served = Served { window: seconds, start_ts: nanos - 5, ts: nanos, source: id, owner: id, ..Served::default() };
    comes_back(&client, Served { requests: Some(0), output_tokens: Some(u64::MAX), service: text(), ..served }).await;
    let ledger = LedgerRow { minute: seconds - seconds % 60, device: text(), owner: id, ..LedgerRow::default() };
    comes_back(&client, LedgerRow { held_ms: 60_000, energy_mj: u64::MAX, requests: 3, ..ledger }).await;
    comes_back(&client, OwnerRow { id, kind: "workload".to_owned(), command: text(), ..OwnerRow::default() }).await;
    let device = Device { id: text(), memory_bytes: 1 << 40, simulated: true, ..Device::default() };
    let device = Device { serial_number: Some(text()), device_index: Some(0), topology: Some(text()), ..device };
    comes_back(&client, Device { first_seen: millis - 5, last_seen: millis, ..device }).await;
    let attributes = vec![("k".to_owned(), "v".to_owned())];
    comes_back(&client, Event { ts: millis, id, kind: text(), attributes: attributes.clone(), ..Event::default() })
        .await;
    let metric = Metric { ts: nanos, start_ts: Some(nanos - 9), series: id, name: text(), ..Metric::default() };
    comes_back(&client, Metric { attributes, value: None, value_int: Some(i64::MIN), monotonic: true, ..metric }).await;
    let allocation = Allocation { id, start: millis, end: millis + 1, gpus: 8, ..Allocation::default() };
    comes_back(&client, Allocation { fraction: 250_000_000_000, owner: id, line: 3, ..allocation }).await;
    let price = Price { id: text(), document: text(), currency: "EUR".to_owned(), ..Price::default() };
    comes_back(&client, Price { loaded_at: millis, loaded_by: text(), ..price }).await;
    let agreed = Commitments { id: text(), document: text(), currency: "EUR".to_owned(), ..Commitments::default() };
    comes_back(&client, Commitments { loaded_at: millis, loaded_by: text(), ..agreed }).await;
    let entry = DirectoryEntry { version: text(), project: text(), valid_from: 0, ..DirectoryEntry::default() };
    let entry = DirectoryEntry { valid_to: Some(u16::MAX), department: text(), cost_centre: text(), ..entry };
    comes_back(&client, DirectoryEntry { entries: 1, loaded_at: millis, ..entry }).await;
    comes_back(&client, DeadLetter { id, ts: millis, target: text(), error: text(), row: "{}".to_owned() }).await;
}

#[tokio::test]
async fn every_row_of_a_closed_month_is_its_table() {
    let engine = Engine::start().unwrap();
    let store = collector_support::store(engine.url(), "invoices");
    contador::store::migrate::up(&store).await.unwrap();
    let client = store.client;
    let text = || "x".to_owned();
    let pairs = || vec![("project".to_owned(), "vision".to_owned())];
    let largest = 10_i128.pow(38) - 1;
    let invoice =
        Invoice { number: 1, total: largest, corrected: pairs(), closed_at: 7, seen_at: 5, ..Invoice::default() };
    comes_back(&client, Invoice { start_ms: -5, end_ms: i64::MAX, hash: text(), ..invoice }).await;
    let line =
        InvoiceLine { lines: text(), number: 3, owner: pairs(), unit_price: Some(-largest), ..Default::default() };
    comes_back(&client, InvoiceLine { day: Some(u16::MAX), imported: true, effective: -1, cost: largest, ..line })
        .await;
    let fact = InvoiceFact { snapshot: text(), number: u32::MAX, owner: pairs(), held: i64::MAX, ..Default::default() };
    comes_back(&client, InvoiceFact { allocated: i128::MAX, session_start: Some(-1), rows: u64::MAX, ..fact }).await;
    comes_back(&client, InvoiceInput { kind: text(), id: text(), document: "{}\n\0é".to_owned() }).await;
    comes_back(&client, Adjustment { id: text(), amount: -50_000_000, at: 7, ..Adjustment::default() }).await;
    comes_back(&client, Audit { number: u64::MAX, at: 7, hash: text(), ..Audit::default() }).await;
}

#[tokio::test]
async fn a_device_seen_again_keeps_its_first_sight_and_takes_the_newest_facts() {
    let engine = Engine::start().unwrap();
    let store = collector_support::store(engine.url(), "devices");
    contador::store::migrate::up(&store).await.unwrap();
    let millis = i64::try_from(collector_support::now()).unwrap() * 1_000;
    // The second agent is told not to send serial numbers, or the driver failed to say one.
    for (seen, driver, serial) in [(millis, "570", Some("1654".to_owned())), (millis + 5, "575", None)] {
        let row = Device {
            id: "GPU-1".to_owned(),
            driver_version: driver.to_owned(),
            serial_number: serial,
            minor: Some(if driver == "570" { 0 } else { 4 }),
            first_seen: seen,
            last_seen: seen,
            ..Device::default()
        };
        let mut insert = store.client.insert::<Device>(Device::TABLE).await.unwrap();
        insert.write(&row).await.unwrap();
        insert.end().await.unwrap();
    }
    let rows: Vec<Device> = store.client.query("SELECT ?fields FROM devices FINAL").fetch_all().await.unwrap();
    let [row] = rows.as_slice() else { panic!("one row, not {rows:?}") };
    assert_eq!((row.driver_version.as_str(), row.first_seen, row.last_seen), ("575", millis, millis + 5));
    assert_eq!((row.serial_number.as_deref(), row.minor), (Some("1654"), Some(4)), "what is not told stays");
    store.client.query("OPTIMIZE TABLE devices FINAL").execute().await.unwrap();
    let merged: Vec<Device> = store.client.query("SELECT ?fields FROM devices").fetch_all().await.unwrap();
    assert_eq!(merged, rows);
}

/// What is left of a sample when its points come in two requests, as a batch processor may cut them.
async fn put_together<T: Table + Clone>(client: &Client, parts: [T; 2]) -> clickhouse::error::Result<T> {
    // The first part once more, as after an answer that was lost.
    for row in [&parts[0], &parts[1], &parts[0]] {
        let mut insert = client.insert::<T>(T::TABLE).await?;
        insert.write(row).await?;
        insert.end().await?;
    }
    let sql = format!("SELECT ?fields FROM {} FINAL", T::TABLE);
    let looked_at: Vec<T> = client.query(&sql).fetch_all().await?;
    assert_eq!(looked_at.len(), 1, "{}", T::TABLE);
    client.query(&format!("OPTIMIZE TABLE {} FINAL", T::TABLE)).execute().await?;
    let sql = format!("SELECT ?fields FROM {}", T::TABLE);
    let mut merged: Vec<T> = client.query(&sql).fetch_all().await?;
    assert_eq!(merged.len(), 1, "{}", T::TABLE);
    Ok(merged.remove(0))
}

#[tokio::test]
async fn a_sample_that_is_split_over_two_requests_keeps_the_columns_of_both() {
    let engine = Engine::start().unwrap();
    let store = collector_support::store(engine.url(), "split");
    contador::store::migrate::up(&store).await.unwrap();
    let ts = i64::try_from(collector_support::now()).unwrap() * 1_000;

    let gpu = GpuSample { ts, device: "GPU-1".to_owned(), node: "n".to_owned(), ..GpuSample::default() };
    let first = GpuSample {
        simulated: true,
        unsupported: vec!["hw.power".to_owned()],
        utilization: Some(0.5),
        energy_mj: Some(0),
        status: Some("failed".to_owned()),
        remap_failed: Some(false),
        ..gpu.clone()
    };
    let second =
        GpuSample { unsupported: vec!["hw.energy".to_owned()], memory_used: Some(7), sm_activity: Some(0.5), ..gpu };
    let mut both = put_together(&store.client, [first.clone(), second]).await.unwrap();
    both.unsupported.sort();
    let unsupported = vec!["hw.energy".to_owned(), "hw.power".to_owned()];
    assert_eq!(both, GpuSample { unsupported, memory_used: Some(7), sm_activity: Some(0.5), ..first });

    let disk = StorageSample { ts, node: "n".to_owned(), device: "sda".to_owned(), ..StorageSample::default() };
    let disk = StorageSample { kind: "disk".to_owned(), ..disk };
    let first = StorageSample { simulated: true, reads: Some(1), ..disk.clone() };
    let both = put_together(&store.client, [first.clone(), StorageSample { writes: Some(2), ..disk }]).await.unwrap();
    assert_eq!(both, StorageSample { writes: Some(2), ..first });

    let node = NodeSample { ts, node: "n".to_owned(), ..NodeSample::default() };
    let first = NodeSample { cpus: Some(2), ..node.clone() };
    let both = put_together(&store.client, [first.clone(), NodeSample { load_1m: Some(0.5), ..node }]).await.unwrap();
    assert_eq!(both, NodeSample { load_1m: Some(0.5), ..first });
}
