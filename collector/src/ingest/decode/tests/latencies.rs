//! Histograms of others: their layouts, what they mean, and what can't be true of them.

use contador_schemas::cells::Cells;
use contador_schemas::rows::{Latency, Served};

use super::*;

const DELTA: i32 = AggregationTemporality::Delta as i32;

fn explicit(name: &str, unit: &str, point: HistogramDataPoint) -> Sent {
    sent(metric(name, unit, Data::Histogram(Histogram { data_points: vec![point], aggregation_temporality: DELTA })))
}

/// A point of 10 s with these attributes, whose sum is not told.
fn told(bounds: &[f64], counts: &[u64], pairs: &[(&str, &str)]) -> HistogramDataPoint {
    HistogramDataPoint { attributes: attributes(pairs), sum: None, ..buckets(bounds, counts) }
}

fn exponential(point: ExponentialHistogramDataPoint) -> Sent {
    let point = ExponentialHistogramDataPoint { time_unix_nano: T, ..point };
    let data = ExponentialHistogram { data_points: vec![point], aggregation_temporality: DELTA };
    sent(metric("gen_ai.server.request.duration", "s", Data::ExponentialHistogram(data)))
}

fn one(sent: Sent) -> Latency {
    let mut decoded = decode(&request([sent]));
    assert_eq!((decoded.rejected.message().as_str(), decoded.rows.latency.len()), ("", 1));
    decoded.rows.latency.remove(0)
}

fn rejected(sent: Sent) -> Vec<&'static str> {
    let decoded = decode(&request([sent]));
    assert!(decoded.rows.is_empty() && decoded.running.is_empty());
    decoded.rejected.iter().map(|(reason, _)| reason.as_str()).collect()
}

#[test]
fn c7_a_zero_threshold_is_kept_also_beside_others() {
    let of = |zero_threshold| {
        let row = one(exponential(ExponentialHistogramDataPoint {
            count: 2,
            zero_count: 2,
            zero_threshold,
            ..ExponentialHistogramDataPoint::default()
        }));
        Cells::from_columns(&row.lo, &row.hi, &row.n).unwrap()
    };
    let mut merged = of(0.02);
    merged.merge(&of(0.5)).unwrap();
    merged.merge(&of(0.02)).unwrap();
    assert_eq!(merged.to_columns(), (vec![0.0, 0.0], vec![20_000.0, 500_000.0], vec![4, 2]));
}

#[test]
fn c9_an_exponential_histogram_is_stored_at_every_scale_and_any_other_is_rejected_visibly() {
    let point = |scale, offset| ExponentialHistogramDataPoint {
        count: 3,
        scale,
        positive: Some(Buckets { offset, bucket_counts: vec![1, 0, 2] }),
        ..ExponentialHistogramDataPoint::default()
    };
    for scale in -10..=20 {
        for offset in [i32::MIN, -1_000_000, -1, 0, 1, 1_000_000, i32::MAX - 3] {
            let row = one(exponential(point(scale, offset)));
            assert_eq!(row.n.iter().sum::<u64>(), 3, "{scale} {offset}");
            let edges = row.lo.iter().zip(&row.hi);
            assert!(
                edges.clone().all(|(lo, hi)| lo.is_finite() && *lo >= 0.0 && hi >= lo),
                "{scale} {offset}: {row:?}"
            );
        }
    }
    for scale in [-11, 21, i32::MIN, i32::MAX] {
        assert_eq!(rejected(exponential(point(scale, 0))), ["buckets"]);
    }
}

#[test]
fn an_empty_histogram_makes_no_row_and_a_count_alone_is_one_unbounded_cell() {
    let decoded = decode(&request([
        explicit("some.duration", "s", told(&[0.1], &[0, 0], &[])),
        explicit("other.duration", "s", HistogramDataPoint { count: 5, ..told(&[], &[], &[]) }),
    ]));
    let [row] = decoded.rows.latency.as_slice() else { panic!("{:?}", decoded.rows.latency) };
    assert_eq!((row.lo.as_slice(), row.hi.as_slice(), row.n.as_slice()), (&[0.0][..], &[f64::INFINITY][..], &[5][..]));
    assert_eq!(decoded.rejected.points(), 0);
}

