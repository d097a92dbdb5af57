//! `contador report` in its other formats, against the real engine: pages, details, groups in groups, and what is written where. Pages
//! are opened in Chromium, where they must fit a telephone.

mod bill_store;
mod schema_support;

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Context;
use bill_store::{Bill, failed};
use schema_support::faults;
use serde_json::{Value, json};

const BOOK: &str = "currency = \"EUR\"\n[[rate]]\ngpu_model = \"*\"\nhourly = \"2\"\n";

async fn october() -> anyhow::Result<Bill> {
    let bill = Bill::start().await?;
    let file = bill.allocations(
        "a.csv",
        &[
            "2026-09-03T00:00:00Z,2026-09-03T04:00:00Z,n1,,H100,1,1,,research,vision,,,,1",
            "2026-10-01T00:00:00Z,2026-10-01T02:00:00Z,n1,,H100,1,1,,research,vision,sweep,,,2",
            "2026-10-02T00:00:00Z,2026-10-02T01:00:00Z,n1,,L4,1,1,,research,<b>pose</b>,eval,,,3",
            "2026-10-02T00:00:00Z,2026-10-02T01:00:00Z,n1,,L4,2,1,,search,ranking,,,rerank,4",
        ],
    )?;
    bill.done(&format!("import --format allocations {file}"))?;
    let book = bill.file("prices.toml", BOOK)?;
    bill.done(&format!("prices load {book}"))?;
    Ok(bill)
}

#[tokio::test]
async fn a_page_is_made_in_both_languages_and_written_whole_or_not_at_all() -> anyhow::Result<()> {
    let bill = october().await?;
    let english = bill.done("report --month 2026-10 --format html")?;
    // 5 GPU-hours at 2, and 4 in September.
    for text in ["<html lang=\"en\">", "October 2026", "10.000000", "+25.0%", "&lt;b&gt;pose&lt;/b&gt;"] {
        assert!(english.contains(text), "{text}");
    }
    let spanish = bill.done("report --month 2026-10 --format html --lang es --department search")?;
    for text in ["octubre de 2026", "4,000000", "Toda la flota", "10,000000"] {
        assert!(spanish.contains(text), "{text}");
    }
    assert!(!spanish.contains("vision"), "another department's projects are not in it");
    assert!(!bill.done("report --month 2026-10 --format html --no-compare")?.contains("vs last month"));

    let path = bill.file("page.html", "what was there before")?;
    bill.done(&format!("report --month 2026-10 --format html --out {path}"))?;
    assert_eq!(std::fs::read_to_string(&path)?, english);
    let folder = Path::new(&path).parent().context("a folder")?;
    let names: Vec<String> = folder
        .read_dir()?
        .map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()))
        .collect::<Result<_, _>>()?;
    assert!(names.iter().all(|name| !name.starts_with('.')), "nothing is left beside it: {names:?}");
    let (code, said) = failed(&bill.contador(&format!("report --month 2026-10 --out {path}/nowhere/page.html"))?);
    assert_eq!(code, Some(1));
    assert!(said.contains("page.html: cannot be written"), "{said}");
    assert_eq!(
        bill.done("report --month 2026-10 --format html --out /dev/stdout")?,
        english,
        "what is no file is written to"
    );
    Ok(())
}

#[tokio::test]
async fn groups_and_details_are_of_one_bill() -> anyhow::Result<()> {
    let bill = october().await?;
    let table = bill.done("report --month 2026-10 --by department --by project")?;
    assert!(table.contains("last     8.000000, of which this is 125.0%"), "{table}");
    let csv = bill.done("report --month 2026-10 --by department --by project --format csv")?;
    let expected = "department,project,kind,gpu_hours,unpriced_gpu_hours,cost,currency,simulated\n\
                    research,vision,workload,2.000000,0.000000,4.000000,EUR,false\n\
                    research,<b>pose</b>,workload,1.000000,0.000000,2.000000,EUR,false\n\
                    search,ranking,workload,2.000000,0.000000,4.000000,EUR,false\n";
    assert_eq!(csv, expected);
    let lines = bill.done("report --month 2026-10 --format csv --detail")?;
    assert_eq!(lines.lines().count(), 4);
    let report = bill.report("--month 2026-10 --detail")?;
    let costs: Vec<&str> =
        report["lines"].as_array().context("lines")?.iter().filter_map(|line| line["cost"].as_str()).collect();
    assert_eq!((&report["total"], costs.len()), (&json!("10.000000"), 3));
    assert_eq!(report["overview"]["last_month"], "8.000000");
    assert_eq!(report["overview"]["efficiency"]["unknown_gpu_hours"], "5.000000");
    // What nobody measured is not 0.
    assert_eq!(report["overview"]["efficiency"]["energy_kwh"], Value::Null);
    Ok(())
}

