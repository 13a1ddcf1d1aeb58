//! What kernels print, and what they check: `pl.debug_print` and `pl.debug_check` of Pallas.
//!
//! A line says the chip, the time, the line of Python and the text: `[chip 0, 2.88 us, kernel.py:7] step 1 of 4`.

use systole_compiler::graph::number::decode_float;
use systole_compiler::mosaic::console::{ARRAY, CHECK, NUMBERS, Print, What};
use systole_isa::program::HostCall;
use systole_isa::{DType, Layout};
use systole_simulator::{HostMemory, Moment};

/// The line that a call prints, or why it ends the run.
///
/// # Errors
/// A check that does not hold; text of a damaged program.
pub fn said(call: &HostCall, memory: &dyn HostMemory) -> Result<String, String> {
    if call.target == CHECK {
        return Err(format!("check failed: {}", call.config));
    }
    let damaged = || format!("`{}` of a damaged program: {}", call.target, call.config);
    let print = Print::parse(&call.config).ok_or_else(damaged)?;
    let word = |i: u32| print.at.checked_add(i).and_then(|at| memory.scalar(at)).ok_or_else(damaged);
    let numbers = match &print.what {
        What::Numbers(types) if call.target == NUMBERS => {
            let one = |(i, t): (usize, &DType)| word(i as u32).map(|w| number(*t, w));
            types.iter().enumerate().map(one).collect::<Result<Vec<String>, String>>()?
        }
        What::Array(layout) if call.target == ARRAY => {
            let mut bytes = vec![0; layout.bytes() as usize];
            if !memory.vector(word(0)? as u32, &mut bytes) {
                return Err(damaged());
            }
            vec![elements(layout, &bytes)]
        }
        What::Numbers(_) | What::Array(_) => return Err(damaged()),
    };
    let Moment { device, cycle, seconds } = memory.moment();
    let time = if cycle == 0 { String::new() } else { format!(", {:.3} us", seconds * 1e6) };
    let place = if print.place.is_empty() { String::new() } else { format!(", {}", print.place) };
    Ok(format!("[chip {device}{time}{place}] {}", print.with(&numbers)))
}

fn number(t: DType, word: i32) -> String {
    if t.is_float() { f32::from_bits(word as u32).to_string() } else { word.to_string() }
}

/// An array as nested lists, one row a line.
fn elements(layout: &Layout, bytes: &[u8]) -> String {
    let size = layout.dtype.host_bytes().max(1);
    let all: Vec<String> = layout.to_host(bytes).chunks_exact(size).map(|b| element(layout.dtype, b)).collect();
    let columns = layout.dims.last().map_or(1, |n| (*n as usize).max(1));
    let rows: Vec<String> = all.chunks(columns).map(|r| format!("[{}]", r.join(" "))).collect();
    if rows.len() == 1 { rows.concat() } else { format!("[{}]", rows.join("\n ")) }
}

fn element(t: DType, bytes: &[u8]) -> String {
    let raw = bytes.iter().take(8).rev().fold(0u64, |n, b| n << 8 | u64::from(*b));
    let spare = 64 - 8 * bytes.len().min(8) as u32;
    let unsigned = matches!(t, DType::U2 | DType::U4 | DType::U8 | DType::U16 | DType::U32 | DType::U64);
    if t == DType::F64 {
        decode_float(t, raw).to_string()
    } else if t.is_float() {
        // Of f32, which holds all the narrower ones, the shortest text.
        (decode_float(t, raw) as f32).to_string()
    } else if t == DType::Pred {
        (raw != 0).to_string()
    } else if unsigned {
        raw.to_string()
    } else {
        ((raw << spare) as i64 >> spare).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_of_every_type_have_a_text() {
        let text = |t: DType, bytes: &[u8]| element(t, bytes);
        assert_eq!(text(DType::F32, &0.1f32.to_le_bytes()), "0.1");
        assert_eq!(text(DType::F64, &0.1f64.to_le_bytes()), "0.1");
        assert_eq!(text(DType::BF16, &0xc020u16.to_le_bytes()), "-2.5");
        assert_eq!(text(DType::F8E4M3FN, &[0x38]), "1");
        assert_eq!(text(DType::F8E5M2, &[0xff]), "NaN");
        assert_eq!(text(DType::U8, &[200]), "200");
        assert_eq!(text(DType::S16, &(-3i16).to_le_bytes()), "-3");
        assert_eq!(text(DType::Pred, &[1]), "true");
    }
}
