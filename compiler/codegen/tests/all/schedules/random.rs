//! Random units for differential tests.

use super::machine::{LANES, SUBLANES};
use systole_codegen::kernel::{
    BufferRef, DmaArgs, KernelBuilder, LoopHints, M, MemFormat, P, S, StoreFormat, Trips, Unit, V,
};
use systole_isa::{ChipConfig, MxuFormat, Op};

pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }
    pub fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % n
    }
    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

/// Rows of each buffer; buffer `k` starts at row `k * SPAN`.
const SPAN: usize = 512;
const BUFFERS: usize = 4;
/// Bases stay below this much of a buffer so that offsets may be added.
const ROOM: usize = 96;

struct Gen<'a> {
    r: &'a mut Rng,
    s: Vec<S>,
    v: Vec<V>,
    p: Vec<P>,
    m: Vec<M>,
    /// Row registers known to be in `0..SPAN - ROOM` of a buffer.
    bases: Vec<(S, usize)>,
    buffers: Vec<BufferRef>,
    budget: usize,
    /// Trips of all loops around.
    times: usize,
}

/// A unit of a main program and `kernels` others.
pub fn unit(seed: u64, chip: &ChipConfig, size: usize) -> Unit {
    let mut r = Rng::new(seed);
    let kernels = 1 + r.below(2);
    let mut unit = Unit::default();
    let mut main = KernelBuilder::new("main", chip);
    let total = 1 + r.below(3);
    let kept = main.s_var(5);
    let variable = main.s_addi(kept, 11);
    let body = |b: &mut KernelBuilder, r: &mut Rng| {
        for _ in 0..total {
            let k = 1 + r.below(kernels) as u32;
            let args: Vec<S> = (0..BUFFERS).map(|i| b.s_imm((i * SPAN + r.below(8)) as i32)).collect();
            b.mark(k);
            b.call(k, &args);
            b.s_inc(variable, 3);
        }
    };
    if r.below(2) == 0 {
        main.loop_static(2, |b| body(b, &mut r));
    } else {
        body(&mut main, &mut r);
    }
    main.smem_store(variable, S::ZERO, 1000);
    main.smem_store(kept, S::ZERO, 1001);
    unit.kernels.push(main.finish());
    for k in 0..kernels {
        unit.kernels.push(kernel(&mut r, k, chip, size));
    }
    unit
}

fn kernel(r: &mut Rng, k: usize, chip: &ChipConfig, size: usize) -> systole_codegen::kernel::Kernel {
    let mut b = KernelBuilder::new(format!("kernel{k}"), chip);
    let buffers: Vec<BufferRef> = (0..BUFFERS).map(|_| b.buffer()).collect();
    let params: Vec<S> = (0..BUFFERS).map(|_| b.param()).collect();
    let bases = params.iter().enumerate().map(|(i, &s)| (s, i)).collect();
    let mut g =
        Gen { r, s: vec![S::ZERO], v: vec![], p: vec![], m: vec![M::ALL], bases, buffers, budget: size, times: 1 };
    let seed = g.r.below(100) as i32;
    g.s.push(b.s_var(seed));
    g.v.push(b.v_imm(3));
    g.v.push(b.lane());
    let (lo, hi) = (g.v[0], g.v[1]);
    g.p.push(b.pair(lo, hi));
    g.block(&mut b, 0);
    let (s, v, m) = (g.r.pick(&g.s), g.r.pick(&g.v), g.r.pick(&g.m));
    b.smem_store(s, S::ZERO, 900 + k as i32);
    b.store(StoreFormat::W32, v, params[0], (SPAN - 16) as i32, 1, m, g.buffers[0]);
    b.finish()
}

