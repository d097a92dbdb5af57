//! One server, followed for as long as it is a target: asked when it is due, and what came since the last time is kept.
//!
//! Each has a task of its own, so that none waits for another. The order of what is written is that of [`kept`]: the memory with
//! the rows, and then the rows. While the spool takes nothing, rows wait in memory and in the file, up to
//! [`MAX_PENDING_BYTES`](kept::MAX_PENDING_BYTES); from then on the server is not asked. Its counters go on, so that nothing is
//! lost by that, unless it starts again meanwhile.

use std::ffi::CStr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use contador_schemas::mapping::Rules as Payers;
use tokio::sync::watch::Receiver;
use uuid::Uuid;

use super::due;
use super::fetch::{FetchError, Fetcher, Page};
use super::kept::{self, Kept, Loaded};
use super::listen::Listeners;
use super::rows;
use super::since::Watched;
use super::target::Target;
use super::told::Told;
use super::whose;
use crate::errors::chain;
use crate::http::Health;
use crate::ledger::checkpoint::{CheckpointError, CheckpointFile};
use crate::outbox::encode::infos::{self, Event};
use crate::outbox::encode::{Identity, Points};
use crate::outbox::{Keeper, Kind, Lost, Record};
use crate::run::clock::now_ms;
use crate::scrape::presets::{Preset, Rules};
use crate::scrape::server::Server;
use crate::scrape::taken::{Reason, Taken};
use crate::telemetry::Telemetry;

/// What all servers share.
#[derive(Debug)]
pub struct Shared {
    /// Where rows go.
    pub keeper: Keeper,
    /// The agent's counters.
    pub telemetry: Telemetry,
    /// Where is said what is wrong.
    pub health: Health,
    /// Who sends.
    pub identity: Identity,
    /// Where memories are.
    pub state_dir: PathBuf,
    /// Time between two scrapes.
    pub interval: Duration,
    /// How they are asked.
    pub fetcher: Fetcher,
    /// Who pays.
    pub rules: Arc<Payers>,
    /// What the node is.
    pub told: Receiver<Told>,
    /// Who listens on this node's ports.
    pub listeners: Listeners,
    /// Most bytes of rows of one server that wait for the spool: [`kept::MAX_PENDING_BYTES`].
    pub max_pending_bytes: usize,
    /// What its work is called.
    pub job: Arc<CStr>,
}

/// A server, and what is known of it.
struct Follower {
    shared: Arc<Shared>,
    id: Uuid,
    file: CheckpointFile,
    kept: Kept,
    /// What its families mean, for the target that this was made for.
    rules: Option<(Arc<Target>, Arc<Rules>)>,
    /// What was wrong at last, as it is said in the log.
    trouble: Option<String>,
    /// When its file was written as it should be; `None`: it lacks what is to be remembered, or has rows that the spool has.
    stored: Option<Instant>,
    /// Until when another target was known to be followed at its place, Unix nanoseconds.
    alone_ns: u64,
}

/// Who is followed.
#[derive(Clone, Debug, PartialEq)]
pub struct Followee {
    /// Where it is, and what is known of it.
    pub target: Arc<Target>,
    /// From when on it counts.
    pub watched: Watched,
}

/// Follows the server of this id until it is no target any more and all its rows are handed on.
pub async fn follow(shared: Arc<Shared>, id: Uuid, mut followee: Receiver<Option<Followee>>) {
    let (mut follower, mut last): (Option<Follower>, Option<String>) = (None, None);
    loop {
        let now = followee.borrow_and_update().clone();
        last = now.as_ref().map(|one| one.target.url.clone()).or(last);
        if follower.is_none() {
            follower = Follower::load(&shared, id, now.as_ref()).await;
        }
        match (follower.as_mut(), now) {
            (Some(one), Some(now)) => {
                one.begin_anew(now.watched);
                one.scrape(&now.target).await;
            }
            (Some(one), None) if !one.kept.pending.is_empty() => one.keep().await,
            _ => {}
        }
        let is_done = follower.as_ref().is_none_or(|one| one.kept.pending.is_empty()) && followee.borrow().is_none();
        if is_done {
            break;
        }
        let wait = tokio::time::sleep(due::wait(id, shared.interval, now_ms()));
        tokio::select! {
            () = wait => {}
            changed = followee.changed() => if changed.is_err() { break },
        }
    }
    for url in [last, follower.map(|one| one.kept.memory.url)].into_iter().flatten() {
        shared.health.note_target(&url, None);
        shared.telemetry.forget_target(&url);
    }
}

