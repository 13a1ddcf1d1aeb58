//! The program as XProf's pages read it: operations as HLO instructions, arrays as a buffer assignment.

use super::module::{self, Computations, TUPLE, TYPES};
use super::proto::hlo::*;
use crate::profile::{Memory, OpInfo, Profile};
use crate::source::{self, Source};
use std::collections::{BTreeMap, HashMap};
use systole_compiler::graph::Module;

const F32: i32 = 11;

/// The shape behind `=` in an instruction's text, where it is an array.
fn shape(text: &str) -> Option<Shape> {
    let after = text.split_once(" = ")?.1;
    let (name, rest) = after.split_once('[')?;
    let element_type = TYPES.iter().find(|t| t.0 == name)?.1;
    let dims = rest.split_once(']')?.0;
    let dimensions: Option<Vec<i64>> =
        dims.split(',').filter(|d| !d.is_empty()).map(|d| d.trim().parse().ok()).collect();
    let dimensions = dimensions?;
    let rank = dimensions.len() as i64;
    let layout = Some(Layout { minor_to_major: (0..rank).rev().collect(), memory_space: 0 });
    Some(Shape {
        element_type,
        is_dynamic_dimension: vec![false; rank as usize],
        dimensions,
        layout,
        ..Shape::default()
    })
}

fn flat(bytes: u64) -> Shape {
    let layout = Some(Layout { minor_to_major: vec![0], memory_space: 0 });
    let dimensions = vec![(bytes / 4).max(1) as i64];
    Shape { element_type: F32, dimensions, is_dynamic_dimension: vec![false], layout, ..Shape::default() }
}

/// An instruction's text for people: its line in the source, else what is known.
pub fn text(p: &Profile, op: &OpInfo) -> String {
    let line = p.line(op).map(|l| l.trim_start_matches("ROOT ").to_string());
    line.filter(|l| l.contains(&op.name)).unwrap_or_else(|| format!("{} = {}()", op.name, op.opcode))
}

/// File and line of the user's program that an operation comes from; else those of the module.
pub fn origin(p: &Profile, op: &OpInfo) -> (String, u32) {
    match op.origin.as_ref().filter(|o| !o.file.is_empty()) {
        Some(o) => (o.file.clone(), o.line),
        None => (p.setup().program.clone(), op.line),
    }
}

/// The name that the framework gave an operation, if its module says.
pub fn framework_name(op: &OpInfo) -> &str {
    op.origin.as_ref().map(|o| o.name.as_str()).filter(|n| !n.is_empty()).unwrap_or(&op.name)
}

/// The graph of the profile's source, if there is one that can be read.
fn graph(p: &Profile) -> Option<Module> {
    let mut warnings = Vec::new();
    let all = source::read(&p.setup().program, p.source.as_bytes(), &p.meta.chip, false, &mut warnings).ok()?;
    all.into_iter().find_map(|s| match s {
        Source::Module { module, .. } if module.name == p.setup().module => Some(*module),
        Source::Module { .. } | Source::Program(_) | Source::Plan(_) => None,
    })
}

/// The computations of the program: those of its source, or an empty one.
fn computations(p: &Profile) -> Computations {
    if let Some(m) = graph(p) {
        return module::computations(&m);
    }
    let empty = Shape { element_type: TUPLE, ..Shape::default() };
    let root = HloInstruction {
        name: "end.of.program".into(),
        opcode: "tuple".into(),
        shape: Some(empty.clone()),
        id: 1,
        ..HloInstruction::default()
    };
    let main = HloComputation {
        name: "main".into(),
        instructions: vec![root],
        program_shape: Some(ProgramShape { result: Some(empty), ..ProgramShape::default() }),
        id: 1,
        root_id: 1,
    };
    let sequence = Sequence { instruction_ids: vec![1] };
    Computations {
        all: vec![main],
        entry: 1,
        schedule: Schedule { sequences: BTreeMap::from([(1, sequence)]) },
        free: 2,
    }
}

