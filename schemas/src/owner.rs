//! Whose a device is: the identity of an owner, and the id that the ledger keeps of it.

use std::fmt::Write as _;
use std::hash::{Hash, Hasher};

use serde::{Deserialize, Serialize};
use uuid::{Uuid, uuid};

/// Name space of owner ids (RFC 9562, version 5: SHA-1 of this and [`Owner::canonical`]).
pub const OWNER_NAMESPACE: Uuid = uuid!("5a3c7a55-8e0f-4d58-9f0e-5a1d0c0e7a01");

/// What kind of holder an owner is. Everything that is not a workload has one owner of its kind for the whole fleet, so
/// that a device's minute is always held by somebody, whole.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OwnerKind {
    /// Somebody's pod, job, container or process.
    #[default]
    Workload,
    /// Nobody held the device.
    Idle,
    /// The part of a device that no MIG instance covers; all of it where MIG is on and nothing was made.
    Stranded,
    /// A process held the device, but nothing says whose it is.
    Unattributed,
    /// The agent was not looking.
    Unmetered,
}

impl OwnerKind {
    /// All kinds, in the order in which reports show them.
    pub const ALL: [Self; 5] = [Self::Workload, Self::Idle, Self::Stranded, Self::Unattributed, Self::Unmetered];

    /// The kind's name in tables and on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Workload => "workload",
            Self::Idle => "idle",
            Self::Stranded => "stranded",
            Self::Unattributed => "unattributed",
            Self::Unmetered => "unmetered",
        }
    }

    /// The kind of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

/// An owner: everything that tells one holder from another. Empty strings are unknown.
#[derive(Clone, Debug, Default, Deserialize, Eq, Ord, PartialOrd, Serialize)]
#[serde(default)]
pub struct Owner {
    /// Workload, or one of the kinds that have no attributes.
    pub kind: OwnerKind,
    /// Deployment environment, such as `production`.
    pub environment: String,
    /// Kubernetes or Slurm cluster.
    pub cluster: String,
    /// Kubernetes namespace.
    pub namespace: String,
    /// Kubernetes pod.
    pub pod: String,
    /// Container name or id.
    pub container: String,
    /// Batch job.
    pub job: String,
    /// User that runs it.
    pub user: String,
    /// Department that pays.
    pub department: String,
    /// Project that it belongs to.
    pub project: String,
    /// Experiment that it is part of.
    pub experiment: String,
    /// Service that it serves.
    pub service: String,
    /// Machine-learning model that it serves or trains.
    pub model: String,
    /// Program name, where nothing better is known.
    pub command: String,
}

/// Agents compare hundreds of owners a second, and most attributes are unknown: those cost nothing here.
impl PartialEq for Owner {
    fn eq(&self, other: &Self) -> bool {
        let pairs = || self.attributes().into_iter().zip(other.attributes()).map(|((_, one), (_, other))| (one, other));
        self.kind == other.kind
            && pairs().all(|(one, other)| one.len() == other.len())
            && pairs().all(|(one, other)| one.is_empty() || one == other)
    }
}

impl Hash for Owner {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.kind.hash(state);
        for (place, (_, value)) in self.attributes().into_iter().enumerate().filter(|(_, (_, value))| !value.is_empty())
        {
            place.hash(state);
            value.hash(state);
        }
    }
}

impl Owner {
    /// The owner without attributes of a kind that is nobody's workload.
    pub fn of_kind(kind: OwnerKind) -> Self {
        Self { kind, ..Self::default() }
    }

