//! Programs in the making: instructions with facts about their values, and their text.

use super::random::Random;
use std::collections::BTreeMap;
use std::fmt::Write;
use systole_isa::DType;
use systole_runtime::Array;

/// What is known of a value.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Largest magnitude.
    pub bound: f64,
    /// The elements are multiples of this and exact; 0: inexact.
    pub step: f64,
    /// How far rounding can have taken an element from what exact arithmetic gives.
    pub error: f64,
}

/// An instruction.
#[derive(Clone, Debug)]
pub struct Instr {
    /// Element type and sizes of each result; one unless the result is a tuple.
    pub shapes: Vec<(DType, Vec<u64>)>,
    pub tuple: bool,
    /// The opcode, and what follows its operands.
    pub opcode: String,
    pub attributes: String,
    pub source: Source,
    pub facts: Facts,
}

/// What an instruction's value is made of.
#[derive(Clone, Debug)]
pub enum Source {
    /// Values of other instructions, if any.
    Operands(Vec<usize>),
    /// A constant's text.
    Constant(String),
    /// A parameter's value, and its layout, minor dimension first.
    Input(Array, Option<Vec<usize>>),
}

impl Instr {
    pub fn dtype(&self) -> DType {
        self.shapes[0].0
    }

    pub fn dims(&self) -> &[u64] {
        &self.shapes[0].1
    }

    /// The instructions whose values it takes.
    pub fn operands(&self) -> &[usize] {
        match &self.source {
            Source::Operands(all) => all,
            Source::Constant(_) | Source::Input(..) => &[],
        }
    }

    /// The value of a parameter.
    pub fn input(&self) -> Option<&Array> {
        match &self.source {
            Source::Input(value, _) => Some(value),
            Source::Operands(_) | Source::Constant(_) => None,
        }
    }

    /// The layout of a parameter, if it has one.
    fn layout(&self) -> Option<&Vec<usize>> {
        match &self.source {
            Source::Input(_, layout) => layout.as_ref(),
            Source::Operands(_) | Source::Constant(_) => None,
        }
    }

    /// Whether the elements are what exact arithmetic gives.
    pub fn exact(&self) -> bool {
        !self.dtype().is_float() && !self.dtype().is_complex() || self.facts.step > 0.0
    }
}

/// How a program is compiled.
#[derive(Clone, Copy, Debug, Default)]
pub struct Way {
    /// Arrays of more bytes than this pass through windows; without, those that vector memory does not hold.
    pub max_resident: Option<u64>,
    /// A kernel's windows take one part in this many of vector memory at most; without, as much as the planner gives them.
    pub scoped: Option<u64>,
    /// Tiles and cuts fall as the dice of this seed do; without, as estimates say.
    pub dice: Option<u64>,
}

/// A program: computations that instructions call, the entry's instructions, and which of them are results.
#[derive(Clone, Debug)]
pub struct Program {
    pub computations: Vec<String>,
    pub instrs: Vec<Instr>,
    pub roots: Vec<usize>,
    /// Results take the memory of parameters of their shape.
    pub donates: bool,
    pub way: Way,
    /// Layouts of results, minor dimension first, by instruction.
    pub lie: BTreeMap<usize, Vec<usize>>,
}

/// Sizes as text.
pub fn list(dims: &[u64]) -> String {
    dims.iter().map(u64::to_string).collect::<Vec<_>>().join(",")
}

/// A shape as text.
pub fn shape(dtype: DType, dims: &[u64]) -> String {
    format!("{}[{}]", dtype.name(), list(dims))
}

/// An instruction's shape, in a layout where one is given.
fn shape_of(i: &Instr, layout: Option<&Vec<usize>>) -> String {
    let all: Vec<String> = i.shapes.iter().map(|(t, d)| shape(*t, d)).collect();
    let mut text = if i.tuple { format!("({})", all.join(", ")) } else { all[0].clone() };
    if let Some(l) = layout {
        let l: Vec<u64> = l.iter().map(|&d| d as u64).collect();
        let _ = write!(text, "{{{}}}", list(&l));
    }
    text
}

impl Program {
    /// Which instructions the results need.
    pub fn needed(&self) -> Vec<bool> {
        let mut needed = vec![false; self.instrs.len()];
        let mut stack = self.roots.clone();
        while let Some(i) = stack.pop() {
            if !std::mem::replace(&mut needed[i], true) {
                stack.extend(self.instrs[i].operands());
            }
        }
        needed
    }

    /// The parameters' values, of those that the results need.
    pub fn inputs(&self) -> Vec<Array> {
        let needed = self.needed();
        self.instrs.iter().zip(needed).filter(|(_, n)| *n).filter_map(|(i, _)| i.input().cloned()).collect()
    }

