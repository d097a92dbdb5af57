//! An answer's bytes on their way out: compressed as the client asked.

use std::io::{self, Write};

use super::blocks::BlockWriter;

/// How an answer is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Not at all.
    Identity,
    /// `Content-Encoding: gzip`
    Gzip,
    /// `Content-Encoding: deflate`
    Deflate,
    /// `Content-Encoding: zstd`
    Zstd,
    /// `Content-Encoding: lz4`, as LZ4 frames.
    Lz4,
    /// ClickHouse's blocks, which no header announces.
    Blocks,
}

impl Encoding {
    /// The best of what `Accept-Encoding` lists.
    pub fn accepted(header: &str) -> Self {
        let wanted = |name: &str| {
            header.split(',').any(|item| {
                let mut parts = item.split(';').map(str::trim);
                parts.next().is_some_and(|coding| coding.eq_ignore_ascii_case(name))
                    && !parts.any(|weight| matches!(weight, "q=0" | "q=0.0" | "q=0.00" | "q=0.000"))
            })
        };
        [("zstd", Self::Zstd), ("lz4", Self::Lz4), ("gzip", Self::Gzip), ("deflate", Self::Deflate)]
            .into_iter()
            .find_map(|(name, encoding)| wanted(name).then_some(encoding))
            .unwrap_or(Self::Identity)
    }

    /// The value of `Content-Encoding`.
    pub fn header(self) -> Option<&'static str> {
        match self {
            Self::Identity | Self::Blocks => None,
            Self::Gzip => Some("gzip"),
            Self::Deflate => Some("deflate"),
            Self::Zstd => Some("zstd"),
            Self::Lz4 => Some("lz4"),
        }
    }
}

/// Compresses into `W`.
pub enum Encoder<W: Write> {
    /// Not at all.
    Identity(W),
    /// gzip
    Gzip(flate2::write::GzEncoder<W>),
    /// zlib, which HTTP calls deflate
    Deflate(flate2::write::ZlibEncoder<W>),
    /// zstd
    Zstd(zstd::Encoder<'static, W>),
    /// LZ4 frames
    Lz4(Box<lz4_flex::frame::FrameEncoder<W>>),
    /// ClickHouse's blocks
    Blocks(BlockWriter<W>),
}

impl<W: Write> Encoder<W> {
    /// Starts compressing into `sink`.
    ///
    /// # Errors
    /// zstd's context cannot be made.
    pub fn new(encoding: Encoding, sink: W) -> io::Result<Self> {
        let level = flate2::Compression::new(3);
        Ok(match encoding {
            Encoding::Identity => Self::Identity(sink),
            Encoding::Gzip => Self::Gzip(flate2::write::GzEncoder::new(sink, level)),
            Encoding::Deflate => Self::Deflate(flate2::write::ZlibEncoder::new(sink, level)),
            Encoding::Zstd => Self::Zstd(zstd::Encoder::new(sink, 1)?),
            Encoding::Lz4 => Self::Lz4(Box::new(lz4_flex::frame::FrameEncoder::new(sink))),
            Encoding::Blocks => Self::Blocks(BlockWriter::new(sink)),
        })
    }

    /// Where the compressed bytes go.
    pub fn sink(&mut self) -> &mut W {
        match self {
            Self::Identity(sink) => sink,
            Self::Gzip(encoder) => encoder.get_mut(),
            Self::Deflate(encoder) => encoder.get_mut(),
            Self::Zstd(encoder) => encoder.get_mut(),
            Self::Lz4(encoder) => encoder.get_mut(),
            Self::Blocks(writer) => writer.sink(),
        }
    }

    /// Writes what the compression still holds and returns the sink.
    ///
    /// # Errors
    /// The sink's.
    pub fn finish(self) -> io::Result<W> {
        match self {
            Self::Identity(sink) => Ok(sink),
            Self::Gzip(encoder) => encoder.finish(),
            Self::Deflate(encoder) => encoder.finish(),
            Self::Zstd(encoder) => encoder.finish(),
            Self::Lz4(encoder) => encoder.finish().map_err(io::Error::other),
            Self::Blocks(writer) => writer.finish(),
        }
    }
}

impl<W: Write> Write for Encoder<W> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        match self {
            Self::Identity(sink) => sink.write(data),
            Self::Gzip(encoder) => encoder.write(data),
            Self::Deflate(encoder) => encoder.write(data),
            Self::Zstd(encoder) => encoder.write(data),
            Self::Lz4(encoder) => encoder.write(data),
            Self::Blocks(writer) => writer.write(data),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Identity(sink) => sink.flush(),
            Self::Gzip(encoder) => encoder.flush(),
            Self::Deflate(encoder) => encoder.flush(),
            Self::Zstd(encoder) => encoder.flush(),
            Self::Lz4(encoder) => encoder.flush(),
            Self::Blocks(writer) => writer.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_accepted_encoding_is_taken() {
        assert_eq!(Encoding::accepted("gzip, deflate, br, zstd"), Encoding::Zstd);
        assert_eq!(Encoding::accepted("lz4,gzip"), Encoding::Lz4);
        assert_eq!(Encoding::accepted("zstd;q=0, GZIP;q=0.5"), Encoding::Gzip);
        assert_eq!(Encoding::accepted("br"), Encoding::Identity);
        assert_eq!(Encoding::accepted(""), Encoding::Identity);
    }
}
