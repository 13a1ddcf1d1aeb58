//! Computations over scalars as flat programs.
//!
//! The computations of `reduce`, `map`, `sort` and the like are run once an element. Where such a computation consists
//! of elementwise operations on scalars it is compiled once into a [`Program`]: a list of steps over registers without
//! names, shapes or allocation. Others are run by the driver.

use super::ops::elementwise::Kernel;
use super::scalar::{self, Scalar};
use systole_hlo::graph::{Binary, CompId, Computation, Module, Node, Op, Shape};
use systole_isa::DType;

/// Steps a program may have after its calls are inlined.
const MAX_STEPS: usize = 4096;

struct Step {
    kernel: Kernel,
    args: [u32; 3],
    result: u32,
}

/// A computation from scalars to scalars.
pub(super) struct Program {
    /// Registers at the start: parameters first (to be filled in), then constants, then room for results.
    registers: Vec<Scalar>,
    steps: Vec<Step>,
    results: Vec<u32>,
    binary: Option<Binary>,
}

/// Where a node's value is: a register, or one for each element of a tuple.
#[derive(Clone)]
enum Slot {
    Register(u32),
    Tuple(Vec<Slot>),
}

impl Slot {
    fn register(&self) -> Option<u32> {
        match self {
            Slot::Register(r) => Some(*r),
            Slot::Tuple(_) => None,
        }
    }
}

impl Program {
    /// The program of a computation, or `None` if something in it is not an elementwise operation on scalars.
    ///
    /// With `widen`, `bf16` and `f16` are computed as `f32`: reductions accumulate so.
    pub(super) fn compile(module: &Module, body: CompId, widen: bool) -> Option<Program> {
        let comp = module.computation(body);
        let mut c = Compiler { module, widen, registers: Vec::new(), steps: Vec::new() };
        let params = comp.params.iter().map(|&p| c.parameter(&comp.node(p).shape)).collect::<Option<Vec<_>>>()?;
        let root = c.computation(comp, &params, 0)?;
        let results = match root {
            Slot::Register(r) => vec![r],
            Slot::Tuple(t) => t.iter().map(Slot::register).collect::<Option<_>>()?,
        };
        let binary = plain_binary(comp);
        Some(Program { registers: c.registers, steps: c.steps, results, binary })
    }

    /// The operation if the computation is nothing but one of two parameters, in order.
    pub(super) fn as_binary(&self) -> Option<Binary> {
        self.binary
    }

    /// Registers to run with.
    pub(super) fn registers(&self) -> Vec<Scalar> {
        self.registers.clone()
    }

    /// Runs on the arguments that the caller has put into the first registers.
    pub(super) fn run(&self, r: &mut [Scalar]) {
        for s in &self.steps {
            r[s.result as usize] = s.kernel.apply(r[s.args[0] as usize], r[s.args[1] as usize], r[s.args[2] as usize]);
        }
    }

    /// Result `i` after a run.
    pub(super) fn result(&self, r: &[Scalar], i: usize) -> Scalar {
        r[self.results[i] as usize]
    }

    /// Number of results.
    pub(super) fn results(&self) -> usize {
        self.results.len()
    }
}

struct Compiler<'a> {
    module: &'a Module,
    widen: bool,
    registers: Vec<Scalar>,
    steps: Vec<Step>,
}

impl Compiler<'_> {
    #[allow(clippy::wildcard_enum_match_arm, reason = "only these two have a wider form")]
    fn dtype(&self, shape: &Shape) -> Option<DType> {
        let a = shape.as_array().filter(|a| a.rank() == 0)?;
        Some(match a.dtype {
            DType::BF16 | DType::F16 if self.widen => DType::F32,
            t => t,
        })
    }

    fn register(&mut self, value: Scalar) -> u32 {
        self.registers.push(value);
        self.registers.len() as u32 - 1
    }

    fn parameter(&mut self, shape: &Shape) -> Option<Slot> {
        let t = self.dtype(shape)?;
        Some(Slot::Register(self.register(Scalar::zero(t))))
    }

    fn computation(&mut self, comp: &Computation, params: &[Slot], depth: usize) -> Option<Slot> {
        if depth > 32 {
            return None;
        }
        let mut slots: Vec<Option<Slot>> = vec![None; comp.nodes.len()];
        for id in comp.ids() {
            let node = comp.node(id);
            let operands: Vec<Slot> =
                node.operands.iter().map(|o| slots.get(o.index()).cloned().flatten()).collect::<Option<_>>()?;
            slots[id.index()] = Some(self.node(comp, node, &operands, params, depth)?);
        }
        slots[comp.root.index()].clone()
    }

    #[allow(
        clippy::wildcard_enum_match_arm,
        reason = "all others are elementwise or have no scalar form, which the callee decides"
    )]
    fn node(
        &mut self,
        comp: &Computation,
        node: &Node,
        operands: &[Slot],
        params: &[Slot],
        depth: usize,
    ) -> Option<Slot> {
        match &node.op {
            Op::Parameter { index } => params.get(*index).cloned(),
            Op::Constant(l) => {
                self.dtype(&node.shape)?;
                Some(Slot::Register(self.register(scalar::decode(l.dtype, l.element(0)))))
            }
            Op::Tuple => Some(Slot::Tuple(operands.to_vec())),
            Op::GetTupleElement { index } => match operands.first()? {
                Slot::Tuple(t) => t.get(*index).cloned(),
                Slot::Register(_) => None,
            },
            Op::Call { body } | Op::Fusion { body, .. } => {
                let called = self.module.computation(*body);
                self.computation(called, operands, depth + 1)
            }
            Op::Broadcast { .. } | Op::Reshape | Op::Bitcast => {
                self.dtype(&node.shape)?;
                operands.first().cloned()
            }
            op => self.elementwise(comp, node, op, operands),
        }
    }

    fn elementwise(&mut self, comp: &Computation, node: &Node, op: &Op, operands: &[Slot]) -> Option<Slot> {
        if self.steps.len() >= MAX_STEPS {
            return None;
        }
        let result = self.dtype(&node.shape)?;
        let types: Vec<DType> =
            node.operands.iter().map(|&o| self.dtype(&comp.node(o).shape)).collect::<Option<_>>()?;
        let kernel = Kernel::new(op, &types, result)?;
        let mut args = [0; 3];
        for (a, s) in args.iter_mut().zip(operands) {
            *a = s.register()?;
        }
        let result = self.register(Scalar::zero(result));
        self.steps.push(Step { kernel, args, result });
        Some(Slot::Register(result))
    }
}

/// The root's operation if the computation is `op(parameter 0, parameter 1)`.
fn plain_binary(comp: &Computation) -> Option<Binary> {
    let root = comp.node(comp.root);
    match (&root.op, &root.operands[..], &comp.params[..]) {
        (Op::Binary(b), [x, y], [p, q]) if (x, y) == (p, q) => Some(*b),
        (Op::Binary(b), [x, y], [p, q]) if (y, x) == (p, q) && commutes(*b) => Some(*b),
        _ => None,
    }
}

fn commutes(b: Binary) -> bool {
    matches!(b, Binary::Add | Binary::Mul | Binary::Max | Binary::Min | Binary::And | Binary::Or | Binary::Xor)
}
