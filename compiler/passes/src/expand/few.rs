//! Sorts of very few elements, many times: compared and exchanged as whole arrays, one for each place of the sequence.
//!
//! Neighbours are exchanged in as many rounds as there are places, those that begin at even ones and at odd ones in turns. Only
//! neighbours are ever exchanged, and equal ones are not, so they keep their order. Nothing is moved across lanes or rows.

use super::keys::Keyed;
use crate::edit::Emit;
use crate::make::inverse;
use systole_hlo::error::CompileError;
use systole_hlo::graph::{CompId, NodeId};

/// Places of a sequence at most: exchanges grow with their square.
const FEW: u64 = 9;
/// Sequences, for each lane, from which arrays of them fill the lanes well.
const MANY: u64 = 8;

/// The sorted operands, `None` if sequences are long or few.
pub fn lower(
    b: &mut Emit,
    dim: usize,
    body: CompId,
    operands: &[NodeId],
    lanes: u64,
) -> Result<Option<Vec<NodeId>>, CompileError> {
    let dims = b.dims(operands[0]).to_vec();
    let (n, sequences) = (dims[dim], b.elements(operands[0]) / dims[dim]);
    if n > FEW || sequences < MANY * lanes {
        return Ok(None);
    }
    let order: Vec<usize> = std::iter::once(dim).chain((0..dims.len()).filter(|&d| d != dim)).collect();
    let given: Vec<NodeId> = operands.iter().map(|&x| b.transpose(x, &order)).collect();
    // Codes would number zeros along the last dimension; neighbours that are equal keep their order without.
    let keyed = Keyed::uncoded(b, body, &given)?;
    let (sorted, keys, body) = match &keyed {
        Some(k) => (k.operands.clone(), k.keys, k.body),
        None => (given, 0, body),
    };
    let one: Vec<u64> = order[1..].iter().map(|&d| dims[d]).collect();
    // By place, then by operand.
    let mut places: Vec<Vec<NodeId>> = Vec::new();
    for i in 0..n {
        let part = |&x: &NodeId| {
            let part = b.slice_dim(x, 0, i, i + 1, 1);
            b.reshape(part, &one)
        };
        places.push(sorted.iter().map(part).collect());
    }
    for round in 0..n as usize {
        for i in (round % 2..n as usize - 1).step_by(2) {
            let (low, high) = (places[i].clone(), places[i + 1].clone());
            let args: Vec<NodeId> = high.iter().zip(&low).flat_map(|(&h, &l)| [h, l]).collect();
            let swap = b.apply(body, &args, &one)?[0];
            for (k, (&l, &h)) in low.iter().zip(&high).enumerate() {
                (places[i][k], places[i + 1][k]) = (b.select(swap, h, l), b.select(swap, l, h));
            }
        }
    }
    let first = [&[1][..], &one].concat();
    let mut results = Vec::new();
    for (i, &x) in operands.iter().enumerate() {
        let parts: Vec<NodeId> = places.iter().map(|p| b.reshape(p[keys + i], &first)).collect();
        let all = b.concatenate(&parts, 0);
        let all = match &keyed {
            Some(k) => k.back(b, i, all, b.dtype(x)),
            None => all,
        };
        results.push(b.transpose(all, &inverse(&order)));
    }
    Ok(Some(results))
}
