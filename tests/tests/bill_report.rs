//! `contador report` against the real engine: what it counts, how it prices, and that it adds up.

mod bill_store;

use bill_store::{Bill, failed};
use contador_schemas::owner::{Owner, OwnerKind};
use contador_schemas::rows::{Device, LedgerRow, OwnerRow};
use serde_json::{Value, json};

const MINUTE: u32 = 1_790_812_800; // 2026-10-01T00:00:00Z

fn keys_and_costs(report: &Value) -> Vec<(String, String)> {
    let groups = report["groups"].as_array().expect("groups");
    let text = |value: &Value| value.as_str().expect("a string").to_owned();
    groups.iter().map(|group| (text(&group["key"]), text(&group["cost"]))).collect()
}

fn pair(key: &str, cost: &str) -> (String, String) {
    (key.to_owned(), cost.to_owned())
}

#[tokio::test]
async fn imported_allocations_count_with_their_part_of_the_period() -> anyhow::Result<()> {
    let bill = Bill::start().await?;
    let file = bill.allocations(
        "a.csv",
        &[
            // B5: four quarters of one GPU for an hour are one GPU-hour.
            "2026-10-01T00:00:00Z,2026-10-01T01:00:00Z,n1,GPU-1,H100,1,0.25,,a,,,,,1",
            "2026-10-01T00:00:00Z,2026-10-01T01:00:00Z,n1,GPU-1,H100,1,0.25,,a,,,,,2",
            "2026-10-01T00:00:00Z,2026-10-01T01:00:00Z,n1,GPU-1,H100,1,0.25,,a,,,,,3",
            "2026-10-01T00:00:00Z,2026-10-01T01:00:00Z,n1,GPU-1,H100,1,0.25,,a,,,,,4",
            // Half of it in September, with a third of each GPU that is none of a binary fraction.
            "2026-09-30T23:00:00Z,2026-10-01T01:00:00Z,n1,,H100,3,0.333333333333,,b,,,,,5",
            // Touching the period from outside is not being in it.
            "2026-09-30T00:00:00Z,2026-10-01T00:00:00Z,n1,,H100,8,1,,c,,,,,6",
            "2026-11-01T00:00:00Z,2026-11-02T00:00:00Z,n1,,H100,8,1,,c,,,,,7",
        ],
    )?;
    bill.done(&format!("import --format allocations {file}"))?;
    let report = bill.report("--month 2026-10 --flat-rate 1.00")?;
    assert_eq!(keys_and_costs(&report), [pair("a", "1.000000"), pair("b", "1.000000")]);
    assert_eq!(report["facts"]["allocations"], 5);
    assert_eq!(report["difference"], "0.000000");

    // B10: a window of 76 seconds that an allocation ends in, and one that none is in.
    let report = bill.report("--from 2026-10-01T00:59:00Z --to 2026-10-01T01:00:16Z --flat-rate 60")?;
    assert_eq!(keys_and_costs(&report), [pair("a", "1.000000"), pair("b", "1.000000")]);
    let report = bill.report("--from 2026-10-01T01:00:00Z --to 2026-10-01T01:01:16Z --flat-rate 60")?;
    assert_eq!((&report["total"], &report["groups"]), (&json!("0.000000"), &json!([])));

    // B19: October of Berlin starts two hours earlier.
    let report = bill.report("--month 2026-10 --time-zone Europe/Berlin --flat-rate 1.00")?;
    assert_eq!(
        (&report["from"], &report["to"]),
        (&json!("2026-10-01T00:00:00+02:00"), &json!("2026-11-01T00:00:00+01:00"))
    );
    assert_eq!(keys_and_costs(&report), [pair("c", "16.000000"), pair("b", "2.000000"), pair("a", "1.000000")]);
    Ok(())
}

fn row(minute: u32, device: &str, owner: &Owner, share_ms: u32) -> LedgerRow {
    LedgerRow {
        minute: MINUTE + minute * 60,
        device: device.to_owned(),
        owner: owner.id(),
        kind: owner.kind.as_str().to_owned(),
        node: "n1".to_owned(),
        held_ms: share_ms,
        share_ms,
        ..LedgerRow::default()
    }
}

