//! The reference evaluator: what every operation means, plainly.
//!
//! It runs a module on host memory and gives the answers that the compiled program has to give. It is the judge of
//! the chip code and the constant folder of the compiler. It shares no arithmetic with either: numbers are computed
//! wide (see [`scalar`]) and brought back to their element type after every operation.
//!
//! - [`scalar`]: numbers of every element type, one at a time;
//! - [`value`]: arrays, tuples, tokens; `tensor`: index arithmetic and copies;
//! - `region`: computations over scalars as flat programs; `ops`: the operations, by family;
//! - `run`: computations, control flow, budgets; `process`: several devices; [`fold`]: single instructions.
//!
//! Where XLA leaves room, its CPU backend is followed as far as it is consistent: reductions take their initial value as
//! often, and round as often, as its order of reduction does (see `ops::initial`), but for long sums of `f32`, which are
//! kept wide and rounded once; matrix products of `bf16`, `f16` and `f8` accumulate in `f32`; subnormals of `f32`, `f64`
//! and `bf16` are flushed by arithmetic and comparisons and kept by moves.
//!
//! The module must be verified. Dynamic dimensions have their current size in the values.

#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

mod dispatch;
mod error;
pub mod fold;
mod ops;
mod process;
mod region;
mod run;
pub mod scalar;
mod tensor;
pub mod value;

pub use error::EvalError;
pub use fold::{evaluate_node, fold_constant};
pub use ops::random::{philox, threefry};
pub use process::evaluate_devices;
pub use value::{Tensor, Value};

use systole_hlo::graph::{Module, Shape};

/// How operands of an `f32` dot or convolution at default precision are rounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DotRounding {
    /// Not at all.
    #[default]
    None,
    /// To `bf16`, as one pass of the matrix unit does.
    Bf16,
}

/// How to evaluate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvalOptions {
    pub dot_rounding: DotRounding,
    /// Elements that one value may have.
    pub max_elements: u64,
    /// Instructions that may be run, those of loops each time.
    pub max_steps: u64,
    /// Seed of `rng` and of `rng-get-and-update-state`.
    pub seed: u64,
    /// Whether sums and products of floats narrower than `f32` are taken in `f32` and rounded once, as chips do, rather than
    /// at every step, as XLA's CPU backend does.
    pub f32_sums: bool,
}

impl Default for EvalOptions {
    fn default() -> EvalOptions {
        EvalOptions {
            dot_rounding: DotRounding::None,
            max_elements: 1 << 31,
            max_steps: u64::MAX,
            seed: 0,
            f32_sums: false,
        }
    }
}

/// What the world outside a device does for the program.
pub trait Host {
    /// The result of a custom call that the evaluator does not know itself; `None` if the host does not either.
    fn custom_call(&mut self, call: &HostCall, operands: &[Value]) -> Option<Result<Value, String>> {
        let _ = (call, operands);
        None
    }

    /// The next value of the infeed queue.
    fn infeed(&mut self, shape: &Shape, config: &str) -> Result<Value, String> {
        let _ = config;
        Err(format!("the infeed queue has no {shape}"))
    }

    /// A value for the outfeed queue.
    fn outfeed(&mut self, value: Value, config: &str) -> Result<(), String> {
        let _ = (value, config);
        Ok(())
    }

    /// A value sent to the host.
    fn send(&mut self, channel: Option<u64>, value: Value) -> Result<(), String> {
        let _ = value;
        Err(format!("the host does not receive on channel {channel:?}"))
    }

    /// A value received from the host.
    fn recv(&mut self, channel: Option<u64>, shape: &Shape) -> Result<Value, String> {
        let _ = shape;
        Err(format!("the host does not send on channel {channel:?}"))
    }
}

/// A custom call as a [`Host`] sees it.
#[derive(Clone, Copy, Debug)]
pub struct HostCall<'a> {
    pub target: &'a str,
    pub config: &'a str,
    pub shape: &'a Shape,
    /// The instruction's side attributes.
    pub attributes: &'a [(String, String)],
}

/// A host that offers nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHost;

impl Host for NoHost {}

/// Runs a module's entry computation on one device.
///
/// `inputs` are the parameters in order. The result is the root's value; [`Value::into_leaves`] flattens it.
///
/// # Errors
/// If the inputs do not fit, an operation is not supported, a limit is reached, or a check in the program fails.
pub fn evaluate(module: &Module, inputs: &[Value], opts: &EvalOptions) -> Result<Value, EvalError> {
    evaluate_with(module, inputs, opts, &mut NoHost)
}

/// [`evaluate`] with a host for custom calls, infeed, outfeed and host transfers.
///
/// # Errors
/// As [`evaluate`], and what the host refuses.
pub fn evaluate_with(
    module: &Module,
    inputs: &[Value],
    opts: &EvalOptions,
    host: &mut dyn Host,
) -> Result<Value, EvalError> {
    let network = process::Network::single();
    run::Machine::new(module, opts, host, &network, 0).entry(inputs)
}
