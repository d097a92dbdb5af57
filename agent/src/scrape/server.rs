//! What one server said, remembered from scrape to scrape.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::aborted::{Aborted, REQUESTS, Unseen};
use super::memory::{Moment, Step, Total, exact, says_start, since};
use super::other::{Falls, Turn};
use super::owed::Owed;
use super::presets::{Preset, Rules, Shape, What};
use super::reading::read;
use super::series::{Role, Series, gather, missing};
use super::taken::{Reason, Taken};
use super::taking::{Kind, Taking};
use super::text::{self, Format, Page};

/// The memory of one server. It can be kept on disk, and goes on after that as if nothing had been.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Server {
    /// What started since then was watched from its start on, Unix nanoseconds.
    watched_ns: u64,
    /// The last page, Unix nanoseconds.
    page_ns: Option<u64>,
    /// Which rules that page was read by ([`Rules::fingerprint`]); `None` of memories that don't say it.
    #[serde(default)]
    rules: Option<Uuid>,
    /// Families of which those rules looked for some series only.
    #[serde(default)]
    in_part: BTreeSet<String>,
    /// The preset that it is called by.
    #[serde(default)]
    preset: Option<String>,
    /// Start of its process, Unix seconds.
    #[serde(with = "exact")]
    run_s: Option<f64>,
    /// What its families say that it is.
    #[serde(flatten)]
    kind: Kind,
    /// Whether series were forgotten: one that is new may not be.
    forgotten: bool,
    /// Families that the last page was not clear about.
    unclear: BTreeSet<String>,
    series: BTreeMap<String, Total>,
    unseen: BTreeMap<String, Unseen>,
    #[serde(default)]
    owed: Owed,
    /// Totals without a start that fell.
    #[serde(default)]
    falls: Falls,
}

impl Server {
    /// The memory of a server that is watched from `watched_since_ns` on (Unix nanoseconds). What it had counted before is a
    /// base line, and no traffic; what it counts from a start after that is.
    pub fn new(watched_since_ns: u64) -> Self {
        Self {
            watched_ns: watched_since_ns,
            page_ns: None,
            rules: None,
            in_part: BTreeSet::new(),
            preset: None,
            run_s: None,
            kind: Kind::default(),
            forgotten: false,
            unclear: BTreeSet::new(),
            series: BTreeMap::new(),
            unseen: BTreeMap::new(),
            owed: Owed::default(),
            falls: Falls::default(),
        }
    }

    /// How many series are remembered.
    pub fn series(&self) -> usize {
        self.series.len()
    }

    /// Whether its last page is older than this instant, Unix nanoseconds; without one, that from which on it is watched.
    pub fn is_older(&self, than_ns: u64) -> bool {
        self.page_ns.unwrap_or(self.watched_ns) < than_ns
    }

    /// Takes a page that was read at `at_ns` (Unix nanoseconds): what came since the last good one.
    pub fn take(&mut self, text: &str, format: Format, at_ns: u64, rules: &Rules) -> Taken {
        let mut taken = Taken::default();
        let page = match text::parse(text, format) {
            Ok(page) => page,
            Err(error) => {
                taken.drop(Reason::Page, 1);
                taken.faults.push(error.to_string());
                return taken;
            }
        };
        taken.drop(Reason::Line, page.faulty_lines);
        taken.faults = page.faults.iter().map(ToString::to_string).collect();
        // Two rows of one source and instant would be one.
        let at_ns = if self.page_ns == Some(at_ns) { at_ns + 1 } else { at_ns };
        let run_s = run(&page);
        let same_run = match (self.run_s, run_s) {
            (Some(before), Some(now)) => (now - before).abs() <= 1.0,
            (before, now) => before.is_none() && now.is_none(),
        };
        let before = self.learn(rules);
        let is_learned = before.is_some();
        let is_comparable = same_run && !self.forgotten;
        let page_before_ns = self.page_ns.filter(|page| is_comparable && *page < at_ns);
        let found = gather(&page, rules);
        let falls = self.falls.clone();
        let turn = self.turn(&found, run_s, at_ns);
        if turn == Turn::Other {
            // Of the other one's requests that run nothing is known.
            self.unseen.clear();
        }
        // What only the other one shows was not looked for on its page before.
        let page_before_ns = page_before_ns.filter(|_| turn == Turn::Same);
        let moment = Moment { at_ns, run_s, watched_ns: self.watched_ns, page_before_ns, turn };
        let presets: BTreeSet<Preset> = found.iter().filter_map(Series::preset).collect();
        self.kind.see(&found);
        taken.presets = presets.into_iter().map(Preset::name).collect();
        taken.is_new = is_learned || self.falls != falls;
        taken.missing = missing(&found, rules);
        self.name(&mut taken, is_learned);
        let uptime_s = run_s.map(|run| seconds(at_ns) - run).filter(|uptime| *uptime >= 0.0);
        let mut taking = Taking::new(taken, moment, uptime_s, self.kind, std::mem::take(&mut self.owed));
        found.iter().for_each(|series| taking.call(series));
        let mut unclear = std::mem::take(&mut self.unclear);
        if let Some(in_part) = before {
            unclear.extend(self.not_looked_for(&found, &in_part));
        }
        for family in page.families.iter().filter(|family| family.spoiled) {
            self.unclear.insert(family.name.strip_suffix("_total").unwrap_or(&family.name).to_owned());
            let bucket = format!("{}_bucket", family.name);
            rules
                .timed(&bucket)
                .iter()
                .flat_map(|(_, meanings, _)| *meanings)
                .for_each(|meaning| taking.unclear(meaning));
        }
        self.all(&found, &unclear, rules.most_series, &mut taking);
        (self.page_ns, self.run_s) = (Some(at_ns), run_s);
        self.unseen(rules.most_series, &mut taking);
        let (taken, owed) = taking.close();
        self.owed = owed;
        taken
    }

