//! The report of a sweep: one page of HTML that needs nothing else.

use crate::bad;
use crate::front::{Design, FrontKind};
use crate::numbers::NUMBERS;
use crate::outcome::Outcome;
use crate::plan::Plan;
use crate::sensitivity::{slices, tornado};
use crate::spec::Spec;
use crate::table::{Row, Table};
use std::collections::BTreeMap;
use std::fmt::Write;
use systole_runtime::RuntimeError;
use systole_runtime::cost::{Prices, draws, energy};
use systole_runtime::export::plot::escape;
use systole_runtime::report::text::short;

/// Width and height of pictures, and room for their axes.
const W: f64 = 760.0;
const H: f64 = 360.0;
const LEFT: f64 = 76.0;
const BOTTOM: f64 = 40.0;
const TOP: f64 = 14.0;
/// Rows of the page's table.
const SHOWN: usize = 500;

const STYLE: &str = "body{font:14px/1.45 system-ui,sans-serif;margin:2em auto;max-width:1100px;padding:0 1em;color:#1b2733}\
h1{font-size:1.5em}h2{font-size:1.15em;margin-top:2em}svg{max-width:100%;height:auto;background:#fff}table{border-collapse:\
collapse;font-size:12px}td,th{padding:2px 8px;border-bottom:1px solid #dde3e9;text-align:right;white-space:nowrap}td:first-child,\
th:first-child{text-align:left}.scroll{overflow-x:auto;max-height:480px}.dim{color:#66737f}.front{font-weight:600}.bad{color:#a33}\
text{font:11px system-ui,sans-serif;fill:#34414d}";

/// One axis: from values to places.
struct Axis {
    low: f64,
    high: f64,
    log: bool,
}

impl Axis {
    fn of(values: impl Iterator<Item = f64> + Clone) -> Axis {
        let finite = values.filter(|v| v.is_finite());
        let (mut low, mut high) =
            (finite.clone().fold(f64::INFINITY, f64::min), finite.fold(f64::NEG_INFINITY, f64::max));
        if !low.is_finite() || !high.is_finite() {
            (low, high) = (0.0, 1.0);
        }
        let log = low > 0.0 && high / low > 8.0;
        let pad = if high > low { 0.04 } else { 0.5 };
        if log {
            let width = (high / low).ln();
            return Axis { low: low * (-pad * width).exp(), high: high * (pad * width).exp(), log };
        }
        let width = if high > low { high - low } else { high.abs().max(1e-12) };
        Axis { low: low - pad * width, high: high + pad * width, log }
    }

    /// From 0 to 1.
    fn share(&self, v: f64) -> f64 {
        let (a, b, v) =
            if self.log { (self.low.ln(), self.high.ln(), v.max(1e-300).ln()) } else { (self.low, self.high, v) };
        ((v - a) / (b - a)).clamp(-0.05, 1.05)
    }

    fn ticks(&self) -> Vec<f64> {
        let at = |i: u32| f64::from(i) / 5.0;
        let value = |s: f64| match self.log {
            true => (self.low.ln() + s * (self.high.ln() - self.low.ln())).exp(),
            false => self.low + s * (self.high - self.low),
        };
        (0..=5).map(|i| value(at(i))).collect()
    }
}

/// A picture with axes.
struct Plot {
    svg: String,
    x: Axis,
    y: Axis,
}

impl Plot {
    fn new(x: Axis, y: Axis, names: (&str, &str)) -> Plot {
        let mut svg = format!("<svg viewBox=\"0 0 {W} {H}\" role=\"img\">");
        let (right, floor) = (W - 10.0, H - BOTTOM);
        let _ = write!(svg, "<path d=\"M{LEFT} {TOP}V{floor}H{right}\" fill=\"none\" stroke=\"#9aa7b3\"/>");
        let mut p = Plot { svg, x, y };
        for t in p.x.ticks() {
            let (px, text) = (p.px(t), short(t));
            let _ = write!(p.svg, "<text x=\"{px:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{text}</text>", floor + 14.0);
        }
        for t in p.y.ticks() {
            let (py, text) = (p.py(t), short(t));
            let _ =
                write!(p.svg, "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>", LEFT - 6.0, py + 4.0);
            let _ = write!(p.svg, "<path d=\"M{LEFT} {py:.1}H{right}\" stroke=\"#eef2f5\"/>");
        }
        let middle = (LEFT + right) / 2.0;
        let _ = write!(
            p.svg,
            "<text x=\"{middle}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            H - 6.0,
            escape(names.0)
        );
        let _ = write!(p.svg, "<text x=\"{LEFT}\" y=\"10\">{}</text>", escape(names.1));
        p
    }

