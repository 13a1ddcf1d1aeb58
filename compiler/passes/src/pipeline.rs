//! The passes that lower a verified program to core operations, in order.
//!
//! What core operations are is said by the table of operations; a [`CoreModule`] has no others.

use crate::edit::{Draft, Emit, Rewritten, rewrite};
use crate::{
    check, collective, columns, conv, dot, dynamic, expand, generated, inline, interleave, lanes, loops, pieces,
    reductions, rows, shifts, split, squeeze, strips, transfers, unflatten, window,
};
use std::collections::BTreeMap;
use systole_hlo::core::CoreModule;
use systole_hlo::error::CompileError;
use systole_hlo::graph::{Module, Node, NodeId, Op};

pub use crate::options::PassOptions;
use crate::transfers::EntryLayouts;

/// A pass: its name (kebab-case), what it does in a line, and the function.
pub struct Pass {
    pub name: &'static str,
    pub summary: &'static str,
    pub run: fn(Module, &mut Draft, &PassOptions) -> Result<Module, CompileError>,
}

/// All passes in order. The comment on a row says why it stands where it does.
pub const PASSES: &[Pass] = &[
    // Before calls are inlined: it makes some.
    Pass {
        name: "carried-sizes",
        summary: "states of loops and branches with their dynamic sizes beside them",
        run: |m, d, _| dynamic::carried::run(m, d),
    },
    // Nearly first: every other pass counts on flat tuples and on bodies being bodies.
    Pass {
        name: "inline",
        summary: "calls inlined, tuples flat, tokens and layouts gone",
        run: |m, d, _| inline::run(m, d),
    },
    // Before expansions make more loops, and before anything unrolls what a known counter allows.
    Pass {
        name: "loops",
        summary: "loop states without constants and what nothing needs",
        run: |m, d, _| loops::run(m, d),
    },
    // Behind what drops elements, before anything looks at trip counts.
    Pass {
        name: "counters",
        summary: "64-bit counters of constant bounds as s32",
        run: |m, d, _| loops::counters::run(m, d),
    },
    // While collectives and slices are as partitioners write them.
    Pass {
        name: "scattered-sums",
        summary: "all-reduces of which every device takes its own part as reduce-scatters",
        run: collective::scattered::run,
    },
    // Once sums that every device takes its part of are known; before anything else is done about collectives.
    Pass {
        name: "ahead",
        summary: "collectives of a loop's next iteration and of its last one beside its work",
        run: loops::ahead::run,
    },
    // While products have the dimensions of the program; once sums that every device takes its part of are known.
    Pass {
        name: "pieces",
        summary: "collectives in pieces, with the products that need them or make them",
        run: pieces::run,
    },
    // Once loops carry only what changes.
    Pass {
        name: "unroll",
        summary: "short loops over elementwise work written out",
        run: |m, d, _| rewrite(m, d, &mut loops::unroll::rule),
    },
    // Of the loops that are left, while what they do is as few operations as it was written with.
    Pass {
        name: "twice",
        summary: "loops that hand old values of states on, two iterations at a time",
        run: |m, d, o| rewrite(m, d, &mut |b, n, x| loops::twice::rule(b, n, x, o.chip.vmem_bytes)),
    },
    // Before everything that looks at sizes.
    Pass {
        name: "dynamic",
        summary: "sizes that are only bounds become values",
        run: |m, d, _| rewrite(m, d, &mut dynamic::rule),
    },
    // While reshapes and slices are as they were written.
    Pass {
        name: "split-slices",
        summary: "slices of a dimension that was split as slices of the dimension",
        run: |m, d, _| split::run(m, d),
    },
    // Before everything that canonicalises: collectives come with slices, reshapes and transposes.
    Pass {
        name: "collective",
        summary: "collectives of one array among devices by number, along dimensions that parts of memory follow",
        run: |m, d, o| rewrite(m, d, &mut |b, n, x| collective::rule(b, n, x, o)),
    },
    // Before everything that canonicalises: expansions are made of any operations.
    Pass {
        name: "expand",
        summary: "large operations as core ones",
        run: |m, d, o| {
            let entry = m.entry.index();
            rewrite(m, d, &mut |b, n, x| expand::rule(b, n, x, (o, b.place().0 == entry)))
        },
    },
    // Once expansions have made their loops, before anything looks at what these carry.
    Pass { name: "loops-again", summary: "the same of loops that expansions made", run: |m, d, _| loops::run(m, d) },
    // While results and their transposes are neighbours.
    Pass {
        name: "turned-dots",
        summary: "dots and their transposes as the dots that move least",
        run: |m, d, o| rewrite(m, d, &mut |b, n, x| dot::turned::rule(b, n, x, o)),
    },
    // Once expansions have made their loops; where reshapes of states meet those of what reads them.
    Pass {
        name: "state-shapes",
        summary: "states of loops without dimensions of size 1",
        run: |m, d, _| loops::shapes::run(m, d),
    },
    // Before dots: they count on operands without dimensions of size 1 to see what fits.
    Pass { name: "squeeze", summary: "dimensions of size 1 gone", run: |m, d, _| rewrite(m, d, &mut squeeze::rule) },
    // Once expansions have made their reductions, before anything that reduces parts of arrays one after the other.
    Pass {
        name: "ordered",
        summary: "reductions by computations that tell an order as combinations of neighbours",
        run: |m, d, _| rewrite(m, d, &mut reductions::ordered::rule),
    },
    // Before dots: convolutions become some.
    Pass {
        name: "conv",
        summary: "convolutions as NHWC x HWIO without padding and groups; small ones as dots",
        run: |m, d, o| rewrite(m, d, &mut |b, n, x| conv::rule(b, n, x, o)),
    },
    // Before windows lose their padding: it makes some.
    Pass {
        name: "pools",
        summary: "reductions of groups of neighbours as windows side by side",
        run: |m, d, o| window::pools::run(m, d, o.chip.tile),
    },
    Pass {
        name: "reduce-window",
        summary: "windowed reductions without padding",
        run: |m, d, o| rewrite(m, d, &mut |b, n, x| window::rule(b, n, x, &o.chip)),
    },
    // Before sums change their type.
    Pass {
        name: "initial-values",
        summary: "reductions from what changes nothing; initial values combined at the end",
        run: |m, d, _| rewrite(m, d, &mut reductions::initial::rule),
    },
    Pass {
        name: "accumulate",
        summary: "sums of narrow floats taken in f32",
        run: |m, d, _| rewrite(m, d, &mut window::accumulate),
    },
    Pass {
        name: "dot",
        summary: "dots as [B,M,K] x [B,K,N]; types that the matrix unit lacks expanded",
        run: |m, d, o| rewrite(m, d, &mut |b, n, x| dot::rule(b, n, x, o)),
    },
    // Once products have the dimensions that they keep.
    Pass {
        name: "unsplit",
        summary: "what follows products done while their dimensions are together",
        run: |m, d, o| dot::unsplit::run(m, d, o.chip.tile),
    },
    // Once nothing splits or joins dimensions again that are together or apart by then.
    Pass {
        name: "unflatten",
        summary: "what is done between dimensions joined by a reshape and the way back done on them apart",
        run: |m, d, o| unflatten::run(m, d, o.chip.tile),
    },
    // Before anything looks at which dimension lies along lanes.
    Pass {
        name: "generated",
        summary: "long computations from the places of elements alone done on all elements in one dimension",
        run: |m, d, o| generated::run(m, d, o.chip.tile),
    },
    // Once products have the dimensions that they keep, before chains behind them are cut into strips.
    Pass {
        name: "picks",
        summary: "the largest of a product's rows and their places as reductions of one result",
        run: |m, d, _| rewrite(m, d, &mut reductions::picks::rule),
    },
    // When canonical forms are there.
    Pass {
        name: "interleave",
        summary: "arrays put beside each other element by element spread out along lanes, and chosen by their place",
        run: |m, d, _| rewrite(m, d, &mut interleave::reshapes),
    },
    // Before what decides how stacks lie, of which there are two of each else.
    Pass {
        name: "stacks",
        summary: "stacks that a loop takes and puts down slice by slice updated where they are",
        run: |m, d, _| loops::stacks::run(m, d),
    },
    // When canonical forms are there, whose reshapes meet those of the entry's arrays.
    Pass {
        name: "entry-layouts",
        summary: "entry parameters and results compact by their shapes; operations on them as they lie",
        run: |m, d, o| match o.asked.entry_layouts {
            EntryLayouts::Default => by_rule(m, d, o.chip.tile),
            EntryLayouts::Auto => Ok(m),
        },
    },
    // Before what is split into narrow dimensions would be turned for that.
    Pass {
        name: "whole-rows",
        summary: "rows of several narrow dimensions gathered, worked on and scattered as one dimension",
        run: |m, d, o| {
            let mut rows = rows::WholeRows::new(o.chip.tile);
            rewrite(m, d, &mut |b, n, x| Ok(rows.rule(b, n, x)))
        },
    },
    // Directly before what it asks how bodies would be done, and whose transposes meet those of the states.
    Pass {
        name: "state-orders",
        summary: "states of loops of narrow rows with a longer dimension along lanes, where bodies work on them so",
        run: |m, d, o| lanes::states::run(m, d, (o.chip.tile, o.chip.vmem_bytes)),
    },
    // When every operation that wants its dimensions in an order of its own is there.
    Pass {
        name: "lanes",
        summary: "long dimensions along lanes where operations do not care",
        run: |m, d, o| lanes::run(m, d, (o.chip.tile, o.chip.vmem_bytes, o.asked.entry_layouts)),
    },
    // Once nothing else makes sums of padded arrays, and what is turned lies as it will.
    Pass {
        name: "interleave-sums",
        summary: "sums of arrays spread out with zeros as the arrays beside each other",
        run: |m, d, _| rewrite(m, d, &mut interleave::sums),
    },
    // Last: reshapes and transposes that the canonical forms needed meet their neighbours.
    Pass {
        name: "squeeze-again",
        summary: "dimensions of size 1 that canonical forms needed gone; local rules applied once more",
        run: |m, d, _| rewrite(m, d, &mut squeeze::rule),
    },
    // Once slices and the reshapes of their results have met.
    Pass {
        name: "columns",
        summary: "single columns of an array as rows of its transpose",
        run: |m, d, o| columns::run(m, d, u64::from(o.chip.tile.1)),
    },
    // When transposes have met their neighbours, before anything looks at what arrays there are.
    Pass {
        name: "narrow-rows",
        summary: "reshapes between narrow rows and full lanes through columns",
        run: |m, d, o| transfers::narrow_rows(m, d, o.chip.tile),
    },
    // Once stacks are as few as they get, and lie as they will.
    Pass {
        name: "chunks",
        summary: "long loops over small parts of large arrays, done on the parts of some turns at a time",
        run: |m, d, o| {
            let room = loops::chunks::Room { bytes: o.chip.vmem_bytes, tile: o.chip.tile };
            rewrite(m, d, &mut |b, n, x| loops::chunks::rule(b, n, x, room))
        },
    },
    // After everything that makes and removes reshapes.
    Pass {
        name: "transfers",
        summary: "with --entry-layout auto, entry parameters and results in the shape and order that the program works in",
        run: |m, d, o| match o.asked.entry_layouts {
            EntryLayouts::Default => Ok(m),
            EntryLayouts::Auto => transfers::by_program(m, d, o.chip.tile),
        },
    },
    // After everything that decides what arrays there are.
    Pass {
        name: "strips",
        summary: "chains over arrays that do not stay in vector memory done strip by strip, in loops",
        run: |m, d, o| match o.strips {
            0 => Ok(m),
            share => strips::run(m, d, strips::Room { bytes: o.chip.vmem_bytes, share, tile: o.chip.tile }),
        },
    },
    // Loops over strips are there now, with all that their strips share.
    Pass {
        name: "invariant",
        summary: "transposes, products and the like that are the same in every turn of a loop done once before it",
        run: |m, d, o| rewrite(m, d, &mut |b, n, x| loops::invariant::rule(b, n, x, o.chip.vmem_bytes)),
    },
    // Once reductions are what they stay.
    Pass {
        name: "siblings",
        summary: "reductions of the same arrays as one of several results",
        run: |m, d, _| Ok(reductions::siblings::run(m, d)),
    },
    // After everything that could move operations across a barrier.
    Pass { name: "barriers", summary: "optimisation barriers gone", run: |m, d, _| rewrite(m, d, &mut barrier) },
    // Behind the local rules, which would undo it.
    Pass {
        name: "shifts",
        summary: "rolls, and slices that begin within a tile of lanes, as slices of what several of them have in common",
        run: |m, d, o| {
            shifts::run(m, d, shifts::Chip { lanes: u64::from(o.chip.tile.1), vmem_bytes: o.chip.vmem_bytes })
        },
    },
    // Behind everything that makes equal nodes one.
    Pass {
        name: "fills",
        summary: "values repeated that loops, slices and rows are put into as arrays of these alone",
        run: |m, d, _| loops::fills::run(m, d),
    },
];

