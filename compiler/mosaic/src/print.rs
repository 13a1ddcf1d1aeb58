//! A module as text, for people and for tests: one operation a line, with the line of Python behind it.

use crate::text::element_name;
use crate::{Attr, Block, Module, Operation, Place, Space, Type, Value};
use rustc_hash::FxHashMap;
use std::fmt::Write;

/// The text of a module. With `places`, every operation's line of Python stands behind it.
pub fn print(module: &Module, places: bool) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "// stable_mosaic version {}", module.version);
    for f in &module.functions {
        let mut p = Printer { module, names: FxHashMap::default(), out: &mut out, places };
        let args: Vec<String> = f.body.arguments.iter().map(|v| p.typed(*v)).collect();
        let _ = writeln!(p.out, "\nfunc @{}({}) {{{}", f.name, args.join(", "), p.place(f.place.as_ref()));
        for (key, value) in &f.attributes {
            if !matches!(key.as_str(), "sym_name" | "function_type") {
                let _ = writeln!(p.out, "  // {key} = {}", attribute(value));
            }
        }
        p.block(&f.body, 1);
        let _ = writeln!(p.out, "}}");
    }
    out
}

struct Printer<'a> {
    module: &'a Module,
    /// Numbers in the order of their definition, from 0 in each function.
    names: FxHashMap<Value, usize>,
    out: &'a mut String,
    places: bool,
}

impl Printer<'_> {
    fn name(&mut self, v: Value) -> String {
        let next = self.names.len();
        format!("%{}", self.names.entry(v).or_insert(next))
    }

    fn typed(&mut self, v: Value) -> String {
        let name = self.name(v);
        format!("{name}: {}", type_name(self.module.type_of(v)))
    }

    fn place(&self, place: Option<&Place>) -> String {
        match place {
            Some(p) if self.places => format!("  // {p}"),
            _ => String::new(),
        }
    }

    fn block(&mut self, b: &Block, depth: usize) {
        b.operations.iter().for_each(|o| self.operation(o, depth));
    }

    fn operation(&mut self, o: &Operation, depth: usize) {
        let mut line = "  ".repeat(depth);
        let results: Vec<String> = o.results.iter().map(|v| self.name(*v)).collect();
        if !results.is_empty() {
            let _ = write!(line, "{} = ", results.join(", "));
        }
        line.push_str(&o.name);
        for (i, v) in o.operands.iter().enumerate() {
            let _ = write!(line, "{}{}", if i == 0 { " " } else { ", " }, self.name(*v));
        }
        let shown = o.attributes.iter().filter(|(k, v)| !hidden(k, v));
        let shown: Vec<String> = shown.map(|(k, v)| format!("{k} = {}", attribute(v))).collect();
        if !shown.is_empty() {
            let _ = write!(line, " {{{}}}", shown.join(", "));
        }
        let types: Vec<String> = o.results.iter().map(|v| type_name(self.module.type_of(*v))).collect();
        if !types.is_empty() {
            let _ = write!(line, " : {}", types.join(", "));
        }
        let place = self.place(o.place.as_ref());
        let empty = |b: &Block| b.operations.iter().all(|o| &*o.name == "scf.yield" && o.operands.is_empty());
        let used = o.regions.iter().rposition(|b| !empty(b)).map_or(0, |i| i + 1);
        if used == 0 {
            let _ = writeln!(self.out, "{line}{place}");
            return;
        }
        for (i, b) in o.regions[..used].iter().enumerate() {
            let args: Vec<String> = b.arguments.iter().map(|v| self.typed(*v)).collect();
            let args = if args.is_empty() { String::new() } else { format!(" ({})", args.join(", ")) };
            let head =
                if i == 0 { format!("{line}{args} {{{place}") } else { format!("{}}}{args} {{", "  ".repeat(depth)) };
            let _ = writeln!(self.out, "{head}");
            self.block(b, depth + 1);
        }
        let _ = writeln!(self.out, "{}}}", "  ".repeat(depth));
    }
}

/// Attributes that say nothing.
fn hidden(key: &str, value: &Attr) -> bool {
    match key {
        "fastmath" | "overflowFlags" => value.word() == Some("none"),
        "operandSegmentSizes" => true,
        "strides" => matches!(value, Attr::Ints(v) if v.is_empty()),
        _ => false,
    }
}

/// How a type is written.
pub fn type_name(t: &Type) -> String {
    match t {
        Type::Scalar(e) => element_name(*e),
        Type::Vector(dims, e) => {
            let dims: String = dims.iter().map(|d| format!("{d}x")).collect();
            format!("vector<{dims}{}>", element_name(*e))
        }
        Type::MemRef(m) => {
            let dims: String = m.dims.iter().map(|d| d.map_or_else(|| "?x".into(), |d| format!("{d}x"))).collect();
            let space = match m.space {
                Space::Vmem => "vmem",
                Space::Smem => "smem",
                Space::Hbm => "hbm",
                Space::Semaphore => "semaphore",
            };
            format!("memref<{dims}{}, {space}>", element_name(m.element))
        }
        Type::Other(t) => t.clone(),
    }
}

fn attribute(a: &Attr) -> String {
    let list = |l: Vec<String>| format!("[{}]", l.join(", "));
    match a {
        Attr::Int(i) => i.to_string(),
        Attr::Float(f) => format!("{f:?}"),
        Attr::Str(s) => format!("{s:?}"),
        Attr::Symbol(s) => format!("@{s}"),
        Attr::Unit => "unit".into(),
        Attr::Ints(v) => list(v.iter().map(ToString::to_string).collect()),
        Attr::List(v) => list(v.iter().map(attribute).collect()),
        Attr::Dict(d) => {
            let all: Vec<String> = d.iter().map(|(k, v)| format!("{k} = {}", attribute(v))).collect();
            format!("{{{}}}", all.join(", "))
        }
        Attr::Dense(t, v) => match (&v[..], t.element().map(crate::Element::dtype)) {
            ([one], Some(e)) => match crate::decode::float(e, *one).filter(|_| e.is_float()) {
                Some(f) => format!("dense<{f:?}>"),
                None => format!("dense<{}>", *one as i64),
            },
            _ => format!("dense<{} elements>", v.len()),
        },
        Attr::Type(t) => type_name(t),
        Attr::Text(t) => t.clone(),
    }
}
