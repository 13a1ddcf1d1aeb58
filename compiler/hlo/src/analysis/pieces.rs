//! What the dimensions of two shapes with the same elements have in common.

use std::ops::Range;

/// Pieces that the dimensions of both shapes are made of, major first: their sizes, and for each dimension which they are.
pub type Pieces = (Vec<u64>, Vec<Range<usize>>, Vec<Range<usize>>);

/// The fewest pieces of two shapes with the same elements; `None` where dimensions overlap otherwise.
pub fn pieces(a: &[u64], b: &[u64]) -> Option<Pieces> {
    let mut sizes = Vec::new();
    let mut of = [Vec::new(), Vec::new()];
    // What is left of the current dimension of each, and the piece that it begins with.
    let (mut i, mut j) = (0, 0);
    let (mut left, mut begin) = ([1u64, 1], [0usize, 0]);
    loop {
        for (side, (shape, at)) in [(a, &mut i), (b, &mut j)].into_iter().enumerate() {
            while left[side] == 1 && *at < shape.len() {
                begin[side] = sizes.len();
                left[side] = shape[*at];
                *at += 1;
                if left[side] == 1 {
                    of[side].push(sizes.len()..sizes.len());
                }
            }
        }
        if left == [1, 1] {
            let [a, b] = of;
            return Some((sizes, a, b));
        }
        let size = left[0].min(left[1]);
        if size <= 1 || left.iter().any(|l| l % size != 0) {
            return None;
        }
        sizes.push(size);
        for side in 0..2 {
            left[side] /= size;
            if left[side] == 1 {
                of[side].push(begin[side]..sizes.len());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dimensions_are_runs_of_pieces() {
        assert_eq!(pieces(&[6, 4], &[2, 12]), Some((vec![2, 3, 4], vec![0..2, 2..3], vec![0..1, 1..3])));
        assert_eq!(pieces(&[1, 8], &[8, 1]), Some((vec![8], vec![0..0, 0..1], vec![0..1, 1..1])));
        assert_eq!(pieces(&[4, 6], &[6, 4]), None);
        assert_eq!(pieces(&[0], &[0]), None);
    }
}
