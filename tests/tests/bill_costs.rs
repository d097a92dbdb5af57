//! `GET /api/v1/costs` against the real engine: the same numbers as the report, by any dimensions, and what a unit of work costs.
#![allow(clippy::unwrap_used, reason = "a test ends at what it does not expect")]

mod bill_store;

use bill_store::Bill;
use contador_schemas::owner::{Owner, OwnerKind};
use contador_schemas::rows::{Device, LedgerRow, OwnerRow, Served};
use contador_tests::Collector;
use serde_json::{Value, json};
use uuid::Uuid;

const OCTOBER: u32 = 1_790_812_800; // 2026-10-01T00:00:00Z

async fn get(collector: &Collector, query: &str) -> (u16, Value) {
    let answer = reqwest::get(format!("{}/api/v1/costs?{query}", collector.web)).await.unwrap();
    let status = answer.status().as_u16();
    (status, serde_json::from_str(&answer.text().await.unwrap()).unwrap())
}

fn held(minute: u32, owner: &Owner, share_ms: u32, busy_ms: u32) -> LedgerRow {
    LedgerRow {
        minute: OCTOBER + minute * 60,
        device: "GPU-1".to_owned(),
        owner: owner.id(),
        kind: owner.kind.as_str().to_owned(),
        node: "n1".to_owned(),
        held_ms: share_ms,
        share_ms,
        busy_ms,
        // Of what is held: an agent's row of nobody's time has none.
        idle_ms: if owner.kind == OwnerKind::Workload { share_ms - busy_ms } else { 0 },
        ..LedgerRow::default()
    }
}

fn answered(window: u32, owner: Uuid, service: &str, requests: Option<u64>, tokens: Option<u64>) -> Served {
    Served {
        window,
        start_ts: i64::from(window) * 1_000_000_000,
        ts: i64::from(window + 10) * 1_000_000_000,
        service: service.to_owned(),
        owner,
        requests,
        output_tokens: tokens,
        ..Served::default()
    }
}

/// An hour of one GPU at 4.00: chat has 45 minutes, half of them busy, rank has the rest less five minutes, which are idle.
async fn hour(bill: &Bill) -> [Owner; 2] {
    let owner = |project: &str, service: &str| Owner {
        department: "search".into(),
        project: project.into(),
        service: service.into(),
        ..Owner::default()
    };
    let owners = [owner("assistant", "chat"), owner("ranking", "rank")];
    let [chat, rank] = &owners;
    let idle = Owner::of_kind(OwnerKind::Idle);
    let mut rows = Vec::new();
    for minute in 0..60 {
        rows.push(match minute {
            0..45 => held(minute, chat, 60_000, 30_000),
            45..55 => held(minute, rank, 60_000, 60_000),
            _ => held(minute, &idle, 60_000, 0),
        });
    }
    bill.insert(&rows).await.unwrap();
    bill.insert(&[Device { id: "GPU-1".into(), model: "H100".into(), ..Device::default() }]).await.unwrap();
    bill.insert(&owners.each_ref().map(OwnerRow::from)).await.unwrap();
    let served = [
        answered(OCTOBER, chat.id(), "chat", Some(2_000), Some(400_000)),
        answered(OCTOBER + 3_590, chat.id(), "chat", Some(1_000), Some(200_000)),
        // Nobody knows whose these were, but they were rank's; and one that nobody counts tokens of.
        answered(OCTOBER + 60, Uuid::nil(), "rank", Some(500), None),
        // Of a service whose GPUs nobody meters.
        answered(OCTOBER + 90, Uuid::nil(), "elsewhere", Some(11), None),
        // Not of this day.
        answered(OCTOBER + 86_400, chat.id(), "chat", Some(7), Some(7)),
    ];
    bill.insert(&served).await.unwrap();
    owners
}

