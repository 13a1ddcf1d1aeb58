//! The specification of a sweep: what is varied, and what is looked for.

use crate::bad;
use crate::expr::Expr;
use serde::Deserialize;
use std::collections::BTreeMap;
use systole_isa::ChipConfig;
use systole_isa::chip::{Quantity, params};
use systole_runtime::RuntimeError;

/// A sweep as its file describes it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: Option<String>,
    programs: Vec<ProgramEntry>,
    #[serde(default = "default_chips")]
    chips: Vec<String>,
    #[serde(default)]
    parameters: BTreeMap<String, AxisEntry>,
    #[serde(default)]
    linked: BTreeMap<String, toml::Value>,
    #[serde(default)]
    conditions: Vec<String>,
    #[serde(default)]
    sample: Sample,
    #[serde(default = "default_objectives")]
    objectives: Vec<String>,
    #[serde(default)]
    constraints: Vec<String>,
    #[serde(default)]
    code: Code,
    #[serde(default)]
    assume: Vec<String>,
    max_cycles: Option<u64>,
}

fn default_chips() -> Vec<String> {
    vec!["tpu-v5e".into()]
}

fn default_objectives() -> Vec<String> {
    vec!["time_s".into(), "energy_j".into(), "area_mm2".into()]
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum ProgramEntry {
    Path(String),
    Named { file: String, name: String },
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum AxisEntry {
    List(Vec<toml::Value>),
    Range(Range),
}

/// Values between two ends.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Range {
    from: toml::Value,
    to: toml::Value,
    /// Values of a grid.
    #[serde(default = "default_steps")]
    steps: u32,
    #[serde(default)]
    scale: Scale,
    /// Values are rounded to multiples of this.
    multiple_of: Option<toml::Value>,
}

fn default_steps() -> u32 {
    5
}

/// How values lie between the ends of a range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    #[default]
    Linear,
    Log,
}

/// Whether points that differ in timing alone share their code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Code {
    /// Code is made for the chip with the parameters that code depends on, once.
    #[default]
    Shared,
    /// Code is made for every point: the compiler's estimates see all parameters.
    Each,
}

/// Which points of the space are taken.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(tag = "method", rename_all = "lowercase", deny_unknown_fields)]
pub enum Sample {
    /// All combinations.
    #[default]
    Grid,
    /// Independent draws.
    Random {
        points: u32,
        #[serde(default)]
        seed: u64,
    },
    /// Latin hypercube: every range is covered evenly.
    Lhs {
        points: u32,
        #[serde(default)]
        seed: u64,
    },
}

/// The values of a parameter.
#[derive(Clone, Debug)]
pub struct Axis {
    pub key: String,
    pub values: Values,
}

/// What a parameter may be.
#[derive(Clone, Debug)]
pub enum Values {
    List(Vec<String>),
    /// In the base unit.
    Range {
        from: f64,
        to: f64,
        steps: u32,
        scale: Scale,
        multiple_of: Option<f64>,
        /// None where it is no number of a chip.
        quantity: Option<Quantity>,
    },
}

impl Values {
    /// The value at a place from 0 to 1.
    pub fn at(&self, share: f64) -> String {
        match self {
            Values::List(all) => {
                let i = (share * all.len() as f64) as usize;
                all[i.min(all.len() - 1)].clone()
            }
            Values::Range { from, to, scale, multiple_of, quantity, .. } => {
                let x = match scale {
                    Scale::Linear => from + share * (to - from),
                    Scale::Log => (from.ln() + share * (to.ln() - from.ln())).exp(),
                };
                let x = match multiple_of {
                    Some(m) => ((x / m).round() * m).max(*m),
                    None if quantity.is_some_and(|q| q.is_whole()) => x.round(),
                    // Twelve digits: no trace of the way there.
                    None => format!("{x:.11e}").parse().unwrap_or(x),
                };
                written(*quantity, x)
            }
        }
    }

    /// The values of a grid, none twice.
    pub fn grid(&self) -> Vec<String> {
        match self {
            Values::List(all) => all.clone(),
            Values::Range { steps, .. } => {
                let last = f64::from(steps.saturating_sub(1).max(1));
                let mut out: Vec<String> = (0..(*steps).max(1)).map(|i| self.at(f64::from(i) / last)).collect();
                out.dedup();
                out
            }
        }
    }
}

