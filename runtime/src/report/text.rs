//! The report as a page of text.

use super::{Report, UnitReport};
use crate::percent::{push_percent, push_shares};

/// Operations that the page shows.
const TOP: usize = 12;

/// A number with a metric prefix: `1.25 M`.
pub fn metric(v: f64) -> String {
    let steps = [(1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    match steps.iter().find(|s| v >= s.0) {
        Some((scale, prefix)) => format!("{:.2} {prefix}", v / scale),
        None => format!("{v:.0} "),
    }
}

/// A number in few characters; `-` for one that is not finite.
pub fn short(x: f64) -> String {
    let a = x.abs();
    if !x.is_finite() {
        return "-".into();
    }
    if a == 0.0 {
        return "0".into();
    }
    let steps = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "u"), (1e-9, "n")];
    let (scale, prefix) = steps.iter().find(|s| a >= s.0).copied().unwrap_or((1e-12, "p"));
    let v = x / scale;
    let digits = if v.abs() >= 100.0 {
        0
    } else if v.abs() >= 10.0 {
        1
    } else {
        2
    };
    format!("{v:.digits$}{prefix}")
}

/// A time with a unit: `8.20 us`.
pub fn time(seconds: f64) -> String {
    let steps = [(1.0, "s"), (1e-3, "ms"), (1e-6, "us")];
    match steps.iter().find(|s| seconds >= s.0) {
        Some((scale, unit)) => format!("{:.2} {unit}", seconds / scale),
        None => format!("{:.1} ns", seconds * 1e9),
    }
}

fn percent(part: f64, cycles: u64) -> f64 {
    100.0 * part / cycles.max(1) as f64
}

/// Appends the stalls of a unit, longest first.
fn push_stalls(text: &mut String, u: &UnitReport, cycles: u64) {
    let mut all: Vec<(&str, u64)> = u.stall.iter().map(|s| (&**s.0, *s.1)).filter(|s| s.1 > 0).collect();
    all.sort_by_key(|s| (std::cmp::Reverse(s.1), s.0));
    push_shares(text, all.into_iter().map(|(cause, n)| (cause, percent(n as f64, cycles))));
}

/// Appends a column of the width of `blank`, which `fill` writes, behind a space.
fn push_column(text: &mut String, blank: &str, fill: impl FnOnce(&mut String)) {
    text.push(' ');
    let begin = text.len();
    fill(text);
    let missing = blank.len().saturating_sub(text.len() - begin);
    text.insert_str(begin, &blank[..missing]);
}

/// The share of the peak with what peak that is: `41.2 % of peak (bf16: 197 Tflop/s)`.
pub fn peak(r: &Report) -> String {
    let total = format!("{:.1} % of peak", r.peak_share * 100.0);
    let one = |p: &super::PeakReport| match r.peaks.len() {
        1 => format!("{}: {}flop/s", p.operand, metric(p.peak_flops_per_s)),
        _ => format!("{} {:.1} % of {}flop/s", p.operand, p.share * 100.0, metric(p.peak_flops_per_s)),
    };
    match r.peaks.is_empty() {
        true => total,
        false => format!("{total} ({})", r.peaks.iter().map(one).collect::<Vec<_>>().join(", ")),
    }
}

/// Devices that ran it.
pub fn devices(r: &Report) -> u32 {
    r.pod.as_ref().map_or(1, |p| p.replicas.saturating_mul(p.partitions))
}

/// Whose counts those of a report are, where several devices ran.
pub fn whose(r: &Report) -> &'static str {
    if devices(r) > 1 { " a device" } else { "" }
}

/// The page: totals, what bounds the run, a line for each unit, the operations that take longest, what ran on what.
pub fn page(r: &Report) -> String {
    if r.cycles == 0 {
        let line = r.setup.line();
        return format!("{}: numbers only, no cycles ({} simulated)\n{line}\n", r.chip, time(r.host.simulate_s));
    }
    let mut text = format!("{}: {} cycles, {} at {}Hz\n", r.chip, r.cycles, time(r.time_s), metric(r.clock_hz));
    text += &format!("  {}flop{}, {}\n", metric(r.flops), whose(r), peak(r));
    text += &format!(
        "  HBM: {}B read, {}B written{}, {:.1} % of the bandwidth\n",
        metric(r.hbm.read_bytes as f64),
        metric(r.hbm.write_bytes as f64),
        whose(r),
        r.hbm.share * 100.0
    );
    if let Some(c) = r.cmem.as_ref().filter(|c| c.read_bytes + c.write_bytes > 0) {
        let (read, write) = (metric(c.read_bytes as f64), metric(c.write_bytes as f64));
        let share = c.share * 100.0;
        text += &format!("  CMEM: {read}B read, {write}B written{}, {share:.1} % of the bandwidth\n", whose(r));
    }
    text += &format!("  bound by {}: {}; {}\n", r.bound, r.bound_words, path(r));
    text += &entry(r);
    text += &units(r);
    text + &operations(r) + &lines(r) + &crate::cost::energy_page(&r.energy, &r.area, devices(r)) + &host(r)
}

