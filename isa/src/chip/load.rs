//! Reads chip files and overrides.
//!
//! A chip file is TOML with the keys of [`super::params`]. With `base = "PRESET"` it states only what differs from a
//! preset; without, every parameter and every latency class must be there. All mistakes are reported at once.

use super::ChipConfig;
use super::costs;
use super::key::Key;
use super::params::{self, Value};
use super::tree::{self, Entry, Node};
use crate::diagnostic::{Diagnostic, Diagnostics, Place};
use crate::table::Class;
use toml::de::DeTable;

/// Why a chip description was refused: all mistakes, with their places.
pub type ChipError = Diagnostics;

/// What a file may leave out: a chip whose file says nothing of common memory has none.
const OPTIONAL: &str = "cmem.";

struct Loader<'a> {
    file: &'a str,
    text: &'a str,
    chip: ChipConfig,
    /// By number ([`Key::number`]): what the file states.
    seen: Vec<bool>,
    /// The dotted path of the entry that is read.
    path: String,
    errors: Vec<Diagnostic>,
}

impl Loader<'_> {
    fn place(&self, at: (usize, usize)) -> Place {
        Place::new(self.file, self.text, at.0, at.1)
    }

    /// Walks a table, whose dotted path the loader is at.
    fn table(&mut self, table: &[Entry<'_>]) {
        for e in table {
            let own = self.path.len();
            self.path.push_str(if own == 0 { "" } else { "." });
            self.path.push_str(&e.key);
            if let Some(inner) = e.value.table() {
                if self.path == "costs" { self.costs(inner) } else { self.table(inner) }
            } else if self.path != "base" {
                self.leaf(e);
            }
            self.path.truncate(own);
        }
    }

    /// The table `[costs]`: the node first, its defaults are what other rows replace.
    fn costs(&mut self, table: &[Entry<'_>]) {
        if let Some(e) = tree::find(table, "node") {
            match costs::node(&e.value) {
                Ok(c) => self.chip.costs = c,
                Err(accepted) => {
                    let d = Diagnostic::new("bad value of `costs.node`").at(self.place(e.at));
                    self.errors.push(d.help(format!("`costs.node` {accepted}")));
                    return;
                }
            }
        }
        if self.chip.costs.rows.is_empty() {
            return;
        }
        for e in table.iter().filter(|e| e.key != "node") {
            if let Err(d) = self.chip.costs.store(&e.key, &e.value) {
                self.errors.push(d.at(self.place(e.key_at)));
            }
        }
    }

    fn leaf(&mut self, entry: &Entry<'_>) {
        let name = &self.path;
        let key = match Key::resolve(name) {
            Ok(key) => key,
            Err(hint) => {
                let mut d = Diagnostic::new(format!("unknown parameter `{name}`")).at(self.place(entry.key_at));
                d.help = hint;
                self.errors.push(d);
                return;
            }
        };
        let checked = match &entry.value {
            Node::Text(s) => key.check_text(s),
            Node::Number(Some(n)) => key.check_bare(*n),
            Node::Number(None) => Err("takes a smaller number".into()),
            Node::Other | Node::Table(_) | Node::BuiltIn(_) => Err(format!("takes {}", key.quantity().describe())),
        };
        match checked {
            Ok(v) => {
                key.store(&mut self.chip, v);
                key.number().into_iter().for_each(|n| self.seen[n] = true);
            }
            Err(accepted) => {
                let place = self.place(entry.at);
                let d =
                    Diagnostic::new(format!("bad value of `{name}`")).at(place).help(format!("`{name}` {accepted}"));
                self.errors.push(d);
            }
        }
    }

    /// Names every parameter that the file leaves out.
    fn require_all(&mut self) {
        let place = self.place((0, 0));
        let due = params::all().filter(|p| !p.key.starts_with(OPTIONAL)).map(Key::Param);
        let timing = Class::ALL.iter().flat_map(|&c| [Key::Latency(c), Key::Interval(c)]);
        let unseen = due.chain(timing).filter(|k| k.number().is_some_and(|n| !self.seen[n]));
        let node = self.chip.costs.rows.is_empty().then_some(Key::Node);
        let missing: Vec<String> = unseen.chain(node).map(Key::name).collect();
        if missing.is_empty() {
            return;
        }
        let shown = missing.iter().take(8).map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", ");
        let rest = if missing.len() > 8 { format!(" and {} more", missing.len() - 8) } else { String::new() };
        let d = Diagnostic::new(format!("the chip file does not state {shown}{rest}"))
            .at(place)
            .help("`base = \"tpu-v5e\"` takes what is missing from a preset");
        self.errors.push(d);
    }
}

