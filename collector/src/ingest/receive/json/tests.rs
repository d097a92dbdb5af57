//! JSON as senders write it, and as they should not.

mod encode;
mod messages;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value;
use opentelemetry_proto::tonic::metrics::v1::{AggregationTemporality, NumberDataPoint, metric, number_data_point};
use proptest::prelude::*;
use prost::Message as _;
use serde_json::json;

use super::{Fault, NoRoom, request, to_protobuf};

/// A request with this one metric, as text.
fn with_metric(metric: &serde_json::Value) -> String {
    json!({"resourceMetrics": [{"scopeMetrics": [{"metrics": [metric]}]}]}).to_string()
}

fn with_point(point: &serde_json::Value) -> String {
    with_metric(&json!({"name": "g", "gauge": {"dataPoints": [point]}}))
}

fn metric_of(text: &str) -> metric::Data {
    let request = request(text.as_bytes()).unwrap();
    request.resource_metrics[0].scope_metrics[0].metrics[0].data.clone().unwrap()
}

fn point_of(point: &serde_json::Value) -> NumberDataPoint {
    let metric::Data::Gauge(gauge) = metric_of(&with_point(point)) else { panic!("a gauge") };
    gauge.data_points[0].clone()
}

fn refusal(text: &str) -> String {
    match request(text.as_bytes()) {
        Err(Fault::Malformed(message)) => message,
        other => panic!("{text} is {other:?}"),
    }
}

#[test]
fn c10_whole_numbers_may_be_strings() {
    for told in [json!("7"), json!(7), json!(7.0), json!("07")] {
        assert_eq!(point_of(&json!({"asInt": told})).value, Some(number_data_point::Value::AsInt(7)));
    }
    let point =
        point_of(&json!({"asInt": "-9223372036854775808", "timeUnixNano": "18446744073709551615", "flags": "1"}));
    assert_eq!(point.value, Some(number_data_point::Value::AsInt(i64::MIN)));
    assert_eq!((point.time_unix_nano, point.flags), (u64::MAX, 1));
    let point = point_of(&json!({"timeUnixNano": u64::MAX, "asInt": -7, "startTimeUnixNano": 1e15}));
    assert_eq!((point.time_unix_nano, point.start_time_unix_nano), (u64::MAX, 1_000_000_000_000_000));
}

#[test]
fn c14_numbers_that_are_none_are_told_as_such() {
    let value = |told| match point_of(&json!({"asDouble": told})).value {
        Some(number_data_point::Value::AsDouble(value)) => value,
        other => panic!("{other:?}"),
    };
    assert!(value(json!("NaN")).is_nan());
    assert_eq!(value(json!("Infinity")), f64::INFINITY);
    assert_eq!(value(json!("-Infinity")), f64::NEG_INFINITY);
    assert_eq!(value(json!("-2.5e-3")), -0.0025);
    assert_eq!(value(json!(3)), 3.0);
}

#[test]
fn c14_enums_may_be_names_and_what_is_null_is_absent() {
    let delta = AggregationTemporality::Delta as i32;
    for told in [json!("AGGREGATION_TEMPORALITY_DELTA"), json!(1)] {
        let text = with_metric(&json!({"sum": {"aggregationTemporality": told, "dataPoints": null}, "gauge": null}));
        let metric::Data::Sum(sum) = metric_of(&text) else { panic!("a sum") };
        assert_eq!((sum.aggregation_temporality, sum.data_points.len()), (delta, 0));
    }
    // One that nobody knows is kept, so that its points are rejected and counted.
    let metric::Data::Sum(sum) = metric_of(&with_metric(&json!({"sum": {"aggregationTemporality": 9}}))) else {
        panic!("a sum")
    };
    assert_eq!(sum.aggregation_temporality, 9);
    let point = point_of(&json!({"attributes": null, "asInt": 1, "asDouble": null, "exemplars": null}));
    assert_eq!((point.attributes.len(), point.value), (0, Some(number_data_point::Value::AsInt(1))));
    let text = r#"{"resourceMetrics": [{"resource": {"attributes": null}, "scopeMetrics": null, "schemaUrl": null}]}"#;
    let request = request(text.as_bytes()).unwrap();
    assert!(request.resource_metrics[0].resource.as_ref().unwrap().attributes.is_empty());
}

