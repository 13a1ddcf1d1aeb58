//! What a program makes the machine do, counted: the basis of energy.
//!
//! Nearly all of it follows from the instructions of a bundle and how often the bundle issued for an operation, so nothing
//! is counted while a program runs but that ([`Runs`]); the counts are exact and by operation. What depends on addresses (whole
//! bursts of HBM) and on routes (bytes over links) is counted where it happens, in [`super::OpProfile`] and in the pod.

use super::collect::SLOT_KINDS;
use crate::issue::code::Code;
use rustc_hash::FxHashMap;
use serde::de::{Deserialize, Deserializer, Error};
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::collections::BTreeMap;
use std::ops::{AddAssign, Index, IndexMut};
use std::sync::Arc;
use systole_isa::{MxuFormat, Space};

systole_isa::listed! {
    /// A kind of activity, by its name in reports.
    Activity:
    Bundles "bundles" "bundles" "Bundles issued.";
    Scalar "scalar" "instructions" "Scalar instructions, branches included.";
    SmemRead "smem_read" "bytes" "Read from scalar memory by the core.";
    SmemWrite "smem_write" "bytes" "Written to scalar memory by the core.";
    Valu "valu" "lane operations" "Simple vector operations: additions, comparisons, logic.";
    ValuMul "valu_mul" "lane operations" "Vector multiplications and multiply-adds.";
    ValuDiv "valu_div" "lane operations" "Vector f32 divisions.";
    ValuConvert "valu_convert" "lane operations" "Packing and unpacking of 16-bit floats.";
    ValuIntDiv "valu_int_div" "lane operations" "Vector integer divisions.";
    ValuF64 "valu_f64" "lane operations" "f64 operations on register pairs.";
    ValuF64Div "valu_f64_div" "lane operations" "f64 divisions and square roots.";
    Eup "eup" "lane operations" "Transcendental functions.";
    Xlu "xlu" "lane steps" "Rotations, permutations and transposes of the cross-lane unit.";
    XluReduce "xlu_reduce" "lane steps" "Reductions over lanes: one step for each halving.";
    VmemRead "vmem_read" "bytes" "Read from vector memory by the core's loads.";
    VmemWrite "vmem_write" "bytes" "Written to vector memory by the core's stores.";
    RowsBf16 "rows_bf16" "rows" "Rows streamed into matrix units in one pass of bf16.";
    RowsHigh "rows_high" "rows" "Rows of the high pieces of f32 values.";
    RowsMid "rows_mid" "rows" "Rows of the middle pieces of f32 values.";
    RowsLow "rows_low" "rows" "Rows of the low pieces of f32 values.";
    RowsHighFinite "rows_high_finite" "rows" "Rows of the high pieces of f32 values, non-finite ones as zero.";
    RowsS8 "rows_s8" "rows" "Rows of s8.";
    RowsU8 "rows_u8" "rows" "Rows of u8.";
    RowsF8 "rows_f8" "rows" "Rows of 8-bit floats.";
    WeightsBf16 "weights_bf16" "elements" "Weights shifted into matrix units as bf16 (pieces of f32 included).";
    WeightsInt "weights_int" "elements" "Weights shifted into matrix units as 8-bit integers.";
    WeightsF8 "weights_f8" "elements" "Weights shifted into matrix units as 8-bit floats.";
    MxuResults "mxu_results" "elements" "32-bit results taken from matrix units.";
    Descriptors "descriptors" "copies" "DMA descriptors started, and signals to other devices.";
    HbmToVmem "hbm_to_vmem" "bytes" "Copied from HBM to vector memory.";
    VmemToHbm "vmem_to_hbm" "bytes" "Copied from vector memory to HBM.";
    HbmToHbm "hbm_to_hbm" "bytes" "Copied within HBM.";
    VmemToVmem "vmem_to_vmem" "bytes" "Copied within vector memory.";
    HbmToSmem "hbm_to_smem" "bytes" "Copied from HBM to scalar memory.";
    SmemToHbm "smem_to_hbm" "bytes" "Copied from scalar memory to HBM.";
    VmemToSmem "vmem_to_smem" "bytes" "Copied from vector memory to scalar memory.";
    SmemToVmem "smem_to_vmem" "bytes" "Copied from scalar memory to vector memory.";
    SmemToSmem "smem_to_smem" "bytes" "Copied within scalar memory.";
    SentHbm "sent_hbm" "bytes" "Sent to other devices out of HBM.";
    SentVmem "sent_vmem" "bytes" "Sent to other devices out of vector memory.";
    SentSmem "sent_smem" "bytes" "Sent to other devices out of scalar memory.";
    ArrivedVmem "arrived_vmem" "bytes" "Sent to other devices' vector memory.";
    Host "host" "bytes" "Exchanged with the host while the program runs.";
}