#[test]
fn bounds_that_are_none_are_rejected() {
    for bounds in [[f64::NAN, 1.0], [1.0, f64::NAN], [1.0, 1.0], [2.0, 1.0], [f64::NEG_INFINITY, 1.0]] {
        assert_eq!(rejected(explicit("some.duration", "s", told(&bounds, &[1, 1, 1], &[]))), ["buckets"], "{bounds:?}");
    }
    // More above infinity than nothing.
    assert_eq!(rejected(explicit("some.duration", "s", told(&[1.0, f64::INFINITY], &[1, 1, 1], &[]))), ["buckets"]);
    assert_eq!(rejected(explicit("some.duration", "s", told(&[1.0, 2.0], &[1, 1], &[]))), ["buckets"]);
    let below = HistogramDataPoint { min: Some(-0.5), ..told(&[1.0], &[1, 0], &[]) };
    assert_eq!(rejected(explicit("some.duration", "s", below)), ["negative_range"]);
    let torn = HistogramDataPoint { count: 4, ..told(&[1.0], &[1, 2], &[]) };
    assert_eq!(rejected(explicit("some.duration", "s", torn)), ["torn"]);
}

#[test]
fn least_and_greatest_values_narrow_the_outer_cells() {
    let point = HistogramDataPoint { min: Some(0.03), max: Some(0.8), ..told(&[0.1, 0.5], &[3, 4, 1], &[]) };
    let row = one(explicit("some.duration", "s", point));
    assert_eq!((row.lo.as_slice(), row.hi.as_slice()), (&[30_000.0, 1e5, 5e5][..], &[1e5, 5e5, 800_000.0][..]));
    // Of other values than these.
    let point = HistogramDataPoint { min: Some(0.2), max: Some(0.3), ..told(&[0.1, 0.5], &[3, 4, 1], &[]) };
    let row = one(explicit("some.duration", "s", point));
    assert_eq!((row.lo[0], row.hi[2]), (0.0, f64::INFINITY));
}

#[test]
fn l10_a_sum_that_the_values_cannot_have_is_rejected_and_counted() {
    let point = |sum| HistogramDataPoint { sum: Some(sum), ..told(&[0.3, 0.5, 1.0], &[2, 1, 1, 0], &[]) };
    // At least 0 + 0.3 + 0.5, at most 2 × 0.3 + 0.5 + 1.
    for sum in [0.8, 0.800_001, 1.5, 2.1] {
        assert_eq!(one(explicit("some.duration", "s", point(sum))).sum_us, Some(sum * 1e6));
    }
    // A prefill that is as negative as the server's uptime is long, and a decode as long as that.
    for sum in [-172_800.0, 0.79, 2.11, 172_800.0] {
        assert_eq!(rejected(explicit("some.duration", "s", point(sum))), ["implausible_sum"], "{sum}");
    }
    // Without an upper bound, any sum is one.
    let open = HistogramDataPoint { sum: Some(172_800.0), ..told(&[0.3], &[2, 1], &[]) };
    assert_eq!(one(explicit("some.duration", "s", open)).count, 3);
}

#[test]
fn l11_what_was_aborted_is_a_lower_bound_and_never_fast() {
    let aborted = [
        [("http.response.status_code", "499")],
        [("rpc.grpc.status_code", "1")],
        [("rpc.grpc.status_code", "4")],
        [("rpc.response.status_code", "DEADLINE_EXCEEDED")],
        [("error.type", "timeout")],
        [("error.type", "asyncio.exceptions.CancelledError")],
        [("error.type", "java.util.concurrent.TimeoutException")],
        [("error.type", "Client disconnect")],
    ];
    let point = |pairs: &[(&str, &str)]| HistogramDataPoint { sum: Some(0.9), ..told(&[0.1, 0.5], &[3, 1, 0], pairs) };
    for pairs in &aborted {
        let sent = explicit("http.server.request.duration", "s", HistogramDataPoint { sum: Some(0.4), ..point(pairs) });
        let row = one(sent);
        assert_eq!((row.censored, row.count, row.sum_us), (4, 4, None), "{pairs:?}");
        assert_eq!((row.lo.as_slice(), row.n.as_slice()), (&[0.0, 1e5][..], &[3, 1][..]));
        assert!(row.hi.iter().all(|hi| *hi == f64::INFINITY));
    }
    for pair in [("http.response.status_code", "504"), ("error.type", "500"), ("rpc.grpc.status_code", "14")] {
        let sent =
            explicit("http.server.request.duration", "s", HistogramDataPoint { sum: Some(0.4), ..point(&[pair]) });
        assert_eq!(one(sent).censored, 0, "{pair:?}");
    }
}

