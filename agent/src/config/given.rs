//! What is given, where: the first of the command line, the file, the environment and the default is in force.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use contador_schemas::mapping::Rules;

use super::fault::{ConfigError, Place};
use super::file::Said;
use super::key::{About, Default, Key, Written};

/// What the command line gives, by the key's path.
pub type Flags = HashMap<&'static str, Written>;

/// Where a value is from.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Origin {
    /// Nobody gave it.
    Default,
    /// A line of the file, from 1.
    File(usize),
    /// A flag, with its dashes.
    Flag(String),
    /// An environment variable.
    Variable(&'static str),
}

/// A key with what is in force.
#[derive(Clone, Debug)]
pub struct Effective {
    /// The key.
    pub about: &'static About,
    /// Its value; none where the default is to have none.
    pub value: Option<Written>,
    /// Where that is from.
    pub origin: Origin,
}

/// The layers, and what was taken from them.
pub(super) struct Given<'a> {
    pub place: Place<'a>,
    pub said: Said,
    pub rules: Arc<Rules>,
    pub flags: &'a Flags,
    pub taken: Vec<Effective>,
}

impl<'a> Given<'a> {
    pub(super) fn new(path: &'a Path, text: &'a str, said: Said, rules: Arc<Rules>, flags: &'a Flags) -> Self {
        Self { place: Place { path, text }, said, rules, flags, taken: Vec::new() }
    }

    /// The value of a key that has a default.
    pub(super) fn get<T>(&mut self, key: &Key<T>) -> Result<T, ConfigError> {
        self.get_or(key, || Written::Other("nothing".to_owned()))
    }

    /// The value of a key; `found` is its default, where that depends on something.
    pub(super) fn get_or<T>(&mut self, key: &Key<T>, found: impl FnOnce() -> Written) -> Result<T, ConfigError> {
        let (written, origin) = self.first(key.about).unwrap_or_else(|| (found(), Origin::Default));
        self.read(key, written, origin)
    }

    /// The value of a key that may have none.
    pub(super) fn find<T>(&mut self, key: &Key<T>) -> Result<Option<T>, ConfigError> {
        match self.first(key.about) {
            Some((written, origin)) => self.read(key, written, origin).map(Some),
            None => {
                self.taken.push(Effective { about: key.about, value: None, origin: Origin::Default });
                Ok(None)
            }
        }
    }

    /// A fault of a value that was taken.
    pub(super) fn fault<T>(&self, key: &Key<T>, expected: &str) -> Option<ConfigError> {
        let taken = self.taken.iter().find(|taken| taken.about.path == key.about.path)?;
        Some(self.wrong(key.about, taken.value.as_ref()?, &taken.origin, expected))
    }

    fn first(&self, about: &'static About) -> Option<(Written, Origin)> {
        let flag = self.flags.get(about.path).map(|given| {
            let flag = about.flag.map_or(about.path, |(flag, _)| flag);
            (given.clone(), Origin::Flag(format!("--{flag}")))
        });
        let said = || {
            let (written, span) = self.said.get(about.path)?;
            Some((written.clone(), Origin::File(self.place.line(span))))
        };
        let variable = || {
            let name = about.variable?;
            let value = std::env::var_os(name).filter(|value| !value.is_empty())?;
            Some((Written::from(value), Origin::Variable(name)))
        };
        flag.or_else(said).or_else(variable).or_else(|| Some((Default::written(about.default)?, Origin::Default)))
    }

    fn read<T>(&mut self, key: &Key<T>, written: Written, origin: Origin) -> Result<T, ConfigError> {
        match (key.read)(&written) {
            Ok(value) => {
                self.taken.push(Effective { about: key.about, value: Some(written), origin });
                Ok(value)
            }
            Err(reason) => {
                let expected = if reason.is_empty() { key.about.expects } else { reason };
                Err(self.wrong(key.about, &written, &origin, expected))
            }
        }
    }

    fn wrong(&self, about: &About, written: &Written, origin: &Origin, expected: &str) -> ConfigError {
        let reason = |name: &str| format!("{name} is {}, expected {expected}", written.shown());
        match origin {
            Origin::File(line) => {
                ConfigError::File { path: self.place.path.to_owned(), line: *line, reason: reason(about.path) }
            }
            Origin::Flag(flag) => ConfigError::Value { reason: reason(flag) },
            Origin::Variable(name) => ConfigError::Value { reason: reason(name) },
            Origin::Default => ConfigError::Value { reason: reason(about.path) },
        }
    }
}
