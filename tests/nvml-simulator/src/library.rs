//! Where the built shared library is, for tests that load it.

use std::path::{Path, PathBuf};

/// The library's file name.
pub const FILE_NAME: &str = "libcontador_nvml_simulator.so";

/// The shared library that was built with the running test: the newest one in the folder of its executable
/// (`target/debug/deps`) and the folder above.
///
/// # Errors
/// The folders that were looked in, when it is in none.
pub fn find() -> Result<PathBuf, String> {
    let executable = std::env::current_exe().map_err(|error| format!("the running executable: {error}"))?;
    let folders: Vec<&Path> = executable.ancestors().skip(1).take(2).collect();
    let mut built: Vec<_> = folders
        .iter()
        .map(|folder| folder.join(FILE_NAME))
        .filter_map(|path| Some((path.metadata().ok()?.modified().ok()?, path)))
        .collect();
    built.sort();
    let looked = || {
        format!(
            "{FILE_NAME} is in none of {folders:?}: expected `cargo build -p contador-nvml-simulator` to have put it there"
        )
    };
    built.pop().map(|(_, path)| path).ok_or_else(looked)
}
