//! Straight pieces of code, and what has to be done at each replay of one.
//!
//! A piece begins wherever control arrives and ends behind the next branch, or before a bundle that only a piece may begin
//! with: one that waits or looks at a semaphore, that starts another operation or another block of code, or whose accumulator
//! row the piece itself computes. A barrier is a piece by itself.

use crate::issue::code::*;
use crate::issue::timed::is_ordered;
use systole_isa::opcodes::{ScalarFn, StateFn};

/// Longest piece in bundles.
const LONGEST: u32 = 2048;

/// What a replay does besides moving time, in order.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Scalar(ScalarOp),
    /// The scalars of a bundle of which no order gives what happens at once.
    Parallel {
        bundle: u32,
    },
    /// What follows happens at the bundle's cycle, the transition's next offset.
    At {
        bundle: u32,
    },
    /// The bundle (which is due as with `At`) takes what it waited for.
    Waits {
        bundle: u32,
    },
    Transfer {
        start: u32,
    },
    Remote {
        start: u32,
    },
    Signal {
        device: u8,
        sem: u8,
        count: u32,
    },
}

/// A straight piece of code.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub first: u32,
    pub last: u32,
    /// Its steps: up to `tail` those before the branch is decided, then the scalars of the last bundle.
    pub steps: u32,
    pub tail: u32,
    pub end: u32,
    /// Registers that name accumulator rows, in the table's list.
    pub rows: u32,
    pub nrows: u32,
    /// Of the first bundle.
    pub flags: u8,
    pub branches: bool,
    /// Its first bundle waits for transfers; looks at a semaphore.
    pub waits: bool,
    pub looks: bool,
    /// Other cores decide when it goes on: never replayed.
    pub barrier: bool,
    /// Nothing but the state and the first ready time decides how it goes.
    pub simple: bool,
    /// The registers that move by the same amount in every round, one bit each, if it is the whole body of a counted loop whose
    /// rounds differ in them alone; else none. The loop's counter is one of them.
    pub rolls: u64,
    /// Visits by the plain walk that are still to come before states are looked at.
    pub rest: u32,
    /// Doublings of `rest` so far.
    pub demoted: u8,
    /// Whether transitions of it are known.
    pub known: bool,
    /// Bundles that replays saved, less what looking cost.
    pub credit: i64,
}

/// Registers of accumulator rows that a bundle names.
fn row_registers(code: &Code, head: &Head) -> impl Iterator<Item = u8> {
    let named = if head.flags & FLAG_ROWS != 0 { code.specials(head) } else { &[] };
    named.iter().filter_map(Special::row)
}

fn any(code: &Code, head: &Head, what: impl Fn(&Special) -> bool) -> bool {
    head.flags & FLAG_GATE != 0 && code.specials(head).iter().any(what)
}

