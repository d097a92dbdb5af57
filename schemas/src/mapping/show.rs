//! Rules as the TOML that gives them.

use super::{Glob, Rule, Rules, Set};

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

fn key(name: &str) -> String {
    let is_bare = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
    if is_bare { name.to_owned() } else { quoted(name) }
}

fn pairs(set: &[Set]) -> impl Iterator<Item = String> {
    set.iter().map(|(target, template)| format!("{target} = {}", quoted(template.as_str())))
}

impl Rule {
    /// What stands below `[[owners.rule]]`, a key a line.
    pub fn to_toml(&self) -> String {
        let patterns = |globs: &[Glob]| match globs {
            [one] => quoted(one.as_str()),
            several => {
                let several: Vec<String> = several.iter().map(|glob| quoted(glob.as_str())).collect();
                format!("[{}]", several.join(", "))
            }
        };
        let when: Vec<String> =
            self.when.iter().map(|(source, globs)| format!("{} = {}", key(source.name()), patterns(globs))).collect();
        let set: Vec<String> = pairs(&self.set).collect();
        format!("name = {}\nmatch = {{ {} }}\nset = {{ {} }}\n", quoted(&self.name), when.join(", "), set.join(", "))
    }
}

impl Rules {
    /// What stands below `[owners.default]`, a key a line; nothing where there is none.
    pub fn default_toml(&self) -> String {
        pairs(&self.default).map(|pair| pair + "\n").collect()
    }
}
