//! The file: sections and tables.

use std::sync::Arc;

use crate::ir;
use crate::{Block, Error, MAGIC, Reader, ValueId};

/// An entry of the attribute table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AttributeId(pub(crate) u32);

/// An entry of the type table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TypeId(pub(crate) u32);

impl AttributeId {
    /// Its number, as file and messages give it.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl TypeId {
    /// Its number, as file and messages give it.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// How the file holds an attribute or a type.
#[derive(Clone, Copy, Debug)]
pub enum Encoding<'a> {
    /// As in text: `#tpu.memory_space<vmem>`.
    Text(&'a str),
    /// As the builtin dialect encodes it.
    Builtin(Reader<'a>),
    /// As another dialect encodes it.
    Custom(Custom<'a>),
}

/// An attribute or a type of another dialect than the builtin one, as that encodes it.
#[derive(Clone, Copy, Debug)]
pub struct Custom<'a> {
    pub dialect: &'a str,
    pub data: Reader<'a>,
}

impl<'a> Encoding<'a> {
    /// What it is: text and other dialects' as they are, the builtin dialect's decoded.
    pub(crate) fn decoded<T>(
        self,
        text: impl FnOnce(&'a str) -> T,
        builtin: impl FnOnce(Reader<'a>) -> Result<T, Error>,
        custom: impl FnOnce(Custom<'a>) -> T,
    ) -> Result<T, Error> {
        match self {
            Encoding::Text(as_text) => Ok(text(as_text)),
            Encoding::Builtin(data) => builtin(data),
            Encoding::Custom(own) => Ok(custom(own)),
        }
    }
}

/// An attribute or a type, not decoded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'a> {
    pub dialect: u32,
    pub is_text: bool,
    pub bytes: Reader<'a>,
}

/// Data under a name, beside the operations.
#[derive(Clone, Debug)]
pub struct Resource<'a> {
    /// The dialect or tool that it belongs to.
    pub owner: &'a str,
    pub name: &'a str,
    pub data: &'a [u8],
}

/// A file of MLIR bytecode.
#[derive(Debug)]
pub struct Bytecode<'a> {
    /// The format's version.
    pub version: u64,
    /// Who wrote the file, e.g. `StableHLO_v1.13.0`.
    pub producer: &'a str,
    /// The operations of the file: as a rule one, the module.
    pub block: Block<'a>,
    pub resources: Vec<Resource<'a>>,
    strings: Vec<&'a [u8]>,
    dialects: Vec<Dialect<'a>>,
    operation_names: Vec<(Arc<str>, bool)>,
    attributes: Vec<Entry<'a>>,
    types: Vec<Entry<'a>>,
    properties: Vec<Reader<'a>>,
    value_types: Vec<TypeId>,
}

#[derive(Debug)]
struct Dialect<'a> {
    name: &'a str,
    version: Option<Reader<'a>>,
}

/// The newest version of the format that is read.
const NEWEST: u64 = 6;

/// From which version of the format on files have something.
mod since {
    /// Dialects may have versions.
    pub const DIALECT_VERSIONS: u64 = 1;
    /// The number of names of operations stands before them.
    pub const OPERATION_COUNT: u64 = 4;
    /// Operations may have properties, and their names say whether the writer knew them.
    pub const PROPERTIES: u64 = 5;
}

/// The sections of a file, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    Strings,
    Dialects,
    /// Attributes, then types; and how long each of them is.
    Entries,
    EntryOffsets,
    Operations,
    Resources,
    ResourceOffsets,
    /// Inside of that of dialects.
    DialectVersion,
    Properties,
}

impl Section {
    const COUNT: usize = Section::Properties as usize + 1;
}

