//! Totals that fall at an address whose servers do not say when they began.

use proptest::prelude::*;

use super::super::taken::{Reason, Taken};
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

/// Takes pages every ten seconds, and tells what was counted of each.
fn counts(watched: &mut Watched, totals: &[u64]) -> Vec<u64> {
    let first = watched.server.page_ns.map_or(0, |page| (page - at(0)) / 1_000_000_000);
    (1..).zip(totals).map(|(number, n)| count(&watched.take(first + 10 * number, &page(*n)))).collect()
}

#[test]
fn servers_that_take_turns_are_told_by_totals_that_fall_again() {
    let mut watched = Watched::new(rules());
    watched.take(10, &page(1_000));
    // This may be a server that began again.
    let taken = watched.take(20, &page(400));
    assert_eq!((count(&taken), served(&taken), taken.latencies[0].reset), (400, 400, true));
    assert_eq!(count(&watched.take(30, &page(405))), 5);
    // Another one, from now on: two histograms and two counters of each page.
    for (seconds, n) in [(40, 390), (50, 1_010), (60, 412), (70, 1_025), (80, 418)] {
        let taken = watched.take(seconds, &page(n));
        assert_eq!((count(&taken), served(&taken), dropped(&taken, Reason::Overlap)), (0, 0, 4), "{n}");
        assert!(taken.served.iter().all(|served| served.aborted.is_none()), "{n}");
        let kept = serde_json::to_string(&watched.server).unwrap();
        watched.server = serde_json::from_str(&kept).unwrap();
    }
    // One of them alone.
    for seconds in (90..=380).step_by(10) {
        assert_eq!(count(&watched.take(seconds, &page(420))), 0);
    }
    let taken = watched.take(390, &page(427));
    assert_eq!((count(&taken), served(&taken), dropped(&taken, Reason::Overlap)), (7, 7, 0));
}

#[test]
fn however_many_idle_servers_take_turns_what_they_had_counted_is_not_told_again_and_again() {
    for servers in 2..9 {
        let mut watched = Watched::new(rules());
        let totals: Vec<u64> = (1..=servers).map(|server| 1_000 * server).collect();
        let rounds: Vec<u64> = std::iter::repeat_n(&totals, 50).flatten().copied().collect();
        let counted: u64 = counts(&mut watched, &rounds).into_iter().sum();
        // Up to the second fall, twice what the greatest one had counted, the first one aside.
        assert_eq!(counted, 2 * 1_000 * servers - 1_000, "{servers}");
        let seconds = 10 * rounds.len() as u64 + 10;
        assert_eq!(dropped(&watched.take(seconds, &page(1_000)), Reason::Overlap), 4);
    }
}

#[test]
fn a_server_that_begins_again_counts_whatever_it_comes_to() {
    // At once more than before, and later as much as before.
    for totals in [&[2, 2, 0, 50][..], &[2, 0, 50], &[90, 7, 1_000], &[1_000, 999]] {
        let counted: u64 = counts(&mut Watched::new(rules()), totals).into_iter().sum();
        let expected = if totals == [90, 7, 1_000] { 1_000 } else { totals[totals.len() - 1] };
        assert_eq!(counted, expected, "{totals:?}");
    }
    // A model that is asked for rarely, beside one that is busy.
    let two = |busy: u64, rare: u64| page(busy) + &page(rare).replace("\"m\"", "\"rare\"").replace("# TYPE", "# type");
    let mut watched = Watched::new(rules());
    watched.take(10, &two(1_000, 1));
    assert_eq!(count(&watched.take(20, &two(3, 0))), 3);
    assert_eq!(count(&watched.take(30, &two(2_000, 0))), 1_997);
    let taken = watched.take(40, &two(2_040, 1));
    assert_eq!((count(&taken), served(&taken), dropped(&taken, Reason::Overlap)), (41, 41, 0));
}

#[test]
fn a_histogram_that_could_not_be_read_as_its_server_began_again_counts_when_it_can() {
    let mut watched = Watched::new(rules());
    watched.take(10, &page(1_000));
    let whole = page(9);
    let torn = whole.replace(
        "request_latency_seconds_count{model_name=\"m\",engine=\"0\"} 9",
        "request_latency_seconds_count{model_name=\"m\",engine=\"0\"} 8",
    );
    assert_ne!(torn, whole);
    let taken = watched.take(20, &torn);
    assert_eq!((count(&taken), served(&taken)), (0, 9));
    let taken = watched.take(30, &page(12));
    assert_eq!((count(&taken), served(&taken), dropped(&taken, Reason::Overlap)), (12, 3, 0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    /// A server that begins again now and then, and says no start, is counted exactly.
    #[test]
    fn a_server_that_begins_again_is_counted_exactly(
        runs in prop::collection::vec(prop::collection::vec(0..60_u64, 35..60), 1..5),
    ) {
        let mut watched = Watched::new(rules());
        watched.take(10, &page(500));
        let (mut seconds, mut came, mut counted) = (10, 0, 0);
        let mut before = 500;
        for run in runs {
            let mut total = 0;
            for more in run {
                // Where it has counted as much in a step as in its last run, nothing tells that it began again.
                if total == 0 && more >= before {
                    continue;
                }
                total += more;
                seconds += 10;
                came += more;
                let taken = watched.take(seconds, &page(total));
                counted += count(&taken);
                prop_assert_eq!(dropped(&taken, Reason::Overlap), 0);
                prop_assert!(counted <= came);
            }
            before = total;
        }
        prop_assert_eq!(counted, came);
    }
}