/// Entry arrays as their shapes say, and the loops and operations that work on them as they lie.
fn by_rule(module: Module, draft: &mut Draft, tile: (u32, u32)) -> Result<Module, CompileError> {
    let mut module = transfers::rule::run(module, draft, tile)?;
    let states = loops::joined::run(&mut module, draft, tile);
    transfers::joined::run(module, draft, states, tile)
}

fn barrier(_: &mut Emit, n: &Node, operands: &[NodeId]) -> Rewritten {
    Ok(if n.op == Op::OptBarrier { Some(operands[0]) } else { None })
}

/// Which passes to run: all, or some by name, or all up to one.
///
/// # Errors
/// A name that no pass has, with the names there are.
pub fn select(names: Option<&[String]>, until: Option<&str>) -> Result<Vec<&'static Pass>, String> {
    let find = |name: &str| {
        PASSES.iter().position(|p| p.name == name).ok_or_else(|| {
            let known: Vec<&str> = PASSES.iter().map(|p| p.name).collect();
            format!("no pass `{name}`; there are {}", known.join(", "))
        })
    };
    let mut passes: Vec<&Pass> = match names {
        Some(names) => names.iter().map(|n| find(n).map(|i| &PASSES[i])).collect::<Result<_, _>>()?,
        None => PASSES.iter().collect(),
    };
    if let Some(last) = until {
        find(last)?;
        let end = passes.iter().rposition(|p| p.name == last);
        passes.truncate(end.ok_or_else(|| format!("the pass `{last}` is not among those asked for"))? + 1);
    }
    Ok(passes)
}

