//! Whose latencies a histogram holds, and the row of its cells.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use contador_schemas::cells::Cells;
use contador_schemas::names;
use contador_schemas::rows::Latency;
use contador_schemas::series::{series_id, total_id, window_of};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::{AggregationTemporality, Metric};
use uuid::Uuid;

use super::Origin;
use super::attributes::Attributes;
use super::histogram::{Read, Reading};
use super::reject::{Reason, Rejected};

/// Standard metrics, and what they time.
const METRICS: &[(&str, &str)] = &[
    ("http.server.request.duration", "request_duration"),
    ("http.server.duration", "request_duration"),
    ("rpc.server.duration", "request_duration"),
    ("rpc.server.call.duration", "request_duration"),
    ("gen_ai.server.request.duration", "request_duration"),
    ("gen_ai.server.time_to_first_token", "time_to_first_token"),
    ("gen_ai.server.time_per_output_token", "time_per_output_token"),
];

/// Attribute that keeps the sender's name of a metric that is stored under a shorter one.
const ORIGINAL_NAME: &str = "otel.metric.name";

/// Attributes that name the model, the most exact first.
const MODELS: &[&str] = &[names::MODEL, "gen_ai.response.model", "gen_ai.request.model"];

/// Attributes of a resource that tell one series from another; the rest of a resource tells one replica from another.
const SERIES_RESOURCE: &[&str] = &[
    names::SERVICE_VERSION,
    "service.namespace",
    names::CLUSTER,
    names::NAMESPACE,
    "k8s.deployment.name",
    "cloud.region",
];

/// Attributes of a point that name the replica that measured.
fn names_replica(name: &str) -> bool {
    matches!(name, names::SERVICE_INSTANCE_ID | names::HOST_NAME | names::CONTAINER | "process.pid")
        || name.starts_with("k8s.pod.")
}

/// All columns of a latency row that say what was measured, and by whom.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Identity {
    row: Latency,
    /// Whether the values are lower bounds: of requests that were aborted.
    censored: bool,
    /// Whether the sender says that the source began again.
    reset: bool,
}

/// A running total, not yet an increase.
#[derive(Clone, Debug)]
pub struct Running {
    /// Whose it is.
    pub identity: Arc<Identity>,
    /// What it says.
    pub reading: Reading,
    /// The sender's name of it.
    pub name: String,
}

/// Latencies of one request.
#[derive(Default)]
pub(super) struct Latencies {
    rows: Vec<(Latency, String)>,
    running: Vec<Running>,
}

impl Identity {
    /// Whose the point of the metric `name` is.
    pub(super) fn of(origin: Origin<'_>, name: &str, point: Attributes<'_>) -> Result<Self, Reason> {
        let mut attributes: BTreeMap<&str, Cow<'_, str>> = point.iter().collect();
        let mut source: BTreeMap<&str, Cow<'_, str>> = origin.resource.iter().collect();
        // The resource may be an agent that tells of another service, whose version and place are not the agent's.
        if !attributes.contains_key(names::SERVICE_NAME) {
            for name in SERIES_RESOURCE {
                if let Some(value) = source.remove(name) {
                    attributes.entry(name).or_insert(value);
                }
            }
        }
        let mut row = Latency {
            node: origin.named(point, names::HOST_NAME),
            environment: origin.named(point, names::ENVIRONMENT),
            service: origin.named(point, names::SERVICE_NAME),
            device: point.owned(names::HW_ID),
            simulated: point.is_true(names::SIMULATED) || origin.resource.is_true(names::SIMULATED),
            ..Latency::default()
        };
        if row.service.is_empty() {
            "unknown_service".clone_into(&mut row.service);
        }
        if let Some(owner) = point.get(names::OWNER_ID) {
            row.owner = Uuid::parse_str(&owner).map_err(|_| Reason::OwnerId)?;
        }
        for name in
            [names::SERVICE_NAME, names::ENVIRONMENT, names::HW_ID, names::HW_TYPE, names::OWNER_ID, names::SIMULATED]
        {
            attributes.remove(name);
        }
        row.metric = if name == names::LATENCY {
            attributes.remove(names::LATENCY_METRIC).ok_or(Reason::Attribute)?.into_owned()
        } else if let Some((_, short)) = METRICS.iter().find(|(known, _)| *known == name) {
            attributes.insert(ORIGINAL_NAME, Cow::Borrowed(name));
            (*short).to_owned()
        } else {
            name.to_owned()
        };
        row.model = take_first(&mut attributes, MODELS);
        row.route = route(&mut attributes);
        let replica: Vec<&str> = attributes.keys().copied().filter(|name| names_replica(name)).collect();
        for name in replica {
            if let Some(value) = attributes.remove(name) {
                source.insert(name, value);
            }
        }
        // The values of aborted requests are rows of their own, beside those of the same replica.
        let (censored, reset) = (point.is_true(names::LATENCY_CENSORED), point.is_true(names::LATENCY_RESET));
        attributes.remove(names::LATENCY_RESET);
        if let Some(told) = attributes.remove(names::LATENCY_CENSORED).filter(|_| censored) {
            source.insert(names::LATENCY_CENSORED, told);
        }
        if !origin.scope.is_empty() {
            source.insert("otel.scope.name", Cow::Borrowed(origin.scope));
        }
        row.source = series_id(source.iter().map(|(name, value)| (*name, value.as_ref())));
        let owner = if row.owner.is_nil() { String::new() } else { row.owner.to_string() };
        row.series = series_id(attributes.iter().map(|(name, value)| (*name, value.as_ref())).chain([
            (names::SERVICE_NAME, row.service.as_str()),
            (names::MODEL, row.model.as_str()),
            (names::LATENCY_METRIC, row.metric.as_str()),
            (names::HTTP_ROUTE, row.route.as_str()),
            (names::ENVIRONMENT, row.environment.as_str()),
            (names::HW_ID, row.device.as_str()),
            (names::OWNER_ID, owner.as_str()),
        ]));
        row.attributes = attributes.into_iter().map(|(name, value)| (name.to_owned(), value.into_owned())).collect();
        Ok(Self { row, censored, reset })
    }

