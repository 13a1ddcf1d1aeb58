//! Software pipelining of an innermost counted loop: the plan ([`plan`]) and its emission ([`emit`]).
//!
//! Iteration `j` of the (perhaps unrolled) body issues its node `i` at flat time `time[i] + j * ii`. The flat code is cut
//! into a prologue, a loop whose round covers `copies` iterations, and an epilogue. Registers that live only within an
//! iteration get `copies` names, used in turn, so that iterations under way never share one; other registers keep their
//! name, and the dependence graph holds their order.

use super::body::{Names, Node, fold_sums, rename_inner};
use super::chaos::Chaos;
use super::code::{Code, Least, PipelineReport, RegionKind};
use super::deps::{self, Cyclic};
use super::induction::{LoopBody, analyse, shifted, unroll};
use super::list::width;
use super::modulo::{self, Modulo};
use crate::kernel::regs::{File, Reg};
use crate::kernel::{LoopHints, VInst};
use rustc_hash::{FxHashMap, FxHashSet};
use systole_isa::{ChipConfig, Inst, Op, Slot};

/// Bundles of a round at least, so that the taken branch costs little.
const ROUND: u32 = 32;
/// Bundles of prologue, round and epilogue at most.
const MAX_BUNDLES: u64 = 1536;
/// What a register of a file is worth of which all are needed.
const WORTH: u32 = 16;
/// Nodes of an unrolled body at most.
const MAX_NODES: usize = 160;
/// Nodes of a body at most: dependences grow with their square.
const MAX_BODY: usize = 2048;

/// What the planner is given.
pub struct Request<'a> {
    pub chip: &'a ChipConfig,
    pub body: &'a [&'a VInst],
    pub trips: u32,
    pub hints: &'a LoopHints,
    /// Whether a register of the kernel is used only in this body.
    pub is_local: &'a dyn Fn(Reg) -> bool,
    /// Share of the register files that the loop may fill, in 1/8.
    pub register_share: u32,
}

/// A loop ready to be emitted.
pub struct Plan {
    body: LoopBody,
    modulo: Modulo,
    temporary: FxHashSet<Reg>,
    /// Pipelined iterations; trips left over for plain code after the loop.
    iterations: u32,
    pub remainder: u32,
    copies: u32,
    rounds: u32,
    report: PipelineReport,
}

/// Plans a loop; `None` if it is better scheduled as a plain loop.
pub fn plan(q: &Request<'_>, names: &mut Names, chaos: &mut Chaos) -> Option<Plan> {
    if q.body.len() > MAX_BODY {
        return None;
    }
    let mut unfolded = FxHashSet::default();
    for _ in 0..8 {
        let mut nodes: Vec<Node> = q.body.iter().map(|v| Node::new(v)).collect();
        rename_inner(&mut nodes, names);
        fold_sums(&mut nodes, names, q.is_local);
        let body = analyse(nodes, names, q.is_local, &unfolded);
        if body.nodes.is_empty() {
            return None;
        }
        let factor = factor(q, &body);
        let Some(unrolled) = unroll(&body, factor) else {
            unfolded.extend(body.inductions.iter().map(|i| i.reg));
            continue;
        };
        let p = match plan_unrolled(q, unrolled, factor, names, chaos) {
            // Registers may not do for several iterations at the interval that the slots allow.
            Some(p) if factor > 1 && p.modulo.ii > p.report.least.recurrence => {
                let one = plan_unrolled(q, body, 1, names, chaos);
                one.filter(|one| one.modulo.ii * factor <= p.modulo.ii).unwrap_or(p)
            }
            Some(p) => p,
            None if factor > 1 => plan_unrolled(q, body, 1, names, chaos)?,
            None => return None,
        };
        let out_of_range = p.unreachable();
        if out_of_range.is_empty() {
            return Some(p);
        }
        unfolded.extend(out_of_range);
    }
    None
}

/// Copies of the body per pipelined iteration, so that the slots' cycles per trip come close to a whole number.
fn factor(q: &Request<'_>, body: &LoopBody) -> u32 {
    let (cycles, per) = modulo::resource_bound(&body.nodes, q.chip);
    let cost = |u: u32| ((cycles * u).div_ceil(per)) as f64 / u as f64;
    let mut best = 1;
    for u in 2..=4u32 {
        let room = u <= q.hints.max_unroll && u * 2 <= q.trips && body.nodes.len() * u as usize <= MAX_NODES;
        let gain = cost(u) < cost(best) * 0.93;
        if room && gain && (q.trips.is_multiple_of(u) || q.trips >= 4 * u) {
            best = u;
        }
    }
    best
}

