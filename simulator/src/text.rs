//! Instructions as assembly text, for faults.

use std::fmt::Write;
use systole_isa::{Inst, Kind};

/// `mnemonic operand, operand, ..` with register prefixes.
pub fn inst(inst: &Inst) -> String {
    let mut s = inst.op.info().mnemonic.to_string();
    for (i, (kind, v)) in inst.iter().enumerate() {
        // Of bundles and descriptors the names are gone.
        let number = [(Kind::Target, "@"), (Kind::Desc, "desc")].iter().find(|n| n.0 == kind).map(|n| n.1);
        let prefix = kind.prefix().or(number).unwrap_or_default();
        let separator = if i == 0 { " " } else { ", " };
        write!(s, "{separator}{prefix}{v}").expect("writing to a string cannot fail");
    }
    s
}