impl<'a> Bytecode<'a> {
    /// Reads a file.
    ///
    /// # Errors
    /// Anything wrong with it, and versions of the format that are not known.
    pub fn read(bytes: &'a [u8]) -> Result<Bytecode<'a>, Error> {
        if u32::try_from(bytes.len()).is_err() {
            return Err(Error::new(0, "the file is larger than 4 GiB"));
        }
        let mut r = Reader::new(bytes);
        if r.take(MAGIC.len()).ok() != Some(MAGIC) {
            return Err(Error::new(0, "no MLIR bytecode: it begins with `ML\\xefR`"));
        }
        let at = r;
        let version = r.varint()?;
        if version > NEWEST {
            return Err(at.error(format!("version {version} of the bytecode; 0 to {NEWEST} are read")));
        }
        let producer = utf8(&at, r.c_string()?)?;
        let sections = sections(r)?;
        let of_kind = |s: Section| sections[s as usize];
        let need = |s: Section| of_kind(s).ok_or_else(|| r.error(format!("section {} is missing", s as usize)));
        let mut of = Bytecode {
            version,
            producer,
            block: Block::default(),
            resources: Vec::new(),
            strings: strings(need(Section::Strings)?)?,
            dialects: Vec::new(),
            operation_names: Vec::new(),
            attributes: Vec::new(),
            types: Vec::new(),
            properties: Vec::new(),
            value_types: Vec::new(),
        };
        of.read_dialects(need(Section::Dialects)?)?;
        of.read_entries(need(Section::Entries)?, need(Section::EntryOffsets)?)?;
        if let Some(properties) = of_kind(Section::Properties) {
            of.read_properties(properties)?;
        }
        if let (Some(data), Some(offsets)) = (of_kind(Section::Resources), of_kind(Section::ResourceOffsets)) {
            of.read_resources(data, offsets)?;
        }
        (of.block, of.value_types) = ir::read(&of, need(Section::Operations)?)?;
        Ok(of)
    }

    fn read_dialects(&mut self, mut r: Reader<'a>) -> Result<(), Error> {
        let n = r.count()?;
        for _ in 0..n {
            let at = r;
            let mut name = r.varint()?;
            let mut version = None;
            if self.version >= since::DIALECT_VERSIONS {
                let versioned = name & 1 == 1;
                name >>= 1;
                if versioned {
                    let (id, data) = section(&mut r)?;
                    if id != Section::DialectVersion as u8 {
                        return Err(at.error(format!("section {id} where a dialect's version is due")));
                    }
                    version = Some(data);
                }
            }
            let name = self.text(&at, name)?;
            self.dialects.push(Dialect { name, version });
        }
        if self.version >= since::OPERATION_COUNT && !r.is_at_end() {
            r.varint()?;
        }
        while !r.is_at_end() {
            let dialect = self.dialect_number(&mut r)?;
            let names = r.count()?;
            for _ in 0..names {
                let at = r;
                let n = r.varint()?;
                let (name, registered) =
                    if self.version >= since::PROPERTIES { (n >> 1, n & 1 == 1) } else { (n, true) };
                let name = format!("{}.{}", self.dialects[dialect as usize].name, self.text(&at, name)?);
                self.operation_names.push((name.into(), registered));
            }
        }
        Ok(())
    }

    fn dialect_number(&self, r: &mut Reader<'a>) -> Result<u32, Error> {
        let at = *r;
        let n = r.varint()?;
        match u32::try_from(n) {
            Ok(d) if (d as usize) < self.dialects.len() => Ok(d),
            _ => Err(at.error(format!("dialect {n} does not exist"))),
        }
    }

    /// The attribute and type tables; entries are decoded later.
    fn read_entries(&mut self, mut data: Reader<'a>, mut offsets: Reader<'a>) -> Result<(), Error> {
        let (attributes, types) = (offsets.count()?, offsets.count()?);
        for (n, is_type) in [(attributes, false), (types, true)] {
            let mut left = n;
            while left > 0 {
                let dialect = self.dialect_number(&mut offsets)?;
                let at = offsets;
                let group = offsets.count()?;
                if group > left || group == 0 {
                    return Err(at.error("a group of attributes or types has an impossible size"));
                }
                left -= group;
                for _ in 0..group {
                    let at = offsets;
                    let n = offsets.varint()?;
                    let size = usize::try_from(n >> 1).map_err(|_| at.error("an entry larger than the file"))?;
                    let entry = Entry { dialect, is_text: n & 1 == 0, bytes: data.part(size)? };
                    if is_type { self.types.push(entry) } else { self.attributes.push(entry) }
                }
            }
        }
        Ok(())
    }

    fn read_properties(&mut self, mut r: Reader<'a>) -> Result<(), Error> {
        let n = r.count()?;
        for _ in 0..n {
            let size = r.count()?;
            self.properties.push(r.part(size)?);
        }
        Ok(())
    }

    fn read_resources(&mut self, mut data: Reader<'a>, mut offsets: Reader<'a>) -> Result<(), Error> {
        let external = offsets.count()?;
        let mut group = 0;
        while !offsets.is_at_end() {
            let at = offsets;
            let owner = if group < external {
                let n = offsets.varint()?;
                self.text(&at, n)?
            } else {
                let dialect = self.dialect_number(&mut offsets)?;
                self.dialects[dialect as usize].name
            };
            group += 1;
            for _ in 0..offsets.count()? {
                let at = offsets;
                let name = offsets.varint()?;
                let name = self.text(&at, name)?;
                let size = offsets.varint()?;
                let size = usize::try_from(size).map_err(|_| at.error("a resource larger than the file"))?;
                let kind = offsets.byte()?;
                let value = data.part(size)?;
                let data = match kind {
                    // Blobs: alignment, size, padding up to the end.
                    0 => resource_blob(value)?,
                    _ => value.rest(),
                };
                self.resources.push(Resource { owner, name, data });
            }
        }
        Ok(())
    }

    pub(crate) fn attribute_id(&self, n: u64) -> Option<AttributeId> {
        u32::try_from(n).ok().filter(|i| (*i as usize) < self.attributes.len()).map(AttributeId)
    }

    pub(crate) fn type_id(&self, n: u64) -> Option<TypeId> {
        u32::try_from(n).ok().filter(|i| (*i as usize) < self.types.len()).map(TypeId)
    }

    pub(crate) fn string(&self, n: u64) -> Option<&'a [u8]> {
        self.strings.get(usize::try_from(n).ok()?).copied()
    }

