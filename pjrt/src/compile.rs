//! From what JAX hands over to a program on its devices.

use crate::client::{Client, MemoryKind};
use crate::error::Error;
use crate::executable::{Executable, Facts, Memories, Tokens};
use crate::options;
use crate::proto;
use crate::queue::on_large_stack;
use prost::Message;
use std::sync::Arc;
use systole_compiler::diag::line_col;
use systole_isa::ChipConfig;
use systole_isa::program::PodShape;
use systole_runtime::export::module::sharded_message;
use systole_runtime::origin::Origins;
use systole_runtime::source::{self, Source};
use systole_runtime::{CompileOptions, pod, spmd};

/// Compiles a program of a format that the interface names: `mlir`, `hlo`.
///
/// # Errors
/// What is wrong with the program, with its place in the user's Python where that is known.
pub fn compile(client: &'static Client, code: &[u8], format: &str, options: &[u8]) -> Result<Arc<Executable>, Error> {
    let (code, format, options) = (code.to_vec(), format.to_string(), options.to_vec());
    on_large_stack(move || compile_here(client, code, format, options))
}

fn compile_here(
    client: &'static Client,
    code: Vec<u8>,
    format: String,
    options: Vec<u8>,
) -> Result<Arc<Executable>, Error> {
    let asked = proto::CompileOptions::decode(&options[..]).map_err(|e| Error::invalid(e.to_string()))?;
    let build = asked.build.unwrap_or_default();
    let count = |n: i64| u32::try_from(n.max(1)).map_err(|_| Error::invalid("too many replicas or partitions"));
    let (replicas, partitions) = (count(build.num_replicas)?, count(build.num_partitions)?);
    let mut warnings = Vec::new();
    let chip = client.runtime.chip();
    let read = source::read_one("jax", &code, chip, false, &mut warnings).map_err(|e| located(e.into(), "", chip))?;
    let Source::Module { module, text } = read else { return Err(Error::invalid("a program of JAX is due")) };
    let mut o = CompileOptions { verify: false, ..CompileOptions::default() };
    options::apply(&mut o, &asked.overrides, chip)?;
    if (replicas, partitions) != (1, 1) {
        let topology = match &client.topology {
            Some(t) if t.devices() >= replicas * partitions => t.clone(),
            _ => pod::topology(None, chip, replicas * partitions)?,
        };
        o.asked.pod = PodShape { replicas, partitions, topology: Some(topology), ..PodShape::default() };
    }
    let name = module.name.clone();
    let (parameters, results) = signature(&text);
    let (donated, memories) = (donated(&parameters), memories(&parameters, &results)?);
    let tokens = Tokens::of(&module);
    let source = Source::Module { module, text: text.clone() };
    // Parameters that JAX says nothing of it takes to be on every device; results too, unless it asks.
    let free = build.free_results.contains(&true);
    let unsaid = if free { spmd::Unsaid::FreeResults } else { spmd::Unsaid::Replicated };
    let whole = spmd::partitioned(source, "jax", partitions, unsaid);
    let (source, parts) = whole.map_err(|e| located(e.into(), &text, chip))?;
    let partitioned = match &source {
        Source::Module { module, .. } if partitions > 1 => {
            sharded_message(module, parts.as_ref().map(|p| &p.boundary), (replicas, partitions))
        }
        Source::Module { .. } | Source::Program(_) | Source::Plan(_) => Vec::new(),
    };
    let program = client.runtime.compile_source(source, "jax", &o, None).map_err(|e| located(e.into(), &text, chip))?;
    let assigned = build.assignment.as_ref().map(proto::DeviceAssignment::ids).filter(|ids| !ids.is_empty());
    let devices = match assigned {
        _ if asked.portable => None,
        Some(ids) => Some(ids),
        None if build.device_ordinal >= 0 && replicas * partitions == 1 => Some(vec![build.device_ordinal as usize]),
        None => None,
    };
    let facts = Facts {
        name,
        replicas: replicas as usize,
        partitions: partitions as usize,
        devices,
        donated,
        tokens,
        memories,
        code,
        format,
        partitioned,
        options,
        text,
    };
    Executable::new(client, facts, program, Some(o))
}

/// What `main` says of its parameters and of its results, one text each.
pub fn signature(text: &str) -> (Vec<&str>, Vec<&str>) {
    let Some(start) = text.find("@main(").map(|i| i + "@main(".len()) else { return (Vec::new(), Vec::new()) };
    let (parameters, end) = listed(text, start);
    let behind = text[end..].find("-> (").filter(|at| text[end..end + at].trim_matches([')', ' ']).is_empty());
    (parameters, behind.map_or_else(Vec::new, |at| listed(text, end + at + "-> (".len()).0))
}

