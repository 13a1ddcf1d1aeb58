//! Live ranges of virtual registers over linear code.
//!
//! Bundle `b` reads at position `2 b` and writes at `2 b + 1`. A register is live in half-open position ranges; one whose
//! last read is in a bundle may share its place with one that the bundle writes.

use super::code::{Code, target_at};
use crate::kernel::regs::{Reg, defs, uses};
use systole_isa::{Effect, Op};

/// Disjoint position ranges of a register, the last first.
pub type Ranges = smallvec::SmallVec<[(u32, u32); 2]>;

/// Dense numbering of a code's registers over all files.
#[derive(Clone, Copy, Debug)]
pub struct Numbering {
    base: [u32; 4],
    pub count: usize,
}

impl Numbering {
    pub fn new(counts: [u32; 4]) -> Numbering {
        let mut base = [0; 4];
        for f in 1..4 {
            base[f] = base[f - 1] + counts[f - 1];
        }
        Numbering { base, count: (base[3] + counts[3]) as usize }
    }

    pub fn of(&self, r: Reg) -> usize {
        (self.base[r.file() as usize] + r.number()) as usize
    }

    pub fn reg(&self, index: usize) -> Reg {
        let i = index as u32;
        let f = (0..4).rev().find(|&f| self.base[f] <= i).unwrap_or(0);
        Reg::new(crate::kernel::regs::File::ALL[f], i - self.base[f])
    }
}

/// A run of bundles entered only at its start.
struct Block {
    start: usize,
    end: usize,
    next: smallvec::SmallVec<[usize; 2]>,
}

fn blocks(code: &Code) -> Vec<Block> {
    let n = code.bundles.len();
    let mut leader = vec![false; n + 1];
    leader[0] = true;
    for to in code.labels.targets() {
        leader[to.min(n)] = true;
    }
    let control = |b: usize| {
        code.bundles[b].insts.iter().find(|i| {
            let e = i.op.info().effect;
            matches!(e, Effect::Control | Effect::Trap) && i.op != Op::BCall
        })
    };
    for b in 0..n {
        leader[b + 1] |= control(b).is_some();
    }
    let starts: Vec<usize> = (0..n).filter(|&b| leader[b]).collect();
    let mut index = vec![usize::MAX; n + 1];
    starts.iter().enumerate().for_each(|(i, &s)| index[s] = i);
    starts
        .iter()
        .enumerate()
        .map(|(i, &start)| {
            let end = starts.get(i + 1).copied().unwrap_or(n);
            let mut next = smallvec::SmallVec::new();
            let branch = control(end - 1);
            let falls = branch.is_none_or(|b| matches!(b.op, Op::BZ | Op::BNz | Op::BLoop | Op::BHost));
            if falls && end < n {
                next.push(index[end]);
            }
            if let Some(b) = branch
                && let Some(at) = target_at(b.op)
            {
                let to = code.labels.target(b.operands[at]);
                if to < n {
                    next.push(index[to]);
                }
            }
            Block { start, end, next }
        })
        .collect()
}

/// A set of registers by dense number.
#[derive(Clone)]
struct Bits(Vec<u64>);

impl Bits {
    fn new(n: usize) -> Bits {
        Bits(vec![0; n.div_ceil(64)])
    }
    fn set(&mut self, i: usize) {
        self.0[i / 64] |= 1 << (i % 64);
    }
    fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().enumerate().flat_map(|(w, &bits)| {
            let mut b = bits;
            std::iter::from_fn(move || {
                (b != 0).then(|| {
                    let t = b.trailing_zeros() as usize;
                    b &= b - 1;
                    w * 64 + t
                })
            })
        })
    }
}

/// A result that nothing reads, of an instruction that stays.
#[derive(Clone)]
struct Unread {
    register: usize,
    /// Its position, and that of its block's end.
    at: u32,
    end: u32,
    op: Op,
}

/// When registers are live.
#[derive(Clone)]
pub struct Lives {
    /// By dense number. Results that nothing reads have their registers for a bundle.
    pub ranges: Vec<Ranges>,
    unread: Vec<Unread>,
}

impl Lives {
    /// The ranges where a result that nothing reads has its register for `flight(op)` bundles, or to the end of its block.
    pub fn apart(mut self, flight: &dyn Fn(Op) -> u32) -> Vec<Ranges> {
        for u in &self.unread {
            let until = (u.at - 1 + 2 * flight(u.op)).min(u.end);
            prolong(&mut self.ranges[u.register], u.at, until);
        }
        self.ranges
    }
}

/// Lets the range that has `at` last until `until` at least, joining those that it then reaches.
fn prolong(ranges: &mut Ranges, at: u32, until: u32) {
    let i = ranges.partition_point(|r| r.0 > at);
    let end = ranges[i].1.max(until);
    let reached = ranges[..i].partition_point(|r| r.0 > end);
    ranges[i].1 = ranges[reached..=i].iter().map(|r| r.1).fold(end, u32::max);
    ranges.drain(reached..i);
}

