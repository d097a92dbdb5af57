//! `contador import` against the real engine.

mod bill_store;

use bill_store::{Bill, HEADER, failed};

const HOUR: &str = "2026-10-01T00:00:00Z,2026-10-01T01:00:00Z,n1,,H100,2,0.5,prod,research,vision,seg,ana,,job-1";
const LATER: &str = "1790820000,1790823600,n1,GPU-1,H100,1,1,prod,search,ranking,,bo,,\"job, 2\"";

#[tokio::test]
async fn importing_twice_is_importing_once() -> anyhow::Result<()> {
    let bill = Bill::start().await?;
    let one = bill.allocations("one.csv", &[HOUR, LATER, HOUR])?;
    let said = bill.done(&format!("import --format allocations {one}"))?;
    assert!(said.contains("imported 3 allocations of 2 owners"), "{said}");
    let october = "--month 2026-10 --flat-rate 1.00";
    let first = bill.report(october)?;
    assert_eq!(first["total"], "3.000000");
    assert_eq!(first["facts"]["allocations"], 3);

    // Again, and again under another name, in another order of lines and with other line ends.
    bill.done(&format!("import --format allocations {one}"))?;
    let two = bill.file("two.csv", &format!("\u{feff}{HEADER}\r\n{LATER}\r\n{HOUR}\r\n{HOUR}\r\n"))?;
    bill.done(&format!("import --format allocations {two} {one}"))?;
    assert_eq!(bill.count("allocations").await?, 3);
    assert_eq!(bill.count("owners").await?, 2);
    assert_eq!(bill.report(october)?, first);
    Ok(())
}

#[tokio::test]
async fn a_faulty_file_stores_nothing_and_does_not_stop_the_others() -> anyhow::Result<()> {
    let bill = Bill::start().await?;
    let bad = bill.allocations("bad.csv", &[HOUR, &HOUR.replace(",2,0.5,", ",2,1.5,"), LATER])?;
    let good = bill.allocations("good.csv", &[LATER])?;
    let output = bill.contador(&format!("import --format allocations {bad}"))?;
    let (code, said) = failed(&output);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("bad.csv:3: fraction: \"1.5\", expected a decimal above 0 and up to 1"), "{said}");
    assert_eq!((bill.count("allocations").await?, bill.count("owners").await?), (0, 0));

    let output = bill.contador(&format!("import --format allocations {bad} {good} missing.csv"))?;
    let (code, said) = failed(&output);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("missing.csv: cannot be opened") && said.contains("2 of 3 files not imported"), "{said}");
    assert_eq!((bill.count("allocations").await?, bill.count("owners").await?), (1, 1));
    Ok(())
}

/// 2 × 1/2 GPU for an hour, a GPU for an hour, and 3 × 1/3 GPU, rounded to 12 decimals, for a second: 2 + 0.999999999999/3600.
#[tokio::test]
async fn a_dry_run_says_what_would_be_imported_and_stores_nothing() -> anyhow::Result<()> {
    let bill = Bill::start().await?;
    let third = "2026-09-30T23:59:59Z,2026-10-01T00:00:00Z,n1,,L4,3,0.333333333333,prod,search,ranking,,bo,,";
    let file = bill.allocations("one.csv", &[HOUR, LATER, third])?;
    // The store is not even there.
    let nowhere = "--clickhouse http://127.0.0.1:9";
    let dry = bill.done(&format!("import --format allocations --dry-run --json {nowhere} {file}"))?;
    let dry: serde_json::Value = serde_json::from_str(&dry)?;
    let expected = serde_json::json!({
        "file": file,
        "allocations": 3,
        "owners": 3,
        "open": 0,
        "gpu_hours": "2.000278",
        "gpu_hours_exact": "800111111111111/400000000000000",
        "first_start": "2026-09-30T23:59:59Z",
        "last_end": "2026-10-01T03:00:00Z",
        "gpu_models": [
            { "gpu_model": "H100", "allocations": 2, "gpu_hours": "2.000000" },
            { "gpu_model": "L4", "allocations": 1, "gpu_hours": "0.000278" },
        ],
        "skipped": {},
        "disputed": null,
    });
    assert_eq!(dry, serde_json::json!({ "dry_run": true, "files": [expected], "refused": 0 }));
    let said = bill.done(&format!("import --format allocations --dry-run {nowhere} {file}"))?;
    assert!(
        said.contains("would import 3 allocations of 3 owners, 2.000278 GPU-hours from 2026-09-30T23:59:59Z"),
        "{said}"
    );
    assert!(said.contains("\n  L4: 1 allocations, 0.000278 GPU-hours"), "{said}");
    assert_eq!((bill.count("allocations").await?, bill.count("owners").await?), (0, 0));

    let done: serde_json::Value =
        serde_json::from_str(&bill.done(&format!("import --format allocations --json {file}"))?)?;
    assert_eq!(done["files"], dry["files"]);
    assert_eq!((bill.count("allocations").await?, bill.count("owners").await?), (3, 3));

    let bad = bill.allocations("bad.csv", &[&HOUR.replace(",2,0.5,", ",2,1.5,")])?;
    let output = bill.contador(&format!("import --format allocations --dry-run --json {bad} {file}"))?;
    let (code, said) = failed(&output);
    assert_eq!(code, Some(1));
    assert!(said.contains("bad.csv:2: fraction: ") && said.contains("1 of 2 files can't be imported"), "{said}");
    let told: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    assert_eq!((&told["refused"], &told["files"]), (&1.into(), &dry["files"]));
    Ok(())
}

#[tokio::test]
async fn a_file_may_span_more_years_than_an_insert_has_partitions_by_default() -> anyhow::Result<()> {
    let bill = Bill::start().await?;
    let lines: Vec<String> =
        (1970..2100).map(|year| format!("{year}-12-31T22:00:00Z,{year}-12-31T23:00:00Z,,,,1,1,,,,,,,")).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let file = bill.allocations("long.csv", &lines)?;
    bill.done(&format!("import --format allocations {file}"))?;
    let report = bill.report("--from 1970-01-01 --to 2100-01-01 --flat-rate 0.10 --currency EUR")?;
    assert_eq!((&report["total"], &report["currency"]), (&"13.000000".into(), &"EUR".into()));
    assert_eq!(report["groups"][0]["key"], "(none)");
    Ok(())
}

#[tokio::test]
async fn a_store_without_tables_is_told_as_such() -> anyhow::Result<()> {
    let bill = Bill::start().await?;
    let file = bill.allocations("one.csv", &[HOUR])?;
    let (code, said) =
        failed(&bill.contador(&format!("import --format allocations {file} --clickhouse-database nowhere"))?);
    assert_eq!(code, Some(1));
    assert!(said.contains("the store has no such table; run contador migrate"), "{said}");
    let (code, said) =
        failed(&bill.contador(&format!("import --format allocations {file} --clickhouse http://127.0.0.1:9"))?);
    assert_eq!(code, Some(1));
    assert!(said.contains("one.csv: not stored: cannot store the owners"), "{said}");
    let (code, _) = failed(&bill.contador("import --format parquet x")?);
    assert_eq!(code, Some(2));
    Ok(())
}
