//! Arrays in memory: parts of them, and vectors that are read from them and written to them. [`number`]: single numbers;
//! [`view`]: arrays seen with elements that do not lie there.

mod number;
mod view;

use super::scalar::{add, mul, two};
use super::value::{Expr, Form, Fun, Lane, Num, Ref, Region, Tensor, Val};
use super::{Lower, Made, MosaicArray, Refused};
use crate::kernel::{KernelBuilder, S};
use std::rc::Rc;
use systole_hlo::graph::Binary;
use systole_isa::{DType, Layout, Op};
use systole_mosaic::{MemRef, Operation, Space, Type, Value};

impl<'a> Lower<'a> {
    /// The array of a layout in vector memory, at an element row.
    pub(super) fn vmem_array(&mut self, layout: &Layout, base: S, offset: i32) -> Ref {
        let n = layout.dims.len();
        let strides = layout.row_strides().into_iter().enumerate();
        let strides = strides.map(|(d, s)| if d + 1 == n { None } else { Some(s as i64) }).collect();
        Ref {
            space: Space::Vmem,
            dtype: layout.dtype,
            dims: layout.dims.clone(),
            strides,
            plane: layout.plane_rows() as i64,
            base,
            offset: Num::Const(offset),
            lane: Num::Const(0),
            lane_zeros: super::facts::ALL_ZERO,
            uneven: false,
            whole: true,
            guarded: false,
            open: None,
            semaphores: (0, 0),
            buf: self.buffer(),
        }
    }

    /// An array of the kernel's own: in vector memory, scalar memory, or semaphores.
    pub(super) fn own_array(&mut self, b: &mut KernelBuilder, m: &MemRef) -> Result<Ref, Refused> {
        let dims = m.sizes().ok_or_else(|| Refused::new("an array of open size"))?;
        let count: u64 = dims.iter().product();
        let mut own = MosaicArray { dtype: m.element.dtype(), dims: dims.clone(), apart: false };
        own.apart = self.spec.apart.contains(&(self.own_buffers.len() as u32)) && own.can_be_apart();
        let layout = match own.apart {
            true => Layout::row_major(own.dtype, &own.stored(), self.sub(), self.shape().1),
            false => self.own_layout(m, &dims),
        };
        match m.space {
            Space::Vmem => {
                let rows = u32::try_from(layout.component_word_rows())
                    .map_err(|_| Refused::new("an array of too many rows"))?;
                let at = self.room(rows);
                let packing = layout.dtype.packing();
                let base = self.scratch[packing.trailing_zeros() as usize];
                let r = self.vmem_array(&layout, base, (at * packing as u32) as i32);
                self.own_buffers.push(r.buf);
                Ok(self.as_stored(r, &own))
            }
            Space::Smem => {
                let at = self.smem(&layout)?;
                let base = b.s_var(at as i32);
                let r = self.vmem_array(&layout, base, 0);
                Ok(Ref { space: Space::Smem, buf: crate::kernel::BufferRef::SCALAR_MEMORY, ..r })
            }
            Space::Semaphore => {
                let n = u32::try_from(count)
                    .ok()
                    .filter(|n| *n <= 64)
                    .ok_or_else(|| Refused::new("too many semaphores"))?;
                let first = self.semaphores;
                self.semaphores += n;
                let r = self.vmem_array(&layout, S::ZERO, first as i32);
                let mut step = 1;
                let mut strides = vec![None; dims.len()];
                for d in (0..dims.len()).rev() {
                    strides[d] = Some(step);
                    step *= dims[d] as i64;
                }
                Ok(Ref { space: Space::Semaphore, strides, semaphores: (first, n), ..r })
            }
            Space::Hbm => Err(Refused::new("an array of the kernel's own in HBM")),
        }
    }

    /// How an array of the kernel's own lies. In vector memory few rows are not padded to a register's where others follow
    /// them: kernels see the same memory under other sizes.
    fn own_layout(&self, m: &MemRef, dims: &[u64]) -> Layout {
        let (dtype, (sub, lanes)) = (m.element.dtype(), self.shape());
        let packing = dtype.packing() as u32;
        let together = match dims {
            [_, .., rows, _] => rows % u64::from(sub) != 0 && rows % u64::from(packing) == 0,
            _ => false,
        };
        let padded = if together && m.space == Space::Vmem { packing } else { sub };
        Layout::row_major(dtype, dims, padded, lanes)
    }

