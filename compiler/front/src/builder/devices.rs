//! Operations between devices.

use super::{Built, XlaBuilder, XlaComputation, XlaOp, dims, refuse};
use std::fmt::Display;
use systole_hlo::graph::{Binary, Collective, CollectiveKind, Op, Shape};

impl XlaBuilder {
    fn collective(&mut self, name: &'static str, kind: CollectiveKind, devices: &Collective, xs: &[XlaOp]) -> Built {
        self.op(name, Op::Collective { kind, devices: devices.clone() }, xs)
    }

    /// Arrays combined over the devices of each group. A tuple is combined element by element.
    ///
    /// # Errors
    /// A computation that does not fit.
    pub fn all_reduce(&mut self, operands: &[XlaOp], computation: &XlaComputation, devices: &Collective) -> Built {
        let body = self.import(computation);
        self.collective("all_reduce", CollectiveKind::AllReduce { body }, devices, operands)
    }

    /// The sum over replicas. `replica_group_ids`: the group that each replica belongs to; empty for one group of all.
    ///
    /// ```
    /// # use systole_front::builder::XlaBuilder;
    /// let mut b = XlaBuilder::new("m");
    /// let x = b.constant_r1(&[1.0f32, 2.0]);
    /// // Replicas 0 and 2, and replicas 1 and 3.
    /// let sum = b.cross_replica_sum(x, &[0, 1, 0, 1]).unwrap();
    /// assert_eq!(b.get_shape(sum).to_string(), "f32[2]");
    /// ```
    ///
    /// # Errors
    /// Group ids that leave a number out.
    pub fn cross_replica_sum(&mut self, operand: XlaOp, replica_group_ids: &[i64]) -> Built {
        const NAME: &str = "cross_replica_sum";
        let ids = dims(NAME, "replica_group_ids", replica_group_ids)?;
        let mut groups: Vec<Vec<u64>> = vec![Vec::new(); ids.iter().max().map_or(0, |m| m + 1).min(ids.len())];
        for (replica, &group) in ids.iter().enumerate() {
            match groups.get_mut(group) {
                Some(g) => g.push(replica as u64),
                None => return refuse(NAME, format!("replica_group_ids {replica_group_ids:?} leave a group empty")),
            }
        }
        if groups.iter().any(Vec::is_empty) {
            return refuse(NAME, format!("replica_group_ids {replica_group_ids:?} leave a group empty"));
        }
        let scalar = Shape::array(self.array(NAME, operand)?.dtype, &[]);
        let mut f = XlaBuilder::new("sum");
        let (x, y) = (f.parameter(0, &scalar, "x")?, f.parameter(1, &scalar, "y")?);
        let sum = f.op(NAME, Op::Binary(Binary::Add), &[x, y])?;
        let sum = f.build(sum)?;
        self.all_reduce(&[operand], &sum, &Collective { groups, ..Collective::default() })
    }

    /// Each device's array one after the other along a dimension; `shard_count` devices are in a group.
    ///
    /// # Errors
    /// A dimension that there is not.
    pub fn all_gather(
        &mut self,
        operand: XlaOp,
        all_gather_dimension: i64,
        shard_count: u64,
        devices: &Collective,
    ) -> Built {
        let grown = |size: u64| size.checked_mul(shard_count).ok_or("too long");
        let gathers = |_: &mut Self, dim| CollectiveKind::AllGather { dim };
        self.resized("all_gather", (operand, all_gather_dimension), devices, grown, gathers)
    }

    /// Arrays combined over a group, of which each device gets its part along a dimension.
    ///
    /// # Errors
    /// A size that `shard_count` does not divide, or a computation that does not fit.
    pub fn reduce_scatter(
        &mut self,
        operand: XlaOp,
        computation: &XlaComputation,
        scatter_dimension: i64,
        shard_count: u64,
        devices: &Collective,
    ) -> Built {
        let scatters = |b: &mut Self, dim| CollectiveKind::ReduceScatter { dim, body: b.import(computation) };
        let part = |size: u64| match size.checked_rem(shard_count) {
            Some(0) => Ok(size / shard_count),
            Some(_) | None => Err(format!("not divided by {shard_count}")),
        };
        self.resized("reduce_scatter", (operand, scatter_dimension), devices, part, scatters)
    }

    /// A collective whose result has another size along a dimension than what each device gives.
    fn resized<Why: Display>(
        &mut self,
        name: &'static str,
        (operand, dimension): (XlaOp, i64),
        devices: &Collective,
        resized: impl FnOnce(u64) -> Result<u64, Why>,
        kind: impl FnOnce(&mut Self, usize) -> CollectiveKind,
    ) -> Built {
        let dim = dims(name, "dimension", &[dimension])?[0];
        let mut a = self.array(name, operand)?;
        let Some(&size) = a.dims.get(dim) else {
            return refuse(name, format!("{} has no dimension {dim}", Shape::Array(a)));
        };
        a.dims[dim] = match resized(size) {
            Ok(size) => size,
            Err(why) => return refuse(name, format!("dimension {dim} of {} is {why}", Shape::Array(a))),
        };
        let op = Op::Collective { kind: kind(self, dim), devices: devices.clone() };
        self.shaped(name, op, &[operand], Shape::array(a.dtype, &a.dims))
    }

