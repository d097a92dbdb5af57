//! The FOCUS export as strangers read it: the official validator, and ClickHouse.
#![allow(clippy::unwrap_used, reason = "a test ends at what it does not expect")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use contador::bill::{decimal, focus};
use contador_tests::curl::{ask, curl};
use contador_tests::{Engine, binary};

#[path = "../../collector/src/bill/focus/tests/sample.rs"]
mod sample;

/// A rule that the validator fails on rows that keep it, and why.
type Known = (&'static str, &'static str);

/// Whether the charge is on an invoice cannot be told from the row, so the validator asks for both at once.
const ON_AN_INVOICE: Known = ("InvoiceId-C-004-C", "wants no InvoiceId in any row");
const ON_NONE: Known = ("InvoiceId-C-005-C", "wants an InvoiceId in every row");

const KNOWN: [Known; 7] = [
    ("CapacityReservationStatus-C-003-C", "its condition is in a form that is not read: wants no status in any row"),
    ("CapacityReservationStatus-C-004-C", "its condition is in a form that is not read: wants a status in every row"),
    ("CapacityReservationStatus-C-002-C", "consists of the two"),
    ("CapacityReservationStatus-C-000-C", "contains it"),
    ("CommitmentDiscountStatus-C-004-C", "its condition is turned round: wants a status where there is no commitment"),
    ("CommitmentDiscountStatus-C-002-C", "contains it"),
    ("CommitmentDiscountStatus-C-000-C", "contains it"),
];

/// The rules of [`KNOWN`], and another.
fn known(another: Known) -> BTreeSet<String> {
    KNOWN.iter().chain([&another]).map(|(rule, _)| (*rule).to_owned()).collect()
}

/// What `clients/focus/setup.sh` installed.
fn validator() -> (PathBuf, PathBuf) {
    let program = binary("contador").unwrap();
    let venv = program.parent().and_then(Path::parent).unwrap().join("clients/focus-venv");
    let validator = venv.join("bin/focus-validator");
    assert!(validator.exists(), "{} is missing; run tests/clients/focus/setup.sh first", validator.display());
    let lib = std::fs::read_dir(venv.join("lib")).unwrap().next().unwrap().unwrap();
    (validator, lib.path().join("site-packages"))
}

/// The rules of FOCUS 1.2 that the validator says a file fails.
fn failed(file: &Path) -> BTreeSet<String> {
    let criteria = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/focus/criteria.txt");
    let criteria = std::fs::read_to_string(criteria).unwrap();
    let criteria: Vec<&str> = criteria.lines().filter(|line| !line.starts_with('#')).collect();
    let (validator, packages) = validator();
    let junit = file.with_extension("xml");
    // It reads its currencies from the folder it runs in, and its exit code is 0 whatever it finds.
    let output = Command::new(validator)
        .current_dir(packages)
        .args(["--validate-version", "1.2", "--block-download", "--output-type", "unittest"])
        .args(["--applicability-criteria", &criteria.join(",")])
        .arg("--data-file")
        .arg(file)
        .arg("--output-destination")
        .arg(&junit)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let junit = std::fs::read_to_string(junit).unwrap_or_else(|_| panic!("{}: {said}", output.status));
    assert!(junit.contains(r#"errors="0""#) && junit.matches("<testcase ").count() > 500, "{said}");
    junit.split("<failure name=\"").skip(1).map(|rest| rest.split('"').next().unwrap().to_owned()).collect()
}

fn csv_of(rows: &[focus::Row]) -> String {
    let mut writer = focus::csv::Writer::new(Vec::new()).unwrap();
    rows.iter().for_each(|row| writer.row(row).unwrap());
    String::from_utf8(writer.finish().unwrap()).unwrap()
}

fn parquet_of(rows: &[focus::Row]) -> Vec<u8> {
    let mut writer = focus::ParquetWriter::new(Vec::new()).unwrap();
    rows.iter().for_each(|row| writer.row(row).unwrap());
    writer.finish().unwrap()
}

/// What our own checks say.
fn faults(rows: &[focus::Row]) -> Vec<String> {
    let zone = contador::bill::period::zone(sample::ZONE).unwrap();
    focus::check::check(rows, &zone, sample::invoices()).iter().map(ToString::to_string).collect()
}

/// What the validator says of a text as CSV.
fn failed_csv(text: &str) -> BTreeSet<String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("focus.csv");
    std::fs::write(&file, text).unwrap();
    failed(&file)
}

/// What the validator says of rows as Parquet.
fn failed_parquet(rows: &[focus::Row]) -> BTreeSet<String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("focus.parquet");
    std::fs::write(&file, parquet_of(rows)).unwrap();
    failed(&file)
}

