//! The opcode table: forms of its families, numbers.

use std::collections::BTreeSet;
use systole_isa::opcodes::*;

/// The operand kinds that rows of a family may have, in order; `x?` may be missing.
fn form(function: Function) -> &'static str {
    match function {
        Function::Scalar(_) | Function::State(_) | Function::Dma(_) | Function::Branch(_) => "any",
        Function::Fill(_) => "Vd x?",
        Function::Lanes(_) => "Vd Vu Vu? Vu?",
        Function::Convert(_) => "Vd Vu F8?",
        Function::Compare(_) => "Md Vu Vu",
        Function::Mask(_) => "Md Mu Mu",
        Function::Select(_) => "Vd Mu Vu Vu",
        Function::PairMove(_) => "x x x?",
        Function::Pair(_) => "Pd Pu Pu? Pu?",
        Function::PairCompare(_) => "Md Pu Pu",
        Function::PairConvert(_) => "x x",
        Function::Transcendental(_) | Function::Reduce(_) => "Vd Vu",
        Function::CrossLane(_) => "x x x?",
        Function::Matrix(_) => "x x? U4? Fmt? Su?",
        Function::Load(_) => "Vd Su I20 I16",
        Function::Store(_) => "Vu Su I20 I16 Mu",
    }
}

#[test]
fn rows_have_the_form_of_their_family() {
    for info in TABLE {
        let form = form(info.op.function());
        let mut left = info.operands;
        for part in form.split(' ').filter(|_| form != "any") {
            let kind = left.first().map_or(String::new(), |o| format!("{:?}", o.kind));
            if kind == part.trim_end_matches('?') || part.starts_with('x') && !kind.is_empty() {
                left = &left[1..];
            } else {
                assert!(part.ends_with('?'), "{}: `{kind}` where its family has `{part}`", info.mnemonic);
            }
        }
        assert!(form == "any" || left.is_empty(), "{}: more operands than its family has", info.mnemonic);
    }
}

#[test]
fn numbers_and_rows_belong_together() {
    let numbers: BTreeSet<u16> = TABLE.iter().map(|i| i.op as u16).collect();
    assert_eq!(numbers.len(), TABLE.len());
    for n in 0..Op::NUMBERS as u16 + 3 {
        assert_eq!(Op::from_number(n).map(|op| op as u16), numbers.contains(&n).then_some(n));
    }
    assert!(TABLE.iter().all(|i| i.op.info().mnemonic == i.mnemonic));
}
