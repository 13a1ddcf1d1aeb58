//! The whole way: from a verified module to a program.

use crate::plan::collective::{self, Algorithm, Choice, PodPlan};
use crate::plan::lower::{Lower, Val};
use crate::plan::step::{BufferKind, Plan, Step};
use crate::plan::view::{BufId, Form, View};
use crate::plan::{main_program, overlap};
use systole_codegen::kernel::Unit;
use systole_codegen::schedule::{ScheduleOptions, schedule};
use systole_hlo::error::CompileError;
use systole_hlo::graph::{self, Module, Shape, Span};
use systole_isa::program::{Constant, DebugInfo, DebugKernel, HostArray};
use systole_isa::{ChipConfig, DmaDesc, Layout, Program};
use systole_passes::pipeline::{PassOptions, lower_to_core};

/// What to compile for, and how.
#[derive(Clone, Debug)]
pub struct CompileOptions {
    pub passes: PassOptions,
    /// A seed for random legal scheduling choices.
    pub chaos: Option<u64>,
    /// Arrays of more bytes than this are streamed through vector memory; without, those that do not fit.
    pub max_resident: Option<u64>,
    /// The algorithm of collectives, where there is a choice.
    pub collective: Option<Algorithm>,
    /// Cores of a device that share the work (programs of one device; at most the chip's).
    pub cores: u32,
    /// Whether the emitted bundles are proved by the independent checker.
    pub check: bool,
}

impl CompileOptions {
    /// The defaults for a chip.
    pub fn for_chip(chip: &ChipConfig) -> CompileOptions {
        CompileOptions {
            passes: PassOptions::for_chip(chip),
            chaos: None,
            max_resident: None,
            collective: None,
            cores: 1,
            check: cfg!(debug_assertions),
        }
    }
}

/// Rows of vector memory kept for spilled registers.
const SPILL_ROWS: u64 = 2048;
/// Rows behind the last buffer that partial blocks may read (never write).
const GUARD_ROWS: u64 = 64;

