//! Reads directives: everything of a program but its code and the bytes of constants.

use super::lex::Cursor;
use super::parse::Parser;
use crate::diagnostic::{Diagnostic, closest};
use crate::dma::{DmaDesc, DmaDim, MAX_DMA_DIMS, Space};
use crate::dtype::DType;
use crate::layout::Layout;
use crate::program::{
    DebugBuffer, DebugKernel, DebugLine, DebugMember, DebugOp, DebugPlace, DebugRange, HostArray, HostCall,
    HostCallKind,
};
use crate::topology::{MAX_POD, Topology};

/// Names of all directives, without the dot.
pub(super) const NAMES: &[&str] = &[
    "program",
    "chip",
    "pod",
    "algorithm",
    "partners",
    "hbm",
    "vmem",
    "smem",
    "param",
    "result",
    "const",
    "desc",
    "trap",
    "host",
    "hostarg",
    "hostresult",
    "source",
    "op",
    "member",
    "loc",
    "place",
    "from",
    "kernel",
    "buffer",
    "hex",
    "zeros",
    "f32",
    "bf16",
    "s32",
    "u32",
    "s8",
    "u8",
];

/// Most dimensions of an array: layouts number them in a byte.
const MAX_RANK: usize = 256;

impl<'s> Parser<'s> {
    /// Reads the rest of a directive's line.
    pub(super) fn directive(
        &mut self,
        name: &str,
        (start, end): (usize, usize),
        cursor: &mut Cursor<'s, '_>,
    ) -> Result<(), Diagnostic> {
        const U64: i128 = u64::MAX as i128;
        if let Some(result) = self.data_directive(name, cursor) {
            result?;
            return cursor.finish();
        }
        self.close_constant();
        match name {
            "program" => self.program.name = cursor.name("the program's name")?,
            // Read before everything else.
            "chip" => return Ok(()),
            "pod" => self.pod(cursor)?,
            "algorithm" => {
                let (name, algorithm) = (cursor.name("an operation's name")?, cursor.name("its algorithm")?);
                self.program.pod.algorithms.push((name, algorithm));
            }
            "partners" => self.partners(cursor)?,
            "behind" => {
                let (name, op) = (cursor.name("a collective's name")?, cursor.name("an operation's name")?);
                let all = &mut self.program.pod.behind;
                match all.last_mut().filter(|b| b.0 == name) {
                    Some(known) => known.1.push(op),
                    None => all.push((name, vec![op])),
                }
            }
            "hbm" => {
                self.program.memory.hbm_bytes = cursor.integer("bytes", 0, U64)? as u64;
                self.stated.hbm = true;
            }
            "vmem" => {
                self.program.memory.vmem_bytes = cursor.integer("bytes", 0, U64)? as u64;
                self.stated.vmem = true;
            }
            "smem" => {
                self.program.memory.smem_words = cursor.integer("words", 0, u32::MAX as i128)? as u32;
                self.stated.smem = true;
            }
            "param" => {
                let array = self.array(cursor)?;
                self.program.params.push(array);
            }
            "result" => {
                let array = self.array(cursor)?;
                self.program.results.push(array);
            }
            "const" => self.constant(cursor)?,
            "desc" => self.desc(cursor)?,
            "trap" => {
                let message = cursor.name("a message")?;
                self.program.traps.push(message);
            }
            "host" => self.host_call(cursor)?,
            "hostarg" | "hostresult" => {
                let array = self.array(cursor)?;
                let Some(call) = self.program.host_calls.last_mut() else {
                    return Err(self.source.error(start, end, format!("`.{name}` belongs to a `.host` above")));
                };
                if name == "hostarg" { call.operands.push(array) } else { call.results.push(array) }
            }
            "source" => self.program.debug.source = cursor.name("a file name")?,
            "op" => self.debug_op(cursor)?,
            "member" => {
                let member = member(cursor)?;
                let Some(op) = self.program.debug.ops.last_mut() else {
                    return Err(self.source.error(start, end, "`.member` belongs to a `.op` above"));
                };
                op.members.push(member);
            }
            "loc" => self.loc(cursor)?,
            "place" => self.debug_place(cursor)?,
            "from" => self.place_of_bundle(cursor)?,
            "kernel" => self.debug_kernel(cursor)?,
            "buffer" => self.debug_buffer(cursor)?,
            _ => {
                let d = self.source.error(start, end, format!("unknown directive `.{name}`"));
                return Err(match closest(name, NAMES.iter().copied()) {
                    Some(c) => d.help(format!("did you mean `.{c}`?")),
                    None => d.help(format!("directives are .{}", NAMES.join(" ."))),
                });
            }
        }
        cursor.finish()
    }

