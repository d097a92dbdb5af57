//! The families of each preset: names as their servers give them, without the endings of samples.
//!
//! Where a server counts aborted requests is said with each table: they are [`What::AbortedInside`] when the server's
//! histogram of whole requests observes them, too, with the time that they took until then.

use super::Preset;

const SECONDS: f64 = 1e6;
const MILLISECONDS: f64 = 1e3;
const MICROSECONDS: f64 = 1.0;

/// A family that times something: its name, what it times, microseconds in its unit.
pub(super) type Timing = (&'static str, &'static str, f64);

/// What a counter counts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in super::super) enum What {
    /// Requests that came to their end.
    Requests,
    /// Those, and requests that were aborted.
    RequestsAndAborted,
    /// Requests, once for each deployment that they go through: they stand for requests where nothing counts these at the door.
    Hops,
    /// Nothing that is asked for.
    Nothing,
    /// Requests that were aborted, which the histogram of requests does not hold.
    Aborted,
    /// Requests that were aborted, which the histogram of requests holds, too.
    AbortedInside,
    /// Tokens of prompts.
    InputTokens,
    /// Tokens that were generated.
    OutputTokens,
    /// Requests that run, a gauge.
    Running,
    /// Requests that wait, a gauge.
    Waiting,
}

/// A counter: which samples of it count what.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Counted {
    /// Its name, without `_total`.
    pub name: &'static str,
    /// What it counts.
    pub what: What,
    /// The label that says which samples count; empty: all do.
    pub label: &'static str,
    /// Its values that count; none: all others that no other line of this name has.
    pub values: &'static [&'static str],
}

/// What a preset knows.
pub(super) struct Table {
    pub preset: Preset,
    /// Beginnings of its families' names.
    pub prefixes: &'static [&'static str],
    /// Whether it stands before engines: on a page with an engine's own families, its latencies are those of a client.
    pub front: bool,
    pub histograms: &'static [Timing],
    /// Histograms of an older name, which are left out when the page has the newer one.
    pub older: &'static [(Timing, &'static str)],
    pub summaries: &'static [Timing],
    /// Counters of time, and the counter of what it was spent for.
    pub means: &'static [(Timing, &'static str)],
    pub counters: &'static [Counted],
    /// What else than whole requests is observed once for each request when it ends, also for those that were aborted inside.
    pub at_end: &'static [&'static str],
}

const NONE: Table = Table {
    preset: Preset::Vllm,
    prefixes: &[""],
    front: false,
    histograms: &[],
    older: &[],
    summaries: &[],
    means: &[],
    counters: &[],
    at_end: &[],
};

const fn all(name: &'static str, what: What) -> Counted {
    Counted { name, what, label: "", values: &[] }
}

const fn some(name: &'static str, what: What, label: &'static str, values: &'static [&'static str]) -> Counted {
    Counted { name, what, label, values }
}

/// What Ray Serve's gRPC proxy is asked about itself.
const RAY_PROBES: [&str; 2] =
    ["/ray.serve.RayServeAPIService/Healthz", "/ray.serve.RayServeAPIService/ListApplications"];

