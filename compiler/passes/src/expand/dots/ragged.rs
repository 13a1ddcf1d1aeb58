//! Ragged dots: products of runs of rows with a matrix each.
//!
//! Rows are cut into tiles, and a loop goes over the pairs of a tile and a run that meet: at most one for each tile and one more
//! for each run. A pair multiplies the whole tile by the run's matrix and keeps the run's rows; where the ragged dimension is
//! contracted it takes the run's rows only and adds the product to the run's result.

use crate::edit::{Emit, Rewritten};
use crate::make::array;
use crate::options::PassOptions;
use systole_hlo::error::CompileError;
use systole_hlo::graph::{Binary, Direction, DotDims, Node, NodeId, Precision};
use systole_isa::DType;

/// Rows of a tile, if there are so many, or twice that and so on: matrices that lie in HBM are read for every pair, so that more
/// rows are worth it where the matrix units would wait for that.
const TILE: u64 = 256;
/// How often that is doubled at most.
const DOUBLED: u64 = 3;
/// Part of vector memory up to which matrices are counted on to stay there.
const NEAR: u64 = 2;
/// How often a tile's results are moved: what was there before is read, the product and what is kept of both are written.
const MOVES: u64 = 3;

/// The product, if it has no batch dimensions and one contracted dimension.
pub fn lower(
    b: &mut Emit,
    n: &Node,
    x: &[NodeId],
    (dims, ragged, group, precision): (&DotDims, usize, &[usize], Precision),
    options: &PassOptions,
) -> Rewritten {
    let (&[lk], &[rk]) = (&dims.lhs_contracting[..], &dims.rhs_contracting[..]) else { return Ok(None) };
    let plain = dims.lhs_batch.is_empty() && b.rank(x[0]) == 2 && b.rank(x[2]) == 1;
    let out = array(&n.shape);
    let done = match group {
        &[g] if plain && b.rank(x[1]) == 3 && lk != ragged => {
            // [rows, K] and [runs, K, N].
            let lhs = b.transpose(x[0], &[ragged, lk]);
            let free = 3 - g - rk;
            let rhs = b.transpose(x[1], &[g, rk, free]);
            let dims = b.dims(rhs).to_vec();
            let (matrix, read, made) = (dims[1] * dims[2], b.dtype(rhs), dims[2] * bytes(out.dtype));
            let pair = Pair {
                runs: dims[0],
                all: dims[0] * matrix * bytes(read),
                matrix,
                moved: matrix * bytes(read),
                row: dims[1] * bytes(b.dtype(lhs)),
                apart: MOVES * made,
            };
            let tile = pair.tile(b.dims(lhs)[0], options);
            rows(b, &Ragged { lhs, rhs, sizes: x[2], most: tile, precision, dtype: out.dtype })?
        }
        [] if plain && b.rank(x[1]) == 2 && lk == ragged => {
            // [rows, M] and [rows, N].
            let lhs = b.transpose(x[0], &[lk, 1 - lk]);
            let rhs = b.transpose(x[1], &[rk, 1 - rk]);
            let (matrix, sum) = (b.dims(lhs)[1] * b.dims(rhs)[1], bytes(sum_of(out.dtype)));
            let pair = Pair {
                runs: b.dims(x[2])[0],
                all: out.elements() * sum,
                matrix,
                moved: 2 * matrix * sum,
                row: b.dims(lhs)[1] * bytes(b.dtype(lhs)) + b.dims(rhs)[1] * bytes(b.dtype(rhs)),
                apart: 0,
            };
            let tile = pair.tile(b.dims(lhs)[0], options);
            runs(b, &Ragged { lhs, rhs, sizes: x[2], most: tile, precision, dtype: out.dtype })?
        }
        _ => return Ok(None),
    };
    Ok(Some(done))
}

fn bytes(dtype: DType) -> u64 {
    (dtype.bits() as u64).div_ceil(8)
}

/// The type that products of runs are summed in.
fn sum_of(dtype: DType) -> DType {
    if dtype.is_float() && dtype.bits() < 32 { DType::F32 } else { dtype }
}

/// What takes the time of a pair of a tile and a run: sizes in elements and bytes.
struct Pair {
    runs: u64,
    /// Bytes of all matrices.
    all: u64,
    /// Elements of a matrix, and bytes that are moved for it.
    matrix: u64,
    moved: u64,
    /// Bytes that are moved for a row of the tile beside products, and before and behind them.
    row: u64,
    apart: u64,
}

