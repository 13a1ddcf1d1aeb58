//! The module's frame: header, source tables, computations.

use super::PResult;
use super::instruction::{RawAttribute, RawInstruction, attribute, parse_instruction};
use super::lex::Cursor;
use rustc_hash::FxHashMap;
use systole_hlo::diag::{Diagnostic, Warning};
use systole_hlo::graph::{Alias, Module, Shape, Span};

/// A computation as written.
pub(crate) struct RawComputation<'a> {
    pub name: &'a str,
    pub name_span: Span,
    pub entry: bool,
    pub instructions: Vec<RawInstruction<'a>>,
    /// The declared result shape, with its place.
    pub result: Option<(Shape, Span)>,
}

/// A module as written.
pub(crate) struct RawModule<'a> {
    /// What the header says, and which constants are without their elements; its computations are still to be made, of these.
    pub module: Module,
    pub computations: Vec<RawComputation<'a>>,
    pub warnings: Vec<Warning>,
    pub frames: Frames<'a>,
}

/// The tables that stack frame ids refer to.
#[derive(Default)]
pub(crate) struct Frames<'a> {
    files: FxHashMap<u64, &'a str>,
    /// File id and line.
    locations: FxHashMap<u64, (u64, u64)>,
    /// Location id.
    frames: FxHashMap<u64, u64>,
}

impl Frames<'_> {
    /// The source file and line of a stack frame.
    pub fn source(&self, frame: u64) -> Option<(&str, u64)> {
        let (file, line) = self.locations.get(self.frames.get(&frame)?)?;
        Some((self.files.get(file)?, *line))
    }
}

/// Module attributes that are kept as text and mean nothing here.
const KNOWN: [&str; 8] = [
    "is_scheduled",
    "buffer_donor",
    "alias_passthrough_params",
    "frontend_attributes",
    "allow_spmd_sharding_propagation_to_parameters",
    "allow_spmd_sharding_propagation_to_output",
    "origin_recovery_table",
    "is_dynamic",
];

/// Reads the grammar of a module.
pub(crate) fn parse(text: &str) -> PResult<RawModule<'_>> {
    let mut c = Cursor::new(text);
    let mut m = RawModule {
        module: Module::empty("module"),
        computations: Vec::new(),
        warnings: Vec::new(),
        frames: Frames::default(),
    };
    if c.at_end() {
        let d = Diagnostic::error(Span::default(), "the text is empty");
        return Err(Box::new(d.note("HLO text begins with `HloModule NAME`")));
    }
    if c.eat_word("HloModule") {
        m.module.name = c.name("the module's name after `HloModule`")?.to_string();
        header(&mut c, &mut m)?;
        tables(&mut c, &mut m.frames)?;
    } else if !matches!(c.peek(), Some(b'%' | b'_' | b'a'..=b'z' | b'A'..=b'Z')) {
        let d = c.unexpected("`HloModule`");
        return Err(Box::new(d.note("HLO text begins with `HloModule NAME`")));
    }
    while !c.at_end() {
        let computation = computation(&mut c, &mut m)?;
        m.computations.push(computation);
    }
    if m.computations.is_empty() {
        return Err(c.unexpected("a computation such as `ENTRY main { .. }`"));
    }
    Ok(m)
}

fn header<'a>(c: &mut Cursor<'a>, m: &mut RawModule<'a>) -> PResult<()> {
    while c.eat(",") {
        let RawAttribute { key, key_span, value } = attribute(c, "a module attribute")?;
        let mut v = Cursor::over(c.text(), value);
        match key {
            "replica_count" => m.module.replicas = v.count("the number of replicas")?,
            "num_partitions" => m.module.partitions = v.count("the number of partitions")?,
            "entry_computation_layout" => m.module.entry_layout = Some(v.entry_layout()?),
            "input_output_alias" => m.module.aliases = v.aliases()?,
            _ => {
                if !KNOWN.contains(&key) {
                    let w = Warning::warning(key_span, format!("unknown module attribute `{key}` is kept as text"));
                    m.warnings.push(w);
                }
                m.module.attributes.push((key.to_string(), c.slice(value).to_string()));
                continue;
            }
        }
        v.finish()?;
    }
    Ok(())
}

