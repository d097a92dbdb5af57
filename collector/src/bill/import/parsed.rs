//! What a file without a fault says, kept small: each different text once, whatever the number of lines.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use contador_schemas::owner::Owner;
use contador_schemas::rows::{Allocation, OwnerRow};
use uuid::Uuid;

use super::figures::Skip;

/// What an imported owner may have.
const ATTRIBUTES: [&str; 8] =
    ["environment", "cluster", "job", "user", "department", "project", "experiment", "service"];

/// A file without a fault, ready to be stored.
#[derive(Debug, Default)]
pub struct Parsed {
    name: String,
    simulated: bool,
    texts: Texts,
    lines: Vec<Line>,
    owners: Vec<[u32; ATTRIBUTES.len()]>,
    /// What was left out, and how often.
    pub(super) skipped: BTreeMap<Skip, u64>,
    /// Jobs whose times contradict each other, and the line of the first one.
    pub(super) disputed: Option<(u64, u64)>,
}

/// An allocation whose texts are numbers of [`Texts`].
#[derive(Debug)]
pub(super) struct Line {
    pub id: Uuid,
    pub start: i64,
    pub end: i64,
    pub fraction: i64,
    pub owner: Uuid,
    pub line: u64,
    pub gpus: u32,
    pub node: u32,
    pub device: u32,
    pub gpu_model: u32,
    /// Whether it goes on after its end, which is only how far it is known.
    pub is_open: bool,
}

impl Line {
    /// Whether it is nothing but the news that a job had no time, for a store that has heard otherwise.
    pub fn is_void(&self) -> bool {
        self.start == self.end
    }

    /// GPU-milliseconds times `10^12`.
    pub fn units(&self) -> i128 {
        i128::from(self.end - self.start) * i128::from(self.gpus) * i128::from(self.fraction)
    }
}

#[derive(Debug, Default)]
struct Texts {
    numbers: HashMap<Arc<str>, u32>,
    texts: Vec<Arc<str>>,
}

impl Parsed {
    pub(super) fn new(name: &str, simulated: bool) -> Self {
        Self { name: name.to_owned(), simulated, ..Self::default() }
    }

    /// One for each line, in the file's order.
    pub fn allocations(&self) -> impl ExactSizeIterator<Item = Allocation> {
        self.lines.iter().map(|line| Allocation {
            id: line.id,
            start: line.start,
            end: line.end,
            node: self.texts.text(line.node),
            device: self.texts.text(line.device),
            gpu_model: self.texts.text(line.gpu_model),
            gpus: line.gpus,
            fraction: line.fraction,
            owner: line.owner,
            source: self.name.clone(),
            line: line.line,
            simulated: self.simulated,
        })
    }

    /// Everybody that owns one of them, once.
    pub fn owners(&self) -> impl ExactSizeIterator<Item = OwnerRow> {
        self.owners.iter().map(|values| {
            let mut owner = Owner::default();
            for (name, number) in ATTRIBUTES.into_iter().zip(values) {
                owner.set(name, &self.texts.text(*number));
            }
            OwnerRow::from(&owner)
        })
    }

    pub(super) fn number(&mut self, text: &str) -> u32 {
        self.texts.number(text)
    }

    pub(super) fn name_of(&self, number: u32) -> String {
        self.texts.text(number)
    }

    pub(super) fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// Adds an allocation; its place.
    pub(super) fn push(&mut self, line: Line) -> usize {
        self.lines.push(line);
        self.lines.len() - 1
    }

    /// Puts an allocation in place of the one that says something older of the same.
    pub(super) fn replace(&mut self, at: usize, line: Line) {
        if let Some(old) = self.lines.get_mut(at) {
            *old = line;
        }
    }

    pub(super) fn push_owner(&mut self, owner: &Owner) {
        let attributes = owner.attributes();
        let value = |name: &str| attributes.iter().find(|(known, _)| *known == name).map_or("", |(_, value)| value);
        let numbers = ATTRIBUTES.map(|name| self.texts.number(value(name)));
        self.owners.push(numbers);
    }

    pub(super) fn skip(&mut self, why: Skip) {
        *self.skipped.entry(why).or_default() += 1;
    }

    /// Leaves out what the store knows better: `known` is the start and the end that it has of an allocation.
    pub(super) fn settle(&mut self, known: &HashMap<Uuid, (i64, i64)>) {
        let mut older = 0;
        self.lines.retain(|line| match known.get(&line.id) {
            None => !line.is_void(),
            Some((start, end)) if line.is_open => {
                let is_older = start == end || *end > line.end;
                older += u64::from(is_older);
                !is_older
            }
            Some(_) => true,
        });
        if older > 0 {
            *self.skipped.entry(Skip::Older).or_default() += older;
        }
    }
}

impl Texts {
    fn number(&mut self, text: &str) -> u32 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        // A file has at most ten texts a line: it would need 400 million lines to run out of numbers.
        let number = u32::try_from(self.texts.len()).unwrap_or(u32::MAX);
        let text: Arc<str> = text.into();
        self.texts.push(Arc::clone(&text));
        self.numbers.insert(text, number);
        number
    }

    fn text(&self, number: u32) -> String {
        let at = usize::try_from(number).unwrap_or(usize::MAX);
        self.texts.get(at).map(|text| text.to_string()).unwrap_or_default()
    }
}
