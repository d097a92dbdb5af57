//! Any request.

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::{
    AnyValue, ArrayValue, EntityRef, InstrumentationScope, KeyValue, KeyValueList, any_value::Value,
};
use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::summary_data_point::ValueAtQuantile;
use opentelemetry_proto::tonic::metrics::v1::{
    Exemplar, ExponentialHistogram, ExponentialHistogramDataPoint, Gauge, Histogram, HistogramDataPoint, Metric,
    NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum, Summary, SummaryDataPoint, exemplar, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z.]{0,8}", any::<String>()]
}

/// Any float; all numbers that are none are one.
fn double() -> impl Strategy<Value = f64> {
    use proptest::num::f64::{ANY, NORMAL};
    prop_oneof![
        ANY,
        NORMAL,
        Just(0.1),
        Just(f64::NAN),
        Just(f64::INFINITY),
        Just(f64::NEG_INFINITY),
        (-9..9_i8).prop_map(f64::from)
    ]
    .prop_map(|value| if value.is_nan() { f64::NAN } else { value })
}

fn any_value() -> impl Strategy<Value = AnyValue> {
    let plain = prop_oneof![
        Just(None),
        text().prop_map(|value| Some(Value::StringValue(value))),
        any::<bool>().prop_map(|value| Some(Value::BoolValue(value))),
        any::<i64>().prop_map(|value| Some(Value::IntValue(value))),
        double().prop_map(|value| Some(Value::DoubleValue(value))),
        vec(any::<u8>(), 0..5).prop_map(|value| Some(Value::BytesValue(value))),
    ]
    .prop_map(|value| AnyValue { value });
    plain.prop_recursive(3, 8, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(|values| Value::ArrayValue(ArrayValue { values })),
            vec(key_value(inner), 0..3).prop_map(|values| Value::KvlistValue(KeyValueList { values })),
        ]
        .prop_map(|value| AnyValue { value: Some(value) })
    })
}

fn key_value(value: impl Strategy<Value = AnyValue>) -> impl Strategy<Value = KeyValue> {
    (text(), option::of(value)).prop_map(|(key, value)| KeyValue { key, value, ..KeyValue::default() })
}

fn attributes() -> impl Strategy<Value = Vec<KeyValue>> {
    vec(key_value(any_value()), 0..3)
}

fn exemplars() -> impl Strategy<Value = Vec<Exemplar>> {
    let value = option::of(prop_oneof![
        double().prop_map(exemplar::Value::AsDouble),
        any::<i64>().prop_map(exemplar::Value::AsInt)
    ]);
    let id = |len| prop_oneof![Just(Vec::new()), vec(any::<u8>(), len)];
    let parts = (attributes(), any::<u64>(), id(8), id(16), value);
    let exemplar = parts.prop_map(|(filtered_attributes, time_unix_nano, span_id, trace_id, value)| Exemplar {
        filtered_attributes,
        time_unix_nano,
        span_id,
        trace_id,
        value,
    });
    vec(exemplar, 0..2)
}

fn numbers() -> impl Strategy<Value = Vec<NumberDataPoint>> {
    let value = option::of(prop_oneof![
        double().prop_map(number_data_point::Value::AsDouble),
        any::<i64>().prop_map(number_data_point::Value::AsInt)
    ]);
    let parts = (attributes(), any::<[u64; 2]>(), exemplars(), any::<u32>(), value);
    let point = parts.prop_map(|(attributes, [start, time], exemplars, flags, value)| NumberDataPoint {
        attributes,
        start_time_unix_nano: start,
        time_unix_nano: time,
        exemplars,
        flags,
        value,
    });
    vec(point, 0..3)
}

/// A sum, a least and a greatest value, if told.
fn told() -> impl Strategy<Value = [Option<f64>; 3]> {
    prop::array::uniform3(option::of(double()))
}

fn histograms() -> impl Strategy<Value = Vec<HistogramDataPoint>> {
    let buckets = (vec(any::<u64>(), 0..4), vec(double(), 0..4));
    let parts = (attributes(), any::<[u64; 3]>(), told(), buckets, exemplars(), any::<u32>());
    let point = parts.prop_map(|(attributes, [start, time, count], [sum, min, max], buckets, exemplars, flags)| {
        HistogramDataPoint {
            attributes,
            start_time_unix_nano: start,
            time_unix_nano: time,
            count,
            sum,
            bucket_counts: buckets.0,
            explicit_bounds: buckets.1,
            exemplars,
            flags,
            min,
            max,
        }
    });
    vec(point, 0..2)
}

