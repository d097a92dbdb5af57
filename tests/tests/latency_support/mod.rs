//! Latencies as senders would have left them in the store, each with the time at which it was stored, and what they add up to.
#![allow(dead_code, clippy::unwrap_used, reason = "each test uses a part of it, and a fault here fails the test")]

use contador::latency::Ask;
use contador::store::{Store, migrate};
use contador_schemas::cells::{Cell, Cells};
use contador_schemas::quantile::Answer;
use contador_tests::Engine;

pub const SERVICE: &str = "api";
pub const METRIC: &str = "request_duration";

/// A day that began so long ago that its roll-ups can be made, and so short that its rows are kept: Unix seconds.
pub fn some_day() -> u32 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let today = u32::try_from(now - now % 86_400).unwrap();
    today - 4 * 86_400
}

/// What one source saw of one series in one window.
#[derive(Clone, Debug)]
pub struct Seen {
    pub service: &'static str,
    pub metric: &'static str,
    pub model: &'static str,
    pub region: &'static str,
    pub series: u32,
    pub source: u32,
    pub window: u32,
    pub cells: Vec<Cell>,
    pub sum_us: Option<f64>,
    pub censored: u64,
    /// Unix milliseconds.
    pub stored: i64,
}

impl Seen {
    /// Of the usual service, stored two seconds after its window.
    pub fn at(window: u32, cells: Vec<Cell>) -> Self {
        Self {
            service: SERVICE,
            metric: METRIC,
            model: "m",
            region: "eu",
            series: 1,
            source: 1,
            window,
            cells,
            sum_us: None,
            censored: 0,
            stored: i64::from(window + 12) * 1_000,
        }
    }
}

/// A store with tables in a database of its own.
pub async fn store(engine: &Engine, database: &str) -> Store {
    let args = contador::store::StoreArgs {
        url: engine.url().to_owned(),
        user: "default".to_owned(),
        database: database.to_owned(),
    };
    let store = args.open().unwrap();
    migrate::up(&store).await.unwrap();
    store
}

/// Inserts rows of several days; one insert a day, since each day is a partition.
pub async fn insert(store: &Store, seen: &[Seen]) {
    for chunk in seen.chunks(2_000) {
        let rows: Vec<String> = chunk.iter().map(values).collect();
        let sql = format!(
            "INSERT INTO latency (window, start_ts, ts, series, source, service, model, metric, attributes, lo, hi, n, count, \
             sum_us, censored, stored) VALUES {}",
            rows.join(", ")
        );
        store.client.query_raw(&sql).execute().await.unwrap();
    }
}

fn values(seen: &Seen) -> String {
    let Seen { service, metric, model, region, series, source, window, cells, sum_us, censored, stored } = seen;
    let list = |numbers: Vec<String>| format!("[{}]", numbers.join(", "));
    let lo = list(cells.iter().map(|cell| format!("{:?}", cell.lo)).collect());
    let hi = list(cells.iter().map(|cell| format!("{:?}", cell.hi)).collect());
    let n = list(cells.iter().map(|cell| cell.n.to_string()).collect());
    let count: u64 = cells.iter().map(|cell| cell.n).sum();
    let sum = sum_us.map_or_else(|| "NULL".to_owned(), |sum| format!("{sum:?}"));
    format!(
        "({window}, toDateTime64({window}, 9, 'UTC'), toDateTime64({}, 9, 'UTC'), '{}', '{}', '{service}', '{model}', \
         '{metric}', map('region', '{region}'), {lo}, {hi}, {n}, {count}, {sum}, {censored}, \
         fromUnixTimestamp64Milli({stored}, 'UTC'))",
        window + 10,
        uuid::Uuid::from_u128((*series).into()),
        uuid::Uuid::from_u128((*source).into()),
    )
}

/// The sum of all that was seen in the windows that `ask` touches, by adding up, and its first quantile.
pub fn truth(seen: &[Seen], ask: &Ask, keep: impl Fn(&Seen) -> bool) -> (Cells, Answer) {
    let (from, to) = ask.windows();
    let kept: Vec<&Seen> = seen.iter().filter(|seen| (from..to).contains(&seen.window) && keep(seen)).collect();
    let cells = Cells::new(kept.iter().flat_map(|seen| seen.cells.iter().copied())).unwrap();
    let censored = kept.iter().map(|seen| seen.censored).sum();
    let answer = cells.quantile(ask.quantiles[0], ask.max_ratio, censored);
    (cells, answer)
}

/// Numbers that look random and are the same in every run (SplitMix64).
pub struct Numbers(pub u64);

impl Numbers {
    pub fn below(&mut self, limit: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        u32::try_from((mixed ^ (mixed >> 31)) % u64::from(limit)).unwrap()
    }

    /// Some cells of different layouts: a bucket of an explicit histogram, narrow ones, and one without an upper end.
    pub fn cells(&mut self) -> Vec<Cell> {
        let mut cells = Vec::new();
        for _ in 0..=self.below(4) {
            let lo = f64::from(self.below(50)) * 1_000.0;
            let hi = match self.below(10) {
                0 => f64::INFINITY,
                1..4 => lo + 5_000.0,
                _ => lo * 1.001,
            };
            cells.push(Cell { lo, hi, n: u64::from(self.below(30)) + 1 });
        }
        Cells::new(cells).unwrap().as_slice().to_vec()
    }

    /// Rows of three series and two sources, at random windows of `[from, to)`.
    pub fn rows(&mut self, count: usize, (from, to): (u32, u32)) -> Vec<Seen> {
        let mut rows: Vec<Seen> = (0..count)
            .map(|_| {
                let window = from + self.below(to - from);
                let mut seen = Seen::at(window - window % 10, self.cells());
                seen.series = self.below(3);
                seen.source = self.below(2);
                seen.model = ["m", "other", "third"][seen.series as usize];
                seen.region = ["eu", "us", "eu"][seen.series as usize];
                seen
            })
            .collect();
        // A row that comes again would replace the first.
        rows.sort_by_key(|seen| (seen.series, seen.window, seen.source));
        rows.dedup_by_key(|seen| (seen.series, seen.window, seen.source));
        rows
    }
}
