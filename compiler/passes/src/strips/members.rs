//! The operations of a region, by node: asked about far more often than they change.

use super::walk::At;
use systole_hlo::graph::NodeId;

/// Where the strips' dimension is in the results of some of a computation's nodes.
#[derive(Clone, Debug)]
pub struct Members {
    places: Vec<Option<At>>,
    /// Behind these numbers, and before those, no node is a member.
    first: usize,
    end: usize,
}

impl Members {
    /// None of `nodes` nodes.
    pub fn new(nodes: usize) -> Members {
        Members { places: vec![None; nodes], first: nodes, end: 0 }
    }

    pub fn has(&self, id: NodeId) -> bool {
        self.get(id).is_some()
    }

    pub fn get(&self, id: NodeId) -> Option<At> {
        self.places.get(id.index()).copied().flatten()
    }

    pub fn insert(&mut self, id: NodeId, at: At) {
        self.places[id.index()] = Some(at);
        self.first = self.first.min(id.index());
        self.end = self.end.max(id.index() + 1);
    }

    pub fn remove(&mut self, id: NodeId) {
        self.places[id.index()] = None;
        while self.first < self.end && self.places[self.first].is_none() {
            self.first += 1;
        }
        while self.first < self.end && self.places[self.end - 1].is_none() {
            self.end -= 1;
        }
    }

    pub fn clear(&mut self) {
        *self = Members::new(self.places.len());
    }

    pub fn is_empty(&self) -> bool {
        self.first >= self.end
    }

    /// In the order of the computation.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (NodeId, At)> + '_ {
        let range = self.first..self.end.max(self.first);
        range.filter_map(|i| Some((NodeId(i as u32), self.places[i]?)))
    }

    pub fn ids(&self) -> impl DoubleEndedIterator<Item = NodeId> + '_ {
        self.iter().map(|(id, _)| id)
    }

    /// The first and the last.
    pub fn ends(&self) -> Option<(NodeId, NodeId)> {
        (!self.is_empty()).then(|| (NodeId(self.first as u32), NodeId(self.end as u32 - 1)))
    }
}
