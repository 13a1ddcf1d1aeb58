//! Compiled programs: facts, costs, serialisation, execution.

use super::devices::pointers;
use super::{array, calls, given, object, shown, taken};
use crate::client::MemoryKind;
use crate::cost;
use crate::error::Error;
use crate::executable::{self, LoadedExecutable};
use crate::execute::execute;
use crate::ffi::common::{LogicalDeviceIds, NamedValue, NamedValueUnion};
use crate::ffi::executable::*;
use crate::ffi::handle::{Buffer, Device, Executable};
use crate::proto::DeviceAssignment;
use crate::types;
use prost::Message;
use std::ffi::{c_char, c_void};
use std::sync::Arc;

/// Lists that the interface points to, and that live as long as the program.
struct Lists {
    parameter_kinds: Kinds,
    result_kinds: Kinds,
    types: Vec<u32>,
    /// All results' sizes one after the other, and how many each has.
    dims: Vec<i64>,
    ranks: Vec<usize>,
    costs: std::sync::OnceLock<Vec<NamedValue>>,
}

/// Names of memories, and their lengths.
struct Kinds(Vec<*const c_char>, Vec<usize>);

impl Kinds {
    /// Of a list of kinds, where those that are not said are the device's.
    fn new(said: &[MemoryKind], count: usize) -> Kinds {
        let name = |i: usize| said.get(i).copied().unwrap_or_default().name();
        Kinds((0..count).map(|i| name(i).as_ptr().cast()).collect(), (0..count).map(|i| name(i).len()).collect())
    }
}

// SAFETY: the pointers are to constants and to the program's own text, and nothing changes them.
unsafe impl Send for Lists {}
// SAFETY: as above.
unsafe impl Sync for Lists {}

fn lists(e: &executable::Executable) -> Result<&Lists, Error> {
    let made = e.kept.get_or_init(|| {
        Box::new(Lists {
            parameter_kinds: Kinds::new(&e.facts.memories.parameters, parameters(e)),
            result_kinds: Kinds::new(&e.facts.memories.results, e.outputs.len()),
            types: e.outputs.iter().map(|o| types::to_number(o.0)).collect(),
            dims: e.outputs.iter().flat_map(|o| o.1.iter().map(|d| *d as i64)).collect(),
            ranks: e.outputs.iter().map(|o| o.1.len()).collect(),
            costs: std::sync::OnceLock::new(),
        })
    });
    made.downcast_ref().ok_or_else(super::missing_object)
}

/// Number of parameters, tokens among them.
fn parameters(e: &executable::Executable) -> usize {
    e.exe.program.params.len() + e.facts.tokens.params.len()
}

/// The program behind a pointer.
///
/// # Safety
/// A live executable.
unsafe fn program<'a>(p: *const Executable) -> Result<&'a Arc<executable::Executable>, Error> {
    // SAFETY: as the caller of this promises.
    Ok(&unsafe { object(p) }?.0)
}

/// Bytes for the caller, who gives them back to [`free_bytes`].
fn bytes_given(bytes: Vec<u8>) -> (*const c_char, usize, *mut c_void) {
    let (start, size) = (bytes.as_ptr().cast(), bytes.len());
    (start, size, given(bytes).cast())
}

unsafe extern "C" fn free_bytes(p: *mut c_void) {
    // SAFETY: the caller gives back what it got from `bytes_given`.
    unsafe { taken(p.cast::<Vec<u8>>()) }
}

const FLOAT: u32 = 3;

