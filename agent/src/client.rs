//! How the agent asks others over HTTP: one kind of client for the API server and for the servers that are scraped, and the
//! files with what is shown to them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderValue;
use http_body_util::Empty;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};

/// How the agent calls itself.
pub const AGENT: &str = concat!("contador-agent/", env!("CARGO_PKG_VERSION"));

/// How long a connection may take.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How soon a peer that is gone is noticed: this long without anything, and then three times a third of it.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// Greatest token and authority, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// A client. Clones share their connections.
pub type HttpClient = Client<HttpsConnector<HttpConnector>, Empty<Bytes>>;

/// A file that can't be used.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {reason}")]
pub struct FileError {
    /// Which.
    pub path: String,
    /// Why, and what was expected.
    pub reason: String,
}

/// Certificates of authorities, in PEM.
///
/// # Errors
/// What is wrong, and what was expected.
pub fn roots(pem: &[u8]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| format!("{error}, expected certificates in PEM"))?;
        roots.add(certificate).map_err(|error| format!("{error}, expected certificates of an authority"))?;
    }
    Ok(roots)
}

/// A client that trusts these authorities, for `http` and `https`. It follows no redirect.
///
/// # Errors
/// What is wrong.
pub fn client(roots: RootCertStore) -> Result<HttpClient, String> {
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_connect_timeout(Some(CONNECT_TIMEOUT));
    http.set_keepalive(Some(KEEP_ALIVE));
    http.set_keepalive_interval(Some(KEEP_ALIVE / 3));
    http.set_keepalive_retries(Some(3));
    http.set_nodelay(true);
    let connector =
        HttpsConnectorBuilder::new().with_tls_config(config).https_or_http().enable_http1().wrap_connector(http);
    Ok(Client::builder(TokioExecutor::new()).build(connector))
}

/// Reads a file of a size that tokens and certificates have.
///
/// # Errors
/// [`FileError`].
pub async fn read(path: &Path) -> Result<Vec<u8>, FileError> {
    let failed = |reason: String| FileError { path: path.display().to_string(), reason };
    let metadata = tokio::fs::metadata(path).await.map_err(|error| failed(error.to_string()))?;
    if !metadata.is_file() || metadata.len() > MAX_FILE_BYTES {
        return Err(failed(format!("expected a file of at most {MAX_FILE_BYTES} bytes")));
    }
    tokio::fs::read(path).await.map_err(|error| failed(error.to_string()))
}

/// The header that shows the token of this file. The token itself is in no message.
///
/// # Errors
/// [`FileError`].
pub fn bearer(path: &Path, token: &[u8]) -> Result<HeaderValue, FileError> {
    let odd = |()| FileError { path: path.display().to_string(), reason: "expected a bearer token".to_owned() };
    let text = std::str::from_utf8(token).map_err(|_| odd(()))?.trim();
    if text.is_empty() {
        return Err(odd(()));
    }
    let mut header = HeaderValue::try_from(format!("Bearer {text}")).map_err(|_| odd(()))?;
    header.set_sensitive(true);
    Ok(header)
}
