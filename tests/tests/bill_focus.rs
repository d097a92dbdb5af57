//! The FOCUS export as strangers read it: the official validator, and ClickHouse.
#![allow(clippy::unwrap_used, reason = "a test ends at what it does not expect")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use bill_store::{Bill, failed as failed_run};
use contador::bill::focus::lines::{Export, Unpriced};
use contador::bill::{decimal, focus, sample as fleet};
use contador_tests::curl::{ask, curl};
use contador_tests::{Engine, binary};

mod bill_store;
mod focus_support;
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
fn the_validator_passes_a_bill_with_every_category() {
    let statement = focus_support::statement();
    let categories: BTreeSet<&str> = statement.lines.iter().map(|line| line.key.category.as_str()).collect();
    assert_eq!(categories.len(), 12, "{categories:?}");
    let folder = tempfile::tempdir().unwrap();
    let (csv, parquet) = (folder.path().join("bill.csv"), folder.path().join("bill.parquet"));
    let open = Export::new(&statement, |_| true, Unpriced::Refused).unwrap();
    open.write_csv(std::fs::File::create(&csv).unwrap()).unwrap();
    open.write_parquet(std::fs::File::create(&parquet).unwrap()).unwrap();
    assert_eq!([failed(&csv), failed(&parquet)], [known(ON_NONE), known(ON_NONE)], "open");
    let closed = open.on_invoice("202610");
    closed.write_csv(std::fs::File::create(&csv).unwrap()).unwrap();
    assert_eq!(failed(&csv), known(ON_AN_INVOICE), "closed");
}

/// The sample fleet of October 2026 in a store.
async fn sample_fleet() -> anyhow::Result<(Bill, String)> {
    let bill = Bill::start().await?;
    let allocations = bill.file("fleet.csv", &fleet::sample_fleet("2026-10-05".parse()?, 7))?;
    let prices = bill.file("prices.toml", fleet::sample_prices())?;
    bill.done(&format!("import --format allocations --simulated {allocations}"))?;
    Ok((bill, format!("report --month 2026-10 --time-zone Europe/Berlin --prices {prices}")))
}

#[tokio::test]
async fn the_validator_passes_the_sample_fleet() -> anyhow::Result<()> {
    let (bill, report) = sample_fleet().await?;
    // Nothing is reserved in it, so no row has a status, as the rule wants.
    let mut expected = known(ON_NONE);
    assert!(expected.remove("CapacityReservationStatus-C-003-C"));
    for (format, name) in [("focus", "fleet.focus.csv"), ("focus-parquet", "fleet.parquet")] {
        let file = bill.file(name, "")?;
        bill.done(&format!("{report} --format {format} --out {file}"))?;
        assert_eq!(failed(Path::new(&file)), expected, "{name}");
    }
    Ok(())
}

#[tokio::test]
async fn exports_of_the_sample_fleet_sum_to_its_bill() -> anyhow::Result<()> {
    let (bill, report) = sample_fleet().await?;
    let json: serde_json::Value = serde_json::from_str(&bill.done(&format!("{report} --format json"))?)?;
    let total = json["total"].as_str().unwrap();
    let text = bill.done(&format!("{report} --format focus"))?;
    let rows = focus::csv::read(text.as_bytes()).unwrap();
    let billed: decimal::Millionths = rows.iter().map(|row| &row.billed_cost).sum();
    assert_eq!((billed.to_string().as_str(), rows.iter().all(|row| row.simulated)), (total, true));
    // A department's part of it.
    let part = bill.done(&format!("{report} --format focus --department search"))?;
    let part = focus::csv::read(part.as_bytes()).unwrap();
    let of_search: Vec<_> = rows.into_iter().filter(|row| row.department.as_deref() == Some("search")).collect();
    assert!(!part.is_empty() && part == of_search);

    // The lines themselves.
    let file = bill.file("lines.parquet", "")?;
    bill.done(&format!("{report} --format parquet --out {file}"))?;
    let engine = bill.engine();
    ask(
        engine,
        "CREATE TABLE lines (cost Decimal(38, 6), gpu_hours Decimal(38, 6), unit_price Nullable(Decimal(38, 12)),
         department Nullable(String), day Nullable(Date), period_start DateTime64(3, 'Europe/Berlin'), simulated Bool)
         ENGINE = Memory",
    )?;
    let answer = curl(engine, "/?query=INSERT%20INTO%20lines%20FORMAT%20Parquet", &[], Some(&std::fs::read(&file)?))?;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let sql = "SELECT toString(sum(cost)), toString(sum(gpu_hours)), min(day), max(day), any(period_start) FROM lines";
    let said = ask(engine, sql)?;
    let sums: Vec<&str> = said.split('\t').collect();
    let plain = |text: &str| text.trim_end_matches('0').trim_end_matches('.').to_owned();
    assert_eq!(sums[..2], [plain(total), plain(json["gpu_hours"].as_str().unwrap())]);
    assert_eq!(sums[2..], ["2026-10-01", "2026-10-31", "2026-10-01 00:00:00.000"]);
    let sql = "SELECT toString(sum(cost)) FROM lines WHERE department = 'search'";
    let groups = json["groups"].as_array().unwrap();
    let search = groups.iter().find(|group| group["key"] == "search").unwrap();
    assert_eq!(ask(engine, sql)?, plain(search["cost"].as_str().unwrap()));
    Ok(())
}

#[tokio::test]
async fn b4_no_export_passes_off_as_free_what_has_no_price() -> anyhow::Result<()> {
    let (bill, _) = sample_fleet().await?;
    let prices = bill.file("h100.toml", "currency = \"EUR\"\n[[rate]]\ngpu_model = \"NVIDIA L4\"\nhourly = \"1\"\n")?;
    let file = bill.file("kept.csv", "what was there")?;
    let report = format!("report --month 2026-10 --prices {prices} --format focus --out {file}");
    let (code, said) = failed_run(&bill.contador(&report)?);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("unpriced, and so in no row: NVIDIA A100-SXM4-80GB ("), "{said}");
    assert_eq!(std::fs::read_to_string(&file)?, "what was there");
    bill.done(&format!("{report} --allow-unpriced"))?;
    let rows = focus::csv::read(std::fs::read(&file)?.as_slice()).unwrap();
    let is_marked = |row: &focus::Row| row.tags.as_ref().is_some_and(|tags| tags.0.contains_key("contador:unpriced"));
    let (marked, priced): (Vec<_>, Vec<_>) = rows.iter().partition(|row| is_marked(row));
    assert!(!marked.is_empty() && marked.iter().all(|row| row.gpu_model.as_deref() != Some("NVIDIA L4")));
    assert!(!priced.is_empty() && priced.iter().all(|row| !row.billed_cost.is_zero()));
    Ok(())
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
