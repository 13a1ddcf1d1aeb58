//! The shape of the repository: sizes of files and folders, which way crates and modules depend on one another, links of the
//! documents. An exception states its reason; the lists may only get shorter.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Lines of a file without its tests.
const MOST_LINES: usize = 600;
/// Files of a folder.
const MOST_FILES: usize = 20;

/// Files that are longer, and how long they may be.
const LONGER: &[(&str, usize, &str)] = &[];

/// Folders with more files, and how many they may have.
const WIDER: &[(&str, usize, &str)] = &[("compiler/front/src/stablehlo", 21, "a file for each family of operations")];

/// Crates and the crates of this workspace that each may use, besides in tests.
const ARROWS: &[(&str, &[&str])] = &[
    ("isa", &[]),
    ("compiler/mlir-bytecode", &[]),
    ("compiler/mosaic", &["isa", "compiler/mlir-bytecode"]),
    ("compiler/hlo", &["isa"]),
    ("compiler/front", &["isa", "compiler/hlo", "compiler/mlir-bytecode"]),
    ("compiler/eval", &["isa", "compiler/hlo"]),
    ("compiler/spmd", &["isa", "compiler/hlo"]),
    ("compiler/passes", &["isa", "compiler/hlo", "compiler/eval"]),
    ("compiler/codegen", &["isa", "compiler/hlo", "compiler/mosaic"]),
    (
        "compiler",
        &[
            "isa",
            "compiler/hlo",
            "compiler/front",
            "compiler/eval",
            "compiler/spmd",
            "compiler/passes",
            "compiler/codegen",
            "compiler/mosaic",
        ],
    ),
    ("simulator", &["isa"]),
    ("runtime/foreign", &[]),
    ("runtime", &["isa", "compiler", "simulator", "runtime/foreign"]),
    ("sweep", &["isa", "runtime", "simulator"]),
    ("tui", &["isa", "runtime"]),
    ("pjrt", &["isa", "compiler", "compiler/front", "compiler/hlo", "simulator", "runtime"]),
    // The plugin, and the command under it.
    ("python", &["pjrt", "isa", "compiler", "compiler/mosaic", "simulator", "runtime", "sweep", "tui"]),
    ("tests/fuzz", &[]),
    (".", &["isa", "compiler", "compiler/mosaic", "simulator", "runtime", "runtime/foreign", "sweep", "tui"]),
];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Files below a folder of the repository with an ending, without what is built or fetched.
fn files(dir: &Path, ending: &str) -> Vec<PathBuf> {
    let mut out = Vec::new();
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(dir).expect("the folder is readable").map(|e| e.expect("an entry").path()).collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        match path.is_dir() {
            true if name == "target" || name.starts_with('.') || name == "corpus" => {}
            true => out.extend(files(&path, ending)),
            false if name.ends_with(ending) => out.push(path),
            false => {}
        }
    }
    out
}

/// Folders below a folder of the repository, without what is built or fetched.
fn folders(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).expect("the folder is readable") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            folders(&path, out);
            out.push(path);
        }
    }
}

fn sources() -> Vec<PathBuf> {
    files(&root(), ".rs")
}

