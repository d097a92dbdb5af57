//! How much memory a request can take, told from its bytes before anything is made of them: two bytes of protobuf can be a whole
//! data point.

/// Bytes that a point, or what holds points, can take: decoded, in a vector that doubles as it grows, and remembered as a total.
const MESSAGE: usize = 1 << 10;

/// The same of what is in a point, but of its attributes.
const PART: usize = 256;

/// Of an attribute.
const ATTRIBUTE: usize = 128;

/// Of an attribute's value, which may be one of many.
const VALUE: usize = 64;

/// Bytes that one byte can take: a number of 64 bits, decoded, in such a vector, and remembered.
const BYTE: usize = 32;

/// Deepest nesting; prost has the same limit.
const DEEPEST: u32 = 100;

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
    Exemplar,
    KeyValue,
    AnyValue,
    Array,
    Pairs,
    /// Has no message in it.
    Plain,
}

/// The message in the field `number` (<https://github.com/open-telemetry/opentelemetry-proto>); `None` for what is none.
fn inner(kind: Kind, number: u64) -> Option<Kind> {
    Some(match (kind, number) {
        (Kind::Request, 1) => Kind::ResourceMetrics,
        (Kind::ResourceMetrics, 1) => Kind::Resource,
        (Kind::ResourceMetrics, 2) => Kind::ScopeMetrics,
        (Kind::ScopeMetrics, 1) => Kind::Scope,
        (Kind::ScopeMetrics, 2) => Kind::Metric,
        (Kind::Metric, 5 | 7) => Kind::Numbers,
        (Kind::Metric, 9) => Kind::Histograms,
        (Kind::Metric, 10) => Kind::Exponentials,
        (Kind::Metric, 11) => Kind::Summaries,
        (Kind::Numbers, 1) => Kind::NumberPoint,
        (Kind::Histograms, 1) => Kind::HistogramPoint,
        (Kind::Exponentials, 1) => Kind::ExponentialPoint,
        (Kind::Summaries, 1) => Kind::SummaryPoint,
        (Kind::NumberPoint, 5) | (Kind::HistogramPoint, 8) | (Kind::ExponentialPoint, 11) => Kind::Exemplar,
        (Kind::Resource, 1)
        | (Kind::Scope, 3)
        | (Kind::Metric, 12)
        | (Kind::NumberPoint | Kind::SummaryPoint | Kind::Exemplar, 7)
        | (Kind::HistogramPoint, 9)
        | (Kind::ExponentialPoint | Kind::Pairs, 1) => Kind::KeyValue,
        (Kind::KeyValue, 2) | (Kind::Array, 1) => Kind::AnyValue,
        (Kind::AnyValue, 5) => Kind::Array,
        (Kind::AnyValue, 6) => Kind::Pairs,
        (Kind::Resource, 3) | (Kind::SummaryPoint, 6) | (Kind::ExponentialPoint, 8 | 9) => Kind::Plain,
        _ => return None,
    })
}

/// Bytes that the request `body` can take; `None` when it is no protobuf message.
pub fn of(body: &[u8]) -> Option<usize> {
    Some(messages(Kind::Request, body, 0)?.saturating_add(body.len().saturating_mul(BYTE)))
}

impl Kind {
    fn bytes(self) -> usize {
        match self {
            Self::KeyValue => ATTRIBUTE,
            Self::AnyValue | Self::Array | Self::Pairs => VALUE,
            Self::Plain | Self::Exemplar => PART,
            _ => MESSAGE,
        }
    }
}

/// Bytes that a message and those in it can take.
fn messages(kind: Kind, mut body: &[u8], depth: u32) -> Option<usize> {
    if depth > DEEPEST {
        return None;
    }
    let mut bytes = kind.bytes();
    while !body.is_empty() {
        let tag = varint(&mut body)?;
        match tag & 7 {
            0 => _ = varint(&mut body)?,
            1 => _ = take(&mut body, 8)?,
            2 => {
                let length = usize::try_from(varint(&mut body)?).ok()?;
                let content = take(&mut body, length)?;
                bytes += match inner(kind, tag >> 3) {
                    Some(kind) => messages(kind, content, depth + 1)?,
                    // A text of an entity is one of many.
                    None => VALUE,
                };
            }
            5 => _ = take(&mut body, 4)?,
            _ => return None,
        }
    }
    Some(bytes)
}

fn take<'a>(body: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, rest) = body.split_at_checked(length)?;
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
    use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
    use opentelemetry_proto::tonic::metrics::v1::metric::Data;
    use opentelemetry_proto::tonic::metrics::v1::{
        ExponentialHistogram, ExponentialHistogramDataPoint, Gauge, Histogram, HistogramDataPoint, Metric,
        NumberDataPoint, ResourceMetrics, ScopeMetrics, Summary, SummaryDataPoint,
    };
    use prost::Message as _;

    use super::*;

    fn body(data: Data) -> Vec<u8> {
        let metric = Metric { data: Some(data), ..Metric::default() };
        let scope = ScopeMetrics { metrics: vec![metric], ..ScopeMetrics::default() };
        let resource = ResourceMetrics { scope_metrics: vec![scope], ..ResourceMetrics::default() };
        ExportMetricsServiceRequest { resource_metrics: vec![resource] }.encode_to_vec()
    }

    #[test]
    fn every_point_costs_more_than_twice_what_it_takes_in_memory() {
        const EACH: usize = 1_000;
        let attributes = vec![KeyValue { value: Some(AnyValue::default()), ..KeyValue::default() }];
        let number = NumberDataPoint { attributes: attributes.clone(), ..NumberDataPoint::default() };
        let histogram = HistogramDataPoint { attributes: attributes.clone(), ..HistogramDataPoint::default() };
        let exponential = ExponentialHistogramDataPoint {
            attributes: attributes.clone(),
            ..ExponentialHistogramDataPoint::default()
        };
        let summary = SummaryDataPoint { attributes, ..SummaryDataPoint::default() };
        for (data, point) in [
            (Data::Gauge(Gauge { data_points: vec![number; EACH] }), size_of::<NumberDataPoint>()),
            (
                Data::Histogram(Histogram { data_points: vec![histogram; EACH], aggregation_temporality: 1 }),
                size_of::<HistogramDataPoint>(),
            ),
            (
                Data::ExponentialHistogram(ExponentialHistogram {
                    data_points: vec![exponential; EACH],
                    aggregation_temporality: 1,
                }),
                size_of::<ExponentialHistogramDataPoint>(),
            ),
            (Data::Summary(Summary { data_points: vec![summary; EACH] }), size_of::<SummaryDataPoint>()),
        ] {
            let body = body(data);
            assert!(of(&body).unwrap() >= EACH * (MESSAGE + ATTRIBUTE + VALUE));
            // A vector that has doubled, and as a total before and after.
            assert!(MESSAGE >= 3 * point && ATTRIBUTE >= 2 * size_of::<KeyValue>(), "{point}");
        }
    }

    #[test]
    fn what_is_no_message_is_told_and_nesting_ends() {
        assert_eq!(of(b"\x0a\x05abc"), None);
        assert_eq!(of(&[0xff; 11]), None);
        assert_eq!(of(b""), Some(MESSAGE));
        let nested = (0..200).fold(Vec::new(), |value: Vec<u8>, _| {
            let mut outer = vec![0x2a, u8::try_from(value.len()).unwrap_or(0x7f)];
            outer.extend(value);
            outer
        });
        assert_eq!(messages(Kind::AnyValue, &nested, 0), None);
    }
}
