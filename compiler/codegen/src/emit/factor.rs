//! Kernels for one diagonal block of a factorisation: Cholesky factors and triangular systems of f32 matrices that fit
//! into the lanes of a register.
//!
//! Arrays are stacks of matrices, one element row a matrix row. A kernel copies its operand to its result and works there,
//! one column after the other: the column's row is loaded into all sublanes at once, and all registers of rows that it
//! still concerns lose their product with it.

use crate::kernel::{BufferRef, Kernel, KernelBuilder, LoopHints, M, MemFormat, S, StoreFormat, Trips, V};
use serde::{Deserialize, Serialize};
use systole_isa::{ChipConfig, Op};

/// A stack of square matrices: their number, and their rows (a multiple of the sublanes, at most the lanes).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FactorSpec {
    pub batch: u32,
    pub rows: u32,
}

/// A stack of triangular systems.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SolveSpec {
    pub matrices: FactorSpec,
    pub lower: bool,
}

/// A matrix of a stack: base and memory.
type Rows = (S, BufferRef);

fn load(b: &mut KernelBuilder, (base, buf): Rows, stride: i32) -> V {
    b.load(MemFormat::W32, base, 0, stride, buf)
}

fn store(b: &mut KernelBuilder, (base, buf): Rows, v: V, mask: M) {
    b.store(StoreFormat::W32, v, base, 0, 1, mask, buf);
}

/// A lane of every sublane, in all lanes.
fn spread(b: &mut KernelBuilder, v: V, lane: V) -> V {
    b.v(Op::XPermLane, &[v, lane])
}

/// Copies all rows.
fn copy(b: &mut KernelBuilder, from: Rows, to: Rows, rows: u32) {
    let sub = b.shape().0;
    let (source, target) = (b.s_copy(from.0), b.s_copy(to.0));
    b.loop_with(Trips::Static(rows / sub), LoopHints::independent(&[from.1, to.1]), |b| {
        let v = load(b, (source, from.1), 1);
        store(b, (target, to.1), v, M::ALL);
        b.s_inc(source, sub as i32);
        b.s_inc(target, sub as i32);
    });
}

/// Parts of a kernel's columns, each with the registers of rows that its columns concern.
const PARTS: u32 = 4;

/// A part of the columns: how many there are before it, how many it has, and the first and the number of the groups of
/// rows (a register each) that they concern.
struct Part {
    columns: u32,
    first: u32,
    groups: u32,
}

/// The columns in the order in which they are taken: ascending with all rows behind, or descending with all rows before.
fn parts(rows: u32, sub: u32, ascending: bool) -> Vec<Part> {
    let groups = rows / sub;
    let n = if groups.is_multiple_of(PARTS) { PARTS } else { 1 };
    (0..n)
        .map(|i| {
            let done = groups / n * i;
            Part { columns: rows / n, first: if ascending { done } else { 0 }, groups: groups - done }
        })
        .collect()
}

/// Matrices of a stack that are worked on side by side: what one waits for is done for the others meanwhile.
const SIDE_BY_SIDE: u32 = 8;
/// Columns of one matrix that are taken off together, and columns of all matrices side by side: a register each.
const TOGETHER: u32 = 4;
const REGISTERS: u32 = 16;

/// Matrices of a stack in teams: how many teams, and how many matrices are side by side in each.
fn teams(batch: u32) -> impl Iterator<Item = (u32, u32)> {
    [(batch / SIDE_BY_SIDE, SIDE_BY_SIDE), (1, batch % SIDE_BY_SIDE)].into_iter().filter(|t| t.0 > 0 && t.1 > 0)
}

/// Matrices side by side, rows of one, and how many of their columns are taken off together.
#[derive(Clone, Copy)]
struct Team {
    side: u32,
    rows: u32,
    columns: u32,
}

impl Team {
    fn new(side: u32, rows: u32, part: &Part) -> Team {
        let most = TOGETHER.min(REGISTERS / side);
        let columns = (1..=most).rev().find(|w| part.columns.is_multiple_of(*w)).unwrap_or(1);
        Team { side, rows, columns }
    }

    /// Element rows from the first matrix to each.
    fn offsets(self) -> impl Iterator<Item = i32> {
        (0..self.side).map(move |i| (i * self.rows) as i32)
    }
}

/// A row of a matrix in all sublanes.
fn load_row(b: &mut KernelBuilder, (base, buf): Rows, offset: i32) -> V {
    b.load(MemFormat::W32, base, offset, 0, buf)
}

