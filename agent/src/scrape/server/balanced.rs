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
    for (seconds, n, came, is_other) in [
        // This may still be the same one; then it is told.
        (30, 1_010, 0, false),
        (40, 412, 12, false),
        (50, 417, 5, false),
        (60, 1_025, 0, true),
        (70, 1_026, 1, false),
        (80, 418, 0, true),
    ] {
        let taken = watched.take(seconds, &page(n));
        assert_eq!((count(&taken), served(&taken)), (came, came), "{n}");
        // Two histograms and two counters.
        assert_eq!(dropped(&taken, Reason::Overlap), if is_other { 4 } else { 0 }, "{n}");
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

/// Takes pages every ten seconds, and tells what was counted of each.
fn counts(watched: &mut Watched, totals: &[u64]) -> Vec<u64> {
    let first = watched.server.page_ns.map_or(0, |page| (page - at(0)) / 1_000_000_000);
    (1..).zip(totals).map(|(number, n)| count(&watched.take(first + 10 * number, &page(*n)))).collect()
}

#[test]
fn of_servers_with_similar_load_each_total_counts_once() {
    let mut watched = Watched::new(rules());
    // Both serve 200 from page to page: the first one's are 1000, 1600, 2000 and 2400.
    assert_eq!(counts(&mut watched, &[1_000, 600, 800, 1_600, 1_200]), [0, 600, 200, 0, 400]);
    assert_eq!(dropped(&watched.take(60, &page(2_000)), Reason::Overlap), 4);
    assert_eq!(counts(&mut watched, &[1_600, 2_400, 2_000, 2_200, 2_800]), [0, 0, 0, 200, 0]);
    // Three that are idle.
    let mut watched = Watched::new(rules());
    let once: u64 = counts(&mut watched, &[1_000, 400, 700, 1_000, 400, 700]).into_iter().sum();
    assert!(once <= 400 + 700 + 1_000, "{once}");
    for _ in 0..20 {
        assert_eq!(counts(&mut watched, &[1_000, 400, 700]), [0, 0, 0]);
    }
    assert_eq!(dropped(&watched.take(2_000, &page(1_000)), Reason::Overlap), 4);
}

#[test]
fn a_total_that_fell_and_cannot_have_come_since_is_another_servers() {
    let mut watched = Watched::new(rules());
    assert_eq!(counts(&mut watched, &[90_000, 90_010, 90_015, 70_000]), [0, 10, 5, 0]);
    assert_eq!(counts(&mut watched, &[70_003, 90_030, 70_009]), [3, 0, 0]);
    // One that began again, at the pace that it had.
    let mut watched = Watched::new(rules());
    assert_eq!(counts(&mut watched, &[90_000, 90_500, 91_000, 1_500, 2_000]), [0, 500, 500, 1_500, 500]);
    // It was not asked for a day.
    let taken = watched.take(86_400, &page(1_900));
    assert_eq!((count(&taken), taken.latencies[0].reset), (1_900, true));
}

#[test]
fn a_server_that_began_again_loses_nothing_when_it_comes_to_where_it_was() {
    // Of no pace is anything known yet, or of none but 0. What comes soon is told when no other server has come back.
    for totals in [&[2, 2, 0, 50][..], &[2, 0, 50], &[2, 0, 0, 50]] {
        let pages: Vec<u64> = totals.iter().copied().chain(vec![50; 40]).collect();
        let counted: u64 = counts(&mut Watched::new(rules()), &pages).into_iter().sum();
        assert_eq!(counted, 50, "{totals:?}");
    }
    // A model that is asked for rarely, beside one that is busy.
    let two = |busy: u64, rare: u64| page(busy) + &page(rare).replace("\"m\"", "\"rare\"").replace("# TYPE", "# type");
    let mut watched = Watched::new(rules());
    watched.take(10, &two(1_000, 1));
    assert_eq!(count(&watched.take(20, &two(3, 0))), 3);
    let (mut total, mut counted) = (3, 3);
    for round in 0..400 {
        total += 40;
        counted += count(&watched.take(30 + 10 * round, &two(total, 0)));
    }
    assert_eq!(counted, total);
    let taken = watched.take(4_030, &two(total + 40, 1));
    assert_eq!((count(&taken), served(&taken), dropped(&taken, Reason::Overlap)), (41, 41, 0));
}

#[test]
fn what_is_new_on_a_page_that_waits_counts_when_it_is_known_whose_it_was() {
    let two = |n: u64, new: u64| page(n) + &page(new).replace("\"m\"", "\"new\"").replace("# TYPE", "# type");
    let mut watched = Watched::new(rules());
    watched.take(10, &page(20));
    watched.take(20, &page(3));
    let (mut counted, mut starts) = (3, Vec::new());
    for round in 0..40 {
        let taken = watched.take(30 + 10 * round, &two(60 + round, 5));
        counted += count(&taken);
        starts.extend(taken.latencies.iter().map(|latency| latency.start_ns));
        let kept = serde_json::to_string(&watched.server).unwrap();
        watched.server = serde_json::from_str(&kept).unwrap();
    }
    // All of it came since the server began again.
    assert_eq!((counted, starts[0]), (99 + 5, at(20)));
    assert!(starts[..4].iter().all(|start| *start == at(20)));
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
    /// Whichever of two or three servers answers when, and however much they serve, no more is counted than all have served since, and
    /// once what each had served before.
    #[test]
    fn what_several_servers_have_served_is_counted_once_at_most(
        firsts in prop::collection::vec(0..1_500_u64, 2..4),
        turns in prop::collection::vec((0..3_usize, prop::array::uniform3(0..600_u64), prop::bool::weighted(0.3), 1..15_u64, any::<bool>()), 1..80),
    ) {
        let rules = rules();
        let mut server = Server::new(at(0));
        let mut totals = firsts.clone();
        server.take(&page(totals[0]), Format::Prometheus, at(1), &rules);
        let (mut seconds, mut came, mut counted) = (1, 0, 0);
        for (which, more, is_idle, wait, reload) in turns {
            for (total, more) in totals.iter_mut().zip(more.map(|more| if is_idle { 0 } else { more })) {
                *total += more;
                came += more;
            }
            seconds += wait;
            let taken = server.take(&page(totals[which % totals.len()]), Format::Prometheus, at(seconds), &rules);
            counted += count(&taken);
            let most = came + firsts.iter().sum::<u64>();
            prop_assert!(counted <= most, "{} of {}", counted, most);
            if reload {
                server = serde_json::from_str(&serde_json::to_string(&server).unwrap()).unwrap();
            }
        }
    }

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
