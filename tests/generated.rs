//! Generated pages are current: operations are what the compiler does, the schema is what is printed. `BLESS=1 cargo test`
//! rewrites them.

use std::path::Path;
use systole_isa::chip::ChipConfig;

fn current(path: &str, text: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&file, text).expect("docs/generated is writable");
    }
    let found = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(found == text, "{path} is stale: BLESS=1 cargo test --test generated");
}

#[test]
fn operations_reference_is_current() {
    let chip = ChipConfig::from_preset("tpu-v5e").expect("a preset");
    current("docs/generated/operations.md", &systole_compiler::reference::operations_page(&chip));
}

#[test]
fn schema_of_reports_is_current() {
    let schema = systole_runtime::profile::schema();
    let text = serde_json::to_string_pretty(&schema).expect("a schema is JSON") + "\n";
    current("docs/generated/report.schema.json", &text);
}
