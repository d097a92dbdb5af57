//! What the messages of OTLP metrics consist of, under their names in JSON
//! (<https://github.com/open-telemetry/opentelemetry-proto>).

/// A message.
pub(super) struct Message {
    pub(super) fields: &'static [Field],
}

/// A field of a message.
pub(super) struct Field {
    /// In lower camel case.
    pub(super) name: &'static str,
    /// Its number in protobuf.
    pub(super) number: u32,
    pub(super) of: Type,
    /// Whether it is a list.
    pub(super) list: bool,
    /// Whether it is one of several of which a message has one at most. No message of OTLP metrics has two such groups.
    pub(super) either: bool,
}

/// What a field, or each element of a list, holds.
#[derive(Clone, Copy)]
pub(super) enum Type {
    Message(&'static Message),
    Text,
    /// In base64.
    Bytes,
    /// Bytes in hexadecimal digits, as OTLP wants ids.
    Hex,
    Number(Number),
}

/// What a number can be, and how protobuf writes it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Number {
    Bool,
    Double,
    Fixed64,
    Sfixed64,
    Int64,
    Uint64,
    Int32,
    Uint32,
    Sint32,
    /// An `AggregationTemporality`.
    Temporality,
}

impl Field {
    /// Whether `key` names it, in lower camel case or in snake case.
    pub(super) fn is_named(&self, key: &str) -> bool {
        if key == self.name {
            return true;
        }
        let mut key = key.bytes();
        let snake = self.name.bytes().all(|byte| match byte {
            b'A'..=b'Z' => key.next() == Some(b'_') && key.next() == Some(byte.to_ascii_lowercase()),
            _ => key.next() == Some(byte),
        });
        snake && key.next().is_none()
    }
}

const fn one(name: &'static str, number: u32, of: Type) -> Field {
    Field { name, number, of, list: false, either: false }
}

const fn list(name: &'static str, number: u32, of: Type) -> Field {
    Field { name, number, of, list: true, either: false }
}

const fn either(name: &'static str, number: u32, of: Type) -> Field {
    Field { name, number, of, list: false, either: true }
}

use self::Number::{Bool, Double, Fixed64, Int32, Int64, Sfixed64, Sint32, Temporality, Uint32, Uint64};
use self::Type::{Bytes, Hex, Message as Of, Number as N, Text};

/// The whole of a body.
pub(super) static BODY: Field = one("body", 0, Of(&REQUEST));

static REQUEST: Message = Message { fields: &[list("resourceMetrics", 1, Of(&RESOURCE_METRICS))] };

static RESOURCE_METRICS: Message = Message {
    fields: &[
        one("resource", 1, Of(&RESOURCE)),
        list("scopeMetrics", 2, Of(&SCOPE_METRICS)),
        one("schemaUrl", 3, Text),
    ],
};

static RESOURCE: Message = Message {
    fields: &[
        list("attributes", 1, Of(&KEY_VALUE)),
        one("droppedAttributesCount", 2, N(Uint32)),
        list("entityRefs", 3, Of(&ENTITY_REF)),
    ],
};

static ENTITY_REF: Message = Message {
    fields: &[
        one("schemaUrl", 1, Text),
        one("type", 2, Text),
        list("idKeys", 3, Text),
        list("descriptionKeys", 4, Text),
    ],
};

static SCOPE_METRICS: Message =
    Message { fields: &[one("scope", 1, Of(&SCOPE)), list("metrics", 2, Of(&METRIC)), one("schemaUrl", 3, Text)] };

static SCOPE: Message = Message {
    fields: &[
        one("name", 1, Text),
        one("version", 2, Text),
        list("attributes", 3, Of(&KEY_VALUE)),
        one("droppedAttributesCount", 4, N(Uint32)),
    ],
};

static METRIC: Message = Message {
    fields: &[
        one("name", 1, Text),
        one("description", 2, Text),
        one("unit", 3, Text),
        either("gauge", 5, Of(&GAUGE)),
        either("sum", 7, Of(&SUM)),
        either("histogram", 9, Of(&HISTOGRAM)),
        either("exponentialHistogram", 10, Of(&EXPONENTIAL_HISTOGRAM)),
        either("summary", 11, Of(&SUMMARY)),
        list("metadata", 12, Of(&KEY_VALUE)),
    ],
};

static GAUGE: Message = Message { fields: &[list("dataPoints", 1, Of(&NUMBER_POINT))] };

static SUM: Message = Message {
    fields: &[
        list("dataPoints", 1, Of(&NUMBER_POINT)),
        one("aggregationTemporality", 2, N(Temporality)),
        one("isMonotonic", 3, N(Bool)),
    ],
};

