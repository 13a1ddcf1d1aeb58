//! Points of a sweep: which there are, their ids, and which share code or a run.

use crate::bad;
use crate::spec::{Axis, Code, OPTIONS, Sample, Spec, number};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use systole_isa::ChipConfig;
use systole_isa::chip::params;
use systole_runtime::RuntimeError;

/// A chip of the sweep: a preset, or a file with its text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Base {
    pub name: String,
    /// The chip file; empty for a preset.
    pub text: String,
}

impl Base {
    /// A preset by its name, or a file by its path.
    ///
    /// # Errors
    /// If there is no such chip, or it is wrong.
    pub fn read(name: &str) -> Result<Base, RuntimeError> {
        let base = if name.ends_with(".toml") || name.contains('/') {
            let text = systole_runtime::files::read_text(name).map_err(|e| bad(format!("{name}: {e}")))?;
            Base { name: name.to_string(), text }
        } else {
            Base { name: name.to_string(), text: String::new() }
        };
        base.chip().map(|_| base)
    }

    /// The chip.
    ///
    /// # Errors
    /// If it is wrong.
    pub fn chip(&self) -> Result<ChipConfig, RuntimeError> {
        let chip = match self.text.is_empty() {
            true => ChipConfig::from_preset(&self.name),
            false => ChipConfig::from_toml(&self.text, &self.name),
        };
        chip.map_err(|e| bad(e.to_string()))
    }
}

/// A design and a program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// Hash of chip, program, flags and version.
    pub id: String,
    pub program: String,
    /// Name of its base chip.
    pub chip: String,
    /// Overrides of the base.
    pub sets: BTreeMap<String, String>,
    /// Flags of the compilation.
    pub options: BTreeMap<String, String>,
}

impl Case {
    /// What is different from the base chip and the usual compilation, by key.
    pub fn changes(&self) -> impl Iterator<Item = (&String, &String)> {
        self.sets.iter().chain(&self.options)
    }

    /// The value of a key, if it is one of [`Self::changes`].
    pub fn value(&self, key: &str) -> Option<&String> {
        self.sets.get(key).or_else(|| self.options.get(key))
    }
}

/// One design with one program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    #[serde(flatten)]
    pub case: Case,
    /// Points of one hash have one code.
    pub code: String,
    /// Points of one hash differ in prices alone.
    pub run: String,
    /// Why it cannot be run: its parameters do not fit together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

impl Point {
    /// The chip with the overrides.
    ///
    /// # Errors
    /// If they do not fit together.
    pub fn chip(&self, base: &Base) -> Result<ChipConfig, RuntimeError> {
        with(base.chip()?, self.case.sets.iter())
    }

    /// The chip that code is made for: with the overrides that code depends on, or all.
    ///
    /// # Errors
    /// If they do not fit together.
    pub fn compiled_for(&self, base: &Base, code: Code) -> Result<ChipConfig, RuntimeError> {
        match code {
            Code::Each => self.chip(base),
            Code::Shared => with(base.chip()?, self.case.sets.iter().filter(|s| binds_code(s.0))),
        }
    }

    /// What is the same for the same design with another program.
    pub fn design(&self) -> (&str, &BTreeMap<String, String>, &BTreeMap<String, String>) {
        (&self.case.chip, &self.case.sets, &self.case.options)
    }
}

fn with<'a>(
    mut chip: ChipConfig,
    sets: impl Iterator<Item = (&'a String, &'a String)>,
) -> Result<ChipConfig, RuntimeError> {
    let sets: Vec<String> = sets.map(|(k, v)| format!("{k}={v}")).collect();
    chip.apply_sets(&sets).map_err(|e| bad(e.to_string()))?;
    Ok(chip)
}

/// Whether compiled code depends on a parameter.
fn binds_code(key: &str) -> bool {
    let cores = key == "cores" || key == "cores_per_device";
    let types = key.starts_with("mxu.types.");
    cores || types || params::all().any(|p| p.key == key && p.binds_code)
}

/// Sweeps that differ in more than prices have other chips but for these keys.
fn is_price(key: &str) -> bool {
    key.starts_with("costs.")
}

/// What a sweep consists of.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    pub version: String,
    /// Where the specification was: its chip files are named from there.
    pub folder: String,
    pub bases: BTreeMap<String, Base>,
    /// Hash of every program's bytes.
    pub programs: BTreeMap<String, String>,
    pub points: Vec<Point>,
    /// Points of the space that conditions removed.
    pub removed: usize,
}

