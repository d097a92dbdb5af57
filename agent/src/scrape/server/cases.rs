//! What happened to others, by the number of the case; and what must not happen to us.

use contador_schemas::cells::Cells;
use contador_schemas::quantile::{Quantile, State};

use super::super::taken::Reason;
use super::super::text::Format;
use super::Server;
use super::fixture::*;

const E2E: &str = "vllm:e2e_request_latency_seconds";
const E2E_BOUNDS: [&str; 21] = [
    "0.3", "0.5", "0.8", "1.0", "1.5", "2.0", "2.5", "5.0", "10.0", "15.0", "20.0", "30.0", "40.0", "50.0", "60.0",
    "120.0", "240.0", "480.0", "960.0", "1920.0", "7680.0",
];
const VLLM: &str = "engine=\"0\",model_name=\"llama\"";

/// A page of vLLM's requests: values by bucket, and their sum.
fn e2e(values: &[(usize, u64)], sum: f64) -> String {
    let mut counts = [0; 22];
    values.iter().for_each(|&(bucket, n)| counts[bucket] = n);
    histogram(E2E, VLLM, &E2E_BOUNDS, &counts, sum)
}

fn p99(cells: &Cells) -> (f64, f64) {
    cells.interval(Quantile::P99).unwrap()
}

#[test]
fn l1_all_requests_below_the_first_bound_are_somewhere_below_it() {
    let mut watched = Watched::new(rules());
    watched.take(1, &e2e(&[], 0.0));
    let taken = watched.take(2, &e2e(&[(0, 1_000)], 45.0));
    let increase = only(&taken, "request_duration");
    assert_eq!(cells(increase), [(0.0, 300_000.0, 1_000)]);
    let answer = increase.cells.quantile(Quantile::P99, 1.5, 0);
    assert_eq!((answer.low, answer.high, answer.state), (Some(0.0), Some(300_000.0), State::Unresolved));
    assert_eq!((&*increase.model, &increase.source[..]), ("llama", &[("engine".to_owned(), "0".to_owned())][..]));
    assert_eq!((increase.start_ns, increase.end_ns, increase.sum_us), (at(1), at(2), Some(45e6)));
    assert!(increase.attributes.is_empty() && !increase.reset && !increase.censored);
}

#[test]
fn l2_milliseconds_below_the_first_bound_stay_an_interval() {
    let mut watched = Watched::new(custom("query_duration_ms", "request_duration"));
    let page = |values: &[u64], sum| histogram("query_duration_ms", "", &["5", "10", "25"], values, sum);
    watched.take(1, &page(&[0, 0, 0, 0], 0.0));
    let taken = watched.take(2, &page(&[191_340, 20, 7, 0], 191_367.0 * 0.22));
    let increase = only(&taken, "request_duration");
    assert_eq!((p99(&increase.cells), increase.cells.count()), ((0.0, 5_000.0), 191_367));
    assert_eq!(increase.cells.quantile(Quantile::P99, 1.5, 0).state, State::Unresolved);
}

#[test]
fn l3_values_above_the_last_bound_have_no_upper_end() {
    let mut watched = Watched::new(custom("latency_seconds", ""));
    let page = |values: &[u64], sum| histogram("latency_seconds", "", &["15", "30"], values, sum);
    watched.take(1, &page(&[0, 0, 0], 0.0));
    let taken = watched.take(2, &page(&[0, 2_513, 8_495], 2_351_897.947));
    let (low, high) = p99(&only(&taken, "latency_seconds").cells);
    assert!(low > 30e6 && low < 30e6 + 1e-3 && high == f64::INFINITY);
}

#[test]
fn l4_one_sample_is_too_few() {
    let mut watched = Watched::new(custom("latency_seconds", ""));
    let page = |values: &[u64], sum| histogram("latency_seconds", "", &["1", "2"], values, sum);
    watched.take(1, &page(&[3, 0, 0], 1.0));
    let taken = watched.take(2, &page(&[3, 1, 0], 2.5));
    let answer = only(&taken, "latency_seconds").cells.quantile(Quantile::P99, 10.0, 0);
    assert_eq!(
        (answer.low, answer.high, answer.state, answer.n),
        (Some(1e6_f64.next_up()), Some(2e6), State::TooFew, 1)
    );
}

