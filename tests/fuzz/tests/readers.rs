//! Every reader on inputs that are nearly right: a result or a message, within memory and time.

mod harness;

use harness::target;
use std::sync::LazyLock;
use systole_front::{hlo_proto, parse_hlo, parse_stablehlo, vhlo};
use systole_fuzz::{corpus, own, seal};
use systole_hlo::graph::{Module, print, verify::verify};
use systole_isa::{ChipConfig, asm, container};
use systole_runtime::{Client, CompileOptions, npz, profile};

static TINY: LazyLock<ChipConfig> = LazyLock::new(|| ChipConfig::from_preset("tiny").expect("it is a preset"));

/// What reads and verifies is printed as text that reads as the same module.
fn come_back(module: &Module) {
    if verify(module).is_err() {
        return;
    }
    let text = print::to_text(module);
    let (again, _) = parse_hlo(&text).unwrap_or_else(|e| panic!("{}\n{text}", e[0]));
    assert_eq!(print::to_text(&again), text);
}

#[rustfmt::skip]
const HLO_WORDS: [&str; 40] = [
    "add", "tanh", "dot", "reduce", "while", "conditional", "constant", "parameter", "tuple", "get-tuple-element", "gather",
    "scatter", "convolution", "custom-call", "all-reduce", "sort", "fft", "pad", "slice", "dynamic-slice", "transpose",
    "reshape", "broadcast", "iota", "rng", "f32", "s4", "c128", "pred", "token", "f8e4m3fn", "dimensions", "to_apply",
    "window", "replica_groups", "ROOT", "ENTRY", "inf", "nan", "sharding",
];

#[test]
fn hlo_text() {
    target("hlo_text", &HLO_WORDS, corpus("hlo_text"), 20_000, |input| {
        if let Ok((module, _)) = parse_hlo(&String::from_utf8_lossy(input)) {
            come_back(&module);
        }
    });
}

#[rustfmt::skip]
const STABLEHLO_WORDS: [&str; 31] = [
    "stablehlo.add", "stablehlo.constant", "stablehlo.dot_general", "stablehlo.reduce", "stablehlo.while", "stablehlo.case",
    "stablehlo.convolution", "stablehlo.gather", "stablehlo.custom_call", "stablehlo.composite", "chlo.top_k", "func.call",
    "func.func", "return", "module", "tensor", "dense", "array", "i64", "i4", "ui2", "f8E4M3FN", "complex", "index",
    "dims", "across", "loc", "dense_resource",
    "!quant.uniform<i8:f32, 0.5:-3>", "stablehlo.uniform_quantize", "stablehlo.uniform_dequantize",
];

#[test]
fn stablehlo_text() {
    target("stablehlo_text", &STABLEHLO_WORDS, corpus("stablehlo_text"), 20_000, |input| {
        if let Ok((modules, _)) = parse_stablehlo(&String::from_utf8_lossy(input)) {
            modules.iter().for_each(come_back);
        }
    });
}

#[test]
fn hlo_proto() {
    target("hlo_proto", &[], corpus("hlo_proto"), 20_000, |input| {
        if let Ok(text) = hlo_proto::to_text(input)
            && let Ok((module, _)) = parse_hlo(&text)
        {
            come_back(&module);
        }
    });
}

#[test]
fn vhlo_bytecode() {
    let corpus = own("compiler/front/tests/data", "mlirbc");
    target(
        "vhlo_bytecode",
        &["add_v1", "func", "vhlo", "stablehlo", "sdy", "StableHLO_v1.9.0"],
        corpus,
        20_000,
        |input| {
            let Some(bytes) = vhlo::bytecode(input) else { return };
            if let Ok(text) = vhlo::to_text(bytes)
                && let Ok((modules, _)) = parse_stablehlo(&text)
            {
                modules.iter().for_each(come_back);
            }
        },
    );
}

