//! The generated reference pages are those of the tables. `BLESS=1 cargo test` rewrites them.

use std::path::Path;

fn check(name: &str, page: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/generated").join(name);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, page).expect("docs/generated is writable");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == page, "docs/generated/{name} is stale: BLESS=1 cargo test -p systole-isa --test all generated");
}

#[test]
fn chip_reference_is_current() {
    check("chips.md", &systole_isa::chip::reference_page());
}

#[test]
fn isa_reference_is_current() {
    check("isa.md", &systole_isa::reference::isa_reference_page());
}
