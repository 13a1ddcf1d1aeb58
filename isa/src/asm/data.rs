//! Reads constants: `.const` opens one, the data directives after it add bytes.

use super::lex::Cursor;
use super::parse::Parser;
use crate::diagnostic::Diagnostic;
use crate::float::bf16_from_f32;
use crate::program::Constant;

/// Most bytes of one constant.
const MAX_CONSTANT: usize = 1 << 32;

impl<'s> Parser<'s> {
    /// `.const [name] [at address]`.
    pub(super) fn constant(&mut self, cursor: &mut Cursor<'s, '_>) -> Result<(), Diagnostic> {
        let mut name = None;
        let mut at = self.at(cursor)?;
        if at.is_none() && !cursor.is_empty() {
            name = Some(cursor.name("the constant's name")?);
            at = self.at(cursor)?;
        }
        let address = at.unwrap_or_else(|| self.hbm_end.next_multiple_of(crate::dma::HBM_GRANULE));
        self.program.constants.push(Constant { address, bytes: Vec::new() });
        self.open_constant = Some(name);
        Ok(())
    }

    /// Ends the constant being read and reserves its place.
    pub(super) fn close_constant(&mut self) {
        let Some(name) = self.open_constant.take() else { return };
        let Some(c) = self.program.constants.last() else { return };
        let (address, bytes) = (c.address, c.bytes.len() as u64);
        // One that does not fit is found when the whole program is checked.
        let _ = self.place(&name.unwrap_or_default(), Some(address), bytes);
    }

    /// Reads a data directive; `None` if `name` is none.
    pub(super) fn data_directive(&mut self, name: &str, cursor: &mut Cursor<'s, '_>) -> Option<Result<(), Diagnostic>> {
        type Reader<'s> = fn(&mut Cursor<'s, '_>, &mut Vec<u8>) -> Result<(), Diagnostic>;
        let item: Reader<'s> = match name {
            "hex" => hex as Reader<'s>,
            "zeros" => zeros as Reader<'s>,
            "f32" => |c, out| {
                out.extend_from_slice(&(c.real("an f32")? as f32).to_le_bytes());
                Ok(())
            },
            "bf16" => |c, out| {
                out.extend_from_slice(&bf16_from_f32(c.real("a bf16")? as f32).to_le_bytes());
                Ok(())
            },
            "s32" => |c, out| {
                let n = c.integer("an s32", i32::MIN as i128, i32::MAX as i128)?;
                out.extend_from_slice(&(n as i32).to_le_bytes());
                Ok(())
            },
            "u32" => |c, out| {
                out.extend_from_slice(&(c.integer("a u32", 0, u32::MAX as i128)? as u32).to_le_bytes());
                Ok(())
            },
            "s8" => |c, out| {
                out.push(c.integer("an s8", -128, 127)? as i8 as u8);
                Ok(())
            },
            "u8" => |c, out| {
                out.push(c.integer("a u8", 0, 255)? as u8);
                Ok(())
            },
            _ => return None,
        };
        Some(self.data(item, cursor))
    }

    fn data(
        &mut self,
        item: fn(&mut Cursor<'s, '_>, &mut Vec<u8>) -> Result<(), Diagnostic>,
        cursor: &mut Cursor<'s, '_>,
    ) -> Result<(), Diagnostic> {
        let (true, Some(constant)) = (self.open_constant.is_some(), self.program.constants.last_mut()) else {
            return Err(self.source.error(self.line_span.0, self.line_span.1, "data follows a `.const` directive"));
        };
        loop {
            item(cursor, &mut constant.bytes)?;
            if cursor.is_empty() {
                return Ok(());
            }
            // Commas between items are optional.
            cursor.take_mark(',');
        }
    }
}

fn hex(cursor: &mut Cursor<'_, '_>, out: &mut Vec<u8>) -> Result<(), Diagnostic> {
    let (word, start, end) = cursor.word("bytes in hexadecimal")?;
    let digit = |b: u8| (b as char).to_digit(16).map(|d| d as u8);
    let (pairs, odd) = word.as_bytes().as_chunks::<2>();
    for &[high, low] in pairs {
        let (Some(high), Some(low)) = (digit(high), digit(low)) else {
            return Err(cursor.source.error(start, end, "expected bytes in hexadecimal"));
        };
        out.push(high << 4 | low);
    }
    if odd.is_empty() { Ok(()) } else { Err(cursor.source.error(start, end, "an odd number of hexadecimal digits")) }
}

fn zeros(cursor: &mut Cursor<'_, '_>, out: &mut Vec<u8>) -> Result<(), Diagnostic> {
    let n = cursor.integer("a number of bytes", 0, (MAX_CONSTANT - out.len().min(MAX_CONSTANT)) as i128)?;
    out.resize(out.len() + n as usize, 0);
    Ok(())
}
