//! Plans as text, and back: the grammar of `docs/plan.md`.
//!
//! A line is a keyword, for tables a number, and a value in RON; the main program is a block of actions. What follows `//`
//! is for people. Invariant: reading what was written gives the same plan.

use super::action::{Action, Copy, CopyKind, Operand, Spot, leaf, unsaid};
use super::planned::Plan;
use super::spec::{KernelSpec, Looks};
use super::step::{Unit, Use};
use ron::ser::PrettyConfig;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Write;
use systole_codegen::emit::blocks::Body;
use systole_codegen::emit::fetch::FetchPart;

/// A text that is no plan: the line (from 1) and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct PlanTextError {
    pub line: usize,
    pub message: String,
}

/// The version of the grammar.
const VERSION: u32 = 2;
/// Column at which comments begin, if the line is shorter.
const COMMENT: usize = 72;

/// The plan as text.
pub fn to_text(plan: &Plan) -> String {
    let mut w = Writer { plan, out: String::new() };
    w.plan();
    w.out
}

/// A value on one line.
fn ron<T: Serialize>(value: &T) -> String {
    let config = PrettyConfig::new().depth_limit(0).separator(" ").escape_strings(true);
    ron::ser::to_string_pretty(value, config).unwrap_or_else(|e| format!("// {e}"))
}

struct Writer<'a> {
    plan: &'a Plan,
    out: String,
}

impl Writer<'_> {
    fn line(&mut self, depth: usize, text: &str, comment: &str) {
        let indented = format!("{:1$}{text}", "", 2 * depth);
        if comment.is_empty() {
            let _ = writeln!(self.out, "{indented}");
        } else {
            // A line break in a name must not end the comment.
            let comment = comment.replace(['\n', '\r'], " ");
            let _ = writeln!(self.out, "{indented:COMMENT$} // {comment}");
        }
    }

    fn table<T: Serialize>(&mut self, keyword: &str, values: &[T], comment: impl Fn(&Self, usize, &T) -> String) {
        for (i, v) in values.iter().enumerate() {
            let comment = comment(self, i, v);
            self.line(0, &format!("{keyword} {i} {}", ron(v)), &comment);
        }
    }

    fn plan(&mut self) {
        let p = self.plan;
        self.line(0, &format!("plan {VERSION} {}", ron(&p.head)), "");
        self.line(0, &format!("pod {}", ron(&p.pod)), "");
        self.table("op", &p.ops, |_, _, _| String::new());
        for (op, members) in &p.members {
            let name = p.ops.get(*op as usize).map_or("", |o| o.name.as_str());
            self.line(0, &format!("members {op} {}", ron(members)), &format!("in the kernel of {name}"));
        }
        self.table("array", &p.arrays, |_, _, a| bytes(a.layout.bytes()));
        self.table("param", &p.params, |_, _, _| String::new());
        self.table("result", &p.results, |_, _, _| String::new());
        self.table("kernel", &p.kernels, |_, _, k| describe(&k.spec));
        for (first, parts) in &p.splits {
            self.line(0, &format!("parts {first} {}", ron(parts)), "what each core does");
        }
        self.table("choice", &p.choices, |_, _, _| String::new());
        self.table("stay", &p.residences, |_, _, _| String::new());
        self.line(0, "main {", "");
        self.actions(1, &p.actions);
        self.line(0, "}", "");
    }

    fn actions(&mut self, depth: usize, actions: &[Action]) {
        for a in actions {
            match a {
                Action::While { head, cond, body, shared } => {
                    let word = if *shared { "share" } else { "while" };
                    self.line(depth, &format!("{word} {} {{", cond.0), "");
                    self.actions(depth + 1, head);
                    self.line(depth, "} do {", "");
                    self.actions(depth + 1, body);
                    self.line(depth, "}", "");
                }
                Action::Switch { index, branches } => {
                    self.line(depth, &format!("switch {} {{", index.0), "");
                    for (i, b) in branches.iter().enumerate() {
                        if i > 0 {
                            self.line(depth, "} or {", "");
                        }
                        self.actions(depth + 1, b);
                    }
                    self.line(depth, "}", "");
                }
                a @ (leaf!()) => {
                    let comment = self.comment(a);
                    self.line(depth, &ron(a), &comment);
                }
            }
        }
    }

    fn array(&self, i: usize) -> String {
        self.plan.arrays.get(i).map_or_else(|| format!("?{i}"), |a| a.name.clone())
    }

    /// What an action does, for people.
    fn comment(&self, a: &Action) -> String {
        match a {
            Action::Mark(op) => self.plan.ops.get(*op as usize).map_or_else(String::new, |o| {
                let members = self.plan.members.get(op).map_or(0, Vec::len);
                let more = if members > 0 { format!(", with {members} more") } else { String::new() };
                format!("---- {} ({}, line {}){more}", o.name, o.opcode, o.line)
            }),
            Action::Copy(Copy { kind, array, pending }) => {
                let name = self.array(array.index());
                match kind {
                    CopyKind::Load { granule, .. } => {
                        let from = self.plan.head.memory(*granule);
                        format!("{name}: begins to come from {from}, {}", bytes(pending.bytes.into()))
                    }
                    CopyKind::Store { granule, .. } => {
                        let to = self.plan.head.memory(*granule);
                        format!("{name}: begins to go to {to}, {}", bytes(pending.bytes.into()))
                    }
                    CopyKind::WaitIn => format!("{name}: has come"),
                    CopyKind::WaitOut => format!("{name}: has gone"),
                }
            }
            Action::Move { from, to, bytes: n } => format!("{} to {}, {}", self.spot(from), self.spot(to), bytes(*n)),
            Action::Call { kernel, args } => {
                let k = self.plan.kernels.get(*kernel);
                let cycles = k.and_then(|k| k.cycles).map_or_else(String::new, |c| format!(", {c:.0} cycles"));
                let args: Vec<String> = args.iter().filter_map(|a| self.operand(a)).collect();
                format!("{}({}){cycles}", k.map_or("?", |k| k.name.as_str()), args.join(", "))
            }
            Action::Look(_) | Action::While { .. } | Action::Switch { .. } | unsaid!() => String::new(),
        }
    }

    fn operand(&self, a: &Operand) -> Option<String> {
        let Operand::Array { array, usage, unit, at, .. } = a else { return None };
        let how = match usage {
            Use::Read => "",
            Use::Write => "out ",
            Use::Update | Use::Tiles | Use::First => "inout ",
        };
        let near = u64::try_from(*at).unwrap_or(0);
        let place = if *unit == Unit::Granules { self.plan.head.memory(near) } else { "VMEM" }.to_lowercase();
        Some(format!("{how}{}@{place}", self.array(array.index())))
    }

    fn spot(&self, s: &Spot) -> String {
        match *s {
            Spot::Vmem(row) => format!("vmem row {row}"),
            Spot::Hbm(granule) => format!("{} granule {granule}", self.plan.head.memory(granule).to_lowercase()),
        }
    }
}

