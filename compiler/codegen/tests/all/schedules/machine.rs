//! A machine without time for tests: executes virtual kernels as trees and scheduled bundles, with one meaning of every
//! instruction. Matrix and transpose units are stand-ins that depend on the order of what they are given.

use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use systole_codegen::kernel::{Item, Kernel, Trips, Unit};
use systole_isa::{Bundle, Effect, Inst, Kind, Op};

pub const SUBLANES: usize = 4;
pub const LANES: usize = 8;
pub const ROWS: usize = 4096;
pub const WORDS: usize = 1024;

type Vector = Vec<i32>;

/// A register's value; the file is that of the operand kind.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Scalar(i32),
    Vector(Vector),
    Pair(Vector, Vector),
    Mask(Vec<bool>),
}

/// Everything outside the registers.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    pub vmem: Vec<[i32; LANES]>,
    pub narrow: Vec<[i32; LANES]>,
    pub smem: Vec<i32>,
    staged: FxHashMap<i32, i64>,
    weights: FxHashMap<i32, i64>,
    fifo: FxHashMap<i32, VecDeque<Vector>>,
    transpose: FxHashMap<i32, VecDeque<Vector>>,
    /// Copies under way per semaphore: source row, target row, rows.
    dma: FxHashMap<i32, VecDeque<(usize, usize, usize)>>,
    pub steps: u64,
}

impl State {
    pub fn new(seed: u64) -> State {
        let mut x = seed | 1;
        let mut next = || {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            (x >> 32) as i32
        };
        State {
            vmem: (0..ROWS).map(|_| std::array::from_fn(|_| next())).collect(),
            narrow: (0..ROWS).map(|_| std::array::from_fn(|_| next() as i16 as i32)).collect(),
            smem: (0..WORDS).map(|_| next()).collect(),
            staged: FxHashMap::default(),
            weights: FxHashMap::default(),
            fifo: FxHashMap::default(),
            transpose: FxHashMap::default(),
            dma: FxHashMap::default(),
            steps: 0,
        }
    }

