//! A matrix unit: a weight-stationary systolic array with staged weights, a result FIFO and accumulators.

mod format;
mod function;
mod kernel;
mod timing;

pub(crate) use function::{Destination, MxuFunction, Shape};
pub(crate) use timing::MxuTiming;
