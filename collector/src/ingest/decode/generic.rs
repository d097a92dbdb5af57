//! Numbers of any other name: one row a point.

use std::borrow::Cow;
use std::collections::BTreeMap;

use contador_schemas::names::{self, Instrument};
use contador_schemas::rows;
use contador_schemas::series::series_id;
use opentelemetry_proto::tonic::metrics::v1::Metric;

use super::reject::{Reason, Rejected};
use super::value::Number;
use super::{Kind, Point};

/// Attribute that keeps the instrumentation scope, so that equal names of two scopes stay two series.
const SCOPE: &str = "otel.scope.name";

/// Rows of the `metrics` table.
#[derive(Default)]
pub(super) struct Numbers(Vec<rows::Metric>);

impl Numbers {
    pub(super) fn add(&mut self, metric: &Metric, kind: Kind, point: &Point<'_>) -> Result<(), Reason> {
        let mut attributes: BTreeMap<&str, Cow<'_, str>> = point.origin.resource.iter().collect();
        if !point.origin.scope.is_empty() {
            attributes.insert(SCOPE, Cow::Borrowed(point.origin.scope));
        }
        attributes.extend(point.attributes.iter());
        let all = attributes.iter().map(|(name, value)| (*name, value.as_ref()));
        let owned = |name| attributes.get(name).map(|value| value.to_string()).unwrap_or_default();
        self.0.push(rows::Metric {
            ts: point.time,
            start_ts: point.start,
            series: series_id(all.chain([("__name__", metric.name.as_str())])),
            name: metric.name.clone(),
            unit: metric.unit.clone(),
            instrument: match kind.instrument {
                Instrument::Gauge | Instrument::Histogram => "gauge",
                Instrument::Delta => "sum_delta",
                Instrument::Counter | Instrument::UpDownCounter => "sum_cumulative",
            }
            .to_owned(),
            monotonic: kind.monotonic,
            service: owned(names::SERVICE_NAME),
            node: owned(names::HOST_NAME),
            value: point.value.map(Number::f64),
            value_int: match point.value {
                Some(Number::Int(value)) => Some(value),
                _ => None,
            },
            attributes: attributes.into_iter().map(|(name, value)| (name.to_owned(), value.into_owned())).collect(),
        });
        Ok(())
    }

    /// The rows, one for each series and instant: of several, the one with the greatest value.
    pub(super) fn finish(mut self, rejected: &mut Rejected) -> Vec<rows::Metric> {
        self.0.sort_by(|left, right| {
            (left.series, left.ts)
                .cmp(&(right.series, right.ts))
                .then_with(|| {
                    right.value.unwrap_or(f64::NEG_INFINITY).total_cmp(&left.value.unwrap_or(f64::NEG_INFINITY))
                })
                .then_with(|| {
                    (&left.unit, &left.instrument, left.start_ts, left.value_int, left.monotonic).cmp(&(
                        &right.unit,
                        &right.instrument,
                        right.start_ts,
                        right.value_int,
                        right.monotonic,
                    ))
                })
        });
        self.0.dedup_by(|later, kept| {
            let same = later.series == kept.series && later.ts == kept.ts;
            if same && later != kept {
                rejected.add(Reason::Conflicting, 1, &later.name);
            }
            same
        });
        self.0
    }
}
