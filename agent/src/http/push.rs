//! `POST /v1/latency?service=…`: latencies of one service in one interval, kept on disk before they are answered.
//!
//! What the body is, its type says: `application/json` is an object with values, `text/plain` a value a line, and anything else
//! an HDR histogram (which may be called `text/plain`, too, in base 64). It takes its part of the memory that all requests share
//! ([`super::room`]): first for its body, then for what is made of it, and then for what the disk gets.

use std::time::{SystemTime, UNIX_EPOCH};

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use contador_schemas::cells::{Cell, Cells, CellsError};
use contador_schemas::names;
use contador_schemas::series::{series_id, window_of};
use serde_json::{Value, json};

use super::Shared;
use super::body::{self, BodyError};
use super::hdr::{self, HdrError};
use super::interval;
use super::params::Params;
use super::room::NoRoom;
use super::values::{self, Recorded, Values, ValuesError};
use crate::errors::chain;
use crate::outbox::encode::histogram::{self, Latency, Served, Whose};
use crate::outbox::{Kind, SpoolError};

/// Memory that a byte of single values can take: a number of two bytes is a float in a list that doubles as it grows, and an
/// edge or a part of what is sent.
const BYTE: usize = 24;

/// What the values are in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Form {
    Json,
    Lines,
    Histogram,
}

impl Form {
    fn of(headers: &HeaderMap, body: &[u8]) -> Self {
        let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        match kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase().as_str() {
            "application/json" => Self::Json,
            // A number never begins so, and base 64 of a histogram always does.
            "text/plain" if body.first() != Some(&b'H') => Self::Lines,
            _ => Self::Histogram,
        }
    }

    /// Bytes that what is made of a body can take. Beside them are the counts of one histogram, 8 MiB at most, of the request
    /// that is read just now.
    fn room(self, body: usize, max_bytes: usize) -> usize {
        match self {
            Self::Json | Self::Lines => body.saturating_mul(BYTE),
            Self::Histogram => 2 * body.saturating_add(max_bytes),
        }
    }
}

