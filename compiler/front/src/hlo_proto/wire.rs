//! Protocol buffers' wire format, as much as reading needs: fields by number, nothing copied.

/// What is wrong with the bytes, and where in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    pub at: usize,
    pub what: String,
}

pub type Read<T> = Result<T, Damage>;

/// Messages inside one another at most.
const MAX_DEPTH: usize = 128;

/// A field's value.
#[derive(Clone, Copy, Debug)]
enum Value<'a> {
    Varint(u64),
    Fixed64([u8; 8]),
    Fixed32([u8; 4]),
    Bytes(&'a [u8]),
}

/// A message's fields in file order.
#[derive(Clone, Debug)]
pub struct Message<'a> {
    fields: Vec<(u32, Value<'a>, usize)>,
    /// Where the message begins in the file.
    pub at: usize,
    depth: usize,
}

struct Reader<'a> {
    bytes: &'a [u8],
    pos: usize,
    base: usize,
}

impl<'a> Reader<'a> {
    fn damage<T>(&self, what: &str) -> Read<T> {
        Err(Damage { at: self.base + self.pos, what: what.to_string() })
    }

    fn varint(&mut self) -> Read<u64> {
        let mut value = 0u64;
        for shift in (0..70).step_by(7) {
            let Some(&b) = self.bytes.get(self.pos) else { return self.damage("the message is cut short") };
            self.pos += 1;
            if shift < 64 {
                value |= u64::from(b & 0x7f) << shift;
            }
            if b & 0x80 == 0 {
                return Ok(value);
            }
        }
        self.damage("a number has more than ten bytes")
    }

    fn take(&mut self, n: u64) -> Read<&'a [u8]> {
        let end = usize::try_from(n).ok().and_then(|n| self.pos.checked_add(n)).filter(|e| *e <= self.bytes.len());
        let Some(end) = end else { return self.damage("a field is longer than its message") };
        let out = &self.bytes[self.pos..end];
        self.pos = end;
        Ok(out)
    }

    fn array<const N: usize>(&mut self) -> Read<[u8; N]> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N as u64)?);
        Ok(out)
    }
}

