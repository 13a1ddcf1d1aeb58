//! The way from a core graph to a plan.

use super::collective::{self, PodPlan};
use super::guide::{self, Guide};
use super::lower::memo::Memo;
use super::lower::scalar::is_scalar_type;
use super::lower::{Lower, Val};
use super::memory::{kernel_semaphores, vmem_map};
use super::place::{Crowding, Placement, hand_over, place};
use super::planned::{Plan, PlanHead, PlannedArray, PodCode};
use super::step::{BufferKind, Draft, Residency, Step};
use super::view::{BufId, Form, View};
use super::{alone, finish, follow, overlap, padding, start, turns};
use std::collections::BTreeSet;
use systole_hlo::core::CoreModule;
use systole_hlo::error::{CompileError, Resource, limit};
use systole_hlo::graph::{ArrayShape, Computation, Module, Op, Precision, Shape, Span};
use systole_isa::chip::Part;
use systole_isa::dma::HBM_GRANULE;
use systole_isa::program::{HostArray, PodShape};
use systole_isa::{ChipConfig, Layout};
use systole_passes::edit::base_name;

/// What a plan depends on besides the program and the chip.
#[derive(Clone, Debug, Default)]
pub struct PlanOptions {
    pub pod: PodShape,
    /// Cores of a device that share the work (programs of one device; at most the chip's).
    pub cores: u32,
    /// The least precision of f32 products in kernels that have their own code.
    pub precision: Precision,
    /// Decisions from outside.
    pub guide: Guide,
}

/// Parts of vector memory up to which arrays are kept there as a whole, tried one after the other: what is kept costs no
/// traffic, but all arrays of a kernel must fit together. The first is for programs of which few arrays are so large.
const RESIDENT: [(u64, u64); 11] =
    [(3, 5), (2, 5), (1, 4), (1, 6), (1, 8), (1, 12), (1, 16), (1, 24), (1, 48), (1, 64), (1, 128)];
/// Plans with the same part: after each, arrays for which there was no room, and those that loops bring in whole every time
/// round for a part of them, are streamed though they are not larger.
const AGAIN: usize = 5;

/// The plan that keeps as much in vector memory as fits; exchanges are hidden behind other work if there is memory for it.
/// `line` says where in the source text a node is; `memo` is of this module, chip and guide. With the plan comes whether
/// [`Guide::few_aside`](super::guide::Guide::few_aside) would have made another one.
///
/// # Errors
/// A program without a lowering, or one too large for the chip.
pub fn plan(
    core: &CoreModule,
    chip: &ChipConfig,
    options: &PlanOptions,
    line: &dyn Fn(Span) -> u32,
    memo: &Memo,
) -> Result<(Plan, bool), CompileError> {
    let asked = Asked { core, chip, options, line, memo };
    asked.attempts().map_err(|e| options.guide.schedule.named(e))
}

/// What an attempt at a plan has come upon.
#[derive(Default)]
struct Attempt {
    /// What stood in the way of steps, or is brought in again and again.
    crowding: Vec<String>,
    /// Whether it is a choice how much of that is streamed.
    choice: bool,
    /// Loops that cores cannot share.
    apart: Vec<String>,
    /// Products do on the way what loops leave to them; loops bring parts ahead.
    begun: bool,
    ahead: bool,
    /// Bytes of whole arrays that are copied, if it has a place for all.
    copied: Option<u64>,
}

/// What takes room in a plan, if there is any.
#[derive(Clone, Copy)]
struct Wanted {
    /// Exchanges are hidden.
    hide: bool,
    /// Products begin with what loops leave them.
    begin: bool,
    /// Loops bring parts turns before they are wanted.
    ahead: bool,
}

/// A plan that is asked for.
struct Asked<'a> {
    core: &'a CoreModule,
    chip: &'a ChipConfig,
    options: &'a PlanOptions,
    line: &'a dyn Fn(Span) -> u32,
    memo: &'a Memo,
}

