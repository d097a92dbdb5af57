//! Two servers that answer at one address without saying when they began.

use proptest::prelude::*;

use super::super::taken::{Reason, Taken};
use super::super::text::Format;
use super::Server;
use super::fixture::*;

/// A page of a server that has served so many requests.
fn page(n: u64) -> String {
    let labels = "model_name=\"m\",engine=\"0\"";
    let one = |family: &str, low: u64, high: u64| {
        histogram(family, labels, &["0.3", "5"], &[low, high, 0], 0.1 * low as f64 + 2.0 * high as f64)
    };
    one("vllm:e2e_request_latency_seconds", n / 3, n - n / 3)
        + &one("vllm:time_to_first_token_seconds", n - n / 5, n / 5)
        + &value("vllm:request_success_total", &format!("{labels},finished_reason=\"stop\""), n as f64)
        + &value("vllm:generation_tokens_total", labels, 20.0 * n as f64)
        + &value("vllm:num_requests_running", labels, 0.0)
        + &value("vllm:num_requests_waiting", labels, 0.0)
}

fn count(taken: &Taken) -> u64 {
    let all = taken.latencies.iter().filter(|latency| latency.metric == "request_duration");
    all.map(|latency| latency.cells.count()).sum()
}

fn served(taken: &Taken) -> u64 {
    taken.served.iter().filter_map(|served| served.requests).sum()
}

#[test]
fn servers_that_take_turns_are_told_by_their_totals() {
    let mut watched = Watched::new(rules());
    watched.take(10, &page(1_000));
    // This may be a server that began again.
    let taken = watched.take(20, &page(400));
    assert_eq!((count(&taken), served(&taken), taken.latencies[0].reset), (400, 400, true));
    for (seconds, n, came) in [(30, 1_010, 0), (40, 412, 0), (50, 417, 5), (60, 1_025, 0), (70, 1_026, 1), (80, 418, 0)]
    {
        let taken = watched.take(seconds, &page(n));
        assert_eq!((count(&taken), served(&taken)), (came, came), "{n}");
        // Two histograms and two counters.
        assert_eq!(dropped(&taken, Reason::Overlap), if came == 0 { 4 } else { 0 }, "{n}");
        assert!(taken.served.iter().all(|served| served.aborted.is_none()), "{n}");
        let kept = serde_json::to_string(&watched.server).unwrap();
        watched.server = serde_json::from_str(&kept).unwrap();
    }
}

#[test]
fn a_server_that_began_again_and_grows_beyond_what_it_was_counts_all_the_same() {
    let mut watched = Watched::new(rules());
    watched.take(10, &page(1_000));
    let (mut total, mut counted) = (0, 0);
    for round in 0..60_u64 {
        // In bursts of up to 60.
        total += 15 * (round % 5);
        let taken = watched.take(20 + 10 * round, &page(total));
        counted += count(&taken);
        assert_eq!((served(&taken), dropped(&taken, Reason::Overlap)), (count(&taken), 0));
    }
    assert_eq!((total, counted), (1_800, 1_800));
    // It begins again once more.
    let taken = watched.take(700, &page(7));
    assert_eq!((count(&taken), served(&taken)), (7, 7));
}

#[test]
fn a_server_that_was_not_asked_for_long_after_it_began_again_counts_all_the_same() {
    let mut watched = Watched::new(rules());
    watched.take(10, &page(1_000));
    assert_eq!(count(&watched.take(20, &page(3))), 3);
    let taken = watched.take(3_620, &page(1_500));
    assert_eq!((count(&taken), served(&taken), dropped(&taken, Reason::Overlap)), (1_497, 1_497, 0));
    assert_eq!(count(&watched.take(3_630, &page(1_510))), 10);
}

proptest! {
    /// Whichever of two servers answers when, no more is counted than both have served since, and once what the second one had
    /// served before.
    #[test]
    fn what_two_servers_had_served_before_is_counted_once_at_most(
        turns in prop::collection::vec((any::<bool>(), 0..6_u64, 0..6_u64, any::<bool>()), 1..60),
    ) {
        let rules = rules();
        let mut server = Server::new(at(0));
        let (mut totals, mut came, mut counted) = ([1_000, 400], 0, 0);
        server.take(&page(totals[0]), Format::Prometheus, at(1), &rules);
        for (round, (first, a, b, reload)) in turns.into_iter().enumerate() {
            totals = [totals[0] + a, totals[1] + b];
            came += a + b;
            let shown = totals[usize::from(!first)];
            let taken = server.take(&page(shown), Format::Prometheus, at(10 * (round as u64 + 1)), &rules);
            counted += count(&taken);
            prop_assert!(counted <= came + 400, "{} of {}", counted, came);
            if reload {
                server = serde_json::from_str(&serde_json::to_string(&server).unwrap()).unwrap();
            }
        }
    }
}
