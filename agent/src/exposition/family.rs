//! Metric families: values with their labels, by name, each series once.

use std::collections::BTreeMap;

use prometheus::proto::{Counter, Gauge, LabelPair, Metric, MetricFamily, MetricType};

/// Families by name.
#[derive(Debug, Default)]
pub struct Families(BTreeMap<String, MetricFamily>);

/// Labels of a series, in the order in which they are shown. One without a value is left out.
pub type Labels<'l> = Vec<(&'l str, &'l str)>;

impl Families {
    /// Adds a value that may fall.
    pub fn gauge(&mut self, name: &str, help: &str, labels: &Labels<'_>, value: f64) {
        self.add(name, help, MetricType::GAUGE, labels, value);
    }

    /// Adds a value that only rises.
    pub fn counter(&mut self, name: &str, help: &str, labels: &Labels<'_>, value: f64) {
        self.add(name, help, MetricType::COUNTER, labels, value);
    }

    fn add(&mut self, name: &str, help: &str, kind: MetricType, labels: &Labels<'_>, value: f64) {
        if !value.is_finite() {
            return;
        }
        let labels = labels.iter().filter(|(_, value)| !value.is_empty());
        let mut metric = Metric::from_label(labels.map(|(name, value)| pair(name, value)).collect());
        match kind {
            MetricType::COUNTER => {
                let mut counter = Counter::default();
                counter.set_value(value);
                metric.set_counter(counter);
            }
            _ => {
                let mut gauge = Gauge::default();
                gauge.set_value(value);
                metric.set_gauge(gauge);
            }
        }
        if !self.0.contains_key(name) {
            let mut family = MetricFamily::default();
            family.set_name(name.to_owned());
            family.set_help(help.to_owned());
            family.set_field_type(kind);
            self.0.insert(name.to_owned(), family);
        }
        if let Some(family) = self.0.get_mut(name) {
            family.mut_metric().push(metric);
        }
    }

    /// All of them, and those of `others`. A series that there is twice, such as of an export that is mounted twice, is
    /// shown once: a scrape with a duplicate would be refused as a whole.
    pub fn beside(mut self, others: Vec<MetricFamily>) -> Vec<MetricFamily> {
        for mut other in others {
            match self.0.get_mut(other.name()) {
                Some(family) => family.mut_metric().extend(other.take_metric()),
                None => _ = self.0.insert(other.name().to_owned(), other),
            }
        }
        for family in self.0.values_mut() {
            family.mut_metric().sort_by(|left, right| labels(left).cmp(labels(right)));
            family.mut_metric().dedup_by(|right, left| labels(left).eq(labels(right)));
        }
        self.0.into_values().collect()
    }
}

fn labels(metric: &Metric) -> impl Iterator<Item = (&str, &str)> {
    metric.get_label().iter().map(|label| (label.name(), label.value()))
}

fn pair(name: &str, value: &str) -> LabelPair {
    let mut pair = LabelPair::default();
    pair.set_name(name.to_owned());
    pair.set_value(value.to_owned());
    pair
}
