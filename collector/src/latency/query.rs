//! Asks ClickHouse for the sums of cells, and answers with their quantiles.
//!
//! Sums come in the order of labels and steps, so that the cells of one answer at a time are held, however many there are.

use std::collections::BTreeMap;

use clickhouse::Row;
use contador_schemas::cells::{Cell, Cells, CellsError};
use contador_schemas::quantile::{Answer, Quantile};
use contador_schemas::series::WINDOW_SECONDS;
use serde::Deserialize;

use super::ask::{Ask, Error, Label, MOST_ANSWERS};
use super::levels::{Clean, LEVELS, Span};
use super::sql::{self, Condition};
use crate::store::Store;

/// All answers.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    /// The time that is answered, of whole windows, Unix seconds.
    pub windows: Span,
    /// One for each combination of the labels that were asked to tell answers apart, in their order.
    pub series: Vec<Series>,
}

/// Answers for one combination of labels.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Values of the labels that were asked for, in that order.
    pub labels: Vec<String>,
    /// One for each step, those without traffic too; one without steps.
    pub points: Vec<Point>,
}

/// Answers for one span of time.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The span, Unix seconds.
    pub span: Span,
    /// The quantiles that were asked for, in microseconds.
    pub answers: Vec<Answer>,
    /// The mean of the values whose sum the sources tell, microseconds.
    pub mean_us: Option<f64>,
    /// Of how many values that is the mean.
    pub mean_n: u64,
    /// Values that are lower bounds only.
    pub censored: u64,
    /// Whether any of the values comes from a simulation.
    pub simulated: bool,
}

#[derive(Deserialize, Row)]
struct CellRow {
    labels: Vec<String>,
    step: u32,
    lo: f64,
    hi: f64,
    total: u64,
}

#[derive(Deserialize, Row)]
struct BesideRow {
    labels: Vec<String>,
    step: u32,
    counted: u128,
    aborted: u128,
    made_up: bool,
    with_sum: u128,
    sum: f64,
}

type Key = (Vec<String>, u32);

/// Answers what is asked. Rows that were written twice count once.
///
/// # Errors
/// [`Error`].
pub async fn tell(store: &Store, ask: &Ask) -> Result<Told, Error> {
    ask.check()?;
    let windows = ask.windows();
    let condition = Condition::of(ask);
    let clean = Clean::read(store, windows).await?;
    let cover = clean.cover(windows, ask.step);
    let beside = sql::bound(ask, &condition, store.client.query(&sql::beside(ask, &condition, &cover)));
    let beside: Vec<BesideRow> = beside.fetch_all().await?;
    let mut facts: BTreeMap<Key, BesideRow> = BTreeMap::new();
    for row in beside.into_iter().filter(|row| row.counted > 0) {
        if row.counted > u128::from(u64::MAX) {
            return Err(failed(ask, CellsError::Overflow { cells: 1 }));
        }
        facts.insert((row.labels.clone(), row.step), row);
    }
    let rows = sql::bound(ask, &condition, store.client.query(&sql::cells(ask, &condition, &cover)));
    let mut rows = rows.fetch::<CellRow>()?;
    let mut made = Made { ask, windows, facts, series: BTreeMap::new(), answers: 0 };
    let mut key: Key = (Vec::new(), 0);
    let mut cells = Vec::new();
    while let Some(CellRow { labels, step, lo, hi, total }) = rows.next().await? {
        if key.1 != step || key.0 != labels {
            made.add(std::mem::replace(&mut key, (labels, step)), std::mem::take(&mut cells))?;
        }
        cells.push(Cell { lo, hi, n: total });
    }
    made.add(key, cells)?;
    Ok(Told { windows, series: made.finish()? })
}

fn failed(ask: &Ask, source: CellsError) -> Error {
    Error::Cells { service: ask.value(&Label::Service).unwrap_or_default().to_owned(), source }
}

/// Answers as they are made.
struct Made<'a> {
    ask: &'a Ask,
    windows: Span,
    facts: BTreeMap<Key, BesideRow>,
    series: BTreeMap<Vec<String>, BTreeMap<u32, Point>>,
    answers: usize,
}

