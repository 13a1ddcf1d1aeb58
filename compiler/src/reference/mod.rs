//! The page of operations: for each operation and element type, the core operations that serve it and what they cost.
//!
//! Nothing on it is written down twice: every operation's sample ([`samples`]) is lowered for a chip with each element type,
//! and the page says what came out.

mod samples;

use crate::plan::fuse::elementwise;
use samples::{BODIES, Sample, samples};
use std::collections::BTreeMap;
use std::fmt::Write;
use systole_codegen::emit::Value;
use systole_codegen::emit::loops::eval::emit_node;
use systole_codegen::emit::loops::spec::ExprNode;
use systole_codegen::emit::memory::{Place, store_value};
use systole_codegen::kernel::{Item, KernelBuilder, M, S};
use systole_front::hlo_text::parse_hlo;
use systole_hlo::graph::verify::verify;
use systole_hlo::graph::{Family, Module, Node, Op, Shape};
use systole_isa::{ChipConfig, DType};
use systole_passes::pipeline::{PassOptions, lower_to_core};

/// Element types in the order of the page.
const TYPES: &[DType] = &[
    DType::Pred,
    DType::S4,
    DType::S8,
    DType::S16,
    DType::S32,
    DType::S64,
    DType::U4,
    DType::U8,
    DType::U16,
    DType::U32,
    DType::U64,
    DType::F4E2M1FN,
    DType::F8E4M3FN,
    DType::F8E5M2,
    DType::BF16,
    DType::F16,
    DType::F32,
    DType::F64,
    DType::C64,
    DType::C128,
];

/// Instructions on a register of elements up to which an operation is hidden behind its data's way through HBM.
const LIGHT: usize = 24;

/// The text of a sample for an element type; `None` where its other types do not exist.
#[allow(clippy::wildcard_enum_match_arm, reason = "two types have complex numbers")]
fn text(s: &Sample, t: DType) -> Option<String> {
    let body = &s.text;
    let unsigned = match t.bits() {
        4 => "u4",
        8 => "u8",
        16 => "u16",
        32 => "u32",
        _ => "u64",
    };
    let complex = match t {
        DType::F32 => "c64",
        DType::F64 => "c128",
        _ => "",
    };
    if body.contains("C[") && complex.is_empty() || body.contains("U[") && (t == DType::Pred || t.is_complex()) {
        return None;
    }
    let mut out = "HloModule sample\n".to_string();
    for (name, text) in BODIES.iter().filter(|b| body.contains(b.0)) {
        let _ = writeln!(out, "{}", text.replacen(name, &name[1..], 1));
    }
    let _ = writeln!(out, "ENTRY main {{ {body} }}");
    let out = out.replace('@', "").replace("U[", &format!("{unsigned}[")).replace("C[", &format!("{complex}["));
    let out = out.replace("P[", &format!("{}[", t.real().name())).replace("T[", &format!("{}[", t.name()));
    Some(out)
}

/// What a core operation is served by; `None` for what costs nothing.
#[allow(clippy::wildcard_enum_match_arm, reason = "words for a page: what is not listed has the words of its family")]
fn served_by(op: &Op) -> Option<&'static str> {
    match op.family() {
        Family::Pointwise => Some("fused loop"),
        Family::Move => Some("move"),
        Family::Indexed => Some(match op {
            Op::Gather(g) if g.map.window.is_empty() => "lane permutations",
            Op::Gather(_) => "rows by DMA",
            _ => "rows one by one",
        }),
        Family::Contraction => Some("matrix unit"),
        Family::Reduce => Some(if matches!(op, Op::Reduce { .. }) { "reduction" } else { "windows" }),
        Family::Sort => Some("sorting network"),
        Family::Factor => Some("blocks of columns"),
        Family::Control => Some(if matches!(op, Op::While { .. }) { "loop" } else { "branch" }),
        Family::Host => Some("host"),
        Family::Value | Family::Exchange | Family::Transfer | Family::Device | Family::Expanded => None,
    }
}

/// Instructions that an elementwise node takes for a register of elements.
#[allow(clippy::wildcard_enum_match_arm, reason = "one type of elements lives in masks")]
fn instructions(n: &Node, c: &systole_hlo::graph::Computation, chip: &ChipConfig) -> usize {
    let Shape::Array(to) = &n.shape else { return 0 };
    let Some(op) = elementwise(&n.op) else { return 0 };
    let mut b = KernelBuilder::new("sample", chip);
    let mut args = Vec::new();
    for o in &n.operands {
        let Some(t) = c.node(*o).shape.as_array().map(|a| a.dtype) else { return 0 };
        args.push(match t {
            DType::Pred => Value::mask(b.new_m()),
            t => {
                let words: Vec<_> = (0..t.components()).map(|_| b.new_v()).collect();
                Value::words(t, &words)
            }
        });
    }
    let result = emit_node(&mut b, &ExprNode { op, args: Default::default(), dtype: to.dtype }, &args);
    // What is stored is not dropped as useless; the stores do not count.
    let at = Place { base: S::ZERO, offset: 0, stride: 1, buf: b.buffer(), component_rows: 8 };
    store_value(&mut b, &result, at, M::ALL);
    let all = b.finish().body.iter().filter(|i| matches!(i, Item::Inst(_))).count();
    all.saturating_sub(to.dtype.components())
}

