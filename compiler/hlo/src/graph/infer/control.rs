//! Rules of tuples, tokens, calls, control flow and asynchronous pairs.

use super::{Rule, Site, ensure, fail};
use crate::graph::{CompId, Op, Shape};
use systole_isa::DType;

#[allow(clippy::wildcard_enum_match_arm, reason = "the caller sends control operations alone, and the fault is said")]
pub(super) fn rule(s: &Site<'_>) -> Rule {
    match s.op {
        Op::Tuple => Ok(Shape::Tuple(all(s))),
        Op::GetTupleElement { index } => {
            s.count(1)?;
            match s.operands[0] {
                Shape::Tuple(t) if *index < t.len() => Ok(t[*index].clone()),
                Shape::Tuple(t) => fail("tuple_index", format!("element {index} of a tuple of {}", t.len())),
                other @ (Shape::Array(_) | Shape::Token) => {
                    fail("tuple_operand", format!("get-tuple-element takes a tuple, not {other}"))
                }
            }
        }
        Op::OptBarrier | Op::Domain => {
            s.count(1)?;
            Ok(s.operands[0].clone())
        }
        Op::AfterAll => {
            (0..s.operands.len()).try_for_each(|i| s.token(i))?;
            Ok(Shape::Token)
        }
        Op::AddDependency => {
            s.count(2)?;
            s.token(1)?;
            Ok(s.operands[0].clone())
        }
        Op::Call { body } | Op::Fusion { body, .. } => Ok(s.signature(*body, &all(s))?.clone()),
        Op::While { condition, body } => while_rule(s, *condition, *body),
        Op::Conditional { branches } => conditional(s, branches),
        Op::CustomCall { target, config, calls, .. } => super::calls::rule(s, target, config, calls),
        Op::AsyncStart { body } => {
            let result = s.signature(*body, &all(s))?.clone();
            let mut parts = vec![Shape::Tuple(all(s)), result];
            match s.declared {
                Some(Shape::Tuple(t)) => parts.extend(t.iter().skip(2).cloned()),
                Some(Shape::Array(_) | Shape::Token) => {}
                None => parts.push(Shape::array(DType::U32, &[])),
            }
            Ok(Shape::Tuple(parts))
        }
        Op::AsyncUpdate => {
            s.count(1)?;
            Ok(s.operands[0].clone())
        }
        Op::AsyncDone => {
            s.count(1)?;
            element(s, 1)
        }
        Op::CopyStart => {
            s.count(1)?;
            let x = s.operands[0].clone();
            Ok(Shape::Tuple(vec![x.clone(), x, Shape::array(DType::U32, &[])]))
        }
        Op::CopyDone => {
            s.count(1)?;
            element(s, 0)
        }
        other => fail("internal", format!("{} is no control operation", other.name())),
    }
}

fn all(s: &Site<'_>) -> Vec<Shape> {
    s.operands.iter().map(|o| (*o).clone()).collect()
}

/// An element of the first operand.
fn element(s: &Site<'_>, i: usize) -> Rule {
    match s.operands[0] {
        Shape::Tuple(t) if i < t.len() => Ok(t[i].clone()),
        other @ (Shape::Array(_) | Shape::Tuple(_) | Shape::Token) => {
            fail("async_operand", format!("{} takes the result of the operation that it ends, not {other}", s.name()))
        }
    }
}

fn while_rule(s: &Site<'_>, condition: CompId, body: CompId) -> Rule {
    s.count(1)?;
    let state = s.operands[0].clone();
    let goes_on = s.signature(condition, std::slice::from_ref(&state))?;
    ensure(goes_on.same(&Shape::array(DType::Pred, &[])), "while_condition", || {
        format!("the condition of while must return pred[], not {goes_on}")
    })?;
    let next = s.signature(body, std::slice::from_ref(&state))?;
    ensure(next.same(&state), "while_body", || format!("the body of while takes {state} but returns {next}"))?;
    Ok(state)
}

#[allow(clippy::wildcard_enum_match_arm, reason = "the verifier's message for any other type")]
fn conditional(s: &Site<'_>, branches: &[CompId]) -> Rule {
    s.count(branches.len() + 1)?;
    let index = s.scalar(0)?;
    match index.dtype {
        DType::Pred => ensure(branches.len() == 2, "conditional_branches", || {
            format!("a conditional on a pred has two branches, not {}", branches.len())
        })?,
        DType::S32 => {
            ensure(!branches.is_empty(), "conditional_branches", || "a conditional needs a branch".to_string())?
        }
        t => return fail("conditional_index", format!("a conditional chooses by pred[] or s32[], not {t}[]")),
    }
    let mut result: Option<&Shape> = None;
    for (i, &b) in branches.iter().enumerate() {
        let r = s.signature(b, std::slice::from_ref(s.operands[i + 1]))?;
        if let Some(first) = result {
            ensure(first.same(r), "conditional_results", || format!("branch 0 returns {first}, branch {i} {r}"))?;
        }
        result = result.or(Some(r));
    }
    match result {
        Some(r) => Ok(r.clone()),
        None => fail("conditional_branches", "a conditional needs a branch"),
    }
}
