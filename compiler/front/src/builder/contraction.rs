//! Products, convolutions, decompositions, transforms.

use super::{Built, XlaBuilder, XlaOp, refuse, sizes};
use systole_hlo::graph::{
    Conv, ConvData, ConvDims, ConvKernel, DotDims, FftKind, Op, Precision, Shape, TriangularTranspose, WindowDim,
};
use systole_isa::DType;

/// Padding by rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Padding {
    /// As much as makes the result as large as the operand over the strides, one more behind than before if odd.
    Same,
    /// None.
    Valid,
}

impl Padding {
    /// What is added before and behind, for each dimension.
    pub fn amounts(self, input: &[u64], window: &[u64], strides: &[u64]) -> Vec<(i64, i64)> {
        let one = |((&n, &w), &s): ((&u64, &u64), &u64)| match self {
            Padding::Valid => (0, 0),
            Padding::Same => {
                let (n, w, s) = (n as i64, w as i64, s.max(1) as i64);
                let out = (n + s - 1) / s;
                let all = ((out - 1) * s + w - n).max(0);
                (all / 2, all - all / 2)
            }
        };
        input.iter().zip(window).zip(strides).map(one).collect()
    }
}

/// A batch of images, features second, with the kernel's output features first: the older convolution's form.
fn default_dims(spatial: usize) -> ConvDims {
    let spatial: Vec<usize> = (2..2 + spatial).collect();
    let data = ConvData { batch: 0, feature: 1, spatial: spatial.clone() };
    ConvDims { input: data.clone(), kernel: ConvKernel { input: 1, output: 0, spatial }, output: data }
}

impl XlaBuilder {
    /// The product of vectors and matrices: contracts the last dimension of `lhs` with the first of `rhs`.
    ///
    /// ```
    /// # use systole_front::builder::XlaBuilder;
    /// # use systole_hlo::graph::{Precision, Shape};
    /// # use systole_isa::DType::F32;
    /// for (l, r, shape) in [
    ///     (&[3][..], &[3][..], "f32[]"),
    ///     (&[2, 3][..], &[3][..], "f32[2]"),
    ///     (&[2, 3][..], &[3, 5][..], "f32[2,5]"),
    /// ] {
    ///     let mut b = XlaBuilder::new("m");
    ///     let l = b.parameter(0, &Shape::array(F32, l), "l").unwrap();
    ///     let r = b.parameter(1, &Shape::array(F32, r), "r").unwrap();
    ///     let product = b.dot(l, r, Precision::Default).unwrap();
    ///     assert_eq!(b.get_shape(product).to_string(), shape);
    /// }
    /// ```
    ///
    /// # Errors
    /// Operands of other ranks, or sizes that differ.
    pub fn dot(&mut self, lhs: XlaOp, rhs: XlaOp, precision: Precision) -> Built {
        let rank = self.array("dot", lhs)?.rank();
        if rank == 0 {
            return refuse("dot", "the operands must not be scalars");
        }
        let dims = DotDims { lhs_contracting: vec![rank - 1], rhs_contracting: vec![0], ..DotDims::default() };
        self.dot_general(lhs, rhs, &dims, precision, None)
    }

    /// The product over any contracting and batch dimensions; the result has those of the batch, of `lhs`, of `rhs`.
    ///
    /// # Errors
    /// Dimension numbers or sizes that do not agree.
    pub fn dot_general(
        &mut self,
        lhs: XlaOp,
        rhs: XlaOp,
        dimension_numbers: &DotDims,
        precision: Precision,
        preferred_element_type: Option<DType>,
    ) -> Built {
        let op = Op::Dot { dims: dimension_numbers.clone(), precision };
        self.preferred("dot_general", op, &[lhs, rhs], preferred_element_type)
    }

    fn preferred(&mut self, name: &'static str, op: Op, operands: &[XlaOp], preferred: Option<DType>) -> Built {
        let Some(dtype) = preferred else { return self.op(name, op, operands) };
        // The shape follows from operands alone; the element type is the caller's choice.
        let mut probe = self.clone();
        let inferred = probe.op(name, op.clone(), operands)?;
        let dims = self.array_of(name, probe.get_shape(inferred))?;
        self.shaped(name, op, operands, Shape::array(dtype, &dims))
    }

    fn array_of(&self, name: &'static str, shape: &Shape) -> Built<Vec<u64>> {
        match shape {
            Shape::Array(a) => Ok(a.dims.clone()),
            other @ (Shape::Tuple(_) | Shape::Token) => refuse(name, format!("expected an array, not {other}")),
        }
    }

