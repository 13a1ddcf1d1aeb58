//! Which devices of a pod behave alike, so that one can stand for others when only time is asked for.
//!
//! What a device does is the same everywhere but for its partners and its number. Where it sends and receives the same ways
//! as the device some places further along an axis that wraps around, for all devices, and its number decides about no
//! branch or does so alike, the two do the same at the same time. What is kept is the smallest such distance along each axis.
//! Numbers that only enter addresses are no difference.

use super::PodPlan;
use crate::plan::overlap::{Item, touches};
use crate::plan::spec::KernelSpec;
use crate::plan::step::{Draft, ScalarOp, Step, Word};
use rustc_hash::{FxHashMap, FxHashSet};
use systole_hlo::graph::elementwise::{Arithmetic, BinaryKind, Integer};
use systole_isa::program::PodShape;
use systole_isa::{DType, Topology};

/// The distances of a pod whose devices have not been told apart yet.
pub(super) fn all(shape: &PodShape) -> Vec<u32> {
    let Some(t) = &shape.topology else { return Vec::new() };
    let whole = t.devices_per_chip == 1 && t.devices() == shape.devices();
    (0..t.dims.len()).map(|a| if whole && t.turns(a) { 1 } else { t.dims[a] }).collect()
}

/// The way from one device to another, as the chip that lies so from chip 0.
pub(super) fn way(t: &Topology, from: u32, to: u32) -> u32 {
    let (a, b) = (t.coordinates(t.chip_of(from)), t.coordinates(t.chip_of(to)));
    let steps: Vec<u32> = a.iter().zip(&b).zip(&t.dims).map(|((a, b), n)| (b + n - a) % n).collect();
    t.chip_at(&steps)
}

impl PodPlan {
    /// Tells devices apart that differ in something.
    pub(super) fn distinguish<K: PartialEq>(&mut self, key: impl Fn(&Topology, u32) -> K) {
        let Some(t) = &self.shape.topology else { return };
        if self.alike == t.dims {
            return;
        }
        let mut devices = vec![0; t.devices() as usize];
        for d in 0..t.devices() {
            devices[t.chip_of(d) as usize * t.devices_per_chip as usize + t.core_of(d) as usize] = d;
        }
        let keys: Vec<K> = (0..t.devices()).map(|place| key(t, devices[place as usize])).collect();
        for (a, distance) in self.alike.iter_mut().enumerate() {
            let n = t.dims[a];
            let inner: u32 = t.dims[a + 1..].iter().product();
            let moved = |chip: u32, by: u32| {
                let c = chip / inner % n;
                chip - c * inner + (c + by) % n * inner
            };
            let same = |by: &u32| (0..t.chips()).all(|c| keys[c as usize] == keys[moved(c, *by) as usize]);
            let divides = |by: &u32| n.is_multiple_of(*by) && by.is_multiple_of(*distance);
            *distance = (*distance..n).filter(divides).find(same).unwrap_or(n);
        }
    }

    /// Whether anything is left that is alike.
    fn some_alike(&self) -> bool {
        self.shape.topology.as_ref().is_some_and(|t| self.alike != t.dims)
    }
}

/// Tells devices apart whose numbers decide about branches.
pub(super) fn numbers(plan: &mut Draft) {
    if !plan.pod.some_alike() {
        return;
    }
    let mut flow = Flow::default();
    flow.collect(&plan.steps, plan);
    flow.spread();
    for word in std::mem::take(&mut flow.decides) {
        if !flow.differs.contains(&Item::Word(word)) {
            continue;
        }
        let devices = plan.pod.shape.devices();
        let values: Option<Vec<i32>> = (0..devices).map(|d| flow.value(word, d as i32, 0)).collect();
        match values {
            Some(values) => plan.pod.distinguish(|_, d| values[d as usize]),
            None => plan.pod.distinguish(|_, d| d),
        }
    }
}

/// Deepest chain of scalar operations that is followed.
const DEEPEST: usize = 64;

/// What scalars and arrays of a program depend on.
#[derive(Default)]
struct Flow {
    /// How words are computed; none: by several steps, or from an array.
    words: FxHashMap<u32, Option<(ScalarOp, DType)>>,
    /// What is read by every step, and what it writes.
    steps: Vec<(Vec<Item>, Vec<Item>)>,
    /// Words that decide what is executed.
    decides: Vec<u32>,
    /// What may not be the same on all devices.
    differs: FxHashSet<Item>,
}

