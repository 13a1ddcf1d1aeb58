use super::parse_hlo;
use crate::graph::Span;
use crate::graph::print::to_text;
use crate::graph::verify::verify;

/// Files of the conformance suites beside the checkout, if they are there.
fn conformance(sub: &str) -> Vec<std::path::PathBuf> {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let dir = root.ancestors().map(|d| d.join("shared/conformance").join(sub)).find(|d| d.is_dir());
    let Some(dir) = dir else { return Vec::new() };
    let mut files: Vec<_> = std::fs::read_dir(dir).expect("readable").map(|f| f.expect("entry").path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "hlo"));
    files.sort();
    files
}

/// Parses and verifies; the rendered diagnostics if it is refused.
fn load(text: &str) -> Result<crate::graph::Module, String> {
    let show = |d: &[crate::diag::Diagnostic]| crate::diag::render(d, "m.hlo", text, false);
    let (module, warnings) = parse_hlo(text).map_err(|d| show(&d))?;
    assert!(warnings.iter().all(|w| w.severity == crate::diag::Severity::Warning));
    let errors = verify(&module).map_err(|e| e.into_iter().map(Into::into).collect::<Vec<_>>());
    errors.map_err(|e| show(&e)).map(|()| module)
}

#[test]
fn conformance_programs_are_accepted() {
    for f in ["ops", "models", "dist", "large"].into_iter().flat_map(conformance) {
        let text = std::fs::read_to_string(&f).expect("text");
        if let Err(e) = load(&text) {
            panic!("{}: {e}", f.display());
        }
        let (_, warnings) = parse_hlo(&text).expect("read before");
        assert!(warnings.is_empty(), "{}: {warnings:?}", f.display());
    }
}

#[test]
fn invalid_programs_are_refused_with_a_place() {
    for f in conformance("invalid") {
        let bytes = std::fs::read(&f).expect("bytes");
        let text = String::from_utf8_lossy(&bytes);
        match load(&text) {
            Ok(_) => panic!("{} is accepted", f.display()),
            Err(e) => {
                println!("{}: {e}", f.display());
                assert!(e.contains("m.hlo:") && e.contains("error: "), "{}: {e}", f.display());
            }
        }
    }
}

/// Printing and reading give the same module; only spans differ.
fn round_trip(text: &str) -> crate::graph::Module {
    let mut module = load(text).unwrap_or_else(|e| panic!("{e}"));
    let printed = to_text(&module);
    let mut again = load(&printed).unwrap_or_else(|e| panic!("{e}\n{printed}"));
    for m in [&mut module, &mut again] {
        m.computations.iter_mut().flat_map(|c| &mut c.nodes).for_each(|n| n.span = Span::default());
    }
    assert_eq!(to_text(&again), printed);
    assert!(module == again, "{printed}");
    module
}

#[test]
fn printing_reads_back() {
    for f in ["ops", "models", "dist", "large"].into_iter().flat_map(conformance) {
        round_trip(&std::fs::read_to_string(&f).expect("text"));
    }
}