#[tokio::test]
async fn the_json_is_as_its_schema_says() -> anyhow::Result<()> {
    let bill = october().await?;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../schemas/report.schema.json");
    let schema: Value = serde_json::from_str(&std::fs::read_to_string(path)?)?;
    for arguments in [
        "--month 2026-10",
        "--month 2026-10 --detail --by gpu-model --by day",
        "--month 2026-08",
        "--month 2026-10 --department x",
    ] {
        assert_eq!(faults(&schema, &bill.report(arguments)?), Vec::<String>::new(), "{arguments}");
    }
    // It would tell.
    let mut report = bill.report("--month 2026-10 --detail")?;
    report["total"] = json!(10.0);
    report["overview"]["more"] = json!(1);
    report["departments"][0]["categories"][0]["category"] = json!("gift");
    report["lines"][0]["cost"] = json!("1.5");
    report["notes"] = json!([1]);
    report.as_object_mut().context("an object")?.remove("fleet");
    let told = faults(&schema, &report).join("\n");
    for place in
        ["/fleet", "/total", "/overview/more", "/departments/0/categories/0/category", "/lines/0/cost", "/notes/0"]
    {
        assert!(told.contains(&format!("{place}: ")), "{place} in {told}");
    }
    Ok(())
}

#[tokio::test]
async fn chromium_shows_a_page_on_a_telephone_without_a_fault() -> anyhow::Result<()> {
    let bill = october().await?;
    let name = "a-very-long-name-without-any-space".repeat(6);
    let file = bill.allocations(
        "b.csv",
        &[&format!("2026-10-05T00:00:00Z,2026-10-07T00:00:00Z,n1,,H100,1000000,1,,{name},{name},{name},,,{name}")],
    )?;
    bill.done(&format!("import --format allocations {file}"))?;
    let page = bill.file("page.html", "")?;
    bill.done(&format!("report --month 2026-10 --format html --out {page}"))?;
    // A frame is as wide as a telephone, which Chromium's own window cannot be; it says how wide what is in it is.
    let outer = "<!doctype html><iframe id=f src=page.html style='width:390px;height:800px;border:0'></iframe><script>\
                 onload=()=>{const d=f.contentDocument.documentElement;\
                 document.title=`${d.scrollWidth-d.clientWidth} too wide of ${f.contentWindow.innerWidth}, ${d.querySelectorAll('table').length} tables`}</script>";
    let outer = bill.file("outer.html", outer)?;
    let folder = Path::new(&outer).parent().context("a folder")?;
    let output = Command::new("chromium")
        .args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--allow-file-access-from-files",
            "--enable-logging=stderr",
        ])
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .args(["--window-size=800,900", "--virtual-time-budget=10000", "--dump-dom"])
        .arg(format!("file://{outer}"))
        .stdin(Stdio::null())
        .output()
        .context("chromium cannot be run: tests/setup.sh installs it")?;
    let (shown, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let title = shown.split_once("<title>").and_then(|(_, rest)| rest.split_once("</title>")).map(|(title, _)| title);
    let title = title.with_context(|| format!("the page says nothing: {shown} {said}"))?;
    assert!(title.starts_with("0 too wide of 390, ") && !title.ends_with(" 0 tables"), "{title}");
    let faults: Vec<&str> = said.lines().filter(|line| line.contains("CONSOLE")).collect();
    assert!(faults.is_empty(), "{faults:?}");
    Ok(())
}
