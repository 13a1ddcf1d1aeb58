//! Shardy annotations to HLO's: meshes, shardings of arguments and results, manual computations.

use super::ast::{Attr, Mesh, ModuleText, Operation};
use super::attr::unescape;
use super::data::Lowered;
use super::lower::{Body, Frame, Lower, Site};
use crate::hlo_text::PResult;
use crate::hlo_text::lex::Cursor;
use systole_hlo::graph::{NodeId, Op, Shape, Span};

/// The module's meshes as a frontend attribute, the form of HLO text.
pub(super) fn meshes(raw: &ModuleText<'_>) -> Option<String> {
    let one = |m: &Mesh<'_>| {
        let axes: Vec<String> = m.axes.iter().map(|(n, s)| format!("\"{n}\"={s}")).collect();
        let devices = if m.devices.is_empty() { String::new() } else { format!(", device_ids={:?}", m.devices) };
        format!("{} = #sdy.mesh<[{}]{devices}>", m.name, axes.join(", "))
    };
    let list: Vec<String> = raw.meshes.iter().map(one).collect();
    (!list.is_empty()).then(|| format!("{{xla.sdy.meshes={{{}}}}}", list.join(", ")))
}

/// A sharding as HLO's attributes: what HLO can say, and Shardy's own words.
#[derive(Clone, Debug)]
pub(super) struct Annotation {
    hlo: Option<String>,
    shardy: Option<String>,
}

impl Annotation {
    fn of_hlo(text: &str) -> Annotation {
        Annotation { hlo: Some(unescape(text)), shardy: None }
    }

    /// Of what stands inside `#sdy.sharding<..>`.
    fn of_shardy(inside: Span, raw: &ModuleText<'_>, text: &str) -> Annotation {
        let mut c = Cursor::over(text, inside);
        let words = c.rest().trim().replace('"', "\\\"");
        let name = if words.starts_with('[') { "sharding_per_value" } else { "sharding" };
        let _ = c.eat("[") && c.eat("<");
        let shardy = format!("{{xla.sdy.sharding=\"#sdy.{name}<{words}>\"}}");
        Annotation { hlo: from_shardy(&mut c, raw), shardy: Some(shardy) }
    }

    /// Gives a node the attributes.
    pub(super) fn attach(&self, body: &mut Body<'_>, id: NodeId) {
        if let Some(text) = &self.hlo {
            body.b.attribute(id, "sharding", text);
        }
        if let Some(text) = &self.shardy {
            body.b.attribute(id, "frontend_attributes", text);
        }
    }
}