    /// Each device's array split along one dimension; what a device gets is joined along another.
    ///
    /// # Errors
    /// Dimensions that do not exist, or a size that `split_count` does not divide.
    pub fn all_to_all(
        &mut self,
        operand: XlaOp,
        split_dimension: i64,
        concat_dimension: i64,
        split_count: u64,
        devices: &Collective,
    ) -> Built {
        const NAME: &str = "all_to_all";
        let list = dims(NAME, "dimensions", &[split_dimension, concat_dimension])?;
        let (split, concat) = (list[0], list[1]);
        let a = self.array(NAME, operand)?;
        let divided = split < a.rank() && concat < a.rank() && split_count > 0 && a.dims[split] % split_count == 0;
        if !divided {
            let message = format!("{} cannot be split {split_count} times by dimension {split}", Shape::Array(a));
            return refuse(NAME, message);
        }
        let exchanged = self.collective(NAME, CollectiveKind::AllToAll { dim: Some(split) }, devices, &[operand])?;
        if split == concat {
            return Ok(exchanged);
        }
        // The parts, a dimension of their own, move before the dimension that they are joined along.
        let mut parted = a.dims.clone();
        parted[split] /= split_count;
        parted.insert(split, split_count);
        let x = self.shaped(NAME, Op::Reshape, &[exchanged], Shape::array(a.dtype, &parted))?;
        let after = |d: usize| if d >= split { d + 1 } else { d };
        let mut permutation: Vec<usize> = (0..a.rank()).map(after).collect();
        permutation.insert(concat, split);
        let x = self.op(NAME, Op::Transpose { permutation }, &[x])?;
        let mut to = a.dims.clone();
        to[split] /= split_count;
        to[concat] *= split_count;
        self.shaped(NAME, Op::Reshape, &[x], Shape::array(a.dtype, &to))
    }

    /// The `i`-th operand goes to the `i`-th device of the group; a tuple of what comes.
    ///
    /// # Errors
    /// Shapes that differ.
    pub fn all_to_all_tuple(&mut self, operands: &[XlaOp], devices: &Collective) -> Built {
        self.collective("all_to_all", CollectiveKind::AllToAll { dim: None }, devices, operands)
    }

    /// Each target gets its source's array; zeros without one.
    ///
    /// # Errors
    /// A source or target that is named twice.
    pub fn collective_permute(&mut self, operand: XlaOp, source_target_pairs: &[(u64, u64)]) -> Built {
        let pairs = source_target_pairs.to_vec();
        let kind = CollectiveKind::Permute { pairs };
        self.collective("collective_permute", kind, &Collective::default(), &[operand])
    }

    /// Every device of a group gets the first one's array.
    ///
    /// # Errors
    /// None that are known.
    pub fn collective_broadcast(&mut self, operand: XlaOp, devices: &Collective) -> Built {
        self.collective("collective_broadcast", CollectiveKind::Broadcast, devices, &[operand])
    }

    /// The replica's number, as u32.
    ///
    /// # Errors
    /// None that are known.
    pub fn replica_id(&mut self) -> Built {
        self.op("replica_id", Op::ReplicaId, &[])
    }

    /// The partition's number, as u32.
    ///
    /// # Errors
    /// None that are known.
    pub fn partition_id(&mut self) -> Built {
        self.op("partition_id", Op::PartitionId, &[])
    }

    /// Data to the device that receives on the channel; a token.
    ///
    /// # Errors
    /// What is no token.
    pub fn send_with_token(&mut self, operand: XlaOp, token: XlaOp, channel: u64) -> Built {
        let (channel, host) = (Some(channel), false);
        let started = self.op("send", Op::Send { channel, host, pairs: None }, &[operand, token])?;
        self.op("send", Op::SendDone { channel, host }, &[started])
    }

    /// Data from the device that sends on the channel, and a token, as a tuple.
    ///
    /// # Errors
    /// What is no token.
    pub fn recv_with_token(&mut self, token: XlaOp, shape: &Shape, channel: u64) -> Built {
        let (channel, host) = (Some(channel), false);
        let pending = Shape::Tuple(vec![shape.clone(), Shape::array(systole_isa::DType::U32, &[]), Shape::Token]);
        let started = self.shaped("recv", Op::Recv { channel, host, pairs: None }, &[token], pending)?;
        self.op("recv", Op::RecvDone { channel, host }, &[started])
    }

    /// Data to the device that receives on the channel. The older form, ordered by the channel alone.
    ///
    /// # Errors
    /// None that are known.
    pub fn send(&mut self, operand: XlaOp, channel: u64) -> Built {
        let token = self.create_token()?;
        self.send_with_token(operand, token, channel)
    }

    /// Data of a shape from the device that sends on the channel. The older form, without a token.
    ///
    /// # Errors
    /// None that are known.
    pub fn recv(&mut self, shape: &Shape, channel: u64) -> Built {
        let token = self.create_token()?;
        let pair = self.recv_with_token(token, shape, channel)?;
        self.get_tuple_element(pair, 0)
    }
}
