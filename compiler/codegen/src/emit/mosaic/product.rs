//! Matrix products: each shape has a kernel of its own, by the emitter of all contractions, that the kernel calls.

use super::value::{Expr, Form, Fun, Num, Product, Region, Tensor, Val};
use super::{Lower, Made, Refused};
use crate::emit::mxu::{Array, Contraction, Epilogue, MatView, Place, TileAt, choose, contraction_kernel};
use crate::emit::{Value, elementwise};
use crate::kernel::{KernelBuilder, S};
use std::rc::Rc;
use systole_hlo::graph::Binary;
use systole_hlo::graph::op::Precision;
use systole_isa::{DType, Op};
use systole_mosaic::{Operation, text};

/// Word rows that a product may use for sums.
const ROOM: u32 = 1 << 15;

/// Converts the sums to the result's type, and adds what is given with them.
struct Finish(DType);

impl Epilogue for Finish {
    fn apply(&mut self, b: &mut KernelBuilder, sums: Value, at: &TileAt<'_>) -> Value {
        let v = elementwise::convert(b, &sums, self.0);
        at.extras.iter().fold(v, |v, more| elementwise::binary(b, Binary::Add, &v, more))
    }
}

/// Which dimension of an operand is what.
struct Roles {
    batch: Vec<usize>,
    own: Vec<usize>,
    shared: Vec<usize>,
}

fn roles(o: &Operation) -> Option<(Roles, Roles)> {
    let of = |l: &[i64]| l.iter().map(|d| *d as usize).collect::<Vec<usize>>();
    if let Some(numbers) = o.word("dimension_numbers") {
        let l = text::lists(numbers);
        let [lc, rc, ln, rn, _, lb, rb] = &l[..] else { return None };
        let left = Roles { batch: of(lb), own: of(ln), shared: of(lc) };
        let right = Roles { batch: of(rb), own: of(rn), shared: of(rc) };
        return Some((left, right));
    }
    let plain = |turned: bool, k: usize| {
        let k = if turned { 1 - k } else { k };
        Roles { batch: Vec::new(), own: vec![1 - k], shared: vec![k] }
    };
    Some((plain(o.flag("transpose_lhs"), 1), plain(o.flag("transpose_rhs"), 0)))
}

impl Roles {
    /// Whether each of so many dimensions has one role.
    fn fit(&self, rank: usize) -> bool {
        let mut all = [&self.batch[..], &self.own, &self.shared].concat();
        all.sort_unstable();
        all.into_iter().eq(0..rank)
    }
}

/// Which of the dimensions (those of batches, the left operand's, the right one's) each of the result's is.
fn result_order(o: &Operation, left: &Roles, right: &Roles) -> Option<Vec<usize>> {
    let of = |side: i64, d: &[usize]| d.iter().map(|d| [side, *d as i64]).collect::<Vec<_>>();
    let all = [of(0, &left.batch), of(0, &left.own), of(1, &right.own)].concat();
    let asked = o.word("dimension_numbers").map(text::lists).and_then(|l| l.get(4).cloned()).unwrap_or_default();
    if asked.is_empty() {
        return Some((0..all.len()).collect());
    }
    let places: Option<Vec<usize>> = asked.chunks(2).map(|d| all.iter().position(|k| k[..] == *d)).collect();
    places.filter(|p| p.len() == all.len())
}

