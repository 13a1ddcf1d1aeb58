//! Attributes of an instruction, read by key when the opcode asks for them.

use super::instruction::{RawAttribute, RawInstruction};
use super::lex::Cursor;
use super::{MAX_DEVICES, PResult};
use rustc_hash::FxHashMap;
use systole_hlo::diag::{Diagnostic, Warning};
use systole_hlo::graph::{CompId, Shape};

/// Attributes that any instruction may have and that are kept as text without a word; also those whose meaning is a
/// hint that this compiler is free to ignore.
#[rustfmt::skip]
const TEXT: [&str; 44] = [
    "sharding", "frontend_attributes", "statistics", "parameter_replication", "control-predecessors", "origin",
    "metadata", "backend_config", "execution_thread", "async_execution_thread", "result_accuracy", "original_value",
    "is_composite", "constrain_layout", "schedule", "api_version", "operand_layout_constraints",
    "output_to_operand_aliasing", "custom_call_schedule", "padding_type", "domain", "algorithm", "sparsity",
    "inplace", "cross_program_prefetch_index", "is_sync", "mimic", "slice_sizes", "dim_labels", "window",
    "feature_group_count", "batch_group_count", "operand_precision", "raw_backend_config_string", "is_cross_program_prefetch",
    "literal", "all_reduce_id", "unique_indices", "indices_are_sorted", "is_stable", "is_associative", "exec_thread",
    "custom_call_api_version", "comparator",
];

/// What an opcode's reader sees of its instruction.
pub(crate) struct Site<'a, 'r> {
    pub text: &'a str,
    pub raw: &'r RawInstruction<'a>,
    /// Shapes of the operands.
    pub operands: Vec<&'r Shape>,
    pub computations: &'r FxHashMap<&'a str, CompId>,
    used: Vec<bool>,
}

impl<'a, 'r> Site<'a, 'r> {
    pub fn new(
        text: &'a str,
        raw: &'r RawInstruction<'a>,
        operands: Vec<&'r Shape>,
        computations: &'r FxHashMap<&'a str, CompId>,
    ) -> Site<'a, 'r> {
        Site { text, raw, operands, computations, used: vec![false; raw.attributes.len()] }
    }

