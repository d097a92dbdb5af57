//! Starts to follow who becomes a target, and ends it for who is none any more.
//!
//! A target that is gone is remembered for [`FORGET`] on disk: should it come again until then, its counters go on from where
//! they were. What it had counted and the spool lacks is handed on all the same, also after a restart of the agent.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::watch::{self, Receiver, Sender};
use tokio::task::JoinSet;
use uuid::Uuid;

use super::due;
use super::fetch::Fetcher;
use super::files::Files;
use super::find::{self, Wanted};
use super::follow::{Followee, Shared, follow};
use super::kept::{self, EXTENSION};
use super::listen::Listeners;
use super::since::{FORGET, Places, Watched};
use super::target::Target;
use super::told::Told;
use crate::config::{Config, PodsScraped, Scrape};
use crate::crew::Crew;
use crate::http::Health;
use crate::outbox::Keeper;
use crate::outbox::encode::Identity;
use crate::run::clock::now_ms;
use crate::telemetry::Telemetry;

/// How often files are looked at.
const LOOK: Duration = Duration::from_secs(2);

/// How often is looked for those that can be forgotten.
const SWEEP: Duration = Duration::from_secs(600);

/// How long, at the start, it is waited for who holds the devices: longer than for what schedulers say first.
const FIRST_WORD: Duration = Duration::from_secs(5);

/// What is wrong with targets as a whole is said under this name.
const ALL: &str = "";

/// All servers that are followed. They are left alone when this is dropped.
#[derive(Debug)]
pub struct Scraping(JoinSet<()>);

impl Scraping {
    /// Begins, within a tokio runtime. Where nobody can be a target nothing is started, but what an agent before this one had
    /// not handed on yet.
    pub fn start(config: &Config, keeper: Keeper, telemetry: Telemetry, health: Health, told: Receiver<Told>) -> Self {
        let scrape = config.scrape.clone();
        let mut tasks = JoinSet::new();
        let has_targets = !scrape.targets.is_empty() || !scrape.files.is_empty() || scrape.pods != PodsScraped::Off;
        if !has_targets && !kept::folder(&config.state_dir).is_dir() {
            return Self(tasks);
        }
        let shared = Shared {
            listeners: Listeners::new(
                keeper.crew().clone(),
                config.roots.proc.clone(),
                config.roots.passwd.clone(),
                Arc::clone(&config.rules),
            ),
            keeper,
            telemetry,
            health,
            identity: Identity::of_node(&config.node),
            state_dir: config.state_dir.clone(),
            interval: scrape.interval,
            fetcher: Fetcher::new(scrape.timeout, scrape.max_bytes, scrape.ca_file.clone()),
            rules: Arc::clone(&config.rules),
            told,
            max_pending_bytes: kept::MAX_PENDING_BYTES,
            job: Crew::job_name("scrape"),
        };
        // A server that starts from now on is watched from its start on.
        tasks.spawn(run(scrape, Arc::new(shared), due::instant_ns(now_ms(), 0)));
        Self(tasks)
    }

    /// Ends all of them: what they have is on disk.
    pub async fn stop(mut self) {
        self.0.shutdown().await;
    }
}

/// A server that is followed.
struct Followed {
    target: Sender<Option<Followee>>,
    task: tokio::task::Id,
}

/// All that are followed.
struct Followers {
    shared: Arc<Shared>,
    followed: HashMap<Uuid, Followed>,
    tasks: JoinSet<()>,
    places: Places,
}

async fn run(config: Scrape, shared: Arc<Shared>, began_ns: u64) {
    let mut told = shared.told.clone();
    let mut files = Files::new(&config.files);
    let mut followers = Followers::new(Arc::clone(&shared), began_ns);
    let mut before = Wanted::default();
    let mut swept = tokio::time::Instant::now();
    // An end of the loop is seen below.
    let _ = tokio::time::timeout(FIRST_WORD, told.wait_for(|told| told.is_known)).await;
    // Rows of servers that may be none any more.
    for id in on_disk(&shared, None).await {
        followers.begin(id, None, Duration::ZERO);
    }
    loop {
        if !files.is_empty() {
            let mut looked = files.clone();
            if let Some(looked) = shared
                .keeper
                .crew()
                .run(&shared.job, move || {
                    looked.look();
                    looked
                })
                .await
            {
                files = looked;
            }
        }
        let wanted = find::wanted(&config, &files, &told.borrow_and_update());
        if wanted != before {
            followers.apply(&wanted, due::instant_ns(now_ms(), 0));
            let remarks = (!wanted.remarks.is_empty()).then(|| wanted.remarks.join("\n"));
            shared.health.note_target(ALL, remarks);
            shared.telemetry.scrape_targets.set(i64::try_from(wanted.targets.len()).unwrap_or(i64::MAX));
            before = wanted;
        }
        if swept.elapsed() >= SWEEP {
            swept = tokio::time::Instant::now();
            on_disk(&shared, Some(followers.followed.keys().copied().collect())).await;
        }
        let look = async {
            match files.is_empty() {
                true if before.targets.is_empty() => std::future::pending().await,
                true => tokio::time::sleep(SWEEP).await,
                false => tokio::time::sleep(LOOK).await,
            }
        };
        tokio::select! {
            () = look => {}
            changed = told.changed() => if changed.is_err() { return },
            Some(ended) = followers.tasks.join_next_with_id() => {
                let is_wanted = match ended {
                    Ok((task, ())) => followers.ended(task, false),
                    Err(error) => followers.ended(error.id(), error.is_panic()),
                };
                // One that was asked for again meanwhile begins again.
                if is_wanted {
                    before = Wanted::default();
                }
            }
        }
    }
}