impl Asked<'_> {
    fn attempts(&self) -> Result<(Plan, bool), CompileError> {
        let &Asked { core, chip, options, .. } = self;
        // One for copies of whole arrays, beside those that kernels number.
        limit(Resource::Semaphores, u64::from(kernel_semaphores(chip)) + 1, u64::from(chip.core.semaphores))?;
        let mut failed = None;
        let mut choice = false;
        let several = options.pod.devices() > 1;
        let hiding = RESIDENT.iter().filter(|_| several).map(|r| (r, true));
        for (&(part, of), hide) in hiding.chain(RESIDENT.iter().map(|r| (r, false))) {
            let largest = (chip.vmem.bytes / of * part).min(options.guide.max_resident.unwrap_or(u64::MAX));
            let (mut streamed, mut together) = (BTreeSet::new(), BTreeSet::new());
            let most = (part, of) == RESIDENT[0];
            let mut again = 0;
            // A plan that fits, though its loops bring arrays in every time round.
            let mut fits = None;
            // What a schedule asks for and that plan does not hold.
            let mut unheld = None;
            loop {
                let kept = (largest, &streamed, &together);
                let attempt = |begin: bool, ahead: bool| {
                    let mut tried = Attempt::default();
                    let made = self.draft(kept, Wanted { hide, begin, ahead }).and_then(|draft| {
                        draft.check(chip)?;
                        (tried.begun, tried.ahead) = (draft.begun, draft.ahead > 0);
                        let mut crowding = Crowding { few: options.guide.few_aside, ..Crowding::default() };
                        let placement = place(&draft, chip, vmem_map(chip).arrays, &mut crowding);
                        let Crowding { mut arrays, choice, .. } = crowding;
                        tried.choice = choice;
                        arrays.extend(placement.iter().flat_map(|p| &p.reloaded));
                        tried.crowding = arrays.iter().map(|b| draft.buffers[b.index()].name.clone()).collect();
                        let placement = placement?;
                        tried.copied = Some(placement.copied);
                        tried.apart =
                            placement.together.iter().map(|op| draft.ops[*op as usize].name.clone()).collect();
                        guide::check(&draft, &options.guide.schedule)?;
                        planned(core, draft, placement, chip)
                    });
                    (made, tried)
                };
                let (mut made, mut tried) = attempt(true, true);
                let crowded = |(made, tried): (&Result<Plan, CompileError>, &Attempt)| {
                    !tried.crowding.is_empty() || made.as_ref().is_err_and(CompileError::is_vmem)
                };
                // Parts that come before they are wanted take room from arrays that would have stayed.
                if tried.ahead {
                    let (other, plain) = attempt(true, false);
                    let more = tried.copied.zip(plain.copied).is_some_and(|(ahead, plain)| ahead > plain);
                    if crowded((&made, &tried)) || more {
                        (made, tried) = (other, plain);
                    }
                }
                // What loops leave to products takes more room than what they would make.
                if tried.begun && crowded((&made, &tried)) {
                    (made, tried) = attempt(false, false);
                }
                let Attempt { crowding, choice: open, apart, .. } = tried;
                choice |= open;
                // Loops that cores share have to be such as can be shared.
                if !apart.is_empty() {
                    together.extend(apart);
                    continue;
                }
                match made {
                    Ok(made) => fits = Some(made),
                    // The first attempt's message speaks of the arrays as the program has them.
                    Err(e) if e.is_vmem() && !most => failed = failed.or(Some(e)),
                    Err(e) if e.is_vmem() => {}
                    Err(e @ CompileError::Schedule { .. }) => unheld = unheld.or(Some(e)),
                    Err(e) => return Err(e),
                }
                let before = streamed.len();
                streamed.extend(crowding);
                again += 1;
                if streamed.len() == before || again >= AGAIN {
                    break;
                }
            }
            if let Some(made) = fits {
                return Ok((made, choice));
            }
            if let Some(e) = unheld {
                return Err(e);
            }
        }
        Err(failed.unwrap_or_else(|| CompileError::internal("memory", "no plan was tried")))
    }

    /// Lowers the entry computation: parameters, steps, results. If there is room, exchanges are hidden and products begin with what loops
    /// leave them.
    fn draft(
        &self,
        (largest, streamed, together): (u64, &BTreeSet<String>, &BTreeSet<String>),
        Wanted { hide, begin, ahead }: Wanted,
    ) -> Result<Draft, CompileError> {
        let &Asked { core, chip, options, line: lines, memo } = self;
        let transfers = core.computations.iter().any(|c| {
            c.nodes.iter().any(|n| matches!(n.op, Op::Send { host: false, .. } | Op::Recv { host: false, .. }))
        });
        let pod = PodPlan::new(options.pod.clone(), chip, options.guide.collective, transfers);
        let cores = options.cores.clamp(1, chip.cores_per_device.max(1));
        let (streamed, together) = (streamed.clone(), together.clone());
        let residency = Residency { largest, streamed, kept: Vec::new() };
        let plan = Draft { residency, together, pod, cores, ..Draft::default() };
        let mut lower = Lower {
            module: core,
            chip,
            plan,
            steps: Vec::new(),
            pending: Vec::new(),
            lines,
            counted: Default::default(),
            state_bytes: 0,
            turns: 1,
            precision: options.precision,
            guide: &options.guide,
            memo,
            failed: None,
        };
        let entry = core.entry();
        let mut params = Vec::new();
        for &p in &entry.params {
            let node = entry.node(p);
            params.push(parameter(&mut lower, &node.shape, own_name(entry, &node.name))?);
            lower.plan.param_spans.resize(lower.plan.params.len(), node.span);
        }
        for a in core.aliases.iter().filter(|a| a.parameter_index.is_empty()) {
            if let Some(Val::Array(v)) = params.get(a.parameter) {
                lower.plan.donated.push(v.buf);
            }
        }
        let result = lower.region(core.entry, &params)?;
        let mut leaves = Vec::new();
        flatten(&result, &mut leaves);
        for (i, leaf) in leaves.iter().enumerate() {
            let mut v = lower.to_lanes(leaf, &format!("result.{i}"));
            // Parameters come back through a copy of their own, and so does what comes back twice.
            let kind = &lower.plan.buffers[v.buf.index()].kind;
            if matches!(kind, BufferKind::Param(_)) || lower.plan.results.contains(&v.buf) {
                let copy = lower.array(&format!("result.{i}"), v.dtype(), &v.dims, Form::Lanes);
                let op = lower.named_op("result", "copy");
                lower.steps.push(Step::Copy { src: v.buf, dst: copy.buf, op });
                v = View { buf: copy.buf, ..v };
            }
            lower.plan.results.push(v.buf);
            lower.plan.result_layouts.push(v.layout);
        }
        if let Some(e) = lower.failed {
            return Err(e);
        }
        lower.plan.steps = lower.steps;
        finish::products(&mut lower.plan, chip, &options.guide, memo);
        if begin {
            start::products(&mut lower.plan, chip, &options.guide, memo);
            follow::products(&mut lower.plan, chip, &options.guide, memo);
        }
        guide::pinned(&mut lower.plan, &options.guide.schedule)?;
        hand_over(&mut lower.plan);
        if hide {
            overlap::hide(&mut lower.plan, chip);
        }
        lower.plan.steps = overlap::leave_alone(std::mem::take(&mut lower.plan.steps));
        collective::finish(&mut lower.plan, chip);
        if ahead {
            turns::ahead(&mut lower.plan, chip);
        }
        padding::note(&mut lower.plan);
        Ok(lower.plan)
    }
}

