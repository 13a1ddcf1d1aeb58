//! The program container's contents: what the compiler emits and the simulator loads.

use crate::{
    dma::{DmaDesc, Space},
    dtype::DType,
    layout::Layout,
    topology::Topology,
};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A compiled program for one device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Program {
    /// The module's name.
    pub name: String,
    /// Name of the chip compiled for (information only; [`Program::fingerprint`] decides).
    pub chip: String,
    /// [`crate::chip::ChipConfig::fingerprint`] of the chip compiled for.
    pub fingerprint: u64,
    /// Encoded bundles; execution starts at the first.
    #[serde(with = "crate::byte_string")]
    pub code: Vec<u8>,
    /// Number of bundles in `code`.
    pub bundles: u32,
    /// DMA descriptor table.
    pub descs: Vec<DmaDesc>,
    /// Bytes that are in HBM before the program starts.
    pub constants: Vec<Constant>,
    /// Arrays that the host writes and reads, in order of parameter and result number.
    pub params: Vec<HostArray>,
    /// As `params`, for the results.
    pub results: Vec<HostArray>,
    /// What it takes of the memories.
    pub memory: MemoryUse,
    /// Messages of `b.trap` codes.
    pub traps: Vec<String>,
    /// What `b.host` asks of the host.
    pub host_calls: Vec<HostCall>,
    /// The devices that the program was compiled for.
    pub pod: PodShape,
    /// Where the code comes from.
    pub debug: DebugInfo,
}

/// What a program takes of the memories.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryUse {
    /// HBM bytes, parameters and results included (code apart).
    pub hbm_bytes: u64,
    /// VMEM bytes.
    pub vmem_bytes: u64,
    /// SMEM words.
    pub smem_words: u32,
}

impl Program {
    /// The first bundle of every operation's code: it issues once for each execution of the operation, however often control
    /// leaves the operation's code and comes back.
    pub fn first_bundles(&self) -> Vec<Option<u32>> {
        let mut first = vec![None; self.debug.ops.len()];
        // Ranges ascend; one that is empty is not there.
        for (i, r) in self.debug.ranges.iter().enumerate() {
            let end = self.debug.ranges.get(i + 1).map_or(self.bundles, |n| n.start);
            if let Some(f) = first.get_mut(r.op as usize).filter(|f| f.is_none() && r.start < end) {
                *f = Some(r.start);
            }
        }
        first
    }
}

/// The devices that run a program together: device `replica * partitions + partition` of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodShape {
    /// Devices that run the program on data of their own.
    pub replicas: u32,
    /// Devices that share the program.
    pub partitions: u32,
    /// How the pod is joined; none for one device.
    pub topology: Option<Topology>,
    /// Along each axis of the topology, every how many chips devices behave alike: what one does to its neighbours, the
    /// others do to theirs, so that one can stand for them when only time is asked for. Empty, or an axis's length:
    /// nothing is known.
    pub alike: Vec<u32>,
    /// The algorithm of each collective, by the name of its operation.
    pub algorithms: Vec<(String, String)>,
    /// The devices that exchange with each other in an operation, by its name: groups, or pairs of sender and receiver.
    pub partners: Vec<(String, Vec<Vec<u32>>)>,
    /// The operations that work while a collective is under way, by its name.
    pub behind: Vec<(String, Vec<String>)>,
}

impl Default for PodShape {
    fn default() -> PodShape {
        PodShape {
            replicas: 1,
            partitions: 1,
            topology: None,
            alike: Vec::new(),
            algorithms: Vec::new(),
            partners: Vec::new(),
            behind: Vec::new(),
        }
    }
}

impl PodShape {
    /// Every how many chips devices behave alike along each axis, if some do: of chips with one device, on a topology that is
    /// used as a whole and wraps around where they do.
    pub fn distances(&self) -> Option<&[u32]> {
        let t = self.topology.as_ref()?;
        let sound = |(a, &by): (usize, &u32)| by > 0 && t.dims[a].is_multiple_of(by) && (by == t.dims[a] || t.turns(a));
        let whole = t.devices_per_chip == 1 && t.devices() == self.devices();
        let known = whole && self.alike.len() == t.dims.len() && self.alike.iter().enumerate().all(sound);
        (known && self.alike != t.dims && (!t.full || self.alike == [1])).then_some(&self.alike)
    }

