//! The whole way: from a verified module to a program.

use crate::emit::kernel::emit_kernel;
use crate::emit::unit::{ProgramCode, emit};
use crate::plan::guide::Guide;
use crate::plan::memory::vmem_map;
use crate::plan::spec::KernelSpec;
use crate::plan::step::BufferKind;
use crate::plan::{Plan, PlanOptions, plan, text};
use crate::shared::{Dump, Lowered, Shared, Stages};
use systole_codegen::check::CheckError;
use systole_codegen::estimate::cycles;
use systole_codegen::kernel::arguments;
use systole_codegen::schedule::{Done, ScheduleError, ScheduleOptions, Scheduled, schedule_known};
use systole_hlo::error::{CompileError, Resource, limit};
use systole_hlo::graph::{ArrayShape, Module, NodeId, Span};
use systole_isa::chip::Part;
use systole_isa::dma::HBM_GRANULE;
use systole_isa::program::{Constant, DebugBuffer, DebugInfo, DebugKernel, DebugRange, MemoryUse, SPILLED};
use systole_isa::{ChipConfig, Program, Space};
use systole_passes::pipeline::PassOptions;

/// What to compile for, and how.
#[derive(Clone, Debug)]
pub struct CompileOptions {
    pub passes: PassOptions,
    /// A seed for random legal scheduling choices.
    pub chaos: Option<u64>,
    /// Cores of a device that share the work (programs of one device; at most the chip's).
    pub cores: u32,
    /// Decisions of the planner from outside.
    pub guide: Guide,
    /// What the program may use of the chip. [`Self::passes`] are for that.
    pub part: Part,
    /// Whether the emitted bundles are proved to do what the kernels say. Builds with debug assertions do so by default.
    pub verify: bool,
}

impl CompileOptions {
    /// The defaults for a chip.
    pub fn for_chip(chip: &ChipConfig) -> CompileOptions {
        CompileOptions {
            passes: PassOptions::for_chip(chip),
            chaos: None,
            cores: 1,
            guide: Guide::default(),
            part: Part::default(),
            verify: cfg!(debug_assertions),
        }
    }
}

/// A program, and what was chosen on the way to it.
pub struct Compiled {
    pub program: Program,
    pub found: Found,
}

/// What a program turned out to have, which says what other ways to compile it are worth trying.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Chains that are done strip by strip ([`PassOptions::strips`]).
    pub strips: usize,
    /// Whether a loop does parts of other iterations beside one's work ([`PassOptions::ahead`]).
    pub ahead: bool,
    /// Whether [`Guide::few_aside`] would have made another plan.
    pub crowded: bool,
}

/// Compiles a verified module. `source` is its text (for line numbers); `dump` gets what every stage changed.
///
/// # Errors
/// A program without a lowering, or one too large for the chip.
pub fn compile(
    module: Module,
    chip: &ChipConfig,
    options: &CompileOptions,
    source: &str,
    dump: Option<&mut Dump<'_>>,
) -> Result<Compiled, CompileError> {
    compile_sharing(&module, (chip, options), source, dump, &Shared::default())
}

/// [`compile`], with what other attempts at the same module found out. They dump nothing.
///
/// # Errors
/// As there.
pub fn compile_sharing(
    module: &Module,
    (chip, options): (&ChipConfig, &CompileOptions),
    source: &str,
    dump: Option<&mut Dump<'_>>,
    shared: &Shared,
) -> Result<Compiled, CompileError> {
    let mut stages = Stages::new(dump);
    let (mut plan, found) = planned(module, (chip, options), source, &mut stages, shared)?;
    if let Some(dump) = &mut stages.dump {
        estimate(&mut plan, &chip.part(&options.part));
        dump("plan.txt", &text::to_text(&plan));
    }
    let program = generated(&plan, (chip, options), stages.dump, &shared.done)?;
    Ok(Compiled { program, found })
}

/// The plan of a verified module with an estimate of every kernel; see [`compile`].
///
/// What does not fit with chains done strip by strip is planned without.
///
/// # Errors
/// A program without a lowering, or one too large for the chip.
pub fn plan_module(
    module: Module,
    chip: &ChipConfig,
    options: &CompileOptions,
    source: &str,
) -> Result<Plan, CompileError> {
    let (mut plan, _) = planned(&module, (chip, options), source, &mut Stages::default(), &Shared::default())?;
    estimate(&mut plan, &chip.part(&options.part));
    Ok(plan)
}

