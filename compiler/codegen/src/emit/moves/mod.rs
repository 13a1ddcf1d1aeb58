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