/// Compiles a verified module. `source` is its text (for line numbers), `dump` is called with the name and text of every
/// stage.
///
/// # Errors
/// A program without a lowering, or one too large for the chip.
pub fn compile(
    module: Module,
    chip: &ChipConfig,
    options: &CompileOptions,
    source: &str,
    dump: Option<&mut dyn FnMut(&str, &str)>,
) -> Result<Program, CompileError> {
    let mut quiet = |_: &str, _: &str| {};
    let dumping = dump.is_some();
    let dump: &mut dyn FnMut(&str, &str) = dump.unwrap_or(&mut quiet);
    let name = module.name.clone();
    let mut number = 0;
    let core = lower_to_core(module, &options.passes, &mut |pass, m| {
        if dumping {
            number += 1;
            dump(&format!("{number:02}-{pass}.hlo"), &systole_hlo::graph::print::to_text(m));
        }
    })?;
    let lines = line_starts(source);
    let line = |s: Span| if s == Span::default() { 0 } else { line_of(&lines, s.start) };
    let row_bytes = chip.core.lanes as u64 * 4;
    let total_rows = chip.vmem.bytes / row_bytes;
    let spill = (total_rows / 8).min(SPILL_ROWS);
    let guard = (total_rows / 16).min(GUARD_ROWS);
    let (plan, main) = resident(&core, chip, total_rows - spill - guard, options, &line)?;
    if dumping && !plan.pod.choices.is_empty() {
        let line = |c: &Choice| format!("{}: {}; {}\n", c.name, c.algorithm.name(), c.reason);
        dump("collectives.txt", &plan.pod.choices.iter().map(line).collect::<String>());
    }
    let words = plan.words;
    let mut unit = Unit { kernels: vec![main.kernel] };
    for (k, &base) in plan.kernels.iter().zip(&main.desc_base) {
        let mut kernel = k.kernel.clone();
        kernel.renumber(base);
        unit.kernels.push(kernel);
    }
    unit.kernels.extend(main.subroutines);
    let spill_base = total_rows - spill;
    let schedule_options = ScheduleOptions {
        chaos: options.chaos,
        spill_rows: spill as u32,
        ..ScheduleOptions::new(spill_base as u32, words)
    };
    let scheduled = schedule(&unit, chip, &schedule_options)
        .map_err(|e| CompileError::Internal { stage: "schedule".into(), message: e.to_string() })?;
    if dumping {
        dump("kernels.txt", &unit.to_string());
        dump("schedule.txt", &systole_codegen::schedule::print::listing(&scheduled, chip, true));
    }
    if options.check {
        systole_codegen::schedule::check::check(&scheduled.bundles, chip).map_err(|errors| {
            let message = errors.iter().take(8).map(|e| e.to_string()).collect::<Vec<_>>().join("; ");
            CompileError::Internal { stage: "schedule check".into(), message }
        })?;
    }
    limit("VMEM rows for spilled registers", scheduled.spill_rows as u64, spill)?;
    limit("SMEM words", words as u64 + scheduled.spill_words as u64, chip.smem.bytes / 4)?;
    let code = systole_isa::encode::encode_bundles(&scheduled.bundles, chip)
        .map_err(|e| CompileError::Internal { stage: "encode".into(), message: e.to_string() })?;
    let host = |b: &BufId, name: &str| HostArray {
        address: main.granules[b.index()].unwrap_or(0) * systole_isa::dma::HBM_GRANULE,
        layout: plan.buffers[b.index()].layout.clone(),
        host_dims: None,
        name: name.to_string(),
    };
    // The entry's layout has the shapes that the host knows.
    let known: Vec<&[u64]> = core
        .entry_layout
        .iter()
        .flat_map(|(params, _)| params.iter().flat_map(Shape::leaves))
        .map(|a| a.dims.as_slice())
        .collect();
    let param = |(i, b): (usize, &BufId)| {
        let array = host(b, &plan.buffers[b.index()].name);
        let other = known.get(i).filter(|&&d| d != array.layout.dims).map(|d| d.to_vec());
        HostArray { host_dims: other, ..array }
    };
    let mut constants = Vec::new();
    for (i, b) in plan.buffers.iter().enumerate() {
        if let (BufferKind::Constant(bytes), Some(g)) = (&b.kind, main.granules[i])
            && !bytes.is_empty()
        {
            constants.push(Constant { address: g * systole_isa::dma::HBM_GRANULE, bytes: bytes.clone() });
        }
    }
    Ok(Program {
        name,
        chip: chip.name.clone(),
        fingerprint: chip.fingerprint(),
        bundles: scheduled.bundles.len() as u32,
        code,
        descs: main.descs,
        constants,
        params: plan.params.iter().enumerate().map(param).collect(),
        results: plan
            .results
            .iter()
            .zip(&plan.result_layouts)
            .map(|(b, l)| HostArray { layout: l.clone(), ..host(b, "result") })
            .collect(),
        hbm_bytes: main.hbm_bytes,
        vmem_bytes: match scheduled.spill_rows {
            0 => main.vmem_rows,
            n => spill_base + n as u64,
        } * row_bytes,
        smem_words: words + scheduled.spill_words,
        traps: plan.traps.clone(),
        host_calls: main.host_calls,
        flops: plan.flops,
        peak_dtype: plan.peak_dtype,
        pod: plan.pod.described(),
        debug: DebugInfo {
            source: String::new(),
            ops: plan.ops,
            ranges: scheduled.ranges,
            kernels: scheduled
                .kernels
                .into_iter()
                .map(|k| DebugKernel { name: k.name, start: k.start, bundles: k.bundles })
                .collect(),
            buffers: main.residences,
        },
        ..Program::default()
    })
}

/// Parts of vector memory up to which arrays are kept there as a whole, tried one after the other: what is kept costs no
/// traffic, but all arrays of a kernel must fit together.
const RESIDENT: [(u64, u64); 4] = [(2, 5), (1, 6), (1, 16), (1, 48)];

/// The plan and main program that keep as much in vector memory as fits; exchanges are hidden behind other work if there is
/// memory for it.
fn resident(
    core: &Module,
    chip: &ChipConfig,
    rows: u64,
    options: &CompileOptions,
    line: &dyn Fn(Span) -> u32,
) -> Result<(Plan, main_program::MainProgram), CompileError> {
    let mut failed = None;
    let several = options.passes.pod.devices() > 1;
    let hiding = RESIDENT.iter().filter(|_| several).map(|r| (r, true));
    for (&(part, of), hide) in hiding.chain(RESIDENT.iter().map(|r| (r, false))) {
        let largest = (chip.vmem.bytes / of * part).min(options.max_resident.unwrap_or(u64::MAX));
        let made = plan(core, chip, largest, line, options, hide).and_then(|plan| {
            for k in &plan.kernels {
                renumber_check(&k.descs, k.semaphores)?;
            }
            let main = main_program::emit(&plan, chip, rows)?;
            Ok((plan, main))
        });
        match made {
            Ok(made) => return Ok(made),
            // The first attempt's message speaks of the arrays as the program has them.
            Err(e) if e.is_vmem() => failed = failed.or(Some(e)),
            Err(e) => return Err(e),
        }
    }
    Err(failed.unwrap_or_else(|| CompileError::internal("memory", "no plan was tried")))
}

fn limit(resource: &str, need: u64, have: u64) -> Result<(), CompileError> {
    if need <= have {
        return Ok(());
    }
    Err(CompileError::Limit { resource: resource.to_string(), need, have, detail: String::new() })
}

