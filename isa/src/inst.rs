//! Instructions and bundles in decoded form.

use crate::opcodes::Op;
use crate::table::Kind;

/// Most operands an opcode takes.
pub const MAX_OPERANDS: usize = 6;

/// One instruction: an opcode and its operands in table order (register numbers, immediates, indices).
///
/// In a program, register operands are physical numbers; in the compiler before register allocation they are virtual
/// ones. Unused operand places are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Inst {
    /// The opcode.
    pub op: Op,
    /// Values in table order.
    pub operands: [i32; MAX_OPERANDS],
}

impl Inst {
    /// An instruction from its operands in table order.
    ///
    /// # Panics
    /// If the number of operands is not the opcode's.
    pub fn new(op: Op, operands: &[i32]) -> Inst {
        assert_eq!(operands.len(), op.info().operands.len(), "operand count of {}", op.info().mnemonic);
        let mut o = [0; MAX_OPERANDS];
        o[..operands.len()].copy_from_slice(operands);
        Inst { op, operands: o }
    }

    /// Operand values with their kinds.
    pub fn iter(&self) -> impl Iterator<Item = (Kind, i32)> + '_ {
        self.op.info().operands.iter().zip(self.operands).map(|(i, v)| (i.kind, v))
    }
}

/// A bundle: the instructions that issue together, at most as many per slot as the chip has. All of them read their
/// sources before any writes; a bundle waits until every source is ready.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bundle {
    /// The instructions; those of one slot kind in order of effect.
    pub insts: Vec<Inst>,
}

/// The bundles of a program, their instructions one behind the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bundles {
    insts: Vec<Inst>,
    /// Where the instructions of each bundle end.
    ends: Vec<u32>,
}

impl Bundles {
    /// No bundles, with room for so many instructions.
    pub fn with_capacity(insts: usize) -> Bundles {
        Bundles { insts: Vec::with_capacity(insts), ends: Vec::new() }
    }

    /// Appends a bundle.
    pub fn add(&mut self, insts: &[Inst]) {
        self.insts.extend_from_slice(insts);
        self.ends.push(self.insts.len() as u32);
    }

    /// Bundles.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The instructions of a bundle, if it exists.
    pub fn get(&self, bundle: usize) -> Option<&[Inst]> {
        (bundle < self.len()).then(|| &self[bundle])
    }

    /// The instructions of each bundle.
    pub fn iter(&self) -> impl Iterator<Item = &[Inst]> {
        (0..self.len()).map(|b| &self[b])
    }

    /// All instructions.
    pub fn insts(&self) -> &[Inst] {
        &self.insts
    }
}

impl std::ops::Index<usize> for Bundles {
    type Output = [Inst];
    fn index(&self, bundle: usize) -> &[Inst] {
        let start = if bundle == 0 { 0 } else { self.ends[bundle - 1] };
        &self.insts[start as usize..self.ends[bundle] as usize]
    }
}

impl<'a> FromIterator<&'a Bundle> for Bundles {
    fn from_iter<I: IntoIterator<Item = &'a Bundle>>(bundles: I) -> Bundles {
        let mut out = Bundles::default();
        for b in bundles {
            out.add(&b.insts);
        }
        out
    }
}
