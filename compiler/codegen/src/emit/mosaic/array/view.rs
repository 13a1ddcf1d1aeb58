//! Arrays seen with elements of other bits where one of the two types is narrower than a byte.
//!
//! Memory has a byte for each such element, so what is seen does not lie there: loads convert what they read, stores what
//! they write. Where rows begin or end within one of the array's, that is read around them, and written back.

use super::super::scalar::{add, mul, two};
use super::super::value::{Expr, Form, Num, Ref, Region, Tensor, Val, View};
use super::super::{Lower, Made, Refused};
use crate::kernel::KernelBuilder;
use std::rc::Rc;
use systole_isa::{DType, Op};
use systole_mosaic::{Operation, Space, Value};

/// The array's rows around those that are asked for.
struct Around {
    /// Sizes and first indices in the array.
    dims: Vec<u64>,
    first: Vec<(Num, u32)>,
    /// Sizes in the view's elements.
    seen: Vec<u64>,
    /// Rows of the view before the first that is asked for.
    before: Num,
}

/// Elements asked for: first indices, sizes and steps of the array's dimensions.
struct Asked {
    first: Vec<(Num, u32)>,
    sizes: Vec<u64>,
    steps: Vec<u64>,
}

impl Asked {
    /// Sizes from the first element to the last.
    fn reach(&self) -> Vec<u64> {
        self.sizes.iter().zip(&self.steps).map(|(n, step)| n.saturating_sub(1) * step + 1).collect()
    }
}

impl View {
    /// Elements at indices in the dimensions that are left.
    fn asked(
        &self,
        b: &mut KernelBuilder,
        indices: &[(Num, u32)],
        dims: &[u64],
        steps: &[u64],
    ) -> Result<Asked, Refused> {
        if indices.len() != self.left.len() || dims.len() != self.left.len() || steps.len() != self.left.len() {
            return Err(Refused::new("indices of other dimensions than the array has"));
        }
        let n = self.sizes.len();
        let mut asked = Asked { first: self.first.clone(), sizes: vec![1; n], steps: vec![1; n] };
        for (i, d) in self.left.iter().enumerate() {
            let (at, zeros) = asked.first[*d];
            asked.first[*d] = (add(b, at, indices[i].0), zeros.min(indices[i].1));
            asked.sizes[*d] = dims[i];
            asked.steps[*d] = steps[i];
        }
        match asked.steps[n - 1] {
            1 => Ok(asked),
            _ => Err(Refused::new("with steps along lanes")),
        }
    }

    /// The array's rows that hold what is asked for.
    fn around(&self, b: &mut KernelBuilder, asked: &Asked) -> Around {
        let (sizes, row) = (asked.reach(), self.sizes.len() - 2);
        let mut a = Around { dims: sizes.clone(), first: asked.first.clone(), seen: sizes, before: Num::Const(0) };
        let (mine, theirs) = (self.dtype.bits() as u64, self.of.dtype.bits() as u64);
        let ((at, zeros), rows) = (a.first[row], a.dims[row]);
        if mine >= theirs {
            let times = mine / theirs;
            let zeros = (zeros + times.trailing_zeros()).min(super::super::facts::ALL_ZERO);
            a.first[row] = (mul(b, at, Num::Const(times as i32)), zeros);
            a.dims[row] = rows * times;
            return a;
        }
        let times = theirs / mine;
        let log = times.trailing_zeros();
        let shift = Num::Const(log as i32);
        let start = two(b, Op::SShr, at, shift);
        if zeros >= log && rows.is_multiple_of(times) {
            (a.first[row], a.dims[row]) = ((start, zeros - log), rows / times);
            return a;
        }
        let (start, count) = match at {
            Num::Const(c) => (start, (c as u64 % times + rows).div_ceil(times)),
            Num::Reg(_) => {
                let all = self.of.dims[row];
                let count = (rows + times - 1).div_ceil(times).min(all);
                (two(b, Op::SMin, start, Num::Const((all - count) as i32)), count)
            }
        };
        let whole = two(b, Op::SShl, start, shift);
        a.before = two(b, Op::SSub, at, whole);
        (a.first[row], a.dims[row], a.seen[row]) = ((start, 0), count, count * times);
        a
    }
}

impl Around {
    /// Whether it is just what is asked for.
    fn is(&self, asked: &Asked) -> bool {
        self.seen == asked.sizes && self.before == Num::Const(0)
    }
}

