//! Operations, regions, blocks, values.

use std::sync::Arc;

use crate::module::{Section, section};
use crate::{AttributeId, Bytecode, Error, MAX_DEPTH, Reader, TypeId};

/// A value: an argument of a block or a result of an operation. No two values of a file have the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(pub u32);

impl ValueId {
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// An operation.
#[derive(Clone, Debug)]
pub struct Operation<'a> {
    /// With its dialect: `vhlo.add_v1`.
    pub name: Arc<str>,
    /// Whether the writer knew the operation. Of one that it did not know the properties are one attribute.
    pub registered: bool,
    pub location: AttributeId,
    /// The dictionary of those that are no properties.
    pub attributes: Option<AttributeId>,
    /// As the operation's dialect encodes them: as a rule its attributes in alphabetical order.
    pub properties: Option<Reader<'a>>,
    pub operands: Vec<ValueId>,
    /// Each with its type.
    pub results: Vec<(ValueId, TypeId)>,
    /// Numbers of blocks of the region around.
    pub successors: Vec<usize>,
    pub regions: Vec<Region<'a>>,
}

/// The blocks of a region.
#[derive(Clone, Debug, Default)]
pub struct Region<'a> {
    pub blocks: Vec<Block<'a>>,
}

/// A block: arguments and operations.
#[derive(Clone, Debug, Default)]
pub struct Block<'a> {
    pub arguments: Vec<Argument>,
    pub operations: Vec<Operation<'a>>,
}

/// An argument of a block.
#[derive(Clone, Copy, Debug)]
pub struct Argument {
    pub value: ValueId,
    pub type_id: TypeId,
    pub location: Option<AttributeId>,
}

/// Parts of an operation that its mask announces.
mod part {
    pub const ATTRIBUTES: u8 = 0x01;
    pub const RESULTS: u8 = 0x02;
    pub const OPERANDS: u8 = 0x04;
    pub const SUCCESSORS: u8 = 0x08;
    pub const REGIONS: u8 = 0x10;
    pub const USE_LIST_ORDERS: u8 = 0x20;
    pub const PROPERTIES: u8 = 0x40;
}

/// From this version on isolated regions stand in sections of their own.
const LAZY_REGIONS: u64 = 2;
/// From this version on uses may have an order.
const USE_LIST_ORDERS: u64 = 3;
/// From this version on arguments of blocks may lack a location.
const ELIDED_LOCATIONS: u64 = 4;
/// The section of operations.
const IR: u8 = Section::Operations as u8;

/// Reads the operations of a file; the types of its values.
pub(crate) fn read<'a>(of: &Bytecode<'a>, r: Reader<'a>) -> Result<(Block<'a>, Vec<TypeId>), Error> {
    // Every value takes a byte at least: its type's number.
    let most = r.rest().len();
    let mut state = State { of, scopes: Vec::new(), types: Vec::new(), most };
    state.scopes.push(Scope::default());
    let mut r = r;
    let block = state.block(&mut r, 0, 1)?;
    match r.is_at_end() {
        true => Ok((block, state.types)),
        false => Err(r.error("bytes after the last operation")),
    }
}

/// The values that an isolated region sees: by their number in the file, which counts those of the regions around, and
/// again from there in each region beside another.
#[derive(Default)]
struct Scope {
    values: Vec<ValueId>,
    /// Of each open region the number of the value that it defines next.
    next: Vec<usize>,
}

struct State<'a, 'b> {
    of: &'b Bytecode<'a>,
    scopes: Vec<Scope>,
    /// Of every value its type, once it is defined.
    types: Vec<TypeId>,
    most: usize,
}

