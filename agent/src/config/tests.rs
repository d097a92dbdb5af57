//! Faults are found where they are, and what is written about the keys is made of them.

use super::*;

fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::parse(text, Path::new("agent.toml"), &Overrides::default())
}

fn fault(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

#[test]
fn a_fault_has_its_file_line_value_and_expectation() {
    for (text, expected) in [
        ("node = \"n1\"\n\n[spool]\nmax_sise = \"1GiB\"\n", "agent.toml:4: unknown key max_sise, expected max_size"),
        (
            "colour = 1",
            "agent.toml:1: unknown key colour, expected one of node, interval, state_dir, collector, spool, http, \
             prometheus, sensors, kubernetes, slurm, scrape, telemetry, owners",
        ),
        (
            "[collector]\nendpoint = \"collector:4317\"",
            "agent.toml:2: collector.endpoint is \"collector:4317\", expected an URL such as http://collector:4317",
        ),
        (
            "[http]\nlisten = \"localhost\"",
            "agent.toml:2: http.listen is \"localhost\", expected an IP address and a port, such as 127.0.0.1:9746",
        ),
        (
            "[spool]\nmax_size = \"8MiB\"\nsegment_size = \"4MiB\"",
            "agent.toml:3: spool.segment_size is \"4MiB\", expected at most a quarter of max_size",
        ),
        ("[spool]\nmax_size = \"1KiB\"", "agent.toml:2: spool.max_size is \"1KiB\", expected a size of at least 1MiB"),
        (
            "[collector]\ntimeout = \"1ms\"",
            "agent.toml:2: collector.timeout is \"1ms\", expected a duration of at least 100ms",
        ),
        ("[prometheus]\ndcgm = \"yes\"", "agent.toml:2: prometheus.dcgm is \"yes\", expected true or false"),
        (
            "[sensors]\nproc = [\"/proc\",\n  1.5]",
            "agent.toml:2: sensors.proc is [\"/proc\", 1.5], expected a directory",
        ),
        (
            "[node]\na = 1",
            "agent.toml:1: node is a table, expected a name of this node of at most 256 bytes without control characters",
        ),
        (
            "[sensors]\nmount_interval = \"500ms\"",
            "agent.toml:2: sensors.mount_interval is \"500ms\", expected a duration from 1s to 1h",
        ),
        ("[sensors]\nmax_mounts = 5000", "agent.toml:2: sensors.max_mounts is 5000, expected a number from 0 to 1024"),
        (
            "[sensors]\nexclude_mounts = [\"/data\", \"var/lib\"]",
            "agent.toml:2: sensors.exclude_mounts is [\"/data\", \"var/lib\"], expected a list of absolute paths",
        ),
        (
            "[kubernetes]\napi = \"10.96.0.1:443\"",
            "agent.toml:2: kubernetes.api is \"10.96.0.1:443\", expected an URL such as https://10.96.0.1:443",
        ),
        (
            "[kubernetes]\napi = \"https://k8s:6443/?a=b\"",
            "agent.toml:2: kubernetes.api is \"https://k8s:6443/?a=b\", expected an URL such as https://10.96.0.1:443",
        ),
        ("[kubernetes]\ntoken_file = true", "agent.toml:2: kubernetes.token_file is true, expected a file"),
        ("[kubernetes]\nca_file = \"\"", "agent.toml:2: kubernetes.ca_file is \"\", expected a file"),
        (
            "[kubernetes]\nresources = [\"example.com/gpu\", \"*\"]",
            "agent.toml:2: kubernetes.resources is [\"example.com/gpu\", \"*\"], expected a list of names of resources, \
             such as example.com/gpu or example.com/gpu-*",
        ),
        (
            "[kubernetes]\nresources = [\"*.com/gpu\"]",
            "agent.toml:2: kubernetes.resources is [\"*.com/gpu\"], expected a list of names of resources, \
             such as example.com/gpu or example.com/gpu-*",
        ),
        (
            "[kubernetes]\nkeep_for = \"2h\"",
            "agent.toml:2: kubernetes.keep_for is \"2h\", expected a duration from 1s to 1h",
        ),
        ("http = 3", "agent.toml:1: http is 3, expected a table: [http]"),
        (
            "x = 1\n[spol]\ndir = \"/\"",
            "agent.toml:1: unknown key x, expected one of node, interval, state_dir, collector, spool, http, prometheus, sensors, kubernetes, slurm, scrape, telemetry, owners",
        ),
        ("[spol]\ndir = \"/\"", "agent.toml:1: unknown key spol, expected spool"),
        ("[[owners.rules]]", "agent.toml:1: unknown key rules, expected rule"),
        ("owners = 1", "agent.toml:1: owners is 1, expected a table: [owners]"),
        (
            "[scrape]\ninterval = \"15s\"",
            "agent.toml:2: scrape.interval is \"15s\", expected a duration from 1s to 10s that divides 10s",
        ),
        (
            "[scrape]\ninterval = \"2s\"\ntimeout = \"3s\"",
            "agent.toml:3: scrape.timeout is \"3s\", expected at most scrape.interval",
        ),
        ("[scrape]\npods = \"all\"", "agent.toml:2: scrape.pods is \"all\", expected gpu, annotated or off"),
        (
            "[scrape]\nmax_size = \"1KiB\"",
            "agent.toml:2: scrape.max_size is \"1KiB\", expected a size from 64KiB to 64MiB",
        ),
        ("[scrape]\nmax_targets = 0", "agent.toml:2: scrape.max_targets is 0, expected a number from 1 to 1024"),
        ("[[scrape.targets]]\nurl = \"a:1\"", "agent.toml:1: unknown key targets, expected target"),
        (
            "[[scrape.target]]\nservice = \"chat\"",
            "agent.toml:1: a target has no url, expected host:port, or an URL such as http://127.0.0.1:8000/metrics",
        ),
        (
            "[[scrape.target]]\nurl = \"ftp://a\"",
            "agent.toml:2: url is \"ftp://a\", expected host:port, or an URL such as http://127.0.0.1:8000/metrics",
        ),
        (
            "[[scrape.target]]\nurl = \"a:1\"\n\n[[scrape.target]]\nurl = \"http://a:1/metrics\"",
            "agent.toml:4: url is \"http://a:1/metrics\", expected another one than that of target 1",
        ),
        ("[[scrape.target]]\nurl = \"a:1\"\nmodle = \"m\"", "agent.toml:3: unknown key modle, expected model"),
        (
            "[[scrape.target]]\nurl = \"a:1\"\npreset = \"vlm\"",
            "agent.toml:3: preset is \"vlm\", expected auto or one of vllm, sglang, tgi, tensorrt-llm, dynamo, triton, ray-serve, kserve",
        ),
        (
            "[[scrape.target]]\nurl = \"a:1\"\nowner = { team = \"x\" }",
            "agent.toml:3: unknown key team, expected one of department, project, experiment, user",
        ),
        (
            "[[scrape.target]]\nurl = \"a:1\"\nlabels = { \"a b\" = \"x\" }",
            "agent.toml:3: a name in labels is \"a b\", expected letters, digits, _ . - and /",
        ),
        (
            "[[scrape.target]]\nurl = \"a:1\"\n[[scrape.target.histogram]]\nname = \"h\"\nbound = 1",
            "agent.toml:5: unknown key bound, expected one of name, metric, unit, model, route, source, labels",
        ),
        (
            "[[scrape.target]]\nurl = \"a:1\"\n[[scrape.target.histogram]]\nname = \"h\"\nlabels = { le = \"1\" }",
            "agent.toml:3: a label of histogram family \"h\" is le, expected one that tells its series apart",
        ),
        (
            "[[scrape.target]]\nurl = \"a:1\"\n[[scrape.target.histogram]]\nname = \"h\"\nlabels = { \"a b\" = \"c\" }",
            "agent.toml:5: a name in labels is \"a b\", expected letters, digits, _ . - and /",
        ),
        (
            "[[owners.rule]]\nname = \"r\"\nmatch.pod = \"a\"\nset = { team = \"x\" }",
            "agent.toml:4: unknown key team, expected one of department, project, experiment, environment, service, model",
        ),
        (
            "\n[owners.default]\nproject = \"{\"",
            "agent.toml:3: project is \"{\", expected a name in braces such as {namespace}, and {{ or }} for a brace itself",
        ),
    ] {
        assert_eq!(fault(text), expected);
    }
    assert!(fault("node = \"a\"\nnode = \"b\"").starts_with("agent.toml:2: "));
    assert!(fault("node = ").starts_with("agent.toml:1: "));
}

#[test]
fn where_kubernetes_is_asked_can_be_said() {
    let text = "[kubernetes]\napi = \"https://rancher/k8s/c-1/\"\ntoken_file = \"/t\"\nca_file = \"/c\"\n\
                resources = [\"example.com/gpu\", \"example.com/gpu-*\"]\nkeep_for = \"90s\"";
    let said = parse(text).unwrap().kubernetes;
    assert_eq!(said.api.as_deref(), Some("https://rancher/k8s/c-1"));
    assert_eq!((said.token_file, said.ca_file), (Some(PathBuf::from("/t")), Some(PathBuf::from("/c"))));
    assert_eq!(said.resources, ["example.com/gpu", "example.com/gpu-*"]);
    assert_eq!(said.keep_for, Duration::from_secs(90));
    let default = parse("").unwrap().kubernetes;
    assert_eq!((default.api, default.token_file, default.ca_file), (None, None, None));
    assert!(default.resources.is_empty() && default.keep_for == Duration::from_secs(60));
}

#[test]
fn targets_are_shown_as_they_were_said() {
    let text = "[scrape]\ninterval = \"2s\"\n[[scrape.target]]\nurl = \"a:1\"\nlabels = { team = \"x\" }\n\
                owner = { user = \"ana\", project = \"p\" }\nheaders = { X-Scope = \"1\" }\ntoken_file = \"/t\"\npreset = \"tgi\"\n\
                [[scrape.target.histogram]]\nname = \"h_ms\"\nunit = \"ms\"\nsource = [\"engine\"]\nlabels = { handler = \"/generate\" }\n\
                [[scrape.target]]\nurl = \"https://b\"\nca_file = \"/c\"\n";
    let loaded = super::parse(text, Path::new("agent.toml"), &Flags::new()).unwrap();
    let scrape = &loaded.config.scrape;
    assert_eq!((scrape.timeout, scrape.targets.len()), (Duration::from_secs(2), 2));
    let first = &scrape.targets[0];
    assert_eq!((first.url.as_str(), first.owner.user.as_str()), ("http://a:1/metrics", "ana"));
    assert_eq!((first.histograms[0].unit.as_str(), first.histograms[0].source.len()), ("ms", 1));
    let shown = loaded.to_toml();
    assert_eq!(parse(&shown).unwrap(), loaded.config, "{shown}");
    let heads: Vec<&str> = shown.lines().filter(|line| line.starts_with("[[scrape.target]]")).collect();
    assert!(heads[0].ends_with("agent.toml:3") && heads[1].ends_with("agent.toml:15"), "{heads:?}");
}

/// D18: an interval without a unit is refused, and so is one that would sample without end.
#[test]
fn d18_an_interval_has_a_unit_and_a_floor() {
    let unit = "expected a whole number with a unit, such as 250ms, 1s, 5m or 2h";
    assert_eq!(fault("interval = \"3\""), format!("agent.toml:1: interval is \"3\", {unit}"));
    assert_eq!(fault("interval = 3"), format!("agent.toml:1: interval is 3, {unit}"));
    for wrong in ["99ms", "50ms", "0s", "7s", "2m"] {
        assert_eq!(
            fault(&format!("interval = \"{wrong}\"")),
            format!(
                "agent.toml:1: interval is \"{wrong}\", expected a duration from 100ms to 1m that divides a minute"
            )
        );
    }
    assert_eq!(parse("interval = \"3s\"").unwrap().interval, Duration::from_secs(3));
    assert_eq!(parse("interval = \"100ms\"").unwrap().interval, Duration::from_millis(100));
}

#[test]
fn the_command_line_wins_over_the_file_and_is_named_when_it_is_wrong() {
    let overrides = Overrides { node: Some("other".into()), ..Overrides::default() };
    let config = Config::parse("node = \"n1\"", Path::new("agent.toml"), &overrides).unwrap();
    assert_eq!(config.node, "other");
    let overrides = Overrides { listen: Some("9746".into()), ..Overrides::default() };
    let error = Config::load(None, &overrides).unwrap_err().to_string();
    assert_eq!(error, "--listen is \"9746\", expected an IP address and a port, such as 127.0.0.1:9746");
}

#[test]
fn a_file_is_a_file_of_text() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("agent.toml");
    let load = |path: &Path| Config::load(Some(path), &Overrides::default());
    std::fs::write(&path, "").unwrap();
    assert_eq!(load(&path).unwrap(), parse("").unwrap(), "an empty file is a whole configuration");
    std::fs::write(&path, b"node = \"n1\"\ninterval = \"\xff\"\n").unwrap();
    let said = load(&path).unwrap_err().to_string();
    assert_eq!(said, format!("{}:2: the byte 0xff is no UTF-8, expected a TOML file", path.display()));
    for unreadable in [dir.path(), &dir.path().join("none.toml")] {
        assert_eq!(load(unreadable).unwrap_err().to_string(), format!("cannot read {}", unreadable.display()));
    }
}

