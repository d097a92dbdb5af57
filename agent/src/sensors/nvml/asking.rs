//! One sample in the making: the device that is asked, and what it has answered so far.
//!
//! A call that a device does not offer costs as much as one that it does, and stays so until something is reconfigured. What
//! was declined is therefore [`Declined`] for the next minute without being asked: long enough to be almost free, short
//! enough for a GPU whose MIG mode was changed.

use std::borrow::Cow;
use std::collections::HashMap;

use contador_schemas::names::Fixed;
use nvml_wrapper::Device;
use nvml_wrapper::error::NvmlError;

use super::answer::{self, known_32, known_64, reading};
use crate::sensors::{Measures, Number, Reading};

/// How long what was declined is not asked for again, in milliseconds.
const DECLINED_MS: i64 = 60_000;

/// Room for the values of a board with 18 links, so that the list does not grow while it is filled.
const ROOM: usize = 224;

/// A call or field, and the link or scope that it was about.
pub(super) type Question = (&'static str, u32);

/// What a device does not offer.
#[derive(Debug, Default)]
pub(super) struct Declined {
    since_ms: i64,
    calls: HashMap<Question, Cow<'static, str>>,
}

impl Declined {
    /// Forgets all of it when the minute is over, or the clock went back.
    pub(super) fn forget_at(&mut self, ts_ms: i64) {
        if !(0..DECLINED_MS).contains(&(ts_ms - self.since_ms)) {
            self.since_ms = ts_ms;
            self.calls.clear();
        }
    }

    /// Asks, unless that was declined before.
    pub(super) fn ask<T>(&mut self, question: Question, ask: impl FnOnce() -> Result<T, NvmlError>) -> Reading<T> {
        if let Some(reason) = self.reason(question) {
            return Reading::Unsupported(reason);
        }
        let answer = reading(ask());
        if let Reading::Unsupported(reason) = &answer {
            self.remember(question, reason.clone());
        }
        answer
    }

    /// Why it was declined, if it was.
    pub(super) fn reason(&self, question: Question) -> Option<Cow<'static, str>> {
        self.calls.get(&question).cloned()
    }

    /// Does not ask it again for the rest of the minute.
    pub(super) fn remember(&mut self, question: Question, reason: Cow<'static, str>) {
        self.calls.insert(question, reason);
    }
}

/// A device that is asked for one sample.
#[derive(Debug)]
pub(super) struct Asking<'a, 'nvml> {
    /// The device.
    pub device: &'a Device<'nvml>,
    /// What it does not offer.
    pub declined: &'a mut Declined,
    /// What it has said.
    pub measures: Measures,
    /// How many of its answers were impossible.
    pub rejected: u32,
}

impl<'a, 'nvml> Asking<'a, 'nvml> {
    /// Begins a sample at `ts_ms` (Unix milliseconds).
    pub(super) fn begin(device: &'a Device<'nvml>, declined: &'a mut Declined, ts_ms: i64) -> Self {
        declined.forget_at(ts_ms);
        Self { device, declined, measures: Measures::with_capacity(ROOM), rejected: 0 }
    }

    /// Asks by a call of this name.
    pub(super) fn ask<T>(
        &mut self,
        call: &'static str,
        ask: impl FnOnce(&Device<'nvml>) -> Result<T, NvmlError>,
    ) -> Reading<T> {
        self.ask_of((call, 0), ask)
    }

    /// Asks by a call about one of several, such as a link.
    pub(super) fn ask_of<T>(
        &mut self,
        question: Question,
        ask: impl FnOnce(&Device<'nvml>) -> Result<T, NvmlError>,
    ) -> Reading<T> {
        self.declined.ask(question, || ask(self.device))
    }

    /// A 32-bit answer, where a blank number means that the device cannot tell.
    pub(super) fn narrow(
        &mut self,
        call: &'static str,
        ask: impl FnOnce(&Device<'nvml>) -> Result<u32, NvmlError>,
    ) -> Reading<u32> {
        self.ask(call, ask).and_then(known_32)
    }

    /// A 64-bit answer, where a blank number means that the device cannot tell.
    pub(super) fn wide(
        &mut self,
        call: &'static str,
        ask: impl FnOnce(&Device<'nvml>) -> Result<u64, NvmlError>,
    ) -> Reading<u64> {
        self.ask(call, ask).and_then(known_64)
    }

    /// Percent as a share; above 100 it is dropped and counted.
    pub(super) fn share(&mut self, percent: Reading<u32>) -> Reading<Number> {
        percent.and_then(|percent| answer::percent(percent, &mut self.rejected)).map(answer::share)
    }

    /// Adds the value of a metric without variants.
    pub(super) fn add(&mut self, metric: &'static str, reading: Reading<Number>) {
        self.measures.add(metric, reading);
    }

    /// Adds the value of a metric's variant.
    pub(super) fn add_as(&mut self, metric: &'static str, fixed: Fixed, reading: Reading<Number>) {
        self.measures.add_as(metric, fixed, reading);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_declined_is_asked_once_a_minute_and_what_failed_each_time() {
        let mut declined = Declined::default();
        let mut asked = 0;
        let mut ask = |declined: &mut Declined, ts_ms, question, error| {
            declined.forget_at(ts_ms);
            let answer = declined.ask::<u32>(question, || {
                asked += 1;
                Err(error)
            });
            (answer, asked)
        };
        let fan = ("fan", 0);
        let unsupported = Reading::Unsupported("not offered by this device".into());
        let at = 1_700_000_000_000;
        assert_eq!(ask(&mut declined, at, fan, NvmlError::NotSupported), (unsupported.clone(), 1));
        assert_eq!(ask(&mut declined, at + 59_999, fan, NvmlError::NotSupported), (unsupported.clone(), 1));
        assert_eq!(ask(&mut declined, at + 60_000, fan, NvmlError::NotSupported), (unsupported.clone(), 2));
        assert_eq!(ask(&mut declined, at, fan, NvmlError::NotSupported), (unsupported, 3), "the clock went back");
        assert_eq!(ask(&mut declined, at, ("fan", 1), NvmlError::GpuLost).1, 4, "another one");
        assert_eq!(ask(&mut declined, at, ("fan", 1), NvmlError::GpuLost).1, 5, "what failed may succeed");
    }
}
