//! Clients: creation, compilation, arrays from the host.

use super::devices::{client_of, pointers};
use super::{array, calls, given, object, shown, text};
use crate::buffer::Buffer;
use crate::client::{Client, Device, MemoryKind, Options};
use crate::compile::compile;
use crate::error::Error;
use crate::event::Event;
use crate::executable::LoadedExecutable;
use crate::ffi::common::NamedValue;
use crate::ffi::device::*;
use crate::ffi::handle::Memory;
use crate::{client, strides, types};
use systole_runtime::Array;

/// The platform's name, as `JAX_PLATFORMS` has it.
pub(crate) const PLATFORM: &str = "systole";

/// The text of a named value; numbers are written out.
fn value_text(v: &NamedValue) -> String {
    // SAFETY: the kind says which field of the union is meant, and text has the length that stands beside it.
    unsafe {
        match v.kind {
            0 => text(v.value.string, v.value_size),
            1 => v.value.int64.to_string(),
            2 => array(v.value.int64_list, v.value_size).iter().map(i64::to_string).collect::<Vec<_>>().join("x"),
            3 => v.value.float.to_string(),
            _ => v.value.bool.to_string(),
        }
    }
}

/// The device that a call names, or the memory which it names.
fn place_of(device: *mut Device, memory: *mut Memory) -> Result<(&'static Device, MemoryKind), Error> {
    if !memory.is_null() {
        // SAFETY: a live memory.
        let m = unsafe { object(memory) }?;
        return Ok((&m.client.devices()[m.memory.device], m.memory.kind));
    }
    // SAFETY: a live device; devices live as long as the process.
    Ok((unsafe { object(device) }?, MemoryKind::Device))
}

