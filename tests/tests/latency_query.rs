//! Quantiles by every way out: the API, the command, Prometheus' page and the SQL for people, on the real engine.
#![allow(clippy::unwrap_used, reason = "a test ends at what it does not expect")]

use std::process::Command;
use std::time::{Duration, Instant};

use clickhouse::Row;
use contador::latency::{Ask, Label};
use contador::store::Store;
use contador_schemas::cells::Cell;
use contador_schemas::quantile::{Answer, Quantile};
use contador_tests::{Collector, Engine, binary};
use serde::Deserialize;
use serde_json::{Value, json};

mod latency_support;
mod prometheus_support;
use latency_support::{METRIC, Numbers, SERVICE, Seen, insert, some_day, store, truth};
use prometheus_support::promtool;

const DAY: u32 = 86_400;

/// Status and body of a page of the API.
async fn get(collector: &Collector, page: &str) -> (u16, Value) {
    let answer = reqwest::get(format!("{}/api/v1/latency/{page}", collector.web)).await.unwrap();
    assert_eq!(answer.headers()["content-type"], "application/json");
    let status = answer.status().as_u16();
    let text = answer.text().await.unwrap();
    assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    (status, serde_json::from_str(&text).unwrap())
}

/// An answer as the API words it.
fn words(answer: &Answer) -> Value {
    let Answer { low, high, point, ci_low, ci_high, state, n } = answer;
    json!([low, high, point, ci_low, ci_high, state, n])
}

/// The same as it is read from JSON's text, which is off by a last digit at times.
fn read_again(value: &Value) -> Value {
    serde_json::from_str(&value.to_string()).unwrap()
}

fn told(point: &Value) -> Value {
    let names = ["low_us", "high_us", "point_us", "ci_low_us", "ci_high_us", "state", "n"];
    names.iter().map(|name| point[*name].clone()).collect()
}

#[tokio::test]
async fn the_api_and_the_sql_for_people_tell_what_the_rows_add_up_to() {
    let engine = Engine::start().unwrap();
    let store = store(&engine, "contador").await;
    let day = some_day();
    let seen = Numbers(11).rows(3_000, (day, day + 2 * DAY));
    insert(&store, &seen).await;
    // Another service came late: the pass leaves the window out, for all.
    let other = Seen { service: "other", stored: millis(), ..Seen::at(day + 7_200, seen[0].cells.clone()) };
    insert(&store, &[other]).await;
    // Once from rows, once from roll-ups, once with rows that came late.
    both_ways(&engine, &store, &seen, "rows").await;
    contador::latency::rollup::pass(&store).await.unwrap();
    both_ways(&engine, &store, &seen, "roll-ups").await;
    let mut late = Numbers(12).rows(60, (day, day + 2 * DAY));
    late.iter_mut().for_each(|row| (row.source, row.stored) = (7, i64::from(day + 10 * DAY) * 1_000));
    insert(&store, &late).await;
    let mut seen: Vec<Seen> = seen.into_iter().chain(late).collect();
    both_ways(&engine, &store, &seen, "late rows").await;
    // A clock that was set back has left watermarks of tomorrow: what came just now is in no roll-up all the same.
    let ahead = "INSERT INTO rollups SELECT level, max(pass) + 1, now64(3) + INTERVAL 1 DAY, 0, now64(3) FROM rollups \
                 GROUP BY level";
    store.client.query(ahead).execute().await.unwrap();
    let mut newest = Numbers(14).rows(60, (day, day + 2 * DAY));
    newest.iter_mut().for_each(|row| (row.source, row.stored) = (8, millis()));
    insert(&store, &newest).await;
    seen.extend(newest);
    both_ways(&engine, &store, &seen, "watermarks ahead of the clock").await;
}

/// Unix milliseconds.
fn millis() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    i64::try_from(now.as_millis()).unwrap()
}

#[derive(Deserialize, Row)]
struct Line {
    low: Option<f64>,
    high: Option<f64>,
    point: Option<f64>,
    ci_low: Option<f64>,
    ci_high: Option<f64>,
    state: String,
    n: u64,
}

#[derive(Deserialize, Row)]
struct StepLine {
    time: u32,
    low: f64,
    high: Option<f64>,
    point: Option<f64>,
    ci_low: Option<f64>,
    ci_high: Option<f64>,
    state: String,
    n: u64,
}

