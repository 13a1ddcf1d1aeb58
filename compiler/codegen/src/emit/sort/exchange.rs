//! Elements in registers, their order, and the exchange of two.

use super::{Arrays, SortSpec};
use crate::emit::Value;
use crate::emit::elementwise;
use crate::emit::loops::eval::{emit_body, simple_compare};
use crate::emit::loops::spec::ExprOp;
use crate::emit::memory::from_memory;
use crate::kernel::{KernelBuilder, M, MemFormat, S, StoreFormat, V};
use smallvec::SmallVec;
use systole_hlo::graph::{Direction, Order};
use systole_isa::dtype::DTypeClass;
use systole_isa::{DType, Op};

/// One register's worth of elements: every word of every operand as memory holds it, then the places.
pub type Element = SmallVec<[V; 8]>;

/// A word of an element in memory.
#[derive(Clone, Copy, Debug)]
pub struct Word {
    /// Operand, and element rows from its base.
    pub operand: usize,
    pub offset: i32,
    pub load: MemFormat,
    pub store: StoreFormat,
}

impl Word {
    /// A word of the network's array.
    pub fn inner(offset: i32) -> Word {
        Word { operand: 0, offset, load: MemFormat::W32, store: StoreFormat::W32 }
    }
}

/// All words of an element, in arrays of the operands' own.
pub fn words(spec: &SortSpec) -> Vec<Word> {
    let mut out = Vec::new();
    for (operand, &t) in spec.dtypes.iter().chain(spec.places.iter().map(|_| &DType::S32)).enumerate() {
        let (load, store) = match (t.storage_bits(), t) {
            (8, DType::S8 | DType::S4 | DType::S2) => (MemFormat::S8, StoreFormat::B8),
            (8, _) => (MemFormat::U8, StoreFormat::B8),
            (16, DType::S16) => (MemFormat::S16, StoreFormat::B16),
            (16, _) => (MemFormat::U16, StoreFormat::B16),
            _ => (MemFormat::W32, StoreFormat::W32),
        };
        for c in 0..t.components() as u32 {
            out.push(Word { operand, offset: (c * spec.component_rows) as i32, load, store });
        }
    }
    out
}

/// Element rows of every operand: where a register's worth of elements lies.
pub type Rows = SmallVec<[S; 4]>;

/// The operands' rows at `row` from their bases.
pub fn rows_at(b: &mut KernelBuilder, a: &Arrays, row: S) -> Rows {
    a.bases.iter().map(|&(base, _)| b.s(Op::SAdd, &[base, row])).collect()
}

/// Loads the elements at `rows` plus `offset`, `stride` apart.
pub fn load(b: &mut KernelBuilder, a: &Arrays, rows: &Rows, offset: i32, stride: i32) -> Element {
    let word = |w: &Word| b.load(w.load, rows[w.operand], w.offset + offset, stride, a.bases[w.operand].1);
    a.words.iter().map(word).collect()
}

/// Stores elements where [`load`] would find them.
pub fn store(b: &mut KernelBuilder, a: &Arrays, e: &Element, rows: &Rows, offset: i32, stride: i32) {
    for (w, &v) in a.words.iter().zip(e) {
        b.store(w.store, v, rows[w.operand], w.offset + offset, stride, M::ALL, a.bases[w.operand].1);
    }
}

/// The operands' values.
#[allow(clippy::wildcard_enum_match_arm, reason = "all other types lie as memory has them")]
fn values(b: &mut KernelBuilder, spec: &SortSpec, e: &Element) -> Vec<Value> {
    let mut at = 0;
    spec.dtypes
        .iter()
        .map(|&t| {
            let n = t.components();
            let words = &e[at..at + n];
            at += n;
            match t {
                DType::BF16 => Value::word(t, b.shl(words[0], 16)),
                _ => from_memory(b, t, words),
            }
        })
        .collect()
}

fn compared(b: &mut KernelBuilder, spec: &SortSpec, x: &[Value], y: &[Value]) -> M {
    let pairs: Vec<Value> = x.iter().zip(y).flat_map(|(x, y)| [*x, *y]).collect();
    emit_body(b, &spec.body, &pairs, &[])[0].m()
}

