//! The rule for the entry's arrays: compact where the last dimension is narrow.
//!
//! An array is row-major in its own shape, with its last dimension along lanes. Where that dimension is narrower than the
//! lanes, it is joined with those before it, from the last on, until they fill the lanes (`[8,224,224,3]` lies as
//! `[8,224,672]`). If all are joined they lie as rows of lanes (`[1048576,4]` as `[32768,128]`), where they fill the last one. So do those
//! whose joined rows would be very long and of which a row of lanes has a whole number of narrow ones: stacks of tables
//! (`[26,100000,16]` as `[325000,128]`). That is done if it takes less than half of the memory, and a mebibyte less: what little arrays waste costs less than moving their elements
//! on the chip.

use super::super::edit::{Draft, reshape_parameters};
use std::collections::BTreeMap;
use systole_hlo::error::CompileError;
use systole_hlo::graph::{ArrayShape, Module, Node, NodeId, Op, Shape};
use systole_isa::Layout;

/// Bytes that a compact form saves at least.
const SAVES: u64 = 1 << 20;
/// The factor of memory beyond which a form is compact.
const LESS: u64 = 2;

/// The most elements of a joined row of which a row of lanes has whole narrow ones: a register's rows of longer ones are more than a block
/// brings at a time.
const LONGEST: u64 = 1 << 17;

/// The sizes under which an array of the entry lies, where they are not its own; `tile` is the chip's sublanes and lanes.
pub fn compact(a: &ArrayShape, tile: (u32, u32)) -> Option<Vec<u64>> {
    let lanes = u64::from(tile.1);
    let row_major = a.layout().iter().rev().map(|&d| usize::from(d)).eq(0..a.rank());
    let narrow = a.dims.last().is_some_and(|&d| d < lanes);
    if !row_major || !narrow || a.rank() < 2 || a.dynamic.contains(&true) {
        return None;
    }
    let mut lead = a.dims.clone();
    let mut last = lead.pop()?;
    let whole = lanes.is_multiple_of(last.max(1)) && a.elements().is_multiple_of(lanes);
    while last < lanes {
        let Some(more) = lead.pop() else { break };
        last *= more;
    }
    if lead.is_empty() || last > LONGEST && whole {
        // Rows of lanes that are all full; others would not begin where the program's rows do.
        a.elements().is_multiple_of(lanes).then_some(())?;
        lead = vec![a.elements() / lanes];
        last = lanes;
    }
    lead.push(last);
    let bytes = |dims: &[u64]| Layout::row_major(a.dtype, dims, tile.0, tile.1).bytes();
    let (own, joined) = (bytes(&a.dims), bytes(&lead));
    (joined * LESS < own && own - joined >= SAVES).then_some(lead)
}

/// Gives the entry's parameters and results their forms, with reshapes between those and what the program computes with.
pub fn run(module: Module, draft: &mut Draft, tile: (u32, u32)) -> Result<Module, CompileError> {
    let Some((known, known_result)) = module.entry_layout.clone() else { return Ok(module) };
    let own = |known: Option<&Shape>, a: &ArrayShape| {
        let k = known.and_then(Shape::as_array);
        k.is_some_and(|k| k.dims == a.dims && k.minor_to_major.is_none())
    };
    let entry = module.entry();
    let mut shapes = BTreeMap::new();
    for (number, &p) in entry.params.iter().enumerate() {
        let Some(a) = entry.node(p).shape.as_array() else { continue };
        if let Some(dims) = compact(a, tile).filter(|_| own(known.get(number), a))
            && draft.fire("entry-parameter")
        {
            shapes.insert(number, dims);
        }
    }
    let mut module = module;
    let leaves = known_result.leaves();
    let mut results = Vec::new();
    let entry = &mut module.computations[module.entry.index()];
    for (number, r) in result_nodes(entry).into_iter().enumerate() {
        let Some(a) = entry.node(r).shape.as_array() else { continue };
        let known = leaves.get(number).map(|a| Shape::Array((*a).clone()));
        if let Some(dims) = compact(a, tile).filter(|_| own(known.as_ref(), a))
            && draft.fire("entry-result")
        {
            results.push((number, r, Shape::array(a.dtype, &dims)));
        }
    }
    for (number, r, shape) in results {
        put_result(entry, number, r, shape);
    }
    if shapes.is_empty() { Ok(module) } else { reshape_parameters(module, draft, &shapes) }
}

