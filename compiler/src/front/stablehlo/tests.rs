use super::parse_stablehlo;
use crate::diag::render;
use crate::graph::verify::verify;

/// Files of the conformance suites beside the checkout, if they are there.
fn conformance(sub: &str) -> Vec<std::path::PathBuf> {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let dir = root.ancestors().map(|d| d.join("shared/conformance").join(sub)).find(|d| d.is_dir());
    let Some(dir) = dir else { return Vec::new() };
    let mut files: Vec<_> = std::fs::read_dir(dir).expect("readable").map(|f| f.expect("entry").path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "mlir"));
    files.sort();
    files
}

fn load(text: &str) -> Result<Vec<crate::graph::Module>, String> {
    let modules = parse_stablehlo(text).map_err(|d| render(&d, "m.mlir", text, false))?;
    for m in &modules {
        verify(m).map_err(|e| render(&e.into_iter().map(Into::into).collect::<Vec<_>>(), "m.mlir", text, false))?;
    }
    Ok(modules)
}

#[test]
fn conformance_programs_are_accepted() {
    let mut failed = Vec::new();
    for f in ["stablehlo", "models", "dist"].into_iter().flat_map(conformance) {
        let text = std::fs::read_to_string(&f).expect("text");
        if let Err(e) = load(&text) {
            failed.push(format!("{}: {e}", f.display()));
        }
    }
    assert!(failed.is_empty(), "{} failed\n{}", failed.len(), failed.join("\n"));
}

#[test]
fn invalid_programs_are_refused_with_a_place() {
    for f in conformance("invalid") {
        let text = std::fs::read_to_string(&f).expect("text");
        match load(&text) {
            Ok(_) => panic!("{} is accepted", f.display()),
            Err(e) => assert!(e.contains("m.mlir:"), "{e}"),
        }
    }
}
