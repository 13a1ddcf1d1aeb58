//! Messages as HLO text.

use super::devices::{groups, sharding};
use super::fields;
use super::shape::{literal, shape};
use super::wire::{Damage, Message, Read};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use systole_hlo::graph::{IndexMap, print_literal};

macro_rules! put {
    ($out:expr, $($arg:tt)*) => {
        if write!($out, $($arg)*).is_err() {
            // Strings take all text.
        }
    };
}

/// Dots' algorithms by number.
const ALGORITHMS: [&str; 14] = [
    "",
    "dot_any_f8_any_f8_f32",
    "dot_any_f8_any_f8_f32_fast_accum",
    "dot_f16_f16_f16",
    "dot_f16_f16_f32",
    "dot_bf16_bf16_bf16",
    "dot_bf16_bf16_f32",
    "dot_bf16_bf16_f32_x3",
    "dot_bf16_bf16_f32_x6",
    "dot_tf32_tf32_f32",
    "dot_tf32_tf32_f32_x3",
    "dot_f32_f32_f32",
    "dot_f64_f64_f64",
    "dot_bf16_bf16_f32_x9",
];

/// Names of computations, and of the instructions of one, by id.
type Names = BTreeMap<i64, String>;

pub(super) fn damage<T>(m: &Message<'_>, what: impl Into<String>) -> Read<T> {
    Err(Damage { at: m.at, what: what.into() })
}

/// A name that the text can hold and that is not taken.
fn unique(name: &str, id: i64, taken: &mut BTreeSet<String>) -> String {
    let clean = |c: char| if c.is_ascii_alphanumeric() || "_.-".contains(c) { c } else { '_' };
    let mut name: String = name.chars().map(clean).collect();
    if !name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        name.insert(0, '_');
    }
    while !taken.insert(name.clone()) {
        put!(name, ".{id}");
    }
    name
}

/// `{1,2}`
pub(super) fn braces<T: std::fmt::Display>(items: &[T]) -> String {
    let items: Vec<String> = items.iter().map(T::to_string).collect();
    format!("{{{}}}", items.join(","))
}