#[test]
fn what_is_wrong_is_told_with_its_path_and_what_was_expected() {
    let point = "resourceMetrics[0].scopeMetrics[0].metrics[0].gauge.dataPoints[0]";
    let metric = "resourceMetrics[0].scopeMetrics[0].metrics[0]";
    for (told, path, what) in [
        (json!({"asInt": "x"}), "asInt", "got \"x\", expected a whole number from -92"),
        (json!({"asInt": 1.5}), "asInt", "got 1.5, expected a whole number"),
        (json!({"asInt": 1e16}), "asInt", "got 10000000000000000, expected a whole number"),
        (json!({"asInt": true}), "asInt", "got true, expected a whole number"),
        (json!({"asInt": "9223372036854775808"}), "asInt", "got \"9223372036854775808\", expected"),
        (json!({"asInt": "+7"}), "asInt", "got \"+7\", expected"),
        (json!({"asInt": ""}), "asInt", "got \"\", expected"),
        (json!({"asDouble": "nan"}), "asDouble", "got \"nan\", expected a number, or \"NaN\""),
        (json!({"asDouble": "1e999"}), "asDouble", "got \"1e999\", expected a number"),
        (json!({"asDouble": [1]}), "asDouble", "got a list, expected a number"),
        (json!({"asInt": 1, "asDouble": 1.0}), "asDouble", "got it beside asInt, expected one of the two"),
        (json!({"asInt": 1, "as_int": 1}), "asInt", "got it twice, expected it once"),
        (json!({"timeUnixNano": -1}), "timeUnixNano", "got -1, expected a whole number from 0 to 18446744073709551615"),
        (json!({"flags": 4_294_967_296_u64}), "flags", "got 4294967296, expected a whole number from 0 to 4294967295"),
        (json!({"attributes": {"a": "b"}}), "attributes", "got an object, expected a list"),
        (json!({"attributes": [null]}), "attributes[0]", "got null, expected an object"),
        (json!({"attributes": [{}, {"key": 7}]}), "attributes[1].key", "got 7, expected a string"),
        (json!({"attributes": [{"value": "v"}]}), "attributes[0].value", "got \"v\", expected an object"),
        (
            json!({"attributes": [{"value": {"arrayValue": {"values": [{"boolValue": "true"}]}}}]}),
            "attributes[0].value.arrayValue.values[0].boolValue",
            "got \"true\", expected true or false",
        ),
        (
            json!({"attributes": [{"value": {"bytesValue": "%"}}]}),
            "attributes[0].value.bytesValue",
            "got \"%\", expected a string of base64",
        ),
        (
            json!({"exemplars": [{"traceId": "abc"}]}),
            "exemplars[0].traceId",
            "got \"abc\", expected a string of hexadecimal digits",
        ),
    ] {
        let message = refusal(&with_point(&told));
        assert!(message.starts_with(&format!("{point}.{path}: {what}")), "{told} is told as {message}");
        assert!(message.contains(" at line 1 column "), "{message}");
    }
    let told = refusal(&with_metric(&json!({"sum": {"aggregationTemporality": "delta"}})));
    assert!(told.starts_with(&format!("{metric}.sum.aggregationTemporality: got \"delta\", expected 1 or")), "{told}");
    let told = refusal(&with_metric(&json!({"sum": {}, "gauge": {}})));
    assert!(told.starts_with(&format!("{metric}.gauge: got it beside sum")), "{told}");
    let told = refusal(&with_metric(&json!({"name": "x".repeat(1_000_000), "unit": 1})));
    assert!(told.len() < 200, "{told}");
    let long = refusal(&with_point(&json!({"asInt": "ü".repeat(1_000_000)})));
    assert!(long.len() < 400, "{long}");
}