impl Lower<'_> {
    pub(super) fn product(&mut self, b: &mut KernelBuilder, o: &Operation) -> Result<Val, Refused> {
        let (left, right) = roles(o).ok_or_else(|| Refused::at(o, "of unknown dimensions"))?;
        let (x, y) = (self.vector(o, 0)?, self.vector(o, 1)?);
        if !left.fit(x.dims.len()) || !right.fit(y.dims.len()) {
            return Err(Refused::at(o, "whose dimension numbers are not those of its operands"));
        }
        let x = self.in_form(b, &x, Form::Lanes)?;
        let y = self.in_form(b, &y, Form::Lanes)?;
        // The left operand has what is summed along lanes; the right one may have it either way.
        let turned = right.shared.last().is_some_and(|d| d + 1 == y.dims.len());
        let sizes = |t: &Tensor, p: &[usize]| p.iter().map(|d| t.dims[*d]).collect::<Vec<u64>>();
        let count = |t: &Tensor, p: &[usize]| p.iter().map(|d| t.dims[*d]).product::<u64>();
        let (batch, m, k) = (count(&x, &left.batch), count(&x, &left.own), count(&x, &left.shared));
        let cols = count(&y, &right.own);
        if (batch, k) != (count(&y, &right.batch), count(&y, &right.shared)) {
            return Err(Refused::at(o, format!("of operands of sizes {:?} and {:?}", x.dims, y.dims)));
        }
        // Several dimensions of a kind are one.
        let one = |rows: u64, columns: u64| match left.batch[..] {
            [] => vec![rows, columns],
            _ => vec![batch, rows, columns],
        };
        let own = [sizes(&x, &left.batch), sizes(&x, &left.own), sizes(&y, &right.own)].concat();
        let p = [&left.batch[..], &left.own, &left.shared].concat();
        let q = if turned {
            [&right.batch[..], &right.own, &right.shared].concat()
        } else {
            [&right.batch[..], &right.shared, &right.own].concat()
        };
        let x = self.permuted(b, &x, &p, &sizes(&x, &p))?;
        let y = self.permuted(b, &y, &q, &sizes(&y, &q))?;
        let x = self.reshaped(b, &x, &one(m, k))?;
        let y = self.reshaped(b, &y, &if turned { one(cols, k) } else { one(k, cols) })?;
        let x = self.in_form(b, &x, Form::Lanes)?;
        let y = self.in_form(b, &y, Form::Lanes)?;
        let dims = self.dims(o)?;
        let places = result_order(o, &left, &right).filter(|p| p.iter().map(|i| own[*i]).eq(dims.iter().copied()));
        let places = places.ok_or_else(|| Refused::at(o, format!("of a result of sizes {dims:?}, not {own:?}")))?;
        let to = self.element(o, o.results[0])?;
        let exact = o.word("precision").is_some_and(|p| p.contains("fp32"));
        let asked = if exact { Precision::Highest } else { Precision::Default };
        let wide = x.dtype == DType::F32 || y.dtype == DType::F32;
        let precision = if wide { asked.max(self.spec.precision) } else { asked };
        // A matrix of floats with a vector is as exact as the vector units: a register of weights would have one column.
        let vector = cols == 1 && left.batch.is_empty() && [x.dtype, y.dtype, to] == [DType::F32; 3];
        let whole = x.dtype.is_integer() && y.dtype.is_integer() && to == DType::S32;
        let shape = (one(m, cols), [batch, m, k, cols]);
        let result = if vector {
            self.with_vector(b, &x, &y, turned)?
        } else if whole && x.dtype.bits().max(y.dtype.bits()) > 8 {
            self.digitwise(b, (&x, &y), turned, &shape)?
        } else {
            let product = Product { x, y, turned, sizes: shape.1, precision };
            Tensor::new(&shape.0, Form::Lanes, to, Expr::Product(Rc::new(product)))
        };
        let result = self.reshaped(b, &result, &own)?;
        let result = self.permuted(b, &result, &places, &dims)?;
        let acc = self.vector(o, 2)?;
        if let Expr::Splat(v) = &*acc.expr.borrow() {
            let zero = crate::emit::elementwise::constant_f64(b, 0.0, to);
            if v.all() == zero.all() {
                return Ok(Val::Vector(result));
            }
        }
        self.combined(b, Fun::Binary(Binary::Add), vec![acc, result], &dims, to).map(Val::Vector)
    }

    /// A matrix times a vector: the sums of its rows' elements, each times the vector's.
    fn with_vector(&mut self, b: &mut KernelBuilder, x: &Rc<Tensor>, y: &Rc<Tensor>, turned: bool) -> Made {
        let (m, k) = (x.dims[0], x.dims[1]);
        let y = if turned { Rc::clone(y) } else { self.permuted(b, y, &[1, 0], &[1, k])? };
        let y = self.expanded(b, &y, &x.dims)?;
        let terms = self.combined(b, Fun::Binary(Binary::Mul), vec![Rc::clone(x), y], &x.dims, x.dtype)?;
        let sums = self.reduced(b, &terms, &[1], "add")?;
        self.reshaped(b, &sums, &[m, 1])
    }

    /// A product of integers wider than matrix units take: of their digits, each a signed byte. Sums wrap as 32 bits do, so what
    /// digits stand for beyond these is left out.
    fn digitwise(
        &mut self,
        b: &mut KernelBuilder,
        (x, y): (&Rc<Tensor>, &Rc<Tensor>),
        turned: bool,
        (dims, sizes): &(Vec<u64>, [u64; 4]),
    ) -> Made {
        let (left, right) = (self.digits(b, x)?, self.digits(b, y)?);
        let mut sum: Option<Rc<Tensor>> = None;
        for place in (0..(left.len() + right.len() - 1).min(4)).rev() {
            if let Some(higher) = sum.take() {
                sum = Some(self.with_number(b, Fun::Binary(Binary::Shl), higher, 8)?);
            }
            for (i, x) in left.iter().enumerate() {
                let Some(y) = place.checked_sub(i).and_then(|j| right.get(j)) else { continue };
                let (x, y) = (Rc::clone(x), Rc::clone(y));
                let product = Product { x, y, turned, sizes: *sizes, precision: Precision::Default };
                let t = Tensor::new(dims, Form::Lanes, DType::S32, Expr::Product(Rc::new(product)));
                self.force_memory(b, &t)?;
                let all = match sum.take() {
                    Some(sum) => self.combined(b, Fun::Binary(Binary::Add), vec![sum, t], dims, DType::S32)?,
                    None => t,
                };
                self.force_memory(b, &all)?;
                sum = Some(all);
            }
        }
        sum.ok_or_else(|| Refused::new("of no digits"))
    }

    /// The digits of integers to the base 256, from -128 to 127 each, the lowest first; as many as 32 bits need.
    fn digits(&mut self, b: &mut KernelBuilder, t: &Rc<Tensor>) -> Result<Vec<Rc<Tensor>>, Refused> {
        if t.dtype.bits() <= 8 {
            return Ok(vec![Rc::clone(t)]);
        }
        // The highest digit of 16 bits may be 128: that is two.
        let (count, dims) = (if t.dtype.bits() <= 16 { 3 } else { 4 }, t.dims.clone());
        let mut rest = Rc::clone(t);
        if t.dtype != DType::S32 {
            rest = self.combined(b, Fun::Convert, vec![rest], &dims, DType::S32)?;
        }
        let mut digits = Vec::new();
        for _ in 0..count {
            let up = self.with_number(b, Fun::Binary(Binary::Shl), Rc::clone(&rest), 24)?;
            let low = self.with_number(b, Fun::Binary(Binary::Sar), up, 24)?;
            let without = vec![rest, Rc::clone(&low)];
            rest = self.combined(b, Fun::Binary(Binary::Sub), without, &dims, DType::S32)?;
            rest = self.with_number(b, Fun::Binary(Binary::Sar), rest, 8)?;
            self.force_memory(b, &rest)?;
            let digit = self.combined(b, Fun::Convert, vec![low], &dims, DType::S8)?;
            self.force_memory(b, &digit)?;
            digits.push(digit);
        }
        Ok(digits)
    }

    /// Makes a product into memory of its own.
    pub(super) fn multiplied(&mut self, b: &mut KernelBuilder, t: &Tensor, p: &Product) -> Result<Region, Refused> {
        let line = b.set_place(if t.place.get() == 0 { b.current_place().0 } else { t.place.get() });
        // Rows of padding belong to the result: the unit stores whole registers.
        let mut padded = t.dims.clone();
        let d = padded.len();
        padded[d - 2] = p.sizes[1].next_multiple_of(u64::from(self.sub()));
        let mut out = self.temp(b, &padded, Form::Lanes, t.dtype);
        // Of one column only the first lane has the sums.
        out.spread = false;
        self.multiply(b, p, &out, None)?;
        b.set_place(line);
        Ok(out)
    }

    /// Makes a product into a region, added to what another one of the same geometry has.
    fn multiply(
        &mut self,
        b: &mut KernelBuilder,
        p: &Product,
        out: &Region,
        plus: Option<&Region>,
    ) -> Result<(), Refused> {
        self.land(b)?;
        let [batch, m, k, n] = p.sizes;
        let x = self.aligned(b, &p.x)?;
        let y = self.aligned(b, &p.y)?;
        let (sub, lanes) = self.shape();
        let view = |r: &Region, rows: u64, cols: u64| {
            let planes = cols.div_ceil(u64::from(lanes)) as i64;
            let batch_stride = r.outer().last().copied().unwrap_or(0);
            let last = (planes - 1) * r.plane + (batch as i64 - 1) * batch_stride;
            let total = last + rows.next_multiple_of(u64::from(sub)) as i64 * r.row().max(1);
            MatView {
                array: Array {
                    place: Place::Vmem,
                    dtype: r.dtype,
                    plane_rows: r.plane as u32,
                    total_rows: (total as u32).next_multiple_of(4 * sub),
                },
                row_stride: r.row() as u32,
                batch_stride: batch_stride as u32,
            }
        };
        let left = view(&x, m, k);
        let right = if p.turned { view(&y, n, k) } else { view(&y, k, n) };
        let result = view(out, m, n);
        let mut c = Contraction::dot(batch as u32, [m as u32, k as u32, n as u32], left, (right, p.turned), result);
        c.precision = p.precision;
        c.vmem_rows = ROOM;
        c.extras = plus.iter().map(|r| (Place::Vmem, r.dtype)).collect();
        let (callee, scratch) = self.product_kernel(b, &c)?;
        let mut args = Vec::new();
        for r in [&x, &y, out].into_iter().chain(plus) {
            args.push(self.word_row_of(b, r));
        }
        args.push(b.s_addi(self.word_row, scratch as i32));
        b.call(callee, &args);
        Ok(())
    }

    /// Stores the sum of a product and an array in one go, if the vector is one that goes where the array is.
    #[allow(clippy::wildcard_enum_match_arm, reason = "what is no product is added as it is")]
    pub(super) fn accumulate(&mut self, b: &mut KernelBuilder, t: &Rc<Tensor>, to: &Region) -> Result<bool, Refused> {
        let (p, plus, product) = match &*t.expr.borrow() {
            Expr::Element(Fun::Binary(Binary::Add), kids) => {
                let parts = |x: &Rc<Tensor>, y: &Rc<Tensor>| match (&*x.expr.borrow(), &*y.expr.borrow()) {
                    (Expr::Product(p), Expr::Memory(r)) => Some((Rc::clone(p), r.clone(), Rc::clone(x))),
                    _ => None,
                };
                match parts(&kids[0], &kids[1]).or_else(|| parts(&kids[1], &kids[0])) {
                    Some(found) => found,
                    None => return Ok(false),
                }
            }
            _ => return Ok(false),
        };
        // What streams by needs no sums in memory.
        if self.units(&p).is_some() {
            return Ok(false);
        }
        let lanes = u64::from(self.shape().1);
        let whole = p.sizes[1] % u64::from(self.sub()) == 0 && p.sizes[3] % lanes == 0;
        let alike = (plus.plane, &plus.steps) == (to.plane, &to.steps) && to.row() >= 1;
        let first = |r: &Region| r.lane.first == Num::Const(0) && r.dtype.packing() == 1;
        let apart = !super::block::crosses(&product, to, false);
        // Only this sum needs the product: the expression holds it, and nobody else does.
        let single = Rc::strong_count(&product) <= 3;
        if !(whole && alike && first(&plus) && first(to) && apart && single && !t.shared.get()) {
            return Ok(false);
        }
        let line = b.set_place(if product.place.get() == 0 { b.current_place().0 } else { product.place.get() });
        self.multiply(b, &p, to, Some(&plus))?;
        b.set_place(line);
        Ok(true)
    }

    /// The number of a contraction's kernel, and the word row of its scratch memory.
    fn product_kernel(&mut self, b: &KernelBuilder, c: &Contraction) -> Result<(u32, u32), Refused> {
        let key = format!("{c:?}");
        if let Some(found) = self.products.get(&key) {
            return Ok(*found);
        }
        let wrong = |e: crate::emit::mxu::MxuError| Refused::new(e.to_string());
        let chosen = choose(c, self.chip, false).map_err(wrong)?;
        let mut finish = Finish(c.out.dtype);
        let name = format!("product {}", self.callees.len());
        let k = contraction_kernel(c, (&chosen.tile, None), &name, self.chip, &mut finish).map_err(wrong)?;
        let at = self.room(k.needs.scratch_rows.max(1));
        let kernel = match b.current_place().1 {
            Some(p) => k.kernel.at(p.clone()),
            None => k.kernel,
        };
        self.callees.push(kernel);
        let found = (self.callees.len() as u32 - 1, at);
        self.products.insert(key, found);
        Ok(found)
    }

    /// A vector in memory as matrix units read it: from the first lane and a whole word on.
    pub(super) fn aligned(&mut self, b: &mut KernelBuilder, t: &Rc<Tensor>) -> Result<Region, Refused> {
        self.force_memory(b, t)?;
        if let Some(r) = self.as_read(t) {
            return Ok(r);
        }
        let copy = self.temp(b, &t.dims, t.form, t.dtype);
        self.store_all(b, t, &copy)?;
        Ok(copy)
    }

    /// Where a vector lies, if it lies as matrix units read it.
    pub(super) fn as_read(&self, t: &Rc<Tensor>) -> Option<Region> {
        let Expr::Memory(r) = &*t.expr.borrow() else { return None };
        let packing = r.dtype.packing() as i64;
        let even = |n: i64| n % packing == 0;
        let phys = t.phys();
        let (rows, columns) = (phys[phys.len() - 2], phys[phys.len() - 1]);
        let known = i64::from(r.offset) % packing == 0 && self.begins_words(r.base);
        let fine = r.lane.first == Num::Const(0) && known && even(r.plane) && r.outer().iter().all(|s| even(*s));
        // Matrix units read whole registers of rows.
        let fine = fine && (!r.guarded || rows.is_multiple_of(u64::from(self.sub())));
        (fine && (r.row() >= 1 || rows == 1) && !(r.spread && columns > 1)).then(|| r.clone())
    }

    /// Whether a base of element rows is known to begin a word row.
    pub(super) fn begins_words(&self, base: S) -> bool {
        self.scratch.contains(&base) || self.whole.contains(&base)
    }

    /// The word row of a region that begins one.
    pub(super) fn word_row_of(&mut self, b: &mut KernelBuilder, r: &Region) -> S {
        let shift = r.dtype.packing().trailing_zeros() as usize;
        let offset = r.offset >> shift;
        let base = match r.base {
            s if s == self.scratch[shift] => self.word_row,
            s if shift == 0 => s,
            s => b.def_s(Op::SShrI, &[s.into(), (shift as i32).into()]),
        };
        b.s_addi(base, offset)
    }
}
