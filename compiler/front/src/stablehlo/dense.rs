//! Constants: `dense<[[1, 2], [3, 4]]>`, splats, `"0x.."` of raw bytes, hexadecimal bit patterns, complex pairs.

use crate::hlo_text::PResult;
use crate::hlo_text::lex::{Cursor, shorten};
use systole_hlo::diag::Diagnostic;
use systole_hlo::graph::number::{encode_float, integer_range};
use systole_hlo::graph::{ArrayShape, Literal, Span};
use systole_isa::DType;
use systole_isa::dtype::DTypeClass;

/// Reads what is inside the angle brackets.
pub(crate) fn parse(c: &mut Cursor<'_>, shape: &ArrayShape) -> PResult<Literal> {
    let size = shape.dtype.host_bytes();
    let elements = shape.elements() as usize;
    let mut bytes = Vec::new();
    match c.peek() {
        None if elements == 0 => {}
        Some(b'"') => bytes = hex_string(c, shape)?,
        Some(b'[') => nested(c, shape, 0, &mut bytes)?,
        _ => element(c, shape.dtype, &mut bytes)?,
    }
    c.finish()?;
    if elements == 0 {
        bytes.clear();
    } else if bytes.len() != size && bytes.len() != elements * size {
        return Err(c.error_here(format!("{shape} needs {elements} elements, not {}", bytes.len() / size)));
    }
    let (first, rest) = bytes.split_at(size.min(bytes.len()));
    if !first.is_empty() && rest.chunks_exact(size).all(|e| e == first) {
        return Ok(Literal::splat(shape.dtype, &shape.dims, first));
    }
    Ok(Literal::new(shape.dtype, &shape.dims, bytes))
}

fn nested(c: &mut Cursor<'_>, shape: &ArrayShape, dim: usize, out: &mut Vec<u8>) -> PResult<()> {
    if dim == shape.rank() {
        return element(c, shape.dtype, out);
    }
    let expected = shape.dims[dim];
    c.expect("[", &format!("to begin dimension {dim} of {shape}"))?;
    let mut n = 0;
    while !c.eat("]") {
        if n > 0 {
            c.expect(",", "or `]` in a constant")?;
        }
        if n == expected {
            return Err(c.error_here(format!("dimension {dim} of {shape} has only {expected} elements")));
        }
        nested(c, shape, dim + 1, out)?;
        n += 1;
    }
    if n == expected {
        return Ok(());
    }
    Err(c.error_here(format!("dimension {dim} of {shape} needs {expected} elements, not {n}")))
}

/// The data of a resource: `0x`, four bytes of alignment, then the elements as in [`hex_string`].
pub(crate) fn resource(text: &str, place: Span, shape: &ArrayShape) -> PResult<Literal> {
    let bad = |what: &str| Box::new(Diagnostic::error(place, what.to_string()));
    let digits = text.strip_prefix("0x").and_then(|t| t.get(8..));
    let Some(digits) = digits else { return Err(bad("the resource is not `0x..` with its alignment and data")) };
    let bytes = hex_bytes(digits, shape, place)?;
    if bytes.len() != shape.elements() as usize * shape.dtype.host_bytes() {
        return Err(bad(&format!("the resource's size does not fit {shape}")));
    }
    Ok(Literal::new(shape.dtype, &shape.dims, bytes))
}

/// `"0x.."`: little-endian elements; `i1` may be packed, eight to a byte.
fn hex_string(c: &mut Cursor<'_>, shape: &ArrayShape) -> PResult<Vec<u8>> {
    let span = c.string()?;
    let text = c.slice(span);
    let bad = |what: &str| Box::new(Diagnostic::error(span, what.to_string()));
    let Some(digits) = text.strip_prefix("0x") else { return Err(bad("expected \"0x..\"")) };
    hex_bytes(digits, shape, span)
}