fn plan_unrolled(
    q: &Request<'_>,
    mut body: LoopBody,
    factor: u32,
    names: &mut Names,
    chaos: &mut Chaos,
) -> Option<Plan> {
    rename_inner(&mut body.nodes, names);
    fold_sums(&mut body.nodes, names, q.is_local);
    let temporary = temporaries(&body.nodes, &|r| names.is_new(r) || (q.is_local)(r));
    let steps: Vec<i32> = body.inductions.iter().map(|i| i.step).collect();
    let is_temporary = |r: Reg| temporary.contains(&r);
    let cyclic = Cyclic { is_temporary: &is_temporary, independent: &q.hints.independent, steps: &steps };
    let graph = deps::build(&body.nodes, q.chip, Some(&cyclic));
    let (cycles, per) = modulo::resource_bound(&body.nodes, q.chip);
    let least = cycles.div_ceil(per);
    let most = least + super::list::heights(&graph).into_iter().max().unwrap_or(0) as u32 + 8;
    let recurrence = modulo::recurrence_bound(&graph, least, most)?;
    let iterations = q.trips / factor;
    let mut ii = recurrence + chaos.below(4) as u32;
    let mut modulo = None;
    for _ in 0..24 {
        if ii > most {
            break;
        }
        let fits = |m: &Modulo| pressure(q, &body.nodes, m, &temporary, body.inductions.len());
        match modulo::schedule(&body.nodes, &graph, q.chip, ii, 5) {
            Some(mut m) => {
                let mut pressure = fits(&m);
                if !pressure.fits() {
                    modulo::settle(&body.nodes, &graph, q.chip, &mut m, &|r| pressure.worth(r));
                    pressure = fits(&m);
                }
                if pressure.fits() {
                    modulo = Some(m);
                    break;
                }
                ii += (ii / 8).max(1);
            }
            None => ii += (ii / 10).max(1),
        }
    }
    let modulo = modulo?;
    let (copies, rounds) = rounds(&body.nodes, &modulo, &temporary, iterations)?;
    let report = PipelineReport {
        trips: q.trips,
        unroll: factor,
        ii: modulo.ii,
        stages: modulo.stages(),
        copies,
        rounds,
        least: Least { slots: least, recurrence },
    };
    let remainder = q.trips - iterations * factor;
    Some(Plan { body, modulo, temporary, iterations, remainder, copies, rounds, report })
}

/// Registers whose every use follows a definition of the same iteration and that no other code reads.
fn temporaries(nodes: &[Node], is_local: &dyn Fn(Reg) -> bool) -> FxHashSet<Reg> {
    let mut out = FxHashSet::default();
    let mut carried = FxHashSet::default();
    for n in nodes {
        for r in n.registers() {
            if r.is_use && !out.contains(&r.reg) {
                carried.insert(r.reg);
            }
        }
        for r in n.registers().filter(|r| r.is_def) {
            if is_local(r.reg) && !carried.contains(&r.reg) {
                out.insert(r.reg);
            }
        }
    }
    out
}

/// First definition time and last use time of each temporary.
fn lifetimes(nodes: &[Node], m: &Modulo, temporary: &FxHashSet<Reg>) -> FxHashMap<Reg, (u32, u32)> {
    let mut life: FxHashMap<Reg, (u32, u32)> = FxHashMap::default();
    for (n, &t) in nodes.iter().zip(&m.time) {
        for r in n.registers().filter(|r| temporary.contains(&r.reg)) {
            let l = life.entry(r.reg).or_insert((t, t));
            *l = (l.0.min(t), l.1.max(t));
        }
    }
    life
}

/// Registers of every physical file, by [`File`], that a schedule needs at once, and those that it may have.
struct Pressure {
    need: [u32; 4],
    have: [u32; 4],
}

impl Pressure {
    fn fits(&self) -> bool {
        self.need.iter().zip(&self.have).all(|(need, have)| need <= have)
    }

    /// What a register is worth: the more, the more of its file are needed for what there are.
    fn worth(&self, r: Reg) -> u32 {
        let (file, width) = r.file().physical();
        (WORTH * self.need[file as usize] / self.have[file as usize].max(1)).max(1) * width
    }
}

/// The registers live at once, and the allowed share of every file.
fn pressure(q: &Request<'_>, nodes: &[Node], m: &Modulo, temporary: &FxHashSet<Reg>, inductions: usize) -> Pressure {
    let mut live = vec![[0u32; 4]; m.ii as usize];
    let mut constant = [0; 4];
    constant[File::Scalar as usize] = inductions as u32 + 2;
    constant[File::Mask as usize] = 1;
    let mut others = FxHashSet::default();
    for r in nodes.iter().flat_map(Node::registers) {
        if !temporary.contains(&r.reg) && others.insert(r.reg) {
            let (f, w) = r.reg.file().physical();
            constant[f as usize] += w;
        }
    }
    for (r, (from, to)) in lifetimes(nodes, m, temporary) {
        let (f, w) = r.file().physical();
        for t in from..to.max(from + 1) {
            live[(t % m.ii) as usize][f as usize] += w;
        }
    }
    let c = &q.chip.core;
    // In the order of the files; pairs are of the vector file.
    let have = [c.scalar_registers, c.vector_registers, 0, c.mask_registers].map(|n| n * q.register_share / 8);
    let need = std::array::from_fn(|f| live.iter().map(|l| l[f]).max().unwrap_or(0) + constant[f]);
    Pressure { need, have }
}

