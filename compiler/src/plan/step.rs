//! The draft of a plan: buffers, kernels, and steps in program order, before arrays have places.

use super::collective::{Exchange, PodPlan};
use super::spec::{Considered, KernelKey, KernelSpec};
use super::view::{BufId, View};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use systole_codegen::emit::mosaic::Part;
use systole_codegen::kernel::Needs;
use systole_hlo::error::{CompileError, Resource, limit};
use systole_hlo::graph::{Binary, Direction, Unary};
use systole_isa::program::HostCallKind;
use systole_isa::{ChipConfig, DType, Layout};

/// A word of scalar memory that holds a scalar of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Word(pub u32);

/// What a buffer is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum BufferKind {
    /// Entry parameter, written by the host before the program starts.
    Param(usize),
    /// Initial contents in HBM, in the chip's layout.
    Constant(#[serde(with = "super::text::byte_string")] Vec<u8>),
    Temp,
    /// Loop state: one place in vector memory for the whole loop.
    State,
    /// Loop state that stays in HBM: written by copies there, read block by block or through vector memory.
    FarState,
}

/// An array of the plan.
#[derive(Clone, Debug)]
pub struct Buffer {
    pub name: String,
    pub layout: Layout,
    pub kind: BufferKind,
    /// Rows of words behind the array that belong to it in HBM.
    pub slack_rows: u64,
}

/// A subroutine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KernelEntry {
    /// For listings.
    pub name: String,
    pub spec: KernelSpec,
    pub needs: Needs,
    /// What its scratch area holds, where the kernel's own arrays have names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Part>,
    /// Estimated cycles of a call, if known.
    pub cycles: Option<f64>,
    /// The best other ways to make it.
    pub considered: Vec<Considered>,
}

/// How a kernel's base parameter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    /// Element rows of the array's storage width, in VMEM.
    ElementRows,
    /// Rows of 32-bit words, in VMEM.
    WordRows,
    /// 512-byte granules in HBM.
    Granules,
}

/// Whether an argument's array is read, written, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Use {
    Read,
    Write,
    /// Some elements are written, the others keep their value.
    Update,
    /// As `Update`, in whole tiles of rows and lanes.
    Tiles,
    /// As `Update`, but the others hold nothing yet: they are written later, and may hold anything until then.
    First,
}

/// An argument of a kernel call.
#[derive(Clone, Debug, PartialEq)]
pub enum Arg {
    /// An array's base plus `offset` element rows plus, for each `(word, rows)`, the scalar times so many element rows.
    Array { buf: BufId, usage: Use, unit: Unit, offset: i64, dynamic: Vec<(Word, i64)> },
    /// A scalar's value.
    Scalar(Word),
    /// The sum of scalars times constants.
    Sum(Vec<(Word, i64)>),
    /// A scalar times a constant plus a constant.
    Linear { word: Word, scale: i32, offset: i32 },
    /// A number.
    Const(i32),
    /// The call's scratch area in VMEM (word rows).
    Scratch,
}

impl Arg {
    /// An array by its element rows.
    pub fn rows(buf: BufId, usage: Use) -> Arg {
        Arg::Array { buf, usage, unit: Unit::ElementRows, offset: 0, dynamic: Vec::new() }
    }

    /// The array that it is, what is done with it, and in what units it is addressed.
    pub fn array(&self) -> Option<(BufId, Use, Unit)> {
        match self {
            Arg::Array { buf, usage, unit, .. } => Some((*buf, *usage, *unit)),
            Arg::Scalar(_) | Arg::Sum(_) | Arg::Linear { .. } | Arg::Const(_) | Arg::Scratch => None,
        }
    }
}

/// A scalar operation of the scalar unit, on 32-bit words.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum ScalarOp {
    Const(i32),
    /// The number of this device.
    Device,
    /// The number of this core of the device.
    Core,
    Copy(Word),
    Unary(Unary, Word),
    Binary(Binary, Word, Word),
    Compare(Direction, Word, Word),
    Select(Word, Word, Word),
    /// To an integer type of at most 32 bits, or `pred`.
    Convert(Word),
    /// Clamped to `0..=limit` (as signed, or unsigned by the operand's type).
    ClampIndex {
        word: Word,
        limit: i32,
        unsigned: bool,
    },
}

impl ScalarOp {
    /// The operation on what `word` makes of its operands; `None` if it makes nothing of one.
    pub fn try_map(self, word: &mut dyn FnMut(Word) -> Option<Word>) -> Option<ScalarOp> {
        Some(match self {
            ScalarOp::Const(_) | ScalarOp::Device | ScalarOp::Core => self,
            ScalarOp::Copy(a) => ScalarOp::Copy(word(a)?),
            ScalarOp::Unary(op, a) => ScalarOp::Unary(op, word(a)?),
            ScalarOp::Binary(op, a, b) => ScalarOp::Binary(op, word(a)?, word(b)?),
            ScalarOp::Compare(d, a, b) => ScalarOp::Compare(d, word(a)?, word(b)?),
            ScalarOp::Select(c, a, b) => ScalarOp::Select(word(c)?, word(a)?, word(b)?),
            ScalarOp::Convert(a) => ScalarOp::Convert(word(a)?),
            ScalarOp::ClampIndex { word: a, limit, unsigned } => {
                ScalarOp::ClampIndex { word: word(a)?, limit, unsigned }
            }
        })
    }
}

