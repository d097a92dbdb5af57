//! Latencies that users of comparable systems have seen told wrongly, by the ids of the list of cases: through a real agent,
//! collector and engine, as `contador p99` answers.
#![allow(clippy::unwrap_used, reason = "a test ends at what it does not expect")]

mod page_support;
mod scrape_support;

use contador_tests::Collector;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer as _, V2Serializer};
use opentelemetry_proto::tonic::collector::metrics::v1::{ExportMetricsServiceRequest, ExportMetricsServiceResponse};
use opentelemetry_proto::tonic::common::v1::any_value::Value::StringValue;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, ExponentialHistogram, ExponentialHistogramDataPoint, HistogramDataPoint, Metric,
    ResourceMetrics, ScopeMetrics,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use page_support::{Fleet, histogram, is_about};
use prost::Message as _;
use serde_json::{Value, json};

const E2E: &str = "vllm:e2e_request_latency_seconds";
const LABELS: &str = "model_name=\"m\",engine=\"0\",";
const BOUNDS: [f64; 4] = [0.3, 0.5, 1.0, 30.0];

fn e2e(counts: [u64; 5], sum: f64) -> String {
    histogram(E2E, LABELS, &BOUNDS, &counts, sum)
}

fn state(told: &Value) -> &str {
    told["state"].as_str().unwrap_or_default()
}

/// vllm 48175: nothing is known below the first bound.
#[tokio::test(flavor = "multi_thread")]
async fn l1_all_requests_below_the_first_bound_are_unresolved() {
    let fleet = Fleet::start(&e2e([0; 5], 0.0), "").await;
    fleet.page.show(&e2e([1_000, 0, 0, 0, 0], 120.0)).await;
    let told = fleet.p99_of("request_duration", 1_000).await;
    assert_eq!((state(&told), &told["low_us"]), ("unresolved", &json!(0.0)), "{told}");
    assert!(is_about(&told["high_us"], 300_000.0), "{told}");
    assert!(told["point_us"].as_f64() <= told["high_us"].as_f64(), "{told}");
}

/// spiceai 12693: cumulative 191340, 191360, 191367 at 5, 10 and 25 ms, in the mean 0.22 ms.
#[tokio::test(flavor = "multi_thread")]
async fn l2_a_mean_far_below_the_first_bound_is_unresolved() {
    let page = |counts: [u64; 4], sum| histogram("query_duration_ms", "", &[5.0, 10.0, 25.0], &counts, sum);
    let target = "histogram = [{ name = \"query_duration_ms\", metric = \"request_duration\", unit = \"ms\" }]";
    let fleet = Fleet::start(&page([0; 4], 0.0), target).await;
    fleet.page.show(&page([191_340, 20, 7, 0], 42_100.0)).await;
    let told = fleet.p99_of("request_duration", 191_367).await;
    assert_eq!((state(&told), &told["low_us"]), ("unresolved", &json!(0.0)), "{told}");
    assert!(is_about(&told["high_us"], 5_000.0), "{told}");
}

/// vllm 15167: 2,513 of 11,008 are at or below the last bound.
#[tokio::test(flavor = "multi_thread")]
async fn l3_above_the_last_bound_there_is_no_upper_end() {
    let fleet = Fleet::start(&e2e([0; 5], 0.0), "").await;
    fleet.page.show(&e2e([500, 500, 513, 1_000, 8_495], 900_000.0)).await;
    let told = fleet.p99_of("request_duration", 11_008).await;
    assert_eq!(
        (state(&told), &told["high_us"], &told["point_us"]),
        ("unresolved", &Value::Null, &Value::Null),
        "{told}"
    );
    assert!(is_about(&told["low_us"], 30_000_000.0), "{told}");
}

