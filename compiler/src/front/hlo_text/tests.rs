use super::parse_hlo;

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

#[test]
fn conformance_files_parse() {
    for sub in ["ops", "models", "dist", "large"] {
        for f in conformance(sub) {
            let text = std::fs::read_to_string(&f).expect("text");
            match parse_hlo(&text) {
                Ok((_, w)) => {
                    let w = crate::diag::render(&w, &f.to_string_lossy(), &text, false);
                    assert!(w.is_empty(), "{w}");
                }
                Err(e) => panic!("{}", crate::diag::render(&e, &f.to_string_lossy(), &text, false)),
            }
        }
    }
}
