//! Closed months with commitments, as pages and in the schema of reports: they stay as they were billed, and what is tried out with
//! other prices or commitments is no bill.

mod bill_store;
mod schema_support;

use std::path::Path;

use bill_store::Bill;
use serde_json::{Value, json};

fn book(bill: &Bill, hourly: &str) -> anyhow::Result<String> {
    let book = format!("currency = \"EUR\"\n[[rate]]\ngpu_model = \"H100\"\nhourly = \"{hourly}\"\n");
    bill.file(&format!("book-{hourly}.toml"), &book)
}

/// Imports this many hours of an H100 from a day of 2026 on.
fn hours(bill: &Bill, month_and_day: &str, hours: u32, department: &str) -> anyhow::Result<()> {
    let start: jiff::Timestamp = format!("2026-{month_and_day}T00:00:00Z").parse()?;
    let end = start + jiff::SignedDuration::from_hours(hours.into());
    let file = bill.allocations(
        &format!("{month_and_day}-{department}.csv"),
        &[&format!("{start},{end},n1,,H100,1,1,,{department},vision,,,,")],
    )?;
    bill.done(&format!("import --format allocations --dry-run {file}"))?;
    bill.done(&format!("import --format allocations {file}"))?;
    Ok(())
}

fn follows_the_schema(report: &Value) -> anyhow::Result<()> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../schemas/report.schema.json");
    let schema: Value = serde_json::from_str(&std::fs::read_to_string(path)?)?;
    assert_eq!(schema_support::faults(&schema, report), Vec::<String>::new());
    Ok(())
}

/// An H100 is reserved for research at 1 an hour, all of September: 720. It used 100 h of it, and search 10 h at 2.
const AGREED: &str = "currency = \"EUR\"\n[[commitment]]\nid = \"c\"\ndepartment = \"research\"\ngpu_model = \"H100\"\ngpus = 1\n\
                      hourly = \"1\"\nfrom = 2026-09-01\n[[budget]]\nfrom_month = \"2026-01\"\nmonthly = \"1000\"\n";

#[tokio::test]
async fn a_closed_month_keeps_its_commitments_and_last_month_is_as_it_was_closed() -> anyhow::Result<()> {
    let bill = Bill::start().await?;
    let two = book(&bill, "2")?;
    bill.done(&format!("prices load {two}"))?;
    let (agreed, none) = (bill.file("agreed.toml", AGREED)?, bill.file("none.toml", "currency = \"EUR\"\n")?);
    bill.done(&format!("commitments load {agreed}"))?;
    hours(&bill, "09-01", 100, "research")?;
    hours(&bill, "09-02", 10, "search")?;
    bill.done("adjust --month 2026-09 --department research --amount -40 --reason outage")?;
    bill.done("adjust --month 2026-09 --department search --accept")?;
    bill.done("close --month 2026-09")?;
    let formats = ["json", "csv", "table", "html", "html --lang es"]
        .map(|format| format!("report --month 2026-09 --by project --format {format}"));
    let closed: Vec<String> = formats.iter().map(|report| bill.done(report)).collect::<Result<_, _>>()?;
    let json: Value = serde_json::from_str(&closed[0])?;
    assert_eq!((&json["total"], &json["overview"]["budget"]), (&json!("700.000000"), &json!("1000.000000")));
    follows_the_schema(&json)?;
    let hash = json["status"]["hash"].as_str().expect("a hash");
    assert_eq!((&json["status"]["state"], &json["status"]["number"]), (&json!("closed"), &json!(1)));
    assert!(
        closed[3].contains("Closed</span> No. 1") && closed[3].contains(hash) && closed[3].contains("Total charged")
    );
    assert!(
        closed[4].contains("Cerrado</span> n.º 1") && closed[4].contains("abono: -40.000000 para research, outage")
    );
    // A department's page finds its lines among what was added.
    let page = bill.done("report --month 2026-09 --department research --format html")?;
    assert!(page.contains("680.00"), "{page}");

    // Later commitments and prices, and a late import: the same bytes, and a proof.
    bill.done(&format!("commitments load {none}"))?;
    bill.done(&format!("prices load {}", book(&bill, "3")?))?;
    hours(&bill, "09-20", 10, "search")?;
    hours(&bill, "08-20", 10, "search")?;
    for (report, before) in formats.iter().zip(&closed) {
        assert_eq!(&bill.done(report)?, before, "{report}");
    }
    assert_eq!(bill.done("close --verify")?.lines().last(), Some("1 invoices, one chain"));
    let october = bill.report("--month 2026-10 --detail")?;
    assert_eq!((&october["total"], &october["overview"]["last_month"]), (&json!("20.000000"), &json!("700.000000")));
    assert_eq!(october["corrections"][0]["origin_month"], "2026-09");
    follows_the_schema(&october)?;

    // Only what the store has taken since the close is looked at.
    let sql = "ALTER TABLE allocations UPDATE stored = fromUnixTimestamp64Milli(toInt64(1)) WHERE 1";
    bill.store.client.query(sql).with_setting("mutations_sync", "2").execute().await?;
    assert_eq!(bill.report("--month 2026-10")?["corrections"], json!([]));

    // What it would have cost is no bill: it has neither a status nor what was adjusted.
    let tried = bill.report(&format!("--month 2026-09 --commitments {none} --prices {two}"))?;
    assert_eq!(
        (&tried["total"], &tried["status"], &tried["adjustments"], &tried["claims"]),
        (&json!("240.000000"), &json!({ "state": "draft" }), &json!([]), &json!([]))
    );
    let tried = bill.report("--month 2026-10 --flat-rate 1")?;
    assert_eq!((&tried["total"], &tried["corrections"]), (&json!("0.000000"), &json!([])));
    let log: Value = serde_json::from_str(&bill.done("audit --json")?)?;
    let actions: Vec<&str> =
        log["entries"].as_array().expect("entries").iter().filter_map(|entry| entry["action"].as_str()).collect();
    let expected = ["prices load", "commitments load", "import", "import", "credit", "accept", "close"];
    assert_eq!(actions[..7], expected);
    assert_eq!(actions[7..], ["commitments load", "prices load", "import", "import"]);
    Ok(())
}
