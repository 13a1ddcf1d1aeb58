//! What tidying leaves of kernels.

use systole_codegen::kernel::Item;
use systole_codegen::kernel::tidy::REACH;
use systole_codegen::kernel::{KernelBuilder, M, StoreFormat};
use systole_isa::ChipConfig;
use systole_isa::Op;

/// The mnemonics that are left of what `build` emits, constants apart.
fn left(build: impl FnOnce(&mut KernelBuilder)) -> Vec<&'static str> {
    fn walk(items: &[Item], out: &mut Vec<&'static str>) {
        for i in items {
            match i {
                Item::Inst(i) if i.inst.op != Op::VImm => out.push(i.inst.op.info().mnemonic),
                Item::Loop(l) => walk(&l.body, out),
                _ => {}
            }
        }
    }
    let chip = ChipConfig::from_preset("tiny").expect("a preset");
    let mut b = KernelBuilder::new("test", &chip);
    build(&mut b);
    let mut out = Vec::new();
    walk(&b.finish().body, &mut out);
    out
}

fn store(b: &mut KernelBuilder, v: systole_codegen::kernel::V, format: StoreFormat) {
    let buf = b.buffer();
    let base = b.param();
    b.store(format, v, base, 0, 1, M::ALL, buf);
}

#[test]
fn equal_instructions_become_one() {
    let r = left(|b| {
        let x = b.lane();
        let (p, q) = (b.v(Op::VMulI, &[x, x]), b.v(Op::VMulI, &[x, x]));
        let sum = b.v(Op::VAddI, &[p, q]);
        store(b, sum, StoreFormat::W32);
    });
    assert_eq!(r, ["v.lane", "v.mul.s32", "v.add.s32", "v.st"]);
}

#[test]
fn far_ones_stay() {
    let r = left(|b| {
        let x = b.lane();
        for gap in [1, REACH + 1] {
            let square = b.v(Op::VMulI, &[x, x]);
            let mut sum = square;
            for _ in 0..gap {
                sum = b.v(Op::VAddI, &[sum, x]);
            }
            store(b, sum, StoreFormat::W32);
        }
        let square = b.v(Op::VMulI, &[x, x]);
        store(b, square, StoreFormat::W32);
    });
    assert_eq!(r.iter().filter(|&&m| m == "v.mul.s32").count(), 2);
}

#[test]
fn variables_are_left_alone() {
    let r = left(|b| {
        let x = b.v_var(3);
        let first = b.v(Op::VMulI, &[x, x]);
        b.set_v(x, Op::VAddI, &[x.into(), x.into()]);
        let second = b.v(Op::VMulI, &[x, x]);
        let sum = b.v(Op::VAddI, &[first, second]);
        store(b, sum, StoreFormat::W32);
    });
    assert_eq!(r, ["v.mul.s32", "v.add.s32", "v.mul.s32", "v.add.s32", "v.st"]);
}

#[test]
fn results_for_nobody_go_away() {
    let r = left(|b| {
        let x = b.lane();
        b.loop_static(3, |b| {
            let p = b.v(Op::VMulI, &[x, x]);
            b.v(Op::VAddI, &[p, x]);
        });
        store(b, x, StoreFormat::W32);
    });
    assert_eq!(r, ["v.lane", "v.st"]);
}

#[test]
fn pairs_are_not_taken_apart_and_made_again() {
    let r = left(|b| {
        let (x, y) = (b.lane(), b.sublane());
        let p = b.pair(x, y);
        let (lo, hi) = b.unpair(p);
        let q = b.pair(lo, hi);
        let s = b.p(Op::PAddD, &[q, q]);
        let (lo, hi) = b.unpair(s);
        let again = b.pair(lo, hi);
        let t = b.p(Op::PMulD, &[again, s]);
        let (lo, _) = b.unpair(t);
        store(b, lo, StoreFormat::W32);
    });
    assert_eq!(r, ["v.lane", "v.sublane", "p.make", "p.add.f64", "p.mul.f64", "p.lo", "v.st"]);
}

#[test]
fn a_store_rounds_arithmetic_itself_but_keeps_subnormals() {
    let r = left(|b| {
        let x = b.lane();
        let s = b.v(Op::VAddF, &[x, x]);
        let s = b.v(Op::VRndBf16, &[s]);
        store(b, s, StoreFormat::Bf16);
    });
    assert_eq!(r, ["v.lane", "v.add.f32", "v.st.bf16"]);
    let r = left(|b| {
        let x = b.lane();
        let s = b.v(Op::VRndBf16, &[x]);
        store(b, s, StoreFormat::Bf16);
    });
    assert_eq!(r, ["v.lane", "v.rnd.bf16", "v.st.bf16"]);
}

#[test]
fn masks_come_back_from_words() {
    let r = left(|b| {
        let (x, zero, one) = (b.lane(), b.v_imm(0), b.v_imm(1));
        let m = b.cmp(Op::VLtS, x, one);
        let w = b.select(m, one, zero);
        let n = b.cmp(Op::VNeI, w, zero);
        let v = b.select(n, x, one);
        store(b, v, StoreFormat::W32);
    });
    assert_eq!(r, ["v.lane", "v.lt.s32", "v.sel", "v.st"]);
}