/// The message for module `id`.
pub fn message(p: &Profile, id: i64) -> HloProto {
    let mut c = computations(p);
    let entry = c.all.iter().position(|x| x.id == c.entry).unwrap_or(0);
    let mut known: HashMap<String, i64> =
        c.all.iter().flat_map(|x| &x.instructions).map(|i| (i.name.clone(), i.id)).collect();
    // Operations that passes made, and arrays of no operation, are instructions of the entry that nothing uses.
    let mut added = Vec::new();
    let mut add = |name: &str, opcode: &str, shape: Shape| {
        let id = c.free;
        c.free += 1;
        let made = HloInstruction {
            name: name.to_string(),
            opcode: opcode.to_string(),
            shape: Some(shape),
            id,
            ..HloInstruction::default()
        };
        added.push(module::stand_in(made));
        id
    };
    for op in p.meta.ops.iter() {
        known
            .entry(op.name.clone())
            .or_insert_with(|| add(&op.name, &op.opcode, shape(&text(p, op)).unwrap_or_else(|| flat(4))));
    }
    for b in &p.meta.buffers {
        known.entry(b.name.clone()).or_insert_with(|| add(&b.name, "array", flat(b.bytes)));
    }
    if let Some(s) = c.schedule.sequences.get_mut(&c.entry) {
        s.instruction_ids.extend(added.iter().map(|i| i.id));
    }
    c.all[entry].instructions.extend(added);
    let ops: HashMap<&str, &OpInfo> = p.meta.ops.iter().map(|o| (o.name.as_str(), o)).collect();
    for i in c.all.iter_mut().flat_map(|x| &mut x.instructions) {
        if let Some(op) = ops.get(i.name.as_str()) {
            let (source_file, source_line) = origin(p, op);
            i.metadata = Some(OpMetadata {
                op_type: op.opcode.clone(),
                op_name: framework_name(op).to_string(),
                source_file,
                source_line: source_line as i32,
            });
        }
    }
    let name = c.all[entry].name.clone();
    HloProto {
        buffer_assignment: Some(assignment(p, &known, &name)),
        hlo_module: Some(HloModule {
            name: p.setup().module.clone(),
            entry_computation_name: name,
            host_program_shape: c.all[entry].program_shape.clone(),
            id,
            entry_computation_id: c.entry,
            computations: c.all,
            schedule: Some(c.schedule),
            ..HloModule::default()
        }),
    }
}

/// Arrays in memories as allocations, one for each memory, with a trace of when they are taken and given back.
fn assignment(p: &Profile, known: &HashMap<String, i64>, computation: &str) -> BufferAssignment {
    let mut out = BufferAssignment::default();
    for (index, memory) in [Memory::Hbm, Memory::Vmem].into_iter().enumerate() {
        let mut allocation =
            BufferAllocation { index: index as i64, color: index as i64, ..BufferAllocation::default() };
        // At the same cycle what ends goes first.
        let mut changes: Vec<(u64, i32, i64, String)> = Vec::new();
        for b in p.meta.buffers.iter().filter(|b| b.memory == memory) {
            let id = out.logical_buffers.len() as i64 + 1;
            let instruction = known.get(&b.name).copied().unwrap_or(0);
            let defined_at = Some(Location {
                instruction_name: b.name.clone(),
                shape_index: Vec::new(),
                instruction_id: instruction,
            });
            out.logical_buffers.push(LogicalBuffer { id, size: b.bytes as i64, defined_at, color: index as i64 });
            allocation.assigned.push(Assigned {
                logical_buffer_id: id,
                offset: b.address as i64,
                size: b.bytes as i64,
            });
            allocation.size = allocation.size.max((b.address + b.bytes) as i64);
            changes.push((b.from, 1, id, b.name.clone()));
            changes.push((b.to, 0, id, b.name.clone()));
        }
        changes.sort();
        let events = changes.into_iter().map(|(_, take, id, name)| HeapEvent {
            kind: 1 - take,
            buffer_id: id,
            computation_name: computation.to_string(),
            instruction_name: name,
        });
        let trace = HeapTrace {
            events: events.collect(),
            whole_module_simulation: true,
            buffer_allocation_index: index as i64,
        };
        out.heap_simulator_traces.push(trace);
        out.buffer_allocations.push(allocation);
    }
    out
}
