//! What is accepted, what is refused, and in which words.

use super::*;

fn parse(text: &str) -> Result<Scenario, ScenarioError> {
    Scenario::parse(Path::new("s.toml"), text, Seed::default())
}

fn fault(text: &str) -> String {
    parse(text).expect_err("a fault").to_string()
}

#[test]
fn the_built_in_scenario_has_two_gpus_with_uuids_of_the_seed() {
    let one = Scenario::built_in(Seed::default()).expect("built in");
    let again = Scenario::built_in(Seed::default()).expect("built in");
    let other = Scenario::built_in(Seed { forced: Some("node-b"), otherwise: None }).expect("built in");
    assert_eq!(one, again);
    assert_eq!(one.gpus.len(), 2);
    assert_ne!(one.gpus[0].uuid, one.gpus[1].uuid);
    assert_ne!(one.gpus[0].uuid, other.gpus[0].uuid);
    assert_eq!(one.cuda_version, 12_080);
}

#[test]
fn a_seed_is_forced_or_the_scenarios_own_or_the_callers() {
    let uuid = |text: &str, forced, otherwise| {
        let seed = Seed { forced, otherwise };
        Scenario::parse(Path::new("s.toml"), text, seed).expect("a scenario").gpus[0].uuid.clone()
    };
    let (plain, own) = ("[[gpu]]\nmodel = \"l4\"", "seed = \"own\"\n[[gpu]]\nmodel = \"l4\"");
    assert_ne!(uuid(plain, None, Some("a")), uuid(plain, None, Some("b")));
    assert_eq!(uuid(own, None, Some("a")), uuid(own, None, Some("b")));
    assert_eq!(uuid(own, Some("f"), Some("a")), uuid(plain, Some("f"), None));
    assert_eq!(uuid(plain, None, Some("own")), uuid(own, None, None));
}

#[test]
fn the_example_file_is_a_scenario() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/example.toml");
    let scenario = Scenario::read(&path, Seed::default()).expect("the example");
    assert_eq!(scenario.gpus.len(), 6);
}

#[test]
fn faults_name_path_key_and_expectation() {
    let gpu = "[[gpu]]\nmodel = \"l4\"\n";
    assert_eq!(
        fault("[[gpu]]\nmodel = \"v100\""),
        "s.toml: gpu[0].model: \"v100\" is unknown: expected one of a100-80gb, b200-180gb, h100-80gb, h200-141gb, l4, rtx-4090"
    );
    assert_eq!(
        fault(&format!("{gpu}utilization = 120")),
        "s.toml: gpu[0].utilization: 120 percent: expected a number from 0 to 100"
    );
    assert_eq!(
        fault(&format!("{gpu}utilization = [{{ at = 30, value = 1 }}]")),
        "s.toml: gpu[0].utilization[0].at: 30: expected a duration with its unit, such as \"250ms\", \"30s\", \"5m\" or \"1h\""
    );
    assert_eq!(
        fault(&format!("{gpu}utilization = {{ wave = {{ min = 1, max = 2 }} }}")),
        "s.toml: gpu[0].utilization.wave.period: missing: expected { min, max, period }"
    );
    assert_eq!(
        fault(&format!("{gpu}utilization = [{{ at = \"2s\", value = 1 }}, {{ at = \"1s\", value = 1 }}]")),
        "s.toml: gpu[0].utilization: the point at 1000 ms is not after the one at 2000 ms: expected rising times"
    );
    assert_eq!(
        fault(&format!("{gpu}memory_mib = 23000")),
        "s.toml: gpu[0].memory_mib: 23000 MiB: expected a number from 0 to 22568, what the GPU has beside its reserved memory"
    );
    assert_eq!(
        fault(&format!("{gpu}[[gpu.process]]\nmemory_mib = 1")),
        "s.toml: gpu[0].process[0]: expected either pid or environ"
    );
    assert_eq!(
        fault(&format!("{gpu}[[gpu.process]]\nenviron = \"=train\"")),
        "s.toml: gpu[0].process[0].environ: \"=train\": expected KEY=value"
    );
    let process = "[[gpu.process]]\npid = 1\nmemory_mib = 20000\n";
    assert_eq!(
        fault(&format!("{gpu}{process}{process}")),
        "s.toml: gpu[0].process: 41943040000 bytes together: expected at most 23664263168, what the GPU has beside its reserved memory"
    );
    assert!(
        fault(&format!("{gpu}utilization = [{{ at = \"9e99h\", value = 1 }}]")).contains("expected a duration"),
        "a time line of ages is refused"
    );
    assert!(
        fault(&format!("{gpu}utilization = [{{ at = \"9999999999h\", value = 1 }}]")).contains("expected a duration")
    );
    assert!(
        fault(&format!("{gpu}unsupported = [\"power\"]"))
            .starts_with("s.toml: gpu[0].unsupported: \"power\" is not a call: expected one of serial, pci_info, "),
    );
    let uuid = "uuid = \"GPU-00000000-0000-0000-0000-000000000001\"\n";
    assert!(fault(&format!("{gpu}{uuid}{gpu}{uuid}")).contains("gpu[1].uuid: GPU-0"));
    assert!(fault(&format!("{gpu}utilisation = 1")).contains("unknown field `utilisation`"), "the key is named");
    assert!(fault(&format!("{gpu}utilisation = 1")).contains("line 3"), "and its line");
    assert!(
        Scenario::read(Path::new("/nonexistent/s.toml"), Seed::default())
            .expect_err("no file")
            .to_string()
            .contains("/nonexistent/s.toml: No such file or directory (os error 2): expected a readable scenario file")
    );
}