#[test]
fn what_is_shown_says_where_it_is_from_and_gives_the_same_configuration() {
    let text = "node = \"n1\"\n\n[sensors]\nnvml = \"/opt/libnvidia-ml.so.1\"\n\
                [[owners.rule]]\nname = \"a\"\nmatch = { \"k8s.label.a/b\" = ['\\*x', \"\\\"\"] }\n\
                set.project = \"{pod}{{\"\n\n[owners.default]\nservice = \"x\"\n";
    let flags = Flags::from([
        (raw::INTERVAL.about.path, Written::Text("500ms".into())),
        (raw::DCGM.about.path, Written::Flag(true)),
    ]);
    let loaded = super::parse(text, Path::new("agent.toml"), &flags).unwrap();
    assert!(loaded.config.dcgm);
    let shown = loaded.to_toml();
    let origin = |key: &str| {
        let line = shown.lines().find(|line| line.starts_with(&format!("{key} = "))).unwrap();
        let (value, origin) = line.rsplit_once(" # ").unwrap();
        (value.trim().to_owned(), origin.to_owned())
    };
    for (key, value, from) in [
        ("node", "\"n1\"", "agent.toml:1"),
        ("nvml", "\"/opt/libnvidia-ml.so.1\"", "agent.toml:4"),
        ("interval", "\"500ms\"", "--interval"),
        ("dcgm", "true", "--dcgm"),
        ("compression", "\"zstd\"", "default"),
        ("segment_size", "\"4MiB\"", "default"),
    ] {
        assert_eq!(origin(key), (format!("{key} = {value}"), from.to_owned()));
    }
    assert_eq!(parse(&shown).unwrap(), loaded.config);
    let rules = loaded.to_toml();
    let from =
        |head: &str| rules.lines().find(|line| line.starts_with(head)).map(|line| line.rsplit(' ').next().unwrap());
    assert_eq!((from("[[owners.rule]]"), from("[owners.default]")), (Some("agent.toml:5"), Some("agent.toml:10")));
    let names = |line: &str| line.split([' ', ':']).nth(1).map(str::to_owned);
    assert!(
        shown.lines().any(|line| line.starts_with("# otlp_endpoint: where OTEL_") && names(line).is_some()),
        "{shown}"
    );
}

