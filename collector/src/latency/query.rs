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
    total: u64,
}

const CELLS: &str = "SELECT l AS lo, h AS hi, sum(c) AS total \
    FROM (SELECT l, h, c FROM latency FINAL ARRAY JOIN lo AS l, hi AS h, n AS c \
          WHERE service = ? AND (? = '' OR metric = ?) AND (? = '' OR model = ?) \
          AND window >= toDateTime(?, 'UTC') AND window < toDateTime(?, 'UTC')) \
    GROUP BY l, h";

const CENSORED: &str = "SELECT sum(censored) FROM latency FINAL \
    WHERE service = ? AND (? = '' OR metric = ?) AND (? = '' OR model = ?) \
    AND window >= toDateTime(?, 'UTC') AND window < toDateTime(?, 'UTC')";

/// The quantile `q` of what is asked for, in microseconds. Rows that were written twice count once.
///
/// # Errors
/// [`Error`].
pub async fn quantile(store: &Store, asked: Asked<'_>, q: Quantile) -> Result<Answer, Error> {
    let bound = |sql| {
        let Asked { service, metric, model, from, to } = asked;
        let query = store.client.query(sql).bind(service).bind(metric).bind(metric).bind(model).bind(model);
        query.bind(from).bind(to)
    };
    let (sums, censored): (Vec<Sum>, u64) = tokio::try_join!(bound(CELLS).fetch_all(), bound(CENSORED).fetch_one())?;
    let cells = Cells::new(sums.into_iter().map(|Sum { lo, hi, total }| Cell { lo, hi, n: total }))
        .map_err(|source| Error::Cells { service: asked.service.to_owned(), source })?;
    Ok(cells.quantile(q, MOST_RATIO, censored))
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
