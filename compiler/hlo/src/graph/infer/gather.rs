//! Rules of gather and scatter.

use super::{Rule, Site, ensure, one_or_tuple};
use crate::graph::{ArrayShape, Gather, Scatter, Shape};

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

/// Checks the batching dimensions of both sides.
fn batching(s: &Site<'_>, a: &ArrayShape, indices: &ArrayShape, x: &[usize], y: &[usize], vector: usize) -> Rule<()> {
    s.dims(x, a.rank(), "the operand")?;
    s.dims(y, indices.rank(), "the indices")?;
    let ok = x.len() == y.len() && !y.contains(&vector) && x.iter().zip(y).all(|(&i, &j)| a.dims[i] == indices.dims[j]);
    ensure(ok, "gather_batching", || {
        format!("the batching dimensions {x:?} of {a} and {y:?} of {indices} do not pair up")
    })
}

pub(super) fn gather(s: &Site<'_>, g: &Gather) -> Rule {
    s.count(2)?;
    let (a, indices) = (s.array(0)?, s.array(1)?);
    let (sizes, length) = batch_sizes(s, indices, g.index_vector_dim)?;
    ensure(g.start_index_map.len() as u64 == length, "gather_index_length", || {
        format!("the index vectors have {length} elements, start_index_map has {}", g.start_index_map.len())
    })?;
    s.dims(&g.start_index_map, a.rank(), "the operand")?;
    let removed: Vec<usize> = g.collapsed_slice_dims.iter().chain(&g.operand_batching_dims).copied().collect();
    s.dims(&removed, a.rank(), "the operand")?;
    s.sorted(&g.collapsed_slice_dims, "collapsed_slice_dims")?;
    s.sorted(&g.operand_batching_dims, "operand_batching_dims")?;
    batching(s, a, indices, &g.operand_batching_dims, &g.start_indices_batching_dims, g.index_vector_dim)?;
    ensure(!g.start_index_map.iter().any(|d| g.operand_batching_dims.contains(d)), "gather_batching", || {
        "a dimension is both indexed and batching".to_string()
    })?;
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
    s.dims(&g.offset_dims, rank, "the result")?;
    s.sorted(&g.offset_dims, "offset_dims")?;
    ensure(g.offset_dims.len() == a.rank() - removed.len(), "gather_offset_dims", || {
        format!("gather needs {} offset dimensions, not {}", a.rank() - removed.len(), g.offset_dims.len())
    })?;
    let mut window = (0..a.rank()).filter(|d| !removed.contains(d)).map(|d| g.slice_sizes[d]);
    let mut batch = sizes.into_iter();
    let dims: Vec<i128> = (0..rank)
        .filter_map(|d| if g.offset_dims.contains(&d) { window.next() } else { batch.next() })
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
    let (sizes, length) = batch_sizes(s, indices, d.index_vector_dim)?;
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
    let removed: Vec<usize> = d.inserted_window_dims.iter().chain(&d.input_batching_dims).copied().collect();
    s.dims(&removed, a.rank(), "the operand")?;
    s.sorted(&d.inserted_window_dims, "inserted_window_dims")?;
    s.sorted(&d.input_batching_dims, "input_batching_dims")?;
    s.dims(&d.update_window_dims, update.rank(), "the updates")?;
    s.sorted(&d.update_window_dims, "update_window_dims")?;
    s.dims(&d.scatter_dims_to_operand_dims, a.rank(), "the operand")?;
    ensure(d.scatter_dims_to_operand_dims.len() as u64 == length, "scatter_index_length", || {
        format!(
            "the index vectors have {length} elements, scatter_dims_to_operand_dims has {}",
            d.scatter_dims_to_operand_dims.len()
        )
    })?;
    batching(s, a, indices, &d.input_batching_dims, &d.scatter_indices_batching_dims, d.index_vector_dim)?;
    ensure(
        !d.scatter_dims_to_operand_dims.iter().any(|x| d.input_batching_dims.contains(x)),
        "gather_batching",
        || "a dimension is both indexed and batching".to_string(),
    )?;
    let window = a.rank() - removed.len();
    ensure(d.update_window_dims.len() == window, "scatter_window_dims", || {
        format!("scatter into {a} needs {window} update window dimensions, not {}", d.update_window_dims.len())
    })?;
    ensure(update.rank() == sizes.len() + window, "scatter_update_rank", || {
        format!("the updates have {} dimensions where indices and windows have {}", update.rank(), sizes.len() + window)
    })?;
    let kept: Vec<u64> = (0..a.rank()).filter(|x| !removed.contains(x)).map(|x| a.dims[x]).collect();
    let mut batch = sizes.iter();
    for (u, &size) in update.dims.iter().enumerate() {
        match d.update_window_dims.iter().position(|&w| w == u) {
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