#[tokio::test]
async fn the_ledger_is_counted_once_with_every_kind_of_owner() -> anyhow::Result<()> {
    let bill = Bill::start().await?;
    let research = Owner { department: "research".into(), project: "vision".into(), ..Owner::default() };
    let [idle, unmetered] = [OwnerKind::Idle, OwnerKind::Unmetered].map(Owner::of_kind);
    let device = |id: &str, model: &str, mig_profile: &str| Device {
        id: id.to_owned(),
        model: model.to_owned(),
        mig_profile: mig_profile.to_owned(),
        ..Device::default()
    };
    let devices = [device("GPU-1", "H100", ""), device("GPU-2", "L4", ""), device("MIG-1", "A100", "MIG 1g.10gb")];
    bill.insert(&devices).await?;
    bill.insert(&[OwnerRow::from(&research)]).await?;
    let mut rows = Vec::new();
    for minute in 0..60 {
        // B12: nothing says that this workload ended.
        rows.push(row(minute, "GPU-1", &research, 45_000));
        rows.push(row(minute, "GPU-1", &idle, 15_000));
        rows.push(row(minute, "GPU-2", &unmetered, 60_000));
    }
    // Twice, as a retry does.
    bill.insert(&rows).await?;
    bill.insert(&rows).await?;
    let prices = bill.file(
        "prices.toml",
        "currency = \"EUR\"\n[[rate]]\ngpu_model = \"H100\"\nhourly = \"4\"\n\
         [[rate]]\ngpu_model = \"H100\"\nhourly = \"8\"\nvalid_from = 2026-10-01T00:30:00Z\n\
         [[rate]]\ngpu_model = \"*\"\nhourly = \"1\"\n",
    )?;
    let october = format!("--month 2026-10 --prices {prices}");
    let report = bill.report(&october)?;
    // Half an hour at 4 and half an hour at 8; a quarter of it idle; the gap costs what the device costs.
    let expected = [pair("research", "4.500000"), pair("(idle)", "1.500000"), pair("(unmetered)", "1.000000")];
    assert_eq!(keys_and_costs(&report), expected);
    assert_eq!((&report["total"], &report["gpu_hours"]), (&json!("7.000000"), &json!("2.000000")));
    assert_eq!(report["allocated"]["cost"], "4.500000");
    assert_eq!(report["facts"]["ledger_rows"], 180);
    let filtered = bill.report(&format!("{october} --by project --department research"))?;
    assert_eq!(keys_and_costs(&filtered), [pair("vision", "4.500000")]);
    assert_eq!((&filtered["total"], &filtered["fleet"]["cost"]), (&json!("4.500000"), &json!("7.000000")));

    // What was imported of a metered device is counted beside it, and said.
    assert_eq!(report["notes"], json!([]));
    let file =
        bill.allocations("a.csv", &["2026-10-01T00:00:00Z,2026-10-01T01:00:00Z,n1,GPU-2,L4,1,1,,search,,,,,"])?;
    bill.done(&format!("import --format allocations {file}"))?;
    let both = bill.report(&october)?;
    assert_eq!(both["total"], "8.000000");
    assert_eq!(both["notes"], json!(["1 imported allocations are of devices that were metered too: both are counted"]));

    // A slice of a GPU is not priced as a whole one, not even by the rate for any model.
    bill.insert(&[row(0, "MIG-1", &research, 60_000)]).await?;
    let (code, said) = failed(&bill.contador(&format!("report {october}"))?);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("unpriced, and so not in the total: A100 MIG 1g.10gb (0.016667 h)"), "{said}");
    let report = bill.report(&format!("{october} --allow-unpriced"))?;
    assert_eq!(report["total"], "8.000000");
    assert_eq!(report["unpriced"], json!([{ "gpu_model": "A100 MIG 1g.10gb", "gpu_hours": "0.016667" }]));
    Ok(())
}

