//! The samples of a page, gathered by series.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use super::presets::{Counted, Identity, Meaning, Part, Preset, Rules, Shape, Timed, What, has_all};
use super::taken::Reason;
use super::text::{Label, Page, Sample};

/// Longest key of a series in bytes; longer ones are not taken.
const LONGEST_KEY: usize = 8 << 10;

/// What a series is.
#[derive(Clone, Debug)]
pub(super) enum Role {
    /// Times.
    Timed(Arc<Meaning<Timed>>),
    /// A counter, or a gauge, of requests or tokens.
    Counted(Arc<Meaning<Vec<Counted>>>, What),
}

/// One series of a page, its samples by what they are.
#[derive(Clone, Debug)]
pub(super) struct Series<'p, 'a> {
    /// What it is.
    pub role: Role,
    /// The name of its family.
    pub family: &'p str,
    /// Its labels, among them perhaps that of a bucket.
    pub labels: &'p [Label<'a>],
    /// Buckets: their bounds, and the values up to them.
    pub buckets: Vec<(f64, f64)>,
    /// The sum, for means the counter's value.
    pub sum: Option<f64>,
    /// The number of values; for counters their value.
    pub count: Option<f64>,
    /// Since when, in Unix seconds.
    pub created_s: Option<f64>,
    /// What is wrong with it already.
    pub fault: Option<Reason>,
    /// The page says that its family can't be relied on.
    pub spoiled: bool,
}

/// All series of a page that mean something.
pub(super) fn gather<'p, 'a>(page: &'p Page<'a>, rules: &Rules) -> Vec<Series<'p, 'a>> {
    let mut gathered = Gathered { page, found: Vec::new(), places: HashMap::new(), last: None };
    // Ray shows its counters under both names.
    let total = |name: &str| page.samples.iter().any(|sample| sample.name.strip_suffix("_total") == Some(name));
    let mut doubled: HashMap<&str, bool> = HashMap::new();
    for sample in &page.samples {
        if let Some((family, meanings, part)) = rules.timed(&sample.name)
            && let Some(meaning) = meanings.iter().find(|meaning| meaning.is_of(page.labels(sample)))
        {
            gathered.timed(sample, family, meaning, part);
        }
        if let Some((family, meaning, part)) = rules.counted(&sample.name) {
            let twice = *doubled.entry(family).or_insert_with(|| total(family));
            if part == Part::Value && twice && family == sample.name {
                continue;
            }
            gathered.counted(sample, family, meaning, part);
        }
    }
    gathered.found
}

/// What a user names of which nothing was found: family and labels.
pub(super) fn missing(found: &[Series<'_, '_>], rules: &Rules) -> Vec<String> {
    let is_found = |family: &str, only: &[(String, String)]| {
        found.iter().any(|series| series.timed().is_some() && series.family == family && has_all(series.labels, only))
    };
    let shown = |only: &[(String, String)]| {
        let all: Vec<String> = only.iter().map(|(name, value)| format!("{name}={value:?}")).collect();
        if all.is_empty() { String::new() } else { format!("{{{}}}", all.join(",")) }
    };
    let missing = rules.named().iter().filter(|(family, only)| !is_found(family, only));
    missing.map(|(family, only)| format!("{family}{}", shown(only))).collect()
}

struct Gathered<'p, 'a> {
    page: &'p Page<'a>,
    found: Vec<Series<'p, 'a>>,
    places: HashMap<(&'p str, bool, u64), Vec<usize>>,
    /// The series of the sample before: most buckets belong to it.
    last: Option<usize>,
}

impl<'p, 'a> Gathered<'p, 'a> {
    fn timed(&mut self, sample: &'p Sample<'a>, family: &'p str, meaning: &Arc<Meaning<Timed>>, part: Part) {
        let page = self.page;
        let series = self.place(sample, family, true, || Role::Timed(Arc::clone(meaning)));
        match part {
            Part::Bucket => match page.label(sample, "le").and_then(|bound| bound.parse().ok()) {
                Some(bound) => series.buckets.push((bound, sample.value)),
                None => series.fault = Some(Reason::Value),
            },
            Part::Sum => set(&mut series.sum, sample.value, &mut series.fault),
            Part::Count => set(&mut series.count, sample.value, &mut series.fault),
            Part::Created => set(&mut series.created_s, sample.value, &mut series.fault),
            // Quantiles can't be added up.
            Part::Value if page.label(sample, "quantile").is_some() => {}
            Part::Value => set(&mut series.sum, sample.value, &mut series.fault),
        }
    }

    fn counted(&mut self, sample: &'p Sample<'a>, family: &'p str, meaning: &Arc<Meaning<Vec<Counted>>>, part: Part) {
        let Some(what) = what(&meaning.what, |label| self.page.label(sample, label)) else { return };
        let series = self.place(sample, family, false, || Role::Counted(Arc::clone(meaning), what));
        match part {
            Part::Created => set(&mut series.created_s, sample.value, &mut series.fault),
            _ => set(&mut series.count, sample.value, &mut series.fault),
        }
    }