calls! {
    execute_context_create(args: ExecuteContextCreateArgs) {
        args.context = given(0u64).cast();
    }

    execute_context_destroy(args: ExecuteContextDestroyArgs) {
        // SAFETY: the caller gives back what it got.
        unsafe { taken(args.context.cast::<u64>()) }
    }

    executable_destroy(args: ExecutableDestroyArgs) {
        // SAFETY: the caller gives back what it got.
        unsafe { taken(args.executable) }
    }

    executable_name(args: ExecutableNameArgs) {
        // SAFETY: a live executable.
        (args.executable_name, args.executable_name_size) = shown(&unsafe { program(args.executable) }?.facts.name);
    }

    executable_num_replicas(args: ExecutableNumReplicasArgs) {
        // SAFETY: a live executable.
        args.num_replicas = unsafe { program(args.executable) }?.facts.replicas;
    }

    executable_num_partitions(args: ExecutableNumPartitionsArgs) {
        // SAFETY: a live executable.
        args.num_partitions = unsafe { program(args.executable) }?.facts.partitions;
    }

    executable_num_outputs(args: ExecutableNumOutputsArgs) {
        // SAFETY: a live executable.
        args.num_outputs = unsafe { program(args.executable) }?.outputs.len();
    }

    executable_size_of_generated_code_in_bytes(args: ExecutableSizeOfGeneratedCodeInBytesArgs) {
        // SAFETY: a live executable.
        args.size_in_bytes = unsafe { program(args.executable) }?.exe.program.code.len() as i64;
    }

    executable_get_cost_analysis(args: ExecutableGetCostAnalysisArgs) {
        // SAFETY: a live executable.
        let e = unsafe { program(args.executable) }?;
        let list = lists(e)?.costs.get_or_init(|| {
            let named = |(name, value): &(String, f32)| NamedValue {
                struct_size: size_of::<NamedValue>(),
                extension_start: std::ptr::null_mut(),
                name: name.as_ptr().cast(),
                name_size: name.len(),
                kind: FLOAT,
                value: NamedValueUnion { float: *value },
                value_size: 1,
            };
            cost::analysis(e).iter().map(named).collect()
        });
        (args.properties, args.num_properties) = (list.as_ptr(), list.len());
    }

    executable_output_memory_kinds(args: ExecutableOutputMemoryKindsArgs) {
        // SAFETY: a live executable.
        let e = unsafe { program(args.executable) }?;
        let l = lists(e)?;
        args.num_outputs = e.outputs.len();
        (args.memory_kinds, args.memory_kind_sizes) = (l.result_kinds.0.as_ptr(), l.result_kinds.1.as_ptr());
    }

    executable_parameter_memory_kinds(args: ExecutableParameterMemoryKindsArgs) {
        // SAFETY: a live executable.
        let e = unsafe { program(args.executable) }?;
        let l = lists(e)?;
        args.num_parameters = parameters(e);
        (args.memory_kinds, args.memory_kind_sizes) = (l.parameter_kinds.0.as_ptr(), l.parameter_kinds.1.as_ptr());
    }

    executable_optimized_program(args: ExecutableOptimizedProgramArgs) {
        // SAFETY: a live executable, and a program that the caller owns.
        let (e, to) = unsafe { (program(args.executable)?, super::object_mut(args.program)?) };
        let (format, code) = e.optimized();
        (to.format, to.format_size) = shown(format);
        to.code_size = code.len();
        if !to.code.is_null() {
            // SAFETY: the caller's second call brings a place of the size that the first one told.
            unsafe { to.code.cast::<u8>().copy_from_nonoverlapping(code.as_ptr(), code.len()) }
        }
    }

    executable_serialize(args: ExecutableSerializeArgs) {
        // SAFETY: a live executable.
        let bytes = unsafe { program(args.executable) }?.serialize()?;
        (args.serialized_bytes, args.serialized_bytes_size, args.serialized_executable) = bytes_given(bytes);
        args.serialized_executable_deleter = Some(free_bytes);
    }

    executable_deserialize_and_load(args: ExecutableDeserializeAndLoadArgs) {
        // SAFETY: a live client, and bytes of the length that stands beside them.
        let (client, bytes) = unsafe {
            (object(args.client)?, array(args.serialized_executable.cast(), args.serialized_executable_size))
        };
        let program = executable::Executable::deserialize(client, bytes)?;
        args.loaded_executable = given(LoadedExecutable::new(program)?);
    }

    executable_output_element_types(args: ExecutableOutputElementTypesArgs) {
        // SAFETY: a live executable.
        let l = lists(unsafe { program(args.executable) }?)?;
        (args.output_types, args.num_output_types) = (l.types.as_ptr().cast_mut(), l.types.len());
    }

    executable_output_dimensions(args: ExecutableOutputDimensionsArgs) {
        // SAFETY: a live executable.
        let l = lists(unsafe { program(args.executable) }?)?;
        args.num_outputs = l.ranks.len();
        (args.dims, args.dim_sizes) = (l.dims.as_ptr(), l.ranks.as_ptr());
    }

    executable_fingerprint(args: ExecutableFingerprintArgs) {
        // SAFETY: a live executable.
        (args.executable_fingerprint, args.executable_fingerprint_size) = shown(&unsafe { program(args.executable) }?.fingerprint);
    }

    executable_get_compiled_memory_stats(args: ExecutableGetCompiledMemoryStatsArgs) {
        // SAFETY: a live executable.
        let whole = unsafe { program(args.executable) }?;
        let p = &whole.exe.program;
        let donated = whole.facts.donated.iter().filter_map(|i| p.params.get(*i));
        let (inputs, outputs) = (
            p.params.iter().map(|a| a.layout.bytes() as i64).sum::<i64>(),
            p.results.iter().map(|a| a.layout.bytes() as i64).sum::<i64>(),
        );
        args.generated_code_size_in_bytes = p.code.len() as i64;
        args.argument_size_in_bytes = inputs;
        args.output_size_in_bytes = outputs;
        args.alias_size_in_bytes = donated.map(|a| a.layout.bytes() as i64).sum();
        args.temp_size_in_bytes = (p.memory.hbm_bytes as i64 - inputs - outputs).max(0);
        args.host_generated_code_size_in_bytes = 0;
        args.host_argument_size_in_bytes = 0;
        args.host_output_size_in_bytes = 0;
        args.host_alias_size_in_bytes = 0;
        args.host_temp_size_in_bytes = 0;
        args.peak_memory_in_bytes = p.memory.hbm_bytes as i64;
        args.total_size_in_bytes = p.memory.hbm_bytes as i64;
        args.total_allocation_bytes = p.memory.hbm_bytes as i64;
        args.indefinite_allocations = 0;
        args.peak_unpadded_heap_bytes = p.memory.hbm_bytes as i64;
    }

    executable_get_compile_options(args: ExecutableGetCompileOptionsArgs) {
        // SAFETY: a live executable.
        let bytes = unsafe { program(args.executable) }?.facts.options.clone();
        (args.serialized_bytes, args.serialized_bytes_size, args.serialized_compile_options) = bytes_given(bytes);
        args.serialized_compile_options_deleter = Some(free_bytes);
    }

    loaded_executable_destroy(args: LoadedExecutableDestroyArgs) {
        // SAFETY: the caller gives back what it got.
        unsafe { taken(args.executable) }
    }

    loaded_executable_get_executable(args: LoadedExecutableGetExecutableArgs) {
        // SAFETY: a live executable.
        let e = unsafe { object(args.loaded_executable) }?;
        args.executable = given(Executable(Arc::clone(&e.program)));
    }

    loaded_executable_addressable_devices(args: LoadedExecutableAddressableDevicesArgs) {
        // SAFETY: a live executable.
        let e = unsafe { object(args.executable) }?;
        let all = &pointers(e.program.client)?.devices;
        let list = e.device_pointers(all);
        (args.addressable_devices, args.num_addressable_devices) = (list.as_ptr(), list.len());
    }

    loaded_executable_addressable_device_logical_ids(args: LoadedExecutableAddressableDeviceLogicalIdsArgs) {
        // SAFETY: a live executable.
        let e = unsafe { object(args.executable) }?;
        let list = e.logical_ids();
        args.addressable_device_logical_ids = list.as_ptr().cast_mut().cast::<LogicalDeviceIds>();
        args.num_addressable_device_logical_ids = list.len();
    }

    loaded_executable_get_device_assignment(args: LoadedExecutableGetDeviceAssignmentArgs) {
        // SAFETY: a live executable.
        let e = unsafe { object(args.executable) }?;
        let facts = &e.program.facts;
        let assignment = DeviceAssignment::new(facts.replicas, facts.partitions, &e.devices);
        let (start, size, owner) = bytes_given(assignment.encode_to_vec());
        (args.serialized_bytes, args.serialized_bytes_size, args.serialized_device_assignment) = (start, size, owner);
        args.serialized_device_assignment_deleter = Some(free_bytes);
    }

    loaded_executable_delete(args: LoadedExecutableDeleteArgs) {
        // SAFETY: a live executable.
        unsafe { object(args.executable) }?.delete();
    }

    loaded_executable_is_deleted(args: LoadedExecutableIsDeletedArgs) {
        // SAFETY: a live executable.
        args.is_deleted = unsafe { object(args.executable) }?.is_deleted();
    }

    loaded_executable_fingerprint(args: LoadedExecutableFingerprintArgs) {
        // SAFETY: a live executable.
        (args.executable_fingerprint, args.executable_fingerprint_size) = shown(&unsafe { object(args.executable) }?.program.fingerprint);
    }

    loaded_executable_execute(args: LoadedExecutableExecuteArgs) {
        // SAFETY: a live executable, options or nothing, a list of arguments for each device, and a device or nothing.
        let (e, options, lists, device) = unsafe {
            (
                object(args.executable)?,
                args.options.as_ref(),
                array(args.argument_lists, args.num_devices),
                args.execute_device.cast_const().as_ref::<'static>(),
            )
        };
        let mut arguments: Vec<Vec<&Buffer>> = Vec::with_capacity(lists.len());
        for list in lists {
            // SAFETY: each list has `num_args` live buffers.
            let list = unsafe { array(*list, args.num_args) };
            // SAFETY: as above.
            arguments.push(list.iter().map(|b| unsafe { object(*b) }).collect::<Result<_, _>>()?);
        }
        let kept: Vec<usize> = match options {
            // SAFETY: a list of the length that stands beside it.
            Some(o) => unsafe { array(o.non_donatable_input_indices, o.num_non_donatable_input_indices) }
                .iter()
                .filter_map(|i| usize::try_from(*i).ok())
                .collect(),
            None => Vec::new(),
        };
        let device: Option<&'static Device> = device;
        let started = execute(e, &arguments, &kept, device)?;
        // SAFETY: a list for the outputs of each device.
        let outputs = unsafe { array(args.output_lists, args.num_devices) };
        for (list, buffers) in outputs.iter().zip(started.outputs) {
            for (i, b) in buffers.into_iter().enumerate() {
                // SAFETY: the list has a place for each output of the program.
                unsafe { list.add(i).write(given(b)) }
            }
        }
        if !args.device_complete_events.is_null() {
            for (i, event) in started.done.into_iter().enumerate() {
                // SAFETY: the list has a place for each device.
                unsafe { args.device_complete_events.add(i).write(given(event)) }
            }
        }
    }
}