#[test]
fn what_is_no_request_is_not_an_empty_one() {
    assert_eq!(request(b"{}").unwrap(), ExportMetricsServiceRequest::default());
    assert_eq!(request(br#"{"resourceMetrics": []}"#).unwrap(), ExportMetricsServiceRequest::default());
    for (text, what) in [
        ("", "EOF while parsing a value at line 1 column 0"),
        ("null", "got null, expected an object"),
        ("[]", "got a list, expected an object at line 1 column 2"),
        ("7", "got 7, expected an object at line 1 column 1"),
        ("{} {}", "trailing characters at line 1 column 4"),
        (r#"{"resourceLogs": []}"#, "got \"resourceLogs\", expected resourceMetrics at line 1 column 20"),
        (r#"{"resourceMetrics": [{"#, "resourceMetrics[0]: EOF while parsing an object at line 1 column 22"),
    ] {
        assert_eq!(refusal(text), what);
    }
    assert!(request(b"{\"resourceMetrics\": [{\"schemaUrl\": \"\xff\"}]}").is_err());
    assert!(request(br#"{"resourceMetrics": [{"schemaUrl": "\ud800"}]}"#).is_err());
}

#[test]
fn fields_that_nobody_knows_are_passed_over() {
    let text = r#"{"new": {"deep": [1, {"x": null}]}, "resource_metrics": [{"scopeMetrics": [
        {"metrics": [{"name": "m", "later": "y", "gauge": {"data_points": [{"asInt": "1", "z": [[]]}]}}]}]}]}"#;
    let metric::Data::Gauge(gauge) = metric_of(text) else { panic!("a gauge") };
    assert_eq!(gauge.data_points[0].value, Some(number_data_point::Value::AsInt(1)));
    // However deep: nothing is called for it again and again.
    let deep = format!(r#"{{"resourceMetrics": [], "new": {}{}}}"#, "[".repeat(1_000_000), "]".repeat(1_000_000));
    assert_eq!(request(deep.as_bytes()).unwrap(), ExportMetricsServiceRequest::default());
}

#[test]
fn values_may_be_nested_as_deep_as_protobuf_allows_and_not_deeper() {
    let nested = |depth: usize| {
        let open = r#"{"kvlistValue":{"values":[{"key":"k","value":"#;
        let value = format!("{}{}{}", open.repeat(depth), r#"{"stringValue":"v"}"#, "}]}}".repeat(depth));
        format!(r#"{{"resourceMetrics":[{{"resource":{{"attributes":[{{"key":"a","value":{value}}}]}}}}]}}"#)
    };
    let request = request(nested(30).as_bytes()).unwrap();
    let value = request.resource_metrics[0].resource.as_ref().unwrap().attributes[0].value.clone();
    assert!(matches!(value.unwrap().value, Some(any_value::Value::KvlistValue(_))));
    assert!(super::super::cost::of(&request.encode_to_vec()).is_some());
    for depth in [31, 1_000, 100_000] {
        assert!(refusal(&nested(depth)).contains("recursion limit exceeded"));
    }
}

#[test]
fn memory_is_asked_for_before_it_is_taken() {
    let text = with_point(&json!({"attributes": vec![json!({}); 100_000]}));
    let mut asked = 0;
    let none = to_protobuf(text.as_bytes(), |bytes| {
        asked = bytes;
        if bytes > 100_000 { Err(NoRoom) } else { Ok(()) }
    });
    assert_eq!(none, Err(Fault::NoRoom));
    assert!((100_000..250_000).contains(&asked), "{asked}");
    let mut most = 0;
    let message = to_protobuf(text.as_bytes(), |bytes| {
        most = bytes;
        Ok(())
    });
    assert!(message.unwrap().len() <= most);
}

proptest! {
    #[test]
    fn what_was_written_as_json_is_read_as_it_was(request in messages::request(), style in any::<u64>()) {
        let text = encode::request(&request, style).to_string();
        let read = super::request(text.as_bytes());
        // Encoded, since a number that is none is not equal to itself.
        prop_assert_eq!(read.map(|read| read.encode_to_vec()).map_err(|error| error.to_string()), Ok(request.encode_to_vec()), "{}", text);
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = request(&bytes);
    }

    #[test]
    fn no_damage_makes_it_panic(
        request in messages::request(), style in any::<u64>(), place in any::<prop::sample::Index>(), byte in any::<u8>(),
    ) {
        let mut text = encode::request(&request, style).to_string().into_bytes();
        let place = place.index(text.len());
        text[place] = byte;
        let _ = super::request(&text);
        text.truncate(place);
        prop_assert!(super::request(&text).is_err());
    }
}
