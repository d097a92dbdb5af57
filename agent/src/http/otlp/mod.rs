//! OTLP metrics of services on this node: `POST /v1/metrics` as protobuf or JSON, and the call `Export` of gRPC, on one port.
//!
//! [`message`] takes the request out of either, when there is room for what it will take ([`cost`]), [`crate::totals`] has running
//! totals be increases and keeps the request on disk, and [`answer`] says so, or that it may be sent again, or that it never will
//! be taken.

mod answer;
mod cost;
mod message;

use std::time::{SystemTime, UNIX_EPOCH};

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;

use super::Shared;
use crate::outbox::SpoolError;
use crate::totals::TotalsError;
use crate::totals::deltas::Counted;

/// The path of the call by gRPC (<https://opentelemetry.io/docs/specs/otlp/#otlpgrpc>).
pub const EXPORT: &str = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export";

/// Why a request was not taken.
#[derive(Debug, thiserror::Error)]
enum Fault {
    /// Its type or its encoding is not known.
    #[error("{0}")]
    Media(String),
    /// It has more bytes than are allowed.
    #[error("{0}")]
    TooLarge(String),
    /// It is no request.
    #[error("{0}")]
    Malformed(String),
    /// Too many are at work, or the spool is full.
    #[error("{0}")]
    Overloaded(String),
    /// It can't be kept now.
    #[error("{0}")]
    Unavailable(String),
}

impl Fault {
    fn result(&self) -> &'static str {
        match self {
            Self::Media(_) | Self::TooLarge(_) | Self::Malformed(_) => "refused",
            Self::Overloaded(_) | Self::Unavailable(_) => "failed",
        }
    }
}

impl From<TotalsError> for Fault {
    fn from(error: TotalsError) -> Self {
        let reason = crate::errors::chain(&error);
        match error {
            TotalsError::Spool(SpoolError::Full { .. }) => Self::Overloaded(reason),
            TotalsError::TooLarge { .. } | TotalsError::Spool(SpoolError::TooLarge { .. }) => Self::TooLarge(reason),
            _ => Self::Unavailable(reason),
        }
    }
}

/// `POST /v1/metrics`
pub async fn by_http(State(shared): State<Shared>, headers: HeaderMap, body: Body) -> Response {
    let (media, message) = match message::media(&headers) {
        Ok(media) => (media, message::of_http(media, &headers, body, &shared).await),
        Err(fault) => (message::Media::Protobuf, Err(fault)),
    };
    let taken = match message {
        Ok(request) => keep(&shared, request).await,
        Err(fault) => Err(fault),
    };
    answer::by_http(media, counted(&shared, taken))
}

/// `Export`
pub async fn by_grpc(State(shared): State<Shared>, headers: HeaderMap, body: Body) -> Response {
    let taken = match message::of_grpc(&headers, body, &shared).await {
        Ok(request) => keep(&shared, request).await,
        Err(fault) => Err(fault),
    };
    answer::by_grpc(counted(&shared, taken))
}

async fn keep(shared: &Shared, message: message::Message) -> Result<Counted, Fault> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
    Ok(shared.totals.keep(message.request, now, message.held).await?)
}

fn counted(shared: &Shared, taken: Result<Counted, Fault>) -> Result<Counted, Fault> {
    let result = taken.as_ref().map_or_else(Fault::result, |_| "kept");
    shared.telemetry.otlp_requests.with_label_values(&[result]).inc();
    if let Ok(counted) = &taken {
        shared.telemetry.base_lines.inc_by(counted.base_lines);
        for (reason, points, first) in counted.rejected.iter() {
            shared.telemetry.refused_points.with_label_values(&[reason.name()]).inc_by(points);
            tracing::debug!(reason = reason.name(), points, first, "running totals are refused, such as the first");
        }
        for (reason, points, first) in counted.untold.iter() {
            shared.telemetry.otlp_dropped.with_label_values(&[reason.name()]).inc_by(points);
            tracing::info!(reason = reason.name(), points, first, "running totals begin anew, such as the first");
        }
    }
    taken
}
