//! The grammar: modules, functions, regions, and operations in generic and pretty form.

use super::ast::{Argument, Attr, Function, Mesh, ModuleText, Operation, Region, Use};
use super::pretty::Pretty;
use crate::hlo_text::lex::Cursor;
use crate::hlo_text::{MAX_DEPTH, PResult};
use systole_hlo::diag::Diagnostic;
use systole_hlo::graph::{Shape, Span};

/// Reads the modules of one `// -----` section: itself, or the modules inside it.
pub(crate) fn modules<'a>(c: &mut Cursor<'a>) -> PResult<Vec<ModuleText<'a>>> {
    let mut outer = ModuleText { name: "module", ..ModuleText::default() };
    let mut inner = Vec::new();
    definitions(c, &mut outer)?;
    if at_module(c) {
        module(c, &mut outer, &mut inner, 0)?;
        definitions(c, &mut outer)?;
    } else {
        // The module around functions may be left out.
        while !c.at_end() {
            if c.peek() == Some(b'}') {
                return Err(c.unexpected("a module or a function"));
            }
            item(c, &mut outer, &mut inner, 0)?;
        }
    }
    if !c.at_end() {
        return Err(c.unexpected("the end of the module"));
    }
    for m in &mut inner {
        m.resources.clone_from(&outer.resources);
        m.locations.clone_from(&outer.locations);
    }
    if !outer.functions.is_empty() || inner.is_empty() {
        inner.insert(0, outer);
    }
    Ok(inner)
}

fn at_module(c: &mut Cursor<'_>) -> bool {
    matches!(c.peek_word(), "module" | "builtin.module") || c.looking_at("\"builtin.module\"")
}

/// Reads `module @name attributes {..} {..}` or its generic form.
fn module<'a>(
    c: &mut Cursor<'a>,
    m: &mut ModuleText<'a>,
    inner: &mut Vec<ModuleText<'a>>,
    depth: usize,
) -> PResult<()> {
    if depth > MAX_DEPTH / 2 {
        return Err(c.error_here("modules are nested too deep"));
    }
    let generic = c.eat("\"builtin.module\"");
    if generic {
        c.expect("(", "after the operation")?;
        c.expect(")", "after the operation")?;
        m.span = c.span_from(c.pos());
        if c.eat("<{") {
            let properties = c.dict_entries("}", 0)?;
            c.expect(">", "to end the properties")?;
            m.name = symbol_of(&properties).unwrap_or(m.name);
        }
        c.expect("(", "to begin the region")?;
    } else {
        c.word("`module`")?;
        c.skip();
        m.span = c.span_from(c.pos());
        if c.eat("@") {
            m.name = c.symbol()?;
        }
        if c.eat_word("attributes") {
            m.attributes = c.dict()?;
        }
    }
    c.expect("{", "to begin the module")?;
    if c.peek() == Some(b'^') {
        c.advance(1);
        c.word("a block's name")?;
        c.expect(":", "after the block's header")?;
    }
    while !c.eat("}") {
        if c.at_end() {
            return Err(c.unexpected("`}` to end the module"));
        }
        item(c, m, inner, depth)?;
    }
    if generic {
        c.expect(")", "to end the region")?;
        if c.peek() == Some(b'{') {
            m.attributes = c.dict()?;
        }
        operation_type(c)?;
    }
    location(c)?;
    Ok(())
}

/// `sym_name` of an operation's properties.
fn symbol_of<'a>(properties: &[(&'a str, Attr<'a>, Span)]) -> Option<&'a str> {
    properties.iter().find_map(|p| match (&p.0, &p.1) {
        (&"sym_name", Attr::Str(s)) => Some(*s),
        _ => None,
    })
}

/// Reads `: (types) -> types`; the types of the results, and where they stand.
fn operation_type(c: &mut Cursor<'_>) -> PResult<(Vec<Shape>, Span)> {
    c.expect(":", "before the operation's type")?;
    c.type_list()?;
    c.expect("->", "before the results' types")?;
    let start = c.pos();
    let types = c.type_list()?;
    Ok((types, c.span_from(start)))
}

