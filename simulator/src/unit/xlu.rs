//! Cross-lane units: rotations, permutations, lane reductions, and the transpose buffer.

use crate::unit::vector::{bits, f, maximum, minimum};
use systole_isa::opcodes::ReduceFn;

/// Lane l of each sublane = lane l - amount.
pub(crate) fn rotate_lanes(d: &mut [u32], a: &[u32], lanes: usize, amount: i64) {
    let n = amount.rem_euclid(lanes as i64) as usize;
    for (d, a) in d.chunks_exact_mut(lanes).zip(a.chunks_exact(lanes)) {
        d[n..].copy_from_slice(&a[..lanes - n]);
        d[..n].copy_from_slice(&a[lanes - n..]);
    }
}

/// Sublane s = sublane s - amount.
pub(crate) fn rotate_sublanes(d: &mut [u32], a: &[u32], lanes: usize, amount: i64) {
    let sublanes = a.len() / lanes;
    let n = amount.rem_euclid(sublanes as i64) as usize * lanes;
    d[n..].copy_from_slice(&a[..a.len() - n]);
    d[..n].copy_from_slice(&a[a.len() - n..]);
}

/// Lane l of each sublane = lane idx[l] modulo lanes.
pub(crate) fn permute_lanes(d: &mut [u32], a: &[u32], idx: &[u32], lanes: usize) {
    for ((d, a), idx) in d.chunks_exact_mut(lanes).zip(a.chunks_exact(lanes)).zip(idx.chunks_exact(lanes)) {
        // Lanes are a power of two.
        d.iter_mut().zip(idx).for_each(|(d, &i)| *d = a[i as usize & (lanes - 1)]);
    }
}

/// Sublane s, in each lane = sublane idx[s] modulo sublanes.
pub(crate) fn permute_sublanes(d: &mut [u32], a: &[u32], idx: &[u32], lanes: usize) {
    let mask = a.len() / lanes - 1;
    for (i, (d, &from)) in d.iter_mut().zip(idx).enumerate() {
        *d = a[(from as usize & mask) * lanes + i % lanes];
    }
}

/// Every lane of a sublane = the reduction of its lanes.
pub(crate) fn reduce_lanes(function: ReduceFn, d: &mut [u32], a: &[u32], lanes: usize) {
    let combine: fn(u32, u32) -> u32 = match function {
        ReduceFn::XSumLane => |a, b| bits(f(a) + f(b)),
        ReduceFn::XMaxLane => maximum,
        ReduceFn::XMinLane => minimum,
    };
    for (d, a) in d.chunks_exact_mut(lanes).zip(a.chunks_exact(lanes)) {
        d.copy_from_slice(a);
        let mut n = lanes;
        while n > 1 {
            n /= 2;
            let (low, high) = d.split_at_mut(n);
            low.iter_mut().zip(high).for_each(|(x, y)| *x = combine(*x, *y));
        }
        // A single lane has not been through an operation that flushes.
        let r = if lanes == 1 { combine(d[0], d[0]) } else { d[0] };
        d.fill(if lanes == 1 && function == ReduceFn::XSumLane { bits(f(a[0])) } else { r });
    }
}

/// The transpose buffer of one unit: rows pushed, then columns popped.
#[derive(Debug)]
pub(crate) struct Transpose {
    lanes: usize,
    rows: Vec<u32>,
    /// Columns already taken.
    taken: usize,
}

impl Transpose {
    pub fn new(lanes: usize) -> Transpose {
        Transpose { lanes, rows: Vec::new(), taken: 0 }
    }

    /// Appends a register's rows.
    ///
    /// # Errors
    /// If the buffer is full or being emptied.
    pub fn push(&mut self, a: &[u32]) -> Result<(), &'static str> {
        if self.taken > 0 {
            return Err("rows pushed before the last transpose was taken out");
        }
        if self.rows.len() + a.len() > self.lanes * self.lanes {
            return Err("more rows pushed than the transpose buffer has");
        }
        self.rows.extend_from_slice(a);
        Ok(())
    }

    /// Takes the next columns as rows; `false` if the buffer is empty.
    pub fn pop(&mut self, d: &mut [u32]) -> bool {
        if self.rows.is_empty() {
            return false;
        }
        let n = self.rows.len() / self.lanes;
        for (s, d) in d.chunks_exact_mut(self.lanes).enumerate() {
            d.fill(0);
            let column = self.taken + s;
            for (l, d) in d[..n].iter_mut().enumerate() {
                *d = self.rows[l * self.lanes + column];
            }
        }
        self.taken += d.len() / self.lanes;
        if self.taken >= self.lanes {
            self.taken = 0;
            self.rows.clear();
        }
        true
    }
}