    /// The series that a sample belongs to.
    fn place(
        &mut self,
        sample: &'p Sample<'a>,
        family: &'p str,
        timed: bool,
        role: impl FnOnce() -> Role,
    ) -> &mut Series<'p, 'a> {
        let labels = self.page.labels(sample);
        let is = |series: &Series<'_, '_>| {
            series.family == family && matches!(series.role, Role::Timed(_)) == timed && same(series.labels, labels)
        };
        let last = self.last.filter(|&place| self.found.get(place).is_some_and(&is));
        let place = last.unwrap_or_else(|| {
            let known = self.places.entry((family, timed, hash(labels))).or_default();
            known.iter().copied().find(|&place| self.found.get(place).is_some_and(&is)).unwrap_or_else(|| {
                known.push(self.found.len());
                self.found.push(Series {
                    role: role(),
                    family,
                    labels,
                    buckets: Vec::new(),
                    sum: None,
                    count: None,
                    created_s: None,
                    fault: None,
                    spoiled: false,
                });
                self.found.len() - 1
            })
        });
        self.last = Some(place);
        let series = &mut self.found[place];
        series.spoiled |= self.page.families.get(sample.family).is_some_and(|family| family.spoiled);
        series
    }
}

fn set(place: &mut Option<f64>, value: f64, fault: &mut Option<Reason>) {
    match *place {
        Some(known) if known.to_bits() != value.to_bits() => *fault = Some(Reason::Duplicate),
        _ => *place = Some(value),
    }
}

/// What a counter's sample counts, by its labels; `None` when it counts nothing that is asked for.
fn what<'l>(lines: &[Counted], label: impl Fn(&str) -> Option<&'l str>) -> Option<What> {
    let named =
        |line: &&Counted| line.label.is_empty() || label(line.label).is_some_and(|value| line.values.contains(&value));
    let others = |line: &&Counted| !line.label.is_empty() && line.values.is_empty();
    lines.iter().find(named).or_else(|| lines.iter().find(others)).map(|line| line.what)
}

impl Series<'_, '_> {
    /// What it times, when it does.
    pub fn timed(&self) -> Option<&Meaning<Timed>> {
        match &self.role {
            Role::Timed(meaning) => Some(meaning),
            Role::Counted(..) => None,
        }
    }

    /// The preset that knows it.
    pub fn preset(&self) -> Option<Preset> {
        match &self.role {
            Role::Timed(meaning) => meaning.preset,
            Role::Counted(meaning, _) => meaning.preset,
        }
    }

    /// Whether its preset stands before engines.
    pub fn front(&self) -> bool {
        match &self.role {
            Role::Timed(meaning) => meaning.front,
            Role::Counted(meaning, _) => meaning.front,
        }
    }

    /// What a summary times.
    pub fn summary(&self) -> Option<&str> {
        self.timed().filter(|meaning| meaning.what.shape == Shape::Summary).map(|meaning| &*meaning.what.metric)
    }

    /// What its labels say, without those that say what a counter counts.
    pub fn identity(&self) -> Identity {
        match &self.role {
            Role::Timed(meaning) => meaning.identity(self.labels),
            Role::Counted(meaning, _) => {
                let mut identity = meaning.identity(self.labels);
                identity.attributes.retain(|(name, _)| meaning.what.iter().all(|line| line.label != name));
                identity
            }
        }
    }

    /// The same as its preset has it, whatever a user calls it: what a preset knows of several series goes by this.
    pub fn meant(&self) -> Identity {
        match &self.role {
            Role::Timed(meaning) if meaning.preset.is_some() => meaning.meant(self.labels),
            _ => self.identity(),
        }
    }

    /// For a mean: how many values there were, by the counter of the same labels.
    pub fn counter(&self, found: &[Self]) -> Option<f64> {
        let Shape::Mean(counter) = &self.timed()?.what.shape else { return None };
        let of = |other: &&Self| {
            other.timed().is_none() && other.family == *counter && !other.spoiled && same(other.labels, self.labels)
        };
        found.iter().find(of).filter(|other| other.fault.is_none()).and_then(|other| other.count)
    }

    /// What is common to the keys of its family: the first line of each.
    pub fn kind(&self) -> String {
        match self.role {
            Role::Timed(_) => format!("t {}", self.family),
            Role::Counted(..) => format!("c {}", self.family),
        }
    }

    /// Its key in the memory: the family and the labels in alphabetical order; `None` when it is too long.
    pub fn key(&self) -> Option<String> {
        let mut labels: Vec<&Label<'_>> = self.labels.iter().filter(|label| counts(label)).collect();
        labels.sort_unstable_by(|left, right| left.name.cmp(&right.name));
        let mut key = self.kind();
        for Label { name, value } in labels {
            key.push_str(&format!("\n{name}={}:{value}", value.len()));
        }
        (key.len() <= LONGEST_KEY).then_some(key)
    }
}

/// Whether a label tells series apart.
fn counts(label: &Label<'_>) -> bool {
    label.name != "le" && label.name != "quantile" && !label.value.is_empty()
}

/// The same for labels in any order.
fn hash(labels: &[Label<'_>]) -> u64 {
    labels.iter().filter(|label| counts(label)).fold(0, |sum, label| {
        let mut hasher = DefaultHasher::new();
        (&label.name, &label.value).hash(&mut hasher);
        hasher.finish().wrapping_add(sum)
    })
}

fn same(left: &[Label<'_>], right: &[Label<'_>]) -> bool {
    let each = |left: &[Label<'_>], right: &[Label<'_>]| {
        // Most pages have the labels of a series in one order.
        left.iter().zip(right).filter(|(left, _)| counts(left)).all(|(left, right)| left == right)
            || left.iter().filter(|label| counts(label)).all(|label| right.contains(label))
    };
    let number = |labels: &[Label<'_>]| labels.iter().filter(|label| counts(label)).count();
    number(left) == number(right) && each(left, right)
}