/// Iterations per round and rounds; `None` if the code would be too long.
fn rounds(nodes: &[Node], m: &Modulo, temporary: &FxHashSet<Reg>, iterations: u32) -> Option<(u32, u32)> {
    let longest = lifetimes(nodes, m, temporary).values().map(|(a, b)| b - a).max().unwrap_or(0);
    let least = longest.div_ceil(m.ii).max(1);
    let fill = m.stages() - 1;
    let steady = iterations.saturating_sub(fill);
    let wished = least.max(ROUND.div_ceil(m.ii)).min((steady / 2).max(least));
    let copies = (wished..wished + wished.min(8)).min_by_key(|&k| (steady % k, k)).unwrap_or(wished);
    let mut best = (copies, steady / copies);
    if best.1 < 2 {
        best.1 = 0;
    }
    let span = m.time.iter().copied().max().unwrap_or(0) as u64 + 1;
    let flat = (iterations - best.0 * best.1) as u64 * m.ii as u64;
    let length = span + flat + if best.1 > 0 { best.0 as u64 * m.ii as u64 } else { 0 };
    (length <= MAX_BUNDLES).then_some(best)
}

/// A node instance's place: iteration, and how far each induction register has advanced by then.
struct Emitter<'a> {
    plan: &'a Plan,
    names: FxHashMap<Reg, Vec<Reg>>,
    /// Nodes by issue cycle modulo the interval, in program order.
    by_slot: Vec<Vec<usize>>,
}

impl Plan {
    /// Induction registers with an offset that leaves its field somewhere in the flat code.
    fn unreachable(&self) -> Vec<Reg> {
        let prologue = self.iterations - self.copies * self.rounds;
        let mut out = Vec::new();
        for n in &self.body.nodes {
            let Some(f) = n.fold else { continue };
            let iv = self.body.inductions[f.iv as usize];
            let reach = (prologue + self.copies) as i64 + 1;
            let bad = [-(self.copies as i64) - 1, -(self.modulo.stages() as i64) - self.copies as i64, reach]
                .iter()
                .any(|&k| shifted(&n.inst, f, iv.step as i64 * k).is_none());
            if bad && !out.contains(&iv.reg) {
                out.push(iv.reg);
            }
        }
        out
    }

    fn prologue_starts(&self) -> u32 {
        self.iterations - self.copies * self.rounds
    }
}

impl Emitter<'_> {
    /// The instruction of a node in iteration `j`, with induction registers `advanced(iv)` ahead of the loop's start.
    fn instance(&self, node: usize, j: u32, advanced: &dyn Fn(u32) -> i64) -> Inst {
        let n = &self.plan.body.nodes[node];
        let mut inst = n.inst;
        for r in n.registers() {
            if let Some(names) = self.names.get(&r.reg) {
                inst.operands[r.at] = names[(j % self.plan.copies) as usize].number() as i32;
            }
        }
        if let Some(f) = n.fold {
            let step = self.plan.body.inductions[f.iv as usize].step as i64;
            inst.operands[f.offset_at] =
                shifted(&n.inst, f, step * j as i64 - advanced(f.iv)).expect("checked by Plan::unreachable");
        }
        inst
    }

    /// Instances that issue at a flat time among the first `iterations`.
    fn at(&self, time: u64, iterations: u32) -> impl Iterator<Item = (usize, u32)> + '_ {
        let ii = self.plan.modulo.ii as u64;
        self.by_slot[(time % ii) as usize].iter().filter_map(move |&i| {
            let since = time.checked_sub(self.plan.modulo.time[i] as u64)?;
            let j = since / ii;
            (j < iterations as u64).then_some((i, j as u32))
        })
    }
}

/// Whether a bundle has room in the scalar slots.
fn scalar_room(insts: &[Inst], chip: &ChipConfig) -> bool {
    let used = insts.iter().filter(|i| i.op.info().slot == Slot::Scalar).count();
    used < width(chip, Slot::Scalar) as usize
}

fn advance(reg: Reg, by: i64) -> Inst {
    Inst::new(Op::SAddI, &[reg.number() as i32, reg.number() as i32, by as i32])
}

