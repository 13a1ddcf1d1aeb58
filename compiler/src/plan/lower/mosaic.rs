//! Kernels that Pallas wrote: a call of `tpu_custom_call` is a call of one kernel, its arrays in HBM.
//!
//! The kernel copies what it needs by itself. An operand that is also a result is first copied into the result; the kernel
//! then sees one array.

use super::moving::{Position, move_spec};
use super::{Lower, Region, Val};
use crate::plan::spec::KernelSpec;
use crate::plan::step::{Arg, SplitPart, Step, Unit, Use};
use crate::plan::view::{Form, View};
use std::fmt::Write;
use systole_codegen::emit::mosaic::{MosaicArray, MosaicKernel, MosaicSpec, Share, even_kernel, mosaic_kernel};
use systole_hlo::error::CompileError;
use systole_hlo::graph::{Node, NodeId, Op, Shape};
use systole_isa::{ChipConfig, DType};
use systole_mosaic::{Call, Module, Role, Window, config};

/// Whether an operation is a call of a kernel.
pub fn is_kernel(op: &Op) -> bool {
    matches!(op, Op::CustomCall { target, .. } if target == config::TARGET)
}

/// The operand that each result shares its memory with, by numbers of operand and result.
fn aliases(node: &Node) -> Vec<(u32, u32)> {
    let text = node.attributes.iter().find(|a| a.0 == "output_to_operand_aliasing").map_or("", |a| a.1.as_str());
    let mut out = Vec::new();
    // `{{0}: (1, {}), {}: (2, {})}`
    for part in text.split("): ").flat_map(|p| p.split("),")) {
        let Some((result, operand)) = part.split_once(':') else { continue };
        let digits = |s: &str| s.chars().filter(char::is_ascii_digit).collect::<String>();
        let operand = digits(operand.split(',').next().unwrap_or_default());
        let result = digits(result);
        if let Ok(operand) = operand.parse() {
            out.push((operand, result.parse().unwrap_or(0)));
        }
    }
    out
}

impl<'a> Lower<'a> {
    /// A call of a kernel.
    pub fn kernel_call(&mut self, r: &mut Region<'a>, id: NodeId) -> Result<Val, CompileError> {
        let node = r.comp.node(id);
        let Op::CustomCall { config, .. } = &node.op else { return Err(self.no_lowering(r.comp, id)) };
        let refused = |e: systole_mosaic::Error| {
            let at = e.place.map(|p| format!(" ({p})")).unwrap_or_default();
            CompileError::unsupported(node.span, format!("kernel `{}`: {}{at}", node.name, e.what))
        };
        let call = Call::parse(config).map_err(refused)?;
        let module = call.module().map_err(refused)?;
        let mut views = Vec::new();
        for &o in &node.operands {
            let given = r.comp.node(o);
            if matches!(given.shape, Shape::Token) {
                continue;
            }
            let v = self.lanes(r, o);
            let dims = given.shape.as_array().map_or_else(|| v.dims.clone(), |a| a.dims.clone());
            views.push(self.relaid_any(&v, &dims, &given.name));
        }
        let operands = views.len() as u32;
        let mut results: Vec<View> = Vec::new();
        for a in node.shape.leaves() {
            results.push(self.array(&node.name, a.dtype, &a.dims, Form::Lanes));
        }
        let op = self.debug_op(r, id, call.flops.map_or_else(|| flops(&module), |f| f as f64));
        self.plan.ops[op as usize].peak = product_type(&module);
        let mut shared = aliases(node);
        shared.retain(|(o, k)| (*o as usize) < views.len() && (*k as usize) < results.len());
        let all = views.iter().chain(&results);
        let spec = MosaicSpec {
            body: call.body.iter().fold(String::new(), |mut s, byte| {
                let _ = write!(s, "{byte:02x}");
                s
            }),
            // The kernel's operations say which integers have a sign, its arrays do not.
            arrays: all
                .map(|v| MosaicArray { dtype: v.dtype().signed(), dims: v.dims.clone(), apart: false })
                .collect(),
            operands,
            aliases: shared.iter().map(|(o, k)| (*o, operands + k)).collect(),
            smem: self.plan.words,
            share: None,
            apart: Vec::new(),
            precision: self.precision,
        };
        within_limit(&module, &spec, call.vmem_limit, self.chip).map_err(refused)?;
        let kernel = match self.known_kernel(&spec) {
            Some(kernel) => kernel,
            None => self.new_kernel(&module, spec).map_err(refused)?,
        };
        let arrays = self.arrays_of(kernel);
        // Results whose rows are apart are made from what the kernel leaves.
        let mut left: Vec<(View, usize)> = Vec::new();
        for (k, own) in results.iter_mut().enumerate() {
            if let Some(a) = arrays.get(views.len() + k).filter(|a| a.apart) {
                let apart = self.array(&node.name, own.dtype(), &a.stored(), Form::Lanes);
                left.push((std::mem::replace(own, apart), k));
            }
        }
        for (o, view) in views.iter_mut().enumerate() {
            let result = shared.iter().find(|s| s.0 as usize == o).map(|s| results[s.1 as usize].clone());
            match arrays.get(o).filter(|a| a.apart) {
                Some(a) => {
                    let to = result.unwrap_or_else(|| self.array(&node.name, view.dtype(), &a.stored(), Form::Lanes));
                    self.rows_apart(view, &to, true, &node.name);
                    *view = to;
                }
                None => {
                    let Some(to) = result else { continue };
                    self.steps.push(Step::Copy { src: view.buf, dst: to.buf, op });
                    *view = to;
                }
            }
        }
        let all: Vec<&View> = views.iter().chain(&results).collect();
        let usage = |i: usize| {
            let (i, n) = (i as u32, operands);
            match shared.iter().any(|(o, k)| *o == i || n + k == i) {
                true => Use::Update,
                false if i < n => Use::Read,
                false => Use::Write,
            }
        };
        let unit = Unit::Granules;
        let mut args: Vec<Arg> = all
            .iter()
            .enumerate()
            .map(|(i, v)| Arg::Array { buf: v.buf, usage: usage(i), unit, offset: 0, dynamic: Vec::new() })
            .collect();
        args.push(Arg::Scratch);
        self.steps.push(Step::Call { kernel, args, op });
        for (own, k) in left {
            self.rows_apart(&own, &results[k], false, &node.name);
            results[k] = own;
        }
        let mut values = results.into_iter().map(Val::Array);
        Ok(match (&node.shape, values.len()) {
            (Shape::Array(_), 1) => values.next().unwrap_or(Val::Token),
            (Shape::Tuple(_), _) => Val::Tuple(values.collect()),
            (Shape::Array(_) | Shape::Token, _) => Val::Token,
        })
    }
}

