//! Operations by name, and those on vectors.

use super::value::{Expr, Form, Fun, Num, Tensor, Val};
use super::{Lower, Made, Refused};
use crate::kernel::KernelBuilder;
use std::rc::Rc;
use systole_hlo::graph::{Binary, Direction, Unary};
use systole_isa::DType;
use systole_mosaic::{Operation, Type};

/// The operation on elements of that name.
fn element(o: &Operation) -> Option<Fun> {
    let b = Fun::Binary;
    let u = |name: &str| Unary::from_name(name).map(Fun::Unary);
    Some(match &*o.name {
        "arith.addf" | "arith.addi" => b(Binary::Add),
        "arith.subf" | "arith.subi" => b(Binary::Sub),
        "arith.mulf" | "arith.muli" => b(Binary::Mul),
        "arith.divf" | "arith.divsi" => b(Binary::Div),
        "arith.remf" | "arith.remsi" => b(Binary::Rem),
        "arith.divui" => Fun::Unsigned(Binary::Div),
        "arith.remui" => Fun::Unsigned(Binary::Rem),
        "arith.maximumf" | "arith.maxsi" => b(Binary::Max),
        "arith.minimumf" | "arith.minsi" => b(Binary::Min),
        "arith.maxnumf" => Fun::Number(Binary::Max),
        "arith.minnumf" => Fun::Number(Binary::Min),
        "arith.maxui" => Fun::Unsigned(Binary::Max),
        "arith.minui" => Fun::Unsigned(Binary::Min),
        "arith.andi" => b(Binary::And),
        "arith.ori" => b(Binary::Or),
        "arith.xori" => b(Binary::Xor),
        "arith.shli" => b(Binary::Shl),
        "arith.shrsi" => b(Binary::Sar),
        "arith.shrui" => Fun::Unsigned(Binary::Shr),
        "arith.negf" => Fun::Unary(Unary::Neg),
        "arith.select" => Fun::Select,
        "arith.extf" | "arith.truncf" | "arith.sitofp" | "arith.fptosi" | "arith.extsi" | "arith.trunci"
        | "arith.index_cast" | "tpu.extf" | "tpu.truncf" | "tpu.sitofp" | "tpu.fptosi" | "tpu.ext_f"
        | "tpu.trunc_f" => Fun::Convert,
        "arith.uitofp" | "arith.extui" | "arith.index_castui" | "tpu.uitofp" => Fun::FromUnsigned,
        "arith.fptoui" | "tpu.fptoui" => Fun::ToUnsigned,
        "arith.bitcast" | "tpu.bitcast_vreg" => Fun::Bitcast,
        "arith.cmpi" => match o.int("predicate")? {
            0 => Fun::Compare(Direction::Eq),
            1 => Fun::Compare(Direction::Ne),
            2 => Fun::Compare(Direction::Lt),
            3 => Fun::Compare(Direction::Le),
            4 => Fun::Compare(Direction::Gt),
            5 => Fun::Compare(Direction::Ge),
            6 => Fun::CompareUnsigned(Direction::Lt),
            7 => Fun::CompareUnsigned(Direction::Le),
            8 => Fun::CompareUnsigned(Direction::Gt),
            9 => Fun::CompareUnsigned(Direction::Ge),
            _ => return None,
        },
        // Ordered comparisons, then those that hold with NaN.
        "arith.cmpf" => match o.int("predicate")? {
            1 => Fun::Compare(Direction::Eq),
            2 => Fun::Compare(Direction::Gt),
            3 => Fun::Compare(Direction::Ge),
            4 => Fun::Compare(Direction::Lt),
            5 => Fun::Compare(Direction::Le),
            // Pallas writes `!=` as the ordered comparison and means the one that holds with NaN.
            6 => Fun::Compare(Direction::Ne),
            7 => Fun::Ordered,
            8 => Fun::CompareOrNan(Direction::Eq),
            9 => Fun::CompareOrNan(Direction::Gt),
            10 => Fun::CompareOrNan(Direction::Ge),
            11 => Fun::CompareOrNan(Direction::Lt),
            12 => Fun::CompareOrNan(Direction::Le),
            13 => Fun::Compare(Direction::Ne),
            14 => Fun::Unordered,
            _ => return None,
        },
        "tpu.weird" => Fun::NotFinite,
        "math.fma" => Fun::Fma,
        "math.powf" => b(Binary::Pow),
        "math.atan2" => b(Binary::Atan2),
        "math.exp" => u("exponential")?,
        "math.exp2" => Fun::Exp2,
        "math.expm1" => u("exponential-minus-one")?,
        "math.log" => u("log")?,
        "math.log1p" => u("log-plus-one")?,
        "math.tanh" => u("tanh")?,
        "math.tan" => u("tan")?,
        "math.sin" => u("sine")?,
        "math.cos" => u("cosine")?,
        "math.sinh" => u("sinh")?,
        "math.cosh" => u("cosh")?,
        "math.asin" => u("asin")?,
        "math.acos" => u("acos")?,
        "math.atan" => u("atan")?,
        "math.sqrt" => u("sqrt")?,
        "math.rsqrt" => u("rsqrt")?,
        "math.cbrt" => u("cbrt")?,
        "math.erf" => u("erf")?,
        "math.absf" | "math.absi" => u("abs")?,
        "math.ceil" => u("ceil")?,
        "math.floor" => u("floor")?,
        "math.round" => u("round-nearest-afz")?,
        "math.roundeven" => u("round-nearest-even")?,
        "math.ctpop" => u("popcnt")?,
        "math.ctlz" => u("count-leading-zeros")?,
        _ => return None,
    })
}