impl Follower {
    /// Takes up what was known; `None`: that can't be read now, or nothing was known of a server that is no target.
    async fn load(shared: &Arc<Shared>, id: Uuid, followee: Option<&Followee>) -> Option<Self> {
        let target = followee.map(|one| &one.target);
        let file = kept::file(&shared.state_dir, id);
        let (path, reading) = (file.path().to_owned(), file.clone());
        let folder = target.map(|_| kept::folder(&shared.state_dir));
        let load = move || {
            if let Some(folder) = folder {
                // Where it can't be made, nothing can be written: that is said then.
                let _ = std::fs::create_dir_all(folder);
            }
            kept::load(&reading)
        };
        let loaded = shared.keeper.crew().run(&shared.job, load).await;
        let url = target.map_or("", |target| &target.url);
        let kept = match loaded {
            Some(Ok(Loaded::Kept(kept))) => *kept,
            Some(Ok(Loaded::Nothing)) => Kept::new(url, followee?.watched.since_ns),
            Some(Ok(Loaded::Damaged(reason))) => {
                let message = format!("what was known of a scraped server was damaged: {}: {reason}", path.display());
                tracing::error!(url, message, "it was set aside");
                let mut points = Points::default();
                infos::event(&mut points, &Event::new(now_ms(), "checkpoint_damaged", message));
                // What can't be kept is in the log.
                let _ = shared.keeper.keep(Kind::Event, points.encode(&shared.identity)).await;
                // What was counted before may have been stored.
                Kept::new(url, due::instant_ns(now_ms(), 0))
            }
            failed => {
                let reason = failed.and_then(Result::err).map_or_else(|| "panicked".to_owned(), |error| chain(&error));
                shared.health.note_target(url, Some(format!("{url} is not scraped: {reason}")));
                tracing::warn!(url, reason, "a server is not scraped");
                return None;
            }
        };
        let mut one =
            Self { shared: Arc::clone(shared), id, file, kept, rules: None, trouble: None, stored: None, alone_ns: 0 };
        // Since when it is watched is remembered, and what the spool may lack goes first.
        // One that is gone, and has nothing left, is not made younger: its time runs.
        if target.is_some() || !one.kept.pending.is_empty() {
            one.keep().await;
        }
        Some(one)
    }

    /// What was remembered from before another target was followed at its place is none any more: that one's rows have what came
    /// since then. Rows that wait stay.
    fn begin_anew(&mut self, watched: Watched) {
        // Once: pages are younger from then on, also those of a clock that was set back.
        let is_told = std::mem::replace(&mut self.alone_ns, watched.alone_ns) != watched.alone_ns;
        if is_told && self.kept.memory.server.is_older(watched.alone_ns) {
            self.kept.memory.server = Server::new(watched.since_ns);
            self.stored = None;
        }
    }

    /// Asks the server, and keeps what came.
    async fn scrape(&mut self, target: &Arc<Target>) {
        if self.kept.pending_bytes() > self.shared.max_pending_bytes {
            self.keep().await;
        }
        if self.kept.pending_bytes() > self.shared.max_pending_bytes {
            let reason = "the spool takes nothing, it is asked again when that has room";
            return self.note(target, "held", Some(reason.to_owned()));
        }
        let began = Instant::now();
        let page = self.shared.fetcher.fetch(target).await;
        self.shared.telemetry.scrape_took(&target.url, began.elapsed());
        match page {
            Ok(page) => self.take(target, page).await,
            Err(error) => {
                let hint = match &error {
                    FetchError::Status(status) if status.is_redirection() => "; redirects are not followed",
                    _ => "",
                };
                self.note(target, error.name(), Some(format!("{error}{hint}")));
                if !self.kept.pending.is_empty() {
                    self.keep().await;
                }
            }
        }
    }

    async fn take(&mut self, target: &Arc<Target>, page: Page) {
        let rules = match self.rules(target) {
            Ok(rules) => rules,
            Err(reason) => return self.note(target, "rules", Some(reason)),
        };
        let told = self.shared.told.borrow().snapshots.clone();
        let listens = self.shared.listeners.owner(target, &told).await;
        let server = whose::server(target, listens.as_ref(), &self.shared.told.borrow(), &self.shared.rules);
        let (mut memory, of, identity) = (self.kept.memory.clone(), Arc::clone(target), self.shared.identity.clone());
        let work = move || {
            memory.scrapes += 1;
            let at_ns = due::instant_ns(now_ms(), memory.scrapes);
            let taken = memory.server.take(&page.text, page.format, at_ns, &rules);
            let (dropped, is_new) = (taken.dropped.clone(), taken.is_new);
            let is_known = !taken.presets.is_empty() || !of.histograms.is_empty();
            let remark = remark(&taken, is_known);
            (memory, rows::requests(taken, &of, &server, &identity), dropped, remark, is_new)
        };
        let Some(taken) = self.shared.keeper.crew().run(&self.shared.job, work).await else {
            return self.note(target, "panicked", Some("the page could not be read: a fault of the agent".to_owned()));
        };
        let (memory, requests, dropped, remark, is_new) = taken;
        self.kept.memory = memory;
        if is_new {
            self.stored = None;
        }
        self.kept.pending.extend(requests);
        for (reason, count) in &dropped {
            self.shared.telemetry.scrape_dropped.with_label_values(&[reason.name()]).inc_by(*count);
        }
        let is_torn = dropped.iter().any(|(reason, _)| *reason == Reason::Page);
        self.note(target, if is_torn { "torn" } else { "ok" }, remark);
        let is_fresh = self.stored.is_some_and(|stored| stored.elapsed() < kept::REFRESH);
        if !is_fresh || !self.kept.pending.is_empty() {
            self.keep().await;
        }
    }

