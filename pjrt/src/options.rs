//! Options of the compiler that a program brings (`jit(f, compiler_options={..})`): systole's own, and XLA's.

use crate::error::Error;
use crate::proto::Override;
use std::collections::BTreeMap;
use systole_isa::ChipConfig;
use systole_runtime::{CompileOptions, options};

/// What names of systole's options begin with.
const OWN: &str = "systole_";
/// XLA's option of the same meaning as `systole_scoped_vmem`.
pub const SCOPED_VMEM: &str = "xla_tpu_scoped_vmem_limit_kib";
/// Options of XLA that are about files and texts of its own, yes or no: there is nothing to say of them.
const UNHEARD: [&str; 3] = ["xla_embed_ir_in_executable", "xla_dump_hlo_as_text", "xla_dump_hlo_as_proto"];

/// Takes over the options of a program. Those of XLA's compiler that have no meaning here are named on standard error.
///
/// # Errors
/// A name that there is not, with those that there are; a value that an option does not take.
pub fn apply(o: &mut CompileOptions, given: &BTreeMap<String, Override>, chip: &ChipConfig) -> Result<(), Error> {
    for (name, value) in given {
        let value = value.text();
        let put = |o: &mut CompileOptions, own: &str, text: &str| {
            options::set(o, own, text, chip).map_err(|e| Error::invalid(format!("compile option {name}={value}: {e}")))
        };
        match name.strip_prefix(OWN) {
            Some(own) if options::NAMED.iter().any(|n| n.name == own) => put(o, own, &value)?,
            _ if name == SCOPED_VMEM => put(o, "scoped_vmem", &format!("{value}KiB"))?,
            _ if UNHEARD.contains(&name.as_str()) => {
                let read = value.to_lowercase().parse::<bool>();
                read.map_err(|_| Error::invalid(format!("{name}: '{value}' is not a valid bool value.")))?;
            }
            _ if name.starts_with("xla_") => {
                eprintln!("systole: the option {name} of XLA's compiler has no effect here");
            }
            _ => return Err(unknown(name)),
        }
    }
    Ok(())
}

fn unknown(name: &str) -> Error {
    let own = options::NAMED.iter().map(|n| format!("\n  {OWN}{}: {}", n.name, n.doc));
    Error::invalid(format!(
        "No such compile option: '{name}'. There are{}\n  {SCOPED_VMEM}: the same as {OWN}scoped_vmem\n\
         and others of XLA's compiler (xla_..), which have no effect",
        own.collect::<String>()
    ))
}
