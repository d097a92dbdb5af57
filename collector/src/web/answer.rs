//! Answers that all pages have: why there is none, and how ClickHouse is asked.

use std::time::Duration;

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, Method, StatusCode, header};
use serde_json::json;

use super::Known;

/// Longest wait for ClickHouse, from when it is asked.
const PATIENCE: Duration = Duration::from_secs(60);

/// Why there is no answer.
pub(super) enum Fault {
    Asked(String),
    Unknown(String),
    Conflict(String),
    Method(String),
    Later(String),
    Broken(String),
}

impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        let (code, error) = match self {
            Self::Asked(error) => (StatusCode::BAD_REQUEST, error),
            Self::Unknown(error) => (StatusCode::NOT_FOUND, error),
            Self::Conflict(error) => (StatusCode::CONFLICT, error),
            Self::Method(error) => (StatusCode::METHOD_NOT_ALLOWED, error),
            Self::Later(error) => (StatusCode::SERVICE_UNAVAILABLE, error),
            Self::Broken(error) => (StatusCode::INTERNAL_SERVER_ERROR, error),
        };
        let mut response = (code, Json(json!({ "error": error }))).into_response();
        if code == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
        }
        response
    }
}

pub(super) async fn only_get(method: Method) -> Fault {
    Fault::Method(format!("{:?}, expected GET", method.as_str()))
}

/// Asks ClickHouse, if it is there and not too many do.
pub(super) async fn asked<T, E>(known: &Known, work: impl Future<Output = Result<T, E>>) -> Result<T, Fault>
where
    Fault: From<E>,
{
    if let Some(reason) = known.state.borrow().reason() {
        return Err(Fault::Later(reason.to_owned()));
    }
    let _place = known.places.take().await.map_err(Fault::Later)?;
    let late = |_| Fault::Later(format!("clickhouse has not answered within {} s", PATIENCE.as_secs()));
    tokio::time::timeout(PATIENCE, work).await.map_err(late)?.map_err(Fault::from)
}