    /// Results that take the memory of parameters, as the module's header says it: each the first of its shape that is left.
    fn aliases(&self) -> String {
        let needed = self.needed();
        let mut left: Vec<(usize, &Instr)> = self
            .instrs
            .iter()
            .zip(&needed)
            .filter(|(_, n)| **n)
            .map(|(i, _)| i)
            .filter(|i| i.input().is_some())
            .enumerate()
            .collect();
        let mut all = Vec::new();
        for (result, &r) in self.roots.iter().enumerate() {
            let fits = |(_, p): &(usize, &Instr)| p.shapes == self.instrs[r].shapes && p.layout().is_none();
            if self.lie.contains_key(&r) {
                continue;
            }
            if let Some(at) = left.iter().position(fits) {
                all.push(format!("{{{result}}}: ({}, {{}}, may-alias)", left.remove(at).0));
            }
        }
        if self.donates && !all.is_empty() {
            format!(", input_output_alias={{ {} }}", all.join(", "))
        } else {
            String::new()
        }
    }

    /// HLO text.
    pub fn text(&self) -> String {
        let needed = self.needed();
        let used: Vec<&Instr> = self.instrs.iter().zip(&needed).filter(|(_, n)| **n).map(|(i, _)| i).collect();
        let params: Vec<String> =
            used.iter().filter(|i| i.input().is_some()).map(|i| shape_of(i, i.layout())).collect();
        let roots: Vec<String> = self.roots.iter().map(|&r| shape_of(&self.instrs[r], None)).collect();
        let lie = |r: &usize| shape_of(&self.instrs[*r], self.lie.get(r));
        let results: Vec<String> = self.roots.iter().map(lie).collect();
        let mut text = format!(
            "HloModule fuzz{}, entry_computation_layout={{({})->({})}}\n\n",
            self.aliases(),
            params.join(", "),
            results.join(", ")
        );
        for c in &self.computations {
            let name = c.split_whitespace().next().unwrap_or("");
            // Computations come before those that call them; those that nothing names are left out.
            let named = |t: &str| t.split(|c: char| !c.is_alphanumeric() && c != '_').any(|w| w == name);
            if used.iter().any(|i| named(&i.attributes)) || self.computations.iter().any(|o| o != c && named(o)) {
                text += c;
                text += "\n";
            }
        }
        text += "ENTRY main {\n";
        let mut number = 0;
        for (k, i) in self.instrs.iter().enumerate().filter(|(k, _)| needed[*k]) {
            let operands = match &i.source {
                Source::Input(..) => {
                    number += 1;
                    (number - 1).to_string()
                }
                Source::Constant(text) => text.clone(),
                Source::Operands(all) => all.iter().map(|o| format!("v{o}")).collect::<Vec<_>>().join(", "),
            };
            let _ = writeln!(text, "  v{k} = {} {}({operands}){}", shape_of(i, i.layout()), i.opcode, i.attributes);
        }
        let names: Vec<String> = self.roots.iter().map(|r| format!("v{r}")).collect();
        let _ = writeln!(text, "  ROOT result = ({}) tuple({})\n}}", roots.join(", "), names.join(", "));
        text
    }
}

/// Largest number of elements of a value.
pub const ELEMENTS: u64 = 6400;

/// A program while it is made.
pub struct Gen {
    pub random: Random,
    pub program: Program,
    computations: usize,
    /// Operations work on the latest values, so that programs are long chains.
    pub deep: bool,
}

/// Largest magnitude that values of a type are allowed.
#[allow(clippy::wildcard_enum_match_arm, reason = "integers and truth values have no limit")]
fn cap(t: DType) -> f64 {
    match t.real() {
        DType::F32 | DType::F64 | DType::BF16 => 1e5,
        DType::F16 => 1e3,
        DType::F4E2M1FN => 4.0,
        t if t.is_float() => 48.0,
        _ => f64::INFINITY,
    }
}

/// Relative error of one operation of a type, transcendental ones included.
#[allow(clippy::wildcard_enum_match_arm, reason = "integers and truth values are exact")]
pub fn epsilon(t: DType) -> f64 {
    match t.real() {
        DType::F64 => 1e-14,
        DType::F32 => 1e-6,
        DType::F16 => 2e-3,
        DType::BF16 => 1.6e-2,
        DType::F8E5M2 | DType::F4E2M1FN => 0.5,
        t if t.is_float() => 0.3,
        _ => 0.0,
    }
}

/// Bits of a type's significand.
#[allow(clippy::wildcard_enum_match_arm, reason = "integers and truth values have all their bits")]
fn significand(t: DType) -> i32 {
    match t.real() {
        DType::F64 => 53,
        DType::F32 => 24,
        DType::F16 => 11,
        DType::BF16 => 8,
        DType::F8E5M2 => 3,
        DType::F4E2M1FN => 2,
        t if t.is_float() => 4,
        _ => 64,
    }
}

impl Gen {
    pub fn new(random: Random) -> Gen {
        let program = Program {
            computations: Vec::new(),
            instrs: Vec::new(),
            roots: Vec::new(),
            donates: false,
            way: Way::default(),
            lie: BTreeMap::new(),
        };
        Gen { random, program, computations: 0, deep: false }
    }

