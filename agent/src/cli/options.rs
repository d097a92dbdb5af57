//! The options that stand for keys of the configuration: made of the keys themselves, so that there is one list.

use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, value_parser};

use crate::config::key::{About, Written};
use crate::config::raw::{self, KEYS};
use crate::config::{self, Config, ConfigError, Flags, Loaded};

/// What the command line says of the configuration.
#[derive(Clone, Debug, Default)]
pub(super) struct ConfigArgs {
    file: Option<PathBuf>,
    flags: Flags,
}

impl ConfigArgs {
    /// The configuration that is in force.
    pub(super) fn load(&self) -> Result<Config, ConfigError> {
        self.loaded().map(|loaded| loaded.config)
    }

    /// The same, with where each value is from.
    pub(super) fn loaded(&self) -> Result<Loaded, ConfigError> {
        config::load(self.file.as_deref(), &self.flags)
    }

    fn augment(command: Command, keys: impl Iterator<Item = &'static About>) -> Command {
        let file = Arg::new("config").long("config").value_name("FILE").value_parser(value_parser!(PathBuf));
        let command = command.arg(file.help("Configuration file; without one, the defaults are in force"));
        keys.fold(command, |command, key| {
            let Some((flag, value)) = key.flag else { return command };
            let help = format!("{} Key {}", key.text(), key.path);
            let arg = Arg::new(key.path).long(flag).help(help);
            command.arg(match value {
                "" => arg.action(ArgAction::SetTrue),
                value => arg.value_name(value).value_parser(value_parser!(std::ffi::OsString)),
            })
        })
    }

    fn update(&mut self, matches: &ArgMatches, keys: impl Iterator<Item = &'static About>) {
        self.file = matches.get_one::<PathBuf>("config").cloned();
        for key in keys {
            let given = match key.flag {
                None => None,
                Some((_, "")) => matches.get_flag(key.path).then_some(Written::Flag(true)),
                Some(_) => matches.get_one::<std::ffi::OsString>(key.path).cloned().map(Written::from),
            };
            self.flags.extend(given.map(|given| (key.path, given)));
        }
    }
}

impl Args for ConfigArgs {
    fn augment_args(command: Command) -> Command {
        Self::augment(command, KEYS.iter().copied())
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for ConfigArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut args = Self::default();
        args.update_from_arg_matches(matches)?;
        Ok(args)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.update(matches, KEYS.iter().copied());
        Ok(())
    }
}

/// The same, of a command that sends nothing, serves nothing and keeps nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct LookArgs(pub(super) ConfigArgs);

/// The keys that mean something to such a command.
fn of_look() -> impl Iterator<Item = &'static About> {
    let of_run = [raw::INTERVAL.about, raw::STATE_DIR.about, raw::ENDPOINT.about, raw::LISTEN.about, raw::DCGM.about];
    KEYS.iter().copied().filter(move |key| of_run.iter().all(|other| other.path != key.path))
}

impl Args for LookArgs {
    fn augment_args(command: Command) -> Command {
        ConfigArgs::augment(command, of_look())
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for LookArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut args = Self::default();
        args.update_from_arg_matches(matches)?;
        Ok(args)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0.update(matches, of_look());
        Ok(())
    }
}
