//! A shared library with NVML's C symbols, driven by a scenario file.
//!
//! It stands in for `libnvidia-ml.so.1` on machines without the NVIDIA driver: `nvml-wrapper` loads it like the
//! driver. How the data goes through it: a TOML file becomes a checked [`scenario`] (its time lines are [`curve`]s
//! and its GPU models come from [`profiles`]); [`model`] says what a GPU looks like at an instant, as a pure
//! function of time and of the processes that are alive, and [`mig`] the same of the parts of a GPU that is split
//! (which [`mig_profiles`] says how it can be); [`machine`] keeps what a function of time cannot (energy
//! so far, which processes [`procscan`] found, the [`clock`]); [`faults`] knows what is wrong at an instant; and the private
//! `ffi` modules answer NVML's calls
//! from it, one file a topic. `unsafe` is in `ffi` only.
//!
//! # Use
//!
//! - `CONTADOR_NVML_SCENARIO`: the scenario file; without it, the built-in scenario with two GPUs.
//! - `CONTADOR_NVML_TIME_SCALE`: simulated seconds in a real one, such as `60`; default 1.
//! - `CONTADOR_NVML_FAULTS`: a control file, in place of the scenario's own (key `faults`). It has `[[fault]]` entries as a
//!   scenario may have them, which are in force while they are listed: it may be changed at any time (write another file and
//!   rename it, so that it is never half there). A file that is not there lists nothing; a faulty one is said on standard
//!   error, and what was listed before goes on.
//! - `CONTADOR_NVML_SEED`: replaces the scenario's `seed`, so that two machines with one scenario differ in UUIDs.
//!
//! # What can go wrong
//!
//! A `[[fault]]` has a `kind`, mostly a `gpu` (its position in the scenario, from 0; without it: every GPU), and `from` and
//! `until` on the simulated clock. The kinds, with their keys:
//!
//! - `lost`: every call about the GPU answers GPU_IS_LOST. `off_the_bus`: there is no handle either, and XID 79 is raised.
//!   `absent`: it is not there, nor counted; when that ends, a GPU is added.
//! - `driver_reload` (`driver_version`): calls answer UNINITIALIZED and nvmlInit DRIVER_NOT_LOADED until the fault has ended
//!   *and* every init has been shut down, since an open handle blocks the unbind. Then counters start at 0.
//! - `hang` (`call`: one of those of `unsupported`, or `init` or `device_count`; without it: all about the GPU): the call
//!   returns when the fault has ended. Only its caller is blocked.
//! - `xid` (`code`, `count`, `gpu_instance`, `compute_instance`): raised when the fault begins, in the event sets that the
//!   GPU is registered in.
//! - `ecc` (`corrected`, `uncorrected`): so many errors more. `link_down` (`links`; without it: all): NVLinks are down.
//! - `calls` (`unsupported`, `errors`, `answers`): as the same keys of a `[[gpu]]`.
//! - `restart`: counters start at 0 when it begins. `wrap` (`bits`): counters have so many bits.
//!
//! # Symbols of its own
//!
//! Their C declarations:
//!
//! ```c
//! // Takes the scenario at `path` (NULL: the built-in one) from the next nvmlInit on. 0, or 1 with the reason,
//! // cut to `length` bytes and ended by a NUL, in `message` (which may be NULL).
//! int contador_nvml_simulator_load(const char *path, char *message, unsigned length);
//! // From the next load or nvmlInit on, the seed of scenarios that have none (NULL: the same everywhere).
//! void contador_nvml_simulator_seed(const char *seed);
//! // Takes `[[fault]]` entries (NULL: none) in place of those that it took before. 0, or 1 with the reason.
//! int contador_nvml_simulator_faults(const char *entries, char *message, unsigned length);
//! // How many inits have not been shut down.
//! unsigned contador_nvml_simulator_inits(void);
//! // Stops the simulated clock at `milliseconds` after its start. It never goes back: an earlier instant gives 1.
//! int contador_nvml_simulator_hold_clock(unsigned long long milliseconds);
//! // Lets a held clock go on from where it stands.
//! void contador_nvml_simulator_run_clock(void);
//! // How many calls about a device have been answered since the library was loaded.
//! unsigned long long contador_nvml_simulator_calls(void);
//! // How many GPM samples are allocated and not freed.
//! unsigned contador_nvml_simulator_gpm_samples(void);
//! ```

pub mod clock;
pub mod curve;
pub mod faults;
mod ffi;
pub mod library;
pub mod machine;
pub mod mig;
pub mod mig_profiles;
pub mod model;
pub mod procscan;
pub mod profiles;
pub mod scenario;
