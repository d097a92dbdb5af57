//! Which meaning a sample has, by its name.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use contador_schemas::names;
use contador_schemas::series::series_id;
use uuid::Uuid;

use super::labels::{Identity, Labels};
use super::tables::{Counted, TABLES, Table};
use super::{Custom, Preset, RulesError};
use crate::scrape::aborted::REQUESTS;
use crate::scrape::text::Label;

/// Most series that one server may have, unless it is said otherwise.
pub const MOST_SERIES: usize = 4_096;

/// What families mean: of presets, and of histograms that a user names.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// Most series of one server that are remembered.
    pub most_series: usize,
    fingerprint: Uuid,
    /// What a user names: families, and the labels that their series must have.
    named: Vec<Selector>,
    /// What a user says of some of a family's series, of all of them, and what its preset says, in this order.
    timed: HashMap<String, Vec<Arc<Meaning<Timed>>>>,
    /// By their names without `_total`.
    counted: HashMap<String, Counters>,
}

/// What a family means.
#[derive(Clone, Debug)]
pub(in super::super) struct Meaning<M> {
    /// The preset that knows its family; `None` when only a user has named it.
    pub preset: Option<Preset>,
    /// Whether it is of a preset that stands before engines.
    pub front: bool,
    /// What it is.
    pub what: M,
    labels: Labels,
    /// Labels that a series must have with these values.
    only: Vec<(String, String)>,
}

/// Series by their family, and labels that they must have.
pub(in super::super) type Selector = (String, Vec<(String, String)>);

/// A family of times by its name, what its series may mean, and which part of it a sample is.
type Known<'n, 'r> = (&'n str, &'r [Arc<Meaning<Timed>>], Part);

/// What a counter's samples mean.
pub(in super::super) type Counters = Arc<Meaning<Vec<Counted>>>;

/// A family of times.
#[derive(Clone, Debug)]
pub(in super::super) struct Timed {
    /// What it times, as it is stored.
    pub metric: String,
    /// What its preset takes it for, whatever a user calls it; without a preset the same as `metric`.
    pub meant: String,
    /// Whether it has a value for each request that came to its end, and for those that were aborted inside.
    pub at_end: bool,
    /// Microseconds in its unit.
    pub factor: f64,
    /// The family that says the same and goes before it; its counter, for a mean.
    pub shape: Shape,
}

/// How times are told.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(in super::super) enum Shape {
    /// By buckets.
    Histogram,
    /// By buckets, unless the page has this other family.
    Older(String),
    /// Only how many there were, and their sum.
    Summary,
    /// Their sum is this counter; how many there were is told by another one, of this name.
    Mean(String),
}

/// Which part of its family a sample is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in super::super) enum Part {
    /// A bucket.
    Bucket,
    /// The sum of the values.
    Sum,
    /// Their number.
    Count,
    /// Since when they are counted, in Unix seconds.
    Created,
    /// A counter's value, or a summary's quantile.
    Value,
}