#[test]
fn l5_plus_inf_that_lags_discards_the_scrape_and_the_next_one_covers_it() {
    let mut watched = Watched::new(rules());
    watched.take(1, &e2e(&[(0, 5)], 1.0));
    let good = e2e(&[(0, 9), (3, 2)], 3.8);
    // The last bucket was read before the others were counted.
    let torn = good
        .replace("le=\"+Inf\"} 11.0", "le=\"+Inf\"} 5.0")
        .replace("_count{engine=\"0\",model_name=\"llama\"} 11", "_count{engine=\"0\",model_name=\"llama\"} 5");
    assert_ne!(torn, good);
    let taken = watched.take(2, &torn);
    assert_eq!((taken.latencies.len(), dropped(&taken, Reason::Torn)), (0, 1));
    // The number of values is another one than the last bucket has.
    let torn =
        good.replace("_count{engine=\"0\",model_name=\"llama\"} 11", "_count{engine=\"0\",model_name=\"llama\"} 12");
    assert_eq!(dropped(&watched.take(3, &torn), Reason::Torn), 1);
    let taken = watched.take(4, &good);
    let increase = only(&taken, "request_duration");
    assert_eq!((increase.cells.count(), increase.start_ns, increase.end_ns), (6, at(1), at(4)));
}

#[test]
fn l6_no_traffic_is_no_row() {
    let mut watched = Watched::new(rules());
    let page = e2e(&[(0, 5)], 1.0);
    watched.take(1, &page);
    let taken = watched.take(2, &page);
    assert_eq!((taken.latencies.len(), taken.served.len(), taken.dropped.len()), (0, 0, 0));
    assert_eq!(taken.presets, ["vllm"]);
}

#[test]
fn l7_counts_that_fall_are_a_reset_and_the_new_value_is_the_increase() {
    let mut watched = Watched::new(rules());
    watched.take(1, &e2e(&[(0, 1_000)], 100.0));
    let taken = watched.take(2, &e2e(&[(0, 200)], 20.0));
    let increase = only(&taken, "request_duration");
    assert_eq!((increase.cells.count(), increase.reset, increase.start_ns), (200, true, at(1)));
    // One bucket that fell is enough.
    let taken = watched.take(700, &e2e(&[(0, 150), (1, 400)], 150.0));
    assert_eq!((only(&taken, "request_duration").cells.count(), only(&taken, "request_duration").reset), (550, true));
}

#[test]
fn l7_another_start_of_the_process_is_a_reset_even_when_all_counts_rise() {
    let mut watched = Watched::new(rules());
    watched.take(10, &(e2e(&[(0, 10)], 1.0) + &started(-50.0)));
    let taken = watched.take(20, &(e2e(&[(0, 30)], 3.0) + &started(12.5)));
    let increase = only(&taken, "request_duration");
    assert_eq!((increase.cells.count(), increase.reset), (30, true));
    assert_eq!((increase.start_ns, increase.end_ns), (at(12) + 500_000_000, at(20)));
}

#[test]
fn l8_the_first_scrape_is_a_base_line_unless_the_start_was_watched() {
    let page = e2e(&[(0, 40)], 4.0);
    let taken = Watched::new(rules()).take(5, &page);
    assert_eq!((taken.latencies.len(), dropped(&taken, Reason::BaseLine)), (0, 1));
    // It started before it was watched.
    let taken = Watched::new(rules()).take(5, &(page.clone() + &started(-1.0)));
    assert_eq!((taken.latencies.len(), dropped(&taken, Reason::BaseLine)), (0, 1));
    // It started after that.
    let taken = Watched::new(rules()).take(5, &(page.clone() + &started(2.0)));
    let increase = only(&taken, "request_duration");
    assert_eq!((increase.cells.count(), increase.reset, increase.start_ns), (40, false, at(2)));
    // By its own word, as Python's client says it beside the histogram.
    let created = format!("# TYPE {E2E}_created gauge\n{E2E}_created{{{VLLM}}} {}.25\n", T + 3);
    let taken = Watched::new(rules()).take(5, &(page.clone() + &created));
    assert_eq!(only(&taken, "request_duration").start_ns, at(3) + 250_000_000);
    // A start that is still to come is none.
    let taken = Watched::new(rules()).take(5, &(page + &started(90.0)));
    assert_eq!(taken.latencies.len(), 0);
}

