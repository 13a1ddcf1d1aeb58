//! The generated page of operations is what the compiler does. `BLESS=1 cargo test` rewrites it.

use std::path::Path;
use systole_isa::chip::ChipConfig;

#[test]
fn operations_reference_is_current() {
    let chip = ChipConfig::from_preset("tpu-v5e").expect("a preset");
    let page = systole_compiler::reference::operations_page(&chip);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/generated/operations.md");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &page).expect("docs/generated is writable");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == page, "docs/generated/operations.md is stale: BLESS=1 cargo test --test generated");
}