/// The points of a sweep: every program on every chip, with values of the axes.
#[derive(Clone, Debug)]
pub struct Space {
    pub programs: Vec<Program>,
    pub chips: Vec<String>,
    pub axes: Vec<Axis>,
    /// Parameters that follow from others.
    pub linked: Vec<(String, Expr)>,
    /// What must hold of a point before it is run.
    pub conditions: Vec<(String, Expr)>,
    /// Which of the points are taken.
    pub sample: Sample,
}

/// A program of the sweep.
#[derive(Clone, Debug)]
pub struct Program {
    pub name: String,
    pub path: String,
}

/// What is wanted of a column.
#[derive(Clone, Debug, PartialEq)]
pub struct Objective {
    pub column: String,
    pub largest: bool,
}

/// A sweep.
#[derive(Clone, Debug)]
pub struct Spec {
    pub name: String,
    /// Where its file was.
    pub folder: String,
    pub space: Space,
    pub objectives: Vec<Objective>,
    pub constraints: Vec<(String, Expr)>,
    pub code: Code,
    pub assume: Vec<String>,
    pub max_cycles: Option<u64>,
}

/// Keys that say how a program is compiled, not what the chip is.
pub const OPTIONS: &[&str] = &[
    "program.precision",
    "program.replicas",
    "program.partitions",
    "program.topology",
    "program.collective",
    "program.cores",
];

/// The quantity of a parameter, if it is a number of the table.
fn quantity(key: &str) -> Option<Quantity> {
    params::all().find(|p| p.key == key).map(|p| p.quantity)
}

/// A number of a parameter, in its base unit.
pub fn number(key: &str, text: &str) -> Option<f64> {
    match quantity(key) {
        Some(q) if !q.is_text() => q.parse(text),
        Some(_) => None,
        None => text.parse().ok(),
    }
}

/// A value of a parameter, given in its base unit, as chips take it: with a unit where one is due, and always the same number.
pub fn write_number(key: &str, x: f64) -> String {
    written(quantity(key), x)
}

fn written(quantity: Option<Quantity>, x: f64) -> String {
    let Some(q) = quantity.filter(|q| q.needs_unit()) else { return format!("{x}") };
    let short = q.print(x);
    match q.units().first() {
        Some((base, _)) if q.parse(&short) != Some(x) => format!("{x} {base}"),
        Some(_) | None => short,
    }
}

fn text_of(v: &toml::Value) -> Result<String, String> {
    match v {
        toml::Value::String(s) => Ok(s.clone()),
        toml::Value::Integer(i) => Ok(i.to_string()),
        toml::Value::Float(x) => Ok(x.to_string()),
        toml::Value::Boolean(_) | toml::Value::Datetime(_) | toml::Value::Array(_) | toml::Value::Table(_) => {
            Err(format!("`{v}` is no number or text"))
        }
    }
}

fn axis(key: &str, entry: &AxisEntry) -> Result<Axis, String> {
    let values = match entry {
        AxisEntry::List(all) if all.is_empty() => return Err("has no values".into()),
        AxisEntry::List(all) => {
            let all = all.iter().map(text_of).collect::<Result<Vec<String>, _>>()?;
            let unit = quantity(key).filter(|q| q.needs_unit());
            if let Some((q, bare)) = unit.and_then(|q| Some((q, all.iter().find(|t| q.parse(t).is_none())?))) {
                return Err(format!("`{bare}`: it takes {}", q.describe()));
            }
            Values::List(all)
        }
        AxisEntry::Range(r) => {
            let end = |v: &toml::Value| {
                let text = text_of(v)?;
                number(key, &text).ok_or_else(|| match quantity(key) {
                    Some(q) => format!("`{text}`: it takes {}", q.describe()),
                    None => format!("`{text}` is no value of it"),
                })
            };
            let (from, to) = (end(&r.from)?, end(&r.to)?);
            if r.scale == Scale::Log && (from <= 0.0 || to <= 0.0) {
                return Err("a logarithmic range has positive ends".into());
            }
            let multiple_of = r.multiple_of.as_ref().map(end).transpose()?;
            if multiple_of.is_some_and(|m| m <= 0.0) || !(1..=100_000).contains(&r.steps) {
                return Err("`multiple_of` is positive, `steps` from 1 to 100000".into());
            }
            Values::Range { from, to, steps: r.steps, scale: r.scale, multiple_of, quantity: quantity(key) }
        }
    };
    Ok(Axis { key: key.to_string(), values })
}