/// A number of bytes, for people.
pub(super) fn bytes(n: u64) -> String {
    match n {
        0..=9999 => format!("{n} B"),
        10_000..=9_999_999 => format!("{} KiB", n >> 10),
        _ => format!("{} MiB", n >> 20),
    }
}

/// What a kernel is, for people.
pub fn describe(spec: &KernelSpec) -> String {
    match spec {
        KernelSpec::Body(b) => describe_body(b),
        KernelSpec::Blocks { spec, cut, share, looks } => {
            let of = describe_body(&spec.body);
            let core = share.map_or_else(String::new, |s| format!(", {}..{} of them", s.first, s.end));
            format!(
                "{of} in blocks of {} of dimension {}, inside of {} loops{core}{}",
                cut.size,
                cut.dimension,
                cut.outer,
                hidden(*looks)
            )
        }
        KernelSpec::Product { contraction: c, tile, looks } => {
            let rows: u64 = c.batch.iter().chain(&c.rows).map(|d| u64::from(d.count)).product();
            let taps: u64 = c.taps.iter().map(|d| u64::from(d.count)).product();
            let hidden = hidden(*looks);
            let end =
                c.finish.as_ref().map_or_else(String::new, |f| format!(", {} operations at its end", f.nodes.len()));
            let begin =
                c.start.as_ref().map_or_else(String::new, |s| format!(", {} operations on its way in", s.nodes.len()));
            let beside = c
                .follow
                .as_ref()
                .map_or_else(String::new, |f| format!(", beside it a {}", describe_body(&Body::Loop(f.spec.clone()))));
            format!("product of {rows} x {taps}*{} x {}{begin}{end}{beside}: {tile}{hidden}", c.k, c.n)
        }
        KernelSpec::Gather { rows, .. } => {
            let near = if rows.near { " of a table in vector memory" } else { "" };
            format!("gathers {} {}{near}", rows.count, if rows.single { "elements" } else { "rows" })
        }
        KernelSpec::Scatter(s) => {
            let updates = s.specs.first().map_or(0, |t| t.count);
            let blocks = if s.block > 0 { format!(", tables in blocks of {} rows", s.block) } else { String::new() };
            let share = s.share.map_or_else(String::new, |(first, end)| format!(" ({first} to {end} of them)"));
            let copies = if s.copies > 0 { format!(", in {} copies of the table", s.copies) } else { String::new() };
            let place = if s.part { ", for a part of the table in HBM" } else { "" };
            format!("scatters {updates} updates{blocks}{share}{copies}{place}")
        }
        KernelSpec::Fetch(s) => {
            let rows: u64 = s.parts.iter().map(FetchPart::rows).sum();
            let ahead = if s.ahead.is_some() { ", turns before they are wanted" } else { "" };
            format!("brings {rows} rows of {} arrays{ahead}", s.parts.len())
        }
        KernelSpec::Sort { sort, pass } => format!("sorts 2^{} rows: {pass:?}", sort.row_bits),
        KernelSpec::Cholesky(s) => format!("factors of {} matrices of {} rows", s.batch, s.rows),
        KernelSpec::Mosaic(s) => format!("a Pallas kernel of {} arrays", s.arrays.len()),
        KernelSpec::Recurrence(s) => {
            let nodes = s.turn.expr.nodes.len();
            format!("{} turns of a loop over {}x{}, {nodes} operations", s.turns(), s.turn.rows, s.turn.columns)
        }
        KernelSpec::Solve(s) => format!("solves {} systems of {} rows", s.matrices.batch, s.matrices.rows),
    }
}