/// A hash of texts, in 24 hexadecimal digits.
pub fn hash(parts: &[&str]) -> String {
    let mut h = Sha256::new();
    for p in parts {
        h.update((p.len() as u64).to_le_bytes());
        h.update(p.as_bytes());
    }
    h.finalize().iter().take(12).map(|b| format!("{b:02x}")).collect()
}

/// The same for a file.
pub fn hash_bytes(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().take(12).map(|b| format!("{b:02x}")).collect()
}

/// A stream of numbers from 0 to 1 that follows from a seed.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed ^ 0x9E37_79B9_7F4A_7C15)
    }

    /// The next number, below 1.
    pub fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        ((self.uniform() * n as f64) as usize).min(n.saturating_sub(1))
    }
}

/// Values of the parameters of one design.
pub type Values = BTreeMap<String, String>;

/// Most points of a sweep.
const MOST: u64 = 10_000_000;

/// All combinations.
fn grid(axes: &[Axis]) -> Result<Vec<Values>, RuntimeError> {
    let all: Vec<(&str, Vec<String>)> = axes.iter().map(|a| (a.key.as_str(), a.values.grid())).collect();
    let count = all.iter().fold(1u64, |n, a| n.saturating_mul(a.1.len() as u64));
    if count > MOST {
        return Err(bad(format!("the grid has {count} designs, at most {MOST} are planned: take a sample")));
    }
    let mut out = vec![Values::new()];
    for (key, values) in all {
        let extend = |v: &Values| {
            let with = |x: &String| {
                let mut v = v.clone();
                v.insert(key.to_string(), x.clone());
                v
            };
            values.iter().map(with).collect::<Vec<_>>()
        };
        out = out.iter().flat_map(extend).collect();
    }
    Ok(out)
}

/// Designs of a sample, none twice.
fn sampled(spec: &Spec) -> Result<Vec<Values>, RuntimeError> {
    let (points, seed, cube) = match spec.space.sample {
        Sample::Grid => return grid(&spec.space.axes),
        Sample::Random { points, seed } => (points, seed, false),
        Sample::Lhs { points, seed } => (points, seed, true),
    };
    if u64::from(points) > MOST {
        return Err(bad(format!("at most {MOST} points are planned")));
    }
    let mut random = Random::new(seed);
    let mut out = vec![Values::new(); points as usize];
    for axis in &spec.space.axes {
        let n = out.len();
        let mut cells: Vec<usize> = (0..n).collect();
        for i in (1..n).rev() {
            cells.swap(i, random.below(i + 1));
        }
        for (v, cell) in out.iter_mut().zip(cells) {
            let inside = random.uniform();
            let share = if cube { (cell as f64 + inside) / n as f64 } else { inside };
            v.insert(axis.key.clone(), axis.values.at(share));
        }
    }
    let mut seen = BTreeSet::new();
    out.retain(|v| seen.insert(v.clone()));
    Ok(out)
}

/// The numeric value of a name in a design: its own parameter, else the chip's.
fn value(name: &str, values: &Values, chip: &ChipConfig) -> Option<f64> {
    if let Some(text) = values.get(name) {
        return number(name, text);
    }
    if let Some(p) = params::all().find(|p| p.key == name) {
        return match (p.get)(chip) {
            params::Value::Number(n) => Some(n),
            params::Value::Text(_) => None,
        };
    }
    None
}

/// Adds linked parameters; `false` where a condition removes the design.
fn complete(spec: &Spec, values: &mut Values, chip: &ChipConfig) -> Result<bool, RuntimeError> {
    for (key, expr) in &spec.space.linked {
        // A parameter that is equal to another may be a word.
        let word = match expr {
            crate::expr::Expr::Name(n) => values.get(n).cloned(),
            crate::expr::Expr::Number(_)
            | crate::expr::Expr::Not(_)
            | crate::expr::Expr::Negate(_)
            | crate::expr::Expr::Binary(..) => None,
        };
        let text = match word {
            Some(w) => w,
            None => {
                let x = expr.eval(&|n| value(n, values, chip)).map_err(|e| bad(format!("linked `{key}`: {e}")))?;
                crate::spec::write_number(key, x)
            }
        };
        values.insert(key.clone(), text);
    }
    for (text, expr) in &spec.space.conditions {
        let holds = expr.eval(&|n| value(n, values, chip)).map_err(|e| bad(format!("condition `{text}`: {e}")))?;
        if holds == 0.0 {
            return Ok(false);
        }
    }
    Ok(true)
}

