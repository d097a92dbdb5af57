//! NVLinks: how many there are and are up, bytes and errors, of each and of all together.
//!
//! Which links a board has is found out once. At every sample their states are asked, and the bytes of all of them together:
//! fields, in the one call for all fields. The series of each link, and the error counters, a call for each link and kind, are
//! read every ten seconds, and when a link has another state or something could not be read: in between the last reading
//! holds, and the samples share it.

use std::sync::Arc;

use contador_schemas::names::{self, Fixed};
use nvml_wrapper::enum_wrappers::nv_link::ErrorCounter;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::sys_exports::field_id::{
    NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS as RECOVERIES, NVML_FI_DEV_NVLINK_COUNT_RCV_BYTES as RECEIVED,
    NVML_FI_DEV_NVLINK_COUNT_XMIT_BYTES as SENT, NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX as RECEIVED_KIB,
    NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX as SENT_KIB,
};
use nvml_wrapper_sys::bindings::NVML_NVLINK_MAX_LINKS;
use smallvec::smallvec;

use super::answer::{known_64, reading};
use super::asking::Asking;
use super::fields::{ALL_LINKS, Field, FieldAnswers};
use crate::sensors::measure::Varying;
use crate::sensors::{Measure, Measures, Number, Reading};

/// How long a reading of each link, and of the errors of all, holds, in milliseconds.
const HELD_MS: i64 = 10_000;

const STATE: &str = "nvmlDeviceGetNvLinkState";

/// A direction: its attribute, the fields in KiB and in bytes, and the place of its sum.
const DIRECTIONS: [(Fixed, u32, u32, usize); 2] = [
    (&[(names::IO_DIRECTION, "transmit")], SENT_KIB, SENT, 0),
    (&[(names::IO_DIRECTION, "receive")], RECEIVED_KIB, RECEIVED, 1),
];

/// A kind of error: of a link, of all of them, and how it is asked for.
const ERRORS: [(Fixed, Fixed, &str, ErrorCounter); 4] = [
    (
        &[(names::ERROR_TYPE, "replay")],
        &[(names::ERROR_TYPE, "nvlink_replay")],
        "nvmlDeviceGetNvLinkErrorCounter, DL_REPLAY",
        ErrorCounter::DlReplay,
    ),
    (
        &[(names::ERROR_TYPE, "recovery")],
        &[(names::ERROR_TYPE, "nvlink_recovery")],
        "nvmlDeviceGetNvLinkErrorCounter, DL_RECOVERY",
        ErrorCounter::DlRecovery,
    ),
    (
        &[(names::ERROR_TYPE, "crc_flit")],
        &[(names::ERROR_TYPE, "nvlink_crc_flit")],
        "nvmlDeviceGetNvLinkErrorCounter, DL_CRC_FLIT",
        ErrorCounter::DlCrcFlit,
    ),
    (
        &[(names::ERROR_TYPE, "crc_data")],
        &[(names::ERROR_TYPE, "nvlink_crc_data")],
        "nvmlDeviceGetNvLinkErrorCounter, DL_CRC_DATA",
        ErrorCounter::DlCrcData,
    ),
];

/// Numbers of links, as attributes have them.
const NUMBERS: [&str; NVML_NVLINK_MAX_LINKS as usize] =
    ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16", "17"];

/// The links of one GPU, and what must be kept of them.
#[derive(Debug, Default)]
pub(super) struct Links {
    /// Those that the board has; none when it has none, or that is not known.
    existing: Vec<u32>,
    /// The last known value of each counter of each existing link: a link that is down may not tell it, and a sum that it
    /// drops out of would look like one that has started again. Two directions, and four kinds of error.
    last: [Vec<u64>; 6],
    /// The board tells the bytes of all links together.
    tells_all: bool,
    /// What holds, while it does.
    held: Option<Held>,
    /// What is held is read again at this sample.
    is_due: bool,
}

/// What was read of each link.
#[derive(Debug)]
struct Held {
    /// When, Unix milliseconds.
    at_ms: i64,
    /// The states then.
    states: Vec<Reading<bool>>,
    /// The series of each link.
    series: Arc<[Measure]>,
    /// All errors of each kind.
    errors: [Reading<Number>; ERRORS.len()],
    /// Something of it failed to be read.
    failed: bool,
}

/// The states of a board's links, or why there are none.
pub(super) type States = Reading<Vec<Reading<bool>>>;

impl Links {
    /// The state of each link.
    pub(super) fn states(&mut self, asking: &mut Asking<'_, '_>) -> States {
        if self.existing.is_empty() {
            return self.find(asking);
        }
        let states = self.existing.iter().map(|link| state(asking, *link));
        Reading::Value(states.collect())
    }