/// prometheus 7970.
#[tokio::test(flavor = "multi_thread")]
async fn l4_one_sample_is_its_bucket_and_too_few() {
    let fleet = Fleet::start(&e2e([0; 5], 0.0), "").await;
    fleet.page.show(&e2e([0, 0, 1, 0, 0], 0.75)).await;
    let told = fleet.p99_of("request_duration", 1).await;
    assert_eq!(state(&told), "too_few", "{told}");
    assert!(is_about(&told["low_us"], 500_000.0) && is_about(&told["high_us"], 1_000_000.0), "{told}");
}

/// prometheus 1887: a page that is read while it changes.
#[tokio::test(flavor = "multi_thread")]
async fn l5_a_last_bucket_that_lags_is_not_taken_and_what_it_told_comes_later() {
    let fleet = Fleet::start(&e2e([0; 5], 0.0), "").await;
    let torn = e2e([10, 10, 0, 0, 0], 6.0).replace("le=\"+Inf\"} 20", "le=\"+Inf\"} 15");
    fleet.page.show(&torn).await;
    assert!(fleet.dropped("torn").await >= 1);
    fleet.page.show(&e2e([11, 10, 0, 0, 0], 6.2)).await;
    fleet.p99_of("request_duration", 21).await;
}

/// prometheus 6645.
#[tokio::test(flavor = "multi_thread")]
async fn l6_no_traffic_is_neither_0_nor_nan() {
    let idle = histogram("vllm:request_queue_time_seconds", LABELS, &BOUNDS, &[3, 0, 0, 0, 0], 0.5);
    let fleet = Fleet::start(&(e2e([0; 5], 0.0) + &idle), "").await;
    fleet.page.show(&(e2e([7, 0, 0, 0, 0], 1.0) + &idle)).await;
    fleet.p99_of("request_duration", 7).await;
    let told = fleet.p99("queue_time", &[]);
    assert_eq!((state(&told), &told["n"]), ("no_traffic", &json!(0)), "{told}");
    assert_eq!((&told["low_us"], &told["high_us"], &told["point_us"]), (&Value::Null, &Value::Null, &Value::Null));
}

/// NeMo-RL 4052: 800, then a restart, then 12.
#[tokio::test(flavor = "multi_thread")]
async fn l7_a_counter_that_falls_has_counted_what_it_says() {
    let fleet = Fleet::start(&e2e([0; 5], 0.0), "").await;
    fleet.page.show(&e2e([0, 800, 0, 0, 0], 320.0)).await;
    fleet.p99_of("request_duration", 800).await;
    fleet.page.show(&e2e([0, 0, 12, 0, 0], 9.0)).await;
    fleet.p99_of("request_duration", 812).await;
}

/// prometheus 3886: a server that was there before counts from now on; one that was started since, from its start.
#[tokio::test(flavor = "multi_thread")]
async fn l8_a_first_page_is_a_base_line_unless_the_start_is_known() {
    let fleet = Fleet::start(&e2e([500, 0, 0, 0, 0], 100.0), "").await;
    fleet.page.show(&e2e([503, 0, 0, 0, 0], 100.6)).await;
    fleet.p99_of("request_duration", 3).await;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    let started = format!("# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds {now}\n");
    fleet.page.show(&(e2e([900, 0, 0, 0, 0], 180.0) + &started)).await;
    fleet.p99_of("request_duration", 903).await;
}

/// sglang: other bounds in a newer version.
#[tokio::test(flavor = "multi_thread")]
async fn l9_other_bounds_begin_anew_and_cells_of_both_add_up() {
    let name = "sglang:time_to_first_token_seconds";
    let page = |bounds: &[f64], counts: &[u64], sum| histogram(name, "model_name=\"m\",", bounds, counts, sum);
    let old = [0.1, 0.4, 1.0];
    let fleet = Fleet::start(&page(&old, &[0; 4], 0.0), "").await;
    fleet.page.show(&page(&old, &[0, 40, 0, 0], 12.0)).await;
    fleet.p99_of("time_to_first_token", 40).await;
    let new = [0.2, 0.6, 2.0];
    fleet.page.show(&page(&new, &[1, 1, 0, 0], 0.5)).await;
    fleet.page.show(&page(&new, &[1, 1, 60, 0], 80.0)).await;
    let told = fleet.p99_of("time_to_first_token", 100).await;
    assert!(is_about(&told["low_us"], 600_000.0) && is_about(&told["high_us"], 2_000_000.0), "{told}");
}

