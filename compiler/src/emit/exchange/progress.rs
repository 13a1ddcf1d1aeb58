//! Exchanges in moves: a subroutine that takes an exchange further as far as it can without waiting, or to its end.
//!
//! An exchange has *phases*, one after the other, and a phase has moves. Where an exchange is, and the addresses of its
//! arrays, are in words of scalar memory; so whoever calls often enough, with other work between the calls, hides the
//! exchange behind that work. Before a move, semaphores are looked at: a call makes the moves that need not wait. How
//! often it is called decides about time and never about answers.

use crate::plan::collective::State;
use systole_codegen::kernel::{KernelBuilder, S};
use systole_isa::Op;

/// A phase of an exchange, as code.
pub(super) trait Moves {
    /// Whether the next move need not wait.
    fn ready(&self, b: &mut KernelBuilder) -> S;
    /// Makes the next move, and turns to the next phase after the last one.
    fn make(&self, b: &mut KernelBuilder);
}

/// A word of state.
pub(super) fn load(b: &mut KernelBuilder, state: u32, w: State) -> S {
    b.smem_load(S::ZERO, (state + w as u32) as i32)
}

/// Sets a word of state.
pub(super) fn store(b: &mut KernelBuilder, state: u32, w: State, v: S) {
    b.smem_store(v, S::ZERO, (state + w as u32) as i32);
}

/// Whether all semaphores hold so much.
pub(super) fn all(b: &mut KernelBuilder, list: &[(u32, u64)]) -> S {
    let mut test = |&(sem, n): &(u32, u64)| {
        let n = b.s_imm(n.min(i32::MAX as u64) as i32);
        b.sync_test(sem, n)
    };
    let tests: Vec<S> = list.iter().map(&mut test).collect();
    tests.into_iter().reduce(|a, c| b.s(Op::SAnd, &[a, c])).unwrap_or_else(|| b.s_imm(1))
}

/// Runs one of `count` pieces of code, the one whose number is in `which`.
pub(super) fn select(b: &mut KernelBuilder, which: S, count: usize, f: &mut dyn FnMut(&mut KernelBuilder, usize)) {
    branch(b, which, (0, count), f);
}

fn branch(b: &mut KernelBuilder, which: S, (from, to): (usize, usize), f: &mut dyn FnMut(&mut KernelBuilder, usize)) {
    match to - from {
        0 => {}
        1 => f(b, from),
        n => {
            let mid = from + n / 2;
            let low = b.def_s(Op::SLtI, &[which.into(), (mid as i32).into()]);
            let f = std::cell::RefCell::new(f);
            b.if_else(
                low,
                |b| branch(b, which, (from, mid), &mut **f.borrow_mut()),
                |b| branch(b, which, (mid, to), &mut **f.borrow_mut()),
            );
        }
    }
}

/// Whether a look is worth while: what the next move waits for longest is there. `recv`: the semaphore of what comes last in a move.
pub(super) fn promises(b: &mut KernelBuilder, state: u32, recv: u32) -> S {
    let wanted = load(b, state, State::Wanted);
    b.sync_test(recv, wanted)
}

/// What goes on side by side in an exchange: its phases, its words of state, the semaphore of what comes last in a move, and
/// the pace of every phase (of one among several). Of several exchanges: the number of its own, and the operation that its code counts as.
pub(super) struct Run<'a> {
    pub phases: Vec<Box<dyn Moves + 'a>>,
    pub state: u32,
    pub recv: u32,
    pub paces: Vec<Pace>,
    pub exchange: usize,
    pub op: Option<u32>,
}

/// Estimated cycles of a move of a phase, and of all moves up to the phase's end: that many or more than its moves make.
#[derive(Clone, Copy)]
pub(super) struct Pace {
    pub cycles: i32,
    pub end: i32,
}

