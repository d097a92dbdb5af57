//! ClickHouse's own compressed blocks, as `decompress=1` and `compress=1` carry them.
//!
//! A block is 16 bytes of CityHash128 (version 1.0.2) over the rest, a method byte, the size of the compressed part
//! with its 9 bytes of header, the size of the raw data (both 4 bytes, little endian), and the data.

use std::io::{self, Read, Write};

use super::error::Failure;

const NONE: u8 = 0x02;
const LZ4: u8 = 0x82;
const ZSTD: u8 = 0x90;
const HEADER: usize = 9;
/// The largest block that is accepted, packed or raw, in bytes.
const LARGEST: usize = 256 << 20;
/// Raw bytes in a block that is written.
const WRITTEN: usize = 1 << 20;

fn checksum(rest: &[u8]) -> [u8; 16] {
    cityhash_rs::cityhash_102_128(rest).rotate_right(64).to_le_bytes()
}

fn bad(code: u32, name: &str, message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, Failure::new(code, name, message))
}

fn size(bytes: &[u8]) -> usize {
    bytes.iter().rev().fold(0, |size, byte| size << 8 | usize::from(*byte))
}

/// Reads raw data out of blocks, each checked before any of it is handed on.
pub struct BlockReader<R> {
    inner: R,
    raw: Vec<u8>,
    at: usize,
}

impl<R: Read> BlockReader<R> {
    /// Blocks come from `inner`.
    pub fn new(inner: R) -> Self {
        Self { inner, raw: Vec::new(), at: 0 }
    }

    /// Reads the next block into `raw`; false at the end of the input.
    fn next(&mut self) -> io::Result<bool> {
        let mut sum = [0; 16];
        let first = self.inner.read(&mut sum)?;
        if first == 0 {
            return Ok(false);
        }
        self.inner.read_exact(&mut sum[first..]).map_err(cut_short)?;
        let mut block = vec![0; HEADER];
        self.inner.read_exact(&mut block).map_err(cut_short)?;
        let (method, packed, raw) = (block[0], size(&block[1..5]), size(&block[5..9]));
        if !(HEADER..=LARGEST).contains(&packed) || raw > LARGEST {
            return Err(bad(
                271,
                "CANNOT_DECOMPRESS",
                format!("a compressed block says that it has {packed} bytes, {raw} raw; expected at most {LARGEST}"),
            ));
        }
        // Grown as bytes arrive: a header alone must not reserve memory.
        let expected = packed - HEADER;
        (&mut self.inner).take(expected as u64).read_to_end(&mut block)?;
        if block.len() != packed {
            return Err(cut_short(io::ErrorKind::UnexpectedEof.into()));
        }
        if checksum(&block) != sum {
            return Err(bad(
                40,
                "CHECKSUM_DOESNT_MATCH",
                format!("Checksum doesn't match: corrupted data in a compressed block of {packed} bytes"),
            ));
        }
        let data = &block[HEADER..];
        let unpacked = match method {
            NONE => Ok(data.to_vec()),
            LZ4 => lz4_flex::block::decompress(data, raw).map_err(|error| error.to_string()),
            ZSTD => zstd::bulk::decompress(data, raw).map_err(|error| error.to_string()),
            other => Err(format!("unknown method 0x{other:02x}; expected none, lz4 or zstd")),
        };
        self.raw = unpacked
            .and_then(|bytes| match bytes.len() == raw {
                true => Ok(bytes),
                false => Err(format!("{} raw bytes; expected {raw}", bytes.len())),
            })
            .map_err(|message| {
                bad(271, "CANNOT_DECOMPRESS", format!("a compressed block cannot be read: {message}"))
            })?;
        self.at = 0;
        Ok(true)
    }
}

fn cut_short(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            bad(33, "CANNOT_READ_ALL_DATA", "the body ends in the middle of a compressed block".to_owned())
        }
        _ => error,
    }
}

