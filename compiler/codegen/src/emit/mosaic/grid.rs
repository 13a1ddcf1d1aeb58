//! The loop over the grid, with the windows' copies running ahead.
//!
//! A window has two places in vector memory (one, if its block never changes or it is synchronous). Before a step's body
//! the next step's blocks are known; of inputs whose block changes the copy into the other place begins, and of the step's
//! own the copy is waited for. Results whose block changes after the body are copied out once the copies that the next
//! step begins are under way, which are needed sooner; their place is waited for before it is used again. Blocks that reach beyond the array are copied as far as it goes.

use super::scalar::{compare, reg, two};
use super::value::{Num, Ref, Val};
use super::window::Pane;
use super::{Lower, MosaicArray, Part, Refused};
use crate::kernel::{KernelBuilder, LoopHints, S, Trips};
use systole_isa::{Layout, Op};
use systole_mosaic::{Function, MemRef, Role, Space, Value, Window};

fn set(b: &mut KernelBuilder, to: S, from: Num) {
    match from {
        Num::Const(c) => b.set_s(to, Op::SLi, &[c.into()]),
        Num::Reg(s) => b.copy_s(to, s),
    }
}

/// A window in scalar memory: the body sees a part of the array, all of which is there.
struct Scalars {
    argument: Value,
    /// Sizes as the body has them.
    dims: Vec<u64>,
    window: Window,
    near: Ref,
}

/// An argument of the kernel: its number, its value and type there, and the array that the call has for it.
pub(in crate::emit::mosaic) struct Argument<'m> {
    pub i: usize,
    pub v: Value,
    pub m: &'m MemRef,
    pub array: Ref,
}

impl<'a> Lower<'a> {
    /// All of the kernel.
    #[allow(clippy::wildcard_enum_match_arm, reason = "the question is for windows in scalar memory alone")]
    pub(super) fn run(&mut self, b: &mut KernelBuilder) -> Result<(), Refused> {
        let functions: Vec<&'a Function> = self.module.functions.iter().collect();
        functions.iter().for_each(|f| self.scan(&f.body));
        functions.iter().for_each(|f| self.facts.note(&f.body));
        self.prepare_random(b);
        let arguments = self.kernel.arguments.clone();
        let open = self.kernel.open_sizes();
        let own = self.own_count(&arguments) + open;
        if own != self.spec.arrays.len() {
            let why = format!("the call has {} arrays, the kernel takes {own}", self.spec.arrays.len());
            return Err(Refused::new(why));
        }
        self.grid = self.grid_sizes(b)?;
        self.turns = self.own_turns()?;
        let mut panes: Vec<Pane> = Vec::new();
        let mut scalars: Vec<Scalars> = Vec::new();
        let mut after: Vec<(Ref, Ref)> = Vec::new();
        for (i, (v, m, role)) in arguments.iter().enumerate().map(|(i, a)| (i + open, a)) {
            if *role == Role::Scratch {
                let before = self.rows;
                let r = self.own_array(b, m)?;
                self.name_part(before, || format!("scratch argument {i}: {} {:?}", r.dtype, r.dims));
                let r = self.bound(*v, r);
                self.env.insert(*v, r);
                continue;
            }
            let array = self.far(i)?;
            match role {
                Role::Window(w) if m.space == Space::Vmem => panes.push(self.pane(b, (*v, m, w), array, i)?),
                Role::Window(w) if m.space == Space::Smem => {
                    let whole = MemRef { dims: array.dims.iter().map(|d| Some(*d)).collect(), ..m.clone() };
                    self.whole(b, Argument { i, v: *v, m: &whole, array }, &mut after)?;
                    let Some(Val::Ref(near)) = self.env.get(v).cloned() else { continue };
                    scalars.push(Scalars {
                        argument: *v,
                        dims: m.sizes().unwrap_or_default(),
                        window: w.clone(),
                        near,
                    });
                }
                _ => self.whole(b, Argument { i, v: *v, m, array }, &mut after)?,
            }
        }
        if self.kernel.grid.is_empty() {
            let body = &self.kernel.function.body;
            self.block(b, body)?;
        } else {
            self.steps(b, &mut panes, &scalars)?;
        }
        self.hand_on(b)?;
        for (from, to) in &after {
            let sem = self.semaphore();
            self.start(b, from, to, sem)?;
            self.finish(b, from, to, sem)?;
        }
        Ok(())
    }

    fn own_count(&self, arguments: &[(Value, MemRef, Role)]) -> usize {
        arguments.iter().filter(|a| a.2 != Role::Scratch).count()
    }