impl Run<'_> {
    /// Whether there are moves left.
    fn on(&self, b: &mut KernelBuilder) -> S {
        let phase = load(b, self.state, State::Phase);
        b.def_s(Op::SLtI, &[phase.into(), (self.phases.len() as i32).into()])
    }

    /// Notes a move: whoever is in a later phase is further.
    fn advance(&self, b: &mut KernelBuilder, phase: usize, pace: Pace) {
        let now = load(b, self.state, State::Phase);
        let same = b.def_s(Op::SEqI, &[now.into(), (phase as i32).into()]);
        let made = load(b, self.state, State::Made);
        let made = b.s_addi(made, pace.cycles);
        let end = b.s_imm(pace.end);
        let made = b.s(Op::SSel, &[same, made, end]);
        store(b, self.state, State::Made, made);
    }

    /// Makes the next move if it need not wait and may be made now, or is to be made all the same.
    fn go(&self, b: &mut KernelBuilder, (blocking, now): (S, Option<S>), go: S) {
        let on = self.on(b);
        let mut may = promises(b, self.state, self.recv);
        if let Some(now) = now {
            may = b.s(Op::SAnd, &[may, now]);
        }
        let may = b.s(Op::SOr, &[blocking, may]);
        let may = b.s(Op::SAnd, &[may, on]);
        b.if_(may, |b| {
            let phase = load(b, self.state, State::Phase);
            select(b, phase, self.phases.len(), &mut |b, i| {
                let ready = self.phases[i].ready(b);
                let ok = b.s(Op::SOr, &[blocking, ready]);
                b.if_(ok, |b| {
                    self.phases[i].make(b);
                    if let Some(&pace) = self.paces.get(i) {
                        self.advance(b, i, pace);
                    }
                    b.set_s(go, Op::SLi, &[1.into()]);
                });
            });
        });
    }
}

/// Moves that a ring may be ahead of another: enough to have work while the core waits for the other. One in a later phase would
/// fill links that the other needs for the present one.
const AHEAD: i32 = 2;

/// Makes moves while they need not wait (or all that are left). Of several runs, the one that is least far waits: what it
/// waits for is made before all that is further, so nobody waits for each other. Runs of one exchange share links and keep
/// together, those of several do not. `state`: words of the exchange.
pub(super) fn run(b: &mut KernelBuilder, runs: &[Run<'_>], state: u32) {
    let longest = runs.iter().flat_map(|r| r.paces.iter().map(|p| p.cycles)).max().unwrap_or(0);
    let go = b.s_var(1);
    b.while_(
        |_| go,
        |b| {
            b.set_s(go, Op::SLi, &[0.into()]);
            for (i, r) in runs.iter().enumerate() {
                r.op.into_iter().for_each(|op| b.mark(op));
                let mut first = load(b, state, State::Blocking);
                let mut now = None;
                for (j, other) in runs.iter().enumerate().filter(|o| o.0 != i) {
                    let (own, theirs) = (load(b, r.state, State::Made), load(b, other.state, State::Made));
                    // Of two equally far, the one that comes first.
                    let later = b.s(Op::SLt, &if j < i { [own, theirs] } else { [theirs, own] });
                    let later = if j < i { later } else { b.def_s(Op::SEqI, &[later.into(), 0.into()]) };
                    let over = other.on(b);
                    let over = b.def_s(Op::SEqI, &[over.into(), 0.into()]);
                    let before = b.s(Op::SOr, &[later, over]);
                    first = b.s(Op::SAnd, &[first, before]);
                    if r.exchange != other.exchange {
                        continue;
                    }
                    let limit = b.s_addi(theirs, AHEAD * longest);
                    let close = b.s(Op::SLt, &[own, limit]);
                    let (phase, behind) = (load(b, r.state, State::Phase), load(b, other.state, State::Phase));
                    let same = b.s(Op::SEq, &[phase, behind]);
                    let less = b.s(Op::SLt, &[phase, behind]);
                    let same = b.s(Op::SOr, &[same, less]);
                    let close = b.s(Op::SAnd, &[close, same]);
                    let close = b.s(Op::SOr, &[close, over]);
                    now = Some(now.map_or(close, |n| b.s(Op::SAnd, &[n, close])));
                }
                r.go(b, (first, now), go);
            }
        },
    );
    // Nobody needs to look any more.
    let mut left = S::ZERO;
    for r in runs {
        let on = r.on(b);
        left = b.s(Op::SOr, &[left, on]);
        b.if_else(
            on,
            |_| {},
            |b| {
                let never = b.s_imm(i32::MAX);
                store(b, r.state, State::Wanted, never);
            },
        );
    }
    if let [first, .., last] = runs
        && first.exchange != last.exchange
    {
        // Whoever asks asks for the first run. Those of other exchanges may be left, and are looked for every time.
        let on = first.on(b);
        let others = b.def_s(Op::SEqI, &[on.into(), 0.into()]);
        let others = b.s(Op::SAnd, &[left, others]);
        b.if_(others, |b| store(b, first.state, State::Wanted, S::ZERO));
    }
    b.if_else(left, |_| {}, |b| store(b, state, State::Current, S::ZERO));
}
