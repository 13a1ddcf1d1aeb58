//! One random program: made, evaluated, run on a chip, compared.

use super::program::{Gen, Instr, Program, Way};
use super::random::Random;
use super::rows::{any_parameter, rows};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use systole_compiler::eval::scalar::{Scalar, decode};
use systole_compiler::eval::{EvalOptions, Tensor, Value, evaluate};
use systole_compiler::graph::Precision;
use systole_compiler::plan::guide::{CostModel, Dice, Guide};
use systole_isa::ChipConfig;
use systole_runtime::source::{self, Source};
use systole_runtime::{Array, Asked, Client, CompileOptions, Mode, NoObserver, RunOptions, Ways};

/// What is wrong with a program's run.
#[derive(Clone, Debug)]
pub enum Failure {
    /// The program is refused or cannot be evaluated: a mistake of the generator, or of the front end or the evaluator.
    Refused(String),
    /// It needs more than the chip has.
    Large,
    /// It does not compile, or a checker complains.
    Compile(String),
    /// The compiler or simulator broke.
    Crash(String),
    /// The simulated program failed.
    Fault(String),
    /// A result differs.
    Differs(String),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Refused(m) => write!(f, "refused: {m}"),
            Failure::Large => write!(f, "too large for the chip"),
            Failure::Compile(m) => write!(f, "does not compile: {m}"),
            Failure::Crash(m) => write!(f, "crash: {m}"),
            Failure::Fault(m) => write!(f, "fault: {m}"),
            Failure::Differs(m) => write!(f, "difference: {m}"),
        }
    }
}

/// Instructions of a program at least.
const LEAST: usize = 8;

/// What programs keep whole, in turn: whatever fits, registers and little more, nothing. Small windows find what arrays that lie
/// beside each other hide.
const RESIDENT: [Option<u64>; 3] = [None, Some(1024), Some(0)];

/// Kernels of programs have this part of vector memory at most, in turn.
const SCOPED: [Option<u64>; 3] = [None, Some(8), Some(32)];

/// The program of a seed and a number. `counts` has how often each row of the table was made so far.
pub fn program(seed: u64, number: u64, counts: &mut [u64]) -> Program {
    let table = rows();
    let mut g = Gen::new(Random::new(seed, number));
    for _ in 0..2 {
        any_parameter(&mut g);
    }
    g.deep = number % 6 == 4;
    g.program.donates = number.is_multiple_of(3);
    g.program.way = Way {
        max_resident: RESIDENT[(number / 2) as usize % RESIDENT.len()],
        scoped: SCOPED[(number / 6) as usize % SCOPED.len()],
        // Every other pair: what estimates would choose, and what they would not.
        dice: (number / 2 % 2 == 1).then_some(number),
    };
    let wanted = (LEAST + g.random.below(14) as usize) * if g.deep { 2 } else { 1 };
    let mut made = 0;
    let mut structured = number % 2 == 1;
    for _ in 0..40 * wanted {
        if made >= wanted && !structured {
            break;
        }
        let row = if structured && made >= wanted / 2 {
            let all: Vec<usize> = (0..table.len()).filter(|&i| table[i].structured).collect();
            g.random.pick(&all)
        } else {
            g.random.below(table.len() as u64) as usize
        };
        let before = g.program.clone();
        match (table[row].make)(&mut g, table[row].opcode) {
            Some(_) => {
                made += 1;
                counts[row] += 1;
                structured &= !table[row].structured;
            }
            None => g.program = before,
        }
    }
    let mut used = vec![false; g.program.instrs.len()];
    g.program.instrs.iter().flat_map(Instr::operands).for_each(|&o| used[o] = true);
    // Everything that nothing uses is a result.
    let loose: Vec<usize> = (0..used.len())
        .filter(|&i| !used[i] && !g.program.instrs[i].tuple && g.program.instrs[i].input().is_none())
        .collect();
    g.program.roots = if loose.is_empty() { vec![used.len() - 1] } else { loose };
    for r in g.program.roots.clone() {
        let rank = g.program.instrs[r].dims().len();
        if rank >= 2 && g.random.once_in(6) {
            let order = g.permutation(rank);
            g.program.lie.insert(r, order);
        }
    }
    g.program
}

fn module(p: &Program, chip: &ChipConfig) -> Result<Source, Failure> {
    let text = p.text();
    source::read_one("fuzz.hlo", text.as_bytes(), chip, false, &mut Vec::new())
        .map_err(|e| Failure::Refused(e.to_string()))
}

/// The evaluator's results.
///
/// # Errors
/// A program that is refused.
pub fn expected(p: &Program, chip: &ChipConfig) -> Result<Vec<Tensor>, Failure> {
    let Source::Module { module, .. } = module(p, chip)? else { return Err(Failure::Refused("no module".into())) };
    let inputs: Vec<Value> = p
        .inputs()
        .into_iter()
        .map(|a| {
            let dims: Vec<usize> = a.dims.iter().map(|&d| d as usize).collect();
            Value::Array(Tensor::new(a.dtype, &dims, a.bytes))
        })
        .collect();
    let done = catch_unwind(AssertUnwindSafe(|| evaluate(&module, &inputs, &EvalOptions::default())));
    match done {
        Ok(Ok(v)) => Ok(v.into_leaves()),
        Ok(Err(e)) => Err(Failure::Refused(e.to_string())),
        Err(panic) => Err(Failure::Crash(format!("evaluator: {}", message(&panic)))),
    }
}