    /// Gives what was taken of the scratch area since a row its name.
    fn name_part(&mut self, row: u32, name: impl FnOnce() -> String) {
        if self.filled > row {
            self.parts.push(Part { name: name(), row, rows: self.filled - row });
        }
    }

    pub(super) fn semaphore(&mut self) -> u32 {
        self.semaphores += 1;
        self.semaphores - 1
    }

    /// An operand or result in HBM.
    fn far(&mut self, i: usize) -> Result<Ref, Refused> {
        let a = self.spec.arrays[i].clone();
        let layout = Layout::row_major(a.dtype, &a.stored(), self.sub(), self.shape().1);
        let base = self.params[i];
        let r = self.vmem_array(&layout, base, 0);
        let r = self.as_stored(r, &a);
        // Operands that are results too are one array.
        let buf = self.spec.aliases.iter().find(|p| p.1 as usize == i).map(|p| p.0 as usize);
        let buf = buf.and_then(|j| self.far_buffers.get(j).copied()).unwrap_or(r.buf);
        self.far_buffers.push(buf);
        Ok(Ref { space: Space::Hbm, buf, ..r })
    }

    /// The memory of an array under the array's own sizes.
    pub(super) fn as_stored(&self, r: Ref, a: &MosaicArray) -> Ref {
        if !a.apart {
            return r;
        }
        let own = Layout::row_major(a.dtype, &a.dims, self.sub(), self.shape().1);
        let (n, packing) = (a.dims.len(), a.dtype.packing() as i64);
        let strides = own.row_strides().into_iter().enumerate();
        let strides = strides.map(|(d, s)| (d + 1 != n).then_some(s as i64 * packing)).collect();
        Ref { dims: a.dims.clone(), strides, ..r }
    }

    /// The operand that a result shares its memory with, where the kernel writes that.
    fn written_as_operand(&self, v: Value, i: usize) -> Option<Ref> {
        let twin = self.spec.aliases.iter().find(|p| p.1 as usize == i)?.0 as usize;
        let argument = self.kernel.arguments.get(twin.checked_sub(self.kernel.open_sizes())?)?.0;
        match self.env.get(&argument) {
            Some(Val::Ref(near)) if !self.uses.contains_key(&v) => Some(near.clone()),
            _ => None,
        }
    }

    /// An argument that is all of an array.
    fn whole(&mut self, b: &mut KernelBuilder, a: Argument<'_>, after: &mut Vec<(Ref, Ref)>) -> Result<(), Refused> {
        let Argument { i, v, m, array } = a;
        let dims = m.sizes().ok_or_else(|| Refused::new("an argument of open size"))?;
        let input = i < self.spec.operands as usize;
        if let Some(near) = self.written_as_operand(v, i).filter(|_| matches!(m.space, Space::Vmem | Space::Smem)) {
            after.push((near, array));
            return Ok(());
        }
        let near = match m.space {
            Space::Hbm => array.clone(),
            Space::Vmem | Space::Smem => {
                let like = MemRef { dims: array.dims.iter().map(|d| Some(*d)).collect(), ..m.clone() };
                let before = self.rows;
                let near = self.own_array(b, &like)?;
                let which = self.argument_name(i);
                self.name_part(before, || format!("all of {which}: {} {:?}", array.dtype, array.dims));
                let near = Ref { dtype: array.dtype, ..near };
                let shared = self.spec.aliases.iter().any(|p| p.1 as usize == i);
                if input || shared {
                    let sem = self.semaphore();
                    self.start(b, &array, &near, sem)?;
                    self.finish(b, &array, &near, sem)?;
                }
                if !input {
                    after.push((near.clone(), array.clone()));
                }
                near
            }
            Space::Semaphore => return self.carry(b, Argument { i, v, m, array }),
        };
        let near = if near.dims == dims { near } else { self.recast_to(b, &near, &dims, near.dtype)? };
        let near = self.bound(v, near);
        self.env.insert(v, near);
        Ok(())
    }

    /// Sizes of the grid; those that the call has are copied into scalar memory.
    fn grid_sizes(&mut self, b: &mut KernelBuilder) -> Result<Vec<Num>, Refused> {
        let mut out = Vec::new();
        for size in self.kernel.grid.clone() {
            out.push(match size {
                Some(n) => Num::Const(n as i32),
                None => {
                    let array = self.far(self.far_buffers.len())?;
                    let (layout, element) = (array.dims.clone(), systole_mosaic::Element::Number(array.dtype));
                    let dims = layout.into_iter().map(Some).collect();
                    let near = self.own_array(b, &MemRef { dims, element, space: Space::Smem })?;
                    let sem = self.semaphore();
                    self.start(b, &array, &near, sem)?;
                    self.finish(b, &array, &near, sem)?;
                    Num::Reg(b.smem_load(near.base, 0))
                }
            });
        }
        Ok(out)
    }