/// Removes pure instructions whose results nothing reads, and returns when all registers are live.
pub fn analyse(code: &mut Code, numbering: &Numbering) -> Lives {
    let blocks = blocks(code);
    let live_out = live_out(code, &blocks, numbering);
    let mut ranges: Vec<Ranges> = vec![Ranges::new(); numbering.count];
    let mut unread = Vec::new();
    let mut open: Vec<u32> = vec![0; numbering.count];
    let mut live = Vec::new();
    for (block, out) in blocks.iter().zip(&live_out).rev() {
        live.clear();
        let end = 2 * block.end as u32;
        for &v in out {
            open[v] = end;
            live.push(v);
        }
        for b in (block.start..block.end).rev() {
            let at = 2 * b as u32;
            let bundle = &mut code.bundles[b];
            for r in &bundle.after {
                open_at(&mut open, &mut live, numbering.of(*r), at + 2);
            }
            bundle.insts.retain(|i| {
                let removable = matches!(i.op.info().effect, Effect::None | Effect::VmemLoad | Effect::SmemLoad);
                !removable || defs(i).any(|d| open[numbering.of(d)] != 0)
            });
            for i in &bundle.insts {
                for d in defs(i) {
                    let v = numbering.of(d);
                    let until = std::mem::take(&mut open[v]);
                    if until == 0 {
                        unread.push(Unread { register: v, at: at + 1, end, op: i.op });
                    }
                    add(&mut ranges[v], at + 1, until.max(at + 2));
                }
            }
            for u in bundle.insts.iter().flat_map(uses) {
                open_at(&mut open, &mut live, numbering.of(u), at + 1);
            }
        }
        for &v in &live {
            let until = std::mem::take(&mut open[v]);
            if until != 0 {
                add(&mut ranges[v], 2 * block.start as u32, until);
            }
        }
    }
    Lives { ranges, unread }
}

fn open_at(open: &mut [u32], live: &mut Vec<usize>, v: usize, until: u32) {
    if open[v] == 0 {
        open[v] = until;
        live.push(v);
    }
}

/// Adds a range before the ones there are, joining neighbours.
fn add(ranges: &mut Ranges, from: u32, to: u32) {
    match ranges.last_mut() {
        Some(l) if l.0 <= to => {
            l.0 = l.0.min(from);
            l.1 = l.1.max(to);
        }
        _ => ranges.push((from, to)),
    }
}

/// Registers that live on at the end of each block.
///
/// Most registers are written and read within one block: only those that some block reads before it writes them are told apart.
fn live_out(code: &Code, blocks: &[Block], numbering: &Numbering) -> Vec<Vec<usize>> {
    let (crossing, reads) = crossing(code, blocks, numbering);
    let mut place = vec![usize::MAX; numbering.count];
    crossing.iter().enumerate().for_each(|(i, &v)| place[v] = i);
    let n = crossing.len();
    let mut kill: Vec<Bits> = Vec::with_capacity(blocks.len());
    for b in blocks {
        let mut k = Bits::new(n);
        for d in code.bundles[b.start..b.end].iter().flat_map(|b| b.insts.iter().flat_map(defs)) {
            let at = place[numbering.of(d)];
            if at != usize::MAX {
                k.set(at);
            }
        }
        kill.push(k);
    }
    let bits = |read: &Vec<usize>| {
        let mut g = Bits::new(n);
        read.iter().for_each(|&v| g.set(place[v]));
        g
    };
    let gen_: Vec<Bits> = reads.iter().map(bits).collect();
    let mut live_in = gen_.clone();
    let mut out: Vec<Bits> = vec![Bits::new(n); blocks.len()];
    loop {
        let mut changed = false;
        for i in (0..blocks.len()).rev() {
            for w in 0..out[i].0.len() {
                let mut word = out[i].0[w];
                for &s in &blocks[i].next {
                    word |= live_in[s].0[w];
                }
                if word != out[i].0[w] {
                    out[i].0[w] = word;
                    let new = gen_[i].0[w] | (word & !kill[i].0[w]);
                    changed |= new != live_in[i].0[w];
                    live_in[i].0[w] = new;
                }
            }
        }
        if !changed {
            return out.iter().map(|b| b.iter().map(|i| crossing[i]).collect()).collect();
        }
    }
}

/// Registers that some block reads before it writes them, in order, and those of each block.
fn crossing(code: &Code, blocks: &[Block], numbering: &Numbering) -> (Vec<usize>, Vec<Vec<usize>>) {
    // The last block that wrote a register, or noted its read, counted from 1.
    let mut seen = vec![0usize; numbering.count];
    let mut all = Vec::new();
    let mut reads = Vec::with_capacity(blocks.len());
    for (i, b) in blocks.iter().enumerate() {
        let mut own = Vec::new();
        for bundle in &code.bundles[b.start..b.end] {
            for v in bundle.insts.iter().flat_map(uses).map(|u| numbering.of(u)) {
                if std::mem::replace(&mut seen[v], i + 1) != i + 1 {
                    own.push(v);
                }
            }
            bundle.insts.iter().flat_map(defs).for_each(|d| seen[numbering.of(d)] = i + 1);
        }
        all.extend_from_slice(&own);
        reads.push(own);
    }
    all.sort_unstable();
    all.dedup();
    (all, reads)
}
