//! Calls, control flow, custom calls, host queues, manual computations.

use super::ast::{Attr, Operation};
use super::attr::unescape;
use super::data::Lowered;
use super::lower::{Frame, Lower, Site};
use super::{chlo, collective, refine, sharding};
use crate::hlo_text::PResult;
use crate::hlo_text::lex::Cursor;
use systole_hlo::diag::Diagnostic;
use systole_hlo::graph::{NodeId, Op, Shape, dictionary};

pub(super) fn lower(s: &mut Site<'_, '_, '_>, name: &str) -> Lowered {
    let o = s.o;
    let args = s.body.operands(o)?;
    match name {
        "call" | "func.call" => {
            let Some(Attr::Symbol(callee)) = o.get(&["symbol", "callee"]) else {
                return Err(o.error("call needs `@function`"));
            };
            let given: Vec<Shape> = args.iter().map(|x| s.body.b.shape(*x).clone()).collect();
            let id = s.l.callee(callee, o, Some(&given))?;
            s.body.b.span = o.span;
            call(s, Op::Call { body: id }, &args)
        }
        "composite" => {
            let meant = chlo::recomposed(s)?;
            if meant.is_some() {
                return Ok(meant);
            }
            let Some(Attr::Symbol(callee)) = o.get(&["decomposition"]) else {
                return Err(o.error("composite needs `decomposition`"));
            };
            let given: Vec<Shape> = args.iter().map(|x| s.body.b.shape(*x).clone()).collect();
            let id = s.l.callee(callee, o, Some(&given))?;
            call(s, Op::Call { body: id }, &args)
        }
        "check.expect_serialized_eq" => probed(s, &args),
        _ if name.starts_with("check.expect_") => check(s, &args),
        "while" => while_loop(s, &args),
        "if" | "case" => branches(s, &args),
        "custom_call" => custom_call(s, &args),
        "infeed" | "outfeed" | "send" | "recv" => host(s, name, &args),
        "sdy.manual_computation" => sharding::manual(s, &args),
        "interpreter.probe" => {
            let Some(Attr::Str(name)) = o.get(&["probe_id"]) else { return Err(o.error("a probe needs `probe_id`")) };
            s.l.probes.extend(args.iter().map(|x| ((*name).to_string(), s.body.id, *x)));
            Ok(Some(args))
        }
        "interpreter.print" => {
            s.l.notes.push(Diagnostic::warning(o.span, "values are not printed while the program runs"));
            Ok(Some(Vec::new()))
        }
        "sdy.propagation_barrier" => Ok(Some(args)),
        "sdy.sharding_group" => Ok(Some(Vec::new())),
        "sdy.sharding_constraint" | "sdy.reshard" => sharding::constraint(s, &args),
        _ => Ok(None),
    }
}

/// A call whose computation returns one value or a tuple.
fn call(s: &mut Site<'_, '_, '_>, op: Op, args: &[NodeId]) -> Lowered {
    let o = s.o;
    let result = s.infer(op, args)?;
    if o.result_types.len() == 1 {
        return Ok(Some(vec![result]));
    }
    Ok(Some(s.parts(result)?))
}

/// The state is a tuple: the loop's values, then what the regions use from outside.
fn while_loop(s: &mut Site<'_, '_, '_>, args: &[NodeId]) -> Lowered {
    let o = s.o;
    let [cond, step] = &o.regions[..] else { return Err(o.error("while needs two regions")) };
    if cond.args.len() != args.len() || step.args.len() != args.len() {
        return Err(o.error("the regions of while take as many values as the loop has"));
    }
    let (cond, step) = (&refine::region(s.body, cond, args), &refine::region(s.body, step, args));
    // Both regions see the same state, so what one captures the other passes over.
    let mut captures = s.l.captures(s.body, step);
    captures.merge(s.l.captures(s.body, cond));
    let condition = s.region(cond, &captures, Frame::Tuple { pass_on: false })?;
    let step = s.region(step, &captures, Frame::Tuple { pass_on: true })?;
    let state: Vec<NodeId> = args.iter().copied().chain(captures.values.iter().map(|c| c.2)).collect();
    let state = s.tuple(&state)?;
    let result = s.infer(Op::While { condition, body: step }, &[state])?;
    let mut parts = s.parts(result)?;
    parts.truncate(args.len());
    Ok(Some(parts))
}