/// The plan of a module, with the estimates that choices were made by.
fn planned(
    module: &Module,
    (chip, options): (&ChipConfig, &CompileOptions),
    source: &str,
    stages: &mut Stages<'_, '_>,
    shared: &Shared,
) -> Result<(Plan, Found), CompileError> {
    let lines = line_starts(source);
    let line = |s: Span| if s == Span::default() { 0 } else { line_of(&lines, s.start) };
    let planning = PlanOptions {
        pod: options.passes.asked.pod.clone(),
        cores: options.cores,
        precision: options.passes.asked.precision,
        guide: options.guide.clone(),
    };
    let used = chip.part(&options.part);
    has_room(module, &used)?;
    let planned = |l: &Lowered| {
        let (mut made, crowded) = plan(&l.core, &used, &planning, &line, &l.memo)?;
        (made.head.fingerprint, made.head.part) = (chip.fingerprint(), options.part);
        Ok((made, Found { strips: l.strips, ahead: l.ahead, crowded }))
    };
    let lowered = shared.lowered(module, &options.passes, stages)?;
    match planned(&lowered) {
        Err::<_, CompileError>(e) if e.is_vmem() && lowered.strips > 0 => {
            let passes = PassOptions { strips: 0, ..options.passes.clone() };
            planned(&*shared.lowered(module, &passes, stages)?)
        }
        done => done,
    }
}

/// That HBM has room for what the host writes, and for each array that it reads, without any padding: what has none is refused before
/// anything is made of it.
fn has_room(module: &Module, chip: &ChipConfig) -> Result<(), CompileError> {
    let have = chip.device_hbm_bytes();
    let bytes = |a: &ArrayShape| {
        let elements = a.dims.iter().fold(1u64, |n, &d| n.saturating_mul(d));
        elements.saturating_mul(u64::from(a.dtype.bits())) / 8
    };
    let entry = module.entry();
    let check = |id: NodeId, own: u64, need: u64| {
        let node = entry.node(id);
        let detail = format!(" (placing `{}`, {own} bytes)", node.name);
        let limit = CompileError::Limit { resource: Resource::Hbm, need, have, detail };
        if need <= have { Ok(()) } else { Err(limit.at(node.span)) }
    };
    let mut need = 0u64;
    for &p in &entry.params {
        for own in entry.node(p).shape.leaves().into_iter().map(bytes) {
            need = need.saturating_add(own);
            check(p, own, need)?;
        }
    }
    entry.node(entry.root).shape.leaves().into_iter().map(bytes).try_for_each(|own| check(entry.root, own, own))
}

/// Estimates kernels from their scheduled code, and what else was considered of them. What is not scheduled alone keeps the
/// estimate that it was chosen by.
fn estimate(plan: &mut Plan, chip: &ChipConfig) {
    let spills = (vmem_map(chip).spill_base as u32, plan.head.words);
    for k in &mut plan.kernels {
        let of = |spec: &KernelSpec| {
            // By itself it has nothing to look after.
            let code = emit_kernel(&spec.without_looks(), &k.name, 0, chip).ok()?;
            cycles(&code.kernel, &code.descs, spills, chip).ok()
        };
        k.cycles = of(&k.spec).or(k.cycles);
        for c in &mut k.considered {
            if let Some(cycles) = k.spec.made(c.way).and_then(|spec| of(&spec)) {
                c.cycles = cycles;
            }
        }
    }
}

/// The code of a plan before and after scheduling.
pub struct ScheduledCode {
    pub code: ProgramCode,
    pub scheduled: Scheduled,
}

/// The bundles of a plan, not yet encoded or proved, with the kernels that they were made of.
///
/// # Errors
/// A kernel that the chip has no registers or slots for, or a plan that does not go together.
pub fn schedule_code(plan: &Plan, chip: &ChipConfig, options: &CompileOptions) -> Result<ScheduledCode, CompileError> {
    scheduled(plan, (&chip.part(&plan.head.part), options), &mut None, &Done::default())
}

fn scheduled(
    plan: &Plan,
    (chip, options): (&ChipConfig, &CompileOptions),
    dump: &mut Option<&mut Dump<'_>>,
    done: &Done<KernelSpec>,
) -> Result<ScheduledCode, CompileError> {
    let code = emit(plan, chip)?;
    if let Some(dump) = dump {
        dump("kernels.txt", &code.unit.to_string());
    }
    let map = vmem_map(chip);
    let options = ScheduleOptions {
        chaos: options.chaos,
        spill_rows: map.spill as u32,
        ..ScheduleOptions::new(map.spill_base as u32, plan.head.words)
    };
    // The main program comes first. What looks after exchanges calls kernels by numbers that are the program's own.
    let key = |i: usize| {
        let spec = &plan.kernels.get(i.checked_sub(1)?)?.spec;
        Some((spec, (*code.first_descs.get(i - 1)?)?)).filter(|k| k.0.looks().is_none())
    };
    let scheduled = schedule_known(&code.unit, chip, &options, &key, done).map_err(unscheduled)?;
    Ok(ScheduledCode { code, scheduled })
}

/// What the checker found, as the bug that it is.
fn unproved(errors: Vec<CheckError>) -> CompileError {
    let message = errors.iter().take(8).map(CheckError::to_string).collect::<Vec<_>>().join("; ");
    CompileError::internal("schedule check", message)
}

