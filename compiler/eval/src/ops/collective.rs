//! Collectives and transfers between devices.

use super::super::dispatch::Place;
use super::super::error::{Fault, malformed};
use super::super::run::{Body, Machine};
use super::super::scalar::{self, Scalar};
use super::super::value::{Tensor, Value};
use super::movement;
use systole_hlo::analysis::devices;
use systole_hlo::graph::{Collective, CollectiveKind, CompId, Node, Op, Shape, SliceDim};
use systole_isa::DType;

impl Machine<'_> {
    pub(in super::super) fn collective(
        &mut self,
        place: Place,
        node: &Node,
        kind: &CollectiveKind,
        devices: &Collective,
        args: Vec<Value>,
    ) -> Result<Value, Fault> {
        if let CollectiveKind::Permute { pairs } = kind {
            return self.permute(place, node, (kind, devices), pairs, args);
        }
        let group = self.network.group(self.device, kind, devices).map_err(malformed)?;
        let rank = group.iter().position(|&d| d == self.device).ok_or_else(|| malformed("not in its own group"))?;
        let all = self.network.meet(self.device, place, &node.name, &group, args)?;
        let n = all.first().map_or(0, Vec::len);
        if all.iter().any(|v| v.len() != n) {
            return Err(malformed("devices bring different numbers of operands"));
        }
        let column = |i: usize| -> Result<Vec<&Tensor>, Fault> {
            all.iter().map(|v| v[i].as_array().ok_or_else(|| malformed("an operand is not an array"))).collect()
        };
        let mut results = Vec::new();
        match kind {
            CollectiveKind::AllReduce { body } => {
                for i in 0..n {
                    results.push(combine(self, *body, &column(i)?)?);
                }
            }
            CollectiveKind::Reduce { body } => {
                for i in 0..n {
                    let own = column(i)?[rank].clone();
                    results.push(if rank == 0 { combine(self, *body, &column(i)?)? } else { own });
                }
            }
            CollectiveKind::ReduceScatter { dim, body } => {
                for i in 0..n {
                    let whole = combine(self, *body, &column(i)?)?;
                    results.push(part(&whole, *dim, rank, group.len()));
                }
            }
            CollectiveKind::AllGather { dim } => {
                for i in 0..n {
                    results.push(movement::concatenate(&column(i)?, *dim)?);
                }
            }
            CollectiveKind::AllToAll { dim: Some(dim) } => {
                for i in 0..n {
                    let parts: Vec<Tensor> = column(i)?.iter().map(|t| part(t, *dim, rank, group.len())).collect();
                    results.push(movement::concatenate(&parts.iter().collect::<Vec<_>>(), *dim)?);
                }
            }
            CollectiveKind::AllToAll { dim: None } => {
                if n != group.len() {
                    return Err(malformed("as many operands as devices are due"));
                }
                results = column(rank)?.into_iter().cloned().collect();
            }
            CollectiveKind::Broadcast => {
                for i in 0..n {
                    results.push(column(i)?[0].clone());
                }
            }
            CollectiveKind::RaggedAllToAll => {
                if n != 6 {
                    return Err(malformed("six operands are due"));
                }
                let columns = (0..n).map(column).collect::<Result<Vec<_>, _>>()?;
                results.push(ragged(&columns, rank)?);
            }
            CollectiveKind::Permute { .. } => return Err(malformed("a permutation has no groups")),
        }
        shaped(&node.shape, results)
    }

    /// Everybody brings its operands; each takes those of the device that sends to it, or zeros.
    fn permute(
        &mut self,
        place: Place,
        node: &Node,
        (kind, devices): (&CollectiveKind, &Collective),
        pairs: &[(u64, u64)],
        args: Vec<Value>,
    ) -> Result<Value, Fault> {
        let everyone: Vec<usize> = (0..self.network.devices()).collect();
        let pairs = self.network.pairs(self.device, kind, devices, pairs);
        let all = self.network.meet(self.device, place, &node.name, &everyone, args)?;
        let source = pairs.iter().find(|(_, t)| *t == self.device).map(|(s, _)| *s);
        let own = &all[self.device];
        let take = |i: usize, v: &Value| match (source.and_then(|s| all.get(s)).and_then(|b| b.get(i)), v) {
            (Some(v), _) => v.as_array().cloned(),
            (None, v) => v.as_array().map(|t| Tensor::zeros(t.dtype, &t.dims)),
        };
        let results: Option<Vec<Tensor>> = own.iter().enumerate().map(|(i, v)| take(i, v)).collect();
        shaped(&node.shape, results.ok_or_else(|| malformed("an operand is not an array"))?)
    }

    /// `send`, `recv` and their ends, between devices or with the host.
    ///
    /// The context that `recv` gives is the sender's number plus one, or zero if nobody sends to this device.
    #[allow(clippy::wildcard_enum_match_arm, reason = "the caller sends transfers alone, and the fault is said")]
    pub(in super::super) fn transfer(&mut self, node: &Node, args: Vec<Value>) -> Result<Value, Fault> {
        let pairs = devices::source_target_pairs(node)
            .map(|p| p.into_iter().map(|(s, t)| (s as usize, t as usize)).collect::<Vec<_>>());
        let context = |v: usize| Value::Array(Tensor::scalar(DType::U32, Scalar::I(v as i64)));
        match &node.op {
            Op::Send { channel, host, .. } => {
                let value = args.into_iter().next().ok_or_else(|| malformed("nothing to send"))?;
                if *host {
                    self.host.send(*channel, value.clone()).map_err(Fault::Host)?;
                } else {
                    let me = self.device;
                    let targets: Vec<usize> = match &pairs {
                        Some(p) => p.iter().filter(|(s, _)| *s == me).map(|(_, t)| *t).collect(),
                        None => vec![me],
                    };
                    for t in targets {
                        self.network.post((channel.unwrap_or(0), me, t), value.clone());
                    }
                }
                Ok(Value::Tuple(vec![value, context(0), Value::Token]))
            }
            Op::SendDone { .. } => Ok(Value::Token),
            Op::Recv { .. } => {
                let Shape::Tuple(parts) = &node.shape else { return Err(malformed("the result is not a tuple")) };
                let data = parts.first().ok_or_else(|| malformed("nothing to receive"))?;
                let source = match &pairs {
                    Some(p) => p.iter().find(|(_, t)| *t == self.device).map_or(0, |(s, _)| s + 1),
                    None => self.device + 1,
                };
                Ok(Value::Tuple(vec![Value::zeros(data), context(source), Value::Token]))
            }
            Op::RecvDone { channel, host } => {
                let Some(Value::Tuple(parts)) = args.into_iter().next() else {
                    return Err(malformed("the operand is not a recv"));
                };
                let (Shape::Tuple(shapes), [data, source, ..]) = (&node.shape, &parts[..]) else {
                    return Err(malformed("the operand is not a recv"));
                };
                let source = source.as_array().map_or(0, |t| t.index(0)) as usize;
                let shape = shapes.first().ok_or_else(|| malformed("nothing to receive"))?;
                let value = match (*host, source) {
                    (true, _) => self.host.recv(*channel, shape).map_err(Fault::Host)?,
                    (false, 0) => data.clone(),
                    (false, s) => self.network.take((channel.unwrap_or(0), s - 1, self.device), &node.name)?,
                };
                Ok(Value::Tuple(vec![value, Value::Token]))
            }
            _ => Err(malformed("not a transfer")),
        }
    }
}

