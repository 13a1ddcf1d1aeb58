//! A sweep's folder.
//!
//! `spec.toml`, `plan.json`, `programs/HASH`, `codes/HASH` (what was compiled, for other tasks of the same code), `results/*.jsonl` (a
//! line a point), `tasks/*.jsonl` (what engines hand to workers: a line a task, the ids of its points), `log/`, and what is
//! collected. Files of codes and results appear whole: they are written beside their place, synced and renamed.

use crate::bad;
use crate::outcome::Outcome;
use crate::plan::{Plan, Point};
use crate::spec::Spec;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use systole_isa::Program;
use systole_isa::container::{read_program, write_program};
use systole_runtime::RuntimeError;

/// A sweep's folder.
#[derive(Clone, Debug)]
pub struct Store {
    pub dir: PathBuf,
}

fn failed(path: &Path, e: std::io::Error) -> RuntimeError {
    bad(format!("{}: {e}", path.display()))
}

/// Writes a file so that it appears whole.
///
/// # Errors
/// If it cannot be written.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), RuntimeError> {
    let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let beside = path.with_file_name(format!(".{name}.{}", std::process::id()));
    let write = || -> std::io::Result<()> {
        let mut file = std::fs::File::create(&beside)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&beside, path)
    };
    write().map_err(|e| failed(path, e))
}

impl Store {
    /// A new sweep. A folder that has a plan is taken if the plan is the same.
    ///
    /// # Errors
    /// If the folder has another sweep, or cannot be written.
    pub fn create(
        dir: &Path,
        spec_text: &str,
        plan: &Plan,
        programs: &BTreeMap<String, Vec<u8>>,
    ) -> Result<Store, RuntimeError> {
        let store = Store { dir: dir.to_path_buf() };
        for folder in ["programs", "codes", "results", "tasks", "log"] {
            let path = dir.join(folder);
            std::fs::create_dir_all(&path).map_err(|e| failed(&path, e))?;
        }
        let plan_file = dir.join("plan.json");
        let text = serde_json::to_string(plan).map_err(|e| bad(e.to_string()))?;
        if plan_file.exists() {
            if store.plan()? != *plan {
                return Err(bad(format!("{}: holds another sweep: name another folder with -o", dir.display())));
            }
            return Ok(store);
        }
        for (name, bytes) in programs {
            write_whole(&store.program(plan, name)?, bytes)?;
        }
        write_whole(&dir.join("spec.toml"), spec_text.as_bytes())?;
        write_whole(&plan_file, text.as_bytes())?;
        Ok(store)
    }

    /// The sweep in a folder.
    ///
    /// # Errors
    /// If there is none.
    pub fn open(dir: &Path) -> Result<Store, RuntimeError> {
        if !dir.join("plan.json").exists() {
            return Err(bad(format!(
                "{}: no sweep is here (`systole sweep plan SPEC -o DIR` makes one)",
                dir.display()
            )));
        }
        Ok(Store { dir: dir.to_path_buf() })
    }

    /// Its plan.
    ///
    /// # Errors
    /// If it is damaged.
    pub fn plan(&self) -> Result<Plan, RuntimeError> {
        let path = self.dir.join("plan.json");
        let text = std::fs::read_to_string(&path).map_err(|e| failed(&path, e))?;
        serde_json::from_str(&text).map_err(|e| bad(format!("{}: {e}", path.display())))
    }

