//! Operations as StableHLO text in generic form.

use super::table;
use super::value::Value;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::VecDeque;
use std::fmt::Write;
use std::rc::Rc;
use systole_mlir_bytecode::{AttributeId, Block, Bytecode, Error, Location, MAX_DEPTH, Operation, TypeId, ValueId};

/// Bytes of text for each byte of the file at most: attributes share parts, so a small file can describe an endless text.
const GROWTH: usize = 200;

/// The text while it is written.
pub(super) struct Printer<'a, 'b> {
    pub of: &'b Bytecode<'a>,
    pub out: String,
    /// Bytes that may still be written.
    left: usize,
    pub types: FxHashMap<TypeId, Rc<str>>,
    /// Locations that operations name, in the order of their first use.
    locations: VecDeque<AttributeId>,
    known: FxHashSet<AttributeId>,
    /// Values that are others in another dialect's type.
    casts: FxHashMap<ValueId, ValueId>,
}

/// An operation's attributes: from its properties and its dictionary.
pub(super) type Attributes<'a> = Vec<(&'a str, AttributeId)>;

impl<'a, 'b> Printer<'a, 'b> {
    pub fn new(of: &'b Bytecode<'a>, size: usize) -> Printer<'a, 'b> {
        Printer {
            of,
            out: String::new(),
            left: size.saturating_mul(GROWTH).saturating_add(1 << 16),
            types: FxHashMap::default(),
            locations: VecDeque::new(),
            known: FxHashSet::default(),
            casts: FxHashMap::default(),
        }
    }

