//! Pretty forms of operations, read into the structure of the generic form.

use super::ast::{Attr, Operation};
use super::parse::{block, location, value_name, value_use};
use crate::hlo_text::PResult;
use crate::hlo_text::lex::Cursor;
use systole_hlo::graph::Shape;

/// A reader of pretty forms: operands, `key = value` items and keywords in any order up to `: types`.
pub(super) struct Pretty<'a, 'c> {
    pub c: &'c mut Cursor<'a>,
    pub o: &'c mut Operation<'a>,
    pub depth: usize,
}

impl<'a> Pretty<'a, '_> {
    pub fn read(&mut self) -> PResult<()> {
        match self
            .o
            .name
            .strip_prefix("mhlo.")
            .or_else(|| self.o.name.strip_prefix("stablehlo."))
            .unwrap_or(self.o.name)
        {
            "while" => self.while_form(),
            "reduce" => self.reduce_form(),
            "constant" | "arith.constant" | "chlo.constant" => self.constant(),
            "chlo.scan" => self.scan_form(),
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
        // The type after a number or a string is the operation's.
        if matches!(self.c.peek(), Some(b'-' | b'0'..=b'9')) {
            return self.c.number();
        }
        if self.c.peek() == Some(b'"') {
            let inside = self.c.string()?;
            return Ok(Attr::Str(self.c.slice(inside)));
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
        let out = self.c.separated("]", "or `]`", |c| {
            let mut parts = vec![Attr::Int(c.int("a start")?)];
            while c.eat(":") {
                parts.push(Attr::Int(c.int("a number")?));
            }
            Ok(Attr::List(parts))
        })?;
        Ok(Attr::List(out))
    }

    /// `: T`, `: T, U`, `: (T, U) -> V`.
    fn types(&mut self) -> PResult<()> {
        if !self.c.eat(":") {
            return Ok(());
        }
        let start = self.c.pos();
        let first = self.c.type_list()?;
        self.o.result_place = self.c.span_from(start);
        if self.c.eat("->") {
            let start = self.c.pos();
            self.o.result_types = self.c.type_list()?;
            self.o.result_place = self.c.span_from(start);
            return Ok(());
        }
        let n: usize = self.o.results.iter().map(|r| r.1).sum();
        self.o.result_types = if n == first.len() { first } else { first.into_iter().rev().take(n.min(1)).collect() };
        Ok(())
    }

    /// `%x, %y {..} : types` or `%x, dense<..> : type {..}`
    fn check_form(&mut self) -> PResult<()> {
        let parentheses = self.c.eat("(");
        let first = value_use(self.c)?;
        self.o.operands.push(first);
        self.c.expect(",", "after the value")?;
        self.c.skip();
        if matches!(self.c.peek_word(), "dense" | "dense_resource") {
            let start = self.c.pos();
            let value = self.c.attr(0)?;
            self.push("value", value, start);
            if parentheses {
                self.c.expect(")", "after the expected value")?;
            }
            // Its type came with it; only attributes may follow.
            while self.c.eat(",") {
                self.c.skip();
                let start = self.c.pos();
                let key = self.c.word("an attribute")?;
                self.c.expect("=", "after the attribute's name")?;
                let value = self.value(key)?;
                self.push(key, value, start);
            }
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
        let (Attr::Dense(_, shape) | Attr::Resource(_, _, shape)) = &value else {
            return Err(self.c.at(start).unexpected("`dense<..> : type`"));
        };
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
            let start = self.c.pos();
            self.o.result_types = self.c.type_list()?;
            self.o.result_place = self.c.span_from(start);
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
            region.arg_places = vec![self.o.result_place];
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
                    let start = self.c.pos();
                    let shape = self.c.mlir_type()?;
                    list.push(((name, shape), self.c.span_from(start)));
                    location(self.c)?;
                    location(self.c)?;
                    self.c.eat(",");
                }
                self.c.expect(")", "after a pair of arguments")?;
            }
            self.c.expect("{", "to begin the reducer")?;
            let mut region = block(self.c, self.depth + 1)?;
            (region.args, region.arg_places) = first.into_iter().chain(second).unzip();
            self.o.regions.push(region);
        }
        Ok(())
    }

    /// `(%x, ..) inits(%c, ..) dimension=0 [attributes {..}] {..} : (types) -> types`
    fn scan_form(&mut self) -> PResult<()> {
        let start = self.c.pos();
        self.c.expect("(", "to begin the inputs")?;
        self.uses()?;
        let inputs = self.o.operands.len() as i64;
        self.push("inputs", Attr::Int(inputs), start);
        if !self.c.eat_word("inits") {
            return Err(self.c.unexpected("`inits(..)`"));
        }
        self.c.expect("(", "to begin the initial values")?;
        self.uses()?;
        loop {
            self.c.skip();
            let start = self.c.pos();
            self.c.eat(",");
            if self.c.peek() == Some(b'{') {
                break;
            }
            let key = self.c.word("an attribute or the body")?;
            if key == "attributes" {
                self.c.expect("{", "to begin the attributes")?;
                let entries = self.c.dict_entries("}", 0)?;
                self.o.attributes.extend(entries);
                continue;
            }
            self.c.expect("=", "after the attribute's name")?;
            let value = self.value(key)?;
            self.push(key, value, start);
        }
        self.c.expect("{", "to begin the body")?;
        self.o.regions.push(block(self.c, self.depth + 1)?);
        self.types()
    }

    /// Values up to `)`.
    fn uses(&mut self) -> PResult<()> {
        while !self.c.eat(")") {
            let u = value_use(self.c)?;
            self.o.operands.push(u);
            self.c.eat(",");
        }
        Ok(())
    }

    /// `(%x) in_shardings=[..] out_shardings=[..] manual_axes={..} (%arg: T) {..} : (T) -> T`
    fn manual_form(&mut self) -> PResult<()> {
        self.c.expect("(", "to begin the operands")?;
        self.uses()?;
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
            location(self.c)?;
            self.c.eat(",");
        }
        self.c.expect("{", "to begin the body")?;
        let mut region = block(self.c, self.depth + 1)?;
        region.args = args;
        self.o.regions.push(region);
        self.types()
    }
}
