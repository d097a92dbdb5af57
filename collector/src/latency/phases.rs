//! Where the time goes: queue, prefill, decode and network of a service.
//!
//! Means may be subtracted, quantiles may not: the slowest requests of one phase are not those of another. So the network's
//! part is told as a difference of means, and only where both ends are measured.

use contador_schemas::quantile::{Answer, Quantile};

use super::ask::{Ask, Error, Label};
use super::query::{Point, tell};
use crate::store::Store;

/// Phases that servers measure, with the metric that each is stored as.
pub const PHASES: [(&str, &str); 4] =
    [("queue", "queue_time"), ("prefill", "prefill_time"), ("decode", "decode_time"), ("server", "request_duration")];

/// What a client saw from end to end.
const CLIENT: &str = "client_request_duration";

/// One phase.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// Its name.
    pub name: &'static str,
    /// The metric that it is told by.
    pub metric: &'static str,
    /// How many requests.
    pub n: u64,
    /// Their mean, microseconds; `None` when the sources tell no sums.
    pub mean_us: Option<f64>,
    /// The median.
    pub p50: Answer,
    /// The 99th percentile.
    pub p99: Answer,
    /// Whether any of the values comes from a simulation.
    pub simulated: bool,
}

/// The network's part of the mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Network {
    /// Not known: not both of client and server are measured, or one tells no sums.
    Unknown,
    /// The client's mean less the server's, microseconds.
    Mean(f64),
    /// The client's mean is below the server's by this many microseconds: they did not measure the same requests.
    Inconsistent(f64),
}

/// All phases that have traffic.
#[derive(Clone, Debug, PartialEq)]
pub struct Phases {
    /// In the order of [`PHASES`], and what the client saw.
    pub phases: Vec<Phase>,
    /// What is between client and server.
    pub network: Network,
}

/// The phases of what `ask` selects; its metric, labels to tell apart, steps and quantiles do not count.
///
/// # Errors
/// [`Error`].
pub async fn phases(store: &Store, ask: &Ask) -> Result<Phases, Error> {
    let mut phases = Vec::new();
    for (name, metric) in PHASES.into_iter().chain([("client", CLIENT)]) {
        let mut ask = ask.clone();
        ask.equal.retain(|(label, _)| *label != Label::Metric);
        ask.equal.push((Label::Metric, metric.to_owned()));
        if metric == CLIENT {
            // What an SDK of this service says it waited for is another service's time.
            ask.equal.push((Label::Attribute("otel.metric.name".to_owned()), String::new()));
        }
        (ask.by, ask.step, ask.quantiles) = (Vec::new(), None, vec![Quantile::P50, Quantile::P99]);
        let told = tell(store, &ask).await?;
        let point = told.series.into_iter().next().and_then(|series| series.points.into_iter().next());
        let Some(Point { answers, mean_us, simulated, .. }) = point else { continue };
        let [p50, p99] = answers.as_slice() else { continue };
        if p99.n > 0 {
            phases.push(Phase { name, metric, n: p99.n, mean_us, p50: *p50, p99: *p99, simulated });
        }
    }
    let mean = |name| phases.iter().find(|phase| phase.name == name).and_then(|phase| phase.mean_us);
    let network = network(mean("client"), mean("server"));
    Ok(Phases { phases, network })
}

fn network(client: Option<f64>, server: Option<f64>) -> Network {
    match client.zip(server).map(|(client, server)| client - server) {
        None => Network::Unknown,
        Some(difference) if difference < 0.0 => Network::Inconsistent(-difference),
        Some(difference) => Network::Mean(difference),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_network_is_never_negative_and_never_guessed() {
        assert_eq!(network(Some(5.0), Some(3.0)), Network::Mean(2.0));
        assert_eq!(network(Some(3.0), Some(3.0)), Network::Mean(0.0));
        assert_eq!(network(Some(3.0), Some(5.0)), Network::Inconsistent(2.0));
        assert_eq!(network(None, Some(5.0)), Network::Unknown);
        assert_eq!(network(Some(5.0), None), Network::Unknown);
    }
}
