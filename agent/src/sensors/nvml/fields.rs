//! Values by field id, all of a sample in one call.
//!
//! The wrapper's own call sends scope 0 only, which is link 0; here each field is asked with its scope. What comes back is
//! told apart by its place, never by its id: drivers of 580.82 and later have numbered the fields of 251 and on anew, and
//! answer by the new number. (No such field is asked for here.) This is one of the few places with `unsafe`.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::ffi::c_int;

use nvml_wrapper::Device;
use nvml_wrapper::error::{NvmlError, nvml_try};
use nvml_wrapper_sys::bindings::{
    nvmlFieldValue_t, nvmlReturn_enum_NVML_ERROR_UNKNOWN, nvmlValue_t,
    nvmlValueType_enum_NVML_VALUE_TYPE_DOUBLE as DOUBLE, nvmlValueType_enum_NVML_VALUE_TYPE_SIGNED_INT as SIGNED_INT,
    nvmlValueType_enum_NVML_VALUE_TYPE_SIGNED_LONG_LONG as SIGNED_LONG_LONG,
    nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_INT as UNSIGNED_INT,
    nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_LONG as UNSIGNED_LONG,
    nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_LONG_LONG as UNSIGNED_LONG_LONG,
    nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_SHORT as UNSIGNED_SHORT,
};

use super::answer::{known_32, known_64, reading};
use super::asking::Declined;
use crate::sensors::Reading;

/// A field's id, and the scope that it is asked for: 0 for the GPU, a link's number, or [`ALL_LINKS`].
pub(super) type Field = (u32, u32);

/// The scope of all links together.
pub(super) const ALL_LINKS: u32 = u32::MAX;

/// What a field is remembered by when it was declined, and what the call as a whole is.
const CALL: &str = "nvmlDeviceGetFieldValues";

/// What was answered.
#[derive(Debug, Default)]
pub(super) struct FieldAnswers(HashMap<Field, Reading<u64>>);

impl FieldAnswers {
    /// The answer to a question.
    pub(super) fn get(&self, field: Field) -> Reading<u64> {
        self.0.get(&field).cloned().unwrap_or_else(|| Reading::Failed("the field was not asked for".into()))
    }

    /// The value of the GPU as a whole.
    pub(super) fn whole(&self, id: u32) -> Reading<u64> {
        self.get((id, 0))
    }
}

/// Asks for all `fields` that were not declined in the minute before.
pub(super) fn ask(device: &Device<'_>, fields: &[Field], declined: &mut Declined) -> FieldAnswers {
    let mut answers = HashMap::with_capacity(fields.len());
    let mut open = Vec::with_capacity(fields.len());
    for &field in fields {
        match declined.reason(key(field)) {
            Some(reason) => _ = answers.insert(field, Reading::Unsupported(reason)),
            None => open.push(field),
        }
    }
    if open.is_empty() {
        return FieldAnswers(answers);
    }
    match reading(call(device, &open)) {
        Reading::Value(entries) => answers.extend(pair(&open, &entries)),
        missing => answers.extend(open.iter().map(|field| (*field, missing.clone().map(|_| 0)))),
    }
    for field in open {
        if let Some(Reading::Unsupported(reason)) = answers.get(&field) {
            declined.remember(key(field), reason.clone());
        }
    }
    FieldAnswers(answers)
}

/// A field is remembered by id and scope in one number: no id or link is above 16 bits.
fn key((id, scope): Field) -> (&'static str, u32) {
    (CALL, id << 16 | (scope & 0xffff))
}

/// Each question with the entry in its place.
fn pair(fields: &[Field], entries: &[nvmlFieldValue_t]) -> impl Iterator<Item = (Field, Reading<u64>)> {
    fields.iter().copied().zip(entries.iter().map(value))
}

/// The entries as the driver filled them, in the order of the questions.
fn call(device: &Device<'_>, fields: &[Field]) -> Result<Vec<nvmlFieldValue_t>, NvmlError> {
    let symbol = device.nvml().lib().nvmlDeviceGetFieldValues.as_ref();
    let symbol = symbol.map_err(|error| NvmlError::FailedToLoadSymbol(error.to_string()))?;
    let count = c_int::try_from(fields.len()).map_err(|_| NvmlError::InvalidArg)?;
    let entry = |&(id, scope): &Field| nvmlFieldValue_t {
        fieldId: id,
        scopeId: scope,
        timestamp: 0,
        latencyUsec: 0,
        valueType: UNSIGNED_LONG_LONG,
        // An entry that the driver leaves alone is no success.
        nvmlReturn: nvmlReturn_enum_NVML_ERROR_UNKNOWN,
        value: nvmlValue_t { ullVal: 0 },
    };
    let mut entries: Vec<nvmlFieldValue_t> = fields.iter().map(entry).collect();
    // SAFETY: the symbol has this type; the handle is of a device of the same library, which is open as long as the device
    // is borrowed; the entries are valid for reading and writing and as many as stated.
    let code = unsafe { symbol(device.handle(), count, entries.as_mut_ptr()) };
    nvml_try(code)?;
    Ok(entries)
}

