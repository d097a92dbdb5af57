//! A request's URL, headers and form, sorted into what the endpoint itself needs, parameters, and settings.

use axum::http::{HeaderMap, Method, Uri, header};
use url::form_urlencoded;

use super::auth::Credentials;
use super::encode::Encoding;
use super::error::Failure;
use super::library::Params;

/// What ClickHouse buffers of an answer before it sends the first header, in bytes.
const BUFFER: usize = 1 << 20;
/// URL parameters that a server knows and that mean nothing here.
const IGNORED: [&str; 4] = ["quota_key", "stacktrace", "role", "http_zlib_compression_level"];

/// A request, without its body.
#[derive(Debug)]
pub struct Request {
    /// The URL's `query`; the body continues it.
    pub query: String,
    /// Database in which the statement's names are looked up.
    pub database: Option<String>,
    /// Format of a result whose statement names none.
    pub default_format: String,
    /// `param_*`.
    pub params: Params,
    /// Everything in the URL that has no other meaning.
    pub settings: Vec<(String, String)>,
    /// The client's id for this query, or a new one.
    pub query_id: String,
    /// The session, if any.
    pub session: Option<SessionWish>,
    /// Hold the answer back until the query is done.
    pub wait_end: bool,
    /// Bytes of the answer to hold back before the headers are sent.
    pub buffer: usize,
    /// The body consists of ClickHouse's compressed blocks.
    pub decompress: bool,
    /// The body's `Content-Encoding`, in lower case.
    pub content_encoding: String,
    /// How to compress the answer.
    pub encoding: Encoding,
    /// The revision of the Native format that the client reads.
    pub revision: u64,
    /// A GET: nothing may be changed.
    pub readonly: bool,
    /// The form's boundary, when the body is `multipart/form-data`.
    pub boundary: Option<String>,
    /// Who asks.
    pub credentials: Result<Credentials, Failure>,
}

/// What a request says about its session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionWish {
    /// The session's name, chosen by the client.
    pub id: String,
    /// Seconds that it lives after its last use.
    pub timeout: u64,
    /// It must exist already.
    pub check: bool,
    /// It ends with this request.
    pub close: bool,
}

impl Request {
    /// Reads the URL and the headers.
    ///
    /// # Errors
    /// A number that is none, with ClickHouse's code.
    pub fn parse(method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<Self, Failure> {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let content_type = text("content-type").unwrap_or_default();
        let mut request = Self {
            query: String::new(),
            database: text("x-clickhouse-database"),
            default_format: text("x-clickhouse-format").unwrap_or_else(|| "TabSeparated".to_owned()),
            params: Vec::new(),
            settings: Vec::new(),
            query_id: uuid::Uuid::new_v4().to_string(),
            session: None,
            wait_end: false,
            buffer: BUFFER,
            decompress: false,
            content_encoding: text("content-encoding").unwrap_or_default().to_ascii_lowercase(),
            encoding: Encoding::Identity,
            revision: 0,
            readonly: matches!(*method, Method::GET | Method::HEAD),
            boundary: content_type
                .starts_with("multipart/form-data")
                .then(|| content_type.split("boundary=").nth(1).unwrap_or_default().trim_matches('"').to_owned()),
            credentials: Ok(Credentials::default()),
        };
        let mut url = Url { http_compression: true, ..Url::default() };
        for (name, value) in form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()) {
            request.take(&name, &value, &mut url)?;
        }
        let accepted = headers.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or_default();
        request.encoding = match (url.compress, url.http_compression) {
            (true, _) => Encoding::Blocks,
            (false, true) => Encoding::accepted(accepted),
            (false, false) => Encoding::Identity,
        };
        request.session = url.session_id.map(|id| SessionWish {
            id,
            timeout: url.session_timeout.unwrap_or(60).min(3600),
            check: url.session_check,
            close: url.close_session,
        });
        request.credentials = Credentials::of(url.user, url.password, headers);
        Ok(request)
    }