impl Lower<'_> {
    /// A kernel that an earlier call has, which may use the same scalar memory: calls follow each other.
    #[allow(clippy::wildcard_enum_match_arm, reason = "the question is for kernels of Pallas alone")]
    fn known_kernel(&self, spec: &MosaicSpec) -> Option<usize> {
        self.plan.kernels.iter().position(|k| match &k.spec {
            KernelSpec::Mosaic(s) => {
                let alike = |(a, b): (&MosaicArray, &MosaicArray)| (a.dtype, &a.dims) == (b.dtype, &b.dims);
                (&s.body, s.operands, &s.aliases) == (&spec.body, spec.operands, &spec.aliases)
                    && s.arrays.len() == spec.arrays.len()
                    && s.arrays.iter().zip(&spec.arrays).all(alike)
            }
            _ => false,
        })
    }

    /// The arrays of a kernel, as they lie.
    #[allow(clippy::wildcard_enum_match_arm, reason = "the question is for kernels of Pallas alone")]
    fn arrays_of(&self, kernel: usize) -> Vec<MosaicArray> {
        match &self.plan.kernels[kernel].spec {
            KernelSpec::Mosaic(s) => s.arrays.clone(),
            _ => Vec::new(),
        }
    }

    /// Moves the rows of narrow elements of an array to words of their own, or back from there.
    fn rows_apart(&mut self, array: &View, apart: &View, there: bool, name: &str) {
        let n = array.dims.len();
        let own = Position::identity(n);
        let mut step = array.dtype().packing() as i64;
        let mut rows = Vec::new();
        for d in (0..n - 1).rev() {
            rows.push((d, step));
            step *= array.dims[d] as i64;
        }
        let theirs = Position { dims: vec![(rows, 0), (vec![(n - 1, 1)], 0)] };
        let (from, to) = ((array, &own), (apart, &theirs));
        let ((src, from), (dst, to)) = if there { (from, to) } else { (to, from) };
        let spec = move_spec(&array.dims, src, from, dst, to);
        self.push_move(spec, src.buf, (dst.buf, Use::Write), name);
    }

    fn new_kernel(&mut self, module: &Module, spec: MosaicSpec) -> Result<usize, systole_mosaic::Error> {
        let name = module.functions.first().map_or("kernel", |f| f.name.as_str());
        let (spec, code) = even_kernel(spec, name, self.chip)?;
        let rows = self.chip.vmem.bytes / self.chip.row_bytes();
        let taken = u64::from(code.code.needs.scratch_rows);
        if taken > rows {
            return Err(too_large(module, &spec, taken, self.chip));
        }
        match shares(module, &spec, &code, self.plan.cores)? {
            all if all.is_empty() => Ok(self.add_kernel(spec, code, name)),
            all => self.share_kernel(&spec, all, name),
        }
    }

    fn add_kernel(&mut self, spec: MosaicSpec, code: MosaicKernel, name: &str) -> usize {
        self.plan.words = self.plan.words.max(spec.smem + code.smem_words);
        let kernel = self.plan.simple_kernel(KernelSpec::Mosaic(spec), name, code.code.needs);
        self.plan.kernels[kernel].parts = code.parts;
        kernel
    }

    /// Kernels for the parts of a grid that the cores have; the first core's.
    fn share_kernel(
        &mut self,
        spec: &MosaicSpec,
        shares: Vec<Share>,
        name: &str,
    ) -> Result<usize, systole_mosaic::Error> {
        let mut parts = Vec::new();
        for share in shares {
            let own = MosaicSpec { share: Some(share), ..spec.clone() };
            let name = format!("{name}, core {}", share.core);
            let code = mosaic_kernel(&own, &name, self.chip)?;
            parts.push(SplitPart { kernel: self.add_kernel(own, code, &name), offsets: Vec::new() });
        }
        let first = parts.first().map_or(0, |p| p.kernel);
        self.plan.splits.insert(first, parts);
        Ok(first)
    }
}

