//! Compiled programs as the interface sees them.

use crate::client::Client;
use crate::error::{Code, Error};
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use systole_isa::DType;

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
    /// The program as it came.
    #[serde(with = "hex")]
    pub code: Vec<u8>,
    pub format: String,
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
            code: Vec::new(),
            format: String::new(),
            options: Vec::new(),
            text,
        }
    }
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
    /// Element types and sizes of the results.
    pub outputs: Vec<(DType, Vec<u64>)>,
    pub fingerprint: String,
    /// Pointers of the interface that live as long as this: see `boundary`.
    pub(crate) kept: OnceLock<Box<dyn std::any::Any + Send + Sync>>,
    pub(crate) costs: OnceLock<Vec<(String, f32)>>,
}

/// A program on its devices.
pub struct LoadedExecutable {
    pub program: Arc<Executable>,
    /// The ids of its devices; a program for any device runs where it is told to, or on the first.
    pub devices: Vec<usize>,
    deleted: AtomicBool,
    /// Pointers of the interface that live as long as this.
    pub(crate) kept: OnceLock<crate::boundary::Loaded>,
}

impl Executable {
    /// Prepares compiled code.
    pub fn new(client: &'static Client, facts: Facts, program: systole_isa::Program) -> Result<Arc<Executable>, Error> {
        let outputs = program.results.iter().map(|r| (r.layout.dtype, r.dims().to_vec())).collect();
        let fingerprint = format!("{:016x}{:016x}", fnv(&program.code), fnv(&facts.code));
        let exe = client.runtime.load(program)?;
        let (kept, costs) = (OnceLock::new(), OnceLock::new());
        Ok(Arc::new(Executable { client, facts, exe, outputs, fingerprint, kept, costs }))
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
        Executable::new(client, facts, program)
    }
}

/// What serialised programs begin with; it changes with their form.
const MAGIC: &[u8] = b"systole-pjrt-1\n";

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