/// Whether a chip, or the command, knows the key.
fn known(key: &str) -> Result<(), String> {
    if OPTIONS.contains(&key) {
        return Ok(());
    }
    if key.starts_with("program.") {
        return Err(format!("is none of {}", OPTIONS.join(", ")));
    }
    let mut chip = ChipConfig::from_preset("tpu-v5e").map_err(|e| e.to_string())?;
    // A value that no parameter takes: only the key matters.
    match chip.apply_set(&format!("{key}=\u{1}")).map_err(|e| e.to_string()) {
        Err(e) if e.starts_with("unknown parameter") => Err(e.trim_end().replace('\n', " ")),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn objective(text: &str) -> Objective {
    match text.strip_prefix("max:") {
        Some(column) => Objective { column: column.trim().into(), largest: true },
        None => Objective { column: text.strip_prefix("min:").unwrap_or(text).trim().into(), largest: false },
    }
}

impl Spec {
    /// Reads a specification. Paths are relative to `folder`.
    ///
    /// # Errors
    /// What is wrong with it, with its place.
    pub fn parse(text: &str, name: &str, folder: &std::path::Path) -> Result<Spec, RuntimeError> {
        let file: File = toml::from_str(text).map_err(|e| bad(format!("{name}: {e}")))?;
        let wrong = |what: &str, e: String| bad(format!("{name}: {what}: {e}"));
        if file.programs.is_empty() || file.chips.is_empty() {
            return Err(bad(format!("{name}: `programs` and `chips` name at least one each")));
        }
        let folder = if folder.as_os_str().is_empty() { std::path::Path::new(".") } else { folder };
        let at = |p: &str| folder.join(p).to_string_lossy().into_owned();
        let program = |p: &ProgramEntry| match p {
            ProgramEntry::Path(f) => {
                let stem = std::path::Path::new(f).file_stem().map_or(f.clone(), |s| s.to_string_lossy().into_owned());
                Program { name: stem, path: at(f) }
            }
            ProgramEntry::Named { file, name } => Program { name: name.clone(), path: at(file) },
        };
        let programs: Vec<Program> = file.programs.iter().map(program).collect();
        for (i, p) in programs.iter().enumerate() {
            if programs[..i].iter().any(|q| q.name == p.name) {
                return Err(bad(format!("{name}: two programs are called `{}`: give one a name", p.name)));
            }
        }
        let mut axes = Vec::new();
        for (key, entry) in &file.parameters {
            known(key).map_err(|e| wrong(&format!("parameter `{key}`"), e))?;
            axes.push(axis(key, entry).map_err(|e| wrong(&format!("parameter `{key}`"), e))?);
        }
        let mut linked = Vec::new();
        for (key, value) in &file.linked {
            let both = file.parameters.contains_key(key).then(|| "is a parameter already".to_string());
            let checked = both.map_or_else(|| known(key), Err).and_then(|()| text_of(value));
            let expr = checked.and_then(|t| Expr::parse(&t)).map_err(|e| wrong(&format!("linked `{key}`"), e))?;
            linked.push((key.clone(), expr));
        }
        let parsed = |what: &str, list: &[String]| {
            let one = |t: &String| Expr::parse(t).map(|e| (t.clone(), e)).map_err(|e| wrong(what, e));
            list.iter().map(one).collect::<Result<Vec<_>, _>>()
        };
        let objectives: Vec<Objective> = file.objectives.iter().map(|o| objective(o)).collect();
        if let Some(o) = objectives.iter().find(|o| !crate::numbers::is_number(&o.column)) {
            let columns = crate::numbers::numbers().join(", ");
            return Err(bad(format!("{name}: objective `{}` is none of the columns {columns}", o.column)));
        }
        let chips = file.chips.iter().map(|c| if c.ends_with(".toml") || c.contains('/') { at(c) } else { c.clone() });
        let (chips, conditions) = (chips.collect(), parsed("condition", &file.conditions)?);
        let space = Space { programs, chips, axes, linked, conditions, sample: file.sample };
        Ok(Spec {
            name: file.name.unwrap_or_else(|| "sweep".into()),
            folder: folder.canonicalize().unwrap_or_else(|_| folder.to_path_buf()).to_string_lossy().into_owned(),
            space,
            objectives,
            constraints: parsed("constraint", &file.constraints)?,
            code: file.code,
            assume: file.assume,
            max_cycles: file.max_cycles,
        })
    }
}
