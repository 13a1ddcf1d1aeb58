//! Device lists of collectives: `{{0,1},{2,3}}`, `[2,2]<=[4]`, `[2,4]<=[4,2]T(1,0)`, `mesh['a'=2,'b'=4] {'a'}`.

use super::attrs::Site;
use super::lex::Cursor;
use super::{MAX_DEVICES, MAX_RANK, PResult};
use systole_hlo::graph::Collective;

impl Site<'_, '_> {
    /// Groups, channel and id mode.
    pub fn devices(&mut self) -> PResult<Collective> {
        let groups = self.read("replica_groups", Cursor::replica_groups)?.unwrap_or_default();
        let channel = self.read("channel_id", |c| c.uint("a channel number"))?;
        let use_global_device_ids = self.flag("use_global_device_ids")?;
        Ok(Collective { groups, channel, use_global_ids: use_global_device_ids })
    }
}

impl<'a> Cursor<'a> {
    pub fn replica_groups(&mut self) -> PResult<Vec<Vec<u64>>> {
        match self.peek() {
            Some(b'{') => self.list("groups", |c| c.list("device ids", |c| c.device())),
            Some(b'[') => {
                let mut at = *self;
                let tile = self.bracketed_sizes()?;
                self.expect("<=", "after the groups' sizes")?;
                let devices = self.iota_devices()?;
                let [groups, size] = tile[..] else {
                    return Err(at.error_here("expected [groups,devices per group]"));
                };
                if groups.checked_mul(size) != Some(devices.len() as u64) {
                    return Err(at.error_here(format!("[{groups},{size}] does not hold {} devices", devices.len())));
                }
                Ok(devices.chunks(size.max(1) as usize).map(<[u64]>::to_vec).collect())
            }
            _ => self.mesh_groups(),
        }
    }

    fn device(&mut self) -> PResult<u64> {
        let mut at = *self;
        let d = self.uint("a device id")?;
        if d < MAX_DEVICES { Ok(d) } else { Err(at.error_here(format!("device ids are below {MAX_DEVICES}"))) }
    }

    fn bracketed_sizes(&mut self) -> PResult<Vec<u64>> {
        let mut at = *self;
        self.expect("[", "to begin a list of sizes")?;
        let out = self.separated("]", "or `]`", |c| c.uint("a size"))?;
        let total = out.iter().try_fold(1u64, |n, &d| n.checked_mul(d.max(1)));
        if out.len() > MAX_RANK || total.is_none_or(|n| n > MAX_DEVICES) {
            return Err(at.error_here(format!("at most {MAX_DEVICES} devices are supported")));
        }
        Ok(out)
    }

    /// `[2,4]T(1,0)`: counting in the first order, listed in the transposed one.
    fn iota_devices(&mut self) -> PResult<Vec<u64>> {
        let dims = self.bracketed_sizes()?;
        let mut order: Vec<usize> = (0..dims.len()).collect();
        if self.eat("T") {
            let mut at = *self;
            self.expect("(", "to begin a permutation")?;
            order = self.separated(")", "or `)`", |c| Ok(c.uint("a dimension number")? as usize))?;
            let mut sorted = order.clone();
            sorted.sort_unstable();
            if !sorted.iter().copied().eq(0..dims.len()) {
                return Err(at.error_here("expected a permutation of the dimensions"));
            }
        }
        Ok(transposed_iota(&dims, &order))
    }