impl<R: Read> Read for BlockReader<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.at == self.raw.len() {
            if !self.next()? {
                return Ok(0);
            }
        }
        let count = out.len().min(self.raw.len() - self.at);
        out[..count].copy_from_slice(&self.raw[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

/// Writes raw data as LZ4 blocks.
pub struct BlockWriter<W> {
    inner: W,
    raw: Vec<u8>,
}

impl<W: Write> BlockWriter<W> {
    /// Blocks go to `inner`.
    pub fn new(inner: W) -> Self {
        Self { inner, raw: Vec::new() }
    }

    /// Where the blocks go.
    pub fn sink(&mut self) -> &mut W {
        &mut self.inner
    }

    fn emit(&mut self) -> io::Result<()> {
        if self.raw.is_empty() {
            return Ok(());
        }
        let packed = lz4_flex::block::compress(&self.raw);
        let too_large = |_| io::Error::from(io::ErrorKind::InvalidData);
        let mut block = Vec::with_capacity(HEADER + packed.len());
        block.push(LZ4);
        block.extend(u32::try_from(HEADER + packed.len()).map_err(too_large)?.to_le_bytes());
        block.extend(u32::try_from(self.raw.len()).map_err(too_large)?.to_le_bytes());
        block.extend(packed);
        self.inner.write_all(&checksum(&block))?;
        self.inner.write_all(&block)?;
        self.raw.clear();
        Ok(())
    }

    /// Writes what is left and returns the inner writer.
    ///
    /// # Errors
    /// The inner writer's.
    pub fn finish(mut self) -> io::Result<W> {
        self.emit()?;
        Ok(self.inner)
    }
}

impl<W: Write> Write for BlockWriter<W> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let count = data.len().min(WRITTEN - self.raw.len());
        self.raw.extend_from_slice(&data[..count]);
        if self.raw.len() == WRITTEN {
            self.emit()?;
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.emit()?;
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(blocks: &[u8]) -> Result<Vec<u8>, u32> {
        let mut raw = Vec::new();
        match BlockReader::new(blocks).read_to_end(&mut raw) {
            Ok(_) => Ok(raw),
            Err(error) => Err(error.get_ref().and_then(|e| e.downcast_ref::<Failure>()).map_or(0, |f| f.code)),
        }
    }

    /// Blocks that ClickHouse 26.7 wrote itself: a column's file, with the codecs NONE, LZ4 and ZSTD(1).
    const WRITTEN_BY_CLICKHOUSE: [&str; 3] = [
        "3837126f0a2ce7b1928932e540e3e05e024900000040000000636f6e7461646f7220636f6e7461646f7220636f6e7461646f7220313233343\
         5636f6e7461646f7220636f6e7461646f7220636f6e7461646f72203132333435",
        "1ae42b7391bba212802b897e0ef9496f8226000000400000009e636f6e7461646f722009005e31323334351700051200503132333435",
        "3b6d8b0d2e3cb6fbf6f00789b86d116290300000004000000028b52ffd2040f5000098636f6e7461646f7220313233343531323334350300\
         a0003a3d4daf1c01",
    ];

    #[test]
    fn clickhouse_s_own_blocks_are_read() {
        for hex in WRITTEN_BY_CLICKHOUSE {
            let block: Vec<u8> = (0..hex.len() / 2)
                .map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).expect("two digits"))
                .collect();
            assert_eq!(read(&block), Ok(b"contador contador contador 12345".repeat(2)));
            // Two in a row are one stream.
            assert_eq!(read(&block.repeat(2)), Ok(b"contador contador contador 12345".repeat(4)));
        }
    }

    #[test]
    fn what_is_written_reads_back() {
        let raw: Vec<u8> = (0..600_000_u32).flat_map(|n| (n / 7).to_le_bytes()).collect();
        let mut writer = BlockWriter::new(Vec::new());
        writer.write_all(&raw).expect("a vector takes all");
        let blocks = writer.finish().expect("a vector takes all");
        assert!(blocks.len() < raw.len());
        assert_eq!(read(&blocks), Ok(raw));
        assert_eq!(read(&[]), Ok(Vec::new()));
    }

    #[test]
    fn damage_is_found() {
        let mut writer = BlockWriter::new(Vec::new());
        writer.write_all(b"some rows, some rows, some rows").expect("a vector takes all");
        let good = writer.finish().expect("a vector takes all");
        for at in 0..good.len() {
            let mut damaged = good.clone();
            damaged[at] ^= 0x10;
            assert!(matches!(read(&damaged), Err(40 | 271 | 33)), "at {at}: {:?}", read(&damaged));
            if at > 0 {
                assert_eq!(read(&good[..at]), Err(33), "cut at {at}");
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let refused = matches!(read(&bytes), Err(33 | 40 | 271));
            prop_assert!(refused || bytes.is_empty());
        }

        /// The checksum is right, so what is inside is looked at.
        #[test]
        fn any_block_with_a_good_checksum_is_read_or_refused(
            method in prop_oneof![Just(NONE), Just(LZ4), Just(ZSTD), any::<u8>()],
            raw in prop_oneof![0..100_u32, any::<u32>()],
            data in proptest::collection::vec(any::<u8>(), 0..100),
        ) {
            let mut rest = vec![method];
            rest.extend(u32::try_from(HEADER + data.len()).expect("small").to_le_bytes());
            rest.extend(raw.to_le_bytes());
            rest.extend(&data);
            let block = [&checksum(&rest)[..], &rest[..]].concat();
            match read(&block) {
                Ok(bytes) => prop_assert_eq!(bytes.len(), usize::try_from(raw).expect("small")),
                Err(code) => prop_assert_eq!(code, 271),
            }
        }
    }
}
