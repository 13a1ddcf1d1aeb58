//! Assembly: mistakes shown in place, and programs that come back from their text.

use proptest::prelude::*;
use systole_isa::asm::*;
use systole_isa::container::write_program;
use systole_isa::inst::{Bundle, Inst};
use systole_isa::opcodes::TABLE;
use systole_isa::program::{
    Constant, DebugBuffer, DebugInfo, DebugKernel, DebugLine, DebugMember, DebugOp, DebugPlace, DebugRange, HostArray,
    HostCall, HostCallKind, MemoryUse, PodShape,
};
use systole_isa::table::Kind;
use systole_isa::topology::Topology;
use systole_isa::{ChipConfig, DType, DmaDesc, DmaDim, Layout, MxuFormat, Op, Program, Space, encode_bundles};

const VECTOR_ADD: &str = include_str!("../../../examples/vector_add.s");
const MATMUL: &str = include_str!("../../../examples/matmul.s");

fn tiny() -> ChipConfig {
    ChipConfig::from_preset("tiny").expect("a preset")
}

/// Disassembles, assembles again without help, and compares the files.
fn check_round_trip(program: &Program, chip: &ChipConfig) {
    let text = disassemble(program, chip).expect("the program is valid");
    assert!(is_assembly(&text));
    let again = assemble(&text, "again.s", None).unwrap_or_else(|e| panic!("{e}\n{text}"));
    assert_eq!(&again, program, "{text}");
    assert!(write_program(&again) == write_program(program));
}

#[test]
fn examples_assemble_and_round_trip() {
    for (text, params) in [(VECTOR_ADD, 2), (MATMUL, 2)] {
        let (program, chip) = assemble_with_chip(text, "example.s", None).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!((program.params.len(), program.results.len(), chip.name.as_str()), (params, 1, "tiny"));
        assert!(is_assembly(text));
        check_round_trip(&program, &chip);
    }
    assert!(!is_assembly("HloModule m\n"));
    assert!(!is_assembly(""));
}

#[test]
fn what_is_not_said_has_a_default() {
    let text = ".chip tiny mxu.count=1 clock=2GHz\n.const table\n.f32 1, 2.5\n.s32 -1\n.param x bf16[3]\n.param y f32[] at 4096\n\
                s.li s1, @table | s.li s2, @y // comment\nb.trap \"why\"\nb.trap \"why\" # again\n";
    let (p, chip) = assemble_with_chip(text, "t.s", None).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((chip.mxu.count, chip.clock_hz), (1, 2e9));
    assert_eq!((p.constants[0].address, p.params[0].address, p.params[1].address), (0, 512, 4096));
    assert_eq!(p.constants[0].bytes, [0, 0, 128, 63, 0, 0, 32, 64, 255, 255, 255, 255]);
    assert_eq!(
        (p.memory.hbm_bytes, p.memory.vmem_bytes, p.traps.len()),
        (4096 + p.params[1].layout.bytes(), chip.vmem.bytes, 1)
    );
    let code = p.decode(&chip).expect("valid");
    assert_eq!(code[0][1], Inst::new(Op::SLi, &[2, 8]));
    check_round_trip(&p, &chip);
}

#[test]
fn numbers_and_labels_take_their_forms() {
    let text = ".chip tiny\nback: v.imm v1, 1.5f | v.imm v2, 0xffffffff | s.li s1, -7\n\nahead:\nb.nz s1, back\nb.jmp ahead\n\
                p.add.f64 p2, p4, p6 | \n v.pack.f8 v1, v2, e5m2 | nowhere\n";
    let e = assemble(text, "t.s", None).expect_err("an unknown mnemonic").to_string();
    assert!(e.contains("t.s:8:27"), "{e}");
    let good = text.replace(" | nowhere", "");
    let p = assemble(&good, "t.s", None).unwrap_or_else(|e| panic!("{e}"));
    let code = p.decode(&tiny()).expect("valid");
    assert_eq!(code[0].iter().map(|i| i.operands[1]).collect::<Vec<_>>(), [-7, 0x3fc00000, -1]);
    assert_eq!((code[1][0].operands[1], code[2][0].operands[0]), (0, 1));
    let last = Bundle { insts: code[3].to_vec() };
    assert_eq!((code.len(), last.to_string().as_str()), (4, "p.add.f64 p2, p4, p6 | v.pack.f8 v1, v2, e5m2"));
}

