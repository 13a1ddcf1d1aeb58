//! Generated pages are current: chips and instructions are those of the tables, operations what the compiler does, the schema what is
//! printed. `BLESS=1 cargo test --test generated` rewrites them.

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
fn chip_reference_is_current() {
    current("docs/generated/chips.md", &systole_isa::chip::reference_page());
}

#[test]
fn isa_reference_is_current() {
    current("docs/generated/isa.md", &systole_isa::reference::isa_reference_page());
}

#[test]
fn operations_reference_is_current() {
    let chip = ChipConfig::from_preset("tpu-v5e").expect("a preset");
    current("docs/generated/operations.md", &systole_compiler::reference::operations_page(&chip));
}

/// Operations without a sample on the page, and why.
const NO_SAMPLES: &[(&str, &[&str])] = &[
    ("name a value, put values together or take them apart", &["parameter", "constant", "tuple", "get-tuple-element"]),
    ("are gone before anything is made of them: what they call is what they do", &["call", "fusion", "bitcast"]),
    ("keep others in order", &["opt-barrier", "after-all", "add-dependency", "domain"]),
    ("are what stands between them", &["async-start", "async-update", "async-done", "copy-start", "copy-done"]),
    ("are of sizes that data says", &["dynamic-reshape", "get-dimension-size", "set-dimension-size"]),
    ("are of several devices", &["replica-id", "partition-id", "send", "send-done", "recv", "recv-done"]),
    ("are the host's", &["infeed", "outfeed"]),
    ("have a state of the device", &["rng-get-and-update-state"]),
];

/// A sample that is lowered for no element type leaves no row either.
#[test]
fn every_operation_is_on_the_page() {
    use systole_compiler::graph::{Binary, Op, Unary};
    let chip = ChipConfig::from_preset("tpu-v5e").expect("a preset");
    let page = systole_compiler::reference::operations_page(&chip);
    let excused = |name: &str| NO_SAMPLES.iter().any(|(_, names)| names.contains(&name));
    let elementwise = Unary::ALL.iter().filter(|u| **u != Unary::ErfInv).map(|u| u.name());
    let all = Op::NAMES.iter().copied().chain(elementwise).chain(Binary::ALL.iter().map(|b| b.name()));
    for name in all {
        let shown = page.contains(&format!("| `{name}`"));
        assert!(
            shown != excused(name),
            "`{name}`: a sample (`compiler/src/reference/samples.rs`), or a reason in NO_SAMPLES"
        );
    }
}

#[test]
fn schema_of_reports_is_current() {
    let schema = systole_runtime::profile::schema();
    let text = serde_json::to_string_pretty(&schema).expect("a schema is JSON") + "\n";
    current("docs/generated/report.schema.json", &text);
}
