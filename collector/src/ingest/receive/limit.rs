//! tonic's own refusals, in OTLP's codes.
//!
//! For a message over the limit tonic answers `OUT_OF_RANGE`, which OTLP calls retryable, so a sender would send it for
//! ever; it becomes `RESOURCE_EXHAUSTED` without `RetryInfo`, which is permanent. Bytes that are not OTLP are `INTERNAL`
//! there, and `INVALID_ARGUMENT` here: nothing is wrong with the collector.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::HeaderValue;
use tonic::{Code, Status};
use tower::{Layer, Service};

use crate::ingest::Pipeline;

/// The layer.
#[derive(Clone)]
pub(super) struct Remap {
    pipeline: Arc<Pipeline>,
}

impl Remap {
    pub(super) fn new(pipeline: Arc<Pipeline>) -> Self {
        Self { pipeline }
    }
}

impl<S> Layer<S> for Remap {
    type Service = Remapped<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Remapped { inner, pipeline: Arc::clone(&self.pipeline) }
    }
}

/// The service below it.
#[derive(Clone)]
pub(super) struct Remapped<S> {
    inner: S,
    pipeline: Arc<Pipeline>,
}

impl<S, Body, Answer> Service<http::Request<Body>> for Remapped<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Answer>>,
    S::Future: Send + 'static,
    S::Error: 'static,
    Answer: 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let answer = self.inner.call(request);
        let pipeline = Arc::clone(&self.pipeline);
        Box::pin(async move {
            let mut response = answer.await?;
            // A unary call that fails before its handler has the status in its headers.
            let headers = response.headers_mut();
            let told = headers.get(Status::GRPC_STATUS).map(|status| Code::from_bytes(status.as_bytes()));
            let meant = match told {
                Some(Code::OutOfRange) => Code::ResourceExhausted,
                Some(Code::Internal) => Code::InvalidArgument,
                Some(code) => code,
                None => return Ok(response),
            };
            match meant {
                Code::ResourceExhausted if headers.get(Status::GRPC_STATUS_DETAILS).is_none() => {
                    pipeline.meters().request("too_large");
                }
                Code::InvalidArgument => pipeline.meters().request("invalid"),
                _ => {}
            }
            headers.insert(Status::GRPC_STATUS, HeaderValue::from(meant as i32));
            Ok(response)
        })
    }
}
