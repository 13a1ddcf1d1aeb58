//! Shapes and data movement.

use super::{Built, XlaBuilder, XlaComputation, XlaOp, dims, refuse, sizes};
use systole_hlo::graph::{Gather, Op, PadDim, Scatter, Shape, SliceDim};

impl XlaBuilder {
    /// The operand repeated along new dimensions before its own.
    ///
    /// # Errors
    /// Negative sizes.
    pub fn broadcast(&mut self, operand: XlaOp, broadcast_sizes: &[i64]) -> Built {
        let a = self.array("broadcast", operand)?;
        let to = [sizes("broadcast", "broadcast_sizes", broadcast_sizes)?, a.dims.clone()].concat();
        let map = (broadcast_sizes.len()..to.len()).collect();
        self.shaped("broadcast", Op::Broadcast { dims: map }, &[operand], Shape::array(a.dtype, &to))
    }

    /// The operand at other sizes: its dimension `i`, if it has size 1 repeated, becomes dimension
    /// `broadcast_dimensions[i]`.
    ///
    /// ```
    /// # use systole_front::builder::XlaBuilder;
    /// let mut b = XlaBuilder::new("m");
    /// let column = b.constant_r2(&[&[1], &[2]]).unwrap();
    /// let x = b.broadcast_in_dim(column, &[2, 3], &[0, 1]).unwrap(); // {{1, 1, 1}, {2, 2, 2}}
    /// assert_eq!(b.get_shape(x).to_string(), "s32[2,3]");
    /// ```
    ///
    /// # Errors
    /// Dimensions that do not fit.
    pub fn broadcast_in_dim(&mut self, operand: XlaOp, out_dim_sizes: &[i64], broadcast_dimensions: &[i64]) -> Built {
        const NAME: &str = "broadcast_in_dim";
        let a = self.array(NAME, operand)?;
        let to = sizes(NAME, "out_dim_sizes", out_dim_sizes)?;
        let map = dims(NAME, "broadcast_dimensions", broadcast_dimensions)?;
        if map.len() != a.rank() || map.iter().any(|d| *d >= to.len()) {
            let message = format!("broadcast_dimensions {map:?} of {} to {to:?}", Shape::Array(a));
            return refuse(NAME, message);
        }
        let kept: Vec<usize> = (0..a.rank()).filter(|&d| a.dims[d] == to[map[d]]).collect();
        if (0..a.rank()).any(|d| !kept.contains(&d) && a.dims[d] != 1) {
            let message = format!("a size of {} is neither 1 nor that of {to:?} at {map:?}", Shape::Array(a));
            return refuse(NAME, message);
        }
        let small: Vec<u64> = kept.iter().map(|&d| a.dims[d]).collect();
        let x = if kept.len() == a.rank() {
            operand
        } else {
            self.shaped(NAME, Op::Reshape, &[operand], Shape::array(a.dtype, &small))?
        };
        let map = kept.iter().map(|&d| map[d]).collect();
        self.shaped(NAME, Op::Broadcast { dims: map }, &[x], Shape::array(a.dtype, &to))
    }

    /// The dimensions listed, which must be consecutive and in order, made one.
    ///
    /// ```
    /// # use systole_front::builder::XlaBuilder;
    /// # use systole_hlo::graph::Shape;
    /// let mut b = XlaBuilder::new("m");
    /// let v = b.parameter(0, &Shape::array(systole_isa::DType::F32, &[4, 2, 3]), "v").unwrap();
    /// for (dimensions, shape) in
    ///     [(&[0, 1, 2][..], "f32[24]"), (&[0, 1][..], "f32[8,3]"), (&[1, 2][..], "f32[4,6]")]
    /// {
    ///     let x = b.collapse(v, dimensions).unwrap();
    ///     assert_eq!(b.get_shape(x).to_string(), shape);
    /// }
    /// assert!(b.collapse(v, &[0, 2]).is_err() && b.collapse(v, &[1, 0]).is_err());
    /// ```
    ///
    /// # Errors
    /// Dimensions that are not consecutive, in order, and of the operand.
    pub fn collapse(&mut self, operand: XlaOp, dimensions: &[i64]) -> Built {
        const NAME: &str = "collapse";
        let a = self.array(NAME, operand)?;
        let list = dims(NAME, "dimensions", dimensions)?;
        if list.windows(2).any(|w| w[1] != w[0] + 1) || list.last().is_some_and(|d| *d >= a.rank()) {
            let message =
                format!("dimensions {dimensions:?} must be consecutive dimensions of {} in order", Shape::Array(a));
            return refuse(NAME, message);
        }
        let (Some(&first), Some(&last)) = (list.first(), list.last()) else { return Ok(operand) };
        let merged: u64 = a.dims[first..=last].iter().product();
        let to = [&a.dims[..first], &[merged], &a.dims[last + 1..]].concat();
        self.shaped(NAME, Op::Reshape, &[operand], Shape::array(a.dtype, &to))
    }

