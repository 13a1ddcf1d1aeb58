//! The whole way: from a verified module to a program.

use crate::emit::unit::emit;
use crate::plan::collective::{Algorithm, Choice};
use crate::plan::memory::vmem_map;
use crate::plan::step::BufferKind;
use crate::plan::{Plan, PlanOptions, plan};
use systole_codegen::schedule::{ScheduleOptions, schedule};
use systole_hlo::error::{CompileError, Resource, limit};
use systole_hlo::graph::{Module, Span};
use systole_isa::dma::HBM_GRANULE;
use systole_isa::program::{Constant, DebugInfo, DebugKernel};
use systole_isa::{ChipConfig, Program};
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
    let mut number = 0;
    let core = lower_to_core(module, &options.passes, &mut |pass, m| {
        if dumping {
            number += 1;
            dump(&format!("{number:02}-{pass}.hlo"), &systole_hlo::graph::print::to_text(m));
        }
    })?;
    let lines = line_starts(source);
    let line = |s: Span| if s == Span::default() { 0 } else { line_of(&lines, s.start) };
    let planning = PlanOptions {
        pod: options.passes.pod.clone(),
        max_resident: options.max_resident,
        collective: options.collective,
        cores: options.cores,
    };
    let plan = plan(&core, chip, &planning, &line)?;
    generate(&plan, chip, options, if dumping { Some(dump) } else { None })
}

/// The program of a plan. `dump` is called with the name and text of every stage.
///
/// # Errors
/// What a plan does not know: more spilled registers or scalars than there is memory for.
pub fn generate(
    plan: &Plan,
    chip: &ChipConfig,
    options: &CompileOptions,
    dump: Option<&mut dyn FnMut(&str, &str)>,
) -> Result<Program, CompileError> {
    let code = emit(plan, chip)?;
    let map = vmem_map(chip);
    let schedule_options = ScheduleOptions {
        chaos: options.chaos,
        spill_rows: map.spill as u32,
        ..ScheduleOptions::new(map.spill_base as u32, plan.words)
    };
    let scheduled = schedule(&code.unit, chip, &schedule_options)
        .map_err(|e| CompileError::Internal { stage: "schedule".into(), message: e.to_string() })?;
    if let Some(dump) = dump {
        if !plan.choices.is_empty() {
            let line = |c: &Choice| format!("{}: {}; {}\n", c.name, c.algorithm.name(), c.reason);
            dump("collectives.txt", &plan.choices.iter().map(line).collect::<String>());
        }
        dump("kernels.txt", &code.unit.to_string());
        dump("schedule.txt", &systole_codegen::schedule::print::listing(&scheduled, chip, true));
    }
    if options.check {
        systole_codegen::schedule::check::check(&scheduled.bundles, chip).map_err(|errors| {
            let message = errors.iter().take(8).map(|e| e.to_string()).collect::<Vec<_>>().join("; ");
            CompileError::Internal { stage: "schedule check".into(), message }
        })?;
    }
    limit(Resource::SpillRows, scheduled.spill_rows as u64, map.spill)?;
    limit(Resource::SmemWords, plan.words as u64 + scheduled.spill_words as u64, chip.smem.bytes / 4)?;
    let bundles = systole_isa::encode::encode_bundles(&scheduled.bundles, chip)
        .map_err(|e| CompileError::Internal { stage: "encode".into(), message: e.to_string() })?;
    let mut constants = Vec::new();
    for a in &plan.arrays {
        if let (BufferKind::Constant(bytes), Some(g)) = (&a.kind, a.granule)
            && !bytes.is_empty()
        {
            constants.push(Constant { address: g * HBM_GRANULE, bytes: bytes.clone() });
        }
    }
    Ok(Program {
        name: plan.name.clone(),
        chip: plan.chip.clone(),
        fingerprint: plan.fingerprint,
        bundles: scheduled.bundles.len() as u32,
        code: bundles,
        descs: code.descs,
        constants,
        params: plan.params.clone(),
        results: plan.results.clone(),
        hbm_bytes: plan.hbm_bytes,
        vmem_bytes: match scheduled.spill_rows {
            0 => plan.vmem_rows,
            n => map.spill_base + n as u64,
        } * chip.row_bytes(),
        smem_words: plan.words + scheduled.spill_words,
        traps: plan.traps.clone(),
        host_calls: code.host_calls,
        flops: plan.flops,
        peak_dtype: plan.peak_dtype,
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
            buffers: plan.residences.clone(),
        },
        ..Program::default()
    })
}

fn line_starts(text: &str) -> Vec<u32> {
    std::iter::once(0).chain(text.bytes().enumerate().filter(|b| b.1 == b'\n').map(|b| b.0 as u32 + 1)).collect()
}

fn line_of(starts: &[u32], at: u32) -> u32 {
    starts.partition_point(|&s| s <= at) as u32
}