impl Flow {
    fn collect(&mut self, steps: &[Step], plan: &Draft) {
        for s in steps {
            match s {
                Step::While { head, cond, body, .. } => {
                    self.decides.push(cond.0);
                    self.collect(head, plan);
                    self.collect(body, plan);
                    continue;
                }
                Step::Switch { index, branches, .. } => {
                    self.decides.push(index.0);
                    branches.iter().for_each(|b| self.collect(b, plan));
                    continue;
                }
                Step::Scalar { dst, value, dtype } => {
                    self.words.entry(dst.0).and_modify(|v| *v = None).or_insert(Some((*value, *dtype)));
                    if let ScalarOp::Device = value {
                        self.differs.insert(Item::Word(dst.0));
                    }
                }
                Step::ReadScalar { dst, .. } => {
                    self.words.insert(dst.0, None);
                }
                Step::Call { .. } | Step::Copy { .. } | Step::Host { .. } => {}
                Step::Exchange(_) | Step::Begin(_) | Step::End(_) => {}
            }
            let (mut reads, mut writes) = (Vec::new(), Vec::new());
            touches(s, &mut |item, writes_it| if writes_it { writes.push(item) } else { reads.push(item) });
            if let Step::Call { kernel, .. } = s
                && matches!(plan.kernels[*kernel].spec, KernelSpec::Mosaic { .. })
            {
                // Such kernels may branch on their scalars.
                self.decides.extend(reads.iter().filter_map(|i| match i {
                    Item::Word(w) => Some(*w),
                    Item::Buffer(_) | Item::Exchanges | Item::Host => None,
                }));
            }
            self.steps.push((reads, writes));
        }
    }

    fn spread(&mut self) {
        let mut more = true;
        while more {
            more = false;
            for (reads, writes) in &self.steps {
                if reads.iter().any(|r| self.differs.contains(r)) {
                    for w in writes.iter().filter(|w| matches!(w, Item::Word(_) | Item::Buffer(_))) {
                        more |= self.differs.insert(*w);
                    }
                }
            }
        }
    }

    /// The value of a word on a device, if it follows from the device's number alone.
    fn value(&self, word: u32, device: i32, depth: usize) -> Option<i32> {
        let (op, dtype) = (*self.words.get(&word)?)?;
        // Narrow integers wrap.
        if dtype != DType::Pred && dtype.bits() < 32 {
            return None;
        }
        if depth > DEEPEST {
            return None;
        }
        let of = |w: Word| self.value(w.0, device, depth + 1);
        Some(match op {
            ScalarOp::Const(c) => c,
            ScalarOp::Device => device,
            // Cores share no loops of programs of several devices.
            ScalarOp::Core => return None,
            ScalarOp::Convert(w) if dtype == DType::Pred => i32::from(of(w)? != 0),
            ScalarOp::Copy(w) | ScalarOp::Convert(w) => of(w)?,
            ScalarOp::ClampIndex { word, limit, .. } => of(word)?.clamp(0, limit),
            ScalarOp::Select(c, a, b) => of(if of(c)? != 0 { a } else { b })?,
            ScalarOp::Compare(direction, a, b) => {
                let order = of(a)?.cmp(&of(b)?);
                i32::from(direction.holds(Some(order)))
            }
            ScalarOp::Binary(op, a, b) => {
                let (a, b) = (of(a)?, of(b)?);
                match op.kind() {
                    BinaryKind::Arithmetic(op) => match op {
                        Arithmetic::Add => a.wrapping_add(b),
                        Arithmetic::Sub => a.wrapping_sub(b),
                        Arithmetic::Mul => a.wrapping_mul(b),
                        Arithmetic::Div if a >= 0 && b > 0 => a / b,
                        Arithmetic::Rem if a >= 0 && b > 0 => a % b,
                        Arithmetic::Div | Arithmetic::Rem => return None,
                        Arithmetic::Max => a.max(b),
                        Arithmetic::Min => a.min(b),
                    },
                    BinaryKind::Integer(Integer::And) => a & b,
                    BinaryKind::Integer(Integer::Or) => a | b,
                    BinaryKind::Integer(Integer::Xor) => a ^ b,
                    BinaryKind::Integer(Integer::Shl | Integer::Sar | Integer::Shr)
                    | BinaryKind::BinaryFunction(_)
                    | BinaryKind::Join(_) => return None,
                }
            }
            ScalarOp::Unary(..) => return None,
        })
    }
}
