//! Where operations come from.
//!
//! A location is a tree: names around places, places called from places, several places of one operation. JAX gives
//! an operation the name of its scopes and, inside it, the stack of Python's calls, innermost first.

use crate::attribute::code;
use crate::{AttributeId, Bytecode, Encoding, Error, MAX_DEPTH, Reader};

/// A place in a source file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frame<'a> {
    pub file: &'a str,
    /// The function around it; empty where the file does not say.
    pub function: &'a str,
    /// Counted from one; zero: unknown.
    pub line: u64,
    /// Counted from one; zero: unknown.
    pub column: u64,
}

/// What a location says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Location<'a> {
    /// The outermost name that is not a function's, e.g. `jit(f)/layer/dot_general`; may be empty.
    pub name: &'a str,
    /// The stack of calls, innermost first.
    pub frames: Vec<Frame<'a>>,
}

/// Locations that are looked at for one at most: they share parts, so a small file can describe an endless stack.
const MAX_PARTS: usize = 4000;

/// A location while it is read.
#[derive(Default)]
struct Walk<'a> {
    found: Location<'a>,
    parts: usize,
}

impl<'a> Bytecode<'a> {
    /// Reads a location.
    ///
    /// # Errors
    /// Damage, another attribute, and nesting beyond [`MAX_DEPTH`].
    pub fn location(&self, id: AttributeId) -> Result<Location<'a>, Error> {
        let mut walk = Walk::default();
        self.locate(id, &mut walk, "", 0)?;
        Ok(walk.found)
    }

    fn locate(&self, id: AttributeId, walk: &mut Walk<'a>, name: &'a str, depth: usize) -> Result<(), Error> {
        let place = self.attribute_entry(id).bytes;
        if depth > MAX_DEPTH {
            return Err(place.error(format!("locations are nested more than {MAX_DEPTH} deep")));
        }
        walk.parts += 1;
        if walk.parts > MAX_PARTS {
            return Ok(());
        }
        let mut r = match self.attribute_encoding(id)? {
            Encoding::Builtin(r) => r,
            Encoding::Text(_) | Encoding::Custom(_) => return Ok(()),
        };
        match r.varint()? {
            code::CALL_SITE => {
                let (callee, caller) = (r.attribute(self)?, r.attribute(self)?);
                self.locate(callee, walk, name, depth + 1)?;
                self.locate(caller, walk, "", depth + 1)
            }
            code::FILE_LINE_COLUMN => {
                let file = self.file(&mut r)?;
                walk.found.frames.push(Frame { file, function: name, line: r.varint()?, column: r.varint()? });
                Ok(())
            }
            code::FILE_LINE_RANGE => {
                let file = self.file(&mut r)?;
                let numbers = r.list(|r| r.varint())?;
                let number = |i: usize| numbers.get(i).copied().unwrap_or(0);
                walk.found.frames.push(Frame { file, function: name, line: number(0), column: number(1) });
                Ok(())
            }
            code::FUSED | code::FUSED_WITH_METADATA => self.first(&mut r, walk, name, depth),
            code::NAME => {
                let inner = r.attribute(self)?;
                let text = self.string_attribute(inner)?;
                let child = r.attribute(self)?;
                // A name right around a place is the function's; the first around other locations is the operation's.
                if walk.found.name.is_empty() && walk.found.frames.is_empty() && !self.is_place(child) {
                    walk.found.name = text;
                }
                self.locate(child, walk, text, depth + 1)
            }
            code::UNKNOWN => Ok(()),
            _ => Err(place.error("a location is due")),
        }
    }

    /// Of several places the first that says something.
    fn first(&self, r: &mut Reader<'a>, walk: &mut Walk<'a>, name: &'a str, depth: usize) -> Result<(), Error> {
        for id in r.list(|r| r.attribute(self))? {
            self.locate(id, walk, name, depth + 1)?;
            if walk.found != Location::default() {
                break;
            }
        }
        Ok(())
    }

    fn file(&self, r: &mut Reader<'a>) -> Result<&'a str, Error> {
        let id = r.attribute(self)?;
        self.string_attribute(id)
    }

    /// Whether a location is a line of a file.
    fn is_place(&self, id: AttributeId) -> bool {
        match self.attribute_encoding(id) {
            Ok(Encoding::Builtin(mut r)) => {
                matches!(r.varint(), Ok(code::FILE_LINE_COLUMN | code::FILE_LINE_RANGE))
            }
            _ => false,
        }
    }
}
