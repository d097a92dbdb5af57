//! Pods that say by their annotations that they are to be scraped, and where.
//!
//! | annotation | beside it | means |
//! |---|---|---|
//! | `contador.io/scrape: "true"` | `prometheus.io/scrape` | scrape it; `"false"` of contador's wins over the other |
//! | `contador.io/port` | `prometheus.io/port` | number or name of a port; else the one called `metrics`, else the only one |
//! | `contador.io/path` | `prometheus.io/path` | `/metrics` |
//! | `contador.io/scheme` | `prometheus.io/scheme` | `http` or `https` |
//! | `contador.io/service`, `contador.io/model`, `contador.io/preset` | | name, model and kind of server |

use std::collections::BTreeMap;

use super::pod::ANNOTATION;
use crate::scrape::presets::Preset;
use crate::targets::target::{METRICS_PATH, Pod as OfPod, Target, whole_url};

/// Most ports of one pod.
const MAX_PORTS: usize = 64;

/// A port that a container says it listens on.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Port {
    /// The container.
    pub container: String,
    /// Its name, or empty.
    pub name: String,
    /// Its number.
    pub number: u16,
}

/// Where a pod can be asked.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Reached {
    /// Its address.
    pub ip: String,
    /// Its ports.
    pub ports: Vec<Port>,
}

/// A pod that is to be scraped.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Serving {
    /// Whether it says so to contador, and not only to whoever scrapes pods.
    pub is_meant: bool,
    /// Which.
    pub pod: OfPod,
    /// The server; or what of the annotations can't be used, and what was expected.
    pub target: Result<Target, String>,
}

/// Whether these annotations ask for it.
pub fn is_asked(labels: &BTreeMap<String, String>) -> bool {
    let says = |domain: &str| annotation(labels, domain, "scrape").map(|value| value.eq_ignore_ascii_case("true"));
    says("contador.io").or_else(|| says("prometheus.io")).unwrap_or_default()
}

fn annotation<'l>(labels: &'l BTreeMap<String, String>, domain: &str, name: &str) -> Option<&'l str> {
    let value = labels.get(&format!("{ANNOTATION}{domain}/{name}"))?.trim();
    (!value.is_empty()).then_some(value)
}

impl Serving {
    /// The server of a pod that runs, has this address, and asks for it.
    pub fn of(mut pod: OfPod, reached: &Reached) -> Option<Self> {
        if !is_asked(&pod.labels) || reached.ip.is_empty() {
            return None;
        }
        let is_meant = annotation(&pod.labels, "contador.io", "scrape").is_some();
        let target =
            target(&mut pod, reached).map_err(|reason| format!("pod {}/{}: {reason}", pod.namespace, pod.name));
        let target = target.map(|target| Target { pod: Some(pod.clone()), ..target });
        Some(Self { is_meant, pod, target })
    }
}

fn target(pod: &mut OfPod, Reached { ip, ports }: &Reached) -> Result<Target, String> {
    let labels = pod.labels.clone();
    let own = |name: &str| annotation(&labels, "contador.io", name);
    let said = |name: &str| own(name).or_else(|| annotation(&labels, "prometheus.io", name));
    let only = || if let [port] = &ports[..] { Some(port) } else { None };
    let port = match said("port") {
        Some(text) => {
            let named = ports.iter().find(|port| port.name == text);
            let number = named.map(|port| port.number).or_else(|| text.parse().ok().filter(|number| *number > 0));
            let expected = || format!("its annotation of the port is {text:?}, expected a number or the name of one");
            let number: u16 = number.ok_or_else(expected)?;
            let of = ports.iter().find(|port| port.number == number);
            Port { number, ..of.cloned().unwrap_or_default() }
        }
        None => {
            let port = ports.iter().find(|port| port.name == "metrics").or_else(only);
            port.cloned().ok_or_else(|| {
                format!(
                    "it has {} ports, expected one, one called metrics, or an annotation contador.io/port",
                    ports.len()
                )
            })?
        }
    };
    pod.container = port.container;
    let scheme = said("scheme").unwrap_or("http");
    if !matches!(scheme, "http" | "https") {
        return Err(format!("its annotation of the scheme is {scheme:?}, expected http or https"));
    }
    let host = if ip.contains(':') { format!("[{ip}]") } else { ip.clone() };
    let path = said("path").unwrap_or(METRICS_PATH);
    let url = whole_url(&format!("{host}:{}", port.number), scheme, path)
        .map_err(|_| format!("its annotation of the path is {path:?}, expected one such as {METRICS_PATH}"))?;
    let preset = match own("preset") {
        None | Some("auto") => None,
        Some(name) => Some(name.parse::<Preset>().map_err(|error| error.to_string())?),
    };
    let text = |name: &str| own(name).unwrap_or_default().to_owned();
    Ok(Target { url, service: text("service"), model: text("model"), preset, ..Target::default() })
}

