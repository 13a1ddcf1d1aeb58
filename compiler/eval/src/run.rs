//! Runs computations: instructions in order, calls, loops, branches, budgets.

use super::error::{Fault, malformed};
use super::process::Network;
use super::region::Program;
use super::scalar::Scalar;
use super::value::{Tensor, Value};
use super::{EvalError, EvalOptions, Host};
use rustc_hash::FxHashMap;
use std::rc::Rc;
use systole_hlo::graph::{ArrayShape, Binary, CompId, Module, Node, NodeId, Op, Shape};
use systole_isa::DType;

/// Depth of nested calls.
const MAX_DEPTH: usize = 200;

/// One device that runs a module.
pub(super) struct Machine<'a> {
    pub(super) module: &'a Module,
    pub(super) opts: &'a EvalOptions,
    pub(super) host: &'a mut dyn Host,
    pub(super) network: &'a Network,
    pub(super) device: usize,
    /// State of `rng-get-and-update-state` and count of `rng` calls.
    pub(super) rng_state: u128,
    plans: FxHashMap<CompId, Rc<Plan>>,
    steps: u64,
    depth: usize,
}

/// What is known about a computation before it runs.
struct Plan {
    /// For each node, the nodes whose values nobody needs after it.
    dead_after: Vec<Vec<NodeId>>,
    constants: FxHashMap<NodeId, Value>,
}

impl Plan {
    /// Constants of more than `max_elements` are left out: running them is refused.
    #[allow(clippy::wildcard_enum_match_arm, reason = "the question is for constants alone")]
    fn new(module: &Module, comp: CompId, max_elements: u64) -> Plan {
        let c = module.computation(comp);
        let mut last: Vec<Option<usize>> = vec![None; c.nodes.len()];
        for (i, n) in c.nodes.iter().enumerate() {
            n.operands.iter().for_each(|o| last[o.index()] = Some(i));
        }
        last[c.root.index()] = None;
        let mut dead_after = vec![Vec::new(); c.nodes.len()];
        for (i, l) in last.iter().enumerate() {
            if let Some(l) = l {
                dead_after[*l].push(NodeId(i as u32));
            }
        }
        let constant = |id: NodeId| match &c.node(id).op {
            Op::Constant(l) if l.elements() as u64 <= max_elements => Some((id, Value::Array(Tensor::from_literal(l)))),
            _ => None,
        };
        Plan { dead_after, constants: c.ids().filter_map(constant).collect() }
    }
}

impl<'a> Machine<'a> {
    pub(super) fn new(
        module: &'a Module,
        opts: &'a EvalOptions,
        host: &'a mut dyn Host,
        network: &'a Network,
        device: usize,
    ) -> Machine<'a> {
        let rng_state = (opts.seed as u128) << 64 | device as u128;
        Machine { module, opts, host, network, device, rng_state, plans: FxHashMap::default(), steps: 0, depth: 0 }
    }

    /// Runs the entry computation.
    pub(super) fn entry(&mut self, inputs: &[Value]) -> Result<Value, EvalError> {
        let entry = self.module.entry();
        if inputs.len() != entry.params.len() {
            return Err(EvalError::Inputs(format!("{} given, the program takes {}", inputs.len(), entry.params.len())));
        }
        for (i, (v, &p)) in inputs.iter().zip(&entry.params).enumerate() {
            let shape = &entry.node(p).shape;
            if !fits(v, shape) {
                return Err(EvalError::Inputs(format!("input {i} is not {shape}")));
            }
        }
        self.run(self.module.entry, inputs.to_vec())
    }

    /// Runs a computation on its parameters.
    #[allow(clippy::wildcard_enum_match_arm, reason = "all others take their operands' values")]
    pub(super) fn run(&mut self, comp: CompId, params: Vec<Value>) -> Result<Value, EvalError> {
        let module = self.module;
        let c = module.computation(comp);
        if self.depth >= MAX_DEPTH {
            let why = format!("calls nested deeper than {MAX_DEPTH}");
            return Err(EvalError::Limit { node: c.name.clone(), why });
        }
        self.depth += 1;
        let plan = Rc::clone(
            self.plans.entry(comp).or_insert_with(|| Rc::new(Plan::new(module, comp, self.opts.max_elements))),
        );
        let mut params: Vec<Option<Value>> = params.into_iter().map(Some).collect();
        let mut values: Vec<Option<Value>> = vec![None; c.nodes.len()];
        for (i, node) in c.nodes.iter().enumerate() {
            self.budget(node)?;
            let value = match &node.op {
                Op::Parameter { index } => params.get_mut(*index).and_then(Option::take),
                Op::Constant(_) => plan.constants.get(&NodeId(i as u32)).cloned(),
                Op::GetTupleElement { index } => match values.get(node.operands[0].index()) {
                    Some(Some(Value::Tuple(t))) => t.get(*index).cloned(),
                    _ => None,
                },
                _ => {
                    let args: Option<Vec<Value>> = node.operands.iter().map(|o| values[o.index()].clone()).collect();
                    plan.dead_after[i].iter().for_each(|d| values[d.index()] = None);
                    let args = args.ok_or_else(|| malformed("an operand has no value").at(&node.name))?;
                    let shapes: Vec<&Shape> = node.operands.iter().map(|&o| &c.node(o).shape).collect();
                    Some(self.apply((comp, i), node, &shapes, args).map_err(|f| f.at(&node.name))?)
                }
            };
            let value = value.ok_or_else(|| malformed("no value").at(&node.name))?;
            plan.dead_after[i].iter().for_each(|d| values[d.index()] = None);
            values[i] = Some(value);
        }
        self.depth -= 1;
        values[c.root.index()].take().ok_or_else(|| malformed("the root has no value").at(&c.name))
    }

    /// Counts a step and refuses results that are too large.
    pub(super) fn budget(&mut self, node: &Node) -> Result<(), EvalError> {
        self.steps += 1;
        let limit = |why: String| Err(EvalError::Limit { node: node.name.clone(), why });
        if self.steps > self.opts.max_steps {
            return limit(format!("{} instructions", self.opts.max_steps));
        }
        let too_large = |a: &&ArrayShape| {
            let n = a.dims.iter().try_fold(1u64, |n, &d| n.checked_mul(d));
            n.is_none_or(|n| n > self.opts.max_elements)
        };
        if let Shape::Array(a) = &node.shape {
            return if too_large(&a) { limit(format!("{a} has too many elements")) } else { Ok(()) };
        }
        match node.shape.leaves().iter().find(|a| too_large(a)) {
            Some(a) => limit(format!("{a} has too many elements")),
            None => Ok(()),
        }
    }

    /// `while`: the state goes round until the condition is false.
    pub(super) fn while_loop(&mut self, condition: CompId, body: CompId, mut state: Value) -> Result<Value, Fault> {
        while truth(&self.run(condition, vec![state.clone()])?)? {
            state = self.run(body, vec![state])?;
        }
        Ok(state)
    }

    /// `conditional`: the branch of a pred (the first if true) or of an index (the last if out of range).
    #[allow(clippy::wildcard_enum_match_arm, reason = "the verifier lets pred and s32 alone choose")]
    pub(super) fn conditional(&mut self, branches: &[CompId], mut args: Vec<Value>) -> Result<Value, Fault> {
        let selector = args[0].as_array().ok_or_else(|| malformed("the selector is no array"))?;
        let index = match selector.dtype {
            DType::Pred => 1 - selector.index(0),
            _ => selector.index(0),
        };
        let last = branches.len() as i64 - 1;
        let taken = if (0..=last).contains(&index) { index } else { last } as usize;
        if taken + 1 >= args.len() {
            return Err(malformed("no operand for the branch"));
        }
        let operand = args.swap_remove(taken + 1);
        drop(args);
        Ok(self.run(branches[taken], vec![operand])?)
    }
}

