//! How much memory a request will take, told from its bytes before anything is made of them.
//!
//! Two bytes of protobuf can be a whole data point, and an attribute of a resource becomes a part of each of its points'
//! rows. So a small body can become gigabytes. [`of`] has [`contador_schemas::otlp::tags`] go through the request, and adds
//! up what the messages, their texts and numbers and the rows of their points will take.

use contador_schemas::otlp::tags::{Field, Kind, Plain, Weigh, weigh};
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::{
    Exemplar, ExponentialHistogramDataPoint, HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics,
    ScopeMetrics, SummaryDataPoint,
};
use opentelemetry_proto::tonic::resource::v1::Resource;

/// Bytes of a row, apart from its texts and cells: of the widest, since each point may be one of another device or time.
const ROW: usize = 1_280;

/// Bytes of what is no message of its own in a vector: a text, an entity.
const SMALL: usize = 24;

/// Bytes that a number of a histogram takes: in the message, in what is read of it, and as a cell of three columns.
const BUCKET: usize = 48;

/// Bytes of a message in a vector that doubles as it grows.
fn size(kind: Kind) -> usize {
    let size = match kind {
        Kind::Request | Kind::Numbers | Kind::Histograms | Kind::Exponentials | Kind::Summaries | Kind::Buckets => 0,
        Kind::ResourceMetrics => size_of::<ResourceMetrics>(),
        Kind::Resource => size_of::<Resource>(),
        Kind::ScopeMetrics => size_of::<ScopeMetrics>(),
        Kind::Scope => size_of::<InstrumentationScope>(),
        Kind::Metric => size_of::<Metric>(),
        Kind::NumberPoint => size_of::<NumberDataPoint>(),
        Kind::HistogramPoint => size_of::<HistogramDataPoint>(),
        Kind::ExponentialPoint => size_of::<ExponentialHistogramDataPoint>(),
        Kind::SummaryPoint => size_of::<SummaryDataPoint>(),
        Kind::Exemplar => size_of::<Exemplar>(),
        // Also as a pair of texts in a row.
        Kind::KeyValue => size_of::<KeyValue>() + 2 * SMALL,
        Kind::AnyValue | Kind::Array | Kind::Pairs => size_of::<AnyValue>(),
        Kind::EntityRef | Kind::Quantile => 4 * SMALL,
    };
    2 * size
}

/// What a message takes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Cost {
    /// Bytes of the message and of its points' rows.
    bytes: usize,
    /// Points in it.
    points: usize,
    /// Bytes of what is told once for all points of the message, and is repeated in each of their rows.
    shared: usize,
}

impl Weigh for Cost {
    fn of(kind: Kind) -> Self {
        let row = if kind.is_point() { ROW } else { 0 };
        Self { bytes: size(kind) + row, points: usize::from(kind.is_point()), shared: 0 }
    }

    fn add(&mut self, inner: Self) {
        if inner.points == 0 {
            self.shared = self.shared.saturating_add(inner.bytes);
        }
        self.bytes = self.bytes.saturating_add(inner.bytes);
        self.points += inner.points;
    }

    fn plain(&mut self, Plain { field, bytes }: Plain) {
        match (field, bytes) {
            (Some(Field::Text), Some(length)) => self.add(Self { bytes: length + SMALL, ..Self::default() }),
            (Some(Field::Numbers(width)), Some(length)) => {
                self.add(Self { bytes: (length / width).saturating_mul(BUCKET), ..Self::default() });
            }
            (Some(Field::Numbers(_)), None) => self.bytes += 2 * BUCKET,
            _ => {}
        }
    }

    fn end(&mut self, kind: Kind) {
        if matches!(kind, Kind::ResourceMetrics | Kind::ScopeMetrics | Kind::Metric) {
            self.bytes = self.bytes.saturating_add(self.shared.saturating_mul(self.points));
        }
    }
}

/// Bytes that the request `body` will take with its rows; `None` when it is no protobuf message.
pub(super) fn of(body: &[u8]) -> Option<usize> {
    weigh(Kind::Request, body).map(|cost: Cost| cost.bytes)
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
    use opentelemetry_proto::tonic::common::v1::any_value::Value;
    use opentelemetry_proto::tonic::metrics::v1::{Gauge, Histogram, metric::Data};
    use prost::Message as _;

    use contador_schemas::rows::{self as row, Device, GpuSample, Latency, NodeSample, OwnerRow, StorageSample};

    use super::*;

    fn request(resource: &str, points: usize) -> ExportMetricsServiceRequest {
        let value = Some(AnyValue { value: Some(Value::StringValue(resource.to_owned())) });
        let attributes = vec![KeyValue { key: "k".to_owned(), value, ..KeyValue::default() }];
        let data = Some(Data::Gauge(Gauge { data_points: vec![NumberDataPoint::default(); points] }));
        let scope = ScopeMetrics { metrics: vec![Metric { data, ..Metric::default() }], ..ScopeMetrics::default() };
        let resource = Some(Resource { attributes, ..Resource::default() });
        let metrics = ResourceMetrics { resource, scope_metrics: vec![scope], ..ResourceMetrics::default() };
        ExportMetricsServiceRequest { resource_metrics: vec![metrics] }
    }

    #[test]
    fn an_empty_point_costs_what_it_takes_in_memory() {
        let (none, many) = (request("", 0).encode_to_vec(), request("", 100_000).encode_to_vec());
        assert!(many.len() - none.len() < 250_000);
        let each = (of(&many).unwrap() - of(&none).unwrap()) / 100_000;
        assert!(each >= 2 * size_of::<NumberDataPoint>() + ROW, "{each}");
    }

    #[test]
    fn no_row_is_wider_than_is_reckoned() {
        // With what a map needs for it.
        assert!(size_of::<GpuSample>() + 128 <= ROW, "{}", size_of::<GpuSample>());
        assert!(size_of::<Latency>() <= ROW && size_of::<StorageSample>() <= ROW && size_of::<NodeSample>() <= ROW);
        assert!(size_of::<Device>() <= ROW && size_of::<row::Metric>() <= ROW && size_of::<OwnerRow>() <= ROW);
    }

    #[test]
    fn what_a_resource_tells_is_counted_for_each_point() {
        let long = "x".repeat(1_000_000);
        assert!(of(&request(&long, 1_000).encode_to_vec()).unwrap() > 1_000_000_000);
        assert!(of(&request(&long, 1).encode_to_vec()).unwrap() < 3_000_000);
    }

    #[test]
    fn buckets_count_packed_or_not() {
        let point = HistogramDataPoint { bucket_counts: vec![1; 1_000], ..HistogramDataPoint::default() };
        let histogram = Histogram { data_points: vec![point], ..Histogram::default() };
        let packed = Metric { data: Some(Data::Histogram(histogram)), ..Metric::default() }.encode_to_vec();
        assert!(weigh::<Cost>(Kind::Metric, &packed).unwrap().bytes > 1_000 * BUCKET);
        // Field 6, 64 bits wide, one by one.
        let single: Vec<u8> = std::iter::repeat_n([6 << 3 | 1, 1, 0, 0, 0, 0, 0, 0, 0], 1_000).flatten().collect();
        assert!(weigh::<Cost>(Kind::HistogramPoint, &single).unwrap().bytes > 1_000 * BUCKET);
    }
}
