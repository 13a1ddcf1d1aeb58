//! The assembler's state and driver: lines in, program out.

use super::DEFAULT_CHIP;
use super::lex::{Cursor, Lines, Source, TokenKind};
use crate::chip::ChipConfig;
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::dma::HBM_GRANULE;
use crate::encode::encode_bundles;
use crate::inst::Bundle;
use crate::opcodes::{Op, TABLE};
use crate::program::Program;
use crate::validate::ProgramError;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// A branch whose label is not looked up yet.
pub(super) struct Fixup<'s> {
    pub(super) bundle: usize,
    pub(super) inst: usize,
    pub(super) operand: usize,
    pub(super) label: &'s str,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// A named range of HBM.
pub(super) struct Symbol {
    pub(super) address: u64,
    pub(super) bytes: u64,
}

/// Sizes that the text states.
#[derive(Default)]
pub(super) struct Stated {
    pub(super) hbm: bool,
    pub(super) vmem: bool,
    pub(super) smem: bool,
}

pub(super) struct Parser<'s> {
    pub(super) source: Source<'s>,
    pub(super) chip: ChipConfig,
    pub(super) program: Program,
    pub(super) bundles: Vec<Bundle>,
    /// Byte range of each bundle's line.
    pub(super) bundle_ends: Vec<(usize, usize)>,
    /// Byte range of the line being read.
    pub(super) line_span: (usize, usize),
    pub(super) mnemonics: FxHashMap<&'static str, Op>,
    pub(super) labels: BTreeMap<String, usize>,
    pub(super) descs: BTreeMap<String, i32>,
    pub(super) symbols: BTreeMap<String, Symbol>,
    pub(super) fixups: Vec<Fixup<'s>>,
    pub(super) stated: Stated,
    /// First HBM byte after everything placed so far.
    pub(super) hbm_end: u64,
    /// Name of the constant that data directives add to, and whether its place was given.
    pub(super) open_constant: Option<Option<String>>,
}

pub(super) fn assemble(
    text: &str,
    file_name: &str,
    chip: Option<&ChipConfig>,
) -> Result<(Program, ChipConfig), Diagnostics> {
    let source = Source { file: file_name, text };
    let mut errors = Vec::new();
    let (chip_name, chip) = match (chip_line(source), chip) {
        (Ok(_), Some(chip)) => (chip.name.clone(), chip.clone()),
        (Ok(Some(chip)), None) => (chip.name.clone(), chip),
        (Ok(None), None) => (DEFAULT_CHIP.to_string(), ChipConfig::from_preset(DEFAULT_CHIP)?),
        (Err(d), _) => return Err(Diagnostics(vec![d])),
    };
    let program = Program { chip: chip_name, fingerprint: chip.fingerprint(), ..Program::default() };
    let mut parser = Parser {
        source,
        chip,
        program,
        bundles: Vec::new(),
        bundle_ends: Vec::new(),
        line_span: (0, 0),
        mnemonics: TABLE.iter().map(|i| (i.mnemonic, i.op)).collect(),
        labels: BTreeMap::new(),
        descs: BTreeMap::new(),
        symbols: BTreeMap::new(),
        fixups: Vec::new(),
        stated: Stated::default(),
        hbm_end: 0,
        open_constant: None,
    };
    let mut lines = Lines::new(source);
    while let Some(line) = lines.next(&mut errors) {
        let mut cursor = Cursor { source, tokens: &line.tokens, end: line.end };
        parser.line_span = (line.tokens[0].start, line.end);
        if let Err(d) = parser.line(&mut cursor) {
            errors.push(d);
        }
    }
    parser.close_constant();
    if errors.is_empty() {
        parser.resolve_labels(&mut errors);
    }
    if !errors.is_empty() {
        return Err(Diagnostics(errors));
    }
    parser.finish().map_err(|d| Diagnostics(vec![d]))
}