/// The piece that begins at a bundle; its steps and row registers are appended.
pub(super) fn cut(code: &Code, first: u32, steps: &mut Vec<Step>, rows: &mut Vec<u8>) -> Piece {
    let flags = code.heads[first as usize].flags;
    let mut p = Piece {
        first,
        last: first,
        steps: steps.len() as u32,
        tail: 0,
        end: 0,
        rows: rows.len() as u32,
        nrows: 0,
        flags,
        branches: false,
        waits: flags & FLAG_WAIT != 0,
        looks: any(code, &code.heads[first as usize], |s| matches!(s, Special::Test)),
        barrier: any(code, &code.heads[first as usize], |s| matches!(s, Special::Cores { .. })),
        simple: false,
        rolls: 0,
        rest: 0,
        demoted: 0,
        known: false,
        credit: 0,
    };
    let mut written = 0u64;
    let mut at = first;
    loop {
        let head = &code.heads[at as usize];
        if at != first && at - first + 1 < LONGEST && goes_on(code, at) {
            at += 1;
            continue;
        }
        if head.flags & FLAG_ROWS != 0 {
            for r in row_registers(code, head) {
                if !rows[p.rows as usize..].contains(&r) {
                    rows.push(r);
                }
            }
        }
        p.last = at;
        let waits = p.waits && at == first;
        if waits || head.units >> STARTS_BIT & 1 == 1 || head.ntimed > 0 {
            events(code, head, at, waits, steps);
        }
        p.tail = steps.len() as u32;
        if head.ntimed > 0 {
            let scalars = code.timed(head);
            scalar_steps(scalars, at, steps);
            scalars.iter().for_each(|s| written |= 1 << (s.d & 63));
        }
        p.branches = head.flags & FLAG_BRANCH != 0;
        let Some(next) = code.heads.get(at as usize + 1) else { break };
        let asks = next.flags & (FLAG_GATE | FLAG_ROWS) != 0;
        let begins = next.flags & (FLAG_OP | FLAG_BLOCK | FLAG_WAIT) != 0
            || asks && any(code, next, |s| matches!(s, Special::Test))
            || asks && row_registers(code, next).any(|r| written >> (r & 63) & 1 == 1);
        if p.branches || p.barrier || begins || at - first + 1 == LONGEST {
            break;
        }
        at += 1;
    }
    if !p.branches {
        p.tail = steps.len() as u32;
    }
    p.end = steps.len() as u32;
    p.nrows = rows.len() as u32 - p.rows;
    p.simple = !(p.barrier || p.waits || p.looks) && p.nrows == 0 && flags & (FLAG_OP | FLAG_BLOCK) == 0;
    if p.simple && p.branches {
        p.rolls = rolls(code.branches[p.last as usize], first, &steps[p.steps as usize..]).unwrap_or(0);
    }
    p
}

/// Whether a bundle that a piece does not begin with asks for no step, and neither does it end the piece nor may the next one begin one.
#[inline(always)]
fn goes_on(code: &Code, at: u32) -> bool {
    let Some([own, next]) = code.heads[at as usize..].first_chunk() else { return false };
    let asks = own.flags & (FLAG_ROWS | FLAG_BRANCH | FLAG_WAIT)
        | next.flags & (FLAG_OP | FLAG_BLOCK | FLAG_WAIT | FLAG_GATE | FLAG_ROWS);
    u32::from(asks) | own.units & 1 << STARTS_BIT | u32::from(own.ntimed) == 0
}

/// What a register holds in a round of a loop.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Course {
    /// The same in all rounds.
    Fixed,
    /// What a register held when the round began, and something that is the same in all rounds.
    Moves(u8),
    Any,
}

/// The registers that a round reads before it writes them, if the piece that begins at `first` and ends with `branch` is a counted
/// loop's whole body, its steps compute scalars only, and each of these registers moves by the same amount in every round.
fn rolls(branch: Branch, first: u32, steps: &[Step]) -> Option<u64> {
    let Branch::Loop { reg, target } = branch else { return None };
    let pure = |step: &Step| match *step {
        Step::Scalar(s) if matches!(s.kind, ScalarKind::Pure(_)) => Some(s),
        Step::Scalar(_) | Step::Parallel { .. } | Step::At { .. } | Step::Waits { .. } => None,
        Step::Transfer { .. } | Step::Remote { .. } | Step::Signal { .. } => None,
    };
    let ops: Vec<ScalarOp> = steps.iter().map(pure).collect::<Option<_>>()?;
    let bit = |r: u8| 1u64 << (r & 63);
    let written = ops.iter().fold(bit(reg), |all, s| all | bit(s.d)) & !1;
    if target != first || reg == 0 || ops.iter().any(|s| s.d == reg) {
        return None;
    }
    let begin = |r: u8| if written & bit(r) != 0 { Course::Moves(r) } else { Course::Fixed };
    let mut courses: [Course; 64] = std::array::from_fn(|r| begin(r as u8));
    let (mut defined, mut read) = (0, bit(reg));
    for s in ops.iter().filter(|s| s.d != 0) {
        read |= s.sources() & written & !defined;
        let of = |r: u8| courses[r as usize & 63];
        let fixed = (0..64).all(|r| s.sources() >> r & 1 == 0 || of(r) == Course::Fixed);
        let course = match (s.kind, of(s.a), of(s.b)) {
            _ if fixed => Course::Fixed,
            (ScalarKind::Pure(ScalarFn::SAddI), a, _) => a,
            (ScalarKind::Pure(ScalarFn::SAdd | ScalarFn::SSub), a, Course::Fixed) => a,
            (ScalarKind::Pure(ScalarFn::SAdd), Course::Fixed, b) => b,
            (ScalarKind::Pure(_) | ScalarKind::State(_), _, _) => Course::Any,
        };
        courses[s.d as usize & 63] = course;
        defined |= bit(s.d);
    }
    let moves = |r: u8| read & bit(r) == 0 || courses[r as usize] == Course::Moves(r);
    (0..64).all(moves).then_some(read)
}

