//! From what came since the last scrape to requests that the spool can keep.

use std::collections::BTreeSet;

use contador_schemas::names;
use contador_schemas::owner::Owner;

use super::target::Target;
use super::whose::{self, Server};
use crate::outbox::encode::histogram::{Latency, Served, Whose, answered};
use crate::outbox::encode::{Identity, Points, rows};
use crate::owners::Identified;
use crate::scrape::taken::{self, Taken};

/// Most latencies, and most counts of what was served, in one request.
const ROWS_PER_REQUEST: usize = 500;

/// Names that a page's labels must not take from what the agent says itself.
const OWN: [&str; 9] = [
    names::SERVICE_NAME,
    names::MODEL,
    names::LATENCY_METRIC,
    names::HTTP_ROUTE,
    names::ENVIRONMENT,
    names::HW_ID,
    names::OWNER_ID,
    names::HOST_NAME,
    names::SERVICE_INSTANCE_ID,
];

/// The requests that tell what was taken from a target, each with what its owner is; none, when nothing came.
pub fn requests(taken: Taken, target: &Target, server: &Server, identity: &Identity) -> Vec<Vec<u8>> {
    let Taken { latencies, served, preset, .. } = taken;
    let base = whose::whose(target, server, preset);
    let latencies: Vec<Latency> = latencies.into_iter().map(|increase| latency(increase, target, &base)).collect();
    let served: Vec<Served> = served.into_iter().map(|increase| count(increase, &base)).collect();
    let told = latencies.chunks(ROWS_PER_REQUEST).map(|part| answered(part, &[], &identity.node));
    let counted = served.chunks(ROWS_PER_REQUEST).map(|part| answered(&[], part, &identity.node));
    let mut requests: Vec<Vec<u8>> = told.chain(counted).collect();
    let end_ns = latencies.iter().map(|row| row.end_ns).chain(served.iter().map(|row| row.end_ns)).max();
    if let (Some(first), Some(owner), Some(end_ns)) = (requests.first_mut(), &server.owner, end_ns) {
        // Encoded messages one after the other are one message with all their parts.
        first.extend(meaning(owner, end_ns, identity));
    }
    requests
}

fn meaning(owner: &Identified, time_ns: u64, identity: &Identity) -> Vec<u8> {
    let mut points = Points::default();
    let owner: &Owner = owner;
    rows::owner(&mut points, owner, time_ns);
    points.encode(identity)
}

/// Who it is of, where the page says more than is known of its server.
fn of_page(base: &Whose, model: String, source: Vec<(String, String)>) -> Whose {
    let mut whose = base.clone();
    if !model.is_empty() {
        whose.model = model;
    }
    whose.source.extend(source.into_iter().filter(|(name, _)| !OWN.contains(&name.as_str())));
    whose
}

fn latency(increase: taken::Increase, target: &Target, base: &Whose) -> Latency {
    let taken::Increase { metric, model, route, attributes, source, cells, sum_us, start_ns, end_ns, reset, censored } =
        increase;
    let known: BTreeSet<&str> = attributes.iter().map(|(name, _)| name.as_str()).collect();
    let more = target.labels.iter().filter(|(name, _)| !known.contains(name.as_str()));
    let more: Vec<(String, String)> = more.map(|(name, value)| (name.clone(), value.clone())).collect();
    let attributes = attributes.into_iter().chain(more).filter(|(name, _)| !OWN.contains(&name.as_str())).collect();
    let whose = of_page(base, model, source);
    Latency { whose, metric, route, attributes, start_ns, end_ns, cells, sum_us, censored, reset }
}

fn count(increase: taken::Served, base: &Whose) -> Served {
    let taken::Served { model, source, requests, aborted, input_tokens, output_tokens, start_ns, end_ns } = increase;
    let whose = of_page(base, model, source);
    Served { whose, start_ns, end_ns, requests, aborted, input_tokens, output_tokens }
}
