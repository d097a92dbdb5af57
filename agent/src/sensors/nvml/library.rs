//! Which NVML library to load, and why it did not load.

use std::path::{Path, PathBuf};

use nvml_wrapper::Nvml;
use nvml_wrapper::error::NvmlError;

use super::simulator;

/// The simulator's file name.
const SIMULATOR: &str = "libcontador_nvml_simulator.so";

/// Which NVML library to load. The default is the driver's own, `libnvidia-ml.so.1`, as the loader finds it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NvmlLibrary {
    /// Path or name of the library; absent: the driver's own.
    pub path: Option<PathBuf>,
    /// The simulator's scenario; absent: what `CONTADOR_NVML_SCENARIO` names, or its built-in one. Only for the
    /// simulator: the driver's library refuses it.
    pub scenario: Option<PathBuf>,
    /// The simulator's seed, where neither the scenario nor `CONTADOR_NVML_SEED` has one. Only for the simulator.
    pub seed: Option<String>,
}

impl NvmlLibrary {
    /// The driver's library at `path`.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: Some(path.into()), ..Self::default() }
    }

    /// The simulator with a scenario, as `--simulate SCENARIO` asks for.
    ///
    /// The library is the file that `CONTADOR_NVML_SIMULATOR` names, else `libcontador_nvml_simulator.so` beside
    /// the running program, in `deps/` beside it (where cargo builds it for tests), or in `../lib/contador/`.
    ///
    /// # Errors
    /// When it is nowhere; the message says what was tried.
    pub fn simulator(scenario: Option<PathBuf>) -> Result<Self, SensorError> {
        let named = std::env::var_os("CONTADOR_NVML_SIMULATOR").map(PathBuf::from);
        let program = std::env::current_exe().ok();
        let path = search(named, program.as_deref())?;
        Ok(Self { path: Some(path), scenario, seed: None })
    }

    /// The simulator with GPUs of its own for this node: their UUIDs are another node's nowhere.
    #[must_use]
    pub fn seeded(self, node: &str) -> Self {
        Self { seed: Some(node.to_owned()), ..self }
    }

    fn shown(&self) -> String {
        self.path.as_ref().map_or_else(|| "libnvidia-ml.so.1".to_owned(), |path| path.display().to_string())
    }
}

fn search(named: Option<PathBuf>, program: Option<&Path>) -> Result<PathBuf, SensorError> {
    let tried = match (named, program.and_then(Path::parent)) {
        (Some(named), _) => vec![named],
        (None, Some(folder)) => {
            vec![
                folder.join(SIMULATOR),
                folder.join("deps").join(SIMULATOR),
                folder.join("../lib/contador").join(SIMULATOR),
            ]
        }
        (None, None) => vec![],
    };
    tried.iter().find(|path| path.is_file()).cloned().ok_or(SensorError::NoSimulator { tried })
}

/// Why the GPUs cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SensorError {
    /// There is no driver on this machine, or it is not loaded: a state that the agent lives with.
    #[error("no NVIDIA driver: {library}")]
    NoDriver {
        /// The library that was looked for.
        library: String,
        /// Why it cannot be used.
        source: NvmlError,
    },
    /// The library is there and does not start.
    #[error("{library} does not start: expected nvmlInit to succeed")]
    Init {
        /// The library.
        library: String,
        /// Its answer.
        source: NvmlError,
    },
    /// The library answered an error to a call that everything depends on.
    #[error("the NVML library does not tell {what}")]
    Call {
        /// What was asked.
        what: &'static str,
        /// Its answer.
        source: NvmlError,
    },
    /// The simulator is nowhere.
    #[error(
        "no {SIMULATOR}: tried {}: expected the file that CONTADOR_NVML_SIMULATOR names, or one beside the program",
        shown(tried)
    )]
    NoSimulator {
        /// Where it was looked for.
        tried: Vec<PathBuf>,
    },
    /// A library that is not the simulator was given a scenario.
    #[error("{library} is not contador's NVML simulator: expected the simulator for a scenario")]
    NotTheSimulator {
        /// The library.
        library: String,
    },
    /// The simulator refuses the scenario.
    #[error("{reason}")]
    Scenario {
        /// The simulator's message, with path, key and expectation.
        reason: String,
    },
}

impl SensorError {
    /// True when the machine simply has no driver: the agent goes on without GPUs, and looks again later.
    pub fn is_no_driver(&self) -> bool {
        matches!(self, Self::NoDriver { .. })
    }
}

fn shown(paths: &[PathBuf]) -> String {
    if paths.is_empty() {
        return "nothing".to_owned();
    }
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// Loads and starts the library; true when it is the simulator, however it was named.
pub(super) fn open(library: &NvmlLibrary) -> Result<(Nvml, bool), SensorError> {
    let (scenario, seed) = (library.scenario.as_deref(), library.seed.as_deref());
    let _loaded = match &library.path {
        _ if scenario.is_none() && seed.is_none() => None,
        Some(path) => Some(simulator::load(path, scenario, seed)?),
        None => return Err(SensorError::NotTheSimulator { library: library.shown() }),
    };
    let mut builder = Nvml::builder();
    if let Some(path) = &library.path {
        builder.lib_path(path.as_os_str());
    }
    let nvml = builder.init().map_err(|source| match source {
        NvmlError::LibloadingError(_) | NvmlError::LibraryNotFound | NvmlError::DriverNotLoaded => {
            SensorError::NoDriver { library: library.shown(), source }
        }
        source => SensorError::Init { library: library.shown(), source },
    })?;
    let simulated = simulator::is_simulator(nvml.lib());
    Ok((nvml, simulated))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_simulator_is_looked_for_where_the_message_says() {
        let root = tempfile::tempdir().expect("a directory");
        let program = root.path().join("bin/contador-agent");
        let error = search(None, Some(&program)).expect_err("nowhere");
        let text = error.to_string();
        for place in ["bin/libcontador", "bin/deps/libcontador", "bin/../lib/contador/libcontador"] {
            assert!(text.contains(place), "{text}");
        }
        let installed = root.path().join("lib/contador");
        std::fs::create_dir_all(&installed).expect("a directory");
        std::fs::create_dir_all(root.path().join("bin")).expect("a directory");
        std::fs::write(installed.join(SIMULATOR), "").expect("a file");
        assert_eq!(search(None, Some(&program)).expect("found").file_name(), Some(SIMULATOR.as_ref()));
        let named = root.path().join("other.so");
        assert!(matches!(
            search(Some(named.clone()), Some(&program)),
            Err(SensorError::NoSimulator { tried }) if tried == [named]
        ));
    }

    #[test]
    fn no_driver_is_a_state_with_its_reason_in_the_chain() {
        let error = open(&NvmlLibrary::at("/nonexistent/libnvidia-ml.so.1")).expect_err("no library");
        assert!(error.is_no_driver());
        let text = format!("{:#}", anyhow::Error::from(error));
        assert!(text.starts_with("no NVIDIA driver: /nonexistent/libnvidia-ml.so.1: "), "{text}");
        assert!(text.contains("No such file or directory"), "{text}");
    }

    #[test]
    fn a_scenario_is_for_the_simulator_only() {
        let library = NvmlLibrary { scenario: Some("s.toml".into()), ..NvmlLibrary::default() };
        assert!(matches!(open(&library), Err(SensorError::NotTheSimulator { .. })));
    }
}
