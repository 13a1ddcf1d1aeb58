//! Rules of gather and scatter.

use super::{Rule, Site, ensure, one_or_tuple};
use crate::graph::{ArrayShape, Batching, Gather, IndexMap, Scatter, Shape};

/// The sizes of the index array without the dimension that holds index vectors, and the vectors' length.
fn batch_sizes(s: &Site<'_>, indices: &ArrayShape, vector: usize) -> Rule<(Vec<u64>, u64)> {
    ensure(indices.dtype.is_integer(), "index_type", || {
        format!("the indices of {} are integers, not {indices}", s.name())
    })?;
    ensure(vector <= indices.rank(), "index_vector_dim", || {
        format!("index_vector_dim={vector} where the indices are {indices}")
    })?;
    let mut sizes = indices.dims.clone();
    let length = if vector < indices.rank() { sizes.remove(vector) } else { 1 };
    Ok((sizes, length))
}

/// Checks what the dimension numbers say of the operand and the indices, whose vectors have `length` elements. `names`: of the lists;
/// `rule`: that of the length. Gives the operand's dimensions that windows do not have.
fn operand_side(
    s: &Site<'_>,
    map: &IndexMap,
    (a, indices): (&ArrayShape, &ArrayShape),
    names: [&str; 5],
    (length, rule): (u64, &'static str),
) -> Rule<Vec<usize>> {
    ensure(map.start.len() as u64 == length, rule, || {
        format!("the index vectors have {length} elements, {} has {}", names[2], map.start.len())
    })?;
    s.dims(&map.start, a.rank(), "the operand")?;
    let removed: Vec<usize> = map.collapsed.iter().chain(&map.batching.operand).copied().collect();
    s.dims(&removed, a.rank(), "the operand")?;
    s.sorted(&map.collapsed, names[1])?;
    s.sorted(&map.batching.operand, names[3])?;
    let Batching { operand: x, indices: y } = &map.batching;
    s.dims(y, indices.rank(), "the indices")?;
    let pairs = x.len() == y.len() && x.iter().zip(y).all(|(&i, &j)| a.dims[i] == indices.dims[j]);
    ensure(pairs && !y.contains(&map.vector), "gather_batching", || {
        format!("the batching dimensions {x:?} of {a} and {y:?} of {indices} do not pair up")
    })?;
    ensure(!map.start.iter().any(|d| map.batching.operand.contains(d)), "gather_batching", || {
        "a dimension is both indexed and batching".to_string()
    })?;
    Ok(removed)
}

pub(super) fn gather(s: &Site<'_>, g: &Gather) -> Rule {
    s.count(2)?;
    let (a, indices) = (s.array(0)?, s.array(1)?);
    let (sizes, length) = batch_sizes(s, indices, g.map.vector)?;
    let removed = operand_side(s, &g.map, (a, indices), IndexMap::GATHER, (length, "gather_index_length"))?;
    ensure(g.slice_sizes.len() == a.rank(), "gather_slice_sizes", || {
        format!("gather from {a} needs {} slice sizes, not {}", a.rank(), g.slice_sizes.len())
    })?;
    for (d, (&size, &have)) in g.slice_sizes.iter().zip(&a.dims).enumerate() {
        ensure(size <= have, "gather_slice_sizes", || format!("slice size {size} in dimension {d} of {a}"))?;
        ensure(size <= 1 || !removed.contains(&d), "gather_collapsed", || {
            format!("dimension {d} is collapsed or batching but its slice size is {size}")
        })?;
    }
    let rank = sizes.len() + a.rank() - removed.len();
    s.dims(&g.map.window, rank, "the result")?;
    s.sorted(&g.map.window, IndexMap::GATHER[0])?;
    ensure(g.map.window.len() == a.rank() - removed.len(), "gather_offset_dims", || {
        format!("gather needs {} offset dimensions, not {}", a.rank() - removed.len(), g.map.window.len())
    })?;
    let mut window = (0..a.rank()).filter(|d| !removed.contains(d)).map(|d| g.slice_sizes[d]);
    let mut batch = sizes.into_iter();
    let dims: Vec<i128> = (0..rank)
        .filter_map(|d| if g.map.window.contains(&d) { window.next() } else { batch.next() })
        .map(|d| d as i128)
        .collect();
    super::sized(a.dtype, &dims)
}

pub(super) fn scatter(s: &Site<'_>, d: &Scatter) -> Rule {
    let count = s.operands.len();
    ensure(count >= 3 && count % 2 == 1, "operand_count", || {
        format!("scatter takes operands, indices and as many updates, not {count} in all")
    })?;
    let n = count / 2;
    let indices = s.array(n)?;
    let (sizes, length) = batch_sizes(s, indices, d.map.vector)?;
    let types: Vec<_> = (0..n).map(|i| Ok(s.array(i)?.dtype)).collect::<Rule<_>>()?;
    s.combiner(d.body, &types)?;
    for i in 0..n {
        one_scatter(s, d, s.array(i)?, s.array(n + 1 + i)?, indices, &sizes, length)?;
    }
    Ok(one_or_tuple((0..n).map(|i| Ok(Shape::array(types[i], &s.array(i)?.dims))).collect::<Rule<_>>()?))
}

fn one_scatter(
    s: &Site<'_>,
    d: &Scatter,
    a: &ArrayShape,
    update: &ArrayShape,
    indices: &ArrayShape,
    sizes: &[u64],
    length: u64,
) -> Rule<()> {
    ensure(update.dtype == a.dtype, "same_type", || format!("scatter of {update} into {a}: the types differ"))?;
    ensure(a.dims == s.array(0)?.dims, "same_sizes", || {
        "the operands of scatter must have the same sizes".to_string()
    })?;
    let removed = operand_side(s, &d.map, (a, indices), IndexMap::SCATTER, (length, "scatter_index_length"))?;
    s.dims(&d.map.window, update.rank(), "the updates")?;
    s.sorted(&d.map.window, IndexMap::SCATTER[0])?;
    let window = a.rank() - removed.len();
    ensure(d.map.window.len() == window, "scatter_window_dims", || {
        format!("scatter into {a} needs {window} update window dimensions, not {}", d.map.window.len())
    })?;
    ensure(update.rank() == sizes.len() + window, "scatter_update_rank", || {
        format!("the updates have {} dimensions where indices and windows have {}", update.rank(), sizes.len() + window)
    })?;
    let kept: Vec<u64> = (0..a.rank()).filter(|x| !removed.contains(x)).map(|x| a.dims[x]).collect();
    let mut batch = sizes.iter();
    for (u, &size) in update.dims.iter().enumerate() {
        match d.map.window.iter().position(|&w| w == u) {
            Some(i) => {
                ensure(size <= kept[i], "scatter_window_sizes", || format!("the windows of {update} exceed {a}"))?
            }
            None => ensure(batch.next() == Some(&size), "scatter_update_sizes", || {
                format!("dimension {u} of the updates {update} does not match the indices {indices}")
            })?,
        }
    }
    Ok(())
}
