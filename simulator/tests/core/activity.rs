//! What programs make the machine do, counted by hand.

use crate::build::*;
use systole_isa::{DmaDesc, DmaDim, MxuFormat, Op, Space};
use systole_simulator::stats::{Activities, Activity};
use systole_simulator::{Mode, NoObserver, RunOptions};

/// Checks every kind of an operation's counts, in all modes.
fn check(p: &Build, chip: &systole_isa::ChipConfig, expected: &[(Option<u32>, &[(Activity, u64)])]) {
    for mode in [Mode::Full, Mode::TimingOnly, Mode::NumericOnly] {
        let r = p.machine(chip).run(&RunOptions::new(mode), &mut NoObserver).expect("no fault");
        assert_eq!(r.activity()[Activity::Bundles], r.bundles, "operations add up to the run");
        for (op, counts) in expected {
            let mut want = Activities::default();
            counts.iter().for_each(|c| want[c.0] = c.1);
            assert_eq!(r.ops.iter().find(|o| o.op == *op).expect("it ran").activity, want, "{op:?} {mode:?}");
        }
    }
}

#[test]
fn shared_code_counts_for_its_caller_even_where_operations_follow_without_a_branch() {
    let mut p = Build::default();
    p.op("a");
    p.set(&[(1, 1), (2, 2)]);
    p.one(Op::BCall, &[9]);
    p.op("b");
    p.set(&[(1, 3)]);
    p.one(Op::BCall, &[9]);
    p.one(Op::BCall, &[9]);
    p.op("c");
    p.one(Op::SSt, &[1, 2, 0]);
    p.one(Op::SLd, &[3, 2, 0]);
    p.halt();
    p.op("(caller)");
    p.b(&[i(Op::VAddF, &[1, 1, 2]), i(Op::VLd, &[3, 0, 0, 1])]);
    p.one(Op::EExp, &[4, 1]);
    p.one(Op::BRet, &[]);
    use Activity::*;
    let chip = tiny();
    let lanes = u64::from(chip.core.sublanes * chip.core.lanes);
    let shared = |n: u64, own: u64| {
        [(Bundles, own + 3 * n), (Scalar, own + n), (Valu, n * lanes), (VmemRead, 4 * n * lanes), (Eup, n * lanes)]
    };
    check(
        &p,
        &chip,
        &[
            (Some(0), &shared(1, 3)),
            (Some(1), &shared(2, 3)),
            (Some(2), &[(Bundles, 3), (Scalar, 3), (SmemRead, 4), (SmemWrite, 4)]),
        ],
    );
}

#[test]
fn loads_and_stores_count_the_bytes_of_their_elements() {
    let chip = tiny();
    let lanes = u64::from(chip.core.sublanes * chip.core.lanes);
    use Activity::*;
    let words = (4, Op::VLd, Op::VSt);
    let halves = (2, Op::VLdS16, Op::VSt16);
    let bytes = (1, Op::VLdS8, Op::VSt8);
    for (width, load, store) in [words, halves, bytes] {
        let mut p = Build::default();
        p.op("a");
        p.one(load, &[1, 0, 0, 1]);
        for _ in 0..3 {
            p.one(store, &[1, 0, 64, 1, 0]);
        }
        p.halt();
        let counts = [(Bundles, 5), (Scalar, 1), (VmemRead, width * lanes), (VmemWrite, 3 * width * lanes)];
        check(&p, &chip, &[(Some(0), &counts)]);
    }
}

#[test]
fn copies_count_by_memories_and_matrix_rows_by_format() {
    let chip = tiny_with_integers();
    let chunks = (chip.mxu.rows / chip.core.lanes) as i32;
    let mut p = Build::default();
    let dims = vec![DmaDim { count: 3, src_stride: 64, dst_stride: 256 }];
    let load = p.desc(DmaDesc { src: Space::Hbm, dst: Space::Vmem, chunk: 64, dims });
    let words = p.desc(DmaDesc::contiguous(Space::Hbm, Space::Smem, 32));
    p.op("a");
    p.set(&[(1, 8), (2, 0)]);
    p.one(Op::DmaStart, &[load, 1, 0, 2, 0, 0]);
    p.one(Op::DmaStart, &[words, 1, 0, 2, 0, 1]);
    p.one(Op::DmaWait, &[0, 192]);
    p.one(Op::DmaWait, &[1, 32]);
    for chunk in 0..chunks {
        p.one(Op::MPush, &[0, 1, chunk, MxuFormat::S8 as i32]);
    }
    p.one(Op::MStage, &[0, 1, 0, MxuFormat::Mid as i32]);
    for chunk in 0..(chip.mxu.cols / chip.core.lanes) as i32 {
        p.one(Op::MPop, &[2, 0, chunk]);
    }
    p.halt();
    use Activity::*;
    let lanes = u64::from(chip.core.sublanes * chip.core.lanes);
    let results = lanes * u64::from(chip.mxu.cols / chip.core.lanes);
    let bundles = p.bundles.len() as u64;
    check(
        &p,
        &chip,
        &[(
            Some(0),
            &[
                (Bundles, bundles),
                (Scalar, 3),
                (Descriptors, 2),
                (HbmToVmem, 192),
                (HbmToSmem, 32),
                (RowsS8, u64::from(chip.core.sublanes)),
                (WeightsBf16, lanes),
                (MxuResults, results),
            ],
        )],
    );
}
