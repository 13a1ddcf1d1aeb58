//! Which blocks of its array a window shows while the grid runs, where that follows from the grid's indices alone.

use crate::{Attr, Element, Kernel, Module, Operation, Type, Value, Window};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeSet;
use systole_isa::DType;

/// Steps of a grid that are walked at most.
const STEPS: u64 = 1 << 14;

/// The blocks of a window, over all steps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Walk {
    /// Times that the block is another one than in the step before, the first among them: copies that the window takes.
    pub copies: u64,
    /// Different blocks.
    pub blocks: u64,
    /// The first step whose block begins outside of the array: the grid's indices, and the block's.
    pub outside: Option<(Vec<u64>, Vec<i64>)>,
    /// Of windows that are placed by elements: for each dimension where blocks begin that reach beyond the array into its
    /// padding.
    pub edges: Vec<BTreeSet<i64>>,
}

impl Walk {
    /// How often every block is copied, on average and rounded.
    pub fn times(&self) -> u64 {
        (self.copies + self.blocks / 2) / self.blocks.max(1)
    }
}

/// Walks the grid. `None`: the blocks depend on data, their function does what is not followed here, or there are too
/// many steps.
pub fn walk(kernel: &Kernel<'_>, window: &Window, sizes: &[u64]) -> Option<Walk> {
    let grid: Vec<u64> = kernel.grid.iter().copied().collect::<Option<_>>()?;
    let steps = kernel.steps().filter(|n| *n <= STEPS)?;
    let mut out = Walk { edges: vec![BTreeSet::new(); sizes.len()], ..Walk::default() };
    let (mut last, mut seen) = (Vec::new(), FxHashSet::default());
    let mut step = vec![0; grid.len()];
    for _ in 0..steps {
        let block = blocks(kernel, window, &step)?;
        if block != last {
            out.copies += 1;
            if out.outside.is_none() && !inside(window, &block, sizes) {
                out.outside = Some((step.clone(), block.clone()));
            }
            if window.elements {
                for (d, &b) in block.iter().enumerate().take(sizes.len()) {
                    let low = window.padding.get(d).map_or(0, |p| p.0 as i64);
                    if b < low || b - low + window.bounds[d] as i64 > sizes[d] as i64 {
                        out.edges[d].insert(b);
                    }
                }
            }
            seen.insert(block.clone());
            last = block;
        }
        for d in (0..step.len()).rev() {
            step[d] += 1;
            if step[d] < grid[d] {
                break;
            }
            step[d] = 0;
        }
    }
    out.blocks = seen.len() as u64;
    Some(out)
}

/// Whether steps whose index in a dimension of the grid is another one never show the same block of an array, which several
/// windows of the same sizes may show.
pub fn apart(kernel: &Kernel<'_>, windows: &[&Window], dimension: usize) -> bool {
    let all = || -> Option<bool> {
        let grid: Vec<u64> = kernel.grid.iter().copied().collect::<Option<_>>()?;
        kernel.steps().filter(|n| *n <= STEPS)?;
        let bounds = &windows.first()?.bounds;
        if windows.iter().any(|w| w.elements || w.bounds != *bounds) {
            return None;
        }
        let mut seen: FxHashMap<Vec<i64>, u64> = FxHashMap::default();
        let mut step = vec![0; grid.len()];
        loop {
            for w in windows {
                if *seen.entry(blocks(kernel, w, &step)?).or_insert(step[dimension]) != step[dimension] {
                    return Some(false);
                }
            }
            let Some(d) = (0..step.len()).rev().find(|&d| step[d] + 1 < grid[d]) else { return Some(true) };
            step[d] += 1;
            step[d + 1..].fill(0);
        }
    };
    all().unwrap_or(false)
}

/// Whether a block begins in its array (and ends in it, where its place is given in elements).
fn inside(w: &Window, block: &[i64], sizes: &[u64]) -> bool {
    block.iter().zip(&w.bounds).zip(sizes).enumerate().all(|(d, ((&b, &bound), &size))| {
        let (size, bound) = (size as i64, bound as i64);
        match w.elements {
            true => {
                let (low, high) = w.padding.get(d).map_or((0, 0), |p| (p.0 as i64, p.1 as i64));
                b >= 0 && b.saturating_add(bound) <= size.saturating_add(low).saturating_add(high)
            }
            false => b >= 0 && b.saturating_mul(bound) < size,
        }
    })
}

/// The block of a window at a step of the grid.
fn blocks(kernel: &Kernel<'_>, window: &Window, step: &[u64]) -> Option<Vec<i64>> {
    let f = kernel.module.function(&window.transform)?;
    let mut env: FxHashMap<Value, i64> = f.body.arguments.iter().copied().zip(step.iter().map(|s| *s as i64)).collect();
    for o in &f.body.operations {
        if &*o.name == "func.return" {
            return o.operands.iter().map(|v| env.get(v).copied()).collect();
        }
        let value = number(kernel.module, o, &env)?;
        env.insert(*o.results.first()?, value);
    }
    None
}

/// An operation on integers of 32 bits, or on truth values, which are 0 and 1.
fn number(module: &Module, o: &Operation, env: &FxHashMap<Value, i64>) -> Option<i64> {
    let truth = |o: &Operation| {
        let t = o.results.first().map(|r| module.type_of(*r));
        matches!(t, Some(Type::Scalar(Element::Number(DType::Pred))))
    };
    let x = |i: usize| o.operands.get(i).and_then(|v| env.get(v)).copied();
    let wrapped = |n: i64| Some(i64::from(n as i32));
    match &*o.name {
        "arith.constant" => {
            let Attr::Int(n) = o.attributes.get("value")? else { return None };
            Some(if truth(o) { n & 1 } else { *n })
        }
        "arith.addi" => wrapped(x(0)?.wrapping_add(x(1)?)),
        "arith.subi" => wrapped(x(0)?.wrapping_sub(x(1)?)),
        "arith.muli" => wrapped(x(0)?.wrapping_mul(x(1)?)),
        "arith.divsi" => x(0)?.checked_div(x(1)?),
        "arith.remsi" => x(0)?.checked_rem(x(1)?),
        "arith.maxsi" => Some(x(0)?.max(x(1)?)),
        "arith.minsi" => Some(x(0)?.min(x(1)?)),
        "arith.andi" => Some(x(0)? & x(1)?),
        "arith.ori" => Some(x(0)? | x(1)?),
        "arith.xori" => Some(x(0)? ^ x(1)?),
        "arith.index_cast" | "tpu.assume_multiple" => x(0),
        "arith.select" => Some(if x(0)? != 0 { x(1)? } else { x(2)? }),
        "arith.cmpi" => {
            let (a, b) = (x(0)?, x(1)?);
            let holds = match o.int("predicate")? {
                0 => a == b,
                1 => a != b,
                2 => a < b,
                3 => a <= b,
                4 => a > b,
                5 => a >= b,
                _ => return None,
            };
            Some(i64::from(holds))
        }
        "arith.extui" => Some(i64::from(x(0)? != 0)),
        _ => None,
    }
}
