//! Roll-ups never change an answer: not while they lag, not when rows come late, not when a pass dies or meets another.
#![allow(clippy::unwrap_used, reason = "a test ends at what it does not expect")]

use std::time::{SystemTime, UNIX_EPOCH};

use contador::latency::levels::{Clean, LEVELS};
use contador::latency::rollup::{self, pass};
use contador::latency::{Ask, Label, tell};
use contador::store::Store;
use contador_schemas::cells::Cell;
use contador_schemas::quantile::{Answer, Quantile};
use contador_tests::Engine;

mod latency_support;
use latency_support::{METRIC, Numbers, SERVICE, Seen, insert, some_day, store, truth};

const DAY: u32 = 86_400;

async fn answer(store: &Store, ask: &Ask) -> Answer {
    tell(store, ask).await.unwrap().series[0].points[0].answers[0]
}

async fn number(store: &Store, sql: &str) -> u64 {
    store.client.query(sql).fetch_one().await.unwrap()
}

/// All that the roll-ups hold, as one number.
async fn contents(store: &Store) -> Vec<u64> {
    let mut contents = Vec::new();
    for level in LEVELS {
        let sql = format!("SELECT sum(cityHash64(*)) FROM {} FINAL", level.table);
        contents.push(number(store, &sql).await);
    }
    contents
}

/// Compares what is told with what was seen, for times of all kinds.
async fn same_as_rows(store: &Store, seen: &[Seen], numbers: &mut Numbers, when: &str) {
    let day = some_day();
    for round in 0..24 {
        let from = day - 3_600 + numbers.below(3 * DAY);
        let length = [7, 300, 4_000, DAY / 2, 2 * DAY, 4 * DAY][numbers.below(6) as usize] + numbers.below(900);
        let mut ask = Ask::p99(SERVICE, METRIC, from, from + length);
        ask.quantiles = vec![[Quantile::P50, Quantile::P99][round % 2]];
        let (cells, expected) = truth(seen, &ask, |_| true);
        let told = answer(store, &ask).await;
        assert_eq!(told, expected, "{when}: {from} and {length} s");
        assert_eq!(told.n, cells.count());
    }
}

#[tokio::test]
async fn an_answer_is_that_of_the_rows_before_during_and_after_a_pass_with_rows_that_come_late() {
    let engine = Engine::start().unwrap();
    let store = store(&engine, "rolled").await;
    let day = some_day();
    let mut numbers = Numbers(1);
    let mut seen = numbers.rows(4_000, (day, day + 3 * DAY));
    insert(&store, &seen).await;
    same_as_rows(&store, &seen, &mut numbers, "no pass yet").await;

    let passed = pass(&store).await.unwrap();
    assert_eq!(passed[2].windows, 3, "{passed:?}");
    assert_eq!(number(&store, "SELECT count() FROM latency_1d FINAL").await, 9);
    let ask = Ask::p99(SERVICE, METRIC, day, day + 3 * DAY);
    let clean = Clean::read(&store, ask.windows()).await.unwrap();
    let cover = clean.cover(ask.windows(), None);
    assert_eq!((cover.rows.len(), cover.levels[2].as_slice()), (0, [(day, day + 3 * DAY)].as_slice()));
    same_as_rows(&store, &seen, &mut numbers, "after a pass").await;

    // Rows that come late, to windows that are rolled up: seen at once, though no pass comes.
    let late = |numbers: &mut Numbers, seen: &[Seen], stored: i64| {
        let mut late = numbers.rows(200, (day, day + 3 * DAY));
        late.retain(|row| {
            !seen.iter().any(|seen| (seen.series, seen.window, seen.source) == (row.series, row.window, row.source))
        });
        late.iter_mut().for_each(|row| row.stored = stored);
        late
    };
    let just_after = passed[0].watermark + 1;
    let rows = late(&mut numbers, &seen, just_after);
    insert(&store, &rows).await;
    seen.extend(rows);
    same_as_rows(&store, &seen, &mut numbers, "late rows, no pass").await;
    let clean = Clean::read(&store, ask.windows()).await.unwrap();
    assert!(clean.dirty.len() > 50);

    // The next pass takes them in; those that were stored after its watermark wait.
    let passed = pass(&store).await.unwrap();
    assert!(passed[0].watermark > just_after && passed[0].windows > 50);
    assert_eq!(Clean::read(&store, ask.windows()).await.unwrap().dirty.len(), 0);
    let rows = late(&mut numbers, &seen, passed[0].watermark + 800_000);
    insert(&store, &rows).await;
    let before = seen.clone();
    seen.extend(rows);
    same_as_rows(&store, &seen, &mut numbers, "late rows after two passes").await;

    // Without any row that is not rolled up, and then without rows at all, the roll-ups alone have everything.
    store.client.query("TRUNCATE TABLE latency").execute().await.unwrap();
    let told = answer(&store, &ask).await;
    assert_eq!(told, truth(&before, &ask, |_| true).1);
    let mut hours = ask.clone();
    hours.step = Some(3_600);
    let told = tell(&store, &hours).await.unwrap();
    assert_eq!(told.series[0].points.len(), 72);
    for point in &told.series[0].points {
        let part = Ask { from: point.span.0, to: point.span.1, step: None, ..hours.clone() };
        assert_eq!(point.answers[0], truth(&before, &part, |_| true).1);
    }
}

