//! How far kernels read beyond the arrays they are given.
//!
//! The last registers of a kernel's rows may be partly filled, and rows may be padded as results are: loads still read a
//! row for every sublane. Where a kernel steps through an array by several rows, that is far; the array's place in vector
//! memory is made so much longer that nothing else is read (another's copy may be on its way). The same in HBM, where
//! products copy splits of whole planes.

use crate::plan::spec::KernelSpec;
use crate::plan::step::{Arg, Draft, KernelEntry, Step};
use systole_codegen::emit::blocks::Body;
use systole_codegen::emit::loops::spec::{Access, Input, LaneMap};
use systole_isa::ChipConfig;

/// Word rows behind every buffer, by number.
pub struct Beyond {
    pub vmem: Vec<u64>,
    pub hbm: Vec<u64>,
}

/// How far the kernels of a draft read.
pub fn rows(plan: &Draft, chip: &ChipConfig) -> Beyond {
    let copied = |k: &KernelEntry| -> Vec<u64> {
        let KernelSpec::Product { contraction, tile, .. } = &k.spec else { return Vec::new() };
        vec![0, tile.beyond(contraction, chip)]
    };
    let mut hbm = vec![0; plan.buffers.len()];
    let mut kernels: Vec<Vec<u64>> = plan.kernels.iter().map(copied).collect();
    // Those of other cores are called with the first one's arrays.
    for (first, parts) in &plan.splits {
        if let Some(most) = parts.iter().map(|p| kernels[p.kernel].clone()).max() {
            kernels[*first] = most;
        }
    }
    walk(&plan.steps, &kernels, &mut hbm);
    Beyond { vmem: loaded(plan, chip), hbm }
}

/// Behind places in vector memory.
fn loaded(plan: &Draft, chip: &ChipConfig) -> Vec<u64> {
    // What lies behind all arrays is not longer than that either.
    let most = chip.vmem.bytes / (u64::from(chip.core.lanes) * 4) / 16;
    let far = |k: &KernelEntry| -> Vec<u64> {
        let (body, streamed) = if let KernelSpec::Body(body) = &k.spec {
            (body, &[][..])
        } else if let KernelSpec::Blocks { spec, .. } = &k.spec {
            (&spec.body, &spec.operands[..])
        } else {
            return Vec::new();
        };
        let far = inputs(body, chip.core.sublanes, chip.core.lanes).into_iter().enumerate();
        // Windows of what is streamed have their own room.
        far.map(|(i, far)| if streamed.get(i).is_some_and(|o| o.hbm) { 0 } else { far.min(most) }).collect()
    };
    let kernels: Vec<Vec<u64>> = plan.kernels.iter().map(far).collect();
    let mut out = vec![0; plan.buffers.len()];
    walk(&plan.steps, &kernels, &mut out);
    out
}

/// For each input of a kernel.
fn inputs(body: &Body, sublanes: u32, lanes: u32) -> Vec<u64> {
    let (outer, rows, columns, inputs) = match body {
        Body::Loop(l) => (&l.outer, l.rows, l.columns, &l.inputs),
        Body::Reduce(r) => (&r.outer, r.rows, r.columns, &r.inputs),
        Body::Move(_) | Body::Pick(_) => return Vec::new(),
    };
    let far = |a: &Access| {
        // The last row that is read, were all registers full.
        let steps = |count: u32, step: i64| i64::from(count.saturating_sub(1)).saturating_mul(step.max(0));
        let across = match a.lane {
            LaneMap::Tile { tile_rows } | LaneMap::Shifted { tile_rows, .. } => {
                steps(a.tiles(columns, lanes), tile_rows)
            }
            LaneMap::Replicated | LaneMap::Indexed { .. } => 0,
        };
        let outside = outer.iter().zip(&a.outer).map(|(n, step)| steps(*n, *step)).fold(across, i64::saturating_add);
        let down = steps(rows.next_multiple_of(sublanes), a.row);
        let last = a.offset.max(0).saturating_add(outside).saturating_add(down);
        u64::try_from(last.saturating_add(1).saturating_sub(a.component_rows)).unwrap_or(0)
    };
    inputs.iter().map(|i| if let Input::Array(a) = i { far(a) } else { 0 }).collect()
}

fn walk(steps: &[Step], kernels: &[Vec<u64>], out: &mut [u64]) {
    Step::each(steps, &mut |s| {
        let Step::Call { kernel, args, .. } = s else { return };
        for (arg, far) in args.iter().zip(&kernels[*kernel]) {
            if let Arg::Array { buf, .. } = arg {
                out[buf.index()] = out[buf.index()].max(*far);
            }
        }
    });
}
