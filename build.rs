//! How the command is linked. A run that simulates a millisecond takes less time than a program's usual start, so its start asks for
//! little (figures in `benches/README.md`): it lies at a fixed address, which saves its relocation, has the C library in it, which
//! saves loading and binding that, its file is written, not mapped, by the linker, which lets the system keep it in large pages, and
//! all that is not written in it fills such pages, which are mapped one by one where small ones would be mapped by the thousand.
//! What the toolchain lacks is left out: each is tried on a program that panics and catches it. Where programs are linked by other
//! means than a GNU toolchain, nothing is changed. `systole-host-functions`, which loads libraries, is linked as usual.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=RUSTC_LINKER");
    let target = |what: &str| std::env::var(format!("CARGO_CFG_TARGET_{what}")).unwrap_or_default();
    if target("OS") != "linux" || target("ENV") != "gnu" {
        return;
    }
    let mut arguments = vec!["-no-pie".to_string()];
    if target("FEATURE").split(',').any(|f| f == "crt-static") {
        // Takes back that of static programs at any address, which was both.
        arguments.push("-static".to_string());
    } else if let Some(folder) = archives() {
        let inside = [format!("-L{}", folder.display()), "-static".to_string()];
        if works(&[&arguments[..], &inside].concat()) {
            arguments.extend(inside);
            println!("cargo:rustc-env=LINKED_STATICALLY=1");
        }
    }
    let written = written().to_string();
    if works(&[&arguments[..], std::slice::from_ref(&written)].concat()) {
        arguments.push(written);
    }
    if let Some(large) = large_pages()
        && works(&[&arguments[..], &large].concat())
    {
        arguments.extend(large);
    }
    for argument in arguments {
        println!("cargo:rustc-link-arg-bin=systole={argument}");
    }
}

/// The linker's option by which it writes its file from memory. LLD took `--no-mmap-output-file` for that up to version 20, and since
/// then its opposite (llvm/llvm-project#207459); Rust's own has the version of its LLVM. Others know neither, or ignore both.
fn written() -> &'static str {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let said = Command::new(rustc).arg("-vV").output().map(|o| String::from_utf8_lossy(&o.stdout).into_owned());
    let version = said
        .unwrap_or_default()
        .lines()
        .find_map(|l| l.strip_prefix("LLVM version: ")?.split('.').next()?.parse::<u32>().ok());
    match version {
        Some(..=20) => "-Wl,--no-mmap-output-file",
        Some(21..) | None => "-Wl,--mmap-output-file",
    }
}

/// Options by which code and constants are one segment that fills large pages (2 MiB): what lies in a part of one, at a segment's begin
/// or end, is mapped in small ones. The file grows by less than such a page.
fn large_pages() -> Option<Vec<String>> {
    let script = Path::new(&std::env::var_os("OUT_DIR")?).join("large_pages.ld");
    // Behind the last code that linkers place. The byte keeps a section that is else empty.
    let fill = "SECTIONS { .text.fill : { BYTE(0xcc); . = ALIGN(0x200000); } } INSERT AFTER .iplt;\n";
    std::fs::write(&script, fill).ok()?;
    let segments = ["-Wl,-z,max-page-size=0x200000", "-Wl,--no-rosegment", "-T"];
    Some(segments.map(str::to_string).into_iter().chain([script.display().to_string()]).collect())
}

/// A folder in which the linker finds, by the names of the C library's shared parts, the same as archives, where the toolchain has
/// all of them. Rust names the shared ones to the linker in every program of this kind, and no option that is for one program alone
/// changes which are meant.
fn archives() -> Option<PathBuf> {
    // Another machine's archives would have to be asked of its own toolchain.
    if std::env::var_os("HOST")? != std::env::var_os("TARGET")? {
        return None;
    }
    let linker = std::env::var_os("RUSTC_LINKER").unwrap_or_else(|| "cc".into());
    let archive = |name: &str| {
        let answer = Command::new(&linker).arg(format!("-print-file-name=lib{name}.a")).output().ok()?;
        // A toolchain without it answers with the bare name.
        let archive = PathBuf::from(String::from_utf8(answer.stdout).ok()?.trim());
        (answer.status.success() && archive.is_absolute() && archive.exists())
            .then(|| format!("\"{}\"", archive.display()))
    };
    let folder = Path::new(&std::env::var_os("OUT_DIR")?).join("archives");
    std::fs::create_dir_all(&folder).ok()?;
    // The unwinder and the C library need each other.
    let base = format!("GROUP({} {})\n", archive("gcc_eh")?, archive("c")?);
    let mut files = vec![("gcc_s", base.clone()), ("c", base)];
    for name in ["m", "dl", "rt", "util", "pthread"] {
        files.push((name, format!("INPUT({})\n", archive(name)?)));
    }
    for (name, script) in files {
        std::fs::write(folder.join(format!("lib{name}.so")), script).ok()?;
    }
    Some(folder)
}

/// Whether a program links with these arguments, and can then catch a panic.
fn works(arguments: &[String]) -> bool {
    const PROGRAM: &[u8] = b"fn main() { std::process::exit(std::panic::catch_unwind(|| panic!()).is_ok() as i32) }";
    let Some(folder) = std::env::var_os("OUT_DIR") else { return false };
    let tried = Path::new(&folder).join("tried");
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    if let Some(target) = std::env::var_os("TARGET") {
        rustc.arg("--target").arg(target);
    }
    if let Some(linker) = std::env::var_os("RUSTC_LINKER") {
        rustc.arg("-C").arg(format!("linker={}", linker.display()));
    }
    if let Ok(flags) = std::env::var("CARGO_ENCODED_RUSTFLAGS") {
        rustc.args(flags.split('\u{1f}').filter(|f| !f.is_empty()));
    }
    rustc.args(arguments.iter().map(|a| format!("-Clink-arg={a}"))).arg("-o").arg(&tried).arg("-");
    let started = rustc.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let linked = started.and_then(|mut child| {
        if let Some(mut source) = child.stdin.take() {
            source.write_all(PROGRAM)?;
        }
        child.wait()
    });
    if !linked.is_ok_and(|s| s.success()) {
        return false;
    }
    // Built for another machine, it cannot be run here.
    let is_own = std::env::var_os("HOST") == std::env::var_os("TARGET");
    !is_own || Command::new(&tried).stderr(Stdio::null()).status().is_ok_and(|s| s.success())
}