#[test]
fn an_agents_latency_is_taken_with_the_time_that_it_has() {
    let hour = 3_600_000_000_000;
    let point = HistogramDataPoint { time_unix_nano: T + hour, ..told(&[5.0], &[1, 0], &[]) };
    let mut own = explicit(names::LATENCY, "us", point.clone());
    let Some(Data::Histogram(data)) = &mut own.metric.data else { panic!("a histogram") };
    data.data_points[0].attributes = attributes(&[(names::LATENCY_METRIC, "queue_time")]);
    assert_eq!(one(own).ts, i64::try_from(T + hour).unwrap());
    assert_eq!(rejected(explicit("some.duration", "s", point)), ["time"]);
}

#[test]
fn an_agent_says_what_was_aborted_and_that_a_source_began_again() {
    let own = |pairs: &[(&str, &str)]| {
        let pairs: Vec<_> = pairs.iter().copied().chain([(names::LATENCY_METRIC, "request_duration")]).collect();
        one(explicit(names::LATENCY, "us", told(&[5.0, 9.0], &[0, 1, 0], &pairs)))
    };
    let plain = own(&[]);
    assert_eq!((plain.censored, plain.reset, plain.hi.as_slice()), (0, false, &[9.0][..]));
    let again = own(&[(names::LATENCY_RESET, "true")]);
    assert_eq!((again.reset, again.series, again.source), (true, plain.series, plain.source));
    let aborted = own(&[(names::LATENCY_CENSORED, "true")]);
    assert_eq!((aborted.censored, aborted.hi.as_slice()), (1, &[f64::INFINITY][..]));
    // A row of its own in the same series.
    assert_eq!(aborted.series, plain.series);
    assert_ne!(aborted.source, plain.source);
    assert!(aborted.attributes.is_empty() && again.attributes.is_empty());
    assert_eq!(own(&[(names::LATENCY_CENSORED, "false")]), plain);
}

#[test]
fn a_server_behind_a_receiver_of_prometheus_format_is_known() {
    let pairs = [("model_name", "llama"), ("engine", "1")];
    let row = one(explicit("vllm:e2e_request_latency_seconds", "", told(&[0.3, 0.5], &[1, 2, 0], &pairs)));
    assert_eq!(
        (row.metric.as_str(), row.model.as_str(), row.hi.as_slice()),
        ("request_duration", "llama", &[3e5, 5e5][..])
    );
    let other = [("model_name", "llama"), ("engine", "0")];
    let beside = one(explicit("vllm:e2e_request_latency_seconds", "", told(&[0.3, 0.5], &[1, 2, 0], &other)));
    assert_eq!(row.series, beside.series);
    assert_ne!(row.source, beside.source);
    assert_eq!(rejected(explicit("some.size", "", told(&[0.3], &[1, 0], &[]))), ["histogram_unit"]);
}

#[test]
fn what_a_client_saw_is_no_servers_request() {
    let pairs = [("gen_ai.operation.name", "chat"), ("gen_ai.request.model", "llama"), ("server.address", "10.0.0.1")];
    let row = one(explicit("gen_ai.client.operation.duration", "s", told(&[0.3], &[1, 0], &pairs)));
    assert_eq!(
        (row.metric.as_str(), row.model.as_str(), row.route.as_str()),
        ("client_request_duration", "llama", "chat")
    );
    assert!(row.attributes.contains(&("server.address".to_owned(), "10.0.0.1".to_owned())));
    // At a server, its address says which replica it is.
    let server = one(explicit("gen_ai.server.request.duration", "s", told(&[0.3], &[1, 0], &pairs)));
    assert!(server.attributes.iter().all(|(name, _)| name != "server.address"));
}

