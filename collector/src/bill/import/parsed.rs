//! What a file without a fault says, kept small: each different text once, whatever the number of lines.

use std::collections::HashMap;
use std::sync::Arc;

use contador_schemas::owner::Owner;
use contador_schemas::rows::{Allocation, OwnerRow};
use uuid::Uuid;

use super::parse::OWNER_COLUMNS;

/// A file without a fault, ready to be stored.
#[derive(Debug, Default)]
pub struct Parsed {
    name: String,
    simulated: bool,
    texts: Texts,
    lines: Vec<Line>,
    owners: Vec<[u32; OWNER_COLUMNS.len()]>,
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
            for (name, number) in OWNER_COLUMNS.into_iter().zip(values) {
                owner.set(name, &self.texts.text(*number));
            }
            OwnerRow::from(&owner)
        })
    }

    pub(super) fn number(&mut self, text: &str) -> u32 {
        self.texts.number(text)
    }

    pub(super) fn push(&mut self, line: Line) {
        self.lines.push(line);
    }

    pub(super) fn push_owner(&mut self, values: &[&str; OWNER_COLUMNS.len()]) {
        let numbers = values.map(|value| self.texts.number(value));
        self.owners.push(numbers);
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
