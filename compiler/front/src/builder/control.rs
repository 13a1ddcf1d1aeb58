//! Tuples, calls, control flow, and what goes between device and host.

use super::{Built, XlaBuilder, XlaComputation, XlaOp, dims, refuse};
use systole_hlo::graph::{Op, Shape};

impl XlaBuilder {
    pub fn tuple(&mut self, elements: &[XlaOp]) -> Built {
        self.op("tuple", Op::Tuple, elements)
    }

    /// An element of a tuple.
    ///
    /// # Errors
    /// If there is none of that number.
    pub fn get_tuple_element(&mut self, tuple_data: XlaOp, index: i64) -> Built {
        let index = dims("get_tuple_element", "index", &[index])?[0];
        self.op("get_tuple_element", Op::GetTupleElement { index }, &[tuple_data])
    }

    /// The operand; no operation moves across.
    ///
    /// # Errors
    /// None that are known.
    pub fn optimization_barrier(&mut self, operand: XlaOp) -> Built {
        self.op("optimization_barrier", Op::OptBarrier, &[operand])
    }

    /// A token that orders what takes it after what made `operands`.
    ///
    /// # Errors
    /// Operands that are no tokens.
    pub fn after_all(&mut self, operands: &[XlaOp]) -> Built {
        self.op("after_all", Op::AfterAll, operands)
    }

    /// A token of nothing before.
    ///
    /// # Errors
    /// None that are known.
    pub fn create_token(&mut self) -> Built {
        self.after_all(&[])
    }

    /// The result of a computation.
    ///
    /// # Errors
    /// Operands that are not its parameters.
    pub fn call(&mut self, computation: &XlaComputation, operands: &[XlaOp]) -> Built {
        let body = self.import(computation);
        self.op("call", Op::Call { body }, operands)
    }

    /// The result of a composite's decomposition.
    ///
    /// # Errors
    /// As [`XlaBuilder::call`].
    pub fn composite_call(&mut self, computation: &XlaComputation, operands: &[XlaOp], name: &str) -> Built {
        let called = self.call(computation, operands)?;
        self.body.attribute(called.0, "is_composite", "true");
        self.body.attribute(called.0, "frontend_attributes", &format!("{{composite.name={name:?}}}"));
        Ok(called)
    }

    /// `body` applied to `init`, again and again while `condition` holds.
    ///
    /// ```
    /// # use systole_front::builder::XlaBuilder;
    /// # use systole_hlo::graph::Shape;
    /// # use systole_isa::DType::S32;
    /// let state = Shape::Tuple(vec![Shape::array(S32, &[]), Shape::array(S32, &[10])]);
    /// let mut c = XlaBuilder::new("condition");
    /// let s = c.parameter(0, &state, "state").unwrap();
    /// let (i, limit) = (c.get_tuple_element(s, 0).unwrap(), c.constant_r0(1000));
    /// let less = c.lt(i, limit, &[]).unwrap();
    /// let condition = c.build(less).unwrap();
    /// let mut f = XlaBuilder::new("body");
    /// let s = f.parameter(0, &state, "state").unwrap();
    /// let (i, v) = (f.get_tuple_element(s, 0).unwrap(), f.get_tuple_element(s, 1).unwrap());
    /// let one = f.constant_r0(1);
    /// let (i, v) = (f.add(i, one, &[]).unwrap(), f.add(v, i, &[]).unwrap());
    /// let next = f.tuple(&[i, v]).unwrap();
    /// let body = f.build(next).unwrap();
    /// let mut b = XlaBuilder::new("m");
    /// let zero = b.constant_r0(0);
    /// let start = b.broadcast(zero, &[10]).unwrap();
    /// let init = b.tuple(&[zero, start]).unwrap();
    /// let end = b.while_(&condition, &body, init).unwrap();
    /// assert_eq!(b.get_shape(end), &state);
    /// ```
    ///
    /// # Errors
    /// Computations that do not take and give the state.
    pub fn while_(&mut self, condition: &XlaComputation, body: &XlaComputation, init: XlaOp) -> Built {
        let (condition, body) = (self.import(condition), self.import(body));
        self.op("while", Op::While { condition, body }, &[init])
    }

    /// `true_computation` of `true_operand` if `predicate` holds, else the other.
    ///
    /// # Errors
    /// Computations that do not fit, or give different shapes.
    pub fn conditional(
        &mut self,
        predicate: XlaOp,
        true_operand: XlaOp,
        true_computation: &XlaComputation,
        false_operand: XlaOp,
        false_computation: &XlaComputation,
    ) -> Built {
        let branches = vec![self.import(true_computation), self.import(false_computation)];
        self.op("conditional", Op::Conditional { branches }, &[predicate, true_operand, false_operand])
    }

    /// The computation of number `branch_index` of its operand; the last for numbers that there are not.
    ///
    /// # Errors
    /// Computations that do not fit, or give different shapes.
    pub fn conditional_indexed(
        &mut self,
        branch_index: XlaOp,
        branch_computations: &[&XlaComputation],
        branch_operands: &[XlaOp],
    ) -> Built {
        let branches = branch_computations.iter().map(|c| self.import(c)).collect();
        self.op("conditional", Op::Conditional { branches }, &[&[branch_index], branch_operands].concat())
    }

    /// The answer of a host function, of the shape given.
    ///
    /// # Errors
    /// None that are known before the program runs.
    pub fn custom_call(
        &mut self,
        call_target_name: &str,
        operands: &[XlaOp],
        shape: &Shape,
        opaque: &str,
        has_side_effect: bool,
    ) -> Built {
        let (target, config) = (call_target_name.to_string(), opaque.to_string());
        let op = Op::CustomCall { target, config, has_side_effect, calls: Vec::new() };
        self.shaped("custom_call", op, operands, shape.clone())
    }

    /// Data of the queue from the host, and a token, as a tuple.
    ///
    /// # Errors
    /// What is no token.
    pub fn infeed_with_token(&mut self, token: XlaOp, shape: &Shape, config: &str) -> Built {
        let result = Shape::Tuple(vec![shape.clone(), Shape::Token]);
        self.shaped("infeed", Op::Infeed { config: config.to_string() }, &[token], result)
    }

    /// Data of the queue from the host; an empty tuple reads nothing.
    ///
    /// # Errors
    /// None that are known.
    pub fn infeed(&mut self, shape: &Shape, config: &str) -> Built {
        let token = self.create_token()?;
        let pair = self.infeed_with_token(token, shape, config)?;
        self.get_tuple_element(pair, 0)
    }

    /// Data to the queue to the host; a token.
    ///
    /// # Errors
    /// Data of another shape.
    pub fn outfeed_with_token(&mut self, operand: XlaOp, token: XlaOp, shape: &Shape, config: &str) -> Built {
        if !self.get_shape(operand).same(shape) {
            return refuse("outfeed", format!("the operand is {}, not {shape}", self.get_shape(operand)));
        }
        let op = Op::Outfeed { shape: shape.clone(), config: config.to_string() };
        self.op("outfeed", op, &[operand, token])
    }

    /// Data to the queue to the host.
    ///
    /// # Errors
    /// Data of another shape.
    pub fn outfeed(&mut self, operand: XlaOp, shape: &Shape, config: &str) -> Built {
        let token = self.create_token()?;
        self.outfeed_with_token(operand, token, shape, config)
    }
}
