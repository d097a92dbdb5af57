//! A shared library with NVML's C symbols, driven by a scenario file.
//!
//! It stands in for `libnvidia-ml.so.1` on machines without the NVIDIA driver: `nvml-wrapper` loads it like the
//! driver. How the data goes through it: a TOML file becomes a checked [`scenario`] (its time lines are [`curve`]s
//! and its GPU models come from [`profiles`]); [`model`] says what a GPU looks like at an instant, as a pure
//! function of time and of the processes that are alive, and [`mig`] the same of the parts of a GPU that is split
//! (which [`mig_profiles`] says how it can be); [`machine`] keeps what a function of time cannot (energy
//! so far, which processes [`procscan`] found, the [`clock`]); and the private `ffi` modules answer NVML's calls
//! from it, one file a topic. `unsafe` is in `ffi` only.
//!
//! # Use
//!
//! - `CONTADOR_NVML_SCENARIO`: the scenario file; without it, the built-in scenario with two GPUs.
//! - `CONTADOR_NVML_TIME_SCALE`: simulated seconds in a real one, such as `60`; default 1.
//! - `CONTADOR_NVML_SEED`: replaces the scenario's `seed`, so that two machines with one scenario differ in UUIDs.
//!
//! Beside NVML's symbols it exports `contador_nvml_simulator_load`, `contador_nvml_simulator_seed`,
//! `contador_nvml_simulator_hold_clock`, `contador_nvml_simulator_run_clock`, `contador_nvml_simulator_calls` and
//! `contador_nvml_simulator_gpm_samples`. Their C declarations:
//!
//! ```c
//! // Takes the scenario at `path` (NULL: the built-in one) from the next nvmlInit on. 0, or 1 with the reason,
//! // cut to `length` bytes and ended by a NUL, in `message` (which may be NULL).
//! int contador_nvml_simulator_load(const char *path, char *message, unsigned length);
//! // From the next load or nvmlInit on, the seed of scenarios that have none (NULL: the same everywhere).
//! void contador_nvml_simulator_seed(const char *seed);
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
mod ffi;
pub mod library;
pub mod machine;
pub mod mig;
pub mod mig_profiles;
pub mod model;
pub mod procscan;
pub mod profiles;
pub mod scenario;
