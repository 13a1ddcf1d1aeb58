//! Sorts: how sequences lie over rows and lanes, and the kernels of the network's passes.

use super::fuse::scalar_body;
use super::lower::{Lower, Region, Val};
use super::moving::{Position, move_spec};
use super::step::{Arg, KernelEntry, KernelKey, Step, Unit, Use};
use super::view::{Form, View};
use crate::emit::loops::eval::simple_compare;
use crate::emit::loops::spec::Body;
use crate::emit::sort::{Pass, Places, SortSpec, passes, sort_kernel};
use crate::error::CompileError;
use crate::graph::{Module, NodeId, Op, Order};
use systole_isa::dtype::DTypeClass;
use systole_isa::{ChipConfig, DType};

/// How `batch` sequences of `count` elements lie: `2^row_bits` rows, `2^group_bits` lanes each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    batch: u64,
    count: u64,
    row_bits: u32,
    group_bits: u32,
}

fn log2_up(n: u64) -> u32 {
    n.max(1).next_power_of_two().ilog2()
}

impl Shape {
    /// The cheapest: lanes in use against steps across lanes, which cost about three times those between rows.
    fn choose(batch: u64, count: u64, chip: &ChipConfig) -> Shape {
        let lanes = chip.core.lanes as u64;
        let least = 2 * chip.core.sublanes.ilog2();
        (0..=lanes.ilog2())
            .map(|group_bits| {
                let row_bits = log2_up(count.div_ceil(1 << group_bits)).max(least);
                Shape { batch, count, row_bits, group_bits }
            })
            .min_by_key(|s| {
                let (all, across) = (s.row_bits + s.group_bits, s.group_bits);
                let steps = all * (all + 1) / 2 + across * (across + 1);
                ((s.batch << s.group_bits).div_ceil(lanes) << s.row_bits) * steps as u64
            })
            .expect("there is a choice without lanes")
    }

    fn rows(&self) -> u64 {
        1 << self.row_bits
    }

    fn dims(&self) -> [u64; 2] {
        [self.rows(), self.batch << self.group_bits]
    }

    /// The moves between `[batch, count]` (or `[count]`) and the network's array: sizes, positions in the former and the
    /// latter. Whole lanes, then what is left.
    fn moves(&self, rank: usize) -> Vec<(Vec<u64>, Position, Position)> {
        let (whole, rest) = (self.count / self.rows(), self.count % self.rows());
        let group = 1i64 << self.group_bits;
        [(0, whole, self.rows()), (whole, 1, rest)]
            .into_iter()
            .filter(|p| p.1 > 0 && p.2 > 0)
            .map(|(lane, lanes, rows)| {
                let place = (vec![(1, self.rows() as i64), (2, 1)], (lane * self.rows()) as i64);
                let mut outside = Position { dims: vec![(vec![(0, 1)], 0), place] };
                outside.dims.drain(..2 - rank);
                let inside = Position { dims: vec![(vec![(2, 1)], 0), (vec![(0, group), (1, 1)], lane as i64)] };
                (vec![self.batch, lanes, rows], outside, inside)
            })
            .collect()
    }
}

/// Whether elements that a comparator calls equal are the same bits: no order among them is seen.
fn plain(body: &Body, dtypes: &[DType]) -> bool {
    let [t] = dtypes else { return false };
    match (simple_compare(body), t.class()) {
        (Some(Order::Total), DTypeClass::Float) => !t.is_f8(),
        (Some(_), DTypeClass::Pred | DTypeClass::Signed | DTypeClass::Unsigned) => true,
        _ => false,
    }
}

