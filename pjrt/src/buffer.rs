//! Arrays on a device: there, on the way, or failed.

use crate::client::{Client, Device, MemoryKind};
use crate::error::{Code, Error};
use crate::event::Event;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use systole_isa::DType;
use systole_runtime::Array;

/// The contents of an array: what runs produce and consume. Contents never change.
pub struct Slot {
    pub ready: Event,
    value: OnceLock<Arc<Array>>,
    /// Whose bytes it takes; places of the host are not counted.
    usage: Option<Arc<crate::client::Usage>>,
    bytes: i64,
    /// The values are made up: only cycles were counted.
    pub made_up: AtomicBool,
}

impl Slot {
    fn new(device: &Device, kind: MemoryKind, bytes: i64) -> Slot {
        let usage = (kind == MemoryKind::Device).then(|| Arc::clone(&device.bytes));
        usage.iter().for_each(|u| u.add(bytes));
        Slot { ready: Event::new(), value: OnceLock::new(), usage, bytes, made_up: AtomicBool::new(false) }
    }

    /// Gives the contents, or why there are none.
    pub fn fill(&self, outcome: Result<Arc<Array>, Error>) {
        let outcome = outcome.map(|a| {
            // What came first stays, as with the event.
            if self.value.set(a).is_ok() {
                self.usage.iter().for_each(|u| _ = u.held.fetch_add(self.bytes, Ordering::Relaxed));
            }
        });
        self.ready.set(outcome);
    }

    /// Whose bytes it takes, and how many.
    pub fn takes(&self) -> Option<(&crate::client::Usage, i64)> {
        Some((self.usage.as_deref()?, self.bytes))
    }

    /// The contents, once they are ready.
    ///
    /// # Errors
    /// Why there are none.
    pub fn get(&self) -> Result<Arc<Array>, Error> {
        match self.ready.wait().as_ref() {
            Err(e) => Err(e.clone()),
            Ok(()) => self.value.get().cloned().ok_or_else(|| Error::internal("an array without contents")),
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(u) = &self.usage {
            u.remove(self.bytes);
            if self.value.get().is_some() {
                u.held.fetch_sub(self.bytes, Ordering::Relaxed);
            }
        }
        // Who still waits hears that nothing comes: work that was lost.
        self.ready.set(Err(Error::internal("the run that was to compute this array ended without a result")));
    }
}

/// A buffer of the interface.
pub struct Buffer {
    pub client: &'static Client,
    pub device: &'static Device,
    pub kind: MemoryKind,
    pub dtype: DType,
    pub dims: Vec<i64>,
    slot: Arc<Slot>,
    deleted: AtomicBool,
    /// How often somebody outside holds the contents.
    held: AtomicUsize,
}

impl Buffer {
    /// A buffer whose contents are still to come.
    pub fn pending(
        client: &'static Client,
        (device, kind): (&'static Device, MemoryKind),
        dtype: DType,
        dims: &[u64],
    ) -> Buffer {
        let bytes = dims.iter().product::<u64>().saturating_mul(dtype.host_bytes() as u64);
        Buffer {
            client,
            device,
            kind,
            dtype,
            dims: dims.iter().map(|d| *d as i64).collect(),
            slot: Arc::new(Slot::new(device, kind, i64::try_from(bytes).unwrap_or(i64::MAX))),
            deleted: AtomicBool::new(false),
            held: AtomicUsize::new(0),
        }
    }

    /// A buffer of an array.
    pub fn of(client: &'static Client, place: (&'static Device, MemoryKind), array: Array) -> Buffer {
        let b = Buffer::pending(client, place, array.dtype, &array.dims);
        b.slot.fill(Ok(Arc::new(array)));
        b
    }

    /// A buffer with the same contents on another device, or in another memory.
    pub fn copy_to(&self, place: (&'static Device, MemoryKind)) -> Result<Buffer, Error> {
        let from = self.slot()?;
        let copy = Buffer::pending(self.client, place, self.dtype, &self.sizes());
        if let Some((usage, bytes)) = copy.slot.takes() {
            usage.room(bytes)?;
        }
        let to = Arc::clone(&copy.slot);
        let source = Arc::clone(&from);
        from.ready.on_ready(move |outcome| match outcome {
            Ok(()) => to.fill(source.get()),
            Err(e) => to.fill(Err(e.clone())),
        });
        Ok(copy)
    }

    pub fn sizes(&self) -> Vec<u64> {
        self.dims.iter().map(|d| *d as u64).collect()
    }

    /// Bytes as the host sees them.
    pub fn bytes(&self) -> usize {
        self.sizes().iter().product::<u64>() as usize * self.dtype.host_bytes()
    }

    /// # Errors
    /// A buffer that was deleted or donated.
    pub fn slot(&self) -> Result<Arc<Slot>, Error> {
        match self.is_deleted() {
            true => Err(Error::new(Code::InvalidArgument, "the array has been deleted or donated")),
            false => Ok(Arc::clone(&self.slot)),
        }
    }

    /// Happens when the contents are there, whether or not the buffer is deleted meanwhile.
    pub fn ready(&self) -> Event {
        self.slot.ready.clone()
    }

    pub fn delete(&self) {
        self.deleted.store(true, Ordering::Release);
    }

    pub fn is_deleted(&self) -> bool {
        self.deleted.load(Ordering::Acquire)
    }

    /// Lets somebody outside hold the contents by their address.
    ///
    /// # Errors
    /// A buffer that was deleted.
    pub fn hold(&self) -> Result<(), Error> {
        self.slot()?;
        self.held.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    /// Ends what [`Buffer::hold`] began.
    ///
    /// # Errors
    /// If nobody holds them.
    pub fn release(&self) -> Result<(), Error> {
        let less = self.held.fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| n.checked_sub(1));
        less.map(|_| ()).map_err(|_| Error::invalid("nobody holds this array"))
    }
}
