//! The grammar: modules, functions, regions, and operations in generic and pretty form.

use super::ast::{Argument, Attr, Function, ModuleText, Operation, Region, Use};
use crate::diag::Diagnostic;
use crate::front::hlo_text::lex::Cursor;
use crate::front::hlo_text::{MAX_DEPTH, PResult};
use crate::graph::{Shape, Span};

/// Reads a module; the cursor covers one `// -----` section.
pub(crate) fn module<'a>(c: &mut Cursor<'a>) -> PResult<ModuleText<'a>> {
    let mut m = ModuleText { name: "module", ..ModuleText::default() };
    definitions(c)?;
    if !c.eat_word("module") {
        // The module around functions may be left out.
        while !c.at_end() {
            if c.peek() == Some(b'}') {
                return Err(c.unexpected("a module or a function"));
            }
            item(c, &mut m)?;
        }
    } else {
        c.skip();
        m.span = c.span_from(c.pos());
        if c.eat("@") {
            m.name = c.symbol()?;
        }
        if c.eat_word("attributes") {
            m.attributes = c.dict()?;
        }
        c.expect("{", "to begin the module")?;
        while !c.eat("}") {
            if c.at_end() {
                return Err(c.unexpected("`}` to end the module"));
            }
            item(c, &mut m)?;
        }
        location(c)?;
        definitions(c)?;
    }
    match c.at_end() {
        true => Ok(m),
        false => Err(c.unexpected("the end of the module")),
    }
}

/// Skips `#name = ..` lines and resource sections.
fn definitions(c: &mut Cursor<'_>) -> PResult<()> {
    loop {
        match c.peek() {
            Some(b'#' | b'!') => {
                c.advance(1);
                c.word("a name")?;
                c.expect("=", "in a definition")?;
                c.attr(0)?;
            }
            Some(b'{') if c.looking_at("{-#") => match c.rest().find("#-}") {
                Some(i) => c.advance(i + 3),
                None => return Err(c.unexpected("`#-}`")),
            },
            _ => return Ok(()),
        }
    }
}

/// Skips `loc(..)`.
fn location(c: &mut Cursor<'_>) -> PResult<()> {
    if c.peek_word() == "loc" {
        c.advance(3);
        c.balanced()?;
    }
    Ok(())
}

fn item<'a>(c: &mut Cursor<'a>, m: &mut ModuleText<'a>) -> PResult<()> {
    definitions(c)?;
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
            m.meshes.push((name, mesh_axes(&mut Cursor::over(c.text(), inside))?));
            if c.peek() == Some(b'{') {
                c.dict()?;
            }
            location(c)
        }
        _ if matches!(c.peek(), Some(b'}') | None) => Ok(()),
        _ => Err(c.unexpected("a function `func.func`")),
    }
}

/// `["x"=2, "y"=4]`, possibly with device ids after it.
fn mesh_axes<'a>(c: &mut Cursor<'a>) -> PResult<Vec<(&'a str, u64)>> {
    let mut out = Vec::new();
    c.expect("[", "to begin the axes")?;
    while !c.eat("]") {
        if !out.is_empty() {
            c.expect(",", "between axes")?;
        }
        let span = c.string()?;
        c.expect("=", "after the axis name")?;
        let mut at = *c;
        let size = c.uint("the axis size")?;
        if size == 0 || size > 1 << 20 {
            return Err(at.error_here("the size of an axis is 1 to 1048576"));
        }
        out.push((c.slice(span), size));
    }
    if !c.at_end() {
        return Err(c.error_here("meshes with explicit device ids are not supported"));
    }
    Ok(out)
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
    let mut args: Vec<Argument<'a>> = Vec::new();
    while !c.eat(")") {
        if !args.is_empty() {
            c.expect(",", "or `)` in the arguments")?;
        }
        let name = value_name(c)?;
        c.expect(":", "after the argument's name")?;
        let shape = c.mlir_type()?;
        let attributes = if c.peek() == Some(b'{') { c.dict()? } else { Vec::new() };
        location(c)?;
        args.push(Argument { name, shape, attributes });
    }
    let mut results = Vec::new();
    if c.eat("->") {
        if c.eat("(") {
            while !c.eat(")") {
                if !results.is_empty() {
                    c.expect(",", "or `)` in the results")?;
                }
                let shape = c.mlir_type()?;
                let attributes = if c.peek() == Some(b'{') { c.dict()? } else { Vec::new() };
                results.push((shape, attributes));
            }
        } else {
            results.push((c.mlir_type()?, Vec::new()));
        }
    }
    if c.eat_word("attributes") {
        c.dict()?;
    }
    c.expect("{", "to begin the function's body")?;
    let body = block(c, 0)?;
    location(c)?;
    Ok(Function { name, span, is_private, args, results, body })
}

