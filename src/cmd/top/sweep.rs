//! `systole top sweep DIR`: a sweep while it runs, and after.

use crate::cmd::top;
use crate::output;
use clap::Parser;
use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal;
use std::path::Path;
use systole_runtime::RuntimeError;
use systole_runtime::cost::{Prices, Purpose, Unit, energy};
use systole_runtime::report::text::{short, time};
use systole_sweep::front::FrontKind;
use systole_sweep::html::pretty;
use systole_sweep::numbers::NUMBERS;
use systole_sweep::outcome::Counters;
use systole_sweep::table::{Row, Table};
use systole_sweep::{Plan, Point, Spec, Store, execute};
use systole_tui::sweep::{self, Standing, SweepApp, SweepData, SweepPoint, Wish};
use systole_tui::{Key, export};

fn bad(message: impl Into<String>) -> RuntimeError {
    RuntimeError::Request(message.into())
}

/// How the sweep is shown.
pub struct Show<'a> {
    pub dir: &'a str,
    /// Prints one frame, after these keys.
    pub once: bool,
    pub keys: &'a str,
    pub size: (u16, u16),
    pub ascii: bool,
}

struct Sweep {
    store: Store,
    spec: Spec,
}

fn design(r: &Row) -> String {
    let words = r.case.changes().map(|(k, v)| format!("{k}={}", pretty(k, v)));
    format!("{} {}", r.case.chip, words.collect::<Vec<_>>().join(" "))
}

/// The last word of a parameter's name.
fn last(key: &str) -> &str {
    key.rsplit('.').next().unwrap_or(key)
}

/// Parameters that have several values, with the words that they are told apart by: their last, where no other's is the same.
fn varied(rows: &[Row]) -> BTreeMap<&str, &str> {
    let mut values: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (k, v) in rows.iter().flat_map(|r| r.case.changes()) {
        values.entry(k).or_default().insert(v);
    }
    let keys: Vec<&str> = values.iter().filter(|v| v.1.len() > 1).map(|v| *v.0).collect();
    let alone = |word: &str| keys.iter().filter(|&&k| last(k) == word).count() == 1;
    keys.iter().map(|&k| (k, if alone(last(k)) { last(k) } else { k })).collect()
}

/// The parameters of a row that have several values, in few words.
fn label(r: &Row, varied: &BTreeMap<&str, &str>) -> String {
    let all = r.case.changes();
    let words = all.filter_map(|(k, v)| Some(format!("{}={}", varied.get(k.as_str())?, pretty(k, v))));
    words.collect::<Vec<_>>().join(" ")
}

impl Sweep {
    /// What is known by now.
    fn data(&self) -> Result<SweepData, RuntimeError> {
        let plan = self.store.plan()?;
        let table = Table::new(&self.spec, &plan, &self.store.results()?, &[])?;
        let mut standing = vec![Standing::Dominated; table.rows.len()];
        for d in &table.designs {
            let of = match d.kind() {
                FrontKind::Front => Standing::Front,
                FrontKind::Perhaps => Standing::Perhaps,
                FrontKind::Dominated => Standing::Dominated,
            };
            d.rows.iter().for_each(|&r| standing[r] = of);
        }
        let words = varied(&table.rows);
        let point = |(r, standing): (&Row, Standing)| SweepPoint {
            id: r.case.id.clone(),
            program: r.case.program.clone(),
            design: design(r),
            label: label(r, &words),
            standing: match r.status {
                "missing" => Standing::Missing,
                "failed" => Standing::Failed,
                _ if !r.broken.is_empty() => Standing::Unbuildable,
                _ => standing,
            },
            notes: if r.reason.is_empty() { r.broken.join("; ") } else { r.reason.clone() },
            numbers: match r.status {
                "ok" => NUMBERS.iter().map(|n| r.numbers.get(n.0).unwrap_or(0.0)).collect(),
                _ => Vec::new(),
            },
        };
        let place = |c: &str| NUMBERS.iter().position(|n| n.0 == c);
        Ok(SweepData {
            name: self.spec.name.clone(),
            columns: NUMBERS.iter().map(|n| n.0.to_string()).collect(),
            objectives: table.objectives.iter().filter_map(|o| place(&o.column)).collect(),
            points: table.rows.iter().zip(standing).map(point).collect(),
        })
    }

