//! What is known of a device or of a node beside its samples: facts, by the names of their attributes.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Reading;

/// Facts by attribute. `None`: the device can't tell it; what is not there is not known.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Facts(BTreeMap<Cow<'static, str>, Option<String>>);

impl Facts {
    /// Takes over a reading: one that failed leaves the fact unknown, and an empty text is none.
    pub fn read(&mut self, attribute: &'static str, reading: Reading<impl ToString>) {
        match reading {
            Reading::Value(value) => {
                let text = value.to_string().trim().to_owned();
                self.set(attribute, (!text.is_empty()).then_some(text));
            }
            Reading::Unsupported(_) => self.set(attribute, None),
            Reading::Failed(_) => {}
        }
    }

    /// Sets what is known; `None`: the device can't tell it.
    pub fn set(&mut self, attribute: &'static str, value: Option<String>) {
        self.0.insert(Cow::Borrowed(attribute), value);
    }

    /// Makes a fact unknown.
    pub fn forget(&mut self, attribute: &str) {
        self.0.remove(attribute);
    }

    /// The fact, when it is known and the device can tell it.
    pub fn get(&self, attribute: &str) -> Option<&str> {
        self.0.get(attribute)?.as_deref()
    }

    /// What is known of the attribute; `None` when nothing is.
    pub fn known(&self, attribute: &str) -> Option<Option<&str>> {
        self.0.get(attribute).map(Option::as_deref)
    }

    /// Everything that is known, by the names of the attributes.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        self.0.iter().map(|(attribute, value)| (attribute.as_ref(), value.as_deref()))
    }

    /// Takes over everything that `newer` knows.
    pub fn update(&mut self, newer: &Self) {
        self.0.extend(newer.0.iter().map(|(attribute, value)| (attribute.clone(), value.clone())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_reading_leaves_a_fact_unknown_and_an_unsupported_one_is_known_to_be_none() {
        let mut facts = Facts::default();
        facts.read("a", Reading::Value(" 96.00 "));
        facts.read("b", Reading::<u32>::Unsupported("no".into()));
        facts.read("c", Reading::<u32>::Failed("lost".into()));
        facts.read("d", Reading::Value(""));
        assert_eq!((facts.get("a"), facts.known("a")), (Some("96.00"), Some(Some("96.00"))));
        assert_eq!((facts.known("b"), facts.known("c"), facts.known("d")), (Some(None), None, Some(None)));
        let mut older = facts.clone();
        older.read("c", Reading::Value(7));
        older.update(&facts);
        assert_eq!(older.get("c"), Some("7"), "what is not known now was known before");
    }
}
