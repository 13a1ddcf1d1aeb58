//! Products of rows with the weights of a matrix unit, on the host's widest vectors.
//!
//! Every result is a sum over ascending k that begins with zero, one fused multiply-add a step, whatever the vectors of the
//! host are and however rows and columns are cut: all hosts give the same bits. Weights are kept as panels of a few
//! columns ([`panel`]), row after row, so that a panel is read in order and stays in the first cache while all rows pass it.

use multiversion::multiversion;
use multiversion::target::match_target;

/// Most columns of a panel of weights.
const WIDEST: usize = 32;

/// Columns of a panel of weights that suit the host's vectors, for a unit of `cols` columns in chunks of `lanes`.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl+avx512dq+avx2+fma", "x86_64+avx2+fma"))]
pub(super) fn panel(cols: usize, lanes: usize) -> usize {
    let width = match_target! {
        "x86_64+avx512f" => WIDEST,
        _ => 16,
    };
    if cols.is_multiple_of(width) { width } else { lanes.min(width) }
}

/// Where a weight is among panels of `width` columns and `rows` rows.
#[inline(always)]
pub(super) fn place(width: usize, rows: usize, row: usize, col: usize) -> usize {
    (col / width * rows + row) * width + col % width
}

/// A product's operands. `a` has rows of `stride` values of which the first `k` count, `w` panels of `width` columns and
/// `stride` rows of which the first `k` count.
#[derive(Clone, Copy)]
pub(super) struct Operands<'a> {
    pub a: &'a [f32],
    pub w: &'a [f32],
    pub stride: usize,
    pub k: usize,
    pub width: usize,
}

/// A result as the unit gives it: subnormal ones are zero.
#[inline(always)]
pub(super) fn flushed(x: f32) -> f32 {
    let b = x.to_bits();
    if b & 0x7f80_0000 == 0 { f32::from_bits(b & 0x8000_0000) } else { x }
}

/// `out = a * w`, `cols` results a row; subnormal results flush.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl+avx512dq+avx2+fma", "x86_64+avx2+fma"))]
pub(super) fn multiply(p: Operands<'_>, out: &mut [f32], cols: usize) {
    match p.width {
        32 => panels::<8, 32>(p, out, cols),
        16 => panels::<4, 16>(p, out, cols),
        _ => narrow(p, out, cols),
    }
}

/// Tiles of `R` rows and the `C` columns of a panel, panel after panel.
#[inline(always)]
fn panels<const R: usize, const C: usize>(p: Operands<'_>, out: &mut [f32], cols: usize) {
    for (panel, w) in p.w.as_chunks::<C>().0.chunks_exact(p.stride).take(cols / C).enumerate() {
        let w = &w[..p.k];
        let mut rows = p.a.chunks_exact(R * p.stride);
        let mut results = out.chunks_exact_mut(R * cols);
        for (a, out) in (&mut rows).zip(&mut results) {
            tile::<R, C>((a, p.stride), w, &mut out[panel * C..], cols);
        }
        let rest = results.into_remainder().chunks_exact_mut(cols);
        for (a, out) in rows.remainder().chunks_exact(p.stride).zip(rest) {
            tile::<1, C>((a, p.stride), w, &mut out[panel * C..], cols);
        }
    }
}

/// `R` rows, one every `stride` values of `a`, times a panel. The sums stay in registers.
#[inline(always)]
fn tile<const R: usize, const C: usize>((a, stride): (&[f32], usize), w: &[[f32; C]], out: &mut [f32], cols: usize) {
    let k = w.len();
    // Cut one by one, all to the same length: then one check a step is left of the indices below.
    let mut rows = [&a[..k]; R];
    for (r, row) in rows.iter_mut().enumerate() {
        *row = &a[r * stride..][..k];
    }
    let mut sums = [[0f32; C]; R];
    for i in 0..k {
        let w = &w[i];
        for r in 0..R {
            let x = rows[r][i];
            let s = &mut sums[r];
            for j in 0..C {
                s[j] = x.mul_add(w[j], s[j]);
            }
        }
    }
    for (r, sums) in sums.iter().enumerate() {
        let out = &mut out[r * cols..][..C];
        out.iter_mut().zip(sums).for_each(|(o, &s)| *o = flushed(s));
    }
}

