//! `inline`: one computation tree without calls and nested tuples.
//!
//! - calls, fusions, maps and asynchronous wrappers are replaced by what they compute;
//! - tuples exist only as operands and results of `while` and `conditional` (flat, arrays only; an array state becomes a
//!   tuple of one), as results of operations with several, and as the entry's result (flat);
//! - entry parameters and results are flat: leaf `i` of the old ones in order; layouts other than row-major stay on
//!   parameters and on copies to results, with a `Copy` to or from row-major; everything inside is row-major;
//! - tokens are gone: operations with effects keep their order in the arena;
//! - copies, domains, dependencies are gone; `opt-barrier` takes one array each.
//!
//! Infeed becomes a node of flat tuple shape without operands, outfeed one with flat operands, `send` takes its data,
//! `send-done` and `recv-done` take their starts, `recv-done` gives the data.

mod bitcast;
pub mod map;
mod node;
mod scan;
mod value;

use super::dynamic::bounds;
use super::edit::{self, Draft, Emit};
use rustc_hash::FxHashMap;
use systole_hlo::error::CompileError;
use systole_hlo::graph::{Alias, ArrayShape, CompId, Computation, Module, Node, NodeId, Op, Shape};
use value::{Value, of_shape};

/// A computation with flat parameters and results, in terms of which calls are spliced.
pub(super) struct Flat {
    /// Parameters are leaves, numbered through; the root is a tuple of all result leaves.
    computation: Computation,
    /// The old result in terms of the flat root's elements.
    root: Value<usize>,
}

/// How a called computation takes its arguments and gives its result.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Form {
    /// Leaves in, an array or a flat tuple out: bodies of `reduce`, `sort`, ..
    Scalar,
    /// A flat tuple in, the leaves of the result in a flat tuple out: branches and loop bodies.
    State,
    /// A flat tuple in, an array out: loop conditions.
    Condition,
}

/// The pass over one module.
struct Inliner<'a> {
    old: &'a Module,
    flat: Vec<Flat>,
    forms: FxHashMap<(CompId, Form), CompId>,
}

/// Runs the pass.
pub fn run(module: Module, draft: &mut Draft) -> Result<Module, CompileError> {
    let mut inliner = Inliner { old: &module, flat: Vec::new(), forms: FxHashMap::default() };
    for index in 0..module.computations.len() {
        let flat = inliner.flatten(CompId(index as u32), draft)?;
        inliner.flat.push(flat);
        draft.check_size()?;
    }
    let (entry, aliases) = inliner.entry(draft)?;
    let params = entry.params.iter().map(|&p| entry.node(p).shape.clone()).collect();
    // Results go to the host in row-major order, whatever layout they were asked for in.
    let result = plain(entry.result());
    let entry = draft.push(entry);
    let computations = std::mem::take(&mut draft.computations);
    Ok(edit::prune(Module { computations, entry, aliases, entry_layout: Some((params, result)), ..module }))
}

/// A shape without layouts.
fn plain(shape: &Shape) -> Shape {
    match shape {
        Shape::Array(a) => Shape::Array(ArrayShape { minor_to_major: None, ..a.clone() }),
        Shape::Tuple(t) => Shape::Tuple(t.iter().map(plain).collect()),
        Shape::Token => Shape::Token,
    }
}

/// A tuple shape of the array leaves, without layouts.
fn flat_tuple(shape: &Shape) -> Shape {
    Shape::Tuple(shape.leaves().into_iter().map(|a| plain(&Shape::Array(a.clone()))).collect())
}

/// Whether an array shape is stored row-major (dimensions of size 1 do not matter).
fn is_row_major(shape: &ArrayShape) -> bool {
    let order: Vec<u8> =
        shape.layout().into_iter().filter(|&d| shape.dims.get(usize::from(d)).is_none_or(|&n| n != 1)).collect();
    order.windows(2).all(|w| w[0] > w[1])
}

