//! Batch normalisation by reductions over all dimensions but the feature. Everything is computed in at least f32.

use crate::edit::Emit;
use systole_hlo::graph::{Binary, NodeId, Unary};
use systole_isa::DType;

/// What the three forms share: wide operands and sizes.
struct Site {
    dims: Vec<u64>,
    others: Vec<usize>,
    feature: usize,
    /// Elements of a feature.
    count: f64,
    narrow: DType,
    wide: DType,
}

impl Site {
    fn new(b: &Emit, x: NodeId, feature: usize) -> Site {
        let dims = b.dims(x).to_vec();
        let others: Vec<usize> = (0..dims.len()).filter(|&d| d != feature).collect();
        let count = others.iter().map(|&d| dims[d] as f64).product();
        let narrow = b.dtype(x);
        let wide = if narrow == DType::F64 { DType::F64 } else { DType::F32 };
        Site { dims, others, feature, count, narrow, wide }
    }

    fn spread(&self, b: &mut Emit, x: NodeId) -> NodeId {
        b.broadcast(x, &[self.feature], &self.dims)
    }

    fn sum(&self, b: &mut Emit, x: NodeId) -> NodeId {
        b.reduce(x, Binary::Add, 0.0, &self.others)
    }

    fn mean(&self, b: &mut Emit, x: NodeId) -> NodeId {
        let s = self.sum(b, x);
        b.with(Binary::Div, s, self.count)
    }

    /// `1 / sqrt(variance + epsilon)`, for each feature.
    fn scale(&self, b: &mut Emit, variance: NodeId, epsilon: f32) -> NodeId {
        let v = b.with(Binary::Add, variance, f64::from(epsilon));
        b.unary(Unary::Rsqrt, v)
    }
}

fn normalised(b: &mut Emit, s: &Site, centred: NodeId, inverse: NodeId, scale: NodeId, offset: NodeId) -> NodeId {
    let inverse = s.spread(b, inverse);
    let (scale, offset) = (s.spread(b, scale), s.spread(b, offset));
    let x = b.mul(centred, inverse);
    let x = b.mul(x, scale);
    let x = b.add(x, offset);
    b.convert(x, s.narrow)
}

fn centred(b: &mut Emit, s: &Site, x: NodeId, mean: NodeId) -> NodeId {
    let mean = s.spread(b, mean);
    b.sub(x, mean)
}

/// operand, scale, offset -> (output, mean, variance).
pub fn training(b: &mut Emit, operands: &[NodeId], epsilon: f32, feature: usize) -> NodeId {
    let s = Site::new(b, operands[0], feature);
    let kept = b.dtype(operands[1]);
    let [x, scale, offset] = [0, 1, 2].map(|i| b.convert(operands[i], s.wide));
    let mean = s.mean(b, x);
    let centred = centred(b, &s, x, mean);
    let square = b.mul(centred, centred);
    let variance = s.mean(b, square);
    let inverse = s.scale(b, variance, epsilon);
    let out = normalised(b, &s, centred, inverse, scale, offset);
    let (mean, variance) = (b.convert(mean, kept), b.convert(variance, kept));
    b.tuple(&[out, mean, variance])
}

/// operand, scale, offset, mean, variance -> output.
pub fn inference(b: &mut Emit, operands: &[NodeId], epsilon: f32, feature: usize) -> NodeId {
    let s = Site::new(b, operands[0], feature);
    let [x, scale, offset, mean, variance] = [0, 1, 2, 3, 4].map(|i| b.convert(operands[i], s.wide));
    let centred = centred(b, &s, x, mean);
    let inverse = s.scale(b, variance, epsilon);
    normalised(b, &s, centred, inverse, scale, offset)
}

/// operand, scale, mean, variance, grad of output -> (grad of operand, of scale, of offset).
pub fn gradient(b: &mut Emit, operands: &[NodeId], epsilon: f32, feature: usize) -> NodeId {
    let s = Site::new(b, operands[0], feature);
    let kept = b.dtype(operands[1]);
    let [x, scale, mean, variance, dy] = [0, 1, 2, 3, 4].map(|i| b.convert(operands[i], s.wide));
    let centred = centred(b, &s, x, mean);
    let inverse = s.scale(b, variance, epsilon);
    let d_offset = s.sum(b, dy);
    let weighted = b.mul(dy, centred);
    let weighted = s.sum(b, weighted);
    let d_scale = b.mul(weighted, inverse);
    // scale * inverse * (dy - mean(dy) - centred * inverse^2 * mean(dy * centred))
    let mean_dy = b.with(Binary::Div, d_offset, s.count);
    let square = b.mul(inverse, inverse);
    let slope = b.mul(square, weighted);
    let slope = b.with(Binary::Div, slope, s.count);
    let (mean_dy, slope) = (s.spread(b, mean_dy), s.spread(b, slope));
    let bend = b.mul(centred, slope);
    let inner = b.sub(dy, mean_dy);
    let inner = b.sub(inner, bend);
    let factor = b.mul(scale, inverse);
    let factor = s.spread(b, factor);
    let dx = b.mul(factor, inner);
    let dx = b.convert(dx, s.narrow);
    let (d_scale, d_offset) = (b.convert(d_scale, kept), b.convert(d_offset, kept));
    b.tuple(&[dx, d_scale, d_offset])
}
