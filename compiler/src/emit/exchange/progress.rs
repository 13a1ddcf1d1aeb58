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

/// Makes moves while they need not wait (or all that are left). `recv`: the semaphore of what comes last in a move.
pub(super) fn run(b: &mut KernelBuilder, phases: &[Box<dyn Moves + '_>], state: u32, recv: u32) {
    let go = b.s_var(1);
    b.while_(
        |_| go,
        |b| {
            b.set_s(go, Op::SLi, &[0.into()]);
            let phase = load(b, state, State::Phase);
            let blocking = load(b, state, State::Blocking);
            let promising = promises(b, state, recv);
            let on = b.def_s(Op::SLtI, &[phase.into(), (phases.len() as i32).into()]);
            let may = b.s(Op::SOr, &[blocking, promising]);
            let may = b.s(Op::SAnd, &[may, on]);
            b.if_(may, |b| {
                select(b, phase, phases.len(), &mut |b, i| {
                    let ready = phases[i].ready(b);
                    let ok = b.s(Op::SOr, &[blocking, ready]);
                    b.if_(ok, |b| {
                        phases[i].make(b);
                        b.set_s(go, Op::SLi, &[1.into()]);
                    });
                });
            });
        },
    );
    // Nobody needs to look any more.
    let phase = load(b, state, State::Phase);
    let on = b.def_s(Op::SLtI, &[phase.into(), (phases.len() as i32).into()]);
    b.if_else(
        on,
        |_| {},
        |b| {
            store(b, state, State::Current, S::ZERO);
            let never = b.s_imm(i32::MAX);
            store(b, state, State::Wanted, never);
        },
    );
}
