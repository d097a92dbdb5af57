//! `contador close`, `adjust` and `audit` against the real engine: closed months stay as they were billed, what comes late is corrected
//! once, and whatever is changed in the store is found.

mod bill_store;

use bill_store::{Bill, failed};
use contador::bill::close::closing::{self, Wanted};
use contador::bill::close::{CloseError, replay, table};
use contador_schemas::owner::Owner;
use contador_schemas::rows::{Device, InvoiceLine, LedgerRow, OwnerRow, Table};
use serde_json::{Value, json};

/// 2026-09-01T00:00:00Z, in minutes.
const SEPTEMBER: u32 = 29_803_680;

fn load(bill: &Bill, name: &str, hourly: &str) -> anyhow::Result<String> {
    let book = format!("currency = \"EUR\"\n[[rate]]\ngpu_model = \"H100\"\nhourly = \"{hourly}\"\n");
    let file = bill.file(name, &book)?;
    bill.done(&format!("prices load {file}"))?;
    Ok(file)
}

/// Imports this many hours of an H100 from a day of 2026 on.
fn hours(bill: &Bill, month_and_day: &str, hours: u32, department: &str) -> anyhow::Result<()> {
    let start: jiff::Timestamp = format!("2026-{month_and_day}T00:00:00Z").parse()?;
    let end = start + jiff::SignedDuration::from_hours(hours.into());
    let line = format!("{start},{end},n1,,H100,1,1,,{department},vision,,,,");
    let file = bill.allocations(&format!("{month_and_day}-{department}-{hours}.csv"), &[&line])?;
    bill.done(&format!("import --format allocations {file}"))?;
    Ok(())
}

fn wanted(month: &str) -> Wanted {
    Wanted { month: month.to_owned(), ..Wanted::default() }
}

fn costs(report: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().expect("a string").to_owned();
    report["groups"]
        .as_array()
        .expect("groups")
        .iter()
        .map(|group| (text(&group["key"]), text(&group["cost"])))
        .collect()
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(key, cost)| ((*key).to_owned(), (*cost).to_owned())).collect()
}

/// What `contador` refuses: its exit code and its words.
fn refused(bill: &Bill, arguments: &str) -> anyhow::Result<(Option<i32>, String)> {
    Ok(failed(&bill.contador(arguments)?))
}

async fn execute(bill: &Bill, sql: &str) -> anyhow::Result<()> {
    Ok(bill.store.client.query(sql).with_setting("mutations_sync", "2").execute().await?)
}

