//! Host functions in shared libraries, with the C signature `void f(void* out, void** in)` ([`systole_foreign`]).

use super::CustomCall;
use crate::{Array, RuntimeError};
use std::path::Path;
use systole_foreign::Library as Loaded;
use systole_isa::DType;

/// A loaded library.
#[derive(Debug)]
pub struct Library {
    loaded: Loaded,
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
        Ok(Library { loaded: Loaded::load(path).map_err(RuntimeError::Request)? })
    }

    /// Loads a shared library into a process of its own, of the program `server` ([`systole_foreign::serve`]); where systems have no
    /// such, into this one.
    ///
    /// # Errors
    /// If there is no such library or program, or the library cannot be loaded.
    pub fn load_apart(path: &str, server: &Path) -> Result<Library, RuntimeError> {
        #[cfg(unix)]
        let loaded = Loaded::load_apart(path, server);
        #[cfg(not(unix))]
        let loaded = Loaded::load(path);
        Ok(Library { loaded: loaded.map_err(RuntimeError::Request)? })
    }

    /// Whether the library has a function of that name.
    pub fn has(&self, target: &str) -> bool {
        self.loaded.has(target)
    }

    /// Calls a function of the library.
    ///
    /// # Errors
    /// If there is none of that name, or the library's own process ends.
    pub fn call(&self, request: &CustomCall<'_>, operands: &[Array]) -> Result<Vec<Array>, String> {
        let sizes: Vec<usize> = request.results.iter().map(|(t, d)| bytes_of(*t, d)).collect();
        let operands: Vec<&[u8]> = operands.iter().map(|a| &a.bytes[..]).collect();
        let outputs = self.loaded.call(request.target, &operands, &sizes)?;
        Ok(request.results.iter().zip(outputs).map(|((t, d), bytes)| Array::new(*t, d, bytes)).collect())
    }
}