static HISTOGRAM: Message = Message {
    fields: &[list("dataPoints", 1, Of(&HISTOGRAM_POINT)), one("aggregationTemporality", 2, N(Temporality))],
};

static EXPONENTIAL_HISTOGRAM: Message = Message {
    fields: &[list("dataPoints", 1, Of(&EXPONENTIAL_POINT)), one("aggregationTemporality", 2, N(Temporality))],
};

static SUMMARY: Message = Message { fields: &[list("dataPoints", 1, Of(&SUMMARY_POINT))] };

static NUMBER_POINT: Message = Message {
    fields: &[
        one("startTimeUnixNano", 2, N(Fixed64)),
        one("timeUnixNano", 3, N(Fixed64)),
        either("asDouble", 4, N(Double)),
        list("exemplars", 5, Of(&EXEMPLAR)),
        either("asInt", 6, N(Sfixed64)),
        list("attributes", 7, Of(&KEY_VALUE)),
        one("flags", 8, N(Uint32)),
    ],
};

static HISTOGRAM_POINT: Message = Message {
    fields: &[
        one("startTimeUnixNano", 2, N(Fixed64)),
        one("timeUnixNano", 3, N(Fixed64)),
        one("count", 4, N(Fixed64)),
        one("sum", 5, N(Double)),
        list("bucketCounts", 6, N(Fixed64)),
        list("explicitBounds", 7, N(Double)),
        list("exemplars", 8, Of(&EXEMPLAR)),
        list("attributes", 9, Of(&KEY_VALUE)),
        one("flags", 10, N(Uint32)),
        one("min", 11, N(Double)),
        one("max", 12, N(Double)),
    ],
};

static EXPONENTIAL_POINT: Message = Message {
    fields: &[
        list("attributes", 1, Of(&KEY_VALUE)),
        one("startTimeUnixNano", 2, N(Fixed64)),
        one("timeUnixNano", 3, N(Fixed64)),
        one("count", 4, N(Fixed64)),
        one("sum", 5, N(Double)),
        one("scale", 6, N(Sint32)),
        one("zeroCount", 7, N(Fixed64)),
        one("positive", 8, Of(&BUCKETS)),
        one("negative", 9, Of(&BUCKETS)),
        one("flags", 10, N(Uint32)),
        list("exemplars", 11, Of(&EXEMPLAR)),
        one("min", 12, N(Double)),
        one("max", 13, N(Double)),
        one("zeroThreshold", 14, N(Double)),
    ],
};

static BUCKETS: Message = Message { fields: &[one("offset", 1, N(Sint32)), list("bucketCounts", 2, N(Uint64))] };

static SUMMARY_POINT: Message = Message {
    fields: &[
        one("startTimeUnixNano", 2, N(Fixed64)),
        one("timeUnixNano", 3, N(Fixed64)),
        one("count", 4, N(Fixed64)),
        one("sum", 5, N(Double)),
        list("quantileValues", 6, Of(&QUANTILE)),
        list("attributes", 7, Of(&KEY_VALUE)),
        one("flags", 8, N(Uint32)),
    ],
};

static QUANTILE: Message = Message { fields: &[one("quantile", 1, N(Double)), one("value", 2, N(Double))] };

static EXEMPLAR: Message = Message {
    fields: &[
        one("timeUnixNano", 2, N(Fixed64)),
        either("asDouble", 3, N(Double)),
        one("spanId", 4, Hex),
        one("traceId", 5, Hex),
        either("asInt", 6, N(Sfixed64)),
        list("filteredAttributes", 7, Of(&KEY_VALUE)),
    ],
};

static KEY_VALUE: Message =
    Message { fields: &[one("key", 1, Text), one("value", 2, Of(&ANY_VALUE)), one("keyStrindex", 3, N(Int32))] };

static ANY_VALUE: Message = Message {
    fields: &[
        either("stringValue", 1, Text),
        either("boolValue", 2, N(Bool)),
        either("intValue", 3, N(Int64)),
        either("doubleValue", 4, N(Double)),
        either("arrayValue", 5, Of(&ARRAY)),
        either("kvlistValue", 6, Of(&PAIRS)),
        either("bytesValue", 7, Bytes),
        either("stringValueStrindex", 8, N(Int32)),
    ],
};

static ARRAY: Message = Message { fields: &[list("values", 1, Of(&ANY_VALUE))] };

static PAIRS: Message = Message { fields: &[list("values", 1, Of(&KEY_VALUE))] };
