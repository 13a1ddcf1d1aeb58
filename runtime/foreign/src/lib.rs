//! Functions of shared libraries with the C signature `void f(void* out, void** in)`.
//!
//! `in` has a pointer to each operand's elements, `out` points to the result's: row-major, little-endian, as in array
//! files. A result of several arrays is reached through pointers, as operands are.
//!
//! A library is loaded by a process that loads its C library too: into this one ([`Library::load`]), or, where this one is
//! linked statically, into one of its own ([`Library::load_apart`]), which a small program is for ([`serve`]). There a
//! function that crashes ends its own process alone.

#[cfg(unix)]
mod apart;
mod here;
#[cfg(unix)]
mod message;

#[cfg(unix)]
pub use apart::serve;

use std::path::Path;

/// A loaded library.
#[derive(Debug)]
pub struct Library {
    /// As the user wrote it.
    path: String,
    home: Home,
}

#[derive(Debug)]
enum Home {
    Here(here::Loaded),
    #[cfg(unix)]
    Apart(apart::Process),
}

impl Library {
    /// Loads a shared library into this process.
    ///
    /// # Errors
    /// If there is no such library, or it cannot be loaded.
    pub fn load(path: &str) -> Result<Library, String> {
        let loaded = here::Loaded::from(&found(path)?).map_err(|e| format!("{path}: {e}"))?;
        Ok(Library { path: path.to_string(), home: Home::Here(loaded) })
    }

    /// Loads a shared library into a process of its own, of the program `server`, whose `main` is [`serve`].
    ///
    /// # Errors
    /// If there is no such library or program, or the library cannot be loaded.
    #[cfg(unix)]
    pub fn load_apart(path: &str, server: &Path) -> Result<Library, String> {
        let process = apart::Process::start(server, &found(path)?).map_err(|e| format!("{path}: {e}"))?;
        Ok(Library { path: path.to_string(), home: Home::Apart(process) })
    }

    /// Whether the library has a function of that name.
    pub fn has(&self, name: &str) -> bool {
        match &self.home {
            Home::Here(loaded) => loaded.function(name).is_ok(),
            #[cfg(unix)]
            Home::Apart(process) => process.has(name).unwrap_or(false),
        }
    }

    /// Calls a function of the library with the bytes of each operand; gives those of each result, of the `sizes` asked, in bytes.
    ///
    /// # Errors
    /// If there is none of that name, or the library's own process ends.
    pub fn call(&self, name: &str, operands: &[&[u8]], sizes: &[usize]) -> Result<Vec<Vec<u8>>, String> {
        let results = match &self.home {
            Home::Here(loaded) => loaded.call(name, operands, sizes),
            #[cfg(unix)]
            Home::Apart(process) => process.call(name, operands, sizes),
        };
        results.map_err(|e| format!("{}: {e}", self.path))
    }
}

/// The file itself: a bare name would be searched for in the system's folders.
fn found(path: &str) -> Result<std::path::PathBuf, String> {
    std::fs::canonicalize(Path::new(path)).map_err(|e| format!("{path}: {e}"))
}
