//! The configuration for people: what is in force, an example with every key, and the reference.

use std::path::Path;

use contador_schemas::mapping::Rules;

use super::given::{Effective, Origin};
use super::key::{About, Default};
use super::raw::KEYS;

/// Columns of the example.
const WIDTH: usize = 118;

/// What is in force as a file that would give it, with where each value is from. `path` is the file that was read.
pub fn effective(all: &[Effective], path: &Path) -> String {
    let (mut out, mut within) = (String::new(), "");
    for key in KEYS {
        let Some(one) = all.iter().find(|one| one.about.path == key.path) else { continue };
        let (table, name) = key.split();
        if table != within {
            within = table;
            out += &format!("\n[{table}]\n");
        }
        let origin = match &one.origin {
            Origin::Default => "default".to_owned(),
            Origin::File(line) => format!("{}:{line}", path.display()),
            Origin::Flag(flag) => flag.clone(),
            Origin::Variable(name) => format!("${name}"),
        };
        let line = match (&one.value, key.default) {
            (Some(value), _) => format!("{name} = {}", value.toml()),
            (None, Default::Found(meaning, _) | Default::Nothing(meaning, _)) => format!("# {name}: {meaning}"),
            (None, _) => continue,
        };
        out += &format!("{line:<44} # {origin}\n");
    }
    out
}

/// The rules of owners as a file that would give them, with the line of each.
pub fn rules(rules: &Rules, lines: &[usize], default_line: usize, path: &Path) -> String {
    let head = |head: &str, line: usize| format!("\n{head:<44} # {}:{line}\n", path.display());
    let mut out = String::new();
    for (rule, line) in rules.rules.iter().zip(lines) {
        out += &head("[[owners.rule]]", *line);
        out += &rule.to_toml();
    }
    if !rules.default.is_empty() {
        out += &head("[owners.default]", default_line);
        out += &rules.default_toml();
    }
    out
}

/// Rules in the example; each line but the comments is a line of TOML.
const RULES_EXAMPLE: &str = r#"
# Who pays for an owner. The first rule of which all patterns match counts, and fills in what the owner does not say itself;
# the default fills in the rest. * is any text, ? one character, \ takes the next one as it is; "" is a value that is not
# known. docs/configuration.md says what rules can look at. There are none by default.
#! [[owners.rule]]
#! name = "research on Kubernetes"
#! match = { namespace = "research-*", "k8s.label.team" = ["vision", "language-?"] }
#! set = { department = "research", project = "{k8s.label.team}" }
#!
#! [[owners.rule]]
#! name = "Slurm accounts"
#! match = { "slurm.account" = "*" }
#! set = { department = "{slurm.account}", environment = "batch" }
#!
#! [owners.default]
#! department = "unassigned"
"#;

/// Targets in the example; each line but the comments is a line of TOML.
const TARGETS_EXAMPLE: &str = r#"
# Servers that are scraped, each below a head of its own. url is all that must be said: host:port, or an URL. preset is auto, or
# what the server is; docs/latency.md says which there are. labels are of all its series, owner is who serves. There are none by
# default.
#! [[scrape.target]]
#! url = "127.0.0.1:8000"
#! service = "chat"
#! environment = "production"
#! owner = { department = "research", project = "assistant" }
#!
#! [[scrape.target]]
#! url = "https://ranker.lab:9000/metrics"
#! service = "ranker"
#! model = "ranker-2"
#! device = "GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77"
#! labels = { tier = "gold" }
#! token_file = "/etc/contador/ranker.token"
#! ca_file = "/etc/contador/lab-ca.crt"
#! [[scrape.target.histogram]]
#! name = "ranker_latency_milliseconds"
#! metric = "request_duration"
#! unit = "ms"
#! labels = { handler = "/rank" }
"#;

/// `agent.example.toml`
pub fn example() -> String {
    let mut out = String::from(
        "# The configuration of contador-agent. Every key has a default, which is what is shown here; an empty file is a whole\n\
         # configuration. Lines that begin with \"#! \" are keys whose default depends on the machine, or is to have none.\n\
         #\n\
         #   contador-agent check --config agent.toml     says what is wrong, with the line, or shows what is in force.\n",
    );
    let mut within = "";
    for key in KEYS {
        let (table, name) = key.split();
        out.push('\n');
        if table != within {
            within = table;
            out += &format!("[{table}]\n");
        }
        let flag = key.flag.map(|(flag, _)| format!(" --{flag}")).unwrap_or_default();
        let default = match key.default {
            Default::Found(meaning, _) | Default::Nothing(meaning, _) => format!(" Default: {meaning}."),
            _ => {
                key.variable.map(|name| format!(" Default: ${name}, where that is set, else this.")).unwrap_or_default()
            }
        };
        wrap(&mut out, &format!("{} Takes {}.{default}{flag}", key.text(), key.expects));
        match key.default {
            Default::Found(_, example) | Default::Nothing(_, example) => {
                out += &format!("#! {name} = {}\n", toml::Value::String(example.to_owned()));
            }
            other => {
                let value = other.written().map(|value| value.toml()).unwrap_or_default();
                out += &format!("{name} = {value}\n");
            }
        }
    }
    out + RULES_EXAMPLE + TARGETS_EXAMPLE
}

fn wrap(out: &mut String, text: &str) {
    let mut line = "#".to_owned();
    for word in text.split(' ') {
        if line.chars().count() + 1 + word.chars().count() > WIDTH {
            out.push_str(&line);
            out.push('\n');
            line = "#".to_owned();
        }
        line.push(' ');
        line.push_str(word);
    }
    out.push_str(&line);
    out.push('\n');
}

/// The table of `docs/configuration.md`.
pub fn reference() -> String {
    let mut out = String::from("| key | takes | default | flag | meaning |\n|---|---|---|---|---|\n");
    for key in KEYS {
        let flag = match key.flag {
            Some((flag, "")) => format!("`--{flag}`"),
            Some((flag, value)) => format!("`--{flag} {value}`"),
            None => String::new(),
        };
        out += &format!("| `{}` | {} | {} | {flag} | {} |\n", key.path, key.expects, default(key), key.text());
    }
    out
}

fn default(key: &About) -> String {
    let text = match key.default {
        Default::Found(meaning, _) | Default::Nothing(meaning, _) => return meaning.to_owned(),
        Default::Text(text) => format!("`{text}`"),
        other => other.written().map(|value| format!("`{}`", value.toml())).unwrap_or_default(),
    };
    key.variable.map_or_else(|| text.clone(), |name| format!("`${name}`, else {text}"))
}