fn hidden(looks: Option<Looks>) -> &'static str {
    if looks.is_some() { "; looks after an exchange" } else { "" }
}

fn describe_body(body: &Body) -> String {
    let sizes = |outer: &[u32], rows: u32, columns: u32| {
        let all: Vec<String> = outer.iter().chain([&rows, &columns]).map(u32::to_string).collect();
        all.join("x")
    };
    match body {
        Body::Loop(s) => {
            let rows = if s.expr.reductions.is_empty() { "" } else { ", rows reduced" };
            format!("loop over {}, {} operations{rows}", sizes(&s.outer, s.rows, s.columns), s.expr.nodes.len())
        }
        Body::Reduce(s) => {
            format!("reduction over {}, {} operations", sizes(&s.outer, s.rows, s.columns), s.expr.nodes.len())
        }
        Body::Move(s) => {
            let all: Vec<String> = s.sizes.iter().map(u32::to_string).collect();
            format!("move of {}", all.join("x"))
        }
        Body::Pick(s) => format!("picks of {} rows of {} tiles from {} tiles", s.rows, s.columns, s.tiles),
    }
}

/// Whether a text is a plan rather than a program: by its first line that is no comment.
pub fn is_plan(text: &str) -> bool {
    let first = text.lines().map(str::trim).find(|l| !l.is_empty() && !l.starts_with("//"));
    first.is_some_and(|l| l.starts_with("plan "))
}

/// The plan that a text says.
///
/// # Errors
/// A text that is not in the grammar. Whether the plan goes together is for [`super::verify::verify`] to say.
pub fn parse(text: &str) -> Result<Plan, PlanTextError> {
    let lines = text.lines().enumerate().map(|(i, l)| (i + 1, l.trim()));
    let lines = lines.filter(|(_, l)| !l.is_empty() && !l.starts_with("//"));
    Reader { lines: lines.peekable(), last: 1 }.plan()
}

struct Reader<'a, L: Iterator<Item = (usize, &'a str)>> {
    lines: std::iter::Peekable<L>,
    last: usize,
}

fn error<T>(line: usize, message: impl Into<String>) -> Result<T, PlanTextError> {
    Err(PlanTextError { line, message: message.into() })
}

fn value<T: DeserializeOwned>(line: usize, text: &str) -> Result<T, PlanTextError> {
    ron::from_str(text)
        .map_err(|e| PlanTextError { line, message: format!("{} (column {})", e.code, e.span.start.col) })
}

/// A line without its comment, where it holds no value.
fn bare(line: &str) -> &str {
    line.split("//").next().unwrap_or(line).trim()
}

fn number(line: usize, text: &str) -> Result<u32, PlanTextError> {
    text.trim().parse().map_err(|_| PlanTextError { line, message: format!("`{text}` is no number") })
}

/// Appends an entry of a table, whose number is the next one.
fn entry<T: DeserializeOwned>(table: &mut Vec<T>, (line, rest): (usize, &str)) -> Result<(), PlanTextError> {
    let (at, text) = rest.split_once(' ').unwrap_or((rest, ""));
    if number(line, at)? as usize != table.len() {
        return error(line, format!("number {at} where {} comes next", table.len()));
    }
    table.push(value(line, text)?);
    Ok(())
}

