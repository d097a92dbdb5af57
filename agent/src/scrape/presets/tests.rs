//! Pages with the names that servers give, in short.

use super::super::server::Server;
use super::super::taken::Taken;
use super::super::text::Format;
use super::*;

const T: u64 = 1_700_000_000_000_000_000;

/// What comes of two pages of a server; what `@` stands for rises from 0 to 4.
fn taken(page: &str) -> Taken {
    let rules = Rules::new(&Preset::ALL, &[]).unwrap();
    let mut server = Server::new(T);
    server.take(&page.replace('@', "0"), Format::Prometheus, T + 1, &rules);
    let taken = server.take(&page.replace('@', "4"), Format::Prometheus, T + 2, &rules);
    assert_eq!((&taken.faults[..], &taken.dropped[..]), (&[][..], &[][..]), "{page}");
    taken
}

/// A histogram with one bound, of which 4 values are at or below 1, and the sum 4 × `part`.
fn histogram(family: &str, labels: &str, bound: &str, sum: &str) -> String {
    let comma = if labels.is_empty() { "" } else { "," };
    format!(
        "# TYPE {family} histogram\n{family}_bucket{{{labels}{comma}le=\"{bound}\"}} @\n\
         {family}_bucket{{{labels}{comma}le=\"+Inf\"}} @\n{family}_sum{{{labels}}} {sum}\n{family}_count{{{labels}}} @\n"
    )
}

/// Metric, model, route, greatest upper edge, number of values, of each latency.
fn latencies(taken: &Taken) -> Vec<(&str, &str, &str, f64, u64)> {
    let rows = taken.latencies.iter().map(|latency| {
        let highest = latency.cells.as_slice().last().map_or(0.0, |cell| cell.hi);
        (&*latency.metric, &*latency.model, &*latency.route, highest, latency.cells.count())
    });
    let mut rows: Vec<_> = rows.collect();
    rows.sort_by(|left, right| left.partial_cmp(right).unwrap());
    rows
}

#[test]
fn vllm_has_all_phases_and_its_older_name_goes_behind_the_newer_one() {
    let labels = "engine=\"1\",model_name=\"m\"";
    let page: String = [
        "e2e_request_latency_seconds",
        "time_to_first_token_seconds",
        "request_time_per_output_token_seconds",
        "inter_token_latency_seconds",
        "time_per_output_token_seconds",
        "request_queue_time_seconds",
        "request_prefill_time_seconds",
        "request_decode_time_seconds",
        "request_inference_time_seconds",
    ]
    .iter()
    .map(|name| histogram(&format!("vllm:{name}"), labels, "1.0", "@"))
    .collect();
    let told = taken(&page);
    let metrics = [
        "decode_time",
        "inference_time",
        "inter_token_latency",
        "prefill_time",
        "queue_time",
        "request_duration",
        "time_per_output_token",
        "time_to_first_token",
    ];
    assert_eq!(latencies(&told), metrics.map(|metric| (metric, "m", "", 1e6, 4)));
    assert_eq!(
        (&told.presets[..], &told.latencies[0].source[..]),
        (&["vllm"][..], &[("engine".to_owned(), "1".to_owned())][..])
    );
    let older = histogram("vllm:time_per_output_token_seconds", labels, "1.0", "@");
    assert_eq!(latencies(&taken(&older)), [("inter_token_latency", "m", "", 1e6, 4)]);
}