impl<'a> Lower<'a> {
    /// One operation, the `i`-th of its block.
    #[allow(clippy::wildcard_enum_match_arm, reason = "vectors are computed by tiles, everything else is a number")]
    pub(super) fn operation(&mut self, b: &mut KernelBuilder, o: &'a Operation, i: usize) -> Result<(), Refused> {
        if let Some(fun) = element(o) {
            let v = match self.type_of(o.results[0]) {
                Type::Vector(..) => Val::Vector(self.elementwise(b, o, fun)?),
                _ => self.numbers(b, o, fun)?,
            };
            return self.define(b, o.results[0], v);
        }
        let v = match &*o.name {
            "arith.constant" => self.constant(b, o)?,
            "vector.broadcast" | "tpu.broadcast_in_sublanes" => self.broadcast(b, o)?,
            "vector.shape_cast" | "tpu.reshape" => {
                let t = self.vector(o, 0)?;
                let dims = self.dims(o)?;
                Val::Vector(self.reshaped(b, &t, &dims)?)
            }
            "vector.multi_reduction" => self.reduction(b, o)?,
            "tpu.reduce_index" => self.reduced_index(b, o)?,
            "tpu.iota" => {
                let dims = self.dims(o)?;
                let dtype = self.element(o, o.results[0])?;
                let axes = o.ints("dimensions").or_else(|| o.int("dimension").map(|d| vec![d]));
                self.iota_of(b, &dims, dtype, axes.unwrap_or_default())?
            }
            "tpu.matmul" | "vector.contract" => self.product(b, o)?,
            "tpu.transpose" | "vector.transpose" => self.transposed(b, o)?,
            "tpu.dynamic_rotate" | "tpu.rotate" => self.rotated(b, o)?,
            "tpu.dynamic_gather" => self.gathered(b, o)?,
            "tpu.prng_set_seed_32" => return self.seed(b, o),
            "tpu.prng_random_bits" => self.random_bits(b, o)?,
            "tpu.concatenate" => self.concatenated(b, o)?,
            "vector.extract_strided_slice" => self.sliced(b, o)?,
            "vector.extract" | "vector.extractelement" => self.extracted(b, o)?,
            "tpu.bitcast" => self.bitcast(b, o)?,
            "tpu.stochastic_convert" => self.rounded_at_random(b, o)?,
            "tpu.pack_elementwise" => self.packed(b, o)?,
            "tpu.unpack_elementwise" => self.unpacked(b, o)?,
            "tpu.reciprocal" => self.reciprocal(b, o)?,
            "tpu.relayout"
            | "tpu.assume_multiple"
            | "tpu.assume_layout"
            | "tpu.erase_memref_layout"
            | "tpu.erase_layout" => self.get(o, o.operands[0])?,
            "tpu.trace_start" => {
                self.regions.push(o.word("message").unwrap_or_default().to_string());
                return Ok(());
            }
            "tpu.trace_stop" => {
                self.regions.pop();
                return Ok(());
            }
            "tpu.log" => return self.printed(b, o),
            "tpu.log_buffer" => return self.printed_array(b, o),
            "cf.assert" => return self.checked(b, o),
            "tpu.trace_value" | "tpu.delay" => return Ok(()),
            "vector.load" | "tpu.vector_load" => self.load(b, o)?,
            "tpu.strided_load" => self.load_strided(b, o)?,
            "vector.store" | "tpu.vector_store" | "tpu.strided_store" => return self.store(b, o, i),
            "memref.load" => self.load_number(b, o)?,
            "memref.store" => return self.store_number(b, o, i),
            "tpu.memref_slice" => self.slice_of(b, o)?,
            "tpu.memref_squeeze" => self.squeezed(o)?,
            "tpu.memref_reshape" | "tpu.memref_bitcast" => self.recast(b, o)?,
            "tpu.enqueue_dma" => return self.enqueue(b, o, i),
            "tpu.wait_dma2" | "tpu.wait_dma" => return self.wait(b, o, i),
            "tpu.sem_alloc" | "tpu.sem_barrier" | "tpu.alloca_semaphore" | "memref.alloca" | "memref.alloc" => {
                self.allocate(b, o)?
            }
            "tpu.sem_signal" => return self.signal(b, o, i),
            "tpu.sem_wait" => return self.wait_semaphore(b, o, i),
            "tpu.sem_read" => self.read_semaphore(b, o)?,
            "tpu.device_id" => Val::Int(Num::Reg(b.def_s(systole_isa::Op::SDev, &[]))),
            "tpu.core_index" | "tpu.iteration_bound" if o.results.len() == 1 => Val::Int(self.program_number(o)?),
            "scf.if" => return self.branch(b, o, i),
            "scf.for" => return self.counted(b, o, i),
            "scf.while" => return self.repeated(b, o, i),
            "tpu.region" => return self.inner(b, o, i),
            _ => return Err(Refused::at(o, "has no lowering")),
        };
        match (o.results.first(), v) {
            (Some(r), v) => self.define(b, *r, v),
            (None, _) => Ok(()),
        }
    }

