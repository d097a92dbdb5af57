//! A request's body: read, and inflated, up to a limit, and in a while.

use std::io::{self, Read};
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, header};
use bytes::Bytes;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};

use crate::owners::label;

/// Largest window of zstd that is allowed, as a power of 2: what its specification asks of every decoder.
const ZSTD_WINDOW: u32 = 23;

/// How long a body may take to come.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why there is no body.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// It has more bytes than allowed.
    #[error("the body has more than {0} bytes")]
    TooLarge(usize),
    /// It has more bytes than allowed once it is inflated.
    #[error("the body has more than {0} bytes when inflated")]
    Bomb(usize),
    /// It did not come whole.
    #[error("the body can't be read: {0}")]
    Read(String),
    /// It did not come in time.
    #[error("the body has not come within {} s, expected all of it by then", .0.as_secs_f64())]
    Late(Duration),
    /// It is in an encoding that is not known.
    #[error("content-encoding is {0}, expected gzip, zstd or identity")]
    Encoding(String),
    /// It is not in the encoding that its header says.
    #[error("the body can't be inflated")]
    Inflate(#[source] io::Error),
}

/// The body of a request with these headers, of at most `max_bytes` before and after it is inflated, if it comes within 10 s.
///
/// # Errors
/// [`BodyError`].
pub async fn read(headers: &HeaderMap, body: Body, max_bytes: usize) -> Result<Bytes, BodyError> {
    read_within(PATIENCE, headers, body, max_bytes).await
}

/// Bytes that [`read`] can take at once: what comes, in pieces and as a whole, and what is inflated of it.
pub fn room(headers: &HeaderMap, max_bytes: usize) -> usize {
    let come = declared(headers).unwrap_or(max_bytes).min(max_bytes);
    let inflated = if matches!(encoding(headers).as_str(), "" | "identity") { 0 } else { max_bytes };
    2 * come.saturating_add(inflated)
}

fn encoding(headers: &HeaderMap) -> String {
    let encoding = headers.get(header::CONTENT_ENCODING).map(|name| String::from_utf8_lossy(name.as_bytes()));
    encoding.unwrap_or_default().trim().to_ascii_lowercase()
}

/// Bytes that are to come, where the headers say so.
fn declared(headers: &HeaderMap) -> Option<usize> {
    headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok())
}

async fn read_within(
    patience: Duration,
    headers: &HeaderMap,
    body: Body,
    max_bytes: usize,
) -> Result<Bytes, BodyError> {
    let encoding = encoding(headers);
    if !matches!(encoding.as_str(), "" | "identity" | "gzip" | "x-gzip" | "zstd") {
        return Err(BodyError::Encoding(label::shown(&encoding)));
    }
    if declared(headers).is_some_and(|bytes| bytes > max_bytes) {
        return Err(BodyError::TooLarge(max_bytes));
    }
    let collected = tokio::time::timeout(patience, Limited::new(body, max_bytes).collect()).await;
    let bytes = match collected.map_err(|_| BodyError::Late(patience))? {
        Ok(collected) => collected.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => return Err(BodyError::TooLarge(max_bytes)),
        Err(error) => return Err(BodyError::Read(error.to_string())),
    };
    match encoding.as_str() {
        "gzip" | "x-gzip" => inflated(flate2::read::MultiGzDecoder::new(&*bytes), max_bytes),
        "zstd" => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(&*bytes).map_err(BodyError::Inflate)?;
            decoder.window_log_max(ZSTD_WINDOW).map_err(BodyError::Inflate)?;
            inflated(decoder, max_bytes)
        }
        _ => Ok(bytes),
    }
}

fn inflated(decoder: impl Read, max_bytes: usize) -> Result<Bytes, BodyError> {
    let mut plain = Vec::new();
    decoder.take(max_bytes as u64 + 1).read_to_end(&mut plain).map_err(BodyError::Inflate)?;
    if plain.len() > max_bytes { Err(BodyError::Bomb(max_bytes)) } else { Ok(plain.into()) }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    const MAX: usize = 1 << 16;

    async fn read_as(encoding: &str, body: Vec<u8>) -> Result<Bytes, String> {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_ENCODING, encoding.parse().unwrap());
        read(&headers, Body::from(body), MAX).await.map_err(|error| error.to_string())
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[tokio::test]
    async fn every_encoding_gives_the_same_bytes_up_to_the_limit() {
        for bytes in [b"hello".to_vec(), vec![7; MAX]] {
            for (encoding, body) in [
                ("identity", bytes.clone()),
                ("gzip", gzip(&bytes)),
                ("GZIP", gzip(&bytes)),
                ("zstd", zstd::encode_all(&*bytes, 3).unwrap()),
            ] {
                assert_eq!(read_as(encoding, body).await.as_deref(), Ok(&*bytes), "{encoding}");
            }
        }
        let bomb = vec![0; MAX + 1];
        assert!(read_as("identity", bomb.clone()).await.unwrap_err().ends_with("more than 65536 bytes"));
        for body in [("gzip", gzip(&bomb)), ("zstd", zstd::encode_all(&*bomb, 3).unwrap())] {
            assert!(read_as(body.0, body.1).await.unwrap_err().ends_with("65536 bytes when inflated"));
        }
        assert!(read_as("br", vec![]).await.unwrap_err().starts_with(r#"content-encoding is "br", expected gzip"#));
        assert!(read_as("gzip", b"hello".to_vec()).await.unwrap_err().ends_with("can't be inflated"));
    }

    #[tokio::test]
    async fn a_body_that_does_not_come_is_not_waited_for() {
        // A piece, and then nothing, without an end.
        let body = http_body_util::Full::new(Bytes::from("hello")).with_trailers(std::future::pending());
        let (patience, headers) = (Duration::from_millis(20), HeaderMap::new());
        let error = read_within(patience, &headers, Body::new(body), MAX).await.unwrap_err();
        assert!(matches!(error, BodyError::Late(_)));
        assert_eq!(error.to_string(), "the body has not come within 0.02 s, expected all of it by then");
    }

    #[test]
    fn the_room_of_a_body_is_what_it_declares_and_else_the_most() {
        let of = |pairs: &[(header::HeaderName, &str)]| {
            room(&pairs.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect(), 1_000)
        };
        let (length, encoding) = (header::CONTENT_LENGTH, header::CONTENT_ENCODING);
        for (pairs, bytes) in [
            (vec![], 2_000),
            (vec![(length.clone(), "5")], 10),
            (vec![(length.clone(), "5"), (encoding.clone(), "identity")], 10),
            (vec![(length.clone(), "5"), (encoding.clone(), " GZIP")], 2_010),
            (vec![(encoding, "zstd")], 4_000),
            // Such a body is refused, and nothing of it is read.
            (vec![(length.clone(), "99999999999")], 2_000),
            (vec![(length, "99999999999999999999")], 2_000),
        ] {
            assert_eq!(of(&pairs), bytes, "{pairs:?}");
        }
    }
}