#[tokio::test]
async fn b14_a_closed_month_is_not_priced_again() -> anyhow::Result<()> {
    let bill = Bill::start().await?;
    load(&bill, "one.toml", "24.7281")?;
    hours(&bill, "09-01", 100, "research")?;
    let draft = bill.report("--month 2026-09")?;
    assert_eq!(
        (&draft["status"]["state"], &draft["invoice"], &draft["total"]),
        (&json!("draft"), &Value::Null, &json!("2472.810000"))
    );
    let tried = bill.done("close --month 2026-09 --dry-run")?;
    assert!(tried.contains("invoice 1 of 2026-09 can be closed: 5 lines, 2472.810000 EUR"), "{tried}");
    assert_eq!(bill.count("invoices").await?, 0);
    let said = bill.done("close --month 2026-09 --note agreed")?;
    assert!(said.contains("invoice 1 of 2026-09 is closed: 5 lines, 2472.810000 EUR\nhash "), "{said}");

    let formats =
        ["json", "csv", "table"].map(|format| format!("report --month 2026-09 --by project --format {format}"));
    let closed: Vec<String> = formats.iter().map(|report| bill.done(report)).collect::<Result<_, _>>()?;
    let json: Value = serde_json::from_str(&closed[0])?;
    assert_eq!(
        (&json["status"]["state"], &json["total"], &json["invoice"]["number"]),
        (&json!("closed"), &json!("2472.810000"), &json!(1))
    );
    assert!(said.contains(json["invoice"]["hash"].as_str().expect("a hash")), "{said}");
    assert_eq!(json["groups"], bill.report("--month 2026-09 --by project")?["groups"]);
    for key in ["total", "total_exact", "gpu_hours", "gpu_hours_exact", "prices", "facts", "allocated", "difference"] {
        assert_eq!(json[key], draft[key], "{key} is what it was before");
    }

    // Another book, another directory and half of the facts gone: the same, however it is asked for, but for what it would cost now.
    let two = load(&bill, "two.toml", "19.2392")?;
    let file = bill.file("d.csv", "project,department,cost_centre,valid_from\nvision,search,7,2026-01-01\n")?;
    bill.done(&format!("directory load {file}"))?;
    for asked in ["--from 2026-09-01 --to 2026-10-01", "--month 2026-09 --time-zone Etc/UTC"] {
        assert_eq!(bill.report(asked)?["total"], "2472.810000", "{asked}");
    }
    assert_eq!(bill.report(&format!("--month 2026-09 --prices {two}"))?["total"], "1923.920000");
    execute(&bill, "TRUNCATE TABLE allocations").await?;
    for (report, before) in formats.iter().zip(&closed) {
        assert_eq!(&bill.done(report)?, before, "{report}");
    }
    let verified = bill.done("close --verify")?;
    assert_eq!(verified, "invoice 1 of 2026-09: 5 lines, as they were closed\n1 invoices, one chain\n");
    let listed: Value = serde_json::from_str(&bill.done("close --list --json")?)?;
    assert_eq!(
        (&listed["invoices"][0]["note"], &listed["invoices"][0]["total"]),
        (&json!("agreed"), &json!("2472.810000"))
    );
    Ok(())
}

#[tokio::test]
async fn b4_what_has_no_price_blocks_the_close() -> anyhow::Result<()> {
    let bill = Bill::start().await?;
    let (code, said) = refused(&bill, "close --month 2026-09")?;
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("no prices: load a price book with contador prices load FILE"), "{said}");
    load(&bill, "p.toml", "2")?;
    let file = bill.allocations("a.csv", &["2026-09-01T00:00:00Z,2026-09-01T03:00:00Z,n1,,B200,1,1,,a,,,,,"])?;
    bill.done(&format!("import --format allocations {file}"))?;
    let (code, said) = refused(&bill, "close --month 2026-09")?;
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("month 2026-09 cannot be closed: unpriced: B200 (3.000000 h); price it with"), "{said}");
    assert_eq!(bill.count("invoices").await?, 0);
    Ok(())
}

#[tokio::test]
async fn months_are_closed_in_their_order_once_and_when_they_are_over() -> anyhow::Result<()> {
    let bill = Bill::start().await?;
    load(&bill, "p.toml", "2")?;
    hours(&bill, "08-31", 48, "research")?;
    hours(&bill, "09-03", 4, "research")?;
    let refuses = |arguments: &str, code, expected: &str| -> anyhow::Result<()> {
        let (found, said) = refused(&bill, arguments)?;
        anyhow::ensure!(found == Some(code) && said.contains(expected), "{arguments}: {found:?} {said}");
        Ok(())
    };
    refuses(
        "close --month 2099-01 --first",
        1,
        "month 2099-01 cannot be closed: it is not over before 2099-02-01T00:00:00+00:00 (UTC)",
    )?;
    let before = "1 imported allocations and 0 ledger rows are from before it, and no earlier month is closed";
    refuses("close --month 2026-09", 1, before)?;
    refuses("close --month 2026-9", 2, "month \"2026-9\": expected a year and a month")?;
    refuses("close --month 2026-09 --time-zone Mars/Olympus", 2, "time zone \"Mars/Olympus\"")?;
    refuses("close --verify --month 2026-09", 1, "it is not closed, and so cannot be verified")?;
    refuses("close", 2, "--month")?;
    bill.done("close --month 2026-09 --first --time-zone Europe/Berlin")?;
    refuses("close --month 2026-09", 1, "month 2026-09 is closed already: invoice 1, ")?;
    refuses("close --month 2026-08", 1, "2026-09 is closed; enter what it lacks with contador adjust")?;
    refuses("close --month 2026-11", 1, "2026-10 is not closed; close the months in their order")?;
    refuses("close --month 2026-10 --time-zone UTC", 1, "its time zone is UTC, expected Europe/Berlin")?;
    // Reports are in the zone of the closed months unless they say otherwise: 26 h of the first allocation, and 4.
    let report = bill.report("--month 2026-09")?;
    assert_eq!(
        (&report["time_zone"], &report["status"]["state"], &report["total"]),
        (&json!("Europe/Berlin"), &json!("closed"), &json!("60.000000"))
    );
    let other = bill.report("--month 2026-09 --time-zone UTC")?;
    assert_eq!((&other["status"]["state"], &other["total"]), (&json!("draft"), &json!("56.000000")));
    bill.done("close --month 2026-10")?;
    assert!(bill.done("close --verify")?.ends_with("2 invoices, one chain\n"));
    Ok(())
}

