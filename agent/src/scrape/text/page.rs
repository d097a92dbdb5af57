//! A page that was read: families, and their samples.

use std::borrow::Cow;
use std::ops::Range;

use super::Fault;

/// What a family says that it is.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Kind {
    /// Nothing is said.
    #[default]
    Unknown,
    /// A value that only rises.
    Counter,
    /// A value at an instant.
    Gauge,
    /// Values by bucket since a start.
    Histogram,
    /// Quantiles, and the number and sum of the values since a start.
    Summary,
    /// Anything else: an information, a set of states, a histogram of a gauge.
    Other,
}

/// A name and its value.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Label<'a> {
    /// Its name.
    pub name: Cow<'a, str>,
    /// Its value, without escapes.
    pub value: Cow<'a, str>,
}

/// Samples that belong together.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Family<'a> {
    /// Its name, without the endings of its samples.
    pub name: Cow<'a, str>,
    /// What it says that it is.
    pub kind: Kind,
    /// Whether a line of it can't be read, so that nothing of it can be relied on.
    pub spoiled: bool,
}

/// One line with a value.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample<'a> {
    /// Its name, with its ending.
    pub name: Cow<'a, str>,
    /// Its family, by position.
    pub family: usize,
    /// Its value.
    pub value: f64,
    /// Its time in seconds, Unix, where it has one.
    pub time_s: Option<f64>,
    /// Number of its line, from 1.
    pub line: usize,
    pub(super) labels: Range<usize>,
}

/// A page.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page<'a> {
    /// Its families, in their order.
    pub families: Vec<Family<'a>>,
    /// Its samples, in their order.
    pub samples: Vec<Sample<'a>>,
    /// The first faults.
    pub faults: Vec<Fault>,
    /// How many lines can't be read.
    pub faulty_lines: u64,
    pub(super) labels: Vec<Label<'a>>,
}

impl<'a> Page<'a> {
    /// The labels of a sample, in their order, no name twice.
    pub fn labels(&self, sample: &Sample<'a>) -> &[Label<'a>] {
        self.labels.get(sample.labels.clone()).unwrap_or_default()
    }

    /// The value of a sample's label.
    pub fn label(&self, sample: &Sample<'a>, name: &str) -> Option<&str> {
        self.labels(sample).iter().find(|label| label.name == name).map(|label| &*label.value)
    }
}