/// The parts between commas at the outermost level of brackets, up to the bracket that closes the list, and where that is.
fn listed(text: &str, start: usize) -> (Vec<&str>, usize) {
    let (mut depth, mut quoted, mut from, mut before, mut parts) = (0u32, false, start, ' ', Vec::new());
    for (i, c) in text[start..].char_indices() {
        match c {
            '"' if before != '\\' => quoted = !quoted,
            _ if quoted => {}
            '(' | '<' | '{' | '[' => depth += 1,
            // The head of an arrow closes nothing.
            '>' if before == '-' => {}
            ')' | '>' | '}' | ']' if depth == 0 => {
                parts.push(&text[from..start + i]);
                parts.retain(|p| !p.trim().is_empty());
                return (parts, start + i);
            }
            ')' | '>' | '}' | ']' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&text[from..start + i]);
                from = start + i + 1;
            }
            _ => {}
        }
        before = c;
    }
    (parts, text.len())
}

/// The parameters that the caller gives away: those with `tf.aliasing_output` or `jax.buffer_donor`.
pub fn donated(parameters: &[&str]) -> Vec<usize> {
    let given = |p: &str| p.contains("tf.aliasing_output") || p.contains("jax.buffer_donor = true");
    (0..parameters.len()).filter(|i| given(parameters[*i])).collect()
}

/// The memories that a signature says.
///
/// # Errors
/// One that the devices do not have.
pub fn memories(parameters: &[&str], results: &[&str]) -> Result<Memories, Error> {
    let kind = |said: &&str| {
        let Some((_, rest)) = said.split_once("mhlo.memory_kind = \"") else { return Ok(MemoryKind::default()) };
        let name = rest.split('"').next().unwrap_or_default();
        let known = MemoryKind::ALL.map(MemoryKind::name).join(", ");
        MemoryKind::named(name).ok_or_else(|| Error::invalid(format!("memory kind `{name}`: a device has {known}")))
    };
    let all = |list: &[&str]| list.iter().map(kind).collect::<Result<Vec<_>, _>>();
    Ok(Memories { parameters: all(parameters)?, results: all(results)? })
}

/// The error with the line of Python that the operation at fault comes from: the one whose place it shows, else one that it
/// names.
pub fn located(mut e: Error, text: &str, chip: &ChipConfig) -> Error {
    let shown = e.message.lines().find_map(|l| {
        let place = l.trim_start().strip_prefix("--> ")?;
        place.split(':').nth(1)?.parse::<usize>().ok()
    });
    let line = shown.or_else(|| named(&e.message, text, chip));
    if let Some(place) = line.and_then(|n| python(text, n)) {
        e.message = format!("{}\nin {place}", e.message.trim_end());
    }
    e
}

/// The line of the first operation that a message names between backticks. Passes add `-N` to the names of what they make
/// of an operation.
fn named(message: &str, text: &str, chip: &ChipConfig) -> Option<usize> {
    let names: Vec<&str> = message.split('`').skip(1).step_by(2).map(|n| n.trim_start_matches('%')).collect();
    if names.is_empty() {
        return None;
    }
    // The module was consumed by the compiler; it is read again only where something is wrong.
    let Source::Module { module, .. } = source::read_one("jax", text.as_bytes(), chip, false, &mut Vec::new()).ok()?
    else {
        return None;
    };
    let nodes = || module.computations.iter().flat_map(|c| &c.nodes);
    let origins = |name| std::iter::successors(Some(name), |n: &&str| n.rsplit_once('-').map(|(origin, _)| origin));
    let node = names.into_iter().flat_map(origins).find_map(|name| nodes().find(|n| n.name == name))?;
    Some(line_col(text, node.span.start).0)
}

/// Where in Python a line of the decoded program comes from: `jit(f)/add at train.py:12`.
pub fn python(text: &str, line: usize) -> Option<String> {
    let origin = Origins::new(text).of(u32::try_from(line).ok()?)?;
    Some(match (origin.name.is_empty(), origin.file.is_empty()) {
        (false, false) => format!("{} at {}:{}", origin.name, origin.file, origin.line),
        (true, false) => format!("{}:{}", origin.file, origin.line),
        (_, true) => origin.name,
    })
}