/// Whether `y` does not come after `x`, where that is one comparison: of integers of at most 32 bits.
#[allow(
    clippy::wildcard_enum_match_arm,
    reason = "other directions are no order; the question is for parameters alone"
)]
fn integers(b: &mut KernelBuilder, spec: &SortSpec, y: &[Value], x: &[Value]) -> Option<M> {
    simple_compare(&spec.body)?;
    let node = &spec.body.nodes[spec.body.roots[0] as usize];
    let ExprOp::Compare(direction, _) = node.op else { return None };
    let param = |i: usize| match spec.body.nodes[node.args[i] as usize].op {
        ExprOp::Param(p) => Some(p as usize),
        _ => None,
    };
    let (left, right) = (param(0)?, param(1)?);
    let dtype = spec.dtypes[left / 2];
    let integer = matches!(dtype.class(), DTypeClass::Signed | DTypeClass::Unsigned) && dtype.components() == 1;
    let wide = match direction {
        Direction::Lt => Direction::Le,
        Direction::Gt => Direction::Ge,
        _ => return None,
    };
    if !integer {
        return None;
    }
    let of = |p: usize| if p.is_multiple_of(2) { y[p / 2] } else { x[p / 2] };
    Some(elementwise::compare(b, wide, Order::Partial, &of(left), &of(right)).m())
}

/// Whether `y` comes before `x`. Never both this and the reverse, whatever the comparator says, where there are places.
pub fn before(b: &mut KernelBuilder, spec: &SortSpec, y: &Element, x: &Element) -> M {
    let (vy, vx) = (values(b, spec, y), values(b, spec, x));
    let less = compared(b, spec, &vy, &vx);
    if spec.places.is_none() {
        return less;
    }
    let (py, px) = (y[y.len() - 1], x[x.len() - 1]);
    let first = b.cmp(Op::VLtS, py, px);
    if let Some(not_more) = integers(b, spec, &vy, &vx) {
        let either = b.m_or(less, first);
        return b.m_and(either, not_more);
    }
    let more = compared(b, spec, &vx, &vy);
    if simple_compare(&spec.body).is_some() {
        // One strict comparison never says both.
        let either = b.m_or(less, first);
        let not = b.m_not(more);
        return b.m_and(either, not);
    }
    // less where the comparator says different things, else the places.
    let decided = b.m_xor(less, more);
    let other = b.m_xor(less, first);
    let other = b.m_and(decided, other);
    b.m_xor(other, first)
}

/// The instructions that give the earlier and the later of two elements of one 32-bit integer.
#[allow(clippy::wildcard_enum_match_arm, reason = "two types have instructions for it")]
pub fn extremes(spec: &SortSpec) -> Option<(Op, Op)> {
    let ([dtype], None) = (&spec.dtypes[..], &spec.places) else { return None };
    simple_compare(&spec.body)?;
    let node = &spec.body.nodes[spec.body.roots[0] as usize];
    let ExprOp::Compare(direction, _) = node.op else { return None };
    // The left side is the first element's, or its counterpart's.
    let first = matches!(spec.body.nodes[node.args[0] as usize].op, ExprOp::Param(0));
    let (less, more) = match dtype {
        DType::S32 => (Op::VMinS, Op::VMaxS),
        DType::U32 => (Op::VMinU, Op::VMaxU),
        _ => return None,
    };
    Some(if (direction == Direction::Lt) == first { (less, more) } else { (more, less) })
}

/// Puts the earlier of two elements into `x`, the later into `y`, where `valid`.
pub fn exchange(b: &mut KernelBuilder, spec: &SortSpec, x: &mut Element, y: &mut Element, valid: Option<M>) {
    if let (Some((earlier, later)), None) = (extremes(spec), valid) {
        let pair = [x[0], y[0]];
        (x[0], y[0]) = (b.v(earlier, &pair), b.v(later, &pair));
        return;
    }
    let m = before(b, spec, y, x);
    let m = valid.map_or(m, |v| b.m_and(m, v));
    for (x, y) in x.iter_mut().zip(y) {
        (*x, *y) = (b.select(m, *y, *x), b.select(m, *x, *y));
    }
}