/// What serves a module, and its cost class.
#[allow(clippy::wildcard_enum_match_arm, reason = "the question is for control alone")]
fn summary(name: &str, m: &Module, chip: &ChipConfig) -> (String, String) {
    let mut by: Vec<&'static str> = Vec::new();
    let mut most = 0;
    let entry = m.entry();
    let calls: Vec<_> = entry
        .nodes
        .iter()
        .flat_map(|n| match &n.op {
            Op::While { .. } | Op::Conditional { .. } => n.op.called(),
            _ => Vec::new(),
        })
        .collect();
    for c in calls.iter().map(|c| m.computation(*c)).chain([entry]) {
        for n in &c.nodes {
            most += instructions(n, c, chip);
            if let Some(s) = served_by(&n.op).filter(|s| !by.contains(s)) {
                by.push(s);
            }
        }
    }
    by.sort_by_key(|s| ORDER.iter().position(|o| o == s));
    // Moves and loops go along with everything.
    let shown: Vec<&str> = match by.iter().any(|s| !matches!(*s, "fused loop" | "move")) {
        true => by.iter().copied().filter(|s| !matches!(*s, "fused loop" | "move")).collect(),
        false => by.clone(),
    };
    let cost = match () {
        _ if by.contains(&"loop") => "trips".to_string(),
        _ if by.contains(&"sorting network") => "n log² n".to_string(),
        _ if by.contains(&"matrix unit") => "products".to_string(),
        _ if matches!(name, "dot" | "convolution" | "fft") => "products, vector".to_string(),
        _ if by.contains(&"rows one by one") || by.contains(&"rows by DMA") => "per index".to_string(),
        _ if by.contains(&"lane permutations") => "indices × table".to_string(),
        _ if by.contains(&"windows") => "window".to_string(),
        _ if most > LIGHT => format!("vector, {most}"),
        _ => "data once".to_string(),
    };
    (if shown.is_empty() { "nothing to do".to_string() } else { shown.join(", ") }, cost)
}

/// Lowerings in the order in which the page names them.
const ORDER: &[&str] = &[
    "matrix unit",
    "sorting network",
    "rows by DMA",
    "rows one by one",
    "lane permutations",
    "windows",
    "reduction",
    "loop",
    "branch",
    "fused loop",
    "move",
    "host",
];

/// The page `docs/generated/operations.md` for a chip.
pub fn operations_page(chip: &ChipConfig) -> String {
    let mut out = format!(
        "# Operations\n\n\
         What serves each operation for each element type on `{}`, and its cost class. Every row is what the compiler \
         makes of a sample program; element types that XLA does not allow are left out.\n\n\
         Cost classes: *data once*: the time of the data's way through HBM; *vector, n*: n instructions of the vector \
         units for each register of elements, which may be more than that; *window*: a step for each place of the window \
         (prefixes: a few passes); *products*: multiply-adds of the matrix units, or of the vector units; *per index*: some twenty cycles for each \
         row; *indices × table*: a permutation for each register of indices and of a table's row; *n log² n*: the steps \
         of a bitonic network; *trips*: what the body costs, times the trips.\n",
        chip.name
    );
    let mut section = "";
    for s in &samples() {
        if s.section != section {
            section = s.section;
            let _ = write!(
                out,
                "\n## {section}\n\n| operation | element types | served by | cost |\n| --- | --- | --- | --- |\n"
            );
        }
        let mut rows: BTreeMap<usize, ((String, String), Vec<&str>)> = BTreeMap::new();
        for (i, &t) in TYPES.iter().enumerate() {
            let Some(found) = lowered(s, t, chip) else { continue };
            match rows.values_mut().find(|r| r.0 == found) {
                Some(r) => r.1.push(t.name()),
                None => {
                    rows.insert(i, (found, vec![t.name()]));
                }
            }
        }
        for ((by, cost), types) in rows.values() {
            let _ = writeln!(out, "| `{}` | {} | {by} | {cost} |", s.name, types.join(" "));
        }
    }
    out
}

/// What serves a sample; `None` where the type is not allowed.
fn lowered(s: &Sample, t: DType, chip: &ChipConfig) -> Option<(String, String)> {
    let (module, _) = parse_hlo(&text(s, t)?).ok()?;
    verify(&module).ok()?;
    let mut options = PassOptions { verify: false, ..PassOptions::for_chip(chip) };
    options.asked.fold = false;
    let core = lower_to_core(module, &options, &mut |_, _| {}).ok()?;
    Some(summary(s.name, &core, chip))
}