/// The chip that the text's first `.chip` directive names.
fn chip_line(source: Source<'_>) -> Result<Option<ChipConfig>, Diagnostic> {
    let Source { file, text } = source;
    let is_chip =
        |l: &str| l.trim_start().strip_prefix(".chip").is_some_and(|r| r.starts_with([' ', '\t', '"', '\r', '\n']));
    let mut at = 0;
    let Some(raw) = text.split_inclusive('\n').find(|l| {
        at += l.len();
        is_chip(l)
    }) else {
        return Ok(None);
    };
    // Places count from the start of the text, so the line is read in the text cut after it.
    let mut errors = Vec::new();
    let mut lines = Lines::starting(Source { file, text: &text[..at] }, at - raw.len());
    let Some(line) = lines.next(&mut errors) else { return Ok(None) };
    if let Some(d) = errors.pop() {
        return Err(d);
    }
    let mut cursor = Cursor { source, tokens: &line.tokens[1..], end: line.end };
    let place = cursor.tokens.first().map_or((line.end, line.end), |t| (t.start, t.end));
    let name = cursor.name("the name of a chip preset")?;
    let mut base = name.clone();
    let mut sets = Vec::new();
    while !cursor.is_empty() {
        let (key, ..) = cursor.word("KEY=VALUE")?;
        cursor.mark('=')?;
        let value = cursor.name("a value")?;
        if key == "base" {
            base = value;
        } else {
            sets.push(format!("{key}={value}"));
        }
    }
    let whole = |e: Diagnostics| source.error(place.0, line.end, e.to_string());
    let mut chip = ChipConfig::from_preset(&base).map_err(|e| {
        let d = e.0.into_iter().next().unwrap_or_else(|| Diagnostic::new("unknown chip"));
        let mut at = source.error(place.0, place.1, d.message);
        at.help = d.help;
        at
    })?;
    chip.apply_sets(&sets).map_err(whole)?;
    chip.name = name;
    Ok(Some(chip))
}

impl<'s> Parser<'s> {
    fn line(&mut self, cursor: &mut Cursor<'s, '_>) -> Result<(), Diagnostic> {
        match cursor.tokens[0].kind {
            TokenKind::Word(w) if w.starts_with('.') => {
                let (word, start, end) = cursor.word("a directive")?;
                self.directive(&word[1..], (start, end), cursor)
            }
            TokenKind::Word(_) | TokenKind::Text(_) | TokenKind::Mark(_) | TokenKind::Arrow => self.code_line(cursor),
        }
    }

    fn resolve_labels(&mut self, errors: &mut Vec<Diagnostic>) {
        for f in &self.fixups {
            match self.labels.get(f.label) {
                Some(&bundle) => self.bundles[f.bundle].insts[f.inst].operands[f.operand] = bundle as i32,
                None => {
                    let d = self.source.error(f.start, f.end, format!("label `{}` is not defined", f.label));
                    errors.push(match crate::diagnostic::closest(f.label, self.labels.keys().map(String::as_str)) {
                        Some(c) => d.help(format!("did you mean `{c}`?")),
                        None => d,
                    });
                }
            }
        }
    }

    /// Encodes the code, fills in what was not stated, and checks the whole.
    fn finish(mut self) -> Result<(Program, ChipConfig), Diagnostic> {
        self.program.code = encode_bundles(&self.bundles, &self.chip).map_err(|e| {
            let (start, end) = self.bundle_ends.get(e.bundle).copied().unwrap_or((0, 0));
            self.source.error(start, end, e.problem.to_string())
        })?;
        self.program.bundles = self.bundles.len() as u32;
        if !self.stated.hbm {
            self.program.memory.hbm_bytes = self.hbm_end;
        }
        if !self.stated.vmem {
            self.program.memory.vmem_bytes = self.chip.vmem.bytes;
        }
        if !self.stated.smem {
            self.program.memory.smem_words = self.chip.smem_words() as u32;
        }
        self.program.decode(&self.chip).map_err(|e| {
            // Errors of the whole program have no place in its text.
            let bundle = if let ProgramError::Index { bundle, .. } = e { self.bundle_ends.get(bundle) } else { None };
            let (start, end) = bundle.copied().unwrap_or((0, 0));
            self.source.error(start, end, e.to_string())
        })?;
        Ok((self.program, self.chip))
    }

    /// The address of the next thing of that size in HBM, and names it.
    pub(super) fn place(&mut self, name: &str, at: Option<u64>, bytes: u64) -> Result<u64, String> {
        let address = at.unwrap_or(self.hbm_end.next_multiple_of(HBM_GRANULE));
        let end = address.checked_add(bytes).filter(|&e| e <= self.chip.device_hbm_bytes());
        let Some(end) = end else {
            return Err(format!(
                "{bytes} bytes at {address} are beyond the device's {} bytes",
                self.chip.device_hbm_bytes()
            ));
        };
        self.hbm_end = self.hbm_end.max(end);
        if !name.is_empty() {
            self.symbols.insert(name.to_string(), Symbol { address, bytes });
        }
        Ok(address)
    }
}
