//! One outcome, in both protocols, and by HTTP in the language of the request
//! (<https://opentelemetry.io/docs/specs/otlp/#otlpgrpc-response>, <https://opentelemetry.io/docs/specs/otlp/#otlphttp-response>).

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use contador_schemas::otlp::json::answer as json;
use http_body_util::{BodyExt as _, Full};
use opentelemetry_proto::tonic::collector::metrics::v1::{ExportMetricsPartialSuccess, ExportMetricsServiceResponse};
use prost::Message as _;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use super::Fault;
use super::message::Media;
use crate::totals::deltas::Counted;

/// When a request that can't be kept now may come again.
const RETRY_AFTER: Duration = Duration::from_secs(5);

fn success(counted: &Counted) -> ExportMetricsServiceResponse {
    let points = counted.rejected.points();
    let partial_success = (points > 0).then(|| {
        let reasons = counted.rejected.iter().map(|(reason, points, first)| {
            format!("{} {points} (such as {first}): {}", reason.name(), reason.expectation())
        });
        ExportMetricsPartialSuccess {
            rejected_data_points: i64::try_from(points).unwrap_or(i64::MAX),
            error_message: reasons.collect::<Vec<_>>().join("; "),
        }
    });
    ExportMetricsServiceResponse { partial_success }
}

fn of(media: Media, code: StatusCode, body: Vec<u8>) -> Response {
    let content_type = match media {
        Media::Protobuf => "application/x-protobuf",
        Media::Json => "application/json",
    };
    (code, [(header::CONTENT_TYPE, content_type)], body).into_response()
}

/// The answer to a `POST`.
pub fn by_http(media: Media, taken: Result<Counted, Fault>) -> Response {
    let fault = match taken {
        Ok(counted) => return of(media, StatusCode::OK, told(media, &success(&counted))),
        Err(fault) => fault,
    };
    let (code, grpc) = match &fault {
        Fault::Media(_) => (StatusCode::UNSUPPORTED_MEDIA_TYPE, Code::InvalidArgument),
        Fault::TooLarge(_) => (StatusCode::PAYLOAD_TOO_LARGE, Code::ResourceExhausted),
        Fault::Malformed(_) => (StatusCode::BAD_REQUEST, Code::InvalidArgument),
        Fault::Overloaded(_) => (StatusCode::TOO_MANY_REQUESTS, Code::ResourceExhausted),
        Fault::Unavailable(_) => (StatusCode::SERVICE_UNAVAILABLE, Code::Unavailable),
    };
    let (grpc, message) = (grpc as i32, fault.to_string());
    let status = match media {
        Media::Protobuf => tonic_types::Status { code: grpc, message, details: Vec::new() }.encode_to_vec(),
        Media::Json => json::failure(grpc, &message),
    };
    let mut response = of(media, code, status);
    if matches!(fault, Fault::Overloaded(_) | Fault::Unavailable(_)) {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(RETRY_AFTER.as_secs()));
    }
    response
}

fn told(media: Media, response: &ExportMetricsServiceResponse) -> Vec<u8> {
    match media {
        Media::Protobuf => response.encode_to_vec(),
        Media::Json => {
            let partial = response.partial_success.as_ref();
            json::success(partial.map(|partial| (partial.rejected_data_points, partial.error_message.as_str())))
        }
    }
}

/// The answer to a call.
pub fn by_grpc(taken: Result<Counted, Fault>) -> Response {
    let fault = match taken {
        Ok(counted) => return message(&success(&counted).encode_to_vec()),
        Err(fault) => fault,
    };
    let text = fault.to_string();
    // Only with RetryInfo is the code of an overload one that is tried again.
    let again = |code| {
        let details = ErrorDetails::with_retry_info(Some(RETRY_AFTER));
        Status::with_error_details(code, fault.to_string(), details)
    };
    let status = match &fault {
        Fault::Media(_) => Status::unimplemented(text),
        Fault::TooLarge(_) => Status::resource_exhausted(text),
        Fault::Malformed(_) => Status::invalid_argument(text),
        Fault::Overloaded(_) => again(Code::ResourceExhausted),
        Fault::Unavailable(_) => again(Code::Unavailable),
    };
    status.into_http::<Body>()
}

/// A message, and the status that says that it is all.
fn message(message: &[u8]) -> Response {
    let mut body = vec![0];
    body.extend(u32::try_from(message.len()).unwrap_or_default().to_be_bytes());
    body.extend(message);
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from(Code::Ok as i32));
    let body = Full::new(Bytes::from(body)).with_trailers(std::future::ready(Some(Ok(trailers))));
    ([(header::CONTENT_TYPE, "application/grpc")], Body::new(body)).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::body::BodyError;

    #[test]
    fn a_body_that_does_not_come_whole_may_come_again_and_one_that_is_wrong_may_not() {
        let faults: [fn() -> BodyError; 3] = [
            || BodyError::Late(Duration::from_secs(10)),
            || BodyError::Read("connection reset".to_owned()),
            || BodyError::Inflate(std::io::Error::other("no gzip")),
        ];
        for (fault, (http, grpc, again)) in faults.into_iter().zip([
            (503, Code::Unavailable, true),
            (503, Code::Unavailable, true),
            (400, Code::InvalidArgument, false),
        ]) {
            let answer = by_http(Media::Protobuf, Err(fault().into()));
            let retry_after = answer.headers().get(header::RETRY_AFTER).map(|after| after.to_str().unwrap());
            assert_eq!((answer.status().as_u16(), retry_after), (http, again.then_some("5")), "{}", fault());
            let answer = by_grpc(Err(fault().into()));
            let status = Status::from_header_map(answer.headers()).unwrap();
            let retry_info = status.get_details_retry_info().and_then(|info| info.retry_delay);
            assert_eq!((status.code(), retry_info), (grpc, again.then_some(RETRY_AFTER)), "{}", fault());
        }
    }
}