#[test]
fn tokens_of_clients_are_what_was_served() {
    let usage = |kind: &str, sum, route: &str| {
        let pairs = [("gen_ai.token.type", kind), ("gen_ai.request.model", "llama"), ("gen_ai.operation.name", route)];
        let point = HistogramDataPoint { sum, ..told(&[64.0, 1024.0], &[1, 2, 0], &pairs) };
        explicit("gen_ai.client.token.usage", "{token}", point)
    };
    let decoded = decode(&request([
        usage("input", Some(700.0), "chat"),
        usage("output", Some(1_500.0), "chat"),
        usage("output", Some(200.0), "text_completion"),
        usage("thought", Some(700.0), "chat"),
        usage("input", None, "chat"),
    ]));
    let reasons: Vec<_> = decoded.rejected.iter().map(|(reason, count)| (reason.as_str(), count)).collect();
    assert_eq!((reasons, decoded.rows.len()), (vec![("no_value", 1), ("attribute", 1)], 3));
    let rows = &decoded.rows.served;
    let sum = |of: fn(&Served) -> Option<u64>| rows.iter().filter_map(of).sum::<u64>();
    assert_eq!((sum(|row| row.input_tokens), sum(|row| row.output_tokens), sum(|row| row.requests)), (700, 1_700, 6));
    // No row replaces another one.
    let keys: std::collections::HashSet<_> = rows.iter().map(|row| (row.source, row.ts)).collect();
    assert_eq!(keys.len(), 3);
    assert!(rows.iter().all(|row| row.model == "llama" && row.service == "contador-agent"));
}

#[test]
fn what_a_service_served_is_one_row_of_its_counts() {
    let count = |name: &str, value, pairs: &[(&str, &str)]| {
        let mut pairs = pairs.to_vec();
        pairs.extend([(names::SERVICE_NAME, "api"), (names::MODEL, "llama")]);
        let mut point = point(int(value), &pairs);
        point.start_time_unix_nano = T - 10_000_000_000;
        sent(shaped(name, point))
    };
    let sent = [
        count(names::SERVED_REQUESTS, 7, &[]),
        count(names::SERVED_ABORTED, 0, &[]),
        count(names::SERVED_TOKENS, 900, &[(names::TOKEN_TYPE, "input")]),
        count(names::SERVED_TOKENS, 5, &[]),
        count(names::SERVED_REQUESTS, -1, &[("host.name", "other")]),
    ];
    let decoded = decode(&request(sent));
    let reasons: Vec<_> = decoded.rejected.iter().map(|(reason, count)| (reason.as_str(), count)).collect();
    assert_eq!(reasons, [("negative", 1), ("attribute", 1)]);
    let [row] = decoded.rows.served.as_slice() else { panic!("{:?}", decoded.rows.served) };
    assert_eq!((row.service.as_str(), row.model.as_str(), row.node.as_str()), ("api", "llama", "node-1"));
    assert_eq!((row.requests, row.aborted, row.input_tokens, row.output_tokens), (Some(7), Some(0), Some(900), None));
    assert_eq!((row.ts - row.start_ts, row.window), (10_000_000_000, window_of(T).unwrap()));
}

#[test]
fn two_increases_that_end_in_one_millisecond_are_two_rows() {
    let export = |start: i64, count| {
        let start_time_unix_nano = start.cast_unsigned();
        let point = HistogramDataPoint { start_time_unix_nano, ..told(&[1.0], &[count, 0], &[]) };
        explicit("http.server.request.duration", "s", point)
    };
    let time = i64::try_from(T).unwrap();
    let sent = || [export(time - 10_000_000_000, 3), export(time, 2)];
    // In one request, and in one each: the same rows, of the same instants whenever they are sent again.
    let together = decode(&request(sent()));
    let rows = |decoded: &Decoded| -> Vec<(i64, i64, u64)> {
        decoded.rows.latency.iter().map(|row| (row.start_ts, row.ts, row.count)).collect()
    };
    assert_eq!(rows(&together), [(time - 10_000_000_000, time, 3), (time, time + 1, 2)]);
    assert_eq!(together.rejected.points(), 0);
    let apart: Vec<_> = sent().into_iter().flat_map(|export| rows(&decode(&request([export])))).collect();
    assert_eq!(apart, rows(&together));
    // An agent's own have instants of their own.
    let own = HistogramDataPoint {
        start_time_unix_nano: T,
        ..told(&[1.0], &[1, 0], &[(names::LATENCY_METRIC, "request_duration")])
    };
    assert_eq!(one(explicit(names::LATENCY, "us", own)).ts, time);
}
