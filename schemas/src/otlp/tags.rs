//! A walk over the tags of an `ExportMetricsServiceRequest`, which decodes nothing and takes no memory.
//!
//! Two bytes of protobuf can be a whole data point, so how much memory a request takes is told from its tags, before it is
//! decoded. What each message and field weighs is up to who receives it: [`Weigh`].

/// Deepest nesting; prost has the same limit.
const DEEPEST: u32 = 100;

/// A message of OTLP metrics (<https://github.com/open-telemetry/opentelemetry-proto>).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(missing_docs, reason = "they are named as in OTLP")]
pub enum Kind {
    Request,
    ResourceMetrics,
    Resource,
    EntityRef,
    ScopeMetrics,
    Scope,
    Metric,
    /// A gauge or a sum.
    Numbers,
    Histograms,
    Exponentials,
    Summaries,
    NumberPoint,
    HistogramPoint,
    ExponentialPoint,
    SummaryPoint,
    Buckets,
    Quantile,
    Exemplar,
    KeyValue,
    AnyValue,
    Array,
    Pairs,
}

/// What a field of a message holds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Field {
    /// A message.
    Message(Kind),
    /// A text or bytes.
    Text,
    /// Numbers of a histogram, of this many bytes or more each.
    Numbers(usize),
}

/// A field that is no message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Plain {
    /// What it holds; `None` for what takes no memory beyond its message's, or that nobody reads.
    pub field: Option<Field>,
    /// Its length where it tells one: a text, bytes, packed numbers. `None` for a single number.
    pub bytes: Option<usize>,
}

/// What a message takes, added up as its tags are walked over.
pub trait Weigh {
    /// A message without its fields.
    fn of(kind: Kind) -> Self;

    /// A message that is in this one, after all of its fields.
    fn add(&mut self, inner: Self);

    /// A field that is no message.
    fn plain(&mut self, plain: Plain);

    /// After the last field of a message of this `kind`.
    fn end(&mut self, kind: Kind);
}

impl Kind {
    /// Whether it is a point of a metric.
    pub fn is_point(self) -> bool {
        matches!(self, Self::NumberPoint | Self::HistogramPoint | Self::ExponentialPoint | Self::SummaryPoint)
    }

    /// The field `number`; `None` for one that takes no memory beyond its message's, or that nobody reads.
    fn field(self, number: u64) -> Option<Field> {
        use Field::{Message, Numbers, Text};
        Some(match (self, number) {
            (Self::Request, 1) => Message(Self::ResourceMetrics),
            (Self::ResourceMetrics, 1) => Message(Self::Resource),
            (Self::ResourceMetrics, 2) => Message(Self::ScopeMetrics),
            (Self::Resource, 1)
            | (Self::Scope, 3)
            | (Self::Metric, 12)
            | (Self::NumberPoint | Self::SummaryPoint | Self::Exemplar, 7)
            | (Self::HistogramPoint, 9)
            | (Self::ExponentialPoint | Self::Pairs, 1) => Message(Self::KeyValue),
            (Self::Resource, 3) => Message(Self::EntityRef),
            (Self::ScopeMetrics, 1) => Message(Self::Scope),
            (Self::ScopeMetrics, 2) => Message(Self::Metric),
            (Self::Metric, 5 | 7) => Message(Self::Numbers),
            (Self::Metric, 9) => Message(Self::Histograms),
            (Self::Metric, 10) => Message(Self::Exponentials),
            (Self::Metric, 11) => Message(Self::Summaries),
            (Self::Numbers, 1) => Message(Self::NumberPoint),
            (Self::Histograms, 1) => Message(Self::HistogramPoint),
            (Self::Exponentials, 1) => Message(Self::ExponentialPoint),
            (Self::Summaries, 1) => Message(Self::SummaryPoint),
            (Self::NumberPoint, 5) | (Self::HistogramPoint, 8) | (Self::ExponentialPoint, 11) => {
                Message(Self::Exemplar)
            }
            (Self::SummaryPoint, 6) => Message(Self::Quantile),
            (Self::ExponentialPoint, 8 | 9) => Message(Self::Buckets),
            (Self::HistogramPoint, 6 | 7) => Numbers(8),
            (Self::Buckets, 2) => Numbers(1),
            (Self::KeyValue, 2) | (Self::Array, 1) => Message(Self::AnyValue),
            (Self::AnyValue, 5) => Message(Self::Array),
            (Self::AnyValue, 6) => Message(Self::Pairs),
            (Self::ResourceMetrics | Self::ScopeMetrics, 3)
            | (Self::Scope, 1 | 2)
            | (Self::Metric, 1..=3)
            | (Self::Exemplar, 4 | 5)
            | (Self::KeyValue, 1)
            | (Self::AnyValue, 1 | 7)
            | (Self::EntityRef | Self::Quantile, _) => Text,
            _ => return None,
        })
    }
}

/// What the message `body` of this `kind` weighs; `None` when it is no protobuf message, or is nested too deep.
pub fn weigh<W: Weigh>(kind: Kind, body: &[u8]) -> Option<W> {
    message(kind, body, 0)
}