fn hex_bytes(digits: &str, shape: &ArrayShape, span: Span) -> PResult<Vec<u8>> {
    let bad = |what: &str| Box::new(Diagnostic::error(span, what.to_string()));
    if !digits.len().is_multiple_of(2) {
        return Err(bad("an odd number of hexadecimal digits"));
    }
    let nibble = |b: u8| (b as char).to_digit(16).map(|d| d as u8);
    let mut bytes = Vec::with_capacity(digits.len() / 2);
    for pair in digits.as_bytes().chunks_exact(2) {
        let (Some(high), Some(low)) = (nibble(pair[0]), nibble(pair[1])) else {
            return Err(bad("expected hexadecimal digits"));
        };
        bytes.push(high << 4 | low);
    }
    let elements = shape.elements() as usize;
    if shape.dtype == DType::Pred {
        if bytes.len() == elements {
            bytes.iter_mut().for_each(|b| *b = u8::from(*b != 0));
        } else if bytes.len() == elements.div_ceil(8) {
            return Ok((0..elements).map(|i| bytes[i / 8] >> (i % 8) & 1).collect());
        } else if bytes.len() == 1 {
            return Ok(vec![u8::from(bytes[0] != 0)]);
        }
    }
    if shape.dtype.bits() < 8 {
        let mask = (1u8 << shape.dtype.bits()) - 1;
        bytes.iter_mut().for_each(|b| *b &= mask);
    }
    Ok(bytes)
}

fn element(c: &mut Cursor<'_>, dtype: DType, out: &mut Vec<u8>) -> PResult<()> {
    if dtype.is_complex() {
        c.expect("(", "to begin a complex number `(re, im)`")?;
        real(c, dtype.real(), out)?;
        c.expect(",", "in a complex number `(re, im)`")?;
        real(c, dtype.real(), out)?;
        return c.expect(")", "to end a complex number");
    }
    real(c, dtype, out)
}

fn real(c: &mut Cursor<'_>, dtype: DType, out: &mut Vec<u8>) -> PResult<()> {
    c.skip();
    let rest = c.rest();
    let stop = |b: &u8| matches!(b, b',' | b']' | b')' | b' ' | b'\n' | b'\t' | b'\r');
    let t = &rest[..rest.as_bytes().iter().position(stop).unwrap_or(rest.len())];
    let start = c.pos();
    let fail = |c: &Cursor<'_>| {
        let mut c = c.at(start);
        c.advance(t.len());
        let message = format!("expected an element of type {dtype}, found `{}`", shorten(t).escape_debug());
        Box::new(Diagnostic::error(c.span_from(start), message))
    };
    let (negative, magnitude) = match t.strip_prefix('-') {
        Some(m) => (true, m),
        None => (false, t),
    };
    let hex = magnitude.strip_prefix("0x").map(|h| u64::from_str_radix(h, 16));
    let bits: u64 = match (dtype.class(), hex) {
        (_, Some(Err(_))) => return Err(fail(c)),
        (DTypeClass::Pred, _) => match t {
            "true" | "1" | "-1" => 1,
            "false" | "0" => 0,
            _ => return Err(fail(c)),
        },
        (DTypeClass::Signed | DTypeClass::Unsigned, hex) => {
            let v = match hex {
                Some(Ok(v)) => i128::from(v),
                Some(Err(_)) => return Err(fail(c)),
                None if magnitude.bytes().all(|b| b.is_ascii_digit()) => match magnitude.parse::<i128>() {
                    Ok(v) => v,
                    Err(_) => return Err(fail(c)),
                },
                None => return Err(fail(c)),
            };
            let v = if negative { -v } else { v };
            let (low, high) = integer_range(dtype).unwrap_or((0, 0));
            // A hexadecimal number may give the bits of a negative one.
            if v < low || v > high && !(hex.is_some() && v < 1 << dtype.bits()) {
                return Err(fail(c));
            }
            v as u64 & (u64::MAX >> (64 - dtype.bits()))
        }
        (_, Some(Ok(bits))) if !negative => bits,
        (_, Some(_)) => return Err(fail(c)),
        (_, None) => match t.parse::<f64>() {
            Ok(v) if magnitude.starts_with(|c: char| c.is_ascii_digit()) => encode_float(dtype, v),
            _ => return Err(fail(c)),
        },
    };
    c.advance(t.len());
    out.extend_from_slice(&bits.to_le_bytes()[..dtype.host_bytes()]);
    Ok(())
}