/// How the cores of a device share a kernel's grid; nothing if the first core runs all of it. Its steps along a dimension may
/// run in any order, as the kernel says; what is proved here is that no two cores write, or read and write, the same block.
fn shares(
    module: &Module,
    spec: &MosaicSpec,
    code: &MosaicKernel,
    cores: u32,
) -> Result<Vec<Share>, systole_mosaic::Error> {
    if cores < 2 || !code.code.host_calls.is_empty() {
        return Ok(Vec::new());
    }
    let kernel = systole_mosaic::Kernel::of(module)?;
    let own = kernel.arguments.iter().filter(|a| a.2 != Role::Scratch);
    let windows: Vec<Option<&Window>> = own.map(|(_, m, role)| window_of(m, role)).collect();
    let open = kernel.open_sizes();
    let of = |array: usize| array.checked_sub(open).and_then(|i| windows.get(i).copied().flatten());
    let apart = |d: usize| {
        (spec.operands as usize..spec.arrays.len()).all(|result| {
            let twins = spec.aliases.iter().filter(|a| a.1 as usize == result).map(|a| a.0 as usize);
            let shown: Option<Vec<&Window>> = twins.chain([result]).map(of).collect();
            shown.is_some_and(|w| systole_mosaic::apart(&kernel, &w, d))
        })
    };
    let wide = |d: usize| kernel.grid[d].is_some_and(|n| n >= u64::from(cores));
    let found = (0..kernel.grid.len()).find(|&d| kernel.parallel.get(d) == Some(&true) && wide(d) && apart(d));
    let share = |d: usize| (0..cores).map(move |core| Share { dimension: d as u32, core, cores });
    Ok(found.map_or_else(Vec::new, |d| share(d).collect()))
}

/// A window in vector memory.
fn window_of<'m>(m: &systole_mosaic::MemRef, role: &'m Role) -> Option<&'m Window> {
    match role {
        Role::Window(w) if m.space == systole_mosaic::Space::Vmem => Some(w),
        Role::Window(_) | Role::Prefetch | Role::Whole | Role::Scratch => None,
    }
}

/// Floating-point operations of the products of a kernel, each counted once a step of the grid.
fn flops(module: &Module) -> f64 {
    let Ok(kernel) = systole_mosaic::Kernel::of(module) else { return 0.0 };
    let mut all = 0.0;
    each_product(&kernel.function.body, &mut |o| {
        let dims = |v| match module.type_of(v) {
            systole_mosaic::Type::Vector(d, _) => d.iter().map(|d| *d as f64).product(),
            systole_mosaic::Type::Scalar(_) | systole_mosaic::Type::MemRef(_) | systole_mosaic::Type::Other(_) => 0.0,
        };
        let (x, y, z): (f64, f64, f64) = (dims(o.operands[0]), dims(o.operands[1]), dims(o.results[0]));
        // m k * k n * m n = (m k n) squared.
        all += 2.0 * (x * y * z).sqrt();
    });
    // Of a grid whose size is known at run time only, one step's.
    all * kernel.steps().unwrap_or(1) as f64
}