/// Entry arrays that do not lie row-major in their own shapes: joined ones, and those of another order of dimensions.
fn entry(r: &Report) -> String {
    const SHOWN: usize = 3;
    let auto = r.setup.flags.iter().any(|f| f == "--entry-layout=auto");
    let line = |what: &str, all: Vec<&super::EntryReport>| {
        let one = |e: &&super::EntryReport| format!("{} {} as [{}]", e.name, e.shape, super::sizes(&e.lies_as));
        let mut shown: Vec<String> = all.iter().take(SHOWN).map(one).collect();
        if all.len() > SHOWN {
            shown.push(format!("{} more", all.len() - SHOWN));
        }
        if shown.is_empty() { String::new() } else { format!("  entry arrays {what}: {}\n", shown.join(", ")) }
    };
    if auto {
        return line("compact, chosen for the program", r.entry.iter().collect());
    }
    let (ordered, joined) = r.entry.iter().partition(|e| reordered(e));
    line("compact, by their shapes", joined) + &line("in the order of dimensions that the program states", ordered)
}

/// Whether an entry array has its own dimensions, in another order.
fn reordered(e: &super::EntryReport) -> bool {
    let own = e.shape.split_once('[').map_or("", |s| s.1.trim_end_matches(']'));
    let mut own: Vec<u64> = own.split(',').filter_map(|d| d.parse().ok()).collect();
    let mut lies = e.lies_as.clone();
    own.sort_unstable();
    lies.sort_unstable();
    own == lies
}

/// What the run's end depends on, in a line.
pub fn path(r: &Report) -> String {
    let p = &r.path;
    let parts = [
        ("HBM bandwidth", p.hbm),
        ("CMEM bandwidth", p.cmem),
        ("copy latency", p.latency),
        ("copy engines", p.dma),
        ("the interconnect", p.ici - p.peers),
        ("other devices", p.peers),
        ("the core", p.core),
    ];
    let shown = parts.iter().filter(|x| x.1 >= 0.0005 * r.cycles as f64);
    let text = shown.map(|(name, c)| format!("{name} {:.1} %", 100.0 * c / r.cycles.max(1) as f64));
    let next = match p.next.as_str() {
        "" => String::new(),
        next => format!("; next {next}, {:.1} % of the time by itself", percent(p.next_cycles, r.cycles)),
    };
    format!("on the way to its end: {}{next}", text.collect::<Vec<_>>().join(", "))
}

/// A line for each unit.
fn units(r: &Report) -> String {
    let mut text =
        format!("\n{:<8} {:>8} {:>8} {:>8} {:>8}  stalled by\n", "unit", "useful", "busy", "stalled", "idle");
    let several = r.units.iter().any(|u| u.core != r.units[0].core);
    for u in &r.units {
        match several {
            true => text += &format!("{:<8}", format!("{} {}", u.core, u.unit)),
            false => text += &format!("{:<8}", u.unit),
        }
        let stalled = u.stall.values().sum::<u64>();
        for part in [u.useful, u.busy as f64, stalled as f64, u.idle as f64] {
            push_column(&mut text, "        ", |text| push_percent(text, percent(part, r.cycles)));
        }
        if stalled > 0 {
            text += "  ";
            push_stalls(&mut text, u, r.cycles);
        }
        text.push('\n');
    }
    text
}

/// What else a kernel computes, and where it comes from: `  + tanh, add  model.py:12`.
pub fn more(o: &super::OpReport) -> String {
    const SHOWN: usize = 4;
    let mut text = String::new();
    // Broadcasts and reshapes of a kernel are how it reads its operands.
    let real = o.members.iter().filter(|m| !["broadcast", "reshape", "convert", "iota"].contains(&m.opcode.as_str()));
    let mut names: Vec<&str> = real.map(|m| m.opcode.as_str()).collect();
    let count = names.len();
    names.truncate(SHOWN);
    if count > 0 {
        let rest = if count > SHOWN { format!(" and {} more", count - SHOWN) } else { String::new() };
        text += &format!("  + {}{rest}", names.join(", "));
    }
    if let Some(place) = o.origin.as_ref().filter(|p| !p.file.is_empty()) {
        let file = place.file.rsplit('/').next().unwrap_or("");
        text += &format!("  {file}:{}", place.line);
    }
    text
}