/// What passes made of a module.
pub struct Passed {
    pub module: Module,
    /// How often each labelled rewrite was made.
    pub fired: BTreeMap<&'static str, u64>,
}

/// Runs passes over a verified module, in the order given.
///
/// `dump` is called with the name of each pass and the module after it.
///
/// # Errors
/// A program that has no lowering, or a broken invariant.
pub fn run_passes(
    module: Module,
    passes: &[&Pass],
    options: &PassOptions,
    dump: &mut dyn FnMut(&str, &Module),
) -> Result<Passed, CompileError> {
    let (done, fired) = Halfway::new(module, options).run(passes, options, dump)?;
    Ok(Passed { module: done.module, fired })
}

/// A module between two passes.
#[derive(Clone)]
pub struct Halfway {
    module: Module,
    /// Rewrites that may still be made.
    fuel: Option<u64>,
    /// Nodes of the program as written.
    written: u64,
    /// Whether the pass `ahead` changed a loop.
    ahead: bool,
}

impl Halfway {
    /// A verified module that no pass has seen.
    pub fn new(module: Module, options: &PassOptions) -> Halfway {
        let written = module.computations.iter().map(|c| c.nodes.len() as u64).sum();
        Halfway { module, fuel: options.fuel, written, ahead: false }
    }