/// The nodes of a computation's results.
pub(super) fn result_nodes(entry: &systole_hlo::graph::Computation) -> Vec<NodeId> {
    let root = entry.node(entry.root);
    if root.op == Op::Tuple { root.operands.clone() } else { vec![entry.root] }
}

/// Makes a result the reshape of what it was; the root stays the last of the nodes.
fn put_result(entry: &mut systole_hlo::graph::Computation, number: usize, r: NodeId, shape: Shape) {
    let from = entry.node(r).clone();
    let reshape = Node { op: Op::Reshape, operands: vec![r], shape: shape.clone(), ..from };
    let last = NodeId(entry.nodes.len() as u32);
    if entry.node(entry.root).op != Op::Tuple {
        entry.nodes.push(Node { name: format!("{}-0", reshape.name), ..reshape });
        entry.root = last;
        return;
    }
    let mut root = entry.node(entry.root).clone();
    root.operands[number] = last;
    if let Shape::Tuple(parts) = &mut root.shape {
        parts[number] = shape;
    }
    // The old tuple is a copy without users, which goes when the computation is emitted again.
    let name = format!("{}-{}", reshape.name, last.0);
    entry.nodes.push(Node { name, ..reshape });
    entry.nodes[entry.root.index()].name = format!("{}-{}", root.name, last.0 + 1);
    entry.nodes.push(root);
    entry.root = NodeId(last.0 + 1);
}

#[cfg(test)]
mod tests {
    use super::*;
    use systole_isa::DType;

    fn check(dtype: DType, dims: &[u64], want: Option<&[u64]>) {
        let shape = Shape::array(dtype, dims);
        let a = shape.as_array().unwrap();
        assert_eq!(compact(a, (8, 128)).as_deref(), want, "{shape}");
    }

    #[test]
    fn narrow_dimensions_are_joined_until_they_fill_the_lanes() {
        check(DType::F32, &[1_048_576, 4], Some(&[32768, 128]));
        check(DType::F32, &[1_048_576, 1], Some(&[8192, 128]));
        check(DType::BF16, &[8, 224, 224, 3], Some(&[8, 224, 672]));
        check(DType::BF16, &[768, 12, 64], Some(&[768, 768]));
        check(DType::F32, &[65536, 2, 2, 2], Some(&[4096, 128]));
    }

    #[test]
    fn stacks_of_long_tables_lie_as_rows_of_lanes() {
        check(DType::F32, &[26, 100_000, 16], Some(&[325_000, 128]));
        check(DType::BF16, &[4, 2, 65536, 32], Some(&[131_072, 128]));
        // No row of lanes has a whole number of three.
        check(DType::F32, &[2, 128_000, 3], Some(&[2, 384_000]));
        check(DType::F32, &[32, 4096, 16], Some(&[32, 65536]));
    }

    #[test]
    fn wide_and_little_arrays_stay_as_they_are() {
        check(DType::F32, &[32768, 128], None);
        check(DType::F32, &[32768, 130], None);
        check(DType::F32, &[128, 8], None);
        // Half of the memory is not worth it.
        check(DType::F32, &[65536, 64], None);
        check(DType::F32, &[8, 1024, 64], None);
        // Rows of lanes that are not full begin nowhere.
        check(DType::F32, &[169_343, 40], None);
        check(DType::F32, &[1_048_576], None);
        check(DType::F32, &[0, 4], None);
        check(DType::F32, &[], None);
    }

    #[test]
    fn arrays_of_an_order_of_their_own_keep_it() {
        let mut a = Shape::array(DType::F32, &[1_048_576, 4]).as_array().unwrap().clone();
        a.minor_to_major = Some(vec![0, 1]);
        assert_eq!(compact(&a, (8, 128)), None);
    }
}
