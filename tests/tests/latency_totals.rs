//! Running totals: what is stored is what was counted, whichever collector a point comes to and wherever one is killed.
#![allow(clippy::unwrap_used, reason = "a test ends at what it does not expect")]

use contador_tests::{Collector, Engine};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::metrics::v1::AggregationTemporality;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use prost::Message as _;

mod collector_support;
use collector_support::{accepted, attributes, count, histogram, now, post, request};

const SECOND: u64 = 1_000_000_000;
const API: [(&str, &str); 2] = [("service.name", "api"), ("host.name", "node-1")];
const QUICK: &str = "[ingest]\ninsert_interval_ms = 100\n";

/// A sender of a running total of seconds.
struct Source {
    start: u64,
    time: u64,
    total: u64,
}

impl Source {
    /// One whose start is not known, when `start` is 0.
    fn new(start: u64) -> Self {
        Self { start, time: (now() - 100) * SECOND, total: 0 }
    }

    /// Answers `requests` more and tells its total.
    fn answers(&mut self, requests: u64) -> ExportMetricsServiceRequest {
        self.total += requests;
        self.time += SECOND / 10;
        let interval = (self.start, self.time);
        request(&API, vec![histogram(AggregationTemporality::Cumulative, interval, &[0.1, 0.5], &[self.total, 0, 0])])
    }
}

async fn started(engine: &Engine) -> Collector {
    let collector = Collector::start(engine.url(), QUICK).unwrap();
    collector.ready().await.unwrap();
    collector
}

async fn stored(engine: &Engine) -> u64 {
    count(&engine.client().with_database("contador"), "SELECT sum(count) FROM latency FINAL").await
}

#[tokio::test]
async fn collectors_that_take_turns_count_each_request_once() {
    let engine = Engine::start().unwrap();
    let collectors = [started(&engine).await, started(&engine).await];
    let mut source = Source::new(0);
    accepted(&collectors[0].http, &source.answers(1_000)).await;
    for (index, requests) in (0..).zip([3, 0, 5, 0, 0, 7, 11, 13]) {
        let told = source.answers(requests);
        accepted(&collectors[index % 2].http, &told).await;
        // Sent again by another way, as after an answer that was lost.
        accepted(&collectors[(index + index / 3) % 2].http, &told).await;
        assert_eq!(stored(&engine).await, source.total - 1_000);
    }
}

#[tokio::test]
async fn a_restart_of_the_collector_makes_no_gap_and_counts_nothing_twice() {
    let engine = Engine::start().unwrap();
    let collector = started(&engine).await;
    let mut source = Source::new(0);
    accepted(&collector.http, &source.answers(1_000)).await;
    accepted(&collector.http, &source.answers(20)).await;
    drop(collector);
    // What was answered while no collector was there is in the next total.
    source.answers(300);
    let collector = started(&engine).await;
    accepted(&collector.http, &source.answers(4)).await;
    assert_eq!(stored(&engine).await, 324);
    assert_eq!(collector.metric("contador_ingest_cumulative_base_lines_total").await.unwrap(), 0.0);
}

