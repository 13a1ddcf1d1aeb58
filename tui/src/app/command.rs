//! Commands behind `:`, with completion.

use super::{App, Effect, Help, Sort, View};
use crate::theme::Theme;

/// A command: name, arguments as help shows them, meaning.
pub const COMMANDS: &[(&str, &str, &str)] = &[
    ("view", "NAME", "shows a view"),
    ("op", "NAME", "looks inside an operation"),
    ("cycle", "N", "moves the cursor"),
    ("zoom", "FROM TO", "shows those cycles"),
    ("sort", "COLUMN", "sorts operations"),
    ("device", "N", "shows a device"),
    ("filter", "TEXT", "shows only what has the text"),
    ("set", "KEY=VALUE", "changes a chip parameter for a what-if"),
    ("unset", "", "forgets the changes"),
    ("run", "", "runs again with the changes"),
    ("theme", "NAME", "changes colours"),
    ("speed", "CYCLES/S|max", "limits a live run"),
    ("w", "FILE", "writes the view: .svg, .txt, .json"),
    ("help", "", "shows the keys"),
    ("words", "", "says what the words of the view mean"),
    ("q", "", "quits"),
];

/// Lines that a text could become.
pub fn completions(app: &App, text: &str) -> Vec<String> {
    let Some((command, rest)) = text.split_once(' ') else {
        let names = COMMANDS.iter().filter(|c| c.0.starts_with(text));
        return names.map(|c| c.0.to_string()).collect();
    };
    let words: Vec<String> = match command {
        "view" => View::ALL.iter().map(|v| v.name().to_string()).collect(),
        "sort" => Sort::ALL.iter().map(|s| s.name().to_string()).collect(),
        "theme" => Theme::ALL.iter().map(|t| t.name().to_string()).collect(),
        "op" => app.shown().map_or_else(Vec::new, |d| d.profile.meta.ops.iter().map(|o| o.name.clone()).collect()),
        "set" => systole_isa::chip::params::all().map(|p| format!("{}=", p.key)).collect(),
        "speed" => ["max", "1000", "10000", "100000", "1000000"].map(String::from).to_vec(),
        _ => Vec::new(),
    };
    words.into_iter().filter(|w| w.starts_with(rest)).take(50).map(|w| format!("{command} {w}")).collect()
}

/// What a completion means: a command's arguments and sense, a parameter's value and sense.
pub fn about(app: &App, completion: &str) -> String {
    if let Some(key) = completion.strip_prefix("set ").and_then(|c| c.strip_suffix('=')) {
        let found = crate::views::chip::all(app).into_iter().find(|p| p.0 == key);
        return found.map_or(String::new(), |(_, value, doc)| format!("now {value}: {doc}"));
    }
    COMMANDS.iter().find(|x| x.0 == completion).map_or(String::new(), |x| format!("{} {}", x.1, x.2))
}

/// Runs a command on the state.
///
/// # Errors
/// What is wrong with it, for the message line.
pub fn run(app: &mut App, line: &str) -> Result<Vec<Effect>, String> {
    let line = line.trim();
    let (name, rest) = line.split_once(' ').map_or((line, ""), |(n, r)| (n, r.trim()));
    let number = |t: &str| t.replace('_', "").parse::<u64>().map_err(|_| format!("`{t}` is no number"));
    match name {
        "" => {}
        "view" => app.view = View::named(rest).ok_or_else(|| format!("no view `{rest}`"))?,
        "op" => {
            let Some(data) = app.shown().cloned() else { return Err("there is no profile yet".into()) };
            let d = data.device(app.device).ok_or("no device")?;
            let row = d.ops.iter().position(|o| data.profile.row_name(o) == rest);
            app.drill = Some(row.ok_or_else(|| format!("no operation `{rest}`"))?);
            app.view = View::Operations;
        }
        "cycle" => app.look_at(number(rest)?),
        "zoom" => {
            let (a, b) = rest.split_once(' ').ok_or("zoom takes two cycles")?;
            let (a, b) = (number(a)?, number(b.trim())?);
            if a >= b {
                return Err("zoom takes two cycles, the first below the second".into());
            }
            app.zoom_to(a, b);
        }
        "sort" => {
            let found = Sort::ALL.into_iter().find(|s| !rest.is_empty() && s.name().starts_with(rest));
            app.listing.sort = found.ok_or_else(|| format!("no column `{rest}`"))?;
        }
        "device" => {
            let n = number(rest)? as usize;
            let count = app.shown().map_or(0, |d| d.profile.meta.devices.len());
            if n >= count {
                return Err(format!("devices are numbered below {count}"));
            }
            app.device = n;
            return Ok(vec![Effect::Device(n)]);
        }
        "filter" => app.listing.filter = rest.to_string(),
        "set" => return app.set(rest),
        "unset" => app.sets.clear(),
        "run" => return Ok(vec![Effect::Rerun(app.sets.clone())]),
        "theme" => app.theme.palette = Theme::named(rest).ok_or_else(|| format!("no theme `{rest}`"))?,
        "speed" => {
            app.speed = if rest == "max" || rest.is_empty() { None } else { Some(number(rest)?.max(1)) };
            return Ok(vec![Effect::Speed(app.speed)]);
        }
        "w" => return Ok(vec![Effect::Write(if rest.is_empty() { app.default_file() } else { rest.to_string() })]),
        "help" => app.help = Help::Keys,
        "words" => app.help = Help::Words,
        "q" | "quit" => return Ok(vec![Effect::Quit]),
        _ => return Err(format!("no command `{name}`; Tab shows them")),
    }
    Ok(Vec::new())
}

impl App {
    /// Where `w` writes.
    pub fn default_file(&self) -> String {
        format!("systole-{}.svg", self.view.name())
    }

    /// Notes a changed parameter, if the chip takes it.
    ///
    /// # Errors
    /// Why it does not.
    pub fn set(&mut self, set: &str) -> Result<Vec<Effect>, String> {
        let Some(data) = self.shown() else { return Err("there is no profile yet".into()) };
        let mut chip = data.profile.meta.chip.clone();
        let first = |e: &dyn std::fmt::Display| e.to_string().lines().next().unwrap_or("wrong").to_string();
        let key = set.split('=').next().unwrap_or("").to_string();
        let mut sets: Vec<String> =
            self.sets.iter().filter(|s| s.split('=').next() != Some(key.as_str())).cloned().collect();
        sets.push(set.to_string());
        chip.apply_sets(&sets).map_err(|e| first(&e))?;
        self.sets = sets;
        self.message = format!("{set}: `r` in the chip view or `:run` runs again with it");
        Ok(Vec::new())
    }
}
