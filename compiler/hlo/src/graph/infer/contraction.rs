//! Rules of dots and convolutions.

use super::window::output_size;
use super::{Rule, Site, ensure, fail, sized};
use crate::graph::{ArrayShape, Conv, DotDims, Shape};
use systole_isa::DType;
use systole_isa::dtype::DTypeClass;

/// The result's element type: the declared one if the operands' kind allows it, else the wider operand's.
fn result_type(s: &Site<'_>, a: &ArrayShape, b: &ArrayShape) -> Rule<DType> {
    let kind = |t: DType| match t.class() {
        DTypeClass::Pred | DTypeClass::Signed | DTypeClass::Unsigned => 0,
        DTypeClass::Float => 1,
        DTypeClass::Complex => 2,
    };
    // Integers with floats are multiplied as floats.
    ensure(kind(a.dtype) == kind(b.dtype) || kind(a.dtype).max(kind(b.dtype)) == 1, "contraction_types", || {
        format!("{} multiplies {} and {}: both must be real or complex numbers", s.name(), a.dtype, b.dtype)
    })?;
    let natural = if (kind(b.dtype), b.dtype.bits()) > (kind(a.dtype), a.dtype.bits()) { b.dtype } else { a.dtype };
    match s.declared {
        None => Ok(natural),
        Some(Shape::Array(d)) => {
            let ok = d.dtype == natural || kind(d.dtype) >= kind(natural);
            ensure(ok, "contraction_result_type", || format!("{} of {a} and {b} cannot give {}", s.name(), d.dtype))?;
            Ok(d.dtype)
        }
        Some(other) => fail("result_array", format!("{} gives an array, not {other}", s.name())),
    }
}

/// Dimensions of an operand that are neither contracted nor batch.
fn free(rank: usize, used: &[&[usize]]) -> Vec<usize> {
    (0..rank).filter(|d| !used.iter().any(|u| u.contains(d))).collect()
}

/// Checks that the dimension numbers of one side differ and exist.
fn side(s: &Site<'_>, a: &ArrayShape, contracting: &[usize], batch: &[usize], what: &str) -> Rule<()> {
    let all: Vec<usize> = contracting.iter().chain(batch).copied().collect();
    s.dims(&all, a.rank(), what)
}

fn paired(
    s: &Site<'_>,
    a: &ArrayShape,
    b: &ArrayShape,
    x: &[usize],
    y: &[usize],
    what: &str,
    label: &'static str,
) -> Rule<()> {
    ensure(x.len() == y.len(), label, || {
        format!("{} has {} {what} dimensions on the left and {} on the right", s.name(), x.len(), y.len())
    })?;
    for (&i, &j) in x.iter().zip(y) {
        ensure(a.dims[i] == b.dims[j], label, || {
            format!("{what} dimensions {i} of {a} and {j} of {b} must have the same size")
        })?;
    }
    Ok(())
}

pub(super) fn dot(s: &Site<'_>, d: &DotDims) -> Rule {
    s.count(2)?;
    dot_of(s, d, s.array(0)?, s.array(1)?)
}

fn dot_of(s: &Site<'_>, d: &DotDims, a: &ArrayShape, b: &ArrayShape) -> Rule {
    side(s, a, &d.lhs_contracting, &d.lhs_batch, "the left operand")?;
    side(s, b, &d.rhs_contracting, &d.rhs_batch, "the right operand")?;
    paired(s, a, b, &d.lhs_batch, &d.rhs_batch, "batch", "dot_batch_sizes")?;
    paired(s, a, b, &d.lhs_contracting, &d.rhs_contracting, "contracting", "dot_contracting_sizes")?;
    let mut out: Vec<i128> = d.lhs_batch.iter().map(|&i| a.dims[i] as i128).collect();
    out.extend(free(a.rank(), &[&d.lhs_contracting, &d.lhs_batch]).iter().map(|&i| a.dims[i] as i128));
    out.extend(free(b.rank(), &[&d.rhs_contracting, &d.rhs_batch]).iter().map(|&i| b.dims[i] as i128));
    sized(result_type(s, a, b)?, &out)
}

pub(super) fn scaled_dot(s: &Site<'_>, d: &DotDims) -> Rule {
    s.count(4)?;
    for (side, scale) in [(0, 2), (1, 3)] {
        let (a, scale) = (s.array(side)?, s.array(scale)?);
        let fits = scale.rank() == 0
            || scale.rank() == a.rank() && a.dims.iter().zip(&scale.dims).all(|(x, y)| *y > 0 && x % y == 0);
        ensure(fits, "scaled_dot_scale", || format!("the scales {scale} do not divide {a} into blocks"))?;
    }
    dot_of(s, d, s.array(0)?, s.array(1)?)
}

