//! OTLP messages as JSON, written after the specification and not after the tables that are tested. A style says how:
//! whole numbers as numbers or strings, enums by number or name, what is absent left out or null, names in either case,
//! and fields of a later version.

use std::cell::Cell;

use base64::Engine as _;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value::Value as Any};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{Exemplar, Metric, NumberDataPoint, exemplar, number_data_point};
use serde_json::{Map, Value, json};

struct Style(Cell<u64>);

impl Style {
    /// One of `count` ways.
    fn way(&self, count: u64) -> u64 {
        let next = self.0.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0.set(next);
        (next >> 40) % count
    }

    fn whole(&self, value: impl ToString + Into<i128>) -> Value {
        if self.way(2) == 0 {
            return value.to_string().into();
        }
        let value = value.into();
        u64::try_from(value).map_or_else(|_| json!(i64::try_from(value).unwrap()), |value| json!(value))
    }

    fn double(&self, value: f64) -> Value {
        if value.is_nan() {
            "NaN".into()
        } else if value.is_infinite() {
            if value > 0.0 { "Infinity".into() } else { "-Infinity".into() }
        } else if self.way(4) == 0 {
            value.to_string().into()
        } else {
            value.into()
        }
    }

    fn optional(&self, value: Option<f64>) -> Value {
        value.map_or(Value::Null, |value| self.double(value))
    }

    fn temporality(&self, value: i32) -> Value {
        let name = ["UNSPECIFIED", "DELTA", "CUMULATIVE"].get(usize::try_from(value).unwrap_or(9));
        match name {
            Some(name) if self.way(2) == 0 => format!("AGGREGATION_TEMPORALITY_{name}").into(),
            _ => value.into(),
        }
    }

    fn list<T>(&self, values: &[T], each: impl Fn(&T) -> Value) -> Value {
        if values.is_empty() && self.way(2) == 0 { Value::Null } else { values.iter().map(each).collect() }
    }

    fn attributes(&self, pairs: &[KeyValue]) -> Value {
        self.list(pairs, |pair| {
            let value = pair.value.as_ref().map_or(Value::Null, |value| self.value(value));
            json!({"key": pair.key, "value": value})
        })
    }

    fn value(&self, value: &AnyValue) -> Value {
        match &value.value {
            None => json!({}),
            Some(Any::StringValue(value)) => json!({"stringValue": value}),
            Some(Any::BoolValue(value)) => json!({"boolValue": value}),
            Some(Any::IntValue(value)) => json!({"intValue": self.whole(*value)}),
            Some(Any::DoubleValue(value)) => json!({"doubleValue": self.double(*value)}),
            Some(Any::ArrayValue(list)) => {
                json!({"arrayValue": {"values": self.list(&list.values, |value| self.value(value))}})
            }
            Some(Any::KvlistValue(map)) => json!({"kvlistValue": {"values": self.attributes(&map.values)}}),
            Some(Any::BytesValue(bytes)) => {
                use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
                let engine = [STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD];
                json!({"bytesValue": engine[usize::try_from(self.way(4)).unwrap()].encode(bytes)})
            }
            Some(Any::StringValueStrindex(value)) => json!({"stringValueStrindex": value}),
        }
    }

    fn exemplar(&self, told: &Exemplar) -> Value {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let mut object = json!({
            "timeUnixNano": self.whole(told.time_unix_nano),
            "spanId": hex(&told.span_id),
            "traceId": hex(&told.trace_id).to_uppercase(),
            "filteredAttributes": self.attributes(&told.filtered_attributes),
        });
        match told.value {
            None => {}
            Some(exemplar::Value::AsDouble(value)) => object["asDouble"] = self.double(value),
            Some(exemplar::Value::AsInt(value)) => object["asInt"] = self.whole(value),
        }
        object
    }

    fn number(&self, told: &NumberDataPoint) -> Value {
        let mut object = json!({
            "attributes": self.attributes(&told.attributes),
            "startTimeUnixNano": self.whole(told.start_time_unix_nano),
            "timeUnixNano": self.whole(told.time_unix_nano),
            "exemplars": self.list(&told.exemplars, |told| self.exemplar(told)),
            "flags": told.flags,
        });
        match told.value {
            None => {}
            Some(number_data_point::Value::AsDouble(value)) => object["asDouble"] = self.double(value),
            Some(number_data_point::Value::AsInt(value)) => object["asInt"] = self.whole(value),
        }
        object
    }