/// vllm 49135: a time of 0 makes a prefill negative, and a decode as long as the server runs.
#[tokio::test(flavor = "multi_thread")]
async fn l10_negative_times_and_times_longer_than_the_server_runs_are_dropped_and_counted() {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    let uptime = 3_600.0;
    let page = |prefill: ([u64; 5], f64), decode: ([u64; 5], f64)| {
        let prefill = histogram("vllm:request_prefill_time_seconds", LABELS, &BOUNDS, &prefill.0, prefill.1);
        let decode = histogram("vllm:request_decode_time_seconds", LABELS, &BOUNDS, &decode.0, decode.1);
        format!(
            "{prefill}{decode}# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds {}\n",
            now - uptime
        )
    };
    let fleet = Fleet::start(&page(([0; 5], 0.0), ([0; 5], 0.0)), "").await;
    fleet.page.show(&page(([10, 0, 0, 0, 0], 1.0), ([0, 0, 10, 0, 0], 8.0))).await;
    fleet.p99_of("prefill_time", 10).await;
    let since_epoch = now;
    fleet.page.show(&page(([11, 0, 0, 0, 0], 1.0 - since_epoch), ([0, 0, 10, 0, 1], 8.0 + since_epoch))).await;
    fleet.page.show(&page(([12, 0, 0, 0, 0], 1.1 - since_epoch), ([0, 0, 11, 0, 1], 8.8 + since_epoch))).await;
    let prefill = fleet.p99_of("prefill_time", 11).await;
    assert!(is_about(&prefill["high_us"], 300_000.0), "{prefill}");
    let decode = fleet.p99_of("decode_time", 11).await;
    assert!(is_about(&decode["high_us"], 1_000_000.0), "{decode}");
    assert!(fleet.dropped("sum").await >= 1 && fleet.dropped("uptime").await >= 1);
}

/// vllm 55634: five requests that were aborted.
#[tokio::test(flavor = "multi_thread")]
async fn l11_aborted_requests_make_the_p99_a_lower_bound() {
    let page = |counts: [u64; 5], sum: f64, stopped: u64, aborted: u64| {
        e2e(counts, sum)
            + &format!(
                "# TYPE vllm:request_success_total counter\n\
                 vllm:request_success_total{{{LABELS}finished_reason=\"stop\"}} {stopped}\n\
                 vllm:request_success_total{{{LABELS}finished_reason=\"abort\"}} {aborted}\n"
            )
    };
    let fleet = Fleet::start(&page([0; 5], 0.0, 0, 0), "").await;
    // Those that were aborted are in the histogram, too, with what they had taken by then.
    fleet.page.show(&page([5, 400, 0, 0, 0], 160.0, 400, 5)).await;
    let told = fleet.p99_of("request_duration", 405).await;
    assert_eq!((state(&told), &told["high_us"]), ("censored", &Value::Null), "{told}");
    assert!(is_about(&told["low_us"], 300_000.0), "{told}");
    assert_eq!(fleet.p99("request_duration", &["--q", "0.5"])["state"], "censored");
}

async fn push(fleet: &Fleet, query: &str, body: Vec<u8>) -> u16 {
    let url = format!("http://{}/v1/latency?service=chat&metric=pushed&{query}", fleet.agent.listen);
    reqwest::Client::new().post(url).body(body).send().await.unwrap().status().as_u16()
}

fn v2(histogram: &Histogram<u64>) -> Vec<u8> {
    let mut body = Vec::new();
    V2Serializer::new().serialize(histogram, &mut body).unwrap();
    body
}

