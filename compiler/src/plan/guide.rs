//! What guides the planner from outside: a schedule (decisions pinned by operation, as a text), and a cost model.
//!
//! Invariant: a pin holds or the plan fails with the pin's line; what no pin names is decided as usual.

use super::collective::Algorithm;
use ron::extensions::Extensions;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use systole_codegen::emit::blocks::{BlockCut, BlockSpec};
use systole_codegen::emit::mxu::{Contraction, Tile};
use systole_hlo::error::CompileError;
use systole_isa::ChipConfig;

/// Weighs what the planner chooses among. The planner's own estimates are given; what is returned counts instead.
pub trait CostModel: fmt::Debug + Send + Sync {
    /// Cycles of a contraction with a tile.
    fn product(&self, contraction: &Contraction, tile: &Tile, estimate: f64) -> f64 {
        let _ = (contraction, tile);
        estimate
    }

    /// The cost of a body in blocks, in cycles.
    fn blocks(&self, spec: &BlockSpec, cut: &BlockCut, estimate: u64) -> u64 {
        let _ = (spec, cut);
        estimate
    }
}

/// The tiles that a pin allows: those with these numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TilePin {
    pub variant: Option<u32>,
    pub units: Option<u32>,
    pub outer: Option<u32>,
    pub rows: Option<u32>,
    pub splits: Option<u32>,
    pub groups: Option<u32>,
    pub windows: Option<[u32; 3]>,
}

impl TilePin {
    fn allows(&self, t: &Tile) -> bool {
        let same = |pin: Option<u32>, n: u32| pin.is_none_or(|p| p == n);
        same(self.variant, t.variant)
            && same(self.units, t.units)
            && same(self.outer, t.outer)
            && same(self.rows, t.rows)
            && same(self.splits, t.splits)
            && same(self.groups, t.groups)
            && self.windows.is_none_or(|w| w == t.windows)
    }
}

/// The cuts into blocks that a pin allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CutPin {
    pub outer: Option<u32>,
    pub dimension: Option<u32>,
    pub size: Option<u32>,
}

impl CutPin {
    fn allows(&self, c: &BlockCut) -> bool {
        let same = |pin: Option<u32>, n: u32| pin.is_none_or(|p| p == n);
        same(self.outer, c.outer) && same(self.dimension, c.dimension) && same(self.size, c.size)
    }
}

/// A decision.
#[derive(Clone, Debug, PartialEq)]
enum Pinned {
    Tile(TilePin),
    Cut(CutPin),
    /// The operation's array is reached in vector memory, or in HBM.
    Keep,
    Stream,
    /// The operation has a kernel and an array of its own.
    Alone,
    Exchange(Algorithm),
    /// The operation comes before another one.
    Before(String),
}

#[derive(Debug)]
struct Pin {
    line: usize,
    pattern: String,
    what: Pinned,
    /// Whether an operation obeyed it in the plan being made.
    held: AtomicBool,
}

impl Clone for Pin {
    fn clone(&self) -> Pin {
        let (pattern, what) = (self.pattern.clone(), self.what.clone());
        Pin { line: self.line, pattern, what, held: AtomicBool::new(false) }
    }
}

impl Pin {
    fn hold(&self) {
        self.held.store(true, Ordering::Relaxed);
    }
}

/// The pins of a schedule file.
#[derive(Clone, Debug, Default)]
pub struct Schedule {
    pins: Vec<Pin>,
}

/// Whether a name matches a pattern, in which `*` stands for any text.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut left) = name.strip_prefix(first) else { return false };
    let mut parts = rest.split('*').peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return left.ends_with(part);
        }
        match left.find(part) {
            Some(at) => left = &left[at + part.len()..],
            None => return false,
        }
    }
    true
}

/// An error at a schedule's line.
fn at(line: usize, why: impl fmt::Display) -> CompileError {
    CompileError::Schedule { line, message: why.to_string() }
}

