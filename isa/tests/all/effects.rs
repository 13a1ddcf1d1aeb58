//! What instructions read, write and touch.

use systole_isa::effects::*;
use systole_isa::opcodes::{Op, TABLE};
use systole_isa::table::Effect;
use systole_isa::{DmaDesc, Inst, Space};

fn names(regs: Regs) -> Vec<String> {
    regs.iter().map(Reg::to_string).collect()
}

#[test]
fn registers_follow_the_operand_kinds() {
    for (inst, defs, uses) in [
        (Inst::new(Op::SAdd, &[3, 0, 4]), vec!["s3"], vec!["s4"]),
        (Inst::new(Op::BLoop, &[5, 0]), vec!["s5"], vec!["s5"]),
        (Inst::new(Op::VSel, &[0, 0, 1, 2]), vec!["v0"], vec!["v1", "v2"]),
        (Inst::new(Op::VSel, &[0, 7, 1, 2]), vec!["v0"], vec!["m7", "v1", "v2"]),
        (Inst::new(Op::PAddD, &[2, 4, 6]), vec!["v2", "v3"], vec!["v4", "v5", "v6", "v7"]),
        (Inst::new(Op::SAdd, &[0, 1, 1]), vec![], vec!["s1", "s1"]),
    ] {
        assert_eq!(
            (names(inst.defs()), names(inst.uses())),
            (defs.iter().map(|s| s.to_string()).collect(), uses.iter().map(|s| s.to_string()).collect())
        );
    }
}

#[test]
fn matrix_accesses_name_the_unit() {
    let push = Inst::new(Op::MPushAdd, &[2, 1, 0, 0, 4]).accesses(&[]);
    assert!(push.contains(&(Resource::Accumulators(2), Access::Write)));
    assert!(push.contains(&(Resource::Weights(2), Access::Read)));
    let pop = Inst::new(Op::MPop, &[9, 3, 0]).accesses(&[]);
    assert_eq!(pop.as_slice(), [(Resource::Fifo(3), Access::Take)]);
}

#[test]
fn a_dma_touches_what_its_descriptor_says() {
    let start = Inst::new(Op::DmaStart, &[1, 1, 0, 2, 0, 9]);
    let descs = vec![DmaDesc::contiguous(Space::Hbm, Space::Smem, 4), DmaDesc::contiguous(Space::Vmem, Space::Hbm, 4)];
    assert_eq!(
        start.accesses(&descs).as_slice(),
        [(Resource::Semaphore(9), Access::Append), (Resource::Vmem, Access::Read), (Resource::Hbm, Access::Write)]
    );
    assert_eq!(start.accesses(&[]).len(), 4);
}

#[test]
fn only_vector_loads_and_stores_have_a_row_address() {
    for info in TABLE {
        let inst = Inst { op: info.op, operands: [0; systole_isa::inst::MAX_OPERANDS] };
        let memory = matches!(info.effect, Effect::VmemLoad | Effect::VmemStore);
        assert_eq!(inst.vmem_access().is_some(), memory, "{}", info.mnemonic);
    }
    let st = Inst::new(Op::VStBf16, &[9, 4, -3, 2, 0]).vmem_access();
    assert_eq!(st, Some(VmemAccess { store: true, base: 4, offset: -3, stride: 2, element_bits: 16 }));
}

#[test]
fn order_is_free_between_reads_and_from_take_to_append() {
    use Access::{Append, Read, Take, Write};
    assert!(!Read.ordered_before(Read) && !Take.ordered_before(Append));
    assert!(Append.ordered_before(Take) && Append.ordered_before(Append) && Take.ordered_before(Take));
    assert!(Write.ordered_before(Read) && Read.ordered_before(Write));
}
