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

/// How a program's answers in one of the ways are not the evaluator's, in words.
fn differences(file: &Path, way: &[&str]) -> String {
    let out = Command::new(env!("CARGO_BIN_EXE_systole"))
        .args(["check", "--precision", "highest", "--chip"])
        .args(way)
        .arg(file)
        .output()
        .expect("systole runs");
    if out.status.success() {
        return String::new();
    }
    let text = [out.stdout, out.stderr].concat();
    format!("{} on {way:?}:\n{}\n", file.display(), String::from_utf8_lossy(&text))
}

#[test]
fn programs_agree_with_the_evaluator() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).expect("the folder").map(|e| e.expect("an entry").path()).collect();
    // Wide ones first: they take longest.
    let wide = |file: &PathBuf| file.file_name().is_some_and(|n| n.to_string_lossy().starts_with(WIDE));
    files.sort_by_key(|f| (!wide(f), f.clone()));
    let fits = |file: &PathBuf, way: &[&str]| !(wide(file) && way == SMALL);
    let all = files.iter().flat_map(|file| WAYS.map(|way| (file, way)));
    let all: Vec<(&PathBuf, &[&str])> = all.filter(|(file, way)| fits(file, way)).collect();
    let failures: String = all.par_iter().with_max_len(1).map(|(file, way)| differences(file, way)).collect();
    assert!(failures.is_empty() && !all.is_empty(), "{failures}");
}
