//! Aborted requests that histograms hold, of whatever name, and what came of whole requests.

use super::super::presets::{Custom, Preset, Rules};
use super::super::taken::{Reason, Taken};
use super::fixture::*;

const VLLM: &str = "engine=\"0\",model_name=\"llama\"";
const PHASES: [&str; 3] = ["time_per_output_token", "decode_time", "inference_time"];

/// A page with `low` values of at most 0.3 s, and `high` ones of at most 5 s, in each of the histograms of `prefix`.
fn page(prefix: &str, names: &[&str], low: u64, high: u64, stop: u64, abort: u64) -> String {
    let sum = 0.1 * low as f64 + 4.0 * high as f64;
    let histograms =
        names.iter().map(|name| histogram(&format!("{prefix}{name}"), VLLM, &["0.3", "5"], &[low, high, 0], sum));
    let ended = |reason, n| {
        value(&format!("{prefix}request_success_total"), &format!("{VLLM},finished_reason=\"{reason}\""), n)
    };
    histograms.collect::<String>() + &ended("stop", stop as f64) + &ended("abort", abort as f64)
}

/// Values of a metric: those of at most 0.3 s, all others that are known, and of how many aborted ones nothing is.
fn told(taken: &Taken, metric: &str) -> (u64, u64, u64) {
    let of = |censored| taken.latencies.iter().filter(move |row| row.metric == metric && row.censored == censored);
    let all = |censored| of(censored).map(|row| row.cells.count()).sum::<u64>();
    let low =
        of(false).flat_map(|row| row.cells.as_slice()).filter(|cell| cell.hi <= 300_000.0).map(|cell| cell.n).sum();
    (low, all(false) - low, all(true))
}

#[test]
fn no_phase_that_ends_with_a_request_has_an_aborted_one_as_a_fast_one() {
    for (prefix, per_token) in
        [("vllm:", "request_time_per_output_token_seconds"), ("trtllm_", "time_per_output_token_seconds")]
    {
        let names = [
            "e2e_request_latency_seconds",
            per_token,
            "request_decode_time_seconds",
            "request_inference_time_seconds",
            "request_queue_time_seconds",
        ];
        let mut watched = Watched::new(rules());
        watched.take(1, &page(prefix, &names, 0, 0, 0, 0));
        // Three of the four fast ones may have been aborted.
        let taken = watched.take(2, &page(prefix, &names, 4, 96, 97, 3));
        for metric in PHASES.iter().chain(&["request_duration"]) {
            assert_eq!(told(&taken, metric), (1, 96, 3), "{prefix} {metric}");
        }
        // They had waited by then.
        assert_eq!(told(&taken, "queue_time"), (4, 96, 0));
        assert_eq!((taken.served[0].requests, taken.served[0].aborted), (Some(97), Some(3)));
        assert_eq!(taken.latencies.iter().filter(|row| row.censored && row.sum_us.is_some()).count(), 0);
    }
}

#[test]
fn a_request_that_was_aborted_before_a_phase_is_none_of_its_values() {
    let names = ["e2e_request_latency_seconds", "request_decode_time_seconds"];
    let mut watched = Watched::new(rules());
    watched.take(1, &page("trtllm_", &names, 0, 0, 0, 0));
    // Two that had no token yet have no time of decoding.
    let decode = page("trtllm_", &names[1..], 1, 0, 1, 2);
    let taken = watched
        .take(2, &(page("trtllm_", &names[..1], 3, 0, 1, 2) + decode.split_once("trtllm_request_success").unwrap().0));
    assert_eq!((told(&taken, "request_duration"), told(&taken, "decode_time")), ((1, 0, 2), (0, 0, 1)));
    let taken = watched.take(3, &page("trtllm_", &names, 9, 0, 7, 2));
    assert_eq!(told(&taken, "decode_time"), (8, 0, 0), "nothing is owed");
}

#[test]
fn what_one_engine_has_aborted_is_none_of_anothers_phases() {
    let names = ["e2e_request_latency_seconds", "request_decode_time_seconds"];
    let of = |engine: u8, names: &[&str], low, abort| {
        page("vllm:", names, low, 0, 0, abort).replace("engine=\"0\"", &format!("engine=\"{engine}\""))
    };
    let mut watched = Watched::new(rules());
    watched.take(1, &(of(0, &names, 0, 0) + &of(1, &names, 0, 0)));
    // The engine 0 has aborted two before their first token.
    let idle = histogram("vllm:request_decode_time_seconds", VLLM, &["0.3", "5"], &[0, 0, 0], 0.0);
    let taken = watched.take(2, &(of(0, &names[..1], 2, 2) + &idle + &of(1, &names, 9, 0)));
    assert_eq!((told(&taken, "request_duration"), told(&taken, "decode_time")), ((9, 0, 2), (9, 0, 0)));
}