    /// The attribute's text without marking it as understood.
    pub fn peek(&self, key: &str) -> Option<Cursor<'a>> {
        self.find(key).map(|i| Cursor::over(self.text, self.raw.attributes[i].value))
    }

    fn find(&self, key: &str) -> Option<usize> {
        self.raw.attributes.iter().position(|a| a.key == key)
    }

    /// The attribute's text, marked as understood.
    pub fn take(&mut self, key: &str) -> Option<Cursor<'a>> {
        let i = self.find(key)?;
        self.used[i] = true;
        Some(Cursor::over(self.text, self.raw.attributes[i].value))
    }

    /// Reads an attribute; `None` when it is not given.
    pub fn read<T>(&mut self, key: &str, f: impl FnOnce(&mut Cursor<'a>) -> PResult<T>) -> PResult<Option<T>> {
        let Some(mut c) = self.take(key) else { return Ok(None) };
        let v = f(&mut c)?;
        c.finish()?;
        Ok(Some(v))
    }

    /// Reads an attribute that must be there.
    pub fn need<T>(&mut self, key: &str, f: impl FnOnce(&mut Cursor<'a>) -> PResult<T>) -> PResult<T> {
        match self.read(key, f)? {
            Some(v) => Ok(v),
            None => Err(self.error(format!("{} needs the attribute `{key}=`", self.raw.opcode))),
        }
    }

    /// An error at the opcode.
    pub fn error(&self, message: impl Into<String>) -> Box<Diagnostic> {
        Box::new(Diagnostic::error(self.raw.opcode_span, message))
    }

    /// `{0,2}` as dimension numbers; empty when not given.
    pub fn dims(&mut self, key: &str) -> PResult<Vec<usize>> {
        Ok(self.read(key, Cursor::dims)?.unwrap_or_default())
    }

    /// `{0}` (or `0`) as one dimension number.
    pub fn dim(&mut self, key: &str) -> PResult<usize> {
        self.need(key, Cursor::one_dim)
    }

    pub fn sizes(&mut self, key: &str) -> PResult<Vec<u64>> {
        self.need(key, |c| c.list("a size", |c| c.uint("a size")))
    }

    pub fn flag(&mut self, key: &str) -> PResult<bool> {
        Ok(self.read(key, Cursor::boolean)?.unwrap_or(false))
    }

    pub fn uint(&mut self, key: &str) -> PResult<u64> {
        self.need(key, |c| c.uint("a number"))
    }

    pub fn uint_or(&mut self, key: &str, default: u64) -> PResult<u64> {
        Ok(self.read(key, |c| c.uint("a number"))?.unwrap_or(default))
    }

    /// A keyword out of a table.
    pub fn keyword<T: Copy>(&mut self, key: &str, table: &[(&str, T)]) -> PResult<Option<T>> {
        self.read(key, |c| c.keyword(table))
    }

    /// A keyword that must be there.
    pub fn need_keyword<T: Copy>(&mut self, key: &str, table: &[(&str, T)]) -> PResult<T> {
        self.need(key, |c| c.keyword(table))
    }

    /// The computation that an attribute names.
    pub fn computation(&mut self, key: &str) -> PResult<CompId> {
        let computations = self.computations;
        self.need(key, |c| c.computation(computations))
    }

    /// Computations in braces, or one.
    pub fn computations(&mut self, key: &str) -> PResult<Option<Vec<CompId>>> {
        let known = self.computations;
        self.read(key, |c| match c.peek() {
            Some(b'{') => c.list("a computation", |c| c.computation(known)),
            _ => Ok(vec![c.computation(known)?]),
        })
    }

    /// A string with its escapes resolved, or the raw text of any other value.
    pub fn string(&mut self, key: &str) -> PResult<Option<String>> {
        self.read(key, |c| {
            if matches!(c.peek(), Some(b'"' | b'\'')) {
                let span = c.string()?;
                return Ok(unescape(c.slice(span)));
            }
            let s = c.rest().to_string();
            c.advance(s.len());
            Ok(s)
        })
    }

    /// The attributes that no one asked for, as text; unknown ones are remarked upon.
    pub fn leftover(&self, warnings: &mut Vec<Warning>) -> Vec<(String, String)> {
        let mut out = Vec::new();
        for (a, _) in self.raw.attributes.iter().zip(&self.used).filter(|(_, used)| !**used) {
            let RawAttribute { key, key_span, value } = *a;
            if !TEXT.contains(&key) {
                let message = format!("unknown attribute `{key}` of {} is kept as text", self.raw.opcode);
                warnings.push(Warning::warning(key_span, message));
            }
            out.push((key.to_string(), self.text[value.start as usize..value.end as usize].to_string()));
        }
        out
    }
}

/// Resolves C-style escapes.
pub(crate) fn unescape(s: &str) -> String {
    if !s.contains('\\') {
        return s.to_string();
    }
    let mut out: Vec<u8> = Vec::with_capacity(s.len());
    let b = s.as_bytes();
    let mut i = 0;
    while i < b.len() {
        if b[i] != b'\\' || i + 1 == b.len() {
            out.push(b[i]);
            i += 1;
            continue;
        }
        let octal = |c: u8| (b'0'..=b'7').contains(&c);
        match b[i + 1] {
            b'n' => out.push(b'\n'),
            b't' => out.push(b'\t'),
            b'r' => out.push(b'\r'),
            b'x' if i + 3 < b.len() => {
                if let Ok(v) = u8::from_str_radix(&String::from_utf8_lossy(&b[i + 2..i + 4]), 16) {
                    out.push(v);
                }
                i += 2;
            }
            c if octal(c) && i + 3 < b.len() && octal(b[i + 2]) && octal(b[i + 3]) => {
                let v = u32::from(c - b'0') * 64 + u32::from(b[i + 2] - b'0') * 8 + u32::from(b[i + 3] - b'0');
                out.push(v as u8);
                i += 2;
            }
            c => out.push(c),
        }
        i += 2;
    }
    String::from_utf8_lossy(&out).into_owned()
}

impl<'a> Cursor<'a> {
    /// `{a, b, ..}`
    pub fn list<T>(&mut self, what: &str, mut f: impl FnMut(&mut Cursor<'a>) -> PResult<T>) -> PResult<Vec<T>> {
        self.expect("{", &format!("to begin a list of {what}"))?;
        let mut n = 0;
        self.separated("}", "or `}` in a list", |c| {
            if n > MAX_DEVICES {
                return Err(c.error_here("the list is too long"));
            }
            n += 1;
            f(c)
        })
    }

    pub fn int_list(&mut self) -> PResult<Vec<i64>> {
        self.list("integers", |c| c.int("an integer"))
    }

    pub fn dims(&mut self) -> PResult<Vec<usize>> {
        self.list("dimension numbers", |c| Ok(c.uint("a dimension number")? as usize))
    }

    pub fn one_dim(&mut self) -> PResult<usize> {
        if self.peek() != Some(b'{') {
            return Ok(self.uint("a dimension number")? as usize);
        }
        let mut start = *self;
        match self.dims()?[..] {
            [d] => Ok(d),
            _ => Err(start.error_here("expected exactly one dimension number")),
        }
    }

    pub fn boolean(&mut self) -> PResult<bool> {
        self.keyword(&[("true", true), ("false", false), ("1", true), ("0", false)])
    }

    pub fn keyword<T: Copy>(&mut self, table: &[(&str, T)]) -> PResult<T> {
        let w = self.peek_word();
        match table.iter().find(|(name, _)| *name == w) {
            Some((_, v)) => {
                self.advance(w.len());
                Ok(*v)
            }
            None => {
                let names: Vec<&str> = table.iter().map(|t| t.0).collect();
                Err(self.unexpected(&format!("one of {}", names.join(", "))))
            }
        }
    }

    pub fn computation(&mut self, known: &FxHashMap<&'a str, CompId>) -> PResult<CompId> {
        self.skip();
        let start = self.pos();
        let name = self.name("a computation's name")?;
        let message = || {
            let hint = systole_hlo::diag::did_you_mean(name, known.keys().copied());
            format!("computation `{name}` does not exist{hint}")
        };
        known.get(name).copied().ok_or_else(|| Box::new(Diagnostic::error(self.span_from(start), message())))
    }
}
