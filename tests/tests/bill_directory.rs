//! The directory on the real engine: loading it, and what it does to a bill.

mod bill_store;

use bill_store::{Bill, failed};
use contador::bill::directory::date;
use contador_schemas::owner::{Owner, OwnerKind};
use contador_schemas::rows::{Device, DirectoryEntry, LedgerRow, OwnerRow};
use serde_json::{Value, json};

const HEADER: &str = "project,department,cost_centre,valid_from,valid_to";

/// 2026-10-16T00:00:00Z in minutes since 1970.
const MIDNIGHT: u32 = 1_792_108_800 / 60;

fn costs(report: &Value) -> Vec<(String, String)> {
    let groups = report["groups"].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    groups.iter().map(|group| (text(&group["key"]), text(&group["cost"]))).collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(key, cost)| ((*key).to_owned(), (*cost).to_owned())).collect()
}

/// A month in which the project vision goes from research to search on the 16th, imported and metered.
async fn fleet(bill: &Bill) -> anyhow::Result<()> {
    let file = bill.allocations(
        "a.csv",
        &[
            // Two days, one before and one after; and one that says itself who pays.
            "2026-10-15T00:00:00Z,2026-10-17T00:00:00Z,n1,,H100,1,1,,,vision,,,,1",
            "2026-10-15T00:00:00Z,2026-10-17T00:00:00Z,n1,,H100,1,0.5,,support,vision,,,,2",
            // Nobody knows this project.
            "2026-10-16T00:00:00Z,2026-10-16T01:00:00Z,n1,,H100,1,1,,,other,,,,3",
        ],
    )?;
    bill.done(&format!("import --format allocations {file}"))?;
    let (vision, idle) = (Owner { project: "vision".into(), ..Owner::default() }, Owner::of_kind(OwnerKind::Idle));
    bill.insert(&[Device { id: "GPU-1".into(), model: "H100".into(), ..Device::default() }]).await?;
    bill.insert(&[OwnerRow::from(&vision)]).await?;
    let row = |minute: u32, owner: &Owner, share_ms| LedgerRow {
        minute: minute * 60,
        device: "GPU-1".into(),
        owner: owner.id(),
        kind: owner.kind.as_str().into(),
        share_ms,
        ..LedgerRow::default()
    };
    // An hour before midnight, and two after it; a third of each idle.
    let minutes = MIDNIGHT - 60..MIDNIGHT + 120;
    let rows: Vec<_> = minutes.flat_map(|minute| [row(minute, &vision, 40_000), row(minute, &idle, 20_000)]).collect();
    bill.insert(&rows).await
}

#[tokio::test]
async fn a_project_that_changes_its_department_splits_the_bill_at_that_day() -> anyhow::Result<()> {
    let bill = Bill::start().await?;
    fleet(&bill).await?;
    let month = "--month 2026-10 --flat-rate 3";
    let before = bill.report(month)?;
    assert_eq!(before["directory"], Value::Null);
    // 48 h of an allocation, 3 h of another project, and two thirds of 3 h in the ledger.
    let none = [("(none)", "153.000000"), ("support", "72.000000"), ("(idle)", "3.000000")];
    assert_eq!(costs(&before), pairs(&none));

    let file = bill.file(
        "d.csv",
        &format!(
            "{HEADER}\nvision,research,4711,2026-01-01,\nvision,search,4712,2026-10-16,\nsupport,support,,2026-01-01,\n"
        ),
    )?;
    let said = bill.done(&format!("directory load {file}"))?;
    assert!(said.contains("of 3 entries for 2 projects is in force"), "{said}");
    let after = bill.report(month)?;
    // 24 h and 40 min; 24 h and 80 min.
    let split = [("search", "76.000000"), ("research", "74.000000"), ("support", "72.000000"), ("(none)", "3.000000")];
    assert_eq!(costs(&after), [pairs(&split), pairs(&[("(idle)", "3.000000")])].concat());
    assert!(said.contains(after["directory"].as_str().expect("an id")), "{said}");
    for key in ["total", "total_exact", "gpu_hours", "gpu_hours_exact", "allocated", "unallocated", "fleet", "facts"] {
        assert_eq!(after[key], before[key], "{key} is the same whoever pays");
    }
    assert_eq!(after["difference"], "0.000000");

    // Departments sum to the whole, in every dimension; a project is one line in each department.
    let research = bill.report(&format!("{month} --by project --department research"))?;
    assert_eq!(costs(&research), pairs(&[("vision", "74.000000")]));
    let projects = bill.report(&format!("{month} --by project"))?;
    assert_eq!(costs(&projects)[0], pairs(&[("vision", "222.000000")])[0]);
    assert_eq!(projects["total"], before["total"]);

    // The day begins at midnight in Berlin, two hours earlier: nothing that was metered is of the day before.
    let berlin = bill.report(&format!("{month} --time-zone Europe/Berlin"))?;
    let split = [("search", "84.000000"), ("support", "72.000000"), ("research", "66.000000"), ("(none)", "3.000000")];
    assert_eq!(costs(&berlin), [pairs(&split), pairs(&[("(idle)", "3.000000")])].concat());
    assert_eq!(berlin["total_exact"], before["total_exact"]);

    // A price that changes on the same day, and one that changes within it.
    let prices = "currency = \"EUR\"\n[[rate]]\ngpu_model = \"*\"\nhourly = \"3\"\n\
                  [[rate]]\ngpu_model = \"*\"\nhourly = \"6\"\nvalid_from = 2026-10-16\n\
                  [[rate]]\ngpu_model = \"*\"\nhourly = \"3\"\nvalid_from = 2026-10-16T12:00:00Z\n";
    let prices = bill.file("p.toml", prices)?;
    let dated = bill.report(&format!("--month 2026-10 --prices {prices}"))?;
    // 12 h and 80 min at 6, 12 h at 3.
    assert_eq!(costs(&dated)[0], pairs(&[("search", "116.000000")])[0]);
    assert!(costs(&dated).contains(&pairs(&[("research", "74.000000")])[0]));
    Ok(())
}

