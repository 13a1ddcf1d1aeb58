//! Loops around a move's inner work, and raw loads and stores.

use super::choose::{Axis, Roles};
use super::spec::MoveSpec;
use crate::kernel::build::LoopHints;
use crate::kernel::{BufferRef, KernelBuilder, M, MemFormat, S, StoreFormat, Trips, V};

/// Both sides of a move at one place of the loop nest.
#[derive(Clone, Copy)]
pub struct Sides<'a> {
    pub spec: &'a MoveSpec,
    /// Element-row pointers.
    pub src: S,
    pub dst: S,
    /// Lane positions: constant parts, and registers of dynamic starts.
    pub src_lane: i64,
    pub dst_lane: i64,
    pub src_start: Option<S>,
    pub dst_start: Option<S>,
    pub src_buf: BufferRef,
    pub dst_buf: BufferRef,
}

impl Sides<'_> {
    /// Loads element rows `src + offset + i * stride`.
    pub fn load(&self, b: &mut KernelBuilder, base: S, offset: i64, stride: i64) -> V {
        let format = match self.spec.dtype.storage_bits() {
            8 => MemFormat::U8,
            16 => MemFormat::U16,
            _ => MemFormat::W32,
        };
        b.load(format, base, offset as i32, stride as i32, self.src_buf)
    }

    /// Stores to element rows `dst + offset + i * stride` where the mask is set.
    pub fn store(&self, b: &mut KernelBuilder, v: V, base: S, at: (i64, i64), mask: M) {
        let format = match self.spec.dtype.storage_bits() {
            8 => StoreFormat::B8,
            16 => StoreFormat::B16,
            _ => StoreFormat::W32,
        };
        b.store(format, v, base, at.0 as i32, at.1 as i32, mask, self.dst_buf);
    }
}

/// Registers that a move's code starts from: element-row bases and buffers of both sides, and their dynamic lane starts.
#[derive(Clone, Copy, Debug)]
pub struct Bases {
    pub src: (S, BufferRef),
    pub dst: (S, BufferRef),
    pub src_start: Option<S>,
    pub dst_start: Option<S>,
}

/// Runs `f` for every component and every combination of the unrolled dimensions.
pub fn each(
    b: &mut KernelBuilder,
    (spec, bases): (&MoveSpec, &Bases),
    roles: &Roles,
    f: &mut dyn FnMut(&mut KernelBuilder, &Sides<'_>),
) {
    let Bases { src: (src, src_buf), dst: (dst, dst_buf), src_start, dst_start } = *bases;
    for c in 0..spec.dtype.components() as i64 {
        let points: u64 = roles.unrolled.iter().map(|a| a.size as u64).product();
        for p in 0..points {
            let mut rest = p;
            let mut at = [
                roles.src_row + c * spec.src.component_rows,
                roles.dst_row + c * spec.dst.component_rows,
                roles.src_lane,
                roles.dst_lane,
            ];
            for a in roles.unrolled.iter().rev() {
                let i = (rest % a.size as u64) as i64;
                rest /= a.size as u64;
                at[0] += a.src_row * i;
                at[1] += a.dst_row * i;
                at[2] += a.src_lane * i;
                at[3] += a.dst_lane * i;
            }
            let sides = Sides {
                spec,
                src: b.s_addi(src, at[0] as i32),
                dst: b.s_addi(dst, at[1] as i32),
                src_lane: at[2],
                dst_lane: at[3],
                src_start,
                dst_start,
                src_buf,
                dst_buf,
            };
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
    let own = Sides { src: b.s_copy(sides.src), dst: b.s_copy(sides.dst), ..*sides };
    b.loop_with(Trips::Static(trips), LoopHints::independent(&[sides.dst_buf]), |b| {
        f(b, &own);
        b.s_inc(own.src, src_step as i32);
        b.s_inc(own.dst, dst_step as i32);
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
            stepping(b, sides, a.size, (a.src_row, a.dst_row), &mut |b, s| nest(b, s, rest, f));
        }
    }
}
