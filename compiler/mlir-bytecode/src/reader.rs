//! Primitive values: bytes, variable-width integers, strings, lists.

use crate::{AttributeId, Bytecode, Error, TypeId};

/// A place in a range of the file.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    /// From the file's first byte to the end of the range.
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// Over a whole file.
    pub(crate) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes, at: 0 }
    }

    /// The offset in the file.
    pub fn at(&self) -> usize {
        self.at
    }

    pub fn is_at_end(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// The bytes not read yet.
    pub fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    /// An error here.
    pub fn error(&self, what: impl Into<String>) -> Error {
        Error::new(self.at, what)
    }

    /// The next byte.
    ///
    /// # Errors
    /// The end of the range, as for all that follow.
    pub fn byte(&mut self) -> Result<u8, Error> {
        Ok(self.take(1)?[0])
    }

    /// The next `n` bytes.
    pub fn take(&mut self, n: usize) -> Result<&'a [u8], Error> {
        match self.rest().get(..n) {
            Some(bytes) => {
                self.at += n;
                Ok(bytes)
            }
            None => Err(self.error(format!("{n} bytes are due, {} are left", self.rest().len()))),
        }
    }

    /// A reader of the next `n` bytes, which this one passes over.
    pub fn part(&mut self, n: usize) -> Result<Reader<'a>, Error> {
        let start = self.at;
        self.take(n)?;
        Ok(Reader { bytes: &self.bytes[..self.at], at: start })
    }

    /// An unsigned integer of one to nine bytes: the zeros at the end of the first byte say how many follow.
    pub fn varint(&mut self) -> Result<u64, Error> {
        let first = self.byte()?;
        let more = first.trailing_zeros() as usize;
        let mut word = [0; 8];
        if more >= 8 {
            word.copy_from_slice(self.take(8)?);
            return Ok(u64::from_le_bytes(word));
        }
        word[0] = first;
        word[1..=more].copy_from_slice(self.take(more)?);
        Ok(u64::from_le_bytes(word) >> (more + 1))
    }

    /// A signed integer: its sign in the lowest bit.
    pub fn signed(&mut self) -> Result<i64, Error> {
        let v = self.varint()?;
        Ok((v >> 1) as i64 ^ -((v & 1) as i64))
    }

    /// A number of things that take a byte each at least: never more than bytes are left.
    pub fn count(&mut self) -> Result<usize, Error> {
        let at = *self;
        let n = self.varint()?;
        match usize::try_from(n) {
            Ok(n) if n <= self.rest().len() => Ok(n),
            _ => Err(at.error(format!("a list of {n} elements in {} bytes", self.rest().len()))),
        }
    }

    /// A length, then as many elements as it says.
    pub fn list<T>(&mut self, mut element: impl FnMut(&mut Self) -> Result<T, Error>) -> Result<Vec<T>, Error> {
        let n = self.count()?;
        (0..n).map(|_| element(self)).collect()
    }

    /// A length, then as many bytes.
    pub fn blob(&mut self) -> Result<&'a [u8], Error> {
        let n = self.count()?;
        self.take(n)
    }

    /// Bytes up to a zero byte.
    pub fn c_string(&mut self) -> Result<&'a [u8], Error> {
        let Some(n) = self.rest().iter().position(|b| *b == 0) else {
            return Err(self.error("a string does not end"));
        };
        let bytes = self.take(n)?;
        self.take(1)?;
        Ok(bytes)
    }

    /// An integer of `bits`: one byte up to 8 bits, a signed integer up to 64, else words of 64. Its two's complement is
    /// extended to 128 bits.
    pub fn integer(&mut self, bits: u32) -> Result<i128, Error> {
        match bits {
            0..=8 => Ok(i128::from(self.byte()? as i8)),
            9..=64 => Ok(i128::from(self.signed()?)),
            _ => {
                let at = *self;
                let words = self.list(|r| r.signed())?;
                match words[..] {
                    [] => Ok(0),
                    [low] => Ok(i128::from(low as u64)),
                    [low, high] => Ok(i128::from(high) << 64 | i128::from(low as u64)),
                    _ => Err(at.error(format!("an integer of {bits} bits; up to 128 are read"))),
                }
            }
        }
    }

    /// An entry of the attribute table.
    pub fn attribute(&mut self, of: &Bytecode<'a>) -> Result<AttributeId, Error> {
        let at = *self;
        let n = self.varint()?;
        of.attribute_id(n).ok_or_else(|| at.error(format!("attribute {n} does not exist")))
    }

    /// An entry of the attribute table, or nothing.
    pub fn optional_attribute(&mut self, of: &Bytecode<'a>) -> Result<Option<AttributeId>, Error> {
        let at = *self;
        let n = self.varint()?;
        match n & 1 {
            0 => Ok(None),
            _ => of
                .attribute_id(n >> 1)
                .ok_or_else(|| at.error(format!("attribute {} does not exist", n >> 1)))
                .map(Some),
        }
    }

    /// An entry of the type table.
    pub fn type_id(&mut self, of: &Bytecode<'a>) -> Result<TypeId, Error> {
        let at = *self;
        let n = self.varint()?;
        of.type_id(n).ok_or_else(|| at.error(format!("type {n} does not exist")))
    }

    /// An entry of the string table.
    pub fn string(&mut self, of: &Bytecode<'a>) -> Result<&'a [u8], Error> {
        let at = *self;
        let n = self.varint()?;
        of.string(n).ok_or_else(|| at.error(format!("string {n} does not exist")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_of_every_length() {
        for (bytes, value) in [
            (&[0x01][..], 0),
            (&[0x03], 1),
            (&[0xff], 127),
            (&[0x02, 0x02], 128),
            (&[0x04, 0, 0x10], 1 << 17),
            (&[0x80, 1, 0, 0, 0, 0, 0, 0x80], 0x80_0000_0000_0001),
            (&[0x00, 1, 0, 0, 0, 0, 0, 0, 0x80], 0x8000_0000_0000_0001),
        ] {
            let mut r = Reader::new(bytes);
            assert_eq!(r.varint(), Ok(value), "{bytes:x?}");
            assert!(r.is_at_end());
            for cut in 0..bytes.len() {
                assert!(Reader::new(&bytes[..cut]).varint().is_err());
            }
        }
    }

    #[test]
    fn signs_are_in_the_lowest_bit() {
        for (byte, value) in [(0x01, 0), (0x03, -1), (0x05, 1), (0x07, -2)] {
            assert_eq!(Reader::new(&[byte]).signed(), Ok(value));
        }
        let all = [0x00, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
        assert_eq!(Reader::new(&all).signed(), Ok(i64::MIN));
    }

    #[test]
    fn no_list_is_longer_than_what_is_left() {
        assert!(Reader::new(&[0x07, 1, 2]).list(|r| r.byte()).is_err());
        assert_eq!(Reader::new(&[0x05, 1, 2]).list(|r| r.byte()), Ok(vec![1, 2]));
        let huge = [0x00, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        assert!(Reader::new(&huge).list(|r| r.byte()).is_err());
    }

    #[test]
    fn wide_integers_keep_their_sign() {
        assert_eq!(Reader::new(&[0xff]).integer(8), Ok(-1));
        assert_eq!(Reader::new(&[0x07]).integer(32), Ok(-2));
        assert_eq!(Reader::new(&[0x05, 0x03, 0x03]).integer(128), Ok(-1));
    }
}
