//! What a kernel's function says of its grid and its arguments.

use crate::{Attr, Error, Function, MemRef, Module, Space, Type, Value};

/// How MLIR writes a size that is known at run time only.
const OPEN: i64 = i64::MIN;

/// A kernel: its function with the meaning of its arguments.
#[derive(Clone, Debug)]
pub struct Kernel<'a> {
    pub module: &'a Module,
    pub function: &'a Function,
    /// Sizes of the grid, outermost first; empty: the body runs once and takes whole arrays. `None`: the next of the call's
    /// leading operands has the size.
    pub grid: Vec<Option<u64>>,
    /// Of each dimension of the grid, whether its steps do not depend on each other.
    pub parallel: Vec<bool>,
    /// The arguments behind the grid's indices.
    pub arguments: Vec<(Value, MemRef, Role)>,
}

/// What an argument of a kernel is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// An operand as a whole, in scalar memory before the first step.
    Prefetch,
    /// An operand or result, block by block.
    Window(Window),
    /// An operand or result as a whole, in the memory of its type.
    Whole,
    Scratch,
}

/// How blocks of an operand are chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// Sizes of a block.
    pub bounds: Vec<u64>,
    /// The function from the grid's indices (and what is in scalar memory) to the block's number in each dimension.
    pub transform: String,
    /// One copy in vector memory, not two.
    pub synchronous: bool,
    /// Blocks of a result are read again when they come back later than in the next step.
    pub revisited: bool,
    /// Of each dimension, whether the function gives elements, not blocks.
    pub elements: bool,
    /// Elements before and after the array that blocks may cover, where the function gives elements.
    pub padding: Vec<(u64, u64)>,
}

/// Blocks of a grid at most.
const MAX_STEPS: u64 = 1 << 31;

impl<'a> Kernel<'a> {
    /// The kernel of a module: its first function.
    ///
    /// # Errors
    /// A function that is no kernel.
    pub fn of(module: &'a Module) -> Result<Kernel<'a>, Error> {
        let function = module.functions.first().ok_or_else(|| Error::new("the module has no function"))?;
        let wrong = |what: &str| Error { what: what.into(), place: function.place.as_ref().map(ToString::to_string) };
        let number = |name: &str| match function.attributes.get(name) {
            None => Ok(0),
            Some(Attr::Int(n)) => usize::try_from(*n).map_err(|_| wrong(&format!("`{name}` is negative"))),
            Some(_) => Err(wrong(&format!("`{name}` is no number"))),
        };
        let grid = match function.attributes.get("iteration_bounds") {
            None => Vec::new(),
            Some(a) => a.ints().ok_or_else(|| wrong("`iteration_bounds` are no numbers"))?,
        };
        let size = |n: &i64| match *n {
            OPEN => Ok(None),
            n => u64::try_from(n).map(Some).map_err(|_| wrong("a grid of a negative size")),
        };
        let grid = grid.iter().map(size).collect::<Result<Vec<Option<u64>>, Error>>()?;
        let steps = grid.iter().flatten().try_fold(1u64, |n, g| n.checked_mul(*g)).filter(|n| *n < MAX_STEPS);
        if steps.is_none() {
            return Err(wrong("a grid of too many steps"));
        }
        let semantics = match function.attributes.get("dimension_semantics") {
            Some(Attr::List(l)) => l.iter().map(|a| a.word() == Some("parallel")).collect(),
            _ => vec![false; grid.len()],
        };
        let (prefetch, scratch) = (number("scalar_prefetch")?, number("scratch_operands")?);
        let windows = match function.attributes.get("window_params") {
            Some(Attr::List(l)) => {
                Some(l.iter().map(|w| window(w).ok_or_else(|| wrong("a window that says too little"))))
            }
            _ => None,
        };
        let windows = windows.map(|w| w.collect::<Result<Vec<Option<Window>>, Error>>()).transpose()?;
        let body =
            function.body.arguments.get(grid.len()..).ok_or_else(|| wrong("fewer arguments than the grid has"))?;
        let operands = body.len().checked_sub(prefetch + scratch).ok_or_else(|| wrong("too few arguments"))?;
        if windows.as_ref().is_some_and(|w| w.len() != operands) {
            return Err(wrong("as many windows as operands and results are due"));
        }
        let mut windows = windows.map(Vec::into_iter);
        let mut arguments = Vec::new();
        for (i, &v) in body.iter().enumerate() {
            let Type::MemRef(m) = module.type_of(v) else { return Err(wrong("an argument is no array")) };
            let role = match i {
                _ if i < prefetch => Role::Prefetch,
                _ if i >= prefetch + operands => Role::Scratch,
                _ => match windows.as_mut().and_then(Iterator::next) {
                    // What stays in HBM, or is a semaphore, has no blocks.
                    Some(Some(w)) if !matches!(m.space, Space::Hbm | Space::Semaphore) => Role::Window(w),
                    _ => Role::Whole,
                },
            };
            if let Role::Window(w) = &role {
                let sizes = m.sizes().ok_or_else(|| wrong("a window of open size"))?;
                let elements = |dims: &[u64]| dims.iter().try_fold(1u64, |n, &d| n.checked_mul(d));
                if elements(&w.bounds).is_none() || elements(&w.bounds) != elements(&sizes) {
                    return Err(wrong("a window's argument has another size than the window"));
                }
                if module.function(&w.transform).is_none() {
                    return Err(wrong(&format!("function `{}` is not there", w.transform)));
                }
            }
            arguments.push((v, m.clone(), role));
        }
        Ok(Kernel { module, function, grid, parallel: semantics, arguments })
    }

    /// Steps of the grid, where they are known.
    pub fn steps(&self) -> Option<u64> {
        self.grid.iter().try_fold(1, |n: u64, d| Some(n.saturating_mul((*d)?)))
    }

    /// Sizes of the grid that are operands of the call, ahead of all others.
    pub fn open_sizes(&self) -> usize {
        self.grid.iter().filter(|g| g.is_none()).count()
    }

    /// The grid's indices among the function's arguments.
    pub fn indices(&self) -> &'a [Value] {
        &self.function.body.arguments[..self.grid.len()]
    }
}

/// What is said of a window: `Some(None)` for one without blocks, which is all of its array.
fn window(a: &Attr) -> Option<Option<Window>> {
    let Attr::Dict(d) = a else { return None };
    let Some(bounds) = d.get("window_bounds") else { return Some(None) };
    let bounds = bounds.ints()?;
    let bounds = bounds.into_iter().map(|b| u64::try_from(b).ok()).collect::<Option<Vec<u64>>>()?;
    let Attr::Symbol(transform) = d.get("transform_indices")? else { return None };
    let mode = d.get("pipeline_mode").and_then(Attr::word);
    // `#tpu.element_window<[low, ..], [high, ..]>`
    let kind = d.get("window_kind").and_then(Attr::word);
    let padding = kind.map(crate::text::lists).unwrap_or_default();
    let padding = match &padding[..] {
        [low, high] if low.len() == bounds.len() && high.len() == bounds.len() => {
            low.iter().zip(high).map(|(l, h)| (*l as u64, *h as u64)).collect()
        }
        _ => vec![(0, 0); bounds.len()],
    };
    Some(Some(Window {
        bounds,
        transform: transform.clone(),
        synchronous: mode == Some("synchronous"),
        revisited: d.get("revisit_mode").and_then(Attr::word) == Some("any"),
        elements: kind.is_some(),
        padding,
    }))
}
