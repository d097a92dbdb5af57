//! What servers share, in tests.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use contador_schemas::mapping::Rules;
use tokio::sync::watch::Sender;

use super::fetch::Fetcher;
use super::follow::Shared;
use super::listen::Listeners;
use super::told::Told;
use crate::crew::Crew;
use crate::http::Health;
use crate::outbox::encode::Identity;
use crate::outbox::{Keeper, SpoolLimits};
use crate::telemetry::Telemetry;

/// The node n1 with a spool of few bytes, and where nobody is found to listen.
pub fn keeper(dir: &Path) -> Keeper {
    let limits = SpoolLimits { max_bytes: 4_096, segment_bytes: 1_024, rejected_bytes: 1_024 };
    Keeper::open(&dir.join("spool"), limits, Telemetry::new().unwrap()).unwrap()
}

/// What its servers share; rows wait up to 3,000 bytes.
pub fn shared(dir: &Path, keeper: &Keeper) -> Shared {
    let rules = Arc::<Rules>::default();
    Shared {
        keeper: keeper.clone(),
        telemetry: Telemetry::new().unwrap(),
        health: Health::default(),
        identity: Identity::of_node("n1"),
        state_dir: dir.join("state"),
        interval: Duration::from_secs(3_600),
        fetcher: Fetcher::new(Duration::from_secs(10), 1 << 20, None),
        rules: Arc::clone(&rules),
        told: Sender::new(Told::default()).subscribe(),
        listeners: Listeners::new(keeper.crew().clone(), "/nonexistent".into(), "/nonexistent".into(), rules),
        max_pending_bytes: 3_000,
        job: Crew::job_name("scrape"),
    }
}
