//! Reads labels and bundles.

use super::lex::{Cursor, TokenKind};
use super::operand;
use super::parse::{Fixup, Parser};
use crate::diagnostic::{Diagnostic, closest};
use crate::inst::{Bundle, Inst, MAX_OPERANDS};
use crate::opcodes::{Op, TABLE};
use crate::table::Kind;

impl<'s> Parser<'s> {
    /// Reads a line of labels and instructions.
    pub(super) fn code_line(&mut self, cursor: &mut Cursor<'s, '_>) -> Result<(), Diagnostic> {
        while cursor.tokens.get(1).is_some_and(|t| t.kind == TokenKind::Mark(':')) {
            let (name, start, end) = cursor.word("a label")?;
            cursor.mark(':')?;
            if self.labels.insert(name.to_string(), self.bundles.len()).is_some() {
                return Err(self.source.error(start, end, format!("label `{name}` is already defined")));
            }
        }
        if cursor.is_empty() {
            return Ok(());
        }
        let mut bundle = Bundle::default();
        if cursor.tokens.len() == 1 && cursor.take_word("nop") {
            self.push_bundle(bundle);
            return Ok(());
        }
        loop {
            let inst = self.instruction(cursor, bundle.insts.len())?;
            bundle.insts.push(inst);
            if !cursor.take_mark('|') {
                break;
            }
        }
        cursor.finish().map_err(|d| d.help("instructions of a bundle are separated by `|`"))?;
        self.push_bundle(bundle);
        Ok(())
    }

    fn push_bundle(&mut self, bundle: Bundle) {
        self.bundles.push(bundle);
        self.bundle_ends.push(self.line_span);
    }

    fn instruction(&mut self, cursor: &mut Cursor<'s, '_>, index: usize) -> Result<Inst, Diagnostic> {
        let (mnemonic, start, end) = cursor.word("an instruction")?;
        let Some(&op) = self.mnemonics.get(mnemonic) else {
            let d = self.source.error(start, end, format!("unknown instruction `{mnemonic}`"));
            return Err(match closest(mnemonic, TABLE.iter().map(|i| i.mnemonic)) {
                Some(c) => d.help(format!("did you mean `{c}`?")),
                None => d,
            });
        };
        let mut inst = Inst { op, operands: [0; MAX_OPERANDS] };
        for (i, info) in op.info().operands.iter().enumerate() {
            if i > 0 && !cursor.take_mark(',') {
                return Err(cursor.error(format!("expected `,` and operand `{}`", info.name)).help(usage(op)));
            }
            inst.operands[i] = self.operand(cursor, op, info.kind, (index, i))?;
        }
        if cursor.tokens.first().is_some_and(|t| t.kind == TokenKind::Mark(',')) {
            return Err(cursor.error(format!("`{mnemonic}` has no more operands")).help(usage(op)));
        }
        Ok(inst)
    }

    fn operand(
        &mut self,
        cursor: &mut Cursor<'s, '_>,
        op: Op,
        kind: Kind,
        place: (usize, usize),
    ) -> Result<i32, Diagnostic> {
        if let (Op::BTrap, Some(TokenKind::Text(message))) = (op, cursor.tokens.first().map(|t| &t.kind)) {
            let message = message.clone();
            cursor.tokens = &cursor.tokens[1..];
            return Ok(self.trap(message));
        }
        let (word, start, end) = cursor.word(operand::describe(kind)).map_err(|d| d.help(usage(op)))?;
        if kind == Kind::Target {
            let bundle = self.bundles.len();
            self.fixups.push(Fixup { bundle, inst: place.0, operand: place.1, label: word, start, end });
            return Ok(0);
        }
        if kind == Kind::Desc {
            return self.descs.get(word).copied().ok_or_else(|| {
                let d = self.source.error(start, end, format!("descriptor `{word}` is not defined above"));
                let hint = closest(word, self.descs.keys().map(String::as_str));
                d.help(match hint {
                    Some(c) => format!("did you mean `{c}`?"),
                    None => "`.desc name = hbm -> vmem chunk 4096` defines one".to_string(),
                })
            });
        }
        if kind == Kind::I32 && word.starts_with('@') {
            return self.symbol(word, start, end);
        }
        let value = operand::parse(kind, word).ok_or_else(|| {
            let message = format!("expected {}", operand::describe(kind));
            self.source.error(start, end, message).help(usage(op))
        })?;
        let (min, max) = kind.range(&self.chip);
        if !(min..=max).contains(&value) {
            let d = self.source.error(start, end, format!("`{word}` is out of range"));
            return Err(d.help(format!("on {} it takes {min} to {max}", self.chip.name)));
        }
        if matches!(kind, Kind::Pd | Kind::Pu) && value % 2 == 1 {
            return Err(self.source.error(start, end, "a register pair begins at an even number"));
        }
        Ok(value)
    }

    /// The value of `@name` (address in granules), `@name.bytes` or `@name.rows` (rows of 32-bit lanes).
    fn symbol(&self, word: &str, start: usize, end: usize) -> Result<i32, Diagnostic> {
        let name = &word[1..];
        let found = self.symbols.get(name).map(|s| s.address / crate::dma::HBM_GRANULE).or_else(|| {
            let (name, what) = name.rsplit_once('.')?;
            let s = self.symbols.get(name)?;
            match what {
                "bytes" => Some(s.bytes),
                "rows" => Some(s.bytes / self.chip.row_bytes()),
                _ => None,
            }
        });
        let Some(value) = found else {
            let d = self.source.error(start, end, format!("`{word}` is not defined above"));
            return Err(match closest(name, self.symbols.keys().map(String::as_str)) {
                Some(c) => d.help(format!("did you mean `@{c}`?")),
                None => d.help(
                    "parameters, results and constants have names; @name, @name.bytes and @name.rows are numbers",
                ),
            });
        };
        i32::try_from(value).map_err(|_| self.source.error(start, end, "the value does not fit in 32 bits"))
    }

    /// The number of a trap message, entered if new.
    fn trap(&mut self, message: String) -> i32 {
        let traps = &mut self.program.traps;
        let at = traps.iter().position(|t| *t == message).unwrap_or(traps.len());
        if at == traps.len() {
            traps.push(message);
        }
        at as i32
    }
}

/// An instruction's form, for messages.
fn usage(op: Op) -> String {
    let info = op.info();
    let names: Vec<&str> = info.operands.iter().map(|o| o.name).collect();
    format!("{} {}: {}", info.mnemonic, names.join(", "), info.doc.trim())
}