#[test]
fn sglang_in_both_layouts_keeps_streaming_apart_and_ranks_together() {
    let labels = "model_name=\"m\",engine_type=\"unified\",tp_rank=\"0\",pp_rank=\"0\",is_streaming=\"true\"";
    let counters = "sglang:num_requests_total{model_name=\"m\",engine_type=\"unified\"} @\n\
        sglang:num_aborted_requests_total{model_name=\"m\",engine_type=\"unified\"} @\n\
        sglang:generation_tokens_total{model_name=\"m\",engine_type=\"unified\"} @\n";
    let new = histogram("sglang:time_to_first_token_seconds", labels, "0.1", "0.1")
        + &histogram("sglang:e2e_request_latency_seconds", labels, "1", "@")
        + counters;
    let told = taken(&new);
    // All four requests were aborted while they ran.
    assert_eq!(
        latencies(&told),
        [("request_duration", "m", "", f64::INFINITY, 4), ("time_to_first_token", "m", "", 100_000.0, 4),]
    );
    let attributes = [("engine_type".to_owned(), "unified".to_owned()), ("is_streaming".to_owned(), "true".to_owned())];
    let source = [("pp_rank".to_owned(), "0".to_owned()), ("tp_rank".to_owned(), "0".to_owned())];
    assert!(told.latencies.iter().all(|latency| latency.attributes == attributes && latency.source == source));
    let served = &told.served[0];
    assert_eq!((served.requests, served.aborted, served.output_tokens), (Some(0), Some(4), Some(4)));
    let old = histogram("sglang:time_per_output_token_seconds", "model_name=\"m\"", "1", "@");
    assert_eq!(latencies(&taken(&old)), [("time_per_output_token", "m", "", 1e6, 4)]);
}

#[test]
fn tgi_has_no_labels_and_counts_what_was_dropped() {
    let page = histogram("tgi_request_duration", "", "1", "@")
        + &histogram("tgi_request_queue_duration", "", "1", "@")
        + &histogram("tgi_request_mean_time_per_token_duration", "", "1", "@")
        + &histogram("tgi_request_generated_tokens", "", "9", "@")
        + "tgi_request_success @\ntgi_request_failure{err=\"validation\"} @\ntgi_request_failure{err=\"dropped\"} @\n";
    let taken = taken(&page);
    assert_eq!(
        latencies(&taken),
        [
            ("queue_time", "", "", 1e6, 4),
            ("request_duration", "", "", 1e6, 4),
            ("request_duration", "", "", f64::INFINITY, 4),
            ("time_per_output_token", "", "", 1e6, 4),
        ]
    );
    let served = &taken.served[0];
    assert_eq!((served.requests, served.aborted, served.output_tokens), (Some(4), Some(4), Some(4)));
}

#[test]
fn tensorrt_llm_has_the_names_of_vllm() {
    let labels = "model_name=\"m\",engine_type=\"trtllm\"";
    let page = histogram("trtllm_e2e_request_latency_seconds", labels, "1", "@")
        + &histogram("trtllm_request_queue_time_seconds", labels, "1", "@")
        + "trtllm_request_success_total{model_name=\"m\",engine_type=\"trtllm\",finished_reason=\"length\"} @\n";
    let taken = taken(&page);
    assert_eq!(latencies(&taken), [("queue_time", "m", "", 1e6, 4), ("request_duration", "m", "", 1e6, 4)]);
    assert_eq!((taken.served[0].requests, taken.served[0].aborted), (Some(4), None));
}

#[test]
fn dynamo_tells_cancelled_requests_by_their_error() {
    let counter = "dynamo_frontend_requests_total{model=\"m\",endpoint=\"completions\",request_type=\"stream\"";
    let page = histogram("dynamo_frontend_request_duration_seconds", "model=\"m\"", "1", "@")
        + &histogram("dynamo_frontend_time_to_first_token_seconds", "model=\"m\"", "1", "@")
        + &format!(
            "{counter},status=\"success\",error_type=\"\"}} @\n{counter},status=\"error\",error_type=\"internal\"}} @\n"
        );
    let taken = taken(&page);
    assert_eq!(latencies(&taken), [("request_duration", "m", "", 1e6, 4), ("time_to_first_token", "m", "", 1e6, 4)]);
    assert_eq!((taken.served[0].requests, taken.served[0].aborted), (Some(4), None));
}

