//! From what NVML answers to a reading: a value, unsupported, failed, or impossible and dropped.

use nvml_wrapper::error::NvmlError;

use crate::sensors::{Number, Reading};

/// The first of the 16 numbers at the top of the signed 64-bit range that drivers and their tools use for *blank*
/// (9223372036854775792 and on: blank, not found, not supported, not permitted).
const BLANK_64: u64 = 0x7fff_ffff_ffff_fff0;
/// The same for 32 bits.
const BLANK_32: u32 = 0x7fff_fff0;

/// A call's answer as a reading.
pub(super) fn reading<T>(answer: Result<T, NvmlError>) -> Reading<T> {
    match answer {
        Ok(value) => Reading::Value(value),
        Err(NvmlError::NotSupported) => Reading::Unsupported("not offered by this device".into()),
        Err(NvmlError::FailedToLoadSymbol(_) | NvmlError::FunctionNotFound) => {
            Reading::Unsupported("not offered by this driver".into())
        }
        Err(error) => Reading::Failed(error.to_string().into()),
    }
}

/// A 64-bit answer, where a blank number means that the device cannot tell.
pub(super) fn wide(answer: Result<u64, NvmlError>) -> Reading<u64> {
    reading(answer).and_then(known_64)
}

/// A 32-bit answer, where a blank number means that the device cannot tell.
pub(super) fn narrow(answer: Result<u32, NvmlError>) -> Reading<u32> {
    reading(answer).and_then(known_32)
}

/// True for the numbers that stand for none.
pub(super) fn is_blank_64(value: u64) -> bool {
    matches!(value, u64::MAX | BLANK_64..=0x7fff_ffff_ffff_ffff)
}

/// A 64-bit number, unless it is blank.
pub(super) fn known_64(value: u64) -> Reading<u64> {
    if is_blank_64(value) { blank(value) } else { Reading::Value(value) }
}

/// A 32-bit number, unless it is blank.
pub(super) fn known_32(value: u32) -> Reading<u32> {
    match value {
        u32::MAX | BLANK_32..=0x7fff_ffff => blank(u64::from(value)),
        value => Reading::Value(value),
    }
}

fn blank<T>(value: u64) -> Reading<T> {
    Reading::Unsupported(format!("the driver answered the blank value {value}").into())
}

/// A percentage; above 100, so also where it is blank, it is dropped and counted.
pub(super) fn percent(value: u32, rejected: &mut u32) -> Reading<f64> {
    if value > 100 {
        *rejected += 1;
        return Reading::Failed(format!("{value} percent: expected at most 100").into());
    }
    Reading::Value(f64::from(value))
}

/// Percent as a share from 0 to 1.
pub(super) fn share(percent: f64) -> Number {
    Number::Real(percent / 100.0)
}

/// A 32-bit answer in the unit of its metric.
pub(super) fn whole(value: u32) -> Number {
    Number::Whole(value.into())
}

/// A 32-bit answer in thousandths of the unit of its metric.
pub(super) fn thousandths(value: u32) -> Number {
    Number::Thousandths(value.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn unsupported_failed_and_zero_stay_apart() {
        assert_eq!(reading(Ok(0)), Reading::Value(0));
        assert_eq!(
            reading::<u32>(Err(NvmlError::NotSupported)).missing().as_deref(),
            Some("unsupported (not offered by this device)")
        );
        assert!(matches!(reading::<u32>(Err(NvmlError::FailedToLoadSymbol("x".into()))), Reading::Unsupported(_)));
        assert!(reading::<u32>(Err(NvmlError::GpuLost)).is_failed());
    }

    #[test]
    fn blank_values_are_absent() {
        for value in [u64::MAX, 9_223_372_036_854_775_794, 9_223_372_036_854_775_792, 9_223_372_036_854_775_807] {
            assert!(matches!(wide(Ok(value)), Reading::Unsupported(_)), "{value}");
        }
        for value in [u32::MAX, 2_147_483_632, 2_147_483_647] {
            assert!(matches!(narrow(Ok(value)), Reading::Unsupported(_)), "{value}");
        }
        assert_eq!(wide(Ok(BLANK_64 - 1)), Reading::Value(BLANK_64 - 1));
        assert_eq!(narrow(Ok(0)), Reading::Value(0));
    }

    proptest! {
        #[test]
        fn a_percentage_is_within_0_and_100_or_counted(value in any::<u32>()) {
            let mut rejected = 0;
            match percent(value, &mut rejected) {
                Reading::Value(percent) => prop_assert!((0.0..=100.0).contains(&percent) && rejected == 0),
                other => prop_assert!(other.is_failed() && value > 100 && rejected == 1),
            }
        }
    }
}
