//! Faults of the simulated program, and programs that do not load.

use crate::build::*;
use systole_isa::{DmaDesc, Op, Space};
use systole_simulator::{FaultKind, LoadError, Mode, NoObserver, RunOptions, load_bundles};

fn fault(p: &Build) -> FaultKind {
    p.run(&tiny(), Mode::Full).expect_err("a fault").kind
}

fn one(op: Op, operands: &[i32]) -> Build {
    let mut p = Build::default();
    p.set(&[(1, 1 << 20), (2, -1)]);
    p.one(op, operands);
    p.halt();
    p
}

#[test]
fn accesses_out_of_range() {
    // 2 MiB of VMEM are 65536 rows of 32 bytes, 131072 of 16 bits.
    assert!(matches!(fault(&one(Op::VLd, &[1, 1, 0, 1])), FaultKind::OutOfRange { memory: "VMEM", .. }));
    assert!(matches!(fault(&one(Op::VLd, &[1, 2, 0, 1])), FaultKind::OutOfRange { memory: "VMEM", first: -1, .. }));
    assert!(matches!(
        fault(&one(Op::VSt, &[1, 0, 65533, 1, 0])),
        FaultKind::OutOfRange { memory: "VMEM", last: 65536, .. }
    ));
    assert!(one(Op::VLdBf16, &[1, 0, 131068, 1]).run(&tiny(), Mode::Full).is_ok());
    assert!(matches!(fault(&one(Op::VLdBf16, &[1, 0, 131069, 1])), FaultKind::OutOfRange { .. }));
    assert!(matches!(fault(&one(Op::SLd, &[3, 1, 0])), FaultKind::OutOfRange { memory: "SMEM", .. }));
    assert!(matches!(fault(&one(Op::SSt, &[3, 2, 0])), FaultKind::OutOfRange { memory: "SMEM", .. }));
    let mut p = Build::default();
    let d = p.desc(DmaDesc::contiguous(Space::Hbm, Space::Vmem, 512));
    p.set(&[(1, 1 << 19)]);
    p.one(Op::DmaStart, &[d, 1, 0, 0, 0, 0]);
    p.halt();
    assert!(matches!(fault(&p), FaultKind::OutOfRange { memory: "HBM", .. }));
}

#[test]
fn control_faults() {
    assert_eq!(fault(&one(Op::BRet, &[])), FaultKind::ReturnWithoutCall);
    assert_eq!(fault(&one(Op::BCall, &[2])), FaultKind::CallDepth { depth: 16 });
    let mut p = one(Op::BTrap, &[0]);
    p.program.traps.push("index out of bounds".to_string());
    assert_eq!(fault(&p), FaultKind::Trap { message: "index out of bounds".to_string() });
    let mut p = Build::default();
    p.set(&[(1, 1)]);
    assert_eq!(fault(&p), FaultKind::EndOfCode);
    let forever = one(Op::BJmp, &[2]);
    let options = RunOptions { max_cycles: 1000, ..RunOptions::new(Mode::Full) };
    let f = forever.machine(&tiny()).run(&options, &mut NoObserver).expect_err("a fault");
    assert_eq!(f.kind, FaultKind::MaxCycles { limit: 1000 });
}

#[test]
fn semaphores_that_never_fit() {
    assert!(matches!(fault(&one(Op::DmaWait, &[3, 100])), FaultKind::Deadlock { .. }));
    let mut p = Build::default();
    let d = p.desc(DmaDesc::contiguous(Space::Hbm, Space::Vmem, 512));
    p.one(Op::DmaStart, &[d, 0, 0, 0, 0, 7]);
    p.halt();
    assert_eq!(fault(&p), FaultKind::Unbalanced { semaphores: vec![(7, 512)] });
}

#[test]
fn queues_that_never_fill_or_empty() {
    assert_eq!(fault(&one(Op::MPop, &[1, 1, 0])), FaultKind::EmptyFifo { unit: "mxu1".to_string() });
    assert!(matches!(fault(&one(Op::XTpop, &[1, 0])), FaultKind::EmptyFifo { .. }));
    // Pushes without pops: FIFO 16 blocks, pipeline 20 rows in 5 blocks, queue 4 blocks.
    let mut p = Build::default();
    for _ in 0..30 {
        p.one(Op::MPush, &[0, 1, 0, 0]);
    }
    p.halt();
    let f = p.run(&tiny(), Mode::TimingOnly).expect_err("a fault");
    assert!(matches!(f.kind, FaultKind::Deadlock { .. }), "{f}");
    assert_eq!(f.at.bundle, 16 + 5 + 4);
}

#[test]
fn faults_name_instruction_and_place() {
    let mut p = Build::default();
    p.op("add.1");
    p.one(Op::VLd, &[1, 0, -5, 1]);
    p.halt();
    let f = p.run(&tiny(), Mode::Full).expect_err("a fault");
    assert_eq!(
        f.to_string(),
        "chip 0 core 0 bundle 0 cycle 10 `v.ld v1, s0, -5, 1` (%add.1): access to VMEM rows -5..=-2, but it has 65536 rows"
    );
}

#[test]
fn programs_that_do_not_fit_the_chip() {
    let load = |p: &Build| load_bundles(&p.bundles, &p.program, &tiny()).map(|_| ()).expect_err("an error");
    assert_eq!(load(&Build::default()), LoadError::Empty);
    assert!(matches!(load(&one(Op::VMov, &[32, 0])), LoadError::Operand { bundle: 2, operand: 0, .. }));
    assert!(matches!(load(&one(Op::PAddD, &[2, 4, 5])), LoadError::Operand { operand: 2, .. }));
    assert!(matches!(load(&one(Op::BJmp, &[9])), LoadError::Operand { .. }));
    assert!(matches!(load(&one(Op::DmaStart, &[0, 0, 0, 0, 0, 0])), LoadError::Operand { operand: 0, .. }));
    assert!(matches!(load(&one(Op::MPush, &[0, 1, 1, 0])), LoadError::Operand { operand: 2, .. }));
    assert!(matches!(load(&one(Op::MPush, &[2, 1, 0, 0])), LoadError::Operand { operand: 0, .. }));
    let mut p = Build::default();
    p.b(&[i(Op::VMov, &[1, 0]), i(Op::VMov, &[1, 2])]);
    assert_eq!(load(&p), LoadError::DefinedTwice { bundle: 0 });
    let mut p = Build::default();
    p.b(&[i(Op::EExp, &[1, 0]), i(Op::EExp, &[2, 0])]);
    assert!(matches!(load(&p), LoadError::Slots { need: 2, have: 1, .. }));
}
