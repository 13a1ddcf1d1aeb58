//! Encoding, decoding and the program file: round trips over the whole opcode table, and damage of every kind.

use proptest::prelude::*;
use systole_isa::chip::PRESETS;
use systole_isa::container::ContainerError;
use systole_isa::encoding::{CodeError, Problem, layout};
use systole_isa::float::F8;
use systole_isa::opcodes::TABLE;
use systole_isa::program::{Constant, DebugInfo, DebugLine, DebugOp, DebugRange, HostArray, MemoryUse};
use systole_isa::table::{Kind, OpInfo};
use systole_isa::*;

fn chip(name: &str) -> ChipConfig {
    ChipConfig::from_preset(name).expect("a preset")
}

/// The number of values that an operand of an opcode has on a chip, all from 0 or from the range's least.
fn operand(info: &OpInfo, kind: Kind, seed: u64, chip: &ChipConfig) -> i32 {
    let (min, mut max) = kind.range(chip);
    let (rows, cols) = chip.mxu_chunks();
    if kind == Kind::U4 {
        max = rows.min(cols) as i32 - 1;
    }
    if kind == Kind::Fmt {
        let formats: Vec<usize> =
            (0..MxuFormat::ALL.len()).filter(|&f| chip.mxu_type(MxuFormat::ALL[f]).is_some()).collect();
        return formats[seed as usize % formats.len()] as i32;
    }
    // The ends of the range are as likely as all the middle.
    let value = match seed % 4 {
        0 => min,
        1 => max,
        _ => (min as i64 + ((seed >> 2) % (max as i64 - min as i64 + 1) as u64) as i64) as i32,
    };
    assert!(info.operands.iter().any(|o| o.kind == kind));
    if matches!(kind, Kind::Pd | Kind::Pu) { value & !1 } else { value }
}

fn inst(op: usize, seeds: &[u64; 6], chip: &ChipConfig) -> Inst {
    let info = &TABLE[op % TABLE.len()];
    let operands: Vec<i32> = info.operands.iter().zip(seeds).map(|(o, &s)| operand(info, o.kind, s, chip)).collect();
    Inst::new(info.op, &operands)
}

/// A bundle in slot order with no slot overfull.
fn bundle(seeds: &[(usize, [u64; 6])], chip: &ChipConfig) -> Bundle {
    let mut left = Slot::ALL.map(|s| chip.slots(s));
    let mut insts: Vec<Inst> = seeds.iter().map(|(op, s)| inst(*op, s, chip)).collect();
    insts.retain(|i| {
        let n = &mut left[i.op.info().slot as usize];
        *n = n.saturating_sub(1);
        *n > 0
    });
    insts.sort_by_key(|i| i.op.info().slot);
    Bundle { insts }
}

#[test]
fn every_opcode_fits_its_word_and_round_trips() {
    for info in TABLE {
        let (_, end) = layout(info);
        assert!(end <= 64, "{} needs {end} bits", info.mnemonic);
    }
    for (name, _) in PRESETS {
        let chip = chip(name);
        for op in 0..TABLE.len() {
            for seed in [0, 1, 6, 10, 1 << 40 | 2] {
                let b = vec![Bundle { insts: vec![inst(op, &[seed; 6], &chip)] }];
                let code = encode_bundles(&b, &chip).expect("operands are in range");
                assert_eq!(decode_bundles(&code, &chip).expect("own code"), b, "{name}");
            }
        }
    }
}

#[test]
fn the_documented_example_has_the_documented_bits() {
    let code =
        encode_bundles(&[Bundle { insts: vec![Inst::new(Op::SAddI, &[1, 2, 5])] }], &chip("tiny")).expect("good");
    let word: u64 = Op::SAddI as u64 | 1 << 10 | 2 << 16 | 5 << 22;
    assert_eq!(code, [1u64.to_le_bytes(), word.to_le_bytes()].concat());
    let page = include_str!("../../../docs/isa.md");
    assert!(page.contains(&format!("opcode {0}: {0} | 1 << 10 | 2 << 16 | 5 << 22", Op::SAddI as u16)));
}

