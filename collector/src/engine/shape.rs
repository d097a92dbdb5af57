//! How many bytes a column takes in ClickHouse's Native format: its type's name, read as a shape.

use super::error::Failure;

/// A type, as far as its bytes go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// So many bytes a row.
    Fixed(usize),
    /// A length and bytes.
    Text,
    /// A byte a row that says whether it is NULL, then the values.
    Nullable(Box<Shape>),
    /// The end of each row's list, then the elements of all of them.
    Array(Box<Shape>),
    /// One column after the other.
    Tuple(Vec<Shape>),
    /// A dictionary, and each row's place in it.
    Low(Box<Shape>),
}

impl Shape {
    /// Reads a type's name.
    ///
    /// # Errors
    /// A type whose bytes are not known here, with ClickHouse's `NOT_IMPLEMENTED`.
    pub fn of(name: &str) -> Result<Self, Failure> {
        let unknown = || Failure::new(48, "NOT_IMPLEMENTED", format!("type {name} in Native with a client's revision"));
        let (base, inside) = match name.split_once('(') {
            Some((base, rest)) => (base, arguments(rest.strip_suffix(')').ok_or_else(unknown)?)),
            None => (name, Vec::new()),
        };
        let only = |at: usize| inside.get(at).ok_or_else(unknown).and_then(|inner| Self::of(inner));
        let number = |at: usize| inside.get(at).and_then(|text| text.parse::<usize>().ok()).ok_or_else(unknown);
        let elements = || inside.iter().map(|element| Self::of(unnamed(element))).collect::<Result<Vec<_>, _>>();
        let list = |inner: Self| Self::Array(Box::new(inner));
        let point = || Self::Tuple(vec![Self::Fixed(8), Self::Fixed(8)]);
        Ok(match base {
            "UInt8" | "Int8" | "Bool" | "Enum8" | "Nothing" => Self::Fixed(1),
            "UInt16" | "Int16" | "Date" | "Enum16" | "BFloat16" => Self::Fixed(2),
            "UInt32" | "Int32" | "Float32" | "DateTime" | "Date32" | "IPv4" | "Time" => Self::Fixed(4),
            "UInt64" | "Int64" | "Float64" | "DateTime64" | "Time64" => Self::Fixed(8),
            "UInt128" | "Int128" | "UUID" | "IPv6" => Self::Fixed(16),
            "UInt256" | "Int256" => Self::Fixed(32),
            _ if base.starts_with("Interval") => Self::Fixed(8),
            "Decimal" => Self::Fixed(match number(0)? {
                0..=9 => 4,
                10..=18 => 8,
                19..=38 => 16,
                _ => 32,
            }),
            "FixedString" => Self::Fixed(number(0)?),
            "String" => Self::Text,
            "Nullable" => Self::Nullable(Box::new(only(0)?)),
            "Array" => list(only(0)?),
            "Tuple" if !inside.is_empty() => Self::Tuple(elements()?),
            "Map" => list(Self::Tuple(vec![only(0)?, only(1)?])),
            "Nested" => list(Self::Tuple(elements()?)),
            "LowCardinality" => Self::Low(Box::new(match only(0)? {
                Self::Nullable(inner) => *inner,
                inner => inner,
            })),
            "SimpleAggregateFunction" => only(1)?,
            "Point" => point(),
            "Ring" | "LineString" => list(point()),
            "Polygon" | "MultiLineString" => list(list(point())),
            "MultiPolygon" => list(list(list(point()))),
            _ => return Err(unknown()),
        })
    }

    /// Dictionaries in it; each has a version in front of the whole column.
    fn dictionaries(&self) -> usize {
        match self {
            Self::Fixed(_) | Self::Text => 0,
            Self::Nullable(inner) | Self::Array(inner) => inner.dictionaries(),
            Self::Tuple(elements) => elements.iter().map(Self::dictionaries).sum(),
            Self::Low(inner) => 1 + inner.dictionaries(),
        }
    }

    /// The end of a column of so many rows that starts at `from`; `None` when `bytes` ends before.
    pub fn column_end(&self, bytes: &[u8], from: usize, rows: usize) -> Option<usize> {
        if rows == 0 {
            return Some(from);
        }
        self.values_end(bytes, from.checked_add(8 * self.dictionaries())?, rows)
    }