    /// `name type[dims]{layout} as [host dims] at address`; what follows the dimensions may be left out.
    fn array(&mut self, cursor: &mut Cursor<'s, '_>) -> Result<HostArray, Diagnostic> {
        let name = cursor.name("the array's name")?;
        let dtype = dtype(cursor)?;
        let dims = sizes(cursor)?;
        let layout = if cursor.take_mark('{') {
            let order = list(cursor, '}', "a dimension number", 255)?;
            let mut sorted = order.clone();
            sorted.sort_unstable();
            if !sorted.iter().copied().eq(0..dims.len() as u64) {
                return Err(cursor.error("the layout must list every dimension number once, most minor first"));
            }
            let order: Vec<u8> = order.iter().map(|&d| d as u8).collect();
            Layout::new(dtype, &dims, &order, self.chip.core.sublanes, self.chip.core.lanes)
        } else {
            Layout::row_major(dtype, &dims, self.chip.core.sublanes, self.chip.core.lanes)
        };
        let elements = dims.iter().fold(1u128, |n, &d| n.saturating_mul(d.max(1) as u128));
        if elements > 1 << 40 {
            return Err(cursor.error("the array is larger than any memory"));
        }
        let host_dims = match cursor.take_word("as") {
            true => Some(sizes(cursor)?),
            false => None,
        };
        let array = HostArray { address: 0, layout, host_dims, name };
        crate::validate::check_host_dims(&array).map_err(|m| cursor.error(m))?;
        let at = self.at(cursor)?;
        let address = self.place(&array.name, at, array.layout.bytes()).map_err(|m| cursor.error(m))?;
        Ok(HostArray { address, ..array })
    }

    /// An optional `at address`.
    pub(super) fn at(&self, cursor: &mut Cursor<'s, '_>) -> Result<Option<u64>, Diagnostic> {
        if !cursor.take_word("at") {
            return Ok(None);
        }
        Ok(Some(cursor.integer("a byte address", 0, u64::MAX as i128)? as u64))
    }

    /// `name = space -> space chunk bytes dims count:from:to, ...`.
    fn desc(&mut self, cursor: &mut Cursor<'s, '_>) -> Result<(), Diagnostic> {
        let (name, start, end) = cursor.word("the descriptor's name")?;
        cursor.mark('=')?;
        let src = space(cursor)?;
        cursor.arrow()?;
        let dst = space(cursor)?;
        if !cursor.take_word("chunk") {
            return Err(cursor.error("expected `chunk` and the bytes of a contiguous chunk"));
        }
        let chunk = cursor.integer("bytes", 0, u32::MAX as i128)? as u32;
        let mut dims = Vec::new();
        if cursor.take_word("dims") {
            loop {
                if dims.len() == MAX_DMA_DIMS {
                    return Err(cursor.error(format!("a descriptor has at most {MAX_DMA_DIMS} dimensions")));
                }
                let count = cursor.integer("a count", 0, u32::MAX as i128)? as u32;
                cursor.mark(':')?;
                let src_stride = cursor.integer("a source stride", i64::MIN as i128, i64::MAX as i128)? as i64;
                cursor.mark(':')?;
                let dst_stride = cursor.integer("a destination stride", i64::MIN as i128, i64::MAX as i128)? as i64;
                dims.push(DmaDim { count, src_stride, dst_stride });
                if !cursor.take_mark(',') {
                    break;
                }
            }
        }
        let index = self.program.descs.len() as i32;
        self.program.descs.push(DmaDesc { src, dst, chunk, dims });
        if self.descs.insert(name.to_string(), index).is_some() {
            return Err(self.source.error(start, end, format!("descriptor `{name}` is already defined")));
        }
        Ok(())
    }

    /// `replicas partitions topology text alike n:n:.. order d:d:..`; the words may be left out.
    fn pod(&mut self, cursor: &mut Cursor<'s, '_>) -> Result<(), Diagnostic> {
        let most = i128::from(MAX_POD);
        self.program.pod.replicas = cursor.integer("replicas", 1, most)? as u32;
        self.program.pod.partitions = cursor.integer("partitions", 1, most)? as u32;
        if cursor.take_word("topology") {
            let text = cursor.name("a topology")?;
            let found = Topology::printed(&text, self.chip.devices_per_chip().max(1));
            let found =
                found.ok_or_else(|| cursor.error("expected a topology such as \"2x4:torus,mesh\" or \"full:4\""))?;
            self.program.pod.topology = Some(found);
        }
        if cursor.take_word("alike") {
            self.program.pod.alike = self.devices(cursor)?;
        }
        if cursor.take_word("order") {
            let order = self.devices(cursor)?;
            let found = self.program.pod.topology.take().map(|t| t.ordered(order));
            self.program.pod.topology = found.transpose().map_err(|e| cursor.error(e))?;
        }
        Ok(())
    }

