//! Checks a program against a chip, and decodes its code.
//!
//! A program that passes can be run without further checks of its tables: every operand is in range, branch targets,
//! descriptor and trap indices exist, arrays lie inside the memory the program states, and that fits the device. What
//! depends on run time (addresses from registers, the call stack, running off the end) is the simulator's to check.

use crate::chip::ChipConfig;
use crate::decode::{Decoder, Words};
use crate::dma::{HBM_GRANULE, MAX_DMA_DIMS};
use crate::encoding::{CodeError, WORD_BYTES, opcode};
use crate::inst::{Bundles, Inst};
use crate::layout::Layout;
use crate::opcodes::{Op, TABLE};
use crate::program::{DebugRange, HostArray, Program};
use crate::table::{Kind, Slot};
use crate::topology::{MAX_AXES, MAX_POD, Topology};
use std::fmt::Arguments;

/// Why a program does not run on a chip.
#[allow(missing_docs, reason = "the message says it")]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    #[error(
        "the program was compiled for `{compiled}`, whose slots, registers, shapes or memory sizes differ from those of \
         `{chip}`: compile it again"
    )]
    Fingerprint { compiled: String, chip: String },
    #[error("the program's code is damaged: {0}")]
    Code(#[from] CodeError),
    #[error("the program states {stated} bundles and has {found}")]
    BundleCount { stated: u32, found: usize },
    #[error("bundle {bundle}: {what} {index} does not exist (there are {count})")]
    Index { bundle: usize, what: &'static str, index: i32, count: usize },
    #[error("DMA descriptor {index}: {reason}")]
    Descriptor { index: usize, reason: String },
    #[error("{what}: {reason}")]
    Array { what: String, reason: String },
    #[error("the program needs {need} bytes of {memory}, a device of the chip has {have}")]
    Memory { memory: &'static str, need: u64, have: u64 },
    #[error("debug data: {reason}")]
    Debug { reason: String },
}

/// Decodes a program's bundles one after the other and checks what they name.
pub struct Reader<'p> {
    program: &'p Program,
    decoder: Decoder<'p>,
    /// By number: opcodes with operands that are indices of tables.
    indexed: [bool; Op::NUMBERS],
    /// Bundles so far.
    bundles: usize,
}

impl<'p> Reader<'p> {
    /// The next bundle's instructions as words; none behind the last one.
    ///
    /// # Errors
    /// If it is no code of the chip, or names what the program does not have; at the end, if there are not as many as the program
    /// states.
    #[inline]
    pub fn words(&mut self) -> Result<Option<Words<'p>>, ProgramError> {
        let Some(words) = self.decoder.words()? else {
            return match (self.program.bundles, self.bundles) {
                (stated, found) if stated as usize == found => Ok(None),
                (stated, found) => Err(ProgramError::BundleCount { stated, found }),
            };
        };
        self.check_indices(words)?;
        self.bundles += 1;
        Ok(Some(words))
    }

    /// The next bundle, which has these words behind a header and opcodes that were read before: what differs is checked.
    ///
    /// # Errors
    /// As for [`Reader::words`].
    pub fn alike(&mut self, words: Words<'_>) -> Result<(), ProgramError> {
        self.decoder.alike(words)?;
        self.check_indices(words)?;
        self.bundles += 1;
        Ok(())
    }

    /// Of words of an opcode that have the bits of `decided` in common with one that was read before: the other bits of which none may be
    /// set; all bits, where [`Reader::alike`] must be asked.
    pub fn refused(&self, op: Op, decided: u64) -> u64 {
        self.decoder.refused(op, decided)
    }

    /// Whether instructions of a bundle have operands that are checked indices of tables.
    pub fn names(&self, words: Words<'_>) -> bool {
        words.iter().any(|w| self.indexed[opcode(u64::from_le_bytes(*w))])
    }

    /// Checks what instructions of the next bundle name by an index of a table.
    ///
    /// # Errors
    /// If the program does not have it.
    #[inline]
    pub fn check_indices(&self, words: Words<'_>) -> Result<(), ProgramError> {
        for word in words.iter().map(|w| u64::from_le_bytes(*w)).filter(|w| self.indexed[opcode(*w)]) {
            self.program.check_indices(self.bundles, &self.decoder.inst(word))?;
        }
        Ok(())
    }

    /// Passes the next bundle, of so many words with its header, of which nothing is to be checked any more.
    #[inline]
    pub fn pass(&mut self, words: usize) {
        self.decoder.pass(words);
        self.bundles += 1;
    }

    /// The instruction of a word of a bundle.
    #[inline]
    pub fn inst(&self, word: u64) -> Inst {
        self.decoder.inst(word)
    }
}

