//! `expand`: large operations as core ones, each in a file of its own.

mod batch_norm;
mod bits;
mod codes;
mod dots;
mod few;
mod fft;
mod gather;
mod index;
mod keys;
mod known;
pub(crate) mod library;
mod linear;
mod many;
mod packed;
mod random;
mod runs;
mod scatter;
mod select_scatter;
mod sort;
mod top_k;
mod triangular;
mod within;

use super::edit::{Emit, Rewritten};
use super::make::array;
use crate::options::PassOptions;
use systole_hlo::graph::{Node, NodeId, Op};

/// Expands one operation; `once`: of the entry computation, which runs once.
#[allow(clippy::wildcard_enum_match_arm, reason = "core operations stay; the type of the passes' result has no others")]
pub fn rule(b: &mut Emit, n: &Node, x: &[NodeId], (options, once): (&PassOptions, bool)) -> Rewritten {
    Ok(match &n.op {
        Op::BatchNormTraining { epsilon, feature } => Some(batch_norm::training(b, x, *epsilon, *feature)),
        Op::BatchNormInference { epsilon, feature } => Some(batch_norm::inference(b, x, *epsilon, *feature)),
        Op::BatchNormGrad { epsilon, feature } => Some(batch_norm::gradient(b, x, *epsilon, *feature)),
        Op::BitcastConvert => bits::bitcast(b, n, x[0]),
        Op::StochasticConvert => Some(bits::stochastic(b, n, x)),
        Op::DynamicSlice { sizes } => Some(index::dynamic_slice(b, sizes, x, (&options.chip, once))?),
        Op::DynamicUpdateSlice => Some(index::dynamic_update_slice(b, x, (&options.chip, once))?),
        Op::Gather(g) => Some(gather::lower(b, g, n, x, options)?),
        Op::Scatter(s) => Some(scatter::lower(b, s, x, &options.chip)?),
        Op::SelectAndScatter { window, select, scatter } => {
            Some(select_scatter::lower(b, window, (*select, *scatter), x, options)?)
        }
        Op::RngBitGenerator { algorithm } => Some(random::bit_generator(b, n, *algorithm, x[0])?),
        Op::Rng { distribution } => Some(random::rng(b, n, *distribution, x, options.seed)?),
        Op::RngGetAndUpdateState { .. } => Some(random::state(b, n, options.seed)),
        // Without elements to combine there is nothing to start from: the initial value is left out, as XLA does.
        Op::Reduce { dims, .. } if x.len() == 2 && dims.iter().all(|&d| b.dims(x[0])[d] == 1) => {
            Some(b.reshape(x[0], &array(&n.shape).dims))
        }
        Op::Sort { dim, body, .. } => Some(sort::lower(b, *dim, *body, x, room(options))?),
        Op::TopK { k, largest } => Some(top_k::lower(b, x[0], *k, *largest, room(options))?),
        Op::Fft { kind, lengths } => {
            let room = fft::Room { lanes: u64::from(options.chip.tile.1), bytes: options.chip.vmem_bytes };
            Some(fft::lower(b, x[0], *kind, lengths, (&array(&n.shape), room)))
        }
        Op::Cholesky { lower } => Some(linear::cholesky(b, x[0], *lower, options)?),
        Op::TriangularSolve { left, lower, unit_diagonal, transpose } => {
            let t = triangular::Triangular {
                left: *left,
                lower: *lower,
                unit_diagonal: *unit_diagonal,
                transpose: *transpose,
            };
            Some(triangular::triangular_solve(b, x[0], x[1], t, options)?)
        }
        Op::RaggedDot { dims, lhs_ragged, rhs_group, precision } => {
            dots::ragged::lower(b, n, x, (dims, *lhs_ragged, &rhs_group[..], *precision), options)?
        }
        Op::ScaledDot { dims, precision } => dots::scaled::lower(b, x, dims, *precision, array(&n.shape).dtype),
        Op::CustomCall { .. } => library::lower(b, n, x, options)?,
        _ => None,
    })
}

/// What sorts need to know of the chip.
fn room(options: &PassOptions) -> runs::Room {
    runs::Room {
        bytes: options.chip.vmem_bytes,
        sublanes: u64::from(options.chip.tile.0),
        lanes: u64::from(options.chip.tile.1),
    }
}

/// An array with all dimensions but the last `inner` merged into one.
fn fold_batch(b: &mut Emit, x: NodeId, inner: usize) -> NodeId {
    let dims = b.dims(x).to_vec();
    let (outer, last) = dims.split_at(dims.len() - inner);
    b.reshape(x, &[&[outer.iter().product()][..], last].concat())
}
