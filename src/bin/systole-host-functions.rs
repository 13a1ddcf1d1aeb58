//! Runs the functions of a shared library for `systole --custom-call-library`, in a process of its own: `systole` itself is linked
//! statically, so that it starts faster, and such a program cannot load libraries. It is started by `systole`, beside which it lies.

use std::process::ExitCode;

#[cfg(unix)]
fn main() -> ExitCode {
    systole_foreign::serve()
}

/// Elsewhere `systole` loads libraries itself.
#[cfg(not(unix))]
fn main() -> ExitCode {
    ExitCode::from(2)
}