#[tokio::test]
async fn what_comes_late_is_corrected_once_in_the_next_open_month() -> anyhow::Result<()> {
    let bill = Bill::start().await?;
    load(&bill, "p.toml", "2")?;
    let owner = Owner { project: "ranking".into(), ..Owner::default() };
    let belongs = |department: &str| -> anyhow::Result<String> {
        let entry = format!("project,department,cost_centre,valid_from\nranking,{department},,2026-01-01\n");
        let file = bill.file("d.csv", &entry)?;
        bill.done(&format!("directory load {file}"))
    };
    belongs("search")?;
    bill.insert(&[Device { id: "GPU-1".into(), model: "H100".into(), ..Device::default() }]).await?;
    bill.insert(&[OwnerRow::from(&owner)]).await?;
    hours(&bill, "09-01", 10, "research")?;
    bill.done("close --month 2026-09")?;
    let september = bill.done("report --month 2026-09 --format json")?;
    assert_eq!(bill.report("--month 2026-10")?["corrections"], json!([]));

    // An hour of the ledger that came after the close, by a book and a directory that have changed meanwhile; and use of the month
    // itself.
    load(&bill, "q.toml", "3")?;
    belongs("support")?;
    let row = |minute: u32, share_ms| LedgerRow {
        minute: (SEPTEMBER + 60 * 24 + minute) * 60,
        device: "GPU-1".into(),
        owner: owner.id(),
        kind: "workload".into(),
        held_ms: share_ms,
        share_ms,
        ..LedgerRow::default()
    };
    bill.insert(&(0..60).map(|minute| row(minute, 60_000)).collect::<Vec<_>>()).await?;
    hours(&bill, "10-01", 5, "research")?;
    let open = bill.report("--month 2026-10")?;
    assert_eq!(costs(&open), pairs(&[("research", "15.000000"), ("search", "2.000000")]));
    let correction = json!([{
        "origin_month": "2026-09", "corrects": "usage", "kind": "workload", "department": "search", "project": "ranking",
        "gpu_model": "H100", "day": "2026-09-02", "gpu_hours": "1.000000", "cost": "2.000000",
    }]);
    assert_eq!(
        (&open["corrections"], &open["status"]["state"], &open["difference"]),
        (&correction, &json!("draft"), &json!("0.000000"))
    );
    let by_category = bill.done("report --month 2026-10 --by category --format csv")?;
    assert!(by_category.contains("\ncorrection,workload,1.000000,0.000000,2.000000,EUR,"), "{by_category}");
    let table = bill.done("report --month 2026-10")?;
    assert!(table.contains("note: correction of 2026-09: 2.000000 for search, project ranking, usage\n"), "{table}");
    assert_eq!(bill.done("report --month 2026-09 --format json")?, september);
    // Neither another period nor a what-if has corrections.
    assert_eq!(bill.report("--from 2026-10-01 --to 2026-11-01")?["total"], "15.000000");
    assert_eq!(bill.report("--month 2026-10 --flat-rate 1")?["total"], "5.000000");

    let said = bill.done("close --month 2026-10")?;
    assert!(said.ends_with("it corrects 2026-09\n"), "{said}");
    assert_eq!(bill.report("--month 2026-10")?["corrections"], correction);
    let none = bill.report("--month 2026-11")?;
    assert_eq!((&none["corrections"], &none["total"]), (&json!([]), &json!("0.000000")));
    assert!(bill.done("close --verify")?.ends_with("2 invoices, one chain\n"));

    // Half of that was an error of the agent's: the rows are replaced, and the difference is negative.
    bill.insert(&(0..60).map(|minute| row(minute, 30_000)).collect::<Vec<_>>()).await?;
    let again = bill.report("--month 2026-11 --by project")?;
    assert_eq!(costs(&again), pairs(&[("ranking", "-1.000000")]));
    assert_eq!(again["corrections"][0]["gpu_hours"], "-0.500000");
    bill.done("close --month 2026-11")?;
    assert!(bill.done("close --verify")?.ends_with("3 invoices, one chain\n"));
    // The invoices and their corrections are what all facts make, by the book of the month.
    let invoices = table::invoices(&bill.store).await?;
    let mut billed = num_of(&bill.report("--month 2026-09")?["total"]);
    for month in ["2026-10", "2026-11"] {
        let corrections = bill.report(&format!("--month {month}"))?["corrections"].clone();
        billed += corrections.as_array().expect("a list").iter().map(|line| num_of(&line["cost"])).sum::<i64>();
    }
    assert_eq!((invoices.len(), billed), (3, 2 * 10_500_000));
    Ok(())
}