#[test]
fn headers_name_the_last_bundle_that_is_alike() {
    let chip = chip("tiny");
    let add = |d, a, imm| Inst::new(Op::SAddI, &[d, a, imm]);
    let push = |unit, vector| Inst::new(Op::MPush, &[unit, vector, 0, MxuFormat::Bf16 as i32]);
    // How many bundles before it each header names one.
    let bundles = [
        (vec![add(1, 2, 5)], 0),
        (vec![add(1, 2, 6)], 1),
        (vec![add(1, 3, 5)], 1),
        // The same registers are looked for first.
        (vec![add(1, 2, 7)], 2),
        (vec![add(1, 2, 7), add(3, 4, 5)], 0),
        (vec![push(0, 1)], 0),
        // Another matrix unit is more than another register.
        (vec![push(1, 1)], 0),
        (vec![push(0, 2)], 2),
        (vec![], 0),
        (vec![], 1),
    ];
    let code = bundles.iter().map(|b| Bundle { insts: b.0.clone() }).collect::<Vec<_>>();
    let mut words = encode_bundles(&code, &chip).expect("in range");
    let mut at = 0;
    for (insts, back) in &bundles {
        let header = u64::from_le_bytes(*words[at..].first_chunk().expect("a header"));
        assert_eq!(systole_isa::alike::back(header), *back, "{insts:?}");
        at += systole_isa::encode::bundle_bytes(insts.len());
    }
    assert_eq!(decode_bundles(&words, &chip).expect("own code"), code);
    // The first bundle has none before it.
    words[5] = 1;
    let e = decode_bundles(&words, &chip).expect_err("there is none");
    assert_eq!(e, CodeError { bundle: 0, problem: Problem::Alike { back: 1 } });
}

#[test]
fn operands_out_of_range_are_refused() {
    let chip = chip("tiny");
    let outside = [
        Inst::new(Op::SAdd, &[32, 0, 0]),
        Inst::new(Op::SAdd, &[1, -1, 0]),
        Inst::new(Op::VAddF, &[0, 0, 32]),
        Inst::new(Op::PAddD, &[1, 0, 0]),
        Inst::new(Op::PAddD, &[0, 0, 32]),
        Inst::new(Op::VSel, &[0, 16, 0, 0]),
        Inst::new(Op::VLd, &[0, 0, 1 << 19, 1]),
        Inst::new(Op::VLd, &[0, 0, 0, 1 << 15]),
        Inst::new(Op::SShlI, &[0, 0, 256]),
        Inst::new(Op::DmaWait, &[64, 0]),
        Inst::new(Op::MLatch, &[2]),
        Inst::new(Op::MPush, &[0, 0, 1, 0]),
        Inst::new(Op::MPush, &[0, 0, 0, MxuFormat::S8 as i32]),
        Inst::new(Op::XTpop, &[0, 2]),
        Inst::new(Op::VPackF8, &[0, 0, F8::ALL.len() as i32]),
        Inst::new(Op::BJmp, &[-1]),
    ];
    for i in outside {
        let e = encode_bundles(&[Bundle::default(), Bundle { insts: vec![i] }], &chip).expect_err("out of range");
        assert_eq!(e.bundle, 1);
        assert!(e.to_string().contains(i.op.info().mnemonic), "{e}");
    }
    let many = Bundle { insts: vec![Inst::new(Op::SAdd, &[1, 1, 1]); 3] };
    let e = encode_bundles(&[many], &chip).expect_err("too many");
    assert_eq!(e, CodeError { bundle: 0, problem: Problem::TooMany { slot: Slot::Scalar, have: 3, max: 2 } });
}

