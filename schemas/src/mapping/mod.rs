//! From what identifies an owner to who pays: rules that set department, project, experiment, environment, service and model.
//!
//! A rule looks at fields of the owner and at labels, by [`glob`]s of which all must match; the first rule that matches fills
//! its values in, which are [`template`]s. The default then fills in what is still unknown. What an owner says itself is never
//! overwritten. Rules are [`read`] from TOML, and [`show`]n as such. Deterministic, and without I/O: agents apply them when
//! they find an owner, and whoever re-rates may do it again.

pub mod glob;
pub mod read;
pub mod show;
mod source;
pub mod template;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub use self::glob::Glob;
pub use self::source::{Known, Source};
pub use self::template::Template;
use crate::owner::{Owner, OwnerKind};

/// What is known of an owner beside its identity, by a name that says where it is from: `k8s.label.team`, `slurm.account`.
pub type Labels = BTreeMap<String, String>;

/// The fields that rules may set.
pub const TARGETS: [&str; 6] = ["department", "project", "experiment", "environment", "service", "model"];

/// What the names of labels begin with that are variables of a process's environment: `env.TEAM`.
pub const VARIABLE: &str = "env.";

/// Names that no rule may have, since they are said of owners that none decided.
pub const RESERVED: [&str; 3] = [DEFAULT, ITSELF, "none"];

const DEFAULT: &str = "default";
const ITSELF: &str = "itself";

/// A field of [`TARGETS`], and what it is set to.
pub type Set = (&'static str, Template);

/// A rule.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Rule {
    /// What it is called; no other one is.
    pub name: Arc<str>,
    /// What must be so: for each source one of the patterns.
    pub when: Vec<(Source, Vec<Glob>)>,
    /// What it sets.
    pub set: Vec<Set>,
}

/// All rules, in their order, and the default.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Rules {
    /// Of which the first that matches counts.
    pub rules: Vec<Rule>,
    /// What fills in the rest.
    pub default: Vec<Set>,
}

/// What decided who pays.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Decision {
    /// The rule of this name.
    Rule(Arc<str>),
    /// No rule, but the default.
    Default,
    /// Nothing was to be set, since the owner says it itself.
    Itself,
    /// Nothing: it is not known who pays.
    Nobody,
}

impl Decision {
    /// The rule's name, `default` or `itself`; `None` when nothing decided.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Rule(name) => Some(name),
            Self::Default => Some(DEFAULT),
            Self::Itself => Some(ITSELF),
            Self::Nobody => None,
        }
    }
}

impl Rule {
    /// Whether all that must be so is.
    pub fn matches(&self, known: &Known<'_>) -> bool {
        self.when.iter().all(|(source, globs)| {
            let value = known.get(source);
            globs.iter().any(|glob| glob.matches(value))
        })
    }
}

impl Rules {
    /// Whether there is nothing to apply.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty() && self.default.is_empty()
    }

    /// The variables of environments that they look at or fill in, without [`VARIABLE`]: nobody need know any other one.
    pub fn variables(&self) -> BTreeSet<&str> {
        let rules = self.rules.iter();
        let looked_at = rules.clone().flat_map(|rule| rule.when.iter().map(|(source, _)| source));
        let filled_in = rules.flat_map(|rule| &rule.set).chain(&self.default).flat_map(|(_, value)| value.sources());
        looked_at.chain(filled_in).filter_map(|source| source.name().strip_prefix(VARIABLE)).collect()
    }

    /// Fills in what the rules say of this owner, and tells what decided. Only workloads are somebody's: others stay as they
    /// are.
    pub fn apply(&self, mut owner: Owner, labels: &Labels) -> (Owner, Decision) {
        if owner.kind != OwnerKind::Workload {
            return (owner, Decision::Nobody);
        }
        let known = Known::of(&owner, labels);
        let says = TARGETS.iter().any(|target| !known.field(target).is_empty());
        let mut values: Vec<(&'static str, String)> = Vec::new();
        let mut fill = |set: &[Set]| {
            let before = values.len();
            for (target, template) in set {
                let open = known.field(target).is_empty() && !values.iter().any(|(taken, _)| taken == target);
                if let Some(value) = open.then(|| template.fill(&known)).flatten() {
                    values.push((target, value));
                }
            }
            values.len() > before
        };
        let rule = self.rules.iter().find(|rule| rule.matches(&known));
        let by_rule = rule.filter(|rule| fill(&rule.set));
        let by_default = fill(&self.default);
        let decision = match by_rule {
            Some(rule) => Decision::Rule(Arc::clone(&rule.name)),
            None if by_default => Decision::Default,
            None if says => Decision::Itself,
            None => Decision::Nobody,
        };
        for (target, value) in values {
            owner.set(target, &value);
        }
        (owner, decision)
    }
}
