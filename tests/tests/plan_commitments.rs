//! `contador plan commitments` against the real engine, on demand that can be added up by hand.

mod bill_store;

use bill_store::{Bill, failed};
use contador_schemas::owner::{Owner, OwnerKind};
use contador_schemas::rows::{Device, LedgerRow, OwnerRow};
use serde_json::{Value, json};

const MIDNIGHT: u32 = 1_790_812_800; // 2026-10-01T00:00:00Z
const FOUR_HOURS: &str = "--from 2026-10-01T00:00:00Z --to 2026-10-01T04:00:00Z";

fn row(minute: u32, device: &str, owner: &Owner, share_ms: u32) -> LedgerRow {
    LedgerRow {
        minute: MIDNIGHT + minute * 60,
        device: device.to_owned(),
        owner: owner.id(),
        kind: owner.kind.as_str().to_owned(),
        node: "n1".to_owned(),
        held_ms: share_ms,
        share_ms,
        ..LedgerRow::default()
    }
}

/// Four hours of an H100 fleet, whose demand is 2.14285, 3, 2.5 and 2.75 GPUs.
async fn fleet() -> anyhow::Result<Bill> {
    let bill = Bill::start().await?;
    let vision = Owner { project: "vision".into(), job: "7".into(), ..Owner::default() };
    let slice = Owner { department: "a".into(), job: "8".into(), ..Owner::default() };
    let [idle, unmetered] = [OwnerKind::Idle, OwnerKind::Unmetered].map(Owner::of_kind);
    let device = |id: &str, model: &str, mig_profile: &str| Device {
        id: id.to_owned(),
        model: model.to_owned(),
        mig_profile: mig_profile.to_owned(),
        memory_bytes: 80 << 30,
        ..Device::default()
    };
    bill.insert(&[device("GPU-1", "H100", ""), device("MIG-1", "H100 MIG 1g.10gb", "1g.10gb")]).await?;
    bill.insert(&[OwnerRow::from(&vision), OwnerRow::from(&slice)]).await?;
    let mut rows = Vec::new();
    for minute in 0..60 {
        // In the first hour a slice of a seventh, and an hour without an agent.
        rows.push(row(minute, "MIG-1", &slice, 8_571));
        rows.push(row(minute, "GPU-1", &unmetered, 60_000));
        // In the last hour three quarters of a GPU, busy for 9 s of each minute, with 25 GiB of its 80.
        let busy = LedgerRow {
            busy_ms: 9_000,
            idle_ms: 36_000,
            memory_mib_ms: 25_600 * 45_000,
            ..row(180 + minute, "GPU-1", &vision, 45_000)
        };
        rows.push(busy);
        rows.push(row(180 + minute, "GPU-1", &idle, 15_000));
    }
    // Twice, as a retry does.
    bill.insert(&rows).await?;
    bill.insert(&rows).await?;
    let file = bill.allocations(
        "a.csv",
        &[
            "2026-09-30T00:00:00Z,2026-10-02T00:00:00Z,n1,,H100,2,1,,a,,,,,1",
            "2026-10-01T01:00:00Z,2026-10-01T02:00:00Z,n1,,H100,1,1,,b,,,,,2",
            // A quarter of an hour of two GPUs is half a GPU in its hour.
            "2026-10-01T02:00:00Z,2026-10-01T02:15:00Z,n1,,H100,2,1,,b,,,,,3",
        ],
    )?;
    bill.done(&format!("import --format allocations {file}"))?;
    Ok(bill)
}

fn plan(bill: &Bill, arguments: &str) -> anyhow::Result<Value> {
    Ok(serde_json::from_str(&bill.done(&format!("plan commitments --json {FOUR_HOURS} {arguments}"))?)?)
}

fn totals(plan: &Value) -> Vec<&str> {
    plan["points"].as_array().expect("points").iter().filter_map(|point| point["total"].as_str()).collect()
}

fn hourly(bill: &Bill, rates: &[(&str, &str)]) -> anyhow::Result<String> {
    let rate =
        |(hourly, more): &(&str, &str)| format!("[[rate]]\ngpu_model = \"H100\"\nhourly = \"{hourly}\"\n{more}\n");
    let rates: Vec<String> = rates.iter().map(rate).collect();
    bill.file("prices.toml", &format!("currency = \"EUR\"\n{}", rates.concat()))
}