const WHOLE: &str = include_str!("../../dashboards/queries/latency_quantile.sql");
const BY_STEP: &str = include_str!("../../dashboards/queries/latency_quantile_by_step.sql");

async fn both_ways(engine: &Engine, store: &Store, seen: &[Seen], when: &str) {
    let collector = Collector::start(engine.url(), "").unwrap();
    collector.ready().await.unwrap();
    let day = some_day();
    let asked = [(day, day + 2 * DAY, "0.99"), (day + 7, day + 50_003, "0.5"), (day + 3_600, day + 90_000, "0.999")];
    for (from, to, q) in asked {
        let mut ask = Ask::p99(SERVICE, METRIC, from, to);
        ask.quantiles = vec![contador::latency::read::quantile(q).unwrap()];
        let expected = words(&truth(seen, &ask, |_| true).1);
        let (status, body) = get(&collector, &format!("quantile?service=api&q={q}&from={from}&to={to}")).await;
        assert_eq!(status, 200, "{body}");
        assert_eq!(told(&body["series"][0]["points"][0]), read_again(&expected), "{when} {from} {to} {q}");
        let (first, last) = ask.windows();
        assert_eq!((&body["from"], &body["to"]), (&json!(first), &json!(last)));

        let bound = |sql, step: u32, model: &str| {
            let query = store.client.query(sql).param("service", SERVICE).param("metric", METRIC).param("model", model);
            let query = query.param("q", ask.quantiles[0].fraction()).param("from", from).param("to", to);
            query.param("step", step).param("max_ratio", 1.1_f64)
        };
        let Line { low, high, point, ci_low, ci_high, state, n } = bound(WHOLE, 0, "").fetch_one().await.unwrap();
        assert_eq!(json!([low, high, point, ci_low, ci_high, state, n]), expected, "{when}: the SQL for people");

        for (step, model) in [(3_600, ""), (7_210, "other"), (DAY, "m")] {
            let keep = |seen: &Seen| model.is_empty() || seen.model == model;
            let page = format!("quantile?service=api&q={q}&from={from}&to={to}&step={step}&model={model}");
            let (_, body) = get(&collector, &page).await;
            let points = body["series"][0]["points"].as_array().unwrap();
            assert_eq!(u32::try_from(points.len()).unwrap(), (last - 1) / step - first / step + 1);
            let lines: Vec<StepLine> = bound(BY_STEP, step, model).fetch_all().await.unwrap();
            let mut lines = lines.into_iter().peekable();
            for point in points {
                let time = |name: &str| u32::try_from(point[name].as_u64().unwrap()).unwrap();
                let part = Ask { from: time("from"), to: time("to"), ..ask.clone() };
                let expected = words(&truth(seen, &part, keep).1);
                assert_eq!(told(point), read_again(&expected), "{when} {step} {model:?}");
                if let Some(line) = lines.next_if(|line| line.time == part.from) {
                    let StepLine { low, high, point, ci_low, ci_high, state, n, .. } = line;
                    assert_eq!(json!([low, high, point, ci_low, ci_high, state, n]), expected, "{when}: SQL by step");
                } else {
                    assert_eq!(point["state"], "no_traffic");
                }
            }
            assert!(lines.next().is_none(), "a step that the API does not tell");
        }
    }
    let all = format!("from={day}&to={}", day + 2 * DAY);
    let (_, body) = get(&collector, &format!("quantile?service=api&{all}&by=model,label.region")).await;
    let series = body["series"].as_array().unwrap();
    let labels: Vec<&Value> = series.iter().map(|series| &series["labels"]).collect();
    let expected = [
        json!({"model": "m", "region": "eu"}),
        json!({"model": "other", "region": "us"}),
        json!({"model": "third", "region": "eu"}),
    ];
    assert_eq!(labels, expected.iter().collect::<Vec<_>>());
    let ask = Ask::p99(SERVICE, METRIC, day, day + 2 * DAY);
    assert_eq!(told(&series[1]["points"][0]), read_again(&words(&truth(seen, &ask, |seen| seen.model == "other").1)));
    let (_, body) = get(&collector, &format!("quantile?service=api&{all}&label.region=eu")).await;
    let eu = ask.clone().only(Label::Attribute("region".to_owned()), "eu");
    assert_eq!(
        told(&body["series"][0]["points"][0]),
        read_again(&words(&truth(seen, &eu, |seen| seen.region == "eu").1))
    );
    // What a caller writes is a value, whatever it looks like.
    let (status, body) =
        get(&collector, &format!("quantile?service=api&{all}&model=m%27%20OR%201=1--&by=x%27%5D,%3F")).await;
    assert_eq!((status, body["series"].as_array().unwrap().len()), (200, 0), "{body}");
}

