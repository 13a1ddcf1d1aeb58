//! Shardings as programs write them: Shardy's text and HLO's tile assignments, as pieces of the numbering of places.
//!
//! Three forms: Shardy's (`#sdy.sharding<@mesh, [{"x"}, {?}]>`, alone or per value), HLO's with a device list that is given
//! (`devices=[2,2]0,2,1,3`) or counted (`devices=[4,2]<=[2,4]T(1,0)`), and HLO's words (`replicated`, `manual`, ..). What is
//! read is *raw*: pieces have strides and sizes; [`crate::mesh`] makes atoms of all pieces of a program.

use crate::mesh::{Piece, pieces};

/// A dimension of a raw sharding.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RawDim {
    /// Most major first.
    pub pieces: Vec<Piece>,
    pub open: bool,
    pub priority: u32,
}

/// A sharding before there is a mesh.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Raw {
    /// By dimension; `None`: divided nowhere, whatever the rank.
    pub dims: Option<Vec<RawDim>>,
    /// Says nothing at all.
    pub unknown: bool,
    /// Pieces along which the value must stay replicated.
    pub replicated: Vec<Piece>,
    /// What belongs to a manual computation.
    pub manual: Among,
    /// Along what the values that devices hold are still to be summed.
    pub unreduced: Among,
}

/// Some of what devices are numbered by.
#[derive(Clone, Debug, PartialEq)]
pub enum Among {
    All,
    Pieces(Vec<Piece>),
}

impl Default for Among {
    /// Nothing.
    fn default() -> Among {
        Among::Pieces(Vec::new())
    }
}

impl Among {
    /// The pieces that it names; everything has no names.
    pub fn pieces(&self) -> &[Piece] {
        match self {
            Among::All => &[],
            Among::Pieces(pieces) => pieces,
        }
    }

    /// More pieces than it has.
    fn add(&mut self, more: Vec<Piece>) {
        match self {
            Among::All => {}
            Among::Pieces(pieces) => pieces.extend(more),
        }
    }
}

impl Raw {
    /// All pieces in it.
    pub fn pieces(&self) -> impl Iterator<Item = Piece> + '_ {
        let dims = self.dims.iter().flatten().flat_map(|d| &d.pieces);
        dims.chain(&self.replicated).chain(self.manual.pieces()).chain(self.unreduced.pieces()).copied()
    }
}

/// A mesh as Shardy writes it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Named {
    pub name: String,
    pub axes: Vec<(String, u64)>,
    /// The device at every place; empty: the place's number.
    pub devices: Vec<u64>,
}

/// What is needed to read annotations.
#[derive(Clone, Debug, Default)]
pub struct Reader {
    pub meshes: Vec<Named>,
    /// Number of partitions.
    pub devices: u64,
    /// The place of every partition, if places are numbered otherwise.
    pub places: Option<Vec<u64>>,
}

/// A list of devices that no strides describe: the order that places would need.
#[derive(Clone, Debug, PartialEq)]
pub enum Unread {
    Order(Vec<u64>),
    Wrong(String),
}

fn wrong<T>(message: impl Into<String>) -> Result<T, Unread> {
    Err(Unread::Wrong(message.into()))
}

type Read<T> = Result<T, Unread>;

/// A text that is read from the left.
#[derive(Clone, Copy)]
pub(crate) struct Scan<'a> {
    rest: &'a str,
}

impl<'a> Scan<'a> {
    pub(crate) fn new(text: &'a str) -> Scan<'a> {
        Scan { rest: text.trim_start() }
    }

    pub(crate) fn eat(&mut self, word: &str) -> bool {
        match self.rest.strip_prefix(word) {
            Some(rest) => {
                self.rest = rest.trim_start();
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, word: &str) -> Read<()> {
        if self.eat(word) { Ok(()) } else { wrong(format!("`{word}` is expected at `{}`", self.near())) }
    }

    fn near(&self) -> String {
        self.rest.chars().take(24).collect()
    }

    fn number(&mut self) -> Read<u64> {
        let end = self.rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len());
        match self.rest[..end].parse() {
            Ok(n) => {
                self.rest = self.rest[end..].trim_start();
                Ok(n)
            }
            Err(_) => wrong(format!("a number is expected at `{}`", self.near())),
        }
    }

    fn numbers(&mut self, close: &str) -> Read<Vec<u64>> {
        let mut out = Vec::new();
        while !self.eat(close) {
            if !out.is_empty() {
                self.expect(",")?;
            }
            out.push(self.number()?);
        }
        Ok(out)
    }

    fn string(&mut self) -> Read<&'a str> {
        match self.rest.strip_prefix('"').and_then(|r| r.split_once('"')) {
            Some((s, rest)) => {
                self.rest = rest.trim_start();
                Ok(s)
            }
            None => wrong(format!("a name in quotes is expected at `{}`", self.near())),
        }
    }

    fn word(&mut self) -> &'a str {
        let end = self.rest.find(|c: char| !(c.is_alphanumeric() || "_.-$".contains(c))).unwrap_or(self.rest.len());
        let word = &self.rest[..end];
        self.rest = self.rest[end..].trim_start();
        word
    }