/// The program of a plan. Plans that were read are to be [verified](crate::plan::verify::verify) first.
///
/// # Errors
/// What a plan does not know: more spilled registers or scalars than there is memory for.
pub fn generate(
    plan: &Plan,
    chip: &ChipConfig,
    options: &CompileOptions,
    dump: Option<&mut Dump<'_>>,
) -> Result<Program, CompileError> {
    generated(plan, (chip, options), dump, &Done::default())
}

fn generated(
    plan: &Plan,
    (chip, options): (&ChipConfig, &CompileOptions),
    mut dump: Option<&mut Dump<'_>>,
    done: &Done<KernelSpec>,
) -> Result<Program, CompileError> {
    let whole = chip;
    let chip = &chip.part(&plan.head.part);
    let ScheduledCode { code, scheduled } = scheduled(plan, (chip, options), &mut dump, done)?;
    let map = vmem_map(chip);
    if let Some(dump) = dump {
        dump("schedule.txt", &systole_codegen::schedule::print::listing(&scheduled, chip, true));
    }
    if options.verify {
        scheduled.verify(&code.unit, chip).map_err(unproved)?;
    }
    let area = &scheduled.spilled;
    limit(Resource::SpillRows, area.rows.len() as u64, map.spill)?;
    let words = plan.head.words + area.words.len() as u32;
    let (arguments, smem_words) = match code.argument_words {
        0 => (chip.smem.bytes / 4, words),
        n => (arguments::end_of_words(chip).saturating_sub(u64::from(n)), arguments::end_of_words(chip) as u32),
    };
    limit(Resource::SmemWords, u64::from(words), arguments)?;
    let bundles = systole_isa::encode::encode_bundles(&scheduled.bundles, whole)
        .map_err(|e| CompileError::Internal { stage: "encode".into(), message: e.to_string() })?;
    let mut constants = Vec::new();
    for a in &plan.arrays {
        if let (BufferKind::Constant(bytes), Some(g)) = (&a.kind, a.granule)
            && !bytes.is_empty()
        {
            constants.push(Constant { address: g * HBM_GRANULE, bytes: bytes.clone() });
        }
    }
    let spills = scheduled.kernels.iter().filter(|k| k.spilled.1 > 0).map(|k| DebugBuffer {
        name: format!("{SPILLED}{}", k.name),
        space: Space::Vmem,
        address: u64::from(k.spilled.0) * chip.row_bytes(),
        bytes: u64::from(k.spilled.1) * chip.row_bytes(),
        first: DebugRange::NONE,
        last: DebugRange::NONE,
    });
    let spilled: Vec<DebugBuffer> = spills.collect();
    let rows = if area.rows.is_empty() { plan.head.vmem_rows } else { u64::from(area.rows.end) };
    Ok(Program {
        name: plan.head.name.clone(),
        chip: plan.head.chip.clone(),
        fingerprint: plan.head.fingerprint,
        bundles: scheduled.bundles.len() as u32,
        code: bundles,
        descs: code.descs,
        constants,
        params: plan.params.clone(),
        results: plan.results.clone(),
        memory: MemoryUse { hbm_bytes: plan.head.hbm_bytes, vmem_bytes: rows * chip.row_bytes(), smem_words },
        traps: plan.head.traps.clone(),
        host_calls: code.host_calls,
        pod: plan.pod.shape.clone(),
        debug: DebugInfo {
            source: String::new(),
            ops: plan.ops.clone(),
            ranges: scheduled.ranges,
            kernels: scheduled
                .kernels
                .into_iter()
                .map(|k| DebugKernel { name: k.name, start: k.start, bundles: k.bundles })
                .collect(),
            buffers: [plan.residences.clone(), spilled].concat(),
            places: scheduled.places,
            lines: scheduled.lines,
        },
    })
}

/// What a chip lacks is a limit; anything else is a bug.
fn unscheduled(e: ScheduleError) -> CompileError {
    match &e {
        ScheduleError::Registers { kernel, short } | ScheduleError::Arguments { kernel, short } => {
            CompileError::Limit {
                resource: Resource::Registers { file: short.file.name(), kernel: kernel.clone() },
                need: u64::from(short.need),
                have: u64::from(short.have),
                detail: String::new(),
            }
        }
        ScheduleError::NoSlot { .. } | ScheduleError::NoKernel { .. } => {
            CompileError::internal("schedule", e.to_string())
        }
    }
}

fn line_starts(text: &str) -> Vec<u32> {
    std::iter::once(0).chain(text.bytes().enumerate().filter(|b| b.1 == b'\n').map(|b| b.0 as u32 + 1)).collect()
}

fn line_of(starts: &[u32], at: u32) -> u32 {
    starts.partition_point(|&s| s <= at) as u32
}