impl Schedule {
    /// The schedule that a text says: a pin a line (see `docs/plan.md`).
    ///
    /// # Errors
    /// [`CompileError::Schedule`] with the line.
    pub fn parse(text: &str) -> Result<Schedule, CompileError> {
        let mut pins = Vec::new();
        for (i, l) in text.lines().enumerate() {
            let (line, l) = (i + 1, l.split("//").next().unwrap_or("").trim());
            if l.is_empty() {
                continue;
            }
            let mut words = l.splitn(3, char::is_whitespace);
            let (keyword, name) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
            let rest = words.next().unwrap_or("").trim();
            if name.is_empty() {
                return Err(at(line, format!("`{keyword}` of which operation?")));
            }
            let ron = ron::Options::default().with_default_extension(Extensions::IMPLICIT_SOME);
            let what = match (keyword, rest) {
                ("tile", _) => Pinned::Tile(ron.from_str(rest).map_err(|e| at(line, e.code))?),
                ("cut", _) => Pinned::Cut(ron.from_str(rest).map_err(|e| at(line, e.code))?),
                ("keep", "") => Pinned::Keep,
                ("stream", "") => Pinned::Stream,
                ("alone", "") => Pinned::Alone,
                ("exchange", "axes") => Pinned::Exchange(Algorithm::Axes),
                ("exchange", _) => {
                    let known = Algorithm::from_name(rest);
                    Pinned::Exchange(known.ok_or_else(|| at(line, "`ring`, `direct` or `axes` is expected"))?)
                }
                ("before", other) if !other.is_empty() => Pinned::Before(other.to_string()),
                ("keep" | "stream" | "alone", _) => return Err(at(line, format!("`{rest}` behind the name"))),
                _ => return Err(at(line, format!("`{keyword}` pins nothing"))),
            };
            pins.push(Pin { line, pattern: name.to_string(), what, held: AtomicBool::new(false) });
        }
        Ok(Schedule { pins })
    }

    fn find<'a, T>(&'a self, name: &str, pick: impl Fn(&'a Pinned) -> Option<T>) -> Option<(&'a Pin, T)> {
        // The last pin wins.
        let found = |p: &'a Pin| pick(&p.what).filter(|_| matches(&p.pattern, name)).map(|t| (p, t));
        self.pins.iter().rev().find_map(found)
    }

    /// Fails where a pin held nowhere.
    ///
    /// # Errors
    /// [`CompileError::Schedule`].
    pub fn check(&self) -> Result<(), CompileError> {
        let idle = self.pins.iter().find(|p| !p.held.load(Ordering::Relaxed));
        idle.map_or(Ok(()), |p| Err(at(p.line, format!("no operation `{}` has such a decision", p.pattern))))
    }

    /// Forgets where pins held: planning begins anew.
    pub fn reset(&self) {
        self.pins.iter().for_each(|p| p.held.store(false, Ordering::Relaxed));
    }

    /// Whether the operation has a kernel of its own.
    pub fn is_alone(&self, name: &str) -> bool {
        self.find(name, |p| (*p == Pinned::Alone).then_some(())).map(|(p, ())| p.hold()).is_some()
    }

    /// Whether the operation's array is streamed (true) or kept in vector memory, if that is pinned, and the pin's line.
    pub fn streams(&self, name: &str) -> Option<(bool, usize)> {
        let pick = |p: &Pinned| match p {
            Pinned::Stream => Some(true),
            Pinned::Keep => Some(false),
            Pinned::Tile(_) | Pinned::Cut(_) | Pinned::Alone | Pinned::Exchange(_) | Pinned::Before(_) => None,
        };
        let (pin, streams) = self.find(name, pick)?;
        pin.hold();
        Some((streams, pin.line))
    }

    /// The algorithm of a collective, and the pin's line.
    pub fn exchange(&self, name: &str) -> Option<(Algorithm, usize)> {
        let (pin, a) = self.find(name, |p| if let Pinned::Exchange(a) = p { Some(*a) } else { None })?;
        pin.hold();
        Some((a, pin.line))
    }

    /// Which tiles an operation may have, and the pin's line.
    pub fn tile(&self, name: &str) -> Option<(TilePin, usize)> {
        let (pin, t) = self.find(name, |p| if let Pinned::Tile(t) = p { Some(*t) } else { None })?;
        pin.hold();
        Some((t, pin.line))
    }

    /// Which cuts an operation's kernel may have, and the pin's line.
    pub fn cut(&self, name: &str) -> Option<(CutPin, usize)> {
        let (pin, c) = self.find(name, |p| if let Pinned::Cut(c) = p { Some(*c) } else { None })?;
        pin.hold();
        Some((c, pin.line))
    }

    /// Pairs of patterns of which the first's operations come before the second's, with lines.
    pub fn orders(&self) -> impl Iterator<Item = (&str, &str, usize)> {
        self.pins.iter().filter_map(|p| match &p.what {
            Pinned::Before(other) => Some((p.pattern.as_str(), other.as_str(), p.line)),
            Pinned::Tile(_) | Pinned::Cut(_) | Pinned::Keep | Pinned::Stream | Pinned::Alone | Pinned::Exchange(_) => {
                None
            }
        })
    }

    /// Notes that the pin of a line holds.
    pub fn hold(&self, line: usize) {
        self.pins.iter().filter(|p| p.line == line).for_each(|p| p.hold());
    }
}