    fn px(&self, v: f64) -> f64 {
        LEFT + self.x.share(v) * (W - 10.0 - LEFT)
    }

    fn py(&self, v: f64) -> f64 {
        H - BOTTOM - self.y.share(v) * (H - BOTTOM - TOP)
    }

    fn dot(&mut self, at: (f64, f64), radius: f64, color: &str, title: &str) {
        let (x, y) = (self.px(at.0), self.py(at.1));
        let _ = write!(
            self.svg,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\" fill=\"{color}\"><title>{}</title></circle>",
            escape(title)
        );
    }

    fn line(&mut self, points: &[(f64, f64)], color: &str) {
        let path: Vec<String> = points.iter().map(|p| format!("{:.1} {:.1}", self.px(p.0), self.py(p.1))).collect();
        if !path.is_empty() {
            let _ = write!(self.svg, "<path d=\"M{}\" fill=\"none\" stroke=\"{color}\"/>", path.join("L"));
        }
    }

    fn bar(&mut self, from: (f64, f64), to: (f64, f64), color: &str) {
        let (a, b) = ((self.px(from.0), self.py(from.1)), (self.px(to.0), self.py(to.1)));
        let _ = write!(
            self.svg,
            "<path d=\"M{:.1} {:.1}L{:.1} {:.1}\" stroke=\"{color}\" stroke-width=\"1\" opacity=\"0.6\"/>",
            a.0, a.1, b.0, b.1
        );
    }

    fn end(mut self) -> String {
        self.svg += "</svg>\n";
        self.svg
    }
}

/// A design in words.
fn describe(table: &Table, d: &Design) -> String {
    let row = &table.rows[d.rows[0]];
    let sets = row.case.changes().map(|(k, v)| format!("{k}={}", pretty(k, v)));
    let values = table.objectives.iter().zip(&d.values).map(|(o, v)| format!("{} {}", o.column, short(*v)));
    format!("{} {}: {}", row.case.chip, sets.collect::<Vec<_>>().join(" "), values.collect::<Vec<_>>().join(", "))
}

/// A parameter's value as people read it.
pub fn pretty(key: &str, text: &str) -> String {
    match crate::spec::number(key, text) {
        // It has a unit.
        Some(_) if text.parse::<f64>().is_err() => text.to_string(),
        Some(x) if x >= 1e4 || (x > 0.0 && x < 1e-2) => short(x),
        Some(_) | None => text.to_string(),
    }
}

/// The front of two objectives, with its uncertainty.
fn pareto(table: &Table, a: usize, b: usize) -> String {
    let able: Vec<&Design> = table.designs.iter().filter(|d| d.feasible).collect();
    let of = |i: usize| able.iter().map(move |d| d.values[i]).collect::<Vec<f64>>();
    let (xs, ys) = (of(a), of(b));
    let names = (table.objectives[a].column.as_str(), table.objectives[b].column.as_str());
    let mut p = Plot::new(Axis::of(xs.iter().copied()), Axis::of(ys.iter().copied()), names);
    let spread = |d: &Design, i: usize| draws::percentiles(d.draws.iter().map(|v| v[i]).collect());
    for d in able.iter().filter(|d| d.front) {
        let (x, y) = (spread(d, a), spread(d, b));
        p.bar((x[0], d.values[b]), (x[2], d.values[b]), "#2b6cb0");
        p.bar((d.values[a], y[0]), (d.values[a], y[2]), "#2b6cb0");
    }
    let mut order: Vec<&&Design> = able.iter().collect();
    order.sort_by_key(|d| d.kind());
    for d in order {
        let (radius, color) = match d.kind() {
            FrontKind::Dominated => (2.5, "#c3ccd4"),
            FrontKind::Perhaps => (3.0, "#e0a03b"),
            FrontKind::Front => (4.5, "#2b6cb0"),
        };
        p.dot((d.values[a], d.values[b]), radius, color, &describe(table, d));
    }
    p.end()
}

