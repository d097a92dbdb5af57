//! Families that rules learn while a server is followed.

use proptest::prelude::*;

use super::super::presets::{Custom, Preset, Rules};
use super::super::taken::Reason;
use super::Server;
use super::fixture::*;

const KNOWN: &str = "vllm:e2e_request_latency_seconds";
const LEARNED: &str = "gateway_seconds";

/// A page of a server of which so many requests have come through both.
fn page(n: u64, more: &str) -> String {
    let one = |family| histogram(family, "model_name=\"m\"", &["1"], &[n, 0], 0.5 * n as f64);
    one(KNOWN) + &one(LEARNED) + more
}

/// Values that were taken of a metric.
fn count(taken: &super::Taken, metric: &str) -> u64 {
    taken.latencies.iter().filter(|latency| latency.metric == metric).map(|latency| latency.cells.count()).sum()
}

#[test]
fn a_histogram_that_is_named_later_begins_with_a_base_line_and_others_go_on() {
    // With a start that is not known, and with one that was watched: what came before nobody had asked for.
    for start in [String::new(), started(3.0)] {
        let mut watched = Watched::new(rules());
        watched.take(10, &page(100, &start));
        watched.take(20, &page(110, &start));
        watched.rules = custom(LEARNED, "gateway");
        let taken = watched.take(30, &page(125, &start));
        assert_eq!((count(&taken, "request_duration"), count(&taken, "gateway")), (15, 0));
        assert_eq!(dropped(&taken, Reason::BaseLine), 1);
        let taken = watched.take(40, &page(127, &start));
        assert_eq!((count(&taken, "request_duration"), count(&taken, "gateway")), (2, 2));
    }
}

#[test]
fn a_family_that_is_learned_while_it_cannot_be_read_is_a_base_line_when_it_can() {
    let mut watched = Watched::new(rules());
    watched.take(10, &page(100, &started(3.0)));
    watched.rules = custom(LEARNED, "gateway");
    let torn = format!("{LEARNED}_count{{model_name=\"m\"}} 110");
    watched.take(20, &page(110, &started(3.0)).replace(&torn, &torn.replace("110", "111")));
    let taken = watched.take(30, &page(120, &started(3.0)));
    assert_eq!((count(&taken, "request_duration"), count(&taken, "gateway")), (10, 0));
    // A run that began since it was learned is all new.
    let taken = watched.take(60, &page(7, &started(50.0)));
    assert_eq!((count(&taken, "request_duration"), count(&taken, "gateway")), (7, 7));
}

#[test]
fn what_is_new_of_a_family_that_was_followed_counts_when_rules_change() {
    let of = |family: &str, model: &str, n: u64| {
        histogram(family, &format!("model_name=\"{model}\""), &["1"], &[n, 0], 0.5 * n as f64)
    };
    let own = |labels: &[&str]| -> Vec<Custom> {
        let one = |model: &&str| Custom {
            family: LEARNED.into(),
            metric: "gateway".into(),
            labels: [("model_name".to_owned(), (*model).to_owned())].into(),
            ..Custom::default()
        };
        labels.iter().map(one).collect()
    };
    let all = Custom { family: LEARNED.into(), metric: "gateway".into(), ..Custom::default() };
    let rules = |custom: &[Custom]| Rules::new(&Preset::ALL, custom).unwrap();
    let known = Custom { family: "other_seconds".into(), ..Custom::default() };
    for (before, after, gateway) in [
        // All of it was looked for, some of it, none of it.
        (vec![all.clone()], vec![all.clone(), known], 7),
        (vec![all.clone()], own(&["a", "b"]), 7),
        (own(&["a"]), own(&["a", "b"]), 0),
        (own(&["a"]), vec![all.clone()], 0),
        (vec![], vec![all], 0),
    ] {
        let mut watched = Watched::new(rules(&before));
        watched.take(10, &(of(KNOWN, "a", 5) + &of(LEARNED, "a", 5)));
        watched.rules = rules(&after);
        let both = |family, n| of(family, "a", 5) + &of(family, "b", n);
        let taken = watched.take(20, &(both(KNOWN, 3) + &both(LEARNED, 7)));
        assert_eq!((count(&taken, "request_duration"), count(&taken, "gateway")), (3, gateway), "{before:?}");
        let taken = watched.take(30, &(both(KNOWN, 4) + &both(LEARNED, 9)));
        assert_eq!((count(&taken, "request_duration"), count(&taken, "gateway")), (1, 2), "{before:?}");
    }
}

