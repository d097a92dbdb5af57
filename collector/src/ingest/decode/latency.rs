//! Whose latencies a histogram holds, and the row of its cells.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use contador_schemas::cells::Cells;
use contador_schemas::names;
use contador_schemas::rows::{Latency, Served};
use contador_schemas::series::{series_id, total_id, window_of};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::{AggregationTemporality, Metric};
use uuid::Uuid;

use super::Origin;
use super::attributes::Attributes;
use super::histogram::{Read, Reading};
use super::reject::{Reason, Rejected};
use super::semantics;
use super::value::Number;

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

/// Labels of inference servers that name the model.
const SERVER_MODELS: &[&str] = &["model_name", "model", "model_id"];

/// Attributes of the metric `metric` that name the replica, since the metric is one of a server: its address, or which of
/// its engines.
fn names_part_of_server(metric: &str, name: &str) -> bool {
    match name {
        "server.address" | "server.port" => metric.starts_with("gen_ai.server."),
        "engine" | "instance" | "worker_id" | "replica" => semantics::is_server(metric),
        _ => false,
    }
}

/// All columns of a latency row that say what was measured, and by whom.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Identity {
    row: Latency,
    /// Whether the values are lower bounds: of requests that were aborted.
    censored: bool,
    /// Whether the sender says that the source began again.
    reset: bool,
    /// Set when the values are numbers of tokens, and no times.
    tokens: Option<Tokens>,
}

/// Which tokens were counted.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Tokens {
    Input,
    Output,
}

impl Tokens {
    fn of(point: Attributes<'_>) -> Result<Self, Reason> {
        match point.get(names::TOKEN_TYPE).as_deref() {
            Some("input") => Ok(Self::Input),
            // Completion tokens, by the name of older conventions.
            Some("output" | "completion") => Ok(Self::Output),
            _ => Err(Reason::Attribute),
        }
    }

