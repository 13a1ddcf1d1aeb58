//! The mesh: devices by coordinates, in axes of prime size.
//!
//! Programs name axes (`"x"=8`), parts of axes (`"x":(2)4`) and tile assignments (`<=[2,4]T(1,0)`). All of them divide
//! the numbering of devices by strides, so all are made of one finest set of axes: every named axis is a run of
//! *atoms*, whose sizes are primes. Inside the partitioner there are atoms only; parts of axes need no notion of their own.
//!
//! Atoms are numbered from the most major. A *place* is a device's mixed-radix number over all atoms; `order` says which
//! partition stands there (where meshes list their devices in an order that no strides describe).

use std::fmt::Write;

/// An atom of the mesh, by its number.
pub type Axis = u8;

/// A set of atoms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Axes(u32);

impl Axes {
    /// The set of a list.
    pub fn of(list: &[Axis]) -> Axes {
        list.iter().fold(Axes::default(), |s, &a| s.with(a))
    }

    pub fn with(self, a: Axis) -> Axes {
        Axes(self.0 | 1 << a)
    }

    pub fn has(self, a: Axis) -> bool {
        self.0 >> a & 1 == 1
    }

    pub fn and(self, other: Axes) -> Axes {
        Axes(self.0 | other.0)
    }

    pub fn without(self, other: Axes) -> Axes {
        Axes(self.0 & !other.0)
    }

    pub fn meets(self, other: Axes) -> bool {
        self.0 & other.0 != 0
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Its atoms, most major first.
    pub fn list(self) -> Vec<Axis> {
        (0..32).filter(|&a| self.has(a)).collect()
    }
}

/// A part of the numbering of places: `size` neighbours that are `stride` apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    pub stride: u64,
    pub size: u64,
}

/// Most devices of a mesh.
pub const MOST_DEVICES: u64 = 1 << 20;

/// The devices of a program by coordinates.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mesh {
    /// Sizes and strides, most major first; strides descend.
    atoms: Vec<Piece>,
    /// The partition at every place; `None`: the place's number.
    order: Option<Vec<u32>>,
    /// Axes that the program names, for messages.
    names: Vec<(String, Vec<Axis>)>,
}

impl Mesh {
    /// The mesh of so many devices whose atoms make up all pieces.
    ///
    /// # Errors
    /// Pieces that no common set of axes makes up.
    pub fn new(devices: u64, pieces: &[Piece], order: Option<Vec<u32>>) -> Result<Mesh, String> {
        if devices == 0 || devices > MOST_DEVICES {
            return Err(format!("{devices} partitions; 1 to {MOST_DEVICES} are supported"));
        }
        let mut cuts: Vec<u64> = vec![1, devices];
        for p in pieces {
            cuts.extend([p.stride, p.stride.saturating_mul(p.size)]);
        }
        cuts.sort_unstable();
        cuts.dedup();
        if cuts.windows(2).any(|w| w[1] % w[0] != 0) || cuts.last() != Some(&devices) {
            return Err(format!("shardings divide {devices} partitions in ways that do not go together"));
        }
        let mut atoms = Vec::new();
        for w in cuts.windows(2) {
            let (mut stride, mut rest, mut prime) = (w[0], w[1] / w[0], 2);
            while rest > 1 {
                if rest % prime == 0 {
                    atoms.push(Piece { stride, size: prime });
                    stride *= prime;
                    rest /= prime;
                } else {
                    prime = if prime * prime > rest { rest } else { prime + 1 };
                }
            }
        }
        atoms.reverse();
        Ok(Mesh { atoms, order, names: Vec::new() })
    }

    /// Gives a run of atoms a name, for messages.
    pub fn name(&mut self, name: &str, axes: Vec<Axis>) {
        if !axes.is_empty() && !self.names.iter().any(|(n, a)| n == name || *a == axes) {
            self.names.push((name.to_string(), axes));
        }
    }

    /// Number of devices.
    pub fn devices(&self) -> u64 {
        self.atoms.iter().map(|a| a.size).product()
    }

