//! Shardy's attributes as its text writes them: meshes, shardings, manual axes, rules of operations.

use super::print::Printer;
use std::fmt::Write;
use systole_mlir_bytecode::{Attribute, AttributeId, Custom, Error, Reader};

/// Attributes inside one another at most: a list of shardings, a sharding, a dimension, an axis, its part.
const MAX_NESTING: usize = 8;

impl<'a> Printer<'a, '_> {
    /// The text of an attribute in Shardy's encoding. `bare`: without its name, as operations of Shardy write it.
    pub fn shardy(&self, id: AttributeId, bare: bool) -> Result<String, Error> {
        let (code, inside) = self.shardy_at(id, 0)?;
        let (before, after) = match code {
            0 if !bare => ("#sdy<manual_axes", ">"),
            2 => ("#sdy.mesh<", ">"),
            6 | 15 | 17 => ("#sdy.sharding<", ">"),
            7 | 16 if !bare => ("#sdy.sharding_per_value<", ">"),
            10 => ("#sdy.op_sharding_rule<", ">"),
            _ => ("", ""),
        };
        Ok(format!("{before}{inside}{after}"))
    }

    /// The attribute's code, and what stands inside its brackets.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a mesh without a name is written out")]
    fn shardy_at(&self, id: AttributeId, depth: usize) -> Result<(u64, String), Error> {
        let Attribute::Custom(Custom { dialect: "sdy", data: mut r }) = self.of.attribute(id)? else {
            return Err(Error::new(0, format!("attribute {} is none of Shardy", id.index())));
        };
        if depth > MAX_NESTING {
            return Err(r.error("attributes of Shardy are nested too deep"));
        }
        let at = r;
        let code = r.varint()?;
        let r = &mut r;
        let text = match code {
            0 => {
                let axes = r.list(|r| r.attribute(self.of))?;
                let axes = axes.into_iter().map(|id| self.quote(id)).collect::<Result<Vec<_>, _>>()?;
                format!("{{{}}}", axes.join(", "))
            }
            1 => {
                let name = r.string(self.of)?;
                format!("\"{}\"={}", String::from_utf8_lossy(name), r.signed()?)
            }
            2 => {
                let axes = self.parts(r, depth)?;
                let ids = r.list(|r| r.signed())?;
                match ids.is_empty() {
                    true => format!("[{axes}]"),
                    false => format!("[{axes}], device_ids={ids:?}"),
                }
            }
            3 => format!("({}){}", r.signed()?, r.signed()?),
            4 => {
                let mut text = format!("\"{}\"", String::from_utf8_lossy(r.string(self.of)?));
                if let Some(part) = r.optional_attribute(self.of)? {
                    let _ = write!(text, ":{}", self.shardy_at(part, depth + 1)?.1);
                }
                text
            }
            5 => {
                let mut inside = self.parts(r, depth)?;
                if r.byte()? == 0 {
                    inside += if inside.is_empty() { "?" } else { ", ?" };
                }
                let mut text = format!("{{{inside}}}");
                if r.varint()? != 0 {
                    let _ = write!(text, "p{}", r.varint()?);
                }
                text
            }
            6 | 15 | 17 => {
                let mesh = r.attribute(self.of)?;
                let mesh = match self.of.attribute(mesh)? {
                    Attribute::Symbol(name) => format!("@{}", name.join("::@")),
                    _ => format!("mesh<{}>", self.shardy_at(mesh, depth + 1)?.1),
                };
                let mut text = format!("{mesh}, [{}]", self.parts(r, depth)?);
                let lists: &[&str] = if code == 6 { &["replicated"] } else { &["replicated", "unreduced"] };
                for name in lists {
                    let axes = self.parts(r, depth)?;
                    if !axes.is_empty() {
                        let _ = write!(text, ", {name}={{{axes}}}");
                    }
                }
                text
            }
            7 | 16 => {
                let all = r.list(|r| r.attribute(self.of))?;
                let all = all.into_iter().map(|id| Ok(format!("<{}>", self.shardy_at(id, depth + 1)?.1)));
                format!("[{}]", all.collect::<Result<Vec<_>, Error>>()?.join(", "))
            }
            8 => r.list(|r| r.signed())?.into_iter().map(factor).collect(),
            9 => format!("[{}]", self.parts(r, depth)?),
            10 => self.rule(r, depth)?,
            _ => return Err(at.error(format!("an attribute of Shardy of kind {code} is not known"))),
        };
        Ok((code, text))
    }

    /// How an operation's operands and results share what can be divided.
    fn rule(&self, r: &mut Reader<'a>, depth: usize) -> Result<String, Error> {
        let sizes = r.list(|r| r.signed())?;
        let (operands, results) = (self.parts(r, depth)?, self.parts(r, depth)?);
        let sizes = (0..).zip(sizes).map(|(i, n)| format!("{}={n}", factor(i))).collect::<Vec<_>>();
        let mut text = format!("({operands})->({results}) {{{}}}", sizes.join(", "));
        for kind in ["reduction", "need_replication", "permutation", "blocked_propagation"] {
            let factors = r.list(|r| r.signed())?;
            if !factors.is_empty() {
                let factors = factors.into_iter().map(factor).collect::<Vec<_>>();
                let _ = write!(text, " {kind}={{{}}}", factors.join(", "));
            }
        }
        if r.byte()? != 0 {
            text += ", custom";
        }
        Ok(text)
    }

    /// The attributes of a list, between commas.
    fn parts(&self, r: &mut Reader<'a>, depth: usize) -> Result<String, Error> {
        let ids = r.list(|r| r.attribute(self.of))?;
        let parts = ids.into_iter().map(|id| Ok(self.shardy_at(id, depth + 1)?.1));
        Ok(parts.collect::<Result<Vec<_>, Error>>()?.join(", "))
    }

    fn quote(&self, id: AttributeId) -> Result<String, Error> {
        Ok(format!("\"{}\"", self.of.string_attribute(id)?))
    }
}

/// The name of what can be divided, by its number: `i` to `z`, then `z_1` and so on.
fn factor(i: i64) -> String {
    match u8::try_from(i) {
        Ok(i) if i < 18 => char::from(b'i' + i).to_string(),
        _ => format!("z_{}", i.saturating_sub(17)),
    }
}
