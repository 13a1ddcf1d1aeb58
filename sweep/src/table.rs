//! The table of a sweep: a row for every point, with counters, prices and what follows.

use crate::bad;
use crate::front::{Design, mark};
use crate::numbers::{NUMBERS, Numbers};
use crate::outcome::{Counters, Outcome};
use crate::plan::{Case, Plan, Point};
use crate::spec::{Objective, Spec};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use systole_isa::ChipConfig;
use systole_runtime::RuntimeError;
use systole_runtime::cost::{self, Prices, draws, energy};

/// A row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    #[serde(flatten)]
    pub case: Case,
    /// `ok`, `failed` or `missing`.
    pub status: &'static str,
    pub reason: String,
    pub bound: String,
    /// Constraints that the design breaks, in words.
    pub broken: Vec<String>,
    /// No other design is better in all objectives.
    pub front: bool,
    pub numbers: Numbers,
}

impl Row {
    /// Whether it has numbers and breaks no constraint.
    pub fn feasible(&self) -> bool {
        self.status == "ok" && self.broken.is_empty()
    }
}

/// The table of a sweep.
pub struct Table {
    pub rows: Vec<Row>,
    pub designs: Vec<Design>,
    pub objectives: Vec<Objective>,
    /// Keys of parameters and options that differ between points.
    pub keys: Vec<String>,
    /// Rows that each constraint removed.
    pub removed: BTreeMap<String, usize>,
}

/// Draws of the front's uncertainty.
pub const FRONT_DRAWS: usize = draws::FEW;

/// The numbers of a run with prices.
fn price(chip: &ChipConfig, c: &Counters, prices: &Prices) -> Numbers {
    let time_s = chip.seconds(c.cycles);
    let e = energy::energy(chip, &c.work, time_s, c.devices, prices);
    let chips = f64::from(c.devices) / f64::from(chip.devices_per_chip().max(1));
    let idle_w = energy::idle_power(chip, prices);
    let power_w = if time_s > 0.0 { e.total() / time_s / chips } else { 0.0 };
    let area_mm2 = cost::Area::of(chip, prices).total();
    let flops = c.flops * f64::from(c.devices);
    let per_chip = f64::from(chip.devices_per_chip());
    let long = c.ops.iter().filter(|o| o.cycles * 1000 > c.cycles && o.cycles > 0);
    let hot = long.map(|o| idle_w + per_chip * energy::dynamic(chip, &o.work, prices).total() / chip.seconds(o.cycles));
    let rate = if time_s > 0.0 { flops / time_s / 1e9 } else { 0.0 };
    Numbers {
        cycles: c.cycles as f64,
        time_s,
        flops: c.flops,
        peak_share: c.flops / (c.cycles.max(1) as f64 * c.peak_per_cycle.max(1e-300)),
        hbm_share: c.busy.get("hbm").copied().unwrap_or(0.0),
        mxu_busy: c.busy.get("mxu").copied().unwrap_or(0.0),
        vpu_busy: c.busy.get("valu").copied().unwrap_or(0.0),
        energy_j: e.total(),
        power_w,
        peak_power_w: hot.fold(power_w, f64::max),
        idle_w,
        pj_per_flop: if flops > 0.0 { e.total() * 1e12 / flops } else { 0.0 },
        edp_js: e.total() * time_s,
        gflops_per_w: rate / (power_w * chips).max(1e-300),
        gflops_per_mm2: rate / (area_mm2 * chips).max(1e-300),
        area_mm2,
        hbm_bytes: c.work.traffic.hbm() as f64,
        link_bytes: c.work.link_bytes as f64,
        ..Numbers::default()
    }
}

/// Whether a column of a design with several programs is the sum of theirs.
fn adds_up(column: &str) -> bool {
    matches!(
        column,
        "cycles" | "time_s" | "flops" | "energy_j" | "energy_low_j" | "energy_high_j" | "hbm_bytes" | "link_bytes"
    )
}

