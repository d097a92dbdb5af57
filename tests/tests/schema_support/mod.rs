//! JSON against a schema: the part of JSON Schema (draft 2020-12) that the project's schemas use. What is not known of it panics, so
//! that nothing passes because nobody looked.

use serde_json::Value;

/// Words that say nothing about what is valid.
const COMMENTS: [&str; 4] = ["$schema", "$defs", "title", "description"];

/// What is wrong with a value, as `path: fault`.
pub fn faults(schema: &Value, value: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    check(schema, schema, value, "", &mut faults);
    faults
}

fn check(root: &Value, schema: &Value, value: &Value, path: &str, faults: &mut Vec<String>) {
    let Some(words) = schema.as_object() else { panic!("{path}: a schema that is no object: {schema}") };
    for (word, says) in words {
        match word.as_str() {
            "$ref" => {
                let place =
                    says.as_str().and_then(|place| place.strip_prefix('#')).expect("a reference within the schema");
                let schema = root.pointer(place).unwrap_or_else(|| panic!("{place} is not in the schema"));
                return check(root, schema, value, path, faults);
            }
            "type" => {
                let types = says.as_array().cloned().unwrap_or_else(|| vec![says.clone()]);
                if !types.iter().any(|name| is_of(name, value)) {
                    faults.push(format!("{path}: {value} is not of type {says}"));
                }
            }
            "enum" if !says.as_array().expect("a list").contains(value) => {
                faults.push(format!("{path}: {value} is none of {says}"))
            }
            "pattern" if value.as_str().is_some_and(|text| !matches(says, text)) => {
                faults.push(format!("{path}: {value} is not as {says}"))
            }
            "required" if value.is_object() => {
                for name in says.as_array().expect("a list").iter().filter_map(Value::as_str) {
                    if value.get(name).is_none() {
                        faults.push(format!("{path}/{name}: is missing"));
                    }
                }
            }
            "items" => {
                for (at, item) in value.as_array().into_iter().flatten().enumerate() {
                    check(root, says, item, &format!("{path}/{at}"), faults);
                }
            }
            "properties" | "additionalProperties" | "enum" | "pattern" | "required" => {}
            word => assert!(COMMENTS.contains(&word), "{path}: {word:?} is a word that this check does not know"),
        }
    }
    for (name, member) in value.as_object().into_iter().flatten() {
        let path = format!("{path}/{name}");
        match (schema["properties"].get(name), &schema["additionalProperties"]) {
            (Some(schema), _) | (None, schema @ Value::Object(_)) => check(root, schema, member, &path, faults),
            (None, Value::Bool(false)) => faults.push(format!("{path}: is not known")),
            (None, _) => {}
        }
    }
}

fn is_of(name: &Value, value: &Value) -> bool {
    match name.as_str().expect("a type's name") {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "null" => value.is_null(),
        name => panic!("{name:?} is a type that this check does not know"),
    }
}

/// The two patterns that there are.
fn matches(pattern: &Value, text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let positive = text.strip_prefix('-').unwrap_or(text);
    match pattern.as_str().expect("a pattern") {
        r"^-?[0-9]+\.[0-9]{6}$" => {
            positive.split_once('.').is_some_and(|(whole, part)| digits(whole) && digits(part) && part.len() == 6)
        }
        r"^-?[0-9]+(/[0-9]+)?$" => {
            positive.split_once('/').map_or(digits(positive), |(over, under)| digits(over) && digits(under))
        }
        pattern => panic!("{pattern:?} is a pattern that this check does not know"),
    }
}
