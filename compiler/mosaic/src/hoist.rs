//! Products are moved up to where their operands are known.
//!
//! Kernels are written top to bottom: what a product's left operand is made of, then some stores, then the load of the right
//! operand and the product. Moved above the stores, the product is known to whoever makes the code of what comes before it.
//! What a program means stays: only operations without effects move, and loads only past stores to other arguments.

use crate::{Block, Module, Operation, Value};
use std::collections::BTreeSet;

impl Module {
    /// Moves matrix products, with what little they still need, up past stores that do not concern them.
    pub fn hoist_products(&mut self) {
        for f in &mut self.functions {
            let mut made = BTreeSet::new();
            results(&f.body, &mut made);
            hoist(&mut f.body, &made);
        }
    }
}

/// All values that operations make.
fn results(b: &Block, out: &mut BTreeSet<Value>) {
    for o in &b.operations {
        out.extend(&o.results);
        o.regions.iter().for_each(|b| results(b, out));
    }
}

fn hoist(b: &mut Block, made: &BTreeSet<Value>) {
    b.operations.iter_mut().flat_map(|o| &mut o.regions).for_each(|b| hoist(b, made));
    let mut i = 0;
    while i < b.operations.len() {
        if &*b.operations[i].name == "tpu.matmul" {
            hoist_one(&mut b.operations, i, made);
        }
        i += 1;
    }
}

/// What moves with a product: numbers, loads, other names and types of what is there.
fn moves(o: &Operation) -> bool {
    matches!(
        &*o.name,
        "arith.constant"
            | "arith.index_cast"
            | "arith.addi"
            | "arith.muli"
            | "arith.truncf"
            | "arith.extf"
            | "vector.load"
            | "tpu.vector_load"
            | "vector.shape_cast"
            | "tpu.assume_multiple"
            | "tpu.matmul"
    )
}

/// The argument that an operation loads from or stores to.
fn memory(o: &Operation) -> Option<Value> {
    match &*o.name {
        "vector.load" | "tpu.vector_load" => o.operands.first().copied(),
        "vector.store" | "tpu.vector_store" => match o.groups() {
            Some(g) if g.len() >= 3 => g[1].first().copied(),
            _ => o.operands.get(1).copied(),
        },
        _ => None,
    }
}

fn is_store(o: &Operation) -> bool {
    matches!(&*o.name, "vector.store" | "tpu.vector_store")
}

/// Whether nothing but its results comes of an operation.
fn is_pure(o: &Operation) -> bool {
    let family = ["arith.", "math.", "vector."].iter().any(|f| o.name.starts_with(f));
    let other =
        matches!(&*o.name, "tpu.matmul" | "tpu.vector_load" | "tpu.concatenate" | "tpu.iota" | "tpu.reciprocal");
    o.regions.is_empty() && (family || other) && !is_store(o)
}

fn hoist_one(operations: &mut Vec<Operation>, at: usize, made: &BTreeSet<Value>) {
    // What it needs of this block that can move with it, back to what cannot.
    let mut needed: BTreeSet<Value> = operations[at].operands.iter().copied().collect();
    let mut with = vec![at];
    let mut from = None;
    for i in (0..at).rev() {
        let o = &operations[i];
        if !o.results.iter().any(|r| needed.contains(r)) {
            continue;
        }
        if !moves(o) {
            from = Some(i + 1);
            break;
        }
        needed.extend(&o.operands);
        with.push(i);
    }
    let Some(from) = from else { return };
    let past = || (from..at).filter(|i| !with.contains(i)).map(|i| &operations[i]);
    if !past().any(is_store) || !past().all(|o| is_pure(o) || is_store(o)) {
        return;
    }
    // Arguments are apart from each other; parts of them may not be.
    let own = |v: Option<Value>| v.is_some_and(|v| !made.contains(&v));
    let loads: Vec<Option<Value>> = with.iter().map(|i| &operations[*i]).filter_map(|o| memory(o).map(Some)).collect();
    let apart = past().filter(|o| is_store(o)).all(|o| own(memory(o)) && !loads.contains(&memory(o)));
    if !apart || !loads.iter().all(|v| own(*v)) {
        return;
    }
    let (mut first, mut rest) = (Vec::new(), Vec::new());
    for (i, o) in operations.drain(from..=at).enumerate() {
        if with.contains(&(from + i)) { first.push(o) } else { rest.push(o) }
    }
    let tail = operations.split_off(from);
    operations.extend(first.into_iter().chain(rest).chain(tail));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn op(name: &str, operands: &[u32], results: &[u32]) -> Operation {
        let values = |v: &[u32]| v.iter().map(|v| Value(*v)).collect();
        let (operands, results) = (values(operands), values(results));
        Operation {
            name: name.into(),
            operands,
            results,
            attributes: BTreeMap::new(),
            regions: Vec::new(),
            place: None,
        }
    }

    /// Values below 10 are arguments.
    fn moved(operations: Vec<Operation>) -> Vec<String> {
        let mut b = Block { arguments: (0..10).map(Value).collect(), operations };
        let mut made = BTreeSet::new();
        results(&b, &mut made);
        hoist(&mut b, &made);
        b.operations.iter().map(|o| o.name.to_string()).collect()
    }

    #[test]
    fn products_pass_stores_to_other_arguments() {
        let all = |to| {
            vec![
                op("math.exp", &[1], &[10]),
                op("vector.multi_reduction", &[10], &[11]),
                op("tpu.vector_store", &[11, to], &[]),
                op("vector.load", &[3], &[12]),
                op("tpu.matmul", &[10, 12], &[13]),
                op("func.return", &[], &[]),
            ]
        };
        let passed =
            ["math.exp", "vector.load", "tpu.matmul", "vector.multi_reduction", "tpu.vector_store", "func.return"];
        assert_eq!(moved(all(2)), passed);
        let stays: Vec<String> = all(3).iter().map(|o| o.name.to_string()).collect();
        assert_eq!(moved(all(3)), stays, "the store is to what the product loads");
    }

    #[test]
    fn products_pass_nothing_that_has_effects() {
        let all = vec![
            op("math.exp", &[1], &[10]),
            op("tpu.vector_store", &[10, 2], &[]),
            op("tpu.wait_dma2", &[4], &[]),
            op("tpu.matmul", &[10, 5], &[13]),
        ];
        let stays: Vec<String> = all.iter().map(|o| o.name.to_string()).collect();
        assert_eq!(moved(all), stays);
    }
}
