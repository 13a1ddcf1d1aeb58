//! Reductions, windows, normalisation, sorting.

use super::{Built, Padding, XlaBuilder, XlaComputation, XlaOp, dims, refuse, sizes};
use systole_hlo::graph::{Direction, Op, Order, Shape, WindowDim};

impl XlaBuilder {
    /// Arrays reduced along dimensions by a computation of twice as many scalars.
    ///
    /// ```
    /// # use systole_front::builder::XlaBuilder;
    /// # use systole_hlo::graph::Shape;
    /// # use systole_isa::DType::S32;
    /// let mut f = XlaBuilder::new("sum");
    /// let x = f.parameter(0, &Shape::array(S32, &[]), "x").unwrap();
    /// let y = f.parameter(1, &Shape::array(S32, &[]), "y").unwrap();
    /// let sum = f.add(x, y, &[]).unwrap();
    /// let sum = f.build(sum).unwrap();
    /// let mut b = XlaBuilder::new("m");
    /// let rows = b.constant_r2(&[&[1, 2, 3], &[4, 5, 6]]).unwrap();
    /// let zero = b.constant_r0(0);
    /// let columns = b.reduce(&[rows], &[zero], &sum, &[0]).unwrap(); // {5, 7, 9}
    /// assert_eq!(b.get_shape(columns).to_string(), "s32[3]");
    /// ```
    ///
    /// # Errors
    /// Shapes or a computation that do not agree.
    pub fn reduce(
        &mut self,
        operands: &[XlaOp],
        init_values: &[XlaOp],
        computation: &XlaComputation,
        dimensions: &[i64],
    ) -> Built {
        let dims = dims("reduce", "dimensions", dimensions)?;
        let body = self.import(computation);
        self.op("reduce", Op::Reduce { dims, body }, &[operands, init_values].concat())
    }

    /// An array reduced to a scalar.
    ///
    /// # Errors
    /// As [`XlaBuilder::reduce`].
    pub fn reduce_all(&mut self, operand: XlaOp, init_value: XlaOp, computation: &XlaComputation) -> Built {
        let all: Vec<i64> = (0..self.array("reduce_all", operand)?.rank() as i64).collect();
        self.reduce(&[operand], &[init_value], computation, &all)
    }

    /// Windows of arrays reduced by a computation, padded by rule.
    ///
    /// # Errors
    /// Shapes or a computation that do not agree.
    pub fn reduce_window(
        &mut self,
        operands: &[XlaOp],
        init_values: &[XlaOp],
        computation: &XlaComputation,
        window_dimensions: &[i64],
        window_strides: &[i64],
        padding: Padding,
    ) -> Built {
        const NAME: &str = "reduce_window";
        let Some(&first) = operands.first() else { return refuse(NAME, "there is no operand") };
        let window = self.window(NAME, first, window_dimensions, window_strides, padding)?;
        self.reduce_window_with_general_padding(operands, init_values, computation, &window)
    }

    /// Windows of arrays reduced by a computation; any strides, padding and dilation.
    ///
    /// # Errors
    /// Shapes or a computation that do not agree.
    pub fn reduce_window_with_general_padding(
        &mut self,
        operands: &[XlaOp],
        init_values: &[XlaOp],
        computation: &XlaComputation,
        window: &[WindowDim],
    ) -> Built {
        let body = self.import(computation);
        let op = Op::ReduceWindow { window: window.to_vec(), body };
        self.op("reduce_window", op, &[operands, init_values].concat())
    }

    fn window(
        &self,
        name: &'static str,
        operand: XlaOp,
        dimensions: &[i64],
        strides: &[i64],
        padding: Padding,
    ) -> Built<Vec<WindowDim>> {
        let a = self.array(name, operand)?;
        let (size, stride) = (sizes(name, "window_dimensions", dimensions)?, sizes(name, "window_strides", strides)?);
        if [size.len(), stride.len()] != [a.rank(); 2] {
            return refuse(
                name,
                format!("the window of {} must have {} dimensions", Shape::Array(a.clone()), a.rank()),
            );
        }
        let pads: Vec<(i64, i64)> = padding.amounts(&a.dims, &size, &stride);
        let one = vec![1; size.len()];
        Ok(WindowDim::of_lists(&size, &stride, &pads, &one, &one))
    }

