//! Which scalar instructions time depends on.
//!
//! A run without numbers needs few of a program's scalars: those that decide branches, address transfers, name accumulator rows
//! or go through scalar memory, and those that they are made of. The rest address vector memory or become vectors, which takes
//! the same time whatever they are. They are found as dead code is: a register is live where something that time depends on may
//! read it before it is written again.
//!
//! Control is followed through calls: a subroutine returns behind the calls of it, and is left by nothing else.

use super::code::*;
use systole_isa::opcodes::StateFn;

/// Rounds of the search, and visits by functions of a block on average, beyond which less is found out: far more than compilers'
/// code needs.
const MOST_ROUNDS: usize = 40;
const MOST_VISITS: usize = 16;

const NONE: u32 = u32::MAX;

/// Bundles `first..=last` with one way in and one branch at most, at their end.
struct Block {
    first: u32,
    last: u32,
    /// Registers live at its begin, and those that were live at its end when that was found.
    before: u64,
    behind: Option<u64>,
    /// Registers that its scalar instructions write.
    written: u64,
}

/// Where control goes from the ends of blocks.
struct Flow {
    /// Block that begins at each bundle.
    at: Vec<u32>,
    /// Subroutine that begins at each bundle.
    entries: Vec<u32>,
    /// By subroutine: the blocks behind calls of it.
    returns_to: Vec<Vec<u32>>,
    /// By block: the subroutines that return at its end.
    returns_from: Vec<Vec<u32>>,
}

/// Puts the scalar instructions that time depends on before the others of their bundles, and says how many there are.
pub(super) fn mark(code: &mut Code) {
    let mut blocks = blocks(code);
    let flow = Flow::new(code, &blocks);
    if !search(code, &flow, &mut blocks) {
        blocks.iter_mut().for_each(|b| _ = mark_block(code, b, !0));
    }
}

/// Finds what is live where, and marks what time depends on; `false` if that takes too long.
fn search(code: &mut Code, flow: &Flow, blocks: &mut [Block]) -> bool {
    for _ in 0..MOST_ROUNDS {
        let union = |of: &Vec<u32>| of.iter().fold(0, |live, &b| live | blocks[b as usize].before);
        let returned: Vec<u64> = flow.returns_to.iter().map(union).collect();
        let mut changed = false;
        for b in (0..blocks.len()).rev() {
            let behind = flow.behind(code, blocks, b, &returned);
            let block = &mut blocks[b];
            let live = match block.behind {
                Some(known) if known == behind => continue,
                // More are live that the block does not write: they pass it, and what it computes is asked for as before.
                Some(known) if known & !behind | behind & !known & block.written == 0 => block.before | behind & !known,
                Some(_) | None => mark_block(code, block, behind),
            };
            changed |= live != block.before;
            (block.before, block.behind) = (live, Some(behind));
        }
        if !changed {
            return true;
        }
    }
    false
}

/// Marks a block's scalar instructions if these registers are live behind it: what is live before it.
fn mark_block(code: &mut Code, block: &mut Block, behind: u64) -> u64 {
    let mut live = behind;
    block.written = 0;
    for bundle in (block.first..=block.last).rev() {
        let head = &code.heads[bundle as usize];
        let names = head.units >> STARTS_BIT & 1 == 1 || head.flags & (FLAG_BRANCH | FLAG_ROWS | FLAG_WAIT) != 0;
        if head.nscalars > 0 || names {
            let written;
            (live, written) = mark_bundle(code, bundle, live);
            block.written |= written;
        }
    }
    live
}

/// Whether the bundle behind a branch may follow it in the same subroutine.
fn goes_on(branch: Branch) -> bool {
    match branch {
        Branch::NotZero { .. } | Branch::Zero { .. } | Branch::Loop { .. } => true,
        Branch::Call { .. } | Branch::Host { .. } => true,
        Branch::Jump { .. } | Branch::Return | Branch::Halt | Branch::Trap { .. } => false,
    }
}

/// The branch of a bundle, if it ends in one.
fn branch(code: &Code, bundle: u32) -> Option<Branch> {
    (code.heads[bundle as usize].flags & FLAG_BRANCH != 0).then(|| code.branches[bundle as usize])
}

fn blocks(code: &Code) -> Vec<Block> {
    let n = code.heads.len();
    let mut begins = vec![false; n + 1];
    begins[n] = true;
    for bundle in 0..n as u32 {
        if let Some(b) = branch(code, bundle) {
            begins[bundle as usize + 1] = true;
            b.target().into_iter().for_each(|t| begins[t as usize] = true);
        }
    }
    let (mut out, mut first) = (Vec::new(), 0);
    for last in 0..n {
        if begins[last + 1] {
            out.push(Block { first: first as u32, last: last as u32, before: 0, behind: None, written: 0 });
            first = last + 1;
        }
    }
    out
}