#[tokio::test]
async fn faults_of_the_caller_are_named_and_an_engine_that_is_away_is_asked_again_later() {
    let mut engine = Engine::start().unwrap();
    let store = store(&engine, "contador").await;
    let day = some_day();
    let cells = vec![Cell { lo: 1_000.0, hi: 1_010.0, n: 500 }];
    insert(&store, &[Seen::at(day, cells.clone()), Seen { metric: "queue_time", ..Seen::at(day, cells) }]).await;
    let collector = Collector::start(engine.url(), "").unwrap();
    collector.ready().await.unwrap();
    let all = format!("from={day}&to={}", day + DAY);
    for (page, expected) in [
        (format!("quantile?{all}"), "service: missing, expected the name of a service"),
        (
            format!("quantile?service=api&q=2&{all}"),
            "q: \"2\", expected a number from 0 to 1 with at most 6 digits after the point",
        ),
        (format!("quantile?service=api&step=15s&{all}"), "step: 15 s, expected a multiple of 10 s"),
        ("quantile?service=api&from=20&to=10".to_owned(), "to: 10, expected a time after from, which is 20"),
        (
            "quantile?service=api&from=0&to=1000200&step=10".to_owned(),
            "step: 10 s makes 100020 points of 1000200 s, expected at most 11000: a step of 100 s or more",
        ),
        (
            "quantile?service=api&owner=me".to_owned(),
            "owner: \"me\", expected the UUID of an owner, such as 84192a7a-9828-5cd3-9ac0-9ba51682be12",
        ),
        (
            "phases?service=api&q=0.5".to_owned(),
            "q: \"0.5\", expected no such parameter of phases, but service, model, route, environment, owner, device, from, \
             to, last, max_ratio, label.NAME",
        ),
        ("services?owner=me".to_owned(), "owner: \"me\", expected no such parameter of services, but from, to, last"),
    ] {
        let (status, body) = get(&collector, &page).await;
        assert_eq!((status, body["error"].as_str().unwrap()), (400, expected), "{page}");
    }
    for page in ["quantiles", "", "quantile/p99"] {
        let (status, body) = get(&collector, page).await;
        let expected =
            format!("\"/api/v1/latency/{page}\", expected one of /api/v1/latency/quantile, phases and services");
        assert_eq!((status, body["error"].as_str().unwrap()), (404, expected.as_str()));
    }
    let post = reqwest::Client::new().post(format!("{}/api/v1/latency/quantile", collector.web)).send().await.unwrap();
    assert_eq!((post.status().as_u16(), post.headers()["allow"].to_str().unwrap()), (405, "GET,HEAD"));
    assert_eq!(post.json::<Value>().await.unwrap(), json!({ "error": "\"POST\", expected GET" }));
    // L6: no traffic is an answer, and who asks for a service that has none is told which have.
    let (status, body) = get(&collector, &format!("quantile?service=apy&{all}")).await;
    assert_eq!((status, &body["series"][0]["points"][0]["state"]), (200, &json!("no_traffic")));
    assert_eq!((&body["services"], &body["services_with_traffic"]), (&json!(["api"]), &json!(1)));
    let (_, body) = get(&collector, &format!("quantile?service=api&metric=decode_time&{all}")).await;
    assert_eq!((&body["series"][0]["points"][0]["n"], &body["services"]), (&json!(0), &Value::Null));
    let metrics = json!(["queue_time", "request_duration"]);
    assert_eq!((&body["metrics"], &body["metrics_with_traffic"]), (&metrics, &json!(2)));
    let (_, body) = get(&collector, &format!("quantile?service=api&model=other&{all}")).await;
    assert_eq!((&body["series"][0]["points"][0]["n"], &body["metrics"]), (&json!(0), &Value::Null));
    let (_, body) = get(&collector, &format!("services?{all}")).await;
    assert_eq!(body["services"], json!([{ "service": "api", "metrics": ["queue_time", "request_duration"] }]));
    // Any time that there is.
    let (status, body) = get(&collector, "quantile?service=api&from=0&to=4294967290").await;
    assert_eq!((status, &body["series"][0]["points"][0]["n"]), (200, &json!(500)), "{body}");

    engine.kill().unwrap();
    let (status, body) = get(&collector, &format!("quantile?service=api&{all}")).await;
    assert_eq!(status, 503, "{body}");
    assert!(!body["error"].as_str().unwrap().is_empty());
}

