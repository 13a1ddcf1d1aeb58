//! Every program of `tests/programs` gives the reference evaluator's answers on simulated chips of different sizes.

use std::path::Path;
use std::process::Command;

#[test]
fn programs_agree_with_the_evaluator() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    let mut files: Vec<_> =
        std::fs::read_dir(folder).expect("the folder").map(|e| e.expect("an entry").path()).collect();
    files.sort();
    let mut failures = String::new();
    for file in &files {
        for chip in ["tiny", "tpu-v5e"] {
            let out = Command::new(env!("CARGO_BIN_EXE_systole"))
                .args(["check", "--precision", "highest", "--chip", chip])
                .arg(file)
                .output()
                .expect("systole runs");
            if !out.status.success() {
                let text = [out.stdout, out.stderr].concat();
                failures += &format!("{} on {chip}:\n{}\n", file.display(), String::from_utf8_lossy(&text));
            }
        }
    }
    assert!(failures.is_empty() && !files.is_empty(), "{failures}");
}
