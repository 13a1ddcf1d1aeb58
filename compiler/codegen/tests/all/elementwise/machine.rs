//! A small interpreter of kernels over virtual registers: one sublane of any number of lanes.
//!
//! It shares nothing with the simulator. The transcendental unit is exact here, or, with `noise`, off by one unit in
//! the last place in a pattern that depends on the operand, as the table allows.

use std::collections::BTreeMap;
use systole_codegen::kernel::{Item, Kernel, Trips};
use systole_isa::{Inst, Op, float::F8, table::Kind};

pub struct Machine {
    pub lanes: usize,
    pub noise: bool,
    /// Rows by the offset of loads and stores.
    memory: BTreeMap<i32, Vec<u32>>,
    v: BTreeMap<i32, Vec<u32>>,
    p: BTreeMap<i32, Vec<u64>>,
    m: BTreeMap<i32, Vec<bool>>,
    /// Instructions run, constants, loads and stores apart.
    pub count: usize,
}

fn flush(x: f32) -> f32 {
    if x.is_subnormal() { 0f32.copysign(x) } else { x }
}

fn flush64(x: f64) -> f64 {
    if x.is_subnormal() { 0f64.copysign(x) } else { x }
}

fn f(x: u32) -> f32 {
    flush(f32::from_bits(x))
}

fn d(x: u64) -> f64 {
    flush64(f64::from_bits(x))
}

fn minmax(a: f32, b: f32, max: bool) -> f32 {
    if a.is_nan() || b.is_nan() {
        f32::NAN
    } else if (a.total_cmp(&b).is_lt()) == max {
        b
    } else {
        a
    }
}

impl Machine {
    pub fn new(lanes: usize) -> Machine {
        Machine {
            lanes,
            noise: false,
            memory: BTreeMap::new(),
            v: BTreeMap::new(),
            p: BTreeMap::new(),
            m: BTreeMap::new(),
            count: 0,
        }
    }

    /// What a load of row `offset` gives.
    pub fn set_memory(&mut self, offset: usize, x: Vec<u32>) {
        self.memory.insert(offset as i32, x);
    }

    /// What was stored to row `offset`.
    pub fn memory(&self, offset: usize) -> &[u32] {
        &self.memory[&(offset as i32)]
    }

    pub fn run(&mut self, kernel: &Kernel) {
        self.items(&kernel.body);
    }

    fn items(&mut self, items: &[Item]) {
        for i in items {
            match i {
                Item::Inst(i) => self.step(&i.inst),
                Item::Loop(l) => {
                    let Trips::Static(n) = l.trips else { panic!("a dynamic loop") };
                    (0..n).for_each(|_| self.items(&l.body));
                }
                _ => panic!("control flow in elementwise code"),
            }
        }
    }

    fn step(&mut self, i: &Inst) {
        let o = &i.operands;
        match i.op {
            Op::VImm => {}
            Op::VLd => {
                self.v.insert(o[0], self.memory[&o[2]].clone());
                return;
            }
            Op::VSt => {
                self.memory.insert(o[2], self.v[&o[0]].clone());
                return;
            }
            _ => self.count += 1,
        }
        match i.op.info().operands[0].kind {
            Kind::Vd => {
                let r = (0..self.lanes).map(|l| self.vector(i, l)).collect();
                self.v.insert(o[0], r);
            }
            Kind::Pd => {
                let r = (0..self.lanes).map(|l| self.pair(i, l)).collect();
                self.p.insert(o[0], r);
            }
            Kind::Md => {
                assert!(o[0] != 0, "m0 is defined");
                let r = (0..self.lanes).map(|l| self.mask(i, l)).collect();
                self.m.insert(o[0], r);
            }
            k => panic!("{} defines {k:?}", i.op.info().mnemonic),
        }
    }

    fn vr(&self, r: i32, l: usize) -> u32 {
        self.v[&r][l]
    }

    fn pr(&self, r: i32, l: usize) -> u64 {
        self.p[&r][l]
    }

    fn mr(&self, r: i32, l: usize) -> bool {
        r == 0 || self.m[&r][l]
    }