/// Tiles and cuts that were found to be good, by what they are of.
#[derive(Clone, Debug, Default)]
pub struct Tuned {
    pub tiles: rustc_hash::FxHashMap<Contraction, Tile>,
    pub cuts: rustc_hash::FxHashMap<BlockSpec, BlockCut>,
}

/// An entry of a database of tuned kernels: for the chips of a fingerprint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum TunedKernel {
    Tile(u64, Contraction, Tile),
    Cut(u64, BlockSpec, BlockCut),
}

impl Tuned {
    /// The entries of a text for a chip: one a line. Those of other chips are left out; of two alike the last counts.
    ///
    /// # Errors
    /// [`CompileError::Schedule`] with the line.
    pub fn parse(text: &str, chip: &ChipConfig) -> Result<Tuned, CompileError> {
        let mut tuned = Tuned::default();
        for (i, l) in text.lines().enumerate().filter(|l| !l.1.trim().is_empty() && !l.1.starts_with("//")) {
            match ron::from_str(l).map_err(|e| at(i + 1, e.code))? {
                TunedKernel::Tile(f, c, t) if f == chip.fingerprint() => {
                    tuned.tiles.insert(c, t);
                }
                TunedKernel::Cut(f, s, c) if f == chip.fingerprint() => {
                    tuned.cuts.insert(s, c);
                }
                TunedKernel::Tile(..) | TunedKernel::Cut(..) => {}
            }
        }
        Ok(tuned)
    }
}

impl TunedKernel {
    /// The entry as a line.
    pub fn to_line(&self) -> String {
        ron::to_string(self).unwrap_or_default() + "\n"
    }
}

/// Everything that guides the planner from outside.
#[derive(Clone, Debug, Default)]
pub struct Guide {
    pub schedule: Schedule,
    pub cost: Option<Arc<dyn CostModel>>,
    pub tuned: Option<Arc<Tuned>>,
    /// Bytes of vector memory that a kernel may use for its windows; without, a third of it.
    pub scoped_vmem: Option<u64>,
}

impl Guide {
    /// What a tile of an operation counts as; `None`: a pin does not allow it.
    pub fn weigh_tile(&self, pin: Option<TilePin>, c: &Contraction, t: &Tile, estimate: f64) -> Option<f64> {
        if pin.is_some_and(|p| !p.allows(t)) {
            return None;
        }
        let tuned = self.tuned.as_ref().and_then(|x| x.tiles.get(c));
        if pin.is_none() && tuned.is_some_and(|best| best == t) {
            return Some(0.0);
        }
        Some(self.cost.as_ref().map_or(estimate, |m| m.product(c, t, estimate)))
    }

    /// What a cut of an operation's kernel counts as; `None`: a pin does not allow it.
    pub fn weigh_cut(&self, pin: Option<CutPin>, s: &BlockSpec, c: &BlockCut, estimate: u64) -> Option<u64> {
        if pin.is_some_and(|p| !p.allows(c)) {
            return None;
        }
        let tuned = self.tuned.as_ref().and_then(|x| x.cuts.get(s));
        if pin.is_none() && tuned.is_some_and(|best| best == c) {
            return Some(0);
        }
        Some(self.cost.as_ref().map_or(estimate, |m| m.blocks(s, c, estimate)))
    }
}

/// Whether a name matches a pattern of a schedule.
pub fn is_named(pattern: &str, name: &str) -> bool {
    matches(pattern, name)
}

/// A pin that cannot hold.
pub fn impossible(line: usize, why: impl fmt::Display) -> CompileError {
    at(line, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, name, yes) in [
            ("dot.1", "dot.1", true),
            ("dot.1", "dot.12", false),
            ("dot*", "dot.12", true),
            ("*.12", "dot.12", true),
            ("d*t*2", "dot.12", true),
            ("d*x*2", "dot.12", false),
            ("*", "", true),
        ] {
            assert_eq!(matches(pattern, name), yes, "{pattern} {name}");
        }
    }

    #[test]
    fn wrong_lines_are_named() {
        for (text, message) in [
            ("tile dot.1 (rows: x)", "line 1"),
            ("\n// a comment\ntile dot.1 (row: 3)", "line 3"),
            ("keep", "of which operation"),
            ("keep a b", "`b` behind the name"),
            ("move a", "`move` pins nothing"),
            ("exchange a square", "`ring`, `direct` or `axes`"),
        ] {
            let e = Schedule::parse(text).expect_err(text).to_string();
            assert!(e.contains(message), "{text}: {e}");
        }
        let s = Schedule::parse("tile dot.* (rows: 8) // eight\nkeep x").expect("a schedule");
        assert_eq!(s.tile("dot.3").map(|t| t.0.rows), Some(Some(8)));
        assert!(s.check().expect_err("keep held nowhere").to_string().contains("line 2"));
    }
}