/// Every branch takes a tuple of what it uses from outside.
fn branches(s: &mut Site<'_, '_, '_>, args: &[NodeId]) -> Lowered {
    let o = s.o;
    let [index] = args else { return Err(o.error("the operation takes one operand")) };
    let mut operands = vec![*index];
    let mut list = Vec::new();
    for r in &o.regions {
        let captures = s.l.captures(s.body, r);
        list.push(s.region(r, &captures, Frame::Tuple { pass_on: false })?);
        let values: Vec<NodeId> = captures.values.iter().map(|c| c.2).collect();
        operands.push(s.tuple(&values)?);
    }
    call(s, Op::Conditional { branches: list }, &operands)
}

/// `check.expect_*` as an operation: a custom call of two arrays, the second possibly an attribute.
fn check(s: &mut Site<'_, '_, '_>, args: &[NodeId]) -> Lowered {
    let o = s.o;
    let mut args = args.to_vec();
    if let Some(value @ (Attr::Dense(..) | Attr::Resource(..))) = o.get(&["value", "expected"]) {
        let literal = s.l.literal(o, value)?;
        let shape = Shape::array(literal.dtype, &literal.dims);
        args.push(s.add(Op::Constant(literal), &[], shape)?);
    }
    let settings = ["tolerance", "min_ulp_difference", "max_ulp_difference"];
    let given = settings.iter().filter(|k| o.get(&[k]).is_some()).map(|k| raw(s.l, o, k)).collect::<Vec<_>>();
    let config = if given.is_empty() { String::new() } else { format!("{{{}}}", given.join(", ")) };
    let same = matches!(args[..], [a, b] if s.body.b.shape(a).same(s.body.b.shape(b)));
    if !same {
        return Err(o.error(format!("{} compares two arrays of one type", o.name)));
    }
    let op = Op::CustomCall { target: o.name.to_string(), config, has_side_effect: true, calls: Vec::new() };
    s.add(op, &args, Shape::Tuple(Vec::new()))?;
    Ok(Some(Vec::new()))
}

/// Compares with what was probed in the same block; what another block probed is not kept.
fn probed(s: &mut Site<'_, '_, '_>, args: &[NodeId]) -> Lowered {
    let o = s.o;
    let (Some(Attr::Str(name)), [x]) = (o.get(&["probe_id"]), args) else {
        return Err(o.error("the check takes one operand and needs `probe_id`"));
    };
    let here: Vec<NodeId> = s.l.probes.iter().filter(|p| p.0 == *name && p.1 == s.body.id).map(|p| p.2).collect();
    let found = match o.get(&["iter"]) {
        Some(Attr::Int(i)) => usize::try_from(*i).ok().and_then(|i| here.get(i)),
        _ => here.last(),
    };
    let Some(&value) = found else {
        let note = format!("nothing was compared: `{name}` is not probed in this block");
        s.l.notes.push(Diagnostic::warning(o.span, note));
        return Ok(Some(Vec::new()));
    };
    let same = Operation { name: "check.expect_eq", attributes: Vec::new(), ..o.clone() };
    check(&mut s.of(&same), &[value, *x])
}

