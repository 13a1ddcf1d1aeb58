//! What instructions of hardware are: small, none of them an HLO operation.

use std::collections::BTreeSet;
use systole_isa::inst::Inst;
use systole_isa::opcodes::TABLE;
use systole_isa::reference::isa_reference_page;
use systole_isa::table::Kind;

#[test]
fn instructions_are_hardware_sized() {
    let vector = |k: Kind| matches!(k, Kind::Vd | Kind::Vu | Kind::Pd | Kind::Pu);
    for info in TABLE {
        let registers = info.operands.iter().filter(|o| vector(o.kind)).count();
        assert!(registers <= 4, "{} touches {registers} vector registers", info.mnemonic);
        let descriptors = info.operands.iter().filter(|o| o.kind == Kind::Desc).count();
        assert!(descriptors <= 1 && (descriptors == 0 || registers == 0), "{}", info.mnemonic);
    }
}

/// Names of HLO operations that stand for more than one element's arithmetic, and so for no instruction.
const HLO: &[&str] = &[
    "dot",
    "convolution",
    "conv",
    "reduce",
    "gather",
    "scatter",
    "sort",
    "transpose",
    "broadcast",
    "concatenate",
    "pad",
    "slice",
    "dynamic-slice",
    "fft",
    "cholesky",
    "triangular-solve",
    "batch-norm",
    "softmax",
    "while",
    "conditional",
    "fusion",
    "custom-call",
    "all-reduce",
    "all-gather",
    "select-and-scatter",
    "rng",
    "iota",
    "reshape",
    "matmul",
    "attention",
];

#[test]
fn no_opcode_is_an_hlo_operation() {
    for info in TABLE {
        assert!(!HLO.contains(&info.mnemonic), "{}", info.mnemonic);
        for part in info.mnemonic.split('.') {
            assert!(!HLO.contains(&part), "{}: `{part}` is an HLO operation", info.mnemonic);
        }
    }
}

#[test]
fn rows_are_well_formed() {
    let (page, mut seen) = (isa_reference_page(), BTreeSet::new());
    for info in TABLE {
        assert!(seen.insert(info.mnemonic), "{} twice", info.mnemonic);
        assert!(info.mnemonic.contains('.') && info.doc.trim().ends_with('.'), "{}", info.mnemonic);
        assert!(info.operands.iter().all(|o| page.contains(&format!("\n| {:?} |", o.kind))), "{}", info.mnemonic);
        let inst = Inst { op: info.op, operands: [2; systole_isa::inst::MAX_OPERANDS] };
        let first_use = info.operands.iter().position(|o| matches!(o.kind, Kind::Su | Kind::Vu | Kind::Pu | Kind::Mu));
        let last_def = info.operands.iter().rposition(|o| matches!(o.kind, Kind::Sd | Kind::Vd | Kind::Pd | Kind::Md));
        if let (Some(u), Some(d)) = (first_use, last_def) {
            assert!(d < u, "{}: definitions come first", info.mnemonic);
        }
        assert!(inst.defs().len() <= 2);
    }
}
