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

/// Takes the products of a column and a row off the registers of rows that a part concerns: `row` is negative.
fn eliminate(b: &mut KernelBuilder, part: &Part, column: (Rows, V), row: V, to: Rows) {
    let sub = b.shape().0;
    let ((from, buf), number) = column;
    let skipped = (part.first * sub) as i32;
    let (from, place) = (b.s_addi(from, skipped), b.s_addi(to.0, skipped));
    b.loop_with(Trips::Static(part.groups), LoopHints::independent(&[to.1]), |b| {
        let factor = load(b, (from, buf), 1);
        let factor = spread(b, factor, number);
        let x = load(b, (place, to.1), 1);
        let x = b.v(Op::VFmaF, &[factor, row, x]);
        store(b, (place, to.1), x, M::ALL);
        b.s_inc(from, sub as i32);
        b.s_inc(place, sub as i32);
    });
}

fn negative(b: &mut KernelBuilder, v: V) -> V {
    let sign = b.v_imm(i32::MIN);
    b.v(Op::VXor, &[v, sign])
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
    b.loop_static(s.batch, |b| {
        let column = b.s_var(0);
        let pivots = b.v_var(0);
        for part in parts(s.rows, sub, true) {
            b.loop_static(part.columns, |b| {
                let at = b.s(Op::SAdd, &[matrix, column]);
                let row = load(b, (at, to.1), 0);
                let number = b.splat(column);
                let pivot = spread(b, row, number);
                let lane = b.lane();
                let here = b.cmp(Op::VEqI, lane, number);
                b.set_v(pivots, Op::VSel, &[here.into(), pivot.into(), pivots.into()]);
                let scaled = b.v(Op::VDivF, &[row, pivot]);
                let scaled = negative(b, scaled);
                let behind = b.cmp(Op::VLtS, number, lane);
                let none = b.v_imm(0);
                let scaled = b.select(behind, scaled, none);
                eliminate(b, &part, ((matrix, to.1), number), scaled, (matrix, to.1));
                b.s_inc(column, 1);
            });
        }
        let roots = b.v(Op::ESqrt, &[pivots]);
        let (row, place) = (b.s_var(0), b.s_copy(matrix));
        b.loop_with(Trips::Static(s.rows / sub), LoopHints::independent(&[to.1]), |b| {
            let a = load(b, (place, to.1), 1);
            let scaled = b.v(Op::VDivF, &[a, roots]);
            let (first, sublane) = (b.splat(row), b.sublane());
            let number = b.v(Op::VAddI, &[sublane, first]);
            let lane = b.lane();
            let inside = b.cmp(Op::VLeS, lane, number);
            let none = b.v_imm(0);
            let v = b.select(inside, scaled, none);
            store(b, (place, to.1), v, M::ALL);
            b.s_inc(row, sub as i32);
            b.s_inc(place, sub as i32);
        });
        b.s_inc(matrix, s.rows as i32);
    });
    b.finish()
}

/// Solves `A X = Y` for triangular `A` with zeros in the other triangle; right sides are as wide as the lanes at most.
/// Parameters: `A`, `Y`, `X` (element rows).
pub fn solve_kernel(s: &SolveSpec, chip: &ChipConfig) -> Kernel {
    let mut b = KernelBuilder::new("triangular-solve", chip);
    let [matrices, right, to] = [(); 3].map(|()| (b.param(), b.buffer()));
    let FactorSpec { batch, rows } = s.matrices;
    let sub = b.shape().0;
    copy(&mut b, right, to, batch * rows);
    let (matrix, solution) = (b.s_copy(matrices.0), b.s_copy(to.0));
    let top = b.sublanes_below(1);
    b.loop_static(batch, |b| {
        let column = b.s_var(if s.lower { 0 } else { rows as i32 - 1 });
        for part in parts(rows, sub, s.lower) {
            b.loop_static(part.columns, |b| {
                let at = b.s(Op::SAdd, &[matrix, column]);
                let row = load(b, (at, matrices.1), 0);
                let number = b.splat(column);
                let pivot = spread(b, row, number);
                let here = b.s(Op::SAdd, &[solution, column]);
                let known = load(b, (here, to.1), 0);
                let known = b.v(Op::VDivF, &[known, pivot]);
                let taken = negative(b, known);
                eliminate(b, &part, ((matrix, matrices.1), number), taken, (solution, to.1));
                // The row itself is known, whatever its product left of it.
                store(b, (here, to.1), known, top);
                b.s_inc(column, if s.lower { 1 } else { -1 });
            });
        }
        b.s_inc(matrix, rows as i32);
        b.s_inc(solution, rows as i32);
    });
    b.finish()
}
