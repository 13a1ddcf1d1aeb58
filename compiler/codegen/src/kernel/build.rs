//! Building kernels: [`KernelBuilder`] hands out virtual registers and appends instructions, loops and branches.
//!
//! - Every method that computes a value returns a fresh register. A loop-carried value is made by a `*_var` method (or
//!   any other method) before the loop and redefined inside by a `set_*` method.
//! - Constants ([`KernelBuilder::v_imm`], [`KernelBuilder::lane`], ..) are pooled: made once, before the first
//!   instruction of the kernel, however deep in loops they are asked for. A pooled register must never be redefined;
//!   use [`KernelBuilder::s_var`] or [`KernelBuilder::v_var`] for a variable's first value.
//! - Memory, matrix-unit, cross-lane and DMA instructions are in [`super::build_units`].

use super::{BufferRef, Item, Kernel, Loop, LoopHints, M, P, Register, S, Touched, Trips, V, VInst};
use rustc_hash::{FxHashMap, FxHashSet};
use systole_isa::program::DebugPlace;
use systole_isa::{ChipConfig, Inst, Kind, Op};

/// An operand of any kind, as the number that goes into the instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arg(pub i32);

impl From<i32> for Arg {
    fn from(v: i32) -> Arg {
        Arg(v)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Pooled {
    Scalar(i32),
    Vector(i32),
    Lane,
    Sublane,
    Pair(i32, i32),
    /// Lanes / sublanes whose number is below the value.
    LaneBelow(i32),
    SublaneBelow(i32),
    SublaneIs(i32),
}

/// Builds one kernel. See the module docs.
pub struct KernelBuilder {
    kernel: Kernel,
    pub(super) sublanes: u32,
    xlu_units: u32,
    pub(super) lanes: u32,
    converts_bf16: bool,
    /// Sums of products side by side that hide their latency; how many leave registers for what they share.
    pub(crate) sums: (u32, u32),
    /// Vector operations a cycle, cycles of a reduction along lanes and a function of its result, registers of vectors and masks.
    pub(crate) across: (u32, u32, [u32; 2]),
    /// Word rows of the chip's vector memory.
    pub(crate) vmem_rows: u64,
    prologue: Vec<Item>,
    /// Open bodies, the innermost last; the first is the kernel's.
    bodies: Vec<Vec<Item>>,
    /// Number of the line that code comes from ([`VInst::place`]).
    place: u16,
    pool: FxHashMap<Pooled, u32>,
    pooled_scalars: FxHashSet<u32>,
    pooled_vectors: FxHashSet<u32>,
    buffers: u32,
}

/// Operations that define a register, by its file: on registers of the same file, and on operands of any kinds.
macro_rules! operations {
    ($($what:literal: $own:ident, $any:ident -> $register:ident;)+) => {
        impl KernelBuilder { $(
            #[doc = concat!("A ", $what, " operation on ", $what, "s.")]
            pub fn $own(&mut self, op: Op, args: &[$register]) -> $register {
                self.of_own(op, args)
            }

            #[doc = concat!("An operation that defines a ", $what, ", on operands of any kinds (the definition is left out).")]
            pub fn $any(&mut self, op: Op, args: &[Arg]) -> $register {
                self.define(op, args)
            }
        )+ }
    };
}

operations! {
    "scalar": s, def_s -> S;
    "vector": v, def_v -> V;
    "pair": p, def_p -> P;
    "mask": m, def_m -> M;
}

impl KernelBuilder {
    /// A kernel without parameters yet; `name` is for listings.
    pub fn new(name: impl Into<String>, chip: &ChipConfig) -> KernelBuilder {
        let sum = chip.timing.get(Op::VFmaF.info().class);
        let reduced: u32 = [Op::XSumLane, Op::EExp].map(|op| chip.timing.get(op.info().class).latency).iter().sum();
        KernelBuilder {
            kernel: Kernel {
                name: name.into(),
                debug_op: systole_isa::program::DebugRange::CALLER,
                ..Kernel::default()
            },
            sublanes: chip.core.sublanes,
            xlu_units: chip.core.xlu_slots,
            lanes: chip.core.lanes,
            vmem_rows: chip.vmem.bytes / chip.row_bytes(),
            across: (chip.core.valu_slots, reduced, [chip.core.vector_registers, chip.core.mask_registers]),
            converts_bf16: chip.vmem.bf16_conversion != 0,
            sums: (chip.core.valu_slots * sum.latency / sum.interval.max(1), chip.core.vector_registers / 4),
            prologue: Vec::new(),
            bodies: vec![Vec::new()],
            place: 0,
            pool: FxHashMap::default(),
            pooled_scalars: FxHashSet::default(),
            pooled_vectors: FxHashSet::default(),
            buffers: 0,
        }
    }

    /// The finished kernel: the pool of constants, then the body, both [tidied](super::tidy).
    pub fn finish(mut self) -> Kernel {
        assert_eq!(self.bodies.len(), 1, "unbalanced bodies");
        let body = self.bodies.pop().expect("the kernel's own body is always open");
        self.kernel.body = self.prologue;
        self.kernel.body.extend(body);
        super::tidy::tidy(self.kernel)
    }

    /// The program's debug op that the kernel's time belongs to (default: its caller's).
    pub fn set_debug_op(&mut self, op: u32) {
        self.kernel.debug_op = op;
    }

    /// The number of a line of the program that the kernel was written in ([`VInst::place`]).
    pub fn place(&mut self, p: DebugPlace) -> u16 {
        let known = self.kernel.places.iter().position(|k| *k == p);
        let i = known.unwrap_or_else(|| {
            self.kernel.places.push(p);
            self.kernel.places.len() - 1
        });
        // Lines beyond the number's range have none.
        u16::try_from(i + 1).unwrap_or(0)
    }

    /// Code from here on comes from a line (0: from none); what it came from before.
    pub fn set_place(&mut self, place: u16) -> u16 {
        std::mem::replace(&mut self.place, place)
    }

    /// The line that code comes from now, with its number.
    pub fn current_place(&self) -> (u16, Option<&DebugPlace>) {
        (self.place, usize::from(self.place).checked_sub(1).and_then(|i| self.kernel.places.get(i)))
    }

    /// Saves what lives across calls around them ([`Kernel::saves`]).
    pub fn save_around_calls(&mut self) {
        self.kernel.saves = true;
    }

    /// Whether the chip's loads and stores convert between bf16 and f32.
    pub fn converts_bf16(&self) -> bool {
        self.converts_bf16
    }

    /// Cross-lane units, each with a transpose buffer.
    pub fn xlu_units(&self) -> u32 {
        self.xlu_units
    }

    /// Elements of a vector register: sublanes, lanes.
    pub fn shape(&self) -> (u32, u32) {
        (self.sublanes, self.lanes)
    }

    /// The next parameter (the first is passed in s1).
    pub fn param(&mut self) -> S {
        let s = self.new_s();
        self.kernel.params.push(s);
        s
    }

    /// A new memory region for alias analysis.
    pub fn buffer(&mut self) -> BufferRef {
        self.buffers += 1;
        BufferRef(self.buffers - 1)
    }

    // ---- registers ----

    fn fresh<R: Register>(&mut self) -> R {
        R::numbered(self.kernel.free.take(R::FILE))
    }

    /// A scalar register without a value yet.
    pub fn new_s(&mut self) -> S {
        self.fresh()
    }

    /// A vector register without a value yet.
    pub fn new_v(&mut self) -> V {
        self.fresh()
    }

    /// A pair without a value yet.
    pub fn new_p(&mut self) -> P {
        self.fresh()
    }

    /// A mask without a value yet.
    pub fn new_m(&mut self) -> M {
        self.fresh()
    }

    // ---- appending ----

    /// Appends an instruction that touches no memory, operands in table order.
    pub fn emit(&mut self, op: Op, operands: &[i32]) {
        self.emit_mem(op, operands, &[], &[]);
    }

    /// Appends an instruction with the buffers it reads and writes.
    pub fn emit_mem(&mut self, op: Op, operands: &[i32], reads: &[BufferRef], writes: &[BufferRef]) {
        let place = self.place;
        let memory = Touched { reads: reads.to_vec(), writes: writes.to_vec() };
        let inst = VInst { inst: Inst::new(op, operands), memory, place };
        self.push(Item::Inst(inst));
    }

    fn push(&mut self, item: Item) {
        self.bodies.last_mut().expect("the kernel's own body is always open").push(item);
    }

    fn def(&mut self, op: Op, kind: Kind, dst: u32, args: &[Arg]) {
        let info = op.info();
        assert_eq!(info.operands[0].kind, kind, "{} does not define a {kind:?}", info.mnemonic);
        let mut o = [0; systole_isa::inst::MAX_OPERANDS];
        o[0] = dst as i32;
        for (o, a) in o[1..].iter_mut().zip(args) {
            *o = a.0;
        }
        self.emit(op, &o[..args.len() + 1]);
    }

    fn define<R: Register>(&mut self, op: Op, args: &[Arg]) -> R {
        let n = self.kernel.free.take(R::FILE);
        self.def(op, R::FILE.defined(), n, args);
        R::numbered(n)
    }

    /// An operation on registers of one file that defines another of it.
    pub fn of_own<R: Register>(&mut self, op: Op, args: &[R]) -> R {
        let a: smallvec::SmallVec<[Arg; 4]> = args.iter().map(|&r| r.into()).collect();
        self.define(op, &a)
    }

    /// Redefines a scalar register.
    pub fn set_s(&mut self, dst: S, op: Op, args: &[Arg]) {
        assert!(dst != S::ZERO && !self.pooled_scalars.contains(&dst.0), "s{} is a constant", dst.0);
        self.def(op, Kind::Sd, dst.0, args);
    }

    /// Redefines a vector register.
    pub fn set_v(&mut self, dst: V, op: Op, args: &[Arg]) {
        assert!(!self.pooled_vectors.contains(&dst.0), "v{} is a constant", dst.0);
        self.def(op, Kind::Vd, dst.0, args);
    }

    /// Redefines a pair.
    pub fn set_p(&mut self, dst: P, op: Op, args: &[Arg]) {
        self.def(op, Kind::Pd, dst.0, args);
    }

    /// Redefines a mask.
    pub fn set_m(&mut self, dst: M, op: Op, args: &[Arg]) {
        assert!(dst != M::ALL, "m0 is a constant");
        self.def(op, Kind::Md, dst.0, args);
    }

    /// Copies into an existing scalar register.
    pub fn copy_s(&mut self, dst: S, src: S) {
        self.set_s(dst, Op::SAddI, &[src.into(), Arg(0)]);
    }

    /// Copies into an existing vector register.
    pub fn copy_v(&mut self, dst: V, src: V) {
        self.set_v(dst, Op::VMov, &[src.into()]);
    }

    /// Copies into an existing mask.
    pub fn copy_m(&mut self, dst: M, src: M) {
        self.set_m(dst, Op::MAnd, &[src.into(), M::ALL.into()]);
    }

    // ---- scalars ----

    /// A scalar constant, read-only. Pooled when asked for inside a loop, else made in place.
    pub fn s_imm(&mut self, value: i32) -> S {
        if value == 0 {
            return S::ZERO;
        }
        if self.bodies.len() == 1 {
            return self.s_var(value);
        }
        let r = self.pooled(Pooled::Scalar(value), |b| b.s_var(value).0);
        self.pooled_scalars.insert(r);
        S(r)
    }

    /// A fresh scalar variable with a constant first value, made in place.
    pub fn s_var(&mut self, value: i32) -> S {
        self.def_s(Op::SLi, &[Arg(value)])
    }

    /// A fresh copy of a scalar.
    pub fn s_copy(&mut self, a: S) -> S {
        self.s_addi(a, 0)
    }

    /// a + immediate.
    pub fn s_addi(&mut self, a: S, imm: i32) -> S {
        self.def_s(Op::SAddI, &[a.into(), Arg(imm)])
    }

    /// a * immediate.
    pub fn s_muli(&mut self, a: S, imm: i32) -> S {
        self.def_s(Op::SMulI, &[a.into(), Arg(imm)])
    }

    /// a = a + immediate (an induction step).
    pub fn s_inc(&mut self, a: S, imm: i32) {
        self.set_s(a, Op::SAddI, &[a.into(), Arg(imm)]);
    }

    // ---- vectors ----

    fn pooled(&mut self, key: Pooled, make: impl FnOnce(&mut KernelBuilder) -> u32) -> u32 {
        if let Some(&r) = self.pool.get(&key) {
            return r;
        }
        let line = std::mem::take(&mut self.place);
        let open = std::mem::replace(&mut self.bodies, vec![std::mem::take(&mut self.prologue)]);
        let r = make(self);
        let mut inner = std::mem::replace(&mut self.bodies, open);
        self.prologue = inner.pop().expect("the prologue was opened above");
        self.place = line;
        self.pool.insert(key, r);
        r
    }

    fn pooled_v(&mut self, key: Pooled, make: impl FnOnce(&mut KernelBuilder) -> V) -> V {
        let r = self.pooled(key, |b| make(b).0);
        self.pooled_vectors.insert(r);
        V(r)
    }

    /// A 32-bit constant in every lane, pooled.
    pub fn v_imm(&mut self, bits: i32) -> V {
        self.pooled_v(Pooled::Vector(bits), |b| b.v_var(bits))
    }

    /// The bits that a pooled constant has in every lane.
    pub fn constant_of(&self, v: V) -> Option<i32> {
        let mut all = self.pool.iter().filter(|p| *p.1 == v.0);
        all.find_map(|p| if let Pooled::Vector(bits) = p.0 { Some(*bits) } else { None })
    }

    /// An f32 constant in every lane, pooled.
    pub fn v_f32(&mut self, value: f32) -> V {
        self.v_imm(value.to_bits() as i32)
    }

    /// A fresh vector variable with a constant first value, made in place.
    pub fn v_var(&mut self, bits: i32) -> V {
        self.def_v(Op::VImm, &[Arg(bits)])
    }

    /// A fresh copy of a vector.
    pub fn v_copy(&mut self, a: V) -> V {
        self.v(Op::VMov, &[a])
    }

    /// The scalar in every lane.
    pub fn splat(&mut self, a: S) -> V {
        self.def_v(Op::VSplat, &[a.into()])
    }

    /// Each lane's lane number, pooled.
    pub fn lane(&mut self) -> V {
        self.pooled_v(Pooled::Lane, |b| b.def_v(Op::VLane, &[]))
    }

    /// Each lane's sublane number, pooled.
    pub fn sublane(&mut self) -> V {
        self.pooled_v(Pooled::Sublane, |b| b.def_v(Op::VSublane, &[]))
    }

    /// a where the mask is set, else b.
    pub fn select(&mut self, m: M, a: V, b: V) -> V {
        self.def_v(Op::VSel, &[m.into(), a.into(), b.into()])
    }

    // ---- masks ----

    /// A comparison of two vectors (`VEqF`, `VLtS`, ..).
    pub fn cmp(&mut self, op: Op, a: V, b: V) -> M {
        self.def_m(op, &[a.into(), b.into()])
    }

    /// a and b.
    pub fn m_and(&mut self, a: M, b: M) -> M {
        self.m(Op::MAnd, &[a, b])
    }

    /// a or b.
    pub fn m_or(&mut self, a: M, b: M) -> M {
        self.m(Op::MOr, &[a, b])
    }

    /// a xor b.
    pub fn m_xor(&mut self, a: M, b: M) -> M {
        self.m(Op::MXor, &[a, b])
    }

    /// not a.
    pub fn m_not(&mut self, a: M) -> M {
        self.m(Op::MXor, &[a, M::ALL])
    }

    /// Lanes below `n`, pooled; all ones for `n` at least the lanes.
    pub fn lanes_below(&mut self, n: u32) -> M {
        if n >= self.lanes {
            return M::ALL;
        }
        let (lane, limit) = (self.lane(), self.v_imm(n as i32));
        M(self.pooled(Pooled::LaneBelow(n as i32), |b| b.cmp(Op::VLtS, lane, limit).0))
    }

    /// Sublanes below `n`, pooled; all ones for `n` at least the sublanes.
    pub fn sublanes_below(&mut self, n: u32) -> M {
        if n >= self.sublanes {
            return M::ALL;
        }
        let (sublane, limit) = (self.sublane(), self.v_imm(n as i32));
        M(self.pooled(Pooled::SublaneBelow(n as i32), |b| b.cmp(Op::VLtS, sublane, limit).0))
    }

    /// The one sublane `n`, pooled.
    pub fn sublane_is(&mut self, n: u32) -> M {
        let (sublane, value) = (self.sublane(), self.v_imm(n as i32));
        M(self.pooled(Pooled::SublaneIs(n as i32), |b| b.cmp(Op::VEqI, sublane, value).0))
    }

    // ---- pairs ----

    /// The pair (lo, hi).
    pub fn pair(&mut self, lo: V, hi: V) -> P {
        self.def_p(Op::PMake, &[lo.into(), hi.into()])
    }

    /// Low and high words of a pair.
    pub fn unpair(&mut self, a: P) -> (V, V) {
        (self.def_v(Op::PLo, &[a.into()]), self.def_v(Op::PHi, &[a.into()]))
    }

    /// A 64-bit constant in every lane, pooled.
    pub fn p_imm(&mut self, bits: i64) -> P {
        let (lo, hi) = (self.v_imm(bits as i32), self.v_imm((bits >> 32) as i32));
        P(self.pooled(Pooled::Pair(bits as i32, (bits >> 32) as i32), |b| b.pair(lo, hi).0))
    }

    /// An f64 constant in every lane, pooled.
    pub fn p_f64(&mut self, value: f64) -> P {
        self.p_imm(value.to_bits() as i64)
    }

    // ---- structure ----

    fn body(&mut self, f: impl FnOnce(&mut KernelBuilder)) -> Vec<Item> {
        self.bodies.push(Vec::new());
        f(self);
        self.bodies.pop().expect("pushed above")
    }

    /// A loop of any kind.
    pub fn loop_with(&mut self, trips: Trips, hints: LoopHints, f: impl FnOnce(&mut KernelBuilder)) {
        if trips == Trips::Static(0) {
            return;
        }
        let body = self.body(f);
        self.push(Item::Loop(Loop { trips, body, hints }));
    }

    /// A loop of a known trip count (0: nothing), with the default hints.
    pub fn loop_static(&mut self, trips: u32, f: impl FnOnce(&mut KernelBuilder)) {
        self.loop_with(Trips::Static(trips), LoopHints::default(), f);
    }

    /// A loop that runs as often as the register says, with the default hints.
    pub fn loop_dynamic(&mut self, trips: S, f: impl FnOnce(&mut KernelBuilder)) {
        self.loop_with(Trips::Dynamic(trips), LoopHints::default(), f);
    }

    /// Runs `then` if `cond` is not zero.
    pub fn if_(&mut self, cond: S, then: impl FnOnce(&mut KernelBuilder)) {
        self.if_else(cond, then, |_| {});
    }

    /// Runs `otherwise` if the register is zero.
    pub fn unless(&mut self, cond: S, otherwise: impl FnOnce(&mut KernelBuilder)) {
        self.if_else(cond, |_| {}, otherwise);
    }

    /// Runs `then` if `cond` is not zero, else `otherwise`.
    pub fn if_else(
        &mut self,
        cond: S,
        then: impl FnOnce(&mut KernelBuilder),
        otherwise: impl FnOnce(&mut KernelBuilder),
    ) {
        let then = self.body(then);
        let otherwise = self.body(otherwise);
        self.push(Item::If { cond, then, otherwise });
    }

    /// Runs `head`, leaves when the register it returns is zero, runs `body`, repeats.
    pub fn while_(&mut self, head: impl FnOnce(&mut KernelBuilder) -> S, body: impl FnOnce(&mut KernelBuilder)) {
        let mut cond = S::ZERO;
        let head = self.body(|b| cond = head(b));
        let body = self.body(body);
        self.push(Item::While { head, cond, body });
    }

    /// Calls another kernel of the unit.
    pub fn call(&mut self, kernel: u32, args: &[S]) {
        self.push(Item::Call { kernel, args: args.to_vec() });
    }

    /// Code from here on belongs to a debug op of the program (until the next mark).
    pub fn mark(&mut self, debug_op: u32) {
        self.push(Item::Mark { debug_op });
    }

    /// Stops the program with message `code`.
    pub fn trap(&mut self, code: i32) {
        self.emit(Op::BTrap, &[code]);
    }

    /// Has the host perform entry `call` of the program's table of host calls.
    pub fn host(&mut self, call: i32) {
        self.emit(Op::BHost, &[call]);
    }
}