#[test]
fn every_key_is_validated() {
    let loaded = super::parse("", Path::new("agent.toml"), &Flags::new()).unwrap();
    let taken: Vec<&str> = loaded.effective.iter().map(|one| one.about.path).collect();
    for key in raw::KEYS {
        assert_eq!(taken.iter().filter(|path| **path == key.path).count(), 1, "{}", key.path);
        assert!(key.text().ends_with('.') && !key.expects.ends_with('.') && !key.path.is_empty(), "{}", key.path);
    }
    assert_eq!(taken.len(), raw::KEYS.len());
}

/// `CONTADOR_WRITE_DOCS=1` writes them anew.
#[test]
fn the_example_and_the_reference_are_made_of_the_keys() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (example, page) = (root.join("agent.example.toml"), root.join("../docs/configuration.md"));
    let (start, end) = ("<!-- keys: written from agent/src/config/raw.rs -->\n\n", "\n<!-- /keys -->");
    let text = std::fs::read_to_string(&page).unwrap();
    let (before, rest) = text.split_once(start).expect("a mark before the table");
    let (_, after) = rest.split_once(end).expect("a mark after the table");
    let expected = format!("{before}{start}{}{end}{after}", show::reference());
    if std::env::var_os("CONTADOR_WRITE_DOCS").is_some() {
        std::fs::write(&example, show::example()).unwrap();
        std::fs::write(&page, &expected).unwrap();
        return;
    }
    let old = "is old: run this test with CONTADOR_WRITE_DOCS=1";
    assert_eq!(text, expected, "docs/configuration.md {old}");
    assert_eq!(std::fs::read_to_string(&example).unwrap(), show::example(), "agent.example.toml {old}");
}