    fn starts(&self, word: &str) -> bool {
        self.rest.starts_with(word)
    }

    fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }
}

/// The meshes of `{mesh = #sdy.mesh<["x"=2, "y"=4]>, ..}`.
///
/// # Errors
/// What is wrong with the text.
pub fn meshes(text: &str) -> Result<Vec<Named>, String> {
    let mut s = Scan::new(text);
    let read = |s: &mut Scan<'_>| -> Read<Vec<Named>> {
        let mut out = Vec::new();
        s.expect("{")?;
        while !s.eat("}") {
            s.eat(",");
            let name = s.word().to_string();
            s.expect("=")?;
            let _ = s.eat("#sdy.mesh") || s.eat("mesh");
            out.push(Named { name, ..mesh(s)? });
        }
        Ok(out)
    };
    read(&mut s).map_err(|e| match e {
        Unread::Wrong(m) => m,
        Unread::Order(_) => "a mesh".to_string(),
    })
}

/// `<["x"=2, "y"=4], device_ids=[..]>`
fn mesh(s: &mut Scan<'_>) -> Read<Named> {
    let mut out = Named::default();
    s.expect("<")?;
    s.expect("[")?;
    while !s.eat("]") {
        if !out.axes.is_empty() {
            s.expect(",")?;
        }
        let name = s.string()?.to_string();
        s.expect("=")?;
        out.axes.push((name, s.number()?));
    }
    if s.eat(",") {
        s.expect("device_ids")?;
        s.expect("=")?;
        s.expect("[")?;
        out.devices = s.numbers("]")?;
    }
    s.expect(">")?;
    Ok(out)
}

impl Reader {
    /// Shardings in Shardy's text: one, or one for every value.
    ///
    /// # Errors
    /// A text that is none, unknown meshes or axes, device lists without strides.
    pub fn shardy(&self, text: &str) -> Read<Vec<Raw>> {
        let mut s = Scan::new(text);
        if s.eat("#sdy.sharding_per_value<") || s.starts("[") {
            s.expect("[")?;
            let mut out = Vec::new();
            while !s.eat("]") {
                if !out.is_empty() {
                    s.expect(",")?;
                }
                s.expect("<")?;
                out.push(self.sharding(&mut s)?);
                s.expect(">")?;
            }
            return Ok(out);
        }
        let _ = s.eat("#sdy.sharding<") || s.eat("<");
        Ok(vec![self.sharding(&mut s)?])
    }

    /// `@mesh, [{"x"}, {?}], replicated={"y"}`
    fn sharding(&self, s: &mut Scan<'_>) -> Read<Raw> {
        let inline;
        let mesh = if s.eat("@") {
            let name = s.word();
            match self.meshes.iter().find(|m| m.name == name) {
                Some(m) => m,
                None => return wrong(format!("there is no mesh `@{name}`")),
            }
        } else if s.eat("#sdy.mesh") || s.eat("mesh") {
            inline = mesh(s)?;
            &inline
        } else {
            return wrong(format!("a mesh is expected at `{}`", s.near()));
        };
        s.expect(",")?;
        s.expect("[")?;
        let mut out = Raw { dims: Some(Vec::new()), ..Raw::default() };
        let dims = out.dims.get_or_insert_default();
        while !s.eat("]") {
            if !dims.is_empty() {
                s.expect(",")?;
            }
            s.expect("{")?;
            let mut dim = RawDim::default();
            while !s.eat("}") {
                if s.eat("?") {
                    dim.open = true;
                } else if !s.eat(",") {
                    dim.pieces.extend(self.axis(mesh, s)?);
                }
            }
            if s.eat("p") {
                dim.priority = u32::try_from(s.number()?).unwrap_or(u32::MAX);
            }
            dims.push(dim);
        }
        while s.eat(",") {
            let kept = match s.word() {
                "replicated" => true,
                // Sums are taken at once all the same: only manual computations and callers see what is pending.
                "unreduced" => false,
                other => return wrong(format!("`{other}` of a sharding is not known")),
            };
            s.expect("=")?;
            s.expect("{")?;
            while !s.eat("}") {
                if !s.eat(",") {
                    let found = self.axis(mesh, s)?;
                    if kept {
                        out.replicated.extend(found);
                    } else {
                        out.unreduced.add(found);
                    }
                }
            }
        }
        Ok(out)
    }