/// Skips `#name = ..` lines but those of locations; keeps what sections of resources hold.
fn definitions<'a>(c: &mut Cursor<'a>, m: &mut ModuleText<'a>) -> PResult<()> {
    loop {
        match c.peek() {
            Some(b'#' | b'!') => {
                c.advance(1);
                let name = c.word("a name")?;
                c.expect("=", "in a definition")?;
                match location(c)? {
                    Some(inside) => {
                        m.locations.insert(name, inside);
                    }
                    None => {
                        c.attr(0)?;
                    }
                }
            }
            Some(b'{') if c.looking_at("{-#") => {
                c.advance(3);
                resources(c, "#-}", 0, &mut m.resources)?;
            }
            _ => return Ok(()),
        }
    }
}

/// The strings of a resource section by name, whatever dialect they are of: `name: "0x..", dialect: {..}`.
fn resources<'a>(c: &mut Cursor<'a>, close: &str, depth: usize, out: &mut Vec<(&'a str, &'a str)>) -> PResult<()> {
    if depth > MAX_DEPTH {
        return Err(c.error_here("resources are nested too deep"));
    }
    while !c.eat(close) {
        let name = if c.peek() == Some(b'"') {
            let inside = c.string()?;
            c.slice(inside)
        } else {
            c.word("a resource's name")?
        };
        c.expect(":", "after the name")?;
        if c.eat("{") {
            resources(c, "}", depth + 1, out)?;
        } else if c.peek() == Some(b'"') {
            let inside = c.string()?;
            out.push((name, c.slice(inside)));
        } else {
            c.word("a resource's value")?;
        }
        if !c.eat(",") {
            c.expect(close, "or `,` between resources")?;
            break;
        }
    }
    Ok(())
}

/// Reads `loc(..)` if it is there: the place inside.
pub(super) fn location(c: &mut Cursor<'_>) -> PResult<Option<Span>> {
    if c.peek_word() != "loc" {
        return Ok(None);
    }
    c.advance(3);
    c.skip();
    let start = c.pos() as u32 + 1;
    c.balanced()?;
    Ok(Some(Span { start, end: c.pos() as u32 - 1 }))
}

fn item<'a>(c: &mut Cursor<'a>, m: &mut ModuleText<'a>, inner: &mut Vec<ModuleText<'a>>, depth: usize) -> PResult<()> {
    definitions(c, m)?;
    if at_module(c) {
        let mut nested = ModuleText { name: "module", ..ModuleText::default() };
        // Its place comes before the modules inside it.
        let place = inner.len();
        module(c, &mut nested, inner, depth + 1)?;
        inner.insert(place, nested);
        return Ok(());
    }
    if c.looking_at("\"func.func\"") {
        let f = generic_function(c)?;
        m.functions.push(f);
        return Ok(());
    }
    match c.peek_word() {
        "func.func" | "func" => {
            let f = function(c)?;
            m.functions.push(f);
            Ok(())
        }
        "sdy.mesh" => {
            c.advance("sdy.mesh".len());
            c.expect("@", "before the mesh's name")?;
            let name = c.symbol()?;
            c.expect("=", "after the mesh's name")?;
            let inside = c.angles()?;
            let (axes, devices) = mesh_axes(&mut Cursor::over(c.text(), inside))?;
            m.meshes.push(Mesh { name, axes, devices });
            if c.peek() == Some(b'{') {
                c.dict()?;
            }
            location(c)?;
            Ok(())
        }
        _ if matches!(c.peek(), Some(b'}') | None) => Ok(()),
        _ => Err(c.unexpected("a function `func.func`")),
    }
}

