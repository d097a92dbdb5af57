//! One question to one server.
//!
//! The page is asked for in OpenMetrics, which says where it ends, or else in Prometheus's text format; it is not to be
//! compressed, which would cost the server more than the way from the same node is worth. Redirects are not followed: where they
//! lead may be nobody's business.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, USER_AGENT};
use http::{HeaderName, HeaderValue, Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Empty};

use super::target::Target;
use crate::client::{self, AGENT, FileError, HttpClient};
use crate::errors::chain;
use crate::scrape::text::Format;

/// What is asked for.
const ACCEPTED: &str = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";

/// A page.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Page {
    /// Its text.
    pub text: String,
    /// How it is written.
    pub format: Format,
}

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// A file with a token or certificates can't be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// The server was not reached.
    #[error("{0}")]
    Unreachable(String),
    /// It took too long.
    #[error("no whole answer within {0:?}")]
    Slow(Duration),
    /// It answers something else.
    #[error("it answers {0}, expected 200")]
    Status(StatusCode),
    /// Its page is too long.
    #[error("the page has more than {0} bytes, expected at most scrape.max_size")]
    TooLarge(usize),
    /// The connection broke in the middle of the page.
    #[error("the page broke off: {0}")]
    Broken(String),
    /// It is no text.
    #[error("the page is {0}, expected text in UTF-8")]
    NoText(String),
}

impl FetchError {
    /// Its name in metrics.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::File(_) => "file",
            Self::Unreachable(_) => "unreachable",
            Self::Slow(_) => "timeout",
            Self::Status(_) => "status",
            Self::TooLarge(_) => "too_large",
            Self::Broken(_) => "broken",
            Self::NoText(_) => "no_text",
        }
    }
}

/// By the file with the certificates: those that a client was made with, and it. The path is empty where there are none.
type Clients = HashMap<PathBuf, (Vec<u8>, HttpClient)>;

/// How pages are asked for. Clones share their connections.
#[derive(Clone, Debug)]
pub struct Fetcher {
    timeout: Duration,
    max_bytes: usize,
    ca_file: Option<PathBuf>,
    clients: Arc<Mutex<Clients>>,
}

impl Fetcher {
    /// Asks within `timeout`, for pages of at most `max_bytes`; what a target does not say itself is checked with `ca_file`.
    pub fn new(timeout: Duration, max_bytes: usize, ca_file: Option<PathBuf>) -> Self {
        Self { timeout, max_bytes, ca_file, clients: Arc::default() }
    }

    /// The page of a server.
    ///
    /// # Errors
    /// [`FetchError`].
    pub async fn fetch(&self, target: &Target) -> Result<Page, FetchError> {
        let page = tokio::time::timeout(self.timeout, self.ask(target)).await;
        page.unwrap_or(Err(FetchError::Slow(self.timeout)))
    }

    async fn ask(&self, target: &Target) -> Result<Page, FetchError> {
        let odd = |error: &dyn std::fmt::Display| FetchError::Unreachable(format!("{}: {error}", target.url));
        let uri: Uri = target.url.parse().map_err(|error: http::uri::InvalidUri| odd(&error))?;
        let mut request =
            Request::get(uri).header(ACCEPT, ACCEPTED).header(ACCEPT_ENCODING, "identity").header(USER_AGENT, AGENT);
        for (name, value) in &target.headers {
            let name: HeaderName = name.parse().map_err(|error: http::header::InvalidHeaderName| odd(&error))?;
            let mut value = HeaderValue::try_from(value).map_err(|error| odd(&error))?;
            value.set_sensitive(true);
            request = request.header(name, value);
        }
        if let Some(path) = &target.token_file {
            request = request.header(AUTHORIZATION, client::bearer(path, &client::read(path).await?)?);
        }
        let request = request.body(Empty::<Bytes>::new()).map_err(|error| odd(&error))?;
        let client = self.client(target).await?;
        let answer = client.request(request).await.map_err(|error| FetchError::Unreachable(chain(&error)))?;
        if answer.status() != StatusCode::OK {
            return Err(FetchError::Status(answer.status()));
        }
        let header = |name| answer.headers().get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        if let Some(encoding) = header(CONTENT_ENCODING).filter(|encoding| *encoding != "identity") {
            return Err(FetchError::NoText(encoding.to_owned()));
        }
        let format = Format::of(header(CONTENT_TYPE).unwrap_or_default());
        let mut body = answer.into_body();
        let mut read = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| FetchError::Broken(chain(&error)))?;
            let Ok(data) = frame.into_data() else { continue };
            if read.len() + data.len() > self.max_bytes {
                return Err(FetchError::TooLarge(self.max_bytes));
            }
            read.extend_from_slice(&data);
        }
        let text = String::from_utf8(read.into()).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            FetchError::NoText(format!("no UTF-8 at byte {at}"))
        })?;
        Ok(Page { text, format })
    }

    async fn client(&self, target: &Target) -> Result<HttpClient, FetchError> {
        let is_secure = target.url.starts_with("https:");
        let path = target.ca_file.as_deref().or(self.ca_file.as_deref()).filter(|_| is_secure);
        let pem = match path {
            Some(path) => client::read(path).await?,
            None => Vec::new(),
        };
        let name = path.unwrap_or(Path::new(""));
        let unusable = |reason: String| FileError {
            path: if path.is_some() { name.display().to_string() } else { target.url.clone() },
            reason,
        };
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, client)) = clients.get(name)
            && *known == pem
        {
            return Ok(client.clone());
        }
        let roots = client::roots(&pem).map_err(unusable)?;
        if is_secure && roots.is_empty() {
            return Err(unusable("no certificate, expected ca_file or scrape.ca_file in PEM".to_owned()).into());
        }
        let client = client::client(roots).map_err(unusable)?;
        clients.insert(name.to_owned(), (pem, client.clone()));
        Ok(client)
    }
}
