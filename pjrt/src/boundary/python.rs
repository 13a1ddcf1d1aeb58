//! What the Python package `systole` calls besides the interface, by `ctypes`: callbacks, reports of what ran, runs of its own.
//!
//! Answers are frames of bytes: the length of a text of JSON (8 bytes, little-endian), the text, then blobs, each after its
//! length. The caller gives a frame back to [`systole_free`].
#![allow(clippy::missing_safety_doc, reason = "the proofs stand in the code; callers are this package's own")]

use super::{array, given, taken, text};
use crate::error::Error;
use crate::executable::Executable;
use crate::queue::on_large_stack;
use crate::{client, collect, direct, host, types};
use std::ffi::{c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use systole_isa::DType;
use systole_runtime::{Array, profile};

/// An array of either side: element type by the interface's numbers, sizes, rows one after the other.
#[repr(C)]
pub struct HostArray {
    kind: u32,
    rank: usize,
    dims: *const u64,
    data: *mut u8,
    bytes: usize,
}

/// A frame for the caller.
#[repr(C)]
pub struct Frame {
    data: *const u8,
    size: usize,
    owner: *mut c_void,
}

/// A callback in Python: its number, operands, results to be written to, and a place for what went wrong (its size; the
/// text ends with a zero byte). Gives 0 if all is well.
pub type Handler =
    unsafe extern "C" fn(u64, *const HostArray, usize, *const HostArray, usize, *mut c_char, usize) -> i32;

fn frame(json: &serde_json::Value, blobs: &[&[u8]]) -> Frame {
    let text = json.to_string();
    let mut out = Vec::with_capacity(text.len() + 8 + blobs.iter().map(|b| b.len() + 8).sum::<usize>());
    for part in std::iter::once(text.as_bytes()).chain(blobs.iter().copied()) {
        out.extend((part.len() as u64).to_le_bytes());
        out.extend(part);
    }
    let (data, size) = (out.as_ptr(), out.len());
    Frame { data, size, owner: given(out).cast() }
}

/// The frame of an answer or an error; no panic leaves.
fn answered(body: impl FnOnce() -> Result<Frame, Error>) -> Frame {
    let message = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(frame)) => return frame,
        Ok(Err(e)) => e.message,
        Err(_) => "systole panicked, which is a bug of it".to_string(),
    };
    frame(&serde_json::json!({ "error": message }), &[])
}

/// The arrays of the caller, copied.
///
/// # Safety
/// `n` arrays whose data has the size that stands beside it.
unsafe fn arrays(list: *const HostArray, n: usize) -> Result<Vec<Array>, Error> {
    // SAFETY: as the caller of this promises.
    let list = unsafe { array(list, n) };
    let one = |a: &HostArray| {
        let dtype = types::from_number(a.kind).ok_or_else(|| Error::invalid("an unknown element type"))?;
        // SAFETY: as the caller of this promises.
        let (dims, data) = unsafe { (array(a.dims, a.rank), array(a.data.cast_const(), a.bytes)) };
        let need = dims.iter().try_fold(dtype.host_bytes() as u64, |n, d| n.checked_mul(*d));
        if need != Some(data.len() as u64) {
            return Err(Error::invalid("an array's data does not have the size of its type"));
        }
        Ok(Array::new(dtype, dims, data.to_vec()))
    };
    list.iter().map(one).collect()
}

fn described(dtype: DType, dims: &[u64], data: &mut [u8]) -> HostArray {
    HostArray {
        kind: types::to_number(dtype),
        rank: dims.len(),
        dims: dims.as_ptr(),
        data: data.as_mut_ptr(),
        bytes: data.len(),
    }
}

/// Sets what callbacks of programs go to.
#[unsafe(no_mangle)]
pub extern "C" fn systole_set_handler(handler: Handler) {
    host::set_handler(Arc::new(move |number, operands: &[Array], results: &[(DType, Vec<u64>)]| {
        let mut inputs: Vec<Array> = operands.to_vec();
        let given: Vec<HostArray> = inputs.iter_mut().map(|a| described(a.dtype, &a.dims, &mut a.bytes)).collect();
        let size = |(t, d): &(DType, Vec<u64>)| d.iter().product::<u64>() as usize * t.host_bytes();
        let mut outputs: Vec<Array> = results.iter().map(|r| Array::new(r.0, &r.1, vec![0; size(r)])).collect();
        let wanted: Vec<HostArray> = outputs.iter_mut().map(|a| described(a.dtype, &a.dims, &mut a.bytes)).collect();
        let mut message = vec![0u8; 4096];
        // SAFETY: the handler is the package's own: it reads and writes the arrays within their sizes, during the call.
        let status = unsafe {
            handler(
                number,
                given.as_ptr(),
                given.len(),
                wanted.as_ptr(),
                wanted.len(),
                message.as_mut_ptr().cast(),
                message.len(),
            )
        };
        if status == 0 {
            return Ok(outputs);
        }
        let end = message.iter().position(|b| *b == 0).unwrap_or(0);
        Err(String::from_utf8_lossy(&message[..end]).into_owned())
    }));
}