#[tokio::test]
async fn costs_are_those_of_the_report_and_units_those_of_the_same_owners() {
    let bill = Bill::start().await.unwrap();
    hour(&bill).await;
    let collector = Collector::start(bill.url(), "").unwrap();
    collector.ready().await.unwrap();
    let (status, fault) = get(&collector, "month=2026-10").await;
    assert_eq!((status, fault["error"].as_str().unwrap().starts_with("no prices: load")), (409, true));
    let book = bill.file("p.toml", "currency = \"EUR\"\n[[rate]]\ngpu_model = \"H100\"\nhourly = \"4\"\n").unwrap();
    bill.done(&format!("prices load {book}")).unwrap();

    let day = "from=2026-10-01&to=2026-10-02";
    let (status, costs) = get(&collector, &format!("{day}&by=service")).await;
    assert_eq!(status, 200, "{costs}");
    let groups = costs["groups"].as_array().unwrap();
    let of = |name: &str| groups.iter().find(|group| group["service"] == name).unwrap();
    // 45 minutes at 4.00 an hour are 3.00: 3,000 requests, 600,000 tokens, and 22.5 busy minutes.
    assert_eq!((&of("chat")["cost"], &of("chat")["gpu_hours"]), (&json!("3.000000"), &json!("0.750000")));
    assert_eq!(of("chat")["served"], json!({ "requests": 3_000, "input_tokens": null, "output_tokens": 600_000 }));
    let units = &of("chat")["units"];
    assert_eq!(
        (&units["per_1000_requests"], &units["per_million_output_tokens"]),
        (&json!("1.000000"), &json!("5.000000"))
    );
    assert_eq!((&units["per_busy_gpu_hour"], &units["utilisation"]), (&json!("8.000000"), &json!("0.500000")));
    assert_eq!(units["requests_per_gpu_hour"], "4000.000000");
    // Ten minutes are 0.666667: 500 requests by the name of the service alone, and no tokens that anybody counted.
    assert_eq!(
        (&of("rank")["cost"], &of("rank")["units"]["per_1000_requests"]),
        (&json!("0.666667"), &json!("1.333334"))
    );
    assert_eq!(of("rank")["units"]["per_million_output_tokens"], Value::Null);
    assert_eq!((&costs["total"]["cost"], &costs["fleet"]["cost"]), (&json!("4.000000"), &json!("4.000000")));
    assert_eq!(costs["served_of_others"]["requests"], 11);

    assert_eq!(costs["fleet"]["unknown_use_gpu_hours"], "0.000000");

    // By project, nobody knows whose rank's requests were: they are told apart.
    let (_, costs) = get(&collector, &format!("{day}&by=project,category&department=search")).await;
    assert_eq!(costs["served_of_others"], json!({ "requests": 3_511, "input_tokens": null, "output_tokens": 600_000 }));
    let (_, costs) = get(&collector, &format!("{day}&by=project&department=search")).await;
    assert_eq!(costs["served_of_others"]["requests"], 511);
    assert_eq!(costs["total"]["cost"], "3.666667");

    // The same as the report's, in every dimension.
    for by in ["department", "project", "experiment", "user", "service", "gpu-model", "day", "category"] {
        let (_, costs) = get(&collector, &format!("{day}&by={by}")).await;
        let report = bill.report(&format!("--from 2026-10-01 --to 2026-10-02 --by {by}")).unwrap();
        let mut told: Vec<&Value> = costs["groups"].as_array().unwrap().iter().map(|group| &group["cost"]).collect();
        let mut expected: Vec<&Value> =
            report["groups"].as_array().unwrap().iter().map(|group| &group["cost"]).collect();
        told.sort_by_key(|value| value.to_string());
        expected.sort_by_key(|value| value.to_string());
        assert_eq!((told, &costs["total"]["cost"]), (expected, &report["total"]), "{by}");
    }

    let (status, fault) = get(&collector, "month=2026-10&by=team").await;
    assert_eq!(
        (status, fault["error"].as_str().unwrap().starts_with("by: \"team\", expected department")),
        (400, true)
    );
    let (status, empty) = get(&collector, "month=2026-09").await;
    assert_eq!((status, &empty["groups"], &empty["total"]["cost"]), (200, &json!([]), &json!("0.000000")));
}
