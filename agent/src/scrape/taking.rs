//! What has come of a page so far.

use std::collections::{BTreeMap, BTreeSet};

use contador_schemas::cells::{Cell, Cells};
use serde::{Deserialize, Serialize};

use super::aborted::{Aborted, Ended, Open, REQUESTS, censor, take_out};
use super::memory::{Came, Moment};
use super::owed::{Debtor, Owed};
use super::plausible::{Verdict, judge};
use super::presets::{Identity, Meaning, Preset, Timed, What};
use super::reading::Reading;
use super::series::{Role, Series};
use super::served::{Book, debtor};
use super::taken::{Increase, Taken};

/// How much longer than a server runs a latency may seem to be: clocks differ.
const UPTIME_SLACK_S: f64 = 5.0;

/// A page on its way.
#[derive(Debug)]
pub(super) struct Taking {
    pub taken: Taken,
    pub moment: Moment,
    /// What tells nothing now of that which has a value for each request that ended.
    pub unclear: BTreeSet<(Preset, String)>,
    /// What aborted requests are still to be taken out of.
    pub owed: Owed,
    called: Vec<Called>,
    uptime_s: Option<f64>,
    kind: Kind,
    book: Book,
    ended: Vec<Ended>,
    aborted: Vec<Aborted>,
    open: BTreeMap<Identity, Totals>,
    named: BTreeSet<(String, Identity)>,
}

/// What is known of a server by the families that it has shown.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub(super) struct Kind {
    /// It has an engine's: a front's are those of a client, then.
    pub engine: bool,
    /// A preset's counters tell how many requests there were.
    pub counts: bool,
    /// Requests are counted where they come in, and not only in each deployment that they go through.
    pub door: bool,
}

impl Kind {
    /// Learns from the series of a page.
    pub fn see(&mut self, found: &[Series<'_, '_>]) {
        let engines = [Preset::Vllm, Preset::Sglang, Preset::Tgi, Preset::TensorRtLlm];
        for series in found {
            self.engine |= series.preset().is_some_and(|preset| engines.contains(&preset));
            if let Role::Counted(_, what) = &series.role {
                // A proxy that was only asked about itself counts all the same.
                self.door |=
                    series.preset() == Some(Preset::RayServe) && matches!(what, What::Requests | What::Nothing);
                self.counts |= matches!(what, What::Requests | What::RequestsAndAborted | What::Hops);
            }
        }
    }
}

/// What whole requests are called, by a user perhaps.
#[derive(Debug)]
struct Called {
    preset: Preset,
    /// The series as its preset has it.
    meant: Identity,
    metric: String,
    identity: Identity,
}

/// Totals of vLLM's requests.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    started: Option<u64>,
    finished: Option<u64>,
    running: Option<u64>,
    waiting: Option<u64>,
    whole: bool,
}

impl Taking {
    /// `uptime_s` is how long the server has been running.
    pub fn new(taken: Taken, moment: Moment, uptime_s: Option<f64>, kind: Kind, owed: Owed) -> Self {
        Self {
            taken,
            moment,
            unclear: BTreeSet::new(),
            owed,
            called: Vec::new(),
            uptime_s: uptime_s.map(|uptime| uptime + UPTIME_SLACK_S),
            kind,
            book: Book::default(),
            ended: Vec::new(),
            aborted: Vec::new(),
            open: BTreeMap::new(),
            named: BTreeSet::new(),
        }
    }

    /// Takes note of what whole requests are called, however many came.
    pub fn call(&mut self, series: &Series<'_, '_>) {
        let Some((meaning, preset)) = series.timed().zip(series.preset()) else { return };
        if meaning.what.meant == REQUESTS {
            let (meant, metric) = (series.meant(), meaning.what.metric.clone());
            self.called.push(Called { preset, meant, metric, identity: series.identity() });
        }
    }

    /// Takes note that a family that has a value for each request that ended tells nothing now.
    pub fn unclear(&mut self, meaning: &Meaning<Timed>) {
        let preset = meaning.preset.filter(|_| meaning.what.at_end);
        self.unclear.extend(preset.map(|preset| (preset, meaning.what.meant.clone())));
    }