#[test]
fn l8_a_series_that_appears_began_after_the_page_before() {
    let mut watched = Watched::new(rules());
    watched.take(1, "tgi_queue_size 0\n");
    let page = histogram("tgi_request_duration", "", &["0.5", "1"], &[7, 0, 0], 1.0);
    let taken = watched.take(2, &page);
    let increase = only(&taken, "request_duration");
    assert_eq!((increase.cells.count(), increase.start_ns, increase.reset), (7, at(1), false));
    // Not when that page could not be read there.
    let mut watched = Watched::new(rules());
    watched.take(1, "# TYPE tgi_request_duration histogram\ntgi_request_duration_bucket{le=\"0.5\"} x\n");
    let taken = watched.take(2, &page);
    assert_eq!((taken.latencies.len(), dropped(&taken, Reason::BaseLine)), (0, 1));
    // It goes away and comes back: it is the same as before.
    watched.take(3, "tgi_queue_size 0\n");
    let taken = watched.take(4, &histogram("tgi_request_duration", "", &["0.5", "1"], &[9, 0, 0], 1.3));
    assert_eq!((only(&taken, "request_duration").cells.count(), only(&taken, "request_duration").start_ns), (2, at(2)));
}

#[test]
fn l9_other_bounds_begin_anew_and_what_is_stored_still_adds_up() {
    let mut watched = Watched::new(rules());
    let family = "sglang:e2e_request_latency_seconds";
    let page = |bounds: &[&str], values: &[u64], sum| histogram(family, "model_name=\"m\"", bounds, values, sum);
    watched.take(1, &page(&["0.1", "1"], &[0, 0, 0], 0.0));
    let old = watched.take(2, &page(&["0.1", "1.0"], &[3, 4, 1], 5.0));
    let change = watched.take(3, &page(&["0.2", "1"], &[4, 4, 1], 5.1));
    assert_eq!((change.latencies.len(), dropped(&change, Reason::BaseLine)), (0, 1));
    let new = watched.take(4, &page(&["0.2", "1"], &[6, 4, 1], 5.3));
    let mut cells = only(&old, "request_duration").cells.clone();
    cells.merge(&only(&new, "request_duration").cells).unwrap();
    assert_eq!(cells.count(), 10);
    // With a new process, all of it came since then.
    let mut watched = Watched::new(rules());
    watched.take(1, &(page(&["0.1", "1"], &[1, 0, 0], 0.1) + &started(-9.0)));
    let taken = watched.take(9, &(page(&["0.2", "1"], &[6, 4, 1], 5.3) + &started(5.0)));
    assert_eq!(only(&taken, "request_duration").cells.count(), 11);
}

#[test]
fn l10_negative_latencies_are_dropped_and_counted() {
    let mut watched = Watched::new(rules());
    let family = "vllm:request_prefill_time_seconds";
    let page = |n: u64, sum: f64| histogram(family, VLLM, &["0.3", "0.5"], &[n, 0, 0], sum);
    watched.take(1, &page(10, 2.0));
    // One prefill began at the machine's start by mistake.
    let taken = watched.take(2, &page(12, 2.1 - 86_400.0));
    assert_eq!((taken.latencies.len(), dropped(&taken, Reason::Sum)), (0, 2));
    let taken = watched.take(3, &page(15, 2.6 - 86_400.0));
    assert_eq!((only(&taken, "prefill_time").cells.count(), taken.dropped.len()), (3, 0));
    assert!((only(&taken, "prefill_time").sum_us.unwrap() - 500_000.0).abs() < 1.0);
}

#[test]
fn l10_latencies_that_are_longer_than_the_server_runs_are_dropped_and_counted() {
    let mut watched = Watched::new(rules());
    let family = "vllm:request_decode_time_seconds";
    let page =
        |values: &[u64], sum: f64| histogram(family, VLLM, &["60.0", "7680.0"], values, sum) + &started(-3_600.0);
    watched.take(1, &page(&[5, 0, 0], 50.0));
    // The decode of a request that had no first token is as long as the machine runs: 100,000 s; the server runs an hour.
    let taken = watched.take(2, &page(&[9, 0, 1], 90.0 + 100_000.0));
    let increase = only(&taken, "decode_time");
    assert_eq!((cells(increase), increase.sum_us), (vec![(0.0, 60e6, 4)], None));
    assert_eq!(taken.dropped, [(Reason::Uptime, 1)]);
    // In a bucket with an end the sum tells it, too.
    let taken = watched.take(3, &page(&[9, 2, 1], 90.0 + 110_000.0));
    assert_eq!((taken.latencies.len(), dropped(&taken, Reason::Uptime)), (0, 2));
    // Long ones that can be stay.
    let taken = watched.take(4, &page(&[9, 3, 1], 90.0 + 113_000.0));
    assert_eq!(only(&taken, "decode_time").cells.count(), 1);
}

