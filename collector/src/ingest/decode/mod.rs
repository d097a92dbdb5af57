//! Points to rows.
//!
//! [`decode`] walks a request: resource, scope, metric, point. What contador's own names stand for (`schemas::names`) is
//! put together to one row from several points: [`gpu`], [`storage`] and [`node`] samples by device and instant (the
//! registry tells which of their [`columns`] a point fills),
//! [`ledger`] rows by device, owner and minute; [`info`] points are rows by themselves. Histograms of a time
//! ([`histogram`]) get an identity in [`latency`], by what [`semantics`] knows of names and attributes; running totals among them go on to [`super::cumulative`]. What was [`served`] is a row by service, owner and interval. Every other
//! number is a row of [`generic`]. The order of points never matters, nor how resources and scopes divide them. Points
//! that can't be true, or have a time that [`clock`] doesn't allow, are counted by [`reject`]'s reasons; [`value`] and [`attributes`] read what a point consists of.

pub mod attributes;
mod clock;
mod columns;
mod generic;
mod gpu;
pub mod histogram;
mod info;
pub mod latency;
mod ledger;
mod node;
pub mod reject;
mod semantics;
mod served;
mod storage;
#[cfg(test)]
mod tests;
mod value;

use contador_schemas::names::{self, Group, Instrument, MetricName};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Metric, NumberDataPoint, ResourceMetrics, metric::Data,
};

use self::attributes::Attributes;
use self::clock::Clock;
use self::latency::Running;
use self::reject::{Reason, Rejected};
use self::value::Number;
use super::rows::Rows;

/// What a request says.
#[derive(Debug, Default)]
pub struct Decoded {
    /// What can be written as it is.
    pub rows: Rows,
    /// Running totals of latencies.
    pub running: Vec<Running>,
    /// What is not accepted.
    pub rejected: Rejected,
    /// How many points there were.
    pub points: u64,
}

/// Where a metric's points come from.
#[derive(Clone, Copy, Debug)]
struct Origin<'a> {
    resource: Attributes<'a>,
    scope: &'a str,
}

/// A number point, its times and value checked.
#[derive(Clone, Copy, Debug)]
struct Point<'a> {
    origin: Origin<'a>,
    attributes: Attributes<'a>,
    /// Unix nanoseconds.
    time: i64,
    /// Unix nanoseconds.
    start: Option<i64>,
    /// `None`: the sender says that there was no value.
    value: Option<Number>,
}

impl Origin<'_> {
    /// The attribute of the point, or else of the resource; empty when neither has it.
    fn named(&self, point: Attributes<'_>, name: &str) -> String {
        point.get(name).or_else(|| self.resource.get(name)).map(|value| value.into_owned()).unwrap_or_default()
    }
}

impl Point<'_> {
    /// Unix milliseconds.
    fn millis(&self) -> i64 {
        self.time / 1_000_000
    }

    fn node(&self) -> String {
        self.origin.named(self.attributes, names::HOST_NAME)
    }

    fn simulated(&self) -> bool {
        self.attributes.is_true(names::SIMULATED) || self.origin.resource.is_true(names::SIMULATED)
    }
}

struct Walk {
    clock: Clock,
    gpu: gpu::Samples,
    storage: storage::Samples,
    node: node::Samples,
    ledger: ledger::Minutes,
    info: info::Facts,
    generic: generic::Numbers,
    latency: latency::Latencies,
    served: served::Counts,
    rejected: Rejected,
    points: u64,
}

/// Turns every point of `request` into a part of a row, or into a count of rejected points. `now` is the time by the
/// collector's clock, Unix nanoseconds.
pub fn decode(request: &ExportMetricsServiceRequest, now: i64) -> Decoded {
    let mut walk = Walk::at(Clock(now));
    for resource in &request.resource_metrics {
        walk.resource(resource);
    }
    walk.finish()
}

impl Walk {
    fn at(clock: Clock) -> Self {
        Self {
            clock,
            gpu: gpu::Samples::default(),
            storage: storage::Samples::default(),
            node: node::Samples::default(),
            ledger: ledger::Minutes::default(),
            info: info::Facts::default(),
            generic: generic::Numbers::default(),
            latency: latency::Latencies::default(),
            served: served::Counts::default(),
            rejected: Rejected::default(),
            points: 0,
        }
    }

    fn resource(&mut self, resource: &ResourceMetrics) {
        let attributes = Attributes(resource.resource.as_ref().map_or(&[], |resource| &resource.attributes));
        for scope in &resource.scope_metrics {
            let name = scope.scope.as_ref().map_or("", |scope| scope.name.as_str());
            let origin = Origin { resource: attributes, scope: name };
            for metric in &scope.metrics {
                self.metric(origin, metric);
            }
        }
    }