    /// Takes what came of a series; false when it is doubtful and `patient` lets it wait.
    pub fn came(&mut self, series: &Series<'_, '_>, reading: &Reading, came: Came, patient: bool) -> bool {
        match &series.role {
            Role::Timed(meaning) => {
                let factor = meaning.what.factor;
                let uptime = self.uptime_s.map(|uptime| uptime * 1e6 / factor);
                match judge(came, &reading.bounds, patient, uptime) {
                    Verdict::Doubtful => return false,
                    Verdict::Impossible(reason, n) => self.taken.drop(reason, n),
                    Verdict::Taken(came, left_out) => {
                        if let Some((reason, n)) = left_out {
                            self.taken.drop(reason, n);
                        }
                        self.latency(series, &reading.bounds, &came, &meaning.what);
                    }
                }
            }
            Role::Counted(_, what) => self.count(series, *what, &came),
        }
        true
    }

    fn latency(&mut self, series: &Series<'_, '_>, bounds: &[f64], came: &Came, what: &Timed) {
        let factor = what.factor;
        let Ok(cells) = cells(bounds, &came.counts, factor) else { return };
        if cells.count() == 0 {
            return;
        }
        let metric = what.metric.clone();
        let client = series.front() && self.kind.engine && !metric.starts_with("client_");
        let metric = if client { format!("client_{metric}") } else { metric };
        let mut identity = series.identity();
        let preset = series.preset();
        if what.at_end && !client {
            let meant = what.meant.clone();
            let Identity { model, source, .. } = series.meant();
            self.ended.push(Ended { preset, meant, model, source, place: self.taken.latencies.len() });
        }
        if preset.is_none() && metric == REQUESTS && !self.kind.counts {
            let who = (identity.model.clone(), identity.source.clone());
            self.book.add(who, What::Requests, cells.count(), came.start_ns);
        }
        if !self.named.insert((metric.clone(), identity.clone())) {
            // Two families may not be one row.
            identity.attributes.push(("family".to_owned(), series.family.to_owned()));
        }
        let Identity { model, route, attributes, source } = identity;
        self.taken.latencies.push(Increase {
            metric,
            model,
            route,
            attributes,
            source,
            cells,
            sum_us: came.sum.map(|sum| sum * factor),
            start_ns: came.start_ns,
            end_ns: self.moment.at_ns,
            reset: came.reset,
            censored: false,
        });
    }

    fn count(&mut self, series: &Series<'_, '_>, what: What, came: &Came) {
        if series.front() && self.kind.engine || what == What::Hops && self.kind.door {
            return;
        }
        let n = came.counts.iter().fold(0_u64, |sum, count| sum.saturating_add(*count));
        let identity = series.identity();
        if what == What::RequestsAndAborted && came.reset {
            // The run that owed them is over.
            self.owed.take(&debtor(&identity.model, &identity.source));
        }
        if matches!(what, What::Aborted | What::AbortedInside) {
            let inside = what == What::AbortedInside;
            let start_ns = came.start_ns;
            self.aborted(Aborted { preset: series.preset(), identity, n, start_ns, inside });
        } else {
            self.book.add((identity.model, identity.source), what, n, came.start_ns);
        }
    }

    /// Takes aborted requests.
    pub fn aborted(&mut self, aborted: Aborted) {
        let who = (aborted.identity.model.clone(), aborted.identity.source.clone());
        if aborted.preset.is_some_and(Preset::counts_together) {
            self.book.together(who.clone());
        }
        self.book.add(who, What::Aborted, aborted.n, aborted.start_ns);
        if aborted.n > 0 {
            self.aborted.push(aborted);
        }
    }

    /// Takes a gauge of requests that are not done.
    pub fn open(&mut self, series: &Series<'_, '_>, what: What, n: u64) {
        let totals = self.open.entry(series.meant()).or_default();
        let place = if what == What::Running { &mut totals.running } else { &mut totals.waiting };
        *place = Some(place.unwrap_or_default().saturating_add(n));
    }

