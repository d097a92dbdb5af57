//! How much memory a request will take, told from its bytes before anything is made of them.
//!
//! Two bytes of protobuf can be a whole data point, and an attribute of a resource becomes a part of each of its points'
//! rows. So a small body can become gigabytes. [`of`] walks the tags of an `ExportMetricsServiceRequest` and adds up what
//! the messages, their texts and numbers and the rows of their points will take.

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

/// Deepest nesting; prost has the same limit.
const DEEPEST: u32 = 100;

/// Bytes that a number of a histogram takes: in the message, in what is read of it, and as a cell of three columns.
const BUCKET: usize = 48;

#[derive(Clone, Copy)]
enum Kind {
    Request,
    ResourceMetrics,
    Resource,
    ScopeMetrics,
    Scope,
    Metric,
    Numbers,
    Histograms,
    Exponentials,
    Summaries,
    NumberPoint,
    HistogramPoint,
    ExponentialPoint,
    SummaryPoint,
    Buckets,
    Exemplar,
    KeyValue,
    AnyValue,
    Array,
    Pairs,
    Small,
}

/// What a field is.
enum Field {
    Message(Kind),
    /// A text or bytes.
    Text,
    /// Numbers of this many bytes or more.
    Numbers(usize),
}

/// The field `number` of a message (<https://github.com/open-telemetry/opentelemetry-proto>); `None` for one that takes
/// no memory beyond its message's, or that nobody reads.
fn field(kind: Kind, number: u64) -> Option<Field> {
    use Field::{Message, Numbers, Text};
    Some(match (kind, number) {
        (Kind::Request, 1) => Message(Kind::ResourceMetrics),
        (Kind::ResourceMetrics, 1) => Message(Kind::Resource),
        (Kind::ResourceMetrics, 2) => Message(Kind::ScopeMetrics),
        (Kind::Resource, 1)
        | (Kind::Scope, 3)
        | (Kind::Metric, 12)
        | (Kind::NumberPoint | Kind::SummaryPoint | Kind::Exemplar, 7)
        | (Kind::HistogramPoint, 9)
        | (Kind::ExponentialPoint | Kind::Pairs, 1) => Message(Kind::KeyValue),
        (Kind::Resource, 3) | (Kind::SummaryPoint, 6) => Message(Kind::Small),
        (Kind::ScopeMetrics, 1) => Message(Kind::Scope),
        (Kind::ScopeMetrics, 2) => Message(Kind::Metric),
        (Kind::Metric, 5 | 7) => Message(Kind::Numbers),
        (Kind::Metric, 9) => Message(Kind::Histograms),
        (Kind::Metric, 10) => Message(Kind::Exponentials),
        (Kind::Metric, 11) => Message(Kind::Summaries),
        (Kind::Numbers, 1) => Message(Kind::NumberPoint),
        (Kind::Histograms, 1) => Message(Kind::HistogramPoint),
        (Kind::Exponentials, 1) => Message(Kind::ExponentialPoint),
        (Kind::Summaries, 1) => Message(Kind::SummaryPoint),
        (Kind::NumberPoint, 5) | (Kind::HistogramPoint, 8) | (Kind::ExponentialPoint, 11) => Message(Kind::Exemplar),
        (Kind::ExponentialPoint, 8 | 9) => Message(Kind::Buckets),
        (Kind::HistogramPoint, 6 | 7) => Numbers(8),
        (Kind::Buckets, 2) => Numbers(1),
        (Kind::KeyValue, 2) | (Kind::Array, 1) => Message(Kind::AnyValue),
        (Kind::AnyValue, 5) => Message(Kind::Array),
        (Kind::AnyValue, 6) => Message(Kind::Pairs),
        (Kind::ResourceMetrics | Kind::ScopeMetrics, 3)
        | (Kind::Scope, 1 | 2)
        | (Kind::Metric, 1..=3)
        | (Kind::Exemplar, 4 | 5)
        | (Kind::KeyValue, 1)
        | (Kind::AnyValue, 1 | 7)
        | (Kind::Small, _) => Text,
        _ => return None,
    })
}

