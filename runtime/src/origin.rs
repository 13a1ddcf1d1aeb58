//! Where operations come from: the names that the framework gave them and the lines of the user's program, as the text of a
//! module tells: `metadata={..}` and the tables of stack frames in HLO text, `loc(..)` in StableHLO.
//!
//! Compiled programs keep the line of the module's text for every operation; everything else is read from that text here.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// Where an operation comes from. What the text does not say is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Origin {
    /// The framework's name: `jit(f)/layer_1/dot_general`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// File of the user's program.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub file: String,
    /// Line in it, from 1; 0 if unknown.
    #[serde(default)]
    pub line: u32,
    /// Function in it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub function: String,
}

impl Origin {
    fn is_empty(&self) -> bool {
        *self == Origin::default()
    }

    /// `file:line (function)`, or nothing.
    pub fn place(&self) -> String {
        match (self.file.is_empty(), self.function.is_empty()) {
            (true, _) => String::new(),
            (false, true) => format!("{}:{}", self.file, self.line),
            (false, false) => format!("{}:{} ({})", self.file, self.line, self.function),
        }
    }

    /// The scopes around the operation, outermost first: its name without the last part.
    pub fn scopes(&self) -> Vec<&str> {
        let mut parts = split(&self.name);
        parts.pop();
        parts
    }
}

/// The parts of a framework's name; a slash in parentheses divides nothing.
fn split(name: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut from) = (Vec::new(), 0i32, 0);
    for (i, c) in name.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            '/' if depth <= 0 => {
                parts.push(&name[from..i]);
                from = i + 1;
            }
            _ => {}
        }
    }
    parts.push(&name[from..]);
    parts.retain(|p| !p.is_empty());
    parts
}

/// Deepest nesting of locations that is followed.
const DEPTH: usize = 32;

/// The origins that a module's text tells.
#[derive(Debug, Default)]
pub struct Origins<'a> {
    lines: Vec<&'a str>,
    /// Tables of HLO text: names of files and functions, places (file, function, line), frames (place).
    files: HashMap<u32, &'a str>,
    functions: HashMap<u32, &'a str>,
    places: HashMap<u32, (u32, u32, u32)>,
    frames: HashMap<u32, u32>,
    /// `#loc3 = loc(..)` of StableHLO.
    aliases: HashMap<&'a str, &'a str>,
    /// Functions of StableHLO: where each begins (ascending), and the lines that call it.
    functions_at: Vec<(usize, &'a str)>,
    calls: HashMap<&'a str, Vec<usize>>,
}

