//! The API server: how it is reached, and one question to it.
//!
//! A pod of the agent's finds the server in `KUBERNETES_SERVICE_HOST` and `KUBERNETES_SERVICE_PORT`, and the service account
//! in [`SERVICE_ACCOUNT`], unless the configuration says otherwise. The token changes every hour or so, and the authority seldom: both are read again for each
//! question.

use std::path::{Path, PathBuf};
use std::time::Duration;

use http::header::{ACCEPT, AUTHORIZATION, USER_AGENT};
use http::{Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Empty, Limited};
use serde::Deserialize;

use crate::client::{self, AGENT, CONNECT_TIMEOUT, FileError, HttpClient, bearer, read};
use crate::config::Kubernetes;
use crate::errors::chain;

/// Where a pod finds the token and the authority of its service account.
pub const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// How long the server may take to begin its answer.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Greatest body of an answer that is no success.
const MAX_REASON_BYTES: usize = 64 << 10;

/// Where the API server is, and who asks it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ApiOptions {
    /// `https://host:port`, or `http://host:port` for a proxy on the node.
    pub url: String,
    /// The file with the bearer token; absent: none is sent.
    pub token: Option<PathBuf>,
    /// The file with the certificates (PEM) that the server's is checked with.
    pub ca: Option<PathBuf>,
}

impl ApiOptions {
    /// As it is configured, with what a pod finds by itself for what is not. A token that nobody has named is shown over TLS
    /// only.
    pub fn configured(config: &Kubernetes, variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let found = Self::in_pod(variable);
        let url = config.api.clone().or_else(|| found.as_ref().map(|found| found.url.clone()))?;
        let (token, ca) = found.map_or((None, None), |found| (found.token, found.ca));
        let token = token.filter(|_| url.starts_with("https:"));
        Some(Self { url, token: config.token_file.clone().or(token), ca: config.ca_file.clone().or(ca) })
    }

    /// As the kubelet tells each pod, by these variables of the environment; `None` outside of a pod.
    pub fn in_pod(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let host = variable("KUBERNETES_SERVICE_HOST").filter(|host| !host.is_empty())?;
        let port = variable("KUBERNETES_SERVICE_PORT").unwrap_or_else(|| "443".to_owned());
        let host = if host.contains(':') { format!("[{host}]") } else { host };
        let account = Path::new(SERVICE_ACCOUNT);
        Some(Self {
            url: format!("https://{host}:{port}"),
            token: Some(account.join("token")),
            ca: Some(account.join("ca.crt")),
        })
    }
}

/// Why a question was not answered.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// A file of the service account can't be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// The server was not reached, or the connection broke.
    #[error("{0}")]
    Unreachable(String),
    /// It took too long.
    #[error("no answer within {} s", .0.as_secs())]
    Slow(Duration),
    /// It knows nothing any more of the changes since the version that was asked for.
    #[error("the version is too old (410)")]
    Gone,
    /// It refuses.
    #[error("{status}{hint}: {reason}")]
    Refused {
        /// With which status.
        status: StatusCode,
        /// What can be done.
        hint: &'static str,
        /// What it says.
        reason: String,
    },
    /// Its answer is not what it should be.
    #[error("the answer can't be read: {0}")]
    Garbage(String),
}

/// A connection to the API server, made when it is needed.
#[derive(Debug)]
pub struct Api {
    options: ApiOptions,
    /// With the certificates that it was made with.
    client: Option<(Vec<u8>, HttpClient)>,
}

impl Api {
    /// Asks the server that is there.
    pub fn new(options: ApiOptions) -> Self {
        Self { options, client: None }
    }

    /// Where it is.
    pub fn url(&self) -> &str {
        &self.options.url
    }

    /// The answer to a GET of this path and query, when it is a success.
    ///
    /// # Errors
    /// [`ApiError`].
    pub async fn get(&mut self, path: &str) -> Result<Response<hyper::body::Incoming>, ApiError> {
        let url = format!("{}{path}", self.options.url.trim_end_matches('/'));
        let odd = |error: &dyn std::fmt::Display| FileError {
            path: self.options.url.clone(),
            reason: format!("{error}, expected an URL such as https://10.96.0.1:443"),
        };
        let uri: Uri = url.parse().map_err(|error: http::uri::InvalidUri| odd(&error))?;
        let mut request = Request::get(uri).header(ACCEPT, "application/json").header(USER_AGENT, AGENT);
        if let Some(path) = &self.options.token {
            request = request.header(AUTHORIZATION, bearer(path, &read(path).await?)?);
        }
        let request = request.body(Empty::new()).map_err(|error| odd(&error))?;
        let answer = self.client().await?.request(request);
        let answer = tokio::time::timeout(ANSWER_TIMEOUT, answer).await;
        let answer = answer.map_err(|_| ApiError::Slow(ANSWER_TIMEOUT))?.map_err(|error| unreachable(&error))?;
        match answer.status() {
            status if status.is_success() => Ok(answer),
            StatusCode::GONE => Err(ApiError::Gone),
            status => Err(refusal(status, answer).await),
        }
    }

    async fn client(&mut self) -> Result<&HttpClient, ApiError> {
        let ca = match &self.options.ca {
            Some(path) => read(path).await?,
            None => Vec::new(),
        };
        let known = self.client.take().filter(|(known, _)| *known == ca);
        let current = match known {
            Some(known) => known,
            None => {
                let client = client(&self.options, &ca)?;
                (ca, client)
            }
        };
        Ok(&self.client.insert(current).1)
    }
}

