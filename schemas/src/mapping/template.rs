//! Values with places for what is known of an owner: `{namespace}`, `{k8s.label.team}`; `{{` and `}}` are braces.

use super::source::{Known, Source};

/// Longest value, in bytes: a label's.
pub const MAX_BYTES: usize = 256;

/// A value to be filled in.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Template {
    text: String,
    parts: Vec<Part>,
}

#[derive(Clone, Debug, Eq, PartialEq)]
enum Part {
    Text(String),
    Of(Source),
}

impl Template {
    /// Reads a value.
    ///
    /// # Errors
    /// What was expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() || text.len() > MAX_BYTES || text.chars().any(char::is_control) {
            return Err("text of 1 to 256 bytes without control characters".to_owned());
        }
        let (mut parts, mut plain) = (Vec::new(), String::new());
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            let (before, after) = rest.split_at(at);
            plain.push_str(before);
            if let Some(after) = after.strip_prefix("{{") {
                plain.push('{');
                rest = after;
            } else if let Some(after) = after.strip_prefix("}}") {
                plain.push('}');
                rest = after;
            } else {
                let (name, after) =
                    after.strip_prefix('{').and_then(|after| after.split_once('}')).ok_or_else(|| {
                        "a name in braces such as {namespace}, and {{ or }} for a brace itself".to_owned()
                    })?;
                if !plain.is_empty() {
                    parts.push(Part::Text(std::mem::take(&mut plain)));
                }
                parts.push(Part::Of(Source::parse(name).map_err(|expected| format!("{expected}, in braces"))?));
                rest = after;
            }
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            parts.push(Part::Text(plain));
        }
        Ok(Self { text: text.to_owned(), parts })
    }

    /// The value as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// What it needs to know.
    pub fn sources(&self) -> impl Iterator<Item = &Source> {
        self.parts.iter().filter_map(|part| match part {
            Part::Of(source) => Some(source),
            Part::Text(_) => None,
        })
    }

    /// The value, of at most [`MAX_BYTES`] and without control characters; `None` when something that it needs is not known.
    pub fn fill(&self, known: &Known<'_>) -> Option<String> {
        let mut value = String::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => value.push_str(text),
                Part::Of(source) => value.push_str(Some(known.get(source)).filter(|found| !found.is_empty())?),
            }
        }
        value.retain(|sign| !sign.is_control());
        let mut value = value.trim();
        if value.len() > MAX_BYTES {
            let end = (0..=MAX_BYTES).rev().find(|end| value.is_char_boundary(*end)).unwrap_or_default();
            value = value.get(..end).unwrap_or_default();
        }
        (!value.is_empty()).then(|| value.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Labels;
    use super::*;
    use crate::owner::Owner;

    fn filled(text: &str, labels: &[(&str, &str)]) -> Option<String> {
        let owner = Owner { namespace: "ml".into(), ..Owner::default() };
        let labels: Labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Template::parse(text).unwrap().fill(&Known::of(&owner, &labels))
    }

    #[test]
    fn places_are_filled_with_what_is_known() {
        let team = [("k8s.label.team", "vision")];
        assert_eq!(filled("{namespace}-{k8s.label.team}", &team).unwrap(), "ml-vision");
        assert_eq!(filled("{{{namespace}}} }}", &team).unwrap(), "{ml} }");
        assert_eq!(filled("{namespace}-{k8s.label.tier}", &team), None, "half a value is none");
        assert_eq!(filled("{k8s.label.a.b/c}", &[("k8s.label.a.b/c", " x\n\u{1b}y ")]).unwrap(), "xy");
        let long = "ñ".repeat(200);
        assert_eq!(filled("{env.X}", &[("env.X", &long)]).unwrap(), "ñ".repeat(128));
        assert_eq!(filled("a{env.X}", &[("env.X", &long)]).unwrap().len(), 255);
        assert_eq!(filled("{env.X}", &[("env.X", " \n")]), None);
    }

    #[test]
    fn what_is_no_place_is_refused() {
        for wrong in ["{namespace", "}", "{", "{}", "{name space}", "{colour}", " ", "", "a\nb"] {
            Template::parse(wrong).unwrap_err();
        }
        Template::parse(&"x".repeat(257)).unwrap_err();
        assert!(Template::parse("{namspace}").unwrap_err().contains("namespace"));
    }
}