/// Number of kinds.
pub const ACTIVITIES: usize = Activity::ALL.len();

impl Activity {
    /// Rows in a format.
    pub fn rows(f: MxuFormat) -> Activity {
        match f {
            MxuFormat::Bf16 => Activity::RowsBf16,
            MxuFormat::High => Activity::RowsHigh,
            MxuFormat::Mid => Activity::RowsMid,
            MxuFormat::Low => Activity::RowsLow,
            MxuFormat::HighFinite => Activity::RowsHighFinite,
            MxuFormat::S8 => Activity::RowsS8,
            MxuFormat::U8 => Activity::RowsU8,
            MxuFormat::F8 => Activity::RowsF8,
        }
    }

    pub(super) fn weights(f: MxuFormat) -> Activity {
        match f {
            MxuFormat::S8 | MxuFormat::U8 => Activity::WeightsInt,
            MxuFormat::F8 => Activity::WeightsF8,
            MxuFormat::Bf16 | MxuFormat::High | MxuFormat::Mid | MxuFormat::Low | MxuFormat::HighFinite => {
                Activity::WeightsBf16
            }
        }
    }

    pub(super) fn copy(from: Space, to: Space) -> Activity {
        match (from, to) {
            (Space::Hbm, Space::Hbm) => Activity::HbmToHbm,
            (Space::Hbm, Space::Vmem) => Activity::HbmToVmem,
            (Space::Hbm, Space::Smem) => Activity::HbmToSmem,
            (Space::Vmem, Space::Hbm) => Activity::VmemToHbm,
            (Space::Vmem, Space::Vmem) => Activity::VmemToVmem,
            (Space::Vmem, Space::Smem) => Activity::VmemToSmem,
            (Space::Smem, Space::Hbm) => Activity::SmemToHbm,
            (Space::Smem, Space::Vmem) => Activity::SmemToVmem,
            (Space::Smem, Space::Smem) => Activity::SmemToSmem,
        }
    }
}

/// How much of each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activities([u64; ACTIVITIES]);

impl Default for Activities {
    fn default() -> Activities {
        Activities([0; ACTIVITIES])
    }
}

impl Index<Activity> for Activities {
    type Output = u64;
    fn index(&self, a: Activity) -> &u64 {
        &self.0[a as usize]
    }
}

impl IndexMut<Activity> for Activities {
    fn index_mut(&mut self, a: Activity) -> &mut u64 {
        &mut self.0[a as usize]
    }
}

impl AddAssign<&Activities> for Activities {
    fn add_assign(&mut self, other: &Activities) {
        self.0.iter_mut().zip(other.0).for_each(|(a, b)| *a += b);
    }
}

impl Activities {
    /// Rows streamed in any format.
    pub fn rows(&self) -> u64 {
        MxuFormat::ALL.iter().map(|&f| self[Activity::rows(f)]).sum()
    }
}

/// A map from names to what is not zero.
impl Serialize for Activities {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut map = s.serialize_map(None)?;
        for &a in Activity::ALL.iter().filter(|&&a| self[a] != 0) {
            map.serialize_entry(a.info().0, &self[a])?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Activities {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Activities, D::Error> {
        let mut out = Activities::default();
        for (name, n) in BTreeMap::<String, u64>::deserialize(d)? {
            let found = Activity::ALL.iter().find(|a| a.info().0 == name);
            let &kind = found.ok_or_else(|| D::Error::custom(format!("unknown activity `{name}`")))?;
            out[kind] = n;
        }
        Ok(out)
    }
}

/// What one issue of each bundle does. Many bundles are of a form, and do the same.
#[derive(Debug, Default)]
pub(crate) struct Static {
    /// The number of each bundle's form.
    pub(super) of: Vec<u32>,
    /// Where each form's entries begin, and the end.
    pub(super) starts: Vec<u32>,
    pub(super) entries: Vec<(Activity, u64)>,
    /// By form: the instructions of each kind of slot.
    pub(super) instructions: Vec<Instructions>,
}

/// A bundle's instructions by kind of slot, and the cycles beyond their first that they keep what they run on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Instructions {
    pub count: [u8; SLOT_KINDS],
    pub kept: [u16; SLOT_KINDS],
    /// Whether one is a branch, which counts as no kind.
    pub branch: bool,
}

impl Static {
    fn does(&self, form: u32) -> &[(Activity, u64)] {
        let n = form as usize;
        &self.entries[self.starts[n] as usize..self.starts[n + 1] as usize]
    }

    /// The instructions by kind of slot of each form, and how often bundles of it issued, if they did.
    pub fn issued<'a>(&'a self, issued: &'a Issued) -> impl Iterator<Item = (&'a Instructions, u64)> {
        self.instructions.iter().zip(issued.forms.iter().copied()).filter(|s| s.1 > 0)
    }

