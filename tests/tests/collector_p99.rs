//! `contador p99` on what was sent by OTLP.

use std::process::Command;

use contador_tests::{Collector, Engine, binary};
use opentelemetry_proto::tonic::metrics::v1::AggregationTemporality;

mod collector_support;
use collector_support::{accepted, histogram, now, request};

const SECOND: u64 = 1_000_000_000;

#[tokio::test]
async fn the_command_tells_an_interval_and_its_state() {
    let engine = Engine::start().unwrap();
    let collector = Collector::start(engine.url(), "").unwrap();
    collector.ready().await.unwrap();
    let time = now() * SECOND;
    let interval = (time - 10 * SECOND, time);
    let send = |service, bounds: &[f64], counts: &[u64]| {
        request(&[("service.name", service)], vec![histogram(AggregationTemporality::Delta, interval, bounds, counts)])
    };
    // 1,000 requests, the 990th of which is in (0.100, 0.105] s.
    accepted(&collector.http, &send("narrow", &[0.05, 0.1, 0.105], &[500, 480, 20, 0])).await;
    // All in the first of wide buckets.
    accepted(&collector.http, &send("wide", &[0.3, 0.5], &[1_000, 0, 0])).await;
    accepted(&collector.http, &send("beyond", &[30.0], &[2_513, 8_495])).await;
    accepted(&collector.http, &send("few", &[0.100, 0.101], &[0, 1, 0])).await;

    let mut simulated = send("generated", &[0.05, 0.1, 0.105], &[500, 480, 20, 0]);
    let resource = simulated.resource_metrics[0].resource.as_mut().unwrap();
    resource.attributes.extend(collector_support::attributes(&[("contador.simulated", "true")]));
    accepted(&collector.http, &simulated).await;
    // Two of 2^63 are more than 64 bits hold.
    for replica in ["one", "other"] {
        let interval = histogram(AggregationTemporality::Delta, interval, &[0.1], &[1 << 63, 0]);
        accepted(&collector.http, &request(&[("service.name", "absurd"), ("host.name", replica)], vec![interval]))
            .await;
    }

    let p99 = |arguments: &[&str]| {
        let run = Command::new(binary("contador").unwrap())
            .args(["p99", "--clickhouse", engine.url()])
            .args(arguments)
            .output()
            .unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (run.status.code(), text(run.stdout), text(run.stderr))
    };
    let json = |service| {
        let (code, out, told) = p99(&["--service", service, "--json"]);
        assert_eq!(code, Some(0), "{told}");
        serde_json::from_str::<serde_json::Value>(&out).unwrap()
    };
    let narrow = json("narrow");
    assert_eq!((&narrow["low_us"], &narrow["high_us"]), (&serde_json::json!(100_000.0), &serde_json::json!(105_000.0)));
    assert_eq!((&narrow["state"], &narrow["n"]), (&serde_json::json!("ok"), &serde_json::json!(1_000)));
    assert_eq!((&narrow["metric"], &narrow["q"]), (&serde_json::json!("request_duration"), &serde_json::json!(0.99)));
    let point = narrow["point_us"].as_f64().unwrap();
    assert!((100_000.0..=105_000.0).contains(&point));
    assert_eq!(json("wide")["state"], "unresolved");
    assert_eq!(json("few")["state"], "too_few");
    let beyond = json("beyond");
    assert_eq!((&beyond["low_us"], &beyond["high_us"]), (&serde_json::json!(30_000_000.0), &serde_json::Value::Null));

    assert_eq!(
        (&narrow["simulated"], &json("generated")["simulated"]),
        (&serde_json::json!(false), &serde_json::json!(true))
    );
    let (_, out, _) = p99(&["--service", "generated"]);
    assert!(out.contains(", 1000 requests; with 95 % confidence") && out.ends_with("; simulated\n"), "{out}");
    let (code, _, told) = p99(&["--service", "absurd"]);
    assert!(code == Some(1) && told.contains("add up to more than 18446744073709551615"), "{told}");
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    for arguments in
        [["p99", "--service", "narrow"].as_slice(), &["migrate"], &["migrate", "--dry-run", "--cluster", "c"]]
    {
        let mut command = Command::new(binary("contador").unwrap());
        let run = command.args(arguments).args(["--clickhouse", engine.url()]).stdout(full.try_clone().unwrap());
        let run = run.output().unwrap();
        let told = String::from_utf8(run.stderr).unwrap();
        assert_eq!(run.status.code(), Some(1), "{arguments:?}: {told}");
        assert!(told.contains("standard output"), "{told}");
    }

    let (code, out, _) = p99(&["--service", "narrow"]);
    assert_eq!(code, Some(0));
    assert_eq!(
        out,
        "narrow request_duration q0.99: 102.500 ms (from 100.000 ms to 105.000 ms), 1000 requests; with 95 % confidence from \
         100.000 ms to 105.000 ms\n"
    );
    let (_, out, _) = p99(&["--service", "narrow", "--metric", "queue_time"]);
    assert_eq!(out, "narrow queue_time q0.99: no traffic\n");
    let (code, _, told) = p99(&["--service", "nobody"]);
    assert_eq!(code, Some(2));
    assert!(told.contains("services that have some: absurd, beyond, few, generated, narrow, wide"), "{told}");
    assert_eq!(p99(&["--service", "narrow", "--q", "99"]).0, Some(2));
}
