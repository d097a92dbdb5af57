//! Which rule decides, what it may change, and what is refused.

use proptest::prelude::*;
use toml::de::DeTable;

use super::read::{Fault, read};
use super::*;

fn parse(text: &str) -> Result<Rules, Fault> {
    let document = DeTable::parse(text).map_err(|error| Fault { span: 0..0, reason: error.to_string() })?;
    let owners = document.get_ref().get("owners").and_then(|owners| owners.get_ref().as_table());
    let key = |name| owners.and_then(|owners| owners.get(name));
    Ok(read(key("rule"), key("default"))?.rules)
}

const RULES: &str = r#"
[[owners.rule]]
name = "vision"
match = { namespace = ["vision-*", "cv"], k8s.label.team = "*" }
set = { department = "research", project = "{k8s.label.team}" }

[[owners.rule]]
name = "account"
match = { "slurm.account" = "?*-gpu" }
set = { department = "{slurm.account}", environment = "batch" }

[[owners.rule]]
name = "no namespace"
match = { namespace = "", user = "svc\\*" }
set = { service = "{command}" }

[owners.default]
department = "unassigned"
environment = "{cluster}"
"#;

fn labels(given: &[(&str, &str)]) -> Labels {
    given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn owner(given: &[(&str, &str)]) -> Owner {
    let mut owner = Owner::default();
    given.iter().for_each(|(field, value)| assert!(owner.set(field, value), "{field}"));
    owner
}

/// The decision's name, and the fields that were set by it.
fn decided(found: &[(&str, &str)], given: &[(&str, &str)]) -> (Option<String>, Vec<String>) {
    let before = owner(found);
    let (after, decision) = parse(RULES).unwrap().apply(before.clone(), &labels(given));
    let both = before.attributes().into_iter().zip(after.attributes()).map(|((_, old), new)| (old, new));
    let set = both.filter(|(old, (_, new))| old != new).map(|(_, (field, value))| format!("{field}={value}"));
    (decision.name().map(str::to_owned), set.collect())
}

#[test]
fn the_first_rule_that_matches_decides_and_the_default_fills_in_the_rest() {
    for (found, given, name, set) in [
        (
            &[("namespace", "vision-a")][..],
            &[("k8s.label.team", "cats")][..],
            Some("vision"),
            &["department=research", "project=cats"][..],
        ),
        (
            &[("namespace", "cv")],
            &[("k8s.label.team", "cats"), ("slurm.account", "x-gpu")],
            Some("vision"),
            &["department=research", "project=cats"],
        ),
        // Without a team, the first rule does not match, whatever the pattern.
        (
            &[("namespace", "cv")],
            &[("slurm.account", "x-gpu")],
            Some("account"),
            &["environment=batch", "department=x-gpu"],
        ),
        (
            &[("user", "svc*"), ("command", "vllm"), ("cluster", "c1")],
            &[],
            Some("no namespace"),
            &["environment=c1", "department=unassigned", "service=vllm"],
        ),
        (&[("user", "svc*"), ("namespace", "n")], &[], Some("default"), &["department=unassigned"]),
        // What the owner says itself stays, and the rest is filled in.
        (
            &[("namespace", "cv"), ("project", "dogs")],
            &[("k8s.label.team", "cats")],
            Some("vision"),
            &["department=research"],
        ),
        (
            &[("namespace", "cv"), ("project", "dogs"), ("department", "d")],
            &[("k8s.label.team", "cats")],
            Some("itself"),
            &[],
        ),
    ] {
        let set: Vec<String> = set.iter().map(|&text| text.to_owned()).collect();
        assert_eq!(decided(found, given), (name.map(str::to_owned), set), "{found:?} {given:?}");
    }
    let nothing = Rules::default();
    assert!(nothing.is_empty());
    assert_eq!(nothing.apply(owner(&[("user", "ana")]), &Labels::new()).1.name(), None);
    let (same, decision) = parse(RULES).unwrap().apply(Owner::of_kind(OwnerKind::Idle), &Labels::new());
    assert_eq!((same, decision), (Owner::of_kind(OwnerKind::Idle), Decision::Nobody), "nobody's time stays nobody's");
}

#[test]
fn a_fault_names_the_key_the_value_and_what_was_expected() {
    let rule = |text: &str| format!("[[owners.rule]]\nname = \"r\"\n{text}");
    let fields = "environment, cluster, namespace, pod, container, job, user, department, project, experiment, service, model, command";
    for (text, at, reason) in [
        ("owners.rule = 3".to_owned(), "3", "owners.rule is 3, expected tables, each below [[owners.rule]]".to_owned()),
        (rule("colour = 1"), "colour", "unknown key colour, expected one of name, match, set".to_owned()),
        (rule(""), "[[owners", "rule \"r\" has no match, expected a table of patterns".to_owned()),
        (rule("match.pod = \"x\""), "[[owners", "rule \"r\" has no set, expected a table of values".to_owned()),
        (rule("match = {}"), "{}", "match has 0 keys, expected 1 to 64; what is meant for all is [owners.default]".to_owned()),
        (rule("match.namspace = \"x\""), "namspace", format!("unknown key namspace, expected one of {fields}, or a label such as k8s.label.team")),
        (rule("match.pod = 1"), "1", "pod is 1, expected a pattern in quotes, or a list of them".to_owned()),
        (rule("match.pod = []"), "[]", "pod has 0 patterns, expected 1 to 64".to_owned()),
        (rule("match.pod = [\"a\", 'b\\']"), "'b\\'", "pod is \"b\\\\\", expected a character after the last \\".to_owned()),
        (rule("match = { k8s.label.a = \"x\", \"k8s.label.a\" = \"y\" }"), "\"k8s", "k8s.label.a stands there twice, expected each key once".to_owned()),
        (rule("set.user = \"x\""), "user", "unknown key user, expected one of department, project, experiment, environment, service, model".to_owned()),
        (rule("set = {}"), "{}", "set is empty, expected one of department, project, experiment, environment, service, model".to_owned()),
        (rule("set.model = \"{pood}\""), "\"{pood}\"", format!("model is \"{{pood}}\", expected one of {fields}, or a label such as k8s.label.team, in braces")),
        ("[[owners.rule]]\nname = \"default\"".to_owned(), "\"default\"", "name is \"default\", expected text of 1 to 256 bytes without control characters, other than default, itself, none".to_owned()),
        ("[owners.default]\nproject = 1".to_owned(), "1", "project is 1, expected text in quotes".to_owned()),
        ("[owners]\ndefault = \"x\"".to_owned(), "\"x\"", "owners.default is \"x\", expected a table of values".to_owned()),
    ] {
        let fault = parse(&text).unwrap_err();
        assert_eq!(fault.reason, reason, "{text}");
        assert!(text[fault.span.start..].starts_with(at), "{text}: {:?}", &text[fault.span.start..]);
    }
    let twice = |name: &str, pod: &str| {
        let first = rule("match.pod = \"a\"\nset.project = \"x\"\n");
        parse(&format!("{first}[[owners.rule]]\nname = \"{name}\"\nmatch.pod = \"{pod}\"\nset.project = \"y\""))
            .map(|_| ())
    };
    assert_eq!(twice("s", "b"), Ok(()));
    assert_eq!(twice("r", "b").unwrap_err().reason, "name is \"r\", expected another one than that of rule 1");
    assert!(twice("s", "a").unwrap_err().reason.ends_with("it would never be reached"));
    let many = "[[owners.rule]]\n".repeat(read::MAX_RULES + 1);
    assert!(parse(&many).unwrap_err().reason.ends_with("expected at most 1000"));
}

fn names() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["namespace", "user", "department", "k8s.label.a", "slurm.account"])
}

