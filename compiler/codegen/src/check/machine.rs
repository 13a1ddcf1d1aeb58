//! The bundles' side: physical registers and the memory of spilled registers, as values.

use super::value::{Registers, Value};
use systole_isa::effects::{File, Reg};
use systole_isa::{Bundle, Effect, Function, Inst, Kind, Op};

/// Memory that the scheduler keeps registers in: rows of vector memory and words of scalar memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpillArea {
    /// Rows.
    pub rows: std::ops::Range<u32>,
    /// Words.
    pub words: std::ops::Range<u32>,
}

/// A place that the bundles may change: a physical register, or a row or word of the spill area.
pub(super) type Cell = usize;

/// Values of all cells.
#[derive(Clone, Debug)]
pub(super) struct Cells {
    pub values: Vec<Value>,
}

/// Shape of the cells.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    spill: SpillArea,
    sublanes: u32,
}

/// Where a spilled register goes or comes from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spill {
    pub cell: Cell,
    pub store: bool,
}

impl Layout {
    pub fn new(spill: SpillArea, sublanes: u32) -> Layout {
        Layout { spill, sublanes }
    }

    fn count(&self) -> usize {
        Reg::COUNT + self.spill.rows.len() + self.spill.words.len()
    }

    /// All unknown but the constants.
    pub fn cells(&self) -> Cells {
        let mut values = vec![Value::UNKNOWN; self.count()];
        values[Reg { file: File::Scalar, number: 0 }.index()] = Value::ZERO;
        values[Reg { file: File::Mask, number: 0 }.index()] = Value::ALL;
        Cells { values }
    }

    /// The access to the spill area that an instruction makes: whole registers, at an address that is in the code.
    #[allow(clippy::wildcard_enum_match_arm, reason = "registers are kept by these only")]
    pub fn spill(&self, inst: &Inst) -> Option<Spill> {
        let o = &inst.operands;
        let at = u32::try_from(o[2]).ok()?;
        let rows = || Some(Reg::COUNT + self.spill.rows.contains(&at).then(|| at - self.spill.rows.start)? as usize);
        let words = || {
            let word = self.spill.words.contains(&at).then(|| at - self.spill.words.start)?;
            Some(Reg::COUNT + self.spill.rows.len() + word as usize)
        };
        let whole = o[1] == 0 && o[3] == 1;
        let (cell, store) = match inst.op {
            Op::VLd if whole => (rows()?, false),
            Op::VSt if whole && o[4] == 0 => (rows()?, true),
            Op::SLd if o[1] == 0 => (words()?, false),
            Op::SSt if o[1] == 0 => (words()?, true),
            _ => return None,
        };
        Some(Spill { cell, store })
    }

    /// The cells that a store to a cell of the spill area overwrites besides it.
    pub fn overlapped(&self, cell: Cell) -> impl Iterator<Item = Cell> + use<> {
        let rows = Reg::COUNT..Reg::COUNT + self.spill.rows.len();
        let near = self.sublanes as usize - 1;
        let range = match rows.contains(&cell) {
            true => cell.saturating_sub(near).max(rows.start)..(cell + near + 1).min(rows.end),
            false => cell..cell,
        };
        range.filter(move |&c| c != cell)
    }

    /// The cells that a stretch of code may change itself, calls apart.
    pub fn changed(&self, bundles: &[Bundle]) -> Vec<Cell> {
        let mut out = Vec::new();
        for i in bundles.iter().flat_map(|b| &b.insts) {
            out.extend(i.defs().iter().map(|r| r.index()));
            if let Some(Spill { cell, store: true }) = self.spill(i) {
                out.push(cell);
                out.extend(self.overlapped(cell));
            }
            if i.op == Op::BCall {
                out.extend(0..Reg::COUNT);
            }
        }
        out.sort_unstable();
        out.dedup();
        out
    }
}

fn file(kind: Kind) -> Option<File> {
    match kind {
        Kind::Sd | Kind::Su | Kind::Sm => Some(File::Scalar),
        Kind::Vd | Kind::Vu | Kind::Pd | Kind::Pu => Some(File::Vector),
        Kind::Md | Kind::Mu => Some(File::Mask),
        Kind::I32 | Kind::I20 | Kind::I16 | Kind::U8 | Kind::U4 | Kind::Target | Kind::Desc | Kind::Sem => None,
        Kind::Mxu | Kind::Xlu | Kind::Fmt | Kind::F8 => None,
    }
}

impl Registers for Cells {
    fn read(&self, kind: Kind, number: i32) -> [Value; 2] {
        let Some(file) = file(kind) else { return [Value::UNKNOWN; 2] };
        let number = number as u16;
        let at = |number| self.values[Reg { file, number }.index()];
        [at(number), if kind == Kind::Pu { at(number + 1) } else { at(number) }]
    }
}

/// The branch of a bundle, with its operand's value before the bundle.
#[derive(Clone, Copy, Debug)]
pub(super) struct Branch {
    pub at: usize,
    pub inst: Inst,
    pub value: Value,
}

impl Branch {
    pub fn target(&self) -> usize {
        self.inst.operand(Kind::Target).unwrap_or(0) as usize
    }
}

/// The control instruction of a bundle.
pub(super) fn control(b: &Bundle) -> Option<&Inst> {
    b.insts.iter().find(|i| matches!(i.op.function(), Function::Branch(_)))
}

/// Whether an instruction computes its results from its operands alone.
pub(super) fn is_pure(inst: &Inst) -> bool {
    inst.op.info().effect == Effect::None
}
