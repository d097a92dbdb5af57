//! Whose a server is: the owner that the ledger has of its device, or who its pod or the configuration says it is.
//!
//! | server | owner | device |
//! |---|---|---|
//! | in a pod that holds devices | who holds them in the ledger, when that is one | the device, when it is one |
//! | in another pod | the pod, with who pays by the rules | none |
//! | with a `device` | who holds that in the ledger, when that is one | that one |
//! | with an `owner` | he, with who pays by the rules | none, or the `device` |
//! | any other | who listens on its port, when that is a process of this node | what he holds in the ledger, when that is one |
//! | else | who the rules say, by its service, model, environment and labels, when one of them matches | none |

use std::collections::BTreeMap;

use contador_schemas::mapping::{Decision, Rules};
use contador_schemas::names;
use contador_schemas::owner::Owner;

use super::target::{Pod, Target};
use super::told::Told;
use crate::outbox::encode::histogram::Whose;
use crate::owners::claim::{Named, is_work_of};
use crate::owners::{Identified, mapping};

/// What the names of a target's labels begin with for rules.
pub const LABEL: &str = "scrape.label.";

/// Labels of pods that name their service, the most exact first.
const SERVICES: [&str; 3] = ["k8s.label.app.kubernetes.io/name", "k8s.label.app", "k8s.label.k8s-app"];

/// Who serves, and on what.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Server {
    /// The owner, where he is known.
    pub owner: Option<Identified>,
    /// UUID of the device, or empty.
    pub device: String,
}

/// Who serves at this target. `listens`: who listens on its port, where that is known.
pub fn server(target: &Target, listens: Option<&Identified>, told: &Told, rules: &Rules) -> Server {
    if let Some(pod) = &target.pod {
        let found = of_pod(pod, told);
        let owner = found.owner.or_else(|| Some(payer(rules, named(pod)).0));
        return Server { owner, ..found };
    }
    let on_device = || {
        let (_, held) = told.held.iter().find(|(device, _)| *device == target.device)?;
        if let [holder] = &held[..] { Some(holder.clone()) } else { None }
    };
    if target.owner != Owner::default() {
        let owner = payer(rules, said(target)).0;
        return Server { owner: Some(owner), device: target.device.clone() };
    }
    if !target.device.is_empty() {
        return Server { owner: on_device(), device: target.device.clone() };
    }
    if let Some(listens) = listens {
        // A pod that is known by its UID alone may be any.
        let is_known = listens.pod.is_empty() || !listens.namespace.is_empty();
        let mine = |holder: &Identified| holder == listens || (is_known && is_work_of(listens, holder));
        let found =
            one(told.held.iter().filter_map(|(device, held)| Some((device, held.iter().find(|held| mine(held))?))));
        return Server { owner: found.owner.or_else(|| Some(listens.clone())), ..found };
    }
    let (owner, decision) = payer(rules, said(target));
    Server { owner: matches!(decision, Decision::Rule(_)).then_some(owner), device: String::new() }
}

/// Who holds what the pod has, by the ledger: of the container that listens, where that holds something.
fn of_pod(pod: &Pod, told: &Told) -> Server {
    let is_pods = |owner: &Identified| owner.namespace == pod.namespace && owner.pod == pod.name;
    let all = || told.held.iter().flat_map(|(device, held)| held.iter().map(move |owner| (device, owner)));
    let listens = |owner: &Identified| !pod.container.is_empty() && owner.container == pod.container;
    let has_own = all().any(|(_, owner)| is_pods(owner) && listens(owner));
    one(all().filter(|(_, owner)| is_pods(owner) && (!has_own || listens(owner))))
}

/// The owner of these, and the device, where it is one.
fn one<'h>(held: impl Iterator<Item = (&'h String, &'h Identified)>) -> Server {
    let (mut owners, mut devices): (Vec<&Identified>, Vec<&String>) = (Vec::new(), Vec::new());
    for (device, owner) in held {
        if !owners.contains(&owner) {
            owners.push(owner);
        }
        if !devices.contains(&device) {
            devices.push(device);
        }
    }
    let owner = if let [owner] = owners[..] { Some(owner.clone()) } else { None };
    let device = if let [device] = devices[..] { device.clone() } else { String::new() };
    Server { owner, device }
}