fn rules() -> impl Strategy<Value = Rules> {
    let pattern = prop::sample::select(vec!["", "*", "a", "b*", "?", "*a"]);
    let when = prop::collection::btree_map(names(), prop::collection::vec(pattern, 1..3), 1..3);
    let value = prop::sample::select(vec!["x", "y", "{namespace}", "{k8s.label.a}-z", "{user}{slurm.account}"]);
    let set = prop::collection::btree_map(prop::sample::select(TARGETS.to_vec()), value, 1..4);
    let sets = |set: BTreeMap<&'static str, &str>| -> Vec<Set> {
        let known = TARGETS.iter().filter_map(|target| Some((*target, *set.get(target)?)));
        known.map(|(target, text)| (target, Template::parse(text).unwrap())).collect()
    };
    let rule = (when, set.clone()).prop_map(move |(when, set)| {
        let globs = |texts: Vec<&str>| texts.into_iter().map(|text| Glob::parse(text).unwrap()).collect();
        let sources = when.into_iter().map(|(name, texts)| (Source::parse(name).unwrap(), globs(texts)));
        let when = sources.collect::<BTreeMap<_, _>>().into_iter().collect();
        Rule { name: "".into(), when, set: sets(set) }
    });
    let all = (prop::collection::vec(rule, 0..6), prop::option::of(set));
    all.prop_map(move |(mut rules, default)| {
        rules.iter_mut().enumerate().for_each(|(at, rule)| rule.name = format!("rule {at}").into());
        Rules { rules, default: default.map(sets).unwrap_or_default() }
    })
}

