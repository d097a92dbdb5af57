//! One pass over the text: each value is checked against its field and written at once, so that nothing but protobuf is
//! kept of it.

use std::fmt::{self, Formatter};

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::fields::{BODY, Field, Message, Type};
use super::number::{Told, base64, hex};
use super::wire::Wire;
use super::{Fault, NoRoom};

/// Most characters of a value that an error repeats.
const SHOWN: usize = 40;

/// Where the walk is.
struct Walk<R> {
    wire: Wire<R>,
    path: Vec<Step>,
    /// Whether it ended for want of memory.
    full: bool,
}

enum Step {
    Field(&'static str),
    Element(usize),
}

/// A value that is to be read: that of a field, or an element of its list.
struct Value<'w, R> {
    walk: &'w mut Walk<R>,
    field: &'static Field,
    element: bool,
}

/// The name of a field, or one that nobody knows.
struct Key(&'static Message);

/// The protobuf message that `body` is.
pub(super) fn request<R: FnMut(usize) -> Result<(), NoRoom>>(body: &[u8], room: R) -> Result<Vec<u8>, Fault> {
    let mut walk = Walk { wire: Wire::new(room), path: Vec::new(), full: false };
    // Ends with an error at objects and lists that are nested more than 128 deep.
    let mut json = serde_json::Deserializer::from_slice(body);
    let read = Value { walk: &mut walk, field: &BODY, element: false }.deserialize(&mut json);
    match read.and_then(|there| if there { json.end() } else { Err(Error::custom("got null, expected an object")) }) {
        Ok(()) => Ok(walk.wire.finish()),
        Err(error) => Err(walk.fault(&error)),
    }
}

impl<R> Walk<R> {
    fn fault(&self, error: &serde_json::Error) -> Fault {
        if self.full {
            return Fault::NoRoom;
        }
        let mut path = String::new();
        for step in &self.path {
            match step {
                Step::Field(name) => {
                    let dot = if path.is_empty() { "" } else { "." };
                    path.push_str(dot);
                    path.push_str(name);
                }
                Step::Element(index) => path.push_str(&format!("[{index}]")),
            }
        }
        if path.is_empty() { Fault::Malformed(error.to_string()) } else { Fault::Malformed(format!("{path}: {error}")) }
    }

    /// `done`, or an error that ends the walk for want of memory.
    fn within<T, E: Error>(&mut self, done: Result<T, NoRoom>) -> Result<T, E> {
        done.map_err(|NoRoom| {
            self.full = true;
            E::custom("no room")
        })
    }
}

impl<R: FnMut(usize) -> Result<(), NoRoom>> Value<'_, R> {
    /// What is expected here, for people.
    fn expected(&self) -> &'static str {
        match self.field.of {
            _ if self.field.list && !self.element => "a list",
            Type::Message(_) => "an object",
            Type::Text => "a string",
            Type::Bytes => "a string of base64",
            Type::Hex => "a string of hexadecimal digits, two for each byte",
            Type::Number(number) => number.expected(),
        }
    }

    fn refuse<T, E: Error>(&self, got: impl fmt::Display) -> Result<T, E> {
        Err(E::custom(format_args!("got {got}, expected {}", self.expected())))
    }

    /// Writes a value that is no list and no object.
    fn plain<E: Error>(self, told: Told<'_>) -> Result<bool, E> {
        let number = self.field.number;
        if self.field.list && !self.element {
            return self.refuse(Shown(told));
        }
        let written = match (self.field.of, told) {
            (Type::Text, Told::Text(text)) => Some(self.walk.wire.text(number, text.as_bytes())),
            (Type::Bytes, Told::Text(text)) => base64(text).map(|bytes| self.walk.wire.text(number, &bytes)),
            (Type::Hex, Told::Text(text)) => hex(text).map(|bytes| self.walk.wire.text(number, &bytes)),
            (Type::Number(kind), told) => {
                kind.read(told).map(|written| self.walk.wire.number(number, written, self.element))
            }
            _ => None,
        };
        match written {
            Some(written) => self.walk.within(written).map(|()| true),
            None => self.refuse(Shown(told)),
        }
    }
}