    /// A convolution with the batch first, features second; the kernel's output features first, input features second.
    ///
    /// ```
    /// # use systole_front::builder::{Padding, XlaBuilder};
    /// # use systole_hlo::graph::Shape;
    /// # use systole_isa::DType::F32;
    /// let mut b = XlaBuilder::new("m");
    /// let images = b.parameter(0, &Shape::array(F32, &[8, 3, 14, 14]), "images").unwrap();
    /// let kernel = b.parameter(1, &Shape::array(F32, &[16, 3, 3, 3]), "kernel").unwrap();
    /// let same = b.conv(images, kernel, &[2, 2], Padding::Same, 1, 1).unwrap();
    /// let valid = b.conv(images, kernel, &[1, 1], Padding::Valid, 1, 1).unwrap();
    /// assert_eq!(b.get_shape(same).to_string(), "f32[8,16,7,7]");
    /// assert_eq!(b.get_shape(valid).to_string(), "f32[8,16,12,12]");
    /// ```
    ///
    /// # Errors
    /// Shapes that do not agree.
    pub fn conv(
        &mut self,
        lhs: XlaOp,
        rhs: XlaOp,
        window_strides: &[i64],
        padding: Padding,
        feature_group_count: u64,
        batch_group_count: u64,
    ) -> Built {
        let (l, r) = (self.array("conv", lhs)?, self.array("conv", rhs)?);
        let strides = sizes("conv", "window_strides", window_strides)?;
        if l.rank() != strides.len() + 2 || r.rank() != l.rank() {
            let message = format!("{} strides for {} and {}", strides.len(), Shape::Array(l), Shape::Array(r));
            return refuse("conv", message);
        }
        let padding = padding.amounts(&l.dims[2..], &r.dims[2..], &strides);
        self.conv_with_general_padding(lhs, rhs, window_strides, &padding, feature_group_count, batch_group_count)
    }

    /// As [`XlaBuilder::conv`], with any padding before and behind of each dimension.
    ///
    /// # Errors
    /// Shapes that do not agree.
    pub fn conv_with_general_padding(
        &mut self,
        lhs: XlaOp,
        rhs: XlaOp,
        window_strides: &[i64],
        padding: &[(i64, i64)],
        feature_group_count: u64,
        batch_group_count: u64,
    ) -> Built {
        let n = window_strides.len();
        let ones = vec![1; n];
        let dims = default_dims(n);
        let groups = (feature_group_count, batch_group_count);
        self.conv_general_dilated(
            lhs,
            rhs,
            window_strides,
            padding,
            &ones,
            &ones,
            &dims,
            groups,
            Precision::Default,
            None,
        )
    }

    /// Any convolution. `groups`: feature and batch group counts.
    ///
    /// # Errors
    /// Dimension numbers or sizes that do not agree.
    pub fn conv_general_dilated(
        &mut self,
        lhs: XlaOp,
        rhs: XlaOp,
        window_strides: &[i64],
        padding: &[(i64, i64)],
        lhs_dilation: &[i64],
        rhs_dilation: &[i64],
        dimension_numbers: &ConvDims,
        groups: (u64, u64),
        precision: Precision,
        preferred_element_type: Option<DType>,
    ) -> Built {
        const NAME: &str = "conv_general_dilated";
        let kernel = self.array(NAME, rhs)?;
        let n = dimension_numbers.kernel.spatial.len();
        let lengths = [window_strides.len(), padding.len(), lhs_dilation.len(), rhs_dilation.len()];
        if lengths != [n; 4] || dimension_numbers.kernel.spatial.iter().any(|d| *d >= kernel.rank()) {
            return refuse(
                NAME,
                format!("strides, padding and dilations must each have {n} entries, as spatial dimensions"),
            );
        }
        let (strides, base, wide) = (
            sizes(NAME, "window_strides", window_strides)?,
            sizes(NAME, "lhs_dilation", lhs_dilation)?,
            sizes(NAME, "rhs_dilation", rhs_dilation)?,
        );
        let size: Vec<u64> = dimension_numbers.kernel.spatial.iter().map(|&d| kernel.dims[d]).collect();
        let conv = Conv {
            window: WindowDim::of_lists(&size, &strides, padding, &base, &wide),
            dims: dimension_numbers.clone(),
            feature_groups: groups.0,
            batch_groups: groups.1,
            precision,
        };
        self.preferred(NAME, Op::Convolution(Box::new(conv)), &[lhs, rhs], preferred_element_type)
    }

    /// The triangular factor of a symmetric (Hermitian) positive definite matrix, of a batch of them.
    ///
    /// # Errors
    /// Matrices that are not square.
    pub fn cholesky(&mut self, a: XlaOp, lower: bool) -> Built {
        self.op("cholesky", Op::Cholesky { lower }, &[a])
    }

    /// The solution of `op(a) x = b`, or of `x op(a) = b`, with a triangular matrix.
    ///
    /// # Errors
    /// Shapes that do not agree.
    pub fn triangular_solve(
        &mut self,
        a: XlaOp,
        b: XlaOp,
        left_side: bool,
        lower: bool,
        unit_diagonal: bool,
        transpose_a: TriangularTranspose,
    ) -> Built {
        let op = Op::TriangularSolve { left: left_side, lower, unit_diagonal, transpose: transpose_a };
        self.op("triangular_solve", op, &[a, b])
    }

    /// Fourier transforms over the last one to three dimensions.
    ///
    /// # Errors
    /// Lengths that do not fit the operand.
    pub fn fft(&mut self, operand: XlaOp, fft_type: FftKind, fft_length: &[i64]) -> Built {
        let lengths = sizes("fft", "fft_length", fft_length)?;
        self.op("fft", Op::Fft { kind: fft_type, lengths }, &[operand])
    }
}
