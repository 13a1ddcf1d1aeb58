//! How an array is divided: for every dimension the atoms of the mesh, from major to minor.

use crate::mesh::{Axes, Axis, Mesh};

/// The atoms that divide each dimension. Along the others the array is replicated.
///
/// An atom divides at most one dimension. A dimension of size `n` over `k` devices gives each `ceil(n / k)` elements; what
/// is behind the end is padding, whose values nobody may depend on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sharding {
    pub dims: Vec<Vec<Axis>>,
}

impl Sharding {
    /// Everything everywhere.
    pub fn replicated(rank: usize) -> Sharding {
        Sharding { dims: vec![Vec::new(); rank] }
    }

    pub fn is_replicated(&self) -> bool {
        self.dims.iter().all(Vec::is_empty)
    }

    /// The atoms that divide some dimension.
    pub fn used(&self) -> Axes {
        self.dims.iter().fold(Axes::default(), |s, d| s.and(Axes::of(d)))
    }

    /// Sizes that a device has of an array of sizes `whole`.
    pub fn local(&self, whole: &[u64], mesh: &Mesh) -> Vec<u64> {
        whole.iter().zip(&self.dims).map(|(n, axes)| n.div_ceil(mesh.size(axes))).collect()
    }

    /// Whether devices have different sizes of dimension `dim`, of size `n`.
    pub fn is_uneven(&self, dim: usize, n: u64, mesh: &Mesh) -> bool {
        !n.is_multiple_of(mesh.size(&self.dims[dim]))
    }

    /// As Shardy writes it: `[{"x"}, {}]`.
    pub fn spell(&self, mesh: &Mesh) -> String {
        let dims: Vec<String> = self.dims.iter().map(|d| format!("{{{}}}", mesh.spell(d))).collect();
        format!("[{}]", dims.join(", "))
    }
}

/// How a dimension's sharding may grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Growth {
    /// Whether it may be divided further.
    pub open: bool,
    /// In which round its atoms begin to spread (0: the first).
    pub priority: u32,
}

/// A value's sharding while it is being found: what may still be added, and what not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spec {
    pub sharding: Sharding,
    /// What more may become of each dimension.
    pub dims: Vec<Growth>,
    /// Atoms along which the value stays replicated.
    pub replicated: Axes,
    /// Atoms along which callers and manual computations have terms of a sum.
    pub unreduced: Axes,
    /// Whether the program says so, rather than propagation.
    pub given: bool,
}

impl Spec {
    /// A value of which nothing is known.
    pub fn open(rank: usize) -> Spec {
        Spec {
            sharding: Sharding::replicated(rank),
            dims: vec![Growth { open: true, priority: 0 }; rank],
            replicated: Axes::default(),
            unreduced: Axes::default(),
            given: false,
        }
    }

    /// A value that stays whole, but for what the program says besides.
    pub fn whole(rank: usize) -> Spec {
        Spec { dims: vec![Growth { open: false, priority: 0 }; rank], given: true, ..Spec::open(rank) }
    }

    /// Nothing may be added.
    pub fn close(&mut self) {
        self.dims.iter_mut().for_each(|d| d.open = false);
        self.given = true;
    }

    pub fn is_closed(&self) -> bool {
        self.dims.iter().all(|d| !d.open)
    }

    /// Whether dimension `dim` may get the atom next.
    pub fn takes(&self, dim: usize, axis: Axis) -> bool {
        self.dims[dim].open && !self.replicated.has(axis) && !self.sharding.used().has(axis)
    }
}