/// HdrHistogram (Rust 7.6): counts of 8 bits stop at 255.
#[tokio::test(flavor = "multi_thread")]
async fn l12_counts_have_64_bits() {
    let fleet = Fleet::start("", "").await;
    let mut pushed = Histogram::<u64>::new(3).unwrap();
    pushed.record_n(1_000, 5_000_000_000).unwrap();
    pushed.record_n(2_000, 1_000).unwrap();
    assert_eq!(push(&fleet, "", v2(&pushed)).await, 200);
    let told = fleet.p99_of("pushed", 5_000_001_000).await;
    assert_eq!((state(&told), &told["low_us"], &told["high_us"]), ("ok", &json!(1_000.0), &json!(1_000.0)), "{told}");
}

/// HdrHistogram (Rust 7.6): adding histograms of other digits, or of another lowest value, moves values.
#[tokio::test(flavor = "multi_thread")]
async fn l13_histograms_of_any_precision_add_up_without_moving_a_value() {
    let fleet = Fleet::start("", "").await;
    let value = 1_234_567_u64;
    let mut exact = Histogram::<u64>::new(3).unwrap();
    exact.record_n(value, 500).unwrap();
    let mut coarse = Histogram::<u64>::new(1).unwrap();
    coarse.record_n(value, 300).unwrap();
    let mut far = Histogram::<u64>::new_with_bounds(1_000, 3_600_000_000, 3).unwrap();
    far.record_n(value, 200).unwrap();
    for (index, histogram) in [exact, coarse, far].iter().enumerate() {
        assert_eq!(push(&fleet, &format!("instance=r{index}"), v2(histogram)).await, 200);
    }
    let told = fleet.p99_of("pushed", 1_000).await;
    #[expect(clippy::cast_precision_loss, reason = "a small number")]
    let value = value as f64;
    assert!(told["low_us"].as_f64().unwrap() <= value && value <= told["high_us"].as_f64().unwrap(), "{told}");
    // The values of the exact one are as exact as they were.
    let median = fleet.p99("pushed", &["--q", "0.5"]);
    assert!(median["low_us"].as_f64().unwrap() >= value * 0.9, "{median}");
}

/// HdrHistogram (Rust 7.6): 4 GiB are declared, and would be allocated.
#[tokio::test(flavor = "multi_thread")]
async fn l14_what_is_declared_is_not_believed() {
    let fleet = Fleet::start("", "").await;
    let mut pushed = Histogram::<u64>::new(3).unwrap();
    pushed.record(7).unwrap();
    let mut body = v2(&pushed);
    body[4..8].copy_from_slice(&u32::MAX.to_be_bytes());
    assert_eq!(push(&fleet, "", body).await, 400);
    assert_eq!(push(&fleet, "", v2(&pushed)).await, 200);
    fleet.p99_of("pushed", 1).await;
}

/// HdrHistogram (Rust 7.6): the p99 of nothing is 0.
#[tokio::test(flavor = "multi_thread")]
async fn l15_an_empty_histogram_is_no_traffic() {
    let fleet = Fleet::start(&e2e([0; 5], 0.0), "").await;
    assert_eq!(push(&fleet, "", v2(&Histogram::<u64>::new(3).unwrap())).await, 200);
    fleet.page.show(&e2e([7, 0, 0, 0, 0], 1.0)).await;
    fleet.p99_of("request_duration", 7).await;
    let told = fleet.p99("pushed", &[]);
    assert_eq!((state(&told), &told["low_us"]), ("no_traffic", &Value::Null), "{told}");
}

/// datadog-agent 50777: all values are between 0 and the first bound.
#[tokio::test(flavor = "multi_thread")]
async fn l16_mass_in_the_first_bucket_is_not_0() {
    let name = "nv_inference_first_response_histogram_ms";
    let page = |counts: [u64; 3]| histogram(name, "model=\"m\",version=\"1\",", &[100.0, 500.0], &counts, 60.0);
    let fleet = Fleet::start(&page([0; 3]).replace("60.0", "0"), "").await;
    fleet.page.show(&page([600, 0, 0])).await;
    let told = fleet.p99_of("time_to_first_token", 600).await;
    assert_eq!((state(&told), &told["low_us"]), ("unresolved", &json!(0.0)), "{told}");
    assert!(is_about(&told["high_us"], 100_000.0), "{told}");
    assert!(told["point_us"].as_f64() > Some(0.0), "{told}");
}

