//! What Slurm's controller tells of a job and of a node.
//!
//! `scontrol --json show job` has it in full where a release has the plugin for it. `scontrol -o -d show job` is a line of
//! `Key=value`, in which a job's name, comment and paths may have blanks and whatever a user wrote, `Account=…` too: a key that
//! is there twice with different values is not taken at all.

use serde_json::Value;

use super::SUSPENDED;
use super::gres::{self, Gres};
use super::hosts::HostList;
use super::places::Order;

/// Longest value that is taken, in bytes.
const MAX_VALUE_BYTES: usize = 1_024;

/// Most jobs that are taken from a list.
const MAX_NUMBERS: usize = 1_024;

/// States of a job that has ended: then its `EndTime` is no guess.
const ENDED: [&str; 11] = [
    "BOOT_FAIL",
    "CANCELLED",
    "COMPLETED",
    "COMPLETING",
    "DEADLINE",
    "FAILED",
    "NODE_FAIL",
    "OUT_OF_MEMORY",
    "PREEMPTED",
    "REVOKED",
    "TIMEOUT",
];

/// A job, as the controller knows it. Empty texts are unknown.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Told {
    /// `RUNNING`, `SUSPENDED`, `COMPLETING` and so on.
    pub state: String,
    /// Name of the user.
    pub user: String,
    /// Account that it runs on.
    pub account: String,
    /// Partition that it runs in.
    pub partition: String,
    /// Quality of service.
    pub qos: String,
    /// What the user wrote.
    pub comment: String,
    /// The job's name.
    pub name: String,
    /// Cluster; a line of text does not tell.
    pub cluster: String,
    /// The node that runs the batch script of a job that has one.
    pub batch_host: String,
    /// When it ended, or is to end at the latest, Unix milliseconds.
    pub end_ms: Option<i64>,
    /// When it was last suspended, or resumed, Unix milliseconds.
    pub suspend_ms: Option<i64>,
    /// What it got on each group of nodes: the nodes, where that is told, and the resources.
    pub nodes: Vec<(Option<String>, Vec<Gres>)>,
}

/// A node, as the controller knows it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct NodeTold {
    /// What it has.
    pub has: Vec<Gres>,
    /// What of it is allocated. Of shares, 22.05 counts the devices that have some.
    pub used: Vec<Gres>,
    /// How its devices are ordered, where `gres.conf` tells that.
    pub order: Option<Order>,
}

impl Told {
    /// Until when it held what it was allocated, Unix milliseconds; `None` as long as it does, and when that is not told.
    pub fn held_until_ms(&self) -> Option<i64> {
        match self.state.as_str() {
            SUSPENDED => self.suspend_ms,
            state if ENDED.contains(&state) => self.end_ms,
            _ => None,
        }
    }

    /// What it got on the node of this name; `None` when that is not told.
    pub fn on(&self, node: &str) -> Option<&[Gres]> {
        let own = |nodes: &Option<String>| {
            nodes.as_deref().is_some_and(|nodes| {
                // Mostly it is one node.
                nodes == node || HostList::parse(nodes).is_some_and(|nodes| nodes.has(node))
            })
        };
        let mut fit = self.nodes.iter().filter(|(nodes, _)| own(nodes));
        let found = match (fit.next(), fit.next()) {
            (Some(found), None) => Some(found),
            (Some(_), Some(_)) => None,
            // Where nodes are not told, it must be the same on all of them.
            (None, _) => {
                let unnamed = self.nodes.iter().all(|(nodes, got)| nodes.is_none() && *got == self.nodes[0].1);
                self.nodes.first().filter(|_| unnamed)
            }
        };
        found.map(|(_, got)| got.as_slice())
    }
}

/// The line of `scontrol -o -d show job` that tells of this job, with times in Unix seconds.
///
/// # Errors
/// When there is none, with what was said instead.
pub fn from_text(text: &str, job: &str) -> Result<Told, String> {
    let start = format!("JobId={job} ");
    let line = text.lines().find(|line| line.starts_with(&start)).ok_or_else(|| {
        format!(
            "scontrol said {}, expected a line that starts with JobId={job}",
            super::super::label::shown(text.trim())
        )
    })?;
    let one = |key: &str| value(line, key, " ");
    let user = one("UserId");
    let mut nodes = Vec::new();
    // Groups of nodes: `Nodes=n[1-2] CPU_IDs=0 Mem=0 GRES=gpu:2(IDX:0-1)`.
    for (place, _) in line.match_indices(" Nodes=") {
        let Some(group) = line.get(place..) else { continue };
        let mut fields = group.split_ascii_whitespace();
        let (named, cpus, _, got) = (fields.next(), fields.next(), fields.next(), fields.next());
        let is_group = cpus.is_some_and(|cpus| cpus.starts_with("CPU_IDs="));
        if let (true, Some(named), Some(got)) = (is_group, named, got.and_then(|got| got.strip_prefix("GRES="))) {
            nodes.push((named.strip_prefix("Nodes=").map(str::to_owned), gres::parse(got)));
        }
    }
    Ok(Told {
        state: one("JobState"),
        user: user.split_once('(').map_or(user.as_str(), |(name, _)| name).to_owned(),
        account: one("Account"),
        partition: one("Partition"),
        qos: one("QOS"),
        comment: value(line, "Comment", " StdErr="),
        name: value(line, "JobName", " UserId="),
        cluster: String::new(),
        batch_host: if one("BatchFlag") == "0" { String::new() } else { one("BatchHost") },
        end_ms: one("EndTime").parse().ok().and_then(milliseconds),
        suspend_ms: one("SuspendTime").parse().ok().and_then(milliseconds),
        nodes,
    })
}

