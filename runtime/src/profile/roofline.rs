//! Rooflines: what an operation's intensity allows, and what it reached.

use super::{DeviceMeta, OpRow, Profile};
use crate::report::rows::peak_flops_per_cycle;
use systole_isa::{DType, Topology};

/// An operation as a point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Index into the device's rows.
    pub row: usize,
    /// Flops per byte of HBM; infinite where none is moved.
    pub intensity: f64,
    /// Flops per cycle.
    pub rate: f64,
    /// Cycles.
    pub cycles: u64,
    /// The least of the roofs at its intensity.
    pub roof: f64,
}

/// A slanted roof: flops per cycle are at most `intensity` times this.
#[derive(Clone, Debug, PartialEq)]
pub struct Roof {
    pub name: &'static str,
    /// Bytes per cycle.
    pub bytes: f64,
}

/// The roofs of a device: HBM, vector memory, the links that its chip has in the pod.
pub fn roofs(p: &Profile, d: &DeviceMeta) -> Vec<Roof> {
    let c = &p.meta.chip;
    let vmem = c.vmem.read_ports as f64 * c.core.sublanes as f64 * c.row_bytes() as f64;
    let mut all = vec![Roof { name: "HBM", bytes: c.hbm_bytes_per_cycle() }, Roof { name: "VMEM", bytes: vmem }];
    let pod = p.meta.report.pod.as_ref().and_then(|r| Topology::printed(&r.topology, c.devices_per_chip().max(1)));
    let links = pod.map_or(0, |t| t.links(d.counts.chip));
    if links > 0 {
        all.push(Roof { name: "ICI", bytes: c.link_bytes_per_cycle() * links as f64 });
    }
    all
}

/// Peak flops per cycle: of the run's operand type with the highest peak.
pub fn peak(p: &Profile) -> f64 {
    let rates = p.meta.report.peaks.iter().map(|x| x.peak_flops_per_s / p.meta.chip.clock_hz);
    rates.fold(None, |most: Option<f64>, x| Some(most.map_or(x, |m| m.max(x)))).unwrap_or_else(|| own_peak(p, ""))
}

/// Peak flops per cycle of an operand type.
fn own_peak(p: &Profile, operand: &str) -> f64 {
    peak_flops_per_cycle(&p.meta.chip, DType::from_name(operand).unwrap_or(DType::BF16))
}

/// The point of an operation that computes and moves something.
pub fn point(p: &Profile, row: usize, o: &OpRow) -> Option<Point> {
    if o.cycles == 0 || o.flops <= 0.0 {
        return None;
    }
    let intensity = if o.bytes() == 0 { f64::INFINITY } else { o.flops / o.bytes() as f64 };
    let operand = p.row_op(o).map_or("", |i| i.operand.as_str());
    let roof = (intensity * p.meta.chip.hbm_bytes_per_cycle()).min(own_peak(p, operand));
    Some(Point { row, intensity, rate: o.flops / o.cycles as f64, cycles: o.cycles, roof })
}

/// All points of a device, longest operation first.
pub fn points(p: &Profile, d: &DeviceMeta) -> Vec<Point> {
    let mut all: Vec<Point> = d.ops.iter().enumerate().filter_map(|(i, o)| point(p, i, o)).collect();
    all.sort_by_key(|x| (std::cmp::Reverse(x.cycles), x.row));
    all
}