    /// The algorithm of an operation, if it is a collective.
    pub fn algorithm(&self, op: &str) -> &str {
        self.algorithms.iter().find(|a| a.0 == op).map_or("", |a| a.1.as_str())
    }

    /// The operations that work while another one, a collective, is under way.
    pub fn behind(&self, op: &str) -> &[String] {
        self.behind.iter().find(|a| a.0 == op).map_or(&[], |a| &a.1)
    }

    /// The devices that a device exchanges with in an operation.
    pub fn partners(&self, op: &str, device: u32) -> Vec<u32> {
        let groups = self.partners.iter().filter(|p| p.0 == op).flat_map(|p| &p.1);
        let mut all: Vec<u32> = groups.filter(|g| g.contains(&device)).flatten().copied().collect();
        all.retain(|&d| d != device);
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Number of devices.
    pub fn devices(&self) -> u32 {
        self.replicas.saturating_mul(self.partitions)
    }
}

/// Initial contents of an HBM range.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Constant {
    /// Byte address, a multiple of 512.
    pub address: u64,
    /// The bytes.
    #[serde(with = "crate::byte_string")]
    pub bytes: Vec<u8>,
}

/// An array in HBM that the host writes (a parameter) or reads (a result).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostArray {
    /// Byte address, a multiple of 512.
    pub address: u64,
    /// Its physical form.
    pub layout: Layout,
    /// Sizes under which the host knows the array, where they are not the layout's: both have the same elements in
    /// row-major order, and the layout is row-major.
    pub host_dims: Option<Vec<u64>>,
    /// The parameter's or result's HLO name.
    pub name: String,
}

impl HostArray {
    /// Sizes as the host has the array.
    pub fn dims(&self) -> &[u64] {
        self.host_dims.as_deref().unwrap_or(&self.layout.dims)
    }

    /// Bytes of the array as the host has it.
    pub fn host_bytes(&self) -> u64 {
        self.dims().iter().fold(self.layout.dtype.host_bytes() as u64, |n, &d| n.saturating_mul(d))
    }
}

/// What the host does for a running program: it reads the operands from HBM and writes the results there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostCall {
    /// Which of the host's services.
    pub kind: HostCallKind,
    /// Name of the host function ([`HostCallKind::Custom`]), number of the channel (transfers); else empty.
    pub target: String,
    /// Text that the program gives the host with the call.
    pub config: String,
    /// Arrays that the host reads, in order.
    pub operands: Vec<HostArray>,
    /// Arrays that the host writes, in order.
    pub results: Vec<HostArray>,
}

/// The host's services.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HostCallKind {
    /// A function of the host, by name.
    Custom,
    /// The next arrays of the queue from the host.
    Infeed,
    /// Arrays to the queue to the host.
    Outfeed,
    /// Arrays to the host on the channel in `target`.
    Send,
    /// The next arrays from the host on the channel in `target`.
    Recv,
}

impl HostCallKind {
    /// All kinds.
    pub const ALL: [HostCallKind; 5] =
        [HostCallKind::Custom, HostCallKind::Infeed, HostCallKind::Outfeed, HostCallKind::Send, HostCallKind::Recv];

    /// The kind's name in assembly.
    pub fn name(self) -> &'static str {
        match self {
            HostCallKind::Custom => "custom",
            HostCallKind::Infeed => "infeed",
            HostCallKind::Outfeed => "outfeed",
            HostCallKind::Send => "send",
            HostCallKind::Recv => "recv",
        }
    }
}

/// Where bundles come from. Changes no result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DebugInfo {
    /// Source file, if known.
    pub source: String,
    /// The HLO instructions that bundles refer to.
    pub ops: Vec<DebugOp>,
    /// Runs of bundles, ascending by `start`; each lasts until the next.
    pub ranges: Vec<DebugRange>,
    /// The subroutines, by their first bundle; the main program is the first.
    pub kernels: Vec<DebugKernel>,
    /// Where arrays are while the program runs.
    pub buffers: Vec<DebugBuffer>,
    /// Lines of programs that kernels were written in, where kernels bring their own.
    pub places: Vec<DebugPlace>,
    /// Runs of bundles that come from such a line, ascending by `start`; each lasts until the next.
    pub lines: Vec<DebugLine>,
}