#[test]
fn a_phase_that_cannot_be_read_now_is_told_of_aborted_requests_later() {
    let names = ["e2e_request_latency_seconds", "request_decode_time_seconds"];
    let mut watched = Watched::new(rules());
    watched.take(1, &page("vllm:", &names, 0, 0, 0, 0));
    let count = format!("vllm:request_decode_time_seconds_count{{{VLLM}}} 7");
    let torn = page("vllm:", &names, 7, 0, 5, 2);
    assert!(torn.contains(&count));
    let taken = watched.take(2, &torn.replace(&count, &count.replace("} 7", "} 8")));
    assert_eq!((told(&taken, "request_duration"), dropped(&taken, Reason::Torn)), ((5, 0, 2), 1));
    let kept = serde_json::to_string(&watched.server).unwrap();
    watched.server = serde_json::from_str(&kept).unwrap();
    let taken = watched.take(3, &page("vllm:", &names, 8, 0, 6, 2));
    assert_eq!((told(&taken, "request_duration"), told(&taken, "decode_time")), ((1, 0, 0), (6, 0, 2)));
}

#[test]
fn a_name_of_ones_own_for_a_presets_family_keeps_what_is_known_of_aborted_requests() {
    let own =
        Custom { family: "vllm:e2e_request_latency_seconds".into(), metric: "chat_time".into(), ..Custom::default() };
    let rules = Rules::new(&Preset::ALL, &[own]).unwrap();
    let mut watched = Watched::new(rules);
    let names = ["e2e_request_latency_seconds"];
    watched.take(1, &page("vllm:", &names, 0, 0, 0, 0));
    let taken = watched.take(2, &page("vllm:", &names, 4, 96, 97, 3));
    assert_eq!((told(&taken, "chat_time"), told(&taken, "request_duration")), ((1, 96, 3), (0, 0, 0)));
    assert_eq!((taken.served.len(), taken.served[0].requests, taken.served[0].aborted), (1, Some(97), Some(3)));
    assert_eq!(taken.presets, ["vllm"]);
    // All that came was aborted, and the histogram lags: it is no other metric then.
    let taken = watched.take(3, &page("vllm:", &names, 4, 96, 97, 5));
    assert_eq!((told(&taken, "chat_time"), told(&taken, "request_duration")), ((0, 0, 2), (0, 0, 0)));
}

#[test]
fn labels_of_ones_own_keep_what_is_known_of_aborted_requests() {
    let own = |labels: &[(&str, &str)]| Custom {
        family: "vllm:e2e_request_latency_seconds".into(),
        metric: "chat_time".into(),
        model: "tenant".into(),
        source: vec!["zone".into()],
        labels: labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        ..Custom::default()
    };
    let names = ["e2e_request_latency_seconds"];
    let of = |model: &str, low, high, stop, abort| {
        page("vllm:", &names, low, high, stop, abort)
            .replace("llama\"", &format!("{model}\",tenant=\"t-{model}\",zone=\"z\""))
    };
    // All series have these names, or those of one model: what the other's are called is no matter.
    for labels in [&[][..], &[("model_name", "llama")]] {
        let mut watched = Watched::new(Rules::new(&Preset::ALL, &[own(labels)]).unwrap());
        watched.take(1, &(of("llama", 0, 0, 0, 0) + &of("phi", 0, 0, 0, 0)));
        let taken = watched.take(2, &(of("llama", 4, 96, 97, 3) + &of("phi", 5, 0, 5, 0)));
        let rows = |name: &str, model: &str, is_censored: bool| -> u64 {
            let all = taken.latencies.iter().filter(|row| row.metric == name && row.model == model);
            all.filter(|row| row.censored == is_censored).map(|row| row.cells.count()).sum()
        };
        assert_eq!((rows("chat_time", "t-llama", false), rows("chat_time", "t-llama", true)), (97, 3), "{labels:?}");
        let (name, model) = if labels.is_empty() { ("chat_time", "t-phi") } else { ("request_duration", "phi") };
        assert_eq!((rows(name, model, false), rows(name, model, true)), (5, 0));
        // The histograms lag.
        let taken = watched.take(3, &(of("llama", 4, 96, 97, 5) + &of("phi", 5, 0, 5, 1)));
        let told: Vec<_> =
            taken.latencies.iter().map(|row| (&*row.metric, &*row.model, row.censored, row.cells.count())).collect();
        assert_eq!(told, [("chat_time", "t-llama", true, 2), (name, model, true, 1)]);
        assert_eq!(taken.latencies[0].source.len(), 2);
    }
}

