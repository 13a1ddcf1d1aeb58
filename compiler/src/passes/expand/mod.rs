//! `expand`: large operations as core ones, each in a file of its own.

mod batch_norm;
mod bits;
mod gather;
mod index;
mod random;
mod scatter;
mod select_scatter;
mod sort;

use super::edit::Emit;
use crate::error::CompileError;
use crate::graph::{Node, NodeId, Op};
use crate::pipeline::PassOptions;

/// Expands one operation.
pub fn rule(b: &mut Emit, n: &Node, x: &[NodeId], options: &PassOptions) -> Result<Option<NodeId>, CompileError> {
    Ok(match &n.op {
        Op::BatchNormTraining { epsilon, feature } => Some(batch_norm::training(b, x, *epsilon, *feature)),
        Op::BatchNormInference { epsilon, feature } => Some(batch_norm::inference(b, x, *epsilon, *feature)),
        Op::BatchNormGrad { epsilon, feature } => Some(batch_norm::gradient(b, x, *epsilon, *feature)),
        Op::BitcastConvert => bits::bitcast(b, n, x[0]),
        Op::StochasticConvert => Some(bits::stochastic(b, n, x)),
        Op::DynamicSlice { sizes } => Some(index::dynamic_slice(b, sizes, x)),
        Op::DynamicUpdateSlice => Some(index::dynamic_update_slice(b, x)),
        Op::Gather(g) => Some(gather::lower(b, g, n, x)?),
        Op::Scatter(s) => Some(scatter::lower(b, s, x)?),
        Op::SelectAndScatter { window, select, scatter } => {
            Some(select_scatter::lower(b, window, *select, *scatter, x)?)
        }
        Op::RngBitGenerator { algorithm } => Some(random::bit_generator(b, n, *algorithm, x[0])?),
        Op::Rng { distribution } => Some(random::rng(b, n, *distribution, x, options.seed)?),
        Op::RngGetAndUpdateState { .. } => Some(random::state(b, n, options.seed)),
        Op::Sort { dim, stable, body } => Some(sort::lower(b, *dim, *stable, *body, x)),
        Op::TopK { k, largest } => Some(sort::top_k(b, x[0], *k, *largest)?),
        _ => None,
    })
}