    /// Takes the total of a series of vLLM's that tells how many requests there were.
    pub fn total(&mut self, series: &Series<'_, '_>, reading: &Reading, whole: bool) {
        let Some(meaning) = series.timed().filter(|meaning| meaning.preset == Some(Preset::Vllm)) else { return };
        match &*meaning.what.meant {
            "time_to_first_token" => self.open.entry(series.meant()).or_default().started = Some(reading.count()),
            REQUESTS => {
                let totals = self.open.entry(series.meant()).or_default();
                (totals.finished, totals.whole) = (Some(reading.count()), whole);
            }
            _ => {}
        }
    }

    /// The totals of vLLM's requests, where all are known.
    pub fn opened(&mut self) -> Vec<(Identity, Open)> {
        let known = |totals: &Totals| {
            let open = totals.running?.saturating_add(totals.waiting?);
            Some(Open { started: totals.started?, finished: totals.finished?, open, whole: totals.whole })
        };
        let open = std::mem::take(&mut self.open);
        open.into_iter().filter_map(|(identity, totals)| Some((identity, known(&totals)?))).collect()
    }

    /// What was taken in the end, and what is owed still.
    pub fn close(mut self) -> (Taken, Owed) {
        let aborted = std::mem::take(&mut self.aborted);
        for aborted in &aborted {
            let (metric, named) = self.name(aborted);
            censor(&mut self.taken.latencies, &self.ended, aborted, (&metric, named), self.moment.at_ns);
        }
        self.phases(&aborted);
        self.taken.latencies.retain(|latency| latency.cells.count() > 0);
        self.taken.served = self.book.close(self.moment.at_ns, &mut self.owed);
        self.taken.dropped.sort_unstable();
        (self.taken, self.owed)
    }

    /// What aborted requests are called where they are no values of a histogram: as whole requests of the same part of the server
    /// are, else as those of the same model.
    fn name(&self, aborted: &Aborted) -> (String, Identity) {
        let Aborted { preset, identity, .. } = aborted;
        let of_model = |one: &&Called| Some(one.preset) == *preset && one.meant.model == identity.model;
        let is_own = |one: &&Called| one.meant.source == identity.source;
        let known = self.called.iter().filter(of_model).find(is_own);
        let source = known.map_or(&identity.source, |own| &own.identity.source).clone();
        match known.or_else(|| self.called.iter().find(of_model)) {
            Some(Called { metric, identity: named, .. }) => {
                (metric.clone(), Identity { model: named.model.clone(), source, ..identity.clone() })
            }
            None => (REQUESTS.to_owned(), identity.clone()),
        }
    }

    /// Takes aborted requests out of the phases that have a value of them. One that is not there had not come to that phase, unless
    /// the phase tells nothing now: then it is still to be taken out.
    fn phases(&mut self, aborted: &[Aborted]) {
        for Aborted { preset, identity, n, .. } in aborted.iter().filter(|aborted| aborted.inside) {
            let Some(preset) = preset else { continue };
            for metric in preset.at_end() {
                let (model, source) = (identity.model.clone(), identity.source.clone());
                let of = Debtor { preset: preset.name().to_owned(), metric: (*metric).to_owned(), model, source };
                self.owed.add(of, *n);
            }
        }
        for (of, n) in self.owed.drain(|of| !of.preset.is_empty()) {
            let Ok(preset) = of.preset.parse::<Preset>() else { continue };
            let who = (of.model.as_str(), of.source.as_slice());
            let left = take_out(&mut self.taken.latencies, &self.ended, (Some(preset), &of.metric), who, n);
            if self.unclear.contains(&(preset, of.metric.clone())) {
                self.owed.add(of, left);
            }
        }
    }
}

/// The cells of counts by bucket, in microseconds: `(lo, hi]`, the first from 0 on, the last without an end.
fn cells(bounds: &[f64], counts: &[u64], factor: f64) -> Result<Cells, contador_schemas::cells::CellsError> {
    Cells::new(counts.iter().enumerate().map(|(index, &n)| {
        let hi = bounds.get(index).map_or(f64::INFINITY, |bound| bound * factor);
        let below = index.checked_sub(1).and_then(|below| bounds.get(below));
        Cell { lo: below.map_or(0.0, |bound| (bound * factor).next_up()).min(hi), hi, n }
    }))
}