fn value_name<'a>(c: &mut Cursor<'a>) -> PResult<&'a str> {
    if c.peek() != Some(b'%') {
        return Err(c.unexpected("a value such as %0"));
    }
    c.name("a value such as %0")
}

/// Reads `%name` or `%name#1`.
fn value_use<'a>(c: &mut Cursor<'a>) -> PResult<Use<'a>> {
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
fn block<'a>(c: &mut Cursor<'a>, depth: usize) -> PResult<Region<'a>> {
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
                region.args.push((name, c.mlir_type()?));
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
    let mut o = Operation {
        name,
        span: c.span_from(at),
        results,
        operands: Vec::new(),
        attributes: Vec::new(),
        regions: Vec::new(),
        result_types: Vec::new(),
    };
    if generic {
        generic_form(c, &mut o, depth)?;
    } else {
        Pretty { c, o: &mut o, depth }.read()?;
    }
    location(c)?;
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
    while !c.eat(")") {
        if !o.operands.is_empty() {
            c.expect(",", "or `)` in the operands")?;
        }
        o.operands.push(value_use(c)?);
    }
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
    c.expect(":", "before the operation's type")?;
    c.type_list()?;
    c.expect("->", "before the results' types")?;
    o.result_types = c.type_list()?;
    Ok(())
}

/// A reader of pretty forms: operands, `key = value` items and keywords in any order up to `: types`.
struct Pretty<'a, 'c> {
    c: &'c mut Cursor<'a>,
    o: &'c mut Operation<'a>,
    depth: usize,
}

