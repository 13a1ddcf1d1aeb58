//! Gathers and scatters.

mod parts;

use self::parts::Ways;
use super::{Lower, Region, Val};
use crate::plan::fuse::scalar_body;
use crate::plan::spec::KernelSpec;
use crate::plan::step::{Arg, BufferKind, SplitPart, Step, Unit, Use};
use crate::plan::view::{Form, View, layout_of};
use smallvec::SmallVec;
use systole_codegen::emit::blocks;
use systole_codegen::emit::loops::spec::{Access, Body, LaneMap};
use systole_codegen::emit::rows::{
    CHUNK, ELEMENT_CYCLES, Far, PERMUTATION_CYCLES, PickSpec, RowsSpec, ScatterSpec, can_be_slabs,
};
use systole_hlo::error::CompileError;
use systole_hlo::graph::{NodeId, Op};
use systole_isa::DType;

impl<'a> Lower<'a> {
    /// A gather or scatter.
    #[allow(
        clippy::wildcard_enum_match_arm,
        reason = "the operations of one family: scatters, and gathers of all kinds"
    )]
    pub fn indexed(&mut self, r: &mut Region<'a>, id: NodeId) -> Result<Val, CompileError> {
        match &r.comp.node(id).op {
            Op::Scatter(_) => self.scatter(r, id),
            _ => self.gather(r, id),
        }
    }

    /// First of the words of scalar memory for two chunks of indices that gathers and scatters share.
    fn index_words(&mut self) -> u32 {
        if let Some(w) = self.plan.index_words {
            return w;
        }
        let w = self.plan.words;
        self.plan.words += 2 * CHUNK;
        self.plan.index_words = Some(w);
        w
    }

    fn rows_spec(&mut self, table: &View, rows: &View, count: u64) -> RowsSpec {
        RowsSpec {
            dtype: table.dtype(),
            count: count as u32,
            first: 0,
            planes: table.layout.planes() as u32,
            table_plane: table.layout.plane_rows() as u32,
            rows_plane: rows.layout.plane_rows() as u32,
            height: 1,
            table_component: table.layout.total_rows() as u32,
            rows_component: rows.layout.total_rows() as u32,
            smem: self.index_words(),
            single: false,
            near: false,
        }
    }

    /// The node's array with all dimensions but the first merged.
    fn as_rows(&mut self, r: &mut Region<'a>, id: NodeId) -> View {
        let v = self.lanes(r, id);
        let rows = v.dims[0];
        let dims = [rows, v.dims[1..].iter().product::<u64>()];
        self.relaid_any(&v, &dims, &r.comp.node(id).name.clone())
    }

    fn gather(&mut self, r: &mut Region<'a>, id: NodeId) -> Result<Val, CompileError> {
        let node = r.comp.node(id);
        if node
            .shape
            .as_array()
            .is_some_and(|a| matches!(&node.op, Op::Gather(g) if g.slice_sizes.len() == a.dims.len()))
            && matches!(&node.op, Op::Gather(g) if g.map.window.is_empty())
        {
            return self.pick(r, id);
        }
        if let Some(done) = self.gather_of_slabs(r, id) {
            return Ok(done);
        }
        let table = self.as_rows(r, node.operands[0]);
        let indices = self.lanes(r, node.operands[1]);
        let shape = node.shape.as_array().expect("a gather makes an array").clone();
        let width = shape.dims[1..].iter().product::<u64>();
        let out = self.array(&node.name, shape.dtype, &[shape.dims[0], width], Form::Lanes);
        let spec = self.rows_spec(&table, &out, shape.dims[0]);
        let far = Far { indices: self.streams(indices.buf, false), rows: self.streams(out.buf, self.is_result(r, id)) };
        let spec = RowsSpec { near: self.is_near(&table, &spec, far), ..spec };
        let kernel = self.gather_kernel(&spec, far);
        let op = self.debug_op(r, id, 0.0);
        let mut args = vec![
            placed(&table, Use::Read, if spec.near { Unit::ElementRows } else { Unit::Granules }),
            placed(&indices, Use::Read, if far.indices { Unit::Granules } else { Unit::WordRows }),
            placed(&out, Use::Write, if far.rows { Unit::Granules } else { Unit::ElementRows }),
        ];
        args.extend((!spec.near || far.rows).then_some(Arg::Scratch));
        self.steps.push(Step::Call { kernel, args, op });
        Ok(Val::Array(self.relaid_any(&out, &shape.dims, &node.name)))
    }

    /// A gather of rows of several dimensions that lie together as they are, copied so: the table is not laid out anew. Rows that are little
    /// for a copy, or mostly padding, are not.
    fn gather_of_slabs(&mut self, r: &mut Region<'a>, id: NodeId) -> Option<Val> {
        /// Bytes of a copy that takes as long as it takes to start one.
        const LEAST: u64 = 1 << 13;
        let node = r.comp.node(id);
        let shape = node.shape.as_array()?.clone();
        let table = r.comp.node(node.operands[0]).shape.as_array()?.dims.clone();
        let width: u64 = shape.dims[1..].iter().product();
        let layout = |dims: &[u64]| layout_of(shape.dtype, dims, Form::Lanes, self.chip);
        let (own, picked, merged) = (layout(&table), layout(&shape.dims), layout(&[shape.dims[0], width]));
        let packing = shape.dtype.packing() as u64;
        let rows = if table.len() > 2 { own.row_strides()[0] } else { 1 };
        let bytes = rows * own.planes() * self.chip.row_bytes() / packing;
        let compact = merged.planes() * self.chip.row_bytes() / packing;
        // A table of fewer bytes than are taken from it is brought once, where it has room.
        let brought = own.bytes() < bytes * shape.dims[0] && own.bytes() <= self.plan.residency.largest;
        let worth = rows > 1 && bytes >= LEAST && bytes <= 2 * compact && can_be_slabs(bytes, self.chip) && !brought;
        if !worth || !rows.is_multiple_of(packing) || shape.dtype.components() != 1 {
            return None;
        }
        let table = self.lanes(r, node.operands[0]);
        let table = self.relaid_any(&table, &own.dims, &r.comp.node(node.operands[0]).name.clone());
        let indices = self.lanes(r, node.operands[1]);
        let out = self.array(&node.name, shape.dtype, &shape.dims, Form::Lanes);
        let words = |rows: u64| (rows / packing) as u32;
        let spec = RowsSpec {
            dtype: DType::U32,
            height: words(rows),
            planes: own.planes() as u32,
            table_plane: words(own.plane_rows()),
            rows_plane: words(picked.plane_rows()),
            table_component: words(own.total_rows()),
            rows_component: words(picked.total_rows()),
            ..self.rows_spec(&table, &out, shape.dims[0])
        };
        let far = Far { indices: self.streams(indices.buf, false), rows: self.streams(out.buf, self.is_result(r, id)) };
        let kernel = self.gather_kernel(&spec, far);
        let op = self.debug_op(r, id, 0.0);
        let mut args = vec![
            placed(&table, Use::Read, Unit::Granules),
            placed(&indices, Use::Read, if far.indices { Unit::Granules } else { Unit::WordRows }),
            placed(&out, Use::Write, if far.rows { Unit::Granules } else { Unit::WordRows }),
        ];
        args.push(Arg::Scratch);
        self.steps.push(Step::Call { kernel, args, op });
        Some(Val::Array(out))
    }

    /// Whether rows are best moved from their table in vector memory, to which a given one is brought for it: a copy for each row from
    /// HBM, where any other table would have to go first, takes longer.
    fn is_near(&self, table: &View, rows: &RowsSpec, far: Far) -> bool {
        let buf = &self.plan.buffers[table.buf.index()];
        let fits =
            table.layout.bytes() <= self.plan.residency.largest && !self.plan.residency.streamed.contains(&buf.name);
        if !fits || !rows.can_be_near() || self.pinned_place(table.buf).is_some() {
            return false;
        }
        let cores = f64::from(if far.rows { self.plan.cores.max(1) } else { 1 });
        let copy = table.layout.bytes() as f64 / self.chip.hbm_bytes_per_cycle();
        let given = matches!(buf.kind, BufferKind::Param(_) | BufferKind::Constant(_));
        // Every core brings a table of its own; what the first one makes is written once.
        let (brought, written) = if given { (copy * cores, 0.0) } else { (0.0, copy) };
        rows.near_cycles(self.chip) / cores + brought < rows.far_cycles(self.chip) / cores + written
    }

    /// The kernel of a gather; indices are shared out among the device's cores if the rows or elements go to HBM.
    fn gather_kernel(&mut self, spec: &RowsSpec, far: Far) -> usize {
        /// Rows that no two cores share a register of.
        const WHOLE: u64 = 64;
        let whole = if spec.single { u64::from(CHUNK) } else { WHOLE };
        let name = if spec.single { "gather of elements" } else { "gather" };
        let (cores, count) = (u64::from(self.plan.cores), u64::from(spec.count));
        if cores < 2 || !far.rows || count < whole * cores {
            return self.one_gather(spec.clone(), far, name);
        }
        let bound = |core: u64| if core == cores { count } else { count * core / cores / whole * whole };
        let mut part = |core: u64| {
            let (first, count) = (bound(core) as u32, (bound(core + 1) - bound(core)) as u32);
            let kernel =
                self.one_gather(RowsSpec { first, count, ..spec.clone() }, far, &format!("{name}, core {core}"));
            SplitPart { kernel, offsets: Vec::new() }
        };
        let parts: Vec<SplitPart> = (0..cores).map(&mut part).collect();
        let first = parts[0].kernel;
        self.plan.splits.insert(first, parts);
        first
    }

    fn one_gather(&mut self, rows: RowsSpec, far: Far, name: &str) -> usize {
        let spec = KernelSpec::Gather { rows, far };
        let needs = spec.needs(self.chip).expect("gathers can always be made");
        self.plan.simple_kernel(spec, name, needs)
    }

    /// A gather of single elements, from one table or from each row of one by the indices in the same row.
    fn pick(&mut self, r: &mut Region<'a>, id: NodeId) -> Result<Val, CompileError> {
        let node = r.comp.node(id);
        let table = self.lanes(r, node.operands[0]);
        let indices = self.lanes(r, node.operands[1]);
        let shape = node.shape.as_array().expect("a gather makes an array").clone();
        let out = self.array(&node.name, shape.dtype, &shape.dims, Form::Lanes);
        if self.is_single(&table, &out) {
            self.singles(r, id, (&table, &indices, &out));
            return Ok(Val::Array(out));
        }
        // Planes of one row are rows themselves.
        let (rows, columns) = match out.layout.plane_rows() {
            0 | 1 => (out.layout.planes(), 1),
            _ => (shape.dims[0], out.layout.planes()),
        };
        let access = |v: &View, row: i64, along: u64| Access {
            dtype: v.dtype(),
            component_rows: v.layout.total_rows() as i64,
            outer: SmallVec::from_slice(&[along as i64]),
            row,
            offset: 0,
            lane: LaneMap::Tile { tile_rows: v.layout.plane_rows() as i64 },
        };
        let spec = PickSpec {
            rows: rows as u32,
            columns: columns as u32,
            tiles: table.layout.planes() as u32,
            table: access(&table, i64::from(table.dims.len() > 1), 0),
            indices: access(&indices, 1, indices.layout.plane_rows()),
            out: access(&out, 1, out.layout.plane_rows()),
        };
        let op = self.debug_op(r, id, 0.0);
        let args =
            vec![Arg::rows(table.buf, Use::Read), Arg::rows(indices.buf, Use::Read), Arg::rows(out.buf, Use::Write)];
        self.push_body(blocks::Body::Pick(Box::new(spec)), args, "pick", op, &[self.is_result(r, id)]);
        Ok(Val::Array(out))
    }

    /// Whether elements of a table of one dimension are best fetched one after the other: it lies in vector memory, and has so many
    /// registers that to ask each for every result would take longer.
    fn is_single(&self, table: &View, out: &View) -> bool {
        let near = table.layout.bytes() <= self.plan.residency.largest && self.pinned_place(table.buf).is_none();
        let register = u64::from(self.chip.core.lanes * self.chip.core.sublanes);
        let permutations = table.layout.planes() * out.dims[0].div_ceil(register);
        let longer = permutations as f64 * PERMUTATION_CYCLES > out.dims[0] as f64 * ELEMENT_CYCLES;
        table.dims.len() == 1 && out.dims.len() == 1 && near && self.pinned_place(out.buf).is_none() && longer
    }

    fn singles(&mut self, r: &mut Region<'a>, id: NodeId, (table, indices, out): (&View, &View, &View)) {
        let rows = self.rows_spec(table, out, out.dims[0]);
        let rows = RowsSpec { planes: 1, single: true, ..rows };
        // Cores share the elements where the way of the results through HBM is worth it. Those that have no room go there anyway.
        let shared = self.plan.cores > 1 && self.way_pays(rows.count as f64 * ELEMENT_CYCLES, out.layout.bytes());
        let far = Far { indices: self.streams(indices.buf, false), rows: shared || self.plan.is_streamed(out.buf) };
        let kernel = self.gather_kernel(&rows, far);
        let mut args = vec![
            placed(table, Use::Read, Unit::ElementRows),
            placed(indices, Use::Read, if far.indices { Unit::Granules } else { Unit::WordRows }),
            placed(out, Use::Write, if far.rows { Unit::Granules } else { Unit::ElementRows }),
        ];
        args.extend(far.rows.then_some(Arg::Scratch));
        let op = self.debug_op(r, id, 0.0);
        self.steps.push(Step::Call { kernel, args, op });
    }

    /// How a scatter is made: what fits stays in vector memory, else tables are made in blocks and updates come in chunks.
    fn scatter_spec(
        &self,
        specs: Vec<RowsSpec>,
        (elements, body): (bool, Body),
        indices: &View,
        tables: &[View],
        updates: &[View],
    ) -> ScatterSpec {
        /// The parts of vector memory that tables, and updates beside them, may take as a whole; blocks take less.
        const SHARE: u64 = 3;
        const BLOCKS: (u64, u64) = (11, 16);
        /// The part of a kernel's windows for a block, beside the updates.
        const BESIDE: (u64, u64) = (3, 4);
        let vmem = self.chip.vmem.bytes;
        // Where less is kept in vector memory, there is less room for blocks too, but what any kernel's windows may take.
        let windows = self.window_bytes() / BESIDE.1 * BESIDE.0;
        let room = (vmem / BLOCKS.1 * BLOCKS.0).min((self.plan.residency.largest / 4 * 7).max(windows));
        let bytes = |all: &[View]| all.iter().map(|v| v.layout.bytes()).sum::<u64>();
        let large = |all: &[View]| all.iter().any(|v| v.layout.bytes() > self.plan.residency.largest);
        let far = Far {
            indices: self.streams(indices.buf, false),
            rows: large(updates) || bytes(updates) > vmem / SHARE || updates.iter().all(|u| self.streams(u.buf, false)),
        };
        let near = !large(tables) && bytes(tables) <= vmem / SHARE;
        let rows = if elements { tables[0].layout.total_rows() } else { tables[0].dims[0] };
        // Whole registers of rows of any type.
        let whole = 4 * u64::from(self.chip.core.sublanes);
        let row_bytes = (bytes(tables) / rows.max(1)).max(1);
        let fits = (room / row_bytes / whole).max(1) * whole;
        // As many for each core.
        let blocks = rows.div_ceil(fits).max(1).next_multiple_of(u64::from(self.plan.cores.max(1)));
        let block = if near { 0 } else { rows.div_ceil(blocks).next_multiple_of(whole) as u32 };
        let spec =
            ScatterSpec { specs, elements, body, far, rows: rows as u32, block, share: None, copies: 0, part: false };
        let copies = spec.copies_within(self.plan.residency.largest / 2, self.chip);
        ScatterSpec { copies, ..spec }
    }

    /// The kernel of a scatter; blocks of tables are shared out among the device's cores.
    fn scatter_kernel(&mut self, spec: &ScatterSpec, ways: Option<&Ways>) -> usize {
        let cores = self.plan.cores;
        let blocks = spec.rows.div_ceil(spec.block.max(1));
        if cores < 2 || spec.block == 0 || blocks < cores {
            return self.one_scatter(spec.clone(), "scatter", ways);
        }
        let bound = |core: u32| (u64::from(blocks) * u64::from(core) / u64::from(cores)) as u32;
        let part = |core: u32| {
            let share = Some((bound(core), bound(core + 1)));
            let kernel =
                self.one_scatter(ScatterSpec { share, ..spec.clone() }, &format!("scatter, core {core}"), ways);
            SplitPart { kernel, offsets: Vec::new() }
        };
        let parts: Vec<SplitPart> = (0..cores).map(part).collect();
        let first = parts[0].kernel;
        self.plan.splits.insert(first, parts);
        first
    }

    /// The kernel of a scatter or of a core's share; `ways`: what it was chosen from.
    fn one_scatter(&mut self, spec: ScatterSpec, name: &str, ways: Option<&Ways>) -> usize {
        let needs = spec.needs(self.chip);
        let kernel = self.plan.simple_kernel(KernelSpec::Scatter(spec), name, needs);
        if let Some((cycles, other)) = ways.map(Ways::weighed) {
            let entry = &mut self.plan.kernels[kernel];
            (entry.cycles, entry.considered) = (Some(cycles), vec![other]);
        }
        kernel
    }

    fn scatter(&mut self, r: &mut Region<'a>, id: NodeId) -> Result<Val, CompileError> {
        let node = r.comp.node(id);
        let Op::Scatter(s) = &node.op else { return Err(self.no_lowering(r.comp, id)) };
        let n = (node.operands.len() - 1) / 2;
        let module: &'a systole_hlo::graph::Module = self.module;
        let Some(body) = scalar_body(module.computation(s.body)) else {
            return Err(self.no_lowering(r.comp, id));
        };
        let op = self.debug_op(r, id, 0.0);
        let indices = self.lanes(r, node.operands[n]);
        let mut specs = Vec::new();
        let (mut before, mut tables, mut updates) = (Vec::new(), Vec::new(), Vec::new());
        let elements = node.shape.leaves().iter().all(|l| l.dims.len() == 1);
        for i in 0..n {
            let (from, update) = match elements {
                true => (self.lanes(r, node.operands[i]), self.lanes(r, node.operands[n + 1 + i])),
                false => (self.as_rows(r, node.operands[i]), self.as_rows(r, node.operands[n + 1 + i])),
            };
            let table = self.array(&node.name, from.dtype(), &from.dims, Form::Lanes);
            let spec = self.rows_spec(&table, &update, update.dims[0]);
            specs.push(if elements { RowsSpec { planes: 1, ..spec } } else { spec });
            before.push(from);
            tables.push(table);
            updates.push(update);
        }
        let spec = self.scatter_spec(specs, (elements, body), &indices, &tables, &updates);
        let ways = self.scatter_ways(&spec, op);
        let in_place = ways.as_ref().filter(|w| w.in_place()).map(|w| w.spec.clone());
        if let Some(spec) = in_place.or_else(|| self.shared_copies(&spec, &tables[0])) {
            let result = self.is_result(r, id);
            self.scatter_in_parts(
                (&spec, ways.as_ref()),
                (&indices, &updates[0]),
                (&before[0], &tables[0]),
                (op, result),
            );
            return Ok(Val::Array(self.relaid_any(&tables[0], &node.shape.leaves()[0].dims, &node.name)));
        }
        let kernel = self.scatter_kernel(&spec, ways.as_ref());
        let mut args =
            vec![placed(&indices, Use::Read, if spec.far.indices { Unit::Granules } else { Unit::WordRows })];
        if spec.block == 0 {
            for (from, table) in before.iter().zip(&tables) {
                self.steps.push(Step::Copy { src: from.buf, dst: table.buf, op });
            }
            args.extend(tables.iter().map(|t| placed(t, Use::Update, Unit::ElementRows)));
        } else {
            args.extend(before.iter().map(|t| placed(t, Use::Read, Unit::Granules)));
            args.extend(tables.iter().map(|t| placed(t, Use::Write, Unit::Granules)));
        }
        let unit = if spec.far.rows { Unit::Granules } else { Unit::ElementRows };
        args.extend(updates.iter().map(|u| placed(u, Use::Read, unit)));
        args.push(Arg::Scratch);
        self.steps.push(Step::Call { kernel, args, op });
        let mut vals = Vec::new();
        for (t, leaf) in tables.iter().zip(node.shape.leaves()) {
            vals.push(Val::Array(self.relaid_any(t, &leaf.dims, &node.name)));
        }
        Ok(if vals.len() == 1 { vals.remove(0) } else { Val::Tuple(vals) })
    }
}

/// An array as it is given to a kernel.
fn placed(v: &View, usage: Use, unit: Unit) -> Arg {
    Arg::Array { buf: v.buf, usage, unit, offset: 0, dynamic: Vec::new() }
}