    /// The attributes with their column names, in canonical order.
    pub fn attributes(&self) -> [(&'static str, &str); 13] {
        [
            ("environment", &self.environment),
            ("cluster", &self.cluster),
            ("namespace", &self.namespace),
            ("pod", &self.pod),
            ("container", &self.container),
            ("job", &self.job),
            ("user", &self.user),
            ("department", &self.department),
            ("project", &self.project),
            ("experiment", &self.experiment),
            ("service", &self.service),
            ("model", &self.model),
            ("command", &self.command),
        ]
    }

    /// Sets the attribute of this column name; `false` when there is none of that name.
    pub fn set(&mut self, name: &str, value: &str) -> bool {
        let field = match name {
            "environment" => &mut self.environment,
            "cluster" => &mut self.cluster,
            "namespace" => &mut self.namespace,
            "pod" => &mut self.pod,
            "container" => &mut self.container,
            "job" => &mut self.job,
            "user" => &mut self.user,
            "department" => &mut self.department,
            "project" => &mut self.project,
            "experiment" => &mut self.experiment,
            "service" => &mut self.service,
            "model" => &mut self.model,
            "command" => &mut self.command,
            _ => return false,
        };
        value.clone_into(field);
        true
    }

    /// What the id is made of: the kind, then each known attribute as `name`, its length in bytes and its value, so that
    /// no two owners have the same text. Attributes added later leave the ids of today's owners as they are.
    pub fn canonical(&self) -> String {
        let mut text = format!("kind={}", self.kind.as_str());
        for (name, value) in self.attributes() {
            if !value.is_empty() {
                _ = write!(text, "\n{name}={}:{value}", value.len());
            }
        }
        text
    }

    /// The id of this owner, the same on every machine and for ever.
    pub fn id(&self) -> Uuid {
        Uuid::new_v5(&OWNER_NAMESPACE, self.canonical().as_bytes())
    }

    /// A short name for people: the most telling attributes that are known.
    pub fn label(&self) -> String {
        if self.kind != OwnerKind::Workload {
            return self.kind.as_str().to_owned();
        }
        let place = [&self.department, &self.project, &self.experiment];
        let what = [&self.job, &self.pod, &self.service, &self.container, &self.command];
        let known: Vec<&str> = place.into_iter().map(String::as_str).filter(|value| !value.is_empty()).collect();
        if !known.is_empty() {
            return known.join("/");
        }
        let what = what.into_iter().map(String::as_str).find(|value| !value.is_empty()).unwrap_or("unnamed");
        if self.user.is_empty() { what.to_owned() } else { format!("{}:{what}", self.user) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_version_5_uuids_of_the_canonical_text() {
        let owner = Owner { department: "research".into(), project: "vision".into(), ..Owner::default() };
        assert_eq!(owner.canonical(), "kind=workload\ndepartment=8:research\nproject=6:vision");
        // uuid.uuid5(uuid.UUID("5a3c7a55-8e0f-4d58-9f0e-5a1d0c0e7a01"), text) of Python's standard library.
        assert_eq!(owner.id().to_string(), "10622c50-69f7-5f6e-b7c9-2d321999e07b");
        assert_eq!(Owner::of_kind(OwnerKind::Idle).id().to_string(), "10f95823-c1d0-55e3-b615-6d8cee4252b7");
    }

    #[test]
    fn a_value_cannot_imitate_another_attribute() {
        let forged = Owner { department: "a\nproject=1:b".into(), ..Owner::default() };
        let honest = Owner { department: "a".into(), project: "b".into(), ..Owner::default() };
        assert_ne!(forged.id(), honest.id());
    }

    #[test]
    fn every_attribute_can_be_set_and_changes_the_id() {
        for (name, _) in Owner::default().attributes() {
            let mut owner = Owner::default();
            assert!(owner.set(name, "x"), "{name}");
            assert_ne!(owner.id(), Owner::default().id(), "{name}");
            assert_ne!(owner, Owner::default(), "{name}");
            for value in ["xy", "y"] {
                let mut other = owner.clone();
                other.set(name, value);
                assert_ne!(other, owner, "{name}");
            }
            assert_eq!(owner.attributes().iter().filter(|(_, value)| *value == "x").count(), 1, "{name}");
        }
        assert!(!Owner::default().set("colour", "x"));
    }
}