#[test]
fn first_tokens_and_ends_are_compared_whatever_a_user_calls_them() {
    let own = Custom { family: "vllm:e2e_request_latency_seconds".into(), model: "tenant".into(), ..Custom::default() };
    let mut watched = Watched::new(Rules::new(&Preset::ALL, &[own]).unwrap());
    let labels = format!("{VLLM},tenant=\"t\"");
    let page = |first: u64, done: u64, running: u64| {
        histogram("vllm:e2e_request_latency_seconds", &labels, &["1"], &[done, 0], 0.9 * done as f64)
            + &histogram("vllm:time_to_first_token_seconds", &labels, &["0.1"], &[first, 0], 0.05 * first as f64)
            + &value("vllm:num_requests_running", &labels, running as f64)
            + &value("vllm:num_requests_waiting", &labels, 0.0)
    };
    watched.take(1, &page(110, 100, 0));
    watched.take(2, &page(120, 105, 5));
    watched.take(3, &page(120, 105, 0));
    // Five that ran are gone.
    let taken = watched.take(4, &page(125, 110, 0));
    let censored = taken.latencies.iter().find(|row| row.censored).unwrap();
    assert_eq!(
        (&*censored.metric, &*censored.model, censored.cells.count()),
        ("vllm:e2e_request_latency_seconds", "t", 5)
    );
}

#[test]
fn whole_requests_that_only_a_user_names_are_served_unless_a_preset_counts_them() {
    let gateway = |n: u64| histogram("gateway_seconds", "model=\"m\",pod=\"p\"", &["1"], &[n, 0], 0.5 * n as f64);
    let mut watched = Watched::new(custom("gateway_seconds", "request_duration"));
    watched.take(1, &gateway(5));
    let taken = watched.take(2, &gateway(12));
    let served = &taken.served[0];
    assert_eq!((&*served.model, served.requests, served.aborted, served.start_ns), ("m", Some(7), None, at(1)));
    assert_eq!((&served.source, served.end_ns), (&vec![("pod".to_owned(), "p".to_owned())], at(2)));
    assert!(watched.take(3, &gateway(12)).served.is_empty());
    // A preset's counter tells of the same requests.
    let both = |n: u64| gateway(n) + &value("tgi_request_success", "", n as f64);
    let mut watched = Watched::new(custom("gateway_seconds", "request_duration"));
    watched.take(1, &both(5));
    let taken = watched.take(2, &both(12));
    assert_eq!((taken.served.len(), taken.served[0].requests, &*taken.served[0].model), (1, Some(7), ""));
    // Another time is no request.
    let mut watched = Watched::new(custom("gateway_seconds", "queue_time"));
    watched.take(1, &gateway(5));
    assert!(watched.take(2, &gateway(12)).served.is_empty());
}

#[test]
fn series_are_chosen_by_their_labels() {
    let own = |metric: &str, handler: &str| Custom {
        family: "http_seconds".into(),
        metric: metric.into(),
        labels: [("handler".to_owned(), handler.to_owned()), ("method".to_owned(), "POST".to_owned())].into(),
        ..Custom::default()
    };
    let all = Custom { family: "http_seconds".into(), metric: "other".into(), ..Custom::default() };
    let chosen = Rules::new(&[], &[own("request_duration", "/generate"), own("embedding", "/embed")]).unwrap();
    let rest = Rules::new(&[], &[all.clone(), own("request_duration", "/generate")]).unwrap();
    assert!(Rules::new(&[], &[own("a", "/generate"), own("b", "/generate")]).is_err());
    let page = |n: u64| -> String {
        let one = |(handler, method, n): (&str, &str, u64)| {
            let labels = format!("method=\"{method}\",handler=\"{handler}\"");
            histogram("http_seconds", &labels, &["1"], &[n, 0], 0.5 * n as f64)
        };
        [
            ("/generate", "POST", n),
            ("/generate", "GET", 10 * n),
            ("/embed", "POST", 100 * n),
            ("/metrics", "GET", 1_000 * n),
        ]
        .map(one)
        .concat()
    };
    for (rules, expected) in [(chosen, [1, 100, 0]), (rest, [1, 0, 1_110])] {
        let mut watched = Watched::new(rules);
        watched.take(1, &page(1));
        let taken = watched.take(2, &page(2));
        assert_eq!(["request_duration", "embedding", "other"].map(|metric| told(&taken, metric).1), expected);
        let of_generate = taken.latencies.iter().find(|row| row.metric == "request_duration").unwrap();
        assert_eq!(
            (&*of_generate.route, &of_generate.attributes[..]),
            ("/generate", &[("method".into(), "POST".into())][..])
        );
    }
}