    /// `"x"` or `"x":(2)4`: a part of an axis with two devices more major and four along it.
    fn axis(&self, mesh: &Named, s: &mut Scan<'_>) -> Read<Vec<Piece>> {
        let name = s.string()?;
        let whole = self.along(mesh, name)?;
        if !s.eat(":") {
            return Ok(whole);
        }
        s.expect("(")?;
        let before = s.number()?;
        s.expect(")")?;
        let size = s.number()?;
        let [one] = whole[..] else {
            return wrong(format!("a part of axis \"{name}\", whose devices have no one stride"));
        };
        match one.size.checked_div(before.saturating_mul(size)) {
            Some(after) if before * size * after == one.size => Ok(vec![Piece { stride: one.stride * after, size }]),
            _ => wrong(format!("axis \"{name}\" of size {} has no part ({before}){size}", one.size)),
        }
    }

    /// The pieces of a named axis.
    pub fn along(&self, mesh: &Named, name: &str) -> Read<Vec<Piece>> {
        let Some(at) = mesh.axes.iter().position(|a| a.0 == name) else {
            return wrong(format!("mesh `@{}` has no axis \"{name}\"", mesh.name));
        };
        let devices = mesh.axes.iter().map(|a| a.1).try_fold(1u64, u64::checked_mul).unwrap_or(u64::MAX);
        if devices != self.devices {
            return wrong(format!(
                "mesh `@{}` has {devices} devices, the program {} partitions",
                mesh.name, self.devices
            ));
        }
        let stride: u64 = mesh.axes[at + 1..].iter().map(|a| a.1).product();
        let size = mesh.axes[at].1;
        if mesh.devices.is_empty() && self.places.is_none() {
            return Ok(if size > 1 { vec![Piece { stride, size }] } else { Vec::new() });
        }
        let list: Vec<u64> = match mesh.devices.is_empty() {
            true => (0..devices).collect(),
            false => mesh.devices.clone(),
        };
        let sizes: Vec<u64> = mesh.axes.iter().map(|a| a.1).collect();
        Ok(self.by_dimension(&sizes, &list)?.swap_remove(at))
    }

    /// The pieces of every dimension of an array of devices.
    fn by_dimension(&self, sizes: &[u64], list: &[u64]) -> Read<Vec<Vec<Piece>>> {
        let mut seen = vec![false; list.len()];
        let known =
            |d: &u64| usize::try_from(*d).is_ok_and(|d| d < seen.len() && !std::mem::replace(&mut seen[d], true));
        if list.len() as u64 != self.devices || !list.iter().all(known) {
            return wrong(format!("a list of devices that names not each of {} once", self.devices));
        }
        let places: Vec<u64> = match &self.places {
            Some(p) => list.iter().map(|d| p[*d as usize]).collect(),
            None => list.to_vec(),
        };
        let unread = || Unread::Order(list.to_vec());
        let all = pieces(&places).filter(|_| places.first() == Some(&0)).ok_or_else(unread)?;
        let mut out = Vec::new();
        let mut all = all.into_iter();
        let mut left: Option<Piece> = None;
        for &size in sizes {
            let (mut need, mut dim) = (size, Vec::new());
            while need > 1 {
                let p = left.take().or_else(|| all.next()).ok_or_else(unread)?;
                if need % p.size == 0 {
                    need /= p.size;
                    dim.push(p);
                } else if p.size % need == 0 {
                    // The major part is this dimension's.
                    let rest = p.size / need;
                    dim.push(Piece { stride: p.stride * rest, size: need });
                    left = Some(Piece { stride: p.stride, size: rest });
                    need = 1;
                } else {
                    return Err(unread());
                }
            }
            out.push(dim);
        }
        Ok(out)
    }

