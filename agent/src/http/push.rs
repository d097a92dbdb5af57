//! `POST /v1/latency?service=…`: one HDR histogram of microseconds, kept on disk before it is answered.

use std::time::{SystemTime, UNIX_EPOCH};

use axum::Json;
use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::Shared;
use super::hdr::{self, HdrError};
use super::params::{self, Params};
use crate::errors::chain;
use crate::outbox::encode::histogram::{self, Latency, Whose};
use crate::outbox::{Kind, SpoolError};

/// Why a push was not kept.
#[derive(Debug, thiserror::Error)]
enum PushError {
    #[error("{0}")]
    Params(String),
    #[error("the body has more than {0} bytes")]
    TooLarge(usize),
    #[error("the body can't be read")]
    Body(#[source] axum::Error),
    #[error(transparent)]
    Hdr(#[from] HdrError),
    #[error("the histogram can't be kept")]
    Spool(#[from] SpoolError),
}

impl PushError {
    fn status(&self) -> StatusCode {
        match self {
            Self::Params(_) | Self::Body(_) => StatusCode::BAD_REQUEST,
            Self::TooLarge(_) | Self::Hdr(HdrError::TooLarge(_)) | Self::Spool(SpoolError::TooLarge { .. }) => {
                StatusCode::PAYLOAD_TOO_LARGE
            }
            Self::Hdr(_) => StatusCode::BAD_REQUEST,
            Self::Spool(_) => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

/// The handler.
pub async fn push(State(shared): State<Shared>, uri: Uri, headers: HeaderMap, body: Body) -> Response {
    let result = keep(&shared, &uri, &headers, body).await;
    let counted = match &result {
        Ok(_) => "kept",
        Err(PushError::Spool(_)) => "failed",
        Err(_) => "refused",
    };
    shared.telemetry.pushes.with_label_values(&[counted]).inc();
    match result {
        Ok(latency) => {
            let answer = json!({
                "count": latency.cells.count(),
                "start": seconds(latency.start_ns),
                "end": seconds(latency.end_ns),
            });
            Json(answer).into_response()
        }
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

async fn keep(shared: &Shared, uri: &Uri, headers: &HeaderMap, body: Body) -> Result<Latency, PushError> {
    params::check_query(uri.query().unwrap_or_default()).map_err(PushError::Params)?;
    let Query(params) = Query::<Params>::try_from_uri(uri).map_err(|fault| PushError::Params(fault.body_text()))?;
    params.check_labels().map_err(PushError::Params)?;
    let (start_ns, end_ns) = params::interval(&params, now_ns()).map_err(PushError::Params)?;
    let declared = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if declared.is_some_and(|bytes| bytes > shared.max_push_bytes) {
        return Err(PushError::TooLarge(shared.max_push_bytes));
    }
    let body = axum::body::to_bytes(body, shared.max_push_bytes).await.map_err(|error| {
        let too_large = std::error::Error::source(&error).is_some_and(|source| source.to_string().contains("limit"));
        if too_large { PushError::TooLarge(shared.max_push_bytes) } else { PushError::Body(error) }
    })?;
    let hdr::Decoded { cells, sum_us } = hdr::decode(&body, shared.max_push_bytes)?;
    let instance = params.source();
    let metric = if params.metric.is_empty() { "request_duration".to_owned() } else { params.metric };
    let whose = Whose {
        service: params.service,
        model: params.model,
        environment: params.environment,
        instance,
        device: params.device,
        simulated: params.simulated,
        ..Whose::default()
    };
    let (route, sum_us) = (params.route, Some(sum_us));
    let latency = Latency { whose, metric, route, start_ns, end_ns, cells, sum_us, ..Latency::default() };
    let request = histogram::answered(std::slice::from_ref(&latency), &[], &shared.node);
    shared.keeper.keep(Kind::Latency, request).await?;
    Ok(latency)
}

fn now_ns() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

/// Nanoseconds as decimal seconds, exactly.
fn seconds(nanoseconds: u64) -> String {
    format!("{}.{:09}", nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000)
}