#[test]
fn triton_tells_means_and_what_it_sums_up_is_not_told_twice() {
    let labels = "model=\"m\",version=\"1\"";
    let counters = format!(
        "nv_inference_request_success{{{labels}}} @\nnv_inference_queue_duration_us{{{labels}}} @00\n\
         nv_inference_request_failure{{{labels},reason=\"CANCELED\"}} @\n\
         nv_inference_request_failure{{{labels},reason=\"OTHER\"}} @\n"
    );
    let means = taken(&counters);
    let queue = means.latencies.iter().find(|latency| latency.metric == "queue_time").unwrap();
    assert_eq!((queue.sum_us, queue.cells.as_slice()[0].hi, queue.cells.count()), (Some(400.0), f64::INFINITY, 4));
    assert_eq!(
        latencies(&means),
        [("queue_time", "m", "", f64::INFINITY, 4), ("request_duration", "m", "", f64::INFINITY, 4),]
    );
    assert_eq!((means.served[0].requests, means.served[0].aborted), (Some(4), Some(4)));
    let summary = counters.clone()
        + &format!(
            "# TYPE nv_inference_queue_summary_us summary\nnv_inference_queue_summary_us_count{{{labels}}} @\n\
             nv_inference_queue_summary_us_sum{{{labels}}} @00\nnv_inference_queue_summary_us{{{labels},quantile=\"0.5\"}} 55\n"
        )
        + &histogram("nv_inference_first_response_histogram_ms", labels, "100", "@");
    let summed = taken(&summary);
    assert_eq!(summed.latencies.iter().filter(|latency| latency.metric == "queue_time").count(), 1);
    assert!(latencies(&summed).contains(&("time_to_first_token", "m", "", 100_000.0, 4)));
    assert_eq!(summed.latencies[0].attributes, [("version".to_owned(), "1".to_owned())]);
}

#[test]
fn ray_serve_stands_before_an_engine_when_there_is_one() {
    let front = histogram(
        "ray_serve_deployment_processing_latency_ms",
        "deployment=\"d\",replica=\"r\",route=\"/v1\"",
        "100",
        "@",
    ) + "ray_serve_deployment_request_counter_total{deployment=\"d\"} @\n";
    let alone = taken(&front);
    assert_eq!(latencies(&alone), [("request_duration", "", "/v1", 100_000.0, 4)]);
    assert_eq!((alone.served[0].requests, &alone.presets[..]), (Some(4), &["ray-serve"][..]));
    let labels = "model_name=\"m\",ReplicaId=\"x\",WorkerId=\"w\"";
    // Ray shows counters under both names.
    let engine = histogram("ray_vllm_e2e_request_latency_seconds", labels, "1", "@")
        + &format!("ray_vllm_request_success_total{{{labels},finished_reason=\"stop\"}} @\n")
        + &format!("ray_vllm_request_success{{{labels},finished_reason=\"stop\"}} @\n");
    let both = taken(&(front + &engine));
    assert_eq!(
        latencies(&both),
        [("client_request_duration", "", "/v1", 100_000.0, 4), ("request_duration", "m", "", 1e6, 4),]
    );
    assert_eq!((both.served.len(), both.served[0].requests, &*both.served[0].model), (1, Some(4), "m"));
    assert_eq!(both.presets, ["vllm", "ray-serve"]);
}

#[test]
fn kserve_tells_each_step() {
    let page = histogram("request_preprocess_seconds", "model_name=\"m\"", "1", "@")
        + &histogram("request_predict_seconds", "model_name=\"m\"", "1", "@");
    let taken = taken(&page);
    assert_eq!(latencies(&taken), [("inference_time", "m", "", 1e6, 4), ("request_preprocess", "m", "", 1e6, 4)]);
    assert_eq!(taken.served[0].requests, Some(4));
}