impl Flow {
    fn new(code: &Code, blocks: &[Block]) -> Flow {
        let n = code.heads.len();
        let mut flow = Flow {
            at: vec![NONE; n + 1],
            entries: vec![NONE; n],
            returns_to: Vec::new(),
            returns_from: vec![Vec::new(); blocks.len()],
        };
        for (i, b) in blocks.iter().enumerate() {
            flow.at[b.first as usize] = i as u32;
        }
        for b in blocks {
            let Some(Branch::Call { target }) = branch(code, b.last) else { continue };
            let entry = &mut flow.entries[target as usize];
            if *entry == NONE {
                *entry = flow.returns_to.len() as u32;
                flow.returns_to.push(Vec::new());
            }
            let behind = flow.at[b.last as usize + 1];
            flow.returns_to[*entry as usize].extend((behind != NONE).then_some(behind));
        }
        flow.find_returns(code, blocks);
        flow
    }

    /// Follows every subroutine from its begin to its returns.
    fn find_returns(&mut self, code: &Code, blocks: &[Block]) {
        let mut seen = vec![NONE; blocks.len()];
        let mut visits = 0;
        for first in 0..self.entries.len() {
            let entry = self.entries[first];
            if entry == NONE {
                continue;
            }
            let mut open = vec![self.at[first]];
            while let Some(b) = open.pop() {
                if b == NONE || std::mem::replace(&mut seen[b as usize], entry) == entry {
                    continue;
                }
                visits += 1;
                let last = blocks[b as usize].last;
                let ends = branch(code, last);
                if matches!(ends, Some(Branch::Return)) {
                    self.returns_from[b as usize].push(entry);
                }
                if ends.is_none_or(goes_on) {
                    open.push(self.at[last as usize + 1]);
                }
                let inside = ends.filter(|b| !matches!(b, Branch::Call { .. })).and_then(Branch::target);
                open.extend(inside.map(|t| self.at[t as usize]));
            }
            if visits > MOST_VISITS * blocks.len() {
                // Any return may lead behind any call.
                self.returns_to = vec![self.returns_to.concat()];
                self.returns_from = vec![vec![0]; blocks.len()];
                return;
            }
        }
    }

    /// What is live behind a block; `returned`: behind the calls of each subroutine.
    fn behind(&self, code: &Code, blocks: &[Block], b: usize, returned: &[u64]) -> u64 {
        let last = blocks[b].last;
        let begin = |bundle: u32| match self.at[bundle as usize] {
            NONE => 0,
            next => blocks[next as usize].before,
        };
        let Some(branch) = branch(code, last) else { return begin(last + 1) };
        if matches!(branch, Branch::Return) {
            return self.returns_from[b].iter().fold(0, |live, &e| live | returned[e as usize]);
        }
        // A subroutine's begin says what is live behind the call of it.
        let next = goes_on(branch) && !matches!(branch, Branch::Call { .. });
        branch.target().map_or(0, begin) | if next { begin(last + 1) } else { 0 }
    }
}

fn bit(register: u8) -> u64 {
    1 << (register & 63) & !1
}

fn read_by_branch(code: &Code, bundle: u32) -> u64 {
    match branch(code, bundle) {
        Some(Branch::NotZero { reg, .. } | Branch::Zero { reg, .. } | Branch::Loop { reg, .. }) => bit(reg),
        Some(Branch::Jump { .. } | Branch::Call { .. } | Branch::Return | Branch::Halt) => 0,
        Some(Branch::Trap { .. } | Branch::Host { .. }) | None => 0,
    }
}

fn read_by_special(code: &Code, s: &Special) -> u64 {
    match *s {
        Special::PushAcc { row, .. } | Special::Drain { row, .. } => bit(row),
        Special::WaitS { reg, .. } => bit(reg),
        Special::DmaStart { start } => {
            let s = code.starts[start as usize];
            bit(s.src) | bit(s.src_offset) | bit(s.dst) | bit(s.dst_offset)
        }
        Special::DmaRemote { start } => {
            let s = code.remotes[start as usize];
            bit(s.src) | bit(s.dst) | bit(s.device)
        }
        Special::Signal { device, .. } => bit(device),
        Special::Stage { .. } | Special::Latch { .. } | Special::Push { .. } | Special::Pop { .. } => 0,
        Special::TransposePush { .. } | Special::Group { .. } | Special::Wait { .. } => 0,
        Special::Cores { .. } | Special::Test => 0,
    }
}