impl Pair {
    /// Rows of a tile: fewer are more pairs, which all move a matrix; more are more rows that are multiplied for a run that has none of
    /// them.
    fn tile(&self, rows: u64, options: &PassOptions) -> u64 {
        if self.all <= options.chip.vmem_bytes / NEAR {
            return TILE;
        }
        let rates = &options.chip.rates;
        let seconds = |tile: u64| {
            let moved = |bytes: u64| bytes as f64 / rates.memory;
            let product = 2.0 * (tile * self.matrix) as f64 / rates.flops;
            let pair = product.max(moved(self.moved + tile * self.row)) + moved(tile * self.apart);
            (rows.div_ceil(tile) + self.runs - 1) as f64 * pair
        };
        let tiles = (0..=DOUBLED).map(|n| TILE << n).filter(|&tile| tile == TILE || tile <= rows);
        tiles.min_by(|&x, &y| seconds(x).total_cmp(&seconds(y))).unwrap_or(TILE)
    }
}

/// Tiles and runs that meet, pair by pair: `s32[pairs]` each.
struct Pairs {
    tile: u64,
    tiles: u64,
    count: u64,
    /// The pair's tile and run, and the rows of the tile that are the run's: first and one past the last.
    tile_of: NodeId,
    run_of: NodeId,
    first: NodeId,
    end: NodeId,
}

fn pairs(b: &mut Emit, rows: u64, most: u64, sizes: NodeId) -> Pairs {
    let tile = rows.min(most).next_multiple_of(32);
    let tiles = rows.div_ceil(tile);
    let g = b.dims(sizes)[0];
    let count = tiles + g - 1;
    let sizes = b.convert(sizes, DType::S32);
    // Sums of the sizes up to each run: runs are few.
    let sums = |b: &mut Emit, x: NodeId| {
        let all = b.broadcast(x, &[1], &[g, g]);
        let (i, j) = (b.iota(DType::S32, &[g, g], 0), b.iota(DType::S32, &[g, g], 1));
        let upto = b.compare(Direction::Le, j, i);
        let none = b.splat(DType::S32, &[g, g], 0.0);
        let kept = b.select(upto, all, none);
        b.reduce(kept, Binary::Add, 0.0, &[1])
    };
    let limit = b.splat(DType::S32, &[g], rows as f64);
    let ends = sums(b, sizes);
    let ends = b.binary(Binary::Min, ends, limit);
    let starts = b.sub(ends, sizes);
    let starts = b.with(Binary::Max, starts, 0.0);
    let first_tile = b.with(Binary::Div, starts, tile as f64);
    let past = b.with(Binary::Add, ends, (tile - 1) as f64);
    let past = b.with(Binary::Div, past, tile as f64);
    let met = b.sub(past, first_tile);
    let some = b.compare(Direction::Gt, ends, starts);
    let none = b.splat(DType::S32, &[g], 0.0);
    let met = b.select(some, met, none);
    let upto = sums(b, met);
    let before = b.sub(upto, met);
    // The run of a pair is that whose pairs it is among.
    let spread = |b: &mut Emit, x: NodeId| b.broadcast(x, &[1], &[count, g]);
    let number = b.iota(DType::S32, &[count, g], 0);
    let (low, high) = (spread(b, before), spread(b, upto));
    let above = b.compare(Direction::Ge, number, low);
    let below = b.compare(Direction::Lt, number, high);
    let among = b.and(above, below);
    let pick = |b: &mut Emit, x: NodeId| {
        let none = b.splat(DType::S32, &[count, g], 0.0);
        let kept = b.select(among, x, none);
        b.reduce(kept, Binary::Add, 0.0, &[1])
    };
    let run = b.iota(DType::S32, &[count, g], 1);
    let run_of = pick(b, run);
    let step = b.sub(number, low);
    let tile_at = spread(b, first_tile);
    let tile_at = b.add(tile_at, step);
    let tile_of = pick(b, tile_at);
    let begin = b.with(Binary::Mul, tile_of, tile as f64);
    let (starts, ends) = (spread(b, starts), spread(b, ends));
    let (starts, ends) = (pick(b, starts), pick(b, ends));
    let (first, end) = (b.sub(starts, begin), b.sub(ends, begin));
    Pairs { tile, tiles, count, tile_of, run_of, first, end }
}

/// An array of rows as `[tiles, rows of a tile, columns]`.
fn tiled(b: &mut Emit, x: NodeId, p: &Pairs) -> NodeId {
    let dims = b.dims(x).to_vec();
    let zero = b.scalar(b.dtype(x), 0.0);
    let more = (p.tiles * p.tile - dims[0]) as i64;
    let x = b.pad_dim(x, zero, 0, (0, more));
    b.reshape(x, &[p.tiles, p.tile, dims[1]])
}

/// Element `at` of an array of one dimension.
fn at(b: &mut Emit, x: NodeId, at: NodeId) -> NodeId {
    let one = b.dynamic_slice(x, &[at], &[1]);
    b.reshape(one, &[])
}

/// Matrix `at` of an array of them.
fn matrix(b: &mut Emit, x: NodeId, at: NodeId) -> NodeId {
    let dims = b.dims(x).to_vec();
    let zero = b.index(0);
    let one = b.dynamic_slice(x, &[at, zero, zero], &[1, dims[1], dims[2]]);
    b.reshape(one, &dims[1..])
}

