//! Calls, control flow, custom calls, host queues, manual computations.

use super::ast::{Attr, Operation};
use super::attr::unescape;
use super::data::Lowered;
use super::lower::{Body, Frame, Lower};
use super::{chlo, collective, refine, sharding};
use crate::hlo_text::PResult;
use crate::hlo_text::lex::Cursor;
use systole_hlo::diag::Diagnostic;
use systole_hlo::graph::{NodeId, Op, Shape, dictionary};

pub(super) fn lower<'a>(l: &mut Lower<'a, '_>, body: &mut Body<'a>, o: &Operation<'a>, name: &str) -> Lowered {
    let args = body.operands(o)?;
    match name {
        "call" | "func.call" => {
            let Some(Attr::Symbol(callee)) = o.get(&["symbol", "callee"]) else {
                return Err(o.error("call needs `@function`"));
            };
            let given: Vec<Shape> = args.iter().map(|x| body.b.shape(*x).clone()).collect();
            let id = l.callee(callee, o, Some(&given))?;
            body.b.span = o.span;
            call(l, body, o, Op::Call { body: id }, &args)
        }
        "composite" => {
            let meant = chlo::recomposed(l, body, o)?;
            if meant.is_some() {
                return Ok(meant);
            }
            let Some(Attr::Symbol(callee)) = o.get(&["decomposition"]) else {
                return Err(o.error("composite needs `decomposition`"));
            };
            let given: Vec<Shape> = args.iter().map(|x| body.b.shape(*x).clone()).collect();
            let id = l.callee(callee, o, Some(&given))?;
            call(l, body, o, Op::Call { body: id }, &args)
        }
        "check.expect_serialized_eq" => probed(l, body, o, &args),
        _ if name.starts_with("check.expect_") => check(l, body, o, &args),
        "while" => while_loop(l, body, o, &args),
        "if" | "case" => branches(l, body, o, &args),
        "custom_call" => custom_call(l, body, o, &args),
        "infeed" | "outfeed" | "send" | "recv" => host(l, body, o, name, &args),
        "sdy.manual_computation" => sharding::manual(l, body, o, &args),
        "interpreter.probe" => {
            let Some(Attr::Str(name)) = o.get(&["probe_id"]) else { return Err(o.error("a probe needs `probe_id`")) };
            l.probes.extend(args.iter().map(|x| ((*name).to_string(), body.id, *x)));
            Ok(Some(args))
        }
        "interpreter.print" => {
            l.notes.push(Diagnostic::warning(o.span, "values are not printed while the program runs"));
            Ok(Some(Vec::new()))
        }
        "sdy.propagation_barrier" => Ok(Some(args)),
        "sdy.sharding_group" => Ok(Some(Vec::new())),
        "sdy.sharding_constraint" | "sdy.reshard" => sharding::constraint(l, body, o, &args),
        _ => Ok(None),
    }
}

/// A call whose computation returns one value or a tuple.
fn call<'a>(l: &mut Lower<'a, '_>, body: &mut Body<'a>, o: &Operation<'a>, op: Op, args: &[NodeId]) -> Lowered {
    let result = l.infer(body, o, op, args)?;
    if o.result_types.len() == 1 {
        return Ok(Some(vec![result]));
    }
    Ok(Some(l.parts(body, o, result)?))
}

/// The state is a tuple: the loop's values, then what the regions use from outside.
fn while_loop<'a>(l: &mut Lower<'a, '_>, body: &mut Body<'a>, o: &Operation<'a>, args: &[NodeId]) -> Lowered {
    let [cond, step] = &o.regions[..] else { return Err(o.error("while needs two regions")) };
    if cond.args.len() != args.len() || step.args.len() != args.len() {
        return Err(o.error("the regions of while take as many values as the loop has"));
    }
    let (cond, step) = (&refine::region(body, cond, args), &refine::region(body, step, args));
    // Both regions see the same state, so what one captures the other passes over.
    let mut captures = l.captures(body, step);
    captures.merge(l.captures(body, cond));
    let condition = l.region(body, o, cond, &captures, Frame::Tuple { pass_on: false })?;
    let step = l.region(body, o, step, &captures, Frame::Tuple { pass_on: true })?;
    let state: Vec<NodeId> = args.iter().copied().chain(captures.values.iter().map(|c| c.2)).collect();
    let state = l.tuple(body, &state)?;
    let result = l.infer(body, o, Op::While { condition, body: step }, &[state])?;
    let mut parts = l.parts(body, o, result)?;
    parts.truncate(args.len());
    Ok(Some(parts))
}