    fn rules(&mut self, target: &Arc<Target>) -> Result<Arc<Rules>, String> {
        if let Some((of, rules)) = &self.rules
            && Arc::ptr_eq(of, target)
        {
            return Ok(Arc::clone(rules));
        }
        let presets = target.preset.as_ref().map_or(&Preset::ALL[..], std::slice::from_ref);
        let rules = Arc::new(Rules::new(presets, &target.histograms).map_err(|error| error.to_string())?);
        self.rules = Some((Arc::clone(target), Arc::clone(&rules)));
        Ok(rules)
    }

    /// Writes the memory with its rows, and hands them on.
    async fn keep(&mut self) {
        let mut result = self.store().await;
        if let Err(error) = &result
            && error.is_out_of_space()
        {
            // Samples give way to it, as to the ledger.
            if let Err(error) = self.shared.keeper.make_room().await {
                tracing::debug!(error = chain(&error), "cannot drop samples for what was scraped");
            }
            result = self.store().await;
        }
        self.shared.telemetry.scrape_keeping.with_label_values(&[if result.is_ok() { "ok" } else { "failed" }]).inc();
        if let Err(error) = result {
            tracing::warn!(url = self.kept.memory.url, error = chain(&error), "cannot keep what was scraped, it waits");
        }
    }

    async fn store(&mut self) -> Result<(), CheckpointError> {
        let bytes = self.kept.encode()?;
        let file = self.file.clone();
        let records: Vec<Record> =
            self.kept.pending.iter().map(|payload| Record { kind: Kind::Latency, payload: payload.clone() }).collect();
        if records.is_empty() {
            let stored = self.shared.keeper.crew().run(&self.shared.job, move || file.store(&bytes, true)).await;
            let stored = stored.unwrap_or_else(|| Err(self.file.failed(std::io::Error::other("a panic"))));
            self.stored = stored.is_ok().then(Instant::now);
            return stored;
        }
        // The file has rows then that the spool has, too.
        self.stored = None;
        match self.shared.keeper.append_after(move || file.store(&bytes, true), records).await {
            Ok(appended) => {
                let (kept, refused) = match appended {
                    Ok(kept) => (kept, None),
                    Err((kept, error)) => (kept, Some(error)),
                };
                self.kept.pending.drain(..kept.min(self.kept.pending.len()));
                if let Some(error) = refused {
                    let waits = self.kept.pending_bytes();
                    tracing::warn!(url = self.kept.memory.url, error = chain(&error), waits, "the spool takes no more");
                }
                Ok(())
            }
            Err(Lost::Refused(error)) => Err(error),
            Err(Lost::Panicked(error)) => Err(self.file.failed(std::io::Error::other(error))),
        }
    }

    /// Says how a scrape went, and what is wrong: in the log when that is new.
    fn note(&mut self, target: &Target, outcome: &str, remark: Option<String>) {
        self.shared.telemetry.scrapes.with_label_values(&[outcome]).inc();
        if outcome == "ok" {
            self.shared.telemetry.scraped(&target.url, now_ms());
        }
        let url = &target.url;
        match (&remark, &self.trouble) {
            (Some(reason), before) if before.as_deref() != Some(outcome) => {
                tracing::warn!(url, outcome, reason, id = %self.id, "a scrape");
            }
            (None, Some(_)) => tracing::info!(url, "it is scraped again"),
            _ => {}
        }
        self.trouble = remark.as_ref().map(|_| outcome.to_owned());
        self.shared.health.note_target(url, remark.map(|reason| format!("scrape of {url}: {reason}")));
    }
}

/// What people should know of a page.
fn remark(taken: &Taken, is_known: bool) -> Option<String> {
    if let Some(fault) = taken.faults.first() {
        return Some(fault.clone());
    }
    let left_out = taken.dropped.iter().filter_map(|(reason, n)| Some(format!("{n} {}", reason.remark()?)));
    let left_out: Vec<String> = left_out.collect();
    if !left_out.is_empty() {
        return Some(format!("left out: {}", left_out.join("; ")));
    }
    if !taken.missing.is_empty() {
        return Some(format!("no series on the page of the histograms {}", taken.missing.join(", ")));
    }
    let unknown = "no family of a known server on the page, expected one, or a histogram of the target's";
    (!is_known).then(|| unknown.to_owned())
}

#[cfg(test)]
mod tests;