    /// Results of an instruction from its operand values (`None` for immediates and definitions).
    fn execute(&mut self, i: &Inst, v: &[Option<Value>]) -> Option<Value> {
        let s = |k: usize| match &v[k] {
            Some(Value::Scalar(x)) => *x,
            other => panic!("{:?} operand {k} is {other:?}", i.op),
        };
        let r = |k: usize| match &v[k] {
            Some(Value::Vector(x)) => x.clone(),
            other => panic!("{:?} operand {k} is {other:?}", i.op),
        };
        let m = |k: usize| match &v[k] {
            Some(Value::Mask(x)) => x.clone(),
            other => panic!("{:?} operand {k} is {other:?}", i.op),
        };
        let zip = |f: fn(i32, i32) -> i32| Some(Value::Vector(r(1).iter().zip(r(2)).map(|(&a, b)| f(a, b)).collect()));
        let cmp = |f: fn(i32, i32) -> bool| Some(Value::Mask(r(1).iter().zip(r(2)).map(|(&a, b)| f(a, b)).collect()));
        let masks =
            |f: fn(bool, bool) -> bool| Some(Value::Mask(m(1).iter().zip(m(2)).map(|(&a, b)| f(a, b)).collect()));
        let imm = |k: usize| i.operands[k];
        let each = |f: &dyn Fn(usize, usize) -> i32| {
            Some(Value::Vector((0..SUBLANES * LANES).map(|k| f(k / LANES, k % LANES)).collect()))
        };
        let scalar = |x: i32| Some(Value::Scalar(x));
        match i.op {
            Op::SLi => scalar(imm(1)),
            Op::SAdd => scalar(s(1).wrapping_add(s(2))),
            Op::SSub => scalar(s(1).wrapping_sub(s(2))),
            Op::SMul => scalar(s(1).wrapping_mul(s(2))),
            Op::SXor => scalar(s(1) ^ s(2)),
            Op::SAnd => scalar(s(1) & s(2)),
            Op::SLt => scalar((s(1) < s(2)) as i32),
            Op::SAddI => scalar(s(1).wrapping_add(imm(2))),
            Op::SMulI => scalar(s(1).wrapping_mul(imm(2))),
            Op::SAndI => scalar(s(1) & imm(2)),
            Op::SLtI => scalar((s(1) < imm(2)) as i32),
            Op::SSel => scalar(if s(1) != 0 { s(2) } else { s(3) }),
            Op::SLd => scalar(self.smem[s(1).wrapping_add(imm(2)) as usize]),
            Op::SSt => {
                self.smem[s(1).wrapping_add(imm(2)) as usize] = s(0);
                None
            }
            Op::VMov => Some(Value::Vector(r(1))),
            Op::VImm => each(&|_, _| imm(1)),
            Op::VSplat => each(&|_, _| s(1)),
            Op::VLane => each(&|_, l| l as i32),
            Op::VSublane => each(&|u, _| u as i32),
            Op::VAddI => zip(i32::wrapping_add),
            Op::VSubI => zip(i32::wrapping_sub),
            Op::VMulI => zip(i32::wrapping_mul),
            Op::VXor => zip(|a, b| a ^ b),
            Op::VMinS => zip(i32::min),
            Op::VLtS => cmp(|a, b| a < b),
            Op::VEqI => cmp(|a, b| a == b),
            Op::VNeI => cmp(|a, b| a != b),
            Op::VSel => {
                let (a, b) = (r(2), r(3));
                Some(Value::Vector(m(1).iter().enumerate().map(|(k, &x)| if x { a[k] } else { b[k] }).collect()))
            }
            Op::MAnd => masks(|a, b| a & b),
            Op::MOr => masks(|a, b| a | b),
            Op::MXor => masks(|a, b| a ^ b),
            Op::PMake => Some(Value::Pair(r(1), r(2))),
            Op::PLo | Op::PHi | Op::PAddD => {
                let p = |k: usize| match &v[k] {
                    Some(Value::Pair(a, b)) => (a.clone(), b.clone()),
                    other => panic!("pair operand is {other:?}"),
                };
                match i.op {
                    Op::PLo => Some(Value::Vector(p(1).0)),
                    Op::PHi => Some(Value::Vector(p(1).1)),
                    _ => {
                        let (a, b) = (p(1), p(2));
                        let mix = |x: &Vector, y: &Vector| {
                            x.iter().zip(y).map(|(a, b)| a.wrapping_mul(5).wrapping_sub(*b)).collect()
                        };
                        Some(Value::Pair(mix(&a.0, &b.0), mix(&a.1, &b.1)))
                    }
                }
            }
            Op::XSumLane => {
                let x = r(1);
                each(&|u, _| x[u * LANES..(u + 1) * LANES].iter().fold(0i32, |a, b| a.wrapping_add(*b)))
            }
            Op::XRotLane => {
                let x = r(1);
                each(&|u, l| x[u * LANES + (l as i32 - imm(2)).rem_euclid(LANES as i32) as usize])
            }
            Op::XExtract => scalar(r(1)[0]),
            Op::XTpush => {
                self.transpose.entry(imm(0)).or_default().push_back(r(1));
                None
            }
            Op::XTpop => Some(Value::Vector(
                self.transpose.entry(imm(1)).or_default().pop_front().expect("transpose buffer is not empty"),
            )),
            Op::MStage => {
                let h = self.staged.entry(imm(0)).or_insert(7);
                for x in r(1) {
                    *h = h.wrapping_mul(31).wrapping_add(x as i64);
                }
                None
            }
            Op::MLatch => {
                let w = self.staged.remove(&imm(0)).unwrap_or(0);
                self.weights.insert(imm(0), w);
                None
            }
            Op::MPush => {
                let w = self.weights.get(&imm(0)).copied().unwrap_or(1);
                let out = r(1).iter().map(|x| (*x as i64).wrapping_mul(w | 1) as i32).collect();
                self.fifo.entry(imm(0)).or_default().push_back(out);
                None
            }
            Op::MPop => {
                Some(Value::Vector(self.fifo.entry(imm(1)).or_default().pop_front().expect("a pop follows its push")))
            }
            Op::VLd | Op::VLdS16 => {
                let base = s(1).wrapping_add(imm(2));
                let memory = if i.op == Op::VLd { &self.vmem } else { &self.narrow };
                each(&|u, l| memory[(base + imm(3) * u as i32) as usize][l])
            }
            Op::VSt | Op::VSt16 => {
                let (x, base, mask) = (r(0), s(1).wrapping_add(imm(2)), m(4));
                for u in 0..SUBLANES {
                    let row = (base + imm(3) * u as i32) as usize;
                    for l in 0..LANES {
                        if mask[u * LANES + l] {
                            let k = x[u * LANES + l];
                            if i.op == Op::VSt {
                                self.vmem[row][l] = k;
                            } else {
                                self.narrow[row][l] = k as i16 as i32;
                            }
                        }
                    }
                }
                None
            }
            Op::DmaStart => {
                let copy = ((s(1) + s(2)) as usize, (s(3) + s(4)) as usize, imm(0) as usize);
                self.dma.entry(imm(5)).or_default().push_back(copy);
                None
            }
            Op::DmaWait => {
                let (from, to, rows) =
                    self.dma.entry(imm(0)).or_default().pop_front().expect("a wait follows its start");
                for k in 0..rows {
                    self.vmem[to + k] = self.vmem[from + k];
                }
                None
            }
            other => panic!("{other:?} has no meaning here"),
        }
    }
}