fn each_product(b: &systole_mosaic::Block, f: &mut dyn FnMut(&systole_mosaic::Operation)) {
    for o in &b.operations {
        if &*o.name == "tpu.matmul" {
            f(o);
        }
        o.regions.iter().for_each(|b| each_product(b, f));
    }
}

/// The type whose peak products are measured by.
fn product_type(module: &Module) -> Option<DType> {
    let mut found = None;
    for f in &module.functions {
        each_product(&f.body, &mut |o| {
            let t = module.type_of(o.operands[0]).element().map(systole_mosaic::Element::dtype);
            found = found.max(t.map(|t| {
                if t.is_integer() {
                    DType::S8
                } else if t.is_byte_float() {
                    t
                } else {
                    DType::BF16
                }
            }));
        });
    }
    found
}

/// What a kernel asks for in vector memory, the largest first: bytes with what they are for. The line that it begins with.
#[allow(
    clippy::wildcard_enum_match_arm,
    reason = "windows and scratch in vector memory are told apart, all else is whole arrays"
)]
fn asked(module: &Module, spec: &MosaicSpec, chip: &ChipConfig) -> (Vec<(u64, String)>, Option<String>) {
    let mut parts: Vec<(u64, String)> = Vec::new();
    let Ok(kernel) = systole_mosaic::Kernel::of(module) else { return (parts, None) };
    let place = kernel.function.body.operations.iter().find_map(|o| o.place.as_ref()).map(ToString::to_string);
    let dims = |i: usize| spec.arrays.get(i + kernel.open_sizes()).map(|a| a.dims.clone());
    for (i, (_, m, role)) in kernel.arguments.iter().enumerate() {
        let vmem = m.space == systole_mosaic::Space::Vmem;
        let (what, dims, places) = match role {
            Role::Window(w) if vmem && kernel.steps() != Some(1) && !w.synchronous => {
                ("window, twice", Some(w.bounds.clone()), 2)
            }
            Role::Window(w) if vmem => ("window", Some(w.bounds.clone()), 1),
            Role::Scratch if vmem => ("scratch", m.sizes(), 1),
            _ if vmem => ("all of the array", dims(i), 1),
            _ => continue,
        };
        let Some(dims) = dims else { continue };
        let registers =
            [u64::from(chip.core.lanes), u64::from(chip.core.sublanes)].into_iter().chain(std::iter::repeat(1));
        let sizes = dims.iter().rev().zip(registers).map(|(d, by)| d.next_multiple_of(by));
        let elements: u64 = sizes.fold(1, u64::saturating_mul);
        let bytes = places * (elements / 8).saturating_mul(u64::from(m.element.dtype().storage_bits()));
        parts.push((bytes, format!("argument {i} ({what}, {} {dims:?}) {bytes}", m.element.dtype())));
    }
    parts.sort_by_key(|p| std::cmp::Reverse(p.0));
    (parts, place)
}

/// Why a kernel does not fit in vector memory: what takes most of it.
fn too_large(module: &Module, spec: &MosaicSpec, rows: u64, chip: &ChipConfig) -> systole_mosaic::Error {
    let (need, have) = (rows.saturating_mul(chip.row_bytes()), chip.vmem.bytes);
    refusal(asked(module, spec, chip), &format!("needs {need} bytes, the chip has {have}"))
}

/// Refuses a kernel that asks for more vector memory than its call allows.
fn within_limit(
    module: &Module,
    spec: &MosaicSpec,
    limit: Option<u64>,
    chip: &ChipConfig,
) -> Result<(), systole_mosaic::Error> {
    let Some(limit) = limit else { return Ok(()) };
    let parts = asked(module, spec, chip);
    let need: u64 = parts.0.iter().map(|p| p.0).sum();
    match need > limit {
        true => Err(refusal(parts, &format!("windows and scratch need {need} bytes, the call allows {limit}"))),
        false => Ok(()),
    }
}

fn refusal((parts, place): (Vec<(u64, String)>, Option<String>), why: &str) -> systole_mosaic::Error {
    let most: Vec<String> = parts.into_iter().take(3).map(|p| p.1).collect();
    systole_mosaic::Error { what: format!("VMEM: {why}; most of all take, in bytes: {}", most.join(", ")), place }
}