impl<'a> Origins<'a> {
    /// Reads what a module's text says about all operations.
    pub fn new(source: &'a str) -> Origins<'a> {
        let mut o = Origins { lines: source.lines().collect(), ..Origins::default() };
        let mut table = "";
        for i in 0..o.lines.len() {
            let line = o.lines[i].trim();
            if let Some((name, loc)) = line.strip_prefix('#').and_then(|l| l.split_once(" = loc(")) {
                o.aliases.insert(name.trim(), loc);
            } else if let Some(name) = line.strip_prefix("func.func ").and_then(symbol) {
                o.functions_at.push((i, name));
            } else if let Some((_, name)) = line.split_once("callee = ").or_else(|| line.split_once("call @")) {
                o.calls.entry(until_symbol_ends(name.trim_start_matches('@'))).or_default().push(i);
            } else if matches!(line, "FileNames" | "FunctionNames" | "FileLocations" | "StackFrames") {
                table = line;
            } else if !table.is_empty() {
                match line.split_once(' ').and_then(|(n, rest)| Some((n.parse().ok()?, rest))) {
                    Some((number, rest)) => o.entry(table, number, rest),
                    None => table = "",
                }
            }
        }
        o
    }

    fn entry(&mut self, table: &str, number: u32, rest: &'a str) {
        let id = |key: &str| number_after(rest, key).unwrap_or(0);
        match table {
            "FileNames" => _ = self.files.insert(number, rest.trim_matches('"')),
            "FunctionNames" => _ = self.functions.insert(number, rest.trim_matches('"')),
            "FileLocations" => {
                self.places
                    .insert(number, (id("file_name_id="), id("function_name_id="), id("{line=").max(id(" line="))));
            }
            _ => _ = self.frames.insert(number, id("file_location_id=")),
        }
    }

    /// What the text says about the operation on a line (from 1), if anything. Functions that the framework keeps (`cumsum`) are
    /// lowered once, without places: where one is called from one place only, that is the place of what it does.
    pub fn of(&self, line: u32) -> Option<Origin> {
        let mut at = (line as usize).checked_sub(1)?;
        let mut found = self.said(at).unwrap_or_default();
        for _ in 0..DEPTH {
            let Some(call) = self.only_call(at).filter(|_| found.file.is_empty()) else { break };
            if let Some(caller) = self.said(call) {
                found.name = match (found.name.contains('/'), caller.name.is_empty()) {
                    (false, false) => format!("{}/{}", caller.name, found.name),
                    _ => found.name,
                };
                (found.file, found.line, found.function) = (caller.file, caller.line, caller.function);
            }
            at = call;
        }
        Some(found).filter(|o| !o.is_empty())
    }

    /// The one line that calls the function which a line is in.
    fn only_call(&self, at: usize) -> Option<usize> {
        let around = self.functions_at.partition_point(|f| f.0 <= at).checked_sub(1)?;
        let &[call] = &self.calls.get(self.functions_at[around].1)?[..] else { return None };
        (call != at).then_some(call)
    }

    /// What a line (from 0) says about its operation itself.
    fn said(&self, at: usize) -> Option<Origin> {
        let text = self.lines.get(at)?;
        let found = match text.split_once("metadata={") {
            Some((_, metadata)) => self.metadata(metadata),
            None => {
                let last = self.end_of(at);
                let loc = self.lines[last].rsplit_once(" loc(")?.1;
                let mut found = Origin::default();
                self.location(loc, &mut found, 0);
                found
            }
        };
        Some(found).filter(|o| !o.is_empty())
    }

    fn metadata(&self, text: &str) -> Origin {
        let mut o = Origin {
            name: quoted_after(text, "op_name=").unwrap_or_default(),
            file: quoted_after(text, "source_file=").unwrap_or_default(),
            line: number_after(text, "source_line=").unwrap_or(0),
            function: String::new(),
        };
        let frame = number_after(text, "stack_frame_id=").and_then(|f| self.frames.get(&f));
        if let Some(&(file, function, line)) = frame.and_then(|p| self.places.get(p)) {
            let name = |of: &HashMap<u32, &str>, id: u32| of.get(&id).map_or(String::new(), |s| (*s).to_string());
            (o.file, o.function, o.line) = (name(&self.files, file), name(&self.functions, function), line);
        }
        o
    }

    /// The last line of the operation that begins on a line: where its braces are closed.
    fn end_of(&self, from: usize) -> usize {
        let mut depth = 0i64;
        for (i, line) in self.lines.iter().enumerate().skip(from) {
            let mut quoted = false;
            for c in line.chars() {
                match c {
                    '"' => quoted = !quoted,
                    '{' if !quoted => depth += 1,
                    '}' if !quoted => depth -= 1,
                    _ => {}
                }
            }
            if depth <= 0 {
                return i;
            }
        }
        from
    }

    /// Reads what stands behind `loc(`: the outermost name is the operation's, the innermost place its own.
    fn location(&self, text: &str, out: &mut Origin, depth: usize) {
        let text = text.trim_start();
        if depth > DEPTH {
            return;
        }
        if let Some(alias) = text.strip_prefix('#') {
            let end = alias.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(alias.len());
            if let Some(loc) = self.aliases.get(&alias[..end]) {
                self.location(loc, out, depth + 1);
            }
        } else if let Some(callee) = text.strip_prefix("callsite(") {
            self.location(callee, out, depth + 1);
        } else if let Some(first) = text.strip_prefix("fused").and_then(|t| t.split_once('[')) {
            self.location(first.1, out, depth + 1);
        } else if let Some(rest) = text.strip_prefix('"')
            && let Some((name, rest)) = rest.split_once('"')
        {
            if let Some(place) = rest.strip_prefix(':') {
                if out.file.is_empty() {
                    (out.file, out.line) = (name.to_string(), digits(place).unwrap_or(0));
                }
                return;
            }
            match out.name.is_empty() {
                true => out.name = name.to_string(),
                false => out.function = name.to_string(),
            }
            if let Some(inner) = rest.strip_prefix('(') {
                self.location(inner, out, depth + 1);
            }
        }
    }
}

/// The name behind the first `@` of a text.
fn symbol(text: &str) -> Option<&str> {
    text.split_once('@').map(|(_, name)| until_symbol_ends(name))
}

fn until_symbol_ends(text: &str) -> &str {
    &text[..text.find(|c: char| !(c.is_alphanumeric() || "_.$-".contains(c))).unwrap_or(text.len())]
}

fn digits(text: &str) -> Option<u32> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}

fn number_after(text: &str, key: &str) -> Option<u32> {
    digits(&text[text.find(key)? + key.len()..])
}

