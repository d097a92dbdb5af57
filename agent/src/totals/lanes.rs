//! What of a request must not be lost, and what may go when the spool is full.

use contador_schemas::names::{self, Group};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{Metric, ResourceMetrics, ScopeMetrics};

/// Takes the numbers out of a request, as one of their own: they are samples. Histograms stay, since they are latencies or what
/// was served; so does what contador itself calls served, a part of the ledger or an event.
pub fn take_numbers(request: &mut ExportMetricsServiceRequest) -> ExportMetricsServiceRequest {
    let mut numbers = ExportMetricsServiceRequest::default();
    for resource in &mut request.resource_metrics {
        let mut scopes = Vec::new();
        for scope in &mut resource.scope_metrics {
            let metrics: Vec<Metric> = scope.metrics.extract_if(.., |metric| !is_record(metric)).collect();
            if !metrics.is_empty() {
                let (scope, schema_url) = (scope.scope.clone(), scope.schema_url.clone());
                scopes.push(ScopeMetrics { scope, metrics, schema_url });
            }
        }
        resource.scope_metrics.retain(|scope| !scope.metrics.is_empty());
        if !scopes.is_empty() {
            let (whose, schema_url) = (resource.resource.clone(), resource.schema_url.clone());
            numbers.resource_metrics.push(ResourceMetrics { resource: whose, scope_metrics: scopes, schema_url });
        }
    }
    request.resource_metrics.retain(|resource| !resource.scope_metrics.is_empty());
    numbers
}

fn is_record(metric: &Metric) -> bool {
    let is_histogram = matches!(metric.data, Some(Data::Histogram(_) | Data::ExponentialHistogram(_)));
    is_histogram
        || names::metric(&metric.name)
            .is_some_and(|own| matches!(own.group, Group::Ledger | Group::Info | Group::Latency | Group::Served))
}