/// Largest number of elements of an array, each dimension and all padding included: beyond any memory, yet its bytes
/// fit in 64 bits.
const MAX_ELEMENTS: u128 = 1 << 50;

impl Program {
    /// Checks the program against a chip and decodes its bundles.
    ///
    /// # Errors
    /// The first thing that does not fit.
    pub fn decode(&self, chip: &ChipConfig) -> Result<Bundles, ProgramError> {
        let mut bundles = Bundles::with_capacity(self.code.len() / WORD_BYTES);
        let mut reader = self.reader(chip)?;
        let mut insts = Vec::new();
        while let Some(words) = reader.words()? {
            insts.clear();
            insts.extend(words.iter().map(|w| reader.inst(u64::from_le_bytes(*w))));
            bundles.add(&insts);
        }
        Ok(bundles)
    }

    /// [`Program::decode`], one bundle after the other, without keeping them.
    ///
    /// # Errors
    /// The first thing that does not fit, of what is no code.
    pub fn reader(&self, chip: &ChipConfig) -> Result<Reader<'_>, ProgramError> {
        self.check_tables(chip)?;
        let mut reader = self.unchecked(chip);
        for info in TABLE {
            let index = |k: Kind| matches!(k, Kind::Target | Kind::Desc) || k == Kind::I32 && info.slot == Slot::Branch;
            reader.indexed[info.op as usize] = info.operands.iter().any(|o| index(o.kind));
        }
        Ok(reader)
    }

    /// [`Program::reader`], without checks of what the bundles name.
    pub fn unchecked(&self, chip: &ChipConfig) -> Reader<'_> {
        Reader { program: self, decoder: Decoder::new(&self.code, chip), indexed: [false; Op::NUMBERS], bundles: 0 }
    }

    /// The checks of [`Program::decode`] that need no code.
    ///
    /// # Errors
    /// The first thing that does not fit.
    pub fn check_tables(&self, chip: &ChipConfig) -> Result<(), ProgramError> {
        if self.fingerprint != chip.fingerprint() {
            return Err(ProgramError::Fingerprint { compiled: self.chip.clone(), chip: chip.name.clone() });
        }
        self.check_descriptors()?;
        self.check_memory(chip)?;
        self.check_pod(chip)?;
        self.check_debug()
    }

    /// Checks that what an instruction of a bundle names by an index exists.
    fn check_indices(&self, bundle: usize, inst: &Inst) -> Result<(), ProgramError> {
        for (kind, index) in inst.iter() {
            let (what, count) = match kind {
                Kind::Target => ("bundle", self.bundles as usize),
                Kind::Desc => ("DMA descriptor", self.descs.len()),
                Kind::I32 if inst.op == Op::BTrap => ("trap message", self.traps.len()),
                Kind::I32 if inst.op == Op::BHost => ("host call", self.host_calls.len()),
                Kind::Sd | Kind::Su | Kind::Sm | Kind::Vd | Kind::Vu | Kind::Pd | Kind::Pu | Kind::Md => continue,
                Kind::Mu | Kind::I32 | Kind::I20 | Kind::I16 | Kind::U8 | Kind::U4 | Kind::Sem => continue,
                Kind::Mxu | Kind::Xlu | Kind::Fmt | Kind::F8 => continue,
            };
            if usize::try_from(index).is_ok_and(|i| i < count) {
                continue;
            }
            return Err(ProgramError::Index { bundle, what, index, count });
        }
        Ok(())
    }

    fn check_descriptors(&self) -> Result<(), ProgramError> {
        for (index, d) in self.descs.iter().enumerate() {
            let wrong = |reason: String| Err(ProgramError::Descriptor { index, reason });
            if d.dims.len() > MAX_DMA_DIMS {
                return wrong(format!("{} dimensions, at most {MAX_DMA_DIMS}", d.dims.len()));
            }
            let bytes = d.dims.iter().map(|x| x.count as u128).product::<u128>() * d.chunk as u128;
            if bytes > u32::MAX as u128 {
                return wrong(format!("copies {bytes} bytes, a semaphore counts to {}", u32::MAX));
            }
            // Bounds the sums of offsets below 2^63.
            if d.dims.iter().any(|x| {
                (x.count as i128 * (x.src_stride.unsigned_abs() as i128).max(x.dst_stride.unsigned_abs() as i128)) >> 60
                    != 0
            }) {
                return wrong("a stride goes beyond any memory".into());
            }
        }
        Ok(())
    }

    fn check_memory(&self, chip: &ChipConfig) -> Result<(), ProgramError> {
        for (memory, need, have) in [
            ("HBM", self.memory.hbm_bytes, chip.device_hbm_bytes()),
            ("VMEM", self.memory.vmem_bytes, chip.vmem.bytes),
            ("SMEM", self.memory.smem_words as u64 * 4, chip.smem.bytes),
        ] {
            if need > have {
                return Err(ProgramError::Memory { memory, need, have });
            }
        }
        for (i, c) in self.constants.iter().enumerate() {
            self.check_range(format_args!("constant {i}"), c.address, c.bytes.len() as u64)?;
        }
        for (kind, arrays) in [("parameter", &self.params), ("result", &self.results)] {
            for (i, array) in arrays.iter().enumerate() {
                check_array(format_args!("{kind} {i}"), array, chip)?;
                let HostArray { address, layout, .. } = array;
                self.check_range(format_args!("{kind} {i}"), *address, layout.bytes())?;
            }
        }
        for (i, call) in self.host_calls.iter().enumerate() {
            for array in call.operands.iter().chain(&call.results) {
                check_array(format_args!("`{}` of host call {i}", array.name), array, chip)?;
                let bytes = array.layout.bytes();
                self.check_range(format_args!("`{}` of host call {i}", array.name), array.address, bytes)?;
            }
        }
        Ok(())
    }

    /// Checks that HBM bytes from `address` on are aligned and inside the program's.
    fn check_range(&self, what: Arguments<'_>, address: u64, bytes: u64) -> Result<(), ProgramError> {
        let wrong = |reason: String| Err(ProgramError::Array { what: what.to_string(), reason });
        if !address.is_multiple_of(HBM_GRANULE) {
            return wrong(format!("address {address} is no multiple of {HBM_GRANULE}"));
        }
        match address.checked_add(bytes) {
            Some(end) if end <= self.memory.hbm_bytes => Ok(()),
            _ => wrong(format!(
                "{bytes} bytes at {address} are outside the program's {} HBM bytes",
                self.memory.hbm_bytes
            )),
        }
    }

    fn check_pod(&self, chip: &ChipConfig) -> Result<(), ProgramError> {
        let wrong = |reason: &str| Err(ProgramError::Array { what: "the pod".into(), reason: reason.to_string() });
        let devices = self.pod.devices();
        if devices == 0 || u64::from(devices) > MAX_POD {
            return wrong("has no devices, or too many");
        }
        let Some(t) = &self.pod.topology else {
            return if devices == 1 { Ok(()) } else { wrong("has several devices and no topology") };
        };
        let chips = t.dims.iter().try_fold(1u64, |n, &d| n.checked_mul(u64::from(d)));
        let per_chip = u64::from(chip.devices_per_chip());
        let fits = chips.is_some_and(|c| c > 0 && c * per_chip <= MAX_POD && c * per_chip >= u64::from(devices));
        let axes = !t.dims.is_empty() && t.dims.len() <= MAX_AXES && t.wrap.len() == t.dims.len();
        if !fits || !axes || u64::from(t.devices_per_chip) != per_chip || t.full && t.dims.len() != 1 {
            return wrong("does not fit its topology");
        }
        let plain = Topology { order: Vec::new(), ..t.clone() };
        if !t.order.is_empty() && plain.ordered(t.order.clone()).is_err() {
            return wrong("has no order of its devices");
        }
        Ok(())
    }

    fn check_debug(&self) -> Result<(), ProgramError> {
        let wrong = |reason: String| Err(ProgramError::Debug { reason });
        let ranges = &self.debug.ranges;
        if let Some(w) = ranges.windows(2).find(|w| w[0].start >= w[1].start) {
            return wrong(format!("range at bundle {} follows one at {}", w[1].start, w[0].start));
        }
        if ranges.last().is_some_and(|r| r.start > self.bundles) {
            return wrong("a range begins after the code".into());
        }
        let lines = &self.debug.lines;
        if let Some(w) = lines.windows(2).find(|w| w[0].start >= w[1].start) {
            return wrong(format!("a line at bundle {} follows one at {}", w[1].start, w[0].start));
        }
        if lines.last().is_some_and(|l| l.start > self.bundles) {
            return wrong("a line begins after the code".into());
        }
        let known = |place: u32| (place as usize) < self.debug.places.len() || place == DebugRange::NONE;
        if let Some(l) = lines.iter().find(|l| !known(l.place)) {
            return wrong(format!("place {} does not exist", l.place));
        }
        if self.debug.ops.iter().any(|o| !o.flops.is_finite() || !o.bytes.is_finite()) {
            return wrong("a count of operations or bytes is not finite".into());
        }
        if self.debug.ops.iter().any(|o| !(0.0..=1.0).contains(&o.padding)) {
            return wrong("a share of padding is not from 0 to 1".into());
        }
        let special = [DebugRange::NONE, DebugRange::CALLER];
        match ranges.iter().find(|r| r.op as usize >= self.debug.ops.len() && !special.contains(&r.op)) {
            Some(r) => wrong(format!("operation {} does not exist", r.op)),
            None => Ok(()),
        }
    }
}