    /// In each window of the operand one element is selected; `source`'s element of the window is combined into its place.
    ///
    /// # Errors
    /// Shapes or computations that do not agree.
    pub fn select_and_scatter(
        &mut self,
        operand: XlaOp,
        select: &XlaComputation,
        window_dimensions: &[i64],
        window_strides: &[i64],
        padding: Padding,
        source: XlaOp,
        init_value: XlaOp,
        scatter: &XlaComputation,
    ) -> Built {
        const NAME: &str = "select_and_scatter";
        let window = self.window(NAME, operand, window_dimensions, window_strides, padding)?;
        let (select, scatter) = (self.import(select), self.import(scatter));
        self.op(NAME, Op::SelectAndScatter { window, select, scatter }, &[operand, source, init_value])
    }

    /// A batch normalised, with its mean and variance, as a tuple.
    ///
    /// # Errors
    /// Shapes that do not agree.
    pub fn batch_norm_training(
        &mut self,
        operand: XlaOp,
        scale: XlaOp,
        offset: XlaOp,
        epsilon: f32,
        feature_index: i64,
    ) -> Built {
        let op = |feature| Op::BatchNormTraining { epsilon, feature };
        self.batch_norm("batch_norm_training", op, feature_index, &[operand, scale, offset])
    }

    /// A batch normalised by a given mean and variance.
    ///
    /// # Errors
    /// Shapes that do not agree.
    pub fn batch_norm_inference(
        &mut self,
        operand: XlaOp,
        scale: XlaOp,
        offset: XlaOp,
        mean: XlaOp,
        variance: XlaOp,
        epsilon: f32,
        feature_index: i64,
    ) -> Built {
        let op = |feature| Op::BatchNormInference { epsilon, feature };
        self.batch_norm("batch_norm_inference", op, feature_index, &[operand, scale, offset, mean, variance])
    }

    /// The gradients of a batch normalisation by operand, scale and offset, as a tuple.
    ///
    /// # Errors
    /// Shapes that do not agree.
    pub fn batch_norm_grad(
        &mut self,
        operand: XlaOp,
        scale: XlaOp,
        batch_mean: XlaOp,
        batch_var: XlaOp,
        grad_output: XlaOp,
        epsilon: f32,
        feature_index: i64,
    ) -> Built {
        let op = |feature| Op::BatchNormGrad { epsilon, feature };
        self.batch_norm("batch_norm_grad", op, feature_index, &[operand, scale, batch_mean, batch_var, grad_output])
    }

    fn batch_norm(&mut self, name: &'static str, op: impl Fn(usize) -> Op, feature: i64, operands: &[XlaOp]) -> Built {
        let feature = dims(name, "feature_index", &[feature])?[0];
        self.op(name, op(feature), operands)
    }

    /// Arrays sorted together along a dimension by a computation of twice as many scalars.
    ///
    /// # Errors
    /// Shapes or a computation that do not agree.
    pub fn sort(&mut self, operands: &[XlaOp], comparator: &XlaComputation, dimension: i64, is_stable: bool) -> Built {
        let dim = dims("sort", "dimension", &[dimension])?[0];
        let body = self.import(comparator);
        self.op("sort", Op::Sort { dim, stable: is_stable, body }, operands)
    }

    /// The older sort: ascending by keys (in their total order, so NaNs come last), values moving with them. Without
    /// values the result is an array, else a tuple.
    ///
    /// # Errors
    /// Shapes that do not agree.
    pub fn sort_keys(&mut self, keys: XlaOp, values: &[XlaOp], dimension: i64) -> Built {
        const NAME: &str = "sort_keys";
        let key = self.array(NAME, keys)?;
        let mut f = XlaBuilder::new("less");
        let mut params = Vec::new();
        for (i, x) in [&[keys], values].concat().into_iter().enumerate() {
            let scalar = Shape::array(self.array(NAME, x)?.dtype, &[]);
            params.push(f.parameter(2 * i as i64, &scalar, "x")?);
            params.push(f.parameter(2 * i as i64 + 1, &scalar, "y")?);
        }
        let order = if key.dtype.is_float() { Order::Total } else { Order::Partial };
        let less = f.op(NAME, Op::Compare { direction: Direction::Lt, order }, &params[..2])?;
        let less = f.build(less)?;
        self.sort(&[&[keys], values].concat(), &less, dimension, true)
    }

    /// The `k` largest (or smallest) elements of the last dimension with their indices, as a tuple.
    ///
    /// # Errors
    /// If there are fewer.
    pub fn top_k(&mut self, operand: XlaOp, k: u64, largest: bool) -> Built {
        self.op("top_k", Op::TopK { k, largest }, &[operand])
    }
}
