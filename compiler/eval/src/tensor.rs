//! Index arithmetic of row-major arrays, and copies that move elements without looking at them.

use super::value::Tensor;
use systole_isa::DType;

/// Distance in elements between neighbours along each dimension of a row-major array.
pub(super) fn strides(dims: &[usize]) -> Vec<usize> {
    let mut out = vec![1; dims.len()];
    for i in (1..dims.len()).rev() {
        out[i - 1] = out[i] * dims[i];
    }
    out
}

/// Position of an index in a row-major array.
pub(super) fn offset(index: &[usize], strides: &[usize]) -> usize {
    index.iter().zip(strides).map(|(i, s)| i * s).sum()
}

/// Moves `index` to the next one in row-major order; false after the last.
pub(super) fn advance(index: &mut [usize], dims: &[usize]) -> bool {
    for d in (0..dims.len()).rev() {
        index[d] += 1;
        if index[d] < dims[d] {
            return true;
        }
        index[d] = 0;
    }
    false
}

/// Every index of `dims` in row-major order.
pub(super) fn for_each_index(dims: &[usize], mut f: impl FnMut(&[usize])) {
    if dims.contains(&0) {
        return;
    }
    let mut index = vec![0; dims.len()];
    loop {
        f(&index);
        if !advance(&mut index, dims) {
            return;
        }
    }
}

/// A walk over `dims` in row-major order that keeps `N` linear functions of the index up to date.
///
/// Calls `f` for runs along the last dimension: the functions' values at the run's begin, and the run's length. Within
/// the run, function `i` grows by `steps[i][rank - 1]` (or nothing to step over at rank 0, where the run has length 1).
pub(super) fn for_each_run<const N: usize>(
    dims: &[usize],
    steps: [&[isize]; N],
    start: [isize; N],
    mut f: impl FnMut([isize; N], usize),
) {
    if dims.contains(&0) {
        return;
    }
    let Some((&run, outer)) = dims.split_last() else {
        return f(start, 1);
    };
    let mut at = start;
    let mut index = vec![0; outer.len()];
    loop {
        f(at, run);
        let mut d = outer.len();
        loop {
            if d == 0 {
                return;
            }
            d -= 1;
            index[d] += 1;
            if index[d] < outer[d] {
                for i in 0..N {
                    at[i] += steps[i][d];
                }
                break;
            }
            for i in 0..N {
                at[i] -= steps[i][d] * (outer[d] as isize - 1);
            }
            index[d] = 0;
        }
    }
}

/// Strides as signed steps.
pub(super) fn signed(strides: &[usize]) -> Vec<isize> {
    strides.iter().map(|&s| s as isize).collect()
}

/// An array of `dims` whose element at each index is `source`'s element at `start + Σ index·step`.
pub(super) fn gather_strided(source: &Tensor, dims: &[usize], start: isize, steps: &[isize]) -> Tensor {
    let mut out = vec![0; dims.iter().product::<usize>() * source.dtype.host_bytes()];
    let own = signed(&strides(dims));
    copy_strided(source.dtype, source.bytes(), (start, steps), &mut out, (0, &own), dims);
    Tensor::new(source.dtype, dims, out)
}

/// Copies the elements of a box of `dims` from one strided place to another.
pub(super) fn copy_strided(
    dtype: DType,
    from: &[u8],
    (from_start, from_steps): (isize, &[isize]),
    to: &mut [u8],
    (to_start, to_steps): (isize, &[isize]),
    dims: &[usize],
) {
    match dtype.host_bytes() {
        1 => copy_sized::<1>(from, (from_start, from_steps), to, (to_start, to_steps), dims),
        2 => copy_sized::<2>(from, (from_start, from_steps), to, (to_start, to_steps), dims),
        4 => copy_sized::<4>(from, (from_start, from_steps), to, (to_start, to_steps), dims),
        8 => copy_sized::<8>(from, (from_start, from_steps), to, (to_start, to_steps), dims),
        _ => copy_sized::<16>(from, (from_start, from_steps), to, (to_start, to_steps), dims),
    }
}

fn copy_sized<const S: usize>(
    from: &[u8],
    (from_start, from_steps): (isize, &[isize]),
    to: &mut [u8],
    (to_start, to_steps): (isize, &[isize]),
    dims: &[usize],
) {
    let (from, _) = from.as_chunks::<S>();
    let (to, _) = to.as_chunks_mut::<S>();
    let last = |steps: &[isize]| steps.last().copied().unwrap_or(1);
    let (fs, ts) = (last(from_steps), last(to_steps));
    for_each_run(dims, [from_steps, to_steps], [from_start, to_start], |[mut f, mut t], n| {
        if fs == 1 && ts == 1 {
            to[t as usize..t as usize + n].copy_from_slice(&from[f as usize..f as usize + n]);
        } else if fs == 0 && ts == 1 {
            to[t as usize..t as usize + n].fill(from[f as usize]);
        } else {
            for _ in 0..n {
                to[t as usize] = from[f as usize];
                f += fs;
                t += ts;
            }
        }
    });
}