/// Every branch takes a tuple of what it uses from outside.
fn branches<'a>(l: &mut Lower<'a, '_>, body: &mut Body<'a>, o: &Operation<'a>, args: &[NodeId]) -> Lowered {
    let [index] = args else { return Err(o.error("the operation takes one operand")) };
    let mut operands = vec![*index];
    let mut list = Vec::new();
    for r in &o.regions {
        let captures = l.captures(body, r);
        list.push(l.region(body, o, r, &captures, Frame::Tuple { pass_on: false })?);
        let values: Vec<NodeId> = captures.values.iter().map(|c| c.2).collect();
        operands.push(l.tuple(body, &values)?);
    }
    call(l, body, o, Op::Conditional { branches: list }, &operands)
}

/// `check.expect_*` as an operation: a custom call of two arrays, the second possibly an attribute.
fn check<'a>(l: &mut Lower<'a, '_>, body: &mut Body<'a>, o: &Operation<'a>, args: &[NodeId]) -> Lowered {
    let mut args = args.to_vec();
    if let Some(value @ (Attr::Dense(..) | Attr::Resource(..))) = o.get(&["value", "expected"]) {
        let literal = l.literal(o, value)?;
        let shape = Shape::array(literal.dtype, &literal.dims);
        args.push(l.add(body, o, Op::Constant(literal), &[], shape)?);
    }
    let settings = ["tolerance", "min_ulp_difference", "max_ulp_difference"];
    let given = settings.iter().filter(|k| o.get(&[k]).is_some()).map(|k| raw(l, o, k)).collect::<Vec<_>>();
    let config = if given.is_empty() { String::new() } else { format!("{{{}}}", given.join(", ")) };
    let same = matches!(args[..], [a, b] if body.b.shape(a).same(body.b.shape(b)));
    if !same {
        return Err(o.error(format!("{} compares two arrays of one type", o.name)));
    }
    let op = Op::CustomCall { target: o.name.to_string(), config, has_side_effect: true, calls: Vec::new() };
    l.add(body, o, op, &args, Shape::Tuple(Vec::new()))?;
    Ok(Some(Vec::new()))
}

/// Compares with what was probed in the same block; what another block probed is not kept.
fn probed<'a>(l: &mut Lower<'a, '_>, body: &mut Body<'a>, o: &Operation<'a>, args: &[NodeId]) -> Lowered {
    let (Some(Attr::Str(name)), [x]) = (o.get(&["probe_id"]), args) else {
        return Err(o.error("the check takes one operand and needs `probe_id`"));
    };
    let here: Vec<NodeId> = l.probes.iter().filter(|p| p.0 == *name && p.1 == body.id).map(|p| p.2).collect();
    let found = match o.get(&["iter"]) {
        Some(Attr::Int(i)) => usize::try_from(*i).ok().and_then(|i| here.get(i)),
        _ => here.last(),
    };
    let Some(&value) = found else {
        let note = format!("nothing was compared: `{name}` is not probed in this block");
        l.notes.push(Diagnostic::warning(o.span, note));
        return Ok(Some(Vec::new()));
    };
    let same = Operation { name: "check.expect_eq", attributes: Vec::new(), ..o.clone() };
    check(l, body, &same, &[value, *x])
}

