//! A request's body: read, and inflated, up to a limit, and in a while. Room for it is taken as its bytes come, so that one who
//! only says that some will come takes none.

use std::io::{self, Read};
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, header};
use bytes::Bytes;
use http_body_util::BodyExt as _;

use super::room::{Held, NoRoom};
use crate::owners::label;

/// Largest window of zstd that is allowed, as a power of 2: what its specification asks of every decoder.
const ZSTD_WINDOW: u32 = 23;

/// How long a body may take to come.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Bytes that are inflated at once.
const PIECE: usize = 16 << 10;

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
    /// There is no room for it.
    #[error(transparent)]
    Room(#[from] NoRoom),
}

/// What a body may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Most bytes, before and after it is inflated.
    pub max_bytes: usize,
    /// Longest time in which it comes.
    pub patience: Duration,
}

/// The body of a request with these headers. What `held` has more of then is what it takes; it was at most twice `max_bytes`
/// for what came, and as much again for what was inflated of it.
///
/// # Errors
/// [`BodyError`].
pub async fn read(headers: &HeaderMap, body: Body, limits: Limits, held: &mut Held) -> Result<Bytes, BodyError> {
    let Limits { max_bytes, patience } = limits;
    let encoding = encoding(headers);
    if !matches!(encoding.as_str(), "" | "identity" | "gzip" | "x-gzip" | "zstd") {
        return Err(BodyError::Encoding(label::shown(&encoding)));
    }
    if declared(headers).is_some_and(|bytes| bytes > max_bytes) {
        return Err(BodyError::TooLarge(max_bytes));
    }
    let before = held.bytes();
    let come = tokio::time::timeout(patience, come(body, max_bytes, held)).await;
    let bytes = come.map_err(|_| BodyError::Late(patience))??;
    if matches!(encoding.as_str(), "" | "identity") {
        return Ok(bytes);
    }
    let came = held.bytes() - before;
    let plain = inflated(&encoding, bytes, max_bytes, held)?;
    // What came is gone.
    held.set(held.bytes() - came)?;
    Ok(plain)
}

/// The encoding that the headers tell; empty where they tell none.
fn encoding(headers: &HeaderMap) -> String {
    headers.get(header::CONTENT_ENCODING).map(encoding_of).unwrap_or_default()
}

/// The name of an encoding as a header has it, in lower case.
pub fn encoding_of(value: &HeaderValue) -> String {
    String::from_utf8_lossy(value.as_bytes()).trim().to_ascii_lowercase()
}

/// Bytes that are to come, where the headers say so.
fn declared(headers: &HeaderMap) -> Option<usize> {
    headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok())
}

/// Bytes as they come, of which there are at most so many.
async fn come(mut body: Body, max_bytes: usize, held: &mut Held) -> Result<Bytes, BodyError> {
    let mut whole = Growing::new(max_bytes, held);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| BodyError::Read(error.to_string()))?;
        if let Ok(piece) = frame.into_data()
            && !whole.add(&piece)?
        {
            return Err(BodyError::TooLarge(max_bytes));
        }
    }
    Ok(whole.end()?)
}

/// What `bytes` are in this encoding, of at most `max_bytes`; room for it is taken beside them.
///
/// # Errors
/// [`BodyError::Encoding`], [`BodyError::Inflate`], [`BodyError::Bomb`] and [`BodyError::Room`].
pub fn inflated(encoding: &str, bytes: Bytes, max_bytes: usize, held: &mut Held) -> Result<Bytes, BodyError> {
    match encoding {
        "" | "identity" => Ok(bytes),
        "gzip" | "x-gzip" => drained(flate2::read::MultiGzDecoder::new(&*bytes), max_bytes, held),
        "zstd" => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(&*bytes).map_err(BodyError::Inflate)?;
            decoder.window_log_max(ZSTD_WINDOW).map_err(BodyError::Inflate)?;
            drained(decoder, max_bytes, held)
        }
        other => Err(BodyError::Encoding(label::shown(other))),
    }
}

fn drained(mut decoder: impl Read, max_bytes: usize, held: &mut Held) -> Result<Bytes, BodyError> {
    let mut plain = Growing::new(max_bytes, held);
    let mut piece = vec![0; PIECE];
    loop {
        match decoder.read(&mut piece) {
            Ok(0) => return Ok(plain.end()?),
            Ok(read) if plain.add(&piece[..read])? => {}
            Ok(_) => return Err(BodyError::Bomb(max_bytes)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(BodyError::Inflate(error)),
        }
    }
}

/// Bytes that become more, in a list for which there is room before it grows.
struct Growing<'h> {
    bytes: Vec<u8>,
    max_bytes: usize,
    /// What was held before there were any.
    beside: usize,
    held: &'h mut Held,
}

impl<'h> Growing<'h> {
    fn new(max_bytes: usize, held: &'h mut Held) -> Self {
        Self { bytes: Vec::new(), max_bytes, beside: held.bytes(), held }
    }

    /// Adds some; false when these are too many.
    fn add(&mut self, more: &[u8]) -> Result<bool, NoRoom> {
        let needed = self.bytes.len().saturating_add(more.len());
        if needed > self.max_bytes {
            return Ok(false);
        }
        let old = self.bytes.capacity();
        if needed > old {
            let new = needed.max(old.saturating_mul(2)).min(self.max_bytes);
            // Both are there while what has come is moved.
            self.held.set(self.beside + old + new)?;
            self.bytes.reserve_exact(new - self.bytes.len());
        }
        self.bytes.extend_from_slice(more);
        Ok(true)
    }

    /// All of them; from now on their own place is held.
    fn end(self) -> Result<Bytes, NoRoom> {
        self.held.set(self.beside + self.bytes.capacity())?;
        Ok(self.bytes.into())
    }
}

#[cfg(test)]
mod tests;