fn constant(kind: Kind) -> Value {
    match kind {
        Kind::Mu => Value::Mask(vec![true; SUBLANES * LANES]),
        _ => Value::Scalar(0),
    }
}

fn is_constant(kind: Kind, n: i32) -> bool {
    n == 0 && matches!(kind, Kind::Su | Kind::Sm | Kind::Mu)
}

// ---- virtual kernels ----

#[derive(Default)]
struct Registers(FxHashMap<(u8, i32), Value>);

fn file(kind: Kind) -> u8 {
    match kind {
        Kind::Sd | Kind::Su | Kind::Sm => 0,
        Kind::Vd | Kind::Vu => 1,
        Kind::Pd | Kind::Pu => 2,
        Kind::Md | Kind::Mu => 3,
        other => panic!("{other:?} is no register"),
    }
}

impl Registers {
    fn inst(&mut self, i: &Inst, state: &mut State) {
        state.steps += 1;
        let values: Vec<Option<Value>> = i
            .iter()
            .map(|(k, n)| match k {
                Kind::Su | Kind::Vu | Kind::Pu | Kind::Mu if is_constant(k, n) => Some(constant(k)),
                Kind::Su | Kind::Vu | Kind::Pu | Kind::Mu => {
                    Some(self.0.get(&(file(k), n)).unwrap_or_else(|| panic!("{i:?} reads {k:?} {n}")).clone())
                }
                _ => None,
            })
            .collect();
        if let Some(result) = state.execute(i, &values) {
            self.0.insert((file(i.op.info().operands[0].kind), i.operands[0]), result);
        }
    }

    fn scalar(&self, s: systole_codegen::kernel::S) -> i32 {
        match self.0.get(&(0, s.0 as i32)) {
            _ if s.0 == 0 => 0,
            Some(Value::Scalar(x)) => *x,
            other => panic!("s{} is {other:?}", s.0),
        }
    }

    fn items(&mut self, unit: &Unit, items: &[Item], state: &mut State) {
        for item in items {
            match item {
                Item::Inst(v) => self.inst(&v.inst, state),
                Item::Loop(l) => {
                    let n = match l.trips {
                        Trips::Static(n) => n as i32,
                        Trips::Dynamic(s) => self.scalar(s),
                    };
                    for _ in 0..n {
                        self.items(unit, &l.body, state);
                    }
                }
                Item::If { cond, then, otherwise } => {
                    let body = if self.scalar(*cond) != 0 { then } else { otherwise };
                    self.items(unit, body, state);
                }
                Item::While { head, cond, body } => loop {
                    self.items(unit, head, state);
                    if self.scalar(*cond) == 0 {
                        break;
                    }
                    self.items(unit, body, state);
                },
                Item::Call { kernel, args } => {
                    let args: Vec<i32> = args.iter().map(|&a| self.scalar(a)).collect();
                    kernel_call(unit, &unit.kernels[*kernel as usize], &args, state);
                }
                Item::Mark { .. } => {}
            }
        }
    }
}

