//! Operands as text: how each kind is written and read.

use super::lex::integer;
use crate::float::F8;
use crate::table::{Kind, MxuFormat};

/// How an operand of this kind is written, for messages and the reference page.
pub(crate) fn describe(kind: Kind) -> &'static str {
    match kind {
        Kind::Sd | Kind::Su | Kind::Sm => "a scalar register (`s3`)",
        Kind::Vd | Kind::Vu => "a vector register (`v3`)",
        Kind::Pd | Kind::Pu => "a register pair (`p4` for v4 and v5)",
        Kind::Md | Kind::Mu => "a mask register (`m3`)",
        Kind::I32 => "a 32-bit number (`-5`, `0xff`, `1.5f` for the bits of an f32, `@name` for an address)",
        Kind::I20 | Kind::I16 => "a signed number",
        Kind::U8 | Kind::U4 => "a number",
        Kind::Target => "a label",
        Kind::Desc => "a descriptor's name",
        Kind::Sem => "a semaphore (`sem3`)",
        Kind::Mxu => "a matrix unit (`mxu0`)",
        Kind::Xlu => "a cross-lane unit (`xlu0`)",
        Kind::Fmt => "a matrix-unit format (bf16, high, mid, low, highfinite, s8, u8, f8)",
        Kind::F8 => {
            "a float format of at most 8 bits (e4m3fn, e5m2, e4m3, e4m3b11fnuz, e4m3fnuz, e5m2fnuz, e3m4, e8m0fnu, e2m1fn)"
        }
    }
}

impl Kind {
    /// The text before the number of a register, unit or semaphore; none of other operands.
    pub fn prefix(self) -> Option<&'static str> {
        match self {
            Kind::Sd | Kind::Su | Kind::Sm => Some("s"),
            Kind::Vd | Kind::Vu => Some("v"),
            Kind::Pd | Kind::Pu => Some("p"),
            Kind::Md | Kind::Mu => Some("m"),
            Kind::Sem => Some("sem"),
            Kind::Mxu => Some("mxu"),
            Kind::Xlu => Some("xlu"),
            Kind::I32 | Kind::I20 | Kind::I16 | Kind::U8 | Kind::U4 => None,
            Kind::Target | Kind::Desc | Kind::Fmt | Kind::F8 => None,
        }
    }
}

/// Largest magnitude of a 32-bit immediate that is printed in decimal.
const DECIMAL: i32 = 1 << 20;

/// Prints an operand. Targets are labels `L<bundle>`, descriptors `d<index>`.
pub(super) fn print(kind: Kind, value: i32, out: &mut String) {
    use std::fmt::Write;
    let result = match kind {
        Kind::Target => write!(out, "L{value}"),
        Kind::Desc => write!(out, "d{value}"),
        Kind::Fmt => match MxuFormat::ALL.get(value as usize) {
            Some(f) => write!(out, "{}", f.name()),
            None => write!(out, "{value}"),
        },
        Kind::F8 => match F8::from_number(value) {
            Some(f) => write!(out, "{}", f.name()),
            None => write!(out, "{value}"),
        },
        Kind::I32 if !(-DECIMAL..=DECIMAL).contains(&value) => write!(out, "0x{value:08x}"),
        Kind::I32 | Kind::I20 | Kind::I16 | Kind::U8 | Kind::U4 => write!(out, "{value}"),
        Kind::Sd
        | Kind::Su
        | Kind::Sm
        | Kind::Vd
        | Kind::Vu
        | Kind::Pd
        | Kind::Pu
        | Kind::Md
        | Kind::Mu
        | Kind::Sem
        | Kind::Mxu
        | Kind::Xlu => write!(out, "{}{value}", kind.prefix().unwrap_or("")),
    };
    result.expect("a String takes all text");
}

/// Reads an operand other than labels, descriptors and addresses; ranges are checked by the encoder.
pub(super) fn parse(kind: Kind, word: &str) -> Option<i32> {
    if let Some(prefix) = kind.prefix() {
        let digits = word.strip_prefix(prefix)?;
        let plain = digits.len() <= 9 && !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        return if plain { digits.parse().ok() } else { None };
    }
    if kind == Kind::Fmt {
        return MxuFormat::ALL.iter().position(|f| f.name() == word).map(|i| i as i32);
    }
    if kind == Kind::F8 {
        return F8::ALL.iter().position(|f| f.name() == word).map(|i| i as i32);
    }
    let hexadecimal = word.starts_with("0x");
    if kind == Kind::I32
        && let Some(real) = word.strip_suffix('f').filter(|_| !hexadecimal)
    {
        return real.parse::<f32>().ok().map(|x| x.to_bits() as i32);
    }
    integer(word).and_then(|n| match i32::try_from(n) {
        Ok(n) => Some(n),
        // Hexadecimal may state all 32 bits.
        Err(_) if kind == Kind::I32 && hexadecimal => u32::try_from(n).ok().map(|n| n as i32),
        Err(_) => None,
    })
}
