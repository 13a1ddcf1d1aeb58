//! Instructions as assembly text, for faults.

use std::fmt::Write;
use systole_isa::{Inst, Kind};

/// `mnemonic operand, operand, ..` with register prefixes.
pub fn inst(inst: &Inst) -> String {
    let mut s = inst.op.info().mnemonic.to_string();
    for (i, (kind, v)) in inst.iter().enumerate() {
        let prefix = match kind {
            Kind::Sd | Kind::Su | Kind::Sm => "s",
            Kind::Vd | Kind::Vu => "v",
            Kind::Pd | Kind::Pu => "p",
            Kind::Md | Kind::Mu => "m",
            Kind::Target => "@",
            Kind::Desc => "desc",
            Kind::Sem => "sem",
            Kind::Mxu => "mxu",
            Kind::Xlu => "xlu",
            Kind::I32 | Kind::I20 | Kind::I16 | Kind::U8 | Kind::U4 | Kind::Fmt | Kind::F8 => "",
        };
        let separator = if i == 0 { " " } else { ", " };
        write!(s, "{separator}{prefix}{v}").expect("writing to a string cannot fail");
    }
    s
}