#[test]
fn a_sum_that_was_read_before_its_counts_is_no_contradiction() {
    let mut watched = Watched::new(rules());
    watched.take(1, &e2e(&[(0, 5)], 1.0));
    // 4 s are in the sum already, the request is not in its bucket.
    assert_eq!(watched.take(2, &e2e(&[(0, 5)], 5.0)).dropped, []);
    let taken = watched.take(3, &e2e(&[(0, 5), (7, 1)], 5.0));
    assert_eq!((only(&taken, "request_duration").cells.count(), only(&taken, "request_duration").start_ns), (1, at(2)));
    // The same beside another request: the next scrape covers both.
    let taken = watched.take(4, &e2e(&[(0, 6), (7, 1)], 9.1));
    assert_eq!((taken.latencies.len(), taken.dropped.len()), (0, 0));
    let taken = watched.take(5, &e2e(&[(0, 6), (7, 2)], 9.1));
    assert_eq!((only(&taken, "request_duration").cells.count(), only(&taken, "request_duration").start_ns), (2, at(3)));
    // A contradiction that stays is one.
    watched.take(6, &e2e(&[(0, 7), (7, 2)], 99.0));
    assert_eq!(dropped(&watched.take(7, &e2e(&[(0, 8), (7, 2)], 99.1)), Reason::Sum), 2);
}

/// A page with so many requests that got a first token, that are done, and that run.
fn in_flight(first: u64, done: u64, running: u64) -> String {
    e2e(&[(3, done)], 0.9 * done as f64)
        + &histogram("vllm:time_to_first_token_seconds", VLLM, &["0.1"], &[first, 0], 0.05 * first as f64)
        + &value("vllm:num_requests_running", VLLM, running as f64)
        + &value("vllm:num_requests_waiting", VLLM, 0.0)
}

#[test]
fn l11_aborted_requests_that_are_counted_nowhere_are_lower_bounds() {
    let mut watched = Watched::new(rules());
    // 10 had been aborted before.
    watched.take(1, &in_flight(110, 100, 0));
    assert_eq!(watched.take(2, &in_flight(120, 105, 5)).served, []);
    // The five that ran are gone, and no histogram tells of them; a second scrape says the same.
    let taken = watched.take(3, &in_flight(120, 105, 0));
    assert_eq!((taken.latencies.len(), taken.served.len()), (0, 0));
    let taken = watched.take(4, &in_flight(720, 705, 0));
    let censored = taken.latencies.iter().find(|latency| latency.censored).unwrap();
    assert_eq!((&*censored.metric, &*censored.model), ("request_duration", "llama"));
    assert_eq!((cells(censored), censored.sum_us), (vec![(0.0, f64::INFINITY, 5)], None));
    assert_eq!(taken.served[0].aborted, Some(5));
    let mut cells = only(&taken, "request_duration").cells.clone();
    cells.merge(&censored.cells).unwrap();
    // Six values are above the p99: it would be one of the others even if these five had taken longest.
    let state = |q| cells.quantile(q, 10.0, 5).state;
    assert_eq!((cells.count(), state(Quantile::P99), state(Quantile::P999)), (605, State::Ok, State::Censored));
    // They are counted once.
    assert!(watched.take(5, &in_flight(720, 705, 0)).latencies.is_empty());
}

#[test]
fn l11_requests_that_ran_at_the_first_page_and_ended_since_were_not_aborted() {
    let mut watched = Watched::new(rules());
    // Ten run, and end. Then five others are aborted.
    watched.take(1, &in_flight(100, 90, 10));
    watched.take(2, &in_flight(100, 100, 0));
    watched.take(3, &in_flight(100, 100, 0));
    watched.take(4, &in_flight(105, 100, 5));
    watched.take(5, &in_flight(105, 100, 0));
    let taken = watched.take(6, &in_flight(705, 700, 0));
    let aborted: u64 = taken.served.iter().filter_map(|served| served.aborted).sum();
    assert_eq!(aborted, 5);
}

