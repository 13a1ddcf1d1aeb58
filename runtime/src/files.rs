//! Files that are whole: they are written beside their place and renamed when nothing is missing. Who reads one finds the old
//! file or the new one, whatever ends the process in between.

use crate::RuntimeError;
use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};

/// Bytes of a text at most: what has more (a device that never ends, say) was not written by anybody.
const LARGEST_TEXT: u64 = 256 << 20;

/// A file that people write: a chip, a schedule, the description of a sweep.
///
/// # Errors
/// If it cannot be read, is no UTF-8, or has more than 256 MiB.
pub fn read_text(path: impl AsRef<Path>) -> std::io::Result<String> {
    let mut text = String::new();
    let read = File::open(path)?.take(LARGEST_TEXT + 1).read_to_string(&mut text)?;
    if read as u64 > LARGEST_TEXT {
        return Err(std::io::Error::other("more than 256 MiB, where a text is due"));
    }
    Ok(text)
}

/// The path beside a file that it is written to first.
fn beside(path: &Path) -> PathBuf {
    let name = path.file_name().map_or_else(|| "output".into(), |n| n.to_string_lossy().into_owned());
    path.with_file_name(format!(".{name}.{}.part", std::process::id()))
}

/// Bytes that are written at once: a file system takes as long for few.
const BUFFER: usize = 1 << 17;

/// Writes a file by `fill`, and puts it in its place when it is whole. Pipes and devices are written as they are.
///
/// # Errors
/// If it cannot be written; the message names it, and the file that was there is unchanged.
pub fn write_by(
    path: &str,
    fill: impl FnOnce(&mut BufWriter<File>) -> std::io::Result<()>,
) -> Result<(), RuntimeError> {
    let special = std::fs::metadata(path).is_ok_and(|m| !m.is_file() && !m.is_dir());
    // A link is followed: the file that it names is replaced, not the link.
    let target = std::fs::canonicalize(path).unwrap_or_else(|_| PathBuf::from(path));
    let first = if special { PathBuf::from(path) } else { beside(&target) };
    let write = || -> std::io::Result<()> {
        let mut out = BufWriter::with_capacity(BUFFER, File::create(&first)?);
        fill(&mut out)?;
        out.flush()?;
        if special {
            return Ok(());
        }
        if let Ok(old) = std::fs::metadata(&target) {
            // It stays as accessible as it was; where that cannot be, it is as new files are.
            let _ = std::fs::set_permissions(&first, old.permissions());
        }
        std::fs::rename(&first, &target)
    };
    write().map_err(|e| {
        if !special {
            // What was begun is of no use, and the first error is the one to tell.
            let _ = std::fs::remove_file(&first);
        }
        RuntimeError::Request(format!("{path}: {e}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_leaves_the_old_file_and_nothing_else() {
        let dir = std::env::temp_dir().join(format!("systole-files-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("temporary folders are writable");
        let path = dir.join("a.bin");
        let text = path.to_str().expect("temporary paths are text");
        write_by(text, |out| out.write_all(b"old")).expect("written");
        let failed = write_by(text, |out| {
            out.write_all(b"half of the n")?;
            out.flush()?;
            Err(std::io::Error::other("the disk is full"))
        });
        assert!(failed.expect_err("it failed").to_string().contains("the disk is full"));
        assert_eq!(std::fs::read(&path).expect("there"), b"old");
        assert_eq!(std::fs::read_dir(&dir).expect("the folder").count(), 1, "nothing is left beside it");
        write_by(text, |out| out.write_all(b"new")).expect("written");
        assert_eq!(std::fs::read(&path).expect("there"), b"new");
        std::fs::remove_dir_all(&dir).expect("its own folder");
    }
}
