//! One round of asking all sensors: when it is, until when it waits, and what it has noticed.

use std::borrow::Cow;
use std::time::Duration;

use contador_schemas::names;
use tokio::time::Instant;

use crate::outbox::encode::infos::Event;
use crate::sensors::{Measures, Number, Reading};
use crate::telemetry::Telemetry;

/// One round.
#[derive(Debug)]
pub struct Round {
    /// Its instant, Unix milliseconds.
    pub instant_ms: i64,
    /// Until when it waits for sensors that have answered in time before.
    pub deadline: Instant,
    /// Where sensors are counted.
    pub telemetry: Telemetry,
    /// What has happened.
    pub events: Vec<Event>,
    /// How each sensor is.
    pub seen: Measures,
}

impl Round {
    /// A round at `instant_ms` that waits no longer than `patience`.
    pub fn new(instant_ms: i64, patience: Duration, telemetry: Telemetry) -> Self {
        let deadline = Instant::now() + patience;
        Self { instant_ms, deadline, telemetry, events: Vec::new(), seen: Measures::default() }
    }

    /// Says that something has happened.
    pub fn say(&mut self, kind: &'static str, message: impl Into<String>) {
        self.events.push(Event::new(self.instant_ms, kind, message));
    }

    /// Says how a sensor is: for how long it is stuck, and how old its last answer is, in milliseconds. It is sent once a
    /// minute, and at every round in which something is, or was, the matter with it.
    pub fn note(&mut self, sensor: &str, stuck_ms: i64, age_ms: Option<i64>) {
        let gauge = self.telemetry.sensor_stuck.with_label_values(&[sensor]);
        let is_calm = stuck_ms <= 0 && gauge.get() <= 0.0;
        #[expect(clippy::cast_precision_loss, reason = "milliseconds of a wait are exact")]
        gauge.set(stuck_ms.max(0) as f64 / 1e3);
        if is_calm && self.instant_ms.rem_euclid(60_000) >= 1_000 {
            return;
        }
        let of = || vec![(names::SENSOR, Cow::Owned(sensor.to_owned()))];
        let seconds = |ms: i64| Reading::Value(Number::Thousandths(u64::try_from(ms).unwrap_or(0)));
        self.seen.add_with(names::SENSOR_STUCK, &[], of(), seconds(stuck_ms));
        let age = age_ms.map_or_else(|| Reading::Failed("it has not answered yet".into()), seconds);
        self.seen.add_with(names::SENSOR_AGE, &[], of(), age);
    }
}