    /// Shardings in HLO's text: one, or those of a tuple's leaves.
    ///
    /// # Errors
    /// A text that is none, device lists without strides.
    pub fn hlo(&self, text: &str) -> Read<Vec<Raw>> {
        let mut s = Scan::new(text);
        s.expect("{")?;
        if !s.starts("{") {
            let one = self.tiled(&mut s)?;
            return Ok(vec![one]);
        }
        let mut out = Vec::new();
        while !s.eat("}") {
            // The printer numbers every fifth: `/*index=5*/`.
            if let Some((_, rest)) = s.rest.strip_prefix("/*").and_then(|r| r.split_once("*/")) {
                s.rest = rest.trim_start();
            } else if !s.eat(",") {
                s.expect("{")?;
                out.push(self.tiled(&mut s)?);
            }
        }
        Ok(out)
    }

    /// Behind the opening brace, up to and with the closing one.
    fn tiled(&self, s: &mut Scan<'_>) -> Read<Raw> {
        if !s.eat("devices=") {
            let raw = match s.word() {
                "replicated" => Raw::default(),
                // A value of one device is the same everywhere else.
                "maximal" => {
                    s.expect("device=")?;
                    s.number()?;
                    Raw::default()
                }
                "manual" => Raw { manual: Among::All, ..Raw::default() },
                "unknown" => Raw { unknown: true, ..Raw::default() },
                "unreduced" => Raw { unreduced: Among::All, ..Raw::default() },
                other => return wrong(format!("a sharding `{other}` is not known")),
            };
            s.expect("}")?;
            return Ok(raw);
        }
        s.expect("[")?;
        let sizes = s.numbers("]")?;
        let count = sizes.iter().try_fold(1u64, |n, d| n.checked_mul(*d)).unwrap_or(u64::MAX);
        if count != self.devices {
            return wrong(format!("a sharding of {count} devices; the program has {} partitions", self.devices));
        }
        let list = if s.eat("<=") {
            s.expect("[")?;
            let shape = s.numbers("]")?;
            let turn = match s.eat("T(") {
                true => s.numbers(")")?,
                false => (0..shape.len() as u64).collect(),
            };
            counted(&shape, &turn, self.devices)?
        } else {
            let mut list = vec![s.number()?];
            while s.eat(",") {
                list.push(s.number()?);
            }
            list
        };
        let mut dims = self.by_dimension(&sizes, &list)?;
        let mut raw = Raw::default();
        while !s.eat("}") {
            if s.eat("last_tile_dim_replicate") {
                dims.pop();
            } else if s.eat("last_tile_dims={") {
                let mut kinds = Vec::new();
                while !s.eat("}") {
                    if !s.eat(",") {
                        kinds.push(s.word());
                    }
                }
                for kind in kinds.iter().rev() {
                    let pieces = dims.pop().unwrap_or_default();
                    match *kind {
                        "manual" => raw.manual.add(pieces),
                        "unreduced" => raw.unreduced.add(pieces),
                        _ => {}
                    }
                }
            } else if s.eat("metadata={") {
                let mut depth = 1;
                while depth > 0 && !s.is_empty() {
                    depth += i32::from(s.starts("{")) - i32::from(s.starts("}"));
                    let mut rest = s.rest.chars();
                    rest.next();
                    s.rest = rest.as_str();
                }
            } else if !s.eat(",") {
                return wrong(format!("`{}` in a sharding is not known", s.near()));
            }
        }
        raw.dims = Some(dims.into_iter().map(|pieces| RawDim { pieces, ..RawDim::default() }).collect());
        Ok(raw)
    }
}

