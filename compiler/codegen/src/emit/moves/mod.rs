//! Move kernels: transposes, slices, concatenations, pads, reversals, relayouts.
//!
//! A destination register is built from source registers: along lanes by rotation (neighbours stay neighbours), by a lane
//! permutation (any other affine step), or by transposing a block (the destination's lanes are the source's rows); along
//! sublanes by strided loads and stores. [`choose`] decides which iteration dimensions lie along lanes and sublanes; the
//! rest are loops, those that move lanes too once they have come round to the same lanes. See [`spec`] for what a move is.

mod across;
mod choose;
mod lanes;
pub mod spec;
mod transpose;
mod walk;

use crate::kernel::{Kernel, KernelBuilder};
use choose::choose;
use spec::MoveSpec;
use systole_isa::ChipConfig;

pub use choose::period;
pub use walk::{Place, Sides};

/// The kernel of a spec.
pub fn move_kernel(spec: &MoveSpec, chip: &ChipConfig) -> Kernel {
    let mut b = KernelBuilder::new("move", chip);
    let (src, dst) = (b.param(), b.param());
    let src_start = spec.src.dynamic_lane.then(|| b.param());
    let dst_start = spec.dst.dynamic_lane.then(|| b.param());
    let (src_buf, dst_buf) = (b.buffer(), b.buffer());
    let (src, dst) = (Place::new((src, src_buf), src_start), Place::new((dst, dst_buf), dst_start));
    emit_move(&mut b, &Sides { spec, src, dst });
    b.finish()
}

/// Brings a spec into the form that code is made from.
pub fn flatten(spec: &mut MoveSpec, lanes: u32) {
    choose::whole_tiles(spec, lanes as i64);
    choose::merge(spec);
}

/// Cycles of a piece of a register that is moved along lanes on its way: loaded, turned and stored beside others (measured on v5e).
const PIECE: f64 = 2.5;
/// Cycles around such pieces of rows below each other, where these are a loop.
const ROWS: f64 = 8.0;

/// Cycles that a move takes at least beyond what full registers take: those of the pieces of registers that it puts together. Zero where
/// lanes stay where they are or become sublanes.
pub fn piece_cycles(spec: &MoveSpec, (sublanes, lanes): (u32, u32)) -> f64 {
    let mut spec = spec.clone();
    flatten(&mut spec, lanes);
    let (roles, transpose) = choose(&spec, i64::from(lanes));
    if transpose || roles.unrolled.is_empty() {
        return 0.0;
    }
    let around = roles.outer.iter().chain(&roles.unrolled).map(|a| f64::from(a.size)).product::<f64>();
    // Fewer rows than a register has are loaded at once only where they are near each other.
    let rows = match roles.sub.size {
        n if n >= sublanes
            || n > 1 && i64::from(sublanes - n) * roles.sub.step.src.row.abs() <= i64::from(sublanes) * 4 =>
        {
            n.div_ceil(sublanes)
        }
        n => n,
    };
    let tiles = (i64::from(roles.lane.size) * roles.lane.step.dst.lane.max(1)) as f64 / f64::from(lanes);
    let by_rows = roles.sub == choose::Axis::ONE && tiles >= f64::from(sublanes);
    let tiles = if by_rows { tiles / f64::from(sublanes) } else { tiles.ceil() };
    let begun = if rows < lanes::SHORT_ROWS { 0.0 } else { ROWS };
    around * tiles * (f64::from(rows) * PIECE + begun)
}

/// Appends the code of a spec whose arrays begin at given places.
pub fn emit_move(b: &mut KernelBuilder, bases: &Sides<'_>) {
    let mut spec = bases.spec.clone();
    flatten(&mut spec, b.shape().1);
    let planes = (spec.src.plane_rows, spec.dst.plane_rows);
    let (sublanes, lanes) = (b.shape().0, i64::from(b.shape().1));
    let (roles, transpose) = choose(&spec, lanes);
    let bases = &Sides { spec: &spec, ..*bases };
    let known = !spec.src.dynamic_lane && !spec.dst.dynamic_lane && !spec.src.replicated;
    for roles in roles.by_periods(planes, lanes) {
        if transpose {
            transpose::emit(b, bases, &roles);
            continue;
        }
        for roles in if known { roles.by_rows(planes, (sublanes, lanes)) } else { vec![roles] } {
            lanes::emit(b, bases, &roles);
        }
    }
}