#[tokio::test]
async fn phases_are_told_and_the_network_is_a_difference_of_means_only() {
    let engine = Engine::start().unwrap();
    let store = store(&engine, "contador").await;
    let day = some_day();
    let phase = |metric, us: f64| Seen {
        metric,
        sum_us: Some(us * 400.0),
        ..Seen::at(day, vec![Cell { lo: us, hi: us, n: 400 }])
    };
    let mut rows = vec![
        phase("queue_time", 5_000.0),
        phase("prefill_time", 20_000.0),
        phase("decode_time", 75_000.0),
        phase("request_duration", 100_000.0),
        phase("client_request_duration", 130_000.0),
    ];
    // Aborted requests are of no use for a mean.
    let aborted = vec![Cell { lo: 1.0, hi: f64::INFINITY, n: 100 }];
    rows.push(Seen { source: 2, censored: 100, sum_us: Some(1e9), ..Seen::at(day, aborted) });
    insert(&store, &rows).await;
    let other = |metric, us: f64| Seen { service: "odd", ..phase(metric, us) };
    insert(&store, &[other("request_duration", 100.0), other("client_request_duration", 90.0)]).await;
    let collector = Collector::start(engine.url(), "").unwrap();
    collector.ready().await.unwrap();
    for round in ["rows", "roll-ups"] {
        let page = |service: &str| format!("phases?service={service}&from={day}&to={}", day + DAY);
        let (status, body) = get(&collector, &page("api")).await;
        assert_eq!(status, 200, "{body}");
        let phases = body["phases"].as_array().unwrap();
        let shown: Vec<Value> =
            phases.iter().map(|phase| json!([phase["phase"], phase["mean_us"], phase["p99"]["low_us"]])).collect();
        let expected = [
            json!(["queue", 5_000.0, 5_000.0]),
            json!(["prefill", 20_000.0, 20_000.0]),
            json!(["decode", 75_000.0, 75_000.0]),
            json!(["server", 100_000.0, 100_000.0]),
            json!(["client", 130_000.0, 130_000.0]),
        ];
        assert_eq!(shown, expected, "{round}");
        assert_eq!(phases[3]["p99"]["state"], "censored");
        assert_eq!(body["network"], json!({ "state": "ok", "mean_us": 30_000.0 }));
        let (_, body) = get(&collector, &page("odd")).await;
        assert_eq!(body["network"], json!({ "state": "inconsistent", "mean_us": null }));
        let run = |service: &str| command(&engine, &["--phases", "--service", service, "--from", &day.to_string()]);
        let (code, out, _) = run("api");
        assert_eq!(code, Some(0));
        assert!(out.contains("network: 30.000 ms of the mean"), "{out}");
        assert!(run("odd").1.contains("network: inconsistent, the server's mean is 10 µs above the client's"));
        contador::latency::rollup::pass(&store).await.unwrap();
    }
}

/// `contador p99` with these arguments: exit code, output and errors.
fn command(engine: &Engine, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(binary("contador").unwrap());
    let run = command.args(["p99", "--clickhouse", engine.url()]).args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (run.status.code(), text(run.stdout), text(run.stderr))
}

