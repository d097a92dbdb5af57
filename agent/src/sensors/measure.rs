//! What a sensor read, by the metric that it is a value of.
//!
//! Every sensor hands on the same: a list of [`Measure`]s. What is sent, shown at `/metrics` and by `probe` is made of
//! that list alone, so that a new metric is a line in the registry ([`contador_schemas::names`]) and a line in its sensor.

use std::borrow::Cow;
use std::sync::Arc;

use contador_schemas::names::{self, Fixed};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use smallvec::SmallVec;

use super::Reading;

/// A value, exact, in the unit of its metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// So many of the unit.
    Whole(u64),
    /// So many thousandths of the unit: milliwatts, millijoules, milliseconds.
    Thousandths(u64),
    /// So many millionths of the unit: microseconds.
    Millionths(u64),
    /// A number that is not counted, such as a share.
    Real(f64),
}

impl Number {
    /// The value in the unit of its metric.
    #[expect(clippy::cast_precision_loss, reason = "whole numbers below 2^53 come back exactly")]
    pub fn f64(self) -> f64 {
        match self {
            Self::Whole(value) => value as f64,
            Self::Thousandths(value) => value as f64 / 1e3,
            Self::Millionths(value) => value as f64 / 1e6,
            Self::Real(value) => value,
        }
    }

    /// The whole number, of the kinds that are counted: thousandths of a power are its milliwatts.
    pub fn count(self) -> Option<u64> {
        match self {
            Self::Whole(value) | Self::Thousandths(value) | Self::Millionths(value) => Some(value),
            Self::Real(_) => None,
        }
    }
}

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Whole(value) => serializer.serialize_u64(*value),
            other => serializer.serialize_f64(other.f64()),
        }
    }
}

/// Attributes whose values vary, such as a link's number. One is kept without the heap: a GPU of many links has a hundred.
pub type Varying = SmallVec<[(&'static str, Cow<'static, str>); 1]>;

/// One value of a metric.
#[derive(Debug, Clone, PartialEq)]
pub struct Measure {
    /// Name of the metric; one of [`contador_schemas::names`].
    pub metric: &'static str,
    /// The fixed attributes of the variant.
    pub fixed: Fixed,
    /// Other attributes.
    pub varying: Varying,
    /// The value, in the metric's unit, or why there is none.
    pub reading: Reading<Number>,
}

impl Measure {
    /// All attributes, fixed ones first.
    pub fn attributes(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let varying = self.varying.iter().map(|(name, value)| (*name, value.as_ref()));
        self.fixed.iter().copied().chain(varying)
    }
}

/// `{"metric": …, "unit": …, "attributes": {…}}` and one of `"value"`, `"unsupported"` and `"failed"`.
impl Serialize for Measure {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("metric", self.metric)?;
        map.serialize_entry("unit", names::metric(self.metric).map_or("", |metric| metric.unit))?;
        let attributes: std::collections::BTreeMap<_, _> = self.attributes().collect();
        if !attributes.is_empty() {
            map.serialize_entry("attributes", &attributes)?;
        }
        match &self.reading {
            Reading::Value(value) => map.serialize_entry("value", value)?,
            Reading::Unsupported(reason) => map.serialize_entry("unsupported", reason)?,
            Reading::Failed(reason) => map.serialize_entry("failed", reason)?,
        }
        map.end()
    }
}

/// What a sensor read at one instant, and what it read before and still holds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Measures {
    now: Vec<Measure>,
    /// Shared with the samples before.
    held: Vec<Arc<[Measure]>>,
}

impl Serialize for Measures {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self)
    }
}

impl Measures {
    /// Adds the value of a metric without variants.
    pub fn add(&mut self, metric: &'static str, reading: Reading<Number>) {
        self.add_as(metric, &[], reading);
    }

    /// Adds the value of a metric's variant.
    pub fn add_as(&mut self, metric: &'static str, fixed: Fixed, reading: Reading<Number>) {
        self.add_with(metric, fixed, Varying::new(), reading);
    }

    /// Adds the value of a metric's variant that has more attributes.
    pub fn add_with(
        &mut self,
        metric: &'static str,
        fixed: Fixed,
        varying: impl Into<Varying>,
        reading: Reading<Number>,
    ) {
        self.now.push(Measure { metric, fixed, varying: varying.into(), reading });
    }

    /// Adds one.
    pub fn push(&mut self, measure: Measure) {
        self.now.push(measure);
    }

