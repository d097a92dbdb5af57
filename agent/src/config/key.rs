//! What a key of the configuration is: its path, its default, what it takes, and what it means.

use std::ffi::OsString;
use std::path::PathBuf;

/// A value as it is written: in the file, at a flag, in the environment, or as a default.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Written {
    /// A string.
    Text(String),
    /// A path that is no UTF-8; only a flag can have one.
    Path(PathBuf),
    /// A whole number.
    Whole(i64),
    /// `true` or `false`.
    Flag(bool),
    /// A list of strings.
    List(Vec<String>),
    /// Something that no key takes, as it stands in the file.
    Other(String),
}

impl Written {
    /// As TOML would have it.
    pub fn toml(&self) -> String {
        match self {
            Self::Text(text) => toml::Value::String(text.clone()).to_string(),
            Self::Path(path) => toml::Value::String(path.to_string_lossy().into_owned()).to_string(),
            Self::Whole(number) => number.to_string(),
            Self::Flag(yes) => yes.to_string(),
            Self::List(list) => {
                let list: Vec<toml::Value> = list.iter().cloned().map(toml::Value::String).collect();
                toml::Value::Array(list).to_string()
            }
            Self::Other(text) => text.clone(),
        }
    }

    /// As a message has it.
    pub fn shown(&self) -> String {
        match self {
            Self::Text(text) => format!("{text:?}"),
            other => other.toml(),
        }
    }
}

impl From<OsString> for Written {
    fn from(given: OsString) -> Self {
        given.into_string().map_or_else(|given| Self::Path(given.into()), Self::Text)
    }
}

/// What is in force when nobody gives a key.
#[derive(Clone, Copy, Debug)]
pub enum Default {
    /// This text.
    Text(&'static str),
    /// This number.
    Whole(i64),
    /// This.
    Flag(bool),
    /// These texts.
    List(&'static [&'static str]),
    /// What depends on the machine, or on other keys: in words, and an example.
    Found(&'static str, &'static str),
    /// Nothing: in words what that means, and an example.
    Nothing(&'static str, &'static str),
}

impl Default {
    /// The value, of a default that has one for every machine.
    pub fn written(self) -> Option<Written> {
        match self {
            Self::Text(text) => Some(Written::Text(text.to_owned())),
            Self::Whole(number) => Some(Written::Whole(number)),
            Self::Flag(yes) => Some(Written::Flag(yes)),
            Self::List(list) => Some(Written::List(list.iter().map(|&text| text.to_owned()).collect())),
            Self::Found(..) | Self::Nothing(..) => None,
        }
    }
}

/// A key, for the documentation and for whoever looks for it.
#[derive(Debug)]
pub struct About {
    /// Its path, such as `collector.endpoint`.
    pub path: &'static str,
    /// Its doc comment.
    pub doc: &'static [&'static str],
    /// What it takes, with unit and bounds; after "expected".
    pub expects: &'static str,
    /// What is in force without it.
    pub default: Default,
    /// Its flag without dashes, and what stands for the value; a key that is true or false has none for it.
    pub flag: Option<(&'static str, &'static str)>,
    /// The environment variable that stands in for a default.
    pub variable: Option<&'static str>,
}

impl About {
    /// The table that it is in, empty for the top; and its name there.
    pub fn split(&self) -> (&'static str, &'static str) {
        self.path.split_once('.').unwrap_or(("", self.path))
    }

    /// Its doc comment on one line.
    pub fn text(&self) -> String {
        self.doc.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
    }
}

/// How a value is read: an empty reason stands for what the key expects.
pub type Read<T> = fn(&Written) -> Result<T, &'static str>;

/// A key, and how its value is read.
#[derive(Debug)]
pub struct Key<T: 'static> {
    /// What it is.
    pub about: &'static About,
    /// How it is read.
    pub read: Read<T>,
}

/// Declares keys. Each is one entry; parser, defaults, `check`, the flags, the example file and the reference are made of it.
macro_rules! keys {
    ($(
        $(#[doc = $doc:literal])*
        $name:ident: $type:ty = $path:literal, $default:expr, $read:expr, $expects:literal
            $(, flag $flag:literal $value:literal)? $(, variable $variable:literal)?;
    )*) => {
        /// Every key, in the order of the documentation.
        pub const KEYS: &[&About] = &[$(&About {
            path: $path,
            doc: &[$($doc),*],
            expects: $expects,
            default: $default,
            flag: keys!(@given $(($flag, $value))?),
            variable: keys!(@given $($variable)?),
        }),*];

        $(
            $(#[doc = $doc])*
            pub const $name: &Key<$type> = &Key { about: about($path), read: $read };
        )*
    };
    (@given) => { None };
    (@given $given:expr) => { Some($given) };
}
pub(super) use keys;