#[tokio::test]
async fn reserving_is_weighed_on_the_demand_of_clock_hours_and_of_minutes() -> anyhow::Result<()> {
    let bill = fleet().await?;
    let prices = hourly(&bill, &[("4", "")])?;
    let told = plan(&bill, &format!("--prices {prices} --reserved-hourly 2.50 --term 8h"))?;
    let fleet = &told["plans"][0];
    assert_eq!((&fleet["gpu_model"], &fleet["whose"]), (&json!("H100"), &json!("whole fleet")));
    assert_eq!((&fleet["gpu_hours"], &fleet["hours"]), (&json!("10.392850"), &json!("4.000000")));
    // 10.39285 h on demand at 4; n × 4 h reserved at 2.50 and the rest on demand: 6.39285 h, 2.39285 h, none.
    assert_eq!(totals(fleet), ["41.571400", "35.571400", "29.571400", "30.000000"]);
    assert_eq!(
        (&fleet["best"], &fleet["saving"], &fleet["saving_over_term"]),
        (&json!(2), &json!("12.000000"), &json!("24.000000"))
    );
    assert_eq!(fleet["break_even_hours"], "2.500000");
    // The third is used in 0.14285 + 1 + 0.5 + 0.75 h.
    assert_eq!(fleet["points"][3]["hours_of_the_last"], "2.392850");
    assert_eq!(fleet["points"][3]["used_permille"], 866);
    let pays: Vec<&Value> = fleet["points"].as_array().expect("points").iter().map(|point| &point["pays"]).collect();
    assert_eq!(pays, [false, true, true, false]);
    let hours: Vec<&Value> = fleet["reached"].as_array().expect("levels").iter().map(|level| &level["hours"]).collect();
    assert_eq!(hours, ["4.000000", "4.000000", "1.000000"]);
    assert_eq!(told["notes"], json!(["H100: 1.000000 GPU-hours were not metered, and are no demand here"]));

    // Reserving nothing is the bill of the same workloads.
    let report = bill.report(&format!("{FOUR_HOURS} --flat-rate 4"))?;
    assert_eq!(report["allocated"]["cost"], totals(fleet)[0]);

    // By the minute, the quarter of an hour of two GPUs more is above three.
    let told = plan(&bill, &format!("--prices {prices} --discount 37.5% --slot minute"))?;
    assert_eq!(totals(&told["plans"][0]), ["41.571400", "35.571400", "29.571400", "31.000000", "40.000000"]);
    assert_eq!(told["plans"][0]["rates"][0]["reserved"], "2.50");

    // A price that changes within the period cuts it: 5.14285 h at 4 and 5.25 h at 6; reserved at half of it.
    let dated = hourly(&bill, &[("4", ""), ("6", "valid_from = 2026-10-01T02:00:00Z")])?;
    let told = plan(&bill, &format!("--prices {dated} --discount 50%"))?;
    assert_eq!(totals(&told["plans"][0]), ["52.071400", "42.071400", "32.071400", "30.000000"]);
    Ok(())
}

#[tokio::test]
async fn departments_are_planned_for_by_themselves_and_by_the_directory() -> anyhow::Result<()> {
    let bill = fleet().await?;
    let prices = hourly(&bill, &[("4", "")])?;
    let of = |told: &Value| -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().expect("a string").to_owned();
        told["plans"]
            .as_array()
            .expect("plans")
            .iter()
            .map(|plan| (text(&plan["whose"]), text(&plan["gpu_hours"])))
            .collect()
    };
    let pair = |whose: &str, hours: &str| (whose.to_owned(), hours.to_owned());
    let asked = format!("--prices {prices} --discount 40% --by department");
    let expected = [pair("(none)", "0.750000"), pair("a", "8.142850"), pair("b", "1.500000")];
    assert_eq!(of(&plan(&bill, &asked)?), expected);
    // From that day on the project is research's: before, it was nobody's.
    let file = bill.file("d.csv", "project,department,cost_centre,valid_from\nvision,research,,2026-10-01\n")?;
    bill.done(&format!("directory load {file}"))?;
    let expected = [pair("a", "8.142850"), pair("b", "1.500000"), pair("research", "0.750000")];
    assert_eq!(of(&plan(&bill, &asked)?), expected);
    let only = plan(&bill, &format!("--prices {prices} --discount 40% --department research"))?;
    assert_eq!(of(&only), [pair("research", "0.750000")]);
    // Processes that nobody owns for a minute are nobody's department.
    bill.insert(&[row(90, "GPU-1", &Owner::of_kind(OwnerKind::Unattributed), 60_000)]).await?;
    assert_eq!(of(&plan(&bill, &asked)?)[3..], [pair("(unattributed)", "0.016667")]);
    // Each of the hours would be billed at 2.40, and it is used for 0.75 of them.
    assert_eq!((totals(&only["plans"][0]), &only["plans"][0]["best"]), (vec!["3.000000", "9.600000"], &json!(0)));
    Ok(())
}