/// Every design as a line over parameters and objectives.
fn parallel(table: &Table) -> String {
    let number = |r: &Row, k: &str| {
        let text = r.case.value(k)?;
        crate::spec::number(k, text)
    };
    let varies = |k: &&String| {
        let mut all: Vec<u64> = table.rows.iter().filter_map(|r| number(r, k)).map(f64::to_bits).collect();
        all.sort_unstable();
        all.dedup();
        all.len() > 1
    };
    let keys: Vec<&String> = table.keys.iter().filter(varies).collect();
    let able: Vec<&Design> = table.designs.iter().filter(|d| d.feasible).collect();
    let at = |d: &Design, i: usize| match keys.get(i) {
        Some(k) => number(&table.rows[d.rows[0]], k),
        None => d.values.get(i - keys.len()).copied(),
    };
    let n = keys.len() + table.objectives.len();
    if n < 2 || able.is_empty() {
        return String::new();
    }
    let axes: Vec<Axis> =
        (0..n).map(|i| Axis::of(able.iter().filter_map(|d| at(d, i)).collect::<Vec<f64>>().into_iter())).collect();
    let (left, step) = (60.0, (W - 130.0) / (n - 1) as f64);
    let x = |i: usize| left + i as f64 * step;
    let y = |share: f64| H - 46.0 - share * (H - 80.0);
    let mut svg = format!("<svg viewBox=\"0 0 {W} {H}\" role=\"img\">");
    let mut order = able.clone();
    order.sort_by_key(|d| d.kind());
    // Of very many that are dominated some are enough.
    let plain = order.iter().filter(|d| d.kind() == FrontKind::Dominated).count();
    let skip = plain.div_ceil(600).max(1);
    for (i, d) in order.iter().enumerate().filter(|(i, d)| d.kind() != FrontKind::Dominated || i % skip == 0) {
        let points = (0..n).filter_map(|k| Some(format!("{:.1} {:.1}", x(k), y(axes[k].share(at(d, k)?)))));
        let (color, width, opacity) = match d.kind() {
            FrontKind::Dominated => ("#9aa7b3", 0.7, 0.25),
            FrontKind::Perhaps => ("#e0a03b", 0.9, 0.5),
            FrontKind::Front => ("#2b6cb0", 1.6, 0.9),
        };
        let _ = write!(
            svg,
            "<path d=\"M{}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"{width}\" opacity=\"{opacity}\"><title>{}</title></path>",
            points.collect::<Vec<_>>().join("L"),
            escape(&describe(table, order[i]))
        );
    }
    for (i, axis) in axes.iter().enumerate() {
        let name = keys.get(i).map_or_else(|| table.objectives[i - keys.len()].column.clone(), |k| k.to_string());
        let (px, low, high) = (x(i), y(0.0), y(1.0));
        let shift = if i % 2 == 0 { 30.0 } else { 42.0 };
        let _ = write!(svg, "<path d=\"M{px:.1} {low:.1}V{high:.1}\" stroke=\"#34414d\"/>");
        let _ = write!(
            svg,
            "<text x=\"{px:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            low + 14.0,
            short(axis.low)
        );
        let _ = write!(
            svg,
            "<text x=\"{px:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            high - 5.0,
            short(axis.high)
        );
        let _ =
            write!(svg, "<text x=\"{px:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>", low + shift, escape(&name));
    }
    svg + "</svg>\n"
}

/// One objective along each parameter.
fn along(table: &Table, objective: usize) -> String {
    let name = &table.objectives[objective].column;
    let mut out = String::new();
    for s in slices(table, objective).iter().take(6) {
        let axis = |f: fn(&(f64, f64)) -> f64| Axis::of(s.points.iter().map(f));
        let mut p = Plot::new(axis(|p| p.0), axis(|p| p.1), (&s.key, name));
        p.line(&s.points, "#2b6cb0");
        for (i, &point) in s.points.iter().enumerate() {
            let knee = s.knee == Some(i);
            let title = format!("{} {}{}", short(point.0), short(point.1), if knee { ": the knee" } else { "" });
            p.dot(point, if knee { 6.0 } else { 3.0 }, if knee { "#c0392b" } else { "#2b6cb0" }, &title);
        }
        let effect =
            format!("<p class=\"dim\">{}: {:.2} times between its best and worst value", escape(&s.key), s.effect());
        let knee = s.knee.map(|k| format!("; the knee is at {}", short(s.points[k].0))).unwrap_or_default();
        out += &format!("{effect}{knee}</p>{}", p.end());
    }
    out
}

