//! What lives across calls.

use systole_codegen::kernel::{Item, Kernel, S, VInst};
use systole_codegen::schedule::calls::across_calls;
use systole_isa::{Inst, Op};

fn inst(op: Op, operands: &[i32]) -> Item {
    Item::Inst(VInst::from(Inst::new(op, operands)))
}

/// A loop that counts register `count` down around a body.
fn counting(count: i32, mut body: Vec<Item>) -> Item {
    body.push(inst(Op::SAddI, &[count, count, -1]));
    Item::While { head: Vec::new(), cond: S(count as u32), body }
}

#[test]
fn what_any_round_reads_after_a_call_lives_across_it() {
    let (call, sum, early, late, made) = (Item::Call { kernel: 1, args: vec![S(1)] }, 2, 3, 4, 5);
    let inner = vec![
        // Read in the next round, before it is written.
        inst(Op::SAdd, &[sum, sum, early]),
        // Read before the call alone.
        inst(Op::SAddI, &[made, 1, 7]),
        inst(Op::SAdd, &[sum, sum, made]),
        call,
    ];
    let body = vec![
        inst(Op::SLi, &[12, 3]),
        counting(10, vec![inst(Op::SLi, &[11, 3]), counting(11, inner)]),
        // Read after the loops alone.
        inst(Op::SAdd, &[13, sum, late]),
    ];
    let found = across_calls(&Kernel { body, ..Kernel::default() });
    let mut crossing: Vec<u32> = found.iter().map(|r| r.number()).collect();
    crossing.sort_unstable();
    // The first argument is read in every round, and the loops' counters are.
    assert_eq!(crossing, [1, 2, 3, 4, 10, 11]);
}