/// The job in what `scontrol --json show job` answers.
///
/// # Errors
/// When it is not there, with what was expected.
pub fn from_json(text: &str, job: &str) -> Result<Told, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| format!("scontrol's JSON can't be read: {error}"))?;
    let jobs = value["jobs"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_it = |entry: &&Value| entry["job_id"].as_u64().is_some_and(|number| number.to_string() == job);
    let entry = jobs.iter().find(is_it).ok_or_else(|| format!("scontrol's JSON has no job {job} in jobs"))?;
    let one = |key: &str| cleaned(entry[key].as_str().unwrap_or_default());
    // A number, or in newer releases a table that says whether it is one.
    let time = |key: &str| milliseconds(entry[key].as_i64().or_else(|| entry[key]["number"].as_i64())?);
    // A text, or in newer releases a list of which the first is the state and the rest are flags.
    let state = entry["job_state"].as_str().or_else(|| entry["job_state"][0].as_str()).unwrap_or_default();
    let details = entry["gres_detail"].as_array().map(Vec::as_slice).unwrap_or_default();
    // The list goes by node, in the order of the job's nodes; names are told of one node only.
    let named = (details.len() == 1).then(|| one("nodes")).filter(|nodes| !nodes.is_empty());
    let is_batch = entry["batch_flag"].as_bool().unwrap_or(true);
    let of_node = |detail: &Value| Some((named.clone(), gres::parse(detail.as_str()?)));
    // A job without any has an empty list.
    let none = entry["gres_detail"].is_array() && details.is_empty();
    Ok(Told {
        state: cleaned(state),
        user: one("user_name"),
        account: one("account"),
        partition: one("partition"),
        qos: one("qos"),
        comment: one("comment"),
        name: one("name"),
        cluster: one("cluster"),
        batch_host: if is_batch { one("batch_host") } else { String::new() },
        end_ms: time("end_time"),
        suspend_ms: time("suspend_time"),
        nodes: if none { vec![(None, Vec::new())] } else { details.iter().filter_map(of_node).collect() },
    })
}

/// What `scontrol -o -d show node` says of the node.
///
/// # Errors
/// When it does not say so, with what it said instead.
pub fn node_from_text(text: &str, node: &str) -> Result<NodeTold, String> {
    let start = format!("NodeName={node} ");
    let line = text.lines().find(|line| line.starts_with(&start)).ok_or_else(|| {
        format!(
            "scontrol said {}, expected a line that starts with NodeName={node}",
            super::super::label::shown(text.trim())
        )
    })?;
    let list = |key: &str| gres::parse(&value(line, key, " "));
    Ok(NodeTold { has: list("Gres"), used: list("GresUsed"), order: None })
}

/// The numbers that `squeue --format=%A` lists, one a line.
///
/// # Errors
/// When a line is none, with the line.
pub fn numbers_from_text(text: &str) -> Result<Vec<String>, String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty()).take(MAX_NUMBERS);
    lines
        .map(|line| match line.bytes().all(|byte| byte.is_ascii_digit()) {
            true => Ok(line.to_owned()),
            false => Err(format!("squeue said {}, expected numbers of jobs", super::super::label::shown(line))),
        })
        .collect()
}

/// Unix seconds as milliseconds; 0 is none.
fn milliseconds(seconds: i64) -> Option<i64> {
    seconds.checked_mul(1_000).filter(|at_ms| *at_ms > 0)
}

/// The value of a key until `end`; empty when it is not there, is none, or is there with two values.
fn value(line: &str, key: &str, end: &str) -> String {
    let key = format!(" {key}=");
    let mut values = line.match_indices(&key).map(|(place, _)| {
        let rest = &line[place + key.len()..];
        rest.find(end).map_or(rest, |end| &rest[..end])
    });
    let first = values.next().unwrap_or_default();
    if values.any(|other| other != first) {
        return String::new();
    }
    cleaned(first)
}

/// A value without blanks around it; empty when it is none, or nothing that may be a label.
fn cleaned(value: &str) -> String {
    let value = value.trim();
    if matches!(value, "(null)" | "N/A") || value.chars().any(char::is_control) {
        return String::new();
    }
    let mut end = value.len().min(MAX_VALUE_BYTES);
    while !value.is_char_boundary(end) {
        end -= 1;
    }
    value[..end].to_owned()
}

#[cfg(test)]
mod tests;