fn custom_call<'a>(l: &mut Lower<'a, '_>, body: &mut Body<'a>, o: &Operation<'a>, args: &[NodeId]) -> Lowered {
    let target = match o.get(&["symbol", "call_target_name"]) {
        Some(Attr::Symbol(s) | Attr::Str(s)) => unescape(s),
        _ => return Err(o.error("custom_call needs its target")),
    };
    let config = match o.get(&["backend_config"]) {
        Some(Attr::Str(s)) if !s.is_empty() => unescape(s),
        Some(Attr::Dict(d)) if !d.is_empty() => raw(l, o, "backend_config"),
        _ => {
            let rest = ["mhlo.backend_config", "tolerance", "min_ulp_difference", "max_ulp_difference", "k", "largest"];
            let given = rest.iter().filter(|k| o.get(&[k]).is_some()).map(|k| raw(l, o, k)).collect::<Vec<_>>();
            if given.is_empty() { String::new() } else { format!("{{{}}}", given.join(", ")) }
        }
    };
    let mut calls = Vec::new();
    if let Some(Attr::List(list)) = o.get(&["called_computations"]) {
        for c in list {
            if let Attr::Symbol(name) = c {
                calls.push(l.callee(name, o, None)?);
            }
        }
    }
    let frontend = frontend_attributes(o);
    // What acts on its results alone may go where nobody needs them.
    let free = frontend.iter().any(|(k, v)| *k == "xla_allow_dce_side_effecting_op" && v == "true");
    let has_side_effect = l.flag(o, &["has_side_effect"]) && !free || target.starts_with("check.expect_");
    let op = Op::CustomCall { target, config, has_side_effect, calls };
    let annotated = match o.get(&["mhlo.sharding"]) {
        Some(Attr::Str(s)) => Some(unescape(s)),
        _ => None,
    };
    let shape = match &o.result_types[..] {
        [one] => one.clone(),
        many => Shape::Tuple(many.to_vec()),
    };
    let id = l.add(body, o, op, args, shape)?;
    if let Some(text) = annotated {
        body.b.attribute(id, "sharding", &text);
    }
    if o.get(&["output_operand_aliases"]).is_some()
        && let text = aliases(&raw(l, o, "output_operand_aliases"))
        && text != "{}"
    {
        body.b.attribute(id, "output_to_operand_aliasing", &text);
    }
    if !frontend.is_empty() {
        let text = dictionary::written(frontend.iter().map(|(k, v)| (*k, v.as_str())));
        body.b.attribute(id, "frontend_attributes", &text);
    }
    if o.result_types.len() == 1 { Ok(Some(vec![id])) } else { Ok(Some(l.parts(body, o, id)?)) }
}

/// Which results are operands, as HLO text says it, from `#stablehlo.output_operand_alias<..>` attributes.
fn aliases(text: &str) -> String {
    let number = |part: &str, key: &str| -> String {
        let rest = part.split_once(key).map_or("", |p| p.1);
        let rest = rest.trim_start_matches([' ', '=', '[']);
        rest.chars().take_while(char::is_ascii_digit).collect()
    };
    let parts = text.split("output_operand_alias<").skip(1);
    let pairs =
        parts.map(|p| format!("{{{}}}: ({}, {{}})", number(p, "output_tuple_indices"), number(p, "operand_index")));
    format!("{{{}}}", pairs.collect::<Vec<_>>().join(", "))
}

/// An attribute as it is written, with its name.
fn raw(l: &Lower<'_, '_>, o: &Operation<'_>, key: &str) -> String {
    let span = o.attributes.iter().find(|a| a.0 == key).map(|a| a.2);
    span.map_or(String::new(), |s| Cursor::over(l.text, s).rest().to_string())
}

/// What a program's author says to the compiler beside the operation.
fn frontend_attributes<'a>(o: &Operation<'a>) -> Vec<(&'a str, String)> {
    let Some(Attr::Dict(entries)) = o.get(&["mhlo.frontend_attributes"]) else { return Vec::new() };
    let text = |v: &Attr<'_>| if let Attr::Str(s) = v { Some(unescape(s)) } else { None };
    entries.iter().filter_map(|(k, v)| Some((k.trim_matches('"'), text(v)?))).collect()
}