    pub fn instr(&self, i: usize) -> &Instr {
        &self.program.instrs[i]
    }

    pub fn dims(&self, i: usize) -> Vec<u64> {
        self.instr(i).dims().to_vec()
    }

    pub fn dtype(&self, i: usize) -> DType {
        self.instr(i).dtype()
    }

    pub fn facts(&self, i: usize) -> Facts {
        self.instr(i).facts.clone()
    }

    /// Adds an instruction whose facts are those of exact arithmetic, plus a rounding. `None` if the value could become
    /// too large, or its error as large as itself.
    pub fn push(
        &mut self,
        (dtype, dims): (DType, &[u64]),
        opcode: &str,
        operands: &[usize],
        attributes: &str,
        facts: Facts,
    ) -> Option<usize> {
        let facts = settled(dtype, facts)?;
        if dims.iter().product::<u64>() > ELEMENTS {
            return None;
        }
        self.program.instrs.push(Instr {
            shapes: vec![(dtype, dims.to_vec())],
            tuple: false,
            opcode: opcode.to_string(),
            attributes: attributes.to_string(),
            source: Source::Operands(operands.to_vec()),
            facts,
        });
        Some(self.program.instrs.len() - 1)
    }

    /// Adds an instruction with a tuple of results, and one that takes each result out.
    pub fn push_tuple(
        &mut self,
        shapes: &[(DType, Vec<u64>)],
        opcode: &str,
        operands: &[usize],
        attributes: &str,
        facts: &[Facts],
    ) -> Option<Vec<usize>> {
        let first = (shapes[0].0, &shapes[0].1[..]);
        if shapes.iter().any(|s| s.1.iter().product::<u64>() > ELEMENTS) {
            return None;
        }
        let t = self.push(first, opcode, operands, attributes, facts[0].clone())?;
        self.program.instrs[t].shapes = shapes.to_vec();
        self.program.instrs[t].tuple = true;
        let mut out = Vec::new();
        for (i, (s, f)) in shapes.iter().zip(facts).enumerate() {
            out.push(self.push((s.0, &s.1), "get-tuple-element", &[t], &format!(", index={i}"), f.clone())?);
        }
        Some(out)
    }

    /// A scalar constant, given as text. A number such as 0.9 is rounded, and sums and products with it are too.
    pub fn constant(&mut self, dtype: DType, text: &str, bound: f64) -> usize {
        let step = if dtype.is_float() { 1.0 / 64.0 } else { 1.0 };
        let rounded = dtype.is_float() && text.parse::<f64>().is_ok_and(|v| (v / step).fract() != 0.0);
        let facts = match rounded {
            true => Facts { bound, step: 0.0, error: epsilon(dtype) * bound },
            false => Facts { bound, step, error: 0.0 },
        };
        self.program.instrs.push(Instr {
            shapes: vec![(dtype, Vec::new())],
            tuple: false,
            opcode: "constant".into(),
            attributes: String::new(),
            source: Source::Constant(text.to_string()),
            facts,
        });
        self.program.instrs.len() - 1
    }

    /// A computation of the program; `text` gets its name.
    pub fn computation(&mut self, text: impl FnOnce(&str) -> String) -> String {
        self.computations += 1;
        let name = format!("f{}", self.computations);
        self.program.computations.push(text(&name));
        name
    }

    /// A value for which `want` holds, if there is one.
    pub fn find(&mut self, want: impl Fn(&Instr) -> bool) -> Option<usize> {
        let all: Vec<usize> =
            (0..self.program.instrs.len()).filter(|&i| !self.instr(i).tuple && want(self.instr(i))).collect();
        // The latest values make the deepest programs.
        match all.len() as u64 {
            0 => None,
            n if self.deep && !self.random.once_in(8) => Some(all[n as usize - 1]),
            n if self.random.once_in(2) => Some(all[(n - 1 - self.random.below(n.min(3))) as usize]),
            n => Some(all[self.random.below(n) as usize]),
        }
    }

    /// A value of the type and sizes: one that there is, or a parameter.
    pub fn like(&mut self, dtype: DType, dims: &[u64]) -> usize {
        match self.find(|i| i.dtype() == dtype && i.dims() == dims) {
            Some(i) if !self.random.once_in(4) => i,
            _ => self.parameter(dtype, dims),
        }
    }
}

/// Facts after rounding to a type.
fn settled(dtype: DType, mut f: Facts) -> Option<Facts> {
    if !dtype.is_float() && !dtype.is_complex() {
        return Some(Facts { step: 1.0, error: 0.0, ..f });
    }
    if f.step > 0.0 && f.bound / f.step > f64::powi(2.0, significand(dtype)) {
        f.step = 0.0;
    }
    if f.step > 0.0 {
        f.error = 0.0;
    } else {
        f.error += epsilon(dtype) * f.bound;
    }
    (f.bound <= cap(dtype)).then_some(f)
}