/// The preset that `base` names, if the file has one.
fn base(text: &str, file: &str, root: &[Entry<'_>]) -> Result<Option<ChipConfig>, Diagnostic> {
    let Some(entry) = tree::find(root, "base") else { return Ok(None) };
    let place = Place::new(file, text, entry.at.0, entry.at.1);
    let name = entry
        .value
        .text()
        .ok_or_else(|| Diagnostic::new("`base` takes the name of a preset in quotes").at(place.clone()))?;
    match ChipConfig::from_preset(name) {
        Ok(chip) => Ok(Some(chip)),
        Err(e) => Err(e.0.into_iter().next().unwrap_or_else(|| Diagnostic::new("unknown preset")).at(place)),
    }
}

impl ChipConfig {
    /// Reads a chip file. `file_name` is used in messages only.
    ///
    /// # Errors
    /// All mistakes of the file: bad TOML, unknown or missing keys, values out of range, parameters that do not fit
    /// together; each with its place and what would be accepted.
    pub fn from_toml(text: &str, file_name: &str) -> Result<ChipConfig, ChipError> {
        let root = DeTable::parse(text).map_err(|e| {
            let mut d = Diagnostic::new(e.message().to_string());
            d.place = e.span().map(|s| Place::new(file_name, text, s.start, s.end));
            Diagnostics(vec![d])
        })?;
        ChipConfig::from_tree(&tree::of_table(root.get_ref()), text, file_name)
    }

    /// [`ChipConfig::from_toml`] of a file that was read: `text` has its places.
    pub(super) fn from_tree(root: &[Entry<'_>], text: &str, file_name: &str) -> Result<ChipConfig, ChipError> {
        let base = base(text, file_name, root).map_err(|d| Diagnostics(vec![d]))?;
        let complete = base.is_some();
        let chip = base.clone().unwrap_or_default();
        let mut loader =
            Loader { file: file_name, text, chip, seen: Key::none_seen(), path: String::new(), errors: Vec::new() };
        loader.table(root);
        if !complete {
            loader.require_all();
        }
        if loader.errors.is_empty() {
            let place = loader.place((0, 0));
            loader.errors.extend(loader.chip.conflicts().into_iter().map(|m| Diagnostic::new(m).at(place.clone())));
        }
        // The order of keys in a table is alphabetical; report in source order.
        loader.errors.sort_by_key(|d| d.place.as_ref().map(|p| (p.line, p.column)));
        if !loader.errors.is_empty() {
            return Err(Diagnostics(loader.errors));
        }
        let mut chip = loader.chip;
        if let Some(base) = &base {
            chip.note_changes(base);
        }
        chip.origin.file = Some(file_name.to_string());
        Ok(chip)
    }

    /// Applies overrides `KEY=VALUE` (`mxu.rows=256`, `clock=2.2GHz`, `timing.valu.latency=3`) in order, then checks
    /// that the parameters still fit together.
    ///
    /// # Errors
    /// All mistakes; `self` is then unchanged.
    pub fn apply_sets<S: AsRef<str>>(&mut self, sets: &[S]) -> Result<(), ChipError> {
        if sets.is_empty() {
            return Ok(());
        }
        let mut chip = self.clone();
        let mut errors = Vec::new();
        for set in sets {
            if let Err(d) = apply(&mut chip, set.as_ref()) {
                errors.push(d);
            }
        }
        if errors.is_empty() {
            errors.extend(chip.conflicts().into_iter().map(Diagnostic::new));
        }
        if !errors.is_empty() {
            return Err(Diagnostics(errors));
        }
        chip.note_changes(self);
        *self = chip;
        Ok(())
    }

    /// Applies one override, see [`ChipConfig::apply_sets`].
    ///
    /// # Errors
    /// What is wrong with it; `self` is then unchanged.
    pub fn apply_set(&mut self, set: &str) -> Result<(), ChipError> {
        self.apply_sets(&[set])
    }
}

/// Applies one override without checks between parameters.
fn apply(chip: &mut ChipConfig, set: &str) -> Result<(), Diagnostic> {
    let place = |start: usize, end: usize| Place::new("--set", set, start, end);
    let Some((name, value)) = set.split_once('=') else {
        return Err(Diagnostic::new("an override is KEY=VALUE").at(place(0, set.len())).help("as in `mxu.rows=256`"));
    };
    let key = Key::resolve(name.trim()).map_err(|hint| {
        let mut d = Diagnostic::new(format!("unknown parameter `{}`", name.trim())).at(place(0, name.len()));
        d.help = hint;
        d
    })?;
    let value: Value = key.check_text(value.trim()).map_err(|accepted| {
        Diagnostic::new(format!("bad value of `{}`", name.trim()))
            .at(place(name.len() + 1, set.len()))
            .help(format!("`{}` {accepted}", name.trim()))
    })?;
    key.store(chip, value);
    Ok(())
}