#[test]
fn the_validator_finds_its_known_faults_and_nothing_else() {
    let mut rows = sample::rows();
    assert_eq!(faults(&rows), Vec::<String>::new());
    assert_eq!(failed_csv(&csv_of(&rows)), known(ON_AN_INVOICE), "CSV");
    assert_eq!(failed_parquet(&rows), known(ON_AN_INVOICE), "Parquet");
    // A month that is still open.
    rows.iter_mut().for_each(|row| row.invoice_id = None);
    assert_eq!(failed_parquet(&rows), known(ON_NONE), "open");
}

#[test]
fn the_validator_sees_what_it_can_see() {
    let good = csv_of(&sample::rows());
    let more = |text: &str| failed_csv(text).difference(&known(ON_AN_INVOICE)).cloned().collect::<Vec<_>>();
    let currency = more(&good.replace("\"EUR\"", "\"EUX\""));
    assert!(currency.iter().any(|rule| rule.starts_with("BillingCurrency-C-")), "{currency:?}");
    let ids = more(&good.replace("contador:invoice/", ""));
    assert!(ids.contains(&"InvoiceId-C-001-M".to_owned()), "{ids:?}");
}

#[test]
fn b18_the_validator_passes_what_our_own_checks_refuse() {
    let mut rows = sample::rows();
    rows[0].list_cost.0 += 1_000_000;
    rows[1].charge_period_end.0 = rows[1].charge_period_start.0 - 1_000;
    let text = csv_of(&rows).replacen("\"Adjustment\"", "\"Compute\"", 1);
    assert_eq!(failed_csv(&text), known(ON_AN_INVOICE));
    assert_eq!(focus::csv::read(text.as_bytes()).unwrap_err().len(), 1);
    let said = faults(&rows);
    assert!(said[0].starts_with("row 1: ListCost: \"302.500000\"") && said[1].starts_with("row 2: ChargePeriodEnd:"));
    assert_eq!(said.len(), 2, "{said:?}");
}

#[test]
fn clickhouse_reads_parquet_as_it_was_written() -> anyhow::Result<()> {
    let engine = Engine::start()?;
    ask(
        &engine,
        "CREATE TABLE charges (BilledCost Decimal(38, 6), ListUnitPrice Nullable(Decimal(38, 12)),
         ChargePeriodStart DateTime64(3, 'UTC'), InvoiceId Nullable(String), x_Simulated Bool, Tags Nullable(String))
         ENGINE = Memory",
    )?;
    let target = "/?query=INSERT%20INTO%20charges%20FORMAT%20Parquet";
    let answer = curl(&engine, target, &[], Some(&parquet_of(&sample::rows())))?;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let sums = ask(&engine, "SELECT InvoiceId, sum(BilledCost), count() FROM charges GROUP BY 1 ORDER BY 1")?;
    assert_eq!(sums, "contador:invoice/202610\t3579.57281\t9\ncontador:invoice/202611\t14.7646\t5");
    let sql = "SELECT countIf(ListUnitPrice IS NULL), sum(ListUnitPrice), min(ChargePeriodStart), min(x_Simulated), \
                any(JSONExtractString(Tags, 'team')) FROM charges";
    let more = ask(&engine, sql)?;
    assert_eq!(more, "5\t18.14\t2026-09-09 22:00:00.000\ttrue\tvision \"a\", b");
    Ok(())
}
