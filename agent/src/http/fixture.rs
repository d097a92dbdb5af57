//! What the handlers share, for their tests.

use std::path::Path;
use std::time::Duration;

use super::{Health, Room, Shared, body};
use crate::exposition::{Exposition, Latest};
use crate::outbox::{Keeper, SpoolLimits};
use crate::telemetry::Telemetry;
use crate::totals::Totals;

/// An agent that keeps in `dir` what it is sent, in bodies of up to `max_push_bytes`.
pub fn shared(dir: &Path, max_push_bytes: usize) -> Shared {
    let telemetry = Telemetry::new().unwrap();
    let limits = SpoolLimits { max_bytes: 8 << 20, segment_bytes: 1 << 20, rejected_bytes: 1 << 20 };
    let keeper = Keeper::open(&dir.join("spool"), limits, telemetry.clone()).unwrap();
    Shared {
        node: "n1".to_owned(),
        max_push_bytes,
        patience: body::PATIENCE,
        totals: Totals::open(dir, 1_796_040_000_000_000_000, "n1", keeper.clone(), limits.max_bytes).unwrap(),
        keeper,
        room: Room::new(max_push_bytes),
        telemetry,
        health: Health::default(),
        exposition: Exposition::new(Latest::new(Duration::from_secs(1)), "n1", false),
    }
}