#[test]
fn rules_are_others_when_they_look_for_other_series_and_not_by_their_names() {
    let own = |metric: &str, model: &str| {
        let labels = [("model_name".to_owned(), model.to_owned())].into();
        let one = Custom { family: LEARNED.into(), metric: metric.into(), labels, ..Custom::default() };
        Rules::new(&Preset::ALL, &[one]).unwrap().fingerprint()
    };
    assert_eq!(own("gateway", "m"), own("request_duration", "m"));
    assert_ne!(own("gateway", "m"), own("gateway", "n"));
    assert_ne!(rules().fingerprint(), custom(LEARNED, "gateway").fingerprint());
    assert_ne!(rules().fingerprint(), Rules::new(&[Preset::Vllm], &[]).unwrap().fingerprint());
}

#[test]
fn a_histogram_that_is_named_and_not_on_the_page_is_told() {
    let own = |family: &str, model: &str| Custom {
        family: family.into(),
        labels: [("model_name".to_owned(), model.to_owned())].into(),
        ..Custom::default()
    };
    let named = [own(LEARNED, "m"), own(LEARNED, "\"n"), Custom { family: "gatway_ms".into(), ..Custom::default() }];
    let mut watched = Watched::new(Rules::new(&Preset::ALL, &named).unwrap());
    assert_eq!(watched.take(10, &page(5, "")).missing, [r#"gateway_seconds{model_name="\"n"}"#, "gatway_ms"]);
    let le = Rules::new(&[], &[Custom { labels: [("le".to_owned(), "1".to_owned())].into(), ..own("h", "") }]);
    let fault = "a label of histogram family \"h\" is le, expected one that tells its series apart";
    assert_eq!(le.unwrap_err().to_string(), fault);
}

#[test]
fn a_memory_that_does_not_say_its_rules_may_have_had_others() {
    let mut watched = Watched::new(rules());
    watched.take(10, &page(100, ""));
    let mut kept = serde_json::to_value(&watched.server).unwrap();
    for key in ["rules", "preset", "owed", "counts", "door"] {
        kept.as_object_mut().unwrap().remove(key).unwrap();
    }
    watched.server = serde_json::from_value(kept).unwrap();
    watched.rules = custom(LEARNED, "gateway");
    let taken = watched.take(20, &page(130, ""));
    assert_eq!((count(&taken, "request_duration"), count(&taken, "gateway")), (30, 0));
    let taken = watched.take(30, &page(140, ""));
    assert_eq!((count(&taken, "request_duration"), count(&taken, "gateway")), (10, 10));
}

proptest! {
    /// Whenever rules come and go, each family has what came between the pages that its rules were there for: the first of
    /// them is its base line, unless it was followed before.
    #[test]
    fn what_is_counted_is_what_came_since_it_was_learned(
        rounds in prop::collection::vec((0..50_u64, any::<bool>(), any::<bool>()), 1..30),
    ) {
        let (with, without) = (custom(LEARNED, "gateway"), rules());
        let mut server = Server::new(at(0));
        let (mut total, mut base, mut seen, mut counted) = (1_000, None, 0, 0);
        for (round, (more, knows, reload)) in rounds.into_iter().enumerate() {
            total += more;
            let rules = if knows { &with } else { &without };
            let text = page(total, "");
            let taken = server.take(&text, super::super::text::Format::Prometheus, at(10 * (round as u64 + 1)), rules);
            counted += count(&taken, "gateway");
            if knows {
                base.get_or_insert(total);
                seen = total;
            }
            if reload {
                server = serde_json::from_str(&serde_json::to_string(&server).unwrap()).unwrap();
            }
        }
        prop_assert_eq!(counted, base.map_or(0, |base| seen - base));
    }
}
