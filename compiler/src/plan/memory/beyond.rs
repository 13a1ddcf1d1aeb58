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
use systole_codegen::emit::mxu::{self, Contraction, Epilogue, Finishing, Place, Start, Tile};
use systole_isa::ChipConfig;

/// Word rows behind every buffer, by number.
pub struct Beyond {
    pub vmem: Vec<u64>,
    pub hbm: Vec<u64>,
}

/// How far the kernels of a draft read.
pub fn rows(plan: &Draft, chip: &ChipConfig) -> Beyond {
    // What lies behind all arrays of vector memory is not longer than that either.
    let most = chip.vmem.bytes / (u64::from(chip.core.lanes) * 4) / 16;
    let mut kernels: Vec<Vec<Far>> = plan.kernels.iter().map(|k| far(k, chip)).collect();
    // Those of other cores are called with the first one's arrays.
    for (first, parts) in &plan.splits {
        for part in parts {
            let other = kernels[part.kernel].clone();
            kernels[*first].iter_mut().zip(other).for_each(|(a, b)| *a = a.or(b));
        }
    }
    let mut all = vec![Far::default(); plan.buffers.len()];
    Step::each(&plan.steps, &mut |s| {
        let Step::Call { kernel, args, .. } = s else { return };
        for (arg, far) in args.iter().zip(&kernels[*kernel]) {
            if let Arg::Array { buf, .. } = arg {
                all[buf.index()] = all[buf.index()].or(*far);
            }
        }
    });
    Beyond { vmem: all.iter().map(|far| far.vmem.min(most)).collect(), hbm: all.iter().map(|far| far.hbm).collect() }
}

/// Word rows behind an array in either memory.
#[derive(Clone, Copy, Default)]
struct Far {
    vmem: u64,
    hbm: u64,
}

impl Far {
    fn of(place: Place, rows: u64) -> Far {
        match place {
            Place::Vmem => Far { vmem: rows, hbm: 0 },
            Place::Hbm => Far { vmem: 0, hbm: rows },
        }
    }

    fn or(self, other: Far) -> Far {
        Far { vmem: self.vmem.max(other.vmem), hbm: self.hbm.max(other.hbm) }
    }
}

/// Behind each of a kernel's first arguments.
#[allow(
    clippy::wildcard_enum_match_arm,
    reason = "kernels that load whole registers of lines of rows; others count their rows"
)]
fn far(kernel: &KernelEntry, chip: &ChipConfig) -> Vec<Far> {
    let vmem = |body: &Body| -> Vec<Far> {
        let all = inputs(body, chip.core.sublanes, chip.core.lanes);
        all.into_iter().map(|rows| Far::of(Place::Vmem, rows)).collect()
    };
    match &kernel.spec {
        KernelSpec::Body(body) => vmem(body),
        KernelSpec::Blocks { spec, .. } => {
            let mut all = vmem(&spec.body);
            // Windows of what is streamed have their own room.
            all.iter_mut().zip(&spec.operands).filter(|(_, o)| o.hbm).for_each(|(far, _)| *far = Far::default());
            all
        }
        KernelSpec::Product { contraction, tile, .. } => product(contraction, tile, chip),
        _ => Vec::new(),
    }
}

/// Behind lhs, rhs, results, extras, and what the parameters of a product's beginning, its end and its loop name.
fn product(c: &Contraction, tile: &Tile, chip: &ChipConfig) -> Vec<Far> {
    let beyond = mxu::beyond(c, tile, chip).expect("a tile of this contraction");
    let mut all = vec![
        Far::of(c.lhs.place, beyond.lhs),
        Far::of(c.rhs.place, beyond.rhs),
        // Results are stored, never more than there are.
        Far::default(),
    ];
    all.extend(c.extras.iter().map(|(place, _)| match place {
        Place::Vmem => Far::of(Place::Vmem, beyond.out),
        Place::Hbm => Far::default(),
    }));
    all.extend(vec![Far::default(); c.finish.as_ref().map_or(0, |f| Finishing(f).params())]);
    // The values of lhs's rows lie as these do.
    all.extend(c.start.iter().flat_map(Start::rows).map(|_| Far::of(Place::Vmem, beyond.lhs)));
    if let Some(follow) = &c.follow {
        let l = &follow.spec;
        let registers = (chip.core.sublanes, chip.core.lanes);
        let far = loaded((&l.outer, l.rows, l.columns), &l.inputs, registers).into_iter().enumerate();
        all.extend(far.filter(|(i, _)| !follow.is_result(*i)).map(|(_, rows)| Far::of(Place::Vmem, rows)));
    }
    all
}

/// For each input of a kernel.
fn inputs(body: &Body, sublanes: u32, lanes: u32) -> Vec<u64> {
    match body {
        Body::Loop(l) => loaded((&l.outer, l.rows, l.columns), &l.inputs, (sublanes, lanes)),
        Body::Reduce(r) => loaded((&r.outer, r.rows, r.columns), &r.inputs, (sublanes, lanes)),
        Body::Move(_) | Body::Pick(_) => Vec::new(),
    }
}

/// For each input of a nest of so many rounds outside, rows and columns.
fn loaded(nest: (&[u32], u32, u32), inputs: &[Input], (sublanes, lanes): (u32, u32)) -> Vec<u64> {
    let (outer, rows, columns) = nest;
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
