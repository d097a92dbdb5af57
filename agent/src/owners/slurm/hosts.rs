//! Lists of names as Slurm writes them: hosts, and device files.
//!
//! `n1,gpu[01-03,07],rack[1-2]n[1-4]x` are names, and names with ranges of numbers in brackets, of which there may be several in
//! one: the last varies fastest. A number has as many digits as the first of its range is written with, or more.

/// Longest list that is read, in bytes.
const MAX_BYTES: usize = 64 << 10;

/// Most digits of a number.
const MAX_DIGITS: usize = 18;

/// A list.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HostList(Vec<Vec<Piece>>);

/// What a name is made of.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Piece {
    Text(String),
    /// One of these.
    Numbers(Vec<Range>),
}

/// The numbers from the first to the last, of so many digits at least.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Range {
    first: u64,
    last: u64,
    width: usize,
}

impl HostList {
    /// Reads a list; `None` when it is none, or too long. An empty one has no name.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() > MAX_BYTES {
            return None;
        }
        let (mut names, mut start, mut is_inside) = (Vec::new(), 0, false);
        for (place, sign) in text.char_indices().chain([(text.len(), ',')]) {
            match sign {
                '[' if !is_inside => is_inside = true,
                ']' if is_inside => is_inside = false,
                '[' | ']' => return None,
                ',' if !is_inside => {
                    let name = text.get(start..place)?;
                    if !name.is_empty() {
                        names.push(pieces(name)?);
                    }
                    start = place + 1;
                }
                _ => {}
            }
        }
        (!is_inside).then_some(Self(names))
    }

    /// Whether this name is in it. It takes no more steps than the list and the name are long, multiplied, whatever they are.
    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|pieces| is_one(pieces, name))
    }

    /// Every name, in order; `None` when there are more than `most`.
    pub fn names(&self, most: usize) -> Option<Vec<String>> {
        let counts =
            self.0.iter().map(|pieces| pieces.iter().fold(1_u64, |count, piece| piece.count().saturating_mul(count)));
        let count = counts.fold(0, u64::saturating_add);
        if usize::try_from(count).ok().is_none_or(|count| count > most) {
            return None;
        }
        let longer = |names: Vec<String>, piece: &Piece| {
            let each = |name: &String| piece.texts().map(|text| format!("{name}{text}")).collect::<Vec<_>>();
            names.iter().flat_map(each).collect()
        };
        Some(self.0.iter().flat_map(|pieces| pieces.iter().fold(vec![String::new()], longer)).collect())
    }
}

impl Piece {
    fn count(&self) -> u64 {
        match self {
            Self::Text(_) => 1,
            Self::Numbers(ranges) => ranges.iter().fold(0, |sum: u64, range| sum.saturating_add(range.count())),
        }
    }

    /// What it stands for, in order.
    fn texts(&self) -> Box<dyn Iterator<Item = String> + '_> {
        match self {
            Self::Text(text) => Box::new(std::iter::once(text.clone())),
            Self::Numbers(ranges) => Box::new(ranges.iter().flat_map(Range::texts)),
        }
    }
}

impl Range {
    /// `7`, `01-12`.
    fn parse(text: &str) -> Option<Self> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let range = Self { first: number(first)?, last: number(last)?, width: first.len() };
        (range.first <= range.last).then_some(range)
    }

    fn count(&self) -> u64 {
        (self.last - self.first).saturating_add(1)
    }

    fn texts(&self) -> impl Iterator<Item = String> {
        let width = self.width;
        (self.first..=self.last).map(move |number| format!("{number:0width$}"))
    }

    /// Whether digits are one of its numbers, as it writes them.
    fn has(&self, digits: &str) -> bool {
        let is_written_so = digits.len() == self.width || (digits.len() > self.width && !digits.starts_with('0'));
        is_written_so && number(digits).is_some_and(|number| (self.first..=self.last).contains(&number))
    }
}

/// A name: text, and ranges in brackets.
fn pieces(name: &str) -> Option<Vec<Piece>> {
    let (mut pieces, mut rest) = (Vec::new(), name);
    while let Some((before, after)) = rest.split_once('[') {
        let (ranges, after) = after.split_once(']')?;
        if !before.is_empty() {
            pieces.push(Piece::Text(before.to_owned()));
        }
        pieces.push(Piece::Numbers(ranges.split(',').map(Range::parse).collect::<Option<_>>()?));
        rest = after;
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest.to_owned()));
    }
    Some(pieces)
}

/// Whether a name is one of those that the pieces make: by each of the places in it that a piece may end at.
fn is_one(pieces: &[Piece], name: &str) -> bool {
    let mut places = vec![0];
    for piece in pieces {
        let mut next = Vec::new();
        for place in places {
            let Some(rest) = name.get(place..) else { continue };
            match piece {
                Piece::Text(text) => next.extend(rest.starts_with(text.as_str()).then_some(place + text.len())),
                Piece::Numbers(ranges) => {
                    let digits = rest.bytes().take_while(u8::is_ascii_digit).take(MAX_DIGITS).count();
                    let is_number = |end: &usize| ranges.iter().any(|range| range.has(&rest[..*end]));
                    next.extend((1..=digits).filter(is_number).map(|end| place + end));
                }
            }
        }
        next.sort_unstable();
        next.dedup();
        places = next;
    }
    places.contains(&name.len())
}

fn number(digits: &str) -> Option<u64> {
    let is_number = (1..=MAX_DIGITS).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().ok()).flatten()
}

#[cfg(test)]
mod tests;