/// The sharding that a function's argument or result asks for.
pub(super) fn of(attributes: &[(&str, Attr<'_>)], raw: &ModuleText<'_>, text: &str) -> Option<Annotation> {
    let find = |name: &str| attributes.iter().find(|(key, _)| *key == name).map(|(_, value)| value);
    match (find("sdy.sharding"), find("mhlo.sharding")) {
        (Some(Attr::Dialect(_, inside)), _) => Some(Annotation::of_shardy(*inside, raw, text)),
        (_, Some(Attr::Str(s))) => Some(Annotation::of_hlo(s)),
        _ => None,
    }
}

/// The sharding of an operation's results.
pub(super) fn of_operation(o: &Operation<'_>, raw: &ModuleText<'_>, text: &str) -> Option<Annotation> {
    match (o.get(&["sdy.sharding"]), o.get(&["mhlo.sharding"])) {
        (Some(Attr::Dialect(_, inside)), _) => Some(Annotation::of_shardy(*inside, raw, text)),
        (_, Some(Attr::Str(s))) => Some(Annotation::of_hlo(s)),
        _ => None,
    }
}

/// `@mesh, [{"x"}, {}]` to `{devices=[2,1,4]<=[8] last_tile_dim_replicate}`; `None` for what HLO cannot say.
fn from_shardy(c: &mut Cursor<'_>, raw: &ModuleText<'_>) -> Option<String> {
    if !c.eat("@") {
        return None;
    }
    let name = c.symbol().ok()?;
    let mesh = raw.meshes.iter().find(|m| m.name == name && m.devices.is_empty())?;
    let axes = &mesh.axes;
    if !(c.eat(",") && c.eat("[")) {
        return None;
    }
    let (mut tiles, mut order) = (Vec::new(), Vec::new());
    while !c.eat("]") {
        c.eat(",");
        if !c.eat("{") {
            return None;
        }
        let mut tile = 1;
        while !c.eat("}") {
            if c.eat(",") || c.eat("?") {
                continue;
            }
            let span = c.string().ok()?;
            let axis = axes.iter().position(|a| a.0 == c.slice(span))?;
            if c.looking_at(":") || order.contains(&axis) {
                return None; // a part of an axis
            }
            tile *= axes[axis].1;
            order.push(axis);
        }
        if c.peek() == Some(b'p') {
            let priority = c.peek_word();
            c.advance(priority.len());
        }
        tiles.push(tile);
    }
    if order.is_empty() {
        return Some("{replicated}".to_string());
    }
    let rest: Vec<usize> = (0..axes.len()).filter(|a| !order.contains(a)).collect();
    let replicated: u64 = rest.iter().map(|a| axes[*a].1).product();
    order.extend(rest);
    let list = |v: &[String]| v.join(",");
    let names: Vec<String> =
        tiles.iter().map(u64::to_string).chain((replicated > 1).then(|| replicated.to_string())).collect();
    let devices = if order.is_sorted() {
        format!("[{}]", axes.iter().map(|a| a.1).product::<u64>())
    } else {
        let sizes: Vec<String> = axes.iter().map(|a| a.1.to_string()).collect();
        let order: Vec<String> = order.iter().map(usize::to_string).collect();
        format!("[{}]T({})", list(&sizes), list(&order))
    };
    let tail = if replicated > 1 { " last_tile_dim_replicate" } else { "" };
    Some(format!("{{devices=[{}]<={devices}{tail}}}", list(&names)))
}

/// The value with a sharding that it must have.
pub(super) fn annotate<'a>(
    l: &mut Lower<'a, '_>,
    body: &mut Body<'a>,
    x: NodeId,
    sharding: &Annotation,
) -> PResult<NodeId> {
    let op =
        Op::CustomCall { target: "Sharding".into(), config: String::new(), has_side_effect: false, calls: Vec::new() };
    let shape = body.b.shape(x).clone();
    let made = body.b.add_shaped(op, &[x], shape, &l.module);
    let id = made.map_err(|e| Box::new(systole_hlo::diag::Diagnostic::error(body.b.span, e.message)))?;
    sharding.attach(body, id);
    Ok(id)
}

/// `sdy.sharding_constraint %x <@mesh, [..]>`
pub(super) fn constraint(s: &mut Site<'_, '_, '_>, args: &[NodeId]) -> Lowered {
    let o = s.o;
    let [x] = args else { return Err(o.error("the operation takes one operand")) };
    match o.get(&["angles", "sharding"]) {
        Some(Attr::Dialect(_, inside)) => {
            let sharding = Annotation::of_shardy(*inside, s.l.raw, s.l.text);
            Ok(Some(vec![annotate(s.l, s.body, *x, &sharding)?]))
        }
        _ => Err(o.error("the operation lacks its sharding")),
    }
}

/// The form of HLO text: global to local, a call of the body, local to global.
pub(super) fn manual(s: &mut Site<'_, '_, '_>, args: &[NodeId]) -> Lowered {
    let o = s.o;
    let Some(region) = o.regions.first() else { return Err(o.error("the operation lacks its body")) };
    let captures = s.l.captures(s.body, region);
    if let Some((name, ..)) = captures.values.first() {
        return Err(o.error(format!("`%{name}` comes from outside of the manual computation")));
    }
    let callee = s.region(region, &captures, Frame::Plain)?;
    let whole = |key: &str| {
        let span = o.attributes.iter().find(|a| a.0 == key).map(|a| a.2);
        let text = span.map_or("", |at| Cursor::over(s.l.text, at).rest());
        text.split_once('=').map_or("", |t| t.1).trim().replace('"', "\\\"")
    };
    let axes = format!("xla.sdy.manual_axes=\"#sdy<manual_axes{}>\"", whole("manual_axes"));
    let shardings = |key: &str| format!("xla.sdy.{key}=\"#sdy.sharding_per_value<{}>\"", whole(key));
    let (ins, outs) =
        (format!("{{{},{axes}}}", shardings("in_shardings")), format!("{{{axes},{}}}", shardings("out_shardings")));
    let local: Vec<Shape> = region.args.iter().map(|a| a.1.clone()).collect();
    let inputs = convert(s, "xla.sdy.GlobalToLocalShape", args, local, &ins)?;
    let call = s.infer(Op::Call { body: callee }, &inputs)?;
    s.body.b.attribute(call, "frontend_attributes", "{inlineable=\"false\"}");
    let results = if o.result_types.len() == 1 { vec![call] } else { s.parts(call)? };
    Ok(Some(convert(s, "xla.sdy.LocalToGlobalShape", &results, o.result_types.clone(), &outs)?))
}

fn convert(
    s: &mut Site<'_, '_, '_>,
    target: &str,
    args: &[NodeId],
    shapes: Vec<Shape>,
    attributes: &str,
) -> PResult<Vec<NodeId>> {
    let op = Op::CustomCall { target: target.into(), config: String::new(), has_side_effect: true, calls: Vec::new() };
    let single = shapes.len() == 1;
    let shape = if single { shapes[0].clone() } else { Shape::Tuple(shapes) };
    let id = s.add(op, args, shape)?;
    s.body.b.attribute(id, "frontend_attributes", attributes);
    if single { Ok(vec![id]) } else { s.parts(id) }
}