/// `"func.func"() <{function_type = .., sym_name = ..}> ({..}) {..} : () -> ()`
fn generic_function<'a>(c: &mut Cursor<'a>) -> PResult<Function<'a>> {
    let mut o = Operation::named("func.func", Span::default());
    c.skip();
    let start = c.pos();
    c.string()?;
    o.span = c.span_from(start);
    generic_form(c, &mut o, 0)?;
    location(c)?;
    let Some(name) = symbol_of(&o.attributes) else { return Err(o.error("the function lacks `sym_name`")) };
    let Some(Attr::Function(inputs, outputs)) = o.get(&["function_type"]) else {
        return Err(o.error("the function lacks `function_type = (..) -> (..)`"));
    };
    let attributes = |key: &str, i: usize| match o.get(&[key]) {
        Some(Attr::List(l)) => match l.get(i) {
            Some(Attr::Dict(d)) => d.clone(),
            _ => Vec::new(),
        },
        _ => Vec::new(),
    };
    let is_private = matches!(o.get(&["sym_visibility"]), Some(Attr::Str("private" | "nested")));
    let results = outputs.iter().enumerate().map(|(i, s)| (s.clone(), attributes("res_attrs", i))).collect();
    let body = o.regions.first().cloned().filter(|r| !r.ops.is_empty() || !r.args.is_empty());
    let named = body.as_ref().map_or(&[][..], |b| &b.args);
    if body.is_some() && named.len() != inputs.len() {
        return Err(o.error("the function's block does not take the arguments of its type"));
    }
    let args = (inputs.iter().enumerate())
        .map(|(i, shape)| Argument {
            name: named.get(i).map_or("", |a| a.0),
            shape: shape.clone(),
            place: body.as_ref().and_then(|b| b.arg_places.get(i)).copied().unwrap_or_default(),
            attributes: attributes("arg_attrs", i),
        })
        .collect();
    Ok(Function { name, span: o.span, is_private, args, results, body })
}

/// `["x"=2, "y"=4]`, possibly with device ids after it.
fn mesh_axes<'a>(c: &mut Cursor<'a>) -> PResult<(Vec<(&'a str, u64)>, Vec<u64>)> {
    c.expect("[", "to begin the axes")?;
    let out = c.separated("]", "between axes", |c| {
        let span = c.string()?;
        c.expect("=", "after the axis name")?;
        let mut at = *c;
        let size = c.uint("the axis size")?;
        if size == 0 || size > 1 << 20 {
            return Err(at.error_here("the size of an axis is 1 to 1048576"));
        }
        Ok((c.slice(span), size))
    })?;
    let mut devices = Vec::new();
    if c.eat(",") {
        c.word("`device_ids`")?;
        c.expect("=", "after `device_ids`")?;
        c.expect("[", "to begin the device ids")?;
        devices = c.separated("]", "between device ids", |c| c.uint("a device id"))?;
    }
    if !c.at_end() {
        return Err(c.error_here("axes and device ids are expected"));
    }
    Ok((out, devices))
}

fn function<'a>(c: &mut Cursor<'a>) -> PResult<Function<'a>> {
    c.word("`func.func`")?;
    let mut is_private = false;
    loop {
        if c.eat_word("private") || c.eat_word("nested") {
            is_private = true;
        } else if !c.eat_word("public") {
            break;
        }
    }
    c.skip();
    let start = c.pos();
    c.expect("@", "before the function's name")?;
    let name = c.symbol()?;
    let span = c.span_from(start);
    c.expect("(", "to begin the arguments")?;
    let args: Vec<Argument<'a>> = c.separated(")", "or `)` in the arguments", |c| {
        // Declarations name no arguments.
        let name = if c.peek() == Some(b'%') { value_name(c)? } else { "" };
        if !name.is_empty() {
            c.expect(":", "after the argument's name")?;
        }
        let start = c.pos();
        let shape = c.mlir_type()?;
        let place = c.span_from(start);
        let attributes = if c.peek() == Some(b'{') { c.dict()? } else { Vec::new() };
        location(c)?;
        Ok(Argument { name, shape, place, attributes })
    })?;
    let mut results = Vec::new();
    if c.eat("->") {
        if c.eat("(") {
            results = c.separated(")", "or `)` in the results", |c| {
                let shape = c.mlir_type()?;
                Ok((shape, if c.peek() == Some(b'{') { c.dict()? } else { Vec::new() }))
            })?;
        } else {
            results.push((c.mlir_type()?, Vec::new()));
        }
    }
    if c.eat_word("attributes") {
        c.dict()?;
    }
    let body = if c.eat("{") { Some(block(c, 0)?) } else { None };
    location(c)?;
    Ok(Function { name, span, is_private, args, results, body })
}

pub(super) fn value_name<'a>(c: &mut Cursor<'a>) -> PResult<&'a str> {
    if c.peek() != Some(b'%') {
        return Err(c.unexpected("a value such as %0"));
    }
    c.name("a value such as %0")
}

