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
use super::follow::{Shared, follow};
use super::kept::{self, EXTENSION};
use super::listen::Listeners;
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

/// How long a server is remembered that is no target any more.
const FORGET: Duration = Duration::from_secs(6 * 3_600);

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
        if scrape.max_targets == 0 || !has_targets && !kept::folder(&config.state_dir).is_dir() {
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
        tasks.spawn(run(scrape, Arc::new(shared)));
        Self(tasks)
    }

    /// Ends all of them: what they have is on disk.
    pub async fn stop(mut self) {
        self.0.shutdown().await;
    }
}

/// A server that is followed.
struct Followed {
    target: Sender<Option<Arc<Target>>>,
}

async fn run(config: Scrape, shared: Arc<Shared>) {
    let mut told = shared.told.clone();
    let mut files = Files::new(&config.files);
    let mut followed: HashMap<Uuid, Followed> = HashMap::new();
    let mut tasks: JoinSet<Uuid> = JoinSet::new();
    let mut before = Wanted::default();
    let mut swept = tokio::time::Instant::now();
    // An end of the loop is seen below.
    let _ = tokio::time::timeout(FIRST_WORD, told.wait_for(|told| told.is_known)).await;
    // Rows of servers that may be none any more.
    for id in on_disk(&shared, None).await {
        begin(&shared, id, None, &mut followed, &mut tasks);
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
            apply(&shared, &wanted, &mut followed, &mut tasks);
            let remarks = (!wanted.remarks.is_empty()).then(|| wanted.remarks.join("\n"));
            shared.health.note_target(ALL, remarks);
            shared.telemetry.scrape_targets.set(i64::try_from(wanted.targets.len()).unwrap_or(i64::MAX));
            before = wanted;
        }
        if swept.elapsed() >= SWEEP {
            swept = tokio::time::Instant::now();
            on_disk(&shared, Some(followed.keys().copied().collect())).await;
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
            Some(ended) = tasks.join_next() => {
                // One that was asked for again meanwhile begins again.
                if let Ok(id) = ended
                    && followed.remove(&id).is_some_and(|one| one.target.borrow().is_some())
                {
                    before = Wanted::default();
                }
            }
        }
    }
}

fn apply(shared: &Arc<Shared>, wanted: &Wanted, followed: &mut HashMap<Uuid, Followed>, tasks: &mut JoinSet<Uuid>) {
    for (id, one) in followed.iter() {
        if !wanted.targets.contains_key(id) && one.target.borrow().is_some() {
            one.target.send_replace(None);
        }
    }
    for (id, target) in &wanted.targets {
        match followed.get(id) {
            Some(one) => {
                _ = one.target.send_if_modified(|now| {
                    let is_new = now.as_ref() != Some(target);
                    if is_new {
                        *now = Some(Arc::clone(target));
                    }
                    is_new
                })
            }
            None => {
                tracing::info!(url = target.url, "a server is scraped");
                begin(shared, *id, Some(target), followed, tasks);
            }
        }
    }
}

fn begin(
    shared: &Arc<Shared>,
    id: Uuid,
    target: Option<&Arc<Target>>,
    followed: &mut HashMap<Uuid, Followed>,
    tasks: &mut JoinSet<Uuid>,
) {
    let (sender, receiver) = watch::channel(target.cloned());
    let shared = Arc::clone(shared);
    // It is watched from now on.
    let since_ns = due::instant_ns(now_ms(), 0);
    tasks.spawn(async move {
        follow(shared, id, receiver, since_ns).await;
        id
    });
    followed.insert(id, Followed { target: sender });
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
    changed.is_ok_and(|changed| SystemTime::now().duration_since(changed).is_ok_and(|age| age >= FORGET))
}
