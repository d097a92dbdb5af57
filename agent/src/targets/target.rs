//! A server that is scraped: where it is, and what is known of it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use contador_schemas::owner::Owner;
use contador_schemas::series::series_id;
use http::Uri;
use uuid::Uuid;

use crate::owners::label;
use crate::scrape::presets::{Custom, Preset};

/// The path of a page, when none is said.
pub const METRICS_PATH: &str = "/metrics";

/// Longest URL in bytes.
const MAX_URL_BYTES: usize = 2_048;

/// Most labels of one target.
pub const MAX_LABELS: usize = 64;

/// What an URL may be.
pub const EXPECTED_URL: &str = "host:port, or an URL such as http://127.0.0.1:8000/metrics";

/// A server, as the configuration, a file or a pod tells of it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Target {
    /// Where its page is: `http` or `https`, host, port and path.
    pub url: String,
    /// Name of the service; empty: a pod's, else that of the server's preset.
    pub service: String,
    /// Deployment environment, or empty.
    pub environment: String,
    /// Machine-learning model, where the page does not say it.
    pub model: String,
    /// UUID of the device that serves, or empty.
    pub device: String,
    /// What its families mean; `None`: found out by them.
    pub preset: Option<Preset>,
    /// More histograms, by name.
    pub histograms: Vec<Custom>,
    /// Labels of all its series.
    pub labels: BTreeMap<String, String>,
    /// Who serves, by fields of an owner; empty where nobody said it.
    pub owner: Owner,
    /// Headers that are sent with each question.
    pub headers: BTreeMap<String, String>,
    /// The file with the bearer token that is shown.
    pub token_file: Option<PathBuf>,
    /// The file with the certificates (PEM) that the server's is checked with.
    pub ca_file: Option<PathBuf>,
    /// The pod that it is in.
    pub pod: Option<Pod>,
}

/// The pod of a server.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Pod {
    /// What tells it from every other pod that there was.
    pub uid: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The container that listens, or empty when that is not told.
    pub container: String,
    /// Labels and annotations, as rules see them.
    pub labels: BTreeMap<String, String>,
}

impl Target {
    /// What its memory is known by: another pod at the same address is another server.
    pub fn id(&self) -> Uuid {
        let pod = self.pod.as_ref().map_or("", |pod| &pod.uid);
        series_id([("url", self.url.as_str()), ("pod", pod)])
    }

    /// Host and port.
    pub fn address(&self) -> &str {
        self.parts().0
    }

    /// Host and port, and the path without its first slash.
    pub fn parts(&self) -> (&str, &str) {
        let rest = self.url.split_once("://").map_or(self.url.as_str(), |(_, rest)| rest);
        rest.split_once('/').unwrap_or((rest, ""))
    }
}

/// The whole URL of what is written: `host:port`, or an URL, with or without a path.
///
/// # Errors
/// What was expected.
pub fn url(written: &str) -> Result<String, &'static str> {
    whole_url(written, "http", METRICS_PATH)
}

/// The same, where scheme and path are other ones when they are not written.
///
/// # Errors
/// What was expected.
pub fn whole_url(written: &str, scheme: &str, path: &str) -> Result<String, &'static str> {
    let written = written.trim();
    let full = if written.contains("://") { written.to_owned() } else { format!("{scheme}://{written}") };
    if full.len() > MAX_URL_BYTES {
        return Err(EXPECTED_URL);
    }
    let uri: Uri = full.parse().map_err(|_| EXPECTED_URL)?;
    let scheme = uri.scheme_str().filter(|scheme| matches!(*scheme, "http" | "https")).ok_or(EXPECTED_URL)?;
    let authority = uri.authority().map(http::uri::Authority::as_str).unwrap_or_default();
    // What is in front of an @ would be a secret in each message.
    if uri.host().unwrap_or_default().is_empty() || authority.contains('@') {
        return Err(EXPECTED_URL);
    }
    let port = match (uri.port_u16(), scheme) {
        (Some(port), _) => port,
        (None, "https") => 443,
        (None, _) => 80,
    };
    let said = uri.path_and_query().map(http::uri::PathAndQuery::as_str).filter(|path| *path != "/");
    let path = said.unwrap_or(path);
    let slash = if path.starts_with('/') { "" } else { "/" };
    let url = format!("{scheme}://{}:{port}{slash}{path}", uri.host().unwrap_or_default());
    // A path that was said beside the URL was not looked at yet.
    url.parse::<Uri>().map_err(|_| EXPECTED_URL)?;
    Ok(url)
}

/// Whether this may be the name of a label: what Prometheus and OpenTelemetry take.
pub fn is_label(name: &str) -> bool {
    let is_plain = |sign: char| sign.is_ascii_alphanumeric() || "_.-/".contains(sign);
    !name.is_empty() && label::is_valid(name) && name.chars().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_url_is_whole_and_has_no_secret() {
        for (written, expected) in [
            ("127.0.0.1:8000", "http://127.0.0.1:8000/metrics"),
            ("chat", "http://chat:80/metrics"),
            ("[::1]:9000", "http://[::1]:9000/metrics"),
            ("https://chat.lab/", "https://chat.lab:443/metrics"),
            ("http://chat:8000/engine/metrics?all=1", "http://chat:8000/engine/metrics?all=1"),
        ] {
            assert_eq!(url(written).as_deref(), Ok(expected), "{written}");
            assert_eq!(url(expected).as_deref(), Ok(expected), "the same again");
        }
        for wrong in ["", ":8000", "ftp://chat:21", "http://", "http://ana:secret@chat:8000", "a b:8", "/metrics"] {
            assert_eq!(url(wrong), Err(EXPECTED_URL), "{wrong}");
        }
        assert_eq!(url(&"x".repeat(3_000)), Err(EXPECTED_URL));
        assert_eq!(whole_url("chat:1", "https", "probe").as_deref(), Ok("https://chat:1/probe"));
        assert_eq!(whole_url("chat:1", "http", "/a b"), Err(EXPECTED_URL));
    }

    #[test]
    fn another_pod_at_the_same_address_is_another_server() {
        let of = |uid: &str| {
            let pod = Some(Pod { uid: uid.into(), ..Pod::default() });
            Target { url: "http://10.0.0.5:8000/metrics".into(), pod, ..Target::default() }
        };
        assert_ne!(of("1").id(), of("2").id());
        assert_ne!(of("1").id(), Target { pod: None, ..of("1") }.id());
        assert_eq!(of("1").address(), "10.0.0.5:8000");
    }
}