fn client(options: &ApiOptions, ca: &[u8]) -> Result<HttpClient, ApiError> {
    let path = options.ca.as_deref().map_or_else(|| options.url.clone(), |path| path.display().to_string());
    let unusable = |reason: String| FileError { path: path.clone(), reason };
    let roots = client::roots(ca).map_err(unusable)?;
    if roots.is_empty() && options.url.starts_with("https:") {
        let expected = "no certificate, expected those of the API server's authority in PEM";
        return Err(unusable(expected.to_owned()).into());
    }
    Ok(client::client(roots).map_err(unusable)?)
}

/// What the server says of why it refuses: a `Status` in JSON, or any text.
async fn refusal(status: StatusCode, answer: Response<hyper::body::Incoming>) -> ApiError {
    #[derive(Deserialize)]
    struct Status {
        message: String,
    }
    let body = Limited::new(answer.into_body(), MAX_REASON_BYTES).collect();
    let body = tokio::time::timeout(CONNECT_TIMEOUT, body).await.ok().and_then(Result::ok);
    let body = body.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let message = serde_json::from_slice::<Status>(&body).map(|status| status.message);
    let message = message.unwrap_or_else(|_| String::from_utf8_lossy(&body).into_owned());
    let hint = match status {
        StatusCode::UNAUTHORIZED => " (the service account's token is not valid)",
        StatusCode::FORBIDDEN => " (the service account must be allowed to list and watch pods)",
        _ => "",
    };
    ApiError::Refused { status, hint, reason: message.chars().take(300).collect() }
}

/// Why a connection was not made, or broke: the last cause is the one that tells.
pub fn unreachable(error: &dyn std::error::Error) -> ApiError {
    ApiError::Unreachable(chain(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_finds_its_server() {
        let variables = |host: &'static str, port: Option<&'static str>| {
            ApiOptions::in_pod(move |name| match name {
                "KUBERNETES_SERVICE_HOST" => Some(host.to_owned()),
                "KUBERNETES_SERVICE_PORT" => port.map(str::to_owned),
                _ => None,
            })
            .map(|options| options.url)
        };
        assert_eq!(variables("10.96.0.1", Some("6443")).as_deref(), Some("https://10.96.0.1:6443"));
        assert_eq!(variables("fd00::1", None).as_deref(), Some("https://[fd00::1]:443"));
        assert_eq!(variables("", Some("443")), None);
        assert_eq!(ApiOptions::in_pod(|_| None), None);
    }

    #[test]
    fn what_is_configured_comes_before_what_a_pod_finds() {
        use crate::config::{Config, Overrides};
        let variables = |name: &str| (name == "KUBERNETES_SERVICE_HOST").then(|| "10.96.0.1".to_owned());
        let told = |keys: &str, in_pod: bool| {
            let text = format!("[kubernetes]\n{keys}");
            let config = Config::parse(&text, Path::new("agent.toml"), &Overrides::default()).unwrap();
            let told = ApiOptions::configured(&config.kubernetes, |name| in_pod.then(|| variables(name))?)?;
            let shown = |path: Option<PathBuf>| path.map_or_else(String::new, |path| path.display().to_string());
            Some((told.url, shown(told.token), shown(told.ca)))
        };
        let is = |url: &str, token: &str, ca: &str| Some((url.to_owned(), token.to_owned(), ca.to_owned()));
        let (own_token, own_ca) = (format!("{SERVICE_ACCOUNT}/token"), format!("{SERVICE_ACCOUNT}/ca.crt"));
        assert_eq!(told("", false), None);
        assert_eq!(told("", true), is("https://10.96.0.1:443", &own_token, &own_ca));
        assert_eq!(told("token_file = \"/t\"", false), None, "nobody is asked");
        assert_eq!(told("token_file = \"/t\"", true), is("https://10.96.0.1:443", "/t", &own_ca));
        let api = "api = \"https://k8s:6443\"\n";
        assert_eq!(told(api, false), is("https://k8s:6443", "", ""));
        assert_eq!(told(api, true), is("https://k8s:6443", &own_token, &own_ca));
        let all = format!("{api}token_file = \"/t\"\nca_file = \"/c\"");
        assert_eq!(told(&all, true), is("https://k8s:6443", "/t", "/c"));
        // Without TLS anybody on the way could read it.
        assert_eq!(told("api = \"http://127.0.0.1:8001\"", true), is("http://127.0.0.1:8001", "", &own_ca));
        let named = "api = \"http://127.0.0.1:8001\"\ntoken_file = \"/t\"";
        assert_eq!(told(named, false), is("http://127.0.0.1:8001", "/t", ""));
    }

    #[tokio::test]
    async fn faults_of_files_name_them_and_no_secret() {
        let dir = tempfile::tempdir().unwrap();
        let (token, ca) = (dir.path().join("token"), dir.path().join("ca.crt"));
        let options =
            ApiOptions { url: "https://127.0.0.1:1".into(), token: Some(token.clone()), ca: Some(ca.clone()) };
        let fault = async || Api::new(options.clone()).get("/").await.unwrap_err().to_string();
        assert!(fault().await.starts_with(&format!("{}: ", token.display())));
        std::fs::write(&token, "se\ncret").unwrap();
        assert_eq!(fault().await, format!("{}: expected a bearer token", token.display()));
        std::fs::write(&token, "secret\n").unwrap();
        assert!(fault().await.starts_with(&format!("{}: ", ca.display())));
        std::fs::write(&ca, "no certificate").unwrap();
        let expected = "no certificate, expected those of the API server's authority in PEM";
        assert_eq!(fault().await, format!("{}: {expected}", ca.display()));
        let none = ApiOptions { ca: None, ..options.clone() };
        let fault = Api::new(none).get("/").await.unwrap_err().to_string();
        assert_eq!(fault, format!("https://127.0.0.1:1: {expected}"));
        assert_eq!(format!("{:?}", bearer(&token, b"secret").unwrap()), "Sensitive");
    }
}
