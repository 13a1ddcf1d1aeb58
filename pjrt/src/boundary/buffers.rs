//! Arrays on devices.

use super::devices::{client_of, pointers};
use super::{Foreign, array, calls, given, object, taken};
use crate::buffer::Buffer;
use crate::client::MemoryKind;
use crate::error::{Code, Error};
use crate::event::Event;
use crate::ffi::buffer::*;
use crate::ffi::common::{BufferMemoryLayout, BufferMemoryLayoutTiled, MemoryLayoutUnion};
use crate::{host, strides, types};
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::sync::atomic::Ordering;
use systole_runtime::Array;

const TILED: u32 = 0;
const STRIDES: u32 = 1;

/// Numbers of dimensions from the fastest, for arrays of rows one after the other.
static MINOR_TO_MAJOR: [i64; 32] = {
    let mut order = [0; 32];
    let mut i = 0;
    while i < 32 {
        order[i] = 31 - i as i64;
        i += 1;
    }
    order
};

/// Byte strides that a layout asks for; nothing: rows one after the other.
///
/// # Safety
/// Null, or a live layout whose lists have the lengths that stand beside them.
unsafe fn wanted(layout: *const BufferMemoryLayout, dims: &[u64], size: usize) -> Result<Vec<i64>, Error> {
    // SAFETY: as the caller of this promises; the kind says which field of the union is meant.
    let found = unsafe {
        match layout.as_ref() {
            None => return Ok(strides::row_major(dims, size)),
            Some(l) if l.kind == STRIDES => {
                let s = &l.layout.strides;
                Some(array(s.byte_strides, s.num_byte_strides).to_vec()).filter(|s| s.len() == dims.len())
            }
            Some(l) => {
                let t = &l.layout.tiled;
                if t.num_tiles > 0 {
                    return Err(Error::new(Code::Unimplemented, "tiled arrays on the host are not supported"));
                }
                strides::of_layout(dims, array(t.minor_to_major, t.minor_to_major_size), size)
            }
        }
    };
    found.ok_or_else(|| Error::invalid("a layout that does not fit the array's dimensions"))
}

/// Copies an array to where the host wants it.
///
/// # Safety
/// The elements of such strides from `to` on are the host's, and nobody else uses them meanwhile.
unsafe fn copy_out(a: &Array, strides_out: &[i64], to: *mut u8) {
    let size = a.dtype.host_bytes();
    if *strides_out == strides::row_major(&a.dims, size)[..] {
        // SAFETY: as the caller of this promises: the elements take as many bytes in a row.
        unsafe { to.copy_from_nonoverlapping(a.bytes.as_ptr(), a.bytes.len()) }
        return;
    }
    strides::each(&a.dims, strides_out, |n, offset| {
        let element = &a.bytes[n * size..(n + 1) * size];
        // SAFETY: as the caller of this promises.
        unsafe { to.offset(offset as isize).copy_from_nonoverlapping(element.as_ptr(), size) }
    });
}

/// Calls `copy` with the contents once they are there; the event tells when that is done.
fn when_ready(b: &Buffer, copy: impl FnOnce(&Array) -> Result<(), Error> + Send + 'static) -> Result<Event, Error> {
    let (slot, done) = (b.slot()?, Event::new());
    let (told, source) = (done.clone(), slot.clone());
    slot.ready.on_ready(move |outcome| {
        let copied = match outcome {
            Ok(()) if source.made_up.load(Ordering::Relaxed) && !host::made_up_allowed() => Err(Error::new(
                Code::FailedPrecondition,
                "the run that made this array counted cycles only: its values are zeros that mean nothing. \
                 systole.configure(timing_only=True, allow_zeros=True) lets them be read",
            )),
            Ok(()) => source.get().and_then(|a| copy(&a)),
            Err(e) => Err(e.clone()),
        };
        told.set(copied);
    });
    Ok(done)
}

/// The address of the contents. They stay where they are as long as the buffer lives, and longer where a run uses them.
fn address(b: &Buffer) -> Result<*const u8, Error> {
    Ok(b.slot()?.get()?.bytes.as_ptr())
}