impl<'a> State<'a, '_> {
    fn scope(&mut self) -> &mut Scope {
        self.scopes.last_mut().expect("the file's own scope stays")
    }

    /// Opens a region of `n` values.
    fn open(&mut self, at: &Reader<'a>, n: usize) -> Result<(), Error> {
        if n > self.most.saturating_sub(self.types.len()) {
            return Err(at.error(format!("a region of {n} values, more than the file can hold")));
        }
        let first = self.types.len() as u32;
        self.types.resize(self.types.len() + n, TypeId(0));
        let scope = self.scope();
        scope.next.push(scope.values.len());
        scope.values.extend((0..n as u32).map(|i| ValueId(first + i)));
        Ok(())
    }

    /// Closes the region opened last.
    fn close(&mut self, at: &Reader<'a>, n: usize) -> Result<(), Error> {
        let scope = self.scope();
        let left = scope.values.len() - n;
        scope.values.truncate(left);
        match scope.next.pop() {
            Some(next) if next == left + n => Ok(()),
            _ => Err(at.error("a region does not define as many values as it says")),
        }
    }

    /// Gives the next value of the region its type.
    fn define(&mut self, at: &Reader<'a>, type_id: TypeId) -> Result<ValueId, Error> {
        let scope = self.scope();
        let value = scope.next.last_mut().and_then(|next| {
            let value = scope.values.get(*next).copied();
            *next += 1;
            value
        });
        let value = value.ok_or_else(|| at.error("a region defines more values than it says"))?;
        self.types[value.index()] = type_id;
        Ok(value)
    }

    fn operand(&mut self, r: &mut Reader<'a>) -> Result<ValueId, Error> {
        let at = *r;
        let n = r.varint()?;
        let value = usize::try_from(n).ok().and_then(|n| self.scope().values.get(n).copied());
        value.ok_or_else(|| at.error(format!("value {n} does not exist")))
    }

    /// A block among `blocks` of its region.
    fn block(&mut self, r: &mut Reader<'a>, depth: usize, blocks: usize) -> Result<Block<'a>, Error> {
        let at = *r;
        let head = r.varint()?;
        let mut out = Block::default();
        if head & 1 == 1 {
            for _ in 0..r.count()? {
                out.arguments.push(self.argument(r)?);
            }
            if self.of.version >= USE_LIST_ORDERS && r.byte()? != 0 {
                use_list_orders(r, out.arguments.len())?;
            }
        }
        let n = usize::try_from(head >> 1).ok().filter(|n| *n <= r.rest().len());
        let Some(n) = n else { return Err(at.error("a block of more operations than the file can hold")) };
        for _ in 0..n {
            out.operations.push(self.operation(r, depth, blocks)?);
        }
        Ok(out)
    }

    fn argument(&mut self, r: &mut Reader<'a>) -> Result<Argument, Error> {
        let at = *r;
        let mut t = r.varint()?;
        let mut located = true;
        if self.of.version >= ELIDED_LOCATIONS {
            located = t & 1 == 1;
            t >>= 1;
        }
        let type_id = self.of.type_id(t).ok_or_else(|| at.error(format!("type {t} does not exist")))?;
        let location = if located { Some(r.attribute(self.of)?) } else { None };
        Ok(Argument { value: self.define(&at, type_id)?, type_id, location })
    }

    fn operation(&mut self, r: &mut Reader<'a>, depth: usize, blocks: usize) -> Result<Operation<'a>, Error> {
        let at = *r;
        let n = r.varint()?;
        let Some((name, registered)) = self.of.operation_name(n) else {
            return Err(at.error(format!("operation {n} does not exist")));
        };
        let mask = r.byte()?;
        let has = |part: u8| mask & part != 0;
        let mut o = Operation {
            name: Arc::clone(name),
            registered,
            location: r.attribute(self.of)?,
            attributes: None,
            properties: None,
            operands: Vec::new(),
            results: Vec::new(),
            successors: Vec::new(),
            regions: Vec::new(),
        };
        if has(part::ATTRIBUTES) {
            o.attributes = Some(r.attribute(self.of)?);
        }
        if has(part::PROPERTIES) {
            let at = *r;
            let n = r.varint()?;
            let p = self.of.property(n).ok_or_else(|| at.error(format!("properties {n} do not exist")))?;
            o.properties = Some(p);
        }
        if has(part::RESULTS) {
            for _ in 0..r.count()? {
                let t = r.type_id(self.of)?;
                o.results.push((self.define(r, t)?, t));
            }
        }
        if has(part::OPERANDS) {
            for _ in 0..r.count()? {
                o.operands.push(self.operand(r)?);
            }
        }
        if has(part::SUCCESSORS) {
            for _ in 0..r.count()? {
                let at = *r;
                let n = r.varint()?;
                let block = usize::try_from(n).ok().filter(|n| *n < blocks);
                o.successors.push(block.ok_or_else(|| at.error(format!("block {n} does not exist")))?);
            }
        }
        if has(part::USE_LIST_ORDERS) {
            use_list_orders(r, o.results.len())?;
        }
        if has(part::REGIONS) {
            self.regions(r, &mut o, depth)?;
        }
        Ok(o)
    }

    fn regions(&mut self, r: &mut Reader<'a>, o: &mut Operation<'a>, depth: usize) -> Result<(), Error> {
        if depth >= MAX_DEPTH {
            return Err(r.error(format!("regions are nested more than {MAX_DEPTH} deep")));
        }
        let at = *r;
        let head = r.varint()?;
        let isolated = head & 1 == 1;
        let n = usize::try_from(head >> 1).ok().filter(|n| *n <= r.rest().len());
        let Some(n) = n else { return Err(at.error("more regions than the file can hold")) };
        if isolated && self.of.version >= LAZY_REGIONS {
            let at = *r;
            let (id, mut inside) = section(r)?;
            if id != IR {
                return Err(at.error(format!("section {id} where an operation's regions are due")));
            }
            self.scopes.push(Scope::default());
            for _ in 0..n {
                o.regions.push(self.region(&mut inside, depth + 1)?);
            }
            self.scopes.pop();
            return match inside.is_at_end() {
                true => Ok(()),
                false => Err(inside.error("bytes after the last region")),
            };
        }
        if isolated {
            self.scopes.push(Scope::default());
        }
        for _ in 0..n {
            o.regions.push(self.region(r, depth + 1)?);
        }
        if isolated {
            self.scopes.pop();
        }
        Ok(())
    }

    fn region(&mut self, r: &mut Reader<'a>, depth: usize) -> Result<Region<'a>, Error> {
        let blocks = r.count()?;
        if blocks == 0 {
            return Ok(Region::default());
        }
        let at = *r;
        let values = r.varint()?;
        let values = usize::try_from(values).map_err(|_| at.error("a region of too many values"))?;
        self.open(&at, values)?;
        let mut out = Region::default();
        for _ in 0..blocks {
            out.blocks.push(self.block(r, depth, blocks)?);
        }
        self.close(r, values)?;
        Ok(out)
    }
}

/// Passes over the orders of the uses of some of `values`: they matter to rewriting alone.
fn use_list_orders(r: &mut Reader<'_>, values: usize) -> Result<(), Error> {
    let ordered = if values > 1 { r.count()? } else { 1 };
    for _ in 0..ordered {
        if values > 1 {
            r.varint()?;
        }
        let at = *r;
        let indices = usize::try_from(r.varint()? >> 1).ok().filter(|i| *i <= r.rest().len());
        let Some(indices) = indices else { return Err(at.error("more uses than the file can hold")) };
        for _ in 0..indices {
            r.varint()?;
        }
    }
    Ok(())
}
