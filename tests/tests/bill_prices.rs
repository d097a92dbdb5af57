//! Price books and commitments in the store, by the program against the real engine: what is in force, what was, and what a report
//! makes of them.
#![allow(clippy::unwrap_used, reason = "a test ends at what it does not expect")]

mod bill_store;

use bill_store::{Bill, failed};
use contador::bill::prices::{self, PriceBook};
use contador_schemas::rows::Price;
use serde_json::{Value, json};

fn book(hourly: &str) -> String {
    format!("currency = \"EUR\"\n[[rate]]\ngpu_model = \"H100\"\nhourly = \"{hourly}\"\nsource = \"a list\"\n")
}

/// The group of a report with this key.
fn cost<'r>(report: &'r Value, key: &str) -> &'r Value {
    let groups = report["groups"].as_array().unwrap();
    groups.iter().find(|group| group["key"] == key).map_or(&Value::Null, |group| &group["cost"])
}

#[tokio::test]
async fn every_book_is_kept_whole_and_the_one_loaded_last_is_in_force_whatever_the_clocks() -> anyhow::Result<()> {
    let bill = Bill::start().await?;
    // A book from the clock of a machine that is a day ahead.
    let ahead = prices::file::parse("ahead", &book("9"))?;
    let tomorrow = jiff::Timestamp::now().as_millisecond() + 86_400_000;
    let row = Price { id: ahead.id(), document: ahead.canonical(), currency: "EUR".into(), ..Price::default() };
    bill.insert(&[Price { loaded_at: tomorrow, loaded_by: "somebody@elsewhere".into(), ..row }]).await?;

    let example = bill.file("example.toml", include_str!("../../deploy/prices.example.toml"))?;
    let (one, two) = (bill.file("one.toml", &book("1"))?, bill.file("two.toml", &book("2"))?);
    for file in [&example, &one, &two, &one] {
        bill.done(&format!("prices load {file}"))?;
    }
    let listed: Vec<Value> = serde_json::from_str(&bill.done("prices list --json")?)?;
    assert_eq!(listed.len(), 4, "{listed:?}");
    let id = |hourly: &str| prices::file::parse("a", &book(hourly)).unwrap().id();
    let ids: Vec<&str> = listed.iter().map(|kept| kept["id"].as_str().unwrap()).collect();
    let of_example = prices::file::parse("a", include_str!("../../deploy/prices.example.toml"))?;
    assert_eq!(ids, [id("1"), id("2"), of_example.id(), id("9")]);
    assert!(listed[0]["loaded_by"].as_str().unwrap().contains('@'), "{listed:?}");
    assert_eq!(listed[3]["loaded_by"], "somebody@elsewhere");
    let text = bill.done("prices list")?;
    assert!(text.lines().next().unwrap().ends_with(", in force"), "{text}");
    assert_eq!(text.matches("in force").count(), 1, "{text}");

    let file = bill.allocations("a.csv", &["2026-10-01T00:00:00Z,2026-10-01T03:00:00Z,,,H100,1,1,,a,,,,,"])?;
    bill.done(&format!("import --format allocations {file}"))?;
    assert_eq!(bill.report("--month 2026-10")?["total"], "3.000000");

    // The whole book comes back, years later too, by its id or the beginning of it.
    let back: PriceBook = prices::table::by_id(&bill.store, &of_example.id()).await?.unwrap();
    assert_eq!(back, of_example);
    assert_eq!(prices::table::by_id(&bill.store, "0").await?, None);
    let shown: Value =
        serde_json::from_str(&bill.done(&format!("prices show --json --id {}", &of_example.id()[..12]))?)?;
    assert_eq!(shown["id"], of_example.id());
    let checked: Value = serde_json::from_str(&bill.done(&format!("prices check --json {example}"))?)?;
    assert_eq!(shown, checked);
    let tco = shown["rates"].as_array().unwrap().iter().find(|rate| !rate["derivation"].is_null()).unwrap();
    assert_eq!((&tco["hourly"], &tco["consumption"]), (&json!("2.866747"), &json!("exclusive")));
    let (code, said) = failed(&bill.contador("prices show --id zz")?);
    assert_eq!(code, Some(2));
    assert!(said.contains("--id \"zz\": expected an id that was loaded"), "{said}");
    let text = bill.done(&format!("prices show --id {}", of_example.id()))?;
    for part in ["allocated, by the minute, at", "140631.1296 / 49056 = 2.866747", "344.10", "energy is included"] {
        assert!(text.contains(part), "{part}: {text}");
    }

    // What was changed in the store is not used.
    let row = Price { id: "0".repeat(64), document: book("7"), currency: "EUR".into(), ..Price::default() };
    bill.insert(&[Price { loaded_at: tomorrow + 1_000, ..row }]).await?;
    let (code, said) = failed(&bill.contador("prices show")?);
    assert_eq!(code, Some(1));
    assert!(said.contains("in the store cannot be used: its hash is"), "{said}");
    Ok(())
}

