//! Answers in protobuf's JSON (<https://opentelemetry.io/docs/specs/otlp/#otlphttp-response>).

use serde_json::json;

/// The `ExportMetricsServiceResponse` of a success: when not everything was taken, how many points were rejected, and why.
pub fn success(rejected: Option<(i64, &str)>) -> Vec<u8> {
    let response = rejected.map_or_else(
        || json!({}),
        |(points, message)| {
            // A number of 64 bits is a string in protobuf's JSON.
            json!({"partialSuccess": {"rejectedDataPoints": points.to_string(), "errorMessage": message}})
        },
    );
    response.to_string().into_bytes()
}

/// The `Status` of a failure, with gRPC's `code`.
pub fn failure(code: i32, message: &str) -> Vec<u8> {
    json!({"code": code, "message": message}).to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_protobufs_json() {
        assert_eq!(success(None), b"{}");
        assert_eq!(
            success(Some((3, "why \"so\""))),
            br#"{"partialSuccess":{"rejectedDataPoints":"3","errorMessage":"why \"so\""}}"#
        );
        assert_eq!(failure(3, "no"), br#"{"code":3,"message":"no"}"#);
    }
}