/// What the energy of the front's design with least energy depends on most.
fn uncertainty(plan: &Plan, table: &Table, results: &BTreeMap<String, Outcome>) -> Result<String, RuntimeError> {
    let energy = |r: &&Row| r.numbers.energy_j;
    let best = table.rows.iter().filter(|r| r.front).min_by(|a, b| energy(a).total_cmp(&energy(b)));
    let Some(row) = best else { return Ok(String::new()) };
    let point = plan.points.iter().find(|p| p.case.id == row.case.id);
    let run = results.get(&row.case.id).and_then(|o| o.run.as_ref());
    let (Some(point), Some(run)) = (point, run) else { return Ok(String::new()) };
    let chip = point.chip(plan.base(point)?)?;
    let bars = tornado(&chip, run, 10);
    let middle = energy::energy(&chip, &run.work, chip.seconds(run.cycles), run.devices, &Prices::of(&chip)).total();
    let most = bars.first().map_or(1.0, |b| (b.low - middle).abs().max((b.high - middle).abs())).max(1e-300);
    let height = 24.0 * bars.len() as f64 + 10.0;
    let mut svg = format!("<svg viewBox=\"0 0 {W} {height}\" role=\"img\">");
    let x = |j: f64| W / 2.0 + 60.0 + (j - middle) / most * (W / 2.0 - 110.0);
    for (i, b) in bars.iter().enumerate() {
        let y = 24.0 * i as f64 + 4.0;
        for (end, color) in [(b.low, "#4a90c2"), (b.high, "#d2694a")] {
            let (a, z) = (x(middle).min(x(end)), x(middle).max(x(end)));
            let _ = write!(
                svg,
                "<rect x=\"{a:.1}\" y=\"{y}\" width=\"{:.1}\" height=\"16\" fill=\"{color}\"><title>{} J</title></rect>",
                z - a,
                short(end)
            );
        }
        let _ =
            write!(svg, "<text x=\"4\" y=\"{}\">{} ({} to {} J)</text>", y + 12.0, b.name, short(b.low), short(b.high));
    }
    svg += "</svg>\n";
    Ok(format!(
        "<p class=\"dim\">{} on {} {}, {} J</p>{svg}",
        escape(&row.case.program),
        escape(&row.case.chip),
        row.case.id,
        short(middle)
    ))
}

/// Rooflines of the front's designs, one program after the other: the roof moves along the front.
fn rooflines(plan: &Plan, table: &Table, results: &BTreeMap<String, Outcome>) -> Result<String, RuntimeError> {
    struct Roof {
        peak: f64,
        bytes: f64,
        intensity: f64,
        rate: f64,
        title: String,
    }
    let mut roofs = Vec::new();
    for row in table.rows.iter().filter(|r| r.front) {
        let point = plan.points.iter().find(|p| p.case.id == row.case.id);
        let (Some(point), Some(run)) = (point, results.get(&row.case.id).and_then(|o| o.run.as_ref())) else {
            continue;
        };
        let chip = point.chip(plan.base(point)?)?;
        let bytes = row.numbers.hbm_bytes / f64::from(run.devices.max(1));
        if bytes <= 0.0 || run.flops <= 0.0 {
            continue;
        }
        roofs.push(Roof {
            peak: run.peak_per_cycle * chip.clock_hz,
            bytes: chip.device_hbm_bandwidth() * chip.hbm.efficiency,
            intensity: run.flops / bytes,
            rate: run.flops / row.numbers.time_s,
            title: format!("{} {}", row.case.program, row.case.id),
        });
    }
    if roofs.is_empty() {
        return Ok(String::new());
    }
    let xs = roofs.iter().flat_map(|r| [r.intensity, r.peak / r.bytes * 2.0, r.peak / r.bytes / 20.0]);
    let ys = roofs.iter().flat_map(|r| [r.peak, r.rate]);
    let mut p = Plot::new(
        Axis::of(xs.collect::<Vec<_>>().into_iter()),
        Axis::of(ys.collect::<Vec<_>>().into_iter()),
        ("flop per HBM byte", "flop/s"),
    );
    let (low, high) = (p.x.low, p.x.high);
    for (i, r) in roofs.iter().enumerate() {
        let color = systole_runtime::export::plot::color(i as u32);
        let ridge = r.peak / r.bytes;
        p.line(&[(low, low * r.bytes), (ridge, r.peak), (high, r.peak)], color);
        p.dot((r.intensity, r.rate), 4.0, color, &r.title);
    }
    Ok(p.end())
}