/// Panels of other widths, at most [`WIDEST`] columns: small arrays.
#[inline(always)]
fn narrow(p: Operands<'_>, out: &mut [f32], cols: usize) {
    for (panel, w) in p.w.chunks_exact(p.stride * p.width).take(cols / p.width).enumerate() {
        for (a, out) in p.a.chunks_exact(p.stride).zip(out.chunks_exact_mut(cols)) {
            let mut sums = [0f32; WIDEST];
            for (&x, w) in a[..p.k].iter().zip(w.chunks_exact(p.width)) {
                sums.iter_mut().zip(w).for_each(|(s, &w)| *s = x.mul_add(w, *s));
            }
            let out = &mut out[panel * p.width..][..p.width];
            out.iter_mut().zip(sums).for_each(|(o, s)| *o = flushed(s));
        }
    }
}

/// Writes columns of `rows` values each, one behind the other in `columns`, side by side into rows of a panel: row `r` begins at
/// `r * width` of `out`.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl+avx512dq+avx2+fma", "x86_64+avx2+fma"))]
pub(super) fn transpose(columns: &[f32], rows: usize, width: usize, out: &mut [f32]) {
    match columns.len() / rows {
        8 => side_by_side::<8>(columns, rows, width, out),
        n => {
            for (r, out) in out.chunks_mut(width).take(rows).enumerate() {
                (0..n).for_each(|c| out[c] = columns[c * rows + r]);
            }
        }
    }
}

/// [`transpose`] of `N` columns.
#[inline(always)]
fn side_by_side<const N: usize>(columns: &[f32], rows: usize, width: usize, out: &mut [f32]) {
    const BLOCK: usize = 32;
    let mut from = [&columns[..rows]; N];
    for (c, column) in from.iter_mut().enumerate() {
        *column = &columns[c * rows..][..rows];
    }
    let mut first = 0;
    while first < rows {
        let n = BLOCK.min(rows - first);
        let mut block = [[0f32; N]; BLOCK];
        for (r, row) in block.iter_mut().enumerate().take(n) {
            for c in 0..N {
                row[c] = from[c][first + r];
            }
        }
        for (row, out) in block.iter().zip(out[first * width..].chunks_mut(width)).take(n) {
            out[..N].copy_from_slice(row);
        }
        first += n;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transposed_columns_lie_side_by_side() {
        for (n, rows, width) in [(8, 128, 32), (8, 40, 16), (4, 8, 4), (8, 8, 8)] {
            let columns: Vec<f32> = (0..n * rows).map(value).collect();
            let mut out = vec![-1.0; rows * width];
            transpose(&columns, rows, width, &mut out);
            for (i, &got) in out.iter().enumerate() {
                let (r, c) = (i / width, i % width);
                assert_eq!(got, if c < n { columns[c * rows + r] } else { -1.0 }, "{n} {rows} {width}: {r} {c}");
            }
        }
    }

    /// Values with few bits, some of them large, tiny or zero.
    fn value(i: usize) -> f32 {
        let h = (i as u32).wrapping_mul(0x9E37_79B9) >> 8;
        let scale = [1.0, 1e-3, 1e20, 1e-25, 0.0, -7.0][(h >> 4) as usize % 6];
        f32::from_bits(((h % 251) as f32 * scale).to_bits() & 0xffff_0000)
    }

    #[test]
    fn every_result_is_the_sum_in_order() {
        for (rows, cols, width, m, k) in
            [(128, 128, 32, 19, 128), (16, 8, 8, 5, 9), (64, 32, 32, 8, 64), (8, 8, 4, 3, 0)]
        {
            let a: Vec<f32> = (0..m * rows).map(value).collect();
            let weight = |r: usize, c: usize| value(7 + r * cols + c);
            let mut w = vec![0.0; rows * cols];
            for (r, c) in (0..rows).flat_map(|r| (0..cols).map(move |c| (r, c))) {
                w[place(width, rows, r, c)] = weight(r, c);
            }
            let mut out = vec![1.0; m * cols];
            multiply(Operands { a: &a, w: &w, stride: rows, k, width }, &mut out, cols);
            for (i, got) in out.iter().enumerate() {
                let (row, col) = (i / cols, i % cols);
                let sum = (0..k).fold(0f32, |s, j| a[row * rows + j].mul_add(weight(j, col), s));
                assert_eq!(got.to_bits(), flushed(sum).to_bits(), "{rows} {cols} {row} {col}");
            }
        }
    }
}
