//! The directory: which department and cost centre a project belongs to, and from which day on.
//!
//! It comes from a CSV [`mod@file`] and is kept in the store's [`table`] `directory`; a loaded one replaces the one before as a
//! whole. A bill asks it for the department of what was metered for a project alone, at the day in the bill's own time zone:
//! facts are cut where that changes ([`Directory::changes`]), and then given their department ([`Directory::apply`]).

pub mod file;
pub mod table;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write;
use std::sync::Arc;

use contador_schemas::owner::{Owner, OwnerKind};
use jiff::ToSpan;
use jiff::civil::Date;
use sha2::{Digest, Sha256};

use super::facts::Facts;
use super::period::{self, Period};
use super::rate::local_day;

/// A day, in days since 1970.
pub type Day = u16;

/// What a project belongs to from a day on.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Entry {
    /// The day after the last one, where that was told; else it holds until the next entry.
    pub until: Option<Day>,
    /// The department.
    pub department: Arc<str>,
    /// The cost centre; empty if it has none.
    pub cost_centre: Arc<str>,
}

/// The entries of each project by their first day.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Directory {
    projects: BTreeMap<Arc<str>, BTreeMap<Day, Entry>>,
}

/// An owner with its department, and the cost centre.
type Placed = (Arc<Owner>, Arc<str>);

/// The day of a date.
pub fn day(date: Date) -> Option<Day> {
    let since = date.since(Date::constant(1970, 1, 1)).ok()?;
    u16::try_from(since.get_days()).ok()
}

/// The date of a day.
pub fn date(day: Day) -> Date {
    Date::constant(1970, 1, 1).saturating_add(i64::from(day).days())
}

impl Directory {
    /// Adds an entry; `false` if the project has one from that very day.
    pub fn add(&mut self, project: Arc<str>, from: Day, entry: Entry) -> bool {
        self.projects.entry(project).or_default().insert(from, entry).is_none()
    }

    /// Every entry, by project and day: its project, its first day, itself, and the day after the last one on which it holds.
    pub fn entries(&self) -> impl Iterator<Item = (&str, Day, &Entry, Option<Day>)> {
        self.projects.iter().flat_map(|(project, dated)| {
            let next = dated.keys().skip(1).map(|from| Some(*from)).chain(std::iter::once(None));
            dated.iter().zip(next).map(move |((from, entry), next)| {
                let until = entry.until.map_or(next, |until| Some(next.map_or(until, |next| next.min(until))));
                (project.as_ref(), *from, entry, until)
            })
        })
    }

    /// How many projects it has.
    pub fn projects(&self) -> usize {
        self.projects.len()
    }

    /// What the project belongs to on that day.
    pub fn at(&self, project: &str, day: Day) -> Option<&Entry> {
        let (_, entry) = self.projects.get(project)?.range(..=day).next_back()?;
        entry.until.is_none_or(|until| day < until).then_some(entry)
    }

    /// Hash of everything that it says, whatever the order in which it says it: 64 hexadecimal digits.
    pub fn id(&self) -> String {
        let mut hash = Sha256::new();
        hash.update("contador directory 1\n");
        for (project, from, entry, _) in self.entries() {
            let until = entry.until.map_or_else(String::new, |until| until.to_string());
            let texts = [project, &entry.department, &entry.cost_centre];
            let texts = texts.map(|text| format!("{}:{text}", text.len())).join(" ");
            hash.update(format!("{texts} {from} {until}\n"));
        }
        hash.finalize().iter().fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        })
    }

    /// The Unix milliseconds inside a period at which department or cost centre of some project changes, in order: midnights of the
    /// period's zone.
    pub fn changes(&self, period: &Period) -> Vec<i64> {
        let mut days = BTreeSet::new();
        for (project, from, entry, until) in self.entries() {
            let of = |day: Option<Day>| self.at(project, day?).map(|entry| (&entry.department, &entry.cost_centre));
            let here = Some((&entry.department, &entry.cost_centre));
            // Where it begins and where it ends, unless it goes on.
            if of(from.checked_sub(1)) != here {
                days.insert(from);
            }
            days.extend(until.filter(|until| of(Some(*until)) != here));
        }
        let midnights = days.into_iter().filter_map(|day| period::midnight(date(day), &period.zone));
        midnights.filter(|change| period.from < *change && *change < period.to).collect()
    }

    /// Gives facts of workloads that name a project and no department that of their project. Facts must be cut at
    /// [`Directory::changes`].
    pub fn apply(&self, facts: &mut Facts, period: &Period) {
        let mut days: HashMap<i64, Option<Day>> = HashMap::new();
        let mut found: HashMap<(Arc<Owner>, Option<Day>), Option<Placed>> = HashMap::new();
        let mut find = |owner: &Arc<Owner>, from: i64| {
            let at = *days.entry(from).or_insert_with(|| local_day(from, &period.zone));
            let of = || {
                let entry = self.at(&owner.project, at?)?;
                let department =
                    if owner.department.is_empty() { entry.department.as_ref() } else { owner.department.as_str() };
                // The cost centre is the department's that the directory names, not another's.
                let cost_centre = if department == &*entry.department { entry.cost_centre.as_ref() } else { "" };
                let owner = Owner { department: department.to_owned(), ..Owner::clone(owner) };
                Some((Arc::new(owner), Arc::from(cost_centre)))
            };
            found.entry((Arc::clone(owner), at)).or_insert_with(of).clone()
        };
        for fact in facts.facts.iter_mut().filter(|fact| fact.kind == OwnerKind::Workload) {
            if let Some((owner, cost_centre)) = find(&fact.owner, fact.from) {
                (fact.owner, fact.cost_centre) = (owner, cost_centre);
            }
        }
        for fact in &mut facts.other {
            if let Some((owner, cost_centre)) = find(&fact.owner, fact.from) {
                (fact.owner, fact.cost_centre) = (owner, cost_centre);
            }
        }
        facts.directory = Some(self.id());
    }
}
