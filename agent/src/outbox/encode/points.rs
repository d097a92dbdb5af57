//! Points, collected by metric.

use contador_schemas::names::{self, Instrument, MetricName};
use contador_schemas::series::series_id;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, DataPointFlags, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum,
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

/// Attributes that many points share, encoded once.
#[derive(Clone, Debug, Default)]
pub struct Common(Vec<u8>);

impl Common {
    /// These.
    pub fn of(attributes: Vec<KeyValue>) -> Self {
        Self(NumberDataPoint { attributes, ..NumberDataPoint::default() }.encode_to_vec())
    }
}

/// Points by metric, in the order in which the metrics were first used.
///
/// They are encoded as they come: a hundred values of each of sixteen GPUs would else be some thousand strings until the end
/// of the round. Two encodings of a message one after the other are the encoding of one message with the parts of both.
/// After [`Points::encode`] there are none, and the memory is kept for the next ones.
#[derive(Debug, Default)]
pub struct Points {
    metrics: Vec<Encoded>,
    /// Where the next point most likely belongs: devices have their values in the same order.
    next: usize,
    /// The points of all metrics: encoded `data_points` of a gauge or a sum.
    bytes: Vec<u8>,
    spans: Vec<Span>,
}

/// One point: its place in the bytes, and the next one of the same metric.
#[derive(Debug, Clone, Copy)]
struct Span {
    start: usize,
    end: usize,
    next: Option<usize>,
}

impl Points {
    /// Adds a point. `times` are the start of its interval and its own time, Unix nanoseconds; a start of 0 is unknown.
    pub fn push(&mut self, name: &str, times: (u64, u64), attributes: Vec<KeyValue>, value: Number) {
        self.push_with(name, times, &Common::default(), attributes, value);
    }

    /// The same, with more attributes.
    pub fn push_with(&mut self, name: &str, times: (u64, u64), common: &Common, own: Vec<KeyValue>, value: Number) {
        let (start_time_unix_nano, time_unix_nano) = times;
        let point = NumberDataPoint {
            attributes: own,
            start_time_unix_nano,
            time_unix_nano,
            value: Some(value),
            ..NumberDataPoint::default()
        };
        self.add(name, common, &point);
    }

    /// Adds a point that says that the device can't tell this value.
    pub fn push_unsupported(&mut self, name: &str, time_unix_nano: u64, common: &Common, mut own: Vec<KeyValue>) {
        own.push(yes(names::UNSUPPORTED));
        let flags = DataPointFlags::NoRecordedValueMask as u32;
        let point = NumberDataPoint { attributes: own, time_unix_nano, flags, ..NumberDataPoint::default() };
        self.add(name, common, &point);
    }

    fn add(&mut self, name: &str, common: &Common, point: &NumberDataPoint) {
        // Names are constants: mostly the same one is at the same place.
        let is_it = |known: &Encoded| std::ptr::eq(known.metric.name, name);
        let here = [self.next, self.next.saturating_sub(1)];
        let near = here.into_iter().find(|at| self.metrics.get(*at).is_some_and(is_it));
        let Some(at) = near.or_else(|| self.find(name)) else {
            debug_assert!(false, "{name} is not one of contador's names");
            return;
        };
        self.next = at + 1;
        let start = self.bytes.len();
        open(1, common.0.len() + point.encoded_len(), &mut self.bytes);
        self.bytes.extend_from_slice(&common.0);
        // Writing to memory can't fail.
        let _ = point.encode(&mut self.bytes);
        let (end, new) = (self.bytes.len(), self.spans.len());
        self.spans.push(Span { start, end, next: None });
        let metric = &mut self.metrics[at];
        metric.points += end - start;
        match metric.spans {
            Some((first, last)) => {
                self.spans[last].next = Some(new);
                metric.spans = Some((first, new));
            }
            None => metric.spans = Some((new, new)),
        }
    }

