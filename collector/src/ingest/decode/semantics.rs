//! What metrics of others mean: OpenTelemetry's semantic conventions, and the names of inference servers, as they come through
//! a receiver of Prometheus's format.
//!
//! Which names there are is told by <https://opentelemetry.io/docs/specs/semconv/> and by the servers themselves. Whatever is
//! not here keeps its own name.

use contador_schemas::names;

use super::attributes::Attributes;

/// Names of OpenTelemetry, old ones too, and what they time.
const CONVENTIONS: &[(&str, &str)] = &[
    ("http.server.request.duration", "request_duration"),
    ("http.server.duration", "request_duration"),
    ("rpc.server.call.duration", "request_duration"),
    ("rpc.server.duration", "request_duration"),
    ("gen_ai.server.request.duration", "request_duration"),
    ("gen_ai.server.time_to_first_token", "time_to_first_token"),
    ("gen_ai.server.time_per_output_token", "time_per_output_token"),
    ("http.client.request.duration", CLIENT),
    ("http.client.duration", CLIENT),
    ("rpc.client.call.duration", CLIENT),
    ("rpc.client.duration", CLIENT),
    ("gen_ai.client.operation.duration", CLIENT),
];

const CLIENT: &str = "client_request_duration";

/// Beginnings of the names of a server's metrics (with `_` for `:`), and of what follows, without a unit at its end, what it
/// times.
type Server = (&'static [&'static str], &'static [(&'static str, &'static str)]);

const SERVERS: &[Server] = &[
    (
        &["vllm_", "ray_vllm_"],
        &[
            ("e2e_request_latency", "request_duration"),
            ("time_to_first_token", "time_to_first_token"),
            ("request_time_per_output_token", "time_per_output_token"),
            ("inter_token_latency", "inter_token_latency"),
            // Its values are those of each token, in spite of its name.
            ("time_per_output_token", "inter_token_latency"),
            ("request_queue_time", "queue_time"),
            ("request_prefill_time", "prefill_time"),
            ("request_decode_time", "decode_time"),
            ("request_inference_time", "inference_time"),
        ],
    ),
    (
        &["sglang_", "trtllm_"],
        &[
            ("e2e_request_latency", "request_duration"),
            ("time_to_first_token", "time_to_first_token"),
            ("time_per_output_token", "time_per_output_token"),
            ("inter_token_latency", "inter_token_latency"),
            ("queue_time", "queue_time"),
            ("request_queue_time", "queue_time"),
            ("request_prefill_time", "prefill_time"),
            ("request_decode_time", "decode_time"),
            ("request_inference_time", "inference_time"),
        ],
    ),
    (
        &["tgi_"],
        &[
            ("request_duration", "request_duration"),
            ("request_queue_duration", "queue_time"),
            ("request_inference_duration", "inference_time"),
            ("request_mean_time_per_token_duration", "time_per_output_token"),
        ],
    ),
    (
        &["dynamo_frontend_"],
        &[
            ("request_duration", "request_duration"),
            ("time_to_first_token", "time_to_first_token"),
            ("inter_token_latency", "inter_token_latency"),
        ],
    ),
    (&["nv_inference_"], &[("first_response_histogram", "time_to_first_token")]),
    (
        &["ray_serve_", "serve_"],
        &[
            ("deployment_processing_latency", "request_duration"),
            ("deployment_queuing_latency", "queue_time"),
            ("http_request_latency", CLIENT),
            ("grpc_request_latency", CLIENT),
        ],
    ),
];

/// Ends of names that tell a unit, and microseconds in it.
const ENDS: &[(&str, f64)] = &[
    ("_seconds", 1e6),
    ("_milliseconds", 1e3),
    ("_ms", 1e3),
    ("_microseconds", 1.0),
    ("_us", 1.0),
    ("_nanoseconds", 1e-3),
    ("_ns", 1e-3),
];

/// Units in words, as a receiver of Prometheus's format passes them on, and microseconds in them.
const WORDS: &[(&str, f64)] = &[
    ("seconds", 1e6),
    ("milliseconds", 1e3),
    ("microseconds", 1.0),
    ("nanoseconds", 1e-3),
    ("minutes", 6e7),
    ("hours", 3.6e9),
];

/// Names of histograms of tokens: the sum of the values is a number of tokens, their count one of requests.
pub(super) const TOKENS: &str = "gen_ai.client.token.usage";