/// Why a push was not kept.
#[derive(Debug, thiserror::Error)]
enum PushError {
    #[error("{0}")]
    Params(String),
    #[error(transparent)]
    Body(#[from] BodyError),
    #[error(transparent)]
    Hdr(#[from] HdrError),
    #[error(transparent)]
    Values(#[from] ValuesError),
    #[error("the aborted requests can't be kept")]
    Cells(#[from] CellsError),
    #[error(transparent)]
    Room(#[from] NoRoom),
    #[error("the latencies can't be kept")]
    Spool(#[from] SpoolError),
}

impl PushError {
    fn status(&self) -> StatusCode {
        match self {
            Self::Room(NoRoom::Now) | Self::Body(BodyError::Room(NoRoom::Now)) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Room(NoRoom::Ever(_)) | Self::Body(BodyError::Room(NoRoom::Ever(_))) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Body(BodyError::TooLarge(_) | BodyError::Bomb(_))
            | Self::Hdr(HdrError::TooLarge(_))
            | Self::Spool(SpoolError::TooLarge { .. }) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Body(BodyError::Encoding(_)) => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Body(BodyError::Late(_)) => StatusCode::REQUEST_TIMEOUT,
            Self::Params(_) | Self::Body(_) | Self::Hdr(_) | Self::Values(_) | Self::Cells(_) => {
                StatusCode::BAD_REQUEST
            }
            Self::Spool(_) => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

/// The latencies of a body.
#[derive(Debug, Default)]
struct Told {
    /// How long requests took.
    cells: Cells,
    sum_us: f64,
    /// After which times requests were aborted.
    aborted: Cells,
}

/// The handler.
pub async fn push(State(shared): State<Shared>, uri: Uri, headers: HeaderMap, body: Body) -> Response {
    let result = keep(&shared, &uri, &headers, body).await;
    let counted = match &result {
        Ok(_) => "kept",
        Err(PushError::Spool(_)) => "failed",
        Err(error) if error.status() == StatusCode::SERVICE_UNAVAILABLE => "failed",
        Err(_) => "refused",
    };
    shared.telemetry.pushes.with_label_values(&[counted]).inc();
    match result {
        Ok(answer) => Json(answer).into_response(),
        Err(error) => {
            let status = error.status();
            let mut response = (status, Json(json!({ "error": chain(&error) }))).into_response();
            if status == StatusCode::SERVICE_UNAVAILABLE {
                response.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from_static("5"));
            }
            response
        }
    }
}

/// Keeps what a request tells; the answer.
async fn keep(shared: &Shared, uri: &Uri, headers: &HeaderMap, body: Body) -> Result<Value, PushError> {
    let params = Params::of_query(uri).map_err(PushError::Params)?;
    let (answer, request) = made(shared, params, headers, body).await?;
    if !request.is_empty() {
        let mut keeping = shared.room.hold();
        keeping.set(request.len())?;
        shared.keeper.keep(Kind::Latency, request).await?;
    }
    Ok(answer)
}

/// The answer, and what is sent of a body: nothing where there is nothing.
async fn made(
    shared: &Shared,
    mut params: Params,
    headers: &HeaderMap,
    body: Body,
) -> Result<(Value, Vec<u8>), PushError> {
    let max_bytes = shared.max_push_bytes;
    let mut held = shared.room.hold();
    let body = body::read(headers, body, shared.limits(), &mut held).await?;
    let form = Form::of(headers, &body);
    held.add(form.room(body.len(), max_bytes))?;
    let told = told(form, &body, max_bytes, &mut params)?;
    params.check().map_err(PushError::Params)?;
    let (start_ns, end_ns) = interval::interval(&params, now_ns()).map_err(PushError::Params)?;
    let answer = json!({
        "count": told.cells.count(),
        "aborted": told.aborted.count(),
        "start": seconds(start_ns),
        "end": seconds(end_ns),
        "window": window_of(end_ns),
    });
    let (latencies, served) = kept(told, params, start_ns, end_ns);
    Ok((answer, histogram::answered(&latencies, &served, &shared.node)))
}

/// Reads the body; one of JSON adds to what the query says.
fn told(form: Form, body: &[u8], max_bytes: usize, params: &mut Params) -> Result<Told, PushError> {
    let mut told = match form {
        Form::Json => {
            let Values { values, aborted } = values::json(body, params)?;
            let told = single(&values, params)?;
            if let Some(times) = aborted {
                return with_aborted(told, &times, params);
            }
            told
        }
        Form::Lines => single(&values::lines(body)?, params).map_err(|error| error.of_lines(body))?,
        Form::Histogram => {
            let hdr::Decoded { cells, sum_us } = hdr::decode(body, max_bytes, params.unit)?;
            if params.censored {
                Told { aborted: cells, ..Told::default() }
            } else {
                Told { cells, sum_us, ..Told::default() }
            }
        }
    };
    if let Some(n) = params.aborted.filter(|_| !params.censored) {
        // Of each it is only known that it had begun.
        told.aborted = Cells::new([Cell { lo: 0.0, hi: f64::INFINITY, n }])?;
    }
    Ok(told)
}

/// Values that are no histogram yet.
fn single(values: &[f64], params: &Params) -> Result<Told, ValuesError> {
    if params.censored {
        return Ok(Told { aborted: values::aborted(values, params.unit)?, ..Told::default() });
    }
    let Recorded { cells, sum_us } = values::record(values, params.unit)?;
    Ok(Told { cells, sum_us, ..Told::default() })
}

/// With a list of times after which requests were aborted; their number is told where any number is.
fn with_aborted(told: Told, times: &[f64], params: &mut Params) -> Result<Told, PushError> {
    let fault = |fault: &str| Err(PushError::Params(fault.to_owned()));
    if params.censored {
        return fault("aborted is a list and censored is true, expected one of them");
    }
    if params.aborted.is_some() {
        return fault("aborted is a list and a number, expected one of them");
    }
    if params.tells_served() {
        params.aborted = Some(times.len() as u64);
    }
    Ok(Told { aborted: values::aborted(times, params.unit)?, ..told })
}

/// What is sent of it: nothing where there is nothing.
fn kept(told: Told, params: Params, start_ns: u64, end_ns: u64) -> (Vec<Latency>, Vec<Served>) {
    let tells_served = params.tells_served();
    let metric = params.metric();
    let whose = Whose {
        instance: params.source(),
        service: params.service,
        model: params.model,
        environment: params.environment,
        device: params.device,
        owner: params.owner,
        simulated: params.simulated,
        ..Whose::default()
    };
    let latency = |cells: Cells, sum_us: Option<f64>, censored: bool| Latency {
        whose: whose.clone(),
        metric: metric.clone(),
        route: params.route.clone(),
        attributes: params.labels.clone(),
        start_ns,
        end_ns,
        cells,
        sum_us,
        censored,
        ..Latency::default()
    };
    let mut latencies = vec![latency(told.cells, Some(told.sum_us), false), latency(told.aborted, None, true)];
    latencies.retain(|latency| latency.cells.count() > 0);
    // Counts of two routes at one instant are not one.
    let labels = params.labels.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let known = [(names::LATENCY_METRIC, metric.as_str()), (names::HTTP_ROUTE, params.route.as_str())];
    let series = series_id(labels.chain(known)).to_string();
    let whose = Whose { source: vec![(names::SERVED_SERIES.to_owned(), series)], ..whose.clone() };
    let served = Served {
        start_ns,
        end_ns,
        requests: params.requests,
        aborted: params.aborted,
        input_tokens: params.input_tokens,
        output_tokens: params.output_tokens,
        whose,
    };
    (latencies, if tells_served { vec![served] } else { Vec::new() })
}

fn now_ns() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

/// Nanoseconds as decimal seconds, exactly.
fn seconds(nanoseconds: u64) -> String {
    format!("{}.{:09}", nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000)
}

#[cfg(test)]
mod tests;