    fn program_number(&self, o: &Operation) -> Result<Num, Refused> {
        match &*o.name {
            "tpu.core_index" => Ok(Num::Const(self.spec.share.map_or(0, |s| s.core as i32))),
            _ => {
                let dim = o.int("dim").and_then(|d| usize::try_from(d).ok());
                let bound = dim.and_then(|d| self.grid.get(d).copied());
                bound.ok_or_else(|| Refused::at(o, "a dimension beyond the grid"))
            }
        }
    }

    /// Sizes of the result.
    pub(super) fn dims(&self, o: &Operation) -> Result<Vec<u64>, Refused> {
        match o.results.first().map(|r| self.type_of(*r)) {
            Some(Type::Vector(d, _)) => Ok(d.clone()),
            _ => Err(Refused::at(o, "the result is no vector")),
        }
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "vectors are taken as they are, everything else is spread")]
    fn elementwise(&mut self, b: &mut KernelBuilder, o: &Operation, fun: Fun) -> Made {
        let dims = self.dims(o)?;
        let to = self.element(o, o.results[0])?;
        let mut kids = Vec::new();
        for v in &o.operands {
            self.element(o, *v)?;
            kids.push(match self.get(o, *v)? {
                Val::Vector(t) => t,
                // One truth value chooses between vectors.
                n => {
                    let t = self.type_of(*v).clone();
                    let e = self.splat(b, o, &n, &t)?;
                    Tensor::new(&dims, Form::Lanes, e.dtype, Expr::Splat(e))
                }
            });
        }
        let types: Vec<DType> = kids.iter().map(|k| k.dtype).collect();
        if !fun.takes(&types, to) || kids.iter().any(|k| k.dims != dims) {
            return Err(Refused::at(o, "of operands of other types or sizes"));
        }
        self.combined(b, fun, kids, &dims, to)
    }

    /// An operation on elements of vectors of one shape, in whatever form.
    pub(super) fn combined(
        &mut self,
        b: &mut KernelBuilder,
        fun: Fun,
        kids: Vec<Rc<Tensor>>,
        dims: &[u64],
        to: DType,
    ) -> Made {
        let splat = |t: &Tensor| matches!(&*t.expr.borrow(), Expr::Splat(_));
        let rows = kids.iter().filter(|k| !splat(k)).all(|k| k.form == Form::Rows);
        let form = if rows && kids.iter().any(|k| !splat(k)) { Form::Rows } else { Form::Lanes };
        let mut same = Vec::new();
        for k in kids {
            same.push(self.in_form(b, &k, form)?);
        }
        Ok(Tensor::new(dims, form, to, Expr::Element(fun, same)))
    }

    fn broadcast(&mut self, b: &mut KernelBuilder, o: &Operation) -> Result<Val, Refused> {
        let dims = self.dims(o)?;
        let dtype = self.element(o, o.results[0])?;
        let v = self.get(o, o.operands[0])?;
        let Val::Vector(t) = v else {
            let ty = self.type_of(o.operands[0]).clone();
            let e = self.splat(b, o, &v, &ty)?;
            return Ok(Val::Vector(Tensor::new(&dims, Form::Lanes, dtype, Expr::Splat(e))));
        };
        Ok(Val::Vector(self.expanded(b, &t, &dims)?))
    }

    /// A vector repeated along dimensions of size 1 and new leading ones.
    pub(super) fn expanded(&mut self, b: &mut KernelBuilder, t: &Rc<Tensor>, dims: &[u64]) -> Made {
        if let Some(same) = t.in_any_shape(dims) {
            return Ok(same);
        }
        let t = self.in_form(b, t, Form::Lanes)?;
        Ok(Tensor::new(dims, Form::Lanes, t.dtype, Expr::Expand(t)))
    }

    /// Numbers along dimensions: of several, those of the index in row-major order.
    pub(super) fn iota_of(
        &mut self,
        b: &mut KernelBuilder,
        dims: &[u64],
        dtype: DType,
        axes: Vec<i64>,
    ) -> Result<Val, Refused> {
        let mut all: Option<Rc<Tensor>> = None;
        for a in axes {
            let d =
                usize::try_from(a).ok().filter(|d| *d < dims.len()).ok_or_else(|| Refused::new("no such dimension"))?;
            let one = Tensor::new(dims, Form::Lanes, dtype, Expr::Iota(d));
            all = Some(match all {
                None => one,
                Some(before) => {
                    let n = b.v_imm(dims[d] as i32);
                    let n = crate::emit::Value::word(dtype, n);
                    let n = Tensor::new(dims, Form::Lanes, dtype, Expr::Splat(n));
                    let scaled = self.combined(b, Fun::Binary(Binary::Mul), vec![before, n], dims, dtype)?;
                    self.combined(b, Fun::Binary(Binary::Add), vec![scaled, one], dims, dtype)?
                }
            });
        }
        all.map(Val::Vector).ok_or_else(|| Refused::new("numbers along no dimension"))
    }

    /// One over each element.
    fn reciprocal(&mut self, b: &mut KernelBuilder, o: &Operation) -> Result<Val, Refused> {
        let t = self.vector(o, 0)?;
        let one = crate::emit::elementwise::constant_f64(b, 1.0, t.dtype);
        let one = Tensor::new(&t.dims, t.form, t.dtype, Expr::Splat(one));
        let (dims, dtype) = (t.dims.clone(), t.dtype);
        Ok(Val::Vector(self.combined(b, Fun::Binary(Binary::Div), vec![one, t], &dims, dtype)?))
    }
}