    /// None, with room for so many.
    pub fn with_capacity(count: usize) -> Self {
        Self { now: Vec::with_capacity(count), held: Vec::new() }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// In the order in which they were read; those that are held come last.
    pub fn iter(&self) -> impl Iterator<Item = &Measure> {
        self.now.iter().chain(self.held.iter().flat_map(|held| held.iter()))
    }

    /// Those that were read now.
    pub fn now(&self) -> impl Iterator<Item = &Measure> {
        self.now.iter()
    }

    /// Adds what was read before, or now and for the next samples too.
    pub fn hold(&mut self, held: Arc<[Measure]>) {
        self.held.push(held);
    }

    /// True when nothing was read.
    pub fn is_empty(&self) -> bool {
        self.now.is_empty() && self.held.is_empty()
    }

    /// Takes over what another sensor read.
    pub fn append(&mut self, mut other: Self) {
        self.now.append(&mut other.now);
        self.held.append(&mut other.held);
    }

    /// The metric's value without attributes; `None` when nobody asked for it.
    pub fn reading(&self, metric: &str) -> Option<&Reading<Number>> {
        self.reading_as(metric, &[])
    }

    /// The value of the metric's variant with exactly these attributes; `None` when nobody asked for it.
    pub fn reading_as(&self, metric: &str, attributes: &[(&str, &str)]) -> Option<&Reading<Number>> {
        let found = self.iter().find(|measure| {
            measure.metric == metric
                && measure.fixed.len() + measure.varying.len() == attributes.len()
                && measure.attributes().zip(attributes).all(|(own, wanted)| own == *wanted)
        });
        found.map(|measure| &measure.reading)
    }

    /// The metric's value in its unit, if there is one.
    pub fn f64(&self, metric: &str) -> Option<f64> {
        self.reading(metric)?.get().map(Number::f64)
    }

    /// The metric's counted value ([`Number::count`]), if there is one.
    pub fn count(&self, metric: &str) -> Option<u64> {
        self.reading(metric)?.get().and_then(Number::count)
    }

    /// Why the metric has no value: `unsupported (…)` or `failed (…)`; `None` when it has one, or nobody asked.
    pub fn missing(&self, metric: &str) -> Option<String> {
        self.reading(metric)?.missing()
    }
}

impl<'m> IntoIterator for &'m Measures {
    type Item = &'m Measure;
    type IntoIter = Box<dyn Iterator<Item = &'m Measure> + 'm>;

    fn into_iter(self) -> Self::IntoIter {
        Box::new(self.iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_metric_and_attributes() {
        let mut measures = Measures::default();
        measures.add(names::ENERGY, Reading::Value(Number::Thousandths(1_500)));
        measures.add_as(names::GPU_UTILIZATION, &[(names::GPU_TASK, "encoder")], Reading::Value(Number::Real(0.5)));
        measures.add(names::GPU_UTILIZATION, Reading::Unsupported("no".into()));
        assert_eq!((measures.f64(names::ENERGY), measures.count(names::ENERGY)), (Some(1.5), Some(1_500)));
        assert_eq!(measures.f64(names::GPU_UTILIZATION), None);
        assert_eq!(measures.missing(names::GPU_UTILIZATION).as_deref(), Some("unsupported (no)"));
        let encoder = measures.reading_as(names::GPU_UTILIZATION, &[(names::GPU_TASK, "encoder")]);
        assert_eq!(encoder, Some(&Reading::Value(Number::Real(0.5))));
        assert_eq!((measures.reading(names::POWER), measures.missing(names::POWER)), (None, None));
    }

    #[test]
    fn what_is_held_is_among_the_rest() {
        let of = |metric, value| {
            let mut measures = Measures::default();
            measures.add(metric, Reading::Value(Number::Whole(value)));
            measures
        };
        let held: Arc<[Measure]> = of(names::NVLINK_LINK_UP, 1).now().cloned().collect();
        let (mut measures, mut other) = (of(names::ENERGY, 2), of(names::POWER, 3));
        other.hold(held);
        measures.append(other);
        let all: Vec<_> = measures.iter().map(|measure| measure.metric).collect();
        assert_eq!(all, [names::ENERGY, names::POWER, names::NVLINK_LINK_UP]);
        assert_eq!((measures.len(), measures.now().count()), (3, 2));
        assert_eq!(measures.count(names::NVLINK_LINK_UP), Some(1));
        let json = serde_json::to_value(&measures).unwrap();
        assert_eq!(json[2]["metric"], names::NVLINK_LINK_UP);
    }

    #[test]
    fn a_value_is_json_with_its_unit() {
        let mut measures = Measures::default();
        measures.add(names::ENERGY, Reading::Value(Number::Thousandths(1_500)));
        let varying = vec![(names::NVLINK_LINK, "3".into())];
        let up = &[(names::ERROR_TYPE, "replay")];
        measures.add_with(names::NVLINK_LINK_ERRORS, up, varying, Reading::Failed("lost".into()));
        let json = serde_json::to_value(&measures).unwrap();
        assert_eq!(
            json,
            serde_json::json!([
                { "metric": "hw.energy", "unit": "J", "value": 1.5 },
                { "metric": "contador.gpu.nvlink.link.errors", "unit": "{error}",
                  "attributes": { "contador.nvlink.link": "3", "error.type": "replay" }, "failed": "lost" },
            ])
        );
    }
}
