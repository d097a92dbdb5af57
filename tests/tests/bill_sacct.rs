//! `contador import --format sacct` against the real engine: what a real Slurm printed, and a file of everything that is
//! difficult.

mod bill_store;

use std::path::Path;

use bill_store::{Bill, failed};
use serde_json::{Value, json};

fn data(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/sacct").join(name).display().to_string()
}

fn figures(bill: &Bill, arguments: &str) -> anyhow::Result<Value> {
    Ok(serde_json::from_str(&bill.done(&format!("import --json --format sacct {arguments}"))?)?)
}

/// Two exports of one Slurm 22.05 with slurmdbd, of arrays, heterogeneous, requeued, resized, suspended, cancelled and running
/// jobs with typed GPUs, instances of MIG and shards, whose 12 GPUs had 48 shards.
///
/// When all jobs had ended, its database had in job_table, of records with GPUs (TRES 1001), 862 GPU-seconds as the sum of
/// (time_end - greatest(time_start, time_submit) - time_suspended) × GPUs, and 901 without taking time_suspended off. Three shards
/// for 2 s are 1.5 GPU-seconds more. In the earlier export, the three jobs that ran then had 2 × 6, 1 × 3 and 1 × 6 GPU-seconds less.
#[tokio::test]
async fn a_real_slurm_has_the_hours_of_its_database() -> anyhow::Result<()> {
    let bill = Bill::start().await?;
    let (running, ended) = (data("slurm-22.05-running.txt"), data("slurm-22.05-ended.txt"));
    let day = "--from 2026-12-01 --to 2026-12-02 --flat-rate 1.00";
    let options = "--shards-per-gpu 4";

    let early = figures(&bill, &format!("{options} {running}"))?;
    assert_eq!((&early["files"][0]["gpu_hours_exact"], &early["files"][0]["open"]), (&json!("337/1440"), &json!(3)));
    assert_eq!(bill.report(day)?["gpu_hours_exact"], "337/1440"); // 842.5 s
    let rows = bill.count("allocations").await?;

    let late = figures(&bill, &format!("{options} {ended}"))?;
    assert_eq!((&late["files"][0]["gpu_hours_exact"], &late["files"][0]["open"]), (&json!("1727/7200"), &json!(0)));
    let report = bill.report(day)?;
    assert_eq!(report["gpu_hours_exact"], "1727/7200"); // 863.5 s
    assert_eq!(bill.count("allocations").await?, rows);

    // Again, and the older one after the newer one.
    let again = figures(&bill, &format!("{options} {ended} {running}"))?;
    assert_eq!(again["files"][1]["skipped"]["older"], 3);
    assert_eq!(bill.report(day)?, report);
    assert_eq!(bill.count("allocations").await?, rows);

    figures(&bill, &format!("{options} --suspended held {ended}"))?;
    assert_eq!(bill.report(day)?["gpu_hours_exact"], "361/1440"); // 902.5 s
    assert_eq!(bill.count("allocations").await?, rows);
    Ok(())
}

/// GPU-hours by hand, in Berlin:
///
/// | job | H100 | A100 | no type | 1g.10gb |
/// |---|---|---|---|---|
/// | 100: 8 for 2 h in September and 4 h in October | 48 | | | |
/// | 101: 2 for 1 h | | | 2 | |
/// | 102_1: 1 for 30 min | | 0.5 | | |
/// | 110: 4 for 10 min, and 4 for 20 min | 2 | | | |
/// | 111: 1 and 2 for 2 h | 2 | 4 | | |
/// | 112: 4 for 1 h, and 5 h suspended | 4 | | | |
/// | 116: 3 for 24 h, and runs | | | | 72 |
/// | 117: 1 for 1 h, from 02:30 to 02:30 | 1 | | | |
/// | 118: 1 and 1 for 1 h | 2 | | | |
/// | 122: 1 and 2 for 3 h | 3 | | 6 | |
/// | 123: 4 for 1 h, then 2 for 2 h | 8 | | | |
/// | 124: 32 for 45 s | 0.4 | | | |
/// | 125: 1 for 1 s | 1/3600 | | | |
/// | all: 154.9 + 1/3600 | 70.4 + 1/3600 | 4.5 | 8 | 72 |
///
/// 113, 114 and 115 cost nothing: never started, had no time, had no GPU.
#[tokio::test]
async fn everything_difficult_is_as_calculated_by_hand() -> anyhow::Result<()> {
    let bill = Bill::start().await?;
    let arguments = format!("--time-zone Europe/Berlin --gpu-model h100=H100 {}", data("tricky.txt"));
    let dry = figures(&bill, &format!("--dry-run --clickhouse http://127.0.0.1:9 {arguments}"))?;
    assert_eq!(dry["dry_run"], true);
    let file = &dry["files"][0];
    assert_eq!(file["gpu_hours"], "154.900278");
    assert_eq!(
        file["gpu_models"],
        json!([
            { "gpu_model": "H100", "allocations": 13, "gpu_hours": "70.400278" },
            { "gpu_model": "a100", "allocations": 2, "gpu_hours": "4.500000" },
            { "gpu_model": "gpu", "allocations": 2, "gpu_hours": "8.000000" },
            { "gpu_model": "gpu MIG 1g.10gb", "allocations": 1, "gpu_hours": "72.000000" },
        ])
    );
    assert_eq!((&file["allocations"], &file["open"], &file["owners"]), (&json!(18), &json!(1), &json!(14)));
    assert_eq!(file["skipped"], json!({ "steps": 3, "not_started": 2, "without_gpus": 1, "no_time": 1 }));
    assert_eq!(file["first_start"], "2026-09-30T20:00:00Z");
    assert_eq!(file["last_end"], "2026-10-29T07:00:00Z");
    assert_eq!(file["disputed"], Value::Null);
    assert_eq!(bill.count("allocations").await?, 0);
    let held = figures(&bill, &format!("--dry-run --suspended held {arguments}"))?;
    assert_eq!(held["files"][0]["gpu_hours"], "174.900278");

    let stored = figures(&bill, &arguments)?;
    assert_eq!(&stored["files"], &dry["files"]);
    assert_eq!((bill.count("allocations").await?, bill.count("owners").await?), (18, 14));
    for (month, gpu_hours) in [("2026-09", "16.000000"), ("2026-10", "138.900278"), ("2026-11", "0.000000")] {
        let report = bill.report(&format!("--month {month} --time-zone Europe/Berlin --flat-rate 1.00"))?;
        assert_eq!(report["gpu_hours"], gpu_hours, "{month}");
    }
    let projects = bill.report("--month 2026-10 --time-zone Europe/Berlin --flat-rate 1.00 --by project")?;
    let groups: Vec<_> = projects["groups"].as_array().into_iter().flatten().collect();
    let hours: Vec<_> = groups.iter().map(|group| (&group["key"], &group["gpu_hours"])).collect();
    // 110, 111, 112, 118, 124 and 125 are of chem: 2 + 6 + 4 + 2 + 0.4 + 1/3600.
    assert_eq!(hours, [(&json!("bio"), &json!("124.500000")), (&json!("chem"), &json!("14.400278"))]);
    Ok(())
}