#[test]
fn aborted_requests_of_sglang_that_are_told_early_are_taken_off_later() {
    let page = |requests: u64, aborted: u64| {
        value("sglang:num_requests_total", "model_name=\"m\"", requests as f64)
            + &value("sglang:num_aborted_requests_total", "model_name=\"m\"", aborted as f64)
    };
    let mut watched = Watched::new(rules());
    watched.take(1, &page(100, 0));
    // Five are aborted, of which two have come to their end, and two more do; the fifth had only waited.
    let served = |taken: &Taken| taken.served.iter().filter_map(|served| served.requests).sum::<u64>();
    assert_eq!(served(&watched.take(2, &page(102, 5))), 0);
    let kept = serde_json::to_string(&watched.server).unwrap();
    watched.server = serde_json::from_str(&kept).unwrap();
    assert_eq!(served(&watched.take(3, &page(104, 5))), 0);
    assert_eq!(served(&watched.take(4, &page(115, 5))), 11);
    // What is owed goes before what is aborted since.
    assert_eq!(served(&watched.take(5, &page(116, 7))), 0);
    assert_eq!(served(&watched.take(6, &page(118, 8))), 0);
    assert_eq!(served(&watched.take(7, &page(125, 8))), 7);
    // What one run owes is no other's.
    watched.take(8, &page(125, 9));
    assert_eq!(served(&watched.take(700, &page(6, 0))), 6);
}

#[test]
fn aborted_requests_of_sglang_that_only_waited_take_off_one_page_of_others_at_most() {
    let aborted = |n: u64| value("sglang:num_aborted_requests_total", "model_name=\"m\"", n as f64);
    let page = |n: u64| value("sglang:num_requests_total", "model_name=\"m\"", n as f64) + &aborted(60);
    let served = |taken: &Taken| taken.served.iter().filter_map(|served| served.requests).sum::<u64>();
    let mut watched = Watched::new(rules());
    watched.take(1, &aborted(0));
    // The server has no request that ended yet, and counts the aborted ones among those all the same.
    let taken = watched.take(2, &aborted(60));
    assert_eq!((taken.served[0].requests, taken.served[0].aborted), (None, Some(60)));
    let counted = [20, 40, 60].map(|n| served(&watched.take(2 + n, &page(n))));
    assert_eq!(counted, [0, 20, 20]);
}

#[test]
fn a_request_through_three_deployments_of_ray_is_one() {
    let page = |n: u64| -> String {
        let hop = |name: &str| {
            value(
                "ray_serve_deployment_request_counter_total",
                &format!("deployment=\"{name}\",replica=\"r\""),
                n as f64,
            )
        };
        ["router", "retriever", "model"].map(hop).concat()
    };
    let door = |n: u64| {
        value("ray_serve_num_http_requests_total", "route=\"/chat\",application=\"a\"", n as f64)
            + &value("ray_serve_num_http_requests_total", "route=\"/-/healthz\"", 50.0 * n as f64)
            + &value("ray_serve_num_grpc_requests_total", "application=\"a\"", n as f64)
    };
    let served = |taken: &Taken| taken.served.iter().filter_map(|served| served.requests).sum::<u64>();
    let mut watched = Watched::new(rules());
    watched.take(1, &(page(10) + &door(5)));
    assert_eq!(served(&watched.take(2, &(page(17) + &door(8)))), 6);
    // The proxy's families are not there for once.
    assert_eq!(served(&watched.take(3, &page(20))), 0);
    assert_eq!(served(&watched.take(4, &(page(30) + &door(10)))), 4);
    // It was only asked about itself by now.
    let mut watched = Watched::new(rules());
    let probes = |n: u64| {
        let rpc = |name: &str| format!("method=\"/ray.serve.RayServeAPIService/{name}\"");
        let asked = |name: &str| value("ray_serve_num_grpc_requests_total", &rpc(name), n as f64);
        asked("Healthz") + &asked("ListApplications")
    };
    watched.take(1, &(page(10) + &probes(5)));
    assert_eq!(served(&watched.take(2, &(page(17) + &probes(8)))), 0);
    let call = |n: u64| value("ray_serve_num_grpc_requests_total", "method=\"/chat.Chat/Ask\"", n as f64);
    assert_eq!(served(&watched.take(3, &(page(20) + &probes(9) + &call(4)))), 4);
    // Where nothing counts them at the door, deployments do.
    let mut watched = Watched::new(rules());
    watched.take(1, &page(10));
    assert_eq!(served(&watched.take(2, &page(12))), 6);
}