#[tokio::test]
async fn a_pass_that_is_done_again_or_meets_another_or_died_changes_nothing() {
    let engine = Engine::start().unwrap();
    let store = store(&engine, "again").await;
    let day = some_day();
    let seen = Numbers(2).rows(1_500, (day, day + DAY));
    insert(&store, &seen).await;
    let (one, other, third) = tokio::join!(pass(&store), pass(&store), pass(&store));
    one.and(other).and(third).unwrap();
    let made = contents(&store).await;
    assert!(made.iter().all(|hash| *hash > 0));
    assert_eq!(pass(&store).await.unwrap()[0].windows, 0, "nothing has changed");
    // As after a pass that died before it wrote its watermark, in the middle of a level.
    store.client.query("TRUNCATE TABLE rollups").execute().await.unwrap();
    store.client.query("TRUNCATE TABLE latency_1h").execute().await.unwrap();
    pass(&store).await.unwrap();
    assert_eq!(contents(&store).await, made);
    let ask = Ask::p99(SERVICE, METRIC, day, day + DAY);
    assert_eq!(answer(&store, &ask).await, truth(&seen, &ask, |_| true).1);
    assert!(rollup::last(&store).await.unwrap().is_some());
}

#[tokio::test]
async fn what_comes_late_of_one_service_hides_nothing_of_another() {
    let engine = Engine::start().unwrap();
    let store = store(&engine, "others").await;
    let day = some_day();
    let mut numbers = Numbers(4);
    let seen = numbers.rows(2_000, (day, day + 3 * DAY));
    insert(&store, &seen).await;
    // The pass leaves the windows of these to the next one, with everything that is in them.
    let stored = i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap();
    let other = |window| Seen { service: "other", stored, ..Seen::at(window, vec![Cell { lo: 1.0, hi: 2.0, n: 1 }]) };
    insert(&store, &[other(day + 100), other(day + DAY + 7_200)]).await;
    assert_eq!(pass(&store).await.unwrap()[2].windows, 1);
    same_as_rows(&store, &seen, &mut numbers, "late rows of another service").await;
    // Whatever else it is asked by.
    let ask = Ask::p99(SERVICE, METRIC, day, day + 3 * DAY).only(Label::Model, "m");
    assert_eq!(answer(&store, &ask).await, truth(&seen, &ask, |seen| seen.model == "m").1);
}

#[tokio::test]
async fn rows_that_reach_the_end_of_their_time_take_nothing_from_what_was_rolled_up() {
    let engine = Engine::start().unwrap();
    let store = store(&engine, "kept").await;
    let day = some_day();
    let cell = |n| vec![Cell { lo: 1.0, hi: 2.0, n }];
    let rows: Vec<Seen> = (0..30).map(|index| Seen::at(day + index * 10, cell(10))).collect();
    insert(&store, &rows).await;
    let watermark = pass(&store).await.unwrap()[0].watermark;
    // The rows are gone, and one comes late: made again from it alone, the window would hold five values of 300.
    store.client.query("TRUNCATE TABLE latency").execute().await.unwrap();
    let late = Seen { source: 9, stored: watermark + 1, ..Seen::at(day, cell(5)) };
    insert(&store, &[late]).await;
    assert_eq!(pass(&store).await.unwrap()[0].windows, 1);
    for level in LEVELS {
        assert_eq!(
            number(&store, &format!("SELECT sum(count) FROM {} FINAL", level.table)).await,
            300,
            "{}",
            level.table
        );
        store.client.query(&format!("OPTIMIZE TABLE {} FINAL", level.table)).execute().await.unwrap();
        assert_eq!(number(&store, &format!("SELECT sum(count) FROM {}", level.table)).await, 300, "{}", level.table);
    }
}