    /// Takes one pair out of the URL.
    fn take(&mut self, name: &str, value: &str, url: &mut Url) -> Result<(), Failure> {
        match name {
            "query" => self.query.push_str(value),
            "database" => self.database = Some(value.to_owned()),
            "default_format" => self.default_format = value.to_owned(),
            "query_id" if !value.is_empty() => self.query_id = value.to_owned(),
            "query_id" => {}
            "session_id" => url.session_id = Some(value.to_owned()).filter(|id| !id.is_empty()),
            "session_timeout" => url.session_timeout = Some(number(name, value)?),
            "session_check" => url.session_check = flag(value),
            "close_session" => url.close_session = flag(value),
            "wait_end_of_query" => self.wait_end = flag(value),
            "buffer_size" => {
                self.buffer = usize::try_from(number(name, value)?).unwrap_or(usize::MAX).clamp(1, 64 << 20);
            }
            "client_protocol_version" => self.revision = number(name, value)?,
            "decompress" => self.decompress = flag(value),
            "compress" => url.compress = flag(value),
            "enable_http_compression" => url.http_compression = flag(value),
            "user" => url.user = Some(value.to_owned()),
            "password" => url.password = Some(value.to_owned()),
            _ if IGNORED.contains(&name) => {}
            _ => self.form(name, value.to_owned()),
        }
        Ok(())
    }

    /// The `readonly` among the settings, when it is one that forbids something.
    pub fn read_only_mode(&self) -> Option<u64> {
        let (_, value) = self.settings.iter().rfind(|(name, _)| name == "readonly")?;
        value.parse().ok().filter(|mode| *mode > 0)
    }

    /// Takes one field of a form, or a pair of the URL that may stand in a form too.
    pub fn form(&mut self, name: &str, value: String) {
        match name.strip_prefix("param_") {
            Some(parameter) => self.params.push((parameter.to_owned(), value)),
            None => match name {
                "query" => self.query.push_str(&value),
                "database" => self.database = Some(value),
                "default_format" => self.default_format = value,
                _ => self.settings.push((name.to_owned(), value)),
            },
        }
    }
}

/// What of the URL is only put together at its end.
#[derive(Default)]
struct Url {
    user: Option<String>,
    password: Option<String>,
    session_id: Option<String>,
    session_timeout: Option<u64>,
    session_check: bool,
    close_session: bool,
    compress: bool,
    http_compression: bool,
}

fn flag(value: &str) -> bool {
    matches!(value, "1" | "true")
}

fn number(name: &str, value: &str) -> Result<u64, Failure> {
    value.parse().map_err(|_| {
        Failure::new(72, "CANNOT_PARSE_NUMBER", format!("URL parameter {name} is {value:?}; expected a whole number"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(uri: &str) -> Request {
        Request::parse(&Method::GET, &uri.parse().expect("a URI"), &HeaderMap::new()).expect("a request")
    }

    #[test]
    fn the_url_is_sorted() {
        let request =
            get("/?query=SELECT+%7Bx:String%7D&param_x=a%5Ctb&max_threads=2&database=d&session_id=s&session_timeout=5\
             &compress=1&wait_end_of_query=1&query_id=q&client_protocol_version=54405");
        assert_eq!(request.query, "SELECT {x:String}");
        assert_eq!(request.params, [("x".to_owned(), "a\\tb".to_owned())]);
        assert_eq!(request.settings, [("max_threads".to_owned(), "2".to_owned())]);
        assert_eq!(request.database.as_deref(), Some("d"));
        let session = SessionWish { id: "s".to_owned(), timeout: 5, check: false, close: false };
        assert_eq!(request.session, Some(session));
        assert_eq!((request.query_id.as_str(), request.wait_end, request.readonly), ("q", true, true));
        assert_eq!((request.encoding, request.revision), (Encoding::Blocks, 54405));
    }

    #[test]
    fn a_number_that_is_none_is_refused() {
        let uri = "/?buffer_size=big".parse().expect("a URI");
        let failure = Request::parse(&Method::POST, &uri, &HeaderMap::new()).expect_err("no number");
        assert_eq!(failure.code, 72);
    }
}