/// Other prices: overrides of every chip.
fn repriced(mut chip: ChipConfig, sets: &[String]) -> Result<ChipConfig, RuntimeError> {
    if let Some(s) = sets.iter().find(|s| !s.starts_with("costs.")) {
        return Err(bad(format!("{s}: only `costs.` can change without a new run")));
    }
    chip.apply_sets(sets).map_err(|e| bad(e.to_string()))?;
    Ok(chip)
}

/// A row's numbers, in the chip file's prices and in every draw.
type Priced = (Numbers, Vec<Numbers>);

fn priced(chip: &ChipConfig, c: &Counters) -> Priced {
    let mut n = price(chip, c, &Prices::of(chip));
    let all: Vec<Numbers> = draws::few(chip).iter().map(|p| price(chip, c, p)).collect();
    let spread = |f: fn(&Numbers) -> f64| draws::percentiles(all.iter().map(f).collect());
    [n.energy_low_j, _, n.energy_high_j] = spread(|n| n.energy_j);
    [n.area_low_mm2, _, n.area_high_mm2] = spread(|n| n.area_mm2);
    (n, all)
}

impl Table {
    /// Joins points with their results; `sets` are other prices.
    ///
    /// # Errors
    /// If the plan is damaged, or prices are wrong.
    pub fn new(
        spec: &Spec,
        plan: &Plan,
        results: &BTreeMap<String, Outcome>,
        sets: &[String],
    ) -> Result<Table, RuntimeError> {
        let mut rows = Vec::with_capacity(plan.points.len());
        let mut drawn = Vec::with_capacity(plan.points.len());
        for p in &plan.points {
            let (row, draws) = Table::row(spec, plan, p, results.get(&p.case.id), sets)?;
            rows.push(row);
            drawn.push(draws);
        }
        let mut removed = BTreeMap::new();
        for b in rows.iter().flat_map(|r: &Row| &r.broken) {
            let name = b.split(':').next().unwrap_or(b).to_string();
            *removed.entry(name).or_insert(0) += 1;
        }
        let keys = keys(plan);
        let mut designs = designs(spec, plan, &rows, &drawn);
        mark(&mut designs, &spec.objectives);
        for d in designs.iter().filter(|d| d.front) {
            d.rows.iter().for_each(|&r| rows[r].front = true);
        }
        Ok(Table { rows, designs, objectives: spec.objectives.clone(), keys, removed })
    }

    fn row(
        spec: &Spec,
        plan: &Plan,
        p: &Point,
        result: Option<&Outcome>,
        sets: &[String],
    ) -> Result<(Row, Vec<Numbers>), RuntimeError> {
        let mut row = Row {
            case: p.case.clone(),
            status: "missing",
            reason: String::new(),
            bound: String::new(),
            broken: Vec::new(),
            front: false,
            numbers: Numbers::default(),
        };
        let Some(outcome) = result else { return Ok((row, Vec::new())) };
        let Some(run) = &outcome.run else {
            row.status = "failed";
            row.reason = outcome.reason.clone().unwrap_or_default();
            return Ok((row, Vec::new()));
        };
        let chip = repriced(p.chip(plan.base(p)?)?, sets)?;
        let (numbers, drawn) = priced(&chip, run);
        row.status = "ok";
        row.bound.clone_from(&run.bound);
        let prices = Prices::of(&chip);
        let area = cost::Area::of(&chip, &prices);
        for c in area.constraints(&prices, numbers.peak_power_w).into_iter().filter(|c| !c.holds()) {
            row.broken.push(format!("{}: {:.2} of {:.2} {}", c.name, c.have, c.limit, c.unit));
        }
        for (text, expr) in &spec.constraints {
            let value = |n: &str| numbers.get(n).or_else(|| p.case.sets.get(n).and_then(|v| crate::spec::number(n, v)));
            let holds = expr.eval(&value).map_err(|e| bad(format!("constraint `{text}`: {e}")))?;
            if holds == 0.0 {
                row.broken.push(text.clone());
            }
        }
        row.numbers = numbers;
        Ok((row, drawn))
    }