/// What a step asks of the host.
#[derive(Clone, Debug)]
pub struct HostStep {
    pub kind: HostCallKind,
    /// The host function's name.
    pub target: String,
    pub config: String,
}

/// A step of the program.
#[derive(Clone, Debug)]
pub enum Step {
    Call {
        kernel: usize,
        args: Vec<Arg>,
        op: u32,
    },
    /// Copies a whole buffer (same layout).
    Copy {
        src: BufId,
        dst: BufId,
        op: u32,
    },
    /// Computes `dst` as a value of `dtype` (narrow integers are wrapped).
    Scalar {
        dst: Word,
        value: ScalarOp,
        dtype: DType,
    },
    /// Loads the first element of a buffer into a word.
    ReadScalar {
        buf: BufId,
        dst: Word,
        dtype: DType,
        op: u32,
    },
    /// Has the host read `operands` in HBM and write `results` there.
    Host {
        call: HostStep,
        operands: Vec<(BufId, Layout)>,
        results: Vec<(BufId, Layout)>,
        op: u32,
    },
    /// A collective among devices.
    Exchange(Box<Exchange>),
    /// Begins a collective that is under way during the steps up to its end; `work` are their estimated cycles.
    Begin(Box<Exchange>),
    End(Box<Exchange>),
    /// Runs `head`, leaves if `cond` is zero, runs `body`, repeats; so many times, where that is known. `shared`: the cores of
    /// the device each do iterations of their own.
    While {
        head: Vec<Step>,
        cond: Word,
        body: Vec<Step>,
        turns: Option<u64>,
        shared: bool,
        op: u32,
    },
    /// Runs the branch whose number is in `index` (the last for numbers beyond).
    Switch {
        index: Word,
        branches: Vec<Vec<Step>>,
        op: u32,
    },
}

/// Matches the steps that have no steps inside.
macro_rules! leaf {
    () => {
        Step::Call { .. }
            | Step::Copy { .. }
            | Step::Scalar { .. }
            | Step::ReadScalar { .. }
            | Step::Host { .. }
            | Step::Exchange(_)
            | Step::Begin(_)
            | Step::End(_)
    };
}

impl Step {
    /// The steps inside it: a loop's head and body, the branches of a switch.
    pub fn regions(&self) -> impl Iterator<Item = &[Step]> {
        let (rounds, branches): ([&[Step]; 2], &[Vec<Step>]) = match self {
            Step::While { head, body, .. } => ([head, body], &[]),
            Step::Switch { branches, .. } => ([&[], &[]], branches),
            leaf!() => ([&[], &[]], &[]),
        };
        rounds.into_iter().chain(branches.iter().map(Vec::as_slice))
    }

    /// Hands every step to `f`, in order, one before those inside it.
    pub fn each<'s>(steps: &'s [Step], f: &mut dyn FnMut(&'s Step)) {
        for step in steps {
            f(step);
            step.regions().for_each(|region| Step::each(region, f));
        }
    }

    /// The step with what `region` makes of the steps inside it: of a loop's head and body, and of branches.
    ///
    /// # Errors
    /// What `region` returns.
    pub fn try_map_regions<E>(self, mut region: impl FnMut(Vec<Step>) -> Result<Vec<Step>, E>) -> Result<Step, E> {
        Ok(match self {
            Step::While { head, cond, body, turns, shared, op } => {
                Step::While { head: region(head)?, cond, body: region(body)?, turns, shared, op }
            }
            Step::Switch { index, branches, op } => {
                Step::Switch { index, branches: branches.into_iter().map(region).collect::<Result<_, _>>()?, op }
            }
            s @ (leaf!()) => s,
        })
    }

    /// [`Step::try_map_regions`] where nothing fails.
    pub fn map_regions(self, mut region: impl FnMut(Vec<Step>) -> Vec<Step>) -> Step {
        let Ok(mapped) = self.try_map_regions(|steps| Ok::<_, std::convert::Infallible>(region(steps)));
        mapped
    }
}

/// What one core does of a kernel that is shared out: its kernel, and for the first arguments how much further (in the
/// argument's unit) its arrays begin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplitPart {
    pub kernel: usize,
    pub offsets: Vec<i64>,
}

/// Which arrays are kept in vector memory as a whole.
#[derive(Clone, Debug, Default)]
pub struct Residency {
    /// Bytes up to which they are; larger ones are streamed.
    pub largest: u64,
    /// Names of smaller arrays that are streamed all the same.
    pub streamed: BTreeSet<String>,
    /// Arrays that loops take small parts of, and which are therefore brought into vector memory before these.
    pub kept: Vec<BufId>,
}

