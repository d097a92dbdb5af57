//! What sensors saw, as points.

use contador_schemas::names::{self, Group};
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;

use super::points::{Common, Points, int, nanoseconds, text, yes};
use crate::sensors::{GpuSample, Measure, Measures, Number, Reading};

/// Adds one device's sample. What the device can't tell, what it has several of, such as links, and what it holds of before is
/// only said when it is `described`: a hundred series of a board of 18 links would outweigh all else.
pub fn gpu(points: &mut Points, sample: &GpuSample, simulated: bool, described: bool) {
    let mut attributes = vec![text(names::HW_ID, &sample.uuid)];
    if simulated {
        attributes.push(yes(names::SIMULATED));
    }
    // Those of one metric, such as all links, come one after the other.
    let mut last = ("", false);
    let is_wanted = move |measure: &&Measure| {
        if !std::ptr::eq(last.0, measure.metric) {
            last = (measure.metric, is_series(measure));
        }
        !last.1
    };
    let common = Common::of(attributes);
    let (ts_ms, all) = (sample.ts_ms, &sample.measures);
    if described {
        measures(points, all.iter(), ts_ms, &common, true);
    } else {
        measures(points, all.now().filter(is_wanted), ts_ms, &common, false);
    }
}

/// Adds what a sensor of the node saw at `ts_ms` (Unix milliseconds).
pub fn node(points: &mut Points, seen: &Measures, ts_ms: i64) {
    measures(points, seen.iter(), ts_ms, &Common::default(), false);
}

fn is_series(measure: &Measure) -> bool {
    names::metric(measure.metric).is_some_and(|metric| metric.group == Group::Series)
}

fn measures<'m>(
    points: &mut Points,
    measures: impl Iterator<Item = &'m Measure>,
    ts_ms: i64,
    common: &Common,
    described: bool,
) {
    let time = nanoseconds(ts_ms);
    for measure in measures {
        let own = || measure.attributes().map(|(name, value)| text(name, value)).collect();
        match &measure.reading {
            Reading::Value(value) => points.push_with(measure.metric, (0, time), common, own(), number(*value)),
            Reading::Unsupported(_) if described => points.push_unsupported(measure.metric, time, common, own()),
            Reading::Unsupported(_) | Reading::Failed(_) => {}
        }
    }
}

/// A whole number as such, everything else in the unit of its metric.
fn number(value: Number) -> Value {
    match value {
        Number::Whole(value) => int(value),
        other => Value::AsDouble(other.f64()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_told_when_the_device_is_described_and_its_row_each_time() {
        let is_sent = |metric, described| {
            let mut measures = Measures::default();
            measures.add(metric, Reading::Value(Number::Whole(1)));
            let processes = Reading::Value(Vec::new());
            let sample = GpuSample {
                ts_ms: 1,
                uuid: "GPU-1".into(),
                parent: None,
                measures,
                processes,
                faults: vec![],
                rejected: 0,
            };
            let mut points = Points::default();
            gpu(&mut points, &sample, false, described);
            !points.is_empty()
        };
        assert_eq!([false, true].map(|described| is_sent(names::NVLINK_LINK_UP, described)), [false, true]);
        assert_eq!([false, true].map(|described| is_sent(names::NVLINK_LINKS, described)), [true, true]);
    }
}
