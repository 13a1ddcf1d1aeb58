//! The broadcasting rules of binary operations: explicit dimensions first, then dimensions of size 1.

use super::{Built, XlaBuilder, XlaOp, dims, refuse};
use systole_hlo::graph::{Op, Shape};

impl XlaBuilder {
    /// Both operands at one shape, as a binary operation takes them.
    pub(super) fn broadcast_pair(
        &mut self,
        operation: &'static str,
        lhs: XlaOp,
        rhs: XlaOp,
        broadcast_dimensions: &[i64],
    ) -> Built<(XlaOp, XlaOp)> {
        let (l, r) = (self.array(operation, lhs)?, self.array(operation, rhs)?);
        let (mut lhs, mut rhs) = (lhs, rhs);
        if l.rank() == r.rank() {
            let identity = broadcast_dimensions.iter().copied().eq(0..l.rank() as i64);
            if !broadcast_dimensions.is_empty() && !identity {
                let message = format!(
                    "broadcast_dimensions {broadcast_dimensions:?} with operands of one rank: {} and {}",
                    Shape::Array(l),
                    Shape::Array(r)
                );
                return refuse(operation, message);
            }
        } else if l.rank() < r.rank() {
            lhs = self.raised(operation, lhs, rhs, broadcast_dimensions)?;
        } else {
            rhs = self.raised(operation, rhs, lhs, broadcast_dimensions)?;
        }
        self.stretched(operation, lhs, rhs)
    }

    /// The operand of lower rank with the rank of the other.
    fn raised(&mut self, operation: &'static str, low: XlaOp, high: XlaOp, given: &[i64]) -> Built {
        let (l, h) = (self.array(operation, low)?, self.array(operation, high)?);
        let shapes = format!("{} and {}", Shape::Array(l.clone()), Shape::Array(h.clone()));
        if l.rank() > 0 && given.is_empty() {
            let message = format!(
                "operands of different rank, {shapes}, need broadcast_dimensions: for each dimension of the lower rank the \
                 dimension of the higher that it matches"
            );
            return refuse(operation, message);
        }
        let map = dims(operation, "broadcast_dimensions", given)?;
        if map.len() != l.rank() {
            let message = format!("{} broadcast_dimensions for the {} of {shapes}", map.len(), l.rank());
            return refuse(operation, message);
        }
        if map.windows(2).any(|w| w[0] >= w[1]) {
            return refuse(operation, format!("broadcast_dimensions {given:?} must be strictly increasing"));
        }
        let mut to = h.dims.clone();
        for (i, &d) in map.iter().enumerate() {
            let Some(size) = to.get_mut(d) else {
                return refuse(operation, format!("broadcast_dimensions {given:?}: {shapes} have no dimension {d}"));
            };
            if *size != l.dims[i] && *size != 1 && l.dims[i] != 1 {
                let message = format!(
                    "broadcast_dimensions {given:?}: dimension {i} of size {} does not match dimension {d} of size {size} \
                     in {shapes}",
                    l.dims[i]
                );
                return refuse(operation, message);
            }
            *size = l.dims[i];
        }
        self.shaped(operation, Op::Broadcast { dims: map }, &[low], Shape::array(l.dtype, &to))
    }

    /// Operands of one rank with dimensions of size 1 repeated.
    fn stretched(&mut self, operation: &'static str, lhs: XlaOp, rhs: XlaOp) -> Built<(XlaOp, XlaOp)> {
        let (l, r) = (self.array(operation, lhs)?, self.array(operation, rhs)?);
        let mut to = Vec::new();
        for (d, (&a, &b)) in l.dims.iter().zip(&r.dims).enumerate() {
            if a != b && a != 1 && b != 1 {
                let message = format!(
                    "dimension {d} has sizes {a} and {b}, of which neither is 1: {} and {}",
                    Shape::Array(l),
                    Shape::Array(r)
                );
                return refuse(operation, message);
            }
            to.push(if a == 1 { b } else { a });
        }
        Ok((self.expanded(operation, lhs, &to)?, self.expanded(operation, rhs, &to)?))
    }

    /// An array with its dimensions of size 1 repeated as `to` needs.
    pub(super) fn expanded(&mut self, operation: &'static str, x: XlaOp, to: &[u64]) -> Built {
        let a = self.array(operation, x)?;
        if a.dims == to {
            return Ok(x);
        }
        let kept: Vec<usize> = (0..a.rank()).filter(|&d| a.dims[d] == to[d]).collect();
        let small: Vec<u64> = kept.iter().map(|&d| to[d]).collect();
        let x = self.shaped(operation, Op::Reshape, &[x], Shape::array(a.dtype, &small))?;
        self.shaped(operation, Op::Broadcast { dims: kept }, &[x], Shape::array(a.dtype, to))
    }
}