    /// The place of a metric, which is a new one when it has none yet.
    fn find(&mut self, name: &str) -> Option<usize> {
        let metric = names::metric(name)?;
        Some(self.metrics.iter().position(|known| std::ptr::eq(known.metric, metric)).unwrap_or_else(|| {
            self.metrics.push(Encoded::of(metric));
            self.metrics.len() - 1
        }))
    }

    /// True when nothing was added.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// The encoded request of all points since the last one.
    pub fn encode(&mut self, identity: &Identity) -> Vec<u8> {
        let metrics = || self.metrics.iter().filter(|metric| metric.spans.is_some());
        let scope = ScopeMetrics { scope: Some(scope()), ..ScopeMetrics::default() }.encode_to_vec();
        let resource = Some(identity.resource());
        let resource = ResourceMetrics { resource, ..ResourceMetrics::default() }.encode_to_vec();
        // From the inside out: how long each message is. Then all of it is written once.
        let in_scope = scope.len() + metrics().map(|metric| field_len(metric.len())).sum::<usize>();
        let in_resource = resource.len() + field_len(in_scope);
        let mut request = Vec::with_capacity(field_len(in_resource));
        open(1, in_resource, &mut request);
        request.extend_from_slice(&resource);
        open(2, in_scope, &mut request);
        request.extend_from_slice(&scope);
        for metric in metrics() {
            open(2, metric.len(), &mut request);
            request.extend_from_slice(&metric.head);
            open(metric.data, metric.points + metric.tail.len(), &mut request);
            let mut next = metric.spans.map(|(first, _)| first);
            while let Some(span) = next.and_then(|at| self.spans.get(at)) {
                request.extend_from_slice(&self.bytes[span.start..span.end]);
                next = span.next;
            }
            request.extend_from_slice(&metric.tail);
        }
        self.clear();
        request
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.spans.clear();
        self.next = 0;
        for metric in &mut self.metrics {
            (metric.spans, metric.points) = (None, 0);
        }
    }
}

/// Wire type of what has a length, in the lowest bits of a field's key.
const LEN: u8 = 2;

/// Begins the field of this number, below 16, with a message of so many bytes.
fn open(field: u8, bytes: usize, into: &mut Vec<u8>) {
    into.push(LEN | (field << 3));
    // Writing to memory can't fail.
    let _ = prost::encode_length_delimiter(bytes, into);
}

/// Bytes of such a field with its message.
fn field_len(message: usize) -> usize {
    1 + prost::length_delimiter_len(message) + message
}

/// A metric, in parts that are encoded.
#[derive(Debug)]
struct Encoded {
    metric: &'static MetricName,
    /// Its name and unit.
    head: Vec<u8>,
    /// The field of its data: a gauge or a sum.
    data: u8,
    /// What a sum has beside its points.
    tail: Vec<u8>,
    /// The first and the last of its points.
    spans: Option<(usize, usize)>,
    /// How many bytes they have.
    points: usize,
}

impl Encoded {
    fn of(metric: &'static MetricName) -> Self {
        let sum = |temporality: AggregationTemporality, is_monotonic| {
            Some(Sum { data_points: Vec::new(), aggregation_temporality: temporality.into(), is_monotonic })
        };
        let kind = match metric.instrument {
            Instrument::Counter => sum(AggregationTemporality::Cumulative, true),
            Instrument::UpDownCounter => sum(AggregationTemporality::Cumulative, false),
            Instrument::Delta => sum(AggregationTemporality::Delta, true),
            Instrument::Gauge | Instrument::Histogram => None,
        };
        let head = Metric { name: metric.name.to_owned(), unit: metric.unit.to_owned(), ..Metric::default() };
        Self {
            metric,
            head: head.encode_to_vec(),
            // Both have their points in the same field.
            data: if kind.is_some() { 7 } else { 5 },
            tail: kind.map(|kind| kind.encode_to_vec()).unwrap_or_default(),
            spans: None,
            points: 0,
        }
    }