    /// Runs passes, in the order given; how often each labelled rewrite was made.
    fn run(
        self,
        passes: &[&Pass],
        options: &PassOptions,
        dump: &mut dyn FnMut(&str, &Module),
    ) -> Result<(Halfway, BTreeMap<&'static str, u64>), CompileError> {
        let Halfway { mut module, mut fuel, written, ahead } = self;
        let mut fired = BTreeMap::new();
        for pass in passes {
            let mut draft = Draft::new(fuel, options.asked.fold, written);
            module = (pass.run)(module, &mut draft, options)?;
            fuel = draft.fuel;
            for (label, n) in draft.fired {
                *fired.entry(label).or_insert(0) += n;
            }
            if options.verify {
                check::check(&module).map_err(|message| CompileError::internal(pass.name, message))?;
            }
            dump(pass.name, &module);
        }
        let ahead = ahead || fired.contains_key(loops::ahead::LABEL);
        Ok((Halfway { module, fuel, written, ahead }, fired))
    }

    /// Runs the passes that do not depend on [`PassOptions::strips`]: all before the one of that name.
    ///
    /// # Errors
    /// As [`lower_to_core`].
    pub fn before_strips(
        module: Module,
        options: &PassOptions,
        dump: &mut dyn FnMut(&str, &Module),
    ) -> Result<Halfway, CompileError> {
        Ok(Halfway::new(module, options).run(&Halfway::parts().0, options, dump)?.0)
    }

    /// Runs the passes behind [`Halfway::before_strips`].
    ///
    /// # Errors
    /// As [`lower_to_core`].
    pub fn to_core(
        self,
        options: &PassOptions,
        dump: &mut dyn FnMut(&str, &Module),
    ) -> Result<CoreModule, CompileError> {
        CoreModule::new(self.run(&Halfway::parts().1, options, dump)?.0.module)
    }

    fn parts() -> (Vec<&'static Pass>, Vec<&'static Pass>) {
        let strips = PASSES.iter().position(|p| p.name == "strips").unwrap_or(PASSES.len());
        (PASSES[..strips].iter().collect(), PASSES[strips..].iter().collect())
    }

    /// Whether a loop does parts of other iterations beside one's work.
    pub fn is_ahead(&self) -> bool {
        self.ahead
    }

    /// Computations so far.
    pub fn computations(&self) -> usize {
        self.module.computations.len()
    }
}

/// Lowers a verified module to core operations.
///
/// `dump` is called with the name of each pass and the module after it.
///
/// # Errors
/// A program that has no lowering, or a broken invariant.
pub fn lower_to_core(
    module: Module,
    options: &PassOptions,
    dump: &mut dyn FnMut(&str, &Module),
) -> Result<CoreModule, CompileError> {
    Halfway::before_strips(module, options, dump)?.to_core(options, dump)
}