/// Frees a frame.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn systole_free(owner: *mut c_void) {
    // SAFETY: the caller gives back the owner of a frame, once.
    unsafe { taken(owner.cast::<Vec<u8>>()) }
}

/// Begins to collect reports of runs; `profiles`: with spans of time.
#[unsafe(no_mangle)]
pub extern "C" fn systole_collect_begin(profiles: bool) {
    collect::begin(profiles);
}

/// Ends what [`systole_collect_begin`] began.
#[unsafe(no_mangle)]
pub extern "C" fn systole_collect_end(profiles: bool) {
    collect::end(profiles);
}

/// The runs collected so far, which are forgotten here: `[{"name", "report", "profile": blob or null}]`.
#[unsafe(no_mangle)]
pub extern "C" fn systole_collect_take() -> Frame {
    answered(|| {
        let runs = collect::take();
        let mut blobs: Vec<&[u8]> = Vec::new();
        let mut list = Vec::new();
        for r in &runs {
            let report: serde_json::Value =
                serde_json::from_str(&r.report).map_err(|e| Error::internal(e.to_string()))?;
            let number = r.profile.as_ref().map(|p| {
                blobs.push(p);
                blobs.len() - 1
            });
            list.push(serde_json::json!({ "name": r.name, "report": report, "profile": number }));
        }
        Ok(frame(&serde_json::Value::Array(list), &blobs))
    })
}

/// Sets how programs run from now on: `full`, `timing`, `numeric`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn systole_set_mode(mode: *const c_char, size: usize) -> Frame {
    // SAFETY: text of the length that stands beside it.
    let mode = unsafe { text(mode, size) };
    answered(|| {
        client::set_mode(&mode)?;
        Ok(frame(&serde_json::json!({}), &[]))
    })
}

/// Lets the zeros of runs that only count cycles be read, or not.
#[unsafe(no_mangle)]
pub extern "C" fn systole_allow_made_up(allowed: bool) {
    host::allow_made_up(allowed);
}

/// Waits until everything that was started has run.
#[unsafe(no_mangle)]
pub extern "C" fn systole_drain() {
    client::each(|c| c.queue.drain());
}

/// The plan and the assembly of a loaded program, by its fingerprint: `{"plan", "assembly"}`; the plan is null where the
/// program was not compiled in this process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn systole_code(fingerprint: *const c_char, size: usize) -> Frame {
    // SAFETY: text of the length that stands beside it.
    let fingerprint = unsafe { text(fingerprint, size) };
    answered(|| {
        let e = Executable::of(&fingerprint).ok_or_else(|| Error::invalid("this program is not loaded"))?;
        Ok(frame(&serde_json::json!({ "plan": on_large_stack(|| e.plan())?, "assembly": e.assembly()? }), &[]))
    })
}

/// Compiles and runs a program without the interface. `options`: JSON with `chip`, `set`, `mode`, `name`, `profile`.
/// The answer: `{"report", "outputs": [{"kind", "dims"}], "profile": blob or null}`; the outputs' elements are the first
/// blobs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn systole_run(
    code: *const u8,
    size: usize,
    options: *const c_char,
    options_size: usize,
    inputs: *const HostArray,
    count: usize,
) -> Frame {
    // SAFETY: code and text of the lengths that stand beside them, and `count` arrays.
    let (code, options, inputs) = unsafe { (array(code, size), text(options, options_size), arrays(inputs, count)) };
    answered(|| {
        let done = direct::run(code, &options, inputs?)?;
        let mut blobs: Vec<&[u8]> = done.outputs.iter().map(|a| &a.bytes[..]).collect();
        let shapes: Vec<serde_json::Value> = (done.outputs.iter())
            .map(|a| serde_json::json!({ "kind": types::to_number(a.dtype), "dims": a.dims }))
            .collect();
        let number = done.profile.as_ref().map(|p| {
            blobs.push(p);
            blobs.len() - 1
        });
        let json = serde_json::json!({ "report": done.report, "outputs": shapes, "profile": number });
        Ok(frame(&json, &blobs))
    })
}

/// A profile in another form: `html`, `xplane`, `roofline` (a picture), `units` (a picture).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn systole_export(bytes: *const u8, size: usize, form: *const c_char, form_size: usize) -> Frame {
    // SAFETY: bytes and text of the lengths that stand beside them.
    let (bytes, form) = unsafe { (array(bytes, size), text(form, form_size)) };
    answered(|| {
        let p = profile::read(bytes).map_err(|e| Error::invalid(e.to_string()))?;
        let out = direct::export(&p, &form)?;
        Ok(frame(&serde_json::json!({}), &[&out]))
    })
}
