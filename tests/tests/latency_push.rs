//! Latencies that are pushed to an agent, in every form, are stored as they were; and the examples for clients work.
#![allow(clippy::unwrap_used, reason = "a test ends at what it does not expect")]

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use clickhouse::Client;
use contador_tests::{Agent, Collector, Engine, binary};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer, V2Serializer};

mod collector_support;
use collector_support::now;

const OWNER: &str = "84192a7a-9828-5cd3-9ac0-9ba51682be12";

struct Running {
    engine: Engine,
    _collector: Collector,
    agent: Agent,
}

impl Running {
    async fn start() -> Self {
        let engine = Engine::start().unwrap();
        let collector = Collector::start(engine.url(), "").unwrap();
        collector.ready().await.unwrap();
        let agent = Agent::start(&collector.grpc, "").unwrap();
        Self { engine, _collector: collector, agent }
    }

    /// Status and answer of a push.
    async fn push(&self, query: &[(&str, &str)], kind: &str, body: impl Into<Vec<u8>>) -> (u16, serde_json::Value) {
        let post = reqwest::Client::new().post(format!("{}/v1/latency", self.agent.url)).query(query);
        let answer = post.header("content-type", kind).body(body.into()).send().await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap())
    }

    /// Waits until so many rows of a table are stored.
    async fn rows(&self, table: &str, rows: u64) -> Client {
        let client = self.engine.client().with_database("contador");
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let sql = format!("SELECT count() FROM {table} FINAL");
            let stored: u64 = client.query(&sql).fetch_one().await.unwrap();
            if stored == rows {
                return client;
            }
            assert!(stored < rows && Instant::now() < deadline, "{stored} rows of {table}, expected {rows}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

/// What is stored of a service, one text a row: cells, count, sum, censored, attributes, model, owner.
async fn stored(client: &Client, service: &str) -> Vec<String> {
    let sql = "SELECT toString((lo, hi, n, count, sum_us, censored, attributes, model, owner)) \
               FROM latency FINAL WHERE service = ? ORDER BY censored";
    client.query(sql).bind(service).fetch_all().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_form_is_stored_as_it_was() {
    let running = Running::start().await;
    let end = now() - 5;
    let (text, window) = (end.to_string(), end - 1 - (end - 1) % 10);
    let mut histogram = Histogram::<u64>::new(3).unwrap();
    for value in [0, 10, 10, 250_000] {
        histogram.record(value).unwrap();
    }
    let mut hdr = Vec::new();
    V2DeflateSerializer::new().serialize(&histogram, &mut hdr).unwrap();

    // A histogram, with labels, an owner, and what was served.
    let labelled = [
        ("service", "labelled"),
        ("model", "m-7b"),
        ("label.tier", "gold"),
        ("owner", OWNER),
        ("requests", "4"),
        ("aborted", "2"),
        ("input_tokens", "1000"),
        ("end", &text),
        ("id", "1"),
    ];
    for _ in 0..2 {
        let (status, told) = running.push(&labelled, "application/octet-stream", hdr.clone()).await;
        let times = format!("{end}.000000000");
        let expected = serde_json::json!({"count": 4, "aborted": 2, "start": times, "end": times, "window": window});
        assert_eq!((status, &told), (200, &expected));
    }
    // Single values with their aborted ones, gzip around them.
    let json = format!(
        r#"{{"service":"single","unit":"ms","values":[0.01,2,0.0005,2],"aborted":[7.25],"requests":4,"end":"{end}","id":"2"}}"#
    );
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(json.as_bytes()).unwrap();
    let post = reqwest::Client::new().post(format!("{}/v1/latency", running.agent.url));
    let post = post.header("content-type", "application/json; charset=utf-8").header("content-encoding", "gzip");
    let answer = post.body(gzip.finish().unwrap()).send().await.unwrap();
    assert_eq!(answer.status(), 200, "{}", answer.text().await.unwrap());
    // L11: requests that were aborted are censored values, of a histogram or of lines.
    let censored = [("service", "aborted"), ("censored", "true"), ("end", &text), ("id", "3")];
    assert_eq!(running.push(&censored, "application/octet-stream", hdr.clone()).await.1["aborted"], 4);
    let lines = [("service", "lines"), ("unit", "s"), ("censored", "true"), ("end", &text), ("id", "4")];
    assert_eq!(running.push(&lines, "text/plain", "0.5\n\n1.5\n").await.1["aborted"], 2);
    // In base 64, whatever it is called; other digits and another unit.
    let mut coarse = Histogram::<u64>::new(1).unwrap();
    coarse.record(1_000).unwrap();
    let mut bytes = Vec::new();
    V2Serializer::new().serialize(&coarse, &mut bytes).unwrap();
    let base64 = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, bytes);
    let coarse = [("service", "coarse"), ("unit", "ns"), ("end", &text)];
    assert_eq!(running.push(&coarse, "text/plain", base64).await.1["count"], 1);
    // L15: an empty one is taken, and makes no row.
    hdr.clear();
    V2DeflateSerializer::new().serialize(&Histogram::<u64>::new(3).unwrap(), &mut hdr).unwrap();
    let empty = [("service", "empty"), ("end", &text)];
    assert_eq!(
        running.push(&empty, "application/octet-stream", hdr).await,
        (
            200,
            serde_json::json!({"count": 0, "aborted": 0, "start": format!("{end}.000000000"), "end": format!("{end}.000000000"),
                           "window": window})
        )
    );
    assert_eq!(running.push(&empty, "application/json", r#"{"values":[]}"#).await.1["count"], 0);

    // Counts of two routes at one instant are two.
    for (route, requests) in [("/a", "100"), ("/b", "50")] {
        let counts = [("service", "two"), ("route", route), ("requests", requests), ("end", &text)];
        assert_eq!(running.push(&counts, "application/json", r#"{"values":[]}"#).await.0, 200);
    }

    let client = running.rows("latency", 7).await;
    let nobody = "00000000-0000-0000-0000-000000000000";
    assert_eq!(
        stored(&client, "labelled").await,
        [
            // The sum is by the middle of each cell.
            format!("([0,10,249984],[0,10,250111],[1,2,1],4,250067.5,0,{{'tier':'gold'}},'m-7b','{OWNER}')"),
            format!("([0],[inf],[2],2,NULL,2,{{'tier':'gold'}},'m-7b','{OWNER}')"),
        ]
    );
    assert_eq!(
        stored(&client, "single").await,
        [
            // 0.5 us are no whole microseconds; the sum is exact.
            format!("([0,10,2000],[0.9999999999999999,10,2000],[1,1,2],4,4010.5,0,{{}},'','{nobody}')"),
            format!("([7250],[inf],[1],1,NULL,1,{{}},'','{nobody}')"),
        ]
    );
    assert_eq!(
        stored(&client, "aborted").await,
        [format!("([0,10,249984],[inf,inf,inf],[1,2,1],4,NULL,4,{{}},'','{nobody}')")]
    );
    assert_eq!(
        stored(&client, "lines").await,
        [format!("([500000,1500000],[inf,inf],[1,1],2,NULL,2,{{}},'','{nobody}')")]
    );
    // 1 digit: 1000 is in [992, 1023].
    let coarse = stored(&client, "coarse").await;
    assert!(coarse[0].starts_with("([0.992],[1.023],[1],1,"), "{coarse:?}");
    let windows: Vec<u64> =
        client.query("SELECT DISTINCT toUInt64(toUnixTimestamp(window)) FROM latency").fetch_all().await.unwrap();
    assert_eq!(windows, [window]);

    let client = running.rows("served", 4).await;
    let sql = "SELECT toString((service, model, owner, requests, aborted, input_tokens, output_tokens)) FROM served FINAL \
               ORDER BY service, requests";
    let served: Vec<String> = client.query(sql).fetch_all().await.unwrap();
    assert_eq!(
        served,
        [
            format!("('labelled','m-7b','{OWNER}',4,2,1000,NULL)"),
            format!("('single','','{nobody}',4,1,NULL,NULL)"),
            format!("('two','','{nobody}',50,NULL,NULL,NULL)"),
            format!("('two','','{nobody}',100,NULL,NULL,NULL)"),
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_push_is_refused_by_name_and_nothing_is_kept() {
    let running = Running::start().await;
    let service = [("service", "refused")];
    for (query, kind, body, status, expected) in [
        (&service[..], "application/json", r#"{"values":[1,-2]}"#, 400, "values[1] is -2, expected a number from 0"),
        (&service, "application/json", r#"{"values":[1],"aborted":[1,-0.5]}"#, 400, "aborted[1] is -0.5"),
        (&service, "application/json", r#"{"values":[1,2,NaN]}"#, 400, "values[2]: expected value at line 1"),
        (&service, "application/json", r#"{"values":[9007199254740994]}"#, 400, "values[0] is 9007199254740994"),
        (
            &service,
            "application/json",
            r#"{"values":[1],"unit":"h"}"#,
            400,
            r#"unit is \"h\", expected ns, us, ms or s"#,
        ),
        (&service, "application/json", r#"{"values":[1],"service":"b"}"#, 400, r#"\"service\" is there twice"#),
        (&[], "application/json", r#"{"values":[1]}"#, 400, "service is missing"),
        (&service, "text/plain", "1\nNaN\n", 400, "line 2 is NaN"),
        (&service, "text/plain", "1\n2 3\n", 400, r#"line 2 is \"2 3\", expected a number"#),
        (&service, "application/json", r#"{"values":[1],"aborted":[2],"censored":true}"#, 400, "expected one of them"),
        (&[("service", "refused"), ("aborted", "1")], "application/json", r#"{"aborted":[2]}"#, 400, "expected one of"),
        (&service, "application/octet-stream", "\u{1c}", 400, "expected an HDR histogram V2"),
    ] {
        let (got, told) = running.push(query, kind, body).await;
        assert!(got == status && told.to_string().contains(expected), "{body}: {got} {told}");
    }
    let page = reqwest::get(format!("{}/metrics", running.agent.url)).await.unwrap().text().await.unwrap();
    assert!(
        page.contains(r#"contador_agent_pushes_total{result="refused"} 12"#) && !page.contains(r#"{result="kept"}"#)
    );
}

/// Runs an example with these milliseconds on its standard input; the values that the agent says it has.
fn client(command: &mut Command, milliseconds: &str) -> u64 {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(milliseconds.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let (said, complained) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {said}{complained}");
    serde_json::from_str::<serde_json::Value>(&said).unwrap()["count"].as_u64().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_examples_for_clients_push() {
    let running = Running::start().await;
    let milliseconds: String = (1..=1_000).map(|value| format!("{}.5\n", value)).collect();
    let url = running.agent.url.as_str();
    let rust = binary("examples/push_latency").expect("expected after cargo build --workspace --all-targets");
    assert_eq!(client(Command::new(rust).args(["rust", url]), &milliseconds), 1_000);
    let python = concat!(env!("CARGO_MANIFEST_DIR"), "/clients/push_latency.py");
    let arguments = [python, "--agent", url, "--service", "python", "--label", "tier=gold"];
    assert_eq!(client(Command::new("python3").args(arguments), &milliseconds), 1_000);

    let stored = running.rows("latency", 2).await;
    let sql = "SELECT toString((service, count, sum_us, attributes, length(lo))) FROM latency FINAL ORDER BY service";
    let rows: Vec<String> = stored.query(sql).fetch_all().await.unwrap();
    // The mean of 1.5 to 1000.5 is 501 ms; that of an HDR histogram is by the middle of its cells.
    assert_eq!(rows[0], "('python',1000,501000000,{'tier':'gold'},1000)");
    assert!(rows[1].starts_with("('rust',1000,") && rows[1].ends_with(",{},1000)"), "{rows:?}");
    for service in ["python", "rust"] {
        let mut p99 = Command::new(binary("contador").unwrap());
        p99.args(["p99", "--json", "--service", service, "--clickhouse", running.engine.url()]);
        let told: serde_json::Value = serde_json::from_slice(&p99.output().unwrap().stdout).unwrap();
        let (low, high) = (told["low_us"].as_f64().unwrap(), told["high_us"].as_f64().unwrap());
        assert!(low <= 990_500.0 && 990_500.0 <= high && high - low < 990.5, "{told}");
        assert_eq!(told["n"], 1_000);
    }
}
