//! CHLO operations that HLO does not have, written out.

use super::ast::Operation;
use super::data::Lowered;
use super::lower::{Body, Lower};
use crate::graph::{Binary, Op};

pub(super) fn lower<'a>(l: &mut Lower<'a, '_>, body: &mut Body<'a>, o: &Operation<'a>, name: &str) -> Lowered {
    let args = body.operands(o)?;
    match name {
        "top_k" => {
            let k = l.sizes(o, &["k"])?.first().copied().unwrap_or(0);
            l.many(body, o, Op::TopK { k, largest: true }, &args)
        }
        "square" => match args[..] {
            [x] => l.one(body, o, Op::Binary(Binary::Mul), &[x, x]),
            _ => Err(o.error("square takes one operand")),
        },
        // Operations of the same name in HLO are taken by `data`.
        _ => super::data::lower(l, body, o, name),
    }
}