    /// The elements, taken in the order of `dimensions` (the first slowest), at new sizes.
    ///
    /// ```
    /// # use systole_front::builder::XlaBuilder;
    /// # use systole_hlo::graph::Shape;
    /// let mut b = XlaBuilder::new("m");
    /// let v = b.parameter(0, &Shape::array(systole_isa::DType::F32, &[4, 2, 3]), "v").unwrap();
    /// let rows = b.reshape(v, &[0, 1, 2], &[24]).unwrap();
    /// let turned = b.reshape(v, &[1, 2, 0], &[2, 6, 2]).unwrap();
    /// assert_eq!(b.get_shape(rows).to_string(), "f32[24]");
    /// assert_eq!(b.get_shape(turned).to_string(), "f32[2,6,2]");
    /// assert!(b.reshape(v, &[0, 1], &[24]).is_err());
    /// ```
    ///
    /// # Errors
    /// Dimensions that are no permutation of the operand's, or another number of elements.
    pub fn reshape(&mut self, operand: XlaOp, dimensions: &[i64], new_sizes: &[i64]) -> Built {
        let turned = self.transpose(operand, dimensions)?;
        self.reshape_to(turned, new_sizes)
    }

    /// The elements in row-major order at new sizes (the two-argument form of `Reshape`).
    ///
    /// # Errors
    /// Another number of elements.
    pub fn reshape_to(&mut self, operand: XlaOp, new_sizes: &[i64]) -> Built {
        let a = self.array("reshape", operand)?;
        let to = sizes("reshape", "new_sizes", new_sizes)?;
        self.shaped("reshape", Op::Reshape, &[operand], Shape::array(a.dtype, &to))
    }

    /// The dimensions in another order: dimension `i` of the result is `permutation[i]` of the operand.
    ///
    /// # Errors
    /// What is no permutation.
    pub fn transpose(&mut self, operand: XlaOp, permutation: &[i64]) -> Built {
        let permutation = dims("transpose", "permutation", permutation)?;
        if permutation.iter().copied().eq(0..self.array("transpose", operand)?.rank()) {
            return Ok(operand);
        }
        self.op("transpose", Op::Transpose { permutation }, &[operand])
    }

    /// The elements in reverse order along dimensions.
    ///
    /// # Errors
    /// Dimensions that the operand does not have.
    pub fn rev(&mut self, operand: XlaOp, dimensions: &[i64]) -> Built {
        let dims = dims("rev", "dimensions", dimensions)?;
        self.op("rev", Op::Reverse { dims }, &[operand])
    }

    /// A part of an array: from `start_indices` to before `limit_indices`, by `strides`.
    ///
    /// ```
    /// # use systole_front::builder::XlaBuilder;
    /// let mut b = XlaBuilder::new("m");
    /// let a = b.constant_r1(&[0.0f32, 1.0, 2.0, 3.0, 4.0]);
    /// let part = b.slice(a, &[2], &[4], &[1]).unwrap(); // {2, 3}
    /// assert_eq!(b.get_shape(part).to_string(), "f32[2]");
    /// ```
    ///
    /// # Errors
    /// Indices outside of the operand.
    pub fn slice(&mut self, operand: XlaOp, start_indices: &[i64], limit_indices: &[i64], strides: &[i64]) -> Built {
        const NAME: &str = "slice";
        let starts = sizes(NAME, "start_indices", start_indices)?;
        let limits = sizes(NAME, "limit_indices", limit_indices)?;
        let strides = sizes(NAME, "strides", strides)?;
        let rank = self.array(NAME, operand)?.rank();
        if [starts.len(), limits.len(), strides.len()] != [rank; 3] {
            return refuse(NAME, format!("starts, limits and strides must each have {rank} numbers"));
        }
        let all = starts.iter().zip(&limits).zip(&strides);
        let dims = all.map(|((&start, &limit), &stride)| SliceDim { start, limit, stride }).collect();
        self.op(NAME, Op::Slice { dims }, &[operand])
    }

    /// A slice along one dimension.
    ///
    /// # Errors
    /// Indices outside of the operand.
    pub fn slice_in_dim(&mut self, operand: XlaOp, start: i64, limit: i64, stride: i64, dimno: i64) -> Built {
        const NAME: &str = "slice_in_dim";
        let a = self.array(NAME, operand)?;
        let d = dims(NAME, "dimno", &[dimno])?[0];
        if d >= a.rank() {
            return refuse(NAME, format!("{} has no dimension {d}", Shape::Array(a)));
        }
        let (mut starts, mut strides) = (vec![0; a.rank()], vec![1; a.rank()]);
        let mut limits: Vec<i64> = a.dims.iter().map(|&s| s as i64).collect();
        (starts[d], limits[d], strides[d]) = (start, limit, stride);
        self.slice(operand, &starts, &limits, &strides)
    }

