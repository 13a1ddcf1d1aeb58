//! Rules of tuples, tokens, calls, control flow and asynchronous pairs.

use super::{Rule, Site, ensure, fail};
use crate::graph::{CompId, Shape};
use systole_isa::DType;

/// The operand itself.
pub(super) fn same(s: &Site<'_>) -> Rule {
    s.count(1)?;
    Ok(s.operands[0].clone())
}

pub(super) fn tuple(s: &Site<'_>) -> Rule {
    Ok(Shape::Tuple(all(s)))
}

pub(super) fn get_tuple_element(s: &Site<'_>, index: usize) -> Rule {
    s.count(1)?;
    match s.operands[0] {
        Shape::Tuple(t) if index < t.len() => Ok(t[index].clone()),
        Shape::Tuple(t) => fail("tuple_index", format!("element {index} of a tuple of {}", t.len())),
        other @ (Shape::Array(_) | Shape::Token) => {
            fail("tuple_operand", format!("get-tuple-element takes a tuple, not {other}"))
        }
    }
}

pub(super) fn after_all(s: &Site<'_>) -> Rule {
    (0..s.operands.len()).try_for_each(|i| s.token(i))?;
    Ok(Shape::Token)
}

pub(super) fn add_dependency(s: &Site<'_>) -> Rule {
    s.count(2)?;
    s.token(1)?;
    Ok(s.operands[0].clone())
}

pub(super) fn call(s: &Site<'_>, body: CompId) -> Rule {
    Ok(s.signature(body, &all(s))?.clone())
}

pub(super) fn async_start(s: &Site<'_>, body: CompId) -> Rule {
    let result = call(s, body)?;
    let mut parts = vec![Shape::Tuple(all(s)), result];
    match s.declared {
        Some(Shape::Tuple(t)) => parts.extend(t.iter().skip(2).cloned()),
        Some(Shape::Array(_) | Shape::Token) => {}
        None => parts.push(Shape::array(DType::U32, &[])),
    }
    Ok(Shape::Tuple(parts))
}

pub(super) fn copy_start(s: &Site<'_>) -> Rule {
    let x = same(s)?;
    Ok(Shape::Tuple(vec![x.clone(), x, Shape::array(DType::U32, &[])]))
}

fn all(s: &Site<'_>) -> Vec<Shape> {
    s.operands.iter().map(|o| (*o).clone()).collect()
}

/// Element `i` of what an asynchronous operation began.
pub(super) fn done(s: &Site<'_>, i: usize) -> Rule {
    s.count(1)?;
    match s.operands[0] {
        Shape::Tuple(t) if i < t.len() => Ok(t[i].clone()),
        other @ (Shape::Array(_) | Shape::Tuple(_) | Shape::Token) => {
            fail("async_operand", format!("{} takes the result of the operation that it ends, not {other}", s.name()))
        }
    }
}

pub(super) fn while_rule(s: &Site<'_>, condition: CompId, body: CompId) -> Rule {
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
pub(super) fn conditional(s: &Site<'_>, branches: &[CompId]) -> Rule {
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