/// A placed draft as a plan.
fn planned(core: &Module, draft: Draft, placed: Placement, chip: &ChipConfig) -> Result<Plan, CompileError> {
    let host = |b: BufId, name: &str, layout: &Layout| {
        let nowhere = || CompileError::internal("placement", format!("`{name}` has no place in HBM"));
        let granule = placed.granules[b.index()].ok_or_else(nowhere)?;
        let (layout, name) = (layout.clone(), name.to_string());
        Ok::<_, CompileError>(HostArray { address: granule * HBM_GRANULE, layout, host_dims: None, name })
    };
    // The entry's layout has the shapes that the host knows, and orders of dimensions in which the program has them.
    let known: Vec<&ArrayShape> =
        core.entry_layout.iter().flat_map(|(params, _)| params.iter().flat_map(Shape::leaves)).collect();
    let mut params = Vec::new();
    for (i, b) in draft.params.iter().enumerate() {
        let buffer = &draft.buffers[b.index()];
        let known = known.get(i).copied();
        let layout = known.and_then(|a| in_order(&buffer.layout, a)).unwrap_or_else(|| buffer.layout.clone());
        let host_dims = known.filter(|a| a.dims != layout.dims).map(|a| a.dims.clone());
        params.push(HostArray { host_dims, ..host(*b, &buffer.name, &layout)? });
    }
    let known: Vec<&ArrayShape> = core.entry_layout.iter().flat_map(|(_, result)| result.leaves()).collect();
    let mut results = Vec::new();
    for (i, (b, l)) in draft.results.iter().zip(&draft.result_layouts).enumerate() {
        let known = known.get(i).copied();
        let layout = known.and_then(|a| in_order(l, a)).unwrap_or_else(|| l.clone());
        let host_dims = known.filter(|a| a.dims != layout.dims).map(|a| a.dims.clone());
        results.push(HostArray { host_dims, ..host(*b, "result", &layout)? });
    }
    let granule = |b: BufId| placed.granules[b.index()];
    let pod = PodCode {
        tables: draft.pod.constant.and_then(granule),
        words: draft.pod.words(),
        base: draft.pod.base,
        state: draft.pod.state,
        shape: PodShape { behind: alone::behind(&placed.actions, &draft.ops), ..draft.pod.described() },
    };
    let mut kernels = draft.kernels;
    kernels.extend(placed.kernels);
    let array = |(b, &granule): (super::step::Buffer, &Option<u64>)| PlannedArray {
        name: b.name,
        layout: b.layout,
        kind: b.kind,
        granule,
    };
    Ok(Plan {
        head: PlanHead {
            name: core.name.clone(),
            chip: chip.name.clone(),
            fingerprint: chip.fingerprint(),
            part: Part::default(),
            cores: draft.cores,
            words: draft.words,
            hbm_bytes: placed.hbm_bytes,
            cmem_from: (chip.device_cmem_bytes() > 0).then(|| chip.device_hbm_bytes() / HBM_GRANULE),
            vmem_rows: placed.vmem_rows,
            traps: draft.traps,
        },
        arrays: draft.buffers.into_iter().zip(&placed.granules).map(array).collect(),
        kernels,
        splits: draft.splits.into_iter().chain(placed.splits).collect(),
        actions: placed.actions,
        ops: draft.ops,
        members: draft.members,
        params,
        results,
        pod,
        choices: draft.pod.choices,
        residences: placed.residences,
    })
}

/// The layout of an array that the host knows as `known` and the program has row-major in another order of dimensions.
fn in_order(own: &Layout, known: &ArrayShape) -> Option<Layout> {
    let order = known.minor_to_major.as_ref()?;
    let row_major = own.minor_to_major.iter().rev().map(|&d| usize::from(d)).eq(0..own.dims.len());
    let turned = Layout::new(own.dtype, &known.dims, order, own.sublanes, own.lanes);
    (row_major && own.dims.len() == known.dims.len() && turned.physical() == own.dims).then_some(turned)
}

/// A parameter's name in the program, where what turns its elements into the program's form has that name now.
fn own_name<'a>(entry: &Computation, name: &'a str) -> &'a str {
    let base = base_name(name);
    if entry.nodes.iter().any(|n| n.name == base) { base } else { name }
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
            if a.dims.is_empty() && is_scalar_type(a.dtype) {
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