/// Who sends to whom, as the attribute of HLO: from `source_target_pairs` or from the frontend attribute of that name.
fn transfer_pairs<'a>(l: &mut Lower<'a, '_>, body: &mut Body<'a>, o: &Operation<'a>, id: NodeId) -> PResult<()> {
    const KEY: &str = "_xla_send_recv_source_target_pairs";
    let list = collective::pairs(l, o)?;
    let given = frontend_attributes(o).into_iter().find_map(|(k, v)| (k == KEY).then_some(v));
    let text = match given {
        Some(text) => text,
        None if list.is_empty() => return Ok(()),
        None => {
            let pairs: Vec<String> = list.iter().map(|(s, t)| format!("{{{s},{t}}}")).collect();
            format!("{{{}}}", pairs.join(","))
        }
    };
    body.b.attribute(id, "frontend_attributes", &format!("{{{KEY}={text}}}"));
    Ok(())
}

fn host<'a>(l: &mut Lower<'a, '_>, body: &mut Body<'a>, o: &Operation<'a>, name: &str, args: &[NodeId]) -> Lowered {
    let Some((token, values)) = args.split_last() else { return Err(o.error("the operation takes a token")) };
    let string = |key: &str| match o.get(&[key]) {
        Some(Attr::Str(s)) => unescape(s),
        _ => String::new(),
    };
    let channel = match o.get(&["channel_handle"]) {
        Some(_) => Some(l.dim(&l.fields_of(o, &["channel_handle"])?, &["handle"])? as u64),
        None => None,
    };
    let is_host = l.flag(o, &["is_host_transfer"]);
    let payload = |types: &[Shape]| match types {
        [one] => one.clone(),
        many => Shape::Tuple(many.to_vec()),
    };
    match name {
        "outfeed" => {
            let value = l.one_or_tuple(body, values)?;
            let shape = body.b.shape(value).clone();
            let op = Op::Outfeed { shape, config: string("outfeed_config") };
            Ok(Some(vec![l.infer(body, o, op, &[value, *token])?]))
        }
        "send" => {
            let value = l.one_or_tuple(body, values)?;
            let started = l.infer(body, o, Op::Send { channel, host: is_host, pairs: None }, &[value, *token])?;
            transfer_pairs(l, body, o, started)?;
            Ok(Some(vec![l.infer(body, o, Op::SendDone { channel, host: is_host }, &[started])?]))
        }
        _ => {
            let Some((_, types)) = o.result_types.split_last() else {
                return Err(o.error("the operation gives a token"));
            };
            let data = payload(types);
            if let Some(callee) = l.queue.pop_front().filter(|_| name == "infeed") {
                let id = l.callee(callee, o, None)?;
                let mut out = call(l, body, o, Op::Call { body: id }, &[])?.unwrap_or_default();
                if out.len() == 1 && types.len() != 1 {
                    out = l.parts(body, o, out[0])?;
                }
                out.push(*token);
                return Ok(Some(out));
            }
            let pair = if name == "infeed" {
                let shape = Shape::Tuple(vec![data, Shape::Token]);
                l.add(body, o, Op::Infeed { config: string("infeed_config") }, &[*token], shape)?
            } else {
                let shape = Shape::Tuple(vec![data, Shape::array(systole_isa::DType::U32, &[]), Shape::Token]);
                let started = l.add(body, o, Op::Recv { channel, host: is_host, pairs: None }, &[*token], shape)?;
                transfer_pairs(l, body, o, started)?;
                l.infer(body, o, Op::RecvDone { channel, host: is_host }, &[started])?
            };
            let parts = l.parts(body, o, pair)?;
            let mut out = if types.len() == 1 { vec![parts[0]] } else { l.parts(body, o, parts[0])? };
            out.push(parts[1]);
            Ok(Some(out))
        }
    }
}
