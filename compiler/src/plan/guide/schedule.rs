//! Decisions pinned by operation, as a text.

use super::super::collective::Algorithm;
use super::super::spec::Way;
use ron::extensions::Extensions;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::fmt;
use systole_codegen::emit::blocks::BlockCut;
use systole_codegen::emit::mxu::Tile;
use systole_hlo::error::CompileError;

/// What a tile or a cut is described by, as a pin names it.
trait Number: Copy {
    /// Whether a pin with this one goes with `n`.
    fn allows(self, n: Self) -> bool;

    fn words(self) -> String;
}

impl Number for u32 {
    fn allows(self, n: u32) -> bool {
        self == n
    }

    fn words(self) -> String {
        self.to_string()
    }
}

/// Windows of lhs, rhs and out. An operand that lies in vector memory has none: 0, of a pin or of a tile, goes with any number.
impl Number for [u32; 3] {
    fn allows(self, n: [u32; 3]) -> bool {
        self.iter().zip(n).all(|(&p, n)| p == 0 || n == 0 || p == n)
    }

    fn words(self) -> String {
        let [l, r, o] = self;
        format!("({l}, {r}, {o})")
    }
}

/// Pins that may name each number of a tile or cut, and allow those with the numbers that they name.
macro_rules! pins {
    ($($(#[$about:meta])* $pin:ident of $way:ident { $($field:ident: $number:ty,)+ })+) => { $(
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct $pin {
            $(pub $field: Option<$number>,)+
        }

        impl $pin {
            pub fn allows(&self, way: &$way) -> bool {
                let $way { $($field),+ } = *way;
                $(self.$field.is_none_or(|p| p.allows($field)))&&+
            }

            /// The pin that allows one alone.
            fn words(way: $way) -> String {
                let $way { $($field),+ } = way;
                let numbers = [$(format!(concat!(stringify!($field), ": {}"), $field.words())),+];
                format!("({})", numbers.join(", "))
            }
        }
    )+ };
}

pins! {
    /// The tiles that a pin allows.
    TilePin of Tile {
        variant: u32,
        units: u32,
        outer: u32,
        rows: u32,
        splits: u32,
        groups: u32,
        windows: [u32; 3],
        close: u32,
        open: u32,
    }
    /// The cuts into blocks that a pin allows.
    CutPin of BlockCut {
        outer: u32,
        dimension: u32,
        size: u32,
    }
}

/// The ways that a pin allows of a scatter whose table is larger than vector memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TablePin {
    /// Rows of a block of the table; 0: it is updated in place, in HBM.
    pub block: Option<u32>,
}

impl TablePin {
    pub fn allows(&self, block: u32) -> bool {
        self.block.is_none_or(|p| p == block)
    }
}

/// The pin that allows a way and no other: its keyword, and what stands behind the operation's name.
pub fn words(way: Way) -> (&'static str, String) {
    match way {
        Way::Tile(tile) => ("tile", TilePin::words(tile)),
        Way::Cut(cut) => ("cut", CutPin::words(cut)),
        Way::Table { block } => ("table", format!("(block: {block})")),
    }
}

/// A decision.
#[derive(Clone, Debug, PartialEq)]
enum Pinned {
    Tile(TilePin),
    Cut(CutPin),
    Table(TablePin),
    /// The operation's array is reached in vector memory, or in HBM.
    Keep,
    Stream,
    /// The operation has a kernel and an array of its own.
    Alone,
    Exchange(Algorithm),
    /// The operation comes before another one.
    Before(String),
}

/// A decision of a schedule.
#[derive(Clone, Debug)]
struct Pin {
    line: usize,
    pattern: String,
    what: Pinned,
}

/// The pins of a schedule file.
#[derive(Clone, Debug, Default)]
pub struct Schedule {
    /// What errors call the text.
    file: Option<String>,
    pins: Vec<Pin>,
}