    /// What of the grid runs here.
    fn own_turns(&self) -> Result<Vec<(i32, Num)>, Refused> {
        let all = self.grid.iter().enumerate().map(|(d, size)| match (self.spec.share, size) {
            (Some(s), Num::Const(n)) if s.dimension as usize == d => {
                let (first, count) = s.of(*n as u64);
                Ok((first as i32, Num::Const(count as i32)))
            }
            (Some(s), Num::Reg(_)) if s.dimension as usize == d => {
                Err(Refused::new("cores share a dimension whose size is not known"))
            }
            _ => Ok((0, *size)),
        });
        all.collect()
    }

    /// The loop over the grid, where it has a step.
    fn steps(&mut self, b: &mut KernelBuilder, panes: &mut [Pane], scalars: &[Scalars]) -> Result<(), Refused> {
        let mut steps = Num::Const(1);
        for (_, size) in self.turns.clone() {
            steps = super::scalar::mul(b, steps, size);
        }
        match steps {
            Num::Const(0) => Ok(()),
            Num::Const(n) => self.some_steps(b, panes, scalars, (steps, Trips::Static(n as u32))),
            Num::Reg(s) => {
                let mut done = Ok(());
                b.if_(s, |b| done = self.some_steps(b, panes, scalars, (steps, Trips::Dynamic(s))));
                done
            }
        }
    }

    fn some_steps(
        &mut self,
        b: &mut KernelBuilder,
        panes: &mut [Pane],
        scalars: &[Scalars],
        (steps, trips): (Num, Trips),
    ) -> Result<(), Refused> {
        // Dimensions of one step do not count.
        let one = Num::Const(1);
        let first_step: Vec<Num> = self.turns.iter().map(|t| Num::Const(t.0)).collect();
        let start = |t: &(i32, Num)| if t.1 == one { Num::Const(t.0) } else { Num::Reg(b.s_var(t.0)) };
        let index: Vec<Num> = self.turns.iter().map(start).collect();
        for p in panes.iter_mut() {
            b.set_place(p.line);
            let first = self.blocks(b, &p.window, &first_step)?;
            let moving = self.blocks(b, &p.window, &index)?;
            // What is the same number in every step stays a number.
            p.block = first
                .iter()
                .zip(moving)
                .map(|(f, m)| match (f, m) {
                    (_, Num::Const(c)) => Num::Const(c),
                    (f, Num::Reg(_)) => {
                        let s = b.new_s();
                        set(b, s, *f);
                        Num::Reg(s)
                    }
                })
                .collect();
            if p.input {
                let (block, row) = (p.block.clone(), p.row);
                self.window_copy(b, p, &block, row, p.semaphores[0])?;
                b.copy_s(p.busy, p.begun);
            }
        }
        b.set_place(0);
        let left = b.s_var(0);
        set(b, left, steps);
        let mut done = Ok(());
        let hints = LoopHints { max_unroll: 1, ..LoopHints::default() };
        b.loop_with(trips, hints, |b| {
            b.s_inc(left, -1);
            done = self.step(b, panes, scalars, &index, left);
        });
        done?;
        for p in panes.iter().filter(|p| !p.input) {
            b.set_place(p.line);
            self.leave(b, p)?;
            self.drain(b, p);
        }
        b.set_place(0);
        Ok(())
    }