/// A decimal of six digits, in millionths.
fn num_of(value: &Value) -> i64 {
    value.as_str().and_then(|text| text.replace('.', "").parse().ok()).expect("a decimal")
}

#[tokio::test]
async fn late_use_that_the_closed_book_has_no_price_for_is_told_and_can_be_left_so() -> anyhow::Result<()> {
    let bill = Bill::start().await?;
    load(&bill, "p.toml", "2")?;
    hours(&bill, "09-01", 10, "research")?;
    bill.done("close --month 2026-09")?;
    let file =
        bill.allocations("late.csv", &["2026-09-05T00:00:00Z,2026-09-05T04:00:00Z,n1,,B200,1,1,,search,,,,,"])?;
    bill.done(&format!("import --format allocations {file}"))?;
    let book = "currency = \"EUR\"\n[[rate]]\ngpu_model = \"*\"\nhourly = \"5\"\n";
    let file = bill.file("any.toml", book)?;
    bill.done(&format!("prices load {file}"))?;
    let (code, said) = refused(&bill, "close --month 2026-10")?;
    assert_eq!(code, Some(1));
    assert!(
        said.contains("unpriced: B200 of 2026-09, late (4.000000 h)") && said.contains("--allow-unpriced-corrections"),
        "{said}"
    );
    bill.done("close --month 2026-10 --allow-unpriced-corrections")?;
    let report = bill.report("--month 2026-10")?;
    assert_eq!((&report["total"], &report["fleet"]["unpriced_gpu_hours"]), (&json!("0.000000"), &json!("4.000000")));
    assert_eq!(bill.report("--month 2026-11")?["corrections"], json!([]));
    bill.done("close --verify")?;
    Ok(())
}

#[tokio::test]
async fn a_crash_before_the_invoice_leaves_the_month_open_and_a_second_close_is_harmless() -> anyhow::Result<()> {
    let bill = Bill::start().await?;
    load(&bill, "p.toml", "2")?;
    hours(&bill, "09-01", 10, "research")?;
    let prepared = closing::prepare(&bill.store, &wanted("2026-09")).await?;
    prepared.snapshot(&bill.store).await?;
    let mut before = Vec::new();
    for table in ["invoice_facts", "invoice_lines", "invoice_inputs"] {
        before.push(bill.count(table).await?);
    }
    assert_eq!(bill.report("--month 2026-09")?["status"]["state"], "draft");
    assert_eq!(bill.done("close --list")?, "no month is closed\n");
    bill.done("close --month 2026-09")?;
    for (table, before) in ["invoice_facts", "invoice_lines", "invoice_inputs"].into_iter().zip(before) {
        assert_eq!(bill.count(table).await?, before, "{table}");
    }
    bill.done("close --verify")?;

    // The crash came after the invoice: the log is told when somebody tries again.
    execute(&bill, "ALTER TABLE audit DELETE WHERE action = 'close'").await?;
    assert_eq!(refused(&bill, "close --month 2026-09")?.0, Some(1));
    assert!(bill.done("audit")?.contains(" close 2026-09: invoice 1, 20.000000 EUR, "));
    Ok(())
}