/// A node without what passes cannot keep up to date.
fn origin(node: &Node) -> Node {
    let stale = |name: &str| name == "control-predecessors" || name == "sharding";
    Node {
        attributes: node.attributes.iter().filter(|(k, _)| !stale(k)).cloned().collect(),
        operands: Vec::new(),
        ..node.clone()
    }
}

/// Copies a flat computation's nodes to where it is called; gives the result's leaves.
#[allow(clippy::wildcard_enum_match_arm, reason = "every other operation is copied")]
fn splice(b: &mut Emit, flat: &Flat, args: &[NodeId]) -> Vec<NodeId> {
    let c = &flat.computation;
    let mut map: Vec<NodeId> = Vec::with_capacity(c.nodes.len());
    for (i, n) in c.nodes.iter().enumerate() {
        let operands: Vec<NodeId> = n.operands.iter().map(|o| map[o.index()]).collect();
        if i == c.root.index() {
            return operands;
        }
        map.push(match n.op {
            Op::Parameter { index } => args[index],
            _ => {
                b.on_behalf_of(n);
                b.emit(n.op.clone(), &operands, n.shape.clone())
            }
        });
    }
    Vec::new()
}

impl Inliner<'_> {
    /// Rewrites a computation in terms of leaves.
    #[allow(clippy::wildcard_enum_match_arm, reason = "every other operation is copied")]
    fn flatten(&mut self, id: CompId, draft: &mut Draft) -> Result<Flat, CompileError> {
        let old = self.old.computation(id);
        let mut b = Emit::new(draft);
        let mut params: Vec<Value<NodeId>> = Vec::new();
        for &p in &old.params {
            let n = old.node(p);
            b.on_behalf_of(&origin(n));
            let leaves: Vec<NodeId> = match flat_tuple(&n.shape) {
                Shape::Tuple(t) => t.into_iter().map(|s| b.parameter(bounds(&s))).collect(),
                Shape::Array(_) | Shape::Token => Vec::new(),
            };
            params.push(rebuilt(&n.shape, &leaves)?);
        }
        let mut values: Vec<Value<NodeId>> = Vec::with_capacity(old.nodes.len());
        for n in &old.nodes {
            let value = match n.op {
                Op::Parameter { index } => params[index].clone(),
                _ => {
                    b.on_behalf_of(&origin(n));
                    let operands: Vec<Value<NodeId>> = n.operands.iter().map(|o| values[o.index()].clone()).collect();
                    node::lower(self, &mut b, old, n, &operands)?
                }
            };
            values.push(value);
            b.draft.check_size()?;
        }
        let result = &values[old.root.index()];
        let leaves = result.leaves();
        let mut next = 0;
        let root = result.map(&mut |_| {
            next += 1;
            next - 1
        });
        let shape = Shape::Tuple(leaves.iter().map(|&l| b.shape(l).clone()).collect());
        let tuple = b.push(Op::Tuple, &leaves, shape);
        Ok(Flat { computation: b.finish(old.name.clone(), tuple), root })
    }

    /// A called computation in the form its caller needs.
    fn form(&mut self, b: &mut Emit, id: CompId, form: Form) -> Result<CompId, CompileError> {
        if let Some(&done) = self.forms.get(&(id, form)) {
            return Ok(done);
        }
        let flat = &self.flat[id.index()];
        let old = self.old.computation(id);
        let leaves: Vec<Shape> =
            flat.computation.params.iter().map(|&p| flat.computation.node(p).shape.clone()).collect();
        let new = b.computation(&old.name, |b| {
            let args: Vec<NodeId> = match form {
                Form::Scalar => {
                    let names = flat.computation.params.iter().map(|&p| flat.computation.node(p));
                    names
                        .zip(leaves)
                        .map(|(n, s)| {
                            b.on_behalf_of(n);
                            b.parameter(s)
                        })
                        .collect()
                }
                Form::State | Form::Condition => {
                    if let Some(&p) = old.params.first() {
                        b.on_behalf_of(&origin(old.node(p)));
                    }
                    let p = b.parameter(Shape::Tuple(leaves));
                    b.elements_of(p)
                }
            };
            let result = splice(b, flat, &args);
            let single = matches!(flat.root, Value::Array(_));
            match (form, result.first()) {
                (Form::Scalar, Some(&r)) if single => Ok(r),
                (Form::Condition, Some(&r)) => Ok(r),
                (Form::Scalar | Form::State | Form::Condition, _) => Ok(b.tuple(&result)),
            }
        })?;
        self.forms.insert((id, form), new);
        Ok(new)
    }

    /// The entry with its boundary layouts, and the aliases in terms of flat parameters and results.
    fn entry(&self, draft: &mut Draft) -> Result<(Computation, Vec<Alias>), CompileError> {
        let old = self.old.entry();
        let flat = &self.flat[self.old.entry.index()];
        let mut b = Emit::new(draft);
        let given = self.old.entry_layout.as_ref();
        let mut args = Vec::new();
        for (number, &p) in old.params.iter().enumerate() {
            let n = old.node(p);
            b.on_behalf_of(&origin(n));
            let laid = given.and_then(|g| g.0.get(number)).unwrap_or(&n.shape);
            for leaf in laid.leaves() {
                let leaf = &ArrayShape { dynamic: Vec::new(), ..leaf.clone() };
                let row = plain(&Shape::Array(leaf.clone()));
                if is_row_major(leaf) {
                    args.push(b.parameter(row));
                } else {
                    let outer = b.parameter(Shape::Array(leaf.clone()));
                    args.push(b.raw(Op::Copy, &[outer], row));
                }
            }
        }
        let mut results = splice(&mut b, flat, &args);
        b.on_behalf_of(&origin(old.node(old.root)));
        let laid = given.map_or(old.result(), |g| &g.1);
        for (r, leaf) in results.iter_mut().zip(laid.leaves()) {
            if !is_row_major(leaf) {
                *r = b.raw(Op::Copy, &[*r], Shape::Array(leaf.clone()));
            }
        }
        let root = match (&flat.root, results.first()) {
            (Value::Array(_), Some(&r)) => r,
            _ => {
                let shape = Shape::Tuple(results.iter().map(|&r| b.shape(r).clone()).collect());
                b.raw(Op::Tuple, &results, shape)
            }
        };
        Ok((b.finish(old.name.clone(), root), self.aliases()))
    }

    fn aliases(&self) -> Vec<Alias> {
        let old = self.old.entry();
        let before: Vec<usize> = old
            .params
            .iter()
            .scan(0, |sum, &p| {
                let start = *sum;
                *sum += old.node(p).shape.leaves().len();
                Some(start)
            })
            .collect();
        let flat_alias = |a: &Alias| {
            let output = leaf_index(old.result(), &a.output)?;
            let shape = &old.node(*old.params.get(a.parameter)?).shape;
            let parameter = before.get(a.parameter)? + leaf_index(shape, &a.parameter_index)?;
            let output = if old.result().as_array().is_some() { Vec::new() } else { vec![output] };
            Some(Alias { output, parameter, parameter_index: Vec::new() })
        };
        self.old.aliases.iter().filter_map(flat_alias).collect()
    }
}

/// Which array leaf a tuple path leads to; `None` if it leads to none.
fn leaf_index(shape: &Shape, path: &[usize]) -> Option<usize> {
    match (shape, path) {
        (Shape::Array(_), []) => Some(0),
        (Shape::Tuple(parts), [first, rest @ ..]) => {
            let before: usize = parts.iter().take(*first).map(|p| p.leaves().len()).sum();
            Some(before + leaf_index(parts.get(*first)?, rest)?)
        }
        (Shape::Array(_) | Shape::Tuple(_) | Shape::Token, _) => None,
    }
}

/// A value of a shape from exactly its leaves.
fn rebuilt(shape: &Shape, leaves: &[NodeId]) -> Result<Value<NodeId>, CompileError> {
    of_shape(shape, &mut leaves.iter().copied())
        .ok_or_else(|| CompileError::internal("inline", "a value has fewer leaves than its shape"))
}