    /// Takes note of text that is about to be written.
    pub fn spend(&mut self, bytes: usize) -> Result<(), Error> {
        match self.left.checked_sub(bytes) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(Error::new(0, "the file describes a text out of all proportion to its size")),
        }
    }

    /// The whole file.
    pub fn module(mut self) -> Result<String, Error> {
        match &self.of.block.operations[..] {
            [module] if &*module.name == "builtin.module" => self.top(module)?,
            _ => return Err(Error::new(0, "the file does not hold one module")),
        }
        while let Some(id) = self.locations.pop_front() {
            let l = self.of.location(id)?;
            self.spend(64 + l.frames.iter().map(|f| f.file.len() + f.function.len() + 40).sum::<usize>())?;
            let _ = writeln!(self.out, "#loc{} = loc({})", id.index(), location_text(&l));
        }
        Ok(self.out)
    }

    fn top(&mut self, o: &'b Operation<'a>) -> Result<(), Error> {
        let attributes = self.attributes(o)?;
        self.out += "module";
        if let Some((_, id)) = attributes.iter().find(|a| a.0 == "sym_name") {
            let name = self.string(*id)?;
            self.out += " ";
            self.symbol(name);
        }
        let rest: Attributes<'a> = attributes.into_iter().filter(|a| !a.0.starts_with("sym_")).collect();
        if !rest.is_empty() {
            self.out += " attributes ";
            self.dictionary(&rest, 0)?;
        }
        self.out += " {\n";
        for item in o.regions.iter().flat_map(|r| &r.blocks).flat_map(|b| &b.operations) {
            match &*item.name {
                "vhlo.func_v1" => self.function(item)?,
                "sdy.mesh" => self.mesh(item)?,
                other => return Err(Error::new(0, format!("`{other}` stands in a module beside its functions"))),
            }
        }
        self.out += "}\n";
        Ok(())
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a mesh that is no text is one of the dialect's attributes")]
    fn mesh(&mut self, o: &Operation<'a>) -> Result<(), Error> {
        let attributes = self.attributes(o)?;
        let text = |key: &str| {
            let id = attributes.iter().find(|a| a.0 == key).map(|a| a.1);
            id.ok_or_else(|| Error::new(0, format!("a mesh lacks `{key}`")))
        };
        let name = self.string(text("sym_name")?)?;
        let mesh = match self.value(text("mesh")?)? {
            Value::Text(mesh) => mesh.to_string(),
            _ => self.shardy(text("mesh")?, false)?,
        };
        self.spend(name.len() + mesh.len() + 32)?;
        self.out += "  sdy.mesh ";
        self.symbol(name);
        let _ = writeln!(self.out, " = {}", mesh.trim_start_matches("#sdy.mesh"));
        Ok(())
    }

    fn function(&mut self, o: &'b Operation<'a>) -> Result<(), Error> {
        let attributes = self.attributes(o)?;
        let get = |key: &str| attributes.iter().find(|a| a.0 == key).map(|a| a.1);
        let missing = |key: &str| Error::new(0, format!("a function lacks `{key}`"));
        let name = self.string(get("sym_name").ok_or_else(|| missing("sym_name"))?)?;
        let visibility = match get("sym_visibility") {
            Some(id) => self.string(id)?,
            None => "",
        };
        let kind = self.value(get("function_type").ok_or_else(|| missing("function_type"))?)?;
        let Value::Type(kind) = kind else { return Err(missing("function_type")) };
        let (inputs, results) = self.function_type(kind)?;
        let (arg_attrs, res_attrs) = (self.dictionaries(get("arg_attrs"))?, self.dictionaries(get("res_attrs"))?);
        let [region] = &o.regions[..] else { return Err(missing("body")) };
        let block = match &region.blocks[..] {
            [] => None,
            [one] if one.arguments.len() == inputs.len() => Some(one),
            _ => return Err(Error::new(0, format!("function `{name}` does not begin as its type says"))),
        };
        self.out += "  func.func ";
        if !visibility.is_empty() {
            self.out += visibility;
            self.out.push(' ');
        }
        self.symbol(name);
        self.out.push('(');
        for (i, t) in inputs.iter().enumerate() {
            if i > 0 {
                self.out += ", ";
            }
            if let Some(b) = block {
                let _ = write!(self.out, "%{}: ", b.arguments[i].value.0);
            }
            self.write_type(*t)?;
            self.trailing(arg_attrs.get(i))?;
        }
        self.out += ") -> (";
        for (i, t) in results.iter().enumerate() {
            if i > 0 {
                self.out += ", ";
            }
            self.write_type(*t)?;
            self.trailing(res_attrs.get(i))?;
        }
        self.out.push(')');
        if let Some(block) = block {
            self.out += " {\n";
            self.operations(block, 2, true)?;
            self.out += "  }";
        }
        self.end_of_line(o)
    }

    fn dictionaries(&self, id: Option<AttributeId>) -> Result<Vec<AttributeId>, Error> {
        match id.map(|id| self.value(id)).transpose()? {
            Some(Value::Array(list)) => Ok(list),
            _ => Ok(Vec::new()),
        }
    }

    /// The attributes of an argument or a result.
    fn trailing(&mut self, id: Option<&AttributeId>) -> Result<(), Error> {
        let Some(id) = id else { return Ok(()) };
        let pairs = self.pairs(*id)?;
        if pairs.is_empty() {
            return Ok(());
        }
        self.out.push(' ');
        self.dictionary(&pairs, 0)
    }

    /// The entries of a dictionary, VHLO's or MLIR's.
    #[allow(
        clippy::wildcard_enum_match_arm,
        reason = "every other attribute is the dialect's own; the message for any other value"
    )]
    pub fn pairs(&self, id: AttributeId) -> Result<Attributes<'a>, Error> {
        match self.of.attribute(id)? {
            systole_mlir_bytecode::Attribute::Dictionary(pairs) => Ok(pairs),
            _ => match self.value(id)? {
                Value::Dictionary(pairs) => pairs.iter().map(|(k, v)| Ok((self.string(*k)?, *v))).collect(),
                _ => Err(Error::new(0, format!("attribute {} is no dictionary", id.index()))),
            },
        }
    }

    /// All attributes of an operation by name.
    pub fn attributes(&self, o: &Operation<'a>) -> Result<Attributes<'a>, Error> {
        let mut out = Attributes::new();
        if let Some(mut r) = o.properties {
            let at = r;
            let Some(names) = table::properties(&o.name) else {
                return Err(at.error(format!("operation `{}` is not supported", o.name)));
            };
            for (name, optional) in names {
                let id = if optional { r.optional_attribute(self.of)? } else { Some(r.attribute(self.of)?) };
                out.extend(id.map(|id| (name, id)));
            }
        }
        if let Some(id) = o.attributes {
            out.extend(self.of.dictionary(id)?);
        }
        Ok(out)
    }

    fn operations(&mut self, block: &'b Block<'a>, depth: usize, in_function: bool) -> Result<(), Error> {
        if depth > MAX_DEPTH {
            return Err(Error::new(0, format!("regions are nested more than {MAX_DEPTH} deep")));
        }
        block.operations.iter().try_for_each(|o| self.operation(o, depth, in_function))
    }

    fn operation(&mut self, o: &'b Operation<'a>, depth: usize, in_function: bool) -> Result<(), Error> {
        if &*o.name == "builtin.unrealized_conversion_cast" && o.operands.len() == o.results.len() {
            for (from, (to, _)) in o.operands.iter().zip(&o.results) {
                let from = self.cast(*from);
                self.casts.insert(*to, from);
            }
            return Ok(());
        }
        self.spend(2 * depth + o.name.len() + 16 * (o.results.len() + o.operands.len()))?;
        let _ = write!(self.out, "{:1$}", "", 2 * depth);
        for (i, (v, _)) in o.results.iter().enumerate() {
            let _ = write!(self.out, "{}%{}", if i > 0 { ", " } else { "" }, v.0);
        }
        if !o.results.is_empty() {
            self.out += " = ";
        }
        let name = stablehlo_name(&o.name, in_function);
        let _ = write!(self.out, "\"{name}\"(");
        for (i, v) in o.operands.iter().enumerate() {
            let _ = write!(self.out, "{}%{}", if i > 0 { ", " } else { "" }, self.cast(*v).0);
        }
        self.out.push(')');
        if !o.regions.is_empty() {
            self.out += " (";
            for (i, r) in o.regions.iter().enumerate() {
                self.out += if i > 0 { ", {\n" } else { "{\n" };
                match &r.blocks[..] {
                    [] => {}
                    [block] => {
                        self.header(block, depth)?;
                        self.operations(block, depth + 1, false)?;
                    }
                    _ => return Err(Error::new(0, format!("`{name}` has a region of several blocks"))),
                }
                let _ = write!(self.out, "{:1$}}}", "", 2 * depth);
            }
            self.out.push(')');
        }
        let attributes = self.attributes(o)?;
        self.renamed(&name, &attributes)?;
        self.out += " : (";
        let operands: Vec<TypeId> = o.operands.iter().map(|v| self.of.value_type(*v)).collect();
        for (i, t) in operands.into_iter().enumerate() {
            self.out += if i > 0 { ", " } else { "" };
            self.write_type(t)?;
        }
        self.out += ") -> (";
        for (i, (_, t)) in o.results.iter().enumerate() {
            self.out += if i > 0 { ", " } else { "" };
            self.write_type(*t)?;
        }
        self.out.push(')');
        self.end_of_line(o)
    }

    /// The value that a value is, whatever its type is called.
    fn cast(&self, v: ValueId) -> ValueId {
        self.casts.get(&v).copied().unwrap_or(v)
    }

    fn header(&mut self, block: &Block<'a>, depth: usize) -> Result<(), Error> {
        if block.arguments.is_empty() {
            return Ok(());
        }
        let _ = write!(self.out, "{:1$}^bb0(", "", 2 * depth);
        for (i, a) in block.arguments.iter().enumerate() {
            let _ = write!(self.out, "{}%{}: ", if i > 0 { ", " } else { "" }, a.value.0);
            self.write_type(a.type_id)?;
        }
        self.out += "):\n";
        Ok(())
    }

    pub fn write_type(&mut self, t: TypeId) -> Result<(), Error> {
        let text = self.type_text(t)?;
        self.spend(text.len())?;
        self.out += &text;
        Ok(())
    }

    fn end_of_line(&mut self, o: &Operation<'a>) -> Result<(), Error> {
        if self.of.location(o.location)? != Location::default() {
            let _ = write!(self.out, " loc(#loc{})", o.location.index());
            if self.known.insert(o.location) {
                self.locations.push_back(o.location);
            }
        }
        self.out.push('\n');
        Ok(())
    }

    /// `@name`, quoted where it is no plain word.
    pub fn symbol(&mut self, name: &str) {
        let plain = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.');
        self.out.push('@');
        match plain {
            true => self.out += name,
            false => self.quoted(name.as_bytes()),
        }
    }

    /// A string with its escapes.
    pub fn quoted(&mut self, bytes: &[u8]) {
        self.out.push('"');
        for part in bytes.utf8_chunks() {
            for c in part.valid().chars() {
                match c {
                    '"' | '\\' | '\0'..='\x1f' | '\x7f' => {
                        let _ = write!(self.out, "\\{:02X}", c as u32);
                    }
                    _ => self.out.push(c),
                }
            }
            for b in part.invalid() {
                let _ = write!(self.out, "\\{b:02X}");
            }
        }
        self.out.push('"');
    }
}

