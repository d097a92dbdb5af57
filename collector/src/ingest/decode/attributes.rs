//! Attributes of a point, a resource or a scope, read as text.

use std::borrow::Cow;

use base64::Engine as _;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value::Value};

/// A list of attributes, by reference.
#[derive(Clone, Copy, Debug, Default)]
pub struct Attributes<'a>(pub &'a [KeyValue]);

impl<'a> Attributes<'a> {
    /// The value of the attribute `name`, as text; empty ones count as absent, and the last one of a name wins.
    pub fn get(self, name: &str) -> Option<Cow<'a, str>> {
        let found = self.0.iter().rev().find(|attribute| attribute.key == name)?;
        let value = text(found.value.as_ref()?);
        (!value.is_empty()).then_some(value)
    }

    /// The value as a `String`, empty when absent.
    pub fn owned(self, name: &str) -> String {
        self.get(name).map(Cow::into_owned).unwrap_or_default()
    }

    /// Whether the attribute is `true`.
    pub fn is_true(self, name: &str) -> bool {
        self.get(name).is_some_and(|value| value == "true")
    }

    /// All attributes that have a value, as text, in the order in which they came.
    pub fn iter(self) -> impl Iterator<Item = (&'a str, Cow<'a, str>)> {
        self.0.iter().filter_map(|attribute| {
            let value = text(attribute.value.as_ref()?);
            (!value.is_empty()).then_some((attribute.key.as_str(), value))
        })
    }
}

/// A value as text: strings as they are, numbers and booleans as written in JSON, bytes in base64, lists and maps as JSON.
fn text(value: &AnyValue) -> Cow<'_, str> {
    match &value.value {
        None | Some(Value::StringValueStrindex(_)) => Cow::Borrowed(""),
        Some(Value::StringValue(text)) => Cow::Borrowed(text),
        Some(Value::BoolValue(true)) => Cow::Borrowed("true"),
        Some(Value::BoolValue(false)) => Cow::Borrowed("false"),
        Some(Value::IntValue(number)) => Cow::Owned(number.to_string()),
        Some(Value::DoubleValue(number)) => Cow::Owned(number.to_string()),
        Some(Value::BytesValue(bytes)) => Cow::Owned(base64::engine::general_purpose::STANDARD.encode(bytes)),
        Some(Value::ArrayValue(_) | Value::KvlistValue(_)) => Cow::Owned(json(value).to_string()),
    }
}

fn json(value: &AnyValue) -> serde_json::Value {
    match &value.value {
        Some(Value::BoolValue(value)) => (*value).into(),
        Some(Value::IntValue(value)) => (*value).into(),
        Some(Value::DoubleValue(value)) => (*value).into(),
        Some(Value::ArrayValue(list)) => list.values.iter().map(json).collect(),
        Some(Value::KvlistValue(map)) => map
            .values
            .iter()
            .map(|pair| (pair.key.clone(), pair.value.as_ref().map_or(serde_json::Value::Null, json)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        _ => text(value).into(),
    }
}
