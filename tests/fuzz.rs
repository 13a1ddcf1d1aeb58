//! A fixed set of random programs, on the reference evaluator and on the small chip.

#![cfg(feature = "evaluator")]
#![allow(clippy::unwrap_used, reason = "a test")]

use std::process::Command;

/// Seed and number of programs.
const SETS: [(&str, &str); 2] = [("1", "60"), ("2", "40")];

#[test]
fn programs_of_fixed_seeds_agree() {
    let folder = std::env::temp_dir().join(format!("systole-fuzz-{}", std::process::id()));
    for (seed, count) in SETS {
        let run = Command::new(env!("CARGO_BIN_EXE_systole"))
            .args(["fuzz", "--seed", seed, "--count", count, "--chip", "tiny", "--failures"])
            .arg(&folder)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&run.stdout);
        assert!(run.status.success(), "{text}");
        assert!(text.contains(&format!("seed {seed}: {count} programs, 0 failed")), "{text}");
    }
}