/// The truth of a scalar pred.
fn truth(v: &Value) -> Result<bool, Fault> {
    v.as_array().filter(|t| t.elements() == 1).map(|t| t.index(0) != 0).ok_or_else(|| malformed("no scalar pred"))
}

/// Whether a value has a shape; dynamic dimensions may be smaller.
pub(super) fn fits(v: &Value, shape: &Shape) -> bool {
    match (v, shape) {
        (Value::Array(t), Shape::Array(a)) => {
            t.dtype == a.dtype
                && t.rank() == a.rank()
                && t.dims
                    .iter()
                    .zip(&a.dims)
                    .enumerate()
                    .all(|(i, (&d, &bound))| d as u64 == bound || (a.is_dynamic(i) && d as u64 <= bound))
        }
        (Value::Tuple(t), Shape::Tuple(s)) => t.len() == s.len() && t.iter().zip(s).all(|(v, s)| fits(v, s)),
        (Value::Token, Shape::Token) => true,
        (Value::Array(_) | Value::Tuple(_) | Value::Token, _) => false,
    }
}

/// A computation over scalars, ready to be called many times.
pub(super) struct Body {
    comp: CompId,
    program: Option<Program>,
    registers: Vec<Scalar>,
    params: Vec<DType>,
    results: Vec<Scalar>,
}

impl Body {
    /// With `widen`, `bf16` and `f16` are computed as `f32` where the computation allows it.
    pub(super) fn new(m: &Machine, comp: CompId, widen: bool) -> Result<Body, Fault> {
        let c = m.module.computation(comp);
        let dtype = |p: &NodeId| c.node(*p).shape.as_array().filter(|a| a.rank() == 0).map(|a| a.dtype);
        let params = c.params.iter().map(dtype).collect::<Option<Vec<_>>>();
        let params = params.ok_or_else(|| malformed(format!("{} is not over scalars", c.name)))?;
        let program = Program::compile(m.module, comp, widen);
        let registers = program.as_ref().map(Program::registers).unwrap_or_default();
        Ok(Body { comp, program, registers, params, results: Vec::new() })
    }

    /// The operation if the computation is only that, on its two parameters.
    pub(super) fn binary(&self) -> Option<Binary> {
        self.program.as_ref().and_then(Program::as_binary)
    }

    /// Runs the computation; the results are then in [`Body::result`].
    pub(super) fn call(&mut self, m: &mut Machine, args: impl Iterator<Item = Scalar>) -> Result<(), Fault> {
        if let Some(p) = &self.program {
            args.zip(&mut self.registers[..self.params.len()]).for_each(|(a, r)| *r = a);
            p.run(&mut self.registers);
            self.results.clear();
            self.results.extend((0..p.results()).map(|i| p.result(&self.registers, i)));
            return Ok(());
        }
        let given = args.zip(&self.params).map(|(a, &t)| Value::Array(Tensor::scalar(t, a))).collect();
        let leaves = m.run(self.comp, given)?.into_leaves();
        self.results.clear();
        self.results.extend(leaves.iter().map(|t| t.get(0)));
        Ok(())
    }

    /// Result `i` of the last call.
    pub(super) fn result(&self, i: usize) -> Scalar {
        self.results.get(i).copied().unwrap_or(Scalar::I(0))
    }

    /// The first result of the last call as a truth.
    pub(super) fn truth(&self) -> bool {
        self.result(0).int() != 0
    }
}