    /// Finds out which links there are: those that tell a state.
    fn find(&mut self, asking: &mut Asking<'_, '_>) -> States {
        let (mut found, mut none) = (Vec::new(), None);
        for link in 0..NVML_NVLINK_MAX_LINKS {
            match state(asking, link) {
                Reading::Value(up) => found.push((link, Reading::Value(up))),
                Reading::Unsupported(reason) => none = none.or(Some(reason)),
                Reading::Failed(reason) => return Reading::Failed(reason),
            }
        }
        if let (true, Some(reason)) = (found.is_empty(), none) {
            return Reading::Unsupported(reason);
        }
        self.existing = found.iter().map(|(link, _)| *link).collect();
        self.last = std::array::from_fn(|_| vec![0; found.len()]);
        Reading::Value(found.into_iter().map(|(_, up)| up).collect())
    }

    /// The fields that are needed at `ts_ms` (Unix milliseconds); which of them a board has shows when they are asked.
    pub(super) fn fields(&mut self, states: &States, ts_ms: i64) -> Vec<Field> {
        let Reading::Value(states) = states else { return Vec::new() };
        let holds =
            |held: &Held| !held.failed && held.states == *states && (0..HELD_MS).contains(&(ts_ms - held.at_ms));
        self.is_due = !self.held.as_ref().is_some_and(holds);
        let each = if self.is_due || !self.tells_all { self.existing.as_slice() } else { &[] };
        let of_link = |link: &u32| [SENT_KIB, RECEIVED_KIB, SENT, RECEIVED, RECOVERIES].map(|id| (id, *link));
        let all = [(SENT_KIB, ALL_LINKS), (RECEIVED_KIB, ALL_LINKS)];
        all.into_iter().chain(each.iter().flat_map(of_link)).collect()
    }

    /// Adds all of it, at `ts_ms` (Unix milliseconds).
    pub(super) fn read(&mut self, asking: &mut Asking<'_, '_>, states: States, fields: &FieldAnswers, ts_ms: i64) {
        let states = match states {
            Reading::Value(states) => states,
            missing => return add_missing(asking, &missing.map(|_| Number::Whole(0))),
        };
        let missing = |wanted: &Reading<bool>| wanted.is_failed();
        let count = if states.iter().all(missing) {
            states[0].clone().map(|_| Number::Whole(0))
        } else {
            Reading::Value(Number::Whole(states.len() as u64))
        };
        asking.add(names::NVLINK_LINKS, count);
        // One that is not told is neither up nor down.
        let active = match states.iter().find(|state| missing(state)).or(states.iter().find(|s| s.value().is_none())) {
            Some(untold) => untold.clone().map(|_| 0),
            None => Reading::Value(states.iter().filter(|state| state.get() == Some(true)).count() as u64),
        };
        asking.add(names::NVLINK_LINKS_ACTIVE, active.map(Number::Whole));
        let mut series = Measures::default();
        if self.is_due {
            let up = states.iter().map(|state| state.clone().map(u64::from)).collect();
            self.add_each(&mut series, names::NVLINK_LINK_UP, &[], up);
        }
        self.bytes(asking, fields, &mut series);
        if self.is_due {
            let errors = self.errors(asking, fields, &mut series);
            let failed = series.now().any(|measure| measure.reading.is_failed());
            let series = series.now().cloned().collect();
            self.held = Some(Held { at_ms: ts_ms, states, series, errors, failed });
        }
        let Some(held) = &self.held else { return };
        for ((_, of_all, ..), sum) in ERRORS.into_iter().zip(&held.errors) {
            asking.add_as(names::ERRORS, of_all, sum.clone());
        }
        asking.measures.hold(Arc::clone(&held.series));
    }

    fn bytes(&mut self, asking: &mut Asking<'_, '_>, fields: &FieldAnswers, series: &mut Measures) {
        let mut tells_all = true;
        for (fixed, kib, bytes, place) in DIRECTIONS {
            let all = in_bytes(fields.get((kib, ALL_LINKS)));
            tells_all &= all.value().is_some();
            let all = if self.is_due || !self.tells_all {
                let of_link = |link: &u32| either(in_bytes(fields.get((kib, *link))), || fields.get((bytes, *link)));
                let links: Vec<Reading<u64>> = self.existing.iter().map(of_link).collect();
                let sum = self.sum(place, &links);
                if self.is_due {
                    self.add_each(series, names::NVLINK_LINK_IO, fixed, links);
                }
                either(all, || sum)
            } else {
                all
            };
            asking.add_as(names::NVLINK_IO, fixed, all.map(Number::Whole));
        }
        self.tells_all = tells_all;
    }

    fn errors(
        &mut self,
        asking: &mut Asking<'_, '_>,
        fields: &FieldAnswers,
        series: &mut Measures,
    ) -> [Reading<Number>; ERRORS.len()] {
        let mut place = DIRECTIONS.len();
        ERRORS.map(|(of_link, _, call, counter)| {
            let count = |link: &u32| {
                let count = asking
                    .ask_of((call, *link), |device| device.link_wrapper_for(*link).error_counter(counter))
                    .and_then(known_64);
                // NVLink 5 has none of these counters, but counts recoveries elsewhere.
                match counter {
                    ErrorCounter::DlRecovery => either(count, || fields.get((RECOVERIES, *link))),
                    _ => count,
                }
            };
            let counts: Vec<Reading<u64>> = self.existing.iter().map(count).collect();
            let sum = self.sum(place, &counts);
            place += 1;
            self.add_each(series, names::NVLINK_LINK_ERRORS, of_link, counts);
            sum.map(Number::Whole)
        })
    }