    fn metric(&mut self, origin: Origin<'_>, metric: &Metric) {
        match &metric.data {
            Some(Data::Gauge(gauge)) => self.numbers(origin, metric, &gauge.data_points, Kind::GAUGE),
            Some(Data::Sum(sum)) => match Kind::sum(sum.aggregation_temporality, sum.is_monotonic) {
                Some(kind) => self.numbers(origin, metric, &sum.data_points, kind),
                None => self.reject(metric, Reason::Temporality, sum.data_points.len()),
            },
            Some(Data::Histogram(histogram)) => {
                self.points += histogram.data_points.len() as u64;
                let temporality = histogram.aggregation_temporality;
                for point in &histogram.data_points {
                    let read = histogram::Read::explicit(metric, point).at(self.clock, &metric.name);
                    self.latency.add(origin, metric, &point.attributes, temporality, read, &mut self.rejected);
                }
            }
            Some(Data::ExponentialHistogram(histogram)) => {
                self.points += histogram.data_points.len() as u64;
                let temporality = histogram.aggregation_temporality;
                for point in &histogram.data_points {
                    let read = histogram::Read::exponential(metric, point).at(self.clock, &metric.name);
                    self.latency.add(origin, metric, &point.attributes, temporality, read, &mut self.rejected);
                }
            }
            Some(Data::Summary(summary)) => self.reject(metric, Reason::Summary, summary.data_points.len()),
            // How many points a metric without data was meant to have cannot be known.
            None => self.reject(metric, Reason::NoData, 1),
        }
    }

    fn reject(&mut self, metric: &Metric, reason: Reason, points: usize) {
        self.points += points as u64;
        self.rejected.add(reason, points as u64, &metric.name);
    }

    fn numbers(&mut self, origin: Origin<'_>, metric: &Metric, points: &[NumberDataPoint], kind: Kind) {
        self.points += points.len() as u64;
        let known = names::metric(&metric.name);
        for point in points {
            if let Err(reason) = self.number(origin, metric, point, kind, known) {
                self.rejected.add(reason, 1, &metric.name);
            }
        }
    }

    fn number(
        &mut self,
        origin: Origin<'_>,
        metric: &Metric,
        point: &NumberDataPoint,
        kind: Kind,
        known: Option<&'static MetricName>,
    ) -> Result<(), Reason> {
        let attributes = Attributes(&point.attributes);
        let time = value::time(point.time_unix_nano)?;
        let start = value::start(point.start_time_unix_nano, point.time_unix_nano)?;
        self.clock.check(time, known)?;
        let point = Point { origin, attributes, time, start, value: value::number(point)? };
        let Some(known) = known else {
            return self.generic.add(metric, kind, &point);
        };
        let same_shape = metric.unit == known.unit && kind.instrument == known.instrument;
        match known.group {
            Group::Ledger | Group::Info | Group::Latency | Group::Served if !same_shape => Err(Reason::Shape),
            Group::Ledger => self.ledger.add(known, &point),
            Group::Info => self.info.add(known, &point),
            Group::Served => self.served.add(known, &point),
            Group::Latency => Err(Reason::Shape),
            Group::Series => self.generic.add(metric, kind, &point),
            Group::Gpu if same_shape && let Some(place) = gpu::place(known, &point) => self.gpu.add(place, &point),
            Group::Storage if same_shape && let Some(place) = storage::place(known, &point) => {
                self.storage.add(known, place, &point)
            }
            Group::Node if same_shape && let Some(place) = node::place(known, &point) => self.node.add(place, &point),
            Group::Gpu | Group::Storage | Group::Node => self.generic.add(metric, kind, &point),
        }
    }

    fn finish(mut self) -> Decoded {
        let rejected = &mut self.rejected;
        let (owners, devices, events) = self.info.finish();
        let (latency, tokens, running) = self.latency.finish(rejected);
        let mut served = self.served.finish();
        served.extend(tokens);
        let rows = Rows {
            gpu: self.gpu.finish(),
            storage: self.storage.finish(),
            node: self.node.finish(),
            ledger: self.ledger.finish(rejected),
            metrics: self.generic.finish(rejected),
            owners,
            devices,
            events,
            latency,
            totals: Vec::new(),
            served,
        };
        Decoded { rows, running, rejected: self.rejected, points: self.points }
    }
}

/// What kind of number a metric is.
#[derive(Clone, Copy, Debug)]
struct Kind {
    instrument: Instrument,
    monotonic: bool,
}

impl Kind {
    const GAUGE: Self = Self { instrument: Instrument::Gauge, monotonic: false };

    fn sum(temporality: i32, monotonic: bool) -> Option<Self> {
        let instrument = match AggregationTemporality::try_from(temporality).ok()? {
            AggregationTemporality::Unspecified => return None,
            AggregationTemporality::Delta => Instrument::Delta,
            AggregationTemporality::Cumulative if monotonic => Instrument::Counter,
            AggregationTemporality::Cumulative => Instrument::UpDownCounter,
        };
        Some(Self { instrument, monotonic })
    }
}
