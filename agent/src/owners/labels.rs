//! What an environment says about the owner of a process, and of what rules ask for.

use std::collections::BTreeSet;

use contador_schemas::mapping::{Labels, VARIABLE};
use contador_schemas::names::{LABEL_VARIABLE_PREFIX, OWNER_ATTRIBUTES};
use contador_schemas::owner::Owner;

use super::label;
use crate::sensors::kernel::Environ;

const RESOURCE_VARIABLE: &[u8] = b"OTEL_RESOURCE_ATTRIBUTES";

/// Fields that say whose work it is. The others (environment, cluster, user) say only where it runs or as whom.
const TELLING: [&str; 9] =
    ["namespace", "pod", "container", "job", "department", "project", "experiment", "service", "model"];

/// Longest value that is taken, in bytes; the rest is cut off.
const MAX_VALUE_BYTES: usize = label::MAX_BYTES;

/// The owner that an environment names; `None` when it names nobody. `CONTADOR_OWNER_…` variables win over attributes of
/// `OTEL_RESOURCE_ATTRIBUTES`.
pub fn owner_in(environ: &Environ) -> Option<Owner> {
    let mut owner = Owner::default();
    for (_, value) in environ.variables().filter(|(name, _)| *name == RESOURCE_VARIABLE) {
        resource_attributes(&mut owner, &String::from_utf8_lossy(value));
    }
    for (name, value) in environ.variables() {
        let field = std::str::from_utf8(name).ok().and_then(|name| name.strip_prefix(LABEL_VARIABLE_PREFIX));
        if let Some(field) = field {
            owner.set(&field.to_ascii_lowercase(), clean(&String::from_utf8_lossy(value)));
        }
    }
    let told = owner.attributes().iter().any(|(name, value)| TELLING.contains(name) && !value.is_empty());
    told.then_some(owner)
}

/// Those of the `wanted` variables that an environment has, as labels `env.NAME`: what is text, has something beside blanks,
/// and may be a label ([`label::is_valid`]). No other one is taken, since there are secrets among them.
pub fn variables_in(environ: &Environ, wanted: &BTreeSet<String>) -> Labels {
    let label = |(name, value): (&[u8], &[u8])| {
        let name = std::str::from_utf8(name).ok().filter(|name| wanted.contains(*name))?;
        let value = std::str::from_utf8(value).ok().map(str::trim)?;
        let is_fit = !value.is_empty() && label::is_valid(value);
        is_fit.then(|| (format!("{VARIABLE}{name}"), value.to_owned()))
    };
    if wanted.is_empty() { Labels::new() } else { environ.variables().filter_map(label).collect() }
}

/// The environment variable that carries a field of an owner.
pub fn variable(field: &str) -> String {
    format!("{LABEL_VARIABLE_PREFIX}{}", field.to_ascii_uppercase())
}

/// `key=value,key=value` with percent-encoded values
/// (<https://opentelemetry.io/docs/specs/otel/resource/sdk/#specifying-resource-information-via-an-environment-variable>).
fn resource_attributes(owner: &mut Owner, text: &str) {
    for (name, value) in text.split(',').filter_map(|pair| pair.split_once('=')) {
        if let Some((field, _)) = OWNER_ATTRIBUTES.iter().find(|(_, attribute)| *attribute == name.trim()) {
            owner.set(field, clean(&String::from_utf8_lossy(&percent_decoded(value))));
        }
    }
}

/// The bytes of a text with `%XX` escapes; what is no escape stays as it is.
pub(crate) fn percent_decoded(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        let code = (byte == b'%').then(|| tail.get(..2)).flatten();
        let code = code.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        match code {
            Some(code) => {
                bytes.push(code);
                rest = &tail[2..];
            }
            None => {
                bytes.push(byte);
                rest = tail;
            }
        }
    }
    bytes
}

fn clean(value: &str) -> &str {
    let value = value.trim();
    let mut end = value.len().min(MAX_VALUE_BYTES);
    while !value.is_char_boundary(end) {
        end -= 1;
    }
    &value[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner_in(environ: &[u8]) -> Option<Owner> {
        super::owner_in(&Environ::from(environ))
    }

    #[test]
    fn variables_win_over_resource_attributes() {
        let environ = b"PATH=/bin\0OTEL_RESOURCE_ATTRIBUTES=contador.department=old,contador.project=a%2Cb,x=y\0\
            CONTADOR_OWNER_DEPARTMENT= research \0CONTADOR_OWNER_COLOUR=red\0";
        let owner = owner_in(environ).unwrap();
        assert_eq!((owner.department.as_str(), owner.project.as_str()), ("research", "a,b"));
    }

    #[test]
    fn where_it_runs_is_not_whose_it_is() {
        assert_eq!(owner_in(b"OTEL_RESOURCE_ATTRIBUTES=deployment.environment.name=prod\0"), None);
        assert_eq!(owner_in(b"CONTADOR_OWNER_USER=ana\0HOME=/root\0"), None);
        assert_eq!(owner_in(b""), None);
        assert_eq!(owner_in(b"CONTADOR_OWNER_JOB=\0"), None);
    }

    #[test]
    fn no_variable_is_taken_that_is_not_asked_for() {
        let long = "x".repeat(257);
        let text = format!("TEAM= vision \0KEY=secret\0TEAMS=b\0B=a\tb\0LONG={long}\0EMPTY= \0E=a=b\0");
        let mut bytes = text.into_bytes();
        bytes.extend(b"RAW=\xff\0");
        let of = |wanted: &[&str]| {
            let wanted = wanted.iter().map(|name| (*name).to_owned()).collect();
            variables_in(&Environ::from(&bytes[..]), &wanted)
        };
        let expected = [("env.E", "a=b"), ("env.TEAM", "vision")].map(|(name, value)| (name.into(), value.into()));
        assert_eq!(of(&["TEAM", "E", "B", "LONG", "EMPTY", "RAW", "NONE"]), Labels::from(expected));
        assert_eq!(of(&[]), Labels::new());
    }

    #[test]
    fn odd_bytes_are_no_danger() {
        let long = format!("CONTADOR_OWNER_JOB={}\0", "ñ".repeat(500));
        assert_eq!(owner_in(long.as_bytes()).unwrap().job.len(), 256);
        assert_eq!(percent_decoded("100%"), b"100%");
        assert_eq!(percent_decoded("%zz%4"), b"%zz%4");
        assert!(owner_in(b"CONTADOR_OWNER_JOB=\xff\xfe\0=\0==\0").is_some());
    }
}