    /// `mesh['a'=2,'b'=4], device_ids=(..) {'a'}`
    fn mesh_groups(&mut self) -> PResult<Vec<Vec<u64>>> {
        if !self.eat_word("mesh") {
            return Err(self.unexpected("replica groups such as {{0,1},{2,3}} or [2,2]<=[4]"));
        }
        let mut at = *self;
        self.expect("[", "to begin a mesh")?;
        let axes: Vec<(&str, u64)> = self.separated("]", "or `]` in a mesh", |c| {
            let name = c.axis_name()?;
            c.expect("=", "after the axis name")?;
            Ok((name, c.uint("the axis size")?))
        })?;
        let sizes: Vec<u64> = axes.iter().map(|a| a.1).collect();
        let total = sizes.iter().try_fold(1u64, |n, &d| n.checked_mul(d)).filter(|&n| n <= MAX_DEVICES && n > 0);
        let Some(total) = total else {
            return Err(at.error_here(format!("at most {MAX_DEVICES} devices are supported")));
        };
        let devices = if self.eat(",") { self.mesh_devices()? } else { (0..total).collect() };
        if devices.len() as u64 != total {
            return Err(at.error_here(format!("the mesh has {total} places and {} devices", devices.len())));
        }
        // Split the axes into parts so that each group axis is a whole part.
        let mut parts: Vec<(usize, u64, u64)> = axes.iter().enumerate().map(|(i, a)| (i, 1, a.1)).collect();
        let mut grouped: Vec<(usize, u64)> = Vec::new();
        self.list("axes", |c| {
            let mut at = *c;
            let name = c.axis_name()?;
            let Some(axis) = axes.iter().position(|a| a.0 == name) else {
                return Err(at.error_here(format!("the mesh has no axis `{name}`")));
            };
            let (pre, size) = if c.eat(":") {
                c.expect("(", "before the sub-axis's offset")?;
                let pre = c.uint("the product of the sizes before the sub-axis")?;
                c.expect(")", "after the sub-axis's offset")?;
                (pre, c.uint("the sub-axis's size")?)
            } else {
                (1, axes[axis].1)
            };
            if !split_axis(&mut parts, axis, pre, size) || grouped.contains(&(axis, pre)) {
                return Err(at.error_here(format!("axis `{name}` cannot be used so")));
            }
            grouped.push((axis, pre));
            Ok(())
        })?;
        let dims: Vec<u64> = parts.iter().map(|p| p.2).collect();
        let index = |&(axis, pre): &(usize, u64)| parts.iter().position(|p| (p.0, p.1) == (axis, pre));
        let inner: Vec<usize> = grouped.iter().filter_map(index).collect();
        let mut order: Vec<usize> = (0..dims.len()).filter(|i| !inner.contains(i)).collect();
        let size: u64 = inner.iter().map(|&i| dims[i]).product();
        order.extend(inner);
        let places = transposed_iota(&dims, &order);
        Ok(places.chunks(size.max(1) as usize).map(|g| g.iter().map(|&p| devices[p as usize]).collect()).collect())
    }

    fn axis_name(&mut self) -> PResult<&'a str> {
        if matches!(self.peek(), Some(b'\'' | b'"')) {
            let span = self.string()?;
            return Ok(self.slice(span));
        }
        self.word("an axis name")
    }

    /// `device_ids=(0,2,1,3)` or `device_ids=([2,2]T(1,0))`
    fn mesh_devices(&mut self) -> PResult<Vec<u64>> {
        if !self.eat_word("device_ids") {
            return Err(self.unexpected("`device_ids=`"));
        }
        self.expect("=", "after `device_ids`")?;
        self.expect("(", "before the device ids")?;
        let mut at = *self;
        let out = if self.peek() == Some(b'[') {
            let ids = self.iota_devices()?;
            self.expect(")", "after the device ids")?;
            ids
        } else {
            self.separated(")", "or `)`", Cursor::device)?
        };
        let mut sorted = out.clone();
        sorted.sort_unstable();
        if sorted.iter().copied().ne(0..out.len() as u64) {
            return Err(at.error_here("the device ids are not a permutation of 0, 1, .."));
        }
        Ok(out)
    }
}

/// Splits the part of `axis` that begins after `pre` into `size` and the rest. Parts are (axis, product before, size).
fn split_axis(parts: &mut Vec<(usize, u64, u64)>, axis: usize, pre: u64, size: u64) -> bool {
    if pre == 0 || size == 0 {
        return false;
    }
    let Some(i) = parts
        .iter()
        .position(|p| p.0 == axis && pre >= p.1 && pre < p.1.saturating_mul(p.2.max(1)) || *p == (axis, pre, size))
    else {
        return false;
    };
    let (_, start, length) = parts[i];
    let before = pre / start;
    if !pre.is_multiple_of(start) || length % before != 0 || !(length / before).is_multiple_of(size) {
        return false;
    }
    let after = length / before / size;
    let pieces = [(axis, start, before), (axis, pre, size), (axis, pre.saturating_mul(size), after)];
    // A piece of size 1 is dropped unless it is the one asked for.
    parts.splice(i..=i, pieces.into_iter().enumerate().filter(|(k, p)| *k == 1 || p.2 != 1).map(|(_, p)| p));
    true
}

/// Row-major numbers of an array of these sizes, listed with its dimensions in another order (first is outermost).
fn transposed_iota(dims: &[u64], order: &[usize]) -> Vec<u64> {
    let mut strides = vec![1u64; dims.len()];
    for i in (1..dims.len()).rev() {
        strides[i - 1] = strides[i] * dims[i];
    }
    let mut out = vec![0u64];
    for &d in order {
        out = out
            .iter()
            .flat_map(|&base| (0..dims[d]).map(move |k| (base, k)))
            .map(|(b, k)| b + k * strides[d])
            .collect();
    }
    out
}