    /// Arrays one after the other along a dimension.
    ///
    /// ```
    /// # use systole_front::builder::XlaBuilder;
    /// let mut b = XlaBuilder::new("m");
    /// let rows: Vec<_> = [[2, 3], [4, 5], [6, 7]].iter().map(|r| b.constant_r1(r)).collect();
    /// let all = b.concat_in_dim(&rows, 0).unwrap(); // {2, 3, 4, 5, 6, 7}
    /// assert_eq!(b.get_shape(all).to_string(), "s32[6]");
    /// ```
    ///
    /// # Errors
    /// Shapes that differ in another dimension.
    pub fn concat_in_dim(&mut self, operands: &[XlaOp], dimension: i64) -> Built {
        let dim = dims("concat_in_dim", "dimension", &[dimension])?[0];
        self.op("concat_in_dim", Op::Concatenate { dim }, operands)
    }

    /// [`XlaBuilder::concat_in_dim`] by its older name.
    ///
    /// # Errors
    /// As there.
    pub fn concatenate(&mut self, operands: &[XlaOp], dimension: i64) -> Built {
        self.concat_in_dim(operands, dimension)
    }

    /// The operand with `padding_value` around and between its elements; negative edges cut.
    ///
    /// # Errors
    /// A configuration of another rank, or results of negative size.
    pub fn pad(&mut self, operand: XlaOp, padding_value: XlaOp, padding_config: &[PadDim]) -> Built {
        self.op("pad", Op::Pad { dims: padding_config.to_vec() }, &[operand, padding_value])
    }

    /// A part of the operand of sizes `slice_sizes` from start indices known at run time (a scalar for each dimension, or
    /// one array of all).
    ///
    /// # Errors
    /// Sizes larger than the operand's.
    pub fn dynamic_slice(&mut self, operand: XlaOp, start_indices: &[XlaOp], slice_sizes: &[i64]) -> Built {
        let sizes = sizes("dynamic_slice", "slice_sizes", slice_sizes)?;
        self.op("dynamic_slice", Op::DynamicSlice { sizes }, &[&[operand], start_indices].concat())
    }

    /// The operand with a part replaced by `update`.
    ///
    /// # Errors
    /// An update larger than the operand.
    pub fn dynamic_update_slice(&mut self, operand: XlaOp, update: XlaOp, start_indices: &[XlaOp]) -> Built {
        self.op("dynamic_update_slice", Op::DynamicUpdateSlice, &[&[operand, update], start_indices].concat())
    }

    /// Slices of the operand at places from an array of indices.
    ///
    /// # Errors
    /// Dimension numbers that do not fit.
    pub fn gather(&mut self, operand: XlaOp, start_indices: XlaOp, dimension_numbers: &Gather) -> Built {
        self.op("gather", Op::Gather(dimension_numbers.clone()), &[operand, start_indices])
    }

    /// The operands with updates combined into them at places from an array of indices. `dimension_numbers.body` is
    /// replaced by `update_computation`.
    ///
    /// # Errors
    /// Dimension numbers or a computation that do not fit.
    pub fn scatter(
        &mut self,
        operands: &[XlaOp],
        scatter_indices: XlaOp,
        updates: &[XlaOp],
        update_computation: &XlaComputation,
        dimension_numbers: &Scatter,
    ) -> Built {
        let body = self.import(update_computation);
        let op = Op::Scatter(Scatter { body, ..dimension_numbers.clone() });
        self.op("scatter", op, &[operands, &[scatter_indices], updates].concat())
    }

    /// The current size of a dimension, as s32.
    ///
    /// # Errors
    /// A dimension that the operand does not have.
    pub fn get_dimension_size(&mut self, operand: XlaOp, dimension: i64) -> Built {
        let dim = dims("get_dimension_size", "dimension", &[dimension])?[0];
        self.op("get_dimension_size", Op::GetDimensionSize { dim }, &[operand])
    }

    /// The operand with a dimension cut to a size known at run time; its size now is the bound.
    ///
    /// # Errors
    /// A dimension that the operand does not have.
    pub fn set_dimension_size(&mut self, operand: XlaOp, val: XlaOp, dimension: i64) -> Built {
        let dim = dims("set_dimension_size", "dimension", &[dimension])?[0];
        self.op("set_dimension_size", Op::SetDimensionSize { dim }, &[operand, val])
    }
}