fn named(pod: &Pod) -> Named {
    let owner = Owner {
        namespace: pod.namespace.clone(),
        pod: pod.name.clone(),
        container: pod.container.clone(),
        ..Owner::default()
    };
    Named { owner, labels: pod.labels.clone() }
}

fn said(target: &Target) -> Named {
    let mut owner = target.owner.clone();
    for (field, value) in [("service", &target.service), ("environment", &target.environment), ("model", &target.model)]
    {
        if !value.is_empty() {
            owner.set(field, value);
        }
    }
    let labels: BTreeMap<String, String> =
        target.labels.iter().map(|(name, value)| (format!("{LABEL}{name}"), value.clone())).collect();
    Named { owner, labels }
}

fn payer(rules: &Rules, named: Named) -> (Identified, Decision) {
    let mapped = mapping::apply(rules, named);
    (mapped.owner.into(), mapped.decision)
}

/// What is the same in all that is told of a target, of a server of this preset.
pub fn whose(target: &Target, server: &Server, preset: Option<&str>) -> Whose {
    let owner =
        |field: fn(&Owner) -> &String| server.owner.as_ref().map(|owner| field(owner).as_str()).unwrap_or_default();
    let first =
        |values: &[&str]| values.iter().find(|value| !value.is_empty()).map_or_else(String::new, |&value| value.into());
    let labels = target.pod.as_ref().map(|pod| &pod.labels);
    let of_pod = SERVICES.iter().find_map(|name| labels?.get(*name)).map_or("", String::as_str);
    let mut source = Vec::new();
    if let Some(pod) = &target.pod {
        for (name, value) in
            [(names::NAMESPACE, &pod.namespace), (names::POD, &pod.name), (names::CONTAINER, &pod.container)]
        {
            if !value.is_empty() {
                source.push((name.to_owned(), value.clone()));
            }
        }
    }
    Whose {
        service: first(&[&target.service, of_pod, owner(|owner| &owner.service), preset.unwrap_or_default()]),
        model: first(&[&target.model, owner(|owner| &owner.model)]),
        environment: first(&[&target.environment, owner(|owner| &owner.environment)]),
        instance: target.address().to_owned(),
        device: server.device.clone(),
        owner: server.owner.as_ref().map(Identified::id),
        source,
        simulated: false,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::{Config, Overrides};

    const RULES: &str = "[[owners.rule]]\nname = \"a\"\nmatch.\"scrape.label.team\" = \"vision\"\nset.department = \"labs\"\n\
                         [[owners.rule]]\nname = \"b\"\nmatch.namespace = \"lab\"\nset.department = \"of {k8s.label.app}\"\n";

    fn rules() -> std::sync::Arc<Rules> {
        Config::parse(RULES, Path::new("agent.toml"), &Overrides::default()).unwrap().rules
    }

    fn owner(pod: &str, container: &str) -> Identified {
        let (pod, container) = (pod.to_owned(), container.to_owned());
        Owner { namespace: "lab".into(), pod, container, department: "labs".into(), ..Owner::default() }.into()
    }

    fn told(held: &[(&str, &[&Identified])]) -> Told {
        let held =
            held.iter().map(|(device, held)| ((*device).to_owned(), held.iter().map(|&one| one.clone()).collect()));
        Told { held: held.collect(), ..Told::default() }
    }

    fn pod(container: &str) -> Target {
        let labels = [("k8s.label.app".to_owned(), "chat".to_owned())].into();
        let (namespace, name, container) = ("lab".to_owned(), "a".to_owned(), container.to_owned());
        let pod = Pod { uid: "1".into(), namespace, name, container, labels };
        Target { url: "http://10.0.0.5:8000/metrics".into(), pod: Some(pod), ..Target::default() }
    }

    #[test]
    fn a_pod_is_who_the_ledger_says_holds_its_devices() {
        let (main, side, other) = (owner("a", "main"), owner("a", "side"), owner("b", "main"));
        let of = |container: &str, held: &[(&str, &[&Identified])]| {
            let server = server(&pod(container), None, &told(held), &rules());
            (server.owner.unwrap(), server.device)
        };
        let is = |owner: &Identified, device: &str| (owner.clone(), device.to_owned());
        assert_eq!(of("main", &[("G1", &[&main]), ("G2", &[&other])]), is(&main, "G1"));
        // It listens in a container that holds nothing.
        assert_eq!(of("web", &[("G1", &[&main]), ("G2", &[&other])]), is(&main, "G1"));
        assert_eq!(of("", &[("G1", &[&main, &other])]), is(&main, "G1"), "shared with another one");
        assert_eq!(of("main", &[("G1", &[&main]), ("G2", &[&main])]), is(&main, ""), "no single device");
        assert_eq!(of("main", &[("G1", &[&main]), ("G2", &[&side])]), is(&main, "G1"));
        // By the rules, where the ledger knows none of it, or not which.
        let unheld =
            |container: &str| Owner { department: "of chat".into(), ..Owner::clone(&owner("a", container)) }.into();
        assert_eq!(of("main", &[("G2", &[&other])]), is(&unheld("main"), ""));
        assert_eq!(of("web", &[("G1", &[&main]), ("G2", &[&side])]), is(&unheld("web"), ""));
    }

    #[test]
    fn another_server_is_who_is_said_or_listens() {
        let plain = Target { url: "http://127.0.0.1:8000/metrics".into(), service: "chat".into(), ..Target::default() };
        let on_device = Target { device: "G1".into(), ..plain.clone() };
        let said = Owner { department: "sales".into(), ..Owner::default() };
        let owned = Target { owner: said.clone(), ..plain.clone() };
        let labelled = Target { labels: [("team".to_owned(), "vision".to_owned())].into(), ..plain.clone() };
        let job: Identified = Owner { job: "7".into(), user: "ana".into(), ..Owner::default() }.into();
        let other: Identified = Owner { job: "8".into(), ..Owner::default() }.into();
        let held: &[(&str, &[&Identified])] = &[("G1", &[&job]), ("G2", &[&other])];
        let of = |target: &Target, listens: Option<&Identified>, held: &[(&str, &[&Identified])]| {
            server(target, listens, &told(held), &rules())
        };
        let is = |owner: Option<&Identified>, device: &str| Server { owner: owner.cloned(), device: device.into() };
        assert_eq!(of(&on_device, None, held), is(Some(&job), "G1"));
        assert_eq!(of(&on_device, None, &[("G1", &[&job, &other])]), is(None, "G1"));
        let sales: Identified = Owner { service: "chat".into(), ..said }.into();
        assert_eq!(of(&owned, Some(&job), held), is(Some(&sales), ""));
        assert_eq!(of(&plain, Some(&job), held), is(Some(&job), "G1"));
        // A process of the job that holds the device, under another name.
        let same: Identified = Owner { job: "7".into(), ..Owner::default() }.into();
        assert_eq!(of(&plain, Some(&same), held), is(Some(&job), "G1"));
        let stranger: Identified = Owner { user: "bo".into(), ..Owner::default() }.into();
        assert_eq!(of(&plain, Some(&stranger), held), is(Some(&stranger), ""));
        // A pod of which only the UID is known may be any.
        let untold: Identified = Owner { pod: "3a6f0f0e-1c61".into(), ..Owner::default() }.into();
        assert_eq!(of(&plain, Some(&untold), &[("G1", &[&owner("a", "main")])]), is(Some(&untold), ""));
        let labs: Identified = Owner { department: "labs".into(), service: "chat".into(), ..Owner::default() }.into();
        assert_eq!(of(&labelled, None, held), is(Some(&labs), ""));
        assert_eq!(of(&plain, None, held), is(None, ""), "no rule says it");
    }

    #[test]
    fn a_service_has_the_first_name_that_is_said() {
        let name = |target: &Target, preset| whose(target, &Server::default(), preset).service;
        assert_eq!(name(&Target { service: "x".into(), ..pod("") }, Some("vllm")), "x");
        assert_eq!(name(&pod(""), Some("vllm")), "chat");
        assert_eq!(name(&Target { pod: None, ..pod("") }, Some("vllm")), "vllm");
        let of = whose(&pod("main"), &Server { owner: Some(owner("a", "main")), device: "G1".into() }, None);
        assert_eq!((of.instance.as_str(), of.device.as_str()), ("10.0.0.5:8000", "G1"));
        let source: Vec<(&str, &str)> = of.source.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(source, [(names::NAMESPACE, "lab"), (names::POD, "a"), (names::CONTAINER, "main")]);
        assert_eq!(of.owner, Some(owner("a", "main").id()));
    }
}