impl<M> Meaning<M> {
    /// What the labels of a sample say.
    pub fn identity(&self, labels: &[Label<'_>]) -> Identity {
        self.labels.identity(labels)
    }

    /// What they say by the names of presets.
    pub fn meant(&self, labels: &[Label<'_>]) -> Identity {
        Labels::default().identity(labels)
    }

    /// Whether it is meant of a series with these labels.
    pub fn is_of(&self, labels: &[Label<'_>]) -> bool {
        has_all(labels, &self.only)
    }
}

/// Whether a series with these labels has all of `only`.
pub(in super::super) fn has_all(labels: &[Label<'_>], only: &[(String, String)]) -> bool {
    let has = |name: &str, value: &str| labels.iter().any(|label| label.name == name && label.value == value);
    only.iter().all(|(name, value)| has(name, value))
}

impl Meaning<Timed> {
    /// Which series it is meant of, and how it is read.
    fn print(&self) -> String {
        let (shape, more) = match &self.what.shape {
            Shape::Histogram => ("histogram", ""),
            Shape::Older(newer) => ("older", newer.as_str()),
            Shape::Summary => ("summary", ""),
            Shape::Mean(counter) => ("mean", counter.as_str()),
        };
        let only: String = self.only.iter().map(|(name, value)| format!(" {name}={}:{value}", value.len())).collect();
        format!("{shape} {more}{only}")
    }
}

impl Rules {
    /// The rules of `presets` ([`Preset::ALL`] lets a page's families tell which it has) and of `custom` histograms.
    ///
    /// # Errors
    /// [`RulesError`].
    pub fn new(presets: &[Preset], custom: &[Custom]) -> Result<Self, RulesError> {
        let mut rules = Self { most_series: MOST_SERIES, ..Self::default() };
        for table in TABLES.iter().filter(|table| presets.contains(&table.preset)) {
            for prefix in table.prefixes {
                rules.learn(table, prefix);
            }
        }
        for (place, rule) in custom.iter().enumerate() {
            let same = |other: &Custom| (&other.family, &other.labels) == (&rule.family, &rule.labels);
            if custom[..place].iter().any(same) {
                return Err(RulesError::Twice(rule.family.clone()));
            }
            rules.name(rule)?;
        }
        rules.fingerprint = rules.printed();
        Ok(rules)
    }

    /// What tells these rules from others: they look for other series. What these are called and in which unit they are is no
    /// part of it.
    pub(in super::super) fn fingerprint(&self) -> Uuid {
        self.fingerprint
    }

    fn printed(&self) -> Uuid {
        let timed = self.timed.iter().map(|(family, meanings)| {
            let mut chosen: Vec<String> = meanings.iter().map(|meaning| meaning.print()).collect();
            chosen.sort_unstable();
            (format!("t {family}"), chosen.join("\n"))
        });
        let counted = self.counted.iter().map(|(family, meaning)| {
            let lines = meaning.what.iter().map(|line| format!("{}={}", line.label, line.values.join(",")));
            (format!("c {family}"), lines.collect::<Vec<_>>().join("\n"))
        });
        let all: Vec<(String, String)> = timed.chain(counted).collect();
        series_id(all.iter().map(|(family, chosen)| (family.as_str(), chosen.as_str())))
    }

    /// Families of which only some series are looked for.
    pub(in super::super) fn in_part(&self) -> BTreeSet<String> {
        let timed = self.timed.iter().filter(|(_, meanings)| meanings.iter().all(|meaning| !meaning.only.is_empty()));
        let is_part = |meaning: &Counters| meaning.what.iter().all(|line| !line.values.is_empty());
        let counted = self.counted.iter().filter(|(_, meaning)| is_part(meaning)).map(|(family, _)| family);
        timed.map(|(family, _)| family).chain(counted).cloned().collect()
    }

    /// What a user names.
    pub(in super::super) fn named(&self) -> &[Selector] {
        &self.named
    }

    fn learn(&mut self, table: &Table, prefix: &str) {
        let full = |name: &str| format!("{prefix}{name}");
        let histograms = table.histograms.iter().map(|timing| (timing, Shape::Histogram));
        let older = table.older.iter().map(|(timing, newer)| (timing, Shape::Older(full(newer))));
        let summaries = table.summaries.iter().map(|timing| (timing, Shape::Summary));
        let means = table.means.iter().map(|(timing, counter)| (timing, Shape::Mean(full(counter))));
        for (&(name, metric, factor), shape) in histograms.chain(older).chain(summaries).chain(means) {
            let at_end = metric == REQUESTS || table.at_end.contains(&metric);
            let what = Timed { metric: metric.to_owned(), meant: metric.to_owned(), at_end, factor, shape };
            self.timed.insert(full(name), vec![Arc::new(Meaning::of(table, what))]);
        }
        for counter in table.counters {
            let same: Vec<Counted> =
                table.counters.iter().filter(|other| other.name == counter.name).copied().collect();
            self.counted.insert(full(counter.name), Arc::new(Meaning::of(table, same)));
        }
    }

    fn name(&mut self, rule: &Custom) -> Result<(), RulesError> {
        let Custom { family, metric, unit, model, route, source, labels } = rule;
        let blank = |character: char| character.is_whitespace() || "{}\"#".contains(character);
        if family.is_empty() || family.contains(blank) || family.ends_with("_bucket") {
            return Err(RulesError::Family(family.clone()));
        }
        if let Some(label) = ["le", "quantile"].into_iter().find(|label| labels.contains_key(*label)) {
            return Err(RulesError::Label { family: family.clone(), label });
        }
        let unit = if unit.is_empty() { unit_of(family) } else { unit };
        let factor = names::microseconds_in(unit)
            .ok_or_else(|| RulesError::Unit { family: family.clone(), unit: unit.to_owned() })?;
        let metric = if metric.is_empty() { family } else { metric };
        let meanings = self.timed.entry(family.clone()).or_default();
        // What the family is does not change with its name: aborted requests are in it, or not.
        let (preset, meant, at_end) = match meanings.last().filter(|known| known.preset.is_some()) {
            Some(known) => (known.preset, known.what.meant.clone(), known.what.at_end),
            None => (None, metric.clone(), metric == REQUESTS),
        };
        let what = Timed { metric: metric.clone(), meant, at_end, factor, shape: Shape::Histogram };
        let only: Vec<_> = labels.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        self.named.push((family.clone(), only.clone()));
        let meaning = Meaning { preset, front: false, what, labels: Labels::new(model, route, source), only };
        let place = meanings.iter().position(|known| known.only.is_empty()).unwrap_or(meanings.len());
        meanings.insert(place, Arc::new(meaning));
        Ok(())
    }

    /// The family of times that a sample of this name belongs to. The first meaning that [`Meaning::is_of`] the series counts.
    pub(in super::super) fn timed<'n>(&self, name: &'n str) -> Option<Known<'n, '_>> {
        let parts =
            [("_bucket", Part::Bucket), ("_sum", Part::Sum), ("_count", Part::Count), ("_created", Part::Created)];
        let stem = parts.into_iter().find_map(|(ending, part)| Some((name.strip_suffix(ending)?, part)));
        let (family, part) = match stem {
            Some(known) if self.timed.contains_key(known.0) => known,
            // Counters of time may end in _total.
            _ => (name.strip_suffix("_total").unwrap_or(name), Part::Value),
        };
        self.timed.get(family).map(|meanings| (family, meanings.as_slice(), part))
    }

    /// The counter that a sample of this name is, without `_total`.
    pub(in super::super) fn counted<'n>(&self, name: &'n str) -> Option<(&'n str, &Counters, Part)> {
        let endings = [("", Part::Value), ("_total", Part::Value), ("_created", Part::Created)];
        endings.into_iter().find_map(|(ending, part)| {
            let family = name.strip_suffix(ending)?;
            self.counted.get(family).map(|meaning| (family, meaning, part))
        })
    }
}

impl<M> Meaning<M> {
    fn of(table: &Table, what: M) -> Self {
        Self { preset: Some(table.preset), front: table.front, what, labels: Labels::default(), only: Vec::new() }
    }
}

/// The unit that the end of a family's name says.
fn unit_of(family: &str) -> &'static str {
    let endings = [
        ("_milliseconds", "ms"),
        ("_ms", "ms"),
        ("_microseconds", "us"),
        ("_us", "us"),
        ("_nanoseconds", "ns"),
        ("_ns", "ns"),
    ];
    endings.into_iter().find(|(ending, _)| family.ends_with(ending)).map_or("s", |(_, unit)| unit)
}
