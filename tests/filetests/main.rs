//! Tests that are files: a program, the commands to run on it, and what they print.
//!
//! A file of `tests/data/` begins with `// run:` lines, each the arguments of one `systole` command with `%s` for the program;
//! behind the program stands, under a line `// ==== ARGUMENTS`, what each command printed (standard output, then what it
//! said on standard error, then its exit code if that is not 0). `BLESS=1 cargo test --test filetests` writes these parts again: read the
//! change. The folder says what the file is about: `opt/PASS/` for a pass, `errors/` for messages, `parse/` for forms of text.

use rayon::prelude::*;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const EXPECTED: &str = "// ==== ";
/// What no command may print, expected or not.
const BROKEN: [&str; 2] = ["internal error", "panicked at"];

/// The files below a folder, in order of their paths.
fn files(dir: &Path, out: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(dir).expect("the folder is readable").map(|e| e.expect("an entry").path()).collect();
    entries.sort();
    for path in entries {
        match path.is_dir() {
            true => files(&path, out),
            false => out.push(path),
        }
    }
}

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}

/// The program of a file (without what is expected) and its commands.
fn parts(text: &str) -> (String, Vec<String>) {
    let input: String = text.split_inclusive('\n').take_while(|l| !l.starts_with(EXPECTED)).collect();
    let input = input.trim_end().to_string() + "\n";
    let commands = input.lines().filter_map(|l| l.strip_prefix("// run: ")).map(|l| l.trim().to_string()).collect();
    (input, commands)
}

/// What a command prints for a program, as the file shows it.
fn run(arguments: &str, name: &str, folder: &Path) -> String {
    let words = arguments.split_whitespace().map(|w| if w == "%s" { name } else { w });
    let done = Command::new(env!("CARGO_BIN_EXE_systole")).args(words).current_dir(folder).output();
    let done = done.expect("the command starts");
    let mut shown = String::from_utf8_lossy(&done.stdout).into_owned();
    shown += &String::from_utf8_lossy(&done.stderr);
    match done.status.code() {
        Some(0) => {}
        Some(code) => writeln!(shown, "exit {code}").expect("text grows"),
        None => shown += "killed\n",
    }
    shown
}

/// A file as it should be: its program and what its commands print now. They run in a folder of their own, `own`.
fn blessed(path: &Path, text: &str, own: usize) -> Result<String, String> {
    let (input, commands) = parts(text);
    if commands.is_empty() {
        return Err("no `// run:` line".into());
    }
    let name = path.file_name().and_then(|n| n.to_str()).ok_or("a name that is not text")?;
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("filetests-{}/{own}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(|e| e.to_string())?;
    std::fs::write(folder.join(name), &input).map_err(|e| e.to_string())?;
    let mut out = input;
    for c in &commands {
        let shown = run(c, name, &folder);
        if let Some(broken) = shown.lines().find(|l| BROKEN.iter().any(|b| l.contains(b))) {
            return Err(format!("`{c}` is broken: {broken}"));
        }
        write!(out, "\n{EXPECTED}{c}\n{shown}").expect("text grows");
        out = out.trim_end().to_string() + "\n";
    }
    Ok(out)
}

/// The first line in which two texts differ.
fn difference(want: &str, got: &str) -> String {
    let (mut w, mut g) = (want.lines(), got.lines());
    let mut line = 0;
    loop {
        line += 1;
        match (w.next(), g.next()) {
            (None, None) => return "equal".into(),
            (a, b) if a == b => {}
            (a, b) => return format!("line {line}:\n  expected  {}\n  now       {}", a.unwrap_or(""), b.unwrap_or("")),
        }
    }
}

#[test]
fn files_print_what_they_say() {
    let bless = std::env::var_os("BLESS").is_some();
    let filter = std::env::var("FILE").unwrap_or_default();
    let mut all = Vec::new();
    files(&data(), &mut all);
    let check = |(own, path): (usize, &PathBuf)| {
        let text = std::fs::read_to_string(path).expect("text");
        match blessed(path, &text, own) {
            Ok(now) if now == text => None,
            Ok(now) if bless => {
                std::fs::write(path, now).expect("the file can be written");
                None
            }
            Ok(_) if !text.contains(EXPECTED) => {
                Some(format!("{}: what its commands print is not behind it yet", path.display()))
            }
            Ok(now) => Some(format!("{}: {}", path.display(), difference(&text, &now))),
            Err(e) => Some(format!("{}: {e}", path.display())),
        }
    };
    let asked = all.par_iter().enumerate().filter(|(_, p)| p.to_string_lossy().contains(&filter));
    let wrong: Vec<String> = asked.filter_map(check).collect();
    assert!(
        wrong.is_empty(),
        "{} of {} files (BLESS=1 writes them again)\n{}",
        wrong.len(),
        all.len(),
        wrong.join("\n")
    );
}

/// A pass without tests of its own is a pass that nobody may change.
#[test]
fn every_pass_has_three_files() {
    let mut count: BTreeMap<&str, usize> = systole_compiler::pipeline::PASSES.iter().map(|p| (p.name, 0)).collect();
    let mut all = Vec::new();
    files(&data().join("opt"), &mut all);
    for path in &all {
        let (_, commands) = parts(&std::fs::read_to_string(path).expect("text"));
        let pass = path.parent().and_then(Path::file_name).and_then(|n| n.to_str()).unwrap_or_default();
        let Some(n) = count.get_mut(pass) else { panic!("{}: no pass is called `{pass}`", path.display()) };
        assert!(commands.iter().any(|c| c.contains(pass)), "{}: no command runs `{pass}`", path.display());
        *n += 1;
    }
    let missing: Vec<String> = count.iter().filter(|(_, n)| **n < 3).map(|(p, n)| format!("{p} has {n}")).collect();
    assert!(missing.is_empty(), "three files a pass at least: {}", missing.join(", "));
}
