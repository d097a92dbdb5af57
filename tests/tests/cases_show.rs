//! Cases of what people and Prometheus see of the agent.
#![allow(clippy::unwrap_used, reason = "a test ends at what it does not expect")]

use std::time::{Duration, Instant};

use contador_agent::exposition::{Exposition, Latest};
use contador_agent::sensors::{Measures, Number, Reading};
use contador_schemas::names;

mod prometheus_support;

use prometheus_support::{Prometheus, serve};

/// D15: when a device is not sampled any more, a Prometheus has no value of it, instead of the last one for ever; how old
/// the last one is, it goes on to tell.
#[tokio::test(flavor = "multi_thread")]
async fn d15_frozen_values_end_at_prometheus() {
    let latest = Latest::new(Duration::from_millis(100));
    let prometheus = Prometheus::scraping(serve(Exposition::new(latest.clone(), "n1", true)));
    let sample = || {
        let mut measures = Measures::default();
        measures.add(names::POWER, Reading::Value(Number::Thousandths(250_000)));
        latest.device("GPU-1", measures, Instant::now());
    };
    // Sampled until it was scraped.
    prometheus
        .until("hw_power_watts", |series| {
            sample();
            series.iter().any(|(_, watts)| *watts == 250.0)
        })
        .await;
    // And then never again.
    prometheus.until("hw_power_watts", Vec::is_empty).await;
    let age = prometheus.value("contador_sensor_age_seconds{contador_sensor=\"GPU-1\"}").await;
    assert!(age >= latest.lifetime().as_secs_f64(), "{age}");
}