/// Results as the instruction's shape wants them. A `-start` form also holds the operands.
fn shaped(shape: &Shape, mut results: Vec<Tensor>) -> Result<Value, Fault> {
    match shape {
        Shape::Array(_) if results.len() == 1 => Ok(results.remove(0).into()),
        Shape::Tuple(_) => Ok(Value::Tuple(results.into_iter().map(Value::Array).collect())),
        Shape::Array(_) | Shape::Token => Err(malformed("the result has another shape")),
    }
}

/// Elementwise over all devices' arrays in order; `bf16` and `f16` accumulate in `f32`.
fn combine(m: &mut Machine, body: CompId, arrays: &[&Tensor]) -> Result<Tensor, Fault> {
    let first = arrays[0];
    if arrays.iter().any(|t| t.dims != first.dims || t.dtype != first.dtype) {
        return Err(malformed("devices bring different arrays"));
    }
    let mut body = Body::new(m, body, true)?;
    let mut acc = scalar::scalars(first.dtype, first.bytes());
    for t in &arrays[1..] {
        for (i, a) in acc.iter_mut().enumerate() {
            body.call(m, [*a, t.get(i)].into_iter())?;
            *a = body.result(0);
        }
    }
    Ok(Tensor::new(first.dtype, &first.dims, scalar::scalar_bytes(first.dtype, acc.into_iter())))
}

/// Part `i` of `n` along a dimension.
fn part(t: &Tensor, dim: usize, i: usize, n: usize) -> Tensor {
    let size = (t.dims[dim] / n) as u64;
    let cut = |(d, &s): (usize, &usize)| match d == dim {
        true => SliceDim { start: i as u64 * size, limit: (i as u64 + 1) * size, stride: 1 },
        false => SliceDim { start: 0, limit: s as u64, stride: 1 },
    };
    movement::slice(t, &t.dims.iter().enumerate().map(cut).collect::<Vec<_>>())
}

/// Rows from every device at the offsets that it says.
fn ragged(columns: &[Vec<&Tensor>], rank: usize) -> Result<Tensor, Fault> {
    let mut out = columns[1][rank].clone();
    for (sender, t) in columns[0].iter().enumerate() {
        let number = |column: usize| columns[column][sender].index(rank).max(0) as u64;
        let (start, count, to) = (number(2), number(3), number(4));
        let rows = |(d, &s): (usize, &usize)| match d {
            0 => SliceDim { start, limit: start + count, stride: 1 },
            _ => SliceDim { start: 0, limit: s as u64, stride: 1 },
        };
        let rows = movement::slice(t, &t.dims.iter().enumerate().map(rows).collect::<Vec<_>>());
        let mut at = vec![Tensor::scalar(DType::S64, Scalar::I(0)); t.rank()];
        at[0] = Tensor::scalar(DType::S64, Scalar::I(to as i64));
        out = movement::dynamic_update_slice(out, &rows, &at.iter().collect::<Vec<_>>())?;
    }
    Ok(out)
}