#[tokio::test]
async fn a_service_has_traffic_only_in_windows_that_are_whole_in_the_time() {
    let engine = Engine::start().unwrap();
    let store = store(&engine, "services").await;
    let day = some_day();
    let cell = || vec![Cell { lo: 1.0, hi: 2.0, n: 1 }];
    insert(&store, &[Seen::at(day + 7_290, cell()), Seen { service: "late", ..Seen::at(day + 80_000, cell()) }]).await;
    pass(&store).await.unwrap();
    let of = async |from, to| -> String {
        let found = contador::latency::services(&store, day + from, day + to).await.unwrap();
        found.into_iter().map(|(service, _)| service + ".").collect()
    };
    // With the rows, and with roll-ups alone, as of long ago.
    for rows in [true, false] {
        if !rows {
            store.client.query("TRUNCATE TABLE latency").execute().await.unwrap();
        }
        for ((from, to), expected) in [
            ((0, 86_400), "api.late."),
            ((0, 7_500), "api."),
            ((7_200, 7_500), "api."),
            ((6_900, 7_200), ""),
            // In the same hour and on the same day, but at another time.
            ((7_500, 10_800), ""),
            ((3_600, 7_200), ""),
            ((10_800, 79_800), ""),
            ((79_800, 80_100), "late."),
        ] {
            assert_eq!(of(from, to).await, expected, "{from} to {to}, rows: {rows}");
        }
    }
    insert(&store, &[Seen::at(day + 7_290, cell())]).await;
    assert_eq!(
        (of(7_280, 7_290).await, of(7_290, 7_300).await, of(7_300, 7_310).await),
        (String::new(), "api.".into(), String::new())
    );
}

#[tokio::test]
async fn a_row_of_very_many_cells_has_edges_moved_outward_and_no_value_less() {
    let engine = Engine::start().unwrap();
    let store = store(&engine, "many").await;
    let day = some_day();
    let mut numbers = Numbers(3);
    // As an exponential histogram whose outer cells are narrowed by each export's least and greatest value.
    let cells = |numbers: &mut Numbers| -> Vec<Cell> {
        let cell = |numbers: &mut Numbers| {
            let lo = 1_000.0 + f64::from(numbers.below(1_000_000)) / 7.0;
            Cell { lo, hi: lo * (1.003 + f64::from(numbers.below(1_000)) / 1e4), n: u64::from(numbers.below(3)) + 1 }
        };
        (0..20).map(|_| cell(numbers)).collect()
    };
    let rows: Vec<Seen> = (0..360).map(|index| Seen::at(day + index * 10, cells(&mut numbers))).collect();
    let narrow = Cell { lo: 5_000.0, hi: 5_000.0, n: 77 };
    let rows: Vec<Seen> = rows
        .into_iter()
        .map(|mut seen| {
            seen.cells.push(narrow);
            seen
        })
        .collect();
    insert(&store, &rows).await;
    pass(&store).await.unwrap();
    let total: u64 = rows.iter().flat_map(|seen| &seen.cells).map(|cell| cell.n).sum();
    for table in ["latency_1h", "latency_1d"] {
        assert_eq!(number(&store, &format!("SELECT sum(arraySum(n)) FROM {table} FINAL")).await, total);
        assert_eq!(number(&store, &format!("SELECT sum(count) FROM {table} FINAL")).await, total);
        assert!(number(&store, &format!("SELECT max(length(n)) FROM {table} FINAL")).await < 7_200);
        let exact =
            format!("SELECT toUInt64(sum(n[indexOf(lo, 5000)])) FROM {table} FINAL WHERE hi[indexOf(lo, 5000)] = 5000");
        assert_eq!(number(&store, &exact).await, 77 * 360, "what is narrow stays as it is");
    }
    for ppm in [10_000, 250_000, 500_000, 900_000, 990_000, 999_000] {
        let mut ask = Ask::p99(SERVICE, METRIC, day, day + DAY);
        ask.quantiles = vec![Quantile::from_ppm(ppm).unwrap()];
        let (exact, told) = (truth(&rows, &ask, |_| true).1, answer(&store, &ask).await);
        let ends = |answer: Answer| (answer.low.unwrap(), answer.high.unwrap());
        let ((low, high), (told_low, told_high)) = (ends(exact), ends(told));
        assert!(told_low <= low && high <= told_high, "{ppm}");
        assert!(told_low * 1.0007 >= low && high * 1.0007 >= told_high, "{ppm}: moved once, not at each level");
    }
}