/// Programs of this version: the examples in assembly, and small modules.
fn programs() -> Vec<Vec<u8>> {
    let client = Client::with_chip(TINY.clone());
    let modules = corpus("hlo_text");
    let compiled = modules.iter().filter(|m| m.len() < 1500).filter_map(|m| {
        let text = std::str::from_utf8(m).ok()?;
        let exe = client.compile_text(text, &CompileOptions::default()).ok()?;
        Some(container::write_program(&exe.program))
    });
    let assembled = own("examples", "s").into_iter().filter_map(|t| {
        let program = asm::assemble(std::str::from_utf8(&t).ok()?, "program", Some(&TINY)).ok()?;
        Some(container::write_program(&program))
    });
    assembled.chain(compiled.take(12)).collect()
}

#[test]
fn program() {
    target("program", &[], programs(), 20_000, |input| {
        // As it is, and with the checksum that it would have.
        let sealed = seal::program(input, seal::program_payload(input));
        for file in [input, &sealed] {
            let Ok(program) = container::read_program(file) else { continue };
            let _ = Client::with_chip(TINY.clone()).load(program);
        }
    });
}

#[test]
fn recorded_profile() {
    let corpus = own("tui/tests/data", "sysp");
    target("profile", &["chip", "meta", "null", "true", "[]", "{}"], unsealed(&corpus), 20_000, move |input| {
        let _ = profile::read(input);
        let _ = profile::read(&sealed(&corpus[0], input));
    });
}

/// Profiles with their sections unpacked: kind, length, bytes.
fn unsealed(corpus: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let flat = |f: &Vec<u8>| -> Vec<u8> {
        let sections = seal::profile_sections(f);
        sections.iter().flat_map(|(kind, raw)| [&kind[..], &(raw.len() as u32).to_le_bytes(), raw].concat()).collect()
    };
    corpus.iter().cloned().chain(corpus.iter().map(flat)).collect()
}

fn sealed(like: &[u8], mut flat: &[u8]) -> Vec<u8> {
    let mut sections = Vec::new();
    while let Some((head, rest)) = flat.split_first_chunk::<8>() {
        let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
        let raw = rest[..length.min(rest.len())].to_vec();
        flat = &rest[raw.len()..];
        sections.push(([head[0], head[1], head[2], head[3]], raw));
    }
    seal::profile(like, &sections)
}

#[test]
fn array_file() {
    let corpus = corpus("npz");
    target("npz", &["descr", "shape", "fortran_order", "True", "f8", "i1", "c16"], corpus, 20_000, |input| {
        let _ = npz::read_from(std::io::Cursor::new(input), "it", &|_| true);
        // The members with the checksums that they would have.
        let members = seal::members(input);
        let sealed = seal::archive(&[members, vec![("arg0.npy".to_string(), input.to_vec())]].concat());
        let _ = npz::read_from(std::io::Cursor::new(sealed), "it", &|_| true);
    });
}

#[test]
fn chip_description() {
    let words = ["inf", "nan", "GiB", "GB/s", "MHz", "ns", "true", "timing", "mxu", "base", "e308", "\"tpu-v4\""];
    target("chip", &words, own("chips", "toml"), 5_000, |input| {
        if let Ok(chip) = ChipConfig::from_toml(&String::from_utf8_lossy(input), "chip.toml") {
            let _ = (chip.fingerprint(), chip.hbm_bytes_per_cycle());
        }
    });
}

#[test]
fn assembly() {
    let words =
        ["s.add", "v.ld", "v.st", "dma.start", "b.jump", "mxu.push", "s0", "v127", "m3", ".desc", ".chip", ".param"];
    target("assembly", &words, own("examples", "s"), 20_000, |input| {
        let text = String::from_utf8_lossy(input);
        if let Ok(program) = asm::assemble(&text, "program", Some(&TINY)) {
            let _ = asm::disassemble(&program, &TINY);
        }
    });
}
