//! A loop's row blocks, one at a time, as part of code that has loops of its own.

use super::address::{Affine, step};
use super::bases::Bases;
use super::row::{At, Context, Memo};
use super::simplify::merge_rows;
use super::spec::LoopSpec;
use super::staged::is_staged;
use crate::kernel::{BufferRef, KernelBuilder};

/// A loop whose row blocks are done by other code, beside what that does itself.
pub(in crate::emit) struct RowBlocks<'a> {
    ctx: Context<'a>,
    /// What no row changes.
    hoisted: Memo,
}

impl<'a> RowBlocks<'a> {
    /// The form of a loop whose row blocks come in the order of its dimensions, each at once; `None` where rows are reduced in stages or
    /// blocks of rows are not full.
    pub fn merged(spec: &LoopSpec, (sublanes, lanes): (u32, u32)) -> Option<LoopSpec> {
        let mut spec = spec.clone();
        merge_rows(&mut spec);
        let whole = !is_staged(&spec, lanes) && spec.rows.is_multiple_of(sublanes);
        whole.then_some(spec)
    }

    /// Of a [merged](RowBlocks::merged) loop; the code around it begins with `bases`.
    pub fn new(b: &mut KernelBuilder, spec: &'a LoopSpec, bases: &Bases) -> RowBlocks<'a> {
        let ctx = Context::new(b, spec, bases);
        let hoisted = if spec.outer.is_empty() { ctx.hoist(b, &ctx.affine) } else { Memo::default() };
        RowBlocks { ctx, hoisted }
    }

    /// The registers that follow its iterations, at the first one.
    pub fn registers(&self) -> &[Affine] {
        &self.ctx.affine
    }

    /// What it writes.
    pub fn outputs(&self) -> &[BufferRef] {
        &self.ctx.outputs
    }

    /// The next `n` row blocks from where the registers stand, which move on.
    pub fn advance(&self, b: &mut KernelBuilder, registers: &[Affine], n: u32) {
        let sub = self.ctx.sublanes;
        for block in 0..n {
            self.ctx.block(b, &At { block: block.into(), ..At::start(registers, sub) }, &self.hoisted);
        }
        step(b, registers, |a| a.row * i64::from(n * sub));
    }
}