/// The ports of containers, as many as are kept.
pub fn ports<'c>(containers: impl Iterator<Item = (&'c str, Vec<(String, u16)>)>) -> Vec<Port> {
    let of = |(container, ports): (&str, Vec<(String, u16)>)| {
        let container = container.to_owned();
        ports.into_iter().map(move |(name, number)| Port { container: container.clone(), name, number })
    };
    containers.flat_map(of).take(MAX_PORTS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn serving(annotations: &[(&str, &str)], ports: &[(&str, &str, u16)]) -> Option<Serving> {
        let labels = annotations.iter().map(|(name, value)| (format!("{ANNOTATION}{name}"), (*value).to_owned()));
        let pod =
            OfPod { name: "chat-0".into(), namespace: "lab".into(), labels: labels.collect(), ..OfPod::default() };
        let port = |&(container, name, number): &(&str, &str, u16)| Port {
            container: container.into(),
            name: name.into(),
            number,
        };
        let ports = ports.iter().map(port).collect();
        Serving::of(pod, &Reached { ip: "10.0.0.5".into(), ports })
    }

    #[test]
    fn annotations_say_where_the_server_is() {
        let (http, metrics) = (("main", "http", 8000), ("side", "metrics", 9100));
        let prometheus = ("prometheus.io/scrape", "true");
        let url = |annotations: &[(&str, &str)], ports: &[(&str, &str, u16)]| {
            let found = serving(annotations, ports).unwrap();
            let container = found.pod.container.clone();
            match found.target {
                Ok(target) => (target.url, container, found.is_meant),
                Err(fault) => (fault, container, false),
            }
        };
        let is = |url: &str, container: &str, is_meant| (url.to_owned(), container.to_owned(), is_meant);
        assert_eq!(url(&[prometheus], &[http]), is("http://10.0.0.5:8000/metrics", "main", false));
        assert_eq!(url(&[prometheus], &[http, metrics]), is("http://10.0.0.5:9100/metrics", "side", false));
        let all = [
            ("contador.io/scrape", "True"),
            ("prometheus.io/port", "1"),
            ("contador.io/port", "http"),
            ("prometheus.io/path", "stats"),
            ("prometheus.io/scheme", "https"),
        ];
        assert_eq!(url(&all, &[http, metrics]), is("https://10.0.0.5:8000/stats", "main", true));
        assert_eq!(url(&[prometheus, ("prometheus.io/port", "7")], &[]), is("http://10.0.0.5:7/metrics", "", false));
        for (annotations, ports, expected) in [
            (&[prometheus][..], &[][..], "it has 0 ports, expected one"),
            (&[prometheus], &[http, ("a", "b", 1)], "it has 2 ports, expected one"),
            (&[prometheus, ("prometheus.io/port", "web")], &[http], "is \"web\", expected a number or the name of one"),
            (&[prometheus, ("prometheus.io/scheme", "ftp")], &[http], "is \"ftp\", expected http or https"),
            (&[prometheus, ("contador.io/preset", "vlm")], &[http], "preset is \"vlm\", expected one of vllm"),
            (&[prometheus, ("prometheus.io/path", "/a b")], &[http], "is \"/a b\", expected one such as /metrics"),
        ] {
            let fault = serving(annotations, ports).unwrap().target.unwrap_err();
            assert!(fault.starts_with("pod lab/chat-0: ") && fault.contains(expected), "{fault}");
        }
    }

    #[test]
    fn who_does_not_ask_is_not_scraped() {
        let ports = [("main", "", 8000)];
        for annotations in [
            &[][..],
            &[("prometheus.io/scrape", "false")],
            &[("prometheus.io/scrape", "true"), ("contador.io/scrape", "false")],
            &[("prometheus.io/port", "8000")],
        ] {
            assert_eq!(serving(annotations, &ports), None, "{annotations:?}");
        }
        assert!(serving(&[("prometheus.io/scrape", "true"), ("contador.io/scrape", "true")], &ports).is_some());
        let labels = [(format!("{ANNOTATION}contador.io/scrape"), "true".to_owned())].into();
        assert_eq!(
            Serving::of(OfPod { labels, ..OfPod::default() }, &Reached::default()),
            None,
            "it has no address yet"
        );
    }
}
