//! Asks ClickHouse for the sum of a service's cells, and answers with a quantile of it.

use clickhouse::Row;
use contador_schemas::cells::{Cell, Cells, CellsError};
use contador_schemas::quantile::{Answer, Quantile};
use serde::Deserialize;

use crate::store::Store;

/// Widest interval, as a ratio of its upper to its lower end, whose state is `ok`.
pub const MOST_RATIO: f64 = 1.1;

/// Which latencies are asked for. Empty strings ask for all.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked<'a> {
    /// `service.name`.
    pub service: &'a str,
    /// What was timed, such as `request_duration`.
    pub metric: &'a str,
    /// Machine-learning model.
    pub model: &'a str,
    /// First window that counts, Unix seconds.
    pub from: u32,
    /// First window that does not count any more, Unix seconds.
    pub to: u32,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// ClickHouse failed.
    #[error("reading latencies from clickhouse")]
    Store(#[from] clickhouse::error::Error),
    /// What is stored is no histogram.
    #[error("the stored cells of service {service:?}")]
    Cells {
        /// The service.
        service: String,
        /// What is wrong with them.
        #[source]
        source: CellsError,
    },
}

#[derive(Deserialize, Row)]
struct Sum {
    lo: f64,
    hi: f64,
    total: u128,
}

const CELLS: &str = "SELECT l AS lo, h AS hi, sum(toUInt128(c)) AS total \
    FROM (SELECT l, h, c FROM latency FINAL ARRAY JOIN lo AS l, hi AS h, n AS c \
          WHERE service = ? AND (? = '' OR metric = ?) AND (? = '' OR model = ?) \
          AND window >= toDateTime(?, 'UTC') AND window < toDateTime(?, 'UTC')) \
    GROUP BY l, h";

const BESIDE: &str = "SELECT sum(toUInt128(censored)), max(simulated AND count > 0) FROM latency FINAL \
    WHERE service = ? AND (? = '' OR metric = ?) AND (? = '' OR model = ?) \
    AND window >= toDateTime(?, 'UTC') AND window < toDateTime(?, 'UTC')";

/// A quantile, and what it is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Told {
    /// The quantile.
    pub answer: Answer,
    /// Whether any of its values come from a simulation.
    pub simulated: bool,
}

/// The quantile `q` of what is asked for, in microseconds. Rows that were written twice count once.
///
/// # Errors
/// [`Error`].
pub async fn quantile(store: &Store, asked: Asked<'_>, q: Quantile) -> Result<Answer, Error> {
    Ok(tell(store, asked, q).await?.answer)
}

/// As [`quantile`], with what it is made of.
///
/// # Errors
/// [`Error`].
pub async fn tell(store: &Store, asked: Asked<'_>, q: Quantile) -> Result<Told, Error> {
    let bound = |sql| {
        let Asked { service, metric, model, from, to } = asked;
        let query = store.client.query(sql).bind(service).bind(metric).bind(metric).bind(model).bind(model);
        query.bind(from).bind(to)
    };
    let (sums, beside): (Vec<Sum>, (u128, bool)) =
        tokio::try_join!(bound(CELLS).fetch_all(), bound(BESIDE).fetch_one())?;
    let (censored, simulated) = beside;
    let cells = cells(&sums).map_err(|source| Error::Cells { service: asked.service.to_owned(), source })?;
    let answer = cells.quantile(q, MOST_RATIO, u64::try_from(censored).unwrap_or(u64::MAX));
    Ok(Told { answer, simulated })
}

fn cells(sums: &[Sum]) -> Result<Cells, CellsError> {
    let cells: Result<Vec<Cell>, CellsError> = sums
        .iter()
        .map(|&Sum { lo, hi, total }| {
            let n = u64::try_from(total).map_err(|_| CellsError::Overflow { cells: sums.len() })?;
            Ok(Cell { lo, hi, n })
        })
        .collect();
    Cells::new(cells?)
}

/// The services and metrics that have latencies in `[from, to)`, Unix seconds, in alphabetical order.
///
/// # Errors
/// [`Error::Store`].
pub async fn services(store: &Store, from: u32, to: u32) -> Result<Vec<(String, String)>, Error> {
    let query = store.client.query(
        "SELECT toString(service) AS s, toString(metric) AS m FROM latency \
         WHERE window >= toDateTime(?, 'UTC') AND window < toDateTime(?, 'UTC') GROUP BY s, m ORDER BY s, m",
    );
    Ok(query.bind(from).bind(to).fetch_all().await?)
}