/// The devices of `<=[2,4]T(1,0)` in order.
fn counted(shape: &[u64], turn: &[u64], devices: u64) -> Read<Vec<u64>> {
    let mut sorted = turn.to_vec();
    sorted.sort_unstable();
    let whole = shape.iter().try_fold(1u64, |n, d| n.checked_mul(*d)).unwrap_or(u64::MAX);
    if sorted.iter().enumerate().any(|(i, t)| *t != i as u64) || sorted.len() != shape.len() || whole != devices {
        return wrong("a tile assignment whose transposition does not fit");
    }
    let stride = |d: usize| shape[d + 1..].iter().product::<u64>();
    let mut list = vec![0];
    for &t in turn {
        let t = t as usize;
        list = list
            .iter()
            .flat_map(|base| (0..shape[t]).map(move |i| (base, i)))
            .map(|(b, i)| b + i * stride(t))
            .collect();
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader() -> Reader {
        let meshes = meshes(
            r##"{mesh = #sdy.mesh<["d"=2, "m"=4]>, turned = #sdy.mesh<["a"=4, "b"=2], device_ids=[0, 4, 1, 5, 2, 6, 3, 7]>}"##,
        );
        Reader { meshes: meshes.expect("reads"), devices: 8, places: None }
    }

    fn spelled(raw: &Raw) -> String {
        let piece = |p: &Piece| format!("{}x{}", p.size, p.stride);
        let list = |l: &[Piece]| l.iter().map(piece).collect::<Vec<_>>().join(" ");
        let dims = raw.dims.iter().flatten().map(|d| format!("{}{}", list(&d.pieces), if d.open { "?" } else { "" }));
        let mut out = dims.collect::<Vec<_>>().join("|");
        if !raw.manual.pieces().is_empty() {
            out += &format!(" manual {}", list(raw.manual.pieces()));
        }
        if !raw.replicated.is_empty() {
            out += &format!(" replicated {}", list(&raw.replicated));
        }
        out
    }

    #[test]
    fn shardy_is_read() {
        for (text, expected) in [
            (r##"#sdy.sharding<@mesh, [{"d"}, {}, {"m", ?}]>"##, "2x4||4x1?"),
            (r##"<@mesh, [{"m":(1)2}, {"m":(2)2}p3], replicated={"d"}>"##, "2x2|2x1 replicated 2x4"),
            (r##"#sdy.sharding<@turned, [{"b", "a"}]>"##, "2x4 4x1"),
            (r##"#sdy.sharding<mesh<["x"=8]>, [{"x"}, {?}]>"##, "8x1|?"),
            (r##"#sdy.sharding<@mesh, []>"##, ""),
        ] {
            let all = reader().shardy(text).expect(text);
            assert_eq!(all.iter().map(spelled).collect::<Vec<_>>(), [expected], "{text}");
        }
        let many = reader().shardy(r##"#sdy.sharding_per_value<[<@mesh, [{"d"}]>, <@mesh, [{?}]>]>"##);
        assert_eq!(many.map(|m| m.len()), Ok(2));
        for bad in [r##"<@none, []>"##, r##"<@mesh, [{"q"}]>"##, r##"<@mesh, [{"m":(3)2}]>"##, r##"<@mesh, [{"d"]>"##] {
            assert!(reader().shardy(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn hlo_is_read() {
        for (text, expected) in [
            ("{devices=[2,1,4]<=[8] last_tile_dim_replicate}", "2x4|"),
            ("{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}", "4x1|"),
            ("{devices=[4,2]0,4,1,5,2,6,3,7}", "4x1|2x4"),
            ("{devices=[8,1]<=[8]}", "8x1|"),
            ("{devices=[2,2,2]<=[8] last_tile_dims={manual, replicated}}", "2x4 manual 2x2"),
            ("{replicated}", ""),
            ("{devices=[2,4]<=[8] metadata={op_name=\"x\"}}", "2x4|4x1"),
        ] {
            let all = reader().hlo(text).expect(text);
            assert_eq!(all.iter().map(spelled).collect::<Vec<_>>(), [expected], "{text}");
        }
        let tuple = reader().hlo("{{replicated}, /*index=1*/{devices=[8]<=[8]}, {manual}}").expect("reads");
        assert!(tuple.len() == 3 && tuple[2].manual == Among::All);
        let irregular = reader().hlo("{devices=[8]0,1,3,2,4,5,6,7}");
        assert_eq!(irregular, Err(Unread::Order(vec![0, 1, 3, 2, 4, 5, 6, 7])));
        for bad in ["{devices=[3]0,1,2}", "{devices=[8]0,0,1,2,3,4,5,6}", "{what}", "{devices=[8]<=[2,4]T(0,0)}"] {
            assert!(matches!(reader().hlo(bad), Err(Unread::Wrong(_))), "{bad}");
        }
    }
}