fn kernel_call(unit: &Unit, kernel: &Kernel, args: &[i32], state: &mut State) {
    let mut r = Registers::default();
    for (p, &a) in kernel.params.iter().zip(args) {
        r.0.insert((0, p.0 as i32), Value::Scalar(a));
    }
    r.items(unit, &kernel.body, state);
}

/// Executes the unit's main program as written.
pub fn run_unit(unit: &Unit, state: &mut State) {
    kernel_call(unit, &unit.kernels[0], &[], state);
}

// ---- bundles ----

struct Physical {
    scalar: Vec<Option<i32>>,
    vector: Vec<Option<Vector>>,
    mask: Vec<Option<Vec<bool>>>,
}

impl Physical {
    fn read(&self, kind: Kind, n: i32) -> Option<Value> {
        let at = n as usize;
        let missing = format!("{kind:?} {n} was never written");
        Some(match kind {
            Kind::Su | Kind::Sm | Kind::Mu if is_constant(kind, n) => constant(kind),
            Kind::Su | Kind::Sm => Value::Scalar(self.scalar[at].expect(&missing)),
            Kind::Vu => Value::Vector(self.vector[at].clone().expect(&missing)),
            Kind::Pu => {
                Value::Pair(self.vector[at].clone().expect(&missing), self.vector[at + 1].clone().expect(&missing))
            }
            Kind::Mu => Value::Mask(self.mask[at].clone().expect(&missing)),
            _ => return None,
        })
    }

    fn write(&mut self, n: i32, value: Value) {
        let at = n as usize;
        match value {
            Value::Scalar(x) => self.scalar[at] = Some(x),
            Value::Vector(x) => self.vector[at] = Some(x),
            Value::Pair(a, b) => {
                assert_eq!(at % 2, 0);
                self.vector[at] = Some(a);
                self.vector[at + 1] = Some(b);
            }
            Value::Mask(x) => self.mask[at] = Some(x),
        }
    }

    fn forget(&mut self) {
        self.scalar.fill(None);
        self.vector.fill(None);
        self.mask.fill(None);
    }
}

/// Executes bundles from the first until `b.halt`. A return forgets all registers.
pub fn run_bundles(bundles: &[Bundle], state: &mut State) -> u64 {
    let mut r = Physical { scalar: vec![None; 64], vector: vec![None; 128], mask: vec![None; 32] };
    let (mut pc, mut stack, mut count) = (0usize, Vec::new(), 0u64);
    loop {
        count += 1;
        assert!(count < 50_000_000, "runs forever");
        let b = &bundles[pc];
        let mut results = Vec::new();
        let mut next = pc + 1;
        let mut insts: Vec<&Inst> = b.insts.iter().collect();
        insts.sort_by_key(|i| matches!(i.op.info().effect, Effect::VmemStore | Effect::SmemStore));
        for i in insts {
            let values: Vec<Option<Value>> = i.iter().map(|(k, n)| r.read(k, n)).collect();
            let scalar = |k: usize| match values[k] {
                Some(Value::Scalar(x)) => x,
                _ => panic!("no scalar"),
            };
            let to =
                i.op.info().operands.iter().position(|o| o.kind == Kind::Target).map_or(0, |t| i.operands[t] as usize);
            match i.op {
                Op::BJmp => next = to,
                Op::BZ if scalar(0) == 0 => next = to,
                Op::BNz if scalar(0) != 0 => next = to,
                Op::BZ | Op::BNz => {}
                Op::BLoop => {
                    let left = scalar(0) - 1;
                    results.push((i.operands[0], Value::Scalar(left)));
                    if left != 0 {
                        next = to;
                    }
                }
                Op::BCall => {
                    stack.push(pc + 1);
                    next = to;
                }
                Op::BRet => next = stack.pop().expect("a return follows a call"),
                Op::BHalt => {}
                _ => {
                    if let Some(v) = state.execute(i, &values) {
                        results.push((i.operands[0], v));
                    }
                }
            }
        }
        let halts = b.insts.iter().any(|i| i.op == Op::BHalt);
        let returns = b.insts.iter().any(|i| i.op == Op::BRet);
        for (n, v) in results {
            r.write(n, v);
        }
        if returns {
            r.forget();
        }
        if halts {
            return count;
        }
        pc = next;
    }
}