impl Made<'_> {
    fn add(&mut self, key: Key, cells: Vec<Cell>) -> Result<(), Error> {
        if cells.is_empty() {
            return Ok(());
        }
        let cells = Cells::new(cells).map_err(|source| failed(self.ask, source))?;
        let facts = self.facts.remove(&key);
        let (labels, step) = key;
        let point = self.point(step, &cells, facts.as_ref());
        let steps = self.steps().count();
        let series = self.series.entry(labels).or_default();
        if series.is_empty() {
            self.answers += steps;
        }
        if self.answers > MOST_ANSWERS {
            let message = format!(
                "more than {} series of {steps} points each, expected at most {MOST_ANSWERS} points in all",
                MOST_ANSWERS / steps.max(1)
            );
            return Err(Error::Asked { what: "by", message });
        }
        series.insert(step, point);
        Ok(())
    }

    fn point(&self, step: u32, cells: &Cells, facts: Option<&BesideRow>) -> Point {
        let whole = |value: u128| u64::try_from(value).unwrap_or(u64::MAX);
        let censored = facts.map_or(0, |facts| whole(facts.aborted));
        let quantiles = self.ask.quantiles.iter();
        let mean_n = facts.map_or(0, |facts| whole(facts.with_sum));
        #[expect(clippy::cast_precision_loss, reason = "a mean")]
        let mean_us = facts.filter(|_| mean_n > 0).map(|facts| facts.sum / mean_n as f64);
        Point {
            span: self.span(step),
            answers: quantiles.map(|q| cells.quantile(*q, self.ask.max_ratio, censored)).collect(),
            mean_us: mean_us.filter(|mean| mean.is_finite()),
            mean_n,
            censored,
            simulated: facts.is_some_and(|facts| facts.made_up),
        }
    }

    /// Starts of all steps; 0 for the only one.
    fn steps(&self) -> impl Iterator<Item = u32> {
        let (from, to) = self.windows;
        let (first, length) = self.ask.step.map_or((0, u32::MAX), |step| (from - from % step, step));
        std::iter::successors(Some(first), move |start| start.checked_add(length)).take_while(move |start| *start < to)
    }

    /// The part of a step that was asked for.
    fn span(&self, start: u32) -> Span {
        let (from, to) = self.windows;
        self.ask.step.map_or((from, to), |step| (start.max(from), start.saturating_add(step).min(to)))
    }

    /// All series, with the steps that have no traffic.
    fn finish(mut self) -> Result<Vec<Series>, Error> {
        if self.series.is_empty() && self.ask.by.is_empty() {
            self.series.insert(Vec::new(), BTreeMap::new());
        }
        let none = Cells::default();
        let series = std::mem::take(&mut self.series).into_iter().map(|(labels, mut points)| {
            let points = self.steps().map(|step| points.remove(&step).unwrap_or_else(|| self.point(step, &none, None)));
            Series { labels, points: points.collect() }
        });
        Ok(series.collect())
    }
}

/// The first answer to what is asked for, in microseconds.
///
/// # Errors
/// [`Error`].
pub async fn quantile(store: &Store, ask: &Ask) -> Result<Answer, Error> {
    let told = tell(store, ask).await?;
    let mut answers = told.series.into_iter().flat_map(|series| series.points).flat_map(|point| point.answers);
    let q = ask.quantiles.first().copied().unwrap_or(Quantile::P99);
    Ok(answers.next().unwrap_or_else(|| Cells::default().quantile(q, ask.max_ratio, 0)))
}

/// The metrics of a service, of those that have latencies.
pub fn metrics_of<'f>(found: &'f [(String, String)], service: &str) -> Vec<&'f str> {
    found.iter().filter(|(name, _)| name == service).map(|(_, metric)| metric.as_str()).collect()
}

/// The services and metrics that have latencies in these windows, as [`Ask::windows`] gives them, in alphabetical order.
///
/// # Errors
/// [`Error::Store`].
pub async fn services(store: &Store, from: u32, to: u32) -> Result<Vec<(String, String)>, Error> {
    let tables: Vec<String> = std::iter::once(("latency", WINDOW_SECONDS))
        .chain(LEVELS.iter().map(|level| (level.table, level.seconds)))
        .filter_map(|(table, seconds)| {
            // Only windows that are whole in this time: traffic of another part of an hour is none of it. What is beside whole
            // hours and days is in the rows or, where they are kept no longer, in windows of five minutes.
            let last = to.checked_sub(seconds)?;
            Some(format!(
                "SELECT service, metric FROM {table} WHERE window >= toDateTime({from}, 'UTC') \
                 AND window <= toDateTime({last}, 'UTC') GROUP BY service, metric"
            ))
        })
        .collect();
    if tables.is_empty() {
        return Ok(Vec::new());
    }
    let sql = format!(
        "SELECT toString(service) AS s, toString(metric) AS m FROM ({}) GROUP BY s, m ORDER BY s, m LIMIT 100000",
        tables.join(" UNION ALL ")
    );
    Ok(store.client.query(&sql).fetch_all().await?)
}
