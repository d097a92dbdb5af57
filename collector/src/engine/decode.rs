//! A request's body as the client meant it: off the wire, out of its content encoding, out of ClickHouse's blocks.

use std::io::{self, Read};

use bytes::{Buf, Bytes};
use tokio::sync::mpsc;

use super::blocks::BlockReader;
use super::error::Failure;
use super::frames::{Lz4, Zlib};

/// A piece of the body, or why there are no more.
pub type Piece = Result<Bytes, Failure>;

/// The body's bytes, received from the asynchronous side. Blocks while none are there.
pub struct Wire {
    current: Bytes,
    rest: mpsc::Receiver<Piece>,
}

impl Wire {
    /// First what is in memory already, then what the channel brings.
    pub fn new(current: Bytes, rest: mpsc::Receiver<Piece>) -> Self {
        Self { current, rest }
    }
}

impl Read for Wire {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.current.is_empty() {
            match self.rest.blocking_recv() {
                Some(Ok(bytes)) => self.current = bytes,
                Some(Err(failure)) => return Err(io::Error::new(io::ErrorKind::ConnectionAborted, failure)),
                None => return Ok(0),
            }
        }
        let count = out.len().min(self.current.len());
        self.current.copy_to_slice(&mut out[..count]);
        Ok(count)
    }
}

/// The body's raw bytes.
pub type Body = Box<dyn Read + Send>;

/// Undoes the content encoding, then the blocks.
///
/// # Errors
/// A content encoding that is not known.
pub fn body(wire: impl Read + Send + 'static, content_encoding: &str, blocks: bool) -> Result<Body, Failure> {
    let plain: Body = match content_encoding {
        "" | "identity" => Box::new(wire),
        "gzip" | "x-gzip" => Box::new(flate2::read::MultiGzDecoder::new(wire)),
        "deflate" => Box::new(Zlib::new(wire)),
        "zstd" => Box::new(zstd::Decoder::new(wire).map_err(|error| failure(&error))?),
        "lz4" => Box::new(Lz4::new(wire)),
        other => {
            return Err(Failure::new(
                89,
                "UNKNOWN_COMPRESSION_METHOD",
                format!("Unknown compression method: content encoding {other:?}; expected gzip, deflate, zstd or lz4"),
            ));
        }
    };
    Ok(if blocks { Box::new(BlockReader::new(plain)) } else { plain })
}

/// Why a body could not be read, in ClickHouse's terms.
pub fn failure(error: &io::Error) -> Failure {
    if let Some(failure) = error.get_ref().and_then(|inner| inner.downcast_ref::<Failure>()) {
        return failure.clone();
    }
    Failure::new(271, "CANNOT_DECOMPRESS", format!("the request's body cannot be decompressed: {error}"))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn read(encoded: Vec<u8>, encoding: &str) -> Result<Vec<u8>, u32> {
        let (send, rest) = mpsc::channel(8);
        let (first, second) = encoded.split_at(encoded.len() / 2);
        send.try_send(Ok(Bytes::copy_from_slice(second))).expect("there is room");
        drop(send);
        let wire = Wire::new(Bytes::copy_from_slice(first), rest);
        let mut raw = Vec::new();
        match body(wire, encoding, false).map_err(|f| f.code)?.read_to_end(&mut raw) {
            Ok(_) => Ok(raw),
            Err(error) => Err(failure(&error).code),
        }
    }

    fn packed(raw: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(raw).expect("a vector takes all");
        let mut deflate = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        deflate.write_all(raw).expect("a vector takes all");
        let info = lz4_flex::frame::FrameInfo::new().block_size(lz4_flex::frame::BlockSize::Max64KB);
        let mut lz4 = lz4_flex::frame::FrameEncoder::with_frame_info(info, Vec::new());
        lz4.write_all(raw).expect("a vector takes all");
        vec![
            ("gzip", gzip.finish().expect("gzip")),
            ("deflate", deflate.finish().expect("deflate")),
            ("lz4", lz4.finish().expect("lz4")),
            ("zstd", zstd::encode_all(raw, 1).expect("zstd")),
        ]
    }

    #[test]
    fn content_encodings_are_undone() {
        let raw = b"rows and rows and rows".to_vec();
        assert_eq!(read(raw.clone(), ""), Ok(raw.clone()));
        for (encoding, bytes) in packed(&raw) {
            assert_eq!(read(bytes.clone(), encoding), Ok(raw.clone()), "{encoding}");
            if encoding != "deflate" {
                assert_eq!(read(bytes.repeat(3), encoding), Ok(raw.repeat(3)), "{encoding}, three in a row");
            }
        }
        assert_eq!(read(raw.clone(), "br"), Err(89));
        assert_eq!(read(raw, "gzip"), Err(271));
    }

    #[test]
    fn a_body_cut_anywhere_is_refused() {
        // Several blocks in every format, so that some cuts lie between two of them.
        let raw: Vec<u8> = (0..50_000_u32).flat_map(|n| (n.wrapping_mul(2_654_435_761) >> 12).to_le_bytes()).collect();
        for (encoding, bytes) in packed(&raw) {
            assert_eq!(read(bytes.clone(), encoding), Ok(raw.clone()), "{encoding}");
            let near_the_ends = (1..40).chain(bytes.len() - 40..bytes.len());
            let mut cuts: Vec<usize> = near_the_ends.chain((0..bytes.len()).step_by(997).skip(1)).collect();
            if encoding == "lz4" {
                // The header has 7 bytes here; each block starts with its size.
                let mut at = 7;
                while let Some(&[a, b, c, d]) = bytes.get(at..at + 4) {
                    cuts.push(at);
                    at += 4 + (u32::from_le_bytes([a, b, c, d]) & 0x7fff_ffff) as usize;
                }
                assert!(at >= bytes.len(), "the blocks were not followed");
            }
            for cut in cuts {
                assert_eq!(read(bytes[..cut].to_vec(), encoding), Err(271), "{encoding} cut at {cut}");
            }
            let mut longer = bytes.clone();
            longer.extend(b"junk junk junk");
            assert_eq!(read(longer, encoding), Err(271), "{encoding} with more behind its end");
        }
    }
}
