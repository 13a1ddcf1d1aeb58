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

/// A value's sharding while it is being found: what may still be added, and what not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spec {
    pub sharding: Sharding,
    /// Whether a dimension may be divided further, by dimension.
    pub open: Vec<bool>,
    /// Atoms along which the value stays replicated.
    pub replicated: Axes,
    /// Atoms along which callers and manual computations have terms of a sum.
    pub unreduced: Axes,
    /// In which round a dimension's atoms begin to spread (0: the first).
    pub priority: Vec<u32>,
    /// Whether the program says so, rather than propagation.
    pub given: bool,
}

impl Spec {
    /// A value of which nothing is known.
    pub fn open(rank: usize) -> Spec {
        Spec {
            sharding: Sharding::replicated(rank),
            open: vec![true; rank],
            replicated: Axes::default(),
            unreduced: Axes::default(),
            priority: vec![0; rank],
            given: false,
        }
    }

    /// Nothing may be added.
    pub fn close(&mut self) {
        self.open.fill(false);
        self.given = true;
    }

    pub fn is_closed(&self) -> bool {
        self.open.iter().all(|o| !o)
    }

    /// Whether dimension `dim` may get the atom next.
    pub fn takes(&self, dim: usize, axis: Axis) -> bool {
        self.open[dim] && !self.replicated.has(axis) && !self.sharding.used().has(axis)
    }
}