#[tokio::test]
async fn of_two_closers_one_is_told_that_the_other_was_first() -> anyhow::Result<()> {
    let bill = Bill::start().await?;
    load(&bill, "p.toml", "2")?;
    hours(&bill, "09-01", 10, "research")?;
    let one = closing::prepare(&bill.store, &wanted("2026-09")).await?;
    let other = closing::prepare(&bill.store, &wanted("2026-09")).await?;
    one.snapshot(&bill.store).await?;
    other.snapshot(&bill.store).await?;
    let (first, second) = tokio::join!(one.finish(&bill.store), other.finish(&bill.store));
    let (won, lost) = if first.is_ok() { (first, second) } else { (second, first) };
    let hash = won?.hash;
    assert!(matches!(lost, Err(CloseError::Already { number: 1, hash: of, .. }) if of == hash));
    assert_eq!(bill.count("invoices").await?, 1);

    // What was adjusted while the month was being closed is not lost.
    let october = closing::prepare(&bill.store, &wanted("2026-10")).await?;
    bill.done("adjust --month 2026-10 --department research --amount -5 --reason outage")?;
    october.snapshot(&bill.store).await?;
    let said = october.finish(&bill.store).await.expect_err("the adjustment came between").to_string();
    assert!(said.contains("another month or its adjustments were changed meanwhile; close it again"), "{said}");
    bill.done("close --month 2026-10")?;
    assert_eq!(bill.report("--month 2026-10")?["total"], "-5.000000");
    Ok(())
}

#[tokio::test]
async fn whatever_is_changed_in_the_store_is_found() -> anyhow::Result<()> {
    let bill = Bill::start().await?;
    load(&bill, "p.toml", "2")?;
    hours(&bill, "09-01", 10, "research")?;
    bill.done("adjust --month 2026-09 --department research --amount -5 --reason outage")?;
    bill.done("close --month 2026-09")?;
    bill.done("close --month 2026-10")?;
    let verified = replay::verify(&bill.store, None).await?;
    assert_eq!((verified.faults.as_slice(), verified.invoices.len()), (&[][..], 2));

    // A line: written over, as any client could.
    let sql = format!("SELECT ?fields FROM {} FINAL WHERE category = 'usage'", InvoiceLine::TABLE);
    let line: InvoiceLine = bill.store.client.query(&sql).fetch_one().await?;
    bill.insert(&[InvoiceLine { cost: 1, ..line.clone() }]).await?;
    let (code, said) = refused(&bill, "report --month 2026-09")?;
    assert_eq!(code, Some(1));
    assert!(said.contains("invoice 1 of 2026-09: its 2 lines in the store are not those that were closed"), "{said}");
    let verified = replay::verify(&bill.store, Some("2026-09")).await?;
    let number = line.number;
    let expected = format!("invoice 1 of 2026-09: line {number} (usage of \"research\"): cost is 1, expected 20000000");
    assert_eq!(verified.faults[0], expected);
    let (code, _) = refused(&bill, "close --verify")?;
    assert_eq!(code, Some(1));
    bill.insert(&[line]).await?;
    assert_eq!(replay::verify(&bill.store, None).await?.faults, [""; 0]);

    for (change, back, expected) in [
        (
            "invoices UPDATE total = total + 1 WHERE number = 1",
            "invoices UPDATE total = total - 1 WHERE number = 1",
            "hash is",
        ),
        (
            "invoices UPDATE note = 'x' WHERE number = 2",
            "invoices UPDATE note = '' WHERE number = 2",
            "invoice 2 of 2026-10: hash is",
        ),
        (
            "invoice_facts UPDATE allocated = allocated + 1 WHERE 1",
            "invoice_facts UPDATE allocated = allocated - 1 WHERE 1",
            "facts in the store are not those",
        ),
        (
            "invoice_inputs UPDATE document = replaceOne(document, '2.00', '1.00') WHERE kind = 'book'",
            "invoice_inputs UPDATE document = replaceOne(document, '1.00', '2.00') WHERE kind = 'book'",
            "in the store has the hash",
        ),
        (
            "adjustments UPDATE amount = amount - 1 WHERE 1",
            "adjustments UPDATE amount = amount + 1 WHERE 1",
            "its adjustments have the hash",
        ),
    ] {
        execute(&bill, &format!("ALTER TABLE {change}")).await?;
        let faults = replay::verify(&bill.store, None).await?.faults;
        assert!(faults.iter().any(|fault| fault.contains(expected)), "{change}: {faults:?}");
        execute(&bill, &format!("ALTER TABLE {back}")).await?;
        assert_eq!(replay::verify(&bill.store, None).await?.faults, [""; 0], "{back}");
    }
    execute(&bill, "ALTER TABLE invoices DELETE WHERE number = 1").await?;
    let faults = replay::verify(&bill.store, None).await?.faults;
    assert!(faults[0].contains("invoice 2 of 2026-10: expected number 1"), "{faults:?}");
    Ok(())
}