fn renumber_check(descs: &[DmaDesc], semaphores: u32) -> Result<(), CompileError> {
    limit("DMA descriptors of a kernel", descs.len() as u64, 1 << 16)?;
    limit("semaphores of a kernel", semaphores as u64, crate::plan::KERNEL_SEMAPHORES as u64 - 1)
}

fn line_starts(text: &str) -> Vec<u32> {
    std::iter::once(0).chain(text.bytes().enumerate().filter(|b| b.1 == b'\n').map(|b| b.0 as u32 + 1)).collect()
}

fn line_of(starts: &[u32], at: u32) -> u32 {
    starts.partition_point(|&s| s <= at) as u32
}

/// Plans the entry computation: parameters, steps, results.
fn plan(
    core: &Module,
    chip: &ChipConfig,
    largest_resident: u64,
    lines: &dyn Fn(Span) -> u32,
    options: &CompileOptions,
    hide: bool,
) -> Result<Plan, CompileError> {
    let transfers = core.computations.iter().any(|c| {
        c.nodes
            .iter()
            .any(|n| matches!(n.op, graph::Op::Send { host: false, .. } | graph::Op::Recv { host: false, .. }))
    });
    let pod = PodPlan::new(options.passes.pod.clone(), chip, options.collective, transfers);
    let several = options.passes.pod.devices() > 1;
    let cores = if several { 1 } else { options.cores.clamp(1, chip.cores_per_device.max(1)) };
    let plan = Plan { largest_resident, pod, cores, ..Plan::default() };
    let mut lower = Lower {
        module: core,
        chip,
        plan,
        steps: Vec::new(),
        pending: Vec::new(),
        lines,
        executions: 1.0,
        state_bytes: 0,
    };
    let entry = core.entry();
    let mut params = Vec::new();
    for &p in &entry.params {
        let node = entry.node(p);
        params.push(parameter(&mut lower, &node.shape, &node.name)?);
    }
    let result = lower.region(core.entry, &params)?;
    let mut leaves = Vec::new();
    flatten(&result, &mut leaves);
    for (i, leaf) in leaves.iter().enumerate() {
        let mut v = lower.to_lanes(leaf, &format!("result.{i}"));
        // Parameters and loop states come back through a copy of their own: their memory is written again.
        let kind = &lower.plan.buffers[v.buf.index()].kind;
        if matches!(kind, BufferKind::State | BufferKind::FarState | BufferKind::Param(_)) {
            let copy = lower.array(&format!("result.{i}"), v.dtype(), &v.dims, Form::Lanes);
            let op = lower.named_op("result", "copy");
            lower.steps.push(Step::Copy { src: v.buf, dst: copy.buf, op });
            v = View { buf: copy.buf, ..v };
        }
        lower.plan.results.push(v.buf);
        lower.plan.result_layouts.push(v.layout);
    }
    lower.plan.steps = lower.steps;
    if hide {
        overlap::hide(&mut lower.plan, chip);
    }
    collective::finish(&mut lower.plan, chip);
    Ok(lower.plan)
}

fn flatten(val: &Val, out: &mut Vec<Val>) {
    match val {
        Val::Tuple(t) => t.iter().for_each(|v| flatten(v, out)),
        Val::Token => {}
        Val::Array(_) | Val::Word(..) => out.push(val.clone()),
    }
}

/// An entry parameter: arrays in HBM; integer scalars go to scalar memory at once.
fn parameter(lower: &mut Lower<'_>, shape: &Shape, name: &str) -> Result<Val, CompileError> {
    match shape {
        Shape::Array(a) => {
            let (s, l) = (lower.chip.core.sublanes, lower.chip.core.lanes);
            let layout = Layout::new(a.dtype, &a.dims, &a.layout(), s, l);
            let number = lower.plan.params.len();
            let buf = lower.plan.buffer(name, layout.clone(), BufferKind::Param(number));
            lower.plan.params.push(buf);
            if a.dims.is_empty() && crate::plan::is_scalar_type(a.dtype) {
                let dst = lower.plan.word();
                let op = lower.named_op(name, "parameter");
                lower.steps.push(Step::ReadScalar { buf, dst, dtype: a.dtype, op });
                return Ok(Val::Word(dst, a.dtype));
            }
            Ok(Val::Array(View { buf, dims: a.dims.clone(), form: Form::Lanes, layout }))
        }
        Shape::Tuple(t) => {
            let parts: Result<Vec<Val>, CompileError> =
                t.iter().enumerate().map(|(i, s)| parameter(lower, s, &format!("{name}.{i}"))).collect();
            Ok(Val::Tuple(parts?))
        }
        Shape::Token => Ok(Val::Token),
    }
}
