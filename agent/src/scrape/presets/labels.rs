//! What a sample's labels say.

use super::super::text::Label;

/// Labels that only say which part of a server measured, or where it runs.
const SOURCES: [&str; 31] = [
    "engine",
    "engine_id",
    "engine_index",
    "replica",
    "replica_id",
    "ReplicaId",
    "pod",
    "pod_name",
    "instance",
    "instance_id",
    "node",
    "node_id",
    "NodeAddress",
    "NodeId",
    "host",
    "hostname",
    "worker",
    "worker_id",
    "WorkerId",
    "ActorId",
    "JobId",
    "Component",
    "SessionName",
    "Version",
    "tp_rank",
    "pp_rank",
    "dp_rank",
    "moe_ep_rank",
    "rank",
    "pid",
    "gpu_uuid",
];

/// Which labels are what; the first of several that a sample has.
#[derive(Clone, Debug)]
pub(super) struct Labels {
    model: Vec<String>,
    route: Vec<String>,
    source: Vec<String>,
}

/// Who and what a series is about. Empty labels are absent.
#[derive(Clone, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub(in super::super) struct Identity {
    pub model: String,
    pub route: String,
    /// By name.
    pub attributes: Vec<(String, String)>,
    /// By name.
    pub source: Vec<(String, String)>,
}

impl Default for Labels {
    fn default() -> Self {
        Self::new("", "", &[])
    }
}

impl Labels {
    /// With names of a user's own, where they are not empty.
    pub fn new(model: &str, route: &str, source: &[String]) -> Self {
        let named = |name: &str, usual: &[&str]| -> Vec<String> {
            if name.is_empty() { usual.iter().map(|&name| name.to_owned()).collect() } else { vec![name.to_owned()] }
        };
        Self {
            model: named(model, &["model_name", "model"]),
            route: named(route, &["route", "endpoint", "handler"]),
            source: source.to_vec(),
        }
    }

    /// Sorts a series's labels; those of buckets and quantiles are no part of it.
    pub fn identity(&self, labels: &[Label<'_>]) -> Identity {
        let (model, route) = (first(&self.model, labels), first(&self.route, labels));
        let mut identity = Identity::default();
        for Label { name, value } in labels {
            if value.is_empty() || name == "le" || name == "quantile" {
                continue;
            }
            if model.is_some_and(|model| name == model) {
                identity.model = value.to_string();
            } else if route.is_some_and(|route| name == route) {
                identity.route = value.to_string();
            } else if SOURCES.contains(&&**name) || self.source.iter().any(|source| name == source) {
                identity.source.push((name.to_string(), value.to_string()));
            } else {
                identity.attributes.push((name.to_string(), value.to_string()));
            }
        }
        identity.attributes.sort_unstable();
        identity.source.sort_unstable();
        identity
    }
}

/// The first of the names that a label has.
fn first<'n>(names: &'n [String], labels: &[Label<'_>]) -> Option<&'n String> {
    names.iter().find(|name| labels.iter().any(|label| label.name == **name && !label.value.is_empty()))
}
