//! `contador demo`, whole: every part as a process of its own, on this machine.

use std::process::Command;

use contador_tests::binary;
use serde_json::Value;

/// A minute closes at least once in so many seconds, so that there is something to conserve.
const SECONDS: &str = "66";

#[test]
fn the_demo_meters_this_machine_and_everything_that_it_stored_adds_up() {
    let output = Command::new(binary("contador").unwrap())
        .args(["demo", "--json", "--seconds", SECONDS])
        .env("CONTADOR_NVML_SIMULATOR", contador_nvml_simulator::library::find().unwrap())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", output.status);
    let text = String::from_utf8(output.stdout).unwrap();
    let summary: Value = serde_json::from_str(text.lines().last().unwrap_or_default()).unwrap();
    assert_eq!(summary["conserved"], true, "{summary} {said}");
    for count in ["gpu_samples", "storage_samples", "latency_rows", "ledger_rows"] {
        assert!(summary[count].as_u64().is_some_and(|rows| rows > 0), "{count}: {summary}");
    }
    // Four devices, once a second, less what starting and stopping took.
    if summary["simulated"] == true {
        assert!(summary["gpu_samples"].as_u64().is_some_and(|rows| rows >= 4 * 50), "{summary}");
    }
    assert!(summary["engine_version"].as_str().is_some_and(|version| version.starts_with("26.7")), "{summary}");
    assert!(summary["sample_visible_ms_max"].as_i64().is_some_and(|ms| ms >= 0), "{summary}");
    assert_eq!(summary["bill_currency"], "EUR", "{summary}");
    assert!(summary["bill_total"].as_str().is_some_and(|total| total.parse::<f64>().is_ok_and(|total| total > 0.0)));
    let keys: Vec<&str> = summary.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(
        keys,
        [
            "engine_version",
            "simulated",
            "gpu_samples",
            "storage_samples",
            "latency_rows",
            "ledger_rows",
            "sample_visible_ms_p50",
            "sample_visible_ms_max",
            "bill_total",
            "bill_currency",
            "conserved"
        ]
    );
}
