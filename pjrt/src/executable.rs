//! Compiled programs as the interface sees them.

use crate::client::{Client, MemoryKind};
use crate::error::{Code, Error};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use systole_compiler::graph::{Module, Shape};
use systole_compiler::plan;
use systole_isa::DType;
use systole_runtime::{CompileOptions, source};

/// What is kept of a program besides its code.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Facts {
    pub name: String,
    pub replicas: usize,
    pub partitions: usize,
    /// Device ids in the order of replicas, each with its partitions; none: any device.
    pub devices: Option<Vec<usize>>,
    /// Parameters whose arrays a run takes for good.
    pub donated: Vec<usize>,
    /// Parameters and results that are tokens: the caller has empty arrays for them, the program nothing.
    pub tokens: Tokens,
    /// Where arrays lie before and behind a run.
    pub memories: Memories,
    /// The program as it came.
    #[serde(with = "hex")]
    pub code: Vec<u8>,
    pub format: String,
    /// A device's program of several partitions with the shardings of its arrays, as an HLO message; else empty.
    #[serde(with = "hex")]
    pub partitioned: Vec<u8>,
    #[serde(with = "hex")]
    pub options: Vec<u8>,
    /// The program as text, for messages and profiles.
    pub text: String,
}

impl Facts {
    /// The facts of a program of one device that is run at once.
    pub fn of_text(name: &str, text: String) -> Facts {
        Facts {
            name: name.to_string(),
            replicas: 1,
            partitions: 1,
            devices: None,
            donated: Vec::new(),
            tokens: Tokens::default(),
            memories: Memories::default(),
            code: Vec::new(),
            format: String::new(),
            partitioned: Vec::new(),
            options: Vec::new(),
            text,
        }
    }
}

/// The kinds of memories of a program's parameters and results, where the program says them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memories {
    pub parameters: Vec<MemoryKind>,
    pub results: Vec<MemoryKind>,
}

/// Places of tokens in a program's signature, ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    pub params: Vec<usize>,
    pub results: Vec<usize>,
}

impl Tokens {
    /// Those of a module's entry.
    pub fn of(module: &Module) -> Tokens {
        let entry = module.entry();
        let params: Vec<&Shape> = entry.params.iter().map(|p| &entry.node(*p).shape).collect();
        Tokens { params: places(&params), results: places(&[&entry.node(entry.root).shape]) }
    }

    /// All of a signature's results, those of the program with tokens where they belong.
    pub fn filled<T>(&self, arrays: Vec<T>, token: impl Fn() -> T) -> Vec<T> {
        let mut all = arrays;
        self.results.iter().for_each(|i| all.insert((*i).min(all.len()), token()));
        all
    }
}

/// Where tokens stand among arrays and tokens of nested tuples, in order.
fn places(shapes: &[&Shape]) -> Vec<usize> {
    fn walk(s: &Shape, number: &mut usize, out: &mut Vec<usize>) {
        match s {
            Shape::Tuple(t) => return t.iter().for_each(|s| walk(s, number, out)),
            Shape::Token => out.push(*number),
            Shape::Array(_) => {}
        }
        *number += 1;
    }
    let (mut number, mut out) = (0, Vec::new());
    shapes.iter().for_each(|s| walk(s, &mut number, &mut out));
    out
}

/// Bytes as text in messages of JSON.
mod hex {
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(bytes: &[u8], s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&bytes.iter().map(|b| format!("{b:02x}")).collect::<String>())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(d)?;
        let pair = |i: usize| text.get(i..i + 2).and_then(|p| u8::from_str_radix(p, 16).ok());
        let bytes: Option<Vec<u8>> = (0..text.len()).step_by(2).map(pair).collect();
        bytes.ok_or_else(|| serde::de::Error::custom("no hexadecimal digits"))
    }
}

/// A compiled program.
pub struct Executable {
    pub client: &'static Client,
    pub facts: Facts,
    pub exe: systole_runtime::Executable,
    /// Element types and sizes of the results; tokens are empty arrays of `pred`.
    pub outputs: Vec<(DType, Vec<u64>)>,
    pub fingerprint: String,
    /// Pointers of the interface that live as long as this: see `boundary`.
    pub(crate) kept: OnceLock<Box<dyn std::any::Any + Send + Sync>>,
    pub(crate) costs: OnceLock<Vec<(String, f32)>>,
    /// How it was compiled, where that was done here.
    asked: Option<CompileOptions>,
}

/// A program on its devices.
pub struct LoadedExecutable {
    pub program: Arc<Executable>,
    /// The ids of its devices; a program for any device runs where it is told to, or on the first.
    pub devices: Vec<usize>,
    deleted: AtomicBool,
    /// Pointers of the interface that live as long as this.
    pub(crate) kept: OnceLock<Box<dyn std::any::Any + Send + Sync>>,
}