/// A program as steps: what placement makes a plan of.
#[derive(Default)]
pub struct Draft {
    pub buffers: Vec<Buffer>,
    pub kernels: Vec<KernelEntry>,
    pub keys: FxHashMap<KernelKey, usize>,
    /// Cores of a device that run the program; below two, only the first does.
    pub cores: u32,
    /// Kernels that are parts of a larger one, by the first part: each core's. Calls name the first part.
    pub splits: BTreeMap<usize, Vec<SplitPart>>,
    pub words: u32,
    /// First of the words that hold indices of gathers and scatters.
    pub index_words: Option<u32>,
    /// First word of those that scatters in place share.
    pub key_words: Option<u32>,
    pub steps: Vec<Step>,
    pub ops: Vec<systole_isa::program::DebugOp>,
    /// Operations that are computed in the kernel of another one, by that one's number: names.
    pub members: BTreeMap<u32, Vec<String>>,
    /// Where the operations of `ops` are in the source; shorter where the last have no place.
    pub op_spans: Vec<systole_hlo::graph::Span>,
    pub params: Vec<BufId>,
    /// Where the parameters are in the source.
    pub param_spans: Vec<systole_hlo::graph::Span>,
    /// Parameters whose memory the program may write once it has read them for the last time.
    pub donated: Vec<BufId>,
    pub results: Vec<BufId>,
    /// The results' layouts as the host sees them.
    pub result_layouts: Vec<Layout>,
    /// Messages of traps.
    pub traps: Vec<String>,
    pub residency: Residency,
    /// Names of loops whose iterations cores do not share, though they could.
    pub together: BTreeSet<String>,
    /// Buffers of channels, by number and array.
    pub channels: BTreeMap<(u64, usize), View>,
    /// Products do on the way what loops leave to them.
    pub begun: bool,
    /// Semaphores of copies that loops begin ahead.
    pub ahead: u32,
    /// Tables and semaphores of collectives.
    pub pod: PodPlan,
}

impl Draft {
    pub fn buffer(&mut self, name: impl Into<String>, layout: Layout, kind: BufferKind) -> BufId {
        self.buffers.push(Buffer { name: name.into(), layout, kind, slack_rows: 0 });
        BufId(self.buffers.len() as u32 - 1)
    }

    /// Whether an array is streamed because of its size or its name.
    pub fn is_streamed(&self, buf: BufId) -> bool {
        let b = &self.buffers[buf.index()];
        b.layout.bytes() > self.residency.largest || self.residency.streamed.contains(&b.name)
    }

    /// Whether an array can be one of [`Residency::kept`] where these have so many bytes of room.
    pub fn can_keep(&self, buf: BufId, room: u64) -> bool {
        let kept = &self.residency.kept;
        let bytes = kept.iter().chain([&buf]).map(|b| self.buffers[b.index()].layout.bytes());
        !kept.contains(&buf) && bytes.fold(0, u64::saturating_add) <= room
    }

    pub fn word(&mut self) -> Word {
        self.words += 1;
        Word(self.words - 1)
    }

    /// The kernel of a key, decided about on first use.
    ///
    /// # Errors
    /// What `make` returns.
    pub fn kernel<E>(
        &mut self,
        key: KernelKey,
        make: impl FnOnce(&KernelKey) -> Result<KernelEntry, E>,
    ) -> Result<usize, E> {
        if let Some(&k) = self.keys.get(&key) {
            return Ok(k);
        }
        let entry = make(&key)?;
        self.kernels.push(entry);
        self.keys.insert(key, self.kernels.len() - 1);
        Ok(self.kernels.len() - 1)
    }

    /// A kernel that there is one way to make.
    pub fn simple_kernel(&mut self, spec: KernelSpec, name: &str, needs: Needs) -> usize {
        let made: Result<usize, std::convert::Infallible> = self.kernel(KernelKey::Exactly(spec.clone()), |_| {
            Ok(KernelEntry {
                name: name.to_string(),
                spec,
                needs,
                parts: Vec::new(),
                cycles: None,
                considered: Vec::new(),
            })
        });
        let Ok(kernel) = made;
        kernel
    }

    /// Writes down that an operation is computed in another one's kernel.
    pub fn absorb(&mut self, in_op: u32, of: u32) {
        let name = self.ops[of as usize].name.clone();
        let mut names = self.members.remove(&of).unwrap_or_default();
        names.push(name.clone());
        self.members.entry(in_op).or_default().extend(names);
        let o = &mut self.ops[of as usize];
        let own = systole_isa::program::DebugMember { name, opcode: o.opcode.clone(), line: o.line };
        let mut members = std::mem::take(&mut o.members);
        members.push(own);
        let (flops, peak) = (std::mem::take(&mut o.flops), o.peak);
        let p = &mut self.ops[in_op as usize];
        p.members.extend(members);
        p.flops += flops;
        p.peak = p.peak.or(peak);
    }

    /// Fails where kernels need more than there is of what they number for themselves.
    ///
    /// # Errors
    /// [`CompileError::Limit`].
    pub fn check(&self, chip: &ChipConfig) -> Result<(), CompileError> {
        let most = u64::from(super::kernel_semaphores(chip)) - 1;
        self.kernels.iter().try_for_each(|k| limit(Resource::KernelSemaphores, u64::from(k.needs.semaphores), most))
    }
}