#[test]
fn l11_aborted_requests_that_the_histogram_holds_are_not_counted_twice() {
    let page = |low: u64, high: u64, stop: u64, abort: u64| {
        e2e(&[(0, low), (7, high)], 0.1 * low as f64 + 4.0 * high as f64)
            + &value("vllm:request_success_total", &format!("{VLLM},finished_reason=\"stop\""), stop as f64)
            + &value("vllm:request_success_total", &format!("{VLLM},finished_reason=\"abort\""), abort as f64)
            + &value("vllm:prompt_tokens_total", VLLM, 100.0 * stop as f64)
    };
    let mut watched = Watched::new(rules());
    watched.take(1, &page(0, 0, 0, 0));
    let taken = watched.take(2, &page(4, 96, 97, 3));
    let increase = only(&taken, "request_duration");
    assert_eq!((cells(increase)[0], increase.cells.count(), increase.sum_us), ((0.0, 300_000.0, 1), 97, None));
    let censored = taken.latencies.iter().find(|latency| latency.censored).unwrap();
    assert_eq!((cells(censored), &censored.source), (vec![(0.0, f64::INFINITY, 3)], &increase.source));
    let served = &taken.served[0];
    assert_eq!((served.requests, served.aborted, served.input_tokens), (Some(97), Some(3), Some(9_700)));
    assert_eq!((served.output_tokens, served.start_ns, served.end_ns), (None, at(1), at(2)));
    // While the histogram is torn, aborted requests wait.
    let torn = page(5, 96, 97, 4).replace("le=\"+Inf\"} 101.0", "le=\"+Inf\"} 100.0");
    let taken = watched.take(3, &torn);
    assert_eq!((taken.latencies.len(), taken.served.len(), dropped(&taken, Reason::Torn)), (0, 0, 1));
    let taken = watched.take(4, &page(5, 96, 97, 4));
    assert_eq!((taken.latencies.len(), taken.served[0].aborted), (1, Some(1)));
    assert!(taken.latencies[0].censored);
}

#[test]
fn l16_mass_below_the_first_bound_is_not_0() {
    let mut watched = Watched::new(custom("latency_seconds", ""));
    let page = |n| histogram("latency_seconds", "", &["0.005"], &[n, 0], 0.0001 * n as f64);
    watched.take(1, &page(0));
    let taken = watched.take(2, &page(400));
    assert_eq!(p99(&only(&taken, "latency_seconds").cells), (0.0, 5_000.0));
}

#[test]
fn histograms_that_are_none_are_left_out_by_reason() {
    let good = e2e(&[(0, 5), (1, 2)], 2.0);
    for (from, to, reason) in [
        ("le=\"0.5\"} 7.0", "le=\"0.5\"} 3.0", Reason::Torn),
        ("le=\"+Inf\"", "le=\"9000\"", Reason::NoInfinity),
        ("le=\"0.5\"", "le=\"0.30\"", Reason::Duplicate),
        ("le=\"0.3\"} 5.0", "le=\"0.3\"} 4.5", Reason::Value),
        ("le=\"0.3\"} 5.0", "le=\"0.3\"} NaN", Reason::Value),
        ("le=\"0.3\"} 5.0", "le=\"0.3\"} -5", Reason::Value),
        ("le=\"0.3\"", "le=\"-0.3\"", Reason::Value),
        ("le=\"0.3\"", "le=\"NaN\"", Reason::Value),
        ("} 7.0", "} 9007199254740994", Reason::Torn),
    ] {
        let mut watched = Watched::new(rules());
        watched.take(1, &e2e(&[(0, 4)], 1.0));
        let bad = good.replace(from, to);
        assert_ne!(bad, good, "{from}");
        let taken = watched.take(2, &bad);
        assert!(taken.latencies.is_empty(), "{from} {to} {taken:?}");
        assert!(dropped(&taken, reason) > 0, "{from} {to} {:?}", taken.dropped);
        let taken = watched.take(3, &good);
        assert_eq!(
            (only(&taken, "request_duration").cells.count(), only(&taken, "request_duration").start_ns),
            (3, at(1))
        );
    }
    // A count beyond what floats hold exactly.
    let taken = Watched::new(rules()).take(1, &good.replace("} 7", "} 9007199254740994"));
    assert_eq!(dropped(&taken, Reason::Value), 1, "{:?}", taken.dropped);
}

