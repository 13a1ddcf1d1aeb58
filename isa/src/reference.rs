//! The reference page of the instruction set (`docs/generated/isa.md`).

use crate::asm::operand_forms;
use crate::encoding::{COUNT_BITS, HEADER_BITS, OPCODE_BITS, layout};
use crate::float::F8;
use crate::opcodes::{Op, TABLE};
use crate::table::{Kind, MxuFormat, OpInfo, Slot};
use std::fmt::Write;

/// Every operand kind, in the order of the page.
#[rustfmt::skip]
const KINDS: &[Kind] = &[
    Kind::Sd, Kind::Su, Kind::Sm, Kind::Vd, Kind::Vu, Kind::Pd, Kind::Pu, Kind::Md, Kind::Mu, Kind::I32, Kind::I20,
    Kind::I16, Kind::U8, Kind::U4, Kind::Target, Kind::Desc, Kind::Sem, Kind::Mxu, Kind::Xlu, Kind::Fmt, Kind::F8,
];

/// The page in Markdown.
pub fn isa_reference_page() -> String {
    let mut page = format!(
        "# Instruction set\n\nGenerated from the opcode table; do not edit. `docs/isa.md` explains the machine.\n\n{} opcodes; \
         the next new one is number {}. An instruction is one 64-bit word: the opcode number in bits 0 to {}, then the operands in table order from low \
         bits to high, each as wide as its kind; unused bits are zero.\n\n## Bundle header\n\nOne 64-bit word before the \
         instructions of a bundle, which follow in this order. Bits from {HEADER_BITS} on say how many bundles before it one is like it, zero if none is known.\n\n| bits | number of \
         instructions |\n| --- | --- |\n",
        TABLE.len(),
        Op::NUMBERS,
        OPCODE_BITS - 1,
    );
    for (i, slot) in Slot::ALL.iter().enumerate() {
        let low = i as u32 * COUNT_BITS;
        let _ = writeln!(page, "| {low} – {} | {} |", low + COUNT_BITS - 1, slot.name());
    }
    kinds(&mut page);
    for slot in Slot::ALL {
        let _ = write!(
            page,
            "\n## {} slot\n\n| number | form | bits | class | effect | meaning |\n| --- | --- | --- | --- | --- | --- |\n",
            slot.name(),
        );
        for info in TABLE.iter().filter(|i| i.slot == slot) {
            row(info, &mut page);
        }
    }
    page
}

fn kinds(page: &mut String) {
    page.push_str("\n## Operand kinds\n\n| kind | bits | | written |\n| --- | --- | --- | --- |\n");
    for &k in KINDS {
        let direction = match k {
            Kind::Sd | Kind::Vd | Kind::Pd | Kind::Md => "written",
            Kind::Su | Kind::Vu | Kind::Pu | Kind::Mu => "read",
            Kind::Sm => "read, then written",
            Kind::I32 | Kind::I20 | Kind::I16 => "signed",
            Kind::U8 | Kind::U4 | Kind::Target | Kind::Desc | Kind::Sem => "",
            Kind::Mxu | Kind::Xlu | Kind::Fmt | Kind::F8 => "",
        };
        let _ = writeln!(page, "| {k:?} | {} | {direction} | {} |", k.bits(), operand_forms(k));
    }
    page.push_str("\nNumbers of matrix-unit formats: ");
    let formats: Vec<String> = MxuFormat::ALL.iter().enumerate().map(|(i, f)| format!("{i} {}", f.name())).collect();
    let _ = write!(page, "{}.\nNumbers of float formats of a byte: ", formats.join(", "));
    let floats: Vec<String> = F8::ALL.iter().enumerate().map(|(i, f)| format!("{i} {}", f.name())).collect();
    let _ = writeln!(page, "{}.", floats.join(", "));
}

fn row(info: &OpInfo, page: &mut String) {
    let operands: Vec<String> = info.operands.iter().map(|o| format!("{}:{:?}", o.name, o.kind)).collect();
    let (shifts, _) = layout(info);
    let bits: Vec<String> = (info.operands.iter().zip(shifts))
        .map(|(o, low)| format!("{} {low}–{}", o.name, low + o.kind.bits() - 1))
        .collect();
    let doc = info.doc.trim().replace('|', "\\|");
    let _ = writeln!(
        page,
        "| {} | `{} {}` | {} | {} | {:?} | {doc} |",
        info.op as u16,
        info.mnemonic,
        operands.join(", "),
        bits.join(", "),
        info.class.name(),
        info.effect,
    );
}
