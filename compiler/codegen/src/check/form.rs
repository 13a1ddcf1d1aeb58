//! The form of bundles: slots, operands and destinations that the chip has.

use super::CheckError;
use std::collections::BTreeSet;
use systole_isa::{Bundle, ChipConfig, Inst, Kind, Slot};

/// Every breach of the form.
pub(super) fn check(bundles: &[Bundle], chip: &ChipConfig, errors: &mut Vec<CheckError>) {
    for (at, b) in bundles.iter().enumerate() {
        slots(at, b, chip, errors);
        b.insts.iter().for_each(|i| operands(at, i, bundles.len(), chip, errors));
        double_writes(at, b, errors);
    }
}

fn slots(bundle: usize, b: &Bundle, chip: &ChipConfig, errors: &mut Vec<CheckError>) {
    for slot in Slot::ALL {
        let used = b.insts.iter().filter(|i| i.op.info().slot == slot).count();
        if used > chip.slots(slot) as usize {
            let message = format!("{used} instructions in the {slot:?} slot, the chip has {}", chip.slots(slot));
            errors.push(CheckError { bundle, message });
        }
    }
}

fn operands(bundle: usize, i: &Inst, bundles: usize, chip: &ChipConfig, errors: &mut Vec<CheckError>) {
    for (kind, value) in i.iter() {
        let (least, most) = kind.range(chip);
        let most = if kind == Kind::Target { bundles as i32 - 1 } else { most };
        let mnemonic = i.op.info().mnemonic;
        if !(least..=most).contains(&value) {
            errors.push(CheckError { bundle, message: format!("{mnemonic}: {kind:?} {value} does not exist or fit") });
        }
        if matches!(kind, Kind::Pd | Kind::Pu) && value % 2 != 0 {
            errors.push(CheckError { bundle, message: format!("{mnemonic}: pair {value} is not even-aligned") });
        }
    }
}

fn double_writes(bundle: usize, b: &Bundle, errors: &mut Vec<CheckError>) {
    let mut written = BTreeSet::new();
    for r in b.insts.iter().flat_map(Inst::defs) {
        if !written.insert(r) {
            errors.push(CheckError { bundle, message: format!("{r} is written twice") });
        }
    }
}