#[tokio::test]
async fn adjustments_are_lines_of_open_months_and_are_withdrawn_by_their_opposite() -> anyhow::Result<()> {
    let bill = Bill::start().await?;
    let (code, said) = refused(&bill, "adjust --month 2026-09 --department research --amount -5 --reason outage")?;
    assert_eq!(code, Some(2));
    assert!(said.contains("no price book is in force, and so no currency"), "{said}");
    load(&bill, "p.toml", "2")?;
    hours(&bill, "09-01", 10, "research")?;
    let credit = "adjust --month 2026-09 --department research --project vision --amount -5.50 --reason outage --of 2026-08 --reference T-1";
    let entered: Value = serde_json::from_str(&bill.done(&format!("{credit} --json"))?)?;
    assert!(bill.done(credit)?.starts_with("was entered before: "));
    bill.done("adjust --month 2026-09 --department support --amount 0.000001 --reason setup --kind charge")?;
    let report = bill.report("--month 2026-09")?;
    assert_eq!(costs(&report), pairs(&[("research", "14.500000"), ("support", "0.000001")]));
    assert_eq!((&report["total"], &report["difference"]), (&json!("14.500001"), &json!("0.000000")));
    assert_eq!(
        report["adjustments"][0],
        json!({ "category": "credit", "department": "research", "project": "vision", "reason": "outage (T-1)", "origin_month": "2026-08", "cost": "-5.500000" })
    );
    for (arguments, expected) in [
        ("--amount 5 --reason x --kind credit", "--amount 5.000000: expected a negative one of a credit"),
        ("--amount -5 --reason x --kind charge", "--amount -5.000000: expected a positive one of a charge"),
        ("--amount 0.0000001 --reason x", "--amount \"0.0000001\": expected a decimal other than 0 such as -50.00"),
        ("--amount 5", "--reason"),
        ("--amount 5 --reason x --of 2026-13", "month \"2026-13\""),
        ("--dispute", "--reason"),
    ] {
        let (code, said) = refused(&bill, &format!("adjust --month 2026-09 --department research {arguments}"))?;
        assert_eq!(code, Some(2), "{arguments}");
        assert!(said.contains(expected), "{arguments}: {said}");
    }
    bill.done("close --month 2026-09")?;
    assert_eq!(bill.report("--month 2026-09")?["total"], "14.500001");
    let (code, said) = refused(&bill, "adjust --month 2026-09 --department research --amount -1 --reason late")?;
    assert_eq!(code, Some(1));
    assert!(said.contains("month 2026-09 is closed (invoice 1): enter it for 2026-10, with --of 2026-09"), "{said}");

    // Taken back in the next month; the closed one stays.
    let id = entered["id"].as_str().expect("an id");
    let back: Value = serde_json::from_str(&bill.done(&format!("adjust --withdraw {id} --month 2026-10 --json"))?)?;
    assert_eq!(
        (&back["amount"], &back["kind"], &back["origin_month"]),
        (&json!("5.500000"), &json!("charge"), &json!("2026-09"))
    );
    assert!(bill.done(&format!("adjust --withdraw {id} --month 2026-10"))?.starts_with("was entered before: "));
    let (_, said) = refused(&bill, &format!("adjust --withdraw {id} --month 2026-11"))?;
    assert!(said.contains("cannot be withdrawn: it is withdrawn already"), "{said}");
    assert_eq!(bill.report("--month 2026-10")?["total"], "5.500000");
    assert_eq!(bill.done("adjust --list")?.lines().count(), 3);
    bill.done("close --month 2026-10")?;
    bill.done("close --verify")?;
    Ok(())
}