    /// String `n` as text, for names.
    pub(crate) fn text(&self, at: &Reader<'a>, n: u64) -> Result<&'a str, Error> {
        let bytes = self.string(n).ok_or_else(|| at.error(format!("string {n} does not exist")))?;
        utf8(at, bytes)
    }

    /// Operation name `n` with whether its dialect was registered where the file was written.
    pub(crate) fn operation_name(&self, n: u64) -> Option<(&Arc<str>, bool)> {
        self.operation_names.get(usize::try_from(n).ok()?).map(|(name, registered)| (name, *registered))
    }

    pub(crate) fn property(&self, n: u64) -> Option<Reader<'a>> {
        self.properties.get(usize::try_from(n).ok()?).copied()
    }

    pub(crate) fn attribute_entry(&self, id: AttributeId) -> Entry<'a> {
        self.attributes[id.index()]
    }

    pub(crate) fn type_entry(&self, id: TypeId) -> Entry<'a> {
        self.types[id.index()]
    }

    pub(crate) fn dialect_name(&self, n: u32) -> &'a str {
        self.dialects[n as usize].name
    }

    /// How the file holds an attribute.
    ///
    /// # Errors
    /// Text that is none.
    pub fn attribute_encoding(&self, id: AttributeId) -> Result<Encoding<'a>, Error> {
        self.encoding(self.attribute_entry(id))
    }

    /// How the file holds a type.
    ///
    /// # Errors
    /// Text that is none.
    pub fn type_encoding(&self, id: TypeId) -> Result<Encoding<'a>, Error> {
        self.encoding(self.type_entry(id))
    }

    pub(crate) fn encoding(&self, e: Entry<'a>) -> Result<Encoding<'a>, Error> {
        let mut data = e.bytes;
        if e.is_text {
            return Ok(Encoding::Text(utf8(&e.bytes, data.c_string()?)?));
        }
        Ok(match self.dialect_name(e.dialect) {
            "builtin" => Encoding::Builtin(data),
            dialect => Encoding::Custom(Custom { dialect, data }),
        })
    }

    /// The bytes that a dialect says of its version.
    pub fn dialect_version(&self, name: &str) -> Option<Reader<'a>> {
        self.dialects.iter().find(|d| d.name == name)?.version
    }

    /// The dialects that the file names.
    pub fn dialects(&self) -> impl Iterator<Item = &'a str> {
        self.dialects.iter().map(|d| d.name)
    }

    /// Every attribute of the file.
    pub fn attribute_ids(&self) -> impl Iterator<Item = AttributeId> + use<> {
        (0..self.attributes.len() as u32).map(AttributeId)
    }

    /// Every type of the file.
    pub fn type_ids(&self) -> impl Iterator<Item = TypeId> + use<> {
        (0..self.types.len() as u32).map(TypeId)
    }

    /// One more than the largest [`ValueId`](crate::ValueId).
    pub fn values(&self) -> usize {
        self.value_types.len()
    }

    /// The type of a value of this file.
    pub fn value_type(&self, value: ValueId) -> TypeId {
        self.value_types[value.index()]
    }
}