impl Kind {
    /// Bytes of one in a vector that doubles as it grows.
    fn size(self) -> usize {
        let size = match self {
            Self::Request | Self::Numbers | Self::Histograms | Self::Exponentials | Self::Summaries | Self::Buckets => {
                0
            }
            Self::ResourceMetrics => size_of::<ResourceMetrics>(),
            Self::Resource => size_of::<Resource>(),
            Self::ScopeMetrics => size_of::<ScopeMetrics>(),
            Self::Scope => size_of::<InstrumentationScope>(),
            Self::Metric => size_of::<Metric>(),
            Self::NumberPoint => size_of::<NumberDataPoint>(),
            Self::HistogramPoint => size_of::<HistogramDataPoint>(),
            Self::ExponentialPoint => size_of::<ExponentialHistogramDataPoint>(),
            Self::SummaryPoint => size_of::<SummaryDataPoint>(),
            Self::Exemplar => size_of::<Exemplar>(),
            // Also as a pair of texts in a row.
            Self::KeyValue => size_of::<KeyValue>() + 2 * SMALL,
            Self::AnyValue | Self::Array | Self::Pairs => size_of::<AnyValue>(),
            Self::Small => 4 * SMALL,
        };
        2 * size
    }

    fn is_point(self) -> bool {
        matches!(self, Self::NumberPoint | Self::HistogramPoint | Self::ExponentialPoint | Self::SummaryPoint)
    }
}

/// What a message takes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Cost {
    /// Bytes of the message and of its points' rows.
    bytes: usize,
    /// Points in it.
    points: usize,
}

/// Bytes that the request `body` will take with its rows; `None` when it is no protobuf message.
pub(super) fn of(body: &[u8]) -> Option<usize> {
    message(Kind::Request, body, 0).map(|cost| cost.bytes)
}

fn message(kind: Kind, mut body: &[u8], depth: u32) -> Option<Cost> {
    if depth > DEEPEST {
        return None;
    }
    let mut cost = Cost { bytes: kind.size(), points: usize::from(kind.is_point()) };
    if kind.is_point() {
        cost.bytes += ROW;
    }
    // What is told once for all points of the message, and is repeated in each of their rows.
    let mut shared = 0_usize;
    while !body.is_empty() {
        let tag = varint(&mut body)?;
        let field = field(kind, tag >> 3);
        match tag & 7 {
            0 => {
                varint(&mut body)?;
                cost.bytes += matches!(field, Some(Field::Numbers(_))).then_some(2 * BUCKET).unwrap_or_default();
            }
            1 => {
                take(&mut body, 8)?;
                cost.bytes += matches!(field, Some(Field::Numbers(_))).then_some(2 * BUCKET).unwrap_or_default();
            }
            2 => {
                let len = usize::try_from(varint(&mut body)?).ok()?;
                let content = take(&mut body, len)?;
                let inner = match field {
                    Some(Field::Message(kind)) => message(kind, content, depth + 1)?,
                    Some(Field::Text) => Cost { bytes: len + SMALL, points: 0 },
                    Some(Field::Numbers(width)) => Cost { bytes: (len / width).saturating_mul(BUCKET), points: 0 },
                    None => Cost::default(),
                };
                if inner.points == 0 {
                    shared = shared.saturating_add(inner.bytes);
                }
                cost.bytes = cost.bytes.saturating_add(inner.bytes);
                cost.points += inner.points;
            }
            5 => {
                take(&mut body, 4)?;
            }
            _ => return None,
        }
    }
    if matches!(kind, Kind::ResourceMetrics | Kind::ScopeMetrics | Kind::Metric) {
        cost.bytes = cost.bytes.saturating_add(shared.saturating_mul(cost.points));
    }
    Some(cost)
}

fn take<'a>(body: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (taken, rest) = body.split_at_checked(len)?;
    *body = rest;
    Some(taken)
}

fn varint(body: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..70).step_by(7) {
        let byte = *take(body, 1)?.first()?;
        value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or_default();
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
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
        assert!(message(Kind::Metric, &packed, 0).unwrap().bytes > 1_000 * BUCKET);
        // Field 6, 64 bits wide, one by one.
        let single: Vec<u8> = std::iter::repeat_n([6 << 3 | 1, 1, 0, 0, 0, 0, 0, 0, 0], 1_000).flatten().collect();
        assert!(message(Kind::HistogramPoint, &single, 0).unwrap().bytes > 1_000 * BUCKET);
    }

    #[test]
    fn what_is_no_message_is_told_and_nesting_ends() {
        assert_eq!(of(b"\x0a\x05abc"), None);
        assert_eq!(of(&[0xff; 11]), None);
        assert_eq!(of(b""), Some(0));
        let mut value = Vec::new();
        for _ in 0..200 {
            let len = u8::try_from(value.len()).unwrap_or(0x7f);
            // An array in a value, alternating by the same field numbers.
            let mut outer = vec![0x2a, len];
            outer.append(&mut value);
            value = outer;
        }
        assert!(message(Kind::AnyValue, &value, 0).is_none());
    }
}
