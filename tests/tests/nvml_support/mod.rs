//! The NVML simulator as a test wants it: a copy of its own, loaded like the driver, with a clock that stands still.
//!
//! The library keeps one simulator for a process. Each test loads a copy of the file, which the loader takes for
//! another library, so that tests run side by side. `unsafe` calls the simulator's own symbols.
#![allow(unsafe_code, dead_code)]

use std::ffi::{CString, c_char, c_int, c_uint, c_ulonglong};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nvml_wrapper::Nvml;
use nvml_wrapper_sys::bindings::NvmlLib;
use tempfile::TempDir;

/// A copy of the simulator.
pub struct Simulator {
    folder: TempDir,
    library: NvmlLib,
}

impl Simulator {
    /// The simulator with this scenario, its clock held at 0.
    pub fn new(scenario: &str) -> Self {
        let simulator = Self::without_scenario();
        simulator.load(scenario).expect("a scenario");
        simulator.hold_clock(0);
        simulator
    }

    /// The simulator as it is when nobody has told it anything.
    pub fn without_scenario() -> Self {
        let built = contador_nvml_simulator::library::find().expect("the simulator's library");
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join(contador_nvml_simulator::library::FILE_NAME);
        fs::copy(built, &path).expect("a copy");
        // SAFETY: the library has no initialisers of its own.
        let library = unsafe { NvmlLib::new(&path) }.expect("the simulator loads");
        Self { folder, library }
    }

    /// The copy's path.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join(contador_nvml_simulator::library::FILE_NAME)
    }

    /// Writes a scenario beside the copy.
    pub fn scenario_file(&self, scenario: &str) -> PathBuf {
        let path = self.folder.path().join("scenario.toml");
        fs::write(&path, scenario).expect("a scenario file");
        path
    }

    /// Writes a file beside the scenario.
    pub fn file(&self, name: &str, text: &str) {
        fs::write(self.folder.path().join(name), text).expect("a file");
    }

    /// Takes a scenario for the next init, or tells why not.
    pub fn load(&self, scenario: &str) -> Result<(), String> {
        self.load_file(&self.scenario_file(scenario))
    }

    /// Takes a scenario file for the next init, or tells why not.
    pub fn load_file(&self, path: &Path) -> Result<(), String> {
        type Load = unsafe extern "C" fn(*const c_char, *mut c_char, c_uint) -> c_int;
        let path = CString::new(path.as_os_str().as_bytes()).expect("a path");
        let mut message = [0u8; 1024];
        // SAFETY: the symbol has this type, and is given a C string and a buffer with its length.
        let code = unsafe {
            let load = self.library.__library.get::<Load>(b"contador_nvml_simulator_load\0").expect("the symbol");
            load(path.as_ptr(), message.as_mut_ptr().cast(), 1024)
        };
        let reason = message.split(|byte| *byte == 0).next().map(String::from_utf8_lossy).unwrap_or_default();
        if code == 0 { Ok(()) } else { Err(reason.into_owned()) }
    }

    /// Holds the clock at this many milliseconds.
    pub fn hold_clock(&self, milliseconds: u64) {
        type Hold = unsafe extern "C" fn(c_ulonglong) -> c_int;
        // SAFETY: the symbol has this type.
        let code = unsafe {
            let hold = self.library.__library.get::<Hold>(b"contador_nvml_simulator_hold_clock\0").expect("the symbol");
            hold(milliseconds)
        };
        assert_eq!(code, 0, "the clock does not go back to {milliseconds}");
    }

    /// How many GPM samples are allocated and not freed.
    pub fn gpm_samples(&self) -> u32 {
        type Count = unsafe extern "C" fn() -> c_uint;
        // SAFETY: the symbol has this type.
        unsafe { self.library.__library.get::<Count>(b"contador_nvml_simulator_gpm_samples\0").expect("the symbol")() }
    }

    /// How many calls about a device it has answered.
    pub fn calls(&self) -> u64 {
        type Calls = unsafe extern "C" fn() -> c_ulonglong;
        // SAFETY: the symbol has this type.
        unsafe { self.library.__library.get::<Calls>(b"contador_nvml_simulator_calls\0").expect("the symbol")() }
    }

    /// Takes `[[fault]]` entries in place of those before.
    pub fn faults(&self, entries: &str) {
        type Take = unsafe extern "C" fn(*const c_char, *mut c_char, c_uint) -> c_int;
        let text = CString::new(entries).expect("a text");
        let mut message = [0u8; 1024];
        // SAFETY: the symbol has this type, and is given a C string and a buffer with its length.
        let code = unsafe {
            let take = self.library.__library.get::<Take>(b"contador_nvml_simulator_faults\0").expect("the symbol");
            take(text.as_ptr(), message.as_mut_ptr().cast(), 1024)
        };
        assert_eq!(code, 0, "{}", String::from_utf8_lossy(&message));
    }

    /// How many inits have not been shut down.
    pub fn inits(&self) -> u32 {
        type Inits = unsafe extern "C" fn() -> c_uint;
        // SAFETY: the symbol has this type.
        unsafe { self.library.__library.get::<Inits>(b"contador_nvml_simulator_inits\0").expect("the symbol")() }
    }

    /// Opens it as the driver is opened.
    pub fn nvml(&self) -> Nvml {
        Nvml::builder().lib_path(self.path().as_os_str()).init().expect("nvmlInit")
    }
}
