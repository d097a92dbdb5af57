//! A collector that keeps what it gets, and answers as it is told.
#![allow(dead_code, reason = "each test uses its part")]

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use contador_agent::run::CancellationToken;
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_server::{
    MetricsService, MetricsServiceServer,
};
use opentelemetry_proto::tonic::collector::metrics::v1::{ExportMetricsServiceRequest, ExportMetricsServiceResponse};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{Metric, NumberDataPoint};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tonic::codec::CompressionEncoding;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

type Reply = Result<ExportMetricsServiceResponse, Status>;

/// What the collector shares with the test.
#[derive(Clone, Default)]
pub struct Collector {
    received: Arc<Mutex<Vec<ExportMetricsServiceRequest>>>,
    /// Answers to the next requests; success when there are none.
    replies: Arc<Mutex<VecDeque<Reply>>>,
    /// A request with a metric of this name is refused for good.
    poison: Arc<Mutex<Option<String>>>,
    news: Arc<Notify>,
}

#[tonic::async_trait]
impl MetricsService for Collector {
    async fn export(
        &self,
        request: Request<ExportMetricsServiceRequest>,
    ) -> Result<Response<ExportMetricsServiceResponse>, Status> {
        let request = request.into_inner();
        let planned = self.replies.lock().unwrap().pop_front();
        let poison = self.poison.lock().unwrap().clone();
        let poisoned = poison.is_some_and(|name| metrics(&request).any(|metric| metric.name == name));
        let reply = match planned {
            Some(reply) => reply,
            None if poisoned => Err(Status::invalid_argument("poison")),
            None => Ok(ExportMetricsServiceResponse::default()),
        };
        if reply.is_ok() {
            self.received.lock().unwrap().push(request);
        }
        self.news.notify_waiters();
        reply.map(Response::new)
    }
}

/// A running collector.
pub struct Running {
    /// Where it listens.
    pub address: SocketAddr,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl Running {
    /// Ends it, and waits until the port is free.
    pub async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap();
    }
}

impl Collector {
    /// Starts to listen on `address`.
    pub async fn start(&self, address: SocketAddr, compressions: &[CompressionEncoding]) -> Running {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut service = MetricsServiceServer::new(self.clone());
        for compression in compressions {
            service = service.accept_compressed(*compression);
        }
        let stop = CancellationToken::new();
        let stopped = stop.clone().cancelled_owned();
        let server = tonic::transport::Server::builder().add_service(service);
        let task = tokio::spawn(async move {
            server.serve_with_incoming_shutdown(TcpIncoming::from(listener), stopped).await.unwrap();
        });
        Running { address, stop, task }
    }

    /// Answers one of the next requests so.
    pub fn answer(&self, reply: Reply) {
        self.replies.lock().unwrap().push_back(reply);
    }

    /// Refuses every request with a metric of this name.
    pub fn refuse(&self, name: &str) {
        *self.poison.lock().unwrap() = Some(name.to_owned());
    }

    /// Answers that were not given yet.
    pub fn planned(&self) -> usize {
        self.replies.lock().unwrap().len()
    }

    /// Waits until what was received satisfies `enough`, and gives it.
    pub async fn wait(
        &self,
        enough: impl Fn(&[ExportMetricsServiceRequest]) -> bool,
    ) -> Vec<ExportMetricsServiceRequest> {
        loop {
            let news = self.news.notified();
            tokio::pin!(news);
            news.as_mut().enable();
            let received = self.received.lock().unwrap().clone();
            if enough(&received) {
                return received;
            }
            news.await;
        }
    }
}

/// Every metric of a request.
pub fn metrics(request: &ExportMetricsServiceRequest) -> impl Iterator<Item = &Metric> {
    request.resource_metrics.iter().flat_map(|resource| &resource.scope_metrics).flat_map(|scope| &scope.metrics)
}

/// The points of every metric of this name, in order.
pub fn points(requests: &[ExportMetricsServiceRequest], name: &str) -> Vec<NumberDataPoint> {
    let metrics = requests.iter().flat_map(metrics).filter(|metric| metric.name == name);
    let points = metrics.flat_map(|metric| match &metric.data {
        Some(Data::Gauge(gauge)) => gauge.data_points.clone(),
        Some(Data::Sum(sum)) => sum.data_points.clone(),
        _ => Vec::new(),
    });
    points.collect()
}

/// The text of an attribute, or nothing.
pub fn attribute<'a>(attributes: &'a [KeyValue], name: &str) -> &'a str {
    let value = attributes.iter().find(|attribute| attribute.key == name).and_then(|found| found.value.as_ref());
    match value.and_then(|value| value.value.as_ref()) {
        Some(Value::StringValue(text)) => text,
        _ => "",
    }
}

/// An address that nobody listens on.
pub fn free_address() -> SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}