/// Bytes as text.
pub(crate) fn utf8<'a>(at: &Reader<'a>, bytes: &'a [u8]) -> Result<&'a str, Error> {
    std::str::from_utf8(bytes).map_err(|_| at.error("a name is not UTF-8"))
}

/// The sections of a file by their number.
fn sections(mut r: Reader<'_>) -> Result<[Option<Reader<'_>>; Section::COUNT], Error> {
    let mut all = [None; Section::COUNT];
    while !r.is_at_end() {
        let at = r;
        let (id, data) = section(&mut r)?;
        match all.get_mut(id as usize) {
            None => return Err(at.error(format!("a section of unknown kind {id}"))),
            Some(Some(_)) => return Err(at.error(format!("section {id} stands twice"))),
            Some(place) => *place = Some(data),
        }
    }
    Ok(all)
}

/// Reads a section's head; its number and data.
pub(crate) fn section<'a>(r: &mut Reader<'a>) -> Result<(u8, Reader<'a>), Error> {
    let id = r.byte()?;
    let at = *r;
    let size = r.varint()?;
    let size = usize::try_from(size).map_err(|_| at.error("a section larger than the file"))?;
    if id & 0x80 != 0 {
        let at = *r;
        let alignment = r.varint()?;
        if !alignment.is_power_of_two() || alignment > 1 << 20 {
            return Err(at.error(format!("a section aligned to {alignment} bytes")));
        }
        while !(r.at() as u64).is_multiple_of(alignment) {
            let at = *r;
            if r.byte()? != 0xcb {
                return Err(at.error("padding is not 0xCB"));
            }
        }
    }
    Ok((id & 0x7f, r.part(size)?))
}

fn strings(mut r: Reader<'_>) -> Result<Vec<&[u8]>, Error> {
    let n = r.count()?;
    let mut sizes = Vec::with_capacity(n);
    for _ in 0..n {
        sizes.push(r.count()?);
    }
    let mut out = Vec::with_capacity(n);
    for size in sizes.into_iter().rev() {
        let at = r;
        let bytes = r.take(size)?;
        match bytes.split_last() {
            Some((0, text)) => out.push(text),
            _ => return Err(at.error("a string does not end with a zero byte")),
        }
    }
    Ok(out)
}

fn resource_blob(mut r: Reader<'_>) -> Result<&[u8], Error> {
    r.varint()?;
    let size = r.count()?;
    let rest = r.rest();
    Ok(&rest[rest.len() - size..])
}