#[test]
fn a_user_names_histograms_labels_and_units() {
    let rules = |custom: Custom| Rules::new(&[], &[custom]);
    let custom = Custom {
        family: "http_server_duration_milliseconds".to_owned(),
        metric: "request_duration".to_owned(),
        model: "deployment".to_owned(),
        route: "path".to_owned(),
        source: vec!["shard".to_owned()],
        ..Custom::default()
    };
    let labels = "deployment=\"d\",path=\"/a\",shard=\"3\",zone=\"z\",pod=\"p\"";
    let page = histogram("http_server_duration_milliseconds", labels, "1", "@");
    let known = rules(custom.clone()).unwrap();
    let mut server = Server::new(T);
    server.take(&page.replace('@', "0"), Format::Prometheus, T + 1, &known);
    let taken = server.take(&page.replace('@', "4"), Format::Prometheus, T + 2, &known);
    assert_eq!(latencies(&taken), [("request_duration", "d", "/a", 1_000.0, 4)]);
    let pairs = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    assert_eq!(taken.latencies[0].attributes, pairs(&[("zone", "z")]));
    assert_eq!(taken.latencies[0].source, pairs(&[("pod", "p"), ("shard", "3")]));
    let fault = |custom| rules(custom).unwrap_err().to_string();
    assert_eq!(
        fault(Custom { unit: "days".to_owned(), ..custom.clone() }),
        "unit of histogram family \"http_server_duration_milliseconds\" is \"days\", expected ns, us, ms, s, min or h"
    );
    assert_eq!(
        fault(Custom { family: "x_bucket".to_owned(), ..custom.clone() }),
        "histogram family is \"x_bucket\", expected a metric's name, without _bucket"
    );
    assert_eq!(
        Rules::new(&[], &[custom.clone(), custom]).unwrap_err().to_string(),
        "histogram family \"http_server_duration_milliseconds\" is named twice, expected each once, or for other labels"
    );
    assert_eq!("triton".parse(), Ok(Preset::Triton));
    assert!("llama".parse::<Preset>().unwrap_err().to_string().contains("\"llama\", expected one of vllm"));
    assert!(Preset::ALL.iter().all(|preset| preset.name().parse() == Ok(*preset)));
}

#[test]
fn two_families_of_one_metric_are_two_rows() {
    let custom =
        Custom { family: "gateway_seconds".to_owned(), metric: "request_duration".to_owned(), ..Custom::default() };
    let rules = Rules::new(&Preset::ALL, &[custom]).unwrap();
    let page = histogram("tgi_request_duration", "", "1", "@") + &histogram("gateway_seconds", "", "1", "@");
    let mut server = Server::new(T);
    server.take(&page.replace('@', "0"), Format::Prometheus, T + 1, &rules);
    let taken = server.take(&page.replace('@', "4"), Format::Prometheus, T + 2, &rules);
    assert_eq!(taken.latencies.len(), 2);
    assert_ne!(taken.latencies[0].attributes, taken.latencies[1].attributes);
}

#[test]
fn a_server_goes_on_to_be_called_by_the_preset_that_it_showed_first() {
    let rules = Rules::new(&Preset::ALL, &[]).unwrap();
    let mut server = Server::new(T);
    let front = "ray_serve_num_http_requests_total{route=\"/\"} 4\n";
    let engine = "vllm:generation_tokens_total{model_name=\"m\"} 4\n";
    for (number, (page, called)) in [
        ("go_goroutines 7\n", None),
        (front, Some("ray-serve")),
        ("go_goroutines 7\n", Some("ray-serve")),
        (&format!("{front}{engine}"), Some("ray-serve")),
    ]
    .into_iter()
    .enumerate()
    {
        let taken = server.take(page, Format::Prometheus, T + number as u64, &rules);
        assert_eq!(taken.preset, called, "{number}");
        server = serde_json::from_str(&serde_json::to_string(&server).unwrap()).unwrap();
    }
    // The configuration says that it is another one.
    let rules = Rules::new(&[Preset::Vllm], &[]).unwrap();
    assert_eq!(server.take(engine, Format::Prometheus, T + 9, &rules).preset, Some("vllm"));
}
