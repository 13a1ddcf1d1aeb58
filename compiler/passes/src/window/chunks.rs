//! Running reductions of few long rows that vector memory has no room for: a chunk of the rows after the other, each from what those before
//! have left.

use super::scan::Scan;
use super::{LINE, Windows, lowered};
use crate::edit::Emit;
use crate::options::Facts;
use systole_hlo::error::CompileError;
use systole_hlo::graph::{Binary, NodeId, WindowDim};
use systole_isa::{DType, Layout};

/// The part of vector memory (one in so many) from which on rows go in chunks, and that of a chunk.
const LARGE: u64 = 3;
const CHUNK: u64 = 32;

/// The last dimension of an array in chunks.
pub(super) struct Chunks {
    /// Elements of a chunk, chunks, and elements behind them.
    size: u64,
    count: u64,
    rest: u64,
}

impl Chunks {
    /// `None`: the array has room as it is, or has so many rows that chunks of them would be short.
    pub(super) fn of(dtype: DType, dims: &[u64], chip: &Facts) -> Option<Chunks> {
        let (&n, lead) = dims.split_last()?;
        let bytes = |n: u64| Layout::row_major(dtype, &[lead, &[n]].concat(), chip.tile.0, chip.tile.1).bytes();
        // Whole lines of lines.
        let unit = LINE * LINE;
        if bytes(n) <= chip.vmem_bytes / LARGE || bytes(unit) > chip.vmem_bytes / CHUNK {
            return None;
        }
        let size = chip.vmem_bytes / CHUNK / bytes(unit) * unit;
        (size < n).then_some(Chunks { size, count: n / size, rest: n % size })
    }

    /// The scan of an array by an operation that the initial value does not change.
    ///
    /// # Errors
    /// A loop that could not be made.
    pub(super) fn scanned(
        &self,
        b: &mut Emit,
        scan: &Scan,
        whole: Windows<'_>,
        op: Binary,
    ) -> Result<NodeId, CompileError> {
        let (x, init) = (whole.xs[0], whole.inits[0]);
        let dims = b.dims(x).to_vec();
        let (dtype, last) = (b.dtype(x), dims.len() - 1);
        let empty = b.splat(dtype, &dims, 0.0);
        let before = b.broadcast(init, &[], &dims[..last]);
        let behind = (self.count * self.size, self.rest);
        let mut state = vec![before, empty];
        if scan.reverse && self.rest > 0 {
            let at = b.index(behind.0 as i64);
            state = step(b, (scan, whole, op), (x, init), (state[0], state[1]), (at, behind.1))?;
        }
        let all = [&state[..], &[x, init]].concat();
        let (count, size) = (self.count, self.size);
        let mut done = b.counted_loop("chunks", count, &all, |b, turn, s| {
            let (before, out, x, init) = (s[0], s[1], s[2], s[3]);
            // A multiple of the size, and no more than the last chunk's place.
            let end = ((count - 1) * size) as f64;
            let at = b.with(Binary::Mul, turn, size as f64);
            let at = if scan.reverse {
                let last = b.index(end as i64);
                b.sub(last, at)
            } else {
                at
            };
            let at = b.with(Binary::Min, at, end);
            let next = step(b, (scan, whole, op), (x, init), (before, out), (at, size))?;
            Ok([&next[..], &[x, init]].concat())
        })?;
        if !scan.reverse && self.rest > 0 {
            let at = b.index(behind.0 as i64);
            done = step(b, (scan, whole, op), (x, init), (done[0], done[1]), (at, behind.1))?;
        }
        Ok(done[1])
    }
}

/// What is left behind a chunk of so many elements, and the results with its own.
fn step(
    b: &mut Emit,
    (scan, whole, op): (&Scan, Windows<'_>, Binary),
    (x, init): (NodeId, NodeId),
    (before, out): (NodeId, NodeId),
    (at, size): (NodeId, u64),
) -> Result<Vec<NodeId>, CompileError> {
    let mut dims = b.dims(x).to_vec();
    let last = dims.len() - 1;
    dims[last] = size;
    let zero = b.index(0);
    let mut starts = vec![zero; dims.len()];
    starts[last] = at;
    let chunk = b.dynamic_slice(x, &starts, &dims);
    let mut window = vec![WindowDim::TRIVIAL; dims.len()];
    let reach = size as i64 - 1;
    let (pad_low, pad_high) = if scan.reverse { (0, reach) } else { (reach, 0) };
    window[last] = WindowDim { size, pad_low, pad_high, ..WindowDim::TRIVIAL };
    let own = lowered(b, Windows { xs: &[chunk], inits: &[init], window: &window, ..whole })?;
    let map: Vec<usize> = (0..last).collect();
    let before = b.broadcast(before, &map, &dims);
    let done = b.binary(op, before, own);
    let edge = if scan.reverse { 0 } else { size - 1 };
    let left = b.slice_dim(done, last, edge, edge + 1, 1);
    let left = b.reshape(left, &dims[..last]);
    Ok(vec![left, b.dynamic_update_slice(out, done, &starts)])
}
