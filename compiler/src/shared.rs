//! What attempts at one program have in common.
//!
//! A program is compiled several times before the fastest code is chosen: with chains done strip by strip and without, for one
//! core and for all. Most of the work is the same each time and is done once: the passes up to strips, tiles and cuts of
//! kernels, the scheduled code of kernels.
//!
//! Everything here is of one module, one chip and one set of options, but for those of [`Shared`]'s documentation.

use crate::plan::lower::memo::{KernelMemo, Memo};
use crate::plan::spec::KernelSpec;
use std::cell::{OnceCell, RefCell};
use std::rc::Rc;
use systole_codegen::schedule::Done;
use systole_hlo::core::CoreModule;
use systole_hlo::error::CompileError;
use systole_hlo::graph::Module;
use systole_hlo::graph::print;
use systole_passes::pipeline::{Halfway, PASSES, PassOptions};

/// What is called with the name and text of every stage.
pub type Dump<'a> = dyn FnMut(&str, &str) + 'a;

/// What attempts at one program have in common. Between them only [`PassOptions::strips`], [`PassOptions::ahead`],
/// [`max_resident`](crate::plan::guide::Guide::max_resident) and [`cores`](crate::compile::CompileOptions::cores) differ.
#[derive(Default)]
pub struct Shared {
    /// By [`PassOptions::ahead`].
    halfway: [OnceCell<Halfway>; 2],
    /// By that and the share of vector memory that strips may take.
    lowered: RefCell<Vec<((bool, u32), Rc<Lowered>)>>,
    kernels: Rc<KernelMemo>,
    /// Scheduled kernels.
    pub done: Done<KernelSpec>,
}

/// A program as core operations.
pub struct Lowered {
    pub core: CoreModule,
    /// Chains that are done strip by strip.
    pub strips: usize,
    /// Whether a loop does parts of other iterations beside one's work.
    pub ahead: bool,
    pub memo: Memo,
}

/// Texts of stages, those that changed nothing left out.
#[derive(Default)]
pub struct Stages<'a, 'd> {
    pub dump: Option<&'a mut Dump<'d>>,
    last: String,
}

impl<'a, 'd> Stages<'a, 'd> {
    pub fn new(dump: Option<&'a mut Dump<'d>>) -> Stages<'a, 'd> {
        Stages { dump, last: String::new() }
    }

    fn stage(&mut self, pass: &str, m: &Module) {
        let Some(dump) = &mut self.dump else { return };
        let number = PASSES.iter().position(|p| p.name == pass).map_or(0, |i| i + 1);
        let text = print::to_text(m);
        if text != self.last {
            dump(&format!("{number:02}-{pass}.hlo"), &text);
            self.last = text;
        }
    }
}

impl Shared {
    /// The module as core operations.
    ///
    /// # Errors
    /// A program that has no lowering, or a broken invariant.
    pub fn lowered(
        &self,
        module: &Module,
        options: &PassOptions,
        stages: &mut Stages<'_, '_>,
    ) -> Result<Rc<Lowered>, CompileError> {
        let known = |((ahead, share), done): &&((bool, u32), Rc<Lowered>)| {
            let strips = *share == options.strips || options.strips == 0 && done.strips == 0;
            *ahead == options.ahead && strips
        };
        if let Some((_, done)) = self.lowered.borrow().iter().find(known) {
            return Ok(Rc::clone(done));
        }
        let kept = &self.halfway[usize::from(options.ahead)];
        let halfway = match kept.get() {
            Some(done) => done.clone(),
            None => {
                let done = Halfway::before_strips(module.clone(), options, &mut |pass, m| stages.stage(pass, m))?;
                kept.get_or_init(|| done).clone()
            }
        };
        let (before, ahead, mut strips) = (halfway.computations(), halfway.is_ahead(), 0);
        let core = halfway.to_core(options, &mut |pass, m| {
            if pass == "strips" {
                // A loop is a condition and a body.
                strips = m.computations.len().saturating_sub(before) / 2;
            }
            stages.stage(pass, m);
        })?;
        let done = Rc::new(Lowered { core, strips, ahead, memo: Memo::new(&self.kernels) });
        self.lowered.borrow_mut().push(((options.ahead, options.strips), Rc::clone(&done)));
        Ok(done)
    }
}