    /// Words of scalar memory for an array; the first one's number.
    pub(super) fn smem(&mut self, layout: &Layout) -> Result<u32, Refused> {
        let words = layout.component_bytes() / 4;
        let words = u32::try_from(words).ok().filter(|w| u64::from(*w) * 4 <= self.chip.smem.bytes);
        let words = words.ok_or_else(|| Refused::new("an array beyond scalar memory"))?;
        let at = self.spec.smem + self.words;
        self.words += words;
        Ok(at)
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "no other type is an array")]
    pub(super) fn allocate(&mut self, b: &mut KernelBuilder, o: &Operation) -> Result<Val, Refused> {
        match self.type_of(o.results[0]).clone() {
            Type::MemRef(m) => {
                let r = self.own_array(b, &m)?;
                Ok(self.bound(o.results[0], r))
            }
            _ => Err(Refused::at(o, "makes no array")),
        }
    }

    /// An array that a value of the program stands for.
    pub(super) fn bound(&self, v: Value, r: Ref) -> Val {
        Val::Ref(Ref { guarded: self.facts.is_filled(v), ..r })
    }

    /// A reference moved on by indices.
    pub(super) fn at(&mut self, b: &mut KernelBuilder, r: &Ref, indices: &[Num]) -> Ref {
        let known = |n: &Num| match n {
            Num::Const(c) => (*n, super::facts::zeros_of(i64::from(*c))),
            Num::Reg(_) => (*n, 0),
        };
        self.moved_by(b, r, &indices.iter().map(known).collect::<Vec<(Num, u32)>>())
    }

    /// A reference moved on by indices, of each of which so many low bits are zero.
    pub(super) fn moved_by(&mut self, b: &mut KernelBuilder, r: &Ref, indices: &[(Num, u32)]) -> Ref {
        let mut out = r.clone();
        for ((i, zeros), stride) in indices.iter().zip(&r.strides) {
            match stride {
                Some(s) => {
                    let even = (s << (*zeros).min(8)) % r.dtype.packing() as i64 == 0;
                    out.uneven |= matches!(i, Num::Reg(_)) && !even;
                    let rows = mul(b, *i, Num::Const(*s as i32));
                    out.offset = add(b, out.offset, rows);
                }
                None => {
                    out.lane = add(b, out.lane, *i);
                    out.lane_zeros = out.lane_zeros.min(*zeros);
                }
            }
        }
        out
    }

    /// Where a vector of sizes `dims` lies in an array.
    pub(super) fn region_at(
        &mut self,
        b: &mut KernelBuilder,
        r: &Ref,
        dims: &[u64],
    ) -> Result<(Region, Form), Refused> {
        if r.space != Space::Vmem {
            return Err(Refused::new("vectors are read from vector memory and written to it only"));
        }
        let form = if r.strides.last().is_some_and(Option::is_some) { Form::Rows } else { Form::Lanes };
        let mut steps: Vec<i64> = r.strides.iter().flatten().copied().collect();
        let n = super::value::phys(dims, form).len();
        while steps.len() < n - 1 {
            steps.insert(0, 0);
        }
        let mut region = Region {
            dtype: r.dtype,
            base: r.base,
            offset: 0,
            steps,
            plane: r.plane,
            lane: Lane::known(0),
            guarded: r.guarded,
            spread: false,
            own: false,
            buf: r.buf,
            temp: None,
        };
        match r.offset {
            Num::Const(c) => region.offset = c,
            Num::Reg(s) => region.base = self.sum(b, r.base, s),
        }
        let bits = self.shape().1.trailing_zeros();
        match r.lane {
            // Whole registers of lanes.
            Num::Reg(_) if r.lane_zeros >= bits => {
                let planes = two(b, Op::SShr, r.lane, Num::Const(bits as i32));
                let rows = mul(b, planes, Num::Const(r.plane as i32));
                self.advance(b, &mut region, rows);
            }
            lane @ (Num::Const(_) | Num::Reg(_)) => {
                let columns = if form == Form::Rows { 1 } else { dims.last().copied().unwrap_or(1) };
                self.skip_columns(b, &mut region, lane, columns);
            }
        }
        Ok((region, form))
    }

    /// The sum of a base and an index; the same register for the same two.
    fn sum(&mut self, b: &mut KernelBuilder, base: S, s: S) -> S {
        b.s(Op::SAdd, &[base, s])
    }

    /// Indices, each with how many of its low bits are zero.
    fn indices(&self, o: &Operation, values: &[Value]) -> Result<Vec<(Num, u32)>, Refused> {
        values.iter().map(|v| Ok((self.int_of(o, *v)?, self.facts.low_zeros(*v)))).collect()
    }

    /// The array and the indices of a load.
    fn loaded(&mut self, b: &mut KernelBuilder, o: &Operation) -> Result<Ref, Refused> {
        let r = self.array(o, o.operands[0])?;
        let indices = match o.groups() {
            Some(g) if g.len() > 1 => self.indices(o, g[1])?,
            _ => self.indices(o, &o.operands[1..])?,
        };
        Ok(self.moved_by(b, &r, &indices))
    }

    pub(super) fn load(&mut self, b: &mut KernelBuilder, o: &Operation) -> Result<Val, Refused> {
        if self.uses.get(&o.results[0]).copied().unwrap_or(0) == 0 {
            return Ok(Val::Nothing);
        }
        if o.groups().is_some_and(|g| g.get(2).is_some_and(|m| !m.is_empty())) {
            return Err(Refused::at(o, "with a mask"));
        }
        if let Some(t) = self.load_seen(b, o)? {
            return Ok(Val::Vector(t));
        }
        let dims = self.dims(o)?;
        let r = self.loaded(b, o)?;
        let (region, form) = self.region_at(b, &r, &dims)?;
        Ok(Val::Vector(Tensor::new(&dims, form, r.dtype, Expr::Memory(region))))
    }

    pub(super) fn load_strided(&mut self, b: &mut KernelBuilder, o: &Operation) -> Result<Val, Refused> {
        if let Some(t) = self.load_seen(b, o)? {
            return Ok(Val::Vector(t));
        }
        let dims = self.dims(o)?;
        let mut r = self.loaded(b, o)?;
        self.stretch(o, &mut r)?;
        let (region, form) = self.region_at(b, &r, &dims)?;
        Ok(Val::Vector(Tensor::new(&dims, form, r.dtype, Expr::Memory(region))))
    }

    fn stretch(&self, o: &Operation, r: &mut Ref) -> Result<(), Refused> {
        for (s, by) in r.strides.iter_mut().zip(o.ints("strides").unwrap_or_default()) {
            match s {
                Some(s) => *s *= by,
                None if by == 1 => {}
                None => return Err(Refused::at(o, "with steps along lanes")),
            }
        }
        Ok(())
    }

    pub(super) fn store(&mut self, b: &mut KernelBuilder, o: &Operation, i: usize) -> Result<(), Refused> {
        let groups = o.groups();
        let (array, indices, mask) = match &groups {
            Some(g) if g.len() >= 3 => (g[1][0], g[2].to_vec(), g.get(3).and_then(|m| m.first()).copied()),
            _ => (o.operands[1], o.operands[2..].to_vec(), None),
        };
        if let Val::View(v) = self.get(o, array)? {
            return self.store_seen(b, o, &v, &indices, mask, i);
        }
        let r = self.array(o, array)?;
        let indices = self.indices(o, &indices)?;
        let mut r = self.moved_by(b, &r, &indices);
        if &*o.name == "tpu.strided_store" {
            self.stretch(o, &mut r)?;
        }
        let t = self.vector(o, 0)?;
        let (region, form) = self.region_at(b, &r, &t.dims)?;
        let t = self.in_form(b, &t, form)?;
        let old = || Tensor::new(&t.dims, form, r.dtype, Expr::Memory(region.clone()));
        let merged = self.merged(b, o, &t, mask, old)?;
        self.write(b, &merged, &region, i)
    }

    /// What a store leaves: added to what is there, or that kept where a mask says so. `old` reads it.
    fn merged(
        &mut self,
        b: &mut KernelBuilder,
        o: &Operation,
        t: &Rc<Tensor>,
        mask: Option<Value>,
        old: impl Fn() -> Rc<Tensor>,
    ) -> Made {
        let (dims, dtype) = (t.dims.clone(), t.dtype);
        let mut t = Rc::clone(t);
        if o.flag("add") {
            t = self.combined(b, Fun::Binary(Binary::Add), vec![old(), t], &dims, dtype)?;
        }
        if let Some(m) = mask {
            let Val::Vector(m) = self.get(o, m)? else { return Err(Refused::at(o, "a mask that is no vector")) };
            t = self.combined(b, Fun::Select, vec![m, t, old()], &dims, dtype)?;
        }
        Ok(t)
    }

    /// Computes a vector into an array, at operation `i`.
    #[allow(clippy::wildcard_enum_match_arm, reason = "the question is for recast vectors alone")]
    pub(super) fn write(
        &mut self,
        b: &mut KernelBuilder,
        t: &Rc<Tensor>,
        to: &Region,
        i: usize,
    ) -> Result<(), Refused> {
        // Dimensions of size 1 that were added for the store matter to nobody.
        let inner = match &*t.expr.borrow() {
            Expr::Recast(k) if !t.shared.get() => Some(Rc::clone(k)),
            _ => None,
        };
        if let Some(k) = inner {
            let (mine, theirs) = (t.phys(), k.phys());
            let mut to = to.clone();
            let steps = mine.iter().zip(to.outer()).filter(|d| *d.0 != 1).map(|d| *d.1).collect::<Vec<i64>>();
            let mut steps = steps.into_iter();
            let outer = theirs[..theirs.len() - 2].iter().map(|d| if *d == 1 { 0 } else { steps.next().unwrap_or(0) });
            to.steps = outer.chain([to.row()]).collect();
            return self.write(b, &k, &to, i);
        }
        let mut kept = Vec::new();
        super::block::kept(t, &mut kept);
        self.settle(b, Some(to.buf), i, &kept)?;
        if self.accumulate(b, t, to)? {
            return Ok(());
        }
        if super::block::crosses(t, to, true) {
            self.force_memory_apart(b, t)?;
        }
        self.store_all(b, t, to)
    }

    /// Computes a vector into memory of its own.
    pub(super) fn force_memory_apart(&mut self, b: &mut KernelBuilder, t: &Rc<Tensor>) -> Result<(), Refused> {
        let expr = t.expr.borrow().clone();
        if let Expr::Memory(_) = expr {
            let copy = Tensor::new(&t.dims, t.form, t.dtype, expr);
            let region = self.temp(b, &t.dims, t.form, t.dtype);
            self.store_all(b, &copy, &region)?;
            *t.expr.borrow_mut() = Expr::Memory(region);
            return Ok(());
        }
        self.force_memory(b, t).map(|_| ())
    }

    /// The sizes of the array that an operation makes; `None`: known at run time only.
    #[allow(clippy::wildcard_enum_match_arm, reason = "no other type is an array")]
    fn open_sizes_of(&self, o: &Operation) -> Result<Vec<Option<u64>>, Refused> {
        match self.type_of(o.results[0]) {
            Type::MemRef(m) => Ok(m.dims.clone()),
            _ => Err(Refused::at(o, "makes no array")),
        }
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "no other type is an array")]
    fn sizes(&self, o: &Operation) -> Result<(Vec<u64>, DType), Refused> {
        match self.type_of(o.results[0]) {
            Type::MemRef(m) => {
                let dims = m.sizes().ok_or_else(|| Refused::at(o, "of a size that is known at run time only"))?;
                Ok((dims, m.element.dtype()))
            }
            _ => Err(Refused::at(o, "makes no array")),
        }
    }

    pub(super) fn slice_of(&mut self, b: &mut KernelBuilder, o: &Operation) -> Result<Val, Refused> {
        if let Val::View(v) = self.get(o, o.operands[0])? {
            return self.slice_seen(b, o, &v);
        }
        let r = self.array(o, o.operands[0])?;
        let (first, open) = match o.groups() {
            Some(g) if g.len() > 1 => (g[1].to_vec(), g.get(2).map(|g| g.to_vec()).unwrap_or_default()),
            _ => (o.operands[1..].to_vec(), Vec::new()),
        };
        let sizes = self.open_sizes_of(o)?;
        // What is known at run time only is at most what there is.
        let dims: Vec<u64> = sizes.iter().zip(&r.dims).map(|(d, all)| d.unwrap_or(*all)).collect();
        let unknown: Vec<usize> = (0..sizes.len()).filter(|d| sizes[*d].is_none()).collect();
        let size = match (&unknown[..], &open[..]) {
            ([], _) => None,
            ([d], [n]) if d + 1 < sizes.len() => Some((*d, self.int_of(o, *n)?)),
            _ => return Err(Refused::at(o, "of several sizes that are known at run time only, or of columns")),
        };
        let indices = self.indices(o, &first)?;
        let mut out = self.moved_by(b, &r, &indices);
        out.whole = r.whole && dims.last() == r.dims.last();
        out.dims = dims;
        out.open = size.or(r.open);
        Ok(Val::Ref(out))
    }

    pub(super) fn squeezed(&mut self, o: &Operation) -> Result<Val, Refused> {
        if let Val::View(v) = self.get(o, o.operands[0])? {
            return self.squeeze_seen(o, &v);
        }
        let mut r = self.array(o, o.operands[0])?;
        let sizes = self.open_sizes_of(o)?;
        let most = r.open.map_or(0, |(d, _)| r.dims[d]);
        let dims: Vec<u64> = sizes.iter().map(|d| d.unwrap_or(most)).collect();
        r.open = r.open.and_then(|(_, n)| Some((sizes.iter().position(Option::is_none)?, n)));
        let left = Self::left(o, &r.dims, &dims)?;
        r.strides = left.iter().map(|d| r.strides[*d]).collect();
        r.dims = dims;
        Ok(Val::Ref(r))
    }

    /// Which dimensions are left where some of size 1 are dropped.
    fn left(o: &Operation, have: &[u64], want: &[u64]) -> Result<Vec<usize>, Refused> {
        let mut left = vec![0; want.len()];
        let mut j = want.len();
        for i in (0..have.len()).rev() {
            if j > 0 && want[j - 1] == have[i] && (have[i] != 1 || i + want.len() - j < have.len() || i < j) {
                j -= 1;
                left[j] = i;
            } else if have[i] != 1 {
                return Err(Refused::at(o, "drops what is no dimension of size 1"));
            }
        }
        match j {
            0 => Ok(left),
            _ => Err(Refused::at(o, "drops too many dimensions")),
        }
    }

    /// The same memory under another shape or element type.
    pub(super) fn recast(&mut self, b: &mut KernelBuilder, o: &Operation) -> Result<Val, Refused> {
        let (dims, dtype) = self.sizes(o)?;
        if let Val::View(v) = self.get(o, o.operands[0])? {
            return self.recast_seen(b, o, &v, &dims, dtype);
        }
        let r = self.array(o, o.operands[0])?;
        if r.dtype != dtype && (r.dtype.bits() < 8 || dtype.bits() < 8) {
            return self.seen_as_narrow(o, r, &dims, dtype);
        }
        self.recast_to(b, &r, &dims, dtype).map(Val::Ref).map_err(|e| Refused::at(o, e.what))
    }

    pub(super) fn recast_to(
        &mut self,
        b: &mut KernelBuilder,
        r: &Ref,
        dims: &[u64],
        dtype: DType,
    ) -> Result<Ref, Refused> {
        let mut out = r.clone();
        let (from, to) = (r.dtype.packing() as i64, dtype.packing() as i64);
        let mut have = r.dims.clone();
        if from != to {
            // Rows are split, or put together.
            let n = have.len();
            let scale = |s: i64| if s * to % from == 0 { Some(s * to / from) } else { None };
            let wrong = || Refused::new("rows that do not fill words");
            out.plane = scale(r.plane).ok_or_else(wrong)?;
            for (d, s) in out.strides.iter_mut().enumerate() {
                if let Some(s) = s
                    && d + 2 != n
                {
                    *s = scale(*s).ok_or_else(wrong)?;
                }
            }
            if n >= 2 {
                have[n - 2] = (have[n - 2] as i64 * to / from) as u64;
            }
            out.base = self.rescaled(b, r.base, from, to);
            out.offset = match r.offset {
                Num::Const(c) => Num::Const((i64::from(c) * to / from) as i32),
                Num::Reg(s) => Num::Reg(self.rescaled(b, s, from, to)),
            };
        }
        out.dtype = dtype;
        out.dims = dims.to_vec();
        if have != dims {
            let n = have.len();
            let rows: Option<Vec<i64>> = out.strides[..n.saturating_sub(1)].iter().copied().collect();
            let same = have.last() == dims.last() && r.strides.last() == Some(&None);
            let steps = rows
                .filter(|_| same)
                .and_then(|rows| super::shapes::restrided(&have[..n - 1], &rows, &dims[..dims.len() - 1]));
            let steps = steps.ok_or_else(|| Refused::new(format!("sizes {have:?} as {dims:?}")))?;
            out.strides = steps.into_iter().map(Some).chain([None]).collect();
        }
        Ok(out)
    }
}