fn custom_call(s: &mut Site<'_, '_, '_>, args: &[NodeId]) -> Lowered {
    let o = s.o;
    let target = match o.get(&["symbol", "call_target_name"]) {
        Some(Attr::Symbol(s) | Attr::Str(s)) => unescape(s),
        _ => return Err(o.error("custom_call needs its target")),
    };
    let config = match o.get(&["backend_config"]) {
        Some(Attr::Str(s)) if !s.is_empty() => unescape(s),
        Some(Attr::Dict(d)) if !d.is_empty() => raw(s.l, o, "backend_config"),
        _ => {
            let rest = ["mhlo.backend_config", "tolerance", "min_ulp_difference", "max_ulp_difference", "k", "largest"];
            let given = rest.iter().filter(|k| o.get(&[k]).is_some()).map(|k| raw(s.l, o, k)).collect::<Vec<_>>();
            if given.is_empty() { String::new() } else { format!("{{{}}}", given.join(", ")) }
        }
    };
    let mut calls = Vec::new();
    if let Some(Attr::List(list)) = o.get(&["called_computations"]) {
        for c in list {
            if let Attr::Symbol(name) = c {
                calls.push(s.l.callee(name, o, None)?);
            }
        }
    }
    let frontend = frontend_attributes(o);
    // What acts on its results alone may go where nobody needs them.
    let free = frontend.iter().any(|(k, v)| *k == "xla_allow_dce_side_effecting_op" && v == "true");
    let has_side_effect = s.l.flag(o, &["has_side_effect"]) && !free || target.starts_with("check.expect_");
    let op = Op::CustomCall { target, config, has_side_effect, calls };
    let annotated = match o.get(&["mhlo.sharding"]) {
        Some(Attr::Str(s)) => Some(unescape(s)),
        _ => None,
    };
    let shape = match &o.result_types[..] {
        [one] => one.clone(),
        many => Shape::Tuple(many.to_vec()),
    };
    let id = s.add(op, args, shape)?;
    if let Some(text) = annotated {
        s.body.b.attribute(id, "sharding", &text);
    }
    if o.get(&["output_operand_aliases"]).is_some()
        && let text = aliases(&raw(s.l, o, "output_operand_aliases"))
        && text != "{}"
    {
        s.body.b.attribute(id, "output_to_operand_aliasing", &text);
    }
    if !frontend.is_empty() {
        let text = dictionary::written(frontend.iter().map(|(k, v)| (*k, v.as_str())));
        s.body.b.attribute(id, "frontend_attributes", &text);
    }
    if o.result_types.len() == 1 { Ok(Some(vec![id])) } else { Ok(Some(s.parts(id)?)) }
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
fn transfer_pairs(s: &mut Site<'_, '_, '_>, id: NodeId) -> PResult<()> {
    let o = s.o;
    const KEY: &str = "_xla_send_recv_source_target_pairs";
    let list = collective::pairs(s.l, o)?;
    let given = frontend_attributes(o).into_iter().find_map(|(k, v)| (k == KEY).then_some(v));
    let text = match given {
        Some(text) => text,
        None if list.is_empty() => return Ok(()),
        None => {
            let pairs: Vec<String> = list.iter().map(|(s, t)| format!("{{{s},{t}}}")).collect();
            format!("{{{}}}", pairs.join(","))
        }
    };
    s.body.b.attribute(id, "frontend_attributes", &format!("{{{KEY}={text}}}"));
    Ok(())
}

fn host(s: &mut Site<'_, '_, '_>, name: &str, args: &[NodeId]) -> Lowered {
    let o = s.o;
    let Some((token, values)) = args.split_last() else { return Err(o.error("the operation takes a token")) };
    let string = |key: &str| match o.get(&[key]) {
        Some(Attr::Str(s)) => unescape(s),
        _ => String::new(),
    };
    let channel = match o.get(&["channel_handle"]) {
        Some(_) => Some(s.l.dim(&s.l.fields_of(o, &["channel_handle"])?, &["handle"])? as u64),
        None => None,
    };
    let is_host = s.l.flag(o, &["is_host_transfer"]);
    let payload = |types: &[Shape]| match types {
        [one] => one.clone(),
        many => Shape::Tuple(many.to_vec()),
    };
    match name {
        "outfeed" => {
            let value = s.one_or_tuple(values)?;
            let shape = s.body.b.shape(value).clone();
            let op = Op::Outfeed { shape, config: string("outfeed_config") };
            Ok(Some(vec![s.infer(op, &[value, *token])?]))
        }
        "send" => {
            let value = s.one_or_tuple(values)?;
            let started = s.infer(Op::Send { channel, host: is_host, pairs: None }, &[value, *token])?;
            transfer_pairs(s, started)?;
            Ok(Some(vec![s.infer(Op::SendDone { channel, host: is_host }, &[started])?]))
        }
        _ => {
            let Some((_, types)) = o.result_types.split_last() else {
                return Err(o.error("the operation gives a token"));
            };
            let data = payload(types);
            if let Some(callee) = s.l.queue.pop_front().filter(|_| name == "infeed") {
                let id = s.l.callee(callee, o, None)?;
                let mut out = call(s, Op::Call { body: id }, &[])?.unwrap_or_default();
                if out.len() == 1 && types.len() != 1 {
                    out = s.parts(out[0])?;
                }
                out.push(*token);
                return Ok(Some(out));
            }
            let pair = if name == "infeed" {
                let shape = Shape::Tuple(vec![data, Shape::Token]);
                s.add(Op::Infeed { config: string("infeed_config") }, &[*token], shape)?
            } else {
                let shape = Shape::Tuple(vec![data, Shape::array(systole_isa::DType::U32, &[]), Shape::Token]);
                let started = s.add(Op::Recv { channel, host: is_host, pairs: None }, &[*token], shape)?;
                transfer_pairs(s, started)?;
                s.infer(Op::RecvDone { channel, host: is_host }, &[started])?
            };
            let parts = s.parts(pair)?;
            let mut out = if types.len() == 1 { vec![parts[0]] } else { s.parts(parts[0])? };
            out.push(parts[1]);
            Ok(Some(out))
        }
    }
}