    /// The table as CSV.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn csv(&self) -> Result<Vec<u8>, RuntimeError> {
        let mut w = csv::Writer::from_writer(Vec::new());
        let fail = |e: csv::Error| bad(format!("table: {e}"));
        let fixed = ["id", "program", "chip"];
        let after = ["status", "reason", "bound", "broken", "front"];
        let head = fixed.into_iter().chain(self.keys.iter().map(String::as_str));
        let head: Vec<&str> = head.chain(after).chain(NUMBERS.iter().map(|n| n.0)).collect();
        w.write_record(&head).map_err(fail)?;
        for r in &self.rows {
            let mut record = vec![r.case.id.clone(), r.case.program.clone(), r.case.chip.clone()];
            let own = |k: &String| r.case.value(k).cloned().unwrap_or_default();
            record.extend(self.keys.iter().map(own));
            let front = if r.front { "1" } else { "0" };
            record.extend([r.status.into(), r.reason.clone(), r.bound.clone(), r.broken.join("; "), front.into()]);
            let number = |n: &(&str, &str)| match r.status {
                "ok" => r.numbers.get(n.0).map(|x| format!("{x}")).unwrap_or_default(),
                _ => String::new(),
            };
            record.extend(NUMBERS.iter().map(number));
            w.write_record(&record).map_err(fail)?;
        }
        w.into_inner().map_err(|e| bad(format!("table: {e}")))
    }

    /// The table as JSON: the rows.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn json(&self) -> Result<Vec<u8>, RuntimeError> {
        serde_json::to_vec_pretty(&self.rows).map_err(|e| bad(format!("table: {e}")))
    }

    /// Rows by status: done, failed, missing.
    pub fn counts(&self) -> (usize, usize, usize) {
        let of = |s: &str| self.rows.iter().filter(|r| r.status == s).count();
        (of("ok"), of("failed"), of("missing"))
    }
}

/// Parameters and options that not all points have alike.
fn keys(plan: &Plan) -> Vec<String> {
    let all: BTreeSet<&String> =
        plan.points.iter().flat_map(|p| p.case.sets.keys().chain(p.case.options.keys())).collect();
    all.into_iter().cloned().collect()
}

fn designs(spec: &Spec, plan: &Plan, rows: &[Row], drawn: &[Vec<Numbers>]) -> Vec<Design> {
    let mut by: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    for (i, p) in plan.points.iter().enumerate() {
        by.entry(p.design()).or_default().push(i);
    }
    let mut all: Vec<Vec<usize>> = by.into_values().collect();
    all.sort();
    let combine = |column: &str, of: &mut dyn Iterator<Item = f64>| {
        let values: Vec<f64> = of.collect();
        let sum: f64 = values.iter().sum();
        if adds_up(column) { sum } else { sum / values.len().max(1) as f64 }
    };
    let make = |places: Vec<usize>| {
        let feasible = places.iter().all(|&i| rows[i].feasible());
        let value =
            |o: &Objective| combine(&o.column, &mut places.iter().filter_map(|&i| rows[i].numbers.get(&o.column)));
        let values = spec.objectives.iter().map(value).collect();
        let draws = if feasible { FRONT_DRAWS } else { 0 };
        let draw = |d: usize| {
            let one =
                |o: &Objective| combine(&o.column, &mut places.iter().filter_map(|&i| drawn[i][d].get(&o.column)));
            spec.objectives.iter().map(one).collect()
        };
        let draws = (0..draws).map(draw).collect();
        Design { rows: places, values, draws, feasible, front: false, perhaps: false }
    };
    all.into_iter().map(make).collect()
}