#[tokio::test]
async fn what_slurm_corrects_is_corrected() -> anyhow::Result<()> {
    let bill = Bill::start().await?;
    let header = "JobIDRaw|Cluster|Account|User|State|Submit|Start|End|Elapsed|Suspended|AllocTRES";
    let job = |state: &str, end: &str, elapsed: &str| {
        format!("{header}\n7|kiel|bio|ana|{state}|1790812800|1790812800|{end}|{elapsed}|00:00:00|gres/gpu=1\n")
    };
    let runs = bill.file("runs", &job("RUNNING", "Unknown", "10:00:00"))?;
    // The controller was lost with the job; `sacctmgr show runawayjobs` ends such a job at its start.
    let runaway = bill.file("runaway", &job("COMPLETED", "1790812800", "00:00:00"))?;
    let october = "--month 2026-10 --flat-rate 1.00";
    // Nothing to correct is nothing to store.
    bill.done(&format!("import --format sacct {runaway}"))?;
    assert_eq!(bill.count("allocations").await?, 0);
    bill.done(&format!("import --format sacct {runs}"))?;
    assert_eq!(bill.report(october)?["gpu_hours"], "10.000000");
    for file in [&runaway, &runs] {
        bill.done(&format!("import --format sacct {file}"))?;
        let report = bill.report(october)?;
        assert_eq!((&report["gpu_hours"], &report["facts"]["allocations"]), (&json!("0.000000"), &json!(0)));
    }
    Ok(())
}

#[tokio::test]
async fn faults_and_wrong_options_are_told_and_store_nothing() -> anyhow::Result<()> {
    let bill = Bill::start().await?;
    let good = std::fs::read_to_string(data("tricky.txt"))?;
    let bad = bill.file("bad.txt", &good.replace("gres/gpu:h100=32,gres/gpu=32", "gres/gpu:h100=32,gres/gpu=31"))?;
    for option in ["", " --dry-run"] {
        let arguments = format!("import --format sacct --time-zone Europe/Berlin{option} {bad}");
        let (code, said) = failed(&bill.contador(&arguments)?);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("bad.txt:23: AllocTRES: "), "{said}");
        assert!(said.contains("expected gres/gpu to be as many as those of its types"), "{said}");
    }
    assert_eq!((bill.count("allocations").await?, bill.count("owners").await?), (0, 0));
    let csv = bill.allocations("one.csv", &[])?;
    for (arguments, expected) in [
        (format!("--format allocations --time-zone UTC {csv}"), "--time-zone is only for --format sacct"),
        (format!("--format sacct --time-zone Mars {csv}"), "time zone \"Mars\": expected a name"),
        (format!("--format sacct --gpu-model h100 {csv}"), "expected TYPE=MODEL"),
        (format!("--format sacct --gpu-model a=b --gpu-model A=c {csv}"), "--gpu-model a: expected each type once"),
        (format!("--format sacct --shards-per-gpu 3 {csv}"), "expected a number that 1 can be divided by"),
    ] {
        let (code, said) = failed(&bill.contador(&format!("import {arguments}"))?);
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains(expected), "{said}");
    }
    Ok(())
}

/// The installed Slurm has the columns by the names that are looked for. `sacct --helpformat` says them only with a running
/// slurmdbd; the program has them as C strings, some of them as the end of a longer one.
#[test]
fn the_installed_sacct_has_these_columns() -> anyhow::Result<()> {
    let Some(path) = ["/usr/bin/sacct", "/usr/local/bin/sacct"].map(Path::new).into_iter().find(|path| path.is_file())
    else {
        println!("\nLEFT OUT: no sacct here (tests/setup.sh installs slurm-wlm): its columns are not looked up.\n");
        return Ok(());
    };
    let program = std::fs::read(path)?;
    for column in contador::bill::import::sacct::USED {
        let text = format!("{column}\0");
        assert!(program.windows(text.len()).any(|bytes| bytes == text.as_bytes()), "{column}");
    }
    Ok(())
}
