//! A request with its running totals as increases.

use std::collections::BTreeMap;

use contador_schemas::names;
use contador_schemas::runs::Untold;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, ExponentialHistogramDataPoint, HistogramDataPoint,
};
use uuid::Uuid;

use super::memory::{Memory, Taken};
use super::name::{Name, encoded};
use super::point::{Reason, Total};
use crate::outbox::encode::points::{text, yes};
use crate::owners::label;

/// What was not handed on of a request.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Counted {
    /// Points that were refused.
    pub rejected: Tally<Reason>,
    /// First points of series, which count from now on.
    pub base_lines: u64,
    /// Points of which it can't be told what came since the ones before.
    pub untold: Tally<Untold>,
}

/// How many points there are of each reason, and the first of them in words: its metric, its service, and what it says.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Tally<R>(BTreeMap<R, (u64, String)>);

impl<R> Default for Tally<R> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<R: Copy + Ord> Tally<R> {
    /// Counts a point.
    fn add(&mut self, reason: R, point: impl FnOnce() -> String) {
        self.0.entry(reason).or_insert_with(|| (0, point())).0 += 1;
    }

    /// Each reason, with its points and the first of them.
    pub fn iter(&self) -> impl Iterator<Item = (R, u64, &str)> {
        self.0.iter().map(|(reason, (points, first))| (*reason, *points, first.as_str()))
    }

    /// How many points there are in all.
    pub fn points(&self) -> u64 {
        self.0.values().map(|(points, _)| points).sum()
    }
}

/// Turns the points of cumulative histograms into increases, and says of each resource that names no host that it is on this
/// `node`. Everything else stays.
pub fn convert(request: &mut ExportMetricsServiceRequest, node: &str, memory: &mut Memory, now: u64) -> Counted {
    let mut counted = Counted::default();
    for resource_metrics in &mut request.resource_metrics {
        let resource = resource_metrics.resource.get_or_insert_default();
        let service = service(&resource.attributes);
        // Of the sender's attributes alone: a node that is renamed goes on with its totals.
        let mut whose = vec![Name::of_resource(&resource.attributes)];
        if !resource.attributes.iter().any(|attribute| attribute.key == names::HOST_NAME) {
            resource.attributes.push(text(names::HOST_NAME, node));
            // Journals had the node's name in it.
            whose.push(Name::of_resource(&resource.attributes));
        }
        for scope_metrics in &mut resource_metrics.scope_metrics {
            let scope = scope_metrics.scope.as_ref().map_or("", |scope| scope.name.as_str());
            let scoped: Vec<Name> = whose.iter().map(|name| name.with(scope)).collect();
            for metric in &mut scope_metrics.metrics {
                let names = scoped.iter().map(|name| name.with(&metric.name).with(&metric.unit)).collect();
                let metric_name = &metric.name;
                let mut series = Points { memory, counted: &mut counted, names, service: &service, metric_name, now };
                match &mut metric.data {
                    Some(Data::Histogram(histogram)) if is_cumulative(histogram.aggregation_temporality) => {
                        histogram.aggregation_temporality = AggregationTemporality::Delta as i32;
                        series.each(&mut histogram.data_points);
                    }
                    Some(Data::ExponentialHistogram(histogram)) if is_cumulative(histogram.aggregation_temporality) => {
                        histogram.aggregation_temporality = AggregationTemporality::Delta as i32;
                        series.each(&mut histogram.data_points);
                    }
                    _ => {}
                }
            }
            scope_metrics.metrics.retain(|metric| match &metric.data {
                Some(Data::Histogram(histogram)) => !histogram.data_points.is_empty(),
                Some(Data::ExponentialHistogram(histogram)) => !histogram.data_points.is_empty(),
                _ => true,
            });
        }
        resource_metrics.scope_metrics.retain(|scope| !scope.metrics.is_empty());
    }
    request.resource_metrics.retain(|resource| !resource.scope_metrics.is_empty());
    counted
}

/// The name of the service, where the resource tells it as a text.
fn service(resource: &[KeyValue]) -> String {
    let named = resource.iter().find(|attribute| attribute.key == names::SERVICE_NAME);
    match named.and_then(|attribute| attribute.value.as_ref()?.value.as_ref()) {
        Some(Value::StringValue(name)) => name.clone(),
        _ => String::new(),
    }
}

fn is_cumulative(temporality: i32) -> bool {
    temporality == AggregationTemporality::Cumulative as i32
}

/// The points of one metric.
struct Points<'a> {
    memory: &'a mut Memory,
    counted: &'a mut Counted,
    /// What names the metric; after that, what named it in former journals.
    names: Vec<Name>,
    service: &'a str,
    metric_name: &'a str,
    now: u64,
}

impl Points<'_> {
    /// The key of the series that has these attributes, under which the memory has it when it knows it.
    fn key(&mut self, attributes: &[KeyValue]) -> Uuid {
        let attributes = encoded(attributes);
        let mut keys = self.names.iter().map(|name| name.key(&attributes));
        let key = keys.next().unwrap_or_default();
        if !self.memory.knows(key)
            && let Some(former) = keys.next()
        {
            self.memory.rename(former, key);
        }
        key
    }

    /// Has each point be what it adds; those that add nothing go.
    fn each<P: Point>(&mut self, points: &mut Vec<P>) {
        // Of one series, in the order of time.
        points.sort_by_key(Point::time);
        let (service, metric) = (label::shown(self.service), label::shown(self.metric_name));
        points.retain_mut(|point| {
            let taken = self.taken(point);
            let told = || format!("{metric} of service {service} with {}", point.told());
            match taken {
                Ok(Taken::Increase(increase, reset)) => return point.become_increase(*increase, reset),
                Ok(Taken::Nothing) => {}
                Ok(Taken::BaseLine) => self.counted.base_lines += 1,
                Ok(Taken::Untold(why)) => self.counted.untold.add(why, told),
                Err(reason) => self.counted.rejected.add(reason, told),
            }
            false
        });
    }

    fn taken<P: Point>(&mut self, point: &P) -> Result<Taken, Reason> {
        let Some(total) = point.total()? else { return Ok(Taken::Nothing) };
        let key = self.key(point.attributes());
        self.memory.take(key, total, self.now)
    }
}

/// Either kind of point.
trait Point {
    fn time(&self) -> u64;
    fn attributes(&self) -> &[KeyValue];
    /// Its numbers, for people.
    fn told(&self) -> String;
    fn total(&self) -> Result<Option<Total>, Reason>;
    /// Takes the increase's times and counts, and keeps its own attributes; whether it is of that kind.
    fn become_increase(&mut self, increase: Total, reset: bool) -> bool;
}

macro_rules! point {
    ($point:ident $kind:ident $total:ident) => {
        impl Point for $point {
            fn time(&self) -> u64 {
                self.time_unix_nano
            }

            fn attributes(&self) -> &[KeyValue] {
                &self.attributes
            }

            fn told(&self) -> String {
                let Self { start_time_unix_nano: start, time_unix_nano: time, count, .. } = self;
                format!("start {start}, time {time}, count {count}")
            }

            fn total(&self) -> Result<Option<Total>, Reason> {
                Total::$total(self)
            }

            fn become_increase(&mut self, increase: Total, reset: bool) -> bool {
                let Total::$kind(increase) = increase else { return false };
                let mut attributes = std::mem::take(&mut self.attributes);
                if reset {
                    attributes.push(yes(names::LATENCY_RESET));
                }
                *self = Self { attributes, ..increase };
                true
            }
        }
    };
}

point! { HistogramDataPoint Explicit explicit }
point! { ExponentialHistogramDataPoint Exponential exponential }