/// Whether a name matches a pattern of a schedule, in which `*` stands for any text.
pub fn is_named(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut left) = name.strip_prefix(first) else { return false };
    let mut parts = rest.split('*').peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return left.ends_with(part);
        }
        match left.find(part) {
            Some(at) => left = &left[at + part.len()..],
            None => return false,
        }
    }
    true
}

/// What the file of a schedule that comes from no file is called.
pub(super) const FILE: &str = "schedule";

/// A pin that cannot hold, or cannot be read.
pub fn impossible(line: usize, why: impl fmt::Display) -> CompileError {
    CompileError::Schedule { file: FILE.to_string(), line, message: why.to_string(), others: Vec::new() }
}

/// Decisions that a pin could name instead, for its error: a line each.
pub fn listed(what: &str, ways: impl Iterator<Item = String>) -> String {
    let lines: Vec<String> = ways.map(|w| format!("\n  {w}")).collect();
    if lines.is_empty() { "there are none".to_string() } else { format!("{what}{}", lines.concat()) }
}

impl Schedule {
    /// The schedule that a text says: a pin a line (see `docs/plan.md`).
    ///
    /// # Errors
    /// [`CompileError::Schedule`] with the line.
    pub fn parse(text: &str) -> Result<Schedule, CompileError> {
        let mut pins = Vec::new();
        for (i, l) in text.lines().enumerate() {
            let (line, l) = (i + 1, l.split("//").next().unwrap_or("").trim());
            if l.is_empty() {
                continue;
            }
            let mut words = l.splitn(3, char::is_whitespace);
            let (keyword, name) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
            let rest = words.next().unwrap_or("").trim();
            if name.is_empty() {
                return Err(impossible(line, format!("`{keyword}` of which operation?")));
            }
            let ron = ron::Options::default().with_default_extension(Extensions::IMPLICIT_SOME);
            let what = match (keyword, rest) {
                ("tile", _) => Pinned::Tile(ron.from_str(rest).map_err(|e| impossible(line, e.code))?),
                ("cut", _) => Pinned::Cut(ron.from_str(rest).map_err(|e| impossible(line, e.code))?),
                ("table", _) => Pinned::Table(ron.from_str(rest).map_err(|e| impossible(line, e.code))?),
                ("keep", "") => Pinned::Keep,
                ("stream", "") => Pinned::Stream,
                ("alone", "") => Pinned::Alone,
                ("exchange", "axes") => Pinned::Exchange(Algorithm::Axes),
                ("exchange", _) => {
                    let known = Algorithm::from_name(rest);
                    Pinned::Exchange(known.ok_or_else(|| impossible(line, "`ring`, `direct` or `axes` is expected"))?)
                }
                ("before", other) if !other.is_empty() => Pinned::Before(other.to_string()),
                ("keep" | "stream" | "alone", _) => return Err(impossible(line, format!("`{rest}` behind the name"))),
                _ => return Err(impossible(line, format!("`{keyword}` pins nothing"))),
            };
            pins.push(Pin { line, pattern: name.to_string(), what });
        }
        Ok(Schedule { file: None, pins })
    }

    /// [`Schedule::parse`] of a file, which errors name.
    ///
    /// # Errors
    /// As there.
    pub fn of_file(file: &str, text: &str) -> Result<Schedule, CompileError> {
        let named = Schedule { file: Some(file.to_string()), pins: Vec::new() };
        let pins = Schedule::parse(text).map_err(|e| named.named(e))?.pins;
        Ok(Schedule { pins, ..named })
    }

    /// An error of planning, with the name of the schedule's file where it is a pin's.
    pub fn named(&self, e: CompileError) -> CompileError {
        match (e, &self.file) {
            (CompileError::Schedule { line, message, others, .. }, Some(file)) => {
                CompileError::Schedule { file: file.clone(), line, message, others }
            }
            (CompileError::At { span, error }, Some(_)) => {
                CompileError::At { span, error: Box::new(self.named(*error)) }
            }
            (e, _) => e,
        }
    }

