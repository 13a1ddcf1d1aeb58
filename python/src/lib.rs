//! `systole._native`: the plugin as a module. Python uses it by its path; the module itself tells no more than its version.

use pyo3::prelude::*;

/// The plugin: JAX loads this file as a PJRT plugin, the package calls its functions by `ctypes`.
#[pymodule]
fn _native(m: &Bound<'_, PyModule>) -> PyResult<()> {
    // Named here so that the linker keeps the plugin's entry.
    m.add("entry", systole_pjrt::GetPjrtApi as *const () as usize)?;
    m.add("version", env!("CARGO_PKG_VERSION"))
}