#[test]
fn bad_code_is_named() {
    let chip = chip("tiny");
    let code = encode_bundles(&[Bundle { insts: vec![Inst::new(Op::SLi, &[1, 7])] }], &chip).expect("good");
    let problem = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut c = code.clone();
        change(&mut c);
        decode_bundles(&c, &chip).expect_err("bad code").problem
    };
    assert_eq!(problem(&|c| c.truncate(12)), Problem::Truncated);
    assert_eq!(problem(&|c| c.truncate(3)), Problem::Truncated);
    assert_eq!(problem(&|c| c[7] = 1), Problem::Alike { back: 1 << 16 });
    assert_eq!(problem(&|c| c[15] = 1), Problem::Unused { op: Op::SLi });
    assert_eq!(problem(&|c| c[0] = 15), Problem::TooMany { slot: Slot::Scalar, have: 15, max: 2 });
    assert_eq!(problem(&|c| c[0] = 0x10), Problem::Slot { op: Op::SLi, slot: Slot::Valu });
    assert!(matches!(problem(&|c| c[9] |= 3), Problem::Opcode { .. }));
}

/// A program that uses every part of the container.
fn program(chip: &ChipConfig) -> Program {
    let bundles = [
        Bundle { insts: vec![Inst::new(Op::SLi, &[1, -7]), Inst::new(Op::DmaStart, &[0, 1, 2, 3, 0, 5])] },
        Bundle { insts: vec![Inst::new(Op::BNz, &[1, 0])] },
        Bundle { insts: vec![Inst::new(Op::BTrap, &[0])] },
    ];
    let layout = Layout::row_major(DType::BF16, &[3, 5], chip.core.sublanes, chip.core.lanes);
    let array = HostArray { address: 512, layout: layout.clone(), host_dims: None, name: "p".into() };
    Program {
        name: "test".into(),
        chip: chip.name.clone(),
        fingerprint: chip.fingerprint(),
        code: encode_bundles(&bundles, chip).expect("in range"),
        bundles: 3,
        descs: vec![DmaDesc {
            src: Space::Hbm,
            dst: Space::Vmem,
            chunk: 64,
            dims: vec![DmaDim { count: 3, src_stride: -64, dst_stride: 128 }],
        }],
        constants: vec![Constant { address: 0, bytes: vec![1, 2, 3] }],
        params: vec![array.clone()],
        results: vec![array],
        memory: MemoryUse { hbm_bytes: 512 + layout.bytes(), vmem_bytes: 4096, smem_words: 3 },
        traps: vec!["no".into()],
        debug: DebugInfo {
            source: "a.hlo".into(),
            ops: vec![DebugOp {
                name: "dot.1".into(),
                opcode: "dot".into(),
                line: 3,
                flops: 1.0,
                peak: Some(DType::BF16),
                bytes: 2.0,
                padding: 0.0,
                members: Vec::new(),
            }],
            ranges: vec![DebugRange { start: 0, op: 0 }, DebugRange { start: 2, op: DebugRange::NONE }],
            ..DebugInfo::default()
        },
        ..Program::default()
    }
}

#[test]
fn program_files_round_trip_and_damage_is_told() {
    let chip = chip("tiny");
    let p = program(&chip);
    let file = write_program(&p);
    assert_eq!(read_program(&file).as_ref(), Ok(&p));
    assert!(!p.constants.is_empty());
    assert!(write_code(&p) == write_program(&Program { constants: Vec::new(), ..p.clone() }));
    assert_eq!(p.decode(&chip).expect("fits").len(), 3);
    assert_eq!(read_program(b"HloModule m"), Err(ContainerError::Foreign));
    assert_eq!(read_program(b""), Err(ContainerError::Foreign));
    for cut in 1..file.len() {
        assert!(matches!(read_program(&file[..cut]), Err(ContainerError::Truncated { .. })), "cut at {cut}");
    }
    let mut long = file.clone();
    long.push(0);
    assert_eq!(read_program(&long), Err(ContainerError::Trailing { extra: 1 }));
    for at in 24..file.len() {
        let mut bad = file.clone();
        bad[at] ^= 0x41;
        assert!(matches!(read_program(&bad), Err(ContainerError::Checksum { .. })), "flip at {at}");
    }
    let mut newer = file.clone();
    newer[8] += 1;
    assert!(matches!(read_program(&newer), Err(ContainerError::Newer { .. })));
    newer[8] -= 2;
    assert!(matches!(read_program(&newer), Err(ContainerError::Older { .. })));
}