calls! {
    buffer_destroy(args: BufferDestroyArgs) {
        // SAFETY: the caller gives back what it got.
        unsafe { taken(args.buffer) }
    }

    buffer_element_type(args: BufferElementTypeArgs) {
        // SAFETY: a live buffer, as for all that follow.
        args.kind = types::to_number(unsafe { object(args.buffer) }?.dtype);
    }

    buffer_dimensions(args: BufferDimensionsArgs) {
        // SAFETY: a live buffer.
        let dims = &unsafe { object(args.buffer) }?.dims;
        (args.dims, args.num_dims) = (dims.as_ptr(), dims.len());
    }

    buffer_unpadded_dimensions(args: BufferUnpaddedDimensionsArgs) {
        // SAFETY: a live buffer.
        let dims = &unsafe { object(args.buffer) }?.dims;
        (args.unpadded_dims, args.num_dims) = (dims.as_ptr(), dims.len());
    }

    buffer_dynamic_dimension_indices(args: BufferDynamicDimensionIndicesArgs) {
        (args.dynamic_dim_indices, args.num_dynamic_dims) = (std::ptr::null(), 0);
    }

    buffer_get_memory_layout(args: BufferGetMemoryLayoutArgs) {
        // SAFETY: a live buffer.
        let rank = unsafe { object(args.buffer) }?.dims.len();
        let Some(order) = MINOR_TO_MAJOR.len().checked_sub(rank).map(|from| &MINOR_TO_MAJOR[from..]) else {
            return Err(Error::new(Code::Unimplemented, "layouts of arrays of more than 32 dimensions"));
        };
        let tiled = BufferMemoryLayoutTiled {
            struct_size: size_of::<BufferMemoryLayoutTiled>(),
            extension_start: std::ptr::null_mut(),
            minor_to_major: order.as_ptr(),
            minor_to_major_size: rank,
            tile_dims: std::ptr::null(),
            tile_dim_sizes: std::ptr::null(),
            num_tiles: 0,
        };
        args.layout.kind = TILED;
        args.layout.layout = MemoryLayoutUnion { tiled: ManuallyDrop::new(tiled) };
    }

    buffer_on_device_size_in_bytes(args: BufferOnDeviceSizeInBytesArgs) {
        // SAFETY: a live buffer.
        args.on_device_size_in_bytes = unsafe { object(args.buffer) }?.bytes();
    }

    buffer_device(args: BufferDeviceArgs) {
        // SAFETY: a live buffer.
        args.device = std::ptr::from_ref(unsafe { object(args.buffer) }?.device).cast_mut();
    }

    buffer_memory(args: BufferMemoryArgs) {
        // SAFETY: a live buffer.
        let b = unsafe { object(args.buffer) }?;
        args.memory = pointers(b.client)?.memory(b.device.id, b.kind);
    }

    buffer_delete(args: BufferDeleteArgs) {
        // SAFETY: a live buffer.
        unsafe { object(args.buffer) }?.delete();
    }

    buffer_is_deleted(args: BufferIsDeletedArgs) {
        // SAFETY: a live buffer.
        args.is_deleted = unsafe { object(args.buffer) }?.is_deleted();
    }

    buffer_copy_to_device(args: BufferCopyToDeviceArgs) {
        // SAFETY: a live buffer, and a device, which lives as long as the process.
        let (b, device) = unsafe { (object(args.buffer)?, object(args.dst_device)?) };
        client_of(device)?;
        args.dst_buffer = given(b.copy_to((device, MemoryKind::Device))?);
    }

    buffer_copy_to_memory(args: BufferCopyToMemoryArgs) {
        // SAFETY: a live buffer and a live memory.
        let (b, memory) = unsafe { (object(args.buffer)?, object(args.dst_memory)?) };
        args.dst_buffer = given(b.copy_to((&memory.client.devices()[memory.memory.device], memory.memory.kind))?);
    }

    buffer_bitcast(args: BufferBitcastArgs) {
        // SAFETY: a live buffer, and a list of the length that stands beside it.
        let (b, dims) = unsafe { (object(args.buffer)?, array(args.dims, args.num_dims)) };
        let dtype = types::from_number(args.element_type).ok_or_else(|| Error::invalid("an unknown element type"))?;
        let dims: Vec<u64> = dims.iter().map(|d| u64::try_from(*d).unwrap_or(0)).collect();
        let contents = b.slot()?.get()?;
        if dims.iter().product::<u64>() as usize * dtype.host_bytes() != contents.bytes.len() {
            return Err(Error::invalid("a bitcast to a type of another size"));
        }
        let copy = Array::new(dtype, &dims, contents.bytes.clone());
        args.out_buffer = given(Buffer::of(b.client, (b.device, b.kind), copy));
    }

    buffer_to_host_buffer(args: BufferToHostBufferArgs) {
        // SAFETY: a live buffer.
        let b = unsafe { object(args.src) }?;
        let (dims, size) = (b.sizes(), b.dtype.host_bytes());
        // SAFETY: a layout or nothing.
        let order = unsafe { wanted(args.host_layout, &dims, size)? };
        let too_large = || Error::invalid("a layout beyond the array");
        let (low, high) = strides::extent(&dims, &order, size).ok_or_else(too_large)?;
        let need = usize::try_from(high).map_err(|_| too_large())?;
        if args.dst.is_null() {
            args.dst_size = need;
            return Ok(());
        }
        if low < 0 || args.dst_size < need {
            return Err(Error::invalid(format!("the host has {} bytes, the array takes {need}", args.dst_size)));
        }
        let to = Foreign(args.dst.cast::<u8>());
        args.event = given(when_ready(b, move |a| {
            let to = to;
            // SAFETY: the host's place is its own until the event, and is long enough.
            unsafe { copy_out(a, &order, to.0) }
            Ok(())
        })?);
    }

    buffer_copy_raw_to_host(args: BufferCopyRawToHostArgs) {
        // SAFETY: a live buffer.
        let b = unsafe { object(args.buffer) }?;
        let range = usize::try_from(args.offset).ok().zip(usize::try_from(args.transfer_size).ok());
        let (from, size) = range.ok_or_else(|| Error::invalid("a negative range"))?;
        let to = Foreign(args.dst.cast::<u8>());
        args.event = given(when_ready(b, move |a| {
            let to = to;
            let part = from.checked_add(size).and_then(|end| a.bytes.get(from..end));
            let part = part.ok_or_else(|| Error::invalid("a range beyond the array"))?;
            // SAFETY: the host's place is its own until the event, and has the size that it asked for.
            unsafe { to.0.copy_from_nonoverlapping(part.as_ptr(), size) }
            Ok(())
        })?);
    }

    buffer_is_on_cpu(args: BufferIsOnCpuArgs) {
        args.is_on_cpu = false;
    }

    buffer_ready_event(args: BufferReadyEventArgs) {
        // SAFETY: a live buffer.
        args.event = given(unsafe { object(args.buffer) }?.ready());
    }

    buffer_unsafe_pointer(args: BufferUnsafePointerArgs) {
        // SAFETY: a live buffer.
        args.buffer_pointer = address(unsafe { object(args.buffer) }?)? as usize;
    }

    buffer_increase_external_reference_count(args: BufferIncreaseExternalReferenceCountArgs) {
        // SAFETY: a live buffer.
        unsafe { object(args.buffer) }?.hold()?;
    }

    buffer_decrease_external_reference_count(args: BufferDecreaseExternalReferenceCountArgs) {
        // SAFETY: a live buffer.
        unsafe { object(args.buffer) }?.release()?;
    }

    buffer_opaque_device_memory_data_pointer(args: BufferOpaqueDeviceMemoryDataPointerArgs) {
        // SAFETY: a live buffer.
        args.device_memory_ptr = address(unsafe { object(args.buffer) }?)?.cast_mut().cast::<c_void>();
    }
}