    /// Waits for results that are still on their way.
    fn drain(&mut self, b: &mut KernelBuilder, p: &Pane) {
        b.if_(p.busy_other, |b| p.finish(b, true));
        b.if_(p.busy, |b| p.finish(b, false));
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a constant is known, everything else is tested")]
    fn step(
        &mut self,
        b: &mut KernelBuilder,
        panes: &mut [Pane],
        scalars: &[Scalars],
        index: &[Num],
        left: S,
    ) -> Result<(), Refused> {
        let next = self.advance_index(b, index);
        // A result that is an operand too is written before any of it is read.
        for p in panes.iter().filter(|p| !p.input && p.shared) {
            self.leave(b, p)?;
        }
        for p in panes.iter_mut() {
            b.set_place(p.line);
            let window = p.window.clone();
            p.next = self.blocks(b, &window, &next)?;
            let mut changes = Num::Const(0);
            for (n, c) in p.next.iter().zip(&p.block) {
                let differs = compare(b, 1, *n, *c).unwrap_or(Num::Const(0));
                changes = two(b, Op::SOr, changes, differs);
            }
            p.changes = changes;
            if !p.input {
                continue;
            }
            // Behind the last step there is no other block.
            let go = match changes {
                Num::Const(0) => Num::Const(0),
                c => {
                    let c = reg(b, c);
                    Num::Reg(b.s(Op::SSel, &[left, c, S::ZERO]))
                }
            };
            p.changes = go;
            if p.double && go != Num::Const(0) {
                let go = reg(b, go);
                let block = p.next.clone();
                let mut done = Ok(());
                b.if_(go, |b| {
                    done = self.by_place(b, p, true, &block);
                    b.copy_s(p.busy_other, p.begun);
                });
                done?;
            }
        }
        for p in panes.iter().filter(|p| !p.input && !p.shared) {
            self.leave(b, p)?;
        }
        for p in panes.iter() {
            b.set_place(p.line);
            b.if_(p.busy, |b| {
                p.finish(b, false);
                b.set_s(p.busy, Op::SLi, &[0.into()]);
            });
        }
        b.set_place(0);
        self.bind_body(b, panes, index)?;
        scalars.iter().try_for_each(|w| self.bind_scalars(b, w, index))?;
        let body = &self.kernel.function.body;
        self.block(b, body)?;
        for p in panes.iter() {
            b.set_place(p.line);
            self.after_body(b, p, left)?;
        }
        b.set_place(0);
        for p in panes.iter() {
            for (c, n) in p.block.iter().zip(&p.next) {
                if let Num::Reg(c) = c {
                    set(b, *c, *n);
                }
            }
        }
        for (i, n) in index.iter().zip(&next) {
            if let Num::Reg(i) = i {
                set(b, *i, *n);
            }
        }
        Ok(())
    }

    /// The arguments of the body.
    fn bind_body(&mut self, b: &mut KernelBuilder, panes: &[Pane], index: &[Num]) -> Result<(), Refused> {
        for (v, n) in self.kernel.indices().iter().zip(index) {
            self.env.insert(*v, Val::Int(*n));
        }
        for p in panes {
            let mut r = self.near(p);
            let dims = p.memref.sizes().unwrap_or_default();
            if r.dims != dims {
                r = self.recast_to(b, &r, &dims, r.dtype)?;
            }
            let r = self.bound(p.argument, r);
            self.env.insert(p.argument, r);
        }
        Ok(())
    }

    /// A block of an array in scalar memory, which has all of it.
    fn bind_scalars(&mut self, b: &mut KernelBuilder, w: &Scalars, index: &[Num]) -> Result<(), Refused> {
        let block = self.blocks(b, &w.window, index)?;
        let mut first = Vec::new();
        for (d, n) in block.into_iter().enumerate() {
            let by = if w.window.elements { 1 } else { w.window.bounds[d] as i32 };
            let begin = super::scalar::mul(b, n, Num::Const(by));
            let low = w.window.padding.get(d).map_or(0, |p| -(p.0 as i32));
            first.push(super::scalar::add(b, begin, Num::Const(low)));
        }
        let r = self.at(b, &w.near, &first);
        let mut r = Ref { dims: w.window.bounds.clone(), whole: false, ..r };
        // The block's first word is the base: what reads it needs no more of where it is. Elements that share words, or
        // go on in another plane, are found from the array's own first word.
        let lanes = self.shape().1 as i32;
        let one_plane = w.near.dims.last().is_none_or(|n| *n <= lanes as u64);
        if r.dtype.packing() == 1 && (r.plane == 1 || one_plane) {
            let words = super::scalar::mul(b, r.offset, Num::Const(lanes));
            let words = super::scalar::add(b, words, r.lane);
            let words = reg(b, words);
            r.base = b.s(Op::SAdd, &[r.base, words]);
            (r.offset, r.lane) = (Num::Const(0), Num::Const(0));
        }
        if r.dims != w.dims {
            r = self.recast_to(b, &r, &w.dims, r.dtype)?;
        }
        self.env.insert(w.argument, Val::Ref(r));
        Ok(())
    }

    /// After a body: results leave, inputs turn to the other place.
    fn after_body(&mut self, b: &mut KernelBuilder, p: &Pane, left: S) -> Result<(), Refused> {
        let turn = |b: &mut KernelBuilder| {
            b.set_s(p.row, Op::SSub, &[p.both.into(), p.row.into()]);
            let one = b.s_imm(1);
            b.set_s(p.place, Op::SSub, &[one.into(), p.place.into()]);
        };
        let mut done = Ok(());
        if p.input {
            if p.changes == Num::Const(0) {
                return Ok(());
            }
            let go = reg(b, p.changes);
            let block = p.next.clone();
            b.if_(go, |b| {
                if p.double {
                    turn(b);
                    b.copy_s(p.busy, p.busy_other);
                } else {
                    done = self.by_place(b, p, false, &block);
                    b.copy_s(p.busy, p.begun);
                }
            });
            return done;
        }
        let changes = reg(b, p.changes);
        let one = b.s_imm(1);
        let leaves = b.s(Op::SSel, &[left, changes, one]);
        let block = p.block.clone();
        b.if_(leaves, |b| {
            if p.double {
                for (i, n) in block.iter().enumerate() {
                    if let Num::Reg(n) = n {
                        b.smem_store(*n, S::ZERO, (p.left + i as u32) as i32);
                    }
                }
                b.set_s(p.leaving, Op::SLi, &[1.into()]);
                turn(b);
                b.copy_s(p.busy, p.busy_other);
            } else {
                done = self.by_place(b, p, false, &block);
                b.copy_s(p.busy, p.begun);
            }
            if p.window.revisited && done.is_ok() {
                // What the next block has been so far is read again.
                b.if_(left, |b| {
                    p.finish(b, false);
                    done = self.fetch_again(b, p);
                    b.copy_s(p.busy, p.begun);
                });
            }
        });
        done
    }

    /// Begins the copy of a result that has left its place.
    fn leave(&mut self, b: &mut KernelBuilder, p: &Pane) -> Result<(), Refused> {
        if !p.double {
            return Ok(());
        }
        let mut done = Ok(());
        let line = b.set_place(p.line);
        b.if_(p.leaving, |b| {
            let load = |(i, n): (usize, &Num)| match n {
                Num::Const(c) => Num::Const(*c),
                Num::Reg(_) => Num::Reg(b.smem_load(S::ZERO, (p.left + i as u32) as i32)),
            };
            let block: Vec<Num> = p.block.iter().enumerate().map(load).collect();
            done = self.by_place(b, p, true, &block);
            b.copy_s(p.busy_other, p.begun);
            b.set_s(p.leaving, Op::SLi, &[0.into()]);
        });
        b.set_place(line);
        done
    }

    /// The indices of the step after.
    fn advance_index(&mut self, b: &mut KernelBuilder, index: &[Num]) -> Vec<Num> {
        let mut next = index.to_vec();
        let mut carry = Num::Const(1);
        for (d, (first, count)) in self.turns.clone().into_iter().enumerate().rev() {
            let Num::Reg(s) = index[d] else { continue };
            let more = super::scalar::add(b, Num::Reg(s), carry);
            let end = super::scalar::add(b, count, Num::Const(first));
            let wraps = compare(b, 0, more, end).unwrap_or(Num::Const(0));
            let (w, m, f) = (reg(b, wraps), reg(b, more), reg(b, Num::Const(first)));
            next[d] = Num::Reg(b.s(Op::SSel, &[w, f, m]));
            carry = wraps;
        }
        next
    }

    /// The block of a window at a step.
    fn blocks(&mut self, b: &mut KernelBuilder, w: &Window, index: &[Num]) -> Result<Vec<Num>, Refused> {
        let module = self.module;
        let Some(f) = module.function(&w.transform) else {
            return Err(Refused::new("a window's function is not there"));
        };
        let prefetched = self.kernel.arguments.iter().filter(|a| a.2 == Role::Prefetch);
        let mut values: Vec<Val> = index.iter().map(|n| Val::Int(*n)).collect();
        values.extend(prefetched.filter_map(|a| self.env.get(&a.0).cloned()));
        for (a, v) in f.body.arguments.iter().zip(values) {
            self.env.insert(*a, v);
        }
        let out = self.block(b, &f.body)?;
        let numbers = out.iter().map(|v| if let Val::Int(n) = v { Some(*n) } else { None });
        let numbers = numbers.collect::<Option<Vec<Num>>>().filter(|n| n.len() == w.bounds.len());
        numbers.ok_or_else(|| Refused::new(format!("`{}` gives no block", w.transform)))
    }
}
