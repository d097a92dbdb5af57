//! What rules look at: a field of the owner, or a label.

use super::{Labels, VARIABLE};
use crate::owner::Owner;

/// Where a value is from.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Source {
    /// The owner's attribute at this place of [`Owner::attributes`].
    Field(usize),
    /// The label of this name, which has a dot in it.
    Label(String),
}

/// Longest name of a label, in bytes.
const MAX_BYTES: usize = 512;

impl Source {
    /// The source of this name: a field of an owner such as `namespace`, or a label such as `k8s.label.team`.
    ///
    /// # Errors
    /// What was expected.
    pub fn parse(name: &str) -> Result<Self, String> {
        let fields = Owner::default().attributes().map(|(field, _)| field);
        if let Some(at) = fields.iter().position(|field| *field == name) {
            return Ok(Self::Field(at));
        }
        let is_label = name.split_once('.').is_some_and(|(kind, rest)| !kind.is_empty() && !rest.is_empty());
        let is_label = is_label && !name.strip_prefix(VARIABLE).is_some_and(|variable| variable.contains('='));
        if is_label && name.len() <= MAX_BYTES && !name.chars().any(|sign| sign.is_control() || sign.is_whitespace()) {
            return Ok(Self::Label(name.to_owned()));
        }
        Err(format!("one of {}, or a label such as k8s.label.team", fields.join(", ")))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Self::Field(at) => Owner::default().attributes().get(*at).map_or("", |(field, _)| *field),
            Self::Label(name) => name,
        }
    }
}

/// What is known of an owner.
#[derive(Debug)]
pub struct Known<'a> {
    fields: [(&'static str, &'a str); 13],
    labels: &'a Labels,
}

impl<'a> Known<'a> {
    /// Of this owner with these labels.
    pub fn of(owner: &'a Owner, labels: &'a Labels) -> Self {
        Self { fields: owner.attributes(), labels }
    }

    /// The value; empty when it is not known.
    pub fn get(&self, source: &Source) -> &'a str {
        match source {
            Source::Field(at) => self.fields.get(*at).map_or("", |(_, value)| value),
            Source::Label(name) => self.labels.get(name).map_or("", String::as_str),
        }
    }

    /// The value of a field; empty when it is not known.
    pub(super) fn field(&self, name: &str) -> &'a str {
        self.fields.iter().find(|(field, _)| *field == name).map_or("", |(_, value)| value)
    }
}