/// Puts matrix `at` into an array of them.
fn put(b: &mut Emit, x: NodeId, value: NodeId, at: NodeId) -> NodeId {
    let dims = b.dims(x).to_vec();
    let zero = b.index(0);
    let value = b.reshape(value, &[1, dims[1], dims[2]]);
    b.dynamic_update_slice(x, value, &[at, zero, zero])
}

/// Which rows of a tile are the pair's: `pred[rows, columns]`.
fn own_rows(b: &mut Emit, (first, end): (NodeId, NodeId), dims: &[u64]) -> NodeId {
    let row = b.iota(DType::S32, dims, 0);
    let (first, end) = (b.broadcast(first, &[], dims), b.broadcast(end, &[], dims));
    let (above, below) = (b.compare(Direction::Ge, row, first), b.compare(Direction::Lt, row, end));
    b.and(above, below)
}

fn contracting(lhs: usize, rhs: usize) -> DotDims {
    DotDims { lhs_batch: Vec::new(), rhs_batch: Vec::new(), lhs_contracting: vec![lhs], rhs_contracting: vec![rhs] }
}

/// Operands of a product by runs of rows, with the rows of a tile at most and what is made of them.
struct Ragged {
    lhs: NodeId,
    rhs: NodeId,
    sizes: NodeId,
    most: u64,
    precision: Precision,
    dtype: DType,
}

/// Where a pair of a tile and a run is: their numbers, and the rows of the tile that are the run's.
struct Place {
    tile: NodeId,
    run: NodeId,
    rows: (NodeId, NodeId),
}

/// Changes an array of matrices for every pair: `f` gets it with both operands, and makes the next one.
fn each_pair(
    b: &mut Emit,
    p: &Pairs,
    arrays: [NodeId; 3],
    f: impl FnOnce(&mut Emit, [NodeId; 3], &Place) -> NodeId,
) -> Result<NodeId, CompileError> {
    let state = [&arrays[..], &[p.tile_of, p.run_of, p.first, p.end]].concat();
    let done = b.counted_loop("ragged-dot", p.count, &state, |b, counter, s| {
        let [tile, run, first, end] = [3, 4, 5, 6].map(|i| at(b, s[i], counter));
        let out = f(b, [s[0], s[1], s[2]], &Place { tile, run, rows: (first, end) });
        Ok([&[out][..], &s[1..]].concat())
    })?;
    Ok(done[0])
}

/// `[rows, N]`: each run of rows of `[rows, K]` with its own `[K, N]`.
fn rows(b: &mut Emit, r: &Ragged) -> Result<NodeId, CompileError> {
    let (m, n) = (b.dims(r.lhs)[0], b.dims(r.rhs)[2]);
    let p = pairs(b, m, r.most, r.sizes);
    let lhs = tiled(b, r.lhs, &p);
    let empty = b.splat(r.dtype, &[p.tiles, p.tile, n], 0.0);
    let done = each_pair(b, &p, [empty, lhs, r.rhs], |b, [out, lhs, rhs], at| {
        let (x, w, old) = (matrix(b, lhs, at.tile), matrix(b, rhs, at.run), matrix(b, out, at.tile));
        let product = b.dot(x, w, contracting(1, 0), r.precision, r.dtype);
        let own = own_rows(b, at.rows, &[p.tile, n]);
        let new = b.select(own, product, old);
        put(b, out, new, at.tile)
    })?;
    let flat = b.reshape(done, &[p.tiles * p.tile, n]);
    Ok(b.slice_dim(flat, 0, 0, m, 1))
}

/// `[runs, M, N]`: the product of each run of rows of `[rows, M]` and `[rows, N]`.
fn runs(b: &mut Emit, r: &Ragged) -> Result<NodeId, CompileError> {
    let (k, m, n) = (b.dims(r.lhs)[0], b.dims(r.lhs)[1], b.dims(r.rhs)[1]);
    let g = b.dims(r.sizes)[0];
    let sum = sum_of(r.dtype);
    let p = pairs(b, k, r.most, r.sizes);
    let (lhs, rhs) = (tiled(b, r.lhs, &p), tiled(b, r.rhs, &p));
    let empty = b.splat(sum, &[g, m, n], 0.0);
    let done = each_pair(b, &p, [empty, lhs, rhs], |b, [out, lhs, rhs], at| {
        let (x, y, old) = (matrix(b, lhs, at.tile), matrix(b, rhs, at.tile), matrix(b, out, at.run));
        let own = own_rows(b, at.rows, &[p.tile, m]);
        let none = b.splat(b.dtype(x), &[p.tile, m], 0.0);
        let x = b.select(own, x, none);
        let product = b.dot(x, y, contracting(0, 0), r.precision, sum);
        let new = b.add(old, product);
        put(b, out, new, at.run)
    })?;
    Ok(b.convert(done, r.dtype))
}