pub(super) const TABLES: [Table; 8] = [
    // Requests that the engine aborts are counted by their reason and observed in all histograms of requests: what ends with the
    // last token had not come to its end then, and one without a second token has 0 s for each. Queue and prefill were over, or
    // were negative and are dropped. Requests whose client went away are counted nowhere (vllm issue 55634): they show by their first tokens.
    Table {
        preset: Preset::Vllm,
        prefixes: &["vllm:", "ray_vllm_", "ray_vllm:", "vllm_"],
        histograms: &[
            ("e2e_request_latency_seconds", "request_duration", SECONDS),
            ("time_to_first_token_seconds", "time_to_first_token", SECONDS),
            ("request_time_per_output_token_seconds", "time_per_output_token", SECONDS),
            ("inter_token_latency_seconds", "inter_token_latency", SECONDS),
            ("request_queue_time_seconds", "queue_time", SECONDS),
            ("request_prefill_time_seconds", "prefill_time", SECONDS),
            ("request_decode_time_seconds", "decode_time", SECONDS),
            ("request_inference_time_seconds", "inference_time", SECONDS),
        ],
        // Its values are those of each token, in spite of its name.
        older: &[(("time_per_output_token_seconds", "inter_token_latency", SECONDS), "inter_token_latency_seconds")],
        counters: &[
            some("request_success", What::AbortedInside, "finished_reason", &["abort"]),
            some("request_success", What::Requests, "finished_reason", &[]),
            all("prompt_tokens", What::InputTokens),
            all("generation_tokens", What::OutputTokens),
            all("num_requests_running", What::Running),
            all("num_requests_waiting", What::Waiting),
        ],
        at_end: &["time_per_output_token", "decode_time", "inference_time"],
        ..NONE
    },
    // An aborted request that runs comes to an end like others; one that waits does not, and is taken off those that end by the next page.
    Table {
        preset: Preset::Sglang,
        prefixes: &["sglang:", "sglang_"],
        histograms: &[
            ("e2e_request_latency_seconds", "request_duration", SECONDS),
            ("time_to_first_token_seconds", "time_to_first_token", SECONDS),
            ("time_per_output_token_seconds", "time_per_output_token", SECONDS),
            ("inter_token_latency_seconds", "inter_token_latency", SECONDS),
            ("queue_time_seconds", "queue_time", SECONDS),
        ],
        counters: &[
            all("num_requests", What::RequestsAndAborted),
            all("num_aborted_requests", What::AbortedInside),
            all("prompt_tokens", What::InputTokens),
            all("generation_tokens", What::OutputTokens),
        ],
        ..NONE
    },
    // Only requests with an answer are observed. What was refused before it began is no latency.
    Table {
        preset: Preset::Tgi,
        prefixes: &["tgi_"],
        histograms: &[
            ("request_duration", "request_duration", SECONDS),
            ("request_queue_duration", "queue_time", SECONDS),
            ("request_inference_duration", "inference_time", SECONDS),
            ("request_mean_time_per_token_duration", "time_per_output_token", SECONDS),
            ("request_validation_duration", "request_validation_duration", SECONDS),
        ],
        counters: &[
            all("request_success", What::Requests),
            some("request_failure", What::Aborted, "err", &["dropped", "cancelled", "generation", "incomplete"]),
            all("request_input_length_sum", What::InputTokens),
            all("request_generated_tokens_sum", What::OutputTokens),
        ],
        ..NONE
    },
    // As in vLLM, whose metrics these were. A phase that took 0 s is not observed.
    Table {
        preset: Preset::TensorRtLlm,
        prefixes: &["trtllm_"],
        histograms: &[
            ("e2e_request_latency_seconds", "request_duration", SECONDS),
            ("time_to_first_token_seconds", "time_to_first_token", SECONDS),
            ("time_per_output_token_seconds", "time_per_output_token", SECONDS),
            ("request_queue_time_seconds", "queue_time", SECONDS),
            ("request_prefill_time_seconds", "prefill_time", SECONDS),
            ("request_decode_time_seconds", "decode_time", SECONDS),
            ("request_inference_time_seconds", "inference_time", SECONDS),
        ],
        counters: &[
            some("request_success", What::AbortedInside, "finished_reason", &["cancelled", "abort", "timeout"]),
            some("request_success", What::Requests, "finished_reason", &[]),
            all("prompt_tokens", What::InputTokens),
            all("generation_tokens", What::OutputTokens),
        ],
        at_end: &["time_per_output_token", "decode_time", "inference_time"],
        ..NONE
    },
    // Each request is observed when it ends, however it does.
    Table {
        preset: Preset::Dynamo,
        prefixes: &["dynamo_frontend_"],
        front: true,
        histograms: &[
            ("request_duration_seconds", "request_duration", SECONDS),
            ("time_to_first_token_seconds", "time_to_first_token", SECONDS),
            ("inter_token_latency_seconds", "inter_token_latency", SECONDS),
        ],
        counters: &[
            some("requests", What::AbortedInside, "error_type", &["cancelled"]),
            some("requests", What::Requests, "status", &["success"]),
            all("input_sequence_tokens_sum", What::InputTokens),
            all("output_sequence_tokens_sum", What::OutputTokens),
        ],
        ..NONE
    },
    // Times of failed requests are not added up. Quantiles of summaries can't be added up at all, so that only the number
    // of values and their sum are taken; counters of time tell as much.
    Table {
        preset: Preset::Triton,
        prefixes: &["nv_inference_"],
        histograms: &[("first_response_histogram_ms", "time_to_first_token", MILLISECONDS)],
        summaries: &[
            ("request_summary_us", "request_duration", MICROSECONDS),
            ("queue_summary_us", "queue_time", MICROSECONDS),
            ("compute_infer_summary_us", "inference_time", MICROSECONDS),
            ("compute_input_summary_us", "compute_input", MICROSECONDS),
            ("compute_output_summary_us", "compute_output", MICROSECONDS),
        ],
        means: &[
            (("request_duration_us", "request_duration", MICROSECONDS), "request_success"),
            (("queue_duration_us", "queue_time", MICROSECONDS), "request_success"),
            (("compute_infer_duration_us", "inference_time", MICROSECONDS), "request_success"),
            (("compute_input_duration_us", "compute_input", MICROSECONDS), "request_success"),
            (("compute_output_duration_us", "compute_output", MICROSECONDS), "request_success"),
        ],
        counters: &[
            all("request_success", What::Requests),
            some("request_failure", What::Aborted, "reason", &["CANCELED"]),
        ],
        ..NONE
    },
    // A deployment's own time; the proxy's is a client's. A request goes through any number of deployments, and comes in at one
    // proxy, which answers questions after itself, too.
    Table {
        preset: Preset::RayServe,
        prefixes: &["ray_serve_", "serve_"],
        front: true,
        histograms: &[
            ("deployment_processing_latency_ms", "request_duration", MILLISECONDS),
            ("deployment_queuing_latency_ms", "queue_time", MILLISECONDS),
            ("http_request_latency_ms", "client_request_duration", MILLISECONDS),
            ("grpc_request_latency_ms", "client_request_duration", MILLISECONDS),
        ],
        counters: &[
            some("num_http_requests", What::Nothing, "route", &["/-/healthz", "/-/routes"]),
            some("num_http_requests", What::Requests, "route", &[]),
            some("num_grpc_requests", What::Nothing, "method", &RAY_PROBES),
            some("num_grpc_requests", What::Requests, "method", &[]),
            all("deployment_request_counter", What::Hops),
        ],
        ..NONE
    },
    // Each step of a request for itself.
    Table {
        preset: Preset::Kserve,
        histograms: &[
            ("request_predict_seconds", "inference_time", SECONDS),
            ("request_preprocess_seconds", "request_preprocess", SECONDS),
            ("request_postprocess_seconds", "request_postprocess", SECONDS),
            ("request_explain_seconds", "request_explain", SECONDS),
        ],
        counters: &[all("request_predict_seconds_count", What::Requests)],
        ..NONE
    },
];