    /// The pins that nothing obeys, of those whose lines are not among `known`: lines, and why.
    pub fn idle(&self, known: &BTreeSet<usize>) -> Vec<(usize, String)> {
        let why = |p: &Pin| {
            let Pin { pattern, what, .. } = p;
            match what {
                Pinned::Tile(_) => format!("no operation `{pattern}` is a product by tiles"),
                Pinned::Cut(_) => format!("no operation `{pattern}` is done in blocks"),
                Pinned::Table(_) => {
                    format!("no operation `{pattern}` is a scatter into a table that can be made in several ways")
                }
                Pinned::Keep | Pinned::Stream => format!("no kernel reaches an array `{pattern}`"),
                Pinned::Alone => format!("no operation `{pattern}` has steps of its own"),
                Pinned::Exchange(_) => {
                    format!("no operation `{pattern}` is an exchange that can be done in several ways")
                }
                Pinned::Before(other) => {
                    format!("no operations `{pattern}` and `{other}` stand in one computation")
                }
            }
        };
        self.pins.iter().filter(|p| !known.contains(&p.line)).map(|p| (p.line, why(p))).collect()
    }

    /// What the last pin of an operation says that `pick` takes, and its line.
    fn find<'a, T>(&'a self, name: &str, pick: impl Fn(&'a Pinned) -> Option<T>) -> Option<(T, usize)> {
        let found = |p: &'a Pin| pick(&p.what).filter(|_| is_named(&p.pattern, name)).map(|t| (t, p.line));
        self.pins.iter().rev().find_map(found)
    }

    /// The line by which an operation has a kernel of its own.
    pub fn alone(&self, name: &str) -> Option<usize> {
        self.find(name, |p| (*p == Pinned::Alone).then_some(())).map(|((), line)| line)
    }

    /// Whether an array is streamed (true) or kept in vector memory, if that is pinned, and the pin's line.
    pub fn streams(&self, name: &str) -> Option<(bool, usize)> {
        self.find(name, |p| match p {
            Pinned::Stream => Some(true),
            Pinned::Keep => Some(false),
            Pinned::Tile(_) | Pinned::Cut(_) | Pinned::Table(_) => None,
            Pinned::Alone | Pinned::Exchange(_) | Pinned::Before(_) => None,
        })
    }

    /// The algorithm of a collective, and the pin's line.
    pub fn exchange(&self, name: &str) -> Option<(Algorithm, usize)> {
        self.find(name, |p| if let Pinned::Exchange(a) = p { Some(*a) } else { None })
    }

    /// Which tiles an operation may have, and the pin's line.
    pub fn tile(&self, name: &str) -> Option<(TilePin, usize)> {
        self.find(name, |p| if let Pinned::Tile(t) = p { Some(*t) } else { None })
    }

    /// Which cuts an operation's kernel may have, and the pin's line.
    pub fn cut(&self, name: &str) -> Option<(CutPin, usize)> {
        self.find(name, |p| if let Pinned::Cut(c) = p { Some(*c) } else { None })
    }

    /// How an operation's table may be made, and the pin's line.
    pub fn table(&self, name: &str) -> Option<(TablePin, usize)> {
        self.find(name, |p| if let Pinned::Table(t) = p { Some(*t) } else { None })
    }

    /// Pairs of patterns of which the first's operations come before the second's, with lines.
    pub fn orders(&self) -> impl Iterator<Item = (&str, &str, usize)> {
        self.pins.iter().filter_map(|p| match &p.what {
            Pinned::Before(other) => Some((p.pattern.as_str(), other.as_str(), p.line)),
            Pinned::Tile(_) | Pinned::Cut(_) | Pinned::Table(_) => None,
            Pinned::Keep | Pinned::Stream | Pinned::Alone | Pinned::Exchange(_) => None,
        })
    }
}