#[test]
fn mistakes_are_shown_in_place() {
    for (line, part) in [
        ("v.ad.f32 v1, v2, v3", "did you mean `v.add.f32`?"),
        ("v.add.f32 v1, v2", "t.s:2:17"),
        ("v.add.f32 v1, v2", "v.add.f32 d, a, b: d = a + b"),
        ("v.add.f32 v1, v2, v3, v4", "no more operands"),
        ("v.add.f32 v1, v2, s3", "expected a vector register"),
        ("v.add.f32 v1, v2, v32", "on tiny it takes 0 to 31"),
        ("p.add.f64 p2, p4, p5", "even number"),
        ("v.mov v1, v99999999999999", "expected a vector register"),
        ("b.jmp nowhere", "label `nowhere` is not defined"),
        ("x: x: nop", "already defined"),
        ("s.add s1, s1, s1 | s.add s1, s1, s1 | s.add s1, s1, s1", "3 instructions in the scalar slot"),
        ("s.add s1, s1, s1 s.add s1, s1, s1", "separated by `|`"),
        ("mxu.push mxu0, v0, 1, bf16", "operand `chunk` is 1"),
        ("mxu.push mxu0, v0, 0, s8", "do not take format s8"),
        ("dma.start load, s1, s0, s0, s0, sem0", "descriptor `load` is not defined above"),
        (".dsc x = hbm -> vmem chunk 4", "did you mean `.desc`?"),
        (".desc x = hbm -> cmem chunk 4", "hbm, vmem or smem"),
        (".desc x = hbm vmem chunk 4", "expected `->`"),
        (".desc x = hbm -> vmem chunk 4 dims 1:2", "expected `:`"),
        (".param x f33[2]", "types are pred"),
        (".param x f32[2]{1}", "every dimension number once"),
        (".param x f32[2,3]{1,1}", "every dimension number once"),
        (".param x f32[9999999999,9999999999]", "larger than any memory"),
        (".param x f32[9999999999]", "beyond the device's"),
        (".param x f32[2] at 5", "no multiple of 512"),
        (".hex 00", "follows a `.const`"),
        (".const c\n.hex 0g", "in hexadecimal"),
        (".const c\n.zeros 99999999999", "takes 0 to"),
        ("s.li s1, @nothing", "`@nothing` is not defined above"),
        (".program \"x", "does not end"),
        (".program \"\\q\"", "unknown escape"),
        (".hbm 1e9", "a whole number"),
        ("s.li s1, 1;", "unexpected character `;`"),
        (".loc 0", "an `.op` above"),
        ("b.trap 3", "trap message 3 does not exist"),
    ] {
        let text = format!(".chip tiny\n{line}\n");
        let e = assemble(&text, "t.s", None).expect_err(line).to_string();
        assert!(e.contains(part), "{line}: {e}");
        assert!(e.contains("--> t.s:"), "{line}: {e}");
    }
    let e = assemble(".chip tinny\nnop", "t.s", None).expect_err("no chip").to_string();
    assert!(e.contains("did you mean `tiny`?"), "{e}");
    let all = assemble(".chip tiny\nv.x\nv.y\n", "t.s", None).expect_err("two").0;
    assert_eq!(all.len(), 2);
}