/// Steps of what a bundle starts.
fn events(code: &Code, head: &Head, at: u32, waits: bool, steps: &mut Vec<Step>) {
    let begin = steps.len();
    let mut due = waits;
    if waits {
        steps.push(Step::Waits { bundle: at });
    }
    for s in code.specials(head) {
        let step = match *s {
            Special::DmaStart { start } => Step::Transfer { start },
            Special::DmaRemote { start } => Step::Remote { start },
            Special::Signal { device, sem, count } => Step::Signal { device, sem, count },
            Special::Stage { .. } | Special::Latch { .. } | Special::Push { .. } | Special::PushAcc { .. } => continue,
            Special::Pop { .. } | Special::Drain { .. } | Special::TransposePush { .. } => continue,
            Special::Group { .. } | Special::Wait { .. } | Special::WaitS { .. } => continue,
            Special::Cores { .. } | Special::Test => continue,
        };
        if !due {
            steps.push(Step::At { bundle: at });
            due = true;
        }
        steps.push(step);
    }
    // What reads or writes scalar memory may fault, and a look at a semaphore asks for the cycle.
    let scalars = code.timed(head);
    if steps.len() == begin && scalars.iter().any(outside) {
        steps.push(Step::At { bundle: at });
    }
}

/// Whether a scalar instruction reads or writes scalar memory or looks at a semaphore.
fn outside(s: &ScalarOp) -> bool {
    match s.kind {
        ScalarKind::Pure(_) => false,
        ScalarKind::State(f) => match f {
            StateFn::SLd | StateFn::SSt | StateFn::SyncTest => true,
            StateFn::SDev | StateFn::SCore | StateFn::XExtract => false,
        },
    }
}

/// Steps of a bundle's scalars, in an order in which each reads what was there before the bundle.
fn scalar_steps(scalars: &[ScalarOp], at: u32, steps: &mut Vec<Step>) {
    if is_ordered(scalars) {
        steps.extend(scalars.iter().map(|&s| Step::Scalar(s)));
        return;
    }
    let mut left: Vec<ScalarOp> = scalars.to_vec();
    let begin = steps.len();
    while !left.is_empty() {
        let loads = left.iter().any(|s| s.kind == ScalarKind::State(StateFn::SLd));
        let reads = |other: &ScalarOp, d: u8| d != 0 && other.sources() >> (d & 63) & 1 == 1;
        let free = (0..left.len()).find(|&i| {
            let s = &left[i];
            let others = || left.iter().enumerate().filter(|o| o.0 != i).map(|o| o.1);
            // Loads come before stores.
            (s.kind != ScalarKind::State(StateFn::SSt) || !loads) && !others().any(|o| reads(o, s.d))
        });
        match free {
            Some(i) => steps.push(Step::Scalar(left.remove(i))),
            None => {
                steps.truncate(begin);
                steps.push(Step::Parallel { bundle: at });
                return;
            }
        }
    }
}