    /// Numbers `d:d:..`.
    fn devices(&mut self, cursor: &mut Cursor<'s, '_>) -> Result<Vec<u32>, Diagnostic> {
        let mut devices = Vec::new();
        loop {
            devices.push(cursor.integer("a device", 0, i128::from(MAX_POD))? as u32);
            if !cursor.take_mark(':') {
                return Ok(devices);
            }
        }
    }

    /// `name d:d:.., d:d:..`: groups of devices.
    fn partners(&mut self, cursor: &mut Cursor<'s, '_>) -> Result<(), Diagnostic> {
        let name = cursor.name("an operation's name")?;
        let mut groups = Vec::new();
        while !cursor.is_empty() {
            groups.push(self.devices(cursor)?);
            if !cursor.take_mark(',') {
                break;
            }
        }
        self.program.pod.partners.push((name, groups));
        Ok(())
    }

    /// `kind target config`: a host call, whose arrays follow.
    fn host_call(&mut self, cursor: &mut Cursor<'s, '_>) -> Result<(), Diagnostic> {
        let (word, start, end) = cursor.word("custom, infeed, outfeed, send or recv")?;
        let kind = HostCallKind::ALL.into_iter().find(|k| k.name() == word);
        let kind =
            kind.ok_or_else(|| self.source.error(start, end, "expected custom, infeed, outfeed, send or recv"))?;
        let target = cursor.name("the host function's name")?;
        let config = cursor.name("the call's text")?;
        let (operands, results) = (Vec::new(), Vec::new());
        self.program.host_calls.push(HostCall { kind, target, config, operands, results });
        Ok(())
    }

    /// `name opcode line n flops x bytes y`; the numbers may be left out.
    fn debug_op(&mut self, cursor: &mut Cursor<'s, '_>) -> Result<(), Diagnostic> {
        let DebugMember { name, opcode, line } = member(cursor)?;
        let flops = behind(cursor, "flops", 0.0, |c| c.real("flops"))?;
        let peak = behind(cursor, "peak", None, |c| dtype(c).map(Some))?;
        let bytes = behind(cursor, "bytes", 0.0, |c| c.real("bytes"))?;
        let padding = behind(cursor, "padding", 0.0, |c| c.real("a share"))?;
        self.program.debug.ops.push(DebugOp { name, opcode, line, flops, peak, bytes, padding, members: Vec::new() });
        Ok(())
    }

    /// `name at start bundles n`.
    fn debug_kernel(&mut self, cursor: &mut Cursor<'s, '_>) -> Result<(), Diagnostic> {
        let name = cursor.name("a kernel's name")?;
        let most = i128::from(u32::MAX);
        let start = behind(cursor, "at", 0, |c| c.integer("at", 0, most))? as u32;
        let bundles = behind(cursor, "bundles", 0, |c| c.integer("bundles", 0, most))? as u32;
        self.program.debug.kernels.push(DebugKernel { name, start, bundles });
        Ok(())
    }

    /// `name memory at address bytes n from op to op`; the ops may be left out.
    fn debug_buffer(&mut self, cursor: &mut Cursor<'s, '_>) -> Result<(), Diagnostic> {
        let (name, space) = (cursor.name("a buffer's name")?, space(cursor)?);
        let most = i128::from(i64::MAX);
        let address = behind(cursor, "at", 0, |c| c.integer("at", 0, most))? as u64;
        let bytes = behind(cursor, "bytes", 0, |c| c.integer("bytes", 0, most))? as u64;
        let none = i128::from(DebugRange::NONE);
        let first = behind(cursor, "from", none, |c| c.integer("from", 0, none))? as u32;
        let last = behind(cursor, "to", none, |c| c.integer("to", 0, none))? as u32;
        self.program.debug.buffers.push(DebugBuffer { name, space, address, bytes, first, last });
        Ok(())
    }

    /// `file line n in function name text`; what follows the file may be left out.
    fn debug_place(&mut self, cursor: &mut Cursor<'s, '_>) -> Result<(), Diagnostic> {
        let file = cursor.name("a file name")?;
        let line = behind(cursor, "line", 0, |c| c.integer("a line", 0, i128::from(u32::MAX)))? as u32;
        let function = behind(cursor, "in", String::new(), |c| c.name("a function's name"))?;
        let name = behind(cursor, "name", String::new(), |c| c.name("a name"))?;
        self.program.debug.places.push(DebugPlace { file, line, function, name });
        Ok(())
    }