    /// Replaces the plan by one with more points.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn grow(&self, plan: &Plan) -> Result<(), RuntimeError> {
        let text = serde_json::to_string(plan).map_err(|e| bad(e.to_string()))?;
        write_whole(&self.dir.join("plan.json"), text.as_bytes())
    }

    /// Its specification. Programs are those that were planned.
    ///
    /// # Errors
    /// If it is damaged.
    pub fn spec(&self) -> Result<Spec, RuntimeError> {
        let path = self.dir.join("spec.toml");
        let text = std::fs::read_to_string(&path).map_err(|e| failed(&path, e))?;
        Spec::parse(&text, "spec.toml", Path::new(&self.plan()?.folder))
    }

    /// The file of a program.
    ///
    /// # Errors
    /// If the plan has no such program.
    pub fn program(&self, plan: &Plan, name: &str) -> Result<PathBuf, RuntimeError> {
        let hash = plan.programs.get(name).ok_or_else(|| bad(format!("no program `{name}` is in the plan")))?;
        Ok(self.dir.join("programs").join(hash))
    }

    /// A code that was kept, by its hash. What cannot be read is none: it is compiled again.
    pub fn code(&self, hash: &str) -> Option<Program> {
        read_program(&std::fs::read(self.dir.join("codes").join(hash)).ok()?).ok()
    }

    /// Keeps a code.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn keep(&self, hash: &str, program: &Program) -> Result<(), RuntimeError> {
        write_whole(&self.dir.join("codes").join(hash), &write_program(program))
    }

    /// Results by id. Of several for a point, one that succeeded.
    ///
    /// # Errors
    /// If a file cannot be read, or is damaged.
    pub fn results(&self) -> Result<BTreeMap<String, Outcome>, RuntimeError> {
        let mut out: BTreeMap<String, Outcome> = BTreeMap::new();
        let folder = self.dir.join("results");
        let mut files: Vec<PathBuf> = Vec::new();
        for entry in std::fs::read_dir(&folder).map_err(|e| failed(&folder, e))? {
            let path = entry.map_err(|e| failed(&folder, e))?.path();
            let hidden = path.file_name().is_some_and(|n| n.to_string_lossy().starts_with('.'));
            if path.extension().is_some_and(|e| e == "jsonl") && !hidden {
                files.push(path);
            }
        }
        files.sort();
        for path in files {
            let text = std::fs::read_to_string(&path).map_err(|e| failed(&path, e))?;
            for (i, line) in text.lines().enumerate() {
                let outcome: Outcome =
                    serde_json::from_str(line).map_err(|e| bad(format!("{}: line {}: {e}", path.display(), i + 1)))?;
                let better = out.get(&outcome.id).is_none_or(|o| o.run.is_none() && outcome.run.is_some());
                if better {
                    out.insert(outcome.id.clone(), outcome);
                }
            }
        }
        Ok(out)
    }

    /// Stores results under a name.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn put(&self, name: &str, outcomes: &[Outcome]) -> Result<(), RuntimeError> {
        let mut text = String::new();
        for o in outcomes {
            text += &serde_json::to_string(o).map_err(|e| bad(e.to_string()))?;
            text.push('\n');
        }
        write_whole(&self.dir.join("results").join(format!("{name}.jsonl")), text.as_bytes())
    }

    /// Ids of points that have no result (`failures`: or one that failed): those with the same code together, and the codes of a
    /// design one behind the other, so that designs are whole, and on the front or not, as they come.
    ///
    /// # Errors
    /// If the folder is damaged.
    pub fn missing(&self, plan: &Plan, failures: bool) -> Result<Vec<String>, RuntimeError> {
        let done = self.results()?;
        let ready = |id: &str| done.get(id).is_some_and(|o| o.run.is_some() || !failures);
        // The first design that a code is for: its place among those of the program.
        let (mut designs, mut first) = (BTreeMap::new(), BTreeMap::new());
        for p in &plan.points {
            let place = designs.entry(p.case.program.as_str()).or_insert(0usize);
            first.entry(p.code.as_str()).or_insert(*place);
            *place += 1;
        }
        let mut points: Vec<_> = plan.points.iter().filter(|p| !ready(&p.case.id)).collect();
        let place = |p: &Point| first[p.code.as_str()];
        points.sort_by(|a, b| {
            (place(a), &a.case.program, &a.run, &a.case.id).cmp(&(place(b), &b.case.program, &b.run, &b.case.id))
        });
        points.dedup_by(|a, b| a.case.id == b.case.id);
        Ok(points.into_iter().map(|p| p.case.id.clone()).collect())
    }

    /// Writes tasks of at most `chunk` points with one code; the file, and how many there are.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn tasks(&self, plan: &Plan, missing: &[String], chunk: usize) -> Result<(PathBuf, usize), RuntimeError> {
        let codes: BTreeMap<&str, &str> = plan.points.iter().map(|p| (p.case.id.as_str(), p.code.as_str())).collect();
        let mut tasks: Vec<Vec<&str>> = Vec::new();
        for id in missing {
            let fits = |t: &&mut Vec<&str>| t.len() < chunk.max(1) && codes.get(t[0]) == codes.get(id.as_str());
            match tasks.last_mut().filter(fits) {
                Some(t) => t.push(id),
                None => tasks.push(vec![id]),
            }
        }
        let mut text = String::new();
        for t in &tasks {
            text += &serde_json::to_string(t).map_err(|e| bad(e.to_string()))?;
            text.push('\n');
        }
        let path = self.dir.join("tasks").join(format!("{}.jsonl", crate::plan::hash(&[&text])));
        write_whole(&path, text.as_bytes())?;
        Ok((path, tasks.len()))
    }

    /// The points of a task.
    ///
    /// # Errors
    /// If there is no such task.
    pub fn task(path: &Path, number: usize) -> Result<Vec<String>, RuntimeError> {
        let text = std::fs::read_to_string(path).map_err(|e| failed(path, e))?;
        let line = text.lines().nth(number).ok_or_else(|| bad(format!("{}: no task {number}", path.display())))?;
        serde_json::from_str(line).map_err(|e| bad(format!("{}: task {number}: {e}", path.display())))
    }
}
