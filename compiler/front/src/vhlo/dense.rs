//! Constants: raw elements to `dense<..>`.

use std::fmt::Write;
use systole_isa::DType;
use systole_isa::dtype::DTypeClass;
use systole_mlir_bytecode::Error;

/// Elements that are written as numbers; more are written as bytes.
const MAX_NUMBERS: usize = 16;

/// The elements, one after the other; a single one that stands for all.
struct Elements {
    dtype: DType,
    bytes: Vec<u8>,
    is_splat: bool,
    count: usize,
}

fn elements((dims, dtype): &(Vec<u64>, DType), data: &[u8]) -> Result<Elements, Error> {
    let wrong = |n: u64| Error::new(0, format!("a constant of {n} elements of {dtype} has {} bytes", data.len()));
    let n = dims.iter().try_fold(1u64, |n, d| n.checked_mul(*d)).ok_or_else(|| wrong(u64::MAX))?;
    let size = dtype.host_bytes();
    let count = usize::try_from(n).map_err(|_| wrong(n))?;
    let one = |bytes: Vec<u8>| Elements { dtype: *dtype, bytes, is_splat: true, count };
    if *dtype == DType::Pred {
        return match data {
            [] if n == 0 => Ok(one(Vec::new())),
            // All bits of the byte are set where it stands for all elements; else they are packed.
            [0] | [0xff] => Ok(one(vec![data[0] & 1])),
            _ if data.len() == count.div_ceil(8) => {
                let bytes = (0..count).map(|i| data[i / 8] >> (i % 8) & 1).collect();
                Ok(Elements { dtype: *dtype, bytes, is_splat: false, count })
            }
            _ if data.len() == count => {
                let bytes = data.iter().map(|b| u8::from(*b != 0)).collect();
                Ok(Elements { dtype: *dtype, bytes, is_splat: false, count })
            }
            _ => Err(wrong(n)),
        };
    }
    match data.len() {
        0 if n == 0 => Ok(one(Vec::new())),
        len if count > 0 && count.checked_mul(size) == Some(len) => {
            Ok(Elements { dtype: *dtype, bytes: data.to_vec(), is_splat: count == 1, count })
        }
        len if len == size => Ok(one(data.to_vec())),
        _ => Err(wrong(n)),
    }
}

/// What stands inside `dense<..>`.
pub(super) fn inside(shape: &(Vec<u64>, DType), data: &[u8]) -> Result<String, Error> {
    let e = elements(shape, data)?;
    let size = e.dtype.host_bytes();
    let mut out = String::new();
    if e.count == 0 || e.bytes.is_empty() {
        return Ok(out);
    }
    if e.is_splat {
        number(e.dtype, &e.bytes, &mut out);
    } else if e.count <= MAX_NUMBERS {
        let mut rest = &e.bytes[..];
        nested(&shape.0, e.dtype, &mut rest, &mut out);
    } else {
        const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
        out.reserve(e.count * size * 2 + 4);
        out += "\"0x";
        for b in &e.bytes {
            out.push(DIGITS[usize::from(b >> 4)] as char);
            out.push(DIGITS[usize::from(b & 15)] as char);
        }
        out.push('"');
    }
    Ok(out)
}

fn nested(dims: &[u64], dtype: DType, rest: &mut &[u8], out: &mut String) {
    let Some((n, inner)) = dims.split_first() else {
        let (first, left) = rest.split_at(dtype.host_bytes());
        *rest = left;
        return number(dtype, first, out);
    };
    out.push('[');
    for i in 0..*n {
        if i > 0 {
            *out += ", ";
        }
        nested(inner, dtype, rest, out);
    }
    out.push(']');
}

/// One element.
pub(super) fn number(dtype: DType, bytes: &[u8], out: &mut String) {
    let mut word = [0; 8];
    let n = bytes.len().min(8);
    word[..n].copy_from_slice(&bytes[..n]);
    let bits = u64::from_le_bytes(word);
    let done = match dtype.class() {
        DTypeClass::Pred => write!(out, "{}", bits != 0),
        DTypeClass::Unsigned => write!(out, "{}", bits & (u64::MAX >> (64 - dtype.bits()))),
        DTypeClass::Signed => {
            let unused = 64 - dtype.bits();
            write!(out, "{}", (bits << unused) as i64 >> unused)
        }
        _ if dtype.is_complex() => {
            let (re, im) = bytes.split_at(bytes.len() / 2);
            out.push('(');
            number(dtype.real(), re, out);
            *out += ", ";
            number(dtype.real(), im, out);
            write!(out, ")")
        }
        DTypeClass::Float | DTypeClass::Complex => float(dtype, bits, out),
    };
    done.expect("strings take any text");
}

/// Decimal where that says all of it, else the bits.
#[allow(clippy::wildcard_enum_match_arm, reason = "every other type is written by its bits")]
pub(super) fn float(dtype: DType, bits: u64, out: &mut String) -> std::fmt::Result {
    let exact = match dtype {
        DType::F32 => {
            let v = f32::from_bits(bits as u32);
            let text = format!("{v:e}");
            (v.is_finite() && text.parse::<f64>().is_ok_and(|w| (w as f32).to_bits() == v.to_bits())).then_some(text)
        }
        DType::F64 => {
            let v = f64::from_bits(bits);
            v.is_finite().then(|| format!("{v:e}"))
        }
        _ => None,
    };
    match exact {
        // `1e0` is written `1.0e0`, as MLIR wants it.
        Some(text) if text.contains('.') => write!(out, "{text}"),
        Some(text) => write!(out, "{}", text.replacen('e', ".0e", 1)),
        None => write!(out, "0x{bits:0width$X}", width = dtype.host_bytes() * 2),
    }
}

/// The elements of a tensor of integers; at most as many as a short list has.
pub(super) fn integers(shape: (Vec<u64>, DType), data: &[u8]) -> Result<Vec<i64>, Error> {
    let e = elements(&shape, data)?;
    let size = e.dtype.host_bytes();
    if e.count > 1 << 16 || !(e.dtype.is_integer() || e.dtype == DType::Pred) {
        return Err(Error::new(0, "a short list of integers is due"));
    }
    let one = |bytes: &[u8]| {
        let mut word = [0; 8];
        word[..size].copy_from_slice(bytes);
        let unused = 64 - e.dtype.bits();
        (u64::from_le_bytes(word) << unused) as i64 >> unused
    };
    let list: Vec<i64> = e.bytes.chunks_exact(size).map(one).collect();
    Ok(if e.is_splat && e.count > 1 { vec![list[0]; e.count] } else { list })
}
