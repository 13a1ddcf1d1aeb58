//! Scatters of which each core combines its share of the updates in a part of its own, all of which are combined with the operand: into
//! tables that stay in HBM, and into those that have copies in vector memory.

use super::super::Lower;
use super::super::cores::folded;
use super::placed;
use crate::plan::guide::TablePin;
use crate::plan::spec::{Considered, Way};
use crate::plan::step::{Arg, BufferKind, SplitPart, Step, Unit, Use};
use crate::plan::view::{BufId, Form, View, layout_of};
use smallvec::SmallVec;
use systole_codegen::emit::blocks;
use systole_codegen::emit::loops::spec::{Access, Input, LaneMap, LoopSpec, Output};
use systole_codegen::emit::rows::{CHUNK, Far, RowsSpec, ScatterSpec, in_place_chunk, in_place_plane, in_place_words};
use systole_isa::dma::HBM_GRANULE;

/// The two ways of a scatter whose table is larger than vector memory.
pub struct Ways {
    /// In place.
    pub spec: ScatterSpec,
    /// Estimated cycles in place, and of the table in blocks of so many rows.
    cycles: f64,
    blocks: (u32, f64),
    pin: Option<TablePin>,
}

impl Ways {
    /// Whether it is made in place: the better way of those that a pin allows, of both where it allows none.
    pub fn in_place(&self) -> bool {
        let allowed = |block: u32| self.pin.is_none_or(|p| p.allows(block));
        match (allowed(0), allowed(self.blocks.0)) {
            (true, false) => true,
            (false, true) => false,
            (true, true) | (false, false) => self.cycles < self.blocks.1,
        }
    }

    /// Estimated cycles of the one that is taken, and the other one.
    pub fn weighed(&self) -> (f64, Considered) {
        let ways = [(0, self.cycles), self.blocks];
        let [taken, other] = if self.in_place() { ways } else { [ways[1], ways[0]] };
        (taken.1, Considered { way: Way::Table { block: other.0 }, cycles: other.1 })
    }
}

