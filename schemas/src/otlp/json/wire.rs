//! Protobuf, written piece by piece within the memory that there is.

use super::NoRoom;
use super::number::Written;

/// Bytes of a length that is not known yet: a varint of 35 bits, of which the first are zeros when it is short.
const LENGTH: usize = 5;

/// The bytes written so far.
pub(super) struct Wire<R> {
    bytes: Vec<u8>,
    room: R,
}

/// A message whose end is still to come: where its length is.
#[derive(Clone, Copy)]
pub(super) struct Open(usize);

impl<R: FnMut(usize) -> Result<(), NoRoom>> Wire<R> {
    pub(super) fn new(room: R) -> Self {
        Self { bytes: Vec::new(), room }
    }

    pub(super) fn finish(self) -> Vec<u8> {
        self.bytes
    }

    /// Begins a message or a packed list in the field `number`; of the body itself, whose number is 0, nothing is written.
    pub(super) fn open(&mut self, number: u32) -> Result<Open, NoRoom> {
        if number > 0 {
            self.varint(u64::from(number << 3 | 2))?;
            self.put(&[0; LENGTH])?;
        }
        Ok(Open(self.bytes.len()))
    }

    /// Ends what [`Wire::open`] began, with its length.
    pub(super) fn close(&mut self, number: u32, Open(begin): Open) {
        if number == 0 {
            return;
        }
        let length = self.bytes.len() - begin;
        for (place, byte) in self.bytes[begin - LENGTH..begin].iter_mut().enumerate() {
            let more = if place + 1 < LENGTH { 0x80 } else { 0 };
            *byte = u8::try_from(length >> (7 * place) & 0x7f).unwrap_or_default() | more;
        }
    }

    /// A field of text or bytes.
    pub(super) fn text(&mut self, number: u32, text: &[u8]) -> Result<(), NoRoom> {
        self.varint(u64::from(number << 3 | 2))?;
        self.varint(text.len() as u64)?;
        self.put(text)
    }

    /// A field of a number; in a packed list, without its tag.
    pub(super) fn number(&mut self, number: u32, written: Written, packed: bool) -> Result<(), NoRoom> {
        if !packed {
            let kind = if matches!(written, Written::Fixed(_)) { 1 } else { 0 };
            self.varint(u64::from(number << 3 | kind))?;
        }
        match written {
            Written::Varint(value) => self.varint(value),
            Written::Fixed(value) => self.put(&value.to_le_bytes()),
        }
    }

    fn varint(&mut self, mut value: u64) -> Result<(), NoRoom> {
        let mut bytes = [0; 10];
        let mut length = 0;
        for byte in &mut bytes {
            length += 1;
            *byte = u8::try_from(value & 0x7f).unwrap_or_default();
            value >>= 7;
            if value == 0 {
                break;
            }
            *byte |= 0x80;
        }
        self.put(&bytes[..length])
    }

    fn put(&mut self, more: &[u8]) -> Result<(), NoRoom> {
        let needed = self.bytes.len() + more.len();
        if needed > self.bytes.capacity() {
            let taken = needed.max(2 * self.bytes.capacity()).max(1 << 10);
            (self.room)(taken)?;
            self.bytes.reserve_exact(taken - self.bytes.len());
        }
        self.bytes.extend_from_slice(more);
        Ok(())
    }
}