#[tokio::test]
async fn a_directory_with_a_change_every_day_still_sums() -> anyhow::Result<()> {
    let bill = Bill::start().await?;
    fleet(&bill).await?;
    let mut lines = vec![HEADER.to_owned()];
    // From 2020-01-01.
    for day in 18_262..21_262 {
        lines.push(format!("vision,d{},,{},", day % 2, date(day)));
    }
    let file = bill.file("d.csv", &lines.join("\n"))?;
    bill.done(&format!("directory load {file}"))?;
    // The 15th of October 2026 is day 20,741 since 1970.
    let decade = bill.report("--from 2020-01-01 --to 2029-01-01 --flat-rate 3")?;
    let split = [("d0", "76.000000"), ("d1", "74.000000"), ("support", "72.000000"), ("(none)", "3.000000")];
    assert_eq!(costs(&decade), [pairs(&split), pairs(&[("(idle)", "3.000000")])].concat());
    assert_eq!((&decade["total"], &decade["facts"]["allocations"]), (&json!("228.000000"), &json!(3)));
    Ok(())
}

#[tokio::test]
async fn the_directory_that_was_loaded_last_is_in_force_as_a_whole() -> anyhow::Result<()> {
    let bill = Bill::start().await?;
    let (code, said) = failed(&bill.contador("directory list")?);
    assert_eq!(code, Some(2));
    assert!(said.contains("no directory is in force; load one with contador directory load FILE"), "{said}");
    let one = bill.file(
        "one.csv",
        &format!("{HEADER}\nvision,research,4711,2026-01-01,\nvision,search,,2026-10-16,2027-01-01\n"),
    )?;
    let two = bill.file("two.csv", "project,department,cost_centre,valid_from\nranking,search,7,2026-01-01\n")?;

    assert!(bill.done(&format!("directory load --dry-run {one}"))?.contains("can be loaded"));
    assert_eq!(bill.count("directory").await?, 0);
    bill.done(&format!("directory load {one}"))?;
    let first: Value = serde_json::from_str(&bill.done("directory list --json")?)?;
    assert_eq!(
        first["entries"],
        json!([
            { "project": "vision", "department": "research", "cost_centre": "4711",
              "valid_from": "2026-01-01", "valid_to": "2026-10-16" },
            { "project": "vision", "department": "search", "cost_centre": "",
              "valid_from": "2026-10-16", "valid_to": "2027-01-01" },
        ])
    );
    let text = bill.done("directory list --at 2026-10-15")?;
    assert!(
        text.ends_with("\nvision: research, cost centre 4711, from 2026-01-01 up to, and without, 2026-10-16\n"),
        "{text}"
    );
    assert_eq!(bill.done("directory list --at 2027-01-01")?.lines().count(), 1);

    // The same again is the same; another one replaces all of it, and the first is in force again when it is loaded again.
    bill.done(&format!("directory load {one}"))?;
    assert_eq!(bill.count("directory").await?, 2);
    bill.done(&format!("directory load {two}"))?;
    let text = bill.done("directory list")?;
    assert!(
        text.ends_with("\nranking: search, cost centre 7, from 2026-01-01\n") && text.lines().count() == 2,
        "{text}"
    );
    bill.done(&format!("directory load {one}"))?;
    assert_eq!(serde_json::from_str::<Value>(&bill.done("directory list --json")?)?, first);

    // One of which the store has only a part is not in force, though it came later.
    let part = DirectoryEntry {
        version: "part".into(),
        project: "vision".into(),
        department: "other".into(),
        entries: 2,
        loaded_at: 4_000_000_000_000,
        ..DirectoryEntry::default()
    };
    bill.insert(std::slice::from_ref(&part)).await?;
    assert_eq!(serde_json::from_str::<Value>(&bill.done("directory list --json")?)?, first);

    // What is loaded after one whose clock was ahead is in force all the same.
    bill.insert(&[DirectoryEntry { version: "ahead".into(), entries: 1, ..part }]).await?;
    assert_ne!(serde_json::from_str::<Value>(&bill.done("directory list --json")?)?, first);
    bill.done(&format!("directory load {one}"))?;
    assert_eq!(serde_json::from_str::<Value>(&bill.done("directory list --json")?)?, first);

    // What is refused changes nothing.
    let wrong =
        bill.file("wrong.csv", &format!("{HEADER}\nvision,search,,2026-01-01,\nvision,other,,2026-01-01,\n"))?;
    for arguments in [format!("directory load {wrong}"), format!("directory load --dry-run {wrong}")] {
        let (code, said) = failed(&bill.contador(&arguments)?);
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains("wrong.csv:3: valid_from: \"2026-01-01\", expected one entry of project"), "{said}");
    }
    for (arguments, expected) in [
        ("directory load missing.csv", "missing.csv: cannot be opened"),
        ("directory list --at soon", "expected a date such as 2026-01-01"),
    ] {
        let (code, said) = failed(&bill.contador(arguments)?);
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains(expected), "{said}");
    }
    assert_eq!(serde_json::from_str::<Value>(&bill.done("directory list --json")?)?, first);
    Ok(())
}