impl Lower<'_> {
    /// The ways of a scatter whose table is made in blocks, if it can be made in place too.
    pub(super) fn scatter_ways(&self, spec: &ScatterSpec, op: u32) -> Option<Ways> {
        if spec.block == 0 || !spec.can_be_in_place(self.chip) {
            return None;
        }
        let (chip, cores) = (self.chip, self.plan.cores.max(1));
        let (cycles, blocks) = (spec.in_place_cycles(cores, chip), spec.blocks_cycles(cores, chip));
        let mut spec = ScatterSpec { block: 0, part: true, far: Far { indices: true, rows: true }, ..spec.clone() };
        let (r, plane) = (&mut spec.specs[0], in_place_plane(spec.rows, chip));
        (r.table_plane, r.table_component) = (plane, plane * r.planes);
        let pin = self.guide.schedule.table(self.op_name(op)).map(|p| p.0);
        Some(Ways { spec, cycles, blocks, pin })
    }

    /// A scatter in copies of its table whose updates are worth being shared out among the device's cores.
    pub(super) fn shared_copies(&self, spec: &ScatterSpec, table: &View) -> Option<ScatterSpec> {
        if self.plan.cores < 2 || spec.copies == 0 || self.pinned_place(table.buf).is_some() {
            return None;
        }
        let plane = spec.copies_plane(self.chip);
        let mut spec = ScatterSpec { part: true, ..spec.clone() };
        let r = &mut spec.specs[0];
        (r.table_plane, r.table_component) = (plane, plane * r.planes);
        let parts = u64::from(self.plan.cores * r.table_component) * self.chip.row_bytes();
        self.way_pays(spec.copies_cycles(self.chip), parts).then_some(spec)
    }

    /// The steps of a scatter in parts: those of all cores, and their combination.
    pub(super) fn scatter_in_parts(
        &mut self,
        (spec, ways): (&ScatterSpec, Option<&Ways>),
        (indices, updates): (&View, &View),
        (before, table): (&View, &View),
        (op, result): (u32, bool),
    ) {
        let cores = self.plan.cores.max(1);
        let r = &spec.specs[0];
        let slot = u64::from(r.table_component);
        let lanes = u64::from(self.chip.core.lanes);
        let layout = layout_of(r.dtype, &[slot * u64::from(cores), lanes], Form::Lanes, self.chip);
        let parts = self.plan.buffer(self.op_name(op).to_string(), layout, BufferKind::Temp);
        let kernel = self.part_kernels((spec, ways), cores);
        let part = Arg::Array { buf: parts, usage: Use::Write, unit: Unit::Granules, offset: 0, dynamic: Vec::new() };
        let near = |far: bool, unit: Unit| if far { Unit::Granules } else { unit };
        let indices = placed(indices, Use::Read, near(spec.far.indices, Unit::WordRows));
        let updates = placed(updates, Use::Read, near(spec.far.rows, Unit::ElementRows));
        self.steps.push(Step::Call { kernel, args: vec![indices, part, updates, Arg::Scratch], op });
        self.combine_parts(spec, (parts, slot), (before, table), (op, result));
    }

    /// The kernels of all cores' parts: the first one's number.
    fn part_kernels(&mut self, (all, ways): (&ScatterSpec, Option<&Ways>), cores: u32) -> usize {
        let r = &all.specs[0];
        let (smem, whole) = match all.in_place() {
            true => (self.key_words(), in_place_chunk(self.chip)),
            false => (r.smem, CHUNK),
        };
        let share = r.count.div_ceil(cores).next_multiple_of(whole);
        let step = u64::from(r.table_component) * self.chip.row_bytes() / HBM_GRANULE;
        let mut parts = Vec::new();
        for core in 0..cores {
            let bound = |core: u32| (u64::from(share) * u64::from(core)).min(u64::from(r.count)) as u32;
            let (first, end) = (bound(core), bound(core + 1));
            let specs = vec![RowsSpec { first, count: end - first, smem, ..r.clone() }];
            let name = if cores > 1 { format!("scatter, core {core}") } else { "scatter".into() };
            let kernel = self.one_scatter(ScatterSpec { specs, ..all.clone() }, &name, ways);
            parts.push(SplitPart { kernel, offsets: vec![0, (step * u64::from(core)) as i64] });
        }
        let first = parts[0].kernel;
        if cores > 1 {
            self.plan.splits.insert(first, parts);
        }
        first
    }

    /// First of the words of scalar memory for two chunks of keys.
    fn key_words(&mut self) -> u32 {
        let words = &mut self.plan.words;
        *self.plan.key_words.get_or_insert_with(|| {
            *words += in_place_words(self.chip);
            *words - in_place_words(self.chip)
        })
    }

    /// The result: the operand combined with every core's part, which lie so many rows apart.
    fn combine_parts(
        &mut self,
        spec: &ScatterSpec,
        (parts, slot): (BufId, u64),
        (before, table): (&View, &View),
        (op, result): (u32, bool),
    ) {
        let (cores, r) = (self.plan.cores.max(1), &spec.specs[0]);
        let access = |rows: u64, plane: u64, offset: u64| Access {
            dtype: r.dtype,
            component_rows: rows as i64,
            outer: SmallVec::new(),
            row: 1,
            offset: offset as i64,
            lane: LaneMap::Tile { tile_rows: plane as i64 },
        };
        // Elements of one dimension are rows of lanes.
        let plane = |v: &View| if spec.elements { v.layout.total_rows() } else { v.layout.plane_rows() };
        let whole = |v: &View| access(v.layout.total_rows(), plane(v), 0);
        let part = |core: u64| access(slot * u64::from(cores), u64::from(r.table_plane), slot * core);
        let inputs = std::iter::once(whole(before)).chain((0..u64::from(cores)).map(part));
        let (expr, roots) = folded(&spec.body, 1 + cores as usize, &[r.dtype]);
        let sum = LoopSpec {
            outer: Vec::new(),
            rows: spec.rows,
            columns: r.planes * self.chip.core.lanes,
            inputs: inputs.map(Input::Array).collect(),
            expr,
            outputs: roots.into_iter().map(|node| Output { node, access: whole(table) }).collect(),
        };
        let mut args = vec![Arg::rows(before.buf, Use::Read)];
        args.extend((0..cores).map(|_| Arg::rows(parts, Use::Read)));
        args.push(Arg::rows(table.buf, Use::Write));
        self.push_body(blocks::Body::Loop(sum), args, "parts combined", op, &[result]);
    }
}