    /// What one issue of a bundle does.
    #[cfg(test)]
    pub fn of_bundle(&self, bundle: usize) -> &[(Activity, u64)] {
        self.does(self.of[bundle])
    }

    /// A bundle's instructions by kind of slot.
    #[cfg(test)]
    pub fn instructions(&self, bundle: usize) -> &Instructions {
        &self.instructions[self.of[bundle] as usize]
    }
}

/// How often runs of bundles issued, and for which operation. Adding a run again that ended at the same bundle costs one
/// look; everything is additive.
#[derive(Debug)]
pub(crate) struct Runs {
    /// Two runs by the low bits of their last bundles, those that were added last: operation (its place in the profile), first and
    /// last bundle, and how often. Few bundles end runs; those that end loops end one that enters and one that goes round.
    recent: Vec<[Run; 2]>,
    rest: FxHashMap<(u32, u32, u32), u64>,
    /// Places that there are to be, once the first run is added.
    places: usize,
    /// Runs that are written down one behind the other, if they are; and how many until equal ones are joined.
    late: Vec<Run>,
    defers: bool,
    limit: usize,
}

/// Runs that are written down before equal ones are joined.
const LATE: usize = 1 << 12;

impl Runs {
    pub fn new(bundles: usize) -> Runs {
        let places = (bundles / 8).next_power_of_two().max(64);
        let (recent, rest) = (Vec::new(), FxHashMap::default());
        Runs { recent, rest, places, late: Vec::new(), defers: false, limit: LATE }
    }

    /// From now on runs are written down one behind the other: where many devices take turns, none finds its sums in the host's caches
    /// when its turn comes.
    pub fn defer(&mut self) {
        self.defers = true;
    }

    /// The end of it: those that are still to come are not joined before they are asked for.
    pub fn sum_at_once(&mut self) {
        self.limit = usize::MAX;
    }

    /// Bundles `first..=last` issued in a row `times` times for an operation.
    #[inline(always)]
    pub fn add(&mut self, op: u32, first: u32, last: u32, times: u64) {
        let place = last as usize & (self.places - 1);
        let is = |r: &Run| (r.0, r.1, r.2) == (op, first, last);
        match self.recent.get_mut(place) {
            Some([r, _] | [_, r]) if is(r) => r.3 += times,
            Some(_) | None => self.replace(place, (op, first, last, times)),
        }
    }

    fn replace(&mut self, place: usize, run: Run) {
        if self.defers {
            self.late.push(run);
            if self.late.len() >= self.limit {
                self.join();
            }
            return;
        }
        if self.recent.is_empty() {
            self.recent = vec![[(0, 0, 0, 0); 2]; self.places];
        }
        let [newer, older] = &mut self.recent[place];
        let (op, first, last, count) = std::mem::replace(older, std::mem::replace(newer, run));
        if count > 0 {
            *self.rest.entry((op, first, last)).or_default() += count;
        }
    }

    /// Runs as they were added, some of them together.
    pub fn each(&self) -> impl Iterator<Item = Run> {
        let recent = self.recent.iter().flatten().copied().filter(|r| r.3 > 0);
        let rest = self.rest.iter().map(|(&(op, first, last), &n)| (op, first, last, n));
        recent.chain(rest).chain(self.late.iter().copied())
    }

    /// Joins equal runs that were written down.
    fn join(&mut self) {
        self.late.sort_unstable();
        self.late.dedup_by(|next, kept| {
            let same = (next.0, next.1, next.2) == (kept.0, kept.1, kept.2);
            kept.3 += if same { next.3 } else { 0 };
            same
        });
        self.limit = LATE.max(2 * self.late.len());
    }

    /// How often bundles issued for each operation, as runs behind each other that share no bundle: the same however the runs were
    /// added.
    pub fn all(&self) -> Vec<Run> {
        let most = 2 * self.recent.len() + self.rest.len() + self.late.len();
        let mut changes: Vec<Change> = Vec::with_capacity(2 * most);
        for (op, first, last, n) in self.each() {
            changes.extend([(op, first, n as i64), (op, last + 1, -(n as i64))]);
        }
        // Places are far fewer than what comparing so many changes takes.
        let changes = by_place(&by_place(&changes, |c| c.1), |c| c.0);
        let mut all = Vec::new();
        let (mut begin, mut times) = (0, 0);
        for here in changes.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
            let (op, at, _) = here[0];
            let change: i64 = here.iter().map(|c| c.2).sum();
            if change != 0 && times > 0 {
                all.push((op, begin, at - 1, times as u64));
            }
            if change != 0 {
                (begin, times) = (at, times + change);
            }
        }
        all
    }
}

/// By how much more often than the one before it a bundle issued for an operation: operation, bundle, change.
type Change = (u32, u32, i64);