/// Reads `%name` or `%name#1`.
pub(super) fn value_use<'a>(c: &mut Cursor<'a>) -> PResult<Use<'a>> {
    c.skip();
    let start = c.pos();
    let name = value_name(c)?;
    let index = if c.here() == Some(b'#') {
        c.advance(1);
        c.uint("a result number")? as usize
    } else {
        0
    };
    Ok(Use { name, index, span: c.span_from(start) })
}

/// A block's operations up to `}`; `{` has been read.
pub(super) fn block<'a>(c: &mut Cursor<'a>, depth: usize) -> PResult<Region<'a>> {
    let mut region = Region::default();
    if depth > MAX_DEPTH / 2 {
        return Err(c.error_here("regions are nested too deep"));
    }
    if c.peek() == Some(b'^') {
        c.advance(1);
        c.word("a block's name")?;
        if c.eat("(") {
            while !c.eat(")") {
                if !region.args.is_empty() {
                    c.expect(",", "or `)` in the block's arguments")?;
                }
                let name = value_name(c)?;
                c.expect(":", "after the argument's name")?;
                let start = c.pos();
                region.args.push((name, c.mlir_type()?));
                region.arg_places.push(c.span_from(start));
                location(c)?;
            }
        }
        c.expect(":", "after the block's header")?;
    }
    while !c.eat("}") {
        if c.peek() == Some(b'^') {
            return Err(c.error_here("regions of several blocks are not supported"));
        }
        region.ops.push(operation(c, depth + 1)?);
    }
    Ok(region)
}

fn operation<'a>(c: &mut Cursor<'a>, depth: usize) -> PResult<Operation<'a>> {
    c.skip();
    let start = c.pos();
    let mut results = Vec::new();
    if c.peek() == Some(b'%') {
        loop {
            let name = value_name(c)?;
            let n = if c.here() == Some(b':') {
                c.advance(1);
                c.uint("the number of results")?
            } else {
                1
            };
            if n > 1 << 20 {
                return Err(c.error_here("too many results"));
            }
            results.push((name, n as usize));
            if !c.eat(",") {
                break;
            }
        }
        c.expect("=", "after the results' names")?;
    }
    c.skip();
    let at = c.pos();
    let generic = c.peek() == Some(b'"');
    let name = if generic {
        let span = c.string()?;
        c.slice(span)
    } else {
        c.word("an operation such as stablehlo.add")?
    };
    let mut o = Operation { results, ..Operation::named(name, c.span_from(at)) };
    if generic {
        generic_form(c, &mut o, depth)?;
    } else {
        Pretty { c, o: &mut o, depth }.read()?;
    }
    o.location = location(c)?;
    o.span = Span { start: start as u32, end: first_line_end(c, start) };
    Ok(o)
}

/// Where the text read since `start` ends, or its first line.
fn first_line_end(c: &Cursor<'_>, start: usize) -> u32 {
    let read = &c.text()[start..c.pos()];
    (start + read.find('\n').unwrap_or(read.trim_end().len())) as u32
}

/// `"op"(operands) <{properties}> ({regions}) {attributes} : (types) -> types`
fn generic_form<'a>(c: &mut Cursor<'a>, o: &mut Operation<'a>, depth: usize) -> PResult<()> {
    c.expect("(", "to begin the operands")?;
    o.operands.extend(c.separated(")", "or `)` in the operands", value_use)?);
    if c.eat("<{") {
        o.attributes.extend(c.dict_entries("}", 0)?);
        c.expect(">", "to end the properties")?;
    }
    if c.eat("(") {
        loop {
            c.expect("{", "to begin a region")?;
            o.regions.push(block(c, depth + 1)?);
            if !c.eat(",") {
                break;
            }
        }
        c.expect(")", "to end the regions")?;
    }
    if c.eat("{") {
        o.attributes.extend(c.dict_entries("}", 0)?);
    }
    (o.result_types, o.result_place) = operation_type(c)?;
    Ok(())
}

/// An error about a function.
pub(crate) fn function_error(f: &Function<'_>, message: impl Into<String>) -> Box<Diagnostic> {
    Box::new(Diagnostic::error(f.span, message))
}