    /// When the page before was read by other rules: the families of which these looked for some series only. What only today's rules
    /// know was not looked for on that page, nor on those before: what such a series has counted up to then is a base line, however
    /// old its server is.
    fn learn(&mut self, rules: &Rules) -> Option<BTreeSet<String>> {
        let now = rules.fingerprint();
        if self.rules.replace(now) == Some(now) {
            return None;
        }
        self.kind = Kind { engine: self.kind.engine, ..Kind::default() };
        self.watched_ns = self.watched_ns.max(self.page_ns.unwrap_or_default());
        Some(std::mem::replace(&mut self.in_part, rules.in_part()))
    }

    /// Families of which a series that is new may have been on the page before, which was read by other rules.
    fn not_looked_for(&self, found: &[Series<'_, '_>], in_part: &BTreeSet<String>) -> BTreeSet<String> {
        let shown = self.series.iter().filter(|(_, total)| Some(total.seen_ns) == self.page_ns);
        let shown: BTreeSet<&str> = shown.filter_map(|(key, _)| key.lines().next()).collect();
        let is_followed = |series: &Series<'_, '_>| shown.contains(&*series.kind()) && !in_part.contains(series.family);
        let others = found.iter().filter(|series| !is_followed(series));
        others.map(|series| series.family.to_owned()).collect()
    }

    /// Keeps the preset that it was called by first, until other rules find another one.
    fn name(&mut self, taken: &mut Taken, is_learned: bool) {
        let first = taken.presets.first().filter(|_| is_learned || self.preset.is_none());
        if let Some(first) = first {
            taken.is_new = true;
            self.preset = Some((*first).to_owned());
        }
        taken.preset = self.preset.as_deref().and_then(|name| name.parse().ok()).map(Preset::name);
    }

    /// Whose this page is, by all totals that say no start.
    fn turn(&mut self, found: &[Series<'_, '_>], run_s: Option<f64>, at_ns: u64) -> Turn {
        if self.page_ns.is_none() || run_s.is_some() {
            return Turn::Same;
        }
        let fell = |series: &Series<'_, '_>| {
            let total = series.key().filter(|_| !series.spoiled).and_then(|key| self.series.get(&key));
            let (Some(total), Ok(now)) = (total, read(series, series.counter(found))) else { return false };
            self.falls.is_current(total.at_ns) && !says_start(Some(total), &now) && total.fell(&now)
        };
        let is_fall = found.iter().any(fell);
        self.falls.turn(is_fall, at_ns)
    }

    /// Takes all series: times first, since aborted requests are taken out of them. `unclear` are the families that the page
    /// before was not clear about.
    fn all(&mut self, found: &[Series<'_, '_>], unclear: &BTreeSet<String>, most_series: usize, taking: &mut Taking) {
        let keys: Vec<Option<String>> = found.iter().map(Series::key).collect();
        for key in keys.iter().flatten() {
            if let Some(total) = self.series.get_mut(key) {
                total.seen_ns = taking.moment.at_ns;
            }
        }
        let families: BTreeSet<&str> = found.iter().map(|series| series.family).collect();
        let summaries: BTreeSet<&str> = found.iter().filter_map(Series::summary).collect();
        for timed in [true, false] {
            for (series, key) in found.iter().zip(&keys).filter(|(series, _)| series.timed().is_some() == timed) {
                let told = match series.timed().map(|meaning| (&meaning.what.shape, &*meaning.what.metric)) {
                    Some((Shape::Older(newer), _)) => families.contains(&**newer),
                    Some((Shape::Mean(_), metric)) => summaries.contains(metric),
                    _ => false,
                };
                match key {
                    _ if told => {}
                    Some(key) if self.series.contains_key(key) || self.has_room(most_series, taking) => {
                        let clear = !unclear.contains(series.family);
                        self.one(series, key, clear, found, taking);
                    }
                    _ => {
                        taking.taken.drop(Reason::Series, 1);
                        self.forgotten = true;
                    }
                }
            }
        }
    }