    fn point<'a>(&self, plan: &'a Plan, id: &str) -> Result<&'a Point, RuntimeError> {
        plan.points.iter().find(|p| p.case.id == id).ok_or_else(|| bad(format!("no point {id}")))
    }

    /// Why the second point is better or worse than the first: by parameter, unit, purpose and operation.
    fn compare(&self, a: &str, b: &str) -> Result<Vec<String>, RuntimeError> {
        let (plan, results) = (self.store.plan()?, self.store.results()?);
        let side = |id: &str| -> Result<_, RuntimeError> {
            let point = self.point(&plan, id)?;
            let run =
                results.get(id).and_then(|o| o.run.as_ref()).ok_or_else(|| bad("a marked point has no result"))?;
            let chip = point.chip(plan.base(point)?)?;
            let prices = Prices::of(&chip);
            let e = energy::energy(&chip, &run.work, chip.seconds(run.cycles), run.devices, &prices);
            Ok((point, run, chip, e))
        };
        let ((p, x, chip_a, ea), (q, y, chip_b, eb)) = (side(a)?, side(b)?);
        let keys: BTreeSet<&String> = p.case.sets.keys().chain(q.case.sets.keys()).collect();
        let value = |p: &Point, k: &String| p.case.sets.get(k).map_or("(base)".to_string(), |v| pretty(k, v));
        let changed = keys.into_iter().filter(|k| p.case.sets.get(*k) != q.case.sets.get(*k));
        let changed: Vec<String> = changed.map(|k| format!("{k} {} -> {}", value(p, k), value(q, k))).collect();
        let (ta, tb) = (chip_a.seconds(x.cycles), chip_b.seconds(y.cycles));
        let mut lines = vec![
            format!(
                "A {} {}   B {} {}   {}",
                p.case.program,
                p.case.chip,
                q.case.program,
                q.case.chip,
                changed.join(", ")
            ),
            format!(
                "time {} -> {} ({:+.1} %), bound by {} -> {}",
                time(ta),
                time(tb),
                100.0 * (tb / ta - 1.0),
                x.bound,
                y.bound
            ),
            format!(
                "energy {}J -> {}J ({:+.1} %)",
                short(ea.total()),
                short(eb.total()),
                100.0 * (eb.total() / ea.total() - 1.0)
            ),
        ];
        let delta = |name: &str, a: f64, b: f64| (b - a, format!("{name} {:+.1} %", 100.0 * (b - a) / ea.total()));
        let largest = |mut all: Vec<(f64, String)>| {
            all.sort_by(|a, b| b.0.abs().total_cmp(&a.0.abs()));
            all.into_iter().take(5).map(|d| d.1).collect::<Vec<_>>().join(", ")
        };
        let units = Unit::ALL.iter().map(|&u| delta(u.name(), ea.unit(u), eb.unit(u))).collect();
        let purposes = Purpose::ALL.iter().map(|&u| delta(u.name(), ea.purpose(u), eb.purpose(u))).collect();
        lines.push(format!("  by unit: {}", largest(units)));
        lines.push(format!("  by cause: {}", largest(purposes)));
        let seconds = |run: &Counters, chip: &systole_isa::ChipConfig, name: &str| {
            run.ops.iter().find(|o| o.name == name).map(|o| chip.seconds(o.cycles))
        };
        let mut names: Vec<&str> = x.ops.iter().chain(&y.ops).map(|o| o.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let both = names.into_iter().filter_map(|n| Some((n, seconds(x, &chip_a, n)?, seconds(y, &chip_b, n)?)));
        let mut ops: Vec<(&str, f64, f64)> = both.collect();
        ops.sort_by(|a, b| (b.2 - b.1).abs().total_cmp(&(a.2 - a.1).abs()));
        for (name, a, b) in ops.into_iter().take(6) {
            lines.push(format!("  {name}: {} -> {} ({:+.1} % of A's time)", time(a), time(b), 100.0 * (b - a) / ta));
        }
        Ok(lines)
    }

    /// The dashboard with a point's run, recorded now.
    fn open(&self, id: &str) -> Result<(), RuntimeError> {
        let plan = self.store.plan()?;
        let point = self.point(&plan, id)?;
        let ran = execute::one(&self.store, &plan, &self.spec, point)?;
        let folder = self.store.dir.join("profiles");
        std::fs::create_dir_all(&folder).map_err(|e| bad(format!("{}: {e}", folder.display())))?;
        let path = folder.join(format!("{id}.sys"));
        output::write(&path.to_string_lossy(), &systole_isa::write_program(&ran.program))?;
        let base = plan.base(point)?;
        let mut words = vec!["top".to_string(), path.to_string_lossy().into_owned(), "--timing-only".into()];
        words.extend(["--chip".to_string(), base.name.clone()]);
        words.extend(point.case.sets.iter().map(|(k, v)| format!("--set={k}={v}")));
        words.extend(self.spec.assume.iter().map(|a| format!("--assume={a}")));
        #[derive(Parser)]
        struct Words {
            #[command(flatten)]
            args: top::Args,
        }
        let parsed = Words::try_parse_from(words).map_err(|e| bad(e.to_string()))?;
        top::run(&parsed.args)
    }
}

/// Shows the sweep.
///
/// # Errors
/// If there is none, or the terminal cannot be used.
pub fn run(show: &Show<'_>) -> Result<(), RuntimeError> {
    let store = Store::open(Path::new(show.dir))?;
    let sweep = Sweep { spec: store.spec()?, store };
    let mut theme = systole_tui::detect(&|name| std::env::var(name).ok());
    theme.ascii |= show.ascii;
    let mut app = SweepApp::new(sweep.data()?, theme);
    if show.once {
        app.theme.ascii = show.ascii;
        for key in Key::script(show.keys) {
            if let Some(Wish::Compare(a, b)) = app.key(key) {
                app.compared = Some(sweep.compare(&a, &b)?);
            }
        }
        return output::print(&export::text(&sweep::frame(&app, show.size.0, show.size.1)));
    }
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        return Err(bad("the dashboard needs a terminal; --once prints a frame"));
    }
    loop {
        // What cannot be read just now is looked at again in a second.
        let wish = sweep::run(&mut app, &mut || sweep.data().ok()).map_err(|e| bad(format!("terminal: {e}")))?;
        let done = match wish {
            Wish::Quit => return Ok(()),
            Wish::Open(id) => sweep.open(&id),
            Wish::Compare(a, b) => sweep.compare(&a, &b).map(|lines| app.compared = Some(lines)),
        };
        if let Err(e) = done {
            app.message = e.to_string().lines().next().unwrap_or_default().to_string();
        }
    }
}
