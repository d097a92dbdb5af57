//! Samples are compressed where they are made: a tick's 70 KiB become 7. So a checkpoint, the spool and what is read back of it
//! are a tenth of what they would be, an outage of the collector fills the disk nine times later, and the request is made of
//! what is in the spool already.
//!
//! A *packed* payload is one or more Zstandard frames (RFC 8878), each with its size, one after the other: as with plain
//! payloads, that is one message with the parts of all. A plain one begins with the key of an OTLP field, and is taken too:
//! records and events are too small to be packed, and older versions packed nothing.

use std::borrow::Cow;
use std::io;

use zstd::zstd_safe;

use super::segment::MAX_PAYLOAD_BYTES;

/// Fast, which costs a tenth of the bytes.
const LEVEL: i32 = 1;

/// How a frame begins.
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// What packs. It keeps its tables from payload to payload.
#[derive(Default)]
pub struct Packer(Option<zstd::bulk::Compressor<'static>>);

impl std::fmt::Debug for Packer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Packer").finish_non_exhaustive()
    }
}

impl Packer {
    /// A frame of these bytes.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub fn pack(&mut self, plain: &[u8]) -> io::Result<Vec<u8>> {
        let compressor = match &mut self.0 {
            Some(compressor) => compressor,
            none => none.insert(zstd::bulk::Compressor::new(LEVEL)?),
        };
        compressor.compress(plain)
    }
}

/// Whether a payload is packed.
pub fn is_packed(payload: &[u8]) -> bool {
    payload.starts_with(&MAGIC)
}

/// The payload as it was before it was packed.
///
/// # Errors
/// When it is no frames, or greater than a request may be.
pub fn plain(payload: &[u8]) -> io::Result<Cow<'_, [u8]>> {
    if !is_packed(payload) {
        return Ok(Cow::Borrowed(payload));
    }
    let length = plain_len(payload);
    if length > MAX_PAYLOAD_BYTES {
        let fault = format!("{length} bytes when it is unpacked, expected at most {MAX_PAYLOAD_BYTES}");
        return Err(io::Error::new(io::ErrorKind::InvalidData, fault));
    }
    let mut plain = Vec::with_capacity(length);
    let mut rest = payload;
    while !rest.is_empty() {
        let (frame, behind) = first_frame(rest)?;
        let room = frame_len(frame)?;
        plain.extend(zstd::bulk::decompress(frame, room)?);
        rest = behind;
    }
    Ok(Cow::Owned(plain))
}

/// How long it is when it is not packed, as far as its frames say so.
pub fn plain_len(payload: &[u8]) -> usize {
    if !is_packed(payload) {
        return payload.len();
    }
    let (mut length, mut rest) = (0_usize, payload);
    while let Ok((frame, behind)) = first_frame(rest) {
        length = length.saturating_add(frame_len(frame).unwrap_or(0));
        rest = behind;
    }
    length
}

fn first_frame(payload: &[u8]) -> io::Result<(&[u8], &[u8])> {
    let fault = || io::Error::new(io::ErrorKind::InvalidData, "no whole Zstandard frame");
    let length = zstd_safe::find_frame_compressed_size(payload).map_err(|_| fault())?;
    payload.split_at_checked(length).filter(|(frame, _)| !frame.is_empty()).ok_or_else(fault)
}

fn frame_len(frame: &[u8]) -> io::Result<usize> {
    let fault = || io::Error::new(io::ErrorKind::InvalidData, "a Zstandard frame without its size");
    let length = zstd_safe::get_frame_content_size(frame).map_err(|_| fault())?.ok_or_else(fault)?;
    usize::try_from(length).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn frames_one_after_the_other_are_what_was_packed(parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..2_000), 1..5)) {
            let mut packer = Packer::default();
            let packed: Vec<u8> = parts.iter().flat_map(|part| packer.pack(part).unwrap()).collect();
            prop_assert!(is_packed(&packed));
            prop_assert_eq!(plain_len(&packed), parts.concat().len());
            prop_assert_eq!(plain(&packed).unwrap().into_owned(), parts.concat());
            // Any decoder takes it as one stream.
            prop_assert_eq!(zstd::decode_all(packed.as_slice()).unwrap(), parts.concat());
            // Half of it is a fault, not half of a message.
            let cut = &packed[..packed.len() - 1];
            prop_assert!(plain(cut).is_err());
        }

        #[test]
        fn garbage_is_refused_and_never_believed(tail in prop::collection::vec(any::<u8>(), 0..200)) {
            let garbage = [&MAGIC[..], &tail].concat();
            let _ = (plain(&garbage), plain_len(&garbage));
        }
    }

    #[test]
    fn what_is_not_packed_is_what_it_is() {
        assert_eq!((plain(b"\x0a\x00").unwrap().as_ref(), plain_len(b"\x0a\x00")), (&b"\x0a\x00"[..], 2));
        assert_eq!((plain(b"").unwrap().as_ref(), plain_len(b"")), (&b""[..], 0));
        // A frame that says that it is greater than a request may be.
        let mut huge = zstd::bulk::Compressor::new(1).unwrap().compress(&vec![0; MAX_PAYLOAD_BYTES + 1]).unwrap();
        assert!(plain(&huge).unwrap_err().to_string().contains("expected at most"));
        huge.truncate(6);
        assert!(plain(&huge).is_err());
    }
}
