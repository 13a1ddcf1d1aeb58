//! What the words of reports mean: units, causes of waits, what bounds, columns. One place for the page (`--explain`), the
//! dashboard (`?`) and the page of HTML.

use super::Report;
use super::bound;
use systole_simulator::stats::{CAUSE_TABLE, UNIT_TABLE};

/// Words of columns and totals.
pub const WORDS: &[(&str, &str)] = &[
    (
        "useful",
        "cycles of work that the program needs, over what the unit could do; padding and repeated passes are not",
    ),
    ("busy", "cycles in which the unit works; a copy in progress keeps dma busy even while it waits for HBM"),
    ("stalled", "cycles in which no bundle issues and the waiting bundle needs the unit; each has one cause"),
    ("idle", "the rest: nothing asks for the unit"),
    ("flop", "two for each multiply-add of dots and convolutions, real taps only, once for each execution"),
    (
        "peak",
        "flops at one pass of their operand type on all matrix units of the device, every cycle (f64 and integers beyond 8 bits: on \
         all vector ALUs)",
    ),
    ("times", "executions of the operation, over all rounds of loops"),
    ("cycles", "cycles in which the operation's own code ran or waited; those of all operations sum to the run's"),
    ("bound", "what would have to be better for the run, or the operation, to take less time"),
    ("members", "operations that one kernel computes together; only the last one's result goes to memory"),
    ("energy", "counts of the run times the chip's coefficients ([costs]), idle power over the run's time included"),
    ("useful energy", "multiply-adds and vector operations; those of matrix units only where the program needs them"),
    ("padding energy", "cells of matrix units that rows pass without a multiply-add of the program, and empty lanes"),
    ("weight load", "energy of shifting weights into matrix units"),
    ("movement", "energy of bytes between memories, links and the host"),
    ("control", "energy of issue, scalar work and descriptors"),
    ("idle power", "what the chip takes whatever it does: leakage and clocks, by area"),
    ("VMEM", "vector memory of a core: addresses taken by arrays"),
    ("CMEM", "common memory of the chip, nearer to the cores than HBM: bytes moved are whole bursts"),
    ("HBM", "memory of the device: bytes moved are whole bursts"),
];

/// Matrix units in the table of units.
const MXU: &str = "a matrix unit: busy while rows stream through its array";

/// The meaning of a unit's name.
pub fn unit(name: &str) -> &'static str {
    if name.starts_with("mxu") {
        return MXU;
    }
    UNIT_TABLE.iter().find(|u| u.0 == name).map_or("", |u| u.2)
}

/// The meaning of a cause's name.
pub fn cause(name: &str) -> &'static str {
    CAUSE_TABLE.iter().find(|c| c.1 == name).map_or("", |c| c.2)
}

/// The words that a report uses, with what they mean: columns, units, causes that occur, what bounds.
pub fn of(r: &Report) -> Vec<(String, String)> {
    let mut out: Vec<(String, String)> = WORDS.iter().map(|(w, m)| ((*w).to_string(), (*m).to_string())).collect();
    let mut units: Vec<&str> = r.units.iter().map(|u| u.unit.as_str()).collect();
    units.dedup();
    let mut seen_mxu = false;
    for u in units {
        let name = format!("unit {u}");
        // One matrix unit says what all are.
        let told = u.starts_with("mxu") && std::mem::replace(&mut seen_mxu, true);
        if told || out.iter().any(|o| o.0 == name) {
            continue;
        }
        out.push((name, unit(u).to_string()));
    }
    for (_, name, meaning) in CAUSE_TABLE.iter().skip(1) {
        if r.units.iter().any(|u| u.stall.get(*name).is_some_and(|n| *n > 0)) {
            out.push((format!("stalled by {name}"), (*meaning).to_string()));
        }
    }
    let bounds = std::iter::once(&r.bound).chain(r.ops.iter().map(|o| &o.bound));
    for m in bound::TABLE.iter().filter(|m| bounds.clone().any(|b| b == m.name)) {
        out.push((format!("bound {}", m.name), format!("{} (parameters: {})", m.words, m.parameters.join(", "))));
    }
    out
}

/// The words as lines of a page.
pub fn page(r: &Report) -> String {
    let words = of(r);
    let width = words.iter().map(|w| w.0.chars().count()).max().unwrap_or(0);
    words.iter().map(|(w, m)| format!("{w:<width$}  {m}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_and_cause_has_a_meaning() {
        for u in UNIT_TABLE.iter().map(|u| u.0).chain(["mxu0", "mxu3"]) {
            assert!(unit(u).len() > 4, "{u}");
        }
        for c in CAUSE_TABLE.iter().skip(1) {
            assert_eq!(cause(c.1), c.2);
            assert!(c.2.len() > 3);
        }
    }
}