fn exponentials() -> impl Strategy<Value = Vec<ExponentialHistogramDataPoint>> {
    let buckets = || {
        option::of(
            (any::<i32>(), vec(any::<u64>(), 0..4))
                .prop_map(|(offset, bucket_counts)| Buckets { offset, bucket_counts }),
        )
    };
    let zero = (any::<i32>(), any::<u64>(), double());
    let parts = (attributes(), any::<[u64; 3]>(), told(), zero, buckets(), buckets(), any::<u32>());
    let point = parts.prop_map(
        |(
            attributes,
            [start, time, count],
            [sum, min, max],
            (scale, zero_count, zero_threshold),
            positive,
            negative,
            flags,
        )| {
            ExponentialHistogramDataPoint {
                attributes,
                start_time_unix_nano: start,
                time_unix_nano: time,
                count,
                sum,
                scale,
                zero_count,
                positive,
                negative,
                flags,
                exemplars: Vec::new(),
                min,
                max,
                zero_threshold,
            }
        },
    );
    vec(point, 0..2)
}

fn summaries() -> impl Strategy<Value = Vec<SummaryDataPoint>> {
    let quantile = (double(), double()).prop_map(|(quantile, value)| ValueAtQuantile { quantile, value });
    let parts = (attributes(), any::<[u64; 3]>(), double(), vec(quantile, 0..3), any::<u32>());
    let point = parts.prop_map(|(attributes, [start, time, count], sum, quantile_values, flags)| SummaryDataPoint {
        attributes,
        start_time_unix_nano: start,
        time_unix_nano: time,
        count,
        sum,
        quantile_values,
        flags,
    });
    vec(point, 0..2)
}

fn metric() -> impl Strategy<Value = Metric> {
    let data = prop_oneof![
        numbers().prop_map(|data_points| Data::Gauge(Gauge { data_points })),
        (numbers(), -1..4, any::<bool>()).prop_map(|(data_points, aggregation_temporality, is_monotonic)| {
            Data::Sum(Sum { data_points, aggregation_temporality, is_monotonic })
        }),
        (histograms(), 0..3).prop_map(|(data_points, aggregation_temporality)| {
            Data::Histogram(Histogram { data_points, aggregation_temporality })
        }),
        (exponentials(), 0..3).prop_map(|(data_points, aggregation_temporality)| {
            Data::ExponentialHistogram(ExponentialHistogram { data_points, aggregation_temporality })
        }),
        summaries().prop_map(|data_points| Data::Summary(Summary { data_points })),
    ];
    let parts = (text(), text(), text(), attributes(), option::of(data));
    parts.prop_map(|(name, description, unit, metadata, data)| Metric { name, description, unit, metadata, data })
}

fn resource() -> impl Strategy<Value = Resource> {
    let entity = (text(), text(), vec(text(), 0..3), vec(text(), 0..3));
    let entity = entity.prop_map(|(schema_url, r#type, id_keys, description_keys)| EntityRef {
        schema_url,
        r#type,
        id_keys,
        description_keys,
    });
    (attributes(), any::<u32>(), vec(entity, 0..2)).prop_map(|(attributes, dropped_attributes_count, entity_refs)| {
        Resource { attributes, dropped_attributes_count, entity_refs }
    })
}

fn scope() -> impl Strategy<Value = InstrumentationScope> {
    (text(), text(), attributes(), any::<u32>()).prop_map(|(name, version, attributes, dropped_attributes_count)| {
        InstrumentationScope { name, version, attributes, dropped_attributes_count }
    })
}

pub(super) fn request() -> impl Strategy<Value = ExportMetricsServiceRequest> {
    let scope = (option::of(scope()), vec(metric(), 0..3), text());
    let scope = scope.prop_map(|(scope, metrics, schema_url)| ScopeMetrics { scope, metrics, schema_url });
    let resource = (option::of(resource()), vec(scope, 0..3), text())
        .prop_map(|(resource, scope_metrics, schema_url)| ResourceMetrics { resource, scope_metrics, schema_url });
    vec(resource, 0..2).prop_map(|resource_metrics| ExportMetricsServiceRequest { resource_metrics })
}
