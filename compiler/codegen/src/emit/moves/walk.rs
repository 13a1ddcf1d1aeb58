//! Loops around a move's inner work, and raw loads and stores.

use super::choose::{At, Axis, Both, Roles};
use super::spec::MoveSpec;
use crate::kernel::LoopHints;
use crate::kernel::{BufferRef, KernelBuilder, M, MemFormat, S, StoreFormat, Trips, V};

/// One side of a move at one place of the loop nest.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Element-row pointer.
    pub rows: S,
    /// Lane position: the constant part, and the register of a dynamic start.
    pub lane: i64,
    pub start: Option<S>,
    pub buf: BufferRef,
}

impl Place {
    /// A side's base.
    pub fn new((rows, buf): (S, BufferRef), start: Option<S>) -> Place {
        Place { rows, lane: 0, start, buf }
    }

    /// The same so many rows and lanes further on.
    fn at(self, b: &mut KernelBuilder, to: At) -> Place {
        Place { rows: b.s_addi(self.rows, to.row as i32), lane: self.lane + to.lane, ..self }
    }
}

/// Both sides of a move at one place of the loop nest.
#[derive(Clone, Copy)]
pub struct Sides<'a> {
    pub spec: &'a MoveSpec,
    pub src: Place,
    pub dst: Place,
}

impl Sides<'_> {
    /// Loads element rows `src + offset + i * stride`.
    pub fn load(&self, b: &mut KernelBuilder, base: S, offset: i64, stride: i64) -> V {
        let format = match self.spec.dtype.storage_bits() {
            8 => MemFormat::U8,
            16 => MemFormat::U16,
            _ => MemFormat::W32,
        };
        b.load(format, base, offset as i32, stride as i32, self.src.buf)
    }

    /// Stores to element rows `dst + offset + i * stride` where the mask is set.
    pub fn store(&self, b: &mut KernelBuilder, v: V, base: S, at: (i64, i64), mask: M) {
        let format = match self.spec.dtype.storage_bits() {
            8 => StoreFormat::B8,
            16 => StoreFormat::B16,
            _ => StoreFormat::W32,
        };
        b.store(format, v, base, at.0 as i32, at.1 as i32, mask, self.dst.buf);
    }
}

/// Runs `f` for every component and every combination of the unrolled dimensions.
pub fn each(
    b: &mut KernelBuilder,
    bases: &Sides<'_>,
    roles: &Roles,
    f: &mut dyn FnMut(&mut KernelBuilder, &Sides<'_>),
) {
    let Sides { spec, src, dst } = *bases;
    let component = Both::of(spec, |side| At { row: side.component_rows, lane: 0 });
    for c in 0..spec.dtype.components() as i64 {
        let points: u64 = roles.unrolled.iter().map(|a| a.size as u64).product();
        for p in 0..points {
            let mut rest = p;
            let mut at = roles.begin;
            at += component * c;
            for a in roles.unrolled.iter().rev() {
                let i = (rest % a.size as u64) as i64;
                rest /= a.size as u64;
                at += a.step * i;
            }
            let sides = Sides { spec, src: src.at(b, at.src), dst: dst.at(b, at.dst) };
            f(b, &sides);
        }
    }
}

/// A loop of `trips` iterations that steps the given pointers.
pub fn stepping(
    b: &mut KernelBuilder,
    sides: &Sides<'_>,
    trips: u32,
    (src_step, dst_step): (i64, i64),
    f: &mut dyn FnMut(&mut KernelBuilder, &Sides<'_>),
) {
    if trips == 0 {
        return;
    }
    if trips == 1 {
        return f(b, sides);
    }
    let mut own = *sides;
    own.src.rows = b.s_copy(sides.src.rows);
    own.dst.rows = b.s_copy(sides.dst.rows);
    b.loop_with(Trips::Static(trips), LoopHints::independent(&[sides.dst.buf]), |b| {
        f(b, &own);
        b.s_inc(own.src.rows, src_step as i32);
        b.s_inc(own.dst.rows, dst_step as i32);
    });
}

/// The loops over `axes`.
pub fn nest(
    b: &mut KernelBuilder,
    sides: &Sides<'_>,
    axes: &[Axis],
    f: &mut dyn FnMut(&mut KernelBuilder, &Sides<'_>),
) {
    match axes {
        [] => f(b, sides),
        [a, rest @ ..] => {
            stepping(b, sides, a.size, (a.step.src.row, a.step.dst.row), &mut |b, s| nest(b, s, rest, f));
        }
    }
}
