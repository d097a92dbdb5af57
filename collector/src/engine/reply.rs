//! Statuses and headers, as ClickHouse gives them.

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};

use super::Engine;
use super::encode::Encoding;
use super::error::Failure;
use super::library::Stats;
use super::sink::Head;

/// The HTTP status of an error code.
pub fn status(code: u32) -> StatusCode {
    match code {
        // REQUIRED_PASSWORD
        194 => StatusCode::UNAUTHORIZED,
        // UNKNOWN_USER, WRONG_PASSWORD, ACCESS_DENIED, AUTHENTICATION_FAILED, SET_NON_GRANTED_ROLE
        192 | 193 | 497 | 516 | 512 => StatusCode::FORBIDDEN,
        // Faulty queries and data: CANNOT_PARSE_*, BAD_ARGUMENTS, TYPE_MISMATCH, SYNTAX_ERROR, …
        6 | 7 | 26 | 27 | 33 | 36 | 38 | 41 | 42 | 43 | 44 | 45 | 51 | 53 | 56 | 62 | 63 | 69 | 70 | 72 | 80 | 117
        | 131 | 148 | 153 | 271 | 305 | 349 | 376 | 427 | 441 | 456 | 457 | 467 | 472 | 636 => StatusCode::BAD_REQUEST,
        // UNKNOWN_FUNCTION, _IDENTIFIER, _TYPE, _STORAGE, _TABLE, _FORMAT, _DATABASE, _SETTING, SESSION_NOT_FOUND, …
        46 | 47 | 50 | 60 | 66 | 73 | 78 | 81 | 83 | 115 | 127 | 336 | 372 => StatusCode::NOT_FOUND,
        // TIMEOUT_EXCEEDED
        159 => StatusCode::REQUEST_TIMEOUT,
        // QUERY_IS_TOO_LARGE
        225 => StatusCode::INTERNAL_SERVER_ERROR,
        229 => StatusCode::PAYLOAD_TOO_LARGE,
        // NOT_IMPLEMENTED
        48 => StatusCode::NOT_IMPLEMENTED,
        // SOCKET_TIMEOUT, CANNOT_SCHEDULE_TASK, TOO_MANY_SIMULTANEOUS_QUERIES
        209 | 439 | 202 => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// The media type of a format.
fn content_type(format: &str) -> &'static str {
    let lower = format.to_ascii_lowercase();
    match lower.as_str() {
        "json"
        | "jsoncompact"
        | "jsonstrings"
        | "jsoncompactstrings"
        | "jsoncolumns"
        | "jsoncompactcolumns"
        | "jsoncolumnswithmetadata"
        | "jsonobjecteachrow" => "application/json; charset=UTF-8",
        "xml" => "application/xml; charset=UTF-8",
        "arrow" => "application/vnd.apache.arrow.file",
        "arrowstream" => "application/vnd.apache.arrow.stream",
        "parquet" | "native" | "orc" | "avro" | "npy" | "msgpack" | "bsoneachrow" => "application/octet-stream",
        _ if lower.starts_with("rowbinary") => "application/octet-stream",
        _ if lower.starts_with("csv") => "text/csv; charset=UTF-8; header=absent",
        _ if lower.starts_with("tsv") || lower.starts_with("tabseparated") => {
            "text/tab-separated-values; charset=UTF-8"
        }
        _ if lower.starts_with("json") => "application/x-ndjson; charset=UTF-8",
        _ => "text/plain; charset=UTF-8",
    }
}

fn value(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static(""))
}

fn summary(stats: Stats) -> HeaderValue {
    value(&format!(
        "{{\"read_rows\":\"{}\",\"read_bytes\":\"{}\",\"written_rows\":\"{}\",\"written_bytes\":\"{}\",\
         \"total_rows_to_read\":\"0\",\"result_rows\":\"{}\",\"result_bytes\":\"{}\"}}",
        stats.read_rows,
        stats.read_bytes,
        stats.written_rows,
        stats.written_bytes,
        stats.result_rows,
        stats.result_bytes
    ))
}

/// A short answer that needs no engine.
pub fn plain(status: StatusCode, text: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(text.into());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, value("text/html; charset=UTF-8"));
    response
}

/// An answer whose head is known and whose body follows.
pub fn good(engine: &Engine, head: &Head, query_id: &str, tag: &str, encoding: Encoding, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    let format = if head.format.is_empty() { "TabSeparated" } else { &head.format };
    headers.insert(header::CONTENT_TYPE, value(content_type(format)));
    headers.insert("x-clickhouse-format", value(format));
    headers.insert("x-clickhouse-exception-tag", value(tag));
    if let Some(coding) = encoding.header() {
        headers.insert(header::CONTENT_ENCODING, value(coding));
    }
    if let Some(stats) = head.stats {
        headers.insert("x-clickhouse-summary", summary(stats));
    }
    common(engine, &mut response, query_id);
    response
}

/// An answer that tells a failure.
pub fn failed(engine: &Engine, failure: &Failure, query_id: &str) -> Response<Body> {
    let mut response = plain(status(failure.code), failure.body(&engine.version));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, value("text/plain; charset=UTF-8"));
    headers.insert("x-clickhouse-exception-code", failure.code.into());
    common(engine, &mut response, query_id);
    response
}

fn common(engine: &Engine, response: &mut Response<Body>, query_id: &str) {
    let headers = response.headers_mut();
    headers.insert("x-clickhouse-query-id", value(query_id));
    headers.insert("x-clickhouse-timezone", value(&engine.timezone));
    headers.insert("x-clickhouse-server-display-name", value(&engine.host));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_clickhouse_s_statuses() {
        let expected =
            [(516, 403), (194, 401), (62, 400), (60, 404), (81, 404), (115, 404), (202, 503), (241, 500), (395, 500)];
        for (code, http) in expected {
            assert_eq!(status(code).as_u16(), http, "{code}");
        }
    }

    #[test]
    fn formats_have_media_types() {
        assert_eq!(content_type("JSONEachRow"), "application/x-ndjson; charset=UTF-8");
        assert_eq!(content_type("JSON"), "application/json; charset=UTF-8");
        assert_eq!(content_type("TabSeparatedWithNames"), "text/tab-separated-values; charset=UTF-8");
        assert_eq!(content_type("RowBinaryWithNamesAndTypes"), "application/octet-stream");
    }
}
