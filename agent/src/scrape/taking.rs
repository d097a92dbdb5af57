//! What has come of a page so far.

use std::collections::{BTreeMap, BTreeSet};

use contador_schemas::cells::{Cell, Cells};

use super::aborted::{Aborted, Open, REQUESTS, censor};
use super::memory::{Came, Moment};
use super::plausible::{Verdict, judge};
use super::presets::{Identity, Preset, What};
use super::reading::Reading;
use super::series::{Role, Series};
use super::served::Book;
use super::taken::{Increase, Taken};

/// How much longer than a server runs a latency may seem to be: clocks differ.
const UPTIME_SLACK_S: f64 = 5.0;

/// A page on its way.
#[derive(Debug)]
pub(super) struct Taking {
    pub taken: Taken,
    pub moment: Moment,
    /// Presets whose histogram of requests tells nothing now.
    pub held: BTreeSet<Preset>,
    uptime_s: Option<f64>,
    engine: bool,
    book: Book,
    /// Preset and position of the latencies of whole requests.
    requests: Vec<(Option<Preset>, usize)>,
    aborted: Vec<Aborted>,
    open: BTreeMap<Identity, Totals>,
    named: BTreeSet<(String, Identity)>,
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
    /// `uptime_s` is how long the server has been running, `engine` whether it is an engine with or without a front.
    pub fn new(taken: Taken, moment: Moment, uptime_s: Option<f64>, engine: bool) -> Self {
        Self {
            taken,
            moment,
            held: BTreeSet::new(),
            uptime_s: uptime_s.map(|uptime| uptime + UPTIME_SLACK_S),
            engine,
            book: Book::default(),
            requests: Vec::new(),
            aborted: Vec::new(),
            open: BTreeMap::new(),
            named: BTreeSet::new(),
        }
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
                        self.latency(series, &reading.bounds, &came, factor, meaning.what.metric.clone());
                    }
                }
            }
            Role::Counted(_, what) => self.count(series, *what, &came),
        }
        true
    }

    fn latency(&mut self, series: &Series<'_, '_>, bounds: &[f64], came: &Came, factor: f64, metric: String) {
        let Ok(cells) = cells(bounds, &came.counts, factor) else { return };
        if cells.count() == 0 {
            return;
        }
        let client = series.front() && self.engine && !metric.starts_with("client_");
        let metric = if client { format!("client_{metric}") } else { metric };
        let mut identity = series.identity();
        if !self.named.insert((metric.clone(), identity.clone())) {
            // Two families may not be one row.
            identity.attributes.push(("family".to_owned(), series.family.to_owned()));
        }
        if metric == REQUESTS {
            self.requests.push((series.preset(), self.taken.latencies.len()));
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
        if series.front() && self.engine {
            return;
        }
        let n = came.counts.iter().fold(0_u64, |sum, count| sum.saturating_add(*count));
        let identity = series.identity();
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
        let Identity { model, source, .. } = aborted.identity.clone();
        self.book.add((model, source), What::Aborted, aborted.n, aborted.start_ns);
        if aborted.n > 0 {
            self.aborted.push(aborted);
        }
    }

    /// Takes a gauge of requests that are not done.
    pub fn open(&mut self, series: &Series<'_, '_>, what: What, n: u64) {
        let totals = self.open.entry(series.identity()).or_default();
        let place = if what == What::Running { &mut totals.running } else { &mut totals.waiting };
        *place = Some(place.unwrap_or_default().saturating_add(n));
    }

    /// Takes the total of a series of vLLM's that tells how many requests there were.
    pub fn total(&mut self, series: &Series<'_, '_>, reading: &Reading, whole: bool) {
        let Some(meaning) = series.timed().filter(|meaning| meaning.preset == Some(Preset::Vllm)) else { return };
        match &*meaning.what.metric {
            "time_to_first_token" => self.open.entry(series.identity()).or_default().started = Some(reading.count()),
            REQUESTS => {
                let totals = self.open.entry(series.identity()).or_default();
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

    /// What was taken in the end.
    pub fn close(mut self) -> Taken {
        for aborted in &self.aborted {
            censor(&mut self.taken.latencies, &self.requests, aborted, self.moment.at_ns);
        }
        self.taken.latencies.retain(|latency| latency.cells.count() > 0);
        self.taken.served = self.book.close(self.moment.at_ns);
        self.taken.dropped.sort_unstable();
        self.taken
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