fn quoted_after(text: &str, key: &str) -> Option<String> {
    let rest = text[text.find(key)? + key.len()..].strip_prefix('"')?;
    let (mut out, mut escaped) = (String::new(), false);
    for c in rest.chars() {
        match c {
            '\\' if !escaped => escaped = true,
            '"' if !escaped => return Some(out),
            c => {
                out.push(c);
                escaped = false;
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(name: &str, file: &str, line: u32, function: &str) -> Option<Origin> {
        Some(Origin { name: name.into(), file: file.into(), line, function: function.into() })
    }

    #[test]
    fn hlo_text_says_it_in_metadata_or_in_tables() {
        let text = "HloModule m\n\nFileNames\n1 \"/a/x.py\"\n2 \"y.py\"\n\nFunctionNames\n1 \"f\"\n\nFileLocations\n\
                    1 {file_name_id=2 function_name_id=1 line=33 end_line=33 column=9}\n\nStackFrames\n\
                    4 {file_location_id=1 parent_frame_id=3}\n\nENTRY e {\n\
                    a = f32[] parameter(0), metadata={op_name=\"jit(f)/add\" stack_frame_id=4}\n\
                    b = f32[] negate(a), metadata={op_type=\"neg\" op_name=\"jit(f)/x/neg\" source_file=\"/a/x.py\" source_line=7}\n\
                    ROOT c = f32[] add(a, b)\n}\n";
        let o = Origins::new(text);
        let line = |word: &str| text.lines().position(|l| l.contains(word)).map_or(0, |i| i as u32 + 1);
        assert_eq!(o.of(line("parameter(0)")), origin("jit(f)/add", "y.py", 33, "f"));
        assert_eq!(o.of(line("negate")), origin("jit(f)/x/neg", "/a/x.py", 7, ""));
        assert_eq!(o.of(line("ROOT")), None);
        assert_eq!((o.of(0), o.of(999)), (None, None));
    }

    #[test]
    fn stablehlo_says_it_in_locations() {
        let text = "#loc1 = loc(\"/a/x.py\":5:4 to :5:20)\n#loc2 = loc(\"f\"(#loc1))\n#loc3 = loc(callsite(#loc2 at #loc1))\n\
                    #loc4 = loc(\"jit(f)/dot_general\"(#loc3))\nmodule {\n\
                    %0 = stablehlo.dot_general %a, %b : tensor<2xf32> loc(#loc4)\n\
                    %1 = \"stablehlo.reduce\"(%0) ({\n  stablehlo.return %x : tensor<f32> loc(#loc1)\n\
                    }) : tensor<f32> loc(\"jit(f)/sum\"(#loc1))\n\
                    %2 = stablehlo.abs %1 : tensor<f32> loc(unknown)\n\
                    %3 = stablehlo.abs %1 : tensor<f32> loc(fused<\"x\">[#loc4, #loc1])\n}\n#loc9 = loc(#loc9)\n";
        let o = Origins::new(text);
        assert_eq!(o.of(6), origin("jit(f)/dot_general", "/a/x.py", 5, "f"));
        assert_eq!(o.of(7), origin("jit(f)/sum", "/a/x.py", 5, ""));
        assert_eq!(o.of(10), None);
        assert_eq!(o.of(11), origin("jit(f)/dot_general", "/a/x.py", 5, "f"));
    }

    #[test]
    fn what_is_in_functions_without_places_is_where_they_are_called() {
        let text = "module {\nfunc.func public @main(%a: tensor<2xf32>) -> tensor<2xf32> {\n\
                    %0 = call @cumsum(%a) : (tensor<2xf32>) -> tensor<2xf32> loc(#loc2)\n\
                    %1 = \"func.call\"(%0) {callee = @twice} : (tensor<2xf32>) -> tensor<2xf32> loc(#loc2)\n\
                    %2 = \"func.call\"(%1) {callee = @twice} : (tensor<2xf32>) -> tensor<2xf32> loc(#loc2)\n}\n\
                    func.func private @cumsum(%a: tensor<2xf32>) -> tensor<2xf32> {\n\
                    %0 = \"func.call\"(%a) <{callee = @cumsum_0}> : (tensor<2xf32>) -> tensor<2xf32> loc(#loc)\n}\n\
                    func.func private @cumsum_0(%a: tensor<2xf32>) -> tensor<2xf32> {\n\
                    %0 = stablehlo.abs %a : tensor<2xf32> loc(#loc3)\n}\n\
                    func.func private @twice(%a: tensor<2xf32>) -> tensor<2xf32> {\n\
                    %0 = stablehlo.abs %a : tensor<2xf32> loc(#loc3)\n}\n}\n\
                    #loc = loc(unknown)\n#loc1 = loc(\"a.py\":4:11)\n#loc2 = loc(\"jit(g)/jit(cumsum)\"(#loc1))\n\
                    #loc3 = loc(\"reduce_window_sum\")\n";
        let o = Origins::new(text);
        assert_eq!(o.of(11), origin("jit(g)/jit(cumsum)/reduce_window_sum", "a.py", 4, ""));
        // One of two calls: nobody knows which.
        assert_eq!(o.of(14), origin("reduce_window_sum", "", 0, ""));
    }

    #[test]
    fn scopes_are_the_parts_of_a_name_but_the_last() {
        let o = |name: &str| Origin { name: name.into(), ..Origin::default() };
        assert_eq!(o("jit(f)/layer/dot_general").scopes(), ["jit(f)", "layer"]);
        assert_eq!(o("jit(f)/transpose(jvp(a/b))/mul").scopes(), ["jit(f)", "transpose(jvp(a/b))"]);
        assert!(o("add").scopes().is_empty() && o("").scopes().is_empty());
    }
}
