//! `select-and-scatter`, by window positions: a chain of comparisons finds the position selected in each window (the
//! first in row-major order wins ties), then each position gives its sources to the places it selects.

use crate::error::CompileError;
use crate::graph::{CompId, NodeId, PadDim, SliceDim, WindowDim};
use crate::passes::edit::Emit;
use crate::passes::make::whole;
use systole_isa::DType;

/// Window positions at most.
const MAX_TAPS: u64 = 4096;

/// operand, source, initial value.
pub fn lower(
    b: &mut Emit,
    window: &[WindowDim],
    select: CompId,
    scatter: CompId,
    operands: &[NodeId],
) -> Result<NodeId, CompileError> {
    let (x, source, init) = (operands[0], operands[1], operands[2]);
    let taps: u64 = window.iter().map(|w| w.size).product();
    if taps > MAX_TAPS {
        let detail = " (window positions of select-and-scatter)".to_string();
        return Err(CompileError::Limit { resource: "window".into(), need: taps, have: MAX_TAPS, detail });
    }
    let dims = b.dims(x).to_vec();
    let outputs = b.dims(source).to_vec();
    let edges = |w: &WindowDim| PadDim { low: w.pad_low, high: w.pad_high, interior: 0 };
    let pads: Vec<PadDim> = window.iter().map(edges).collect();
    let has_padding = pads.iter().any(|p| p.low > 0 || p.high > 0);
    let padded = b.pad(x, init, &pads);
    let inside = has_padding.then(|| {
        let (yes, no) = (b.splat(DType::Pred, &dims, 1.0), b.scalar(DType::Pred, 0.0));
        b.pad(yes, no, &pads)
    });
    let padded_dims = b.dims(padded).to_vec();
    let sizes: Vec<u64> = window.iter().map(|w| w.size).collect();
    let places = positions(&sizes);
    let mut best: Option<(NodeId, NodeId, Option<NodeId>)> = None;
    for (t, place) in places.iter().enumerate() {
        let cut = seen(window, place, &outputs, &padded_dims);
        let value = b.slice(padded, &cut);
        let valid = inside.map(|m| b.slice(m, &cut));
        let tap = b.splat(DType::S32, &outputs, t as f64);
        best = Some(match best {
            None => (value, tap, valid),
            Some((held, index, any)) => {
                let keep = b.apply(select, &[held, value], &outputs)?[0];
                let mut take = b.not(keep);
                let mut found = None;
                if let (Some(any), Some(valid)) = (any, valid) {
                    let first = b.not(any);
                    let either = b.or(first, take);
                    take = b.and(valid, either);
                    found = Some(b.or(any, valid));
                }
                (b.select(take, value, held), b.select(take, tap, index), found)
            }
        });
    }
    let Some((_, chosen, found)) = best else { return Ok(b.broadcast(init, &[], &dims)) };
    scattered(b, window, &places, scatter, (source, init, chosen, found), &padded_dims, &pads)
}

/// Gives the sources to the positions that each tap selects, one tap after the other.
fn scattered(
    b: &mut Emit,
    window: &[WindowDim],
    places: &[Vec<u64>],
    scatter: CompId,
    (source, init, chosen, found): (NodeId, NodeId, NodeId, Option<NodeId>),
    padded: &[u64],
    pads: &[PadDim],
) -> Result<NodeId, CompileError> {
    let outputs = b.dims(source).to_vec();
    let mut result = b.broadcast(init, &[], padded);
    let (zero, no) = (b.scalar(b.dtype(source), 0.0), b.scalar(DType::Pred, 0.0));
    for (t, place) in places.iter().enumerate() {
        let tap = b.splat(DType::S32, &outputs, t as f64);
        let mut hit = b.compare(crate::graph::Direction::Eq, chosen, tap);
        if let Some(found) = found {
            hit = b.and(hit, found);
        }
        let spread: Vec<PadDim> = (0..window.len())
            .map(|d| {
                let reach = place[d] + (outputs[d] - 1) * window[d].stride + 1;
                PadDim { low: place[d] as i64, high: padded[d] as i64 - reach as i64, interior: window[d].stride - 1 }
            })
            .collect();
        let (values, hits) = (b.pad(source, zero, &spread), b.pad(hit, no, &spread));
        let combined = b.apply(scatter, &[result, values], padded)?[0];
        result = b.select(hits, combined, result);
    }
    let cut: Vec<PadDim> = pads.iter().map(|p| PadDim { low: -p.low, high: -p.high, interior: 0 }).collect();
    Ok(b.pad(result, init, &cut))
}

/// The places that one window position sees: one for each window.
fn seen(window: &[WindowDim], place: &[u64], outputs: &[u64], padded: &[u64]) -> Vec<SliceDim> {
    let mut cut = whole(padded);
    for (d, c) in cut.iter_mut().enumerate() {
        let w = &window[d];
        *c = SliceDim { start: place[d], limit: place[d] + (outputs[d] - 1) * w.stride + 1, stride: w.stride };
    }
    cut
}

fn positions(sizes: &[u64]) -> Vec<Vec<u64>> {
    let mut out = vec![Vec::new()];
    for &n in sizes {
        out = out.into_iter().flat_map(|p: Vec<u64>| (0..n).map(move |i| [&p[..], &[i]].concat())).collect();
    }
    out
}