fn message<W: Weigh>(kind: Kind, mut body: &[u8], depth: u32) -> Option<W> {
    if depth > DEEPEST {
        return None;
    }
    let mut weight = W::of(kind);
    while !body.is_empty() {
        let tag = varint(&mut body)?;
        let field = kind.field(tag >> 3);
        let number = Plain { field, bytes: None };
        match tag & 7 {
            0 => {
                varint(&mut body)?;
                weight.plain(number);
            }
            1 => {
                take(&mut body, 8)?;
                weight.plain(number);
            }
            2 => {
                let length = usize::try_from(varint(&mut body)?).ok()?;
                let content = take(&mut body, length)?;
                match field {
                    Some(Field::Message(inner)) => weight.add(message(inner, content, depth + 1)?),
                    _ => weight.plain(Plain { field, bytes: Some(length) }),
                }
            }
            5 => {
                take(&mut body, 4)?;
            }
            _ => return None,
        }
    }
    weight.end(kind);
    Some(weight)
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
    use proptest::prelude::*;

    use super::*;

    /// How many messages there are, how deep they are, and what their other fields are.
    #[derive(Debug, Default, PartialEq)]
    struct Seen {
        messages: Vec<Kind>,
        plain: Vec<Plain>,
        ended: usize,
    }

    impl Weigh for Seen {
        fn of(kind: Kind) -> Self {
            Self { messages: vec![kind], ..Self::default() }
        }

        fn add(&mut self, inner: Self) {
            self.messages.extend(inner.messages);
            self.plain.extend(inner.plain);
            self.ended += inner.ended;
        }

        fn plain(&mut self, plain: Plain) {
            self.plain.push(plain);
        }

        fn end(&mut self, _: Kind) {
            self.ended += 1;
        }
    }

    /// A field of bytes.
    fn field(number: u8, content: &[u8]) -> Vec<u8> {
        let mut bytes = vec![number << 3 | 2, u8::try_from(content.len()).unwrap()];
        bytes.extend(content);
        bytes
    }

    #[test]
    fn each_message_and_field_is_passed_once() {
        // A name, and a histogram of one point: a count as a fixed number, packed counts, one single count, an attribute.
        let mut point = vec![4 << 3 | 1, 1, 0, 0, 0, 0, 0, 0, 0];
        point.extend(field(6, &[0; 16]));
        point.extend([6 << 3 | 1, 1, 0, 0, 0, 0, 0, 0, 0]);
        point.extend(field(9, &field(1, b"key")));
        let mut metric = field(1, b"name");
        metric.extend(field(9, &field(1, &point)));
        let request = field(1, &field(2, &field(2, &metric)));
        let seen: Seen = weigh(Kind::Request, &request).unwrap();
        assert_eq!(
            seen.messages,
            [
                Kind::Request,
                Kind::ResourceMetrics,
                Kind::ScopeMetrics,
                Kind::Metric,
                Kind::Histograms,
                Kind::HistogramPoint,
                Kind::KeyValue
            ]
        );
        let numbers = Some(Field::Numbers(8));
        let text = |bytes| Plain { field: Some(Field::Text), bytes: Some(bytes) };
        let mut plain = seen.plain;
        plain.sort_by_key(|plain| (plain.bytes, plain.field.is_some()));
        assert_eq!(
            plain,
            [
                Plain { field: None, bytes: None },
                Plain { field: numbers, bytes: None },
                text(3),
                text(4),
                Plain { field: numbers, bytes: Some(16) },
            ]
        );
        assert_eq!(seen.ended, 7);
    }

    #[test]
    fn what_is_no_message_is_told_and_nesting_ends() {
        for broken in [b"\x0a\x05abc".as_slice(), &[0xff; 11], &[0x0b], &[0x08], &[0x0d, 1, 2]] {
            assert_eq!(weigh::<Seen>(Kind::Request, broken), None, "{broken:?}");
        }
        assert_eq!(weigh::<Seen>(Kind::Request, b"").map(|seen| seen.ended), Some(1));
        // Arrays and values in each other have the fields 5 and 1.
        let nested = |depth: usize| {
            (0..depth).fold(Vec::new(), |inner: Vec<u8>, at| {
                let mut length = inner.len();
                let mut outer = vec![if at % 2 == 0 { 1 << 3 | 2 } else { 5 << 3 | 2 }];
                while length > 0x7f {
                    outer.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
                    length >>= 7;
                }
                outer.push(u8::try_from(length).unwrap());
                outer.extend(inner);
                outer
            })
        };
        assert!(weigh::<Seen>(Kind::AnyValue, &nested(100)).is_some());
        assert!(weigh::<Seen>(Kind::AnyValue, &nested(102)).is_none());
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic_and_no_more_is_passed_than_there_is(body in prop::collection::vec(any::<u8>(), 0..300)) {
            if let Some(seen) = weigh::<Seen>(Kind::Request, &body) {
                // A message has two bytes or more before it, a field one or more.
                prop_assert!(2 * (seen.messages.len() - 1) + seen.plain.len() <= body.len());
                prop_assert_eq!(seen.ended, seen.messages.len());
            }
        }
    }
}
