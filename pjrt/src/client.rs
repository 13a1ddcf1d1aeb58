//! Clients and devices: a chip, how many of it, and what is asked of every run.

use crate::error::{Code, Error};
use crate::host;
use crate::queue::Queue;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use systole_isa::{ChipConfig, Topology};
use systole_runtime::{Mode, pod};

/// The chip that is simulated where nothing names one.
const DEFAULT_CHIP: &str = "tpu-v5e";
/// Most devices of a client.
const MAX_DEVICES: u32 = 1024;

/// What may be asked of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// A preset or a chip file.
    Chip,
    /// Changed parameters, `key=value` between semicolons.
    Set,
    /// `2x4`, `ring:8`, or a number of devices.
    Topology,
    /// `full`, `timing` or `numeric`.
    Mode,
}

/// The keys' names; in the environment they are in capitals after `SYSTOLE_`.
const NAMES: [(&str, Key); 4] =
    [("chip", Key::Chip), ("set", Key::Set), ("topology", Key::Topology), ("mode", Key::Mode)];

/// What a client is made of: from the plugin's options, or the environment (`SYSTOLE_CHIP`, ..).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options(BTreeMap<Key, String>);

impl FromIterator<(Key, String)> for Options {
    fn from_iter<I: IntoIterator<Item = (Key, String)>>(given: I) -> Options {
        Options(given.into_iter().collect())
    }
}

impl Options {
    /// What is asked, if anything is.
    pub fn get(&self, key: Key) -> Option<&str> {
        self.0.get(&key).map(String::as_str)
    }

    /// The options of the environment, as far as `self` has none.
    pub fn completed(mut self) -> Options {
        for (name, key) in NAMES {
            let variable = format!("SYSTOLE_{}", name.to_uppercase());
            if let Some(value) = std::env::var(variable).ok().filter(|v| !v.is_empty()) {
                self.0.entry(key).or_insert(value);
            }
        }
        self
    }

    /// Sets an option by its name; `false`: there is none of that name.
    pub fn put(&mut self, name: &str, value: String) -> bool {
        let found = NAMES.iter().find(|(known, _)| *known == name);
        found.is_some_and(|(_, key)| {
            self.0.insert(*key, value);
            true
        })
    }
}

/// How programs are run.
pub fn mode(text: &str) -> Result<Mode, Error> {
    match text {
        "" | "full" => Ok(Mode::Full),
        "timing" => Ok(Mode::TimingOnly),
        "numeric" => Ok(Mode::NumericOnly),
        other => Err(Error::invalid(format!("mode `{other}`: full, timing or numeric is expected"))),
    }
}

/// The chip of a preset's name or a file, with parameters changed.
pub fn chip(name: &str, sets: &[String]) -> Result<ChipConfig, Error> {
    let wrong = |e: String| Error::invalid(e);
    let mut chip = match std::fs::read_to_string(name).ok().filter(|_| name.ends_with(".toml")) {
        Some(text) => ChipConfig::from_toml(&text, name).map_err(|e| wrong(e.to_string()))?,
        None => ChipConfig::from_preset(name).map_err(|e| wrong(e.to_string()))?,
    };
    chip.apply_sets(sets).map_err(|e| wrong(e.to_string()))?;
    Ok(chip)
}

/// A client. It lives as long as the process.
pub struct Client {
    pub runtime: systole_runtime::Client,
    pub topology: Option<Topology>,
    pub version: String,
    devices: Vec<Device>,
    memories: Vec<Memory>,
    mode: RwLock<Mode>,
    pub queue: Queue,
    /// The interface's pointers to devices and memories: see `boundary`.
    pub(crate) pointers: OnceLock<Box<dyn std::any::Any + Send + Sync>>,
}

/// A device of a client.
pub struct Device {
    pub id: usize,
    pub kind: String,
    pub text: String,
    pub debug: String,
    /// Where it stands among its neighbours.
    pub coordinates: Vec<i64>,
    pub bytes: Arc<Usage>,
    /// The client that it belongs to, once that lives for good.
    pub(crate) client: OnceLock<&'static Client>,
}

/// A memory: its kind, and the device whose it is.
pub struct Memory {
    pub id: usize,
    pub device: usize,
    pub kind: MemoryKind,
    pub text: String,
}

/// The kinds of memories that every device has: its HBM, and places of the host, which arrays can be kept in. Programs copy
/// what they take from the host's, and give results there, without time: it is the transfer before and behind a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum MemoryKind {
    #[default]
    Device,
    PinnedHost,
    UnpinnedHost,
}

impl MemoryKind {
    /// In the order of their numbers.
    pub const ALL: [MemoryKind; 3] = [MemoryKind::Device, MemoryKind::PinnedHost, MemoryKind::UnpinnedHost];

    /// As JAX has it.
    pub fn name(self) -> &'static str {
        match self {
            MemoryKind::Device => "device",
            MemoryKind::PinnedHost => "pinned_host",
            MemoryKind::UnpinnedHost => "unpinned_host",
        }
    }

    /// The kind of a name.
    pub fn named(name: &str) -> Option<MemoryKind> {
        MemoryKind::ALL.into_iter().find(|k| k.name() == name)
    }
}

/// Bytes of a device's arrays.
#[derive(Default)]
pub struct Usage {
    /// How many there may be.
    pub limit: i64,
    /// Of arrays, and of those among them that are there: others are still to be computed, when some of these are gone.
    pub now: AtomicI64,
    pub held: AtomicI64,
    pub peak: AtomicI64,
    pub largest: AtomicI64,
    pub count: AtomicUsize,
}