calls! {
    client_create(args: ClientCreateArgs) {
        let mut options = Options::default();
        // SAFETY: as many named values as the caller says.
        for v in unsafe { array(args.create_options, args.num_options) } {
            // SAFETY: a name of the length that stands beside it.
            let name = unsafe { text(v.name, v.name_size) };
            // Options of other plugins' users (such as a proxy's) mean nothing here.
            options.put(&name, value_text(v));
        }
        let client = client::keep(Client::new(&options.completed())?);
        args.client = std::ptr::from_ref(client).cast_mut();
    }

    client_destroy(_args: ClientDestroyArgs) {}

    client_platform_name(args: ClientPlatformNameArgs) {
        (args.platform_name, args.platform_name_size) = shown(PLATFORM);
    }

    client_process_index(args: ClientProcessIndexArgs) {
        args.process_index = 0;
    }

    client_platform_version(args: ClientPlatformVersionArgs) {
        // SAFETY: a live client.
        (args.platform_version, args.platform_version_size) = shown(&unsafe { object(args.client) }?.version);
    }

    client_topology_description(args: ClientTopologyDescriptionArgs) {
        args.topology = args.client;
    }

    client_devices(args: ClientDevicesArgs) {
        // SAFETY: a live client; clients live as long as the process.
        let list = &pointers(unsafe { object(args.client) }?)?.devices;
        (args.devices, args.num_devices) = (list.as_ptr(), list.len());
    }

    client_addressable_devices(args: ClientAddressableDevicesArgs) {
        // SAFETY: as above.
        let list = &pointers(unsafe { object(args.client) }?)?.devices;
        (args.addressable_devices, args.num_addressable_devices) = (list.as_ptr(), list.len());
    }

    client_lookup_device(args: ClientLookupDeviceArgs) {
        // SAFETY: as above.
        let list = &pointers(unsafe { object(args.client) }?)?.devices;
        let found = usize::try_from(args.id).ok().and_then(|i| list.get(i));
        args.device = *found.ok_or_else(|| Error::invalid(format!("there is no device {}", args.id)))?;
    }

    client_lookup_addressable_device(args: ClientLookupAddressableDeviceArgs) {
        // SAFETY: as above.
        let list = &pointers(unsafe { object(args.client) }?)?.devices;
        let found = usize::try_from(args.local_hardware_id).ok().and_then(|i| list.get(i));
        args.addressable_device =
            *found.ok_or_else(|| Error::invalid(format!("there is no device {}", args.local_hardware_id)))?;
    }

    client_addressable_memories(args: ClientAddressableMemoriesArgs) {
        // SAFETY: as above.
        let list = &pointers(unsafe { object(args.client) }?)?.memories;
        (args.addressable_memories, args.num_addressable_memories) = (list.as_ptr(), list.len());
    }

    client_compile(args: ClientCompileArgs) {
        // SAFETY: a live client, a program, and options of the length that stands beside them.
        let (client, program, options) = unsafe {
            (object(args.client)?, object(args.program)?, array(args.compile_options.cast(), args.compile_options_size))
        };
        // SAFETY: the program's code and the name of its format, of the lengths that stand beside them.
        let (code, format) = unsafe {
            (array(program.code.cast::<u8>(), program.code_size), text(program.format, program.format_size))
        };
        let compiled = compile(client, code, &format, options)?;
        args.executable = given(LoadedExecutable::new(compiled)?);
    }

    client_load(args: ClientLoadArgs) {
        // SAFETY: a live executable.
        let program = unsafe { object(args.executable) }?;
        args.loaded_executable = given(LoadedExecutable::new(program.0.clone())?);
    }

    client_default_device_assignment(args: ClientDefaultDeviceAssignmentArgs) {
        let wanted = usize::try_from(args.num_replicas.max(1)).unwrap_or(1)
            * usize::try_from(args.num_partitions.max(1)).unwrap_or(1);
        if args.default_assignment_size < wanted || args.default_assignment.is_null() {
            return Err(Error::invalid("the array for the assignment is too short"));
        }
        for i in 0..wanted {
            // SAFETY: the caller's array holds at least as many numbers.
            unsafe { args.default_assignment.add(i).write(i as i32) }
        }
    }

    client_buffer_from_host_buffer(args: ClientBufferFromHostBufferArgs) {
        let place = place_of(args.device, args.memory)?;
        let dtype = types::from_number(args.kind)
            .ok_or_else(|| Error::invalid(format!("arrays of element type {} are not supported", args.kind)))?;
        // SAFETY: lists of the lengths that stand beside them.
        let (dims, given_strides) =
            unsafe { (array(args.dims, args.num_dims), array(args.byte_strides, args.num_byte_strides)) };
        let dims: Option<Vec<u64>> = dims.iter().map(|d| u64::try_from(*d).ok()).collect();
        let dims = dims.ok_or_else(|| Error::invalid("an array of negative size"))?;
        let size = dtype.host_bytes();
        let rows = strides::row_major(&dims, size);
        let order = if given_strides.len() == dims.len() { given_strides } else { &rows[..] };
        let too_large = || Error::invalid("an array larger than memory");
        let bytes = dims.iter().try_fold(size as u64, |n, d| n.checked_mul(*d)).ok_or_else(too_large)?;
        let bytes = isize::try_from(bytes).map_err(|_| too_large())? as usize;
        strides::extent(&dims, order, size).ok_or_else(too_large)?;
        if place.1 == MemoryKind::Device {
            place.0.bytes.room(bytes as i64)?;
        }
        let mut data = vec![0u8; bytes];
        if bytes > 0 && args.data.is_null() {
            return Err(Error::invalid("an array without data"));
        }
        if order == rows {
            // SAFETY: the host's array has rows one after the other, `bytes` in all.
            data.copy_from_slice(unsafe { array(args.data.cast::<u8>(), bytes) });
        } else {
            strides::each(&dims, order, |n, offset| {
                // SAFETY: the element lies where the host's strides say, inside its array.
                let element = unsafe { array(args.data.cast::<u8>().offset(offset as isize), size) };
                data[n * size..(n + 1) * size].copy_from_slice(element);
            });
        }
        args.buffer = given(Buffer::of(client_of(place.0)?, place, Array::new(dtype, &dims, data)));
        // The data was copied.
        args.done_with_host_buffer = given(Event::done(Ok(())));
    }
}
