//! Bytecode and text of the same modules give the same graphs.

use std::path::{Path, PathBuf};
use systole_front::parse_stablehlo;
use systole_front::vhlo::{bytecode, to_text};
use systole_hlo::diag::render;
use systole_hlo::graph::Module;
use systole_hlo::graph::verify::verify;

/// Pairs of `NAME.mlirbc` and `NAME.mlir`; `data/make.py` writes them.
fn pairs() -> Vec<(PathBuf, PathBuf)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let mut all: Vec<PathBuf> = std::fs::read_dir(folder).expect("a folder").flatten().map(|e| e.path()).collect();
    all.retain(|p| p.extension().is_some_and(|e| e == "mlirbc"));
    all.sort();
    all.into_iter().map(|p| (p.clone(), p.with_extension("mlir"))).collect()
}

fn graph(text: &str, name: &str) -> Module {
    let (mut modules, _) = parse_stablehlo(text).unwrap_or_else(|e| panic!("{}", render(&e, name, text, false)));
    assert_eq!(modules.len(), 1);
    let module = modules.remove(0);
    verify(&module).expect("well formed");
    module
}

/// Without what only tells where something stands in the text.
fn placeless(mut module: Module) -> Module {
    for n in module.computations.iter_mut().flat_map(|c| &mut c.nodes) {
        n.span = Default::default();
        n.name.clear();
        n.attributes.retain(|a| a.0 != "metadata");
    }
    module.computations.iter_mut().for_each(|c| c.name.clear());
    module
}

#[test]
fn bytecode_and_text_give_the_same_graph() {
    let pairs = pairs();
    assert!(pairs.len() >= 12, "{}", pairs.len());
    for (bytecode, text) in pairs {
        let bytes = std::fs::read(&bytecode).expect("a file");
        let decoded = to_text(&bytes).unwrap_or_else(|e| panic!("{}: {e}", bytecode.display()));
        let written = std::fs::read_to_string(&text).expect("a file");
        let from_bytes = graph(&decoded, &bytecode.display().to_string());
        let from_text = graph(&written, &text.display().to_string());
        let (a, b) = (placeless(from_bytes), placeless(from_text));
        for (x, y) in a.computations.iter().flat_map(|c| &c.nodes).zip(b.computations.iter().flat_map(|c| &c.nodes)) {
            assert_eq!(x, y, "{}", bytecode.display());
        }
        assert_eq!(a, b, "{}", bytecode.display());
    }
}

#[test]
fn places_in_python_are_kept() {
    let bytes = include_bytes!("../data/network.mlirbc");
    let module = graph(&to_text(bytes).expect("readable"), "network");
    let dot = module.computations.iter().flat_map(|c| &c.nodes).find(|n| n.op.name() == "dot").expect("a product");
    let metadata = &dot.attributes.iter().find(|a| a.0 == "metadata").expect("a place").1;
    assert!(metadata.contains("op_name=\"jit(network)/") && metadata.contains("make.py\" source_line="), "{metadata}");
}

#[test]
fn damaged_files_give_errors() {
    for (path, _) in pairs() {
        let bytes = std::fs::read(&path).expect("a file");
        let mut damaged = bytes.clone();
        for i in (0..bytes.len()).step_by(61) {
            for value in [0, 0xff, bytes[i] ^ 2, bytes[i].wrapping_add(4)] {
                damaged[i] = value;
                if let Ok(text) = to_text(&damaged) {
                    let _ = parse_stablehlo(&text);
                }
            }
            damaged[i] = bytes[i];
        }
    }
}

#[test]
fn modules_are_found_in_exported_files() {
    let module = include_bytes!("../data/choose.mlirbc");
    assert_eq!(bytecode(module), Some(&module[..]));
    let mut file = vec![0, 1, 2, 3];
    file.extend((module.len() as u32).to_le_bytes());
    file.extend(module);
    file.extend([0; 9]);
    assert_eq!(bytecode(&file), Some(&module[..]));
    file[4] = 0xff;
    file[5] = 0xff;
    assert_eq!(bytecode(&file), None);
    assert_eq!(bytecode(b"HloModule m"), None);
}