#[test]
fn a_changed_chip_is_told_in_the_text() {
    let mut chip = ChipConfig::from_preset("tpu-v5e").expect("a preset");
    chip.apply_sets(&["mxu.count=2", "vmem.bytes=64MiB", "mxu.types.f8.rows_per_cycle=4", "name=mine"]).expect("good");
    let p = assemble("b.halt\n", "t.s", Some(&chip)).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((p.chip.as_str(), p.fingerprint), ("mine", chip.fingerprint()));
    check_round_trip(&p, &chip);
}

/// An instruction with operands drawn from `seeds`, valid on the chip for a program of `bundles` bundles, one
/// descriptor and one trap message.
fn instruction(op: usize, seeds: &[u32; 6], bundles: usize, chip: &ChipConfig) -> Inst {
    let info = &TABLE[op % TABLE.len()];
    let draw = |kind: Kind, seed: u32| -> i32 {
        let (min, mut max) = kind.range(chip);
        match kind {
            Kind::Fmt => return MxuFormat::Mid as i32,
            Kind::Target => max = bundles as i32 - 1,
            Kind::Desc | Kind::U4 => max = 0,
            _ => {}
        }
        let span = max as i64 - min as i64 + 1;
        let value = (min as i64 + seed as i64 % span) as i32;
        if matches!(kind, Kind::Pd | Kind::Pu) { value & !1 } else { value }
    };
    let mut operands: Vec<i32> = info.operands.iter().zip(seeds).map(|(o, &s)| draw(o.kind, s)).collect();
    if matches!(info.op, Op::BTrap | Op::BHost) {
        operands[0] = 0;
    }
    Inst::new(info.op, &operands)
}

fn any_program() -> impl Strategy<Value = Program> {
    let insts = prop::collection::vec((any::<usize>(), any::<[u32; 6]>()), 0..10);
    let code = prop::collection::vec(insts, 1..6);
    let data = prop::collection::vec(prop_oneof![Just(0u8), any::<u8>()], 0..200);
    (code, data, "\\PC{0,8}", any::<[u32; 6]>(), any::<[bool; 4]>(), -1e9..1e9f64).prop_map(build)
}

type Seeds = (Vec<Vec<(usize, [u32; 6])>>, Vec<u8>, String, [u32; 6], [bool; 4], f64);