/// A number and what belongs to it.
fn keyed<T: DeserializeOwned>((line, rest): (usize, &str)) -> Result<(u32, T), PlanTextError> {
    let (at, text) = rest.split_once(' ').unwrap_or((rest, ""));
    Ok((number(line, at)?, value(line, text)?))
}

impl<'a, L: Iterator<Item = (usize, &'a str)>> Reader<'a, L> {
    fn next(&mut self) -> Result<(usize, &'a str), PlanTextError> {
        let Some((line, text)) = self.lines.next() else { return error(self.last, "the plan ends too early") };
        self.last = line;
        Ok((line, text))
    }

    fn plan(&mut self) -> Result<Plan, PlanTextError> {
        let (line, first) = self.next()?;
        let Some(rest) = first.strip_prefix("plan ") else { return error(line, "a plan begins with `plan`") };
        let (version, head) = rest.split_once(' ').unwrap_or((rest, ""));
        if number(line, version)? != VERSION {
            return error(line, format!("version {version} of plans; this program reads version {VERSION}"));
        }
        let mut plan = Plan { head: value(line, head)?, ..Plan::default() };
        loop {
            let (line, text) = self.next()?;
            if bare(text) == "main {" {
                break;
            }
            let (keyword, rest) = text.split_once(' ').unwrap_or((text, ""));
            let at = (line, rest);
            match keyword {
                "pod" => plan.pod = value(line, rest)?,
                "op" => entry(&mut plan.ops, at)?,
                "members" => plan.members.extend([keyed(at)?]),
                "array" => entry(&mut plan.arrays, at)?,
                "param" => entry(&mut plan.params, at)?,
                "result" => entry(&mut plan.results, at)?,
                "kernel" => entry(&mut plan.kernels, at)?,
                "parts" => {
                    let (first, parts) = keyed(at)?;
                    plan.splits.insert(first as usize, parts);
                }
                "choice" => entry(&mut plan.choices, at)?,
                "stay" => entry(&mut plan.residences, at)?,
                other => return error(line, format!("`{other}` is no part of a plan")),
            }
        }
        plan.actions = self.actions(0)?.0;
        match self.lines.next() {
            Some((line, text)) => error(line, format!("`{text}` behind the main program")),
            None => Ok(plan),
        }
    }

    /// Actions up to the end of their block, and that end.
    fn actions(&mut self, depth: usize) -> Result<(Vec<Action>, &'a str), PlanTextError> {
        /// Loops and branches inside of each other.
        const DEEPEST: usize = 200;
        let mut out = Vec::new();
        loop {
            let (line, text) = self.next()?;
            if depth > DEEPEST {
                return error(line, "too many blocks inside of each other");
            }
            if text.starts_with('}') {
                return Ok((out, bare(text)));
            }
            let block = |keyword: &str| -> Option<&'a str> {
                let rest = bare(text).strip_prefix(keyword)?;
                rest.strip_suffix('{')
            };
            let shared = block("share ");
            if let Some(word) = shared.or_else(|| block("while ")) {
                let cond = super::step::Word(number(line, word)?);
                let (head, end) = self.actions(depth + 1)?;
                if end != "} do {" {
                    return error(self.last, "a loop's head ends with `} do {`");
                }
                let (body, _) = self.actions(depth + 1)?;
                out.push(Action::While { head, cond, body, shared: shared.is_some() });
            } else if let Some(word) = block("switch ") {
                let index = super::step::Word(number(line, word)?);
                let mut branches = Vec::new();
                loop {
                    let (branch, end) = self.actions(depth + 1)?;
                    branches.push(branch);
                    if end != "} or {" {
                        break;
                    }
                }
                out.push(Action::Switch { index, branches });
            } else {
                out.push(value(line, text)?);
            }
        }
    }
}

/// Bytes as pairs of hexadecimal digits.
pub(super) mod byte_string {
    use serde::de::{Deserializer, Error};
    use serde::{Deserialize, Serializer};
    use std::fmt::Write;

    pub fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        let mut text = String::with_capacity(2 * bytes.len());
        bytes.iter().for_each(|b| {
            let _ = write!(text, "{b:02x}");
        });
        serializer.serialize_str(&text)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(deserializer)?;
        let digit = |b: u8| char::from(b).to_digit(16).ok_or_else(|| D::Error::custom("bytes are hexadecimal digits"));
        if !text.len().is_multiple_of(2) {
            return Err(D::Error::custom("half a byte"));
        }
        text.as_bytes().chunks(2).map(|p| Ok((digit(p[0])? << 4 | digit(p[1])?) as u8)).collect()
    }
}
