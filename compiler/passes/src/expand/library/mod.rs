//! Custom calls of linear algebra that JAX's lowerings leave: the matrix factors of the TPU's and LAPACK's names.
//!
//! The verifier has proved that operands and results are as the routine takes and gives them (`graph::infer`).

mod eigen;
mod factor;
mod form;
mod jacobi;
mod panels;
mod schur;
mod tridiagonal;

use super::{linear, triangular};
use crate::edit::{Emit, Rewritten};
use crate::options::PassOptions;
use systole_hlo::error::CompileError;
use systole_hlo::graph::library::{Routine, is_lapack, letter, routine};
use systole_hlo::graph::{Binary, Direction, Node, NodeId, Op, Shape, TriangularTranspose, Unary};
use systole_isa::DType;

/// Whether the compiler has a target's arithmetic.
pub fn is_known(target: &str) -> bool {
    routine(target).is_some()
}

fn refused(n: &Node, why: &str) -> CompileError {
    CompileError::unsupported(n.span, format!("{}: {why}", n.name))
}

/// The sizes of a result.
fn part_dims(n: &Node, index: usize) -> Vec<u64> {
    match &n.shape {
        Shape::Tuple(t) => t.get(index).and_then(Shape::as_array).map(|a| a.dims.clone()).unwrap_or_default(),
        Shape::Array(_) | Shape::Token => Vec::new(),
    }
}

/// LAPACK's `info`: 1 for matrices whose factor is not a number, else 0.
fn info(b: &mut Emit, n: &Node, index: usize, factor: Option<NodeId>) -> NodeId {
    let dims = part_dims(n, index);
    let Some(factor) = factor else { return b.splat(DType::S32, &dims, 0.0) };
    let real = b.unary(Unary::Real, factor);
    let rank = b.rank(real);
    let sum = b.reduce(real, Binary::Add, 0.0, &[rank - 2, rank - 1]);
    let bad = b.compare(Direction::Ne, sum, sum);
    b.convert(bad, DType::S32)
}

/// The triangle that LAPACK leaves as it was.
fn other_triangle(b: &mut Emit, factor: NodeId, given: NodeId, upper: bool) -> NodeId {
    let dims = b.dims(factor).to_vec();
    let (row, column) = (b.iota(DType::S32, &dims, dims.len() - 2), b.iota(DType::S32, &dims, dims.len() - 1));
    let outside = b.compare(if upper { Direction::Gt } else { Direction::Lt }, row, column);
    b.select(outside, given, factor)
}

/// Orthonormal columns `[.., m, k]` completed to `[.., m, m]`.
fn completed(b: &mut Emit, x: NodeId, lanes: u32) -> Result<NodeId, CompileError> {
    let dims = b.dims(x).to_vec();
    let last = dims.len() - 1;
    let (m, k) = (dims[last - 1], dims[last]);
    if m == k {
        return Ok(x);
    }
    let zero = b.scalar(b.dtype(x), 0.0);
    let square = b.pad_dim(x, zero, last, (0, (m - k) as i64));
    let [packed, taus] = factor::qr(b, square, lanes)?;
    let all = factor::reflectors(b, packed, taus, lanes)?;
    let rest = b.slice_dim(all, last, k, m, 1);
    Ok(b.concatenate(&[x, rest], last))
}

/// Writes a call out, if it is one of these.
///
/// # Errors
/// Operands or types that the routine does not take.
pub fn lower(b: &mut Emit, n: &Node, x: &[NodeId], options: &PassOptions) -> Rewritten {
    let Op::CustomCall { target, config, .. } = &n.op else { return Ok(None) };
    let Some(routine) = routine(target) else { return Ok(None) };
    let lapack = is_lapack(target);
    let lanes = options.chip.tile.1;
    let upper = |key| letter(config, key) == Some('U');
    let parts = match routine {
        Routine::Lu => {
            let [packed, pivots, order] = factor::lu(b, x[0], options)?;
            // LAPACK counts rows from one and has no permutation.
            match lapack {
                true => vec![packed, b.with(Binary::Add, pivots, 1.0), info(b, n, 2, None)],
                false => vec![packed, pivots, order],
            }
        }
        Routine::Qr => factor::qr(b, x[0], lanes)?.to_vec(),
        Routine::Reflectors => {
            return Ok(Some(factor::reflectors(b, x[0], x[1], lanes)?));
        }
        Routine::Eigh => {
            if b.dtype(x[0]).is_complex() {
                return Err(refused(n, "eigenvalues of complex matrices are not supported"));
            }
            // "lower,sort,.." of the TPU's call.
            let mut settings = config.split(',').map(str::trim);
            let (lower, sorted) = match lapack {
                true => (!upper("uplo"), true),
                false => (settings.next() != Some("0"), settings.next() != Some("0")),
            };
            let [vectors, values] = jacobi::eigh(b, x[0], lower, sorted)?;
            let mut parts = vec![vectors, values];
            if lapack {
                parts.push(info(b, n, 2, None));
            }
            parts
        }
        Routine::Svd => {
            // Without vectors only their shapes matter.
            if letter(config, "mode") == Some('N') && !b.dtype(x[0]).is_complex() {
                let [values, ..] = jacobi::svd(b, x[0])?;
                let mut parts = vec![x[0], values];
                for i in 2..4 {
                    let dims = part_dims(n, i);
                    parts.push(b.splat(b.dtype(x[0]), &dims, 0.0));
                }
                parts.push(info(b, n, 4, None));
                return Ok(Some(b.tuple(&parts)));
            }
            if b.dtype(x[0]).is_complex() {
                return Err(refused(n, "singular values of complex matrices are not supported"));
            }
            let [values, mut left, mut right] = jacobi::svd(b, x[0])?;
            if letter(config, "mode") == Some('A') {
                left = completed(b, left, lanes)?;
                let mut turn: Vec<usize> = (0..b.rank(right)).collect();
                turn.swap(b.rank(right) - 2, b.rank(right) - 1);
                right = b.transpose(right, &turn);
                right = completed(b, right, lanes)?;
                right = b.transpose(right, &turn);
            }
            vec![x[0], values, left, right, info(b, n, 4, None)]
        }
        Routine::Cholesky => {
            let factor = linear::cholesky(b, x[0], !upper("uplo"), options)?;
            let state = info(b, n, 1, Some(factor));
            vec![other_triangle(b, factor, x[0], upper("uplo")), state]
        }
        Routine::Hessenberg => {
            let [packed, taus] = factor::hessenberg(b, x[0], lanes)?;
            vec![packed, taus, info(b, n, 2, None)]
        }
        Routine::Tridiagonal => {
            let solved = tridiagonal::solve(b, [x[0], x[1], x[2]], x[3])?;
            [&solved.parts[..], &[solved.info]].concat()
        }
        Routine::Eig => {
            let asked = |key| letter(config, key) == Some('V');
            eigen::eig(b, x[0], [asked("compute_left"), asked("compute_right")], lanes)?
        }
        Routine::Schur => eigen::schur_parts(b, x[0], lanes)?,
        Routine::Solve => {
            let transpose = match letter(config, "trans_x") {
                Some('T') => TriangularTranspose::Transpose,
                Some('C') => TriangularTranspose::Adjoint,
                _ => TriangularTranspose::No,
            };
            let t = triangular::Triangular {
                left: letter(config, "side") != Some('R'),
                lower: !upper("uplo"),
                unit_diagonal: upper("diag"),
                transpose,
            };
            return Ok(Some(triangular::triangular_solve(b, x[0], x[1], t, options)?));
        }
    };
    Ok(Some(b.tuple(&parts)))
}
