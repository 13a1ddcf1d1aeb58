//! How the command is linked. A run that simulates a millisecond takes less time than a program's usual start, so its start asks for
//! little: it lies at a fixed address, which saves a third of a millisecond of relocation, and has the unwinder in it, a library
//! less to load and to set up. Where programs are linked by other means than a GNU toolchain, nothing is changed.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let target = |what: &str| std::env::var(format!("CARGO_CFG_TARGET_{what}")).unwrap_or_default();
    if target("OS") != "linux" || target("ENV") != "gnu" {
        return;
    }
    println!("cargo:rustc-link-arg-bins=-no-pie");
    if target("FEATURE").split(',').any(|f| f == "crt-static") {
        // The other argument takes back that of static programs at any address, which was both.
        println!("cargo:rustc-link-arg-bins=-static");
    } else if let Some(folder) = unwinder() {
        println!("cargo:rustc-link-arg-bins=-L{}", folder.display());
    }
}

/// A folder in which the linker finds, by the name of the unwinder's shared library, the same as an archive, where the toolchain has
/// that. Rust names the shared one to the linker in every program of this kind, and no option of its own changes which is meant.
fn unwinder() -> Option<PathBuf> {
    // Another machine's archives would have to be asked of its own toolchain.
    if std::env::var_os("HOST")? != std::env::var_os("TARGET")? {
        return None;
    }
    println!("cargo:rerun-if-env-changed=RUSTC_LINKER");
    let linker = std::env::var_os("RUSTC_LINKER").unwrap_or_else(|| "cc".into());
    let asked = Command::new(linker).arg("-print-file-name=libgcc_eh.a").output().ok()?;
    // A toolchain without it answers with the bare name.
    let archive = String::from_utf8(asked.stdout).ok()?;
    let archive = Path::new(archive.trim());
    if !asked.status.success() || !archive.is_absolute() || !archive.exists() {
        return None;
    }
    let folder = Path::new(&std::env::var_os("OUT_DIR")?).join("unwinder");
    std::fs::create_dir_all(&folder).ok()?;
    std::fs::write(folder.join("libgcc_s.so"), format!("INPUT(\"{}\")\n", archive.display())).ok()?;
    Some(folder)
}
