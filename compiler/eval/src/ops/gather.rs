//! Gather and scatter.

use super::super::error::{Fault, malformed};
use super::super::run::{Body, Machine};
use super::super::scalar::{self, Scalar};
use super::super::tensor::{advance, copy_strided, for_each_index, offset, signed, strides};
use super::super::value::Tensor;
use systole_hlo::graph::{Gather, Scatter};

/// Where the index vectors of an array of indices are, one for each place of its other dimensions.
struct Indices<'a> {
    array: &'a Tensor,
    vector_dim: usize,
    /// Sizes without the vector dimension.
    dims: Vec<usize>,
    /// Strides without the vector dimension, and the stride along it.
    strides: Vec<usize>,
    vector_stride: usize,
}

impl<'a> Indices<'a> {
    fn new(array: &'a Tensor, vector_dim: usize) -> Indices<'a> {
        let (mut dims, mut strides) = (array.dims.clone(), strides(&array.dims));
        let mut vector_stride = 0;
        if vector_dim < dims.len() {
            dims.remove(vector_dim);
            vector_stride = strides.remove(vector_dim);
        }
        Indices { array, vector_dim, dims, strides, vector_stride }
    }

    /// Component `k` of the vector at a place.
    fn get(&self, place: &[usize], k: usize) -> i64 {
        self.array.index(offset(place, &self.strides) + k * self.vector_stride)
    }

    /// The place's coordinate along dimension `dim` of the array of indices itself.
    fn coordinate(&self, place: &[usize], dim: usize) -> usize {
        place[if dim > self.vector_dim { dim - 1 } else { dim }]
    }
}

/// Numbers below `n` that no list contains.
fn others(n: usize, lists: [&[usize]; 2]) -> Vec<usize> {
    (0..n).filter(|d| !lists.iter().any(|l| l.contains(d))).collect()
}

pub(in super::super) fn gather(t: &Tensor, indices: &Tensor, g: &Gather) -> Result<Tensor, Fault> {
    let indices = Indices::new(indices, g.map.vector);
    let slice: Vec<usize> = super::super::value::sizes(&g.slice_sizes);
    if slice.len() != t.rank() || slice.iter().zip(&t.dims).any(|(s, d)| s > d) {
        return Err(malformed(format!("slices of {slice:?} from {:?}", t.dims)));
    }
    let kept = others(t.rank(), [&g.map.collapsed, &g.map.batching.operand]);
    let rank = g.map.window.len() + indices.dims.len();
    let batch_dims = others(rank, [&g.map.window, &[]]);
    let mut dims = vec![0; rank];
    g.map.window.iter().zip(&kept).for_each(|(&o, &k)| dims[o] = slice[k]);
    batch_dims.iter().zip(&indices.dims).for_each(|(&b, &size)| dims[b] = size);

    let own = signed(&strides(&t.dims));
    let out_strides = strides(&dims);
    let box_dims: Vec<usize> = kept.iter().map(|&k| slice[k]).collect();
    let from_steps: Vec<isize> = kept.iter().map(|&k| own[k]).collect();
    let to_steps: Vec<isize> = g.map.window.iter().map(|&o| out_strides[o] as isize).collect();
    let mut out = Tensor::zeros(t.dtype, &dims);
    if out.elements() == 0 {
        return Ok(out);
    }
    let bytes = out.bytes_mut();
    for_each_index(&indices.dims, |place| {
        let mut from = 0;
        for (k, &d) in g.map.start.iter().enumerate() {
            from += indices.get(place, k).clamp(0, (t.dims[d] - slice[d]) as i64) as isize * own[d];
        }
        for (d, s) in g.map.batching.pairs() {
            from += indices.coordinate(place, s) as isize * own[d];
        }
        let to: usize = batch_dims.iter().zip(place).map(|(&b, &i)| i * out_strides[b]).sum();
        copy_strided(t.dtype, t.bytes(), (from, &from_steps), bytes, (to as isize, &to_steps), &box_dims);
    });
    Ok(out)
}

/// n operands, indices, n updates. A window that does not fit into the operand is left out as a whole.
pub(in super::super) fn scatter(m: &mut Machine, args: &[&Tensor], s: &Scatter) -> Result<Vec<Tensor>, Fault> {
    let n = args.len() / 2;
    let (operands, rest) = args.split_at(n);
    let (Some((indices, updates)), Some(first)) = (rest.split_first(), operands.first()) else {
        return Err(malformed("scatter of nothing"));
    };
    let mut body = Body::new(m, s.body, false)?;
    let mut results: Vec<Vec<Scalar>> = operands.iter().map(|t| scalar::scalars(t.dtype, t.bytes())).collect();
    let updates_values: Vec<Vec<Scalar>> = updates.iter().map(|t| scalar::scalars(t.dtype, t.bytes())).collect();
    let indices = Indices::new(indices, s.map.vector);
    let update_dims = &updates[0].dims;
    let update_strides = strides(update_dims);
    let scatter_dims = others(update_dims.len(), [&s.map.window, &[]]);
    let kept = others(first.rank(), [&s.map.collapsed, &s.map.batching.operand]);
    let window: Vec<usize> = s.map.window.iter().map(|&d| update_dims[d]).collect();
    let own = strides(&first.dims);
    if updates[0].elements() == 0 {
        return Ok(operands.iter().map(|&t| t.clone()).collect());
    }
    let mut place = vec![0; indices.dims.len()];
    loop {
        if let Some(base) = window_base(&indices, &place, s, &first.dims, &kept, &window) {
            let to = offset(&base, &own);
            let from: usize = scatter_dims.iter().zip(&place).map(|(&d, &i)| i * update_strides[d]).sum();
            let mut at = vec![0; window.len()];
            loop {
                let t = to + at.iter().zip(&kept).map(|(i, &k)| i * own[k]).sum::<usize>();
                let f = from + at.iter().zip(&s.map.window).map(|(i, &d)| i * update_strides[d]).sum::<usize>();
                let old = results.iter().map(|r| r[t]);
                body.call(m, old.chain(updates_values.iter().map(|u| u[f])))?;
                results.iter_mut().enumerate().for_each(|(i, r)| r[t] = body.result(i));
                if !advance(&mut at, &window) {
                    break;
                }
            }
        }
        if !advance(&mut place, &indices.dims) {
            break;
        }
    }
    let pack =
        |(t, r): (&&Tensor, Vec<Scalar>)| Tensor::new(t.dtype, &t.dims, scalar::scalar_bytes(t.dtype, r.into_iter()));
    Ok(operands.iter().zip(results).map(pack).collect())
}

/// The operand index of a window's first element, if the whole window lies inside.
fn window_base(
    indices: &Indices,
    place: &[usize],
    s: &Scatter,
    dims: &[usize],
    kept: &[usize],
    window: &[usize],
) -> Option<Vec<usize>> {
    let mut base = vec![0i64; dims.len()];
    for (k, &d) in s.map.start.iter().enumerate() {
        base[d] = indices.get(place, k);
    }
    for (d, i) in s.map.batching.pairs() {
        base[d] = indices.coordinate(place, i) as i64;
    }
    let mut extent = vec![1i64; dims.len()];
    kept.iter().zip(window).for_each(|(&k, &w)| extent[k] = w as i64);
    let fits = |((&b, &e), &d): ((&i64, &i64), &usize)| b >= 0 && b <= d as i64 - e;
    base.iter().zip(&extent).zip(dims).all(fits).then(|| base.iter().map(|&b| b as usize).collect())
}
