//! A smaller program that fails too.

use super::program::{Program, Source};
use super::run::{check, expected};
use systole_runtime::{Array, Client};

fn fails(p: &Program, client: &Client, chaos: Option<u64>) -> bool {
    check(p, client, chaos).is_err()
}

/// Makes a failing program smaller: the first instruction that fails as the only result, then as many of the values that it
/// needs as parameters as still fail.
pub fn shrink(p: &Program, client: &Client, chaos: Option<u64>) -> Program {
    let mut best = p.clone();
    let needed = p.needed();
    for i in (0..p.instrs.len()).filter(|&i| needed[i] && !p.instrs[i].tuple && p.instrs[i].input().is_none()) {
        let one = Program { roots: vec![i], ..p.clone() };
        if fails(&one, client, chaos) {
            best = one;
            break;
        }
    }
    for i in (0..best.instrs.len()).rev() {
        let (needed, instr) = (best.needed(), &best.instrs[i]);
        if !needed[i] || instr.tuple || instr.input().is_some() || best.roots.contains(&i) || instr.opcode == "constant"
        {
            continue;
        }
        let value = Program { roots: vec![i], ..best.clone() };
        let Ok(values) = expected(&value, client.chip()) else { continue };
        let mut smaller = best.clone();
        let instr = &mut smaller.instrs[i];
        let value = Array::new(instr.dtype(), instr.dims(), values[0].bytes().to_vec());
        instr.source = Source::Input(value, None);
        instr.opcode = "parameter".into();
        instr.attributes.clear();
        if fails(&smaller, client, chaos) {
            best = smaller;
        }
    }
    best
}
