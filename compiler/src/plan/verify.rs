//! Whether a plan goes together: what emission and the scheduler rely on. Plans that were read from text pass through here.
//!
//! Proved: numbers of kernels, arrays, operations and words exist; every kernel can be made as it says, computes with operands of
//! the types that its operations take (`sound.rs`), and needs what it says; addresses lie in their memories; whole-array copies use semaphores that no kernel numbers. Not proved: that no
//! array is overwritten while another needs it (the simulator's race checker sees that).

use super::action::{Action, Copy, CopyKind, Flight, Operand, Spot};
use super::collective::{Exchange, How, MOST_RINGS};
use super::memory::vmem_map;
use super::planned::Plan;
use super::step::{ScalarOp, Unit, Word};
use sound::sound;
use systole_hlo::error::CompileError;
use systole_isa::ChipConfig;
use systole_isa::dma::HBM_GRANULE;
use systole_isa::validate::{check_array, check_layout};

mod sound;

/// Checks a plan; see the module docs.
///
/// # Errors
/// [`CompileError::Plan`] with the first thing that is wrong.
pub fn verify(plan: &Plan, chip: &ChipConfig) -> Result<(), CompileError> {
    let whole = chip.fingerprint();
    let chip = &chip.part(&plan.head.part);
    let map = vmem_map(chip);
    let v = Verifier { plan, chip, whole, rows: map.arrays, granules: chip.device_memory_bytes() / HBM_GRANULE };
    v.plan().map_err(CompileError::Plan)
}

struct Verifier<'a> {
    plan: &'a Plan,
    /// What the plan uses of the chip, and the fingerprint of all of it.
    chip: &'a ChipConfig,
    whole: u64,
    /// Sizes of the memories.
    rows: u64,
    granules: u64,
}

type Check = Result<(), String>;

fn ensure(holds: bool, what: impl FnOnce() -> String) -> Check {
    if holds { Ok(()) } else { Err(what()) }
}

