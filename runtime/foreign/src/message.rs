//! What goes between the two processes: lists of byte strings, each behind its length, the list behind its own; lengths are 64 bits,
//! little-endian.

use std::io::{Error, ErrorKind, Read, Result, Write};

/// Byte strings of a message at the most. A call has one for each operand and two more.
const MOST_PARTS: u64 = 1 << 20;

/// Writes a message.
pub(crate) fn send(to: &mut impl Write, parts: &[&[u8]]) -> Result<()> {
    to.write_all(&(parts.len() as u64).to_le_bytes())?;
    for part in parts {
        to.write_all(&(part.len() as u64).to_le_bytes())?;
        to.write_all(part)?;
    }
    to.flush()
}

/// Reads a message. What its lengths say is taken from memory only as its bytes come.
pub(crate) fn receive(from: &mut impl Read) -> Result<Vec<Vec<u8>>> {
    let count = length(from)?;
    if count > MOST_PARTS {
        return Err(Error::new(ErrorKind::InvalidData, format!("a message of {count} parts")));
    }
    (0..count).map(|_| part(from)).collect()
}

fn part(from: &mut impl Read) -> Result<Vec<u8>> {
    let wanted = length(from)?;
    let mut bytes = Vec::new();
    let read = from.take(wanted).read_to_end(&mut bytes)?;
    match read as u64 == wanted {
        true => Ok(bytes),
        false => Err(ErrorKind::UnexpectedEof.into()),
    }
}

fn length(from: &mut impl Read) -> Result<u64> {
    let mut bytes = [0; 8];
    from.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

/// Sizes as one byte string.
pub(crate) fn of_sizes(sizes: &[usize]) -> Vec<u8> {
    sizes.iter().flat_map(|&n| (n as u64).to_le_bytes()).collect()
}

/// What [`of_sizes`] wrote.
pub(crate) fn sizes(bytes: &[u8]) -> Vec<usize> {
    bytes.as_chunks::<8>().0.iter().map(|b| u64::from_le_bytes(*b) as usize).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_read_back() {
        let mut stream = Vec::new();
        let sizes_sent = of_sizes(&[3, 1 << 40]);
        let sent: [&[u8]; 4] = [b"call", b"", &sizes_sent, &[7; 100]];
        send(&mut stream, &sent).expect("a vector takes all");
        assert_eq!(receive(&mut &stream[..]).expect("whole"), sent);
        assert_eq!(sizes(&sizes_sent), [3, 1 << 40]);
        for end in 0..stream.len() {
            assert!(receive(&mut &stream[..end]).is_err(), "the first {end} bytes alone");
        }
    }

    #[test]
    fn lengths_that_are_lies_take_no_memory() {
        let huge = u64::MAX.to_le_bytes();
        assert!(receive(&mut &huge[..]).is_err());
        let one_part = [1u64.to_le_bytes(), u64::MAX.to_le_bytes()].concat();
        assert!(receive(&mut &one_part[..]).is_err());
    }
}