async fn send(collector: &Collector, unit: &str, data: Data) {
    let attribute = |name: &str, value: &str| KeyValue {
        key: name.to_owned(),
        value: Some(AnyValue { value: Some(StringValue(value.to_owned())) }),
        ..KeyValue::default()
    };
    let metric = Metric { name: "sent".to_owned(), unit: unit.to_owned(), data: Some(data), ..Metric::default() };
    let scope_metrics = vec![ScopeMetrics { metrics: vec![metric], ..ScopeMetrics::default() }];
    let resource = Resource { attributes: vec![attribute("service.name", "chat")], ..Resource::default() };
    let resource_metrics =
        vec![ResourceMetrics { resource: Some(resource), scope_metrics, ..ResourceMetrics::default() }];
    let body = ExportMetricsServiceRequest { resource_metrics }.encode_to_vec();
    let post = reqwest::Client::new().post(&collector.http).header("content-type", "application/x-protobuf").body(body);
    let answer = post.send().await.unwrap();
    assert!(answer.status().is_success(), "{}", answer.status());
    let answer = ExportMetricsServiceResponse::decode(answer.bytes().await.unwrap()).unwrap();
    assert!(answer.partial_success.is_none_or(|partial| partial.rejected_data_points == 0));
}

fn now_ns() -> u64 {
    u64::try_from(std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos()).unwrap()
}

/// opentelemetry-collector-contrib 46108: a threshold of 0.02 became 1e-128.
#[tokio::test(flavor = "multi_thread")]
async fn c7_the_zero_bucket_is_as_wide_as_the_sender_says() {
    let fleet = Fleet::start("", "").await;
    let point = ExponentialHistogramDataPoint {
        time_unix_nano: now_ns(),
        count: 1_000,
        zero_count: 1_000,
        zero_threshold: 0.02,
        ..ExponentialHistogramDataPoint::default()
    };
    let temporality = AggregationTemporality::Delta.into();
    let histogram = ExponentialHistogram { data_points: vec![point], aggregation_temporality: temporality };
    send(&fleet.collector, "s", Data::ExponentialHistogram(histogram)).await;
    let told = fleet.p99_of("sent", 1_000).await;
    assert_eq!((state(&told), &told["low_us"]), ("unresolved", &json!(0.0)), "{told}");
    assert!(is_about(&told["high_us"], 20_000.0), "{told}");
}

/// opentelemetry-collector-contrib 48278 and 50828: totals of 10, 20, 5 and 15.
#[tokio::test(flavor = "multi_thread")]
async fn c8_a_total_that_falls_is_a_reset_and_says_so() {
    let fleet = Fleet::start("", "").await;
    let began = now_ns() - 5_000_000_000;
    for (second, count) in [10, 20, 5, 15].into_iter().enumerate() {
        let point = HistogramDataPoint {
            time_unix_nano: began + u64::try_from(second).unwrap() * 1_000_000_000,
            count,
            bucket_counts: vec![count, 0],
            explicit_bounds: vec![1.0],
            ..HistogramDataPoint::default()
        };
        let temporality = AggregationTemporality::Cumulative.into();
        let histogram = opentelemetry_proto::tonic::metrics::v1::Histogram {
            data_points: vec![point],
            aggregation_temporality: temporality,
        };
        send(&fleet.collector, "s", Data::Histogram(histogram)).await;
    }
    fleet.p99_of("sent", 25).await;
    let sql = "SELECT toUInt64(count), reset FROM latency FINAL WHERE metric = 'sent' ORDER BY ts";
    let client = fleet.engine.client().with_database("contador");
    let rows: Vec<(u64, bool)> = client.query(sql).fetch_all().await.unwrap();
    assert_eq!(rows, [(10, false), (5, true), (10, false)]);
}
