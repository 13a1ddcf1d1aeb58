//! The printed form of kernels: one instruction a line, control as indented blocks.
//!
//! ```text
//! kernel 1 `add` (s1, s2)
//!   loop 16 independent b0 b1 unroll 8
//!     v0 = v.ld s1, 0, 1    reads b0
//!     v.st v0, s2, 0, 1, m0    writes b1
//! ```

use super::{BufferRef, Item, Kernel, Trips, Unit};
use std::fmt::{self, Write};
use systole_isa::{Inst, Kind};

/// An operand as text: a register with the letter of its file, or a number.
pub fn operand(kind: Kind, value: i32) -> String {
    match kind {
        Kind::Sd | Kind::Su | Kind::Sm => format!("s{value}"),
        Kind::Vd | Kind::Vu => format!("v{value}"),
        Kind::Pd | Kind::Pu => format!("p{value}"),
        Kind::Md | Kind::Mu => format!("m{value}"),
        Kind::Target => format!("@{value}"),
        Kind::Desc => format!("desc{value}"),
        Kind::Sem => format!("sem{value}"),
        Kind::Mxu => format!("mxu{value}"),
        Kind::Xlu => format!("xlu{value}"),
        Kind::I32 | Kind::I20 | Kind::I16 | Kind::U8 | Kind::U4 | Kind::Fmt | Kind::F8 => value.to_string(),
    }
}

/// An instruction as text, its definition first.
pub fn instruction(inst: &Inst) -> String {
    let mut operands: Vec<String> = inst.iter().map(|(k, v)| operand(k, v)).collect();
    let defines =
        inst.op.info().operands.first().is_some_and(|o| matches!(o.kind, Kind::Sd | Kind::Vd | Kind::Pd | Kind::Md));
    let mut out = if defines { format!("{} = ", operands.remove(0)) } else { String::new() };
    out.push_str(inst.op.info().mnemonic);
    if !operands.is_empty() {
        out.push(' ');
        out.push_str(&operands.join(", "));
    }
    out
}

fn buffers(label: &str, list: &[BufferRef]) -> String {
    let names: Vec<String> = list.iter().map(|b| format!("b{}", b.0)).collect();
    if names.is_empty() { String::new() } else { format!("    {label} {}", names.join(" ")) }
}

fn items(out: &mut String, list: &[Item], depth: usize) -> fmt::Result {
    let pad = "  ".repeat(depth);
    for item in list {
        match item {
            Item::Inst(v) => {
                let (reads, writes) = (buffers("reads", &v.memory.reads), buffers("writes", &v.memory.writes));
                writeln!(out, "{pad}{}{reads}{writes}", instruction(&v.inst))?;
            }
            Item::Loop(l) => {
                let trips = match l.trips {
                    Trips::Static(n) => n.to_string(),
                    Trips::Dynamic(s) => format!("s{}", s.0),
                };
                let independent = buffers("independent", &l.hints.independent);
                writeln!(out, "{pad}loop {trips}{} unroll {}", independent.replace("    ", " "), l.hints.max_unroll)?;
                items(out, &l.body, depth + 1)?;
            }
            Item::If { cond, then, otherwise } => {
                writeln!(out, "{pad}if s{}", cond.0)?;
                items(out, then, depth + 1)?;
                if !otherwise.is_empty() {
                    writeln!(out, "{pad}else")?;
                    items(out, otherwise, depth + 1)?;
                }
            }
            Item::While { head, cond, body } => {
                writeln!(out, "{pad}while")?;
                items(out, head, depth + 1)?;
                writeln!(out, "{pad}do unless s{} is 0", cond.0)?;
                items(out, body, depth + 1)?;
            }
            Item::Call { kernel, args } => {
                let args: Vec<String> = args.iter().map(|a| format!("s{}", a.0)).collect();
                writeln!(out, "{pad}call {kernel} ({})", args.join(", "))?;
            }
            Item::Mark { debug_op } => writeln!(out, "{pad}op {debug_op}")?,
        }
    }
    Ok(())
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let params: Vec<String> = self.params.iter().map(|p| format!("s{}", p.0)).collect();
        writeln!(f, "`{}` ({})", self.name, params.join(", "))?;
        let mut out = String::new();
        items(&mut out, &self.body, 1)?;
        f.write_str(&out)
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, k) in self.kernels.iter().enumerate() {
            write!(f, "kernel {i} {k}")?;
        }
        Ok(())
    }
}
