//! Files that JAX wrote, and what damage makes of them. `data/README.md` says how the files were made.

#![allow(clippy::unwrap_used, reason = "tests fail where they should not")]

use std::fmt::Write;
use systole_mlir_bytecode::{Attribute, Block, Bytecode, Type};

const FILES: [(&str, &[u8]); 4] = [
    ("add", include_bytes!("data/add.mlirbc")),
    ("loop", include_bytes!("data/loop.mlirbc")),
    ("random", include_bytes!("data/random.mlirbc")),
    ("pallas_matmul", include_bytes!("data/pallas_matmul.mlirbc")),
];

fn file(name: &str) -> &'static [u8] {
    FILES.iter().find(|f| f.0 == name).expect("one of the files").1
}

/// Operations in generic form, one a line; attributes by their names alone.
fn outline(of: &Bytecode<'_>, block: &Block<'_>, indent: usize, out: &mut String) {
    for o in &block.operations {
        write!(out, "{:indent$}", "").unwrap();
        for (v, t) in &o.results {
            write!(out, "%{}:{} ", v.0, t.index()).unwrap();
        }
        write!(out, "{}", o.name).unwrap();
        for v in &o.operands {
            write!(out, " %{}", v.0).unwrap();
        }
        if let Some(id) = o.attributes {
            let names: Vec<&str> = of.dictionary(id).unwrap().into_iter().map(|p| p.0).collect();
            write!(out, " {{{}}}", names.join(", ")).unwrap();
        }
        out.push('\n');
        for block in o.regions.iter().flat_map(|r| &r.blocks) {
            let arguments: Vec<String> = block.arguments.iter().map(|a| format!("%{}", a.value.0)).collect();
            writeln!(out, "{:indent$}({})", "", arguments.join(", ")).unwrap();
            outline(of, block, indent + 2, out);
        }
    }
}

fn outline_of(bytes: &[u8]) -> String {
    let of = Bytecode::read(bytes).unwrap();
    let mut out = String::new();
    outline(&of, &of.block, 0, &mut out);
    out
}

#[test]
fn a_function_of_stablehlo() {
    let of = Bytecode::read(file("add")).unwrap();
    assert_eq!((of.version, of.producer), (6, "StableHLO_v1.15.0"));
    assert_eq!(of.dialects().collect::<Vec<_>>(), ["builtin", "vhlo"]);
    let text = outline_of(file("add"));
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    assert_eq!(lines.len(), 6, "{text}");
    assert!(lines[2].starts_with("vhlo.func_v1"), "{text}");
    assert_eq!(lines[3], "(%0, %1)");
    assert!(lines[4].ends_with("vhlo.add_v1 %0 %1"), "{text}");
    assert_eq!(lines[5], "vhlo.return_v1 %2");
}

#[test]
fn regions_see_the_values_around_them_and_count_on_from_there() {
    let text = outline_of(file("loop"));
    assert!(text.contains("vhlo.while_v1"), "{text}");
    // Values are numbered over the file: each line defines others.
    let defined: Vec<&str> =
        text.lines().filter_map(|l| l.trim().split(':').next()).filter(|v| v.starts_with('%')).collect();
    let mut distinct = defined.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(defined.len(), distinct.len(), "{text}");
}

#[test]
fn a_kernel_of_pallas_is_read_without_knowing_its_dialect() {
    let of = Bytecode::read(file("pallas_matmul")).unwrap();
    let text = outline_of(file("pallas_matmul"));
    assert!(of.dialects().any(|d| d == "stable_mosaic"));
    for name in
        ["stable_mosaic.func.func", "stable_mosaic.tpu.matmul", "stable_mosaic.scf.if", "stable_mosaic.vector.load"]
    {
        assert!(text.contains(name), "{name}:\n{text}");
    }
    let module = &of.block.operations[0];
    let function = &module.regions[0].blocks[0].operations[0];
    let memref = function.regions[0].blocks[0].arguments[3].type_id;
    match of.type_of(memref).unwrap() {
        Type::Text(t) => assert_eq!(t, "memref<128x128xf32, #tpu.memory_space<vmem>>"),
        Type::MemRef { dims, space: Some(space), .. } => {
            assert_eq!(dims, Some(vec![Some(128), Some(128)]));
            assert!(matches!(of.attribute(space).unwrap(), Attribute::Text("#tpu.memory_space<vmem>")));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn locations_are_the_stack_of_calls_in_python() {
    let of = Bytecode::read(file("add")).unwrap();
    let function = &of.block.operations[0].regions[0].blocks[0].operations[0];
    let add = &function.regions[0].blocks[0].operations[0];
    let location = of.location(add.location).unwrap();
    assert_eq!(location.name, "jit(add)/add");
    let frames: Vec<(&str, u64)> = location.frames.iter().map(|f| (f.function, f.line)).collect();
    assert_eq!(frames[0], ("add", 13));
    assert!(location.frames[0].file.ends_with("make.py"), "{location:?}");
    assert!(frames.len() > 1, "{location:?}");
}

/// Everything that can be asked of a file.
fn read_all(bytes: &[u8]) {
    let Ok(of) = Bytecode::read(bytes) else { return };
    fn walk(of: &Bytecode<'_>, block: &Block<'_>) {
        for o in &block.operations {
            let _ = of.location(o.location);
            let _ = o.attributes.map(|id| of.dictionary(id));
            for (v, t) in &o.results {
                assert!(v.index() < of.values());
                let _ = of.type_of(*t);
            }
            o.operands.iter().for_each(|v| assert!(v.index() < of.values()));
            o.regions.iter().flat_map(|r| &r.blocks).for_each(|b| walk(of, b));
        }
    }
    walk(&of, &of.block);
    for id in of.attribute_ids() {
        let _ = of.attribute(id);
        let _ = of.location(id);
    }
    for id in of.type_ids() {
        let _ = of.type_of(id);
    }
}

#[test]
fn cut_files_are_errors() {
    for (name, bytes) in FILES {
        for n in 0..bytes.len() {
            assert!(Bytecode::read(&bytes[..n]).is_err(), "{name} cut to {n} bytes");
        }
    }
}

#[test]
fn damaged_files_are_read_or_refused() {
    for (_, bytes) in FILES {
        let mut damaged = bytes.to_vec();
        for i in 0..bytes.len() {
            for value in [0, 0xff, bytes[i] ^ 2, bytes[i].wrapping_add(4)] {
                damaged[i] = value;
                read_all(&damaged);
            }
            damaged[i] = bytes[i];
        }
    }
}

#[test]
fn noise_is_refused_or_read() {
    let mut state = 1u64;
    let mut next = move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize
    };
    for round in 0..2000 {
        let bytes = FILES[round % FILES.len()].1;
        let mut damaged = bytes.to_vec();
        for _ in 0..1 + next() % 8 {
            let at = next() % damaged.len();
            damaged[at] = next() as u8;
        }
        read_all(&damaged);
    }
}
