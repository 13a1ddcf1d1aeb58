//! Libraries in this process. What a foreign function does cannot be proved here, only that it gets what the signature
//! promises.
#![allow(unsafe_code, reason = "foreign functions are called here and nowhere else")]

use std::ffi::c_void;
use std::path::Path;

type Function = unsafe extern "C" fn(*mut c_void, *mut *mut c_void);

/// A library that this process has loaded.
#[derive(Debug)]
pub(crate) struct Loaded {
    library: libloading::Library,
}

/// Bytes at an address that suits every element type.
struct Aligned {
    words: Vec<u128>,
}

impl Aligned {
    fn of(bytes: &[u8]) -> Aligned {
        let mut aligned = Aligned::zeros(bytes.len());
        for (word, chunk) in aligned.words.iter_mut().zip(bytes.chunks(16)) {
            let mut whole = [0; 16];
            whole[..chunk.len()].copy_from_slice(chunk);
            *word = u128::from_ne_bytes(whole);
        }
        aligned
    }

    fn zeros(bytes: usize) -> Aligned {
        Aligned { words: vec![0u128; bytes.div_ceil(16).max(1)] }
    }

    fn pointer(&mut self) -> *mut c_void {
        self.words.as_mut_ptr().cast()
    }

    fn bytes(&self, len: usize) -> Vec<u8> {
        self.words.iter().flat_map(|w| w.to_ne_bytes()).take(len).collect()
    }
}

impl Loaded {
    /// Loads a library.
    pub(crate) fn from(file: &Path) -> Result<Loaded, String> {
        // The loader of a static C library sets up what a library starts with for no other than C's own code.
        if cfg!(target_feature = "crt-static") {
            return Err("this program is linked statically and cannot load libraries".to_string());
        }
        // SAFETY: loading runs the library's initialisers. The user names the library in order to run its code; there is
        // no way to load one without that.
        let library = unsafe { libloading::Library::new(file) };
        Ok(Loaded { library: library.map_err(|e| e.to_string())? })
    }

    /// A function by its symbol.
    pub(crate) fn function(&self, name: &str) -> Result<libloading::Symbol<'_, Function>, String> {
        // SAFETY: the symbol is only called in `call`, and keeps the library borrowed, so loaded, meanwhile. That it has
        // the signature is the contract of these libraries; symbols carry no types to check it by.
        let symbol = unsafe { self.library.get::<Function>(name.as_bytes()) };
        symbol.map_err(|e| e.to_string())
    }

    /// [`crate::Library::call`].
    pub(crate) fn call(&self, name: &str, operands: &[&[u8]], sizes: &[usize]) -> Result<Vec<Vec<u8>>, String> {
        let function = self.function(name)?;
        let mut inputs: Vec<Aligned> = operands.iter().map(|o| Aligned::of(o)).collect();
        let mut input_pointers: Vec<*mut c_void> = inputs.iter_mut().map(Aligned::pointer).collect();
        let mut outputs: Vec<Aligned> = sizes.iter().map(|&n| Aligned::zeros(n)).collect();
        let mut output_pointers: Vec<*mut c_void> = outputs.iter_mut().map(Aligned::pointer).collect();
        let out = match output_pointers[..] {
            [one] => one,
            _ => output_pointers.as_mut_ptr().cast(),
        };
        // SAFETY: `in` points to one pointer for each operand, `out` to the result or to one pointer for each of
        // several; each leads to memory of its array's size, aligned to 16 bytes, that this call owns and that nothing
        // else refers to until the function has returned. A function that keeps to the signature touches nothing else.
        unsafe { function(out, input_pointers.as_mut_ptr()) };
        Ok(outputs.iter().zip(sizes).map(|(o, &n)| o.bytes(n)).collect())
    }
}