#[test]
fn the_example_is_the_default() {
    let overrides = Overrides { node: Some("node".into()), ..Overrides::default() };
    let uncommented: String =
        show::example().lines().map(|line| line.strip_prefix("#! ").unwrap_or(line)).collect::<Vec<_>>().join("\n");
    let shown = Config::parse(&uncommented, Path::new("agent.example.toml"), &overrides).unwrap();
    let mut defaults = Config::parse("", Path::new("(defaults)"), &overrides).unwrap();
    defaults.state_dir.clone_from(&shown.state_dir);
    defaults.spool_dir.clone_from(&shown.spool_dir);
    defaults.roots.nvml.clone_from(&shown.roots.nvml);
    defaults.telemetry.clone_from(&shown.telemetry);
    let (known, found) = (&mut defaults.kubernetes, &shown.kubernetes);
    known.node.clone_from(&found.node);
    known.api.clone_from(&found.api);
    known.token_file.clone_from(&found.token_file);
    known.ca_file.clone_from(&found.ca_file);
    assert_eq!((shown.scrape.targets.len(), shown.scrape.timeout), (2, defaults.scrape.timeout));
    defaults.scrape.targets.clone_from(&shown.scrape.targets);
    defaults.scrape.ca_file.clone_from(&shown.scrape.ca_file);
    assert_eq!((shown.rules.rules.len(), shown.rules.default.len()), (2, 1));
    defaults.rules.clone_from(&shown.rules);
    assert_eq!(shown, defaults);
}
