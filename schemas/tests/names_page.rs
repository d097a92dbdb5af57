//! `docs/names.md` says what `schemas::names` says. `CONTADOR_WRITE_DOCS=1 cargo test -p contador-schemas` writes it anew.
#![allow(clippy::unwrap_used, reason = "a test ends at what it does not expect")]

use std::fmt::Write;
use std::path::Path;

use contador_schemas::names::{ATTRIBUTES, Group, Instrument, metrics};

fn page() -> String {
    let mut page = String::from(
        "# Names on the wire\n\nWritten from `schemas/src/names/`, which also says how facts travel as OTLP metrics; a test \
         compares the two.\n\n## Metrics\n\n| metric | unit | shape | row of | meaning |\n|---|---|---|---|---|\n",
    );
    for metric in metrics() {
        let shape = match metric.instrument {
            Instrument::Gauge => "gauge",
            Instrument::Counter => "counter",
            Instrument::UpDownCounter => "up-down counter",
            Instrument::Delta => "sum over its interval",
            Instrument::Histogram => "histogram",
        };
        let table = match metric.group {
            Group::Gpu => "`gpu_samples`",
            Group::Storage => "`storage_samples`",
            Group::Node => "`node_samples`",
            Group::Ledger => "`ledger`",
            Group::Info => "`devices`, `owners`, `events`",
            Group::Latency => "`latency`",
            Group::Served => "`served`",
            Group::Series => "`metrics`",
        };
        writeln!(page, "| `{}` | {} | {shape} | {table} | {} |", metric.name, metric.unit, metric.meaning).unwrap();
    }
    page.push_str("\n## Attributes\n\n| attribute | meaning |\n|---|---|\n");
    for attribute in ATTRIBUTES {
        writeln!(page, "| `{}` | {} |", attribute.name, attribute.meaning).unwrap();
    }
    page
}

#[test]
fn the_page_says_what_the_code_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/names.md");
    if std::env::var_os("CONTADOR_WRITE_DOCS").is_some() {
        std::fs::write(&path, page()).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(written, page(), "docs/names.md is old: run this test with CONTADOR_WRITE_DOCS=1");
}