/// Ragged over a free, contracting or batch dimension of the left operand.
pub(super) fn ragged_dot(s: &Site<'_>, d: &DotDims, ragged: usize, group: &[usize]) -> Rule {
    s.count(3)?;
    let (a, b, sizes) = (s.array(0)?, s.array(1)?, s.array(2)?);
    side(s, a, &d.lhs_contracting, &d.lhs_batch, "the left operand")?;
    s.dim(ragged, a.rank(), "the left operand")?;
    let right: Vec<usize> = d.rhs_contracting.iter().chain(&d.rhs_batch).chain(group).copied().collect();
    s.dims(&right, b.rank(), "the right operand")?;
    paired(s, a, b, &d.lhs_batch, &d.rhs_batch, "batch", "dot_batch_sizes")?;
    paired(s, a, b, &d.lhs_contracting, &d.rhs_contracting, "contracting", "dot_contracting_sizes")?;
    ensure(sizes.dtype.is_integer() && sizes.rank() >= 1, "ragged_groups", || {
        format!("group sizes are integers, not {sizes}")
    })?;
    let groups = sizes.dims[sizes.rank() - 1];
    let over_free = !d.lhs_contracting.contains(&ragged) && !d.lhs_batch.contains(&ragged);
    ensure(group.len() == usize::from(over_free), "ragged_group_dimension", || {
        format!("ragged-dot over dimension {ragged} needs {} group dimension", if over_free { "one" } else { "no" })
    })?;
    if let [g] = group {
        ensure(b.dims[*g] == groups, "ragged_groups", || format!("{b} has another number of groups than {sizes}"))?;
    }
    let mut out: Vec<i128> = Vec::new();
    if d.lhs_contracting.contains(&ragged) {
        out.push(groups as i128);
    }
    out.extend(d.lhs_batch.iter().map(|&i| a.dims[i] as i128));
    out.extend(free(a.rank(), &[&d.lhs_contracting, &d.lhs_batch]).iter().map(|&i| a.dims[i] as i128));
    out.extend(free(b.rank(), &[&d.rhs_contracting, &d.rhs_batch, group]).iter().map(|&i| b.dims[i] as i128));
    sized(result_type(s, a, b)?, &out)
}

pub(super) fn convolution(s: &Site<'_>, c: &Conv) -> Rule {
    s.count(2)?;
    let (a, k) = (s.array(0)?, s.array(1)?);
    let d = &c.dims;
    let n = c.window.len();
    let labels = |b: usize, f: usize, spatial: &[usize], rank: usize, what: &str| -> Rule<()> {
        ensure(spatial.len() == n && rank == n + 2, "convolution_rank", || {
            let labelled = spatial.len() + 2;
            format!(
                "the window has {n} dimensions, so {what} needs {} and as many labels, not {rank} and {labelled}",
                n + 2
            )
        })?;
        let all: Vec<usize> = [b, f].iter().chain(spatial).copied().collect();
        s.dims(&all, rank, what)
    };
    labels(d.input.batch, d.input.feature, &d.input.spatial, a.rank(), "the input")?;
    labels(d.kernel.input, d.kernel.output, &d.kernel.spatial, k.rank(), "the kernel")?;
    labels(d.output.batch, d.output.feature, &d.output.spatial, n + 2, "the result")?;
    let (batch, features) = (a.dims[d.input.batch], a.dims[d.input.feature]);
    let (kernel_in, kernel_out) = (k.dims[d.kernel.input], k.dims[d.kernel.output]);
    let (fg, bg) = (c.feature_groups, c.batch_groups);
    ensure(fg > 0 && bg > 0 && (fg == 1 || bg == 1), "convolution_groups", || {
        format!("feature_group_count={fg} and batch_group_count={bg}: both are at least 1 and one of them is 1")
    })?;
    ensure(features % fg == 0 && features / fg == kernel_in, "convolution_features", || {
        format!("the input has {features} features in {fg} groups, the kernel takes {kernel_in}")
    })?;
    ensure(kernel_out % fg == 0 && kernel_out % bg == 0 && batch % bg == 0, "convolution_groups", || {
        format!(
            "{fg} feature groups and {bg} batch groups must divide the {kernel_out} output features and the batch of {batch}"
        )
    })?;
    let mut out = vec![0i128; n + 2];
    out[d.output.batch] = (batch / bg) as i128;
    out[d.output.feature] = kernel_out as i128;
    for (i, w) in c.window.iter().enumerate() {
        ensure(k.dims[d.kernel.spatial[i]] == w.size, "convolution_window", || {
            format!("window dimension {i} has size {} where the kernel {k} has {}", w.size, k.dims[d.kernel.spatial[i]])
        })?;
        out[d.output.spatial[i]] = output_size(s, w, a.dims[d.input.spatial[i]], true)?;
    }
    sized(result_type(s, a, k)?, &out)
}