/// A path as the lists above write it.
fn shown(path: &Path) -> String {
    path.strip_prefix(root()).expect("below the root").to_string_lossy().into_owned()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Whether a file holds tests only.
fn is_test(path: &str) -> bool {
    path.contains("/tests/") || path.starts_with("tests/") || path.ends_with("tests.rs") || path.contains("benches/")
}

/// A file without the tests at its end.
fn without_tests(text: &str) -> &str {
    text.find("#[cfg(test)]\nmod tests {").map_or(text, |i| &text[..i])
}

#[test]
fn files_are_short() {
    let mut wrong = Vec::new();
    for path in sources() {
        let name = shown(&path);
        if is_test(&name) {
            continue;
        }
        let lines = without_tests(&read(&path)).lines().count();
        let most = LONGER.iter().find(|l| l.0 == name).map_or(MOST_LINES, |l| l.1);
        if lines > most {
            wrong.push(format!("{name}: {lines} lines, {most} at most"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn exceptions_are_needed() {
    for (name, _, why) in LONGER {
        assert!(!why.is_empty(), "{name} has no reason");
        let path = root().join(name);
        let lines = path.exists().then(|| without_tests(&read(&path)).lines().count());
        assert!(lines.is_some_and(|l| l > MOST_LINES), "{name} needs no exception any more");
    }
}

#[test]
fn folders_are_small() {
    let mut count: BTreeMap<PathBuf, usize> = BTreeMap::new();
    for path in sources() {
        *count.entry(path.parent().expect("a folder").to_path_buf()).or_default() += 1;
    }
    let most = |p: &Path| WIDER.iter().find(|w| w.0 == shown(p)).map_or(MOST_FILES, |w| w.1);
    let wrong: Vec<String> =
        count.iter().filter(|(p, n)| **n > most(p)).map(|(p, n)| format!("{}: {n} files", shown(p))).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The crates that a manifest names among its dependencies, as folders.
fn dependencies(manifest: &toml::Table) -> BTreeSet<String> {
    let workspace: toml::Table = read(&root().join("Cargo.toml")).parse().expect("the workspace's manifest");
    let paths = workspace["workspace"]["dependencies"].as_table().expect("a table");
    let named = manifest.get("dependencies").and_then(|d| d.as_table()).cloned().unwrap_or_default();
    let folder = |name: &String| paths.get(name)?.get("path")?.as_str().map(str::to_string);
    named.keys().filter_map(folder).collect()
}

#[test]
fn crates_depend_downwards() {
    let mut wrong = Vec::new();
    for path in files(&root(), "Cargo.toml") {
        let manifest: toml::Table = read(&path).parse().expect("a manifest");
        if !manifest.contains_key("package") {
            continue;
        }
        let name = match shown(path.parent().expect("a folder")) {
            n if n.is_empty() => ".".to_string(),
            n => n,
        };
        let Some((_, allowed)) = ARROWS.iter().find(|a| a.0 == name) else {
            wrong.push(format!("{name}: not in the list of crates"));
            continue;
        };
        for d in dependencies(&manifest) {
            if !allowed.contains(&d.as_str()) {
                wrong.push(format!("{name} uses {d}"));
            }
        }
    }
    assert!(wrong.is_empty(), "arrows that the list of this file does not have: {}", wrong.join(", "));
}

/// The modules at the top of a crate that each of them uses.
fn modules(src: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let all = files(src, ".rs");
    let of = |p: &Path| {
        let rest = p.strip_prefix(src).expect("below").to_string_lossy().into_owned();
        rest.split('/').next().unwrap_or_default().trim_end_matches(".rs").to_string()
    };
    let names: BTreeSet<String> = all.iter().map(|p| of(p)).filter(|n| n != "lib" && n != "main").collect();
    let mut arrows: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for path in &all {
        let from = of(path);
        if is_test(&shown(path)) || !names.contains(&from) {
            continue;
        }
        let text = read(path);
        let code =
            without_tests(&text).lines().filter(|l| !l.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
        // What leads to the top of the crate: its name, or as many steps up as the module lies deep.
        let inside = path.strip_prefix(src).expect("below").with_extension("");
        let depth = inside.components().count() - usize::from(inside.ends_with("mod"));
        let up = "super::".repeat(depth);
        let is_top = |i: &usize| !code[..*i].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':');
        let ups = code.match_indices(&up).map(|m| m.0).filter(is_top).map(|i| i + up.len());
        let ups = ups.filter(|&i| !code[i..].starts_with("super::"));
        let tops = code.match_indices("crate::").map(|m| m.0 + "crate::".len()).chain(ups);
        for i in tops {
            let word = |s: &str| s.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
            let rest = &code[i..];
            let used: Vec<String> = match rest.strip_prefix('{') {
                // A group: the first word of each part at its outer level.
                Some(group) => {
                    let (mut depth, mut start, mut out) = (0, true, Vec::new());
                    for (k, c) in group.char_indices() {
                        match c {
                            '{' => depth += 1,
                            '}' if depth == 0 => break,
                            '}' => depth -= 1,
                            ',' if depth == 0 => start = true,
                            c if start && c.is_alphanumeric() => {
                                out.push(word(&group[k..]));
                                start = false;
                            }
                            _ => {}
                        }
                    }
                    out
                }
                None => vec![word(rest)],
            };
            let to = arrows.entry(from.clone()).or_default();
            to.extend(used.into_iter().filter(|u| *u != from && names.contains(u)));
        }
    }
    arrows
}

#[test]
fn modules_have_no_circles() {
    let mut wrong = Vec::new();
    for (name, _) in ARROWS {
        let src = root().join(name).join("src");
        if !src.exists() {
            continue;
        }
        let arrows = modules(&src);
        for from in arrows.keys() {
            // Whether a way leads back.
            let mut seen = BTreeSet::new();
            let mut open: Vec<&String> = arrows[from].iter().collect();
            while let Some(at) = open.pop() {
                if at == from {
                    wrong.push(format!("{name}: {from} -> {:?}", arrows[from]));
                    break;
                }
                if seen.insert(at) {
                    open.extend(arrows.get(at).into_iter().flatten());
                }
            }
        }
    }
    let known = CIRCLES.iter().map(|c| c.0).collect::<BTreeSet<_>>();
    let found: BTreeSet<&str> = wrong.iter().map(|w| w.split(" -> ").next().unwrap_or_default()).collect();
    let new: Vec<&&str> = found.difference(&known).collect();
    let old: Vec<&&str> = known.difference(&found).collect();
    assert!(new.is_empty(), "circles among modules: {new:?}\n{}", wrong.join("\n"));
    assert!(old.is_empty(), "no circles any more, strike them from the list: {old:?}");
}

/// Modules in a circle, and why.
const CIRCLES: &[(&str, &str)] = &[
    ("isa: opcodes", "one table: its words and its rows"),
    ("isa: table", "one table: its words and its rows"),
    ("compiler/mlir-bytecode: ir", "one reader: sections and what is in them"),
    ("compiler/mlir-bytecode: module", "one reader: sections and what is in them"),
    ("compiler/eval: dispatch", "an operation runs the computations that it calls"),
    ("compiler/eval: ops", "an operation runs the computations that it calls"),
    ("compiler/eval: process", "an operation runs the computations that it calls"),
    ("compiler/eval: region", "an operation runs the computations that it calls"),
    ("compiler/eval: run", "an operation runs the computations that it calls"),
    ("compiler/passes: edit", "what is made is simplified at once, by rules that make it simpler"),
    ("compiler/passes: make", "what is made is simplified at once, by rules that make it simpler"),
    ("compiler/passes: simplify", "what is made is simplified at once, by rules that make it simpler"),
    ("simulator: issue", "the core and its units share the machine's state"),
    ("simulator: load", "code is predecoded for the core that issues it"),
    ("simulator: machine", "a device and its cores"),
    ("simulator: options", "what a run does names its observer"),
    ("simulator: stats", "counters are kept by the units they count"),
    ("simulator: team", "a device and its cores"),
    ("simulator: unit", "the core and its units share the machine's state"),
    ("tui: app", "the state knows its views, they draw it"),
    ("tui: pen", "the state knows its views, they draw it"),
    ("tui: views", "the state knows its views, they draw it"),
];

#[test]
fn links_of_documents_lead_somewhere() {
    let mut wrong = Vec::new();
    for path in files(&root(), ".md") {
        let text = read(&path);
        for (i, _) in text.match_indices("](") {
            let target: String = text[i + 2..].chars().take_while(|c| *c != ')').collect();
            let file = target.split('#').next().unwrap_or_default();
            if file.is_empty() || target.contains("://") || target.starts_with("mailto:") || target.contains(' ') {
                continue;
            }
            if !path.parent().expect("a folder").join(file).exists() {
                wrong.push(format!("{}: {target}", shown(&path)));
            }
        }
    }
    assert!(wrong.is_empty(), "links to nothing: {}", wrong.join(", "));
}

/// Sources and folders that documents name in code: `file.rs`, `folder/file.rs`, `folder/`, from any folder on.
#[test]
fn sources_that_documents_name_exist() {
    let all = files(&root(), ".md");
    let sources: Vec<String> = sources().iter().map(|p| format!("/{}", shown(p))).collect();
    let mut folders = Vec::new();
    self::folders(&root(), &mut folders);
    let folders: Vec<String> = folders.iter().map(|p| format!("/{}/", shown(p))).collect();
    let mut wrong = Vec::new();
    for path in all {
        let text = read(&path);
        let named = text.split('`').skip(1).step_by(2);
        // Words in capitals stand for any name.
        let any = |n: &str| n.split('/').any(|w| w.chars().any(char::is_alphabetic) && w == w.to_uppercase());
        for name in named.filter(|n| !n.contains(['*', '<', ' ', '{', '\n']) && !any(n)) {
            let known = match name.ends_with('/') {
                true if name.starts_with(char::is_alphanumeric) => &folders,
                false if name.ends_with(".rs") => &sources,
                _ => continue,
            };
            if !known.iter().any(|s| s.ends_with(&format!("/{name}"))) {
                wrong.push(format!("{}: {name}", shown(&path)));
            }
        }
    }
    assert!(wrong.is_empty(), "no such source or folder: {}", wrong.join(", "));
}