    /// All atoms.
    pub fn all(&self) -> Vec<Axis> {
        (0..self.atoms.len() as Axis).collect()
    }

    /// The atoms of a piece, most major first; `None` if the mesh was not made for it.
    pub fn axes(&self, piece: Piece) -> Option<Vec<Axis>> {
        let inside = |a: &Piece| a.stride >= piece.stride && a.stride < piece.stride * piece.size;
        let found: Vec<Axis> = self.all().into_iter().filter(|&a| inside(self.atom(a))).collect();
        (self.size(&found) == piece.size).then_some(found)
    }

    pub fn atom(&self, a: Axis) -> &Piece {
        &self.atoms[usize::from(a)]
    }

    /// Devices along some atoms.
    pub fn size(&self, axes: &[Axis]) -> u64 {
        axes.iter().map(|&a| self.atom(a).size).product()
    }

    /// The coordinate of a place along some atoms, the first one most major.
    pub fn coordinate(&self, place: u64, axes: &[Axis]) -> u64 {
        axes.iter().fold(0, |n, &a| {
            let p = self.atom(a);
            n * p.size + place / p.stride % p.size
        })
    }

    /// The place with these coordinates along atoms, and zero along the others.
    pub fn place(&self, axes: &[Axis], mut coordinate: u64) -> u64 {
        let mut place = 0;
        for &a in axes.iter().rev() {
            let p = self.atom(a);
            place += coordinate % p.size * p.stride;
            coordinate /= p.size;
        }
        place
    }

    /// The partition at a place.
    pub fn partition(&self, place: u64) -> u64 {
        self.order.as_ref().map_or(place, |o| u64::from(o[place as usize]))
    }

    /// The place of every partition, where they differ.
    pub fn places(&self) -> Option<Vec<u32>> {
        let order = self.order.as_ref()?;
        let mut places = vec![0; order.len()];
        for (place, &p) in order.iter().enumerate() {
            places[p as usize] = place as u32;
        }
        Some(places)
    }

    /// The place of a partition.
    pub fn place_of(&self, partition: u64) -> u64 {
        match &self.order {
            Some(o) => o.iter().position(|&p| u64::from(p) == partition).map_or(partition, |i| i as u64),
            None => partition,
        }
    }

    /// Groups of partitions that differ along these atoms only, each in the order of coordinates.
    pub fn groups(&self, axes: &[Axis]) -> Vec<Vec<u64>> {
        let rest: Vec<Axis> = self.all().into_iter().filter(|a| !axes.contains(a)).collect();
        let (groups, members) = (self.size(&rest), self.size(axes));
        (0..groups)
            .map(|g| {
                let base = self.place(&rest, g);
                (0..members).map(|m| self.partition(base + self.place(axes, m))).collect()
            })
            .collect()
    }

    /// Runs of atoms that are one stride and size: `(stride, size)`, most major first.
    pub fn runs(&self, axes: &[Axis]) -> Vec<Piece> {
        let mut out: Vec<Piece> = Vec::new();
        for &a in axes {
            let p = *self.atom(a);
            match out.last_mut() {
                Some(last) if last.stride == p.stride * p.size => {
                    *last = Piece { stride: p.stride, size: last.size * p.size };
                }
                _ => out.push(p),
            }
        }
        out
    }

    /// A list of atoms as the program would name it: `"x", "y":(2)2`.
    pub fn spell(&self, axes: &[Axis]) -> String {
        let mut out = String::new();
        let mut i = 0;
        while i < axes.len() {
            let comma = if i > 0 { ", " } else { "" };
            // The named axis with the longest run from here.
            let run = |list: &[Axis]| -> Option<(usize, usize)> {
                let from = list.iter().position(|a| *a == axes[i])?;
                let len = list[from..].iter().zip(&axes[i..]).take_while(|(a, b)| a == b).count();
                Some((from, len))
            };
            let best = self.names.iter().filter_map(|(n, l)| Some((n, l, run(l)?))).max_by_key(|(_, _, r)| r.1);
            let (name, before, len, whole) = match best {
                Some((n, l, (from, len))) => (n.clone(), self.size(&l[..from]), len, len == l.len()),
                None => (format!("axis{}", axes[i]), 1, 1, true),
            };
            let part = if whole { String::new() } else { format!(":({before}){}", self.size(&axes[i..i + len])) };
            let written = write!(out, "{comma}\"{name}\"{part}");
            debug_assert!(written.is_ok(), "strings take all text");
            i += len;
        }
        out
    }
}

