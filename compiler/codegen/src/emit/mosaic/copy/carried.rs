//! Semaphores that are operands or results: what one kernel begins, a later one waits for.
//!
//! Between kernels a semaphore is an array of integers in HBM: what it holds. A kernel has semaphores of the machine for it
//! while it runs, and of each two words of scalar memory: what it held before the kernel, and what it gets in the kernel but
//! has not been waited for yet. Waiting takes from the first, then from the machine's. At its end the kernel waits for what
//! is still under way, so that nobody else meets copies that go on, and writes what the semaphore holds then.

use super::super::grid::Argument;
use super::super::scalar::{add, reg, two};
use super::super::value::{Num, Ref, Val};
use super::super::{Lower, Refused};
use crate::kernel::{BufferRef, KernelBuilder, S};
use systole_isa::{Layout, Op};
use systole_mosaic::Space;

/// The semaphores of an operand or result.
pub(in crate::emit::mosaic) struct Carried {
    /// The machine's, as the kernel sees them.
    own: Ref,
    /// Words of scalar memory: the first of those that say what they held before, and of what is under way.
    held: u32,
    due: u32,
    near: Ref,
    /// The array in HBM, where it is a result.
    result: Option<Ref>,
}

impl Lower<'_> {
    /// An argument that is a semaphore, or an array of them.
    pub(in crate::emit::mosaic) fn carry(&mut self, b: &mut KernelBuilder, a: Argument<'_>) -> Result<(), Refused> {
        let Argument { i, v, m, array } = a;
        // An operand that is a result too is one argument twice.
        let shared = self.spec.aliases.iter().any(|p| p.1 as usize == i);
        if let Some(c) = self.carried.iter().find(|c| shared && c.result_is(&array)) {
            self.env.insert(v, Val::Ref(c.own.clone()));
            return Ok(());
        }
        let own = self.own_array(b, m)?;
        let (_, count) = own.semaphores;
        let rows = array.dims.split_last().map_or(1, |(_, outer)| outer.iter().product::<u64>());
        let layout = Layout::row_major(array.dtype, &array.dims, self.sub(), self.shape().1);
        let like = array.dims.iter().product::<u64>() == u64::from(count) && array.dtype.bits() == 32;
        if !like || rows != 1 || count > self.shape().1 {
            return Err(Refused::new(format!("semaphores of sizes {:?} from outside of the kernel", m.dims)));
        }
        let held = self.smem(&layout)?;
        let base = b.s_var(held as i32);
        let near = self.vmem_array(&layout, base, 0);
        let near = Ref { space: Space::Smem, buf: BufferRef::SCALAR_MEMORY, ..near };
        let due = self.words(count as usize);
        let input = i < self.spec.operands as usize;
        for k in 0..count {
            b.smem_store(S::ZERO, S::ZERO, (due + k) as i32);
            if !input {
                b.smem_store(S::ZERO, S::ZERO, (held + k) as i32);
            }
        }
        if input {
            let sem = self.semaphore();
            self.start(b, &array, &near, sem)?;
            self.finish(b, &array, &near, sem)?;
        }
        let last = input && self.spec.aliases.iter().all(|p| p.0 as usize != i);
        let result = (!last).then_some(array);
        self.carried.push(Carried { own: own.clone(), held, due, near, result });
        self.env.insert(v, Val::Ref(own));
        Ok(())
    }

    /// The words of a semaphore that comes from outside: what it held, and what is under way.
    fn words_of(&self, sem: u32) -> Option<(i32, i32)> {
        self.carried.iter().find_map(|c| {
            let (first, count) = c.own.semaphores;
            let k = sem.checked_sub(first).filter(|k| *k < count)?;
            Some(((c.held + k) as i32, (c.due + k) as i32))
        })
    }

    /// Whether a semaphore comes from outside of the kernel, or goes on behind it.
    pub(super) fn is_carried(&self, sem: u32) -> bool {
        self.words_of(sem).is_some()
    }

    /// A semaphore is to get so much.
    pub(super) fn begins(&mut self, b: &mut KernelBuilder, sem: u32, amount: i32) {
        if let Some((_, due)) = self.words_of(sem) {
            let before = b.smem_load(S::ZERO, due);
            let now = b.s_addi(before, amount);
            b.smem_store(now, S::ZERO, due);
        }
    }

    /// Waits until a semaphore has so much, and takes it.
    pub(super) fn takes(&mut self, b: &mut KernelBuilder, sem: u32, amount: Num, buffers: &[BufferRef]) {
        let Some((held, due)) = self.words_of(sem) else {
            match amount {
                Num::Const(c) => b.dma_wait(sem, c, buffers, buffers),
                Num::Reg(s) => b.dma_wait_s(sem, s, buffers, buffers),
            }
            return;
        };
        let had = b.smem_load(S::ZERO, held);
        let taken = two(b, Op::SMin, Num::Reg(had), amount);
        let left = two(b, Op::SSub, Num::Reg(had), taken);
        let left = reg(b, left);
        b.smem_store(left, S::ZERO, held);
        let rest = two(b, Op::SSub, amount, taken);
        let rest = reg(b, rest);
        b.dma_wait_s(sem, rest, buffers, buffers);
        let before = b.smem_load(S::ZERO, due);
        let now = b.s(Op::SSub, &[before, rest]);
        b.smem_store(now, S::ZERO, due);
    }

    /// What a semaphore held before the kernel and still does.
    pub(super) fn still_held(&mut self, b: &mut KernelBuilder, sem: u32) -> Num {
        self.words_of(sem).map_or(Num::Const(0), |(held, _)| Num::Reg(b.smem_load(S::ZERO, held)))
    }

    /// At the kernel's end: waits for what is under way, and writes what the semaphores hold.
    pub(in crate::emit::mosaic) fn hand_on(&mut self, b: &mut KernelBuilder) -> Result<(), Refused> {
        let all = std::mem::take(&mut self.carried);
        let order: Vec<BufferRef> = (0..self.buffers).map(BufferRef).collect();
        for c in &all {
            let (first, count) = c.own.semaphores;
            for k in 0..count {
                let (held, due) = ((c.held + k) as i32, (c.due + k) as i32);
                let rest = b.smem_load(S::ZERO, due);
                b.dma_wait_s(first + k, rest, &order, &order);
                let before = b.smem_load(S::ZERO, held);
                let sum = add(b, Num::Reg(before), Num::Reg(rest));
                let sum = reg(b, sum);
                b.smem_store(sum, S::ZERO, held);
            }
            if let Some(to) = &c.result {
                let sem = self.semaphore();
                self.start(b, &c.near, to, sem)?;
                self.finish(b, &c.near, to, sem)?;
            }
        }
        Ok(())
    }
}

impl Carried {
    fn result_is(&self, array: &Ref) -> bool {
        self.result.as_ref().is_some_and(|r| r.buf == array.buf)
    }
}