    /// Adds the reading of each link; where the board offers it for none, that once.
    fn add_each(&self, to: &mut Measures, metric: &'static str, fixed: Fixed, links: Vec<Reading<u64>>) {
        if let [first @ Reading::Unsupported(_), rest @ ..] = links.as_slice()
            && rest.iter().all(|link| matches!(link, Reading::Unsupported(_)))
        {
            return to.add_as(metric, fixed, first.clone().map(Number::Whole));
        }
        for (link, reading) in self.existing.iter().zip(links) {
            to.add_with(metric, fixed, number(*link), reading.map(Number::Whole));
        }
    }

    /// The sum over links of what is last known of each, if at least one tells it now.
    fn sum(&mut self, place: usize, links: &[Reading<u64>]) -> Reading<u64> {
        for (last, now) in self.last[place].iter_mut().zip(links) {
            *last = now.get().unwrap_or(*last);
        }
        if links.iter().any(|link| link.value().is_some()) {
            return Reading::Value(self.last[place].iter().fold(0, |sum, last| sum.saturating_add(*last)));
        }
        let failed = links.iter().find(|link| link.is_failed()).or(links.first());
        failed.cloned().unwrap_or_else(|| reading(Err(NvmlError::NotSupported)))
    }
}

/// Whether a link is up. To ask for a link that the board does not have is not supported.
fn state(asking: &mut Asking<'_, '_>, link: u32) -> Reading<bool> {
    asking.ask_of((STATE, link), |device| match device.link_wrapper_for(link).is_active() {
        Err(NvmlError::InvalidArg) => Err(NvmlError::NotSupported),
        answer => answer,
    })
}

/// The first, or where the device does not offer it, the other.
fn either(first: Reading<u64>, other: impl FnOnce() -> Reading<u64>) -> Reading<u64> {
    match first {
        Reading::Unsupported(_) => other(),
        first => first,
    }
}

fn in_bytes(kib: Reading<u64>) -> Reading<u64> {
    kib.and_then(|kib| match kib.checked_mul(1_024) {
        Some(bytes) => Reading::Value(bytes),
        None => Reading::Failed(format!("{kib} KiB: expected less than 2^54").into()),
    })
}

fn number(link: u32) -> Varying {
    let known = usize::try_from(link).ok().and_then(|link| NUMBERS.get(link));
    smallvec![(names::NVLINK_LINK, known.map_or_else(|| link.to_string().into(), |known| (*known).into()))]
}

/// Adds for each value that it is missing.
fn add_missing(asking: &mut Asking<'_, '_>, missing: &Reading<Number>) {
    for metric in [names::NVLINK_LINKS, names::NVLINK_LINKS_ACTIVE, names::NVLINK_LINK_UP] {
        asking.add(metric, missing.clone());
    }
    for (fixed, ..) in DIRECTIONS {
        asking.add_as(names::NVLINK_IO, fixed, missing.clone());
        asking.add_as(names::NVLINK_LINK_IO, fixed, missing.clone());
    }
    for (of_link, of_all, ..) in ERRORS {
        asking.add_as(names::ERRORS, of_all, missing.clone());
        asking.add_as(names::NVLINK_LINK_ERRORS, of_link, missing.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kib_become_bytes_or_are_impossible() {
        assert_eq!(in_bytes(Reading::Value(16_721)), Reading::Value(17_122_304));
        assert!(in_bytes(Reading::Value(1 << 54)).is_failed());
    }

    #[test]
    fn a_sum_does_not_fall_when_a_link_stops_telling() {
        let last = std::array::from_fn(|_| vec![0; 2]);
        let mut links = Links { existing: vec![0, 1], last, ..Links::default() };
        let down = || Reading::Unsupported("not offered by this device".into());
        assert_eq!(links.sum(0, &[Reading::Value(10), Reading::Value(5)]), Reading::Value(15));
        assert_eq!(links.sum(0, &[Reading::Value(12), down()]), Reading::Value(17));
        assert!(links.sum(0, &[Reading::Failed("lost".into()), down()]).is_failed());
        assert!(matches!(links.sum(0, &[down(), down()]), Reading::Unsupported(_)));
        assert_eq!(links.sum(0, &[Reading::Value(13), Reading::Value(6)]), Reading::Value(19));
    }

    #[test]
    fn a_link_is_named_by_its_number() {
        assert_eq!(number(17).as_slice(), [(names::NVLINK_LINK, "17".into())]);
        assert_eq!(number(18).as_slice(), [(names::NVLINK_LINK, "18".into())]);
    }
}