impl Lower<'_> {
    /// `tpu.memref_bitcast` where elements narrower than a byte come or go.
    pub(super) fn seen_as_narrow(&mut self, o: &Operation, r: Ref, dims: &[u64], dtype: DType) -> Result<Val, Refused> {
        let n = r.dims.len();
        if r.space != Space::Vmem || r.open.is_some() || r.strides.last() != Some(&None) {
            return Err(Refused::at(o, "of elements narrower than a byte, but in vector memory"));
        }
        let bits = |dims: &[u64], t: DType| dims.get(n.wrapping_sub(2)).map(|rows| rows * t.bits() as u64);
        let fits = n >= 2 && dims.len() == n && dims[..n - 2] == r.dims[..n - 2] && dims[n - 1] == r.dims[n - 1];
        if !fits || bits(dims, dtype) != bits(&r.dims, r.dtype) {
            return Err(Refused::at(o, format!("sizes {:?} of {} as {dims:?} of {dtype}", r.dims, r.dtype)));
        }
        let first = vec![(Num::Const(0), super::super::facts::ALL_ZERO); n];
        Ok(Val::View(Rc::new(View { of: r, dtype, sizes: dims.to_vec(), first, left: (0..n).collect() })))
    }

    /// A view under another type again, or the array itself.
    pub(super) fn recast_seen(
        &mut self,
        b: &mut KernelBuilder,
        o: &Operation,
        v: &View,
        dims: &[u64],
        dtype: DType,
    ) -> Result<Val, Refused> {
        let (n, row) = (v.sizes.len(), v.sizes.len() - 2);
        let (from, to) = (v.dtype.bits() as u64, dtype.bits() as u64);
        let mut sizes = v.sizes.clone();
        sizes[row] = sizes[row] * from / to.max(1);
        if v.left.len() != n || sizes != dims || sizes[row] * to != v.sizes[row] * from {
            return Err(Refused::at(o, format!("sizes {:?} of {} as {dims:?} of {dtype}", v.sizes, v.dtype)));
        }
        let (at, zeros) = v.first[row];
        let first = if to <= from {
            let log = (from / to).trailing_zeros();
            (mul(b, at, Num::Const(1 << log)), (zeros + log).min(super::super::facts::ALL_ZERO))
        } else {
            let log = (to / from).trailing_zeros();
            if zeros < log {
                return Err(Refused::at(o, "of rows that begin within one of wider elements"));
            }
            (two(b, Op::SShr, at, Num::Const(log as i32)), zeros - log)
        };
        let mut seen = View { dtype, sizes, ..v.clone() };
        seen.first[row] = first;
        if dtype != seen.of.dtype {
            return Ok(Val::View(Rc::new(seen)));
        }
        let mut r = self.moved_by(b, &seen.of, &seen.first);
        r.whole = seen.of.whole && seen.sizes.last() == seen.of.dims.last();
        r.dims = seen.sizes;
        Ok(Val::Ref(r))
    }

    pub(super) fn slice_seen(&mut self, b: &mut KernelBuilder, o: &Operation, v: &View) -> Result<Val, Refused> {
        let first = match o.groups() {
            Some(g) if g.len() > 1 => g[1].to_vec(),
            _ => o.operands[1..].to_vec(),
        };
        let (dims, _) = self.sizes(o)?;
        let indices = self.indices(o, &first)?;
        let asked = v.asked(b, &indices, &dims, &vec![1; dims.len()]).map_err(|e| Refused::at(o, e.what))?;
        Ok(Val::View(Rc::new(View { sizes: asked.sizes, first: asked.first, ..v.clone() })))
    }

    pub(super) fn squeeze_seen(&mut self, o: &Operation, v: &View) -> Result<Val, Refused> {
        let (dims, _) = self.sizes(o)?;
        let have: Vec<u64> = v.left.iter().map(|d| v.sizes[*d]).collect();
        let left = Self::left(o, &have, &dims)?.into_iter().map(|d| v.left[d]).collect();
        Ok(Val::View(Rc::new(View { left, ..v.clone() })))
    }

    /// What a load from a view gives; `None`: the operand is another array.
    pub(super) fn load_seen(&mut self, b: &mut KernelBuilder, o: &Operation) -> Result<Option<Rc<Tensor>>, Refused> {
        let Val::View(v) = self.get(o, o.operands[0])? else { return Ok(None) };
        let indices = match o.groups() {
            Some(g) if g.len() > 1 => self.indices(o, g[1])?,
            _ => self.indices(o, &o.operands[1..])?,
        };
        let dims = self.dims(o)?;
        let asked = v.asked(b, &indices, &dims, &steps(o, dims.len())?).map_err(|e| Refused::at(o, e.what))?;
        let t = self.elements_seen(b, &v, &asked)?;
        self.reshaped(b, &t, &dims).map(Some)
    }

    fn elements_seen(&mut self, b: &mut KernelBuilder, v: &View, asked: &Asked) -> Made {
        let around = v.around(b, asked);
        let t = self.rows_seen(b, v, &around)?;
        if around.is(asked) {
            return Ok(t);
        }
        let region = self.force_memory(b, &t)?;
        let part = self.within_seen(b, &region, &around, asked);
        Ok(Tensor::new(&asked.sizes, Form::Lanes, v.dtype, Expr::Memory(part)))
    }

    /// The rows around what is asked for, as the view's elements.
    fn rows_seen(&mut self, b: &mut KernelBuilder, v: &View, a: &Around) -> Made {
        let region = self.rows_of(b, v, a)?;
        let t = Tensor::new(&a.dims, Form::Lanes, v.of.dtype, Expr::Memory(region));
        self.bits_as(b, &t, &a.seen, v.dtype)
    }

    /// Where these rows lie in the array.
    fn rows_of(&mut self, b: &mut KernelBuilder, v: &View, a: &Around) -> Result<Region, Refused> {
        let r = self.moved_by(b, &v.of, &a.first);
        self.region_at(b, &r, &a.dims).map(|r| r.0)
    }

    /// What is asked for in the memory of the rows around it.
    fn within_seen(&mut self, b: &mut KernelBuilder, rows: &Region, a: &Around, asked: &Asked) -> Region {
        let mut part = rows.clone();
        let before = mul(b, a.before, Num::Const(rows.row() as i32));
        self.advance(b, &mut part, before);
        let n = asked.steps.len();
        if let Some((row, outer)) = part.steps.split_last_mut() {
            *row *= asked.steps[n - 2] as i64;
            outer.iter_mut().zip(&asked.steps[..n - 2]).for_each(|(step, by)| *step *= *by as i64);
        }
        part.own = false;
        part
    }

    /// A store to a view, at operation `i`.
    pub(super) fn store_seen(
        &mut self,
        b: &mut KernelBuilder,
        o: &Operation,
        v: &View,
        indices: &[Value],
        mask: Option<Value>,
        i: usize,
    ) -> Result<(), Refused> {
        let indices = self.indices(o, indices)?;
        let t = self.vector(o, 0)?;
        let asked = v.asked(b, &indices, &t.dims, &steps(o, t.dims.len())?).map_err(|e| Refused::at(o, e.what))?;
        let t = if mask.is_some() || o.flag("add") {
            let old = self.elements_seen(b, v, &asked)?;
            let old = self.reshaped(b, &old, &t.dims)?;
            let t = self.in_form(b, &t, Form::Lanes)?;
            self.merged(b, o, &t, mask, || Rc::clone(&old))?
        } else {
            t
        };
        let t = self.reshaped(b, &t, &asked.sizes)?;
        let t = self.in_form(b, &t, Form::Lanes)?;
        let around = v.around(b, &asked);
        let region = self.rows_of(b, v, &around)?;
        let all = if around.is(&asked) {
            t
        } else {
            let rows = self.rows_seen(b, v, &around)?;
            let own = self.temp(b, &around.seen, Form::Lanes, v.dtype);
            self.store_all(b, &rows, &own)?;
            let part = self.within_seen(b, &own, &around, &asked);
            self.store_all(b, &t, &part)?;
            Tensor::new(&around.seen, Form::Lanes, v.dtype, Expr::Memory(own))
        };
        let back = self.bits_as(b, &all, &around.dims, v.of.dtype)?;
        self.write(b, &back, &region, i)
    }
}

/// Steps along each dimension of what an operation loads or stores.
fn steps(o: &Operation, dims: usize) -> Result<Vec<u64>, Refused> {
    match o.ints("strides").filter(|s| !s.is_empty()) {
        None => Ok(vec![1; dims]),
        Some(s) => {
            let steps: Option<Vec<u64>> =
                s.iter().map(|n| u64::try_from(*n).ok().filter(|n| *n > 0 && *n < 1 << 31)).collect();
            steps.ok_or_else(|| Refused::at(o, "with steps that are not above zero"))
        }
    }
}
