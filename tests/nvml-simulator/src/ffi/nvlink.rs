//! NVLinks: state, errors, and what is at their other ends. Their bytes are fields.

use std::ffi::{c_uint, c_ulonglong};

use nvml_wrapper_sys::bindings::{
    nvmlDevice_t, nvmlIntNvLinkDeviceType_enum_NVML_NVLINK_DEVICE_TYPE_SWITCH as SWITCH, nvmlPciInfo_t, nvmlReturn_t,
};

use super::code;
use super::out::{array, write};
use super::state::answer;
use crate::machine::View;
use crate::profiles::NvLink;
use crate::scenario::board::LinkErrors;
use crate::scenario::call::{Answer, Call};

/// Answers a call about one link: a board without links does not support it, and one with fewer refuses the number.
fn of_link(
    device: nvmlDevice_t,
    call: Call,
    link: c_uint,
    value: impl FnOnce(&View<'_>, NvLink) -> nvmlReturn_t,
) -> nvmlReturn_t {
    answer(device, Some(call), |gpu| match gpu.spec.profile.nvlink {
        None => code::NOT_SUPPORTED,
        Some(nvlink) if link >= nvlink.links => code::INVALID_ARGUMENT,
        Some(nvlink) => value(gpu, nvlink),
    })
}

/// 1 while it is up.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetNvLinkState(device: nvmlDevice_t, link: c_uint, active: *mut c_uint) -> nvmlReturn_t {
    // SAFETY: `active` is valid or null by NVML's contract.
    of_link(device, Call::NvlinkState, link, |gpu, _| unsafe { write(active, c_uint::from(!is_down(gpu, link))) })
}

/// True while a link is down, by the scenario or by a fault.
fn is_down(gpu: &View<'_>, link: u32) -> bool {
    gpu.spec.board.nvlink.down.contains(&link) || gpu.is_link_down(link)
}

/// The errors of a link, as the scenario has them.
pub(super) fn errors(gpu: &View<'_>, link: u32) -> LinkErrors {
    let listed = gpu.spec.board.nvlink.errors.iter().find(|errors| errors.link == link);
    listed.copied().unwrap_or_default()
}

/// Not on NVLink 5, as on the boards.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetNvLinkErrorCounter(
    device: nvmlDevice_t,
    link: c_uint,
    counter: c_uint,
    count: *mut c_ulonglong,
) -> nvmlReturn_t {
    of_link(device, Call::NvlinkErrors, link, |gpu, nvlink| {
        let errors = errors(gpu, link);
        let value = match counter {
            _ if nvlink.version >= 5 => return code::NOT_SUPPORTED,
            0 => errors.replay,
            1 => errors.recovery,
            2 => errors.crc_flit,
            3 => errors.crc_data,
            _ => return code::NOT_SUPPORTED,
        };
        // SAFETY: `count` is valid or null by NVML's contract.
        unsafe { write(count, gpu.wide(Answer::NvlinkErrors, value)) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetNvLinkVersion(
    device: nvmlDevice_t,
    link: c_uint,
    version: *mut c_uint,
) -> nvmlReturn_t {
    // SAFETY: `version` is valid or null by NVML's contract.
    of_link(device, Call::NvlinkIdentity, link, |_, nvlink| unsafe { write(version, nvlink.version) })
}

/// All that NVLink can do, but SLI.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetNvLinkCapability(
    device: nvmlDevice_t,
    link: c_uint,
    capability: c_uint,
    has: *mut c_uint,
) -> nvmlReturn_t {
    of_link(device, Call::NvlinkIdentity, link, |_, _| match capability {
        // SAFETY: `has` is valid or null by NVML's contract.
        0..=5 => unsafe { write(has, c_uint::from(capability != 4)) },
        _ => code::INVALID_ARGUMENT,
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetNvLinkRemoteDeviceType(
    device: nvmlDevice_t,
    link: c_uint,
    kind: *mut c_uint,
) -> nvmlReturn_t {
    // SAFETY: `kind` is valid or null by NVML's contract.
    of_link(device, Call::NvlinkIdentity, link, |_, _| unsafe { write(kind, SWITCH) })
}

/// Links go to four switches in turn.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetNvLinkRemotePciInfo_v2(
    device: nvmlDevice_t,
    link: c_uint,
    pci: *mut nvmlPciInfo_t,
) -> nvmlReturn_t {
    of_link(device, Call::NvlinkIdentity, link, |gpu, _| {
        if is_down(gpu, link) {
            return code::NOT_SUPPORTED;
        }
        let (bus, id) = (0xC1 + link % 4, 0x22A3_10DE);
        let text = format!("00000000:{bus:02X}:00.0");
        let info = nvmlPciInfo_t {
            busIdLegacy: array(text.get(4..).unwrap_or_default()),
            domain: 0,
            bus,
            device: 0,
            pciDeviceId: id,
            pciSubSystemId: id,
            busId: array(&text),
        };
        // SAFETY: `pci` is valid or null by NVML's contract.
        unsafe { write(pci, info) }
    })
}
