//! Points, collected by metric.

use contador_schemas::names::{self, Instrument, MetricName};
use contador_schemas::series::series_id;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, DataPointFlags, Gauge, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message as _;
use uuid::Uuid;

/// Name of the agent as a service, and of its instrumentation scope.
pub const SERVICE: &str = "contador-agent";

/// Who sends: the attributes of every resource of the agent's own.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Identity {
    /// Host name.
    pub node: String,
    /// Replica of the agent: the same for every start on the same node.
    pub instance: Uuid,
}

impl Identity {
    /// The identity of the agent on this node.
    pub fn of_node(node: &str) -> Self {
        let instance = series_id([(names::SERVICE_NAME, SERVICE), (names::HOST_NAME, node)]);
        Self { node: node.to_owned(), instance }
    }

    fn resource(&self) -> Resource {
        let attributes = vec![
            text(names::HOST_NAME, &self.node),
            text(names::SERVICE_NAME, SERVICE),
            text(names::SERVICE_VERSION, env!("CARGO_PKG_VERSION")),
            text(names::SERVICE_INSTANCE_ID, &self.instance.to_string()),
        ];
        Resource { attributes, ..Resource::default() }
    }
}

/// An attribute whose value is text.
pub fn text(name: &str, value: &str) -> KeyValue {
    attribute(name, Value::StringValue(value.to_owned()))
}

/// An attribute whose value is a whole number; beyond 63 bits it is the greatest one.
pub fn whole(name: &str, value: u64) -> KeyValue {
    attribute(name, Value::IntValue(i64::try_from(value).unwrap_or(i64::MAX)))
}

/// An attribute that says yes.
pub fn yes(name: &str) -> KeyValue {
    attribute(name, Value::BoolValue(true))
}

fn attribute(name: &str, value: Value) -> KeyValue {
    KeyValue { key: name.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

/// Nanoseconds of an instant in milliseconds; the epoch for anything before it.
pub fn nanoseconds(instant_ms: i64) -> u64 {
    u64::try_from(instant_ms).unwrap_or(0).saturating_mul(1_000_000)
}

/// A number as it is sent; beyond 63 bits it is the greatest one.
pub fn int(value: u64) -> Number {
    Number::AsInt(i64::try_from(value).unwrap_or(i64::MAX))
}

/// Points by metric, in the order in which the metrics were first used.
#[derive(Debug, Default)]
pub struct Points {
    metrics: Vec<(&'static MetricName, Vec<NumberDataPoint>)>,
    /// Where the next point most likely belongs: devices have their values in the same order.
    next: usize,
}

impl Points {
    /// Adds a point. `times` are the start of its interval and its own time, Unix nanoseconds; a start of 0 is unknown.
    pub fn push(&mut self, name: &str, times: (u64, u64), attributes: Vec<KeyValue>, value: Number) {
        let (start_time_unix_nano, time_unix_nano) = times;
        self.add(
            name,
            NumberDataPoint {
                attributes,
                start_time_unix_nano,
                time_unix_nano,
                value: Some(value),
                ..NumberDataPoint::default()
            },
        );
    }

    /// Adds a point that says that the device can't tell this value.
    pub fn push_unsupported(&mut self, name: &str, time_unix_nano: u64, mut attributes: Vec<KeyValue>) {
        attributes.push(yes(names::UNSUPPORTED));
        let flags = DataPointFlags::NoRecordedValueMask as u32;
        self.add(name, NumberDataPoint { attributes, time_unix_nano, flags, ..NumberDataPoint::default() });
    }

    fn add(&mut self, name: &str, point: NumberDataPoint) {
        let Some(metric) = names::metric(name) else {
            debug_assert!(false, "{name} is not one of contador's names");
            return;
        };
        let is_it = |(known, _): &(&'static MetricName, _)| std::ptr::eq(*known, metric);
        let here = [self.next, self.next.saturating_sub(1), 0];
        let near = here.into_iter().find(|at| self.metrics.get(*at).is_some_and(is_it));
        let at = near.or_else(|| self.metrics.iter().position(is_it)).unwrap_or_else(|| {
            self.metrics.push((metric, Vec::new()));
            self.metrics.len() - 1
        });
        self.metrics[at].1.push(point);
        self.next = at + 1;
    }

    /// True when nothing was added.
    pub fn is_empty(&self) -> bool {
        self.metrics.is_empty()
    }

    /// The encoded request.
    pub fn encode(self, identity: &Identity) -> Vec<u8> {
        let metrics = self.metrics.into_iter().map(|(name, points)| metric(name, points)).collect();
        request(identity.resource(), metrics)
    }
}

/// An encoded request of one resource's metrics.
pub(super) fn request(resource: Resource, metrics: Vec<Metric>) -> Vec<u8> {
    let scope = InstrumentationScope {
        name: SERVICE.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    };
    let scope_metrics = vec![ScopeMetrics { scope: Some(scope), metrics, ..ScopeMetrics::default() }];
    let resource_metrics =
        vec![ResourceMetrics { resource: Some(resource), scope_metrics, ..ResourceMetrics::default() }];
    ExportMetricsServiceRequest { resource_metrics }.encode_to_vec()
}

fn metric(name: &MetricName, data_points: Vec<NumberDataPoint>) -> Metric {
    let sum = |data_points, temporality: AggregationTemporality, is_monotonic| {
        Data::Sum(Sum { data_points, aggregation_temporality: temporality.into(), is_monotonic })
    };
    let data = match name.instrument {
        Instrument::Counter => sum(data_points, AggregationTemporality::Cumulative, true),
        Instrument::UpDownCounter => sum(data_points, AggregationTemporality::Cumulative, false),
        Instrument::Delta => sum(data_points, AggregationTemporality::Delta, true),
        Instrument::Gauge | Instrument::Histogram => Data::Gauge(Gauge { data_points }),
    };
    Metric { name: name.name.to_owned(), unit: name.unit.to_owned(), data: Some(data), ..Metric::default() }
}
