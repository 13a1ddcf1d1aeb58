//! Literals as HLO text.

use super::Literal;
use super::number::{decode_float, encode_nan, nan_payload_bits};
use std::fmt::Write;
use systole_isa::DType;
use systole_isa::dtype::DTypeClass;

/// Splat literals with at least so many elements are written `{...x}`.
pub const SPLAT_FROM: usize = 1024;

/// Writes the text between the parentheses of `constant(..)`.
pub fn literal(l: &Literal, out: &mut String) {
    match l.as_splat() {
        Some(bytes) if l.elements() >= SPLAT_FROM => {
            out.push_str("{...");
            element(l.dtype, bytes, out);
            out.push('}');
        }
        _ => {
            let mut next = 0;
            dimension(l, 0, &mut next, out);
        }
    }
}

fn dimension(l: &Literal, dim: usize, next: &mut usize, out: &mut String) {
    if dim == l.dims.len() {
        element(l.dtype, l.element(*next), out);
        *next += 1;
        return;
    }
    if l.elements() == 0 && l.dims[dim] as usize > SPLAT_FROM {
        out.push_str("{...}"); // nothing but braces: leave them out
        return;
    }
    out.push('{');
    for i in 0..l.dims[dim] {
        if i > 0 {
            out.push_str(if dim + 1 == l.dims.len() { "," } else { ", " });
        }
        dimension(l, dim + 1, next, out);
    }
    out.push('}');
}

fn element(dtype: DType, bytes: &[u8], out: &mut String) {
    let bits = |b: &[u8]| {
        let mut word = [0; 8];
        word[..b.len()].copy_from_slice(b);
        u64::from_le_bytes(word)
    };
    match dtype.class() {
        DTypeClass::Pred => out.push_str(if bytes[0] != 0 { "true" } else { "false" }),
        DTypeClass::Unsigned => put(out, format_args!("{}", bits(bytes) & mask(dtype))),
        DTypeClass::Signed => {
            let unused = 64 - dtype.bits();
            put(out, format_args!("{}", ((bits(bytes) << unused) as i64) >> unused));
        }
        DTypeClass::Float => float(dtype, bits(bytes), out),
        DTypeClass::Complex => {
            let (re, im) = bytes.split_at(bytes.len() / 2);
            out.push('(');
            float(dtype.real(), bits(re), out);
            out.push_str(", ");
            float(dtype.real(), bits(im), out);
            out.push(')');
        }
    }
}

fn mask(dtype: DType) -> u64 {
    u64::MAX >> (64 - dtype.bits())
}

fn put(out: &mut String, args: std::fmt::Arguments<'_>) {
    out.write_fmt(args).expect("a String takes any text");
}

/// The shortest text that reads back as the same bits.
fn float(dtype: DType, bits: u64, out: &mut String) {
    let v = decode_float(dtype, bits);
    let negative = bits >> (dtype.bits() - 1) & 1 == 1;
    if v.is_nan() {
        out.push_str(if negative { "-nan" } else { "nan" });
        if let Some(n) = nan_payload_bits(dtype).filter(|_| bits != encode_nan(dtype, negative, None)) {
            put(out, format_args!("(0x{:x})", bits & ((1 << n) - 1)));
        }
    } else if v.is_infinite() {
        out.push_str(if negative { "-inf" } else { "inf" });
    } else if dtype == DType::F64 {
        number(v, format!("{v:?}"), out);
    } else {
        // Every narrower value is an f32; its shortest text is enough for the narrower type too.
        number(v, format!("{:?}", v as f32), out);
    }
}

/// Whole numbers without `.0`.
fn number(v: f64, text: String, out: &mut String) {
    match text.strip_suffix(".0") {
        Some(whole) if v != 0.0 || !v.is_sign_negative() => out.push_str(whole),
        _ => out.push_str(&text),
    }
}
