//! What the main program does, in order, with every address decided.

use super::collective::Exchange;
use super::step::{ScalarOp, Unit, Use, Word};
use super::view::BufId;
use serde::{Deserialize, Serialize};
use systole_isa::DType;
use systole_isa::program::HostCall;

/// A place in a memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Spot {
    /// A word row of vector memory.
    Vmem(u64),
    /// A granule of HBM.
    Hbm(u64),
}

/// A copy of a whole array between HBM and vector memory, or the wait for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Copy {
    pub kind: CopyKind,
    pub array: BufId,
    pub pending: Pending,
}

/// A copy in flight: its semaphore, and the bytes that it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pending {
    pub semaphore: u32,
    pub bytes: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CopyKind {
    /// Begins a copy from HBM to vector memory, or back.
    Load {
        granule: u64,
        row: u64,
    },
    Store {
        row: u64,
        granule: u64,
    },
    /// Waits for one to vector memory, or to HBM.
    WaitIn,
    WaitOut,
}

/// An argument of a kernel's call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Operand {
    /// Where an array begins (`at`, in `unit`s), plus scalars times so many units.
    Array { array: BufId, usage: Use, unit: Unit, at: i64, terms: Vec<(Word, i64)> },
    /// A scalar's value.
    Scalar(Word),
    /// The sum of scalars times constants.
    Sum(Vec<(Word, i64)>),
    /// A scalar times a constant plus a constant.
    Linear { word: Word, scale: i32, offset: i32 },
    /// A number.
    Const(i32),
    /// The call's scratch area: its first word row in vector memory.
    Scratch(u64),
}

/// Where an exchange's arrays are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Flight {
    /// First granules of its source, its result and partial results.
    pub src: u64,
    pub dst: u64,
    pub temps: Vec<u64>,
    /// First word row of its slots in vector memory, and how many rows they have.
    pub slots: u64,
    pub slot_rows: u64,
    /// Those of the exchanges beside it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<Flight>,
}

impl Flight {
    /// It and those beside it.
    pub fn all(&self) -> impl Iterator<Item = &Flight> {
        std::iter::once(self).chain(&self.beside)
    }
}

/// A thing that the main program does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Action {
    /// What follows belongs to this operation.
    Mark(u32),
    /// Begins a copy of a whole array or waits for it; other work may lie between.
    Copy(Copy),
    /// Copies and waits.
    Move {
        from: Spot,
        to: Spot,
        bytes: u64,
    },
    /// Computes `dst` as a value of `dtype`.
    Scalar {
        dst: Word,
        value: ScalarOp,
        dtype: DType,
    },
    /// Loads an element into a word.
    ReadScalar {
        from: Spot,
        dst: Word,
        dtype: DType,
    },
    Call {
        kernel: usize,
        args: Vec<Operand>,
    },
    /// Has the host read and write arrays in HBM.
    Host(HostCall),
    /// A collective among devices, from beginning to end.
    Exchange(Box<Exchange>, Flight),
    /// Begins one that is under way during what follows, up to its end.
    Begin(Box<Exchange>, Flight),
    End(Box<Exchange>),
    /// Takes the exchange under way as far as it goes without waiting, for this operation.
    Look(u32),
    /// Runs `head`, leaves if `cond` is zero, runs `body`, repeats. `shared`: the cores of the device each do iterations of
    /// their own, and wait for each other before and after, but not inside.
    While {
        head: Vec<Action>,
        cond: Word,
        body: Vec<Action>,
        shared: bool,
    },
    /// Runs the branch whose number is in `index` (the last for numbers beyond).
    Switch {
        index: Word,
        branches: Vec<Vec<Action>>,
    },
}

/// Matches the actions of which listings have no more to say than that they are there.
macro_rules! unsaid {
    () => {
        Action::Scalar { .. }
            | Action::ReadScalar { .. }
            | Action::Host(_)
            | Action::Exchange(..)
            | Action::Begin(..)
            | Action::End(_)
    };
}
pub(super) use unsaid;

/// Matches the actions that have no actions inside.
macro_rules! leaf {
    () => {
        Action::Mark(_)
            | Action::Copy(_)
            | Action::Move { .. }
            | Action::Call { .. }
            | Action::Look(_)
            | $crate::plan::action::unsaid!()
    };
}
pub(super) use leaf;

impl Action {
    /// The actions inside it: a loop's head and body, the branches of a switch.
    pub fn regions(&self) -> impl Iterator<Item = &[Action]> {
        let (rounds, branches): ([&[Action]; 2], &[Vec<Action>]) = match self {
            Action::While { head, body, .. } => ([head, body], &[]),
            Action::Switch { branches, .. } => ([&[], &[]], branches),
            leaf!() => ([&[], &[]], &[]),
        };
        rounds.into_iter().chain(branches.iter().map(Vec::as_slice))
    }
}