impl<'a> Pretty<'a, '_> {
    fn read(&mut self) -> PResult<()> {
        match self.o.name {
            "stablehlo.while" => self.while_form(),
            "stablehlo.reduce" => self.reduce_form(),
            "stablehlo.constant" => self.constant(),
            "sdy.manual_computation" => self.manual_form(),
            name if name.starts_with("check.expect_") => self.check_form(),
            _ => {
                self.items()?;
                self.types()
            }
        }
    }

    fn push(&mut self, key: &'a str, value: Attr<'a>, start: usize) {
        let span = self.c.span_from(start);
        self.o.attributes.push((key, value, span));
    }

    /// Everything up to the types.
    fn items(&mut self) -> PResult<()> {
        loop {
            self.c.skip();
            let start = self.c.pos();
            match self.c.peek() {
                Some(b'%') => {
                    let u = value_use(self.c)?;
                    self.o.operands.push(u);
                }
                Some(b',' | b'(' | b')') => self.c.advance(1),
                Some(b'[') => {
                    let value = self.ranges()?;
                    self.push("ranges", value, start);
                }
                Some(b'{') => {
                    self.c.advance(1);
                    let entries = self.c.dict_entries("}", 0)?;
                    self.o.attributes.extend(entries);
                }
                Some(b'<') => {
                    let inside = self.c.angles()?;
                    self.push("angles", Attr::Dialect("", inside), start);
                }
                Some(b'@') => {
                    let symbol = self.c.attr(0)?;
                    self.push("symbol", symbol, start);
                }
                Some(b'"') => {
                    let name = self.c.attr(0)?;
                    self.push("string", name, start);
                }
                Some(b':') | None | Some(b'}') => return Ok(()),
                _ => {
                    if self.c.peek_word() == "loc" {
                        return Ok(());
                    }
                    let key = self.c.word("an operand or an attribute")?;
                    if self.c.eat("=") {
                        let value = self.value(key)?;
                        self.push(key, value, start);
                    } else {
                        self.push("keyword", Attr::Word(key), start);
                    }
                }
            }
        }
    }

    /// A value of `key =`; pairs `[0] x [1]` and convolution labels are kept whole.
    fn value(&mut self, key: &str) -> PResult<Attr<'a>> {
        if key == "dim_numbers" {
            self.c.skip();
            let start = self.c.pos();
            let whole = self.c.rest();
            let Some(arrow) = whole.find("->") else { return Err(self.c.unexpected("[b, 0, f]x[0, i, o]->[b, 0, f]")) };
            let Some(close) = whole[arrow..].find(']') else { return Err(self.c.unexpected("`]`")) };
            self.c.advance(arrow + close + 1);
            return Ok(Attr::Dialect("stablehlo.conv", self.c.span_from(start)));
        }
        if matches!(self.c.peek(), Some(b'-' | b'0'..=b'9')) {
            return self.c.number(); // the type after it is the operation's
        }
        let first = self.c.attr(0)?;
        if matches!(first, Attr::List(_)) && self.c.eat_word("x") {
            let second = self.c.attr(0)?;
            return Ok(Attr::List(vec![first, second]));
        }
        Ok(first)
    }

    /// `[0:4, 0:8:2]` (starts, limits, strides) or `[1]`.
    fn ranges(&mut self) -> PResult<Attr<'a>> {
        self.c.expect("[", "to begin the ranges")?;
        let mut out = Vec::new();
        while !self.c.eat("]") {
            if !out.is_empty() {
                self.c.expect(",", "or `]`")?;
            }
            let mut parts = vec![Attr::Int(self.c.int("a start")?)];
            while self.c.eat(":") {
                parts.push(Attr::Int(self.c.int("a number")?));
            }
            out.push(Attr::List(parts));
        }
        Ok(Attr::List(out))
    }

    /// `: T`, `: T, U`, `: (T, U) -> V`.
    fn types(&mut self) -> PResult<()> {
        if !self.c.eat(":") {
            return Ok(());
        }
        let first = self.c.type_list()?;
        if self.c.eat("->") {
            self.o.result_types = self.c.type_list()?;
            return Ok(());
        }
        let n: usize = self.o.results.iter().map(|r| r.1).sum();
        self.o.result_types = if n == first.len() { first } else { first.into_iter().rev().take(n.min(1)).collect() };
        Ok(())
    }

    /// `%x, %y {..} : types` or `%x, dense<..> : type {..}`
    fn check_form(&mut self) -> PResult<()> {
        let first = value_use(self.c)?;
        self.o.operands.push(first);
        self.c.expect(",", "after the value")?;
        if self.c.peek() != Some(b'%') {
            self.c.skip();
            let start = self.c.pos();
            let value = self.c.attr(0)?;
            self.push("value", value, start);
            // Its type came with it; only attributes may follow.
            if self.c.eat("{") {
                let entries = self.c.dict_entries("}", 0)?;
                self.o.attributes.extend(entries);
            }
            return self.types();
        }
        self.items()?;
        self.types()
    }

    /// `[{..}] dense<..> : type`
    fn constant(&mut self) -> PResult<()> {
        if self.c.eat("{") {
            let entries = self.c.dict_entries("}", 0)?;
            self.o.attributes.extend(entries);
        }
        self.c.skip();
        let start = self.c.pos();
        let value = self.c.attr(0)?;
        let Attr::Dense(_, shape) = &value else { return Err(self.c.at(start).unexpected("`dense<..> : type`")) };
        self.o.result_types = vec![Shape::Array(shape.clone())];
        self.push("value", value, start);
        Ok(())
    }

    /// `(%a = %x, ..) : types attributes {..} cond {..} do {..}`
    fn while_form(&mut self) -> PResult<()> {
        let mut names = Vec::new();
        self.c.expect("(", "to begin the loop's state")?;
        while !self.c.eat(")") {
            if !names.is_empty() {
                self.c.expect(",", "or `)`")?;
            }
            names.push(value_name(self.c)?);
            self.c.expect("=", "after the name")?;
            let u = value_use(self.c)?;
            self.o.operands.push(u);
        }
        if self.c.eat(":") {
            self.o.result_types = self.c.type_list()?;
        }
        if self.c.eat_word("attributes") {
            self.c.expect("{", "to begin the attributes")?;
            let entries = self.c.dict_entries("}", 0)?;
            self.o.attributes.extend(entries);
        }
        if names.len() != self.o.result_types.len() {
            return Err(self.c.error_here(format!("{} types for {} values", self.o.result_types.len(), names.len())));
        }
        for word in ["cond", "do"] {
            if !self.c.eat_word(word) {
                return Err(self.c.unexpected(&format!("`{word} {{ .. }}`")));
            }
            self.c.expect("{", "to begin a region")?;
            let mut region = block(self.c, self.depth + 1)?;
            region.args = names.iter().copied().zip(self.o.result_types.iter().cloned()).collect();
            self.o.regions.push(region);
        }
        Ok(())
    }

    /// `(%x init: %z), .. [applies op] across dimensions = [..] {..} : types [reducer(..) (..) {..}]`
    fn reduce_form(&mut self) -> PResult<()> {
        let mut inits = Vec::new();
        while self.c.eat("(") {
            let u = value_use(self.c)?;
            self.o.operands.push(u);
            if !self.c.eat_word("init") {
                return Err(self.c.unexpected("`init: %value`"));
            }
            self.c.expect(":", "after `init`")?;
            inits.push(value_use(self.c)?);
            self.c.expect(")", "after the initial value")?;
            self.c.eat(",");
        }
        self.o.operands.extend(inits);
        self.c.skip();
        let start = self.c.pos();
        if self.c.eat_word("applies") {
            let op = self.c.word("an operation")?;
            self.push("applies", Attr::Word(op), start);
        }
        if !self.c.eat_word("across") || !self.c.eat_word("dimensions") {
            return Err(self.c.unexpected("`across dimensions = [..]`"));
        }
        self.c.expect("=", "after `dimensions`")?;
        let dims = self.c.attr(0)?;
        self.push("dimensions", dims, start);
        if self.c.eat("{") {
            let entries = self.c.dict_entries("}", 0)?;
            self.o.attributes.extend(entries);
        }
        self.types()?;
        if self.c.eat_word("reducer") {
            let (mut first, mut second) = (Vec::new(), Vec::new());
            while self.c.eat("(") {
                for list in [&mut first, &mut second] {
                    let name = value_name(self.c)?;
                    self.c.expect(":", "after the argument's name")?;
                    list.push((name, self.c.mlir_type()?));
                    location(self.c)?;
                    self.c.eat(",");
                }
                self.c.expect(")", "after a pair of arguments")?;
            }
            self.c.expect("{", "to begin the reducer")?;
            let mut region = block(self.c, self.depth + 1)?;
            region.args = first.into_iter().chain(second).collect();
            self.o.regions.push(region);
        }
        Ok(())
    }

    /// `(%x) in_shardings=[..] out_shardings=[..] manual_axes={..} (%arg: T) {..} : (T) -> T`
    fn manual_form(&mut self) -> PResult<()> {
        self.c.expect("(", "to begin the operands")?;
        while !self.c.eat(")") {
            let u = value_use(self.c)?;
            self.o.operands.push(u);
            self.c.eat(",");
        }
        for key in ["in_shardings", "out_shardings"] {
            self.c.skip();
            let start = self.c.pos();
            if !self.c.eat_word(key) {
                return Err(self.c.unexpected(&format!("`{key}=[..]`")));
            }
            self.c.expect("=", "after the name")?;
            let value = self.c.attr(0)?;
            self.push(key, value, start);
        }
        self.c.skip();
        let start = self.c.pos();
        if self.c.eat_word("manual_axes") {
            self.c.expect("=", "after `manual_axes`")?;
            self.c.skip();
            let at = self.c.pos();
            self.c.balanced()?;
            let inside = self.c.span_from(at);
            self.push("manual_axes", Attr::Dialect("", inside), start);
        }
        let mut args = Vec::new();
        self.c.expect("(", "to begin the body's arguments")?;
        while !self.c.eat(")") {
            let name = value_name(self.c)?;
            self.c.expect(":", "after the argument's name")?;
            args.push((name, self.c.mlir_type()?));
            self.c.eat(",");
        }
        self.c.expect("{", "to begin the body")?;
        let mut region = block(self.c, self.depth + 1)?;
        region.args = args;
        self.o.regions.push(region);
        self.types()
    }
}

/// An error about a function.
pub(crate) fn function_error(f: &Function<'_>, message: impl Into<String>) -> Box<Diagnostic> {
    Box::new(Diagnostic::error(f.span, message))
}