/// An entry's value, whatever its type. A field that this driver has never heard of is one that it does not offer.
fn value(entry: &nvmlFieldValue_t) -> Reading<u64> {
    let answer = nvml_try(entry.nvmlReturn).map_err(|error| match error {
        NvmlError::InvalidArg => NvmlError::FunctionNotFound,
        error => error,
    });
    reading(answer).and_then(|()| number(entry))
}

fn number(entry: &nvmlFieldValue_t) -> Reading<u64> {
    let negative = |value: i64| {
        let failed = || Reading::Failed(format!("{value}: expected a number from 0 on").into());
        u64::try_from(value).map_or_else(|_| failed(), known_64)
    };
    // SAFETY: every member of the union is a plain number, of which all bits are valid; all were written, at first with 0.
    unsafe {
        match entry.valueType {
            UNSIGNED_INT => known_32(entry.value.uiVal).map(u64::from),
            UNSIGNED_LONG => known_64(entry.value.ulVal),
            UNSIGNED_LONG_LONG => known_64(entry.value.ullVal),
            UNSIGNED_SHORT => Reading::Value(entry.value.usVal.into()),
            SIGNED_LONG_LONG => negative(entry.value.sllVal),
            SIGNED_INT => negative(entry.value.siVal.into()),
            DOUBLE => real(entry.value.dVal),
            other => Reading::Failed(format!("a value of type {other}: expected a number").into()),
        }
    }
}

/// A number that came as a float.
fn real(value: f64) -> Reading<u64> {
    if !(0.0..9e15).contains(&value) {
        return Reading::Failed(format!("{value}: expected a number from 0 on").into());
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within 0 and 2^53, and rounded")]
    Reading::Value(value.round() as u64)
}

#[cfg(test)]
mod tests {
    use nvml_wrapper_sys::bindings::{
        nvmlReturn_enum_NVML_ERROR_INVALID_ARGUMENT, nvmlReturn_enum_NVML_ERROR_NOT_SUPPORTED,
    };

    use super::*;

    fn entry(id: u32, code: u32, kind: u32, value: nvmlValue_t) -> nvmlFieldValue_t {
        nvmlFieldValue_t {
            fieldId: id,
            scopeId: 0,
            timestamp: 0,
            latencyUsec: 0,
            valueType: kind,
            nvmlReturn: code,
            value,
        }
    }

    #[test]
    fn answers_belong_to_the_question_in_their_place_whatever_id_they_have() {
        let wide = |id, value| entry(id, 0, 3, nvmlValue_t { ullVal: value });
        // As a driver of 580.82 answers 251 by 269.
        let answers = FieldAnswers(pair(&[(251, 0), (138, 4)], &[wide(269, 7), wide(138, 8)]).collect());
        assert_eq!((answers.whole(251), answers.get((138, 4))), (Reading::Value(7), Reading::Value(8)));
        assert!(answers.whole(269).is_failed(), "nobody asked for it");
    }

    #[test]
    fn a_value_is_read_by_its_type_and_blank_or_negative_ones_are_none() {
        let of = |kind, number| value(&entry(1, 0, kind, number));
        assert_eq!(of(0, nvmlValue_t { dVal: 2.6 }), Reading::Value(3));
        assert_eq!(of(1, nvmlValue_t { uiVal: u32::MAX - 1 }), Reading::Value(u64::from(u32::MAX) - 1));
        assert_eq!(of(3, nvmlValue_t { ullVal: 1 << 40 }), Reading::Value(1 << 40));
        assert_eq!(of(4, nvmlValue_t { sllVal: 5 }), Reading::Value(5));
        assert_eq!(of(5, nvmlValue_t { siVal: 5 }), Reading::Value(5));
        assert_eq!(of(6, nvmlValue_t { usVal: 5 }), Reading::Value(5));
        assert!(of(4, nvmlValue_t { sllVal: -5 }).is_failed());
        assert!(of(0, nvmlValue_t { dVal: f64::NAN }).is_failed());
        assert!(of(99, nvmlValue_t { ullVal: 5 }).is_failed());
        assert!(matches!(of(1, nvmlValue_t { uiVal: 0x7fff_fff1 }), Reading::Unsupported(_)));
        assert!(matches!(of(3, nvmlValue_t { ullVal: u64::MAX }), Reading::Unsupported(_)));
        let refused = |code| value(&entry(1, code, 3, nvmlValue_t { ullVal: 5 }));
        assert!(matches!(refused(nvmlReturn_enum_NVML_ERROR_NOT_SUPPORTED), Reading::Unsupported(_)));
        assert!(matches!(refused(nvmlReturn_enum_NVML_ERROR_INVALID_ARGUMENT), Reading::Unsupported(_)));
        assert!(refused(nvmlReturn_enum_NVML_ERROR_UNKNOWN).is_failed());
    }
}
