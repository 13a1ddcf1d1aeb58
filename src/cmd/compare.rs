//! `systole compare`: what two programs, plans or recorded runs do differently, and what that costs, operation by operation.

use crate::args::{ChipArgs, CompileArgs};
use crate::{output, session};
use std::collections::BTreeMap;
use std::fmt::Write;
use systole_compiler::plan::Plan;
use systole_compiler::plan::alone::called;
use systole_compiler::plan::text::describe;
use systole_runtime::profile::{self, diff, table};
use systole_runtime::{Mode, RunOptions, RuntimeError, generate};

/// Flags of `systole compare`.
#[derive(clap::Args)]
pub struct Args {
    /// HLO text, StableHLO text, a plan, a compiled program, or a recorded run
    first: String,
    /// What it is compared with, of the same kind or (but for recorded runs) another one
    second: String,
    /// A schedule for the second only
    #[arg(long, value_name = "FILE")]
    with_schedule: Option<String>,
    /// Operations in the table
    #[arg(long, default_value_t = table::TOP)]
    top: usize,
    #[command(flatten)]
    chip: ChipArgs,
    #[command(flatten)]
    compile: CompileArgs,
}

/// A program's cycles by operation, and how each is done where there is a plan.
struct Side {
    cycles: u64,
    ops: BTreeMap<String, u64>,
    how: BTreeMap<String, String>,
}

/// Runs the subcommand.
///
/// # Errors
/// Anything wrong with the request or the programs.
pub fn run(a: &Args) -> Result<(), RuntimeError> {
    let recorded = |path: &str| Ok::<_, RuntimeError>(profile::read(&output::read(path)?).ok());
    if let (Some(first), Some(second)) = (recorded(&a.first)?, recorded(&a.second)?) {
        return output::print(&diff::page(&first, &second, a.top));
    }
    let schedule = a.with_schedule.clone().or_else(|| a.compile.schedule.clone());
    let (one, two) =
        (side(&a.first, a, &a.compile)?, side(&a.second, a, &CompileArgs { schedule, ..a.compile.clone() })?);
    output::print(&page(&one, &two, a.top))
}

/// How the operations of a plan are done.
fn ways(plan: &Plan) -> BTreeMap<String, String> {
    let mut how = BTreeMap::new();
    for c in called(plan) {
        for op in c.ops {
            let Some(o) = plan.ops.get(op as usize) else { continue };
            let text: &mut String = how.entry(o.name.clone()).or_default();
            if !text.is_empty() {
                text.push_str("; ");
            }
            text.push_str(&describe(&plan.kernels[c.kernel].spec));
        }
    }
    how
}

fn side(path: &str, a: &Args, compile: &CompileArgs) -> Result<Side, RuntimeError> {
    let how = match session::open(path, &a.chip)? {
        o if matches!(o.source, systole_runtime::source::Source::Program(_)) => BTreeMap::new(),
        o => ways(&o.plan(path, compile)?.1),
    };
    let (client, program) = session::open(path, &a.chip)?.program(path, compile, Mode::TimingOnly, None)?;
    let inputs = generate::placeholders(&program, 0);
    let exe = client.load(program)?;
    let options = RunOptions::new(Mode::TimingOnly);
    let done = client.device(0).run_with(&exe, &inputs, &options, &mut systole_runtime::NoObserver)?;
    let mut ops: BTreeMap<String, u64> = BTreeMap::new();
    for o in &done.result.ops {
        let known = o.op.and_then(|op| exe.program.debug.ops.get(op as usize));
        let name = known.map_or("(no operation)", |d| d.name.as_str());
        *ops.entry(name.to_string()).or_default() += o.cycles;
    }
    Ok(Side { cycles: done.result.cycles, ops, how })
}

fn page(one: &Side, two: &Side, top: usize) -> String {
    let mut out = String::new();
    let change = |a: u64, b: u64| 100.0 * (b as f64 / a.max(1) as f64 - 1.0);
    let _ = writeln!(out, "cycles: {} and {} ({:+.1} %)", one.cycles, two.cycles, change(one.cycles, two.cycles));
    let names: std::collections::BTreeSet<&String> = one.ops.keys().chain(two.ops.keys()).collect();
    let of = |s: &Side, name: &str| s.ops.get(name).copied().unwrap_or(0);
    let mut rows: Vec<(&String, u64, u64)> = names.into_iter().map(|n| (n, of(one, n), of(two, n))).collect();
    rows.retain(|r| r.1 != r.2 || one.how.get(r.0) != two.how.get(r.0));
    rows.sort_by_key(|r| std::cmp::Reverse(r.1.abs_diff(r.2)));
    let more = rows.len().saturating_sub(top);
    for (name, a, b) in rows.into_iter().take(top) {
        let _ = writeln!(out, "{:>12} {a:>12} -> {b:<12} {name}", format!("{:+}", b as i64 - a as i64));
        let none = String::new();
        let (x, y) = (one.how.get(name).unwrap_or(&none), two.how.get(name).unwrap_or(&none));
        if x != y {
            let _ = writeln!(out, "{:>14}was {x}\n{:>14}is  {y}", "", "");
        }
    }
    if more > 0 {
        let _ = writeln!(out, "and {more} more (--top)");
    }
    out
}
