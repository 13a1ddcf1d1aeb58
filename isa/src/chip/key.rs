//! Resolves dotted keys to parameters, checks values and stores them.

use super::costs::{Cost, Costs, NODE_NAMES};
use super::params::{self, OPERAND_TYPES, Param, Value};
use super::{ChipConfig, MxuType, Quantity};
use crate::diagnostic::closest;
use crate::table::Class;
use std::borrow::Cow;

/// What a dotted key names.
#[derive(Clone, Copy)]
pub(super) enum Key {
    Param(&'static Param),
    Latency(Class),
    Interval(Class),
    /// Row of [`OPERAND_TYPES`].
    Accumulator(usize),
    RowsPerCycle(usize),
    Cost(Cost),
    Node,
}

/// Accumulator types.
const ACCUMULATORS: &[&str] = &["f32", "s32"];

impl Key {
    /// The parameter of that name, else what was probably meant.
    pub(super) fn resolve(name: &str) -> Result<Key, Option<String>> {
        // Classes are written with dashes, everything else with underscores.
        let snake = if name.contains('-') { Cow::Owned(name.replace('-', "_")) } else { Cow::Borrowed(name) };
        // Timing has most keys, and none in the table.
        let listed = || params::all().find(|p| p.key == snake).map(Key::Param);
        let found = if snake.starts_with("timing.") { None } else { listed() };
        found.or_else(|| Key::of_family(&snake)).ok_or_else(|| Key::suggest(&snake))
    }

    /// The parameter of that name, dashes written as underscores, among those that are declared by pattern.
    fn of_family(snake: &str) -> Option<Key> {
        let (table, rest) = snake.split_once('.')?;
        match (table, rest) {
            ("costs", "node") => return Some(Key::Node),
            ("costs", name) => return Cost::ALL.iter().find(|c| c.info().0 == name).map(|&c| Key::Cost(c)),
            _ => {}
        }
        let (name, field) = rest.rsplit_once('.')?;
        let written = |b: u8| if b == b'-' { b'_' } else { b };
        let dashed = |c: &Class| c.name().len() == name.len() && c.name().bytes().map(written).eq(name.bytes());
        let class = || Class::ALL.iter().copied().find(dashed);
        let operand = || OPERAND_TYPES.iter().position(|t| name.strip_prefix("types.") == Some(t.0));
        match (table, field) {
            ("timing", "latency") => class().map(Key::Latency),
            ("timing", "interval") => class().map(Key::Interval),
            ("mxu", "accumulator") => operand().map(Key::Accumulator),
            ("mxu", "rows_per_cycle") => operand().map(Key::RowsPerCycle),
            _ => None,
        }
    }

    /// All keys that are declared by pattern, with their names.
    pub(super) fn families() -> impl Iterator<Item = (String, Key)> {
        let timing = Class::ALL.iter().flat_map(|&c| [Key::Latency(c), Key::Interval(c)]);
        let types = (0..OPERAND_TYPES.len()).flat_map(|i| [Key::Accumulator(i), Key::RowsPerCycle(i)]);
        let costs = Cost::ALL.iter().map(|&c| Key::Cost(c));
        timing.chain(types).chain(costs).chain([Key::Node]).map(|key| (key.name(), key))
    }

    /// The name, dotted.
    pub(super) fn name(self) -> String {
        match self {
            Key::Param(p) => p.key.to_string(),
            Key::Latency(c) => format!("timing.{}.latency", c.name()),
            Key::Interval(c) => format!("timing.{}.interval", c.name()),
            Key::Accumulator(i) => format!("mxu.types.{}.accumulator", OPERAND_TYPES[i].0),
            Key::RowsPerCycle(i) => format!("mxu.types.{}.rows_per_cycle", OPERAND_TYPES[i].0),
            Key::Cost(c) => format!("costs.{}", c.info().0),
            Key::Node => "costs.node".to_string(),
        }
    }

    /// The number of a key that a chip file must state.
    pub(super) fn number(self) -> Option<usize> {
        let class = |c: Class| params::all().count() + 2 * c as usize;
        match self {
            Key::Param(p) => params::all().position(|of| std::ptr::eq(of, p)),
            Key::Latency(c) => Some(class(c)),
            Key::Interval(c) => Some(class(c) + 1),
            Key::Accumulator(_) | Key::RowsPerCycle(_) | Key::Cost(_) | Key::Node => None,
        }
    }

    /// By number: no key was seen.
    pub(super) fn none_seen() -> Vec<bool> {
        vec![false; params::all().count() + 2 * Class::ALL.len()]
    }

    fn suggest(name: &str) -> Option<String> {
        let names: Vec<String> =
            params::all().map(|p| p.key.to_string()).chain(Key::families().map(|(n, _)| n)).collect();
        if let Some(c) = closest(name, names.iter().map(String::as_str)) {
            return Some(format!("did you mean `{c}`?"));
        }
        let last = name.rsplit('.').next().unwrap_or(name);
        // The right name in the wrong table: `bandwidth` for `hbm.bandwidth`.
        let same: Vec<String> =
            (names.iter().filter(|n| n.rsplit('.').next() == Some(last)).take(4)).map(|n| format!("`{n}`")).collect();
        if !same.is_empty() {
            return Some(format!("did you mean {}?", same.join(" or ")));
        }
        let table = name.split('.').next().unwrap_or(name);
        let inside: Vec<&str> = params::all().filter_map(|p| p.key.strip_prefix(table)?.strip_prefix('.')).collect();
        if !inside.is_empty() {
            return Some(format!("`{table}` has {}", inside.join(", ")));
        }
        None
    }

