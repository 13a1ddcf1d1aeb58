//! The report as a page of text.

use super::{Report, UnitReport};

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

/// A time with a unit: `8.20 us`.
pub fn time(seconds: f64) -> String {
    let steps = [(1.0, "s"), (1e-3, "ms"), (1e-6, "us")];
    match steps.iter().find(|s| seconds >= s.0) {
        Some((scale, unit)) => format!("{:.2} {unit}", seconds / scale),
        None => format!("{:.1} ns", seconds * 1e9),
    }
}

/// What bounds the run, in words.
pub fn bound_in_words(bound: &str) -> &'static str {
    match bound {
        "mxu" => "the matrix units: streaming rows, or waiting for their results",
        "vpu" => "the vector unit: arithmetic, loads and stores of registers",
        "xlu" => "the cross-lane unit: transposes, rotations, reductions across lanes",
        "hbm" => "HBM: bandwidth, or the latency of copies that nothing hides",
        "ici" => "the interconnect",
        "issue" => "the issue of instructions: latencies, slots, code fetch",
        "sync" => "synchronisation",
        "host" => "the host: the cost of the launch",
        _ => "unknown",
    }
}

fn percent(part: f64, cycles: u64) -> f64 {
    100.0 * part / cycles.max(1) as f64
}

/// The stalls of a unit, longest first: `hbm 12.5 %, mxu 3.0 %`.
fn stalls(u: &UnitReport, cycles: u64) -> String {
    let mut all: Vec<(&str, u64)> = u.stall.iter().map(|s| (*s.0, *s.1)).filter(|s| s.1 > 0).collect();
    all.sort_by_key(|s| (std::cmp::Reverse(s.1), s.0));
    let shown: Vec<String> = all.iter().map(|(c, n)| format!("{c} {:.1} %", percent(*n as f64, cycles))).collect();
    shown.join(", ")
}

/// The page: totals, what bounds the run, a line for each unit, the operations that take longest.
pub fn page(r: &Report) -> String {
    if r.cycles == 0 {
        return format!("{}: numbers only, no cycles ({} simulated)\n", r.chip, time(r.host.simulate_s));
    }
    let mut text = format!("{}: {} cycles, {} at {}Hz\n", r.chip, r.cycles, time(r.time_s), metric(r.clock_hz));
    text += &format!("  {}flop, {:.1} % of peak\n", metric(r.flops), r.peak_share * 100.0);
    text += &format!(
        "  HBM: {}B read, {}B written, {:.1} % of the bandwidth\n",
        metric(r.hbm.read_bytes as f64),
        metric(r.hbm.write_bytes as f64),
        r.hbm.share * 100.0
    );
    text += &format!("  bound by {}: {}\n", r.bound, bound_in_words(r.bound));
    text += &format!("\n{:<8} {:>8} {:>8} {:>8} {:>8}  stalled by\n", "unit", "useful", "busy", "stalled", "idle");
    let several = r.units.iter().any(|u| u.core != r.units[0].core);
    for u in &r.units {
        let name = if several { format!("{} {}", u.core, u.unit) } else { u.unit.clone() };
        let share = |part: f64| format!("{:.1} %", percent(part, r.cycles));
        let line = format!(
            "{:<8} {:>8} {:>8} {:>8} {:>8}  {}",
            name,
            share(u.useful),
            share(u.busy as f64),
            share(u.stall.values().sum::<u64>() as f64),
            share(u.idle as f64),
            stalls(u, r.cycles)
        );
        text += line.trim_end();
        text.push('\n');
    }
    text + &operations(r) + &crate::cost::energy_page(&r.energy, &r.area) + &host(r)
}

/// The operations that take longest.
fn operations(r: &Report) -> String {
    let mut ops: Vec<&super::OpReport> = r.ops.iter().filter(|o| o.cycles > 0).collect();
    ops.sort_by_key(|o| (std::cmp::Reverse(o.cycles), o.start));
    let mut text = format!("\n{:<28} {:<16} {:>12} {:>7}  bound\n", "operation", "opcode", "cycles", "share");
    for o in ops.iter().take(TOP) {
        let name: String = o.name.chars().take(28).collect();
        let share = percent(o.cycles as f64, r.cycles);
        text += &format!("{name:<28} {:<16} {:>12} {share:>5.1} %  {}\n", o.opcode, o.cycles, o.bound);
    }
    if ops.len() > TOP {
        let rest: u64 = ops[TOP..].iter().map(|o| o.cycles).sum();
        let share = percent(rest as f64, r.cycles);
        text += &format!("{:<45} {rest:>12} {share:>5.1} %\n", format!("{} more", ops.len() - TOP));
    }
    text
}

/// What the host spent.
fn host(r: &Report) -> String {
    let h = &r.host;
    format!(
        "\nhost: read {}, compiled {}, simulated {} ({}cycles/s)\n",
        time(h.parse_s),
        time(h.compile_s),
        time(h.simulate_s),
        metric(h.cycles_per_s)
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