    fn metric(&self, metric: &Metric) -> Value {
        let mut object = json!({
            "name": metric.name, "description": metric.description, "unit": metric.unit,
            "metadata": self.attributes(&metric.metadata),
        });
        match &metric.data {
            None => {}
            Some(Data::Gauge(told)) => {
                object["gauge"] = json!({"dataPoints": self.list(&told.data_points, |point| self.number(point))});
            }
            Some(Data::Sum(told)) => {
                object["sum"] = json!({
                    "dataPoints": self.list(&told.data_points, |point| self.number(point)),
                    "aggregationTemporality": self.temporality(told.aggregation_temporality),
                    "isMonotonic": told.is_monotonic,
                });
            }
            Some(Data::Histogram(told)) => {
                let points = self.list(&told.data_points, |point| {
                    json!({
                        "attributes": self.attributes(&point.attributes),
                        "startTimeUnixNano": self.whole(point.start_time_unix_nano),
                        "timeUnixNano": self.whole(point.time_unix_nano),
                        "count": self.whole(point.count),
                        "sum": self.optional(point.sum),
                        "bucketCounts": self.list(&point.bucket_counts, |count| self.whole(*count)),
                        "explicitBounds": self.list(&point.explicit_bounds, |bound| self.double(*bound)),
                        "exemplars": self.list(&point.exemplars, |told| self.exemplar(told)),
                        "flags": point.flags,
                        "min": self.optional(point.min),
                        "max": self.optional(point.max),
                    })
                });
                let temporality = self.temporality(told.aggregation_temporality);
                object["histogram"] = json!({"dataPoints": points, "aggregationTemporality": temporality});
            }
            Some(Data::ExponentialHistogram(told)) => {
                let points = self.list(&told.data_points, |point| {
                    let buckets = |buckets: &Option<_>| {
                        use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
                        let told: Option<&Buckets> = buckets.as_ref();
                        told.map_or(Value::Null, |told| {
                            let counts = self.list(&told.bucket_counts, |count| self.whole(*count));
                            json!({"offset": told.offset, "bucketCounts": counts})
                        })
                    };
                    json!({
                        "attributes": self.attributes(&point.attributes),
                        "startTimeUnixNano": self.whole(point.start_time_unix_nano),
                        "timeUnixNano": self.whole(point.time_unix_nano),
                        "count": self.whole(point.count),
                        "sum": self.optional(point.sum),
                        "scale": self.whole(point.scale),
                        "zeroCount": self.whole(point.zero_count),
                        "positive": buckets(&point.positive),
                        "negative": buckets(&point.negative),
                        "flags": self.whole(point.flags),
                        "exemplars": [],
                        "min": self.optional(point.min),
                        "max": self.optional(point.max),
                        "zeroThreshold": self.double(point.zero_threshold),
                    })
                });
                let temporality = self.temporality(told.aggregation_temporality);
                object["exponentialHistogram"] = json!({"dataPoints": points, "aggregationTemporality": temporality});
            }
            Some(Data::Summary(told)) => {
                let points = self.list(&told.data_points, |point| {
                    let quantiles = self.list(
                        &point.quantile_values,
                        |told| json!({"quantile": self.double(told.quantile), "value": self.double(told.value)}),
                    );
                    json!({
                        "attributes": self.attributes(&point.attributes),
                        "startTimeUnixNano": self.whole(point.start_time_unix_nano),
                        "timeUnixNano": self.whole(point.time_unix_nano),
                        "count": self.whole(point.count),
                        "sum": self.double(point.sum),
                        "quantileValues": quantiles,
                        "flags": point.flags,
                    })
                });
                object["summary"] = json!({"dataPoints": points});
            }
        }
        object
    }

    /// The same with fields left out, in snake case, or of a later version.
    fn vary(&self, value: Value) -> Value {
        match value {
            Value::Array(values) => values.into_iter().map(|value| self.vary(value)).collect(),
            Value::Object(fields) => {
                let mut varied = Map::new();
                for (name, value) in fields {
                    if value.is_null() && self.way(2) == 0 {
                        continue;
                    }
                    let name = if self.way(4) == 0 { snake(&name) } else { name };
                    varied.insert(name, self.vary(value));
                }
                if self.way(8) == 0 {
                    varied.insert("ofALaterVersion".to_owned(), json!([{"asInt": "x"}, null, 1e300, {}]));
                }
                varied.into()
            }
            other => other,
        }
    }
}

fn snake(name: &str) -> String {
    name.chars()
        .flat_map(|char| {
            let capital = char.is_ascii_uppercase().then_some('_');
            capital.into_iter().chain([char.to_ascii_lowercase()])
        })
        .collect()
}

pub(super) fn request(request: &ExportMetricsServiceRequest, style: u64) -> Value {
    let style = Style(Cell::new(style));
    let resources = request.resource_metrics.iter().map(|told| {
        let scopes = style.list(&told.scope_metrics, |told| {
            let scope = told.scope.as_ref().map_or(Value::Null, |scope| {
                json!({
                    "name": scope.name, "version": scope.version, "attributes": style.attributes(&scope.attributes),
                    "droppedAttributesCount": style.whole(scope.dropped_attributes_count),
                })
            });
            let metrics = style.list(&told.metrics, |metric| style.metric(metric));
            json!({"scope": scope, "metrics": metrics, "schemaUrl": told.schema_url})
        });
        let resource = told.resource.as_ref().map_or(Value::Null, |resource| {
            json!({
                "attributes": style.attributes(&resource.attributes),
                "droppedAttributesCount": resource.dropped_attributes_count,
                "entityRefs": style.list(&resource.entity_refs, |entity| json!({
                    "schemaUrl": entity.schema_url, "type": entity.r#type,
                    "idKeys": entity.id_keys, "descriptionKeys": entity.description_keys,
                })),
            })
        });
        json!({"resource": resource, "scopeMetrics": scopes, "schemaUrl": told.schema_url})
    });
    let resources: Vec<Value> = resources.collect();
    // Without the one field that is known, it would be no request.
    let mut whole = style.vary(json!({"resourceMetrics": resources}));
    if let Value::Object(fields) = &mut whole
        && request.resource_metrics.is_empty()
    {
        fields.clear();
    }
    whole
}