    /// The columns, without times and values.
    pub(super) fn into_row(self) -> Latency {
        self.row
    }

    /// One of this series alone.
    #[cfg(test)]
    pub(in crate::ingest) fn of_series(series: Uuid) -> Self {
        Self { row: Latency { series, ..Latency::default() }, ..Self::default() }
    }

    /// Which running total this is: series and source.
    pub fn key(&self) -> (Uuid, Uuid) {
        (self.row.series, self.row.source)
    }

    /// The id of that running total.
    pub(in crate::ingest) fn total(&self) -> Uuid {
        total_id(self.row.series, self.row.source)
    }

    /// A row of `cells` that cover the time from `start` to `end`, Unix nanoseconds. Of values that are lower bounds nothing
    /// is known above them, nor of their sum.
    ///
    /// # Errors
    /// [`Reason::Time`] when no window can hold `end`.
    pub fn row(&self, start: i64, end: i64, cells: &Cells, sum_us: Option<f64>) -> Result<Latency, Reason> {
        let window = u64::try_from(end).ok().and_then(window_of).ok_or(Reason::Time)?;
        let count = cells.count();
        let (row, sum_us, censored) =
            (self.row.clone(), sum_us.filter(|_| !self.censored), if self.censored { count } else { 0 });
        let (lo, hi, n) = if self.censored { cells.unbounded().to_columns() } else { cells.to_columns() };
        Ok(Latency { window, start_ts: start, ts: end, lo, hi, n, count, sum_us, censored, reset: self.reset, ..row })
    }
}

fn take_first(attributes: &mut BTreeMap<&str, Cow<'_, str>>, names: &[&str]) -> String {
    let taken = names.iter().find_map(|name| attributes.remove(*name));
    taken.map(Cow::into_owned).unwrap_or_default()
}

/// The HTTP route, else the RPC service and method, else the operation of a generative model.
fn route(attributes: &mut BTreeMap<&str, Cow<'_, str>>) -> String {
    if let Some(route) = attributes.remove(names::HTTP_ROUTE) {
        return route.into_owned();
    }
    match (attributes.remove("rpc.service"), attributes.remove("rpc.method")) {
        (Some(service), Some(method)) => format!("{service}/{method}"),
        (Some(one), None) | (None, Some(one)) => one.into_owned(),
        (None, None) => take_first(attributes, &["gen_ai.operation.name"]),
    }
}

impl Latencies {
    pub(super) fn add(
        &mut self,
        origin: Origin<'_>,
        metric: &Metric,
        attributes: &[KeyValue],
        temporality: i32,
        read: Read,
        rejected: &mut Rejected,
    ) {
        if let Err(reason) = self.point(origin, metric, Attributes(attributes), temporality, read) {
            rejected.add(reason, 1, &metric.name);
        }
    }

    fn point(
        &mut self,
        origin: Origin<'_>,
        metric: &Metric,
        attributes: Attributes<'_>,
        temporality: i32,
        read: Read,
    ) -> Result<(), Reason> {
        let Some(reading) = read.0? else { return Ok(()) };
        let identity = Identity::of(origin, &metric.name, attributes)?;
        match AggregationTemporality::try_from(temporality) {
            Ok(AggregationTemporality::Delta) => {
                let cells = reading.cells()?;
                if cells.count() > 0 {
                    let start = reading.start.unwrap_or(reading.time);
                    let row = identity.row(start, reading.time, &cells, reading.sum_us())?;
                    self.rows.push((row, metric.name.clone()));
                }
            }
            Ok(AggregationTemporality::Cumulative) => {
                let identity = Arc::new(identity);
                self.running.push(Running { identity, reading, name: metric.name.clone() });
            }
            _ => return Err(Reason::Temporality),
        }
        Ok(())
    }

    /// The rows, one for each series, source and end: of several, the one with the most values.
    pub(super) fn finish(mut self, rejected: &mut Rejected) -> (Vec<Latency>, Vec<Running>) {
        let key = |row: &Latency| (row.series, row.source, row.ts);
        self.rows.sort_by(|(left, _), (right, _)| {
            key(left)
                .cmp(&key(right))
                .then_with(|| right.count.cmp(&left.count))
                .then_with(|| (right.start_ts, &right.n).cmp(&(left.start_ts, &left.n)))
                .then_with(|| right.lo.partial_cmp(&left.lo).unwrap_or(std::cmp::Ordering::Equal))
                .then_with(|| right.hi.partial_cmp(&left.hi).unwrap_or(std::cmp::Ordering::Equal))
                .then_with(|| right.sum_us.partial_cmp(&left.sum_us).unwrap_or(std::cmp::Ordering::Equal))
        });
        self.rows.dedup_by(|(later, name), (kept, _)| {
            let same = key(later) == key(kept);
            if same && later != kept {
                rejected.add(Reason::Conflicting, 1, name);
            }
            same
        });
        (self.rows.into_iter().map(|(row, _)| row).collect(), self.running)
    }
}