/// Changes in the order of a number that each has, those of one number in the order that they were in.
fn by_place(changes: &[Change], place: impl Fn(&Change) -> u32) -> Vec<Change> {
    let most = changes.iter().map(&place).max().unwrap_or(0) as usize;
    let mut ends = vec![0u32; most + 2];
    changes.iter().for_each(|c| ends[place(c) as usize + 1] += 1);
    let mut before = 0;
    for end in &mut ends {
        before += *end;
        *end = before;
    }
    let mut sorted = vec![(0, 0, 0); changes.len()];
    for c in changes {
        let next = &mut ends[place(c) as usize];
        sorted[*next as usize] = *c;
        *next += 1;
    }
    sorted
}

/// A run: operation, first and last bundle, and how often.
pub(crate) type Run = (u32, u32, u32, u64);

/// What follows from runs alone: devices of a pod mostly ran the same code equally often.
#[derive(Debug, Default)]
pub(crate) struct Issued {
    runs: Vec<Run>,
    /// Times that each bundle issued.
    pub executions: Arc<Vec<u64>>,
    /// Times that bundles of each form issued.
    forms: Vec<u64>,
    /// What each operation did.
    pub activities: Vec<Activities>,
}

impl Issued {
    /// Whether it follows from these runs.
    pub fn is_of(&self, runs: &[Run], ops: usize, bundles: usize) -> bool {
        self.runs == runs && self.activities.len() == ops && self.executions.len() == bundles
    }

    /// What follows from runs of a code of so many operations.
    pub fn new(runs: Vec<Run>, ops: usize, code: &Code) -> Issued {
        let executions = Arc::new(Issued::executions(&runs, code.heads.len()));
        let (forms, activities) = Issued::activities(&runs, ops, code);
        Issued { runs, executions, forms, activities }
    }

    fn executions(runs: &[Run], bundles: usize) -> Vec<u64> {
        // By how much more often a bundle issued than the one before it, and behind that how often.
        let mut times = vec![0u64; bundles + 1];
        for &(_, first, last, n) in runs {
            times[first as usize] = times[first as usize].wrapping_add(n);
            times[last as usize + 1] = times[last as usize + 1].wrapping_sub(n);
        }
        let mut before = 0u64;
        for n in &mut times {
            before = before.wrapping_add(*n);
            *n = before;
        }
        times.truncate(bundles);
        times
    }

    /// How often bundles of each form issued, and what each operation did.
    fn activities(runs: &[Run], ops: usize, code: &Code) -> (Vec<u64>, Vec<Activities>) {
        let of = &code.activity;
        // Those of an operation, and the forms that it has; those of all.
        let mut counts = vec![0u64; of.instructions.len()];
        let mut all = counts.clone();
        let mut forms: Vec<u32> = Vec::new();
        let mut of_op = |runs: &[Run]| {
            for &(_, first, last, times) in runs {
                for &form in &of.of[first as usize..=last as usize] {
                    let count = &mut counts[form as usize];
                    if *count == 0 {
                        forms.push(form);
                    }
                    *count += times;
                }
            }
            let mut sum = Activities::default();
            for form in forms.drain(..) {
                let times = std::mem::take(&mut counts[form as usize]);
                all[form as usize] += times;
                of.does(form).iter().for_each(|&(activity, n)| sum[activity] += n * times);
            }
            sum
        };
        let mut out = vec![Activities::default(); ops];
        for own in runs.chunk_by(|a, b| a.0 == b.0) {
            out[own[0].0 as usize] = of_op(own);
        }
        (all, out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_counted_however_they_follow() {
        let (mut runs, mut parts, mut late) = (Runs::new(100), Runs::new(100), Runs::new(100));
        late.defer();
        let mut expected: BTreeMap<(u32, u32), u64> = BTreeMap::new();
        for i in 0..10_000u32 {
            // Some that end alike, in turn, and some whose ends fall into one place.
            let (op, first, last) = (i / 900 % 3, i * i % 5, [7, 71, 135, 20][(i / 3 * i) as usize % 4]);
            let times = u64::from(i % 4 + 1);
            runs.add(op, first, last, times);
            late.add(op, first, last, times);
            // The same in two parts.
            let middle = first + i % (last - first);
            parts.add(op, first, middle, times);
            parts.add(op, middle + 1, last, times);
            (first..=last).for_each(|b| *expected.entry((op, b)).or_default() += times);
        }
        let all = runs.all();
        let each = all.iter().flat_map(|&(op, first, last, n)| (first..=last).map(move |b| ((op, b), n)));
        assert_eq!(each.clone().count(), expected.len(), "runs share no bundle");
        assert_eq!(each.collect::<BTreeMap<_, _>>(), expected);
        assert_eq!(all, parts.all());
        assert_eq!(all, late.all());
        assert!(late.late.len() <= 2 * LATE && late.recent.is_empty());
    }
}