impl Verifier<'_> {
    fn plan(&self) -> Check {
        let (head, chip) = (&self.plan.head, self.chip);
        ensure(head.fingerprint == self.whole, || format!("made for another chip ({})", head.chip))?;
        ensure(head.cores <= chip.cores_per_device.max(1), || format!("{} cores", head.cores))?;
        ensure(u64::from(head.words) <= chip.smem.bytes / 4, || format!("{} words", head.words))?;
        ensure(head.vmem_rows <= self.rows, || format!("{} rows of vector memory", head.vmem_rows))?;
        ensure(head.hbm_bytes <= chip.device_hbm_bytes(), || format!("{} bytes of HBM", head.hbm_bytes))?;
        let cmem = (chip.device_cmem_bytes() > 0).then(|| chip.device_hbm_bytes() / HBM_GRANULE);
        ensure(head.cmem_from == cmem, || format!("common memory from granule {:?}", head.cmem_from))?;
        for (i, k) in self.plan.kernels.iter().enumerate() {
            let at = |why: String| format!("kernel {i} (`{}`): {why}", k.name);
            sound(&k.spec, chip).map_err(at)?;
            let needs = k.spec.needs(chip).ok_or_else(|| at("there is no such tile or cut".into()))?;
            ensure(needs == k.needs, || at(format!("needs {needs:?}, not {:?}", k.needs)))?;
            ensure(needs.semaphores < super::kernel_semaphores(chip), || {
                at(format!("{} semaphores", needs.semaphores))
            })?;
        }
        for (first, parts) in &self.plan.splits {
            self.kernel(*first)?;
            ensure(parts.len() == head.cores as usize, || format!("parts {first}: not one for each core"))?;
            parts.iter().try_for_each(|p| self.kernel(p.kernel))?;
        }
        for (i, a) in self.plan.arrays.iter().enumerate() {
            check_layout(format_args!("array {i}"), &a.layout, chip).map_err(|e| e.to_string())?;
            a.granule.map_or(Ok(()), |g| self.granule(g))?;
        }
        for h in self.plan.params.iter().chain(&self.plan.results) {
            check_array(format_args!("an argument or result"), h, chip).map_err(|e| e.to_string())?;
            self.granule(h.address / HBM_GRANULE)?;
        }
        self.plan.pod.tables.map_or(Ok(()), |g| self.granule(g))?;
        self.actions(&self.plan.actions)
    }

    fn kernel(&self, k: usize) -> Check {
        ensure(k < self.plan.kernels.len(), || format!("there is no kernel {k}"))
    }

    fn granule(&self, g: u64) -> Check {
        ensure(g < self.granules, || format!("granule {g} is beyond the device's memory"))
    }

    fn row(&self, row: u64) -> Check {
        ensure(row <= self.rows, || format!("row {row} is beyond what arrays have of vector memory"))
    }

    fn word(&self, w: Word) -> Check {
        ensure(w.0 < self.plan.head.words, || format!("there is no word {}", w.0))
    }

    fn op(&self, op: u32) -> Check {
        ensure((op as usize) < self.plan.ops.len(), || format!("there is no operation {op}"))
    }

    /// That many bytes from a place on.
    fn spot(&self, s: Spot, bytes: u64) -> Check {
        let (at, unit, there) = match s {
            Spot::Vmem(row) => (row, self.chip.row_bytes(), self.rows),
            Spot::Hbm(granule) => (granule, HBM_GRANULE, self.granules),
        };
        let inside = at.checked_add(bytes.div_ceil(unit)).is_some_and(|end| end <= there);
        ensure(inside, || format!("{bytes} bytes from {s:?} on are beyond their memory"))
    }

    fn actions(&self, actions: &[Action]) -> Check {
        actions.iter().try_for_each(|a| self.action(a))
    }

    fn action(&self, a: &Action) -> Check {
        match a {
            Action::Mark(op) | Action::Look(op) => self.op(*op).or_else(|e| ensure(*op == u32::MAX, || e)),
            Action::Copy(c) => self.copy(c),
            Action::Move { from, to, bytes } => {
                self.spot(*from, *bytes)?;
                self.spot(*to, *bytes)
            }
            Action::Scalar { dst, value, .. } => {
                self.word(*dst)?;
                self.scalar(value)
            }
            Action::ReadScalar { from, dst, .. } => {
                self.spot(*from, 1)?;
                self.word(*dst)
            }
            Action::Call { kernel, args } => {
                self.kernel(*kernel)?;
                args.iter().try_for_each(|a| self.operand(a))
            }
            Action::Host(call) => {
                call.operands.iter().chain(&call.results).try_for_each(|h| self.granule(h.address / HBM_GRANULE))
            }
            Action::Exchange(x, f) | Action::Begin(x, f) => self.exchange(x, f),
            Action::End(x) => self.op(x.op),
            Action::While { head, cond, body, .. } => {
                self.word(*cond)?;
                self.actions(head)?;
                self.actions(body)
            }
            Action::Switch { index, branches } => {
                self.word(*index)?;
                ensure(!branches.is_empty(), || "a switch without branches".into())?;
                branches.iter().try_for_each(|b| self.actions(b))
            }
        }
    }

    fn copy(&self, c: &Copy) -> Check {
        let all = super::kernel_semaphores(self.chip)..self.chip.core.semaphores;
        ensure(all.contains(&c.pending.semaphore), || format!("copies have no semaphore {}", c.pending.semaphore))?;
        ensure(c.pending.bytes <= i32::MAX as u32, || format!("a copy of {} bytes", c.pending.bytes))?;
        ensure(c.array.index() < self.plan.arrays.len(), || format!("there is no array {}", c.array.0))?;
        match c.kind {
            CopyKind::Load { granule, row } | CopyKind::Store { row, granule } => {
                let bytes = u64::from(c.pending.bytes);
                self.spot(Spot::Vmem(row), bytes)?;
                self.spot(Spot::Hbm(granule), bytes)
            }
            CopyKind::WaitIn | CopyKind::WaitOut => Ok(()),
        }
    }

    fn scalar(&self, value: &ScalarOp) -> Check {
        match *value {
            ScalarOp::Const(_) | ScalarOp::Device | ScalarOp::Core => Ok(()),
            ScalarOp::Copy(w) | ScalarOp::Unary(_, w) | ScalarOp::Convert(w) => self.word(w),
            ScalarOp::ClampIndex { word, .. } => self.word(word),
            ScalarOp::Binary(_, a, b) | ScalarOp::Compare(_, a, b) => self.word(a).and_then(|()| self.word(b)),
            ScalarOp::Select(c, a, b) => [c, a, b].into_iter().try_for_each(|w| self.word(w)),
        }
    }

    fn operand(&self, a: &Operand) -> Check {
        match a {
            Operand::Array { array, unit, at, terms, .. } => {
                let array =
                    self.plan.arrays.get(array.index()).ok_or_else(|| format!("there is no array {}", array.0))?;
                let most = match unit {
                    Unit::ElementRows => self.rows.saturating_mul(array.layout.dtype.packing() as u64),
                    Unit::WordRows => self.rows,
                    Unit::Granules => self.granules,
                };
                let inside = u64::try_from(*at).is_ok_and(|at| at <= most);
                ensure(inside, || format!("`{}` at {at} is beyond its memory", array.name))?;
                terms.iter().try_for_each(|t| self.word(t.0))
            }
            Operand::Scalar(w) | Operand::Linear { word: w, .. } => self.word(*w),
            Operand::Sum(terms) => terms.iter().try_for_each(|t| self.word(t.0)),
            Operand::Const(_) => Ok(()),
            Operand::Scratch(row) => self.row(*row),
        }
    }

    fn exchange(&self, x: &Exchange, f: &Flight) -> Check {
        ensure(x.beside.len() == f.beside.len(), || "exchanges side by side without places".into())?;
        let rings = |x: &Exchange| if let How::Rings(all) = &x.how { all.len() } else { 0 };
        ensure(x.beside.is_empty() || x.all().all(|x| rings(x) > 0), || "side by side, but not by rings".into())?;
        ensure(x.all().map(rings).sum::<usize>() <= MOST_RINGS as usize, || {
            "more rings than have words of state".into()
        })?;
        ensure(x.beside.iter().all(|x| x.beside.is_empty()), || "exchanges beside others beside others".into())?;
        x.all().zip(f.all()).try_for_each(|(x, f)| self.one_exchange(x, f))
    }

    fn one_exchange(&self, x: &Exchange, f: &Flight) -> Check {
        self.op(x.op)?;
        [f.src, f.dst].iter().chain(&f.temps).try_for_each(|g| self.granule(*g))?;
        self.row(f.slots.saturating_add(f.slot_rows))?;
        ensure(f.temps.len() == x.temps.len(), || "an exchange with other partial results".into())?;
        match &x.how {
            How::Rings(all) => {
                let whole = all.iter().all(|r| !r.streams.is_empty() && !r.axes.is_empty());
                ensure(whole && !all.is_empty(), || "a ring without streams".into())?;
                let kernels = all.iter().flat_map(|r| &r.phases).filter_map(|p| p.kernel);
                kernels.into_iter().try_for_each(|k| self.kernel(k))
            }
            How::Direct(all) => {
                ensure(all.len() <= f.temps.len() + 1, || "more exchanges in a row than results".into())?;
                all.iter().filter_map(|d| d.kernel).try_for_each(|k| self.kernel(k))
            }
            How::Transfer(_) => Ok(()),
        }
    }
}