#[test]
fn a_gpu_is_split_by_names_or_by_what_its_instances_are() {
    let split = |text: &str| {
        let gpu = parse(&format!("[[gpu]]\nmodel = \"h100-80gb\"\n{text}")).expect("a scenario").gpus.remove(0);
        let mig = gpu.mig.expect("mode on");
        let slots = mig.places(0).iter().map(|slot| slot.as_ref().map(|slot| (slot.profile.name, slot.gpu_instance)));
        slots.collect::<Vec<_>>()
    };
    assert_eq!(split("mig = []"), []);
    let three = [Some(("3g.40gb", 1)), None, Some(("1g.10gb", 11))];
    assert_eq!(split("mig = [\"3g.40gb\", \"-\", \"1g.10gb\"]"), three);
    assert_eq!(split("[[gpu.instance]]\nprofile = \"7g.80gb\""), [Some(("7g.80gb", 0))]);
    assert_eq!(split("mig = [{ at = \"1s\", layout = [\"7g.80gb\"] }]"), [], "before the first there is none");
    assert!(parse("[[gpu]]\nmodel = \"h100-80gb\"").expect("a scenario").gpus[0].mig.is_none());
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    let fault = |text: &str| fault(&format!("[[gpu]]\nmodel = \"h100-80gb\"\n{text}"));
    assert_eq!(
        fault("mig = [\"3g.41gb\"]"),
        "s.toml: gpu[0].mig: \"3g.41gb\" is no profile of h100-80gb: expected one of 1g.10gb, 1g.20gb, 2g.20gb, 3g.40gb, 4g.40gb, 7g.80gb"
    );
    assert_eq!(
        fault("mig = [\"4g.40gb\", \"4g.40gb\"]"),
        "s.toml: gpu[0].mig: 4g.40gb, 4g.40gb don't fit together: expected 7 compute and 8 memory slices, and places that the board has"
    );
    assert!(fault("mig = \"7g.80gb\"").contains("gpu[0].mig: \"7g.80gb\": expected [\"1g.10gb\", …] or "));
    assert!(
        fault("mig = [{ at = \"2s\", layout = [] }, { at = \"2s\", layout = [] }]").contains("expected rising times")
    );
    assert!(fault("utilization = 3\nmig = []").contains("expected them in [[gpu.instance]]"));
    assert!(
        fault("mig = [\"7g.80gb\"]\n[[gpu.instance]]\nprofile = \"1g.10gb\"")
            .contains("gpu[0].instance[0].profile: no instance \"1g.10gb\" is left for it: expected one in mig")
    );
    assert!(
        fault("[[gpu.instance]]\nprofile = \"1g.10gb\"\nmemory_mib = 9984")
            .contains("gpu[0].instance[0].memory_mib: 9984 MiB: expected a number from 0 to 9915")
    );
    assert!(fault("[[gpu.process]]\npid = 1\ngraphics = true\nmps = true").contains("expected either graphics or mps"));
    let l4 = parse("[[gpu]]\nmodel = \"l4\"\nmig = []").expect_err("a fault").to_string();
    assert_eq!(l4, "s.toml: gpu[0].mig: l4 can't be split: expected no mig");
}

#[test]
fn a_board_has_only_what_its_model_has() {
    let (h100, rtx) = ("[[gpu]]\nmodel = \"h100-80gb\"\n", "[[gpu]]\nmodel = \"rtx-4090\"\n");
    for (text, expected) in [
        (format!("{h100}nvlink = {{ down = [17, 18] }}"), "nvlink: link 18: expected 0 to 17"),
        (format!("{h100}nvlink = {{ errors = [{{ link = 18 }}] }}"), "nvlink: link 18: expected 0 to 17"),
        (format!("{h100}nvlink = {{ counter_bits = 65 }}"), "nvlink.counter_bits: 65: expected 1 to 64"),
        (format!("{h100}pcie = {{ counter_bits = 0 }}"), "pcie.counter_bits: 0: expected 1 to 64"),
        (format!("{rtx}nvlink = {{}}"), "nvlink: rtx-4090 has none: expected no such key"),
        (format!("{rtx}ecc = {{ enabled = false }}"), "ecc: rtx-4090 has none: expected no such key"),
        (format!("{rtx}remapped_rows = {{}}"), "remapped_rows: rtx-4090 has none: expected no such key"),
        (
            format!("{rtx}throttle = [\"heat\"]"),
            "throttle: \"heat\" is not a reason: expected one of idle, application_clocks, sw_power_cap, hw_slowdown, \
             sync_boost, sw_thermal, hw_thermal, hw_power_brake, display_clocks",
        ),
    ] {
        assert_eq!(fault(&text), format!("s.toml: gpu[0].{expected}"));
    }
    assert!(fault(&format!("{h100}nvlink = {{ broken = [1] }}")).contains("unknown field `broken`"));
    let gpus =
        parse(&format!("driver_version = \"580.82\"\n{h100}nvlink = {{ down = [3] }}")).expect("a scenario").gpus;
    assert!(gpus[0].fields_moved && gpus[0].board.nvlink.down.contains(&3));
    assert!(!parse(h100).expect("a scenario").gpus[0].fields_moved);
}

#[test]
fn no_gpus_is_a_scenario_too() {
    assert_eq!(parse("").expect("empty").gpus, vec![]);
}