/// Whether time depends on a scalar instruction, if these registers are live behind it.
fn needed(s: &ScalarOp, live: u64) -> bool {
    match s.kind {
        ScalarKind::State(StateFn::SLd | StateFn::SSt | StateFn::SyncTest) => true,
        ScalarKind::State(StateFn::SDev | StateFn::SCore | StateFn::XExtract) | ScalarKind::Pure(_) => {
            live & bit(s.d) != 0
        }
    }
}

/// Marks a bundle's scalar instructions if these registers are live behind it: what is live before it, and what they write. A bundle
/// reads everything before it writes anything.
fn mark_bundle(code: &mut Code, bundle: u32, behind: u64) -> (u64, u64) {
    let Head { scalars: begin, nscalars, flags, units, .. } = code.heads[bundle as usize];
    let by_branch = if flags & FLAG_BRANCH != 0 { read_by_branch(code, bundle) } else { 0 };
    // A counted loop's branch also writes its register, from what is there by then.
    let behind = behind | by_branch;
    let scalars = &mut code.scalars[begin as usize..][..nscalars as usize];
    let (mut written, mut read, mut timed, mut first) = (0, by_branch, 0, true);
    for (at, s) in scalars.iter().enumerate() {
        written |= bit(s.d);
        if needed(s, behind) {
            read |= s.sources() & !1;
            first &= at == timed;
            timed += 1;
        }
    }
    if !first {
        scalars.sort_by_key(|s| !needed(s, behind));
    }
    let ordered = timed > 1 && is_ordered(&scalars[..timed]);
    let own = &mut code.heads[bundle as usize];
    own.ntimed = timed as u8;
    own.flags = flags & !FLAG_ORDERED | if ordered { FLAG_ORDERED } else { 0 };
    own.find_plain();
    let live = behind & !written | read;
    if units >> STARTS_BIT & 1 == 0 && flags & (FLAG_ROWS | FLAG_WAIT) == 0 {
        return (live, written);
    }
    let own = *own;
    (code.specials(&own).iter().fold(live, |all, s| all | read_by_special(code, s)), written)
}

/// Whether each of a bundle's scalar instructions reads what was there before the bundle, if they are computed one behind the other.
pub(super) fn is_ordered(scalars: &[ScalarOp]) -> bool {
    let (mut read, mut loads, mut ordered) = (0, false, true);
    for s in scalars.iter().rev() {
        ordered &= read & bit(s.d) == 0 && !(loads && s.kind == ScalarKind::State(StateFn::SSt));
        read |= s.sources();
        loads |= s.kind == ScalarKind::State(StateFn::SLd);
    }
    ordered
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::load_bundles;
    use systole_isa::{Bundle, ChipConfig, Inst, Op, Program};

    /// What is said of all bundles.
    fn marks(code: &Code) -> Vec<String> {
        let of = |h: &Head| format!("{} {} {} {:?}", h.ntimed, h.flags, h.units, code.timed(h));
        code.heads.iter().map(of).collect()
    }

    #[test]
    fn blocks_that_are_not_marked_again_are_as_if_they_were() {
        let chip = ChipConfig::from_preset("tpu-v5e").expect("a preset");
        let mut seed = 5u64;
        let mut below = |n: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as i32 % n as i32
        };
        for _ in 0..400 {
            let mut bundle = |bundles: u64| {
                let mut insts = vec![Inst::new(Op::SAddI, &[1 + below(4), 1 + below(10), 1])];
                match below(4) {
                    0 => insts.push(Inst::new(Op::SAdd, &[5 + below(4), 1 + below(8), 1 + below(8)])),
                    1 => insts.push(Inst::new(Op::SSt, &[1 + below(8), 1 + below(8), 0])),
                    _ => {}
                }
                let target = below(bundles);
                match below(9) {
                    0 | 1 => insts.push(Inst::new(Op::BNz, &[1 + below(8), target])),
                    2 => insts.push(Inst::new(Op::BLoop, &[9 + below(2), target])),
                    3 => insts.push(Inst::new(Op::BCall, &[target])),
                    4 => insts.push(Inst::new(Op::BRet, &[])),
                    5 => insts.push(Inst::new(Op::BJmp, &[target])),
                    _ => {}
                }
                Bundle { insts }
            };
            let bundles: Vec<Bundle> = (0..24).map(|_| bundle(24)).collect();
            let mut code = load_bundles(&bundles, &Program::default(), &chip).expect("it is well formed").code;
            let marked = marks(&code);
            let mut blocks = blocks(&code);
            let flow = Flow::new(&code, &blocks);
            assert!(search(&mut code, &flow, &mut blocks));
            for block in &mut blocks {
                let behind = block.behind.expect("it was reached");
                let before = block.before;
                assert_eq!(mark_block(&mut code, block, behind), before, "{bundles:?}");
            }
            assert_eq!(marks(&code), marked, "{bundles:?}");
        }
    }
}