/// Appends the loop to the code. `counter` holds the number of rounds when [`Plan::rounds`] is not 0.
pub fn emit(plan: &Plan, code: &mut Code, chip: &ChipConfig, depth: u32, id: u32, counter: Option<Reg>) {
    let ii = plan.modulo.ii as u64;
    let mut names = FxHashMap::default();
    let mut sorted: Vec<Reg> = plan.temporary.iter().copied().collect();
    sorted.sort();
    for r in sorted {
        let mut list = vec![r];
        list.extend((1..plan.copies).map(|_| code.names.alias(r)));
        names.insert(r, list);
    }
    let mut by_slot = vec![Vec::new(); ii as usize];
    for (i, &t) in plan.modulo.time.iter().enumerate() {
        by_slot[(t as u64 % ii) as usize].push(i);
    }
    let e = Emitter { plan, names, by_slot };
    let region = code.region(RegionKind::Pipelined(plan.report), depth, id);
    let starts = plan.prologue_starts() as u64;
    let place = |i: usize| plan.body.nodes[i].place;
    let push = |code: &mut Code, t: u64, advanced: &dyn Fn(u32) -> i64| {
        let insts: Vec<Inst> = e.at(t, plan.iterations).map(|(i, j)| e.instance(i, j, advanced)).collect();
        if !insts.is_empty() {
            code.push(region, insts, e.at(t, plan.iterations).map(|(i, _)| place(i)));
        }
    };
    for t in 0..starts * ii {
        push(code, t, &|_| 0);
    }
    if let (true, Some(counter)) = (plan.rounds > 0, counter) {
        round(&e, code, chip, region, starts * ii, counter);
    }
    let done = (plan.copies * plan.rounds) as i64;
    let step = |iv: u32| plan.body.inductions[iv as usize].step as i64;
    let end = plan.modulo.time.iter().copied().max().unwrap_or(0) as u64 + (plan.iterations as u64 - 1) * ii;
    let epilogue = code.bundles.len();
    // After the loop, time goes on as if every round had been written out.
    for t in (starts + done as u64) * ii..=end {
        push(code, t, &|iv| done * step(iv));
    }
    for iv in &plan.body.inductions {
        let by = iv.step as i64 * (plan.iterations as i64 - done);
        if by == 0 {
            continue;
        }
        let inst = advance(iv.reg, by);
        let straight = plan.rounds == 0 || code.bundles.len() > epilogue;
        match code.bundles.last_mut() {
            Some(b) if straight && b.region == region && scalar_room(&b.insts, chip) => b.insts.push(inst),
            _ => code.push(region, [inst], []),
        }
    }
}

/// The loop proper.
fn round(e: &Emitter<'_>, code: &mut Code, chip: &ChipConfig, region: u32, start: u64, counter: Reg) {
    let plan = e.plan;
    let length = plan.copies as u64 * plan.modulo.ii as u64;
    let mut bundles: Vec<Vec<(usize, u32)>> =
        (start..start + length).map(|t| e.at(t, u32::MAX).collect::<Vec<_>>()).collect();
    let scalar =
        |b: &[(usize, u32)]| b.iter().filter(|(i, _)| plan.body.nodes[*i].inst.op.info().slot == Slot::Scalar).count();
    let mut used: Vec<usize> = bundles.iter().map(|b| scalar(b)).collect();
    let room = width(chip, Slot::Scalar) as usize;
    // The latest bundle with a free scalar slot takes each induction step.
    let mut at = Vec::new();
    for _ in &plan.body.inductions {
        let p = used.iter().rposition(|&u| u < room).unwrap_or_else(|| {
            used.push(0);
            bundles.push(Vec::new());
            used.len() - 1
        });
        used[p] += 1;
        at.push(p);
    }
    let label = code.label();
    code.place(label);
    let last = bundles.len() - 1;
    for (p, b) in bundles.iter().enumerate() {
        let step = |iv: u32| plan.body.inductions[iv as usize].step as i64;
        let ahead = |iv: u32| if p > at[iv as usize] { step(iv) * plan.copies as i64 } else { 0 };
        let mut insts: Vec<Inst> = b.iter().map(|&(i, j)| e.instance(i, j, &ahead)).collect();
        for (iv, _) in at.iter().enumerate().filter(|(_, at)| **at == p) {
            insts.push(advance(plan.body.inductions[iv].reg, step(iv as u32) * plan.copies as i64));
        }
        if p == last {
            insts.push(Inst::new(Op::BLoop, &[counter.number() as i32, label as i32]));
        }
        if !insts.is_empty() {
            code.push(region, insts, b.iter().map(|(i, _)| plan.body.nodes[*i].place));
        }
    }
}

impl Plan {
    /// Rounds of the loop that is left after peeling; 0 if all of it is straight-line code.
    pub fn rounds(&self) -> u32 {
        self.rounds
    }
}