impl DebugInfo {
    /// The line that a bundle comes from, if its kernel brings one.
    pub fn place(&self, bundle: u32) -> Option<&DebugPlace> {
        let i = self.lines.partition_point(|l| l.start <= bundle).checked_sub(1)?;
        self.places.get(self.lines[i].place as usize)
    }
}

/// How the names of places and buffers begin that are no scopes of the program: copies of a window, elements that change
/// lanes or sublanes, registers that are kept in vector memory.
pub const WINDOW: &str = "window of ";
/// See [`WINDOW`].
pub const RELAYOUT: &str = "relayout of ";
/// See [`WINDOW`].
pub const SPILLED: &str = "spilled registers of ";
/// What stands before the shares of a window that hold no elements of its array.
pub const PADDING: &str = "padding: ";

/// A line of a program that a kernel was written in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DebugPlace {
    /// Its file.
    pub file: String,
    /// From 1; 0 if unknown.
    pub line: u32,
    /// The function around it; may be empty.
    pub function: String,
    /// What the framework calls what stands there, with the scopes around it; may be empty.
    pub name: String,
}

impl fmt::Display for DebugPlace {
    /// `file:line (function)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)?;
        if self.function.is_empty() { Ok(()) } else { write!(f, " ({})", self.function) }
    }
}

/// From bundle `start` on, code comes from line `place` (index into [`DebugInfo::places`]; [`DebugRange::NONE`]: none).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DebugLine {
    /// First bundle.
    pub start: u32,
    /// Index of the place.
    pub place: u32,
}

/// A subroutine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DebugKernel {
    /// Its name in compiler dumps.
    pub name: String,
    /// First bundle.
    pub start: u32,
    /// Number of bundles.
    pub bundles: u32,
}

/// An array's place in a memory for a part of the program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DebugBuffer {
    /// HLO name, or what the memory is for.
    pub name: String,
    /// The memory.
    pub space: Space,
    /// Byte address and bytes taken.
    pub address: u64,
    /// Bytes taken.
    pub bytes: u64,
    /// It is there from the first execution of code of this op (index into [`DebugInfo::ops`]; [`DebugRange::NONE`]: from
    /// the start) …
    pub first: u32,
    /// … until the last execution of code of this op ([`DebugRange::NONE`]: to the end).
    pub last: u32,
}

/// An HLO instruction as the profile names it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DebugOp {
    /// HLO name.
    pub name: String,
    /// HLO opcode.
    pub opcode: String,
    /// Line in the source, from 1; 0 if unknown.
    pub line: u32,
    /// Useful flops of one execution: 2 per multiply-add of a dot or convolution, real taps only, whichever unit computes
    /// them.
    pub flops: f64,
    /// Element type whose one-pass matrix-unit rate is the peak that `flops` compare with.
    pub peak: Option<DType>,
    /// HBM bytes of one execution.
    pub bytes: f64,
    /// Share of the memory of its arrays that holds no element of the program, from 0 to 1.
    pub padding: f64,
    /// Operations that are computed by the same code, their results never in memory.
    pub members: Vec<DebugMember>,
}

/// An HLO instruction that is computed as part of another one's code.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DebugMember {
    /// HLO name.
    pub name: String,
    /// HLO opcode.
    pub opcode: String,
    /// Line in the source, from 1; 0 if unknown.
    pub line: u32,
}

/// From bundle `start` on, code belongs to op `op` (index into [`DebugInfo::ops`]; `u32::MAX`: none of them, and
/// `u32::MAX - 1`: a shared subroutine, whose time belongs to the op of its caller).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct DebugRange {
    /// First bundle.
    pub start: u32,
    /// Index of the operation, or a special value.
    pub op: u32,
}

impl DebugRange {
    /// The code belongs to no operation.
    pub const NONE: u32 = u32::MAX;
    /// The code belongs to its caller's operation.
    pub const CALLER: u32 = u32::MAX - 1;
}
