//! What is read of a body, and the room that it takes.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io::Write as _;
use std::pin::Pin;
use std::task::{Context, Poll};

use http_body_util::Full;
use hyper::body::Frame;
use proptest::prelude::*;

use super::super::Room;
use super::*;

const MAX: usize = 1 << 16;

const LIMITS: Limits = Limits { max_bytes: MAX, patience: PATIENCE };

async fn read_as(encoding: &str, body: Body) -> Result<Bytes, String> {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_ENCODING, encoding.parse().unwrap());
    let mut held = Room::new(MAX).hold();
    read(&headers, body, LIMITS, &mut held).await.map_err(|error| error.to_string())
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A body that comes in pieces.
struct Pieces(VecDeque<Bytes>);

impl hyper::body::Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(|piece| Ok(Frame::data(piece))))
    }
}

/// A body that comes in pieces of so many bytes.
fn pieces(bytes: &[u8], each: usize) -> Body {
    Body::new(Pieces(bytes.chunks(each).map(Bytes::copy_from_slice).collect()))
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
            assert_eq!(read_as(encoding, pieces(&body, 1_000)).await.as_deref(), Ok(&*bytes), "{encoding}");
            assert_eq!(read_as(encoding, body.into()).await.as_deref(), Ok(&*bytes), "{encoding}");
        }
    }
    let bomb = vec![0; MAX + 1];
    for body in [Body::from(bomb.clone()), pieces(&bomb, 1_000)] {
        assert!(read_as("identity", body).await.unwrap_err().ends_with("more than 65536 bytes"));
    }
    for body in [("gzip", gzip(&bomb)), ("zstd", zstd::encode_all(&*bomb, 3).unwrap())] {
        assert!(read_as(body.0, body.1.into()).await.unwrap_err().ends_with("65536 bytes when inflated"));
    }
    assert!(read_as("br", Body::empty()).await.unwrap_err().starts_with(r#"content-encoding is "br", expected gzip"#));
    assert!(read_as("gzip", "hello".into()).await.unwrap_err().ends_with("can't be inflated"));
}

#[tokio::test]
async fn a_body_that_does_not_come_is_not_waited_for() {
    // A piece, and then nothing, without an end.
    let body = Full::new(Bytes::from("hello")).with_trailers(std::future::pending());
    let limits = Limits { patience: Duration::from_millis(20), ..LIMITS };
    let mut held = Room::new(MAX).hold();
    let error = read(&HeaderMap::new(), Body::new(body), limits, &mut held).await.unwrap_err();
    assert!(matches!(error, BodyError::Late(_)));
    assert_eq!(error.to_string(), "the body has not come within 0.02 s, expected all of it by then");
}

#[tokio::test]
async fn room_is_taken_for_what_has_come_and_not_for_what_is_announced() {
    let length = HeaderMap::from_iter([(header::CONTENT_LENGTH, MAX.to_string().parse().unwrap())]);
    let limits = Limits { patience: Duration::from_millis(20), ..LIMITS };
    for headers in [HeaderMap::new(), length] {
        for (come, expected) in [("", 0), ("hello", 5)] {
            let body = Full::new(Bytes::from(come)).with_trailers(std::future::pending());
            let mut held = Room::new(MAX).hold();
            assert!(read(&headers, Body::new(body), limits, &mut held).await.is_err());
            assert_eq!(held.bytes(), expected, "{headers:?}");
        }
    }
}

proptest! {
    #[test]
    fn a_list_grows_only_where_there_is_room(pieces in prop::collection::vec(0..900_usize, 0..60), free in 0..40_usize) {
        let room = Room::new(MAX);
        let mut others = room.hold();
        others.set(room.bytes() - (free << 10)).unwrap();
        let mut held = room.hold();
        held.set(free.min(1)).unwrap();
        let mut list = Growing::new(20_000, &mut held);
        for piece in pieces {
            let before = list.bytes.capacity();
            match list.add(&vec![1; piece]) {
                // The old place is beside the new one as it grows.
                Ok(true) if list.bytes.capacity() > before => {
                    prop_assert!(before + list.bytes.capacity() <= list.held.bytes() - list.beside);
                }
                Ok(true) => prop_assert_eq!(list.bytes.capacity(), before),
                Ok(false) => prop_assert!(list.bytes.len() + piece > 20_000),
                Err(_) => prop_assert_eq!(list.bytes.capacity(), before),
            }
            prop_assert!(list.held.bytes() <= free << 10);
        }
    }

    #[test]
    fn what_is_held_of_a_body_in_the_end_is_its_own_memory(
        bytes in prop::collection::vec(any::<u8>(), 0..5_000),
        each in 1..2_000_usize,
        encoding in prop_oneof![Just("identity"), Just("gzip"), Just("zstd")],
        free in 0..24_usize,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let sent = match encoding {
            "gzip" => gzip(&bytes),
            "zstd" => zstd::encode_all(&*bytes, 3).unwrap(),
            _ => bytes.clone(),
        };
        let headers = HeaderMap::from_iter([(header::CONTENT_ENCODING, encoding.parse().unwrap())]);
        // So many KiB are free.
        let room = Room::new(MAX);
        let mut others = room.hold();
        others.set(room.bytes() - (free << 10)).unwrap();
        let mut held = room.hold();
        let body = runtime.block_on(read(&headers, pieces(&sent, each), LIMITS, &mut held));
        match body {
            Ok(body) => {
                prop_assert_eq!(&*body, &*bytes);
                let own = Vec::from(body).capacity();
                prop_assert!(own <= held.bytes() && held.bytes() <= 2 * bytes.len(), "{own} {}", held.bytes());
                prop_assert!(held.bytes() <= free << 10);
            }
            // Twice what comes and, where it is inflated, twice what becomes of it is always enough, a piece aside.
            Err(error) => {
                prop_assert!(matches!(error, BodyError::Room(NoRoom::Now)), "{error}");
                let inflated = if encoding == "identity" { 0 } else { 4 * bytes.len() };
                prop_assert!(free << 10 < 4 * sent.len() + inflated + 1_024);
            }
        }
    }
}