impl Followers {
    fn new(shared: Arc<Shared>, began_ns: u64) -> Self {
        Self { shared, followed: HashMap::new(), tasks: JoinSet::new(), places: Places::new(began_ns) }
    }

    /// Has these followed, and no others.
    fn apply(&mut self, wanted: &Wanted, now_ns: u64) {
        let mut left: Vec<Arc<Target>> = Vec::new();
        for (id, one) in &self.followed {
            if !wanted.targets.contains_key(id)
                && let Some(before) = one.target.send_replace(None)
            {
                self.places.leave(&before.target, now_ns);
                left.push(before.target);
            }
        }
        for (id, target) in &wanted.targets {
            let known = self.followed.get(id).map(|one| (one, one.target.borrow().clone()));
            match known {
                Some((_, Some(now))) if now.target == *target => {}
                Some((one, Some(now))) => {
                    _ = one.target.send_replace(Some(Followee { target: Arc::clone(target), watched: now.watched }));
                }
                other => {
                    tracing::info!(url = target.url, "a server is scraped");
                    let watched = self.watched(target, now_ns, &left);
                    let followee = Followee { target: Arc::clone(target), watched };
                    match other {
                        // It still hands on what it had.
                        Some((one, None)) => _ = one.target.send_replace(Some(followee)),
                        _ => self.begin(*id, Some(followee), Duration::ZERO),
                    }
                }
            }
        }
    }

    fn watched(&self, target: &Target, now_ns: u64, left: &[Arc<Target>]) -> Watched {
        let others: Vec<Followee> = self.followed.values().filter_map(|one| one.target.borrow().clone()).collect();
        self.places.watched(target, now_ns, others.iter().map(|one| &*one.target), left)
    }

    /// Follows one after this time.
    fn begin(&mut self, id: Uuid, followee: Option<Followee>, wait: Duration) {
        let (sender, receiver) = watch::channel(followee);
        let shared = Arc::clone(&self.shared);
        let task = self.tasks.spawn(async move {
            tokio::time::sleep(wait).await;
            follow(shared, id, receiver).await;
        });
        self.followed.insert(id, Followed { target: sender, task: task.id() });
    }

    /// Takes note that a task has ended; whether its server is a target all the same. One that panicked begins again after
    /// the time between two scrapes: from its memory, and with a base line where it has none.
    fn ended(&mut self, task: tokio::task::Id, panicked: bool) -> bool {
        let Some(id) = self.followed.iter().find(|(_, one)| one.task == task).map(|(id, _)| *id) else { return false };
        let followee = self.followed.remove(&id).and_then(|one| one.target.borrow().clone());
        if !panicked {
            return followee.is_some();
        }
        self.shared.telemetry.scrapes.with_label_values(&["panicked"]).inc();
        let url = followee.as_ref().map(|one| one.target.url.as_str()).unwrap_or_default();
        tracing::error!(url, %id, "what follows a server panicked: a fault of the agent; it begins again");
        if !url.is_empty() {
            let reason = format!("scrape of {url}: what follows it panicked: a fault of the agent; it begins again");
            self.shared.health.note_target(url, Some(reason));
        }
        let since_ns = due::instant_ns(now_ms(), 0);
        let anew = followee.map(|one| Followee { watched: Watched { since_ns, ..one.watched }, ..one });
        self.begin(id, anew, self.shared.interval);
        false
    }
}

/// The servers that are remembered. When those that are followed are given, the others are forgotten when it is time.
async fn on_disk(shared: &Shared, followed: Option<Vec<Uuid>>) -> Vec<Uuid> {
    let folder = kept::folder(&shared.state_dir);
    let look = move || {
        let mut found = Vec::new();
        for entry in fs::read_dir(&folder).into_iter().flatten().filter_map(Result::ok) {
            let path = entry.path();
            let id = path.file_stem().and_then(|stem| stem.to_str()?.parse::<Uuid>().ok());
            let Some(id) = id else { continue };
            match &followed {
                Some(followed) if !followed.contains(&id) && is_old(&path) => {
                    // It is tried again the next time.
                    let _ = fs::remove_file(&path);
                }
                None if path.extension().is_some_and(|extension| extension == EXTENSION) => found.push(id),
                _ => {}
            }
        }
        found
    };
    shared.keeper.crew().run(&shared.job, look).await.unwrap_or_default()
}

fn is_old(path: &Path) -> bool {
    let changed = fs::metadata(path).and_then(|metadata| metadata.modified());
    changed
        .is_ok_and(|changed| SystemTime::now().duration_since(changed).is_ok_and(|age| age >= FORGET + kept::REFRESH))
}

#[cfg(test)]
mod tests;