fn build((code, data, text, n, flags, real): Seeds) -> Program {
    let chip = tiny();
    let mut bundles = Vec::new();
    for seeds in &code {
        let mut insts: Vec<Inst> = seeds.iter().map(|(op, s)| instruction(*op, s, code.len(), &chip)).collect();
        insts.sort_by_key(|i| i.op.info().slot);
        insts.dedup_by_key(|i| i.op.info().slot);
        bundles.push(Bundle { insts });
    }
    let dtype = DType::all().nth(n[0] as usize % 24).expect("24 types");
    let dims = [n[1] as u64 % 40, n[2] as u64 % 20];
    let order: &[u8] = if flags[0] { &[0, 1] } else { &[1, 0] };
    let layout = Layout::new(dtype, &dims, order, 4, 8);
    let row_major = Layout::row_major(dtype, &dims, 4, 8);
    let mut ranges = vec![DebugRange { start: n[3] % 2, op: 0 }];
    if flags[1] && ranges[0].start < bundles.len() as u32 {
        ranges.push(DebugRange { start: bundles.len() as u32, op: DebugRange::CALLER });
    }
    let mut constants = vec![Constant { address: 1 << 20, bytes: data.clone() }];
    if flags[2] {
        constants.push(Constant { address: 0, bytes: [vec![7], vec![0; 100], data].concat() });
    }
    Program {
        name: text.clone(),
        chip: "tiny".into(),
        fingerprint: chip.fingerprint(),
        code: encode_bundles(&bundles, &chip).expect("valid"),
        bundles: bundles.len() as u32,
        descs: vec![DmaDesc {
            src: Space::Smem,
            dst: Space::Hbm,
            chunk: n[4] % 1000,
            dims: vec![
                DmaDim { count: n[5] % 100, src_stride: -(n[0] as i64), dst_stride: n[1] as i64 };
                n[2] as usize % 3
            ],
        }],
        constants,
        params: vec![
            HostArray { address: 512, layout: layout.clone(), host_dims: None, name: text.clone() },
            HostArray { address: 512, layout: row_major, host_dims: Some(vec![dims[0] * dims[1]]), name: text.clone() },
        ],
        results: vec![HostArray {
            address: 0,
            layout: layout.clone(),
            host_dims: None,
            name: "a\"b\\\n\t\u{7f}".into(),
        }],
        memory: MemoryUse { hbm_bytes: 1 << 24, vmem_bytes: n[3] as u64 % (1 << 20), smem_words: n[4] % 1000 },
        traps: vec![text.clone()],
        host_calls: vec![HostCall {
            kind: HostCallKind::ALL[n[1] as usize % 5],
            target: text.clone(),
            config: "a\"b\\\n\t\u{7f}".into(),
            operands: vec![HostArray { address: 1024, layout: layout.clone(), host_dims: None, name: text.clone() }],
            results: vec![HostArray { address: 512, layout: layout.clone(), host_dims: None, name: text.clone() }],
        }],
        pod: if flags[2] { pod(&text, flags[3]) } else { PodShape::default() },
        debug: DebugInfo {
            source: text.clone(),
            ops: vec![DebugOp {
                name: text.clone(),
                opcode: "fusion".into(),
                line: n[5],
                flops: real,
                peak: flags[3].then_some(dtype),
                bytes: 0.1,
                padding: 0.3,
                members: vec![DebugMember { name: text, opcode: "add".into(), line: n[4] }],
            }],
            ranges,
            kernels: vec![DebugKernel { name: "a b".into(), start: n[3], bundles: n[2] }],
            buffers: vec![DebugBuffer {
                name: "x".into(),
                space: Space::Vmem,
                address: n[5] as u64,
                bytes: n[4] as u64,
                first: DebugRange::NONE,
                last: n[0],
            }],
            places: vec![DebugPlace { file: "k.py".into(), line: n[5], function: "f".into(), name: "a/b c".into() }],
            lines: vec![DebugLine { start: 0, place: if flags[3] { 0 } else { DebugRange::NONE } }],
        },
    }
}

fn pod(name: &str, alike: bool) -> PodShape {
    PodShape {
        replicas: 2,
        partitions: 2,
        topology: Topology::parse("2x2:torus,mesh", &tiny()).and_then(|t| t.ordered(vec![2, 0, 1, 3])).ok(),
        alike: if alike { vec![1, 2] } else { Vec::new() },
        algorithms: vec![(name.to_string(), "ring".into())],
        partners: vec![(name.to_string(), vec![vec![0, 2], vec![3, 1]])],
        behind: vec![(name.to_string(), vec![name.to_string(), "dot".into()])],
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn any_program_round_trips(program in any_program()) {
        check_round_trip(&program, &tiny());
    }

    #[test]
    fn any_text_assembles_or_fails(cut in any::<prop::sample::Index>(), insert in "[ -~\n\u{e4}]{0,6}", drop in 0usize..6) {
        let mut text = MATMUL.to_string();
        let at = cut.index(text.len());
        let end = (at + drop).min(text.len());
        text.replace_range(at..end, &insert);
        if let Err(e) = assemble(&text, "t.s", None) {
            prop_assert!(!e.to_string().is_empty());
        }
    }
}

#[test]
fn every_opcode_round_trips() {
    let chip = tiny();
    for op in 0..TABLE.len() {
        for seed in [0, 1, 77, u32::MAX] {
            let insts = vec![instruction(op, &[seed; 6], 1, &chip)];
            let mut p = build((vec![], vec![], "t".into(), [1; 6], [false; 4], 0.0));
            p.code = encode_bundles(&[Bundle { insts }], &chip).expect("valid");
            p.bundles = 1;
            check_round_trip(&p, &chip);
        }
    }
}