/// A quoted string. What is no UTF-8 is replaced.
pub(super) fn quoted(bytes: &[u8]) -> String {
    let mut out = String::from("\"");
    for c in String::from_utf8_lossy(bytes).chars() {
        match c {
            '"' | '\\' => put!(out, "\\{c}"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c => out.push(c),
        }
    }
    out + "\""
}

/// The names of messages by their ids, which are in field `id`.
fn names_of(all: &[Message<'_>], id: u32, what: &str) -> Read<Names> {
    let mut names = Names::new();
    let mut taken = BTreeSet::new();
    for m in all {
        let id = m.int(id)?;
        if names.insert(id, unique(m.text(1)?, id, &mut taken)).is_some() {
            return damage(m, format!("two {what} have the id {id}"));
        }
    }
    Ok(names)
}

/// A whole module.
pub(super) fn module(m: &Message<'_>) -> Read<String> {
    fields::MODULE.check(m)?;
    let computations = m.messages(3)?;
    let names = names_of(&computations, 5, "computations")?;
    let mut out = format!("HloModule {}", unique(m.text(1)?, 0, &mut BTreeSet::new()));
    header(m, &mut out)?;
    let entry = m.int(6)?;
    if !names.contains_key(&entry) {
        return damage(m, "the entry computation does not exist");
    }
    for c in &computations {
        let id = c.int(5)?;
        put!(out, "\n{}%{} {{\n", if id == entry { "ENTRY " } else { "" }, names[&id]);
        computation(c, &names, &mut out)?;
        out.push_str("}\n");
    }
    Ok(out)
}

fn header(m: &Message<'_>, out: &mut String) -> Read<()> {
    if let Some(d) = m.message(15)? {
        let (replicas, partitions) = (d.int(1)?, d.int(2)?);
        if replicas > 1 {
            put!(out, ", replica_count={replicas}");
        }
        if partitions > 1 {
            put!(out, ", num_partitions={partitions}");
        }
    }
    if let Some(aliases) = m.message(8)? {
        let mut list = Vec::new();
        for a in aliases.messages(1)? {
            let (result, parameter) = (braces(&a.ints(1)?), braces(&a.ints(3)?));
            let kind = if a.int(4)? == 2 { "must-alias" } else { "may-alias" };
            list.push(format!("{result}: ({}, {parameter}, {kind})", a.int(2)?));
        }
        if !list.is_empty() {
            put!(out, ", input_output_alias={{ {} }}", list.join(", "));
        }
    }
    if let Some(p) = m.message(4)?
        && let Some(result) = p.message(2)?
    {
        let parameters: Read<Vec<String>> = p.messages(1)?.iter().map(|s| Ok(shape(s)?.to_string())).collect();
        put!(out, ", entry_computation_layout={{({})->{}}}", parameters?.join(", "), shape(&result)?);
    }
    out.push('\n');
    match m.message(25)? {
        Some(frames) => stack_frames(&frames, out),
        None => Ok(()),
    }
}

/// The tables of stack frames, as newer text has them; numbers count from 1.
fn stack_frames(m: &Message<'_>, out: &mut String) -> Read<()> {
    for (number, table) in [(1, "FileNames"), (2, "FunctionNames")] {
        let names = m.texts(number)?;
        if !names.is_empty() {
            put!(out, "\n{table}\n");
        }
        names.iter().enumerate().for_each(|(i, n)| put!(out, "{} {}\n", i + 1, quoted(n)));
    }
    let places = m.messages(3)?;
    if !places.is_empty() {
        put!(out, "\nFileLocations\n");
    }
    for (i, p) in places.iter().enumerate() {
        let (file, function, line) = (p.int(1)?.max(0), p.int(2)?.max(0), p.int(3)?.max(0));
        put!(out, "{} {{file_name_id={file} function_name_id={function} line={line}}}\n", i + 1);
    }
    let frames = m.messages(4)?;
    if !frames.is_empty() {
        put!(out, "\nStackFrames\n");
    }
    for (i, f) in frames.iter().enumerate() {
        let (place, parent) = (f.int(1)?.max(0), f.int(2)?.max(0));
        put!(out, "{} {{file_location_id={place} parent_frame_id={parent}}}\n", i + 1);
    }
    out.push('\n');
    Ok(())
}

fn computation(c: &Message<'_>, computations: &Names, out: &mut String) -> Read<()> {
    fields::COMPUTATION.check(c)?;
    let instructions = c.messages(2)?;
    let names = names_of(&instructions, 35, "instructions")?;
    let root = c.int(6)?;
    if !names.contains_key(&root) {
        return damage(c, "the root instruction does not exist");
    }
    for i in &instructions {
        fields::INSTRUCTION.check(i)?;
        let id = i.int(35)?;
        let Some(s) = i.message(3)? else { return damage(i, "an instruction has no shape") };
        let opcode = i.text(2)?;
        put!(out, "  {}%{} = {} {opcode}(", if id == root { "ROOT " } else { "" }, names[&id], shape(&s)?);
        let mut writer = Writer { i, opcode, names: &names, computations, out };
        writer.operands()?;
        writer.out.push(')');
        writer.attributes()?;
        out.push('\n');
    }
    Ok(())
}

/// Writes one instruction.
struct Writer<'a, 'b> {
    i: &'b Message<'a>,
    opcode: &'a str,
    names: &'b Names,
    computations: &'b Names,
    out: &'b mut String,
}

impl Writer<'_, '_> {
    fn attribute(&mut self, key: &str, value: impl std::fmt::Display) {
        put!(self.out, ", {key}={value}");
    }

    /// An attribute of integers, unless there are none.
    fn list(&mut self, key: &str, number: u32) -> Read<()> {
        let v = self.i.ints(number)?;
        if !v.is_empty() {
            self.attribute(key, braces(&v));
        }
        Ok(())
    }

    fn flag(&mut self, key: &str, number: u32) -> Read<()> {
        if self.i.flag(number)? {
            self.attribute(key, "true");
        }
        Ok(())
    }

    /// An attribute of one word.
    fn word(&mut self, key: &str, number: u32) -> Read<()> {
        let w = self.i.text(number)?;
        if w.chars().any(|c| !(c.is_ascii_alphanumeric() || c == '_')) {
            return damage(self.i, format!("`{key}` is no word"));
        }
        if !w.is_empty() {
            self.attribute(key, w);
        }
        Ok(())
    }

    fn string(&mut self, key: &str, number: u32) -> Read<()> {
        let b = self.i.bytes(number)?;
        if !b.is_empty() {
            self.attribute(key, quoted(b));
        }
        Ok(())
    }

    /// A keyword by its number.
    fn choice(&mut self, key: &str, number: u32, words: &[&str]) -> Read<()> {
        let v = self.i.int(number)?;
        match usize::try_from(v).ok().and_then(|v| words.get(v)) {
            Some(&"") => Ok(()),
            Some(w) => {
                self.attribute(key, w);
                Ok(())
            }
            None => damage(self.i, format!("{v} is no value of `{key}`")),
        }
    }

    fn operands(&mut self) -> Read<()> {
        if !self.opcode.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') || self.opcode.is_empty() {
            return damage(self.i, "an opcode is no word");
        }
        match self.opcode {
            "parameter" => put!(self.out, "{}", self.i.int(9)?),
            "constant" => match self.i.message(8)? {
                Some(l) => print_literal::literal(&literal(&l)?, self.out),
                None => return damage(self.i, "a constant has no literal"),
            },
            _ => {
                let mut operands = Vec::new();
                for id in self.i.ints(36)? {
                    match self.names.get(&id) {
                        Some(n) => operands.push(format!("%{n}")),
                        None => return damage(self.i, format!("there is no instruction {id} in the computation")),
                    }
                }
                put!(self.out, "{}", operands.join(", "));
            }
        }
        Ok(())
    }

    fn attributes(&mut self) -> Read<()> {
        self.dimensions()?;
        self.windows()?;
        self.called()?;
        self.products()?;
        self.indexing()?;
        self.numbers()?;
        self.devices()?;
        let Some(meta) = self.i.message(7)? else { return Ok(()) };
        let mut parts = Vec::new();
        for (number, key) in [(2, "op_name"), (3, "source_file")] {
            let text = meta.bytes(number)?;
            if !text.is_empty() {
                parts.push(format!("{key}={}", quoted(text)));
            }
        }
        for (number, key) in [(4, "source_line"), (15, "stack_frame_id")] {
            let n = meta.int(number)?;
            if n > 0 {
                parts.push(format!("{key}={n}"));
            }
        }
        if !parts.is_empty() {
            self.attribute("metadata", format_args!("{{{}}}", parts.join(" ")));
        }
        Ok(())
    }

    fn dimensions(&mut self) -> Read<()> {
        let dims = self.i.ints(14)?;
        match (self.opcode, &dims[..]) {
            ("iota", [d]) => self.attribute("iota_dimension", d),
            ("broadcast" | "transpose" | "reduce" | "map" | "reverse", _) => {
                self.attribute("dimensions", braces(&dims))
            }
            (_, []) => {}
            _ => self.attribute("dimensions", braces(&dims)),
        }
        let slices = self.i.messages(17)?;
        if self.opcode == "slice" {
            let mut list = Vec::new();
            for s in &slices {
                list.push(format!("[{}:{}:{}]", s.int(1)?, s.int(2)?, s.int(3)?.max(1)));
            }
            self.attribute("slice", braces(&list));
        }
        if self.opcode == "pad" {
            let config = self.i.message(21)?;
            let mut list = Vec::new();
            for d in config.map_or(Ok(Vec::new()), |c| c.messages(1))? {
                list.push(format!("{}_{}_{}", d.int(1)?, d.int(2)?, d.int(3)?));
            }
            if !list.is_empty() {
                self.attribute("padding", list.join("x"));
            }
        }
        self.list("dynamic_slice_sizes", 20)
    }

    /// `{size=2x3 stride=1x2 pad=0_0x1_1 ..}`
    fn windows(&mut self) -> Read<()> {
        let Some(window) = self.i.message(15)? else { return Ok(()) };
        let dims = window.messages(1)?;
        if dims.is_empty() {
            return Ok(());
        }
        let column = |number: u32| dims.iter().map(|d| d.int(number)).collect::<Read<Vec<i64>>>();
        let join = |v: Vec<i64>| v.iter().map(i64::to_string).collect::<Vec<_>>().join("x");
        let pad: Vec<String> = column(3)?.iter().zip(column(4)?).map(|(l, h)| format!("{l}_{h}")).collect();
        let text = format!(
            "{{size={} stride={} pad={} lhs_dilate={} rhs_dilate={} rhs_reversal={}}}",
            join(column(1)?),
            join(column(2)?),
            pad.join("x"),
            join(column(6)?),
            join(column(5)?),
            join(column(7)?)
        );
        self.attribute("window", text);
        Ok(())
    }

    fn called(&mut self) -> Read<()> {
        let mut called = Vec::new();
        for id in self.i.ints(38)? {
            match self.computations.get(&id) {
                Some(n) => called.push(format!("%{n}")),
                None => return damage(self.i, format!("there is no computation {id}")),
            }
        }
        let keys: &[&str] = match self.opcode {
            "while" => &["body", "condition"],
            "select-and-scatter" => &["select", "scatter"],
            "fusion" | "async-start" => &["calls"],
            "conditional" | "custom-call" => &[],
            _ => &["to_apply"],
        };
        match self.opcode {
            "conditional" => self.attribute("branch_computations", braces(&called)),
            "custom-call" if !called.is_empty() => self.attribute("called_computations", braces(&called)),
            "async-update" | "async-done" => {}
            _ => {
                for (key, name) in keys.iter().zip(&called) {
                    self.attribute(key, name);
                }
            }
        }
        self.word("kind", 11)
    }

    fn products(&mut self) -> Read<()> {
        if let Some(c) = self.i.message(16)? {
            let labels = conv_labels(&c)?;
            self.attribute("dim_labels", labels);
        }
        if self.opcode == "convolution" {
            for (key, number) in [("feature_group_count", 50), ("batch_group_count", 58)] {
                self.attribute(key, self.i.int(number)?.max(1));
            }
        }
        let ragged = self.i.message(90)?;
        let dims = match &ragged {
            Some(r) => r.message(1)?,
            None => self.i.message(30)?,
        };
        if let Some(d) = dims {
            let keys = ["lhs_contracting_dims", "rhs_contracting_dims", "lhs_batch_dims", "rhs_batch_dims"];
            for (key, number) in keys.into_iter().zip(1..) {
                let v = d.ints(number)?;
                if !v.is_empty() || number <= 2 {
                    self.attribute(key, braces(&v));
                }
            }
        }
        if let Some(r) = ragged {
            self.attribute("lhs_ragged_dims", braces(&r.ints(2)?));
            self.attribute("rhs_group_dims", braces(&r.ints(3)?));
        }
        if let Some(p) = self.i.message(51)? {
            fields::PRECISION.check(&p)?;
            let words: Option<Vec<&str>> = p
                .ints(1)?
                .into_iter()
                .map(|v| usize::try_from(v).ok().and_then(|v| ["default", "high", "highest"].get(v)).copied())
                .collect();
            match words {
                Some(w) if w.is_empty() => {}
                Some(w) => self.attribute("operand_precision", braces(&w)),
                None => return damage(self.i, "an operand precision is not supported"),
            }
            match usize::try_from(p.int(2)?).ok().and_then(|v| ALGORITHMS.get(v)) {
                Some(&"") => {}
                Some(name) => self.attribute("algorithm", name),
                None => return damage(self.i, "a dot's algorithm is not supported"),
            }
        }
        Ok(())
    }

    fn indexing(&mut self) -> Read<()> {
        for (number, names) in [(33, IndexMap::GATHER), (48, IndexMap::SCATTER)] {
            let Some(d) = self.i.message(number)? else { continue };
            for (key, field) in names[..3].iter().zip(1..) {
                self.attribute(key, braces(&d.ints(field)?));
            }
            self.attribute(IndexMap::VECTOR, d.int(4)?);
            for (key, field) in names[3..].iter().zip(5..) {
                let v = d.ints(field)?;
                if !v.is_empty() {
                    self.attribute(key, braces(&v));
                }
            }
            if number == 33 {
                self.attribute("slice_sizes", braces(&self.i.ints(34)?));
            }
        }
        self.flag("indices_are_sorted", 67)?;
        self.flag("unique_indices", 69)
    }

    fn numbers(&mut self) -> Read<()> {
        match self.opcode {
            "get-tuple-element" => self.attribute("index", self.i.int(13)?),
            "reduce-precision" => {
                self.attribute("exponent_bits", self.i.int(18)?);
                self.attribute("mantissa_bits", self.i.int(19)?);
            }
            "batch-norm-training" | "batch-norm-inference" | "batch-norm-grad" => {
                self.attribute("epsilon", self.i.float(24)?);
                self.attribute("feature_index", self.i.int(25)?);
            }
            "topk" => {
                self.attribute("k", self.i.int(81)?);
                self.attribute("largest", self.i.flag(85)?);
            }
            "rng" => self.choice("distribution", 23, &["", "rng_uniform", "rng_normal"])?,
            "rng-bit-generator" => self.choice("algorithm", 70, &["rng_default", "rng_three_fry", "rng_philox"])?,
            "rng-get-and-update-state" => self.attribute("delta", self.i.int(66)?),
            "fft" => {
                self.choice("fft_type", 31, &["FFT", "IFFT", "RFFT", "IRFFT"])?;
                self.list("fft_length", 32)?;
            }
            "compare" => {
                self.word("direction", 63)?;
                self.word("type", 72)?;
            }
            "scan" => {
                self.flag("is_reverse", 94)?;
                if self.i.has(95) {
                    self.attribute("num_carries", self.i.int(95)?);
                }
            }
            "sort" => self.flag("is_stable", 60)?,
            "cholesky" => {
                let lower = self.i.message(62)?.map_or(Ok(false), |o| o.flag(1))?;
                self.attribute("lower", lower);
            }
            "triangular-solve" => {
                let Some(o) = self.i.message(59)? else { return damage(self.i, "a solve has no options") };
                for (key, number) in [("left_side", 1), ("lower", 2), ("unit_diagonal", 3)] {
                    self.attribute(key, o.flag(number)?);
                }
                let word = ["NO_TRANSPOSE", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"];
                let word = usize::try_from(o.int(4)?).ok().and_then(|v| word.get(v));
                match word {
                    Some(w) => self.attribute("transpose_a", w),
                    None => return damage(self.i, "a transpose is not known"),
                }
            }
            "custom-call" => {
                self.attribute("custom_call_target", quoted(self.i.bytes(28)?));
                self.flag("custom_call_has_side_effect", 65)?;
                self.string("backend_config", 43)?;
                // The newer form of the same text.
                if let Some(payload) = self.i.message(99)?
                    && !self.i.has(43)
                {
                    if payload.has(2) && !payload.has(1) {
                        return damage(self.i, "a call's backend_config is kept beside the module, which is not read");
                    }
                    self.attribute("backend_config", quoted(payload.bytes(1)?));
                }
            }
            "infeed" => self.string("infeed_config", 27)?,
            "outfeed" => {
                if let Some(s) = self.i.message(29)? {
                    self.attribute("outfeed_shape", shape(&s)?);
                }
                self.string("outfeed_config", 22)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn devices(&mut self) -> Read<()> {
        if self.i.int(26)? > 0 {
            self.attribute("channel_id", self.i.int(26)?);
        }
        if let Some(groups) = groups(self.i)? {
            self.attribute("replica_groups", groups);
        }
        let pairs: Read<Vec<String>> =
            self.i.messages(52)?.iter().map(|p| Ok(format!("{{{},{}}}", p.int(1)?, p.int(2)?))).collect();
        if matches!(self.opcode, "collective-permute" | "collective-permute-start") {
            self.attribute("source_target_pairs", braces(&pairs?));
        }
        self.flag("use_global_device_ids", 71)?;
        self.flag("is_host_transfer", 47)?;
        if let Some(s) = self.i.message(40)? {
            let text = sharding(&s)?;
            self.attribute("sharding", text);
        }
        Ok(())
    }
}

/// `b01f_01io->b01f`
fn conv_labels(c: &Message<'_>) -> Read<String> {
    let side = |first: (u32, char), second: (u32, char), spatial: u32| -> Read<String> {
        let spatial = c.ints(spatial)?;
        let mut out = vec!['?'; spatial.len() + 2];
        let marks = ('0'..='9').chain('a'..='z');
        let mut all = vec![(c.int(first.0)?, first.1), (c.int(second.0)?, second.1)];
        all.extend(spatial.into_iter().zip(marks));
        for (place, mark) in all {
            match usize::try_from(place).ok().and_then(|p| out.get_mut(p)) {
                Some(slot) => *slot = mark,
                None => return damage(c, "a convolution's dimension does not exist"),
            }
        }
        Ok(out.into_iter().collect())
    };
    let input = side((7, 'b'), (8, 'f'), 11)?;
    let kernel = side((3, 'i'), (4, 'o'), 6)?;
    let output = side((9, 'b'), (10, 'f'), 12)?;
    Ok(format!("{input}_{kernel}->{output}"))
}
