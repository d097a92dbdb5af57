//! What holds for any sequence of scrapes.

use proptest::prelude::*;

use super::super::text::Format;
use super::Server;
use super::fixture::*;

const BOUNDS: [&str; 3] = ["0.1", "1", "10"];
/// A value in each bucket; the last one is above all bounds.
const VALUES: [f64; 4] = [0.05, 0.5, 5.0, 20.0];

/// What happens between two scrapes, and to the scrape.
#[derive(Clone, Debug)]
struct Round {
    restart: bool,
    values: [u64; 4],
    scrape: Scrape,
    reload: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Scrape {
    Good,
    Cut,
    Torn,
    Garbled,
    None,
}

fn rounds() -> impl Strategy<Value = Vec<Round>> {
    let scrape = prop_oneof![
        4 => Just(Scrape::Good),
        1 => Just(Scrape::Cut),
        1 => Just(Scrape::Torn),
        1 => Just(Scrape::Garbled),
        1 => Just(Scrape::None),
    ];
    let round = (prop::bool::weighted(0.15), prop::array::uniform4(0..50_u64), scrape, any::<bool>());
    let round = round.prop_map(|(restart, values, scrape, reload)| Round { restart, values, scrape, reload });
    prop::collection::vec(round, 1..40)
}

proptest! {
    /// The sum of all increases is what was counted since the base line, as far as a good scrape ever saw it: of each run,
    /// what its last good scrape shows.
    #[test]
    fn increases_add_up_to_what_was_counted(rounds in rounds()) {
        let rules = custom("latency_seconds", "request_duration");
        let mut server = Server::new(at(0));
        // The first run began before.
        let mut run = -5.0;
        let mut totals = [0_u64; 4];
        // What good scrapes saw of this run, of runs before, and the base line.
        let (mut seen, mut before, mut base) = ([0_u64; 4], [0_u64; 4], None::<[u64; 4]>);
        let mut sums = [0_u64; 4];
        let mut last_end = 0;
        for (index, round) in rounds.into_iter().enumerate() {
            let seconds = 100 * (index as u64 + 1);
            if round.restart {
                run = seconds as f64 - 60.0;
                before = std::array::from_fn(|bucket| before[bucket] + seen[bucket]);
                (totals, seen) = ([0; 4], [0; 4]);
            }
            totals = std::array::from_fn(|bucket| totals[bucket] + round.values[bucket]);
            let sum = totals.iter().zip(VALUES).map(|(n, value)| *n as f64 * value).sum();
            let count: u64 = totals.iter().sum();
            let page = histogram("latency_seconds", "model=\"m\"", &BOUNDS, &totals, sum) + &started(run) + "# EOF\n";
            let page = match round.scrape {
                Scrape::Good => page,
                Scrape::None => continue,
                Scrape::Cut => page[..page.len() * 2 / 3].to_owned(),
                Scrape::Torn => page.replace(&format!("_count{{model=\"m\"}} {count}"), &format!("_count{{model=\"m\"}} {}", count + 1)),
                Scrape::Garbled => page.replacen("le=\"1\"", "le=\"1", 1),
            };
            let taken = server.take(&page, Format::OpenMetrics, at(seconds), &rules);
            if round.scrape == Scrape::Good {
                seen = totals;
                // The run that a first good scrape sees may have been watched from its start on.
                base.get_or_insert(if run < 0.0 { totals } else { [0; 4] });
            } else {
                prop_assert!(taken.latencies.is_empty());
            }
            for increase in &taken.latencies {
                prop_assert_eq!(&*increase.metric, "request_duration");
                prop_assert!(increase.start_ns >= last_end && increase.start_ns <= increase.end_ns);
                last_end = increase.end_ns;
                for cell in increase.cells.as_slice() {
                    let bucket = VALUES.iter().position(|value| cell.lo <= value * 1e6 && value * 1e6 <= cell.hi);
                    sums[bucket.unwrap()] += cell.n;
                }
            }
            if round.reload {
                server = serde_json::from_str(&serde_json::to_string(&server).unwrap()).unwrap();
            }
        }
        let base = base.unwrap_or_default();
        let truth: [u64; 4] = std::array::from_fn(|bucket| before[bucket] + seen[bucket] - base[bucket]);
        prop_assert_eq!(sums, truth);
    }

    /// No page, and no sequence of pages, is too odd.
    #[test]
    fn no_page_is_too_odd(pages in prop::collection::vec(odd(), 0..8)) {
        let rules = custom("a_seconds", "");
        let mut server = Server::new(at(0));
        for (index, page) in pages.iter().enumerate() {
            let taken = server.take(page, Format::Prometheus, at(index as u64), &rules);
            for increase in &taken.latencies {
                prop_assert!(increase.cells.count() > 0 && increase.start_ns <= increase.end_ns);
            }
        }
        let kept = serde_json::to_string(&server).unwrap();
        prop_assert_eq!(serde_json::from_str::<Server>(&kept).unwrap(), server);
    }
}

/// Pages that are almost right.
fn odd() -> impl Strategy<Value = String> {
    let name = prop::sample::select(vec![
        "a_seconds_bucket",
        "a_seconds_sum",
        "a_seconds_count",
        "a_seconds_created",
        "vllm:request_success_total",
        "vllm:e2e_request_latency_seconds_bucket",
        "vllm:e2e_request_latency_seconds_count",
        "vllm:num_requests_running",
        "vllm:num_requests_waiting",
        "vllm:time_to_first_token_seconds_bucket",
        "nv_inference_queue_summary_us_sum",
        "nv_inference_queue_summary_us_count",
        "nv_inference_request_duration_us",
        "nv_inference_request_success",
        "process_start_time_seconds",
        "sglang:num_requests_total",
        "sglang:num_aborted_requests_total",
        "# TYPE a_seconds",
    ]);
    let labels = prop::sample::select(vec![
        "",
        "{le=\"1\"}",
        "{le=\"+Inf\"}",
        "{le=\"-Inf\"}",
        "{le=\"x\"}",
        "{model=\"m\",le=\"1.0\"}",
        "{le=\"1\",model=\"m\"}",
        "{finished_reason=\"abort\"}",
        "{quantile=\"0.5\"}",
        "{",
        "{}",
    ]);
    let value = prop::sample::select(vec![
        " 0",
        " 1",
        " 5",
        " 3.5",
        " NaN",
        " +Inf",
        " -Inf",
        " -1",
        " 1e300",
        " 9007199254740992",
        " 18446744073709551615",
        " 1700000001",
        " x",
        "",
        " 1 1",
        " 1 # {} 1",
        " histogram",
    ]);
    let line = (name, labels, value).prop_map(|(name, labels, value)| format!("{name}{labels}{value}\n"));
    prop::collection::vec(line, 0..24).prop_map(|lines| lines.concat())
}
