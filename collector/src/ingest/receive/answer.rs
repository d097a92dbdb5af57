//! One outcome, in both protocols
//! (<https://opentelemetry.io/docs/specs/otlp/#otlpgrpc-response>, <https://opentelemetry.io/docs/specs/otlp/#otlphttp-response>).

use std::time::Duration;

use axum::response::{IntoResponse, Response};
use contador_schemas::otlp::json::answer as json;
use http::{HeaderValue, StatusCode, header};
use opentelemetry_proto::tonic::collector::metrics::v1::{ExportMetricsPartialSuccess, ExportMetricsServiceResponse};
use prost::Message as _;
use tonic::Code;
use tonic_types::{ErrorDetails, StatusExt as _};

use super::read::Media;
use crate::ingest::{Outcome, Refusal};

/// The body of a success.
pub(super) fn response(outcome: Outcome) -> ExportMetricsServiceResponse {
    let partial_success = (!outcome.message.is_empty()).then(|| ExportMetricsPartialSuccess {
        rejected_data_points: i64::try_from(outcome.rejected.points()).unwrap_or(i64::MAX),
        error_message: outcome.message,
    });
    ExportMetricsServiceResponse { partial_success }
}

/// A refusal with the word that it may be tried again, and when.
pub(super) fn status(refusal: &Refusal, retry_after: Duration) -> tonic::Status {
    let code = match refusal {
        Refusal::Unavailable(_) => Code::Unavailable,
        // Without RetryInfo, this code tells senders to drop what they have.
        Refusal::Overloaded(_) => Code::ResourceExhausted,
    };
    tonic::Status::with_error_details(code, refusal.to_string(), ErrorDetails::with_retry_info(Some(retry_after)))
}

/// The same by HTTP.
pub(super) fn refused(media: Media, refusal: &Refusal, retry_after: Duration) -> Response {
    let (code, grpc) = match refusal {
        Refusal::Unavailable(_) => (StatusCode::SERVICE_UNAVAILABLE, Code::Unavailable),
        Refusal::Overloaded(_) => (StatusCode::TOO_MANY_REQUESTS, Code::ResourceExhausted),
    };
    let mut response = error(media, code, grpc, refusal.to_string());
    let seconds = retry_after.as_secs().max(1);
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    response
}

/// An answer with a `Status` as its body.
pub(super) fn error(media: Media, code: StatusCode, grpc: Code, message: String) -> Response {
    let body = match media {
        Media::Protobuf => tonic_types::Status { code: grpc as i32, message, details: Vec::new() }.encode_to_vec(),
        Media::Json => json::failure(grpc as i32, &message),
    };
    of(media, code, body)
}

/// The answer of a success.
pub(super) fn success(media: Media, response: &ExportMetricsServiceResponse) -> Response {
    let body = match media {
        Media::Protobuf => response.encode_to_vec(),
        Media::Json => {
            let partial = response.partial_success.as_ref();
            json::success(partial.map(|partial| (partial.rejected_data_points, partial.error_message.as_str())))
        }
    };
    of(media, StatusCode::OK, body)
}

fn of(media: Media, code: StatusCode, body: Vec<u8>) -> Response {
    let content_type = match media {
        Media::Protobuf => "application/x-protobuf",
        Media::Json => "application/json",
    };
    (code, [(header::CONTENT_TYPE, content_type)], body).into_response()
}
