//! A payer's charges by project, experiment and job: the largest of each, and what the others come to together.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use num_bigint::BigInt;

use super::efficiency::utilisation;
use super::shown::fit;
use crate::bill::rate::{Category, Key};
use crate::bill::report::Dimension;
use crate::bill::settle::{Amounts, Line};

/// What a row of a tree is called.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Label {
    /// As its label says; empty if it has none.
    Named(String),
    /// What is a department's as a whole.
    Category(Category),
    /// So many more.
    More(usize),
}

/// How many of each are shown, by level.
pub type Limits = [usize; 3];

/// For a page that people read.
pub const SHORT: Limits = [10, 6, 3];

/// For one that has everything.
pub const ALL: Limits = [usize::MAX; 3];

/// A row, with what it is made of.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Node {
    /// What it is called.
    pub label: Label,
    /// What it comes to.
    pub amounts: Amounts,
    /// What it is made of: nothing, or what sums to it.
    pub children: Vec<Node>,
}

#[derive(Default)]
struct Branch {
    amounts: Amounts,
    children: BTreeMap<String, Branch>,
}

impl Branch {
    fn add(&mut self, path: &[String], amounts: &Amounts) {
        self.amounts += amounts;
        if let Some((first, rest)) = path.split_first() {
            self.children.entry(first.clone()).or_default().add(rest, amounts);
        }
    }

    fn nodes(self, limits: &[usize]) -> Vec<Node> {
        // One without a name says no more than what it is of.
        let is_nameless = self.children.len() == 1 && self.children.keys().all(String::is_empty);
        if is_nameless && limits.len() < 3 {
            return self
                .children
                .into_values()
                .flat_map(|branch| branch.nodes(limits.get(1..).unwrap_or_default()))
                .collect();
        }
        let mut branches: Vec<(String, Self)> = self.children.into_iter().collect();
        branches.sort_by_key(|(_, branch)| {
            let Amounts { cost, effective, gpu_hours, .. } = &branch.amounts;
            Reverse((effective.0.clone().max(cost.0.clone()), gpu_hours.0.clone()))
        });
        let limit = limits.first().copied().unwrap_or(0);
        // A row that says "one more" is no shorter than the one.
        let limit = if branches.len() == limit.saturating_add(1) { branches.len() } else { limit };
        let rest = branches.split_off(limit.min(branches.len()));
        let mut nodes: Vec<Node> = branches
            .into_iter()
            .map(|(name, branch)| Node {
                label: Label::Named(name),
                amounts: branch.amounts.clone(),
                children: branch.nodes(limits.get(1..).unwrap_or_default()),
            })
            .collect();
        if !rest.is_empty() {
            let amounts = rest.iter().map(|(_, branch)| &branch.amounts).sum();
            nodes.push(Node { label: Label::More(rest.len()), amounts, children: Vec::new() });
        }
        nodes
    }
}

/// Whether something is charged for a workload, and not for a department as a whole.
pub const fn is_of_a_workload(category: Category) -> bool {
    use Category::{Covered, Energy, Network, Storage, Usage};
    matches!(category, Usage | Covered | Energy | Storage | Network)
}

/// The charges of lines: for workloads by project, experiment (or service) and job; then those of a department as a whole.
pub fn tree<'a>(lines: impl Iterator<Item = &'a Line>, limits: &Limits) -> Vec<Node> {
    let mut projects = Branch::default();
    let mut wholes: BTreeMap<Category, Branch> = BTreeMap::new();
    for line in lines {
        let key = &line.key;
        if is_of_a_workload(key.category) {
            projects.add(&path(key), &line.amounts);
        } else {
            wholes.entry(key.category).or_default().add(&[item(key)], &line.amounts);
        }
    }
    let mut nodes = projects.nodes(limits);
    for (category, branch) in wholes {
        let amounts = branch.amounts.clone();
        nodes.push(Node { label: Label::Category(category), amounts, children: branch.nodes(&limits[1..]) });
    }
    nodes
}

fn path(key: &Key) -> [String; 3] {
    let of = |dimension: Dimension| dimension.of(key).into_owned();
    let experiment = of(Dimension::Experiment);
    let second = if experiment.is_empty() { of(Dimension::Service) } else { experiment };
    let job = of(Dimension::Job);
    [of(Dimension::Project), second, if job.is_empty() { key.item.to_string() } else { job }]
}

/// What tells charges of a department as a whole apart.
fn item(key: &Key) -> String {
    match &key.origin_month {
        Some(month) if key.item.is_empty() => month.to_string(),
        Some(month) => format!("{} ({month})", key.item),
        None if key.item.is_empty() => key.gpu_model.to_string(),
        None => key.item.to_string(),
    }
}

/// A row of a table that shows a tree.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Row {
    /// 0 for a project.
    pub depth: u8,
    /// What it is called.
    pub label: Label,
    /// Billed, units of the last digit that is shown.
    pub cost: BigInt,
    /// Effective, likewise.
    pub effective: BigInt,
    /// GPU-hours, tenths.
    pub hours: BigInt,
    /// Part of the known time in which it was busy, tenths of a hundredth.
    pub busy: Option<BigInt>,
    /// Whether some of it has no price.
    pub is_unpriced: bool,
}

/// The rows of trees, of which each level sums to what it is of: `wholes` are cost, effective cost and GPU-hours as they are shown.
pub fn rows(nodes: &[Node], wholes: [&BigInt; 3], digits: u8) -> Vec<Row> {
    let mut out = Vec::new();
    push(nodes, wholes, digits, (0, true), &mut out);
    out
}

fn push(nodes: &[Node], wholes: [&BigInt; 3], digits: u8, (depth, is_held): (u8, bool), out: &mut Vec<Row>) {
    let of = |amount: fn(&Amounts) -> &crate::bill::decimal::Millionths| -> Vec<_> {
        nodes.iter().map(|node| amount(&node.amounts)).collect()
    };
    let costs = fit(&of(|amounts| &amounts.cost), wholes[0], digits);
    let effective = fit(&of(|amounts| &amounts.effective), wholes[1], digits);
    let hours = fit(&of(|amounts| &amounts.gpu_hours), wholes[2], 1);
    for (((node, cost), effective), hours) in nodes.iter().zip(costs).zip(effective).zip(hours) {
        let Amounts { gpu_hours, busy, unknown, unpriced, .. } = &node.amounts;
        // Who pays for a share of idle time did not hold it.
        let is_held = is_held && !matches!(node.label, Label::Category(_));
        out.push(Row {
            depth,
            label: node.label.clone(),
            cost: cost.clone(),
            effective: effective.clone(),
            hours: hours.clone(),
            busy: is_held.then(|| utilisation(gpu_hours, busy, unknown)).flatten(),
            is_unpriced: !unpriced.is_zero(),
        });
        push(&node.children, [&cost, &effective, &hours], digits, (depth + 1, is_held), out);
    }
}