impl Cursor<'_> {
    fn count(&mut self, what: &str) -> PResult<u64> {
        let mut start = *self;
        let n = self.uint(what)?;
        if n == 0 || n > super::MAX_DEVICES {
            return Err(start.error_here(format!("{what} must be 1 to {}", super::MAX_DEVICES)));
        }
        Ok(n)
    }

    /// `{(shape, ..)->shape}`
    fn entry_layout(&mut self) -> PResult<(Vec<Shape>, Shape)> {
        self.expect("{", "to begin the layout")?;
        let Shape::Tuple(parameters) = self.shape()? else {
            return Err(self.unexpected("the parameters' shapes in parentheses"));
        };
        self.expect("->", "before the result's shape")?;
        let result = self.shape()?;
        self.expect("}", "to end the layout")?;
        Ok((parameters, result))
    }

    /// `{ {0}: (1, {}, may-alias), .. }`
    fn aliases(&mut self) -> PResult<Vec<Alias>> {
        self.expect("{", "to begin the aliases")?;
        self.separated("}", "between aliases", |c| {
            let output = c.index_list()?;
            c.expect(":", "after the result's index")?;
            c.expect("(", "before the parameter number")?;
            let parameter = c.uint("a parameter number")? as usize;
            let mut parameter_index = Vec::new();
            while c.eat(",") {
                if c.peek() == Some(b'{') {
                    parameter_index = c.index_list()?;
                } else {
                    c.word("may-alias or must-alias")?;
                }
            }
            c.expect(")", "after the parameter")?;
            Ok(Alias { output, parameter, parameter_index })
        })
    }

    fn index_list(&mut self) -> PResult<Vec<usize>> {
        Ok(self.int_list()?.into_iter().map(|i| usize::try_from(i).unwrap_or(usize::MAX)).collect())
    }
}

/// The four tables of newer dumps: lines of `N value`.
fn tables<'a>(c: &mut Cursor<'a>, frames: &mut Frames<'a>) -> PResult<()> {
    loop {
        let table = c.peek_word();
        if !matches!(table, "FileNames" | "FunctionNames" | "FileLocations" | "StackFrames") {
            return Ok(());
        }
        c.advance(table.len());
        while c.peek().is_some_and(|b| b.is_ascii_digit()) {
            let id = c.uint("an id")?;
            match table {
                "FileNames" => {
                    let span = c.string()?;
                    frames.files.insert(id, c.slice(span));
                }
                "FunctionNames" => drop(c.string()?),
                "FileLocations" => {
                    let r = record(c)?;
                    frames.locations.insert(id, (r.file, r.line));
                }
                _ => {
                    let r = record(c)?;
                    frames.frames.insert(id, r.location);
                }
            }
        }
    }
}

#[derive(Default)]
struct Record {
    file: u64,
    line: u64,
    location: u64,
}

/// `{key=number key=number ..}`
fn record(c: &mut Cursor<'_>) -> PResult<Record> {
    let mut r = Record::default();
    c.expect("{", "to begin a table entry")?;
    while !c.eat("}") {
        let key = c.word("a field name")?;
        c.expect("=", "after the field's name")?;
        let value = c.uint("a number")?;
        match key {
            "file_name_id" => r.file = value,
            "line" => r.line = value,
            "file_location_id" => r.location = value,
            _ => {}
        }
    }
    Ok(r)
}

fn computation<'a>(c: &mut Cursor<'a>, m: &mut RawModule<'a>) -> PResult<RawComputation<'a>> {
    let entry = c.eat_word("ENTRY");
    c.skip();
    let start = c.pos();
    let name = c.name("a computation")?;
    let name_span = c.span_from(start);
    let mut result = None;
    if c.eat("(") {
        let mut first = true;
        while !c.eat(")") {
            if !first {
                c.expect(",", "or `)` in a parameter list")?;
            }
            first = false;
            c.name("a parameter's name")?;
            c.expect(":", "after the parameter's name")?;
            c.shape()?;
        }
        c.expect("->", "before the result's shape")?;
        c.skip();
        let at = c.pos();
        let shape = c.shape()?;
        result = Some((shape, c.span_from(at)));
    }
    c.expect("{", "to begin the computation")?;
    let mut instructions = Vec::new();
    while !c.eat("}") {
        parse_instruction(c, &mut instructions, &mut m.module.elided)?;
    }
    while c.eat(",") {
        c.word("an attribute")?;
        c.expect("=", "after the attribute's name")?;
        c.attribute_value()?;
    }
    if instructions.is_empty() {
        return Err(Box::new(Diagnostic::error(name_span, format!("computation `{name}` is empty"))));
    }
    Ok(RawComputation { name, name_span, entry, instructions, result })
}
