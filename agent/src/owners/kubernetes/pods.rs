//! The pods of this node that the API server has told of: kept when it does not answer.

use std::collections::HashMap;

use super::outage::Outage;
use super::pod::Pod;
use super::serving::Serving;
use crate::owners::claim::Named;

/// Most pods of one node.
const MAX_PODS: usize = 4_096;

/// Pods by UID.
#[derive(Clone, Debug, Default)]
pub struct Pods {
    pods: HashMap<String, Pod>,
    /// UIDs by namespace and name, of which the API server has one at a time.
    names: HashMap<(String, String), String>,
    /// Changes whenever a pod does.
    version: u64,
    /// All of them were told at least once.
    pub told: bool,
    /// Why the API server does not tell more.
    pub outage: Option<Outage>,
}

impl Pods {
    /// These are all that there are.
    pub fn replace(&mut self, pods: Vec<Pod>) {
        self.pods.clear();
        self.names.clear();
        pods.into_iter().for_each(|pod| self.put(pod));
        self.version += 1;
        self.told = true;
    }

    /// A pod is new, or has changed. One of the same name that was there before has gone.
    pub fn put(&mut self, pod: Pod) {
        let name = (pod.namespace.clone(), pod.name.clone());
        if self.pods.len() >= MAX_PODS && !self.pods.contains_key(&pod.uid) {
            return;
        }
        if let Some(before) = self.names.insert(name, pod.uid.clone()).filter(|before| *before != pod.uid) {
            self.pods.remove(&before);
        }
        self.pods.insert(pod.uid.clone(), pod);
        self.version += 1;
    }

    /// A pod is gone.
    pub fn remove(&mut self, uid: &str) {
        let Some(pod) = self.pods.remove(uid) else { return };
        let name = (pod.namespace, pod.name);
        if self.names.get(&name).is_some_and(|of_name| of_name == uid) {
            self.names.remove(&name);
        }
        self.version += 1;
    }

    /// The pod that has this name now.
    pub fn of_name(&self, namespace: &str, name: &str) -> Option<&Pod> {
        let uid = self.names.get(&(namespace.to_owned(), name.to_owned()))?;
        self.pods.get(uid)
    }

    /// All of them, in no order.
    pub fn all(&self) -> impl Iterator<Item = &Pod> {
        self.pods.values()
    }

    /// Nothing is known of any pod.
    pub fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    /// Changes whenever a pod does.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Pods that are to be scraped, in the order of their UIDs.
    pub fn servers(&self) -> Vec<Serving> {
        let mut servers: Vec<Serving> = self.pods.values().filter_map(Pod::serving).collect();
        servers.sort_by(|one, other| one.pod.uid.cmp(&other.pod.uid));
        servers
    }

    /// Whose processes are: by UID of their pod, and by id of their container. Pods that have ended have none.
    pub fn works(&self) -> HashMap<String, Named> {
        let mut works = HashMap::new();
        for pod in self.pods.values().filter(|pod| !pod.ended) {
            for uid in std::iter::once(&pod.uid).chain(&pod.static_uid) {
                works.insert(uid.clone(), pod.named(""));
            }
            for container in pod.containers.iter().filter(|container| !container.id.is_empty()) {
                works.insert(container.id.clone(), pod.named(&container.name));
            }
        }
        works
    }
}

#[cfg(test)]
mod tests {
    use super::super::pod::Container;
    use super::*;

    fn pod(uid: &str, name: &str) -> Pod {
        let containers = vec![Container { name: "main".into(), id: format!("c{uid}"), ended_ms: None }];
        Pod { uid: uid.into(), namespace: "lab".into(), name: name.into(), containers, ..Pod::default() }
    }

    fn uid(pods: &Pods, name: &str) -> Option<String> {
        pods.of_name("lab", name).map(|pod| pod.uid.clone())
    }

    #[test]
    fn a_name_has_one_pod() {
        let mut pods = Pods::default();
        pods.replace(vec![pod("1", "a"), pod("2", "b")]);
        pods.put(pod("3", "a"));
        assert_eq!(uid(&pods, "a").as_deref(), Some("3"));
        // That the one before is gone is told late.
        pods.remove("1");
        assert_eq!(uid(&pods, "a").as_deref(), Some("3"));
        pods.remove("3");
        assert_eq!((uid(&pods, "a"), uid(&pods, "b").as_deref()), (None, Some("2")));
        pods.replace(vec![]);
        assert!(pods.told && pods.is_empty() && uid(&pods, "b").is_none());
    }

    #[test]
    fn works_are_those_of_living_pods() {
        let mut pods = Pods::default();
        pods.put(Pod { static_uid: Some("file".into()), ..pod("1", "a") });
        pods.put(Pod { ended: true, ..pod("2", "b") });
        let works = pods.works();
        let mut ids: Vec<&str> = works.keys().map(String::as_str).collect();
        ids.sort_unstable();
        assert_eq!(ids, ["1", "c1", "file"]);
        assert_eq!((works["1"].owner.container.as_str(), works["c1"].owner.container.as_str()), ("", "main"));
        assert_eq!(works["file"].owner.pod, "a");
    }

    #[test]
    fn there_is_a_limit() {
        let mut pods = Pods::default();
        (0..MAX_PODS + 5).for_each(|uid| pods.put(pod(&uid.to_string(), &uid.to_string())));
        assert_eq!(pods.pods.len(), MAX_PODS);
        let version = pods.version();
        pods.put(Pod { ended: true, ..pod("7", "7") });
        assert!(
            pods.of_name("lab", "7").is_some_and(|pod| pod.ended) && pods.version() > version,
            "what is there goes on"
        );
    }
}