fn message(panic: &Box<dyn std::any::Any + Send>) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    text.unwrap_or("panic").to_string()
}

impl Way {
    /// The way on a chip: with several cores everything is in HBM, which is what they share.
    pub fn on(self, chip: &ChipConfig) -> Way {
        let max_resident = if chip.cores_per_device > 1 { Some(0) } else { self.max_resident };
        Way { max_resident, ..self }
    }

    fn scoped_vmem(self, chip: &ChipConfig) -> Option<u64> {
        self.scoped.map(|parts| chip.vmem.bytes / parts)
    }

    /// The flags of the command that compile for a chip this way.
    pub fn flags(self, chip: &ChipConfig) -> String {
        let Way { max_resident, dice, .. } = self.on(chip);
        let flags = [("max-resident", max_resident), ("scoped-vmem", self.scoped_vmem(chip)), ("dice", dice)];
        flags.into_iter().filter_map(|(name, n)| n.map(|n| format!(" --{name} {n}"))).collect()
    }

    fn options(self, chip: &ChipConfig) -> CompileOptions {
        let Way { max_resident, dice, .. } = self.on(chip);
        let cost = dice.map(|seed| Arc::new(Dice(seed)) as Arc<dyn CostModel>);
        let guide = Guide { cost, max_resident, scoped_vmem: self.scoped_vmem(chip), ..Guide::default() };
        let asked = Asked { precision: Precision::Highest, ..Asked::default() };
        let ways = Ways { cores: Some(chip.cores_per_device), ..Ways::default() };
        CompileOptions { asked, ways, guide, verify: true, ..CompileOptions::default() }
    }
}

fn simulated(p: &Program, client: &Client, chaos: Option<u64>) -> Result<Vec<Array>, Failure> {
    let source = module(p, client.chip())?;
    let options = CompileOptions { chaos, ..p.way.options(client.chip()) };
    let program = client.compile_source(source, "fuzz.hlo", &options, None).map_err(|e| match e.to_string() {
        m if m.contains(": needs ") => Failure::Large,
        m => Failure::Compile(m),
    })?;
    let exe = client.load(program).map_err(|e| Failure::Compile(e.to_string()))?;
    let run = RunOptions { chaos, ..RunOptions::new(Mode::Full) };
    let done = client.device(0).run_with(&exe, &p.inputs(), &run, &mut NoObserver);
    done.map(|d| d.outputs).map_err(|e| Failure::Fault(e.to_string()))
}

/// Runs a program on the evaluator and on a chip.
///
/// # Errors
/// What is wrong.
pub fn check(p: &Program, client: &Client, chaos: Option<u64>) -> Result<(), Failure> {
    let want = expected(p, client.chip())?;
    let got = match catch_unwind(AssertUnwindSafe(|| simulated(p, client, chaos))) {
        Ok(done) => done?,
        Err(panic) => return Err(Failure::Crash(message(&panic))),
    };
    for (r, (got, want)) in p.roots.iter().zip(got.iter().zip(&want)) {
        if let Some(m) = difference(&p.instrs[*r], got, want) {
            return Err(Failure::Differs(format!("v{r} ({}): {m}", p.instrs[*r].opcode)));
        }
    }
    Ok(())
}

fn numbers(s: Scalar) -> [f64; 2] {
    let (re, im) = s.complex();
    [re, im]
}

fn difference(i: &Instr, got: &Array, want: &Tensor) -> Option<String> {
    let dims: Vec<u64> = want.dims.iter().map(|&d| d as u64).collect();
    if got.dtype != want.dtype || got.dims != dims {
        return Some(format!("{} for {} {dims:?}", got.shape(), want.dtype.name()));
    }
    let size = got.dtype.host_bytes();
    let tolerance = if i.exact() { 0.0 } else { 4.0 * i.facts.error + 1e-30 };
    for k in 0..want.elements() {
        let bytes = &got.bytes[k * size..(k + 1) * size];
        if bytes == &want.bytes()[k * size..(k + 1) * size] {
            continue;
        }
        let (g, w) = (decode(got.dtype, bytes), want.get(k));
        let same = if got.dtype.is_float() || got.dtype.is_complex() {
            numbers(g)
                .into_iter()
                .zip(numbers(w))
                .all(|(g, w)| g == w || (g - w).abs() <= tolerance || g.is_nan() && w.is_nan())
        } else {
            g == w
        };
        if !same {
            return Some(format!("element {k}: {g:?} for {w:?} (tolerance {tolerance:e})"));
        }
    }
    None
}
