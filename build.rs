//! How the command is linked: at a fixed address, which saves a third of a millisecond of relocation at every start. Where programs
//! are linked statically, or by other means than a GNU toolchain, nothing is changed.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let target = |what: &str| std::env::var(format!("CARGO_CFG_TARGET_{what}")).unwrap_or_default();
    let is_static = target("FEATURE").split(',').any(|f| f == "crt-static");
    if target("OS") == "linux" && target("ENV") == "gnu" && !is_static {
        println!("cargo:rustc-link-arg-bins=-no-pie");
    }
}
