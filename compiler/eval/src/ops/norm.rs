//! Batch normalisation, computed wide and rounded once.

use super::super::scalar;
use super::super::tensor::strides;
use super::super::value::Tensor;

/// An array with the place of its features.
struct Features {
    values: Vec<f64>,
    stride: usize,
    count: usize,
}

impl Features {
    fn new(t: &Tensor, feature: usize) -> Features {
        let stride = strides(&t.dims).get(feature).copied().unwrap_or(1);
        Features { values: wide(t), stride, count: t.dims.get(feature).copied().unwrap_or(1) }
    }

    /// The feature of element `i`.
    fn of(&self, i: usize) -> usize {
        i / self.stride % self.count
    }

    /// Sums over everything but the feature.
    fn sums(&self, f: impl Fn(usize, usize) -> f64) -> Vec<f64> {
        let mut out = vec![0.0; self.count];
        (0..self.values.len()).for_each(|i| out[self.of(i)] += f(i, self.of(i)));
        out
    }

    /// Elements of a feature.
    fn each(&self) -> f64 {
        self.values.len() as f64 / self.count as f64
    }
}

fn wide(t: &Tensor) -> Vec<f64> {
    scalar::floats(t.dtype, t.bytes()).into_iter().map(|x| scalar::flush(t.dtype, x)).collect()
}

/// An array like `t` of those values.
fn like(t: &Tensor, values: impl ExactSizeIterator<Item = f64>) -> Tensor {
    let dims = t.dims.clone();
    Tensor::new(t.dtype, &dims, scalar::float_bytes(t.dtype, values.map(|v| scalar::finish(t.dtype, v))))
}

/// operand, scale, offset: normalised by the batch's own mean and (biased) variance, which are returned too.
pub(in super::super) fn training(args: &[&Tensor], epsilon: f32, feature: usize) -> Vec<Tensor> {
    let x = Features::new(args[0], feature);
    let (scale, shift) = (wide(args[1]), wide(args[2]));
    let mean: Vec<f64> = x.sums(|i, _| x.values[i]).into_iter().map(|s| s / x.each()).collect();
    let square = |v: f64| v * v;
    let variance: Vec<f64> = x.sums(|i, c| square(x.values[i] - mean[c])).into_iter().map(|s| s / x.each()).collect();
    let out = normalise(&x, &scale, &shift, &mean, &variance, epsilon);
    vec![like(args[0], out.into_iter()), like(args[1], mean.iter().copied()), like(args[1], variance.iter().copied())]
}

/// operand, scale, offset, mean, variance.
pub(in super::super) fn inference(args: &[&Tensor], epsilon: f32, feature: usize) -> Tensor {
    let x = Features::new(args[0], feature);
    let out = normalise(&x, &wide(args[1]), &wide(args[2]), &wide(args[3]), &wide(args[4]), epsilon);
    like(args[0], out.into_iter())
}

fn normalise(x: &Features, scale: &[f64], shift: &[f64], mean: &[f64], variance: &[f64], epsilon: f32) -> Vec<f64> {
    let one = |(i, v): (usize, &f64)| {
        let c = x.of(i);
        (v - mean[c]) / (variance[c] + epsilon as f64).sqrt() * scale[c] + shift[c]
    };
    x.values.iter().enumerate().map(one).collect()
}

/// operand, scale, mean, variance, gradient of the output: gradients of operand, scale and offset.
pub(in super::super) fn grad(args: &[&Tensor], epsilon: f32, feature: usize) -> Vec<Tensor> {
    let x = Features::new(args[0], feature);
    let (scale, mean, variance, g) = (wide(args[1]), wide(args[2]), wide(args[3]), wide(args[4]));
    let inverse: Vec<f64> = variance.iter().map(|v| 1.0 / (v + epsilon as f64).sqrt()).collect();
    let sum_g = x.sums(|i, _| g[i]);
    let sum_gx = x.sums(|i, c| g[i] * (x.values[i] - mean[c]));
    let n = x.each();
    let operand = (0..x.values.len()).map(|i| {
        let c = x.of(i);
        let centred = (x.values[i] - mean[c]) * inverse[c] * inverse[c] * sum_gx[c] / n;
        scale[c] * inverse[c] * (g[i] - sum_g[c] / n - centred)
    });
    vec![
        like(args[0], operand),
        like(args[1], sum_gx.iter().zip(&inverse).map(|(s, i)| s * i)),
        like(args[1], sum_g.iter().copied()),
    ]
}