#[tokio::test]
async fn the_command_tells_steps_labels_and_any_time() {
    let engine = Engine::start().unwrap();
    let (code, _, error) = command(&engine, &["--service", "api"]);
    assert_eq!(code, Some(1), "no tables yet: {error}");
    let store = store(&engine, "contador").await;
    let (code, _, error) = command(&engine, &["--service", "api", "--from", "0", "--step", "400d"]);
    assert_eq!(code, Some(2));
    assert!(error.contains("services that have some: none"), "{error}");
    let day = some_day();
    let seen = Numbers(13).rows(500, (day, day + DAY));
    insert(&store, &seen).await;
    let (from, to) = (day.to_string(), (day + DAY).to_string());
    let all = ["--service", "api", "--from", &from, "--to", &to];
    let run = |more: &[&str]| command(&engine, &[&all, more].concat());
    let (code, out, _) = run(&["--step", "6h", "--by", "model"]);
    assert_eq!(code, Some(0));
    assert_eq!(out.lines().count(), 3 + 3 * 4, "{out}");
    let start = jiff::Timestamp::from_second(day.into()).unwrap().to_string();
    assert!(out.starts_with(&format!("api request_duration q0.99, {start} to ")), "{out}");
    let (_, out, _) = run(&["--step", "6h", "--by", "label.region", "--json", "--label", "region=us"]);
    let body: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(body["series"][0]["labels"], json!({ "region": "us" }));
    assert_eq!(body["series"][0]["points"].as_array().unwrap().len(), 4);
    let ask = Ask::p99(SERVICE, METRIC, day, day + DAY);
    let (code, out, error) = run(&["--by", "model", "--metric", "queue_time"]);
    assert!(code == Some(0) && out.ends_with("Z: no traffic\n"), "{out}");
    assert_eq!(
        error,
        "contador: --metric \"queue_time\": no latencies in this time; metrics that have some: request_duration\n"
    );
    let (_, out, _) = run(&["--json", "--label", "region=us"]);
    let body: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&body["label.region"], &body["model"], &body["service"]), (&json!("us"), &json!(""), &json!("api")));
    let (_, out, _) = run(&["--json", "--model", "third", "--q", "0.5"]);
    let mut median = ask.clone();
    median.quantiles = vec![Quantile::P50];
    let body: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(told(&body), read_again(&words(&truth(&seen, &median, |seen| seen.model == "third").1)));
    for (bad, expected) in [
        (vec!["--step", "15s"], "--step: 15 s, expected a multiple of 10 s"),
        (vec!["--label", "x"], "expected an attribute's name, =, and its value"),
        (vec!["--phases", "--step", "1h"], "cannot be used with"),
        (vec!["--owner", "me"], "expected the UUID of an owner"),
        (vec!["--by", ""], "expected a name"),
        (vec!["--by", "label."], "expected the name of an attribute after the point"),
        (vec!["--metric", ""], "expected a name"),
    ] {
        let (code, _, error) = run(&bad);
        assert!(code == Some(2) && error.contains(expected), "{bad:?}: {error}");
    }
}

#[tokio::test]
async fn prometheus_gets_the_last_five_minutes_and_nothing_where_there_is_nothing() {
    let engine = Engine::start().unwrap();
    let store = store(&engine, "contador").await;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let window = u32::try_from(now - now % 10).unwrap() - 60;
    let cells = vec![Cell { lo: 250_000.0, hi: 250_000.0, n: 1_000 }];
    insert(&store, &[Seen::at(window, cells.clone()), Seen { service: "old", ..Seen::at(window - 3_600, cells) }])
        .await;
    let collector = Collector::start(engine.url(), "").unwrap();
    collector.ready().await.unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    let text = loop {
        let text = reqwest::get(format!("{}/metrics", collector.web)).await.unwrap().text().await.unwrap();
        if text.contains("contador_latency_requests{") {
            break text;
        }
        assert!(Instant::now() < deadline, "{text}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    let labels = "metric=\"request_duration\",model=\"m\",q=\"0.99\",service=\"api\"";
    for line in [
        &format!("contador_latency_quantile_seconds{{bound=\"low\",{labels}}} 0.25"),
        &format!("contador_latency_quantile_seconds{{bound=\"ci_high\",{labels}}} 0.25"),
        &format!("contador_latency_state{{{labels},state=\"ok\"}} 1"),
        "contador_latency_requests{metric=\"request_duration\",model=\"m\",service=\"api\"} 1000",
        "contador_latency_left_out 0",
    ] {
        assert!(text.lines().any(|told| told == line), "{line} is not in\n{text}");
    }
    assert!(!text.contains("\"old\"") && !text.contains("NaN"), "{text}");
    let seen = text.lines().find_map(|line| line.strip_prefix("contador_latency_seen_timestamp_seconds ")).unwrap();
    let seen: f64 = seen.parse().unwrap();
    assert!(now as f64 <= seen && seen <= millis() as f64 / 1e3, "{seen}");
    let ours: Vec<&str> = text.lines().filter(|line| line.contains("contador_latency")).collect();
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(promtool(format!("{}\n", ours.join("\n")).as_bytes(), dir.path()), [""; 0]);
}
