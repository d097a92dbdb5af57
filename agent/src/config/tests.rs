//! Faults are found where they are, and the example is true.

use super::*;

fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::parse(text, Path::new("agent.toml"), &Overrides::default())
}

fn fault(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

#[test]
fn a_fault_has_its_file_line_value_and_expectation() {
    assert_eq!(
        fault("node = \"n1\"\n\n[spool]\nmax_sise = \"1GiB\"\n"),
        "agent.toml:4: unknown key max_sise, expected max_size"
    );
    assert_eq!(
        fault("colour = 1"),
        "agent.toml:1: unknown key colour, expected one of node, interval, state_dir, collector, spool, http, sensors, telemetry"
    );
    assert_eq!(
        fault("interval = \"3\""),
        "agent.toml:1: interval is \"3\", expected a whole number with a unit, such as 250ms, 1s, 5m or 2h"
    );
    assert_eq!(
        fault("interval = \"50ms\""),
        "agent.toml:1: interval is \"50ms\", expected a duration from 100ms to 1m that divides a minute"
    );
    assert_eq!(
        fault("[collector]\nendpoint = \"collector:4317\""),
        "agent.toml:2: endpoint is \"collector:4317\", expected an URL such as http://collector:4317"
    );
    assert_eq!(
        fault("[http]\nlisten = \"localhost\""),
        "agent.toml:2: listen is \"localhost\", expected an IP address and a port, such as 127.0.0.1:9746"
    );
    assert_eq!(
        fault("[sensors]\nmount_interval = \"500ms\""),
        "agent.toml:2: mount_interval is \"500ms\", expected a duration from 1s to 1h"
    );
    assert_eq!(fault("[sensors]\nmax_mounts = 5000"), "agent.toml:2: max_mounts is 5000, expected a number up to 1024");
    assert_eq!(
        fault("[sensors]\nexclude_mounts = [\"/data\", \"var/lib\"]"),
        "agent.toml:2: exclude_mounts has \"var/lib\", expected absolute paths"
    );
    assert!(fault("interval = 3").starts_with("agent.toml:1: invalid type: integer `3`, expected a string"));
    assert!(fault("node = \"a\"\nnode = \"b\"").starts_with("agent.toml:2: "));
}

#[test]
fn the_command_line_wins_over_the_file_and_is_named_when_it_is_wrong() {
    let overrides = Overrides { node: Some("other".into()), ..Overrides::default() };
    let config = Config::parse("node = \"n1\"", Path::new("agent.toml"), &overrides).unwrap();
    assert_eq!(config.node, "other");
    let overrides = Overrides { listen: Some("9746".into()), ..Overrides::default() };
    let error = Config::load(None, &overrides).unwrap_err().to_string();
    assert_eq!(error, "listen: it is \"9746\", expected an IP address and a port, such as 127.0.0.1:9746");
}

#[test]
fn the_example_shows_every_key_and_its_default() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("agent.example.toml");
    let example = std::fs::read_to_string(path).unwrap();
    let overrides = Overrides { node: Some("node".into()), ..Overrides::default() };
    let uncommented: String =
        example.lines().map(|line| line.strip_prefix("#! ").unwrap_or(line)).collect::<Vec<_>>().join("\n");
    let shown = Config::parse(&uncommented, Path::new("agent.example.toml"), &overrides).unwrap();
    let mut defaults = Config::parse("", Path::new("(defaults)"), &overrides).unwrap();
    defaults.state_dir.clone_from(&shown.state_dir);
    defaults.spool_dir.clone_from(&shown.spool_dir);
    defaults.roots.nvml.clone_from(&shown.roots.nvml);
    defaults.telemetry.clone_from(&shown.telemetry);
    assert_eq!(shown, defaults);
    // And it is whole: every key that the effective configuration has is in it.
    for key in shown.to_toml().lines().filter_map(|line| Some(line.split_once(" = ")?.0.to_owned())) {
        assert!(example.contains(&format!("{key} = ")), "{key}");
    }
}

#[test]
fn what_is_shown_gives_the_same_configuration() {
    let config = parse("node = \"n1\"\ninterval = \"500ms\"\n[sensors]\nnvml = \"/opt/libnvidia-ml.so.1\"").unwrap();
    assert_eq!(parse(&config.to_toml()).unwrap(), config);
}

#[test]
fn the_reference_page_has_every_key() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/configuration.md");
    let page = std::fs::read_to_string(path).unwrap();
    let config = parse("node = \"n1\"\n[sensors]\nnvml = \"/opt/libnvidia-ml.so.1\"").unwrap();
    let shown: toml::Table = config.to_toml().parse().unwrap();
    for (key, value) in &shown {
        match value.as_table() {
            Some(table) => {
                table.keys().for_each(|inner| assert!(page.contains(&format!("`{key}.{inner}`")), "{inner}"))
            }
            None => assert!(page.contains(&format!("| `{key}` |")), "{key}"),
        }
    }
}