/// Lists of a loaded program that the interface points to.
pub(crate) struct Loaded {
    devices: Vec<*mut Device>,
    logical: Vec<LogicalDeviceIds>,
}

// SAFETY: the pointers are to devices, which live as long as the process, and nothing changes the lists.
unsafe impl Send for Loaded {}
// SAFETY: as above.
unsafe impl Sync for Loaded {}

impl LoadedExecutable {
    fn lists(&self, all: &[*mut Device]) -> &Loaded {
        let made = self.kept.get_or_init(|| {
            let partitions = self.program.facts.partitions.max(1);
            let logical =
                |i: usize| LogicalDeviceIds { replica: (i / partitions) as i32, partition: (i % partitions) as i32 };
            Box::new(Loaded {
                devices: self.devices.iter().filter_map(|d| all.get(*d).copied()).collect(),
                logical: (0..self.devices.len()).map(logical).collect(),
            })
        });
        made.downcast_ref().expect("nothing else is kept there")
    }

    fn device_pointers(&self, all: &[*mut Device]) -> &[*mut Device] {
        &self.lists(all).devices
    }

    fn logical_ids(&self) -> &[LogicalDeviceIds] {
        let all = pointers(self.program.client).map_or(&[][..], |p| &p.devices);
        &self.lists(all).logical
    }
}