impl Executable {
    /// Prepares compiled code.
    pub fn new(
        client: &'static Client,
        facts: Facts,
        program: systole_isa::Program,
        asked: Option<CompileOptions>,
    ) -> Result<Arc<Executable>, Error> {
        let arrays = program.results.iter().map(|r| (r.layout.dtype, r.dims().to_vec())).collect();
        let outputs = facts.tokens.filled(arrays, || (DType::Pred, vec![0]));
        let fingerprint = format!("{:016x}{:016x}", fnv(&program.code), fnv(&facts.code));
        let exe = client.runtime.load(program)?;
        let (kept, costs) = (OnceLock::new(), OnceLock::new());
        let e = Arc::new(Executable { client, facts, exe, outputs, fingerprint, kept, costs, asked });
        let mut all = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, e| e.strong_count() > 0);
        all.insert(e.fingerprint.clone(), Arc::downgrade(&e));
        Ok(e)
    }

    /// A program that is loaded, by its fingerprint.
    pub fn of(fingerprint: &str) -> Option<Arc<Executable>> {
        LOADED.lock().unwrap_or_else(PoisonError::into_inner).get(fingerprint)?.upgrade()
    }

    /// The program with its format: of several partitions what each of them runs, else as it came.
    pub fn optimized(&self) -> (&str, &[u8]) {
        match self.facts.partitioned.is_empty() {
            true => (&self.facts.format, &self.facts.code),
            false => ("hlo_with_config", &self.facts.partitioned),
        }
    }

    /// The plan as text, where the program was compiled here and not read back.
    ///
    /// # Errors
    /// As for compiling.
    pub fn plan(&self) -> Result<Option<String>, Error> {
        let Some(asked) = &self.asked else { return Ok(None) };
        let runtime = &self.client.runtime;
        let source = source::read_one("jax", self.facts.text.as_bytes(), runtime.chip(), false, &mut Vec::new())?;
        Ok(Some(plan::text::to_text(&runtime.plan_source(source, "jax", asked)?)))
    }

    /// The code as assembly.
    ///
    /// # Errors
    /// Code that cannot be decoded.
    pub fn assembly(&self) -> Result<String, Error> {
        let text = systole_isa::asm::disassemble(&self.exe.program, self.client.runtime.chip());
        text.map_err(|e| Error::internal(e.to_string()))
    }

    /// Code and facts as bytes that [`Executable::deserialize`] reads.
    pub fn serialize(&self) -> Result<Vec<u8>, Error> {
        let facts = serde_json::to_vec(&self.facts).map_err(|e| Error::internal(e.to_string()))?;
        let program = systole_isa::write_program(&self.exe.program);
        let mut out = MAGIC.to_vec();
        out.extend((facts.len() as u64).to_le_bytes());
        out.extend(facts);
        out.extend(program);
        Ok(out)
    }

    /// # Errors
    /// Bytes of another version, or for another kind of chip.
    pub fn deserialize(client: &'static Client, bytes: &[u8]) -> Result<Arc<Executable>, Error> {
        let wrong = || Error::invalid("these bytes are no program that this version serialised");
        let rest = bytes.strip_prefix(MAGIC).ok_or_else(wrong)?;
        let (size, rest) = rest.split_first_chunk::<8>().ok_or_else(wrong)?;
        let size = usize::try_from(u64::from_le_bytes(*size)).ok().filter(|n| *n <= rest.len()).ok_or_else(wrong)?;
        let (facts, program) = rest.split_at(size);
        let facts: Facts = serde_json::from_slice(facts).map_err(|_| wrong())?;
        let program = systole_isa::read_program(program).map_err(|e| Error::invalid(e.to_string()))?;
        Executable::new(client, facts, program, None)
    }
}

/// The programs that are loaded, by their fingerprints.
static LOADED: Mutex<BTreeMap<String, Weak<Executable>>> = Mutex::new(BTreeMap::new());

/// What serialised programs begin with; it changes with their form.
const MAGIC: &[u8] = b"systole-pjrt-4\n";

impl LoadedExecutable {
    pub fn new(program: Arc<Executable>) -> Result<LoadedExecutable, Error> {
        let wanted = program.facts.replicas * program.facts.partitions;
        let devices = match &program.facts.devices {
            Some(ids) => ids.clone(),
            None => (0..wanted).collect(),
        };
        let there = program.client.devices().len();
        if devices.len() != wanted || devices.iter().any(|d| *d >= there) {
            let message = format!("the program wants {wanted} devices, the client has {there}; ask for more: topology");
            return Err(Error::new(Code::InvalidArgument, message));
        }
        Ok(LoadedExecutable { program, devices, deleted: AtomicBool::new(false), kept: OnceLock::new() })
    }

    pub fn delete(&self) {
        self.deleted.store(true, Ordering::Release);
    }

    pub fn is_deleted(&self) -> bool {
        self.deleted.load(Ordering::Acquire)
    }
}

/// FNV-1a: a fingerprint of bytes, alike in every process.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3))
}
