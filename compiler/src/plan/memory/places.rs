//! Where each array is, and which of them moved.

use super::Pending;
use crate::plan::view::BufId;
use std::ops::{Index, IndexMut};

/// Where a buffer is.
#[derive(Clone, Debug, Default)]
pub struct Place {
    /// First word row in vector memory.
    pub row: Option<u64>,
    /// Whether the rows belong to another buffer (a loop state updated in place).
    pub borrowed: bool,
    /// First granule in HBM.
    pub granule: Option<u64>,
    /// Whether the granules stay the buffer's to the end, or belong to another one.
    pub granule_kept: bool,
    /// The state in whose memory in HBM it is.
    pub lent: Option<BufId>,
    /// Whether HBM has the contents.
    pub in_hbm: bool,
    /// The copy to vector memory / to HBM that is under way.
    pub incoming: Option<Pending>,
    pub outgoing: Option<Pending>,
    /// How many loops need it to stay where it is.
    pub pinned: u32,
}

/// The places of all buffers, by buffer.
pub struct Places {
    all: Vec<Place>,
    /// Those that somebody may have changed since they were last asked for, each once.
    touched: Vec<u32>,
    is_touched: Vec<bool>,
}

impl Places {
    /// Nowhere; all count as changed.
    pub fn new(buffers: usize) -> Places {
        Places {
            all: vec![Place::default(); buffers],
            touched: (0..buffers as u32).collect(),
            is_touched: vec![true; buffers],
        }
    }

    /// All buffers, in order.
    pub fn ids(&self) -> impl Iterator<Item = BufId> + use<> {
        (0..self.all.len() as u32).map(BufId)
    }

    pub fn iter(&self) -> std::slice::Iter<'_, Place> {
        self.all.iter()
    }

    /// Buffers whose places may have changed since this was last called, in order.
    pub fn take_touched(&mut self) -> Vec<BufId> {
        let mut touched = std::mem::take(&mut self.touched);
        touched.sort_unstable();
        touched.iter().for_each(|&i| self.is_touched[i as usize] = false);
        touched.into_iter().map(BufId).collect()
    }
}

impl Index<usize> for Places {
    type Output = Place;

    fn index(&self, buffer: usize) -> &Place {
        &self.all[buffer]
    }
}

impl IndexMut<usize> for Places {
    fn index_mut(&mut self, buffer: usize) -> &mut Place {
        if !std::mem::replace(&mut self.is_touched[buffer], true) {
            self.touched.push(buffer as u32);
        }
        &mut self.all[buffer]
    }
}
