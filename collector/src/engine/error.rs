//! What can go wrong around the engine, and what goes wrong inside it.

use std::path::PathBuf;

/// The engine could not be fetched, loaded, opened or served.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No prebuilt library exists for this machine.
    #[error("no embedded engine is pinned for {0}; expected linux on x86_64 with glibc, or CONTADOR_CHDB_LIB")]
    Platform(String),
    /// `CONTADOR_CHDB_LIB` names something that is not a file.
    #[error("CONTADOR_CHDB_LIB {0}: no such file; expected the path of libchdb.so")]
    NamedLibrary(PathBuf),
    /// There is nowhere to keep the library.
    #[error("neither XDG_CACHE_HOME nor HOME is set; set CONTADOR_CHDB_LIB to the path of libchdb.so")]
    NoCache,
    /// A file or folder could not be read or written.
    #[error("{path}")]
    File {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// npm is not installed.
    #[error("npm could not be started to fetch the embedded engine; install npm, or set CONTADOR_CHDB_LIB")]
    Npm(#[source] std::io::Error),
    /// npm did not install the library.
    #[error("npm could not fetch the embedded engine into {path}: {detail}")]
    Fetch {
        /// The folder it was to be installed in.
        path: PathBuf,
        /// The end of what npm said.
        detail: String,
    },
    /// The dynamic linker refused the library or a function of it.
    #[error("{path}: cannot be used as the embedded engine")]
    Load {
        /// The library.
        path: PathBuf,
        /// What the dynamic linker said.
        source: libloading::Error,
    },
    /// The data folder is in use.
    #[error("{path}: another contador clickhouse ({owner}) has this folder open; expected one process for each path")]
    InUse {
        /// The data folder.
        path: PathBuf,
        /// Who holds it.
        owner: String,
    },
    /// The engine refused to open its data folder.
    #[error("{0}: the embedded engine could not open this folder; its log may say why")]
    Open(PathBuf),
    /// The system has no more threads.
    #[error("cannot start the threads of the embedded engine")]
    Threads(#[source] std::io::Error),
    /// The address could not be listened on.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address asked for.
        address: std::net::SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// The address is reachable from other machines and there is no password.
    #[error(
        "--listen {0}: other machines can reach this address, so a password is needed; \
         set CONTADOR_ENGINE_PASSWORD or CONTADOR_ENGINE_PASSWORD_FILE, or listen on 127.0.0.1"
    )]
    Unprotected(std::net::SocketAddr),
    /// The HTTP server ended by itself.
    #[error("the http server ended")]
    Serve(#[source] std::io::Error),
}

impl Error {
    /// An [`Error::File`] for `path`, for use in `map_err`.
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { path, source }
    }
}

/// A query's failure in ClickHouse's terms: the code, and the text `Code: N. DB::Exception: … (NAME)`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Failure {
    /// ClickHouse's error code.
    pub code: u32,
    /// The whole text, without the version.
    pub text: String,
}

impl Failure {
    /// A failure of this endpoint's own, with a code and a name out of ClickHouse's list.
    pub fn new(code: u32, name: &str, message: impl std::fmt::Display) -> Self {
        Self { code, text: format!("Code: {code}. DB::Exception: {message}. ({name})") }
    }

    /// A failure as the engine tells it; 1002 (`UNKNOWN_EXCEPTION`) when it has no code.
    pub fn engine(text: &str) -> Self {
        let code = text
            .strip_prefix("Code: ")
            .and_then(|rest| rest.split(|c: char| !c.is_ascii_digit()).next())
            .and_then(|digits| digits.parse().ok());
        match code {
            Some(code) => Self { code, text: text.trim_end().to_owned() },
            None => Self::new(1002, "UNKNOWN_EXCEPTION", text.trim_end()),
        }
    }

    /// The text that a client gets, with the version at its end as ClickHouse writes it.
    pub fn body(&self, version: &str) -> String {
        if self.text.contains("(version ") {
            format!("{}\n", self.text)
        } else {
            format!("{} (version {version} (official build))\n", self.text)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_is_read_from_the_engines_text() {
        let failure = Failure::engine("Code: 60. DB::Exception: Unknown table. (UNKNOWN_TABLE)");
        assert_eq!(failure.code, 60);
        assert_eq!(
            failure.body("1.2.3"),
            "Code: 60. DB::Exception: Unknown table. (UNKNOWN_TABLE) (version 1.2.3 (official build))\n"
        );
        let versioned = Failure::engine("Code: 27. DB::Exception: Bad. (X) (version 1.2.3)");
        assert_eq!(versioned.body("1.2.3"), "Code: 27. DB::Exception: Bad. (X) (version 1.2.3)\n");
        assert_eq!(Failure::engine("it broke").code, 1002);
    }
}
