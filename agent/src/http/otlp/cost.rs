//! How much memory a request can take, told from its bytes before anything is made of them: two bytes of protobuf can be a whole
//! data point. [`contador_schemas::otlp::tags`] goes through them; what each part can take here is said below.

use contador_schemas::otlp::tags::{Kind, Plain, Weigh, weigh};

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

/// What messages and their fields take, in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Bytes(usize);

impl Weigh for Bytes {
    fn of(kind: Kind) -> Self {
        Self(match kind {
            Kind::KeyValue => ATTRIBUTE,
            Kind::AnyValue | Kind::Array | Kind::Pairs => VALUE,
            Kind::EntityRef | Kind::Quantile | Kind::Buckets | Kind::Exemplar => PART,
            _ => MESSAGE,
        })
    }

    fn add(&mut self, inner: Self) {
        self.0 = self.0.saturating_add(inner.0);
    }

    fn plain(&mut self, plain: Plain) {
        // A text of an entity is one of many.
        self.0 += if plain.bytes.is_some() { VALUE } else { 0 };
    }

    fn end(&mut self, _: Kind) {}
}

/// Bytes that the request `body` can take; `None` when it is no protobuf message.
pub fn of(body: &[u8]) -> Option<usize> {
    let Bytes(messages) = weigh(Kind::Request, body)?;
    Some(messages.saturating_add(body.len().saturating_mul(BYTE)))
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
}