    /// Takes one series. `clear`: the page before would have shown it, if it had been there.
    fn one(&mut self, series: &Series<'_, '_>, key: &str, clear: bool, found: &[Series<'_, '_>], taking: &mut Taking) {
        if series.spoiled {
            return self.unclear(series, taking);
        }
        let reading = match read(series, series.counter(found)) {
            Ok(reading) => reading,
            Err(reason) => {
                taking.taken.drop(reason, 1);
                return self.unclear(series, taking);
            }
        };
        if let Role::Counted(_, what @ (What::Running | What::Waiting)) = series.role {
            return taking.open(series, what, reading.count());
        }
        // Aborted requests that the histogram holds can't be taken out of it while it tells nothing: both wait.
        let inside = matches!(series.role, Role::Counted(_, What::AbortedInside));
        if inside && series.preset().is_some_and(|preset| taking.unclear.contains(&(preset, REQUESTS.to_owned()))) {
            return self.unclear(series, taking);
        }
        let page_before_ns = taking.moment.page_before_ns.filter(|_| clear && !self.forgotten);
        let moment = Moment { page_before_ns, ..taking.moment };
        let before = self.series.get_mut(key);
        let step = since(before.as_deref(), &reading, &moment);
        let whole = matches!(&step, Step::Increase(came) if came.whole);
        match step {
            Step::BaseLine => taking.taken.drop(Reason::BaseLine, u64::from(reading.count() > 0)),
            Step::Overlap => taking.taken.drop(Reason::Overlap, 1),
            Step::Increase(came) => match before {
                Some(total) if series.timed().is_some() && !whole && came.counts.iter().all(|count| *count == 0) => {
                    total.nothing_came(moment.at_ns);
                    return taking.total(series, &reading, false);
                }
                Some(total) => {
                    let patient = !whole && !total.doubted;
                    if !taking.came(series, &reading, came, patient) {
                        total.doubted = true;
                        return self.unclear(series, taking);
                    }
                }
                None => _ = taking.came(series, &reading, came, false),
            },
        }
        taking.total(series, &reading, whole);
        let total = Total::new(&reading, &moment);
        taking.taken.is_new |= self.series.get(key).is_none_or(|before| !before.is_like(&total));
        self.series.insert(key.to_owned(), total);
    }

    /// Remembers that the page was not clear about a series.
    fn unclear(&mut self, series: &Series<'_, '_>, taking: &mut Taking) {
        self.unclear.insert(series.family.to_owned());
        series.timed().into_iter().for_each(|meaning| taking.unclear(meaning));
    }

    /// Whether there is room for one more series. Those that were not seen for longest make room.
    fn has_room(&mut self, most_series: usize, taking: &mut Taking) -> bool {
        if self.series.len() < most_series {
            return true;
        }
        let now = taking.moment.at_ns;
        let mut gone: Vec<(u64, String)> = Vec::new();
        for (key, total) in self.series.iter().filter(|(_, total)| total.seen_ns != now) {
            gone.push((total.seen_ns, key.clone()));
        }
        if gone.is_empty() {
            return false;
        }
        gone.sort_unstable();
        gone.truncate(gone.len().div_ceil(2));
        gone.iter().for_each(|(_, key)| _ = self.series.remove(key));
        taking.taken.drop(Reason::Series, gone.len() as u64);
        taking.taken.is_new = true;
        (self.forgotten, self.watched_ns) = (true, self.watched_ns.max(now));
        taking.moment.watched_ns = self.watched_ns;
        self.series.len() < most_series
    }

    /// Finds requests that were aborted and are counted nowhere.
    fn unseen(&mut self, most: usize, taking: &mut Taking) {
        for (identity, now) in taking.opened() {
            let key = format!("{:?} {:?}", identity.model, identity.source);
            let before = self.unseen.get(&key);
            if before.is_none() && self.unseen.len() >= most {
                continue;
            }
            let (next, more) = Unseen::next(before, now, taking.moment.at_ns);
            self.unseen.insert(key, next);
            if let Some((n, start_ns)) = more {
                taking.aborted(Aborted { preset: Some(Preset::Vllm), identity, n, start_ns, inside: false });
            }
        }
    }
}

/// When the server's process started, in Unix seconds.
fn run(page: &Page<'_>) -> Option<f64> {
    let mut starts = page.samples.iter().filter(|sample| sample.name == "process_start_time_seconds");
    let start = starts.next()?.value;
    (start.is_finite() && start > 0.0 && starts.all(|other| other.value == start)).then_some(start)
}

#[expect(clippy::cast_precision_loss, reason = "to compare with a time in seconds")]
fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

#[cfg(test)]
mod aborts;
#[cfg(test)]
mod balanced;
#[cfg(test)]
mod cases;
#[cfg(test)]
mod fixture;
#[cfg(test)]
mod learned;
#[cfg(test)]
mod properties;