#[tokio::test]
async fn the_book_in_the_store_is_in_force_as_a_whole() -> anyhow::Result<()> {
    let bill = Bill::start().await?;
    let file = bill.allocations("a.csv", &["2026-10-01T00:00:00Z,2026-10-01T02:00:00Z,,,H100,1,1,,a,,,,,"])?;
    bill.done(&format!("import --format allocations {file}"))?;
    let (code, said) = failed(&bill.contador("report --month 2026-10")?);
    assert_eq!(code, Some(2));
    assert!(said.contains("no prices: load a price book with contador prices load FILE"), "{said}");

    let first = "currency = \"EUR\"\n[[rate]]\ngpu_model = \"H100\"\nhourly = \"2.50\"\n\
                 [[rate]]\ngpu_model = \"*\"\nhourly = \"1\"\n";
    let second = "currency = \"EUR\"\n[[rate]]\ngpu_model = \"H200\"\nhourly = \"3\"\n";
    let (one, two) = (bill.file("one.toml", first)?, bill.file("two.toml", second)?);
    bill.done(&format!("prices check {one}"))?;
    bill.done(&format!("prices load {one}"))?;
    let report = bill.report("--month 2026-10")?;
    assert_eq!((&report["total"], &report["currency"]), (&json!("5.000000"), &json!("EUR")));
    assert!(bill.done("prices show")?.contains(report["prices"]["id"].as_str().expect("an id")));
    // The second book replaces the first, and knows no H100.
    bill.done(&format!("prices load {two}"))?;
    let report = bill.report("--month 2026-10 --allow-unpriced")?;
    assert_eq!(report["unpriced"], json!([{ "gpu_model": "H100", "gpu_hours": "2.000000" }]));
    bill.done(&format!("prices load {one}"))?;
    assert_eq!(bill.report("--month 2026-10")?["total"], "5.000000");
    // A flat rate on the command line is meant.
    assert_eq!(bill.report("--month 2026-10 --flat-rate 7")?["total"], "14.000000");
    Ok(())
}

#[tokio::test]
async fn formats_and_arguments() -> anyhow::Result<()> {
    let bill = Bill::start().await?;
    let file = bill.allocations("a.csv", &["0,3600,,,,1,1,,\"a,b\",,,,,", "0,3600,,,,1,1,,c,,,,,"])?;
    bill.done(&format!("import --format allocations --simulated {file}"))?;
    let january = "report --month 1970-01 --flat-rate 1.00";
    let csv = bill.done(&format!("{january} --format csv"))?;
    let expected = "key,kind,gpu_hours,unpriced_gpu_hours,cost,currency,simulated\n\
                    \"a,b\",workload,1.000000,0.000000,1.000000,XXX,true\n\
                    c,workload,1.000000,0.000000,1.000000,XXX,true\n";
    assert_eq!(csv, expected);
    let table = bill.done(january)?;
    assert!(table.contains("note: contains simulated data"), "{table}");
    assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
    let out = bill.file("out.csv", "")?;
    assert_eq!(bill.done(&format!("{january} --format csv --out {out}"))?, "");
    assert_eq!(std::fs::read_to_string(out)?, expected);
    for (arguments, text) in [
        ("report --flat-rate 1", "--month"),
        ("report --month 2026-10 --from 2026-10-01 --to 2026-10-02", "cannot be used with"),
        ("report --from 2026-10-01", "--to"),
        ("report --month 2026-13 --flat-rate 1", "month \"2026-13\": expected"),
        ("report --month 2026-10 --flat-rate 1e3", "--flat-rate \"1e3\": expected a decimal"),
        ("report --month 2026-10 --flat-rate -1", "-1"),
        ("report --month 2026-10 --flat-rate 1 --currency euro", "--currency: \"euro\", expected three capitals"),
        ("report --month 2026-10 --flat-rate 1 --time-zone Berlin", "time zone \"Berlin\": expected"),
        ("report --month 2026-10 --flat-rate 1 --format pdf", "html"),
        ("report --month 2026-10 --prices missing.toml", "missing.toml: cannot be read"),
    ] {
        let (code, said) = failed(&bill.contador(arguments)?);
        assert_eq!(code, Some(2), "{arguments}: {said}");
        assert!(said.contains(text), "{arguments}: {said}");
    }
    Ok(())
}

#[tokio::test]
async fn the_sample_fleet_is_imported_priced_and_labelled() -> anyhow::Result<()> {
    use contador::bill::{import, period::Period, prices, report, sample, statement};
    let bill = Bill::start().await?;
    let text = sample::sample_fleet("2026-10-05".parse()?, 7);
    import::allocations(&bill.store, "sample", text.as_bytes(), true).await?;
    let book = prices::file::parse("sample", sample::sample_prices())?;
    let period = Period::month("2026-10", &contador::bill::period::zone("UTC")?)?;
    let statement = statement::build(&bill.store, &period, Some(book)).await?;
    let report = report::Report::new(statement, report::Dimension::Department, None);
    let made = &report.statement.made;
    assert!(report.statement.unpriced.is_empty() && made.simulated && made.unknown_owners == 0);
    assert_eq!(report.groups.len(), 4);
    assert!(report.difference().is_zero() && !report.total.cost.is_zero());
    // The fleet has 24 GPUs and October 744 hours.
    let hours: f64 = report.total.gpu_hours.to_string().parse()?;
    assert!((8_000.0..17_856.0).contains(&hours), "{hours}");
    Ok(())
}