fn people() -> impl Strategy<Value = (Owner, Labels)> {
    let value = || prop::sample::select(vec!["", "a", "b", "ba", "é"]);
    let fields = prop::collection::vec(value(), 13);
    let labels = prop::collection::btree_map(names(), value(), 0..4);
    (fields, labels).prop_map(|(values, given)| {
        let mut owner = Owner::default();
        for ((field, _), value) in Owner::default().attributes().into_iter().zip(values) {
            owner.set(field, value);
        }
        (owner, given.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    })
}

proptest! {
    #[test]
    fn nothing_that_was_there_changes_and_what_is_set_is_what_the_first_match_says(
        rules in rules(), (owner, labels) in people(),
    ) {
        let (after, decision) = rules.apply(owner.clone(), &labels);
        prop_assert_eq!(&(after.clone(), decision.clone()), &rules.apply(owner.clone(), &labels), "deterministic");
        let known = Known::of(&owner, &labels);
        let first = rules.rules.iter().find(|rule| rule.matches(&known));
        for ((field, old), (_, new)) in owner.attributes().into_iter().zip(after.attributes()) {
            let of = |set: &[Set]| set.iter().find(|(target, _)| *target == field).and_then(|(_, text)| text.fill(&known));
            let expected = first.and_then(|rule| of(&rule.set)).or_else(|| of(&rules.default)).unwrap_or_default();
            prop_assert_eq!(new, if old.is_empty() { expected.as_str() } else { old }, "{}", field);
        }
        match &decision {
            Decision::Rule(name) => prop_assert_eq!(first.map(|rule| &rule.name), Some(name)),
            Decision::Default => prop_assert_ne!(&after, &owner),
            Decision::Itself | Decision::Nobody => prop_assert_eq!(&after, &owner),
        }
        // Rules after the first that matches don't count, whatever they are.
        if let Some(at) = rules.rules.iter().position(|rule| rule.matches(&known)) {
            let less = Rules { rules: rules.rules[..=at].to_vec(), default: rules.default.clone() };
            prop_assert_eq!((after, decision), less.apply(owner.clone(), &labels));
        }
    }

    #[test]
    fn what_is_shown_gives_the_same_rules(rules in rules()) {
        let mut text = String::new();
        for rule in &rules.rules {
            text += &format!("[[owners.rule]]\n{}", rule.to_toml());
        }
        if !rules.default.is_empty() {
            text += &format!("[owners.default]\n{}", rules.default_toml());
        }
        match parse(&text) {
            Ok(read) => prop_assert_eq!(read, rules),
            // Two rules with one condition, of which the second would never be reached.
            Err(fault) => prop_assert!(fault.reason.ends_with("it would never be reached"), "{}", fault.reason),
        }
    }

    #[test]
    fn no_text_makes_it_panic(text in ".{0,200}", value in "[^\"\\\\]{0,60}") {
        let _ = parse(&text);
        let _ = parse(&format!("[[owners.rule]]\nname = \"{value}\"\nmatch = {{ \"{value}\" = \"{value}\" }}\nset.model = \"{value}\""));
    }
}

#[test]
fn which_variables_are_asked_for_is_what_the_rules_name() {
    let text = r#"
[[owners.rule]]
name = "a"
match = { env.TEAM = "?*", k8s.label.env = "*", command = "*" }
set = { project = "{env.TEAM}-{env.RUN}", experiment = "{environment}" }

[[owners.rule]]
name = "b"
match = { "env.a=b" = "x" }
set = { project = "b" }

[owners.default]
department = "{env.DEPARTMENT}"
"#;
    assert!(parse(text).is_err(), "no variable has such a name");
    let rules = parse(&text.replace("env.a=b", "env.lower.case")).unwrap();
    let named: Vec<&str> = rules.variables().into_iter().collect();
    assert_eq!(named, ["DEPARTMENT", "RUN", "TEAM", "lower.case"]);
    assert!(parse(RULES).unwrap().variables().is_empty());
    let (owner, decision) = rules.apply(Owner::default(), &labels(&[("env.TEAM", "vision"), ("env.RUN", "7")]));
    assert_eq!((owner.project.as_str(), decision.name()), ("", None), "no command");
    let command = self::owner(&[("command", "python3")]);
    let all = labels(&[("env.TEAM", "vision"), ("env.RUN", "7"), ("k8s.label.env", "x"), ("env.DEPARTMENT", "labs")]);
    let (owner, _) = rules.apply(command, &all);
    assert_eq!((owner.project.as_str(), owner.department.as_str()), ("vision-7", "labs"));
}