/// The pieces of a list of places that begins with `first` and is made of strides, most major first.
///
/// `None` if no strides make it.
pub fn pieces(list: &[u64]) -> Option<Vec<Piece>> {
    let first = *list.first()?;
    let mut offsets = Vec::with_capacity(list.len());
    for &x in list {
        offsets.push(x.checked_sub(first)?);
    }
    let mut out = Vec::new();
    while offsets.len() > 1 {
        let stride = offsets[1];
        let run = offsets.iter().enumerate().take_while(|(i, o)| **o == stride * *i as u64).count();
        if stride == 0 || offsets.len() % run != 0 {
            return None;
        }
        let regular = |c: &[u64]| c.iter().enumerate().all(|(i, o)| o.checked_sub(c[0]) == Some(stride * i as u64));
        if !offsets.chunks(run).all(regular) {
            return None;
        }
        out.push(Piece { stride, size: run as u64 });
        offsets = offsets.into_iter().step_by(run).collect();
    }
    out.reverse();
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(stride: u64, size: u64) -> Piece {
        Piece { stride, size }
    }

    #[test]
    fn atoms_are_the_finest_axes() {
        let mut m = Mesh::new(12, &[piece(4, 3), piece(1, 4), piece(2, 2)], None).expect("they go together");
        assert_eq!(m.atoms, [piece(4, 3), piece(2, 2), piece(1, 2)]);
        assert_eq!(m.axes(piece(1, 4)), Some(vec![1, 2]));
        m.name("x", vec![0]);
        m.name("y", vec![1, 2]);
        assert_eq!(m.spell(&[1, 2, 0]), "\"y\", \"x\"");
        assert_eq!(m.spell(&[2]), "\"y\":(2)2");
        assert!(Mesh::new(6, &[piece(2, 3), piece(3, 2)], None).is_err());
        assert!(Mesh::new(4, &[piece(4, 2)], None).is_err());
    }

    #[test]
    fn groups_and_coordinates() {
        let m = Mesh::new(8, &[piece(4, 2), piece(1, 4)], None).expect("they go together");
        assert_eq!(m.groups(&[0]), [[0, 4], [1, 5], [2, 6], [3, 7]]);
        assert_eq!(m.groups(&[2, 1]), [[0, 2, 1, 3], [4, 6, 5, 7]]);
        for place in 0..8 {
            let all = m.all();
            assert_eq!(m.place(&all, m.coordinate(place, &all)), place);
        }
        let turned = Mesh::new(4, &[piece(2, 2)], Some(vec![0, 3, 1, 2])).expect("they go together");
        assert_eq!(turned.groups(&[0]), [[0, 1], [3, 2]]);
        assert_eq!(turned.places(), Some(vec![0, 2, 3, 1]));
        assert_eq!((turned.partition(1), turned.place_of(3)), (3, 1));
    }

    #[test]
    fn lists_are_strides_or_not() {
        assert_eq!(pieces(&[0, 4, 1, 5]), Some(vec![piece(1, 2), piece(4, 2)]));
        assert_eq!(pieces(&[0, 1, 2, 3]), Some(vec![piece(1, 4)]));
        assert_eq!(pieces(&[5]), Some(vec![]));
        assert_eq!(pieces(&[0, 1, 3, 2]), None);
        assert_eq!(pieces(&[0, 1, 2, 4]), None);
    }
}
