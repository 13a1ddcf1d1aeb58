//! Programs of every form as graphs.
//!
//! One program: it is built and linked once, and its tests run beside each other.

mod builder;
mod hlo_proto;
mod hlo_text;
mod locations;
mod stablehlo;
mod vhlo;

/// Files with that extension of the conformance suites beside the checkout, if they are there.
fn conformance(sub: &str, extension: &str) -> Vec<std::path::PathBuf> {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let dir = root.ancestors().map(|d| d.join("shared/conformance").join(sub)).find(|d| d.is_dir());
    let Some(dir) = dir else { return Vec::new() };
    let mut files: Vec<_> = std::fs::read_dir(dir).expect("readable").map(|f| f.expect("entry").path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == extension));
    files.sort();
    files
}