/// Takes the products of columns (lanes `numbers` of `from`; of `to` itself as they become if there is none) and rows off
/// the registers of rows that a part concerns: `rows` are negative, one for each column of each matrix.
fn eliminate(
    b: &mut KernelBuilder,
    (part, team): (&Part, Team),
    (from, to): (Option<Rows>, Rows),
    numbers: &[V],
    rows: &[Vec<V>],
) {
    let sub = b.shape().0;
    let skipped = (part.first * sub) as i32;
    let source = from.map(|(base, buf)| (b.s_addi(base, skipped), buf));
    let place = b.s_addi(to.0, skipped);
    b.loop_with(Trips::Static(part.groups), LoopHints::independent(&[to.1]), |b| {
        for (offset, rows) in team.offsets().zip(rows) {
            let mut x = b.load(MemFormat::W32, place, offset, 1, to.1);
            let factors = source.map(|(base, buf)| b.load(MemFormat::W32, base, offset, 1, buf));
            for (&number, &row) in numbers.iter().zip(rows) {
                let factor = spread(b, factors.unwrap_or(x), number);
                x = b.v(Op::VFmaF, &[factor, row, x]);
            }
            b.store(StoreFormat::W32, x, place, offset, 1, M::ALL, to.1);
        }
        if let Some((base, _)) = source {
            b.s_inc(base, sub as i32);
        }
        b.s_inc(place, sub as i32);
    });
}

fn negative(b: &mut KernelBuilder, v: V) -> V {
    let sign = b.v_imm(i32::MIN);
    b.v(Op::VXor, &[v, sign])
}

/// The numbers of a team's columns from a scalar on, one in each lane of a register.
fn numbers(b: &mut KernelBuilder, team: Team, column: S, step: i32) -> Vec<V> {
    (0..team.columns as i32)
        .map(|i| {
            let number = b.s_addi(column, i * step);
            b.splat(number)
        })
        .collect()
}

/// Lower Cholesky factors of symmetric matrices, zero above the diagonal. Parameters: matrices, factors (element rows).
///
/// Columns stay as elimination leaves them, times their pivots' roots, until the end: one division a register.
pub fn cholesky_kernel(s: &FactorSpec, chip: &ChipConfig) -> Kernel {
    let mut b = KernelBuilder::new("cholesky", chip);
    let (from, to) = ((b.param(), b.buffer()), (b.param(), b.buffer()));
    let sub = b.shape().0;
    copy(&mut b, from, to, s.batch * s.rows);
    let matrix = b.s_copy(to.0);
    for (times, side) in teams(s.batch) {
        b.loop_static(times, |b| {
            let column = b.s_var(0);
            let pivots: Vec<V> = (0..side).map(|_| b.v_var(0)).collect();
            for part in parts(s.rows, sub, true) {
                let team = Team::new(side, s.rows, &part);
                b.loop_static(part.columns / team.columns, |b| {
                    let numbers = numbers(b, team, column, 1);
                    let at = b.s(Op::SAdd, &[matrix, column]);
                    let matrices = team.offsets().zip(&pivots);
                    let rows: Vec<Vec<V>> =
                        matrices.map(|(offset, &pivots)| pivot_rows(b, (at, to.1), offset, &numbers, pivots)).collect();
                    eliminate(b, (&part, team), (None, (matrix, to.1)), &numbers, &rows);
                    b.s_inc(column, team.columns as i32);
                });
            }
            for &pivots in &pivots {
                finish_factor(b, (matrix, to.1), pivots, s.rows);
                b.s_inc(matrix, s.rows as i32);
            }
        });
    }
    b.finish()
}

/// The rows of a matrix that its next columns are eliminated with, over their pivots and negative; notes the pivots.
fn pivot_rows(b: &mut KernelBuilder, at: Rows, offset: i32, numbers: &[V], pivots: V) -> Vec<V> {
    let mut rows: Vec<V> = Vec::new();
    for (i, &number) in numbers.iter().enumerate() {
        let mut row = load_row(b, at, offset + i as i32);
        for (&before, &taken) in numbers.iter().zip(&rows) {
            let factor = spread(b, row, before);
            row = b.v(Op::VFmaF, &[factor, taken, row]);
        }
        let pivot = spread(b, row, number);
        let lane = b.lane();
        let here = b.cmp(Op::VEqI, lane, number);
        b.set_v(pivots, Op::VSel, &[here.into(), pivot.into(), pivots.into()]);
        let scaled = b.v(Op::VDivF, &[row, pivot]);
        let scaled = negative(b, scaled);
        let behind = b.cmp(Op::VLtS, number, lane);
        let none = b.v_imm(0);
        rows.push(b.select(behind, scaled, none));
    }
    rows
}