/// Checks an array's layout and the sizes under which the host knows it.
///
/// # Errors
/// As [`check_layout`], and sizes of the host with other elements.
pub fn check_array(what: Arguments<'_>, array: &HostArray, chip: &ChipConfig) -> Result<(), ProgramError> {
    check_layout(what, &array.layout, chip)?;
    let reason = |r: &str| ProgramError::Array { what: what.to_string(), reason: r.to_string() };
    check_host_dims(array).map_err(reason)
}

/// Checks that an array's host sizes have its elements, in its order.
pub(crate) fn check_host_dims(array: &HostArray) -> Result<(), &'static str> {
    let Some(dims) = &array.host_dims else { return Ok(()) };
    let layout = &array.layout;
    let count = |dims: &[u64]| dims.iter().try_fold(1u64, |n, &d| n.checked_mul(d));
    if !layout.minor_to_major.iter().rev().map(|&d| usize::from(d)).eq(0..layout.dims.len()) {
        return Err("an array that the host has in another shape must be row-major");
    }
    match count(dims) {
        Some(n) if count(&layout.dims) == Some(n) => Ok(()),
        _ => Err("the host's sizes have another number of elements"),
    }
}

/// Checks that a layout is one of this chip and that its sizes can be computed with.
///
/// # Errors
/// [`ProgramError::Array`] with the reason.
pub fn check_layout(what: Arguments<'_>, layout: &Layout, chip: &ChipConfig) -> Result<(), ProgramError> {
    let wrong = |reason: &str| Err(ProgramError::Array { what: what.to_string(), reason: reason.to_string() });
    if (layout.sublanes, layout.lanes) != (chip.core.sublanes, chip.core.lanes) {
        return wrong("its tiles are not the chip's");
    }
    let rank = layout.dims.len();
    let mut seen = vec![false; rank];
    for &d in &layout.minor_to_major {
        match seen.get_mut(d as usize) {
            Some(s) if !*s => *s = true,
            _ => return wrong("its dimension order is no permutation"),
        }
    }
    if layout.minor_to_major.len() != rank {
        return wrong("its dimension order is no permutation");
    }
    // Padding adds at most a tile to each of two dimensions and to the rows of a plane.
    let tile = 4 * layout.sublanes as u128 * layout.lanes as u128;
    let mut elements: u128 = 1;
    for &d in &layout.dims {
        elements = elements.saturating_mul((d as u128).max(1));
    }
    if elements.saturating_mul(tile) > MAX_ELEMENTS {
        return wrong("it is larger than any memory");
    }
    Ok(())
}
