//! Files with checksums: opened, and sealed again around changed contents.

use std::io::{Cursor, Read, Write};

/// Header of a program file: mark, version, checksum, length.
const PROGRAM: usize = 24;
/// Head of a profile: mark and version.
const PROFILE: usize = 12;
/// Head of a profile's section: kind, checksum, unpacked and stored length.
const SECTION: usize = 24;

/// What a program file holds.
pub fn program_payload(file: &[u8]) -> &[u8] {
    file.get(PROGRAM..).unwrap_or_default()
}

/// The program file of a payload, headed as `like`.
pub fn program(like: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut out = like.get(..12).unwrap_or_default().to_vec();
    out.extend(crc32fast::hash(payload).to_le_bytes());
    out.extend((payload.len() as u64).to_le_bytes());
    out.extend(payload);
    out
}

/// The sections of a profile: kinds and unpacked contents.
pub fn profile_sections(file: &[u8]) -> Vec<([u8; 4], Vec<u8>)> {
    let mut out = Vec::new();
    let mut rest = file.get(PROFILE..).unwrap_or_default();
    while let Some((head, body)) = rest.split_first_chunk::<SECTION>() {
        let number = |at: usize| head[at..at + 8].iter().rev().fold(0u64, |n, b| n << 8 | u64::from(*b)) as usize;
        let Some(stored) = body.get(..number(16)) else { return out };
        let raw = match stored.len() < number(8) {
            true => lz4_flex::block::decompress(stored, number(8)).unwrap_or_default(),
            false => stored.to_vec(),
        };
        out.push(([head[0], head[1], head[2], head[3]], raw));
        rest = &body[number(16)..];
    }
    out
}

/// The profile of sections, headed as `like`.
pub fn profile(like: &[u8], sections: &[([u8; 4], Vec<u8>)]) -> Vec<u8> {
    let mut out = like.get(..PROFILE).unwrap_or_default().to_vec();
    for (kind, raw) in sections {
        let packed = Some(lz4_flex::block::compress(raw)).filter(|p| p.len() < raw.len());
        let stored = packed.as_deref().unwrap_or(raw);
        out.extend(kind);
        out.extend(crc32fast::hash(stored).to_le_bytes());
        out.extend((raw.len() as u64).to_le_bytes());
        out.extend((stored.len() as u64).to_le_bytes());
        out.extend(stored);
    }
    out
}

/// The members of an archive.
pub fn members(file: &[u8]) -> Vec<(String, Vec<u8>)> {
    let Ok(mut zip) = zip::ZipArchive::new(Cursor::new(file)) else { return Vec::new() };
    let mut out = Vec::new();
    for i in 0..zip.len() {
        let Ok(mut member) = zip.by_index(i) else { continue };
        let mut data = Vec::new();
        if (&mut member).take(1 << 20).read_to_end(&mut data).is_ok() {
            out.push((member.name().to_string(), data));
        }
    }
    out
}

/// The archive of members.
pub fn archive(members: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let options = zip::write::FileOptions::default().compression_method(zip::CompressionMethod::Stored);
    for (name, data) in members {
        if zip.start_file(name.clone(), options).is_ok() && zip.write_all(data).is_err() {
            break;
        }
    }
    zip.finish().map(Cursor::into_inner).unwrap_or_default()
}