#[tokio::test]
async fn parts_of_gpus_are_weighed_by_use_and_memory() -> anyhow::Result<()> {
    let bill = fleet().await?;
    let prices = hourly(&bill, &[("4", "")])?;
    let told = plan(&bill, &format!("--prices {prices} --discount 40%"))?;
    let shared = &told["plans"][0]["shared"];
    // What was imported counts whole: 8 + 1.5 h. 9 s of a minute are 1.05 sevenths, but 25 GiB 2.5 eighths of 80: three parts for
    // an hour. The slice is a part already: 0.14285 h.
    assert_eq!((&shared["gpu_hours"], &shared["unknown_gpu_hours"]), (&json!("10.071421"), &json!("9.642850")));
    assert_eq!(shared["cost"], "40.285686");
    // Of those whose use is known, a part would do for one, who held 0.75.
    assert_eq!((&shared["fitting_owners"], &shared["fitting_gpu_hours"]), (&json!(1), &json!("0.750000")));
    let owners: Vec<(&str, &Value, &Value)> = shared["owners"]
        .as_array()
        .expect("owners")
        .iter()
        .map(|owner| (owner["owner"].as_str().expect("a name"), &owner["parts"], &owner["use_unknown"]))
        .collect();
    let (yes, no) = (json!(true), json!(false));
    let expected = [
        ("a / 1", &json!(7), &yes),
        ("b / 2", &json!(7), &yes),
        ("vision / 7", &json!(3), &no),
        ("b / 3", &json!(7), &yes),
        ("a / 8", &Value::Null, &yes),
    ];
    assert_eq!(owners[0], expected[0]);
    assert_eq!(owners[1], expected[1]);
    assert_eq!(owners[2..4].iter().find(|owner| owner.0 == "vision / 7"), Some(&expected[2]));
    assert_eq!(owners[4], expected[4]);
    // In halves, the same takes one of two for an hour.
    let told = plan(&bill, &format!("--prices {prices} --discount 40% --fraction-step 1/2"))?;
    assert_eq!(told["plans"][0]["shared"]["gpu_hours"], "10.142850");

    let text = bill.done(&format!("plan commitments {FOUR_HOURS} --prices {prices} --discount 40%"))?;
    assert!(
        text.contains("vision / 7") && text.contains("3/7 of a GPU") && text.contains("has a part already"),
        "{text}"
    );
    Ok(())
}

#[tokio::test]
async fn what_has_no_rate_has_no_plan_and_says_so() -> anyhow::Result<()> {
    let bill = fleet().await?;
    let (code, said) = failed(&bill.contador(&format!("plan commitments {FOUR_HOURS}"))?);
    assert!(code == Some(2) && said.contains("no prices: load a price book"), "{said}");
    let prices = hourly(&bill, &[("4", "")])?;
    let output = bill.contador(&format!("plan commitments {FOUR_HOURS} --prices {prices}"))?;
    let text = String::from_utf8(output.stdout.clone())?;
    assert!(text.contains("H100, whole fleet: no reserved rate"), "{text}");
    assert_eq!(failed(&output).0, Some(2));
    let (code, said) =
        failed(&bill.contador(&format!("plan commitments {FOUR_HOURS} --prices {prices} --discount 40"))?);
    assert!(code == Some(2) && said.contains("\"40\", expected a percentage such as 20%"), "{said}");
    let odd = "plan commitments --from 2026-10-01T00:00:30Z --to 2026-10-01T04:00:00Z --discount 40%";
    let (code, said) = failed(&bill.contador(odd)?);
    assert!(code == Some(2) && said.contains("expected whole minutes"), "{said}");
    let told = plan(&bill, &format!("--prices {prices} --discount 40% --gpu-model L4"))?;
    assert_eq!((&told["plans"], &told["without"]), (&json!([]), &json!([])));
    let chart = bill.file("c.svg", "")?;
    bill.done(&format!("plan commitments {FOUR_HOURS} --prices {prices} --discount 40% --chart {chart}"))?;
    let drawn = std::fs::read_to_string(chart)?;
    assert!(
        drawn.starts_with("<svg") && drawn.contains("H100, whole fleet") && drawn.contains("pays above"),
        "{drawn}"
    );
    Ok(())
}
