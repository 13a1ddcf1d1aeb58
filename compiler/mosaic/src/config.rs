//! The JSON of a `tpu_custom_call`.

use crate::{Error, Module};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value as Json;

/// The name under which kernels are called.
pub const TARGET: &str = "tpu_custom_call";

/// What a call says besides its operands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The module in MLIR bytecode.
    pub body: Vec<u8>,
    /// The collective that the kernel's barrier semaphore belongs to.
    pub collective: Option<u32>,
    /// Vector memory that the kernel asks for, in bytes.
    pub vmem_limit: Option<u64>,
    /// Floating-point operations, if the call says.
    pub flops: Option<u64>,
}

impl Call {
    /// Reads the text of a call's `backend_config`.
    ///
    /// # Errors
    /// Text that is no JSON, lacks the kernel, or holds it in another form.
    pub fn parse(config: &str) -> Result<Call, Error> {
        let json: Json =
            serde_json::from_str(config).map_err(|e| Error::new(format!("the call's configuration: {e}")))?;
        let config = json.get("custom_call_config").unwrap_or(&json);
        let Some(body) = config.get("body").and_then(Json::as_str) else {
            return Err(Error::new("the call's configuration has no `body`"));
        };
        if let Some(format) = config.get("serialization_format").and_then(Json::as_i64)
            && format != 1
        {
            return Err(Error::new(format!("kernels in serialization format {format} are not read, only in format 1")));
        }
        let body = STANDARD.decode(body).map_err(|e| Error::new(format!("the kernel is no base64: {e}")))?;
        let number = |key: &str| config.get(key).and_then(Json::as_u64);
        Ok(Call {
            body,
            collective: number("collective_id").and_then(|n| u32::try_from(n).ok()),
            vmem_limit: json
                .get("scoped_memory_configs")
                .and_then(|c| c.get(0))
                .and_then(|c| c.get("size"))
                .and_then(Json::as_u64)
                .or_else(|| number("vmem_limit_bytes")),
            flops: config.get("cost_estimate").and_then(|c| c.get("flops")).and_then(Json::as_u64),
        })
    }

    /// The kernel.
    ///
    /// # Errors
    /// As [`Module::decode`].
    pub fn module(&self) -> Result<Module, Error> {
        Module::decode(&self.body)
    }
}