#[tokio::test]
async fn l8_a_run_that_began_since_totals_are_kept_counts_from_its_start_in_any_collector() {
    let engine = Engine::start().unwrap();
    let collector = started(&engine).await;
    accepted(&collector.http, &Source::new(0).answers(1)).await;
    // What is older than the table keeps is dropped by a merge; since when totals are kept is not.
    let client = engine.client().with_database("contador");
    client.query("OPTIMIZE TABLE latency_totals FINAL").execute().await.unwrap();
    let mut source = Source::new((now() + 1) * SECOND);
    drop(collector);
    let collector = started(&engine).await;
    source.time = source.start + SECOND / 2;
    // The run must be over by the collector's own clock, too.
    while now() * SECOND <= source.time + SECOND {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    let mut told = source.answers(70);
    told.resource_metrics[0].resource.as_mut().unwrap().attributes.extend(attributes(&[("k8s.pod.name", "new")]));
    accepted(&collector.http, &told).await;
    assert_eq!(stored(&engine).await, 70);
}

#[tokio::test]
async fn a_collector_that_is_killed_at_any_moment_loses_nothing_and_counts_nothing_twice() {
    let engine = Engine::start().unwrap();
    let mut collectors = [started(&engine).await, started(&engine).await];
    let mut source = Source::new(0);
    accepted(&collectors[0].http, &source.answers(1_000)).await;
    for round in 0..6_u64 {
        let at = usize::try_from(round % 2).unwrap();
        let (killed, told) = (collectors[at].http.clone(), source.answers(10 + round));
        let sending = tokio::spawn(async move {
            let client = reqwest::Client::new();
            let post = client.post(killed).header("content-type", "application/x-protobuf");
            // The collector ends before it answers, or just after.
            let _ = post.body(told.encode_to_vec()).send().await;
        });
        // As far as the points are written, or not even that.
        let rows = "contador_ingest_rows_total{table=\"latency_totals\"}";
        let before = collectors[at].metric(rows).await.unwrap();
        for _ in 0..round * 20 {
            if sending.is_finished() || collectors[at].metric(rows).await.unwrap() > before {
                break;
            }
        }
        collectors[at] = started(&engine).await;
        sending.await.unwrap();
        // The sender goes on with what it has by then, at the other one.
        accepted(&collectors[1 - at].http, &source.answers(100)).await;
        assert_eq!(stored(&engine).await, source.total - 1_000, "round {round}");
    }
}

#[tokio::test]
async fn clickhouse_that_dies_meanwhile_refuses_and_the_retry_is_counted_once() {
    let mut engine = Engine::start().unwrap();
    let address = engine.url().trim_start_matches("http://").to_owned();
    let collector = started(&engine).await;
    let mut source = Source::new(0);
    accepted(&collector.http, &source.answers(1_000)).await;
    for round in 0..6 {
        let told = source.answers(7);
        if round == 2 {
            engine.kill().unwrap();
            assert_eq!(post(&collector.http, told.encode_to_vec(), &[]).await.status(), 503);
            engine.restart_at(&address).unwrap();
        }
        while post(&collector.http, told.encode_to_vec(), &[]).await.status() != 200 {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }
    assert_eq!(stored(&engine).await, 42);
}

#[tokio::test]
async fn tokens_of_a_running_total_are_what_was_served() {
    let engine = Engine::start().unwrap();
    let collector = started(&engine).await;
    let begin = (now() - 100) * SECOND;
    let usage = |time: u64, kind: &str, requests: u64, tokens: f64| {
        let mut metric =
            histogram(AggregationTemporality::Cumulative, (begin, begin + time * SECOND), &[64.0], &[0, requests]);
        "gen_ai.client.token.usage".clone_into(&mut metric.name);
        "{token}".clone_into(&mut metric.unit);
        let Some(Data::Histogram(data)) = &mut metric.data else { panic!("a histogram") };
        data.data_points[0].attributes = attributes(&[("gen_ai.token.type", kind), ("gen_ai.request.model", "llama")]);
        data.data_points[0].sum = Some(tokens);
        metric
    };
    for (time, requests, tokens) in [(1, 10, 1_000.0), (2, 13, 1_900.0), (3, 13, 1_900.0), (4, 20, 2_600.0)] {
        let both = vec![usage(time, "input", requests, tokens), usage(time, "output", requests, 2.0 * tokens)];
        assert_eq!(accepted(&collector.http, &request(&API, both)).await.partial_success, None);
    }
    let sums = "SELECT sum(assumeNotNull(input_tokens)), sum(assumeNotNull(output_tokens)), sum(assumeNotNull(requests)) \
                FROM served FINAL WHERE model = 'llama'";
    let told: (u64, u64, u64) = engine.client().with_database("contador").query(sums).fetch_one().await.unwrap();
    assert_eq!(told, (1_600, 3_200, 10));
}