    pub(super) fn quantity(self) -> Quantity {
        match self {
            Key::Param(p) => p.quantity,
            Key::Latency(_) | Key::Interval(_) => Quantity::Cycles,
            Key::Accumulator(_) => Quantity::Choice(ACCUMULATORS),
            Key::RowsPerCycle(_) | Key::Cost(_) => Quantity::Rate,
            Key::Node => Quantity::Choice(NODE_NAMES),
        }
    }

    pub(super) fn range(self) -> (f64, f64) {
        match self {
            Key::Param(p) => (p.min, p.max),
            Key::Latency(_) | Key::Interval(_) => (1.0, 100_000.0),
            Key::Accumulator(_) => (0.0, 0.0),
            Key::RowsPerCycle(_) => (0.0, 1024.0),
            Key::Cost(_) => (0.0, 1e9),
            Key::Node => (0.0, 0.0),
        }
    }

    /// Checks a value written as a number.
    pub(super) fn check_number(self, n: f64) -> Result<Value, String> {
        let q = self.quantity();
        if q.is_text() {
            return Err(format!("takes {}", q.describe()));
        }
        let (min, max) = self.range();
        if !(min..=max).contains(&n) {
            return Err(format!("takes {} from {} to {}", q.describe(), q.print(min), q.print(max)));
        }
        if q.is_whole() && n.fract() != 0.0 {
            return Err(format!("takes {}", q.describe()));
        }
        Ok(Value::Number(n))
    }

    /// Checks a number that a file states without a unit.
    pub(super) fn check_bare(self, n: f64) -> Result<Value, String> {
        match self.quantity() {
            q if q.needs_unit() && n != 0.0 => Err(format!("takes {}", q.describe())),
            _ => self.check_number(n),
        }
    }

    /// Checks a value written as text: a word, or a number with a unit.
    pub(super) fn check_text(self, text: &str) -> Result<Value, String> {
        let q = self.quantity();
        match q {
            Quantity::Text => Ok(Value::Text(text.to_string())),
            Quantity::Choice(words) if words.contains(&text) => Ok(Value::Text(text.to_string())),
            Quantity::Choice(_) => Err(format!("takes {}", q.describe())),
            Quantity::Count
            | Quantity::Cycles
            | Quantity::Bytes
            | Quantity::Hertz
            | Quantity::Bandwidth
            | Quantity::Seconds
            | Quantity::Rate
            | Quantity::Share => match q.parse(text) {
                Some(n) => self.check_number(n),
                None => Err(format!("takes {}", q.describe())),
            },
        }
    }

    /// Stores a checked value.
    pub(super) fn store(self, chip: &mut ChipConfig, value: Value) {
        match (self, value) {
            (Key::Param(p), value) => (p.set)(chip, value),
            (Key::Latency(c), Value::Number(n)) => chip.timing.0[c as usize].1.latency = n as u32,
            (Key::Interval(c), Value::Number(n)) => chip.timing.0[c as usize].1.interval = n as u32,
            (Key::RowsPerCycle(i), Value::Number(0.0)) => {
                chip.mxu.types.retain(|t| t.operand != OPERAND_TYPES[i].0);
            }
            (Key::RowsPerCycle(i), Value::Number(n)) => mxu_type(chip, i).rows_per_cycle = n,
            (Key::Accumulator(i), Value::Text(t)) => mxu_type(chip, i).accumulator = t,
            (Key::Cost(c), Value::Number(n)) => chip.costs.set(c, n),
            (Key::Node, Value::Text(t)) => {
                chip.costs = Costs::of_node(&t, "given as an override").unwrap_or_else(|_| chip.costs.clone());
            }
            (Key::Accumulator(_) | Key::Node, Value::Number(_)) => {}
            (Key::Latency(_) | Key::Interval(_) | Key::RowsPerCycle(_) | Key::Cost(_), Value::Text(_)) => {}
        }
    }
}

/// The matrix unit's entry for an operand type, made if absent. Entries stay in the order of [`OPERAND_TYPES`].
fn mxu_type(chip: &mut ChipConfig, row: usize) -> &mut MxuType {
    let (operand, accumulator) = OPERAND_TYPES[row];
    let order = |name: &str| OPERAND_TYPES.iter().position(|t| t.0 == name);
    let at = match chip.mxu.types.iter().position(|t| t.operand == operand) {
        Some(at) => at,
        None => {
            let at = chip.mxu.types.partition_point(|t| order(&t.operand) < Some(row));
            let new = MxuType { operand: operand.into(), accumulator: accumulator.into(), rows_per_cycle: 1.0 };
            chip.mxu.types.insert(at, new);
            at
        }
    };
    &mut chip.mxu.types[at]
}