impl<'de, R: FnMut(usize) -> Result<(), NoRoom>> DeserializeSeed<'de> for Value<'_, R> {
    /// Whether there was a value.
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<bool, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de, R: FnMut(usize) -> Result<(), NoRoom>> Visitor<'de> for Value<'_, R> {
    type Value = bool;

    fn expecting(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.expected())
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<bool, E> {
        self.plain(Told::Bool(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<bool, E> {
        self.plain(Told::Unsigned(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<bool, E> {
        self.plain(Told::Signed(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<bool, E> {
        self.plain(Told::Float(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<bool, E> {
        self.plain(Told::Text(value))
    }

    /// `null`: a field that is not there. An element of a list is always there.
    fn visit_unit<E: Error>(self) -> Result<bool, E> {
        if self.element { self.refuse("null") } else { Ok(false) }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<bool, A::Error> {
        let field = self.field;
        if !field.list || self.element {
            return self.refuse("a list");
        }
        let walk = self.walk;
        let packed = matches!(field.of, Type::Number(_));
        let open = if packed {
            let open = walk.wire.open(field.number);
            Some(walk.within(open)?)
        } else {
            None
        };
        for index in 0.. {
            walk.path.push(Step::Element(index));
            let more = list.next_element_seed(Value { walk: &mut *walk, field, element: true })?;
            walk.path.pop();
            if more.is_none() {
                break;
            }
        }
        if let Some(open) = open {
            walk.wire.close(field.number, open);
        }
        Ok(true)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<bool, A::Error> {
        let (Type::Message(message), true) = (self.field.of, !self.field.list || self.element) else {
            return self.refuse("an object");
        };
        let (number, walk) = (self.field.number, self.walk);
        let open = walk.wire.open(number);
        let open = walk.within(open)?;
        let mut seen = 0_u32;
        let mut chosen = None;
        let mut unknown = None;
        while let Some(key) = map.next_key_seed(Key(message))? {
            let index = match key {
                Ok(index) => index,
                Err(name) => {
                    map.next_value::<IgnoredAny>()?;
                    unknown.get_or_insert(name);
                    continue;
                }
            };
            let field = &message.fields[index];
            walk.path.push(Step::Field(field.name));
            if seen & (1 << index) != 0 {
                return Err(Error::custom("got it twice, expected it once"));
            }
            seen |= 1 << index;
            let there = map.next_value_seed(Value { walk: &mut *walk, field, element: false })?;
            if there
                && field.either
                && let Some(other) = chosen.replace(field.name)
            {
                return Err(Error::custom(format_args!("got it beside {other}, expected one of the two")));
            }
            walk.path.pop();
        }
        // An object of another kind, such as a request of traces, is not to be taken for an empty one.
        if let (0, 0, Some(name)) = (number, seen, unknown) {
            return Err(Error::custom(format_args!("got {name:?}, expected resourceMetrics")));
        }
        walk.wire.close(number, open);
        Ok(true)
    }
}

impl<'de> DeserializeSeed<'de> for Key {
    /// Which field of the message; otherwise, a part of the name.
    type Value = Result<usize, String>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_str(self)
    }
}

impl Visitor<'_> for Key {
    type Value = Result<usize, String>;

    fn expecting(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str("the name of a field")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<Self::Value, E> {
        let known = self.0.fields.iter().position(|field| field.is_named(key));
        Ok(known.ok_or_else(|| key.chars().take(SHOWN).collect()))
    }
}

/// A value as an error shows it.
struct Shown<'a>(Told<'a>);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Told::Bool(value) => value.fmt(formatter),
            Told::Unsigned(value) => value.fmt(formatter),
            Told::Signed(value) => value.fmt(formatter),
            Told::Float(value) => value.fmt(formatter),
            Told::Text(text) => match text.char_indices().nth(SHOWN) {
                Some((end, _)) => write!(formatter, "{:?} and more", &text[..end]),
                None => write!(formatter, "{text:?}"),
            },
        }
    }
}