    fn eup(&self, x: u32, g: impl Fn(f64) -> f64) -> u32 {
        let r = flush(g(f(x) as f64) as f32);
        if !self.noise || r == 0.0 || !r.is_finite() {
            return r.to_bits();
        }
        let wiggle = (x.wrapping_mul(0x9e37_79b9) >> 29) as i32 % 3 - 1;
        r.to_bits().wrapping_add(wiggle as u32)
    }

    fn vector(&self, i: &Inst, l: usize) -> u32 {
        let o = i.operands;
        let a = || self.vr(o[1], l);
        let b = || self.vr(o[2], l);
        let c = || self.vr(o[3], l);
        let r = |x: f32| flush(x).to_bits();
        let (sa, sb) = (|| self.vr(o[1], l) as i32, || self.vr(o[2], l) as i32);
        match i.op {
            Op::VMov => a(),
            Op::VImm => o[1] as u32,
            Op::VAddF => r(f(a()) + f(b())),
            Op::VSubF => r(f(a()) - f(b())),
            Op::VMulF => r(f(a()) * f(b())),
            Op::VFmaF => r(f(a()).mul_add(f(b()), f(c()))),
            Op::VDivF => r(f(a()) / f(b())),
            Op::VMinF => r(minmax(f(a()), f(b()), false)),
            Op::VMaxF => r(minmax(f(a()), f(b()), true)),
            Op::VFloorF => r(f(a()).floor()),
            Op::VCeilF => r(f(a()).ceil()),
            Op::VRneF => r(f(a()).round_ties_even()),
            Op::VTruncF => r(f(a()).trunc()),
            Op::VCvtF32S32 => f(a()) as i32 as u32,
            Op::VCvtF32U32 => f(a()) as u32,
            Op::VCvtS32F32 => (sa() as f32).to_bits(),
            Op::VCvtU32F32 => (a() as f32).to_bits(),
            Op::VRndBf16 => r(half::bf16::from_f32(f(a())).to_f32()),
            Op::VRndF16 => half::f16::from_f32(f32::from_bits(a())).to_f32().to_bits(),
            Op::VPackBf16 => half::bf16::from_f32(f32::from_bits(a())).to_bits() as u32,
            Op::VPackF16 => half::f16::from_f32(f32::from_bits(a())).to_bits() as u32,
            Op::VUnpackBf16 => a() << 16,
            Op::VUnpackF16 => half::f16::from_bits(a() as u16).to_f32().to_bits(),
            Op::VPackF8 => F8::from_number(o[2]).expect("a format").from_f32(f32::from_bits(a())) as u32,
            Op::VUnpackF8 => F8::from_number(o[2]).expect("a format").to_f32(a() as u8).to_bits(),
            Op::VLane => l as u32,
            Op::XRotLane => self.vr(o[1], (l as i32 - o[2]).rem_euclid(self.lanes as i32) as usize),
            Op::XSumLane => self.v[&o[1]].iter().map(|&x| f(x)).sum::<f32>().to_bits(),
            Op::XMaxLane => {
                self.v[&o[1]].iter().map(|&x| f(x)).fold(f32::NEG_INFINITY, |x, y| minmax(x, y, true)).to_bits()
            }
            Op::XMinLane => {
                self.v[&o[1]].iter().map(|&x| f(x)).fold(f32::INFINITY, |x, y| minmax(x, y, false)).to_bits()
            }
            Op::VAddI => a().wrapping_add(b()),
            Op::VSubI => a().wrapping_sub(b()),
            Op::VMulI => a().wrapping_mul(b()),
            Op::VMulHiS => ((sa() as i64 * sb() as i64) >> 32) as u32,
            Op::VMulHiU => ((a() as u64 * b() as u64) >> 32) as u32,
            Op::VDivS => {
                if sb() == 0 {
                    u32::MAX
                } else {
                    sa().wrapping_div(sb()) as u32
                }
            }
            Op::VDivU => a().checked_div(b()).unwrap_or(u32::MAX),
            Op::VRemS => {
                if sb() == 0 {
                    a()
                } else {
                    sa().wrapping_rem(sb()) as u32
                }
            }
            Op::VRemU => a().checked_rem(b()).unwrap_or(a()),
            Op::VMinS => sa().min(sb()) as u32,
            Op::VMaxS => sa().max(sb()) as u32,
            Op::VMinU => a().min(b()),
            Op::VMaxU => a().max(b()),
            Op::VAnd => a() & b(),
            Op::VOr => a() | b(),
            Op::VXor => a() ^ b(),
            Op::VShl => a().checked_shl(b()).unwrap_or(0),
            Op::VShr => a().checked_shr(b()).unwrap_or(0),
            Op::VSar => (sa() >> b().min(31)) as u32,
            Op::VClz => a().leading_zeros(),
            Op::VPopcnt => a().count_ones(),
            Op::VSel => {
                if self.mr(o[1], l) {
                    self.vr(o[2], l)
                } else {
                    self.vr(o[3], l)
                }
            }
            Op::PLo => self.pr(o[1], l) as u32,
            Op::PHi => (self.pr(o[1], l) >> 32) as u32,
            Op::PCvtToF32 => r(d(self.pr(o[1], l)) as f32),
            Op::EExp => self.eup(a(), f64::exp),
            Op::ELog => self.eup(a(), f64::ln),
            Op::ETanh => self.eup(a(), f64::tanh),
            Op::ERcp => self.eup(a(), |x| 1.0 / x),
            Op::ERsqrt => self.eup(a(), |x| 1.0 / x.sqrt()),
            Op::ESqrt => r(f(a()).sqrt()),
            Op::ESin => self.eup(a(), f64::sin),
            Op::ECos => self.eup(a(), f64::cos),
            op => not_modelled(op),
        }
    }

