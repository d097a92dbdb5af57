//! Why a command did not do its work, and so how the process ends.

/// Why a command did not do its work; each kind has its own exit code.
#[derive(Debug)]
pub enum Failure {
    /// Bad usage or configuration: exit code 2.
    Usage(anyhow::Error),
    /// Failed while running: exit code 1.
    Running(anyhow::Error),
}

impl Failure {
    /// The error without its kind.
    pub fn into_error(self) -> anyhow::Error {
        match self {
            Self::Usage(error) | Self::Running(error) => error,
        }
    }
}

/// A [`Failure::Usage`] with this message.
pub fn usage(message: impl std::fmt::Display) -> Failure {
    Failure::Usage(anyhow::anyhow!("{message}"))
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Running(error.into())
    }
}
