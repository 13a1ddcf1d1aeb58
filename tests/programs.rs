//! Every program of `tests/programs` gives the reference evaluator's answers on simulated chips of different sizes, with
//! its arrays in vector memory and streamed through it, on one core and on two.

use rayon::prelude::*;
use std::path::{Path, PathBuf};
use std::process::Command;

const SMALL: &[&str] = &["tiny", "--set", "vmem.bytes=64 KiB"];
const CORES: &[&str] = &["tpu-v4", "--cores", "2", "--max-resident", "100000"];
const WAYS: [&[&str]; 5] = [&["tiny"], &["tiny", "--max-resident", "0"], SMALL, &["tpu-v5e"], CORES];

/// Programs of this name have rows of which the small memory does not hold a register's.
const WIDE: &str = "wide_";

/// In which ways a program's answers are not the evaluator's, in words.
fn differences(file: &Path) -> String {
    let wide = file.file_name().is_some_and(|n| n.to_string_lossy().starts_with(WIDE));
    let mut failures = String::new();
    for way in WAYS.into_iter().filter(|w| !(wide && *w == SMALL)) {
        let out = Command::new(env!("CARGO_BIN_EXE_systole"))
            .args(["check", "--precision", "highest", "--chip"])
            .args(way)
            .arg(file)
            .output()
            .expect("systole runs");
        if !out.status.success() {
            let text = [out.stdout, out.stderr].concat();
            failures += &format!("{} on {way:?}:\n{}\n", file.display(), String::from_utf8_lossy(&text));
        }
    }
    failures
}

#[test]
fn programs_agree_with_the_evaluator() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).expect("the folder").map(|e| e.expect("an entry").path()).collect();
    files.sort();
    let failures: String = files.par_iter().map(|file| differences(file)).collect();
    assert!(failures.is_empty() && !files.is_empty(), "{failures}");
}