/// Divides the columns of a matrix by their pivots' roots; what is above the diagonal becomes zero.
fn finish_factor(b: &mut KernelBuilder, (matrix, buf): Rows, pivots: V, rows: u32) {
    let sub = b.shape().0;
    let roots = b.v(Op::ESqrt, &[pivots]);
    let (row, place) = (b.s_var(0), b.s_copy(matrix));
    b.loop_with(Trips::Static(rows / sub), LoopHints::independent(&[buf]), |b| {
        let a = load(b, (place, buf), 1);
        let scaled = b.v(Op::VDivF, &[a, roots]);
        let (first, sublane) = (b.splat(row), b.sublane());
        let number = b.v(Op::VAddI, &[sublane, first]);
        let lane = b.lane();
        let inside = b.cmp(Op::VLeS, lane, number);
        let none = b.v_imm(0);
        let v = b.select(inside, scaled, none);
        store(b, (place, buf), v, M::ALL);
        b.s_inc(row, sub as i32);
        b.s_inc(place, sub as i32);
    });
}

/// Solves `A X = Y` for triangular `A` with zeros in the other triangle; right sides are as wide as the lanes at most.
/// Parameters: `A`, `Y`, `X` (element rows).
pub fn solve_kernel(s: &SolveSpec, chip: &ChipConfig) -> Kernel {
    let mut b = KernelBuilder::new("triangular-solve", chip);
    let [matrices, right, to] = [(); 3].map(|()| (b.param(), b.buffer()));
    let FactorSpec { batch, rows } = s.matrices;
    let (sub, step) = (b.shape().0, if s.lower { 1 } else { -1 });
    copy(&mut b, right, to, batch * rows);
    let (matrix, solution) = (b.s_copy(matrices.0), b.s_copy(to.0));
    let top = b.sublanes_below(1);
    for (times, side) in teams(batch) {
        b.loop_static(times, |b| {
            let column = b.s_var(if s.lower { 0 } else { rows as i32 - 1 });
            for part in parts(rows, sub, s.lower) {
                let team = Team::new(side, rows, &part);
                b.loop_static(part.columns / team.columns, |b| {
                    let numbers = numbers(b, team, column, step);
                    let at = b.s(Op::SAdd, &[matrix, column]);
                    let here = b.s(Op::SAdd, &[solution, column]);
                    let systems = [(at, matrices.1), (here, to.1)];
                    let known: Vec<Vec<V>> =
                        team.offsets().map(|offset| solved_rows(b, systems, (offset, step), &numbers)).collect();
                    let taken: Vec<Vec<V>> =
                        known.iter().map(|rows| rows.iter().map(|&v| negative(b, v)).collect()).collect();
                    let places = (Some((matrix, matrices.1)), (solution, to.1));
                    eliminate(b, (&part, team), places, &numbers, &taken);
                    // The rows themselves are known, whatever their products left of them.
                    for (offset, rows) in team.offsets().zip(&known) {
                        for (i, &v) in rows.iter().enumerate() {
                            b.store(StoreFormat::W32, v, here, offset + i as i32 * step, 1, top, to.1);
                        }
                    }
                    b.s_inc(column, team.columns as i32 * step);
                });
            }
            b.s_inc(matrix, (side * rows) as i32);
            b.s_inc(solution, (side * rows) as i32);
        });
    }
    b.finish()
}

/// The next rows of a system's solution.
fn solved_rows(b: &mut KernelBuilder, [matrix, right]: [Rows; 2], (offset, step): (i32, i32), numbers: &[V]) -> Vec<V> {
    let mut known: Vec<V> = Vec::new();
    for (i, &number) in numbers.iter().enumerate() {
        let at = offset + i as i32 * step;
        let row = load_row(b, matrix, at);
        let mut x = load_row(b, right, at);
        for (&before, &v) in numbers.iter().zip(&known) {
            let factor = spread(b, row, before);
            let taken = negative(b, v);
            x = b.v(Op::VFmaF, &[factor, taken, x]);
        }
        let pivot = spread(b, row, number);
        known.push(b.v(Op::VDivF, &[x, pivot]));
    }
    known
}