impl<'a> Message<'a> {
    /// Reads a whole file as one message.
    pub fn of_file(bytes: &'a [u8]) -> Read<Message<'a>> {
        Message::parse(bytes, 0, 0)
    }

    fn parse(bytes: &'a [u8], base: usize, depth: usize) -> Read<Message<'a>> {
        let mut r = Reader { bytes, pos: 0, base };
        let mut fields = Vec::new();
        if depth > MAX_DEPTH {
            return r.damage("messages are nested too deeply");
        }
        while r.pos < bytes.len() {
            let key = r.varint()?;
            let Ok(number) = u32::try_from(key >> 3) else { return r.damage("a field number is too large") };
            if number == 0 {
                return r.damage("a field has the number 0");
            }
            let value = match key & 7 {
                0 => Value::Varint(r.varint()?),
                1 => Value::Fixed64(r.array()?),
                2 => {
                    let n = r.varint()?;
                    Value::Bytes(r.take(n)?)
                }
                5 => Value::Fixed32(r.array()?),
                _ => return r.damage("a field has an unknown wire type"),
            };
            let start = match value {
                Value::Bytes(b) => base + r.pos - b.len(),
                Value::Varint(_) | Value::Fixed64(_) | Value::Fixed32(_) => base + r.pos,
            };
            fields.push((number, value, start));
        }
        Ok(Message { fields, at: base, depth })
    }

    fn wrong<T>(&self, number: u32) -> Read<T> {
        Err(Damage { at: self.at, what: format!("field {number} has another type than it should") })
    }

    fn all(&self, number: u32) -> impl Iterator<Item = (Value<'a>, usize)> + '_ {
        self.fields.iter().filter(move |f| f.0 == number).map(|f| (f.1, f.2))
    }

    /// The fields that hold something else than their default, with their places.
    pub fn set_fields(&self) -> impl Iterator<Item = (u32, usize)> + '_ {
        let set = |v: &Value<'_>| match v {
            Value::Varint(v) => *v != 0,
            Value::Fixed64(b) => *b != [0; 8],
            Value::Fixed32(b) => *b != [0; 4],
            Value::Bytes(b) => !b.is_empty(),
        };
        self.fields.iter().filter(move |f| set(&f.1)).map(|f| (f.0, f.2))
    }

    /// Whether the field is there.
    pub fn has(&self, number: u32) -> bool {
        self.all(number).next().is_some()
    }

    /// An integer; 0 if it is not there.
    pub fn int(&self, number: u32) -> Read<i64> {
        match self.all(number).last() {
            None => Ok(0),
            Some((Value::Varint(v), _)) => Ok(v as i64),
            Some(_) => self.wrong(number),
        }
    }

    pub fn flag(&self, number: u32) -> Read<bool> {
        Ok(self.int(number)? != 0)
    }

    /// Integers, packed or one by one.
    pub fn ints(&self, number: u32) -> Read<Vec<i64>> {
        let mut out = Vec::new();
        for (value, at) in self.all(number) {
            match value {
                Value::Varint(v) => out.push(v as i64),
                Value::Bytes(bytes) => {
                    let mut r = Reader { bytes, pos: 0, base: at };
                    while r.pos < bytes.len() {
                        out.push(r.varint()? as i64);
                    }
                }
                Value::Fixed64(_) | Value::Fixed32(_) => return self.wrong(number),
            }
        }
        Ok(out)
    }

    /// The bytes of fixed-width numbers, packed or one by one.
    pub fn fixed(&self, number: u32) -> Vec<u8> {
        let mut out = Vec::new();
        for (value, _) in self.all(number) {
            match value {
                Value::Fixed64(b) => out.extend(b),
                Value::Fixed32(b) => out.extend(b),
                Value::Bytes(b) => out.extend(b),
                Value::Varint(_) => {}
            }
        }
        out
    }

    /// A 32-bit float; 0 if it is not there.
    pub fn float(&self, number: u32) -> Read<f32> {
        match self.all(number).last() {
            None => Ok(0.0),
            Some((Value::Fixed32(b), _)) => Ok(f32::from_le_bytes(b)),
            Some(_) => self.wrong(number),
        }
    }

    pub fn bytes(&self, number: u32) -> Read<&'a [u8]> {
        match self.all(number).last() {
            None => Ok(&[]),
            Some((Value::Bytes(b), _)) => Ok(b),
            Some(_) => self.wrong(number),
        }
    }

    pub fn text(&self, number: u32) -> Read<&'a str> {
        let bytes = self.bytes(number)?;
        std::str::from_utf8(bytes)
            .map_err(|_| Damage { at: self.at, what: format!("field {number} is not text in UTF-8") })
    }

    /// The texts of a field, as bytes.
    pub fn texts(&self, number: u32) -> Read<Vec<&'a [u8]>> {
        let text = |(value, _)| match value {
            Value::Bytes(b) => Ok(b),
            Value::Varint(_) | Value::Fixed64(_) | Value::Fixed32(_) => self.wrong(number),
        };
        self.all(number).map(text).collect()
    }

    /// The messages of a field.
    pub fn messages(&self, number: u32) -> Read<Vec<Message<'a>>> {
        self.all(number)
            .map(|(value, at)| match value {
                Value::Bytes(b) => Message::parse(b, at, self.depth + 1),
                Value::Varint(_) | Value::Fixed64(_) | Value::Fixed32(_) => self.wrong(number),
            })
            .collect()
    }

    /// The message of a field, if it is there (the last one).
    pub fn message(&self, number: u32) -> Read<Option<Message<'a>>> {
        Ok(self.messages(number)?.pop())
    }
}