#[tokio::test]
async fn a_dispute_changes_a_status_and_no_amount() -> anyhow::Result<()> {
    let bill = Bill::start().await?;
    load(&bill, "p.toml", "2")?;
    hours(&bill, "09-01", 10, "research")?;
    hours(&bill, "09-02", 3, "search")?;
    let status = |department: &str| -> anyhow::Result<(Value, Value)> {
        let report = bill.report(&format!("--month 2026-09 --department {department}"))?;
        Ok((report["status"]["state"].clone(), report["total"].clone()))
    };
    bill.done("adjust --month 2026-09 --department search --accept")?;
    assert_eq!(status("search")?, (json!("accepted"), json!("6.000000")));
    bill.done("close --month 2026-09")?;
    bill.done("adjust --month 2026-09 --department research --dispute --reason not-ours")?;
    assert_eq!(status("research")?, (json!("disputed"), json!("20.000000")));
    assert_eq!(bill.report("--month 2026-09")?["status"]["state"], "closed");
    let table = bill.done("report --month 2026-09")?;
    assert!(table.contains("note: disputed by research (") && table.contains("): not-ours\n"), "{table}");
    bill.done("adjust --month 2026-09 --department research --resolve --reason agreed")?;
    assert_eq!(status("research")?, (json!("closed"), json!("20.000000")));
    assert!(bill.done("close --verify")?.ends_with("1 invoices, one chain\n"));
    Ok(())
}

#[tokio::test]
async fn the_audit_log_knows_who_did_what_and_shows_what_was_changed() -> anyhow::Result<()> {
    let bill = Bill::start().await?;
    assert_eq!(bill.done("audit")?, "the audit log is empty\n");
    load(&bill, "p.toml", "2")?;
    let directory = bill.file("d.csv", "project,department,cost_centre,valid_from\nvision,research,,2026-01-01\n")?;
    bill.done(&format!("directory load {directory}"))?;
    hours(&bill, "09-01", 10, "research")?;
    bill.done("adjust --month 2026-09 --department research --amount -5 --reason outage")?;
    bill.done("adjust --month 2026-09 --department research --accept")?;
    bill.done("close --month 2026-09")?;
    let log: Value = serde_json::from_str(&bill.done("audit --json --verify")?)?;
    let entries = log["entries"].as_array().expect("entries");
    let actions: Vec<&str> = entries.iter().filter_map(|entry| entry["action"].as_str()).collect();
    assert_eq!(actions, ["prices load", "directory load", "import", "credit", "accept", "close"]);
    assert_eq!(log["faults"], json!([]));
    assert!(entries.iter().all(|entry| entry["who"].as_str().is_some_and(|who| who.contains('@'))), "{entries:?}");
    assert_eq!(
        (&entries[2]["details"], &entries[5]["subject"]),
        (&json!("1 allocations of 1 owners"), &json!("2026-09"))
    );
    assert!(bill.done("audit --verify")?.starts_with("6 entries, one chain, the last "));

    execute(&bill, "ALTER TABLE audit UPDATE who = 'somebody' WHERE number = 3").await?;
    let output = bill.contador("audit --verify")?;
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("entry 3: hash is "));
    Ok(())
}
