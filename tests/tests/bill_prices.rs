//! Price books in the store, by the program against the real engine: what is in force, and what was.
#![allow(clippy::unwrap_used, reason = "a test ends at what it does not expect")]

mod bill_store;

use bill_store::{Bill, failed};
use contador::bill::prices::{self, PriceBook};
use contador_schemas::rows::Price;
use serde_json::{Value, json};

fn book(hourly: &str) -> String {
    format!("currency = \"EUR\"\n[[rate]]\ngpu_model = \"H100\"\nhourly = \"{hourly}\"\nsource = \"a list\"\n")
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
