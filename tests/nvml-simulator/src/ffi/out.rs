//! Writes answers through a C caller's pointers.

use std::ffi::{c_char, c_uint};

use nvml_wrapper_sys::bindings::nvmlReturn_t;

use super::code;

/// Writes `value`, or refuses a null pointer.
///
/// # Safety
/// `to` is null or valid for writing a `T`.
pub(super) unsafe fn write<T>(to: *mut T, value: T) -> nvmlReturn_t {
    if to.is_null() {
        return code::INVALID_ARGUMENT;
    }
    // SAFETY: not null, and then valid by this function's contract.
    unsafe { to.write(value) };
    code::SUCCESS
}

/// Writes `text` and a NUL, or refuses a null pointer or too small a buffer.
///
/// # Safety
/// `to` is null or valid for writing `length` bytes.
pub(super) unsafe fn write_text(to: *mut c_char, length: c_uint, text: &str) -> nvmlReturn_t {
    if to.is_null() {
        return code::INVALID_ARGUMENT;
    }
    if text.len() >= length as usize {
        return code::INSUFFICIENT_SIZE;
    }
    // SAFETY: not null, and text and NUL fit in the `length` bytes that it is valid for.
    unsafe {
        to.copy_from_nonoverlapping(text.as_ptr().cast(), text.len());
        to.add(text.len()).write(0);
    }
    code::SUCCESS
}

/// Writes `items` the way NVML lists things: with `to` null or too few places, the number needed goes to `count`
/// and the answer is INSUFFICIENT_SIZE; otherwise the items and their number are written.
///
/// # Safety
/// `count` is null or valid for reading and writing; `to` is null or valid for writing `*count` items.
pub(super) unsafe fn write_list<T>(to: *mut T, count: *mut c_uint, items: Vec<T>) -> nvmlReturn_t {
    if count.is_null() {
        return code::INVALID_ARGUMENT;
    }
    let Ok(needed) = c_uint::try_from(items.len()) else { return code::UNKNOWN };
    // SAFETY: not null, and then valid by this function's contract.
    let places = unsafe { count.replace(needed) };
    if needed == 0 {
        return code::SUCCESS;
    }
    if to.is_null() || places < needed {
        return code::INSUFFICIENT_SIZE;
    }
    // SAFETY: valid for `places` items, which is enough.
    unsafe { to.copy_from_nonoverlapping(items.as_ptr(), items.len()) };
    code::SUCCESS
}

/// A NUL-terminated copy of `text`, cut to what fits, for PCI's fixed arrays.
pub(super) fn array<const N: usize>(text: &str) -> [c_char; N] {
    let mut array = [0; N];
    for (to, byte) in array.iter_mut().take(N.saturating_sub(1)).zip(text.bytes()) {
        *to = c_char::from_ne_bytes([byte]);
    }
    array
}
