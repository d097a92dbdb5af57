//! What state a GPU is in, of what else was read of it.

use contador_schemas::names::{self, Fixed};

use super::memory_errors::UNCORRECTED_VOLATILE;
use crate::sensors::{Measures, Number, Reading};

/// What every GPU can tell, whatever else it lacks: when all that is asked for fails, the GPU does not answer.
const VITAL: [&str; 6] = [
    names::GPU_MEMORY_LIMIT,
    names::GPU_UTILIZATION,
    names::POWER,
    names::TEMPERATURE,
    names::GPU_CLOCK_SM,
    names::ENERGY,
];

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    Ok,
    Degraded,
    Failed,
}

const STATES: [(State, Fixed); 3] = [
    (State::Ok, &[(names::STATE, "ok")]),
    (State::Degraded, &[(names::STATE, "degraded")]),
    (State::Failed, &[(names::STATE, "failed")]),
];

/// Adds the state, and tells what is wrong, for people.
pub(super) fn add(measures: &mut Measures) -> Vec<String> {
    if let Some(reason) = silence(measures) {
        return add_failed(measures, reason);
    }
    let faults = faults(measures);
    say(measures, if faults.is_empty() { State::Ok } else { State::Degraded });
    faults
}

/// Adds that the device does not answer, and why.
pub(in crate::sensors) fn add_failed(measures: &mut Measures, reason: String) -> Vec<String> {
    say(measures, State::Failed);
    vec![reason]
}

fn say(measures: &mut Measures, state: State) {
    for (known, fixed) in STATES {
        measures.add_as(names::STATUS, fixed, Reading::Value(Number::Whole(u64::from(known == state))));
    }
}

/// Why nothing vital can be read, if so.
fn silence(measures: &Measures) -> Option<String> {
    let vital = || VITAL.iter().filter_map(|metric| measures.reading(metric));
    if vital().any(|reading| reading.value().is_some()) {
        return None;
    }
    vital().find_map(|reading| match reading {
        Reading::Failed(reason) => Some(format!("does not answer: {reason}")),
        _ => None,
    })
}

fn faults(measures: &Measures) -> Vec<String> {
    let links = measures.iter().filter(|measure| measure.metric == names::NVLINK_LINK_UP);
    let (mut known, mut down) = (0, Vec::new());
    for link in links.filter(|link| link.reading.value().is_some()) {
        known += 1;
        if link.reading.get() == Some(Number::Whole(0)) {
            down.extend(link.varying.iter().map(|(_, number)| number.as_ref()));
        }
    }
    let mut faults = Vec::new();
    match down.as_slice() {
        [] => {}
        [one] => faults.push(format!("NVLink {one} is down")),
        all if all.len() == known => faults.push(format!("all {known} NVLinks are down")),
        some => faults.push(format!("NVLinks {} are down", some.join(", "))),
    }
    if measures.count(names::GPU_REMAP_PENDING).is_some_and(|rows| rows > 0) {
        faults.push("a row of memory waits for a reset to be remapped".to_owned());
    }
    if measures.count(names::GPU_REMAP_FAILED).is_some_and(|rows| rows > 0) {
        faults.push("a row of memory could not be remapped".to_owned());
    }
    let uncorrected = measures.reading_as(names::ERRORS, UNCORRECTED_VOLATILE).and_then(Reading::get);
    if let Some(errors) = uncorrected.and_then(Number::count).filter(|errors| *errors > 0) {
        let plural = if errors == 1 { "" } else { "s" };
        faults.push(format!("{errors} memory error{plural} could not be corrected since the driver was loaded"));
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(measures: &Measures) -> Vec<&'static str> {
        let states = measures.iter().filter(|measure| measure.metric == names::STATUS);
        let held = states.filter(|measure| measure.reading == Reading::Value(Number::Whole(1)));
        held.map(|measure| measure.fixed[0].1).collect()
    }

    fn links(states: &[u64]) -> Measures {
        let mut measures = Measures::default();
        measures.add(names::GPU_MEMORY_LIMIT, Reading::Value(Number::Whole(1)));
        for (link, up) in states.iter().enumerate() {
            let varying = vec![(names::NVLINK_LINK, link.to_string().into())];
            measures.add_with(names::NVLINK_LINK_UP, &[], varying, Reading::Value(Number::Whole(*up)));
        }
        measures
    }

    #[test]
    fn links_that_are_down_degrade_a_device_however_many() {
        for (up, expected) in [
            (&[1, 1, 1][..], None),
            (&[1, 0, 1], Some("NVLink 1 is down")),
            (&[0, 1, 0], Some("NVLinks 0, 2 are down")),
            (&[0, 0, 0], Some("all 3 NVLinks are down")),
            (&[], None),
        ] {
            let mut measures = links(up);
            assert_eq!(add(&mut measures).first().map(String::as_str), expected);
            assert_eq!(state(&measures), [if expected.is_some() { "degraded" } else { "ok" }]);
        }
    }

    #[test]
    fn memory_faults_degrade_a_device_and_corrected_errors_do_not() {
        let mut measures = links(&[]);
        measures.add(names::GPU_REMAP_PENDING, Reading::Value(Number::Whole(1)));
        measures.add(names::GPU_REMAP_FAILED, Reading::Value(Number::Whole(1)));
        measures.add_as(names::ERRORS, UNCORRECTED_VOLATILE, Reading::Value(Number::Whole(2)));
        assert_eq!(add(&mut measures).len(), 3);
        assert_eq!(state(&measures), ["degraded"]);
        let mut measures = links(&[]);
        measures.add_as(
            names::ERRORS,
            &[(names::ERROR_TYPE, "ecc_corrected_volatile")],
            Reading::Value(Number::Whole(9)),
        );
        measures.add(names::GPU_REMAP_PENDING, Reading::Failed("lost".into()));
        assert!(add(&mut measures).is_empty());
        assert_eq!(state(&measures), ["ok"]);
    }

    #[test]
    fn a_device_that_answers_nothing_has_failed() {
        let mut measures = Measures::default();
        measures.add(names::GPU_UTILIZATION, Reading::Unsupported("MIG".into()));
        measures.add(names::GPU_MEMORY_LIMIT, Reading::Failed("off the bus".into()));
        assert_eq!(add(&mut measures), ["does not answer: off the bus"]);
        assert_eq!(state(&measures), ["failed"]);
    }
}