    /// Its length with its points.
    fn len(&self) -> usize {
        self.head.len() + field_len(self.points + self.tail.len())
    }
}

fn scope() -> InstrumentationScope {
    InstrumentationScope {
        name: SERVICE.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    }
}

/// An encoded request of one resource's metrics.
pub(super) fn request(resource: Resource, metrics: Vec<Metric>) -> Vec<u8> {
    let scope_metrics = vec![ScopeMetrics { scope: Some(scope()), metrics, ..ScopeMetrics::default() }];
    let resource_metrics =
        vec![ResourceMetrics { resource: Some(resource), scope_metrics, ..ResourceMetrics::default() }];
    ExportMetricsServiceRequest { resource_metrics }.encode_to_vec()
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::metrics::v1::Gauge;
    use opentelemetry_proto::tonic::metrics::v1::metric::Data;

    use super::*;

    /// What prost encodes of the same, as a whole.
    #[test]
    fn the_request_is_the_one_that_it_would_be_as_a_whole() {
        let identity = Identity::of_node("n1");
        let device = || vec![text(names::HW_ID, "GPU-1"), yes(names::SIMULATED)];
        let own = || vec![text(names::GPU_TASK, "encoder")];
        let common = Common::of(device());
        let mut points = Points::default();
        assert!(points.is_empty());
        points.push_with(names::GPU_UTILIZATION, (0, 7), &common, own(), Number::AsDouble(0.5));
        points.push_with(names::ENERGY, (0, 7), &common, Vec::new(), Number::AsDouble(1.5));
        points.push(names::LEDGER_HELD, (1, 7), device(), int(u64::MAX));
        points.push_unsupported(names::GPU_UTILIZATION, 8, &common, own());
        let encoded = points.encode(&identity);
        assert!(points.is_empty());
        // What was encoded is not encoded again.
        points.push(names::ENERGY, (0, 9), Vec::new(), Number::AsDouble(2.5));
        let second = points.encode(&identity);

        let whole = |attributes: Vec<Vec<KeyValue>>, start, time, value, flags| NumberDataPoint {
            attributes: attributes.concat(),
            start_time_unix_nano: start,
            time_unix_nano: time,
            value,
            flags,
            ..NumberDataPoint::default()
        };
        let metric = |name: &str, data| Metric {
            name: name.to_owned(),
            unit: names::metric(name).unwrap().unit.to_owned(),
            data: Some(data),
            ..Metric::default()
        };
        let sum = |data_points, temporality: AggregationTemporality| {
            Data::Sum(Sum { data_points, aggregation_temporality: temporality.into(), is_monotonic: true })
        };
        let unsupported = vec![device(), own(), vec![yes(names::UNSUPPORTED)]];
        let utilization =
            vec![whole(vec![device(), own()], 0, 7, Some(Number::AsDouble(0.5)), 0), whole(unsupported, 0, 8, None, 1)];
        let energy = vec![whole(vec![device()], 0, 7, Some(Number::AsDouble(1.5)), 0)];
        let held = vec![whole(vec![device()], 1, 7, Some(Number::AsInt(i64::MAX)), 0)];
        let metrics = vec![
            metric(names::GPU_UTILIZATION, Data::Gauge(Gauge { data_points: utilization })),
            metric(names::ENERGY, sum(energy, AggregationTemporality::Cumulative)),
            metric(names::LEDGER_HELD, sum(held, AggregationTemporality::Delta)),
        ];
        let expected = request(identity.resource(), metrics);
        let decode = |bytes: &[u8]| ExportMetricsServiceRequest::decode(bytes).unwrap();
        assert_eq!(decode(&encoded), decode(&expected));
        let energy = vec![whole(Vec::new(), 0, 9, Some(Number::AsDouble(2.5)), 0)];
        let expected = vec![metric(names::ENERGY, sum(energy, AggregationTemporality::Cumulative))];
        assert_eq!(decode(&second), decode(&request(identity.resource(), expected)));
    }
}
