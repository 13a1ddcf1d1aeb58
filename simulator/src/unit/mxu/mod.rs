//! A matrix unit: a weight-stationary systolic array with staged weights, a result FIFO and accumulators.

mod format;
mod function;
mod kernel;
mod product;
mod ring;
mod timing;

pub(crate) use function::MxuFunction;
pub(crate) use product::{Beside, Destination, Shape};
pub(crate) use timing::MxuTiming;