#[test]
fn a_page_that_was_cut_or_a_line_that_cannot_be_read_loses_nothing() {
    let mut server = Server::new(at(0));
    let (rules, first, later) = (rules(), e2e(&[(0, 4)], 1.0), e2e(&[(0, 9)], 2.0));
    let ended = |page: &str| format!("{page}# EOF\n");
    server.take(&ended(&first), Format::OpenMetrics, at(1), &rules);
    let taken = server.take(&later, Format::OpenMetrics, at(2), &rules);
    assert_eq!((taken.dropped, taken.latencies.len()), (vec![(Reason::Page, 1)], 0));
    assert_eq!(taken.faults, ["the page ends at line 25 without # EOF: it was cut"]);
    let bad = later.replace("le=\"0.8\"} 9.0", "le=\"0.8\"} 9.0x");
    let taken = server.take(&ended(&bad), Format::OpenMetrics, at(3), &rules);
    assert_eq!((taken.dropped, taken.latencies.len()), (vec![(Reason::Line, 1)], 0));
    assert_eq!(taken.faults, ["line 4: the value is \"9.0x\", expected a number, NaN, +Inf or -Inf"]);
    let taken = server.take(&ended(&later), Format::OpenMetrics, at(4), &rules);
    assert_eq!((only(&taken, "request_duration").cells.count(), only(&taken, "request_duration").start_ns), (5, at(1)));
}

#[test]
fn two_servers_at_one_address_are_not_taken_for_restarts() {
    let mut watched = Watched::new(rules());
    let one = |n| e2e(&[(0, n)], 0.1 * n as f64) + &started(-1_000.0);
    let other = |n| e2e(&[(0, n)], 0.1 * n as f64) + &started(-500.0);
    watched.take(10, &one(100));
    for (seconds, page) in [(20, other(900)), (30, one(110)), (40, other(905))] {
        let taken = watched.take(seconds, &page);
        assert_eq!((taken.latencies.len(), dropped(&taken, Reason::Overlap)), (0, 1));
    }
    assert_eq!(only(&watched.take(50, &other(907)), "request_duration").cells.count(), 2);
}

#[test]
fn series_are_bounded_and_one_that_was_forgotten_is_a_base_line() {
    let mut watched = Watched::new(rules());
    watched.rules.most_series = 4;
    let page = |users: std::ops::Range<u64>, n: u64| -> String {
        users.map(|user| histogram(E2E, &format!("{VLLM},user=\"{user}\""), &["1"], &[n, 0], 0.5 * n as f64)).collect()
    };
    watched.take(1, &page(0..4, 5));
    // Two that are not shown any more make room.
    let taken = watched.take(2, &page(4..6, 5));
    assert_eq!((watched.server.series(), dropped(&taken, Reason::Series)), (4, 2));
    // One of those comes back.
    let taken = watched.take(3, &page(0..1, 9));
    assert_eq!((taken.latencies.len(), dropped(&taken, Reason::BaseLine)), (0, 1));
    // All are shown: there is no room for more.
    let taken = watched.take(4, &page(0..9, 11));
    assert!(watched.server.series() <= 4 && dropped(&taken, Reason::Series) >= 5, "{:?}", taken.dropped);
}

#[test]
fn a_memory_that_was_kept_goes_on_as_if_nothing_had_been() {
    let mut watched = Watched::new(rules());
    // Bounds that are no short decimals, and a sum that is none either.
    let bounds = ["0.00015000000000000001", "0.00022500000000000002", "0.1"];
    let page = |n, sum| histogram("tgi_request_duration", "", &bounds, &[n, 1, 0, 0], sum) + &started(-0.123_456_7);
    watched.take(1, &page(3, 0.1 + 0.000_2));
    let kept = serde_json::to_string(&watched.server).unwrap();
    let server: Server = serde_json::from_str(&kept).unwrap();
    assert_eq!(server, watched.server);
    watched.server = server;
    let taken = watched.take(2, &page(5, 0.1 + 0.000_2 + 0.000_2));
    let increase = only(&taken, "request_duration");
    assert_eq!((increase.cells.count(), increase.reset, increase.start_ns), (2, false, at(1)));
}

#[test]
fn two_scrapes_of_one_instant_are_two_rows() {
    let mut watched = Watched::new(rules());
    watched.take(1, &e2e(&[(0, 4)], 1.0));
    watched.take(2, &e2e(&[(0, 5)], 1.1));
    let taken = watched.take(2, &e2e(&[(0, 7)], 1.3));
    assert_eq!(only(&taken, "request_duration").end_ns, at(2) + 1);
    // A clock that is set back makes no interval that ends before it begins.
    let taken = watched.take(1, &e2e(&[(0, 8)], 1.4));
    assert_eq!((only(&taken, "request_duration").start_ns, only(&taken, "request_duration").end_ns), (at(1), at(1)));
}