/// The operations that take longest.
fn operations(r: &Report) -> String {
    let mut ops: Vec<&super::OpReport> = r.ops.iter().filter(|o| o.cycles > 0).collect();
    ops.sort_by_key(|o| (std::cmp::Reverse(o.cycles), o.start));
    let mut text = format!("\n{:<28} {:<16} {:>12} {:>7}  bound\n", "operation", "opcode", "cycles", "share");
    for o in ops.iter().take(TOP) {
        let name: String = o.name.chars().take(28).collect();
        let share = percent(o.cycles as f64, r.cycles);
        text += &format!("{name:<28} {:<16} {:>12} {share:>5.1} %  {}{}\n", o.opcode, o.cycles, o.bound, more(o));
    }
    if ops.len() > TOP {
        let rest: u64 = ops[TOP..].iter().map(|o| o.cycles).sum();
        let share = percent(rest as f64, r.cycles);
        text += &format!("{:<45} {rest:>12} {share:>5.1} %\n", format!("{} more", ops.len() - TOP));
    }
    text
}

/// The lines of kernels that take longest, then what else is known of kernels.
pub fn lines(r: &Report) -> String {
    if r.lines.is_empty() {
        return String::new();
    }
    let mut text = format!("\n{:<36} {:>12} {:>7} {:>8}  part\n", "line of a kernel", "cycles", "share", "waited");
    for l in r.lines.iter().take(TOP) {
        let file = l.file.rsplit('/').next().unwrap_or("");
        let place = match l.function.is_empty() {
            true => format!("{file}:{}", l.line),
            false => format!("{file}:{} ({})", l.line, l.function),
        };
        let [share, waited] = [l.cycles, l.waited].map(|n| percent(n as f64, r.cycles));
        text += format!("{place:<36} {:>12} {share:>5.1} % {waited:>6.1} %  {}", l.cycles, l.part).trim_end();
        text.push('\n');
    }
    text + &regions(r) + &rooms(r) + &lint(r)
}

/// The regions that kernels name.
fn regions(r: &Report) -> String {
    let mut text = String::new();
    if !r.regions.is_empty() {
        text += &format!("\n{:<36} {:>12} {:>7} {:>8}\n", "region of a kernel", "cycles", "share", "waited");
    }
    for l in r.regions.iter().take(TOP) {
        let [share, waited] = [l.cycles, l.waited].map(|n| percent(n as f64, r.cycles));
        text += &format!("{:<36} {:>12} {share:>5.1} % {waited:>6.1} %\n", l.path.join("/"), l.cycles);
    }
    text
}

/// What kernels keep in vector memory.
fn rooms(r: &Report) -> String {
    let mut text = String::new();
    if !r.rooms.is_empty() {
        text += &format!("\n{:<36} {:>12}  what\n", "vector memory of a kernel", "bytes");
    }
    for l in r.rooms.iter().take(TOP) {
        text += &format!("{:<36} {:>12}  {}\n", l.kernel, l.bytes, l.what);
    }
    text
}

/// What holds kernels back.
fn lint(r: &Report) -> String {
    let mut text = String::new();
    for (i, l) in r.lint.iter().take(TOP).enumerate() {
        text += if i == 0 { "\n" } else { "" };
        let file = l.file.rsplit('/').next().unwrap_or("");
        text += &format!("{file}:{}: {}\n", l.line, l.text);
    }
    text
}

/// What the host spent, and what ran.
fn host(r: &Report) -> String {
    let h = &r.host;
    format!(
        "\nhost: read {}, compiled {}, simulated {} ({}cycles/s)\n{}\n",
        time(h.parse_s),
        time(h.compile_s),
        time(h.simulate_s),
        metric(h.cycles_per_s),
        r.setup.line()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_prefixes() {
        assert_eq!(metric(2_097_152.0), "2.10 M");
        assert_eq!(metric(12.0), "12 ");
        assert_eq!(time(8.2e-6), "8.20 us");
        assert_eq!(time(8.2e-8), "82.0 ns");
    }
}