impl Usage {
    pub fn add(&self, bytes: i64) {
        let now = self.now.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.peak.fetch_max(now, Ordering::Relaxed);
        self.largest.fetch_max(bytes, Ordering::Relaxed);
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    pub fn remove(&self, bytes: i64) {
        self.now.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Whether there is room for as many more bytes.
    ///
    /// # Errors
    /// How much there is of what.
    pub fn room(&self, bytes: i64) -> Result<(), Error> {
        let (held, limit) = (self.held.load(Ordering::Relaxed), self.limit);
        if held.saturating_add(bytes) <= limit {
            return Ok(());
        }
        let message = format!("HBM: arrays take {held} bytes, and {bytes} more are asked for; the device has {limit}");
        Err(Error::new(Code::ResourceExhausted, message))
    }

    /// Lets the peaks start again from now.
    pub fn clear(&self) {
        let now = self.now.load(Ordering::Relaxed);
        self.peak.store(now, Ordering::Relaxed);
        self.largest.store(0, Ordering::Relaxed);
        self.count.store(0, Ordering::Relaxed);
    }
}

impl Client {
    /// # Errors
    /// Options that do not fit.
    pub fn new(options: &Options) -> Result<Client, Error> {
        let sets: Vec<String> =
            options.get(Key::Set).into_iter().flat_map(|s| s.split(';')).map(|s| s.trim().to_string()).collect();
        let sets: Vec<String> = sets.into_iter().filter(|s| !s.is_empty()).collect();
        let chip = chip(options.get(Key::Chip).unwrap_or(DEFAULT_CHIP), &sets)?;
        let topology = topology(options.get(Key::Topology), &chip)?;
        let count = topology.as_ref().map_or(1, Topology::devices);
        if count > MAX_DEVICES {
            return Err(Error::invalid(format!("topology of {count} devices; at most {MAX_DEVICES} are simulated")));
        }
        let mode = mode(options.get(Key::Mode).unwrap_or_default())?;
        let device = |id: usize| Device {
            id,
            kind: chip.name.clone(),
            text: format!("SystoleDevice(id={id})"),
            debug: format!("systole:{id} ({})", chip.name),
            coordinates: coordinates(topology.as_ref(), id),
            bytes: Arc::new(Usage { limit: chip.hbm.bytes as i64, ..Usage::default() }),
            client: OnceLock::new(),
        };
        let devices: Vec<Device> = (0..count as usize).map(device).collect();
        let memory = |id: usize| {
            let (device, kind) = (id / MemoryKind::ALL.len(), MemoryKind::ALL[id % MemoryKind::ALL.len()]);
            Memory { id, device, kind, text: format!("SystoleMemory(id={id}, kind={})", kind.name()) }
        };
        let version = format!("systole {} on {}", env!("CARGO_PKG_VERSION"), chip.name);
        let mut runtime = systole_runtime::Client::with_chip(chip);
        host::register(&mut runtime);
        Ok(Client {
            runtime,
            topology,
            version,
            memories: (0..count as usize * MemoryKind::ALL.len()).map(memory).collect(),
            devices,
            mode: RwLock::new(mode),
            queue: Queue::default(),
            pointers: OnceLock::new(),
        })
    }

    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// Device after device, the kinds of each in their order.
    pub fn memories(&self) -> &[Memory] {
        &self.memories
    }

    /// What runs from now on compute.
    pub fn mode(&self) -> Mode {
        *self.mode.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn set_mode(&self, mode: Mode) {
        *self.mode.write().unwrap_or_else(PoisonError::into_inner) = mode;
    }
}

/// The topology that a text names: a shape, or a number of devices; nothing: one device alone.
fn topology(text: Option<&str>, chip: &ChipConfig) -> Result<Option<Topology>, Error> {
    let found = match text.map(str::trim).filter(|t| !t.is_empty()) {
        None | Some("1") => return Ok(None),
        Some(t) => match t.parse::<u32>() {
            Ok(n) => pod::topology(None, chip, n),
            Err(_) => pod::topology(Some(t), chip, 1),
        },
    };
    found.map(Some).map_err(Error::from)
}

/// A device's place along the topology's dimensions, the last one fastest.
fn coordinates(topology: Option<&Topology>, id: usize) -> Vec<i64> {
    let mut rest = id as u32;
    let mut at: Vec<i64> = Vec::new();
    for d in topology.map_or(&[][..], |t| &t.dims).iter().rev() {
        at.push(i64::from(rest % d));
        rest /= d;
    }
    at.reverse();
    // Three numbers are what users of TPUs expect.
    at.resize(3.max(at.len()), 0);
    at
}

static CLIENTS: Mutex<Vec<&'static Client>> = Mutex::new(Vec::new());

/// A client that lives from now on.
pub(crate) fn keep(client: Client) -> &'static Client {
    let client: &'static Client = Box::leak(Box::new(client));
    client.devices().iter().for_each(|d| {
        // A device has one client.
        let _ = d.client.set(client);
    });
    CLIENTS.lock().unwrap_or_else(PoisonError::into_inner).push(client);
    client
}

/// Every client there is.
pub(crate) fn each(f: impl FnMut(&'static Client)) {
    CLIENTS.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().for_each(f);
}

/// Sets the mode of every client from now on: `full`, `timing` or `numeric`.
///
/// # Errors
/// Another text.
pub fn set_mode(text: &str) -> Result<(), Error> {
    let mode = mode(text)?;
    each(|c| c.set_mode(mode));
    Ok(())
}