#[test]
fn programs_that_do_not_fit_are_refused() {
    let tiny = chip("tiny");
    let e = program(&tiny).decode(&chip("tpu-v5e")).expect_err("another chip").to_string();
    assert!(e.contains("`tiny`") && e.contains("`tpu-v5e`"), "{e}");
    type Change = fn(&mut Program);
    let changes: [(&str, Change); 16] = [
        ("bundles", |p| p.bundles = 4),
        ("DMA descriptor 0 does not exist", |p| p.descs.clear()),
        ("trap message 0", |p| p.traps.clear()),
        ("at most 4", |p| p.descs[0].dims = vec![DmaDim { count: 1, src_stride: 0, dst_stride: 0 }; 5]),
        ("a semaphore counts", |p| p.descs[0].dims[0].count = u32::MAX),
        ("beyond any memory", |p| p.descs[0].dims[0].src_stride = i64::MIN),
        ("bytes of HBM", |p| p.memory.hbm_bytes = 1 << 40),
        ("bytes of VMEM", |p| p.memory.vmem_bytes = 1 << 40),
        ("bytes of SMEM", |p| p.memory.smem_words = u32::MAX),
        ("outside the program's", |p| p.params[0].address = u64::MAX / 512 * 512),
        ("no multiple", |p| p.constants[0].address = 1),
        ("permutation", |p| p.results[0].layout.minor_to_major = vec![0, 0]),
        ("larger than any memory", |p| p.results[0].layout.dims = vec![u64::MAX, u64::MAX]),
        ("operation 9", |p| p.debug.ranges[1].op = 9),
        ("place 3", |p| p.debug.lines.push(DebugLine { start: 0, place: 3 })),
        ("a line begins after", |p| p.debug.lines.push(DebugLine { start: 99, place: DebugRange::NONE })),
    ];
    for (part, change) in changes {
        let mut p = program(&tiny);
        change(&mut p);
        let e = p.decode(&tiny).expect_err(part).to_string();
        assert!(e.contains(part), "{part}: {e}");
    }
}

proptest! {
    #[test]
    fn bundles_round_trip(seeds in prop::collection::vec(prop::collection::vec((any::<usize>(), any::<[u64; 6]>()), 0..20), 0..8), v5e: bool) {
        let chip = chip(if v5e { "tpu-v5e" } else { "tiny" });
        let bundles: Vec<Bundle> = seeds.iter().map(|s| bundle(s, &chip)).collect();
        let code = encode_bundles(&bundles, &chip).expect("in range");
        prop_assert_eq!(decode_bundles(&code, &chip).expect("own code"), bundles);
    }

    #[test]
    fn any_words_decode_or_fail(counts in any::<[u8; 5]>(), words in prop::collection::vec(any::<u64>(), 0..6)) {
        let chip = chip("tiny");
        let mut code = counts.iter().map(|c| c & 0x11).chain([0; 3]).collect::<Vec<u8>>();
        code.extend(words.iter().flat_map(|w| (w & !0x380).to_le_bytes()));
        if let Ok(bundles) = decode_bundles(&code, &chip) {
            prop_assert_eq!(encode_bundles(&bundles, &chip).expect("decoded"), code);
        }
    }

    #[test]
    fn a_damaged_payload_never_crashes_the_reader(at: prop::sample::Index, byte: u8, cut in 0usize..8) {
        let chip = chip("tiny");
        let mut file = write_program(&program(&chip));
        file.truncate(file.len() - cut);
        let payload = file.len() - 24;
        file[24 + at.index(payload)] = byte;
        let crc = crc32fast::hash(&file[24..]);
        file[12..16].copy_from_slice(&crc.to_le_bytes());
        file[16..24].copy_from_slice(&(payload as u64).to_le_bytes());
        if let Ok(p) = read_program(&file) {
            let _ = p.decode(&chip);
        }
    }
}
