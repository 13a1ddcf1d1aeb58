//! Which devices exchange: groups, pairs, meshes and shardings.

use super::fields;
use super::text::{braces, damage, quoted};
use super::wire::{Message, Read};
use std::fmt::Write;

fn joined(v: &[i64]) -> String {
    v.iter().map(i64::to_string).collect::<Vec<_>>().join(",")
}

/// The groups of a collective in any of their forms, as HLO text has them.
pub(super) fn groups(i: &Message<'_>) -> Read<Option<String>> {
    let list = i.message(87)?;
    let mut found = Vec::new();
    let mut plain = i.messages(49)?;
    let mut iota = i.message(92)?;
    if let Some(l) = &list {
        // The list held a form by number once, now in an instruction's own field.
        let older = l.message(2)?;
        if older.is_none() {
            fields::GROUPS.check(l)?;
        }
        plain.extend(l.messages(1)?);
        iota = iota.or(older);
    }
    if !plain.is_empty() {
        let groups: Read<Vec<String>> = plain.iter().map(|g| Ok(braces(&g.ints(1)?))).collect();
        found.push(braces(&groups?));
    }
    if let Some(iota) = &iota {
        fields::IOTA_GROUPS.check(iota)?;
        let turn = iota.ints(4)?;
        let mut text = format!("[{},{}]<=[{}]", iota.int(1)?, iota.int(2)?, joined(&iota.ints(3)?));
        if turn.len() > 1 && !turn.is_sorted() {
            text += &format!("T({})", joined(&turn));
        }
        found.push(text);
    }
    if let Some(axes) = i.message(93)? {
        found.push(mesh_axes(&axes)?);
    }
    let last = found.pop();
    // An instruction may repeat the same groups in an older field.
    Ok(last)
}

/// A `MeshAxesReplicaGroupListProto`: `mesh['a'=2,'b'=4], device_ids=(..) {'a'}`.
fn mesh_axes(m: &Message<'_>) -> Read<String> {
    fields::MESH_GROUPS.check(m)?;
    let Some(mesh) = m.message(1)? else { return damage(m, "mesh axes without a mesh") };
    fields::MESH.check(&mesh)?;
    let mut names = Vec::new();
    let mut axes = Vec::new();
    for axis in mesh.messages(1)? {
        let name = quoted_axis(axis.text(1)?);
        axes.push(format!("{name}={}", axis.int(2)?));
        names.push(name);
    }
    let mut out = format!("mesh[{}]", axes.join(","));
    let ids = mesh.ints(2)?;
    if !ids.is_empty() {
        put(&mut out, format_args!(", device_ids=({})", joined(&ids)));
    } else if let Some(t) = mesh.message(3)? {
        let turn = t.ints(2)?;
        let turn = if turn.len() > 1 { format!("T({})", joined(&turn)) } else { String::new() };
        put(&mut out, format_args!(", device_ids=([{}]{turn})", joined(&t.ints(1)?)));
    }
    let mut used = Vec::new();
    for r in m.messages(2)? {
        let index = r.int(1)?;
        let Some(name) = usize::try_from(index).ok().and_then(|i| names.get(i)) else {
            return damage(&r, format!("the mesh has no axis {index}"));
        };
        used.push(match r.message(2)? {
            Some(part) => format!("{name}:({}){}", part.int(1)?, part.int(2)?),
            None => name.clone(),
        });
    }
    put(&mut out, format_args!(" {}", braces(&used)));
    Ok(out)
}

/// An axis name that the text can hold.
fn quoted_axis(name: &str) -> String {
    let clean = |c: char| if c.is_ascii_alphanumeric() || "_.-".contains(c) { c } else { '_' };
    format!("'{}'", name.chars().map(clean).collect::<String>())
}

fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    if out.write_fmt(text).is_err() {
        // Strings take all text.
    }
}

/// An `OpSharding`.
pub(super) fn sharding(s: &Message<'_>) -> Read<String> {
    // A sharding by the names of a mesh's axes: kept as text, it says that the program is not partitioned.
    if let Some(named) = s.message(14)? {
        let dims = named.messages(3)?;
        let divided = dims.iter().map(|d| Ok(!d.messages(1)?.is_empty())).collect::<Read<Vec<bool>>>()?;
        let manual = !named.messages(7)?.is_empty();
        return Ok(match (divided.contains(&true), manual) {
            (true, _) => format!("{{devices={}}}", quoted(b"by mesh axes")),
            (false, true) => "{manual}".to_string(),
            (false, false) => "{replicated}".to_string(),
        });
    }
    fields::SHARDING.check(s)?;
    Ok(match s.int(1)? {
        0 => "{replicated}".to_string(),
        1 => format!("{{maximal device={}}}", s.ints(4)?.first().copied().unwrap_or(0)),
        2 => {
            let parts: Read<Vec<String>> = s.messages(5)?.iter().map(sharding).collect();
            braces(&parts?)
        }
        3 => {
            let mut out = format!("{{devices=[{}]", joined(&s.ints(3)?));
            let reshape = s.ints(9)?;
            if reshape.is_empty() {
                out += &joined(&s.ints(4)?);
            } else {
                out += &format!("<=[{}]", joined(&reshape));
                let turn = s.ints(10)?;
                if turn.len() > 1 {
                    out += &format!("T({})", joined(&turn));
                }
            }
            // By the kinds of the last dimensions (field 8), in the text as a list.
            if s.flag(6)? {
                out.push_str(" last_tile_dim_replicate");
            }
            out + "}"
        }
        4 => "{manual}".to_string(),
        5 => "{unknown}".to_string(),
        6 => "{unreduced}".to_string(),
        other => return damage(s, format!("sharding type {other} is not known")),
    })
}
