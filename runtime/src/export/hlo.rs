//! The program as XProf's pages read it: operations as HLO instructions, arrays as a buffer assignment.

use super::proto::hlo::*;
use crate::profile::{Memory, OpInfo, Profile};
use std::collections::{BTreeMap, HashMap};

/// Numbers of element types in HLO messages.
#[rustfmt::skip]
const TYPES: &[(&str, i32)] = &[
    ("pred", 1), ("s8", 2), ("s16", 3), ("s32", 4), ("s64", 5), ("u8", 6), ("u16", 7), ("u32", 8), ("u64", 9),
    ("f16", 10), ("f32", 11), ("f64", 12), ("c64", 15), ("bf16", 16), ("c128", 18), ("f8e5m2", 19), ("f8e4m3fn", 20),
];
const TUPLE: i32 = 13;
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

/// Names of files that a line of the source was made from, if it says: `(file, line)`.
pub fn origin(p: &Profile, op: &OpInfo) -> (String, u32) {
    let quoted = |text: &str, key: &str| {
        let at = text.find(key)? + key.len();
        text[at..].split('"').next().map(str::to_string)
    };
    let text = p.line(op).unwrap_or("");
    if let Some(file) = quoted(text, "source_file=\"") {
        let line = text.split("source_line=").nth(1).map_or("", |t| t);
        let digits: String = line.chars().take_while(char::is_ascii_digit).collect();
        return (file, digits.parse().unwrap_or(0));
    }
    (p.meta.program.clone(), op.line)
}

/// The name that the framework gave an operation, if its text says.
pub fn framework_name(p: &Profile, op: &OpInfo) -> String {
    let text = p.line(op).unwrap_or("");
    let found = text.split_once("op_name=\"").and_then(|t| t.1.split('"').next());
    found.map_or_else(|| op.name.clone(), str::to_string)
}

/// The message for module `id`.
pub fn message(p: &Profile, id: i64) -> HloProto {
    let mut instructions = Vec::new();
    for (i, op) in p.meta.ops.iter().enumerate() {
        let (source_file, source_line) = origin(p, op);
        let op_name = framework_name(p, op);
        instructions.push(HloInstruction {
            name: op.name.clone(),
            opcode: op.opcode.clone(),
            shape: Some(shape(&text(p, op)).unwrap_or_else(|| flat(4))),
            metadata: Some(OpMetadata {
                op_type: op.opcode.clone(),
                op_name,
                source_file,
                source_line: source_line as i32,
            }),
            id: i as i64 + 1,
            ..HloInstruction::default()
        });
    }
    let buffers = assignment(p, &mut instructions);
    let root = instructions.len() as i64 + 1;
    let empty = Shape { element_type: TUPLE, ..Shape::default() };
    instructions.push(HloInstruction {
        name: "end.of.program".into(),
        opcode: "tuple".into(),
        shape: Some(empty.clone()),
        id: root,
        ..HloInstruction::default()
    });
    let shape = ProgramShape { result: Some(empty), ..ProgramShape::default() };
    let sequence = Sequence { instruction_ids: (1..=root).collect() };
    let computation =
        HloComputation { name: "main".into(), instructions, program_shape: Some(shape.clone()), id: 1, root_id: root };
    HloProto {
        hlo_module: Some(HloModule {
            name: p.meta.module.clone(),
            entry_computation_name: "main".into(),
            computations: vec![computation],
            host_program_shape: Some(shape),
            id,
            entry_computation_id: 1,
            schedule: Some(Schedule { sequences: BTreeMap::from([(1, sequence)]) }),
        }),
        buffer_assignment: Some(buffers),
    }
}

/// Arrays in memories as allocations, one for each memory, with a trace of when they are taken and given back.
fn assignment(p: &Profile, instructions: &mut Vec<HloInstruction>) -> BufferAssignment {
    let mut out = BufferAssignment::default();
    let mut known: HashMap<String, i64> = instructions.iter().map(|i| (i.name.clone(), i.id)).collect();
    for (index, memory) in [Memory::Hbm, Memory::Vmem].into_iter().enumerate() {
        let mut allocation =
            BufferAllocation { index: index as i64, color: index as i64, ..BufferAllocation::default() };
        // At the same cycle what ends goes first.
        let mut changes: Vec<(u64, i32, i64, String)> = Vec::new();
        for b in p.meta.buffers.iter().filter(|b| b.memory == memory) {
            let id = out.logical_buffers.len() as i64 + 1;
            let instruction = *known.entry(b.name.clone()).or_insert_with(|| {
                let id = instructions.len() as i64 + 1;
                let opcode = "parameter".to_string();
                instructions.push(HloInstruction {
                    name: b.name.clone(),
                    opcode,
                    shape: Some(flat(b.bytes)),
                    parameter_number: id,
                    id,
                    ..HloInstruction::default()
                });
                id
            });
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
            computation_name: "main".into(),
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
