//! Makes the chips and technology nodes that come with the program into static trees of keys and values: a run that uses a preset reads
//! no TOML.

#[path = "src/chip/tree.rs"]
#[allow(dead_code, reason = "what only the library asks of trees")]
mod tree;

use std::fmt::Write;
use std::path::{Path, PathBuf};
use toml::de::DeTable;
use tree::{Entry, Node};

fn main() {
    let root = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").expect("Cargo sets it"));
    let mut source = String::new();
    for (name, folder) in [("CHIPS", "chips"), ("NODES", "chips/costs")] {
        println!("cargo:rerun-if-changed={folder}");
        let list = std::fs::read_dir(root.join(folder)).unwrap_or_else(|e| panic!("{folder}: {e}"));
        let mut files: Vec<PathBuf> = list.map(|f| f.expect("a folder's entry").path()).collect();
        files.retain(|f| f.extension().is_some_and(|e| e == "toml"));
        files.sort();
        let _ = writeln!(source, "pub(super) static {name}: &[(&str, &[Entry<'static>])] = &[");
        for file in &files {
            println!("cargo:rerun-if-changed={}", file.display());
            let stem = file.file_stem().unwrap_or_default().to_string_lossy();
            let _ = writeln!(source, "({stem:?}, {}),", entries(&read(file)));
        }
        let _ = writeln!(source, "];");
    }
    let out = PathBuf::from(std::env::var("OUT_DIR").expect("Cargo sets it")).join("built_in.rs");
    std::fs::write(&out, source).unwrap_or_else(|e| panic!("{}: {e}", out.display()));
}

fn read(file: &Path) -> Vec<Entry<'static>> {
    let text = std::fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    // The build ends soon.
    let text: &'static str = Box::leak(text.into_boxed_str());
    let table = DeTable::parse(text).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    tree::of_table(table.get_ref())
}

/// The entries as an expression.
fn entries(all: &[Entry<'_>]) -> String {
    let one = |e: &Entry<'_>| {
        let key = e.key.as_ref();
        format!("Entry {{ key: Cow::Borrowed({key:?}), key_at: (0, 0), value: {}, at: (0, 0) }}", node(&e.value))
    };
    format!("&[{}]", all.iter().map(one).collect::<Vec<_>>().join(", "))
}

fn node(value: &Node<'_>) -> String {
    match value {
        Node::Text(text) => format!("Node::Text(Cow::Borrowed({:?}))", text.as_ref()),
        Node::Number(Some(n)) => format!("Node::Number(Some({n:?}))"),
        Node::Number(None) | Node::Other => panic!("no chip file has such a value"),
        Node::Table(inner) => format!("Node::BuiltIn({})", entries(inner)),
        Node::BuiltIn(inner) => format!("Node::BuiltIn({})", entries(inner)),
    }
}
