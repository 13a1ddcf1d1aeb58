//! Where a device's part of a whole array lies: cutting inputs, joining outputs.

use crate::mesh::{Axes, Mesh};
use crate::sharding::Sharding;

/// A parameter or result of the entry: its whole sizes and how they are divided.
#[derive(Clone, Debug, PartialEq)]
pub struct Edge {
    pub dims: Vec<u64>,
    pub sharding: Sharding,
    /// Atoms along which devices have terms of a sum.
    pub unreduced: Axes,
}

/// How the entry's parameters and results, leaf by leaf, are divided among the partitions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Boundary {
    pub mesh: Mesh,
    pub params: Vec<Edge>,
    pub results: Vec<Edge>,
}

/// A box of a whole array: where it begins, and its sizes without padding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub start: Vec<u64>,
    /// Elements that there are; less than the local size at an uneven end, possibly none.
    pub size: Vec<u64>,
    /// Sizes of the device's array.
    pub local: Vec<u64>,
}

impl Boundary {
    /// Whether a partition gets the value when a whole one is given; the others get zeros.
    pub fn has_value(&self, edge: &Edge, partition: u64) -> bool {
        self.mesh.coordinate(self.mesh.place_of(partition), &edge.unreduced.list()) == 0
    }

    /// The part of a partition.
    pub fn part(&self, edge: &Edge, partition: u64) -> Part {
        let place = self.mesh.place_of(partition);
        let local = edge.sharding.local(&edge.dims, &self.mesh);
        let at = |d: usize| self.mesh.coordinate(place, &edge.sharding.dims[d]) * local[d];
        let start: Vec<u64> = (0..local.len()).map(|d| at(d).min(edge.dims[d])).collect();
        let size = (0..local.len()).map(|d| local[d].min(edge.dims[d] - start[d])).collect();
        Part { start, size, local }
    }
}

impl Part {
    /// The rows of the part: offsets in the whole array, in the local one, and lengths, all in elements.
    pub fn rows(&self, whole: &[u64]) -> Vec<(u64, u64, u64)> {
        if self.size.contains(&0) {
            return Vec::new();
        }
        let rank = whole.len();
        let Some(last) = rank.checked_sub(1) else { return vec![(0, 0, 1)] };
        let mut out = vec![(0, 0)];
        for d in 0..last {
            let (w, l): (u64, u64) = (whole[d + 1..].iter().product(), self.local[d + 1..].iter().product());
            let steps = |(a, b): (u64, u64)| (0..self.size[d]).map(move |i| (a + (self.start[d] + i) * w, b + i * l));
            out = out.into_iter().flat_map(steps).collect();
        }
        out.into_iter().map(|(a, b)| (a + self.start[last], b, self.size[last])).collect()
    }

    /// The part's elements out of the whole array's, zeros behind an uneven end. `size`: bytes of an element.
    pub fn cut(&self, whole: &[u64], bytes: &[u8], size: usize) -> Vec<u8> {
        let mut out = vec![0; self.local.iter().product::<u64>() as usize * size];
        for (from, to, n) in self.rows(whole) {
            let (from, to, n) = (from as usize * size, to as usize * size, n as usize * size);
            out[to..to + n].copy_from_slice(&bytes[from..from + n]);
        }
        out
    }

    /// Puts the part's elements where they belong in the whole array's.
    pub fn join(&self, whole: &[u64], into: &mut [u8], bytes: &[u8], size: usize) {
        for (to, from, n) in self.rows(whole) {
            let (from, to, n) = (from as usize * size, to as usize * size, n as usize * size);
            into[to..to + n].copy_from_slice(&bytes[from..from + n]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mesh::Piece;

    #[test]
    fn parts_are_cut_and_joined() {
        let mesh = Mesh::new(6, &[Piece { stride: 3, size: 2 }, Piece { stride: 1, size: 3 }], None).expect("strides");
        let edge = Edge {
            dims: vec![2, 4, 3],
            sharding: Sharding { dims: vec![vec![0], vec![1], vec![]] },
            unreduced: Axes::default(),
        };
        let b = Boundary { mesh, params: vec![edge.clone()], results: Vec::new() };
        let whole: Vec<u8> = (0..24).collect();
        let mut again = vec![0; 24];
        for p in 0..6 {
            let part = b.part(&edge, p);
            assert_eq!(part.local, [1, 2, 3]);
            let own = part.cut(&edge.dims, &whole, 1);
            part.join(&edge.dims, &mut again, &own, 1);
        }
        assert_eq!(again, whole);
        // Four rows over three: the last device has padding only.
        assert_eq!(b.part(&edge, 2).size, [1, 0, 3]);
        assert_eq!(b.part(&edge, 4).cut(&edge.dims, &whole, 1), [18, 19, 20, 21, 22, 23]);
    }
}