/// `vhlo.add_v1` is `stablehlo.add`.
fn stablehlo_name(name: &str, in_function: bool) -> String {
    let Some(name) = name.strip_prefix("vhlo.") else { return name.to_string() };
    let stem = name.rsplit_once("_v").map_or(name, |(stem, _)| stem);
    match stem {
        "call" => "func.call".to_string(),
        "return" if in_function => "func.return".to_string(),
        _ => format!("stablehlo.{stem}"),
    }
}

fn location_text(l: &Location<'_>) -> String {
    let quote = |s: &str| format!("\"{}\"", s.replace(['"', '\\', '\n'], "_"));
    let place = |f: &systole_mlir_bytecode::Frame<'_>| {
        let place = format!("{}:{}:{}", quote(f.file), f.line, f.column);
        if f.function.is_empty() { place } else { format!("{}({place})", quote(f.function)) }
    };
    // A frame is called from the frames after it.
    let mut stack = String::new();
    for f in l.frames.iter().rev() {
        stack = if stack.is_empty() { place(f) } else { format!("callsite({} at {stack})", place(f)) };
    }
    match (l.name.is_empty(), stack.is_empty()) {
        (false, false) => format!("{}({stack})", quote(l.name)),
        (false, true) => quote(l.name),
        (true, false) => stack,
        (true, true) => "unknown".to_string(),
    }
}
