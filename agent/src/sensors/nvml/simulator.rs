//! Hands a scenario to the simulator, by the one symbol that it has and NVML does not.
//!
//! The alternative, `CONTADOR_NVML_SCENARIO` in the process's own environment, cannot be set safely once threads
//! run.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_uint};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nvml_wrapper_sys::bindings::NvmlLib;

use super::SensorError;

/// `int contador_nvml_simulator_load(const char *path, char *message, unsigned length)`
type Load = unsafe extern "C" fn(*const c_char, *mut c_char, c_uint) -> c_int;

/// `void contador_nvml_simulator_seed(const char *seed)`
type Seed = unsafe extern "C" fn(*const c_char);

const SEED: &[u8] = b"contador_nvml_simulator_seed\0";

const LOAD: &[u8] = b"contador_nvml_simulator_load\0";

/// True when this NVML library is contador's simulator.
pub(super) fn is_simulator(library: &NvmlLib) -> bool {
    // SAFETY: the symbol is looked for, and not used.
    unsafe { library.__library.get::<Load>(LOAD) }.is_ok()
}

/// Loads the simulator at `path` and gives it the scenario and the seed, for the next init. It stays in the process, and keeps
/// them, as a driver stays loaded.
pub(super) fn load(path: &Path, scenario: Option<&Path>, seed: Option<&str>) -> Result<NvmlLib, SensorError> {
    // SAFETY: loading a library runs its initialisers; this one was named by the operator, as the driver's would be.
    let library = unsafe { NvmlLib::new(path) }
        .map_err(|source| SensorError::NoDriver { library: path.display().to_string(), source: source.into() })?;
    let refused = |reason: String| SensorError::Scenario { reason };
    let other = || SensorError::NotTheSimulator { library: path.display().to_string() };
    if let Some(seed) = seed {
        // SAFETY: only the simulator has the symbol, with this type.
        let symbol = unsafe { library.__library.get::<Seed>(SEED) };
        let give = symbol.map_err(|_| other())?;
        let seed = CString::new(seed).map_err(|_| refused(format!("{seed:?}: expected a seed without NUL")))?;
        // SAFETY: a C string.
        unsafe { give(seed.as_ptr()) };
    }
    let Some(scenario) = scenario else { return Ok(library) };
    let scenario_text = CString::new(scenario.as_os_str().as_bytes())
        .map_err(|_| refused(format!("{}: expected a path without NUL", scenario.display())))?;
    let mut message = [0u8; 2048];
    // SAFETY: only the simulator has the symbol, with this type.
    let symbol = unsafe { library.__library.get::<Load>(LOAD) };
    let load = symbol.map_err(|_| other())?;
    let length = c_uint::try_from(message.len()).unwrap_or(0);
    // SAFETY: a C string, and a buffer with its length.
    let code = unsafe { load(scenario_text.as_ptr(), message.as_mut_ptr().cast(), length) };
    if code != 0 {
        let reason = CStr::from_bytes_until_nul(&message).unwrap_or_default().to_string_lossy();
        return Err(refused(reason.into_owned()));
    }
    Ok(library)
}