    /// What a row of such numbers says of what was served.
    fn served(self, row: &Latency) -> Result<Served, Reason> {
        let tokens = if row.count == 0 { Some(0.0) } else { row.sum_us };
        let tokens = Number::Double(tokens.ok_or(Reason::NoValue)?).u64(1)?;
        let Latency { window, start_ts, ts, owner, simulated, count, .. } = *row;
        // What of the series is no column of this table tells its rows apart all the same.
        let source = total_id(row.series, row.source);
        let served = Served { window, start_ts, ts, source, owner, simulated, ..Served::default() };
        let [service, model, environment, node, device] =
            [&row.service, &row.model, &row.environment, &row.node, &row.device].map(Clone::clone);
        let served = Served { service, model, environment, node, device, ..served };
        Ok(match self {
            Self::Input => Served { input_tokens: Some(tokens), ..served },
            Self::Output => Served { output_tokens: Some(tokens), requests: Some(count), ..served },
        })
    }
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
    rows: Vec<(Latency, String, Option<Tokens>)>,
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
        } else if let Some(short) = semantics::times(name) {
            attributes.insert(ORIGINAL_NAME, Cow::Borrowed(name));
            short.to_owned()
        } else {
            name.to_owned()
        };
        row.model = take_first(&mut attributes, MODELS);
        if row.model.is_empty() && semantics::is_server(name) {
            row.model = take_first(&mut attributes, SERVER_MODELS);
        }
        row.route = route(&mut attributes);
        let is_replica = |known: &&str| names_replica(known) || names_part_of_server(name, known);
        let replica: Vec<&str> = attributes.keys().copied().filter(is_replica).collect();
        for name in replica {
            if let Some(value) = attributes.remove(name) {
                source.insert(name, value);
            }
        }
        // The values of aborted requests are rows of their own, beside those of the same replica.
        let stranger = name != names::LATENCY && names::metric(name).is_none();
        let aborted = stranger && name != semantics::TOKENS && semantics::aborted(point);
        let censored = aborted || point.is_true(names::LATENCY_CENSORED);
        let reset = point.is_true(names::LATENCY_RESET);
        attributes.remove(names::LATENCY_RESET);
        attributes.remove(names::LATENCY_CENSORED);
        if censored {
            source.insert(names::LATENCY_CENSORED, Cow::Borrowed("true"));
        }
        // The tokens of prompts and of answers are series of their own.
        let tokens = if name == semantics::TOKENS { Some(Tokens::of(point)?) } else { None };
        if tokens.is_some() {
            attributes.remove(names::TOKEN_TYPE);
            row.metric.push_str(if tokens == Some(Tokens::Input) { ".input" } else { ".output" });
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
        Ok(Self { row, censored, reset, tokens })
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

    /// One of this service alone.
    #[cfg(test)]
    pub(in crate::ingest) fn of_service(service: &str) -> Self {
        Self { row: Latency { service: service.to_owned(), ..Latency::default() }, ..Self::default() }
    }

    /// Whose it is: `service.name`.
    pub fn service(&self) -> &str {
        &self.row.service
    }

    /// Which running total this is: series and source.
    pub fn key(&self) -> (Uuid, Uuid) {
        (self.row.series, self.row.source)
    }

    /// The id of that running total.
    pub(in crate::ingest) fn total(&self) -> Uuid {
        total_id(self.row.series, self.row.source)
    }

    /// What `row`, when its values are numbers of tokens, says of what was served; `None` when they are times.
    ///
    /// # Errors
    /// [`Reason::NoValue`] without a sum.
    pub fn served(&self, row: &Latency) -> Option<Result<Served, Reason>> {
        self.tokens.map(|kind| kind.served(row))
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

/// The instant that the row of an increase has. Clocks of whole milliseconds have two exports end at the same one, when a
/// service is told to export what it has: the later one begins where the other ended, and without an instant of its own would
/// take that one's place. The agent's own instants never repeat.
fn delta_end(metric: &str, reading: &Reading) -> i64 {
    let is_empty = metric != names::LATENCY && reading.start == Some(reading.time);
    reading.time.saturating_add(is_empty.into())
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
        let Some((reading, cells)) = read.0? else { return Ok(()) };
        let identity = Identity::of(origin, &metric.name, attributes)?;
        if identity.tokens.is_some() && reading.sum.is_none() {
            return Err(Reason::NoValue);
        }
        match AggregationTemporality::try_from(temporality) {
            Ok(AggregationTemporality::Delta) => {
                if cells.count() > 0 {
                    let start = reading.start.unwrap_or(reading.time);
                    let end = delta_end(&metric.name, &reading);
                    let row = identity.row(start, end, &cells, reading.sum_us())?;
                    self.rows.push((row, metric.name.clone(), identity.tokens));
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
    pub(super) fn finish(mut self, rejected: &mut Rejected) -> (Vec<Latency>, Vec<Served>, Vec<Running>) {
        let key = |row: &Latency| (row.series, row.source, row.ts);
        self.rows.sort_by(|(left, ..), (right, ..)| {
            key(left)
                .cmp(&key(right))
                .then_with(|| right.count.cmp(&left.count))
                .then_with(|| (right.start_ts, &right.n).cmp(&(left.start_ts, &left.n)))
                .then_with(|| right.lo.partial_cmp(&left.lo).unwrap_or(std::cmp::Ordering::Equal))
                .then_with(|| right.hi.partial_cmp(&left.hi).unwrap_or(std::cmp::Ordering::Equal))
                .then_with(|| right.sum_us.partial_cmp(&left.sum_us).unwrap_or(std::cmp::Ordering::Equal))
        });
        self.rows.dedup_by(|(later, name, _), (kept, ..)| {
            let same = key(later) == key(kept);
            if same && later != kept {
                rejected.add(Reason::Conflicting, 1, name);
            }
            same
        });
        let (mut rows, mut served) = (Vec::with_capacity(self.rows.len()), Vec::new());
        for (row, name, tokens) in self.rows {
            match tokens.map(|kind| kind.served(&row)) {
                None => rows.push(row),
                Some(Ok(told)) => served.push(told),
                Some(Err(reason)) => rejected.add(reason, 1, &name),
            }
        }
        (rows, served, self.running)
    }
}