#[tokio::test]
async fn commitments_in_the_store_or_in_a_file_are_what_a_report_applies() -> anyhow::Result<()> {
    let bill = Bill::start().await?;
    // An hour of two GPUs in one department, and of one in another.
    let held = "2026-10-01T00:00:00Z,2026-10-01T01:00:00Z,,,H100,2,1,,research,,,,,";
    let other = "2026-10-01T00:00:00Z,2026-10-01T01:00:00Z,,,H100,1,1,,search,,,,,";
    let file = bill.allocations("a.csv", &[held, other])?;
    bill.done(&format!("import --format allocations {file}"))?;
    bill.done(&format!("prices load {}", bill.file("p.toml", &book("2.50"))?))?;
    let agreed = |currency: &str, gpus: u32| {
        format!(
            "currency = \"{currency}\"\n[[commitment]]\nid = \"a\"\ndepartment = \"research\"\ngpu_model = \"H100\"\n\
             gpus = {gpus}\nhourly = \"1\"\nfrom = 2026-10-01\nto = 2026-10-02\n\
             [[budget]]\nfrom_month = \"2026-01\"\nmonthly = \"100\"\n"
        )
    };
    let plain = bill.report("--month 2026-10")?;
    assert_eq!((cost(&plain, "research"), cost(&plain, "search")), (&json!("5.000000"), &json!("2.500000")));

    let (one, two) = (bill.file("one.toml", &agreed("EUR", 1))?, bill.file("two.toml", &agreed("EUR", 2))?);
    // 24 h of one GPU at 1; of two GPU-hours one is covered.
    bill.done(&format!("commitments load {one}"))?;
    let report = bill.report("--month 2026-10")?;
    assert_eq!((cost(&report, "research"), cost(&report, "search")), (&json!("26.500000"), &json!("2.500000")));
    // 24 h of two GPUs at 1; all is covered.
    let report = bill.report(&format!("--month 2026-10 --commitments {two}"))?;
    assert_eq!((cost(&report, "research"), &report["total"]), (&json!("48.000000"), &json!("50.500000")));
    // A flat rate without a currency counts hours.
    assert_eq!(bill.report("--month 2026-10 --flat-rate 1")?["total"], "3.000000");

    let dollars = bill.file("usd.toml", &agreed("USD", 1))?;
    let (code, said) = failed(&bill.contador(&format!("report --month 2026-10 --commitments {dollars}"))?);
    assert_eq!(code, Some(2));
    assert!(said.contains("the commitments are in USD, and the price book is in EUR: expected one currency"), "{said}");
    bill.done(&format!("commitments load {dollars}"))?;
    let (code, said) = failed(&bill.contador("report --month 2026-10")?);
    assert!(code == Some(2) && said.contains("are in USD"), "{said}");

    bill.done(&format!("commitments load {one}"))?;
    let shown = bill.done("commitments show")?;
    assert!(shown.contains("2026-10-02") && shown.contains("(the whole fleet)"), "{shown}");
    let listed: Vec<Value> = serde_json::from_str(&bill.done("commitments list --json")?)?;
    assert_eq!(listed.iter().map(|kept| &kept["currency"]).collect::<Vec<_>>(), ["EUR", "USD"]);
    let shown: Value = serde_json::from_str(&bill.done("commitments show --json")?)?;
    let checked: Value = serde_json::from_str(&bill.done(&format!("commitments check --json {one}"))?)?;
    assert_eq!((&shown, &shown["id"]), (&checked, &listed[0]["id"]));
    // A file with a currency alone ends all of them.
    bill.done(&format!("commitments load {}", bill.file("none.toml", "currency = \"EUR\"\n")?))?;
    assert_eq!(bill.report("--month 2026-10")?["total"], "7.500000");
    let (code, said) =
        failed(&bill.contador(&format!("commitments check {}", bill.file("bad.toml", "currency = 1\nx = 2\n")?))?);
    assert_eq!(code, Some(2));
    assert!(
        said.contains("bad.toml:1: currency: 1, expected") && said.contains("bad.toml:2: x: unknown key"),
        "{said}"
    );
    Ok(())
}

#[tokio::test]
async fn a_report_is_in_the_time_zone_of_its_book() -> anyhow::Result<()> {
    let bill = Bill::start().await?;
    let file = bill.allocations("a.csv", &["2026-09-30T22:00:00Z,2026-10-01T00:00:00Z,,,H100,1,1,,a,,,,,"])?;
    bill.done(&format!("import --format allocations {file}"))?;
    let berlin = book("1").replace("\n[[rate]]", "\ntime_zone = \"Europe/Berlin\"\n[[rate]]");
    bill.done(&format!("prices load {}", bill.file("p.toml", &berlin)?))?;
    let report = bill.report("--month 2026-10")?;
    assert_eq!((&report["time_zone"], &report["total"]), (&json!("Europe/Berlin"), &json!("2.000000")));
    let report = bill.report("--month 2026-10 --time-zone UTC")?;
    assert_eq!((&report["time_zone"], &report["total"]), (&json!("UTC"), &json!("0.000000")));
    Ok(())
}
