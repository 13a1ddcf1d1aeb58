//! Programs built call by call, with the operations of XLA's builder in snake case and its order of arguments.
//!
//! Every call checks its operands against the operation's shape rule and gives the new value, or says what is wrong.
//! Broadcasting is explicit (see [`XlaBuilder::add`]); reshapes and broadcasts that a call implies are operations of their
//! own in the module. Computations that operations call (of a reduction, a loop, ..) are built first, by builders of
//! their own.
//!
//! ```
//! use systole_front::builder::XlaBuilder;
//! use systole_eval::{EvalOptions, evaluate};
//!
//! let mut b = XlaBuilder::new("axpy");
//! let x = b.constant_r1(&[1.0f32, 2.0, 3.0]);
//! let a = b.constant_r0(10f32);
//! let y = b.mul(a, x, &[]).unwrap();
//! let y = b.add(y, x, &[]).unwrap();
//! let program = b.build(y).unwrap();
//! let result = evaluate(program.module(), &[], &EvalOptions::default()).unwrap();
//! assert_eq!(result.into_leaves()[0].bytes()[..4], 11f32.to_le_bytes());
//! ```

mod broadcasting;
mod constants;
mod contraction;
mod control;
mod devices;
mod elementwise;
mod movement;
mod windows;

pub use constants::NativeType;
pub use contraction::Padding;

use systole_hlo::graph::build::ComputationBuilder;
use systole_hlo::graph::infer::ShapeError;
use systole_hlo::graph::{ArrayShape, CompId, Module, NodeId, Op, Shape};

/// A value of the computation being built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct XlaOp(NodeId);

/// Why a call is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{operation}: {message}")]
pub struct BuildError {
    /// The builder's operation.
    pub operation: &'static str,
    pub message: String,
}

/// What a call gives.
pub type Built<T = XlaOp> = Result<T, BuildError>;

/// A finished computation, with what it calls.
#[derive(Clone, Debug)]
pub struct XlaComputation {
    module: Module,
}

impl XlaComputation {
    /// The computation as a program.
    pub fn module(&self) -> &Module {
        &self.module
    }

    pub fn into_module(self) -> Module {
        self.module
    }
}

/// A computation being built.
#[derive(Clone, Debug)]
pub struct XlaBuilder {
    /// Computations that this one calls.
    module: Module,
    body: ComputationBuilder,
    parameters: i64,
}

fn refuse<T>(operation: &'static str, message: impl Into<String>) -> Built<T> {
    Err(BuildError { operation, message: message.into() })
}

impl XlaBuilder {
    /// A builder of a computation of that name.
    pub fn new(name: &str) -> XlaBuilder {
        XlaBuilder { module: Module::empty(name), body: ComputationBuilder::new(name), parameters: 0 }
    }

    /// Ends the computation: `root` is its result.
    ///
    /// # Errors
    /// If the program breaks a rule that concerns it as a whole.
    pub fn build(self, root: XlaOp) -> Built<XlaComputation> {
        let XlaBuilder { mut module, body, .. } = self;
        module.entry = module.push(body.finish(root.0));
        match systole_hlo::graph::verify::verify(&module) {
            Ok(()) => Ok(XlaComputation { module }),
            Err(errors) => refuse("build", errors.first().map_or_else(String::new, |e| e.message.clone())),
        }
    }

    /// The shape of a value.
    pub fn get_shape(&self, x: XlaOp) -> &Shape {
        self.body.shape(x.0)
    }

    /// Parameter `number` of the computation. Parameters are declared in order.
    ///
    /// # Errors
    /// If it is not the next one.
    pub fn parameter(&mut self, number: i64, shape: &Shape, name: &str) -> Built {
        if number != self.parameters {
            return refuse("parameter", format!("number {number} is declared where {} is due", self.parameters));
        }
        self.parameters += 1;
        let id = self.body.parameter(shape.clone());
        self.body.rename(id, name);
        Ok(XlaOp(id))
    }

    fn op(&mut self, operation: &'static str, op: Op, operands: &[XlaOp]) -> Built {
        let ids: Vec<NodeId> = operands.iter().map(|o| o.0).collect();
        let added = self.body.add(op, &ids, &self.module);
        added.map(XlaOp).map_err(|e: ShapeError| BuildError { operation, message: e.message })
    }

    fn shaped(&mut self, operation: &'static str, op: Op, operands: &[XlaOp], shape: Shape) -> Built {
        let ids: Vec<NodeId> = operands.iter().map(|o| o.0).collect();
        let added = self.body.add_shaped(op, &ids, shape, &self.module);
        added.map(XlaOp).map_err(|e: ShapeError| BuildError { operation, message: e.message })
    }

    fn array(&self, operation: &'static str, x: XlaOp) -> Built<ArrayShape> {
        match self.get_shape(x) {
            Shape::Array(a) => Ok(a.clone()),
            other @ (Shape::Tuple(_) | Shape::Token) => refuse(operation, format!("expected an array, not {other}")),
        }
    }

    /// Takes over a computation, with what it calls.
    fn import(&mut self, c: &XlaComputation) -> CompId {
        let base = self.module.computations.len() as u32;
        let taken: Vec<String> = self.module.computations.iter().map(|c| c.name.clone()).collect();
        for computation in &c.module.computations {
            let mut computation = computation.clone();
            while taken.contains(&computation.name) || computation.name == self.module.name {
                computation.name += &format!(".{base}");
            }
            for n in &mut computation.nodes {
                n.op.for_each_called(|c| c.0 += base);
            }
            self.module.push(computation);
        }
        CompId(base + c.module.entry.0)
    }
}

/// Dimension numbers, which must not be negative.
fn dims(operation: &'static str, what: &str, v: &[i64]) -> Built<Vec<usize>> {
    let all: Option<Vec<usize>> = v.iter().map(|d| usize::try_from(*d).ok()).collect();
    match all {
        Some(d) => Ok(d),
        None => refuse(operation, format!("{what} {v:?} has a negative number")),
    }
}

/// Sizes, which must not be negative.
fn sizes(operation: &'static str, what: &str, v: &[i64]) -> Built<Vec<u64>> {
    Ok(dims(operation, what, v)?.into_iter().map(|d| d as u64).collect())
}