/// Attributes that say which status a request ended with, and those of requests that ended before their answer: what was
/// measured of them is a lower bound.
const ABORTED: &[(&str, &[&str])] = &[
    // nginx's "client closed request", which others have taken over.
    ("http.response.status_code", &["499"]),
    ("http.status_code", &["499"]),
    ("rpc.grpc.status_code", &["1", "4"]),
    ("rpc.response.status_code", &["cancelled", "deadline_exceeded"]),
    ("finished_reason", &["abort", "aborted", "cancelled"]),
    (
        "error.type",
        &[
            "499",
            "abort",
            "aborted",
            "aborterror",
            "cancelled",
            "canceled",
            "cancellederror",
            "cancelederror",
            "cancellationexception",
            "client_disconnect",
            "client_disconnected",
            "clientdisconnect",
            "deadline_exceeded",
            "deadlineexceeded",
            "timeout",
            "timeouterror",
            "timeoutexception",
        ],
    ),
];

/// What the metric `name` times; `None` when it keeps its own name.
pub(super) fn times(name: &str) -> Option<&'static str> {
    let known = CONVENTIONS.iter().find(|(known, _)| *known == name).map(|(_, times)| *times);
    known.or_else(|| server(name))
}

/// What the metric of an inference server times.
fn server(name: &str) -> Option<&'static str> {
    let name = name.replace(':', "_");
    let stem = ENDS.iter().find_map(|(end, _)| name.strip_suffix(end)).unwrap_or(&name);
    let of = |(beginnings, timed): &Server| {
        let rest = beginnings.iter().find_map(|beginning| stem.strip_prefix(beginning))?;
        timed.iter().find(|(known, _)| *known == rest).map(|(_, times)| *times)
    };
    SERVERS.iter().find_map(of)
}

/// Whether the metric is one of an inference server, whose attributes are labels of Prometheus.
pub(super) fn is_server(name: &str) -> bool {
    server(name).is_some()
}

/// Microseconds in the unit of the metric `name`. One without a unit may have it in its name. Tokens are not converted.
pub(super) fn factor(name: &str, unit: &str) -> Option<f64> {
    if name == TOKENS {
        return matches!(unit, "{token}" | "{tokens}" | "").then_some(1.0);
    }
    let told = names::microseconds_in(unit);
    let told = told.or_else(|| WORDS.iter().find(|(word, _)| *word == unit).map(|(_, factor)| *factor));
    if told.is_some() || !unit.is_empty() {
        return told;
    }
    let named = ENDS.iter().find(|(end, _)| name.ends_with(end)).map(|(_, factor)| *factor);
    // TGI's names have none.
    named.or_else(|| server(name).map(|_| 1e6))
}

/// Whether these attributes are of requests that ended before their answer.
pub(super) fn aborted(point: Attributes<'_>) -> bool {
    ABORTED.iter().any(|(name, values)| {
        point.get(name).is_some_and(|told| {
            // Of a class, the last part of its name.
            let told = told.rsplit(['.', ':', '/']).next().unwrap_or_default().to_ascii_lowercase();
            values.contains(&told.replace([' ', '-'], "_").as_str())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_servers_are_known_with_and_without_a_colon_and_a_unit() {
        for name in ["vllm:e2e_request_latency_seconds", "vllm_e2e_request_latency_seconds", "vllm:e2e_request_latency"]
        {
            assert_eq!(times(name), Some("request_duration"), "{name}");
        }
        assert_eq!(times("vllm:time_per_output_token_seconds"), Some("inter_token_latency"));
        assert_eq!(times("sglang:time_per_output_token_seconds"), Some("time_per_output_token"));
        assert_eq!(times("tgi_request_queue_duration"), Some("queue_time"));
        assert_eq!(times("nv_inference_first_response_histogram_ms"), Some("time_to_first_token"));
        assert_eq!(times("vllm:request_prompt_tokens"), None);
        assert_eq!(times("db.client.operation.duration"), None);
        assert_eq!(times("gen_ai.client.operation.duration"), Some("client_request_duration"));
    }

    #[test]
    fn a_unit_is_told_or_is_in_the_name() {
        assert_eq!(factor("vllm:time_to_first_token_seconds", ""), Some(1e6));
        assert_eq!(factor("nv_inference_first_response_histogram_ms", ""), Some(1e3));
        assert_eq!(factor("tgi_request_duration", ""), Some(1e6));
        assert_eq!(factor("my_latency_us", ""), Some(1.0));
        assert_eq!(factor("my_latency_seconds", "ms"), Some(1e3));
        assert_eq!(factor("my_latency", "seconds"), Some(1e6));
        for (name, unit) in [("my_latency", ""), ("my_size_seconds", "By"), ("http.server.request.body.size", "By")] {
            assert_eq!(factor(name, unit), None, "{name}");
        }
    }
}