    fn values_end(&self, bytes: &[u8], from: usize, rows: usize) -> Option<usize> {
        if rows == 0 {
            return Some(from);
        }
        let reaches = |end: usize| (end <= bytes.len()).then_some(end);
        let fixed = |from: usize, width: usize, rows: usize| reaches(from.checked_add(width.checked_mul(rows)?)?);
        match self {
            Self::Fixed(width) => fixed(from, *width, rows),
            Self::Text => (0..rows).try_fold(from, |at, _| {
                let (length, at) = varuint(bytes, at)?;
                reaches(at.checked_add(length)?)
            }),
            Self::Nullable(inner) => inner.values_end(bytes, fixed(from, 1, rows)?, rows),
            Self::Array(inner) => {
                let elements = fixed(from, 8, rows)?;
                inner.values_end(bytes, elements, number(bytes, elements - 8)?)
            }
            Self::Tuple(parts) => parts.iter().try_fold(from, |at, part| part.values_end(bytes, at, rows)),
            Self::Low(inner) => {
                let width = 1 << (number(bytes, from)? & 0xff).min(3);
                let keys = number(bytes, from + 8)?;
                let places = inner.values_end(bytes, from + 16, keys)?;
                fixed(places.checked_add(8)?, width, number(bytes, places)?)
            }
        }
    }
}

/// A 64-bit number.
fn number(bytes: &[u8], at: usize) -> Option<usize> {
    let eight = bytes.get(at..at.checked_add(8)?)?;
    usize::try_from(u64::from_le_bytes(eight.try_into().ok()?)).ok()
}

/// A number of variable length, and where it ends.
pub fn varuint(bytes: &[u8], mut at: usize) -> Option<(usize, usize)> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.get(at)?;
        at += 1;
        value |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some((usize::try_from(value).ok()?, at));
        }
    }
    None
}

/// Splits a type's arguments at the commas outside of brackets and quotes.
fn arguments(text: &str) -> Vec<&str> {
    split(text, b',').into_iter().map(str::trim).filter(|argument| !argument.is_empty()).collect()
}

/// An element of a tuple without its name.
fn unnamed(element: &str) -> &str {
    match split(element, b' ').first() {
        Some(name) if name.len() < element.len() => element[name.len()..].trim_start(),
        _ => element,
    }
}

fn split(text: &str, at: u8) -> Vec<&str> {
    let (mut parts, mut start, mut depth, mut quote, mut escaped) = (Vec::new(), 0, 0_usize, None, false);
    for (place, byte) in text.bytes().enumerate() {
        match (byte, quote) {
            _ if escaped => escaped = false,
            (b'\\', Some(_)) => escaped = true,
            (_, Some(open)) if byte == open => quote = None,
            (_, Some(_)) => {}
            (b'\'' | b'`' | b'"', None) => quote = Some(byte),
            (b'(', None) => depth += 1,
            (b')', None) => depth = depth.saturating_sub(1),
            _ if byte == at && depth == 0 => {
                parts.push(&text[start..place]);
                start = place + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read() {
        let fixed = |width| Ok(Shape::Fixed(width));
        assert_eq!(Shape::of("DateTime64(3, 'Europe/Berlin')"), fixed(8));
        assert_eq!(Shape::of("Enum8('a)(' = 1, 'b, c' = 2)"), fixed(1));
        assert_eq!(Shape::of("Decimal(38, 6)"), fixed(16));
        assert_eq!(Shape::of("SimpleAggregateFunction(sum, UInt64)"), fixed(8));
        assert_eq!(
            Shape::of("Tuple(`a (b` UInt8, c Array(Tuple(String, Nullable(Int16))), UUID)"),
            Ok(Shape::Tuple(vec![
                Shape::Fixed(1),
                Shape::Array(Box::new(Shape::Tuple(vec![Shape::Text, Shape::Nullable(Box::new(Shape::Fixed(2)))]))),
                Shape::Fixed(16),
            ]))
        );
        assert_eq!(Shape::of("LowCardinality(Nullable(String))"), Ok(Shape::Low(Box::new(Shape::Text))));
        assert_eq!(Shape::of("JSON").map_err(|f| f.code), Err(48));
        assert_eq!(Shape::of("AggregateFunction(uniq, UInt64)").map_err(|f| f.code), Err(48));
    }
}
