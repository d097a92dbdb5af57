//! A body to a request, within time and memory, for both protocols.

use std::io::Read as _;
use std::time::Duration;

use axum::body::Bytes;
use contador_schemas::otlp::json;
use http_body_util::BodyExt as _;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use prost::Message as _;
use tokio_util::sync::CancellationToken;

use super::{MOST_BYTES, cost};
use crate::ingest::Refusal;
use crate::ingest::room::{Held, NoRoom};

/// Longest time from a request's head to the end of its body.
const PATIENCE: Duration = Duration::from_secs(30);

/// Bodies of this many bytes and more are decompressed and parsed on a thread for blocking work.
const LARGE: usize = 64 << 10;

/// Longest window of zstd: what its levels up to 19 use.
const WINDOW_LOG: u32 = 23;

/// How a message is compressed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Encoding {
    Identity,
    Gzip,
    Zstd,
}

/// How a message is written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Media {
    Protobuf,
    Json,
}

/// Why a body is no request.
#[derive(Debug)]
pub(super) enum Fault {
    /// Nothing that is understood here; permanent.
    Media(String),
    /// Permanent: the same body would fail again.
    TooLarge(String),
    /// Permanent.
    Malformed(String),
    /// Later it may be one.
    Refused(Refusal),
}

impl Fault {
    /// Its name in counters.
    pub(super) fn outcome(&self) -> &'static str {
        match self {
            Self::TooLarge(_) => "too_large",
            Self::Media(_) | Self::Malformed(_) => "invalid",
            Self::Refused(Refusal::Overloaded(_)) => "overloaded",
            Self::Refused(Refusal::Unavailable(_)) => "unavailable",
        }
    }
}

impl From<NoRoom> for Fault {
    fn from(none: NoRoom) -> Self {
        match none {
            NoRoom::Now => Self::Refused(Refusal::Overloaded("requests at work hold all of inflight_mib".to_owned())),
            NoRoom::Ever => Self::TooLarge("the request would take more memory than inflight_mib; split it".to_owned()),
        }
    }
}

/// All of `body`, which is dropped when it takes too long or when the collector stops before its end has come.
pub(super) async fn body<B>(body: B, held: &mut Held, stop: &CancellationToken) -> Result<Bytes, Fault>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: std::fmt::Display,
{
    let late = format!("the body did not come within {} s", PATIENCE.as_secs());
    tokio::select! {
        whole = tokio::time::timeout(PATIENCE, collect(body, held)) => {
            whole.unwrap_or(Err(Fault::Refused(Refusal::Unavailable(late))))
        }
        () = stop.cancelled() => Err(Fault::Refused(Refusal::Unavailable("the collector is stopping".to_owned()))),
    }
}

async fn collect<B>(body: B, held: &mut Held) -> Result<Bytes, Fault>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: std::fmt::Display,
{
    let mut body = std::pin::pin!(body);
    let mut whole = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Fault::Malformed(format!("body: {error}")))?;
        let Ok(data) = frame.into_data() else { continue };
        // gRPC has 5 bytes before a message.
        if whole.len() + data.len() > MOST_BYTES + 5 {
            return Err(too_large());
        }
        held.set(whole.len() + data.len())?;
        whole.extend_from_slice(&data);
    }
    Ok(whole.into())
}

/// The request that `message` is, for which `held` holds memory from then on.
pub(super) async fn request(
    message: Bytes,
    media: Media,
    encoding: Encoding,
    mut held: Held,
) -> Result<(ExportMetricsServiceRequest, Held), Fault> {
    if message.len() < LARGE && matches!(encoding, Encoding::Identity) {
        return parse(message, media, encoding, &mut held).map(|request| (request, held));
    }
    let parsed =
        tokio::task::spawn_blocking(move || parse(message, media, encoding, &mut held).map(|request| (request, held)));
    let parsed = parsed.await;
    parsed.unwrap_or_else(|error| Err(Fault::Refused(Refusal::Unavailable(format!("decoding: {error}")))))
}

fn parse(
    message: Bytes,
    media: Media,
    encoding: Encoding,
    held: &mut Held,
) -> Result<ExportMetricsServiceRequest, Fault> {
    let malformed = |error: std::io::Error| Fault::Malformed(format!("body: {error}"));
    let plain = match encoding {
        Encoding::Identity => message,
        Encoding::Gzip => bounded(flate2::read::MultiGzDecoder::new(message.as_ref()), message.len(), held)?,
        Encoding::Zstd => {
            let mut window = held.beside();
            window.set(1 << WINDOW_LOG)?;
            let mut decoder = zstd::Decoder::new(message.as_ref()).map_err(malformed)?;
            decoder.window_log_max(WINDOW_LOG).map_err(malformed)?;
            bounded(decoder, message.len(), held)?
        }
    };
    if plain.len() > MOST_BYTES {
        return Err(too_large());
    }
    let plain = match media {
        Media::Protobuf => plain,
        Media::Json => from_json(plain, held)?,
    };
    let expected = "expected an ExportMetricsServiceRequest";
    let cost = cost::of(&plain).ok_or_else(|| Fault::Malformed(format!("body: no protobuf message, {expected}")))?;
    held.set(plain.len().saturating_add(cost))?;
    let request = ExportMetricsServiceRequest::decode(plain)
        .map_err(|error| Fault::Malformed(format!("body: {error}, {expected}")))?;
    held.set(cost)?;
    Ok(request)
}

/// The protobuf message that `text` says, for which memory is held beside the text's as it grows.
fn from_json(text: Bytes, held: &mut Held) -> Result<Bytes, Fault> {
    // The parser keeps aside at most as much as the text has: a string with escapes, or how deep it is in what it skips.
    let before = 2 * text.len();
    held.set(before)?;
    let mut none = NoRoom::Now;
    let message = json::to_protobuf(&text, |bytes| {
        held.set(before.saturating_add(bytes)).map_err(|why| {
            none = why;
            json::NoRoom
        })
    });
    message.map(Bytes::from).map_err(|fault| match fault {
        json::Fault::Malformed(message) => Fault::Malformed(format!("body: {message}")),
        json::Fault::NoRoom => none.into(),
    })
}

fn too_large() -> Fault {
    Fault::TooLarge(format!("the request has more than {MOST_BYTES} bytes after decompression"))
}

/// Reads all of `reader`, but never more than the limit, and holds what it has read beside the `before` bytes.
fn bounded(mut reader: impl std::io::Read, before: usize, held: &mut Held) -> Result<Bytes, Fault> {
    let mut plain = Vec::new();
    loop {
        let next = reader.by_ref().take(LARGE as u64).read_to_end(&mut plain);
        let read = next.map_err(|error| Fault::Malformed(format!("body: {error}")))?;
        if read == 0 {
            return Ok(plain.into());
        }
        if plain.len() > MOST_BYTES {
            return Err(too_large());
        }
        held.set(before + plain.len())?;
    }
}
