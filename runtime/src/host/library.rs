//! Host functions in shared libraries, with the C signature `void f(void* out, void** in)`.
//!
//! `in` has a pointer to each operand's elements, `out` points to the result's: row-major, little-endian, as in array
//! files. A result of several arrays is reached through pointers, as operands are. This is the one module with
//! `unsafe` code: what a foreign function does cannot be proved here, only that it gets what the signature promises.
#![allow(unsafe_code, reason = "foreign functions are called here and nowhere else")]

use super::CustomCall;
use crate::{Array, RuntimeError};
use std::ffi::c_void;
use systole_isa::DType;

type Function = unsafe extern "C" fn(*mut c_void, *mut *mut c_void);

/// A loaded library.
#[derive(Debug)]
pub struct Library {
    path: String,
    library: libloading::Library,
}

/// Bytes at an address that suits every element type.
struct Aligned {
    words: Vec<u128>,
}

impl Aligned {
    fn of(bytes: &[u8]) -> Aligned {
        let mut words = vec![0u128; bytes.len().div_ceil(16).max(1)];
        for (word, chunk) in words.iter_mut().zip(bytes.chunks(16)) {
            let mut whole = [0; 16];
            whole[..chunk.len()].copy_from_slice(chunk);
            *word = u128::from_ne_bytes(whole);
        }
        Aligned { words }
    }

    fn pointer(&mut self) -> *mut c_void {
        self.words.as_mut_ptr().cast()
    }

    fn bytes(&self, len: usize) -> Vec<u8> {
        self.words.iter().flat_map(|w| w.to_ne_bytes()).take(len).collect()
    }
}

fn bytes_of(dtype: DType, dims: &[u64]) -> usize {
    dims.iter().product::<u64>() as usize * dtype.host_bytes()
}

impl Library {
    /// Loads a shared library.
    ///
    /// # Errors
    /// If there is no such library, or it cannot be loaded.
    pub fn load(path: &str) -> Result<Library, RuntimeError> {
        // A bare name would be searched for in the system's folders.
        let found = std::fs::canonicalize(path).map_err(|e| RuntimeError::Request(format!("{path}: {e}")))?;
        // SAFETY: loading runs the library's initialisers. The user names the library in order to run its code in this
        // process; there is no way to load one without that.
        let library = unsafe { libloading::Library::new(found) };
        let library = library.map_err(|e| RuntimeError::Request(format!("{path}: {e}")))?;
        Ok(Library { path: path.to_string(), library })
    }

    /// Whether the library has a function of that name.
    pub fn has(&self, target: &str) -> bool {
        self.function(target).is_ok()
    }

    fn function(&self, target: &str) -> Result<libloading::Symbol<'_, Function>, String> {
        // SAFETY: the symbol is only called in `call`, and keeps the library borrowed, so loaded, meanwhile. That it has
        // the signature is the contract of custom-call libraries; symbols carry no types to check it by.
        let symbol = unsafe { self.library.get::<Function>(target.as_bytes()) };
        symbol.map_err(|e| format!("{}: {e}", self.path))
    }

    /// Calls a function of the library.
    ///
    /// # Errors
    /// If there is none of that name.
    pub fn call(&self, request: &CustomCall<'_>, operands: &[Array]) -> Result<Vec<Array>, String> {
        let function = self.function(request.target)?;
        let mut inputs: Vec<Aligned> = operands.iter().map(|a| Aligned::of(&a.bytes)).collect();
        let mut input_pointers: Vec<*mut c_void> = inputs.iter_mut().map(Aligned::pointer).collect();
        let sizes: Vec<usize> = request.results.iter().map(|(t, d)| bytes_of(*t, d)).collect();
        let mut outputs: Vec<Aligned> = sizes.iter().map(|&n| Aligned::of(&vec![0; n])).collect();
        let mut output_pointers: Vec<*mut c_void> = outputs.iter_mut().map(Aligned::pointer).collect();
        let out = match output_pointers[..] {
            [one] => one,
            _ => output_pointers.as_mut_ptr().cast(),
        };
        // SAFETY: `in` points to one pointer for each operand, `out` to the result or to one pointer for each of
        // several; each leads to memory of its array's size, aligned to 16 bytes, that this call owns and that nothing
        // else refers to until the function has returned. A function that keeps to the signature touches nothing else.
        unsafe { function(out, input_pointers.as_mut_ptr()) };
        let results = request.results.iter().zip(&outputs).zip(sizes);
        Ok(results.map(|(((t, d), o), n)| Array::new(*t, d, o.bytes(n))).collect())
    }
}