fn rows(table: &Table) -> String {
    let mut out = String::from("<div class=\"scroll\"><table><tr><th>program</th><th>chip</th>");
    table.keys.iter().for_each(|k| out += &format!("<th>{}</th>", escape(k)));
    let columns = ["time_s", "peak_share", "energy_j", "power_w", "pj_per_flop", "area_mm2", "hbm_share", "mxu_busy"];
    columns.iter().for_each(|c| out += &format!("<th>{c}</th>"));
    out += "<th>bound</th><th>notes</th></tr>\n";
    let mut order: Vec<&Row> = table.rows.iter().collect();
    order.sort_by_key(|r| (!r.front, r.status != "failed"));
    for r in order.iter().take(SHOWN) {
        let class = if r.front {
            "front"
        } else if r.status == "ok" {
            ""
        } else {
            "bad"
        };
        out += &format!("<tr class=\"{class}\"><td>{}</td><td>{}</td>", escape(&r.case.program), escape(&r.case.chip));
        for k in &table.keys {
            let v = r.case.value(k).map(|v| pretty(k, v)).unwrap_or_default();
            out += &format!("<td>{}</td>", escape(&v));
        }
        for c in columns {
            let v = (r.status == "ok").then(|| r.numbers.get(c)).flatten();
            out += &format!("<td>{}</td>", v.map(short).unwrap_or_default());
        }
        let notes = if r.status == "ok" { r.broken.join("; ") } else { format!("{}: {}", r.status, r.reason) };
        out += &format!("<td>{}</td><td>{}</td></tr>\n", escape(&r.bound), escape(&notes));
    }
    out += "</table></div>";
    if table.rows.len() > SHOWN {
        out += &format!("<p class=\"dim\">{} more rows are in the table's file.</p>", table.rows.len() - SHOWN);
    }
    out
}

/// The page.
///
/// # Errors
/// If the plan is damaged.
pub fn page(
    spec: &Spec,
    plan: &Plan,
    table: &Table,
    results: &BTreeMap<String, Outcome>,
) -> Result<String, RuntimeError> {
    if table.objectives.is_empty() {
        return Err(bad("a report has at least one objective"));
    }
    let (ok, failed, missing) = table.counts();
    let fronts = table.designs.iter().filter(|d| d.front).count();
    let perhaps = table.designs.iter().filter(|d| d.perhaps && !d.front).count();
    let mut out = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>{0}</title><style>{STYLE}</style><h1>{0}</h1>\
         <p>{ok} points done, {failed} failed, {missing} missing; {1} designs, {fronts} on the front and {perhaps} that may be. \
         systole {2}.</p>",
        escape(&spec.name),
        table.designs.len(),
        escape(&plan.version)
    );
    for (name, n) in &table.removed {
        out += &format!("<p class=\"dim\">{n} points break: {}</p>", escape(name));
    }
    out += "<p class=\"dim\">Bars are 5 to 95 % of draws of the cost table, shared by all designs. A design is grey if another is \
            better in at least 95 % of the draws, orange if in fewer. Same-node comparisons are good to about 15 %, absolute \
            power to about 30 %, across nodes 40 %; random operands are assumed, clocks are fixed.</p>";
    let n = table.objectives.len();
    for a in 0..n {
        for b in a + 1..n {
            let names = (&table.objectives[a].column, &table.objectives[b].column);
            out += &format!("<h2>{} and {}</h2>{}", escape(names.0), escape(names.1), pareto(table, a, b));
        }
    }
    out += &format!("<h2>All parameters</h2>{}", parallel(table));
    for o in 0..n {
        out += &format!("<h2>{} along one parameter</h2>{}", escape(&table.objectives[o].column), along(table, o));
    }
    out += &format!("<h2>What the least energy depends on</h2>{}", uncertainty(plan, table, results)?);
    out += &format!("<h2>Rooflines along the front</h2>{}", rooflines(plan, table, results)?);
    out += &format!("<h2>Points</h2>{}", rows(table));
    out += "<h2>Columns</h2><table>";
    NUMBERS.iter().for_each(|(name, doc)| out += &format!("<tr><td>{name}</td><td>{}</td></tr>", escape(doc)));
    Ok(out + "</table></html>\n")
}