    fn pair(&self, i: &Inst, l: usize) -> u64 {
        let o = i.operands;
        let bits = |k: usize| self.pr(o[k], l);
        let x = |k: usize| d(self.pr(o[k], l));
        let r = |x: f64| flush64(x).to_bits();
        match i.op {
            Op::PMake => self.vr(o[1], l) as u64 | (self.vr(o[2], l) as u64) << 32,
            Op::PAddD => r(x(1) + x(2)),
            Op::PSubD => r(x(1) - x(2)),
            Op::PMulD => r(x(1) * x(2)),
            Op::PFmaD => r(x(1).mul_add(x(2), x(3))),
            Op::PDivD => r(x(1) / x(2)),
            Op::PSqrtD => r(x(1).sqrt()),
            Op::PRneD => r(x(1).round_ties_even()),
            Op::PCvtF32 => (f(self.vr(o[1], l)) as f64).to_bits(),
            Op::PCvtS64 => (bits(1) as i64 as f64).to_bits(),
            Op::PCvtU64 => (bits(1) as f64).to_bits(),
            Op::PCvtToS64 => x(1) as i64 as u64,
            Op::PCvtToU64 => x(1) as u64,
            op => not_modelled(op),
        }
    }

    fn mask(&self, i: &Inst, l: usize) -> bool {
        let o = i.operands;
        let (a, b) = (|| self.vr(o[1], l), || self.vr(o[2], l));
        let (p, q) = (|| d(self.pr(o[1], l)), || d(self.pr(o[2], l)));
        let (m, n) = (|| self.mr(o[1], l), || self.mr(o[2], l));
        match i.op {
            Op::VEqF => f(a()) == f(b()),
            Op::VNeF => f(a()) != f(b()),
            Op::VLtF => f(a()) < f(b()),
            Op::VLeF => f(a()) <= f(b()),
            Op::VEqI => a() == b(),
            Op::VNeI => a() != b(),
            Op::VLtS => (a() as i32) < b() as i32,
            Op::VLeS => a() as i32 <= b() as i32,
            Op::VLtU => a() < b(),
            Op::VLeU => a() <= b(),
            Op::PEqD => p() == q(),
            Op::PLtD => p() < q(),
            Op::PLeD => p() <= q(),
            Op::MAnd => m() & n(),
            Op::MOr => m() | n(),
            Op::MXor => m() ^ n(),
            op => not_modelled(op),
        }
    }
}

/// Emission made an opcode that the functions above have no arm for.
fn not_modelled(op: Op) -> ! {
    panic!("{} has no meaning in {}: it needs an arm there", op.info().mnemonic, file!())
}