impl Plan {
    /// All points of a sweep, with its programs' bytes by name.
    ///
    /// # Errors
    /// Anything wrong with chips, programs or expressions. Designs whose parameters do not fit together are points that
    /// say why they are refused.
    pub fn new(spec: &Spec) -> Result<(Plan, BTreeMap<String, Vec<u8>>), RuntimeError> {
        let designs = sampled(spec)?;
        let (mut plan, bytes) = Plan::empty(spec)?;
        for base in plan.bases.clone().values() {
            for v in &designs {
                plan.add(spec, base, v.clone())?;
            }
        }
        Ok((plan, bytes))
    }

    /// A plan without points.
    ///
    /// # Errors
    /// Anything wrong with chips or programs.
    pub fn empty(spec: &Spec) -> Result<(Plan, BTreeMap<String, Vec<u8>>), RuntimeError> {
        let mut bytes = BTreeMap::new();
        let mut plan =
            Plan { version: env!("CARGO_PKG_VERSION").to_string(), folder: spec.folder.clone(), ..Plan::default() };
        for p in &spec.space.programs {
            let read = std::fs::read(&p.path).map_err(|e| bad(format!("{}: {e}", p.path)))?;
            plan.programs.insert(p.name.clone(), hash_bytes(&read));
            bytes.insert(p.name.clone(), read);
        }
        for name in &spec.space.chips {
            let base = Base::read(name)?;
            plan.bases.insert(name.clone(), base);
        }
        Ok((plan, bytes))
    }

    /// Adds a design with every program; the points' places, none if conditions remove it.
    ///
    /// # Errors
    /// An expression without value.
    pub fn add(&mut self, spec: &Spec, base: &Base, mut values: Values) -> Result<Vec<usize>, RuntimeError> {
        let chip = base.chip()?;
        if !complete(spec, &mut values, &chip)? {
            self.removed += spec.space.programs.len();
            return Ok(Vec::new());
        }
        let split = |options: bool| {
            values
                .iter()
                .filter(move |v| OPTIONS.contains(&v.0.as_str()) == options)
                .map(|(k, v)| (k.clone(), v.clone()))
        };
        let (sets, options): (Values, Values) = (split(false).collect(), split(true).collect());
        let mut places = Vec::new();
        for p in &spec.space.programs {
            let mut point = Point {
                case: Case {
                    program: p.name.clone(),
                    chip: base.name.clone(),
                    sets: sets.clone(),
                    options: options.clone(),
                    ..Case::default()
                },
                code: String::new(),
                run: String::new(),
                refused: None,
            };
            self.identify(spec, base, &mut point);
            places.push(self.points.len());
            self.points.push(point);
        }
        Ok(places)
    }

    /// Fills in the hashes.
    fn identify(&self, spec: &Spec, base: &Base, point: &mut Point) {
        let flags = format!("{:?} {:?} {:?} {:?}", point.case.options, spec.code, spec.assume, spec.max_cycles);
        let program = self.programs.get(&point.case.program).map_or("", String::as_str);
        let chip = match point.chip(base).and_then(|c| Ok((point.compiled_for(base, spec.code)?, c))) {
            Ok(c) => c,
            Err(e) => {
                point.refused = Some(e.to_string().trim().replace('\n', " "));
                let sets = format!("{:?}", point.case.sets);
                point.case.id = hash(&["refused", &base.name, &base.text, &sets, program, &flags, &self.version]);
                return;
            }
        };
        let text = |c: &ChipConfig, prices: bool| {
            // Where a chip comes from changes no number.
            let mut c = ChipConfig { origin: Default::default(), ..c.clone() };
            if !prices {
                c.costs = Default::default();
            }
            format!("{c:?}")
        };
        let (compiled, chip) = chip;
        point.code = hash(&[&text(&compiled, false), program, &flags, &self.version]);
        point.run = hash(&[&point.code, &text(&chip, false)]);
        point.case.id = hash(&[&point.run, &text(&chip, true)]);
        debug_assert!(point.case.sets.keys().all(|k| !is_price(k) || !binds_code(k)));
    }

    /// The base chip of a point.
    ///
    /// # Errors
    /// If the plan is damaged.
    pub fn base(&self, point: &Point) -> Result<&Base, RuntimeError> {
        let found = self.bases.values().find(|b| b.name == point.case.chip);
        found.ok_or_else(|| bad(format!("point {}: chip `{}` is not in the plan", point.case.id, point.case.chip)))
    }

    /// How many codes and runs the points need.
    pub fn counts(&self) -> (usize, usize) {
        let able = || self.points.iter().filter(|p| p.refused.is_none());
        let codes: BTreeSet<&str> = able().map(|p| p.code.as_str()).collect();
        let runs: BTreeSet<&str> = able().map(|p| p.run.as_str()).collect();
        (codes.len(), runs.len())
    }
}
