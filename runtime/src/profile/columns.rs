//! Columns of numbers as bytes: differences, in seven bits a byte.

use super::FileError;

/// Most items of a column that a reader takes.
pub const MAX_ITEMS: u64 = 1 << 27;

fn put(mut v: u64, out: &mut Vec<u8>) {
    while v >= 0x80 {
        out.push(v as u8 | 0x80);
        v >>= 7;
    }
    out.push(v as u8);
}

fn zigzag(v: i64) -> u64 {
    ((v << 1) ^ (v >> 63)) as u64
}

fn unzigzag(v: u64) -> i64 {
    (v >> 1) as i64 ^ -((v & 1) as i64)
}

/// Writes columns.
#[derive(Default)]
pub struct Writer(pub Vec<u8>);

impl Writer {
    pub fn number(&mut self, v: u64) {
        put(v, &mut self.0);
    }

    /// A column as its length and the difference of each number from the one before.
    pub fn differences(&mut self, items: impl ExactSizeIterator<Item = u64>) {
        self.number(items.len() as u64);
        let mut last = 0u64;
        for v in items {
            put(zigzag(v.wrapping_sub(last) as i64), &mut self.0);
            last = v;
        }
    }

    /// A column as its length and numbers.
    pub fn plain(&mut self, items: impl ExactSizeIterator<Item = u64>) {
        self.number(items.len() as u64);
        items.for_each(|v| put(v, &mut self.0));
    }

    /// A column of fractions as its length and their bits.
    pub fn floats(&mut self, items: &[f64]) {
        self.number(items.len() as u64);
        items.iter().for_each(|v| self.0.extend_from_slice(&v.to_le_bytes()));
    }

    /// A text as its length and bytes.
    pub fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.0.extend_from_slice(text.as_bytes());
    }
}

/// Reads columns. Damage is an error, and no more memory is taken than the bytes that are there can fill.
pub struct Reader<'a>(pub &'a [u8]);

impl Reader<'_> {
    #[inline(always)]
    pub fn number(&mut self) -> Result<u64, FileError> {
        if let Some((&b, rest)) = self.0.split_first()
            && b < 0x80
        {
            self.0 = rest;
            return Ok(b as u64);
        }
        self.long()
    }

    fn long(&mut self) -> Result<u64, FileError> {
        let mut v = 0u64;
        for (i, &b) in self.0.iter().enumerate().take(10) {
            v |= ((b & 0x7f) as u64) << (7 * i as u32).min(63);
            if b < 0x80 {
                self.0 = &self.0[i + 1..];
                return Ok(v);
            }
        }
        Err(FileError::Damaged("a column ends within a number".into()))
    }

    /// A length, of items that take a byte at least.
    pub fn count(&mut self) -> Result<usize, FileError> {
        let n = self.number()?;
        if n > self.0.len() as u64 || n > MAX_ITEMS {
            return Err(FileError::Damaged(format!("a column of {n} numbers in {} bytes", self.0.len())));
        }
        Ok(n as usize)
    }

    pub fn differences(&mut self) -> Result<Vec<u64>, FileError> {
        self.sums(Ok)
    }

    /// As [`Reader::differences`], of numbers below 2^32.
    pub fn differences32(&mut self) -> Result<Vec<u32>, FileError> {
        self.sums(narrow)
    }

    fn sums<T>(&mut self, number: impl Fn(u64) -> Result<T, FileError>) -> Result<Vec<T>, FileError> {
        let n = self.count()?;
        let mut out = Vec::with_capacity(n);
        let mut last = 0u64;
        for _ in 0..n {
            last = last.wrapping_add(unzigzag(self.number()?) as u64);
            out.push(number(last)?);
        }
        Ok(out)
    }

    pub fn plain(&mut self) -> Result<Vec<u64>, FileError> {
        let n = self.count()?;
        (0..n).map(|_| self.number()).collect()
    }

    pub fn floats(&mut self) -> Result<Vec<f64>, FileError> {
        let n = self.count()?;
        let Some((bytes, rest)) = self.0.split_at_checked(n * 8) else {
            return Err(FileError::Damaged(format!("a column of {n} fractions in {} bytes", self.0.len())));
        };
        self.0 = rest;
        Ok(bytes.as_chunks().0.iter().map(|bits| f64::from_le_bytes(*bits)).collect())
    }

    pub fn text(&mut self) -> Result<String, FileError> {
        let n = self.count()?;
        let (bytes, rest) = self.0.split_at(n);
        self.0 = rest;
        String::from_utf8(bytes.to_vec()).map_err(|_| FileError::Damaged("a name is no text".into()))
    }

    pub fn plain32(&mut self) -> Result<Vec<u32>, FileError> {
        let n = self.count()?;
        let mut out = Vec::with_capacity(n);
        for _ in 0..n {
            out.push(narrow(self.number()?)?);
        }
        Ok(out)
    }
}

fn narrow(v: u64) -> Result<u32, FileError> {
    u32::try_from(v).map_err(|_| FileError::Damaged(format!("{v} does not fit its column")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn columns_round_trip(a in prop::collection::vec(any::<u64>(), 0..50), b in prop::collection::vec(any::<u32>(), 0..50)) {
            let mut w = Writer::default();
            w.differences(a.iter().copied());
            w.plain(a.iter().copied());
            w.differences(b.iter().map(|v| *v as u64));
            w.plain(b.iter().map(|v| *v as u64));
            let mut r = Reader(&w.0);
            prop_assert_eq!(r.differences().expect("whole"), a.clone());
            prop_assert_eq!(r.plain().expect("whole"), a);
            prop_assert_eq!(r.differences32().expect("whole"), b.clone());
            prop_assert_eq!(r.plain32().expect("whole"), b);
            prop_assert!(r.0.is_empty());
        }

        #[test]
        fn any_bytes_are_columns_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let mut r = Reader(&bytes);
            while !r.0.is_empty() && r.differences32().is_ok() {}
        }
    }
}