impl<'a> Lower<'a> {
    /// A sort along the last dimension of arrays `[batch, n]` or `[n]`.
    pub fn sort(&mut self, r: &mut Region<'a>, id: NodeId) -> Result<Val, CompileError> {
        let node = r.comp.node(id);
        let Op::Sort { body, .. } = node.op else { return Err(self.no_lowering(r.comp, id)) };
        let module: &'a Module = self.module;
        let Some(body) = scalar_body(module.computation(body)) else {
            return Err(self.no_lowering(r.comp, id));
        };
        let sources: Vec<View> = node.operands.iter().map(|&o| self.lanes(r, o)).collect();
        let dims = sources[0].dims.clone();
        let (count, batch) = (dims[dims.len() - 1], dims[..dims.len() - 1].iter().product());
        let op = self.debug_op(r.comp, id, 0.0);
        let shape = Shape::choose(batch, count, self.chip);
        let name = node.name.clone();
        let dtypes: Vec<DType> = sources.iter().map(View::dtype).collect();
        // An array that fills whole rows is one of the network's as it lies.
        let lanes = self.chip.core.lanes as u64;
        let as_is = batch == 1 && 1 << shape.group_bits == lanes && count == lanes << shape.row_bits;
        let places = (!plain(&body, &dtypes)).then(|| match as_is {
            true => Places { row: lanes as u32, lane: 1 },
            false => Places { row: 1, lane: shape.rows() as u32 },
        });
        let mut from = Vec::new();
        for src in &sources {
            from.push(if as_is { src.clone() } else { self.spread(src, shape, &name) });
        }
        let mut to: Vec<View> = dtypes.iter().map(|&t| self.array(&name, t, &shape.dims(), Form::Lanes)).collect();
        if places.is_some() {
            to.push(self.array(&name, DType::S32, &shape.dims(), Form::Lanes));
        }
        let limit = |need: u64| {
            u32::try_from(need).map_err(|_| CompileError::Limit {
                resource: "elements of a sorted sequence".into(),
                need,
                have: u32::MAX as u64,
                detail: format!(" (`{name}`)"),
            })
        };
        let spec = SortSpec {
            dtypes,
            body,
            places,
            count: limit(count)?,
            row_bits: shape.row_bits,
            group_bits: shape.group_bits,
            planes: limit(to[0].layout.planes())?,
            plane_rows: limit(to[0].layout.plane_rows())?,
            component_rows: limit(to[0].layout.total_rows())?,
        };
        self.network(&spec, &from, &to, op);
        let mut results = Vec::new();
        for v in &to[..sources.len()] {
            results.push(Val::Array(self.gathered(v, &dims, shape, &name)));
        }
        Ok(if results.len() == 1 { results.remove(0) } else { Val::Tuple(results) })
    }

    fn network(&mut self, spec: &SortSpec, from: &[View], to: &[View], op: u32) {
        for (pass, lo) in passes(spec, self.chip) {
            let chip = self.chip;
            let made: Result<usize, std::convert::Infallible> =
                self.plan.kernel(KernelKey::Other(format!("{pass:?} {spec:?}")), |_| {
                    let kernel = sort_kernel(spec, pass, chip);
                    let name = kernel.name.clone();
                    Ok(KernelEntry { kernel, scratch_rows: 0, descs: Vec::new(), semaphores: 0, name })
                });
            let Ok(kernel) = made;
            let mut args: Vec<Arg> = Vec::new();
            let usage = if matches!(pass, Pass::First { .. }) {
                args.extend(from.iter().map(|v| Arg::rows(v.buf, Use::Read)));
                Use::Write
            } else {
                Use::Update
            };
            args.extend(to.iter().map(|v| Arg::Array {
                buf: v.buf,
                usage,
                unit: Unit::ElementRows,
                offset: 0,
                dynamic: Vec::new(),
            }));
            if matches!(pass, Pass::Rows { .. }) {
                args.push(Arg::Const(lo as i32));
            }
            self.steps.push(Step::Call { kernel, args, op });
        }
    }

    /// Sequences spread over the network's array.
    fn spread(&mut self, src: &View, shape: Shape, name: &str) -> View {
        let dst = self.array(name, src.dtype(), &shape.dims(), Form::Lanes);
        for (sizes, outside, inside) in shape.moves(src.dims.len()) {
            let spec = move_spec(&sizes, src, &outside, &dst, &inside);
            self.push_move(spec, src.buf, (dst.buf, Use::Update), name);
        }
        dst
    }

    /// The network's array as sequences again.
    fn gathered(&mut self, src: &View, dims: &[u64], shape: Shape, name: &str) -> View {
        let dst = self.array(name, src.dtype(), dims, Form::Lanes);
        for (sizes, outside, inside) in shape.moves(dims.len()) {
            let spec = move_spec(&sizes, src, &inside, &dst, &outside);
            self.push_move(spec, src.buf, (dst.buf, Use::Update), name);
        }
        dst
    }
}