impl Gen<'_> {
    fn block(&mut self, b: &mut KernelBuilder, depth: usize) {
        let n = 1 + self.r.below(14);
        for _ in 0..n {
            if self.budget == 0 {
                return;
            }
            self.budget -= 1;
            match self.r.below(20) {
                0..=1 if depth < 3 => self.nested(b, depth),
                2 => self.stream(b),
                3 => self.matrix(b),
                4 => self.copy(b),
                _ => self.instruction(b),
            }
        }
    }

    /// Runs `f` in a scope: what it defines is not visible after it.
    fn scope(&mut self, b: &mut KernelBuilder, f: impl FnOnce(&mut Self, &mut KernelBuilder)) {
        let keep = (self.s.len(), self.v.len(), self.p.len(), self.m.len(), self.bases.len());
        f(self, b);
        self.s.truncate(keep.0);
        self.v.truncate(keep.1);
        self.p.truncate(keep.2);
        self.m.truncate(keep.3);
        self.bases.truncate(keep.4);
    }

    fn nested(&mut self, b: &mut KernelBuilder, depth: usize) {
        match self.r.below(6) {
            0 => {
                let c = self.r.pick(&self.s);
                // Changed in both ways, or in one.
                let (x, n) = (self.r.pick(&self.v), self.r.pick(&self.s));
                let (x, n) = (b.v_copy(x), b.s_addi(n, 1));
                let ways = self.r.below(4);
                let g = std::cell::RefCell::new(&mut *self);
                let way = |b: &mut KernelBuilder, changes| g.borrow_mut().way(b, depth, (x, n), changes);
                b.if_else(
                    c,
                    |b| way(b, ways & 1 == 0),
                    |b| {
                        if ways > 0 {
                            way(b, ways & 2 == 0)
                        }
                    },
                );
                self.v.push(x);
                self.s.push(n);
            }
            1 => {
                let c = b.s_var(self.r.below(4) as i32);
                b.while_(
                    |b| b.s_addi(c, 0),
                    |b| {
                        self.scope(b, |g, b| g.block(b, depth + 1));
                        b.s_inc(c, -1);
                    },
                );
            }
            2 => {
                let t = self.r.pick(&self.s);
                let t = b.def_s(Op::SAndI, &[t.into(), 7.into()]);
                b.loop_dynamic(t, |b| self.scope(b, |g, b| g.block(b, depth + 1)));
            }
            _ => self.counted(b, depth),
        }
    }

    /// One way of a branch, which may change registers of the code around it.
    fn way(&mut self, b: &mut KernelBuilder, depth: usize, (x, n): (V, S), changes: bool) {
        self.scope(b, |g, b| g.block(b, depth + 1));
        if changes {
            let by = self.r.pick(&self.v);
            b.set_v(x, Op::VAddI, &[x.into(), by.into()]);
            b.s_inc(n, self.r.below(9) as i32);
        }
    }

    /// A counted loop with an induction variable and carried values.
    fn counted(&mut self, b: &mut KernelBuilder, depth: usize) {
        let most = (400 / self.times).clamp(1, 60);
        let trips = 1 + self.r.below(most);
        let buffer = self.r.below(BUFFERS);
        let step = self.r.below(ROOM.min(SPAN / 2) / trips.max(1) + 1) as i32;
        let (param, at) = self.bases[buffer.min(self.bases.len() - 1)];
        let start = b.s_addi(param, 0);
        let sum = self.r.pick(&self.v);
        let sum = b.v_copy(sum);
        self.times *= trips;
        b.loop_static(trips as u32, |b| {
            self.scope(b, |g, b| {
                if at == buffer {
                    g.bases.push((start, at));
                }
                g.s.push(start);
                g.v.push(sum);
                g.block(b, depth + 1);
                let x = g.r.pick(&g.v);
                if g.r.below(2) == 0 {
                    b.set_v(sum, Op::VAddI, &[sum.into(), x.into()]);
                }
                if g.r.below(3) == 0 {
                    let (base, k) = g.r.pick(&g.bases);
                    b.store(StoreFormat::W32, x, base, g.r.below(40) as i32, 1, M::ALL, g.buffers[k]);
                }
                b.s_inc(start, step);
                if g.r.below(3) == 0 && at == buffer {
                    let x = b.load(MemFormat::W32, start, 2, 1, g.buffers[at]);
                    b.set_v(sum, Op::VXor, &[sum.into(), x.into()]);
                }
            });
        });
        self.times /= trips;
        self.v.push(sum);
        self.s.push(start);
    }

    /// An elementwise loop over independent rows of one or two buffers.
    fn stream(&mut self, b: &mut KernelBuilder) {
        let most = 1 + self.r.below(if self.times > 50 { 6 } else { 50 });
        let (from, to) = (self.r.below(BUFFERS), self.r.below(BUFFERS));
        let [x, y] = [from, to].map(|k| b.s_addi(self.bases[k].0, 0));
        let y = if from == to { x } else { y };
        let hints = LoopHints::independent(&[self.buffers[from], self.buffers[to]]);
        let unroll = 1 + self.r.below(3);
        // Rows of another buffer would be touched in an order that nothing keeps.
        let trips = most.min((SPAN - 2 * ROOM) / (unroll * SUBLANES));
        let length = self.r.below(6);
        let c = self.r.pick(&self.v);
        b.loop_with(Trips::Static(trips as u32), hints, |b| {
            for u in 0..unroll {
                let mut v = b.load(MemFormat::W32, x, (u * SUBLANES) as i32, 1, self.buffers[from]);
                for _ in 0..length {
                    let op = self.r.pick(&[Op::VAddI, Op::VMulI, Op::VXor]);
                    let other = if self.r.below(2) == 0 { c } else { v };
                    v = b.v(op, &[v, other]);
                }
                b.store(StoreFormat::W32, v, y, (u * SUBLANES) as i32, 1, M::ALL, self.buffers[to]);
            }
            b.s_inc(x, (unroll * SUBLANES) as i32);
            if x != y {
                b.s_inc(y, (unroll * SUBLANES) as i32);
            }
        });
    }

    /// Pushes rows through a matrix unit and pops the results some pushes later.
    fn matrix(&mut self, b: &mut KernelBuilder) {
        let unit = self.r.below(2) as u32;
        let (from, to) = (self.r.below(BUFFERS), self.r.below(BUFFERS));
        let w = self.r.pick(&self.v);
        b.mxu_stage(unit, w, 0, MxuFormat::Bf16);
        b.mxu_latch(unit);
        let late = self.r.below(4);
        let trips = self.r.below(20) as u32 + 1;
        let [x, y] = [from, to].map(|k| b.s_addi(self.bases[k].0, 0));
        for _ in 0..late {
            let v = b.load(MemFormat::W32, x, 0, 1, self.buffers[from]);
            b.mxu_push(unit, v, 0, MxuFormat::Bf16);
            b.s_inc(x, 1);
        }
        b.loop_static(trips, |b| {
            let v = b.load(MemFormat::W32, x, 0, 1, self.buffers[from]);
            b.mxu_push(unit, v, 0, MxuFormat::Bf16);
            b.s_inc(x, 1);
            let v = b.mxu_pop(unit, 0);
            b.store(StoreFormat::W32, v, y, 1, 1, M::ALL, self.buffers[to]);
            b.s_inc(y, 1);
        });
        for _ in 0..late {
            let v = b.mxu_pop(unit, 0);
            self.v.push(v);
        }
    }

    /// A DMA and its wait, with work between.
    fn copy(&mut self, b: &mut KernelBuilder) {
        let (from, to) = (self.r.below(BUFFERS), self.r.below(BUFFERS));
        let sem = self.r.below(3) as u32;
        let args = DmaArgs {
            desc: 1 + self.r.below(12) as u32,
            src: self.bases[from].0,
            src_offset: S::ZERO,
            dst: self.bases[to].0,
            dst_offset: b.s_imm(20),
            sem,
        };
        let (reads, writes) = ([self.buffers[from]], [self.buffers[to]]);
        b.dma_start(args, &reads, &writes);
        for _ in 0..self.r.below(4) {
            let v = self.r.pick(&self.v);
            let w = b.v(Op::VMulI, &[v, v]);
            self.v.push(w);
        }
        b.dma_wait(sem, 1, &reads, &writes);
    }

    fn instruction(&mut self, b: &mut KernelBuilder) {
        let (v, w) = (self.r.pick(&self.v), self.r.pick(&self.v));
        let (s, t) = (self.r.pick(&self.s), self.r.pick(&self.s));
        let (m, n) = (self.r.pick(&self.m), self.r.pick(&self.m));
        let (base, k) = self.r.pick(&self.bases);
        let buffer = self.buffers[k];
        let offset = self.r.below(ROOM - 20) as i32;
        let stride = self.r.below(4) as i32;
        match self.r.below(18) {
            0 => self.s.push(b.s(Op::SAdd, &[s, t])),
            1 => self.s.push(b.s_addi(s, offset)),
            2 => {
                let op = self.r.pick(&[Op::SMul, Op::SXor, Op::SLt]);
                self.s.push(b.s(op, &[s, t]));
            }
            3 => {
                let near = b.s_addi(base, self.r.below(8) as i32);
                self.bases.push((near, k));
            }
            4..=6 => {
                let op = self.r.pick(&[Op::VAddI, Op::VSubI, Op::VMulI, Op::VXor, Op::VMinS]);
                self.v.push(b.v(op, &[v, w]));
            }
            7 => self.m.push(b.cmp(Op::VLtS, v, w)),
            8 => self.m.push(b.m(Op::MXor, &[m, n])),
            9 => self.v.push(b.select(m, v, w)),
            10 => self.p.push(b.pair(v, w)),
            11 => {
                let (p, q) = (self.r.pick(&self.p), self.r.pick(&self.p));
                let p = b.p(Op::PAddD, &[p, q]);
                self.p.push(p);
                let (lo, hi) = b.unpair(p);
                self.v.extend([lo, hi]);
            }
            12 => {
                let x = b.v(Op::XSumLane, &[v]);
                self.v.push(x);
                self.s.push(b.extract(x));
            }
            13 => {
                let u = self.r.below(2) as u32;
                b.xlu_tpush(u, v);
                b.xlu_tpush(u, w);
                let (x, y) = (b.xlu_tpop(u), b.xlu_tpop(u));
                self.v.extend([x, y]);
            }
            14 => self.v.push(b.load(MemFormat::W32, base, offset, stride, buffer)),
            15 => b.store(StoreFormat::W32, v, base, offset, 1 + stride, m, buffer),
            16 => {
                let x = b.load(MemFormat::S16, base, offset, stride, buffer);
                self.v.push(x);
                b.store(StoreFormat::B16, v, base, offset, 1, m, buffer);
            }
            _ => {
                let at = b.def_s(Op::SAndI, &[s.into(), 63.into()]);
                let x = b.smem_load(at, 4);
                b.smem_store(t, at, self.r.below(8) as i32);
                self.s.push(x);
                self.v.push(b.splat(x));
            }
        }
        let _ = LANES;
    }
}