    /// `index` or `none`: which line of a kernel's program the code from here on comes from.
    fn place_of_bundle(&mut self, cursor: &mut Cursor<'s, '_>) -> Result<(), Diagnostic> {
        let words = [("none", DebugRange::NONE)];
        let place = above(cursor, (".from", "a `.place`", ", or none"), &words, self.program.debug.places.len())?;
        let start = self.bundles.len() as u32;
        begin(&mut self.program.debug.lines, DebugLine { start, place }, |l| l.start);
        Ok(())
    }

    /// `index`, `none` or `caller`: which operation the code from here on belongs to.
    fn loc(&mut self, cursor: &mut Cursor<'s, '_>) -> Result<(), Diagnostic> {
        let words = [("none", DebugRange::NONE), ("caller", DebugRange::CALLER)];
        let op = above(cursor, (".loc", "an `.op`", ", none or caller"), &words, self.program.debug.ops.len())?;
        let start = self.bundles.len() as u32;
        begin(&mut self.program.debug.ranges, DebugRange { start, op }, |r| r.start);
        Ok(())
    }
}

/// What `read` finds behind a word, or `absent` if that is not there.
fn behind<'s, 'c, T>(
    cursor: &mut Cursor<'s, 'c>,
    word: &str,
    absent: T,
    read: impl FnOnce(&mut Cursor<'s, 'c>) -> Result<T, Diagnostic>,
) -> Result<T, Diagnostic> {
    if cursor.take_word(word) { read(cursor) } else { Ok(absent) }
}

/// Begins a run of bundles, in the place of one that begins at the same bundle.
fn begin<T>(runs: &mut Vec<T>, run: T, start: impl Fn(&T) -> u32) {
    runs.pop_if(|last| start(last) == start(&run));
    runs.push(run);
}

/// One of the words, or the number of one of so many lines above; `or` says what the words are.
fn above(
    cursor: &mut Cursor<'_, '_>,
    (name, line, or): (&str, &str, &str),
    words: &[(&str, u32)],
    count: usize,
) -> Result<u32, Diagnostic> {
    if let Some((_, number)) = words.iter().find(|(word, _)| cursor.take_word(word)) {
        return Ok(*number);
    }
    match count as i128 - 1 {
        ..0 => Err(cursor.error(format!("`{name}` takes the number of {line} above{or}"))),
        last => Ok(cursor.integer(&format!("the number of {line} above"), 0, last)? as u32),
    }
}

fn dtype(cursor: &mut Cursor<'_, '_>) -> Result<DType, Diagnostic> {
    let (word, start, end) = cursor.word("an element type")?;
    DType::from_name(word).ok_or_else(|| {
        let names: Vec<&str> = DType::all().map(DType::name).collect();
        cursor
            .source
            .error(start, end, format!("unknown element type `{word}`"))
            .help(format!("types are {}", names.join(", ")))
    })
}

fn space(cursor: &mut Cursor<'_, '_>) -> Result<Space, Diagnostic> {
    let (word, start, end) = cursor.word("a memory: hbm, vmem or smem")?;
    match word {
        "hbm" => Ok(Space::Hbm),
        "vmem" => Ok(Space::Vmem),
        "smem" => Ok(Space::Smem),
        _ => Err(cursor.source.error(start, end, "expected a memory: hbm, vmem or smem")),
    }
}

/// `[sizes]` of an array.
fn sizes(cursor: &mut Cursor<'_, '_>) -> Result<Vec<u64>, Diagnostic> {
    cursor.mark('[')?;
    let dims = list(cursor, ']', "a dimension", (1i128 << 40) - 1)?;
    if dims.len() > MAX_RANK {
        return Err(cursor.error(format!("an array has at most {MAX_RANK} dimensions")));
    }
    Ok(dims)
}

/// Numbers separated by commas up to a closing mark.
fn list(cursor: &mut Cursor<'_, '_>, close: char, what: &str, max: i128) -> Result<Vec<u64>, Diagnostic> {
    let mut items = Vec::new();
    while !cursor.take_mark(close) {
        if !items.is_empty() {
            cursor.mark(',')?;
        }
        items.push(cursor.integer(what, 0, max)? as u64);
    }
    Ok(items)
}

/// `name opcode line n`; the line may be left out.
fn member(cursor: &mut Cursor<'_, '_>) -> Result<DebugMember, Diagnostic> {
    let (name, opcode) = (cursor.name("an operation's name")?, cursor.name("the operation's opcode")?);
    let known = cursor.take_word("line");
    let line = if known { cursor.integer("a line number", 0, u32::MAX as i128)? as u32 } else { 0 };
    Ok(DebugMember { name, opcode, line })
}
