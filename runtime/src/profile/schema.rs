//! The JSON Schema of everything that is printed as JSON (`docs/json.md`).

use super::diff::Comparison;
use crate::report::{Report, SCHEMA};
use schemars::JsonSchema;

/// What is printed as JSON: one of these.
#[derive(JsonSchema)]
#[schemars(untagged, title = "systole")]
#[allow(dead_code, reason = "only its schema is asked for")]
enum Document {
    /// A run: `run --report json`, `profile --json`, `top --json`.
    Report(Box<Report>),
    /// Two runs: `profile --diff --json`.
    Comparison(Box<Comparison>),
}

/// The JSON Schema of everything that is printed as JSON.
pub fn schema() -> serde_json::Value {
    let mut schema = serde_json::to_value(schemars::schema_for!(Document)).unwrap_or_default();
    for form in ["Report", "Comparison"] {
        schema["$defs"][form]["properties"]["schema"]["const"] = SCHEMA.into();
    }
    schema
}
