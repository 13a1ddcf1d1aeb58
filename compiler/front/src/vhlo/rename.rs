//! Attributes as StableHLO writes them: most by their own names, some gathered into one.

use super::dense;
use super::print::{Attributes, Printer};
use super::value::Value;
use std::fmt::Write;
use systole_mlir_bytecode::{AttributeId, Error, MAX_DEPTH};

/// VHLO attributes that StableHLO gathers into one: its name, its kind, and the fields.
struct Gathered {
    operations: &'static [&'static str],
    name: &'static str,
    kind: &'static str,
    fields: &'static [&'static str],
}

const GATHERED: [Gathered; 3] = [
    Gathered {
        operations: &["stablehlo.dot_general"],
        name: "dot_dimension_numbers",
        kind: "dot",
        fields: &[
            "lhs_batching_dimensions",
            "rhs_batching_dimensions",
            "lhs_contracting_dimensions",
            "rhs_contracting_dimensions",
        ],
    },
    Gathered {
        operations: &["stablehlo.gather", "stablehlo.dynamic_gather"],
        name: "dimension_numbers",
        kind: "gather",
        fields: &[
            "offset_dims",
            "collapsed_slice_dims",
            "operand_batching_dims",
            "start_indices_batching_dims",
            "start_index_map",
            "index_vector_dim",
        ],
    },
    Gathered {
        operations: &["stablehlo.scatter"],
        name: "scatter_dimension_numbers",
        kind: "scatter",
        fields: &[
            "update_window_dims",
            "inserted_window_dims",
            "input_batching_dims",
            "scatter_indices_batching_dims",
            "scatter_dims_to_operand_dims",
            "index_vector_dim",
        ],
    },
];

/// Fields of a dot's algorithm.
const ALGORITHM: [&str; 7] = [
    "lhs_precision_type",
    "rhs_precision_type",
    "accumulation_type",
    "lhs_component_count",
    "rhs_component_count",
    "num_primitive_operations",
    "allow_imprecise_accumulation",
];

/// Fields of a convolution's dimension numbers: batch, feature and spatial dimensions of input, kernel, output.
const CONVOLUTION: [[&str; 3]; 3] = [
    ["input_batch_dimension", "input_feature_dimension", "input_spatial_dimensions"],
    ["kernel_input_feature_dimension", "kernel_output_feature_dimension", "kernel_spatial_dimensions"],
    ["output_batch_dimension", "output_feature_dimension", "output_spatial_dimensions"],
];

/// Attributes whose strings are names of functions.
const SYMBOLS: [&str; 3] = ["callee", "decomposition", "called_computations"];

/// Attributes that say nothing that a graph keeps.
const LEFT_OUT: [&str; 4] = ["result_accuracy", "operand_layouts", "result_layouts", "result_tilings"];

impl<'a> Printer<'a, '_> {
    /// Writes ` {..}` with an operation's attributes.
    pub fn renamed(&mut self, operation: &str, all: &Attributes<'a>) -> Result<(), Error> {
        let bare = operation.starts_with("sdy.");
        let mut parts: Vec<String> = Vec::new();
        let mut used: Vec<&str> = LEFT_OUT.to_vec();
        let get = |key: &str| all.iter().find(|a| a.0 == key).map(|a| a.1);
        if let Some(g) = GATHERED.iter().find(|g| g.operations.contains(&operation)) {
            let fields: Vec<(&str, AttributeId)> = g.fields.iter().filter_map(|f| Some((*f, get(f)?))).collect();
            let fields = fields.iter().map(|(f, id)| self.field(f, *id)).collect::<Result<Vec<_>, _>>()?;
            parts.push(format!("{} = #stablehlo.{}<{}>", g.name, g.kind, fields.join(", ")));
            used.extend(g.fields);
        }
        if operation == "stablehlo.dot_general" {
            used.extend(ALGORITHM);
            parts.extend(self.algorithm(all)?);
        }
        if matches!(operation, "stablehlo.convolution" | "stablehlo.dynamic_conv") {
            used.extend(CONVOLUTION.iter().flatten());
            parts.push(self.convolution(all)?);
        }
        if let Some(id) = get("channel_id") {
            let kind = match get("channel_type") {
                Some(id) => self.integers(id)?.first().copied().unwrap_or(0),
                None => 0,
            };
            let handle = self.integers(id)?.first().copied().unwrap_or(0);
            parts.push(format!("channel_handle = #stablehlo.channel_handle<handle = {handle}, type = {kind}>"));
            used.extend(["channel_id", "channel_type"]);
        }
        let rest: Attributes<'a> = all.iter().filter(|a| !used.contains(&a.0)).copied().collect();
        if parts.is_empty() && rest.is_empty() {
            return Ok(());
        }
        self.out += " {";
        self.spend(parts.iter().map(String::len).sum())?;
        self.out += &parts.join(", ");
        for (i, (key, id)) in rest.iter().enumerate() {
            if i > 0 || !parts.is_empty() {
                self.out += ", ";
            }
            if bare && matches!(self.value(*id), Ok(Value::Shardy)) {
                let text = self.shardy(*id, true)?;
                self.spend(text.len())?;
                self.write(format_args!("{key} = {text}"));
                continue;
            }
            self.entry(key, *id, 0)?;
        }
        self.out.push('}');
        Ok(())
    }

    /// `name = [1, 2]`, or `name = 1` for what is one number.
    fn field(&self, name: &str, id: AttributeId) -> Result<String, Error> {
        let is_one = matches!(self.value(id)?, Value::Integer(..));
        let v = self.integers(id)?;
        Ok(if is_one { format!("{name} = {}", v[0]) } else { format!("{name} = {v:?}") })
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "the message for any other value")]
    fn algorithm(&mut self, all: &Attributes<'a>) -> Result<Option<String>, Error> {
        let mut fields = Vec::new();
        for name in ALGORITHM {
            let Some((_, id)) = all.iter().find(|a| a.0 == name) else { return Ok(None) };
            let text = match self.value(*id)? {
                Value::Type(t) => self.type_text(t)?.to_string(),
                Value::Integer(_, v) => v.to_string(),
                Value::Bool(v) => v.to_string(),
                _ => return Err(Error::new(0, format!("`{name}` of a dot is of no known kind"))),
            };
            if text == "none" {
                return Ok(None);
            }
            fields.push(format!("{name} = {text}"));
        }
        Ok(Some(format!("algorithm = #stablehlo.dot_algorithm<{}>", fields.join(", "))))
    }

    /// `dimension_numbers = #stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>`
    fn convolution(&self, all: &Attributes<'a>) -> Result<String, Error> {
        let labels = |fields: &[&str; 3], first: &str, second: &str| -> Result<String, Error> {
            let mut at = Vec::new();
            for (field, label) in fields.iter().zip([Some(first), Some(second), None]) {
                let Some((_, id)) = all.iter().find(|a| a.0 == *field) else {
                    return Err(Error::new(0, format!("a convolution lacks `{field}`")));
                };
                for (i, d) in self.integers(*id)?.into_iter().enumerate() {
                    at.push((d, label.map_or_else(|| i.to_string(), str::to_string)));
                }
            }
            at.sort();
            let in_order = at.iter().enumerate().all(|(i, (d, _))| i as i64 == *d);
            match in_order {
                true => Ok(format!("[{}]", at.into_iter().map(|a| a.1).collect::<Vec<_>>().join(", "))),
                false => Err(Error::new(0, "a convolution's dimensions are not numbered one by one")),
            }
        };
        let [input, kernel, output] = CONVOLUTION;
        let (input, kernel, output) =
            (labels(&input, "b", "f")?, labels(&kernel, "i", "o")?, labels(&output, "b", "f")?);
        Ok(format!("dimension_numbers = #stablehlo.conv<{input}x{kernel}->{output}>"))
    }

    /// `{a = 1 : i64, b = "x"}`
    pub fn dictionary(&mut self, pairs: &Attributes<'a>, depth: usize) -> Result<(), Error> {
        self.out.push('{');
        for (i, (key, id)) in pairs.iter().enumerate() {
            if i > 0 {
                self.out += ", ";
            }
            self.entry(key, *id, depth)?;
        }
        self.out.push('}');
        Ok(())
    }

    fn entry(&mut self, key: &str, id: AttributeId, depth: usize) -> Result<(), Error> {
        let plain = key.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$'));
        match plain {
            true => self.out += key,
            false => self.quoted(key.as_bytes()),
        }
        if matches!(self.value(id), Ok(Value::Unit)) {
            return Ok(());
        }
        self.out += " = ";
        self.attribute(id, SYMBOLS.contains(&key), depth)
    }

    /// Writes an attribute; `symbols`: its strings name functions.
    fn attribute(&mut self, id: AttributeId, symbols: bool, depth: usize) -> Result<(), Error> {
        if depth > MAX_DEPTH {
            return Err(Error::new(0, format!("attributes are nested more than {MAX_DEPTH} deep")));
        }
        self.spend(8)?;
        if let Ok(pairs) = self.pairs(id) {
            return self.dictionary(&pairs, depth + 1);
        }
        match self.value(id)? {
            Value::Array(list) => {
                self.out.push('[');
                for (i, id) in list.into_iter().enumerate() {
                    self.out += if i > 0 { ", " } else { "" };
                    self.attribute(id, symbols, depth + 1)?;
                }
                self.out.push(']');
            }
            Value::Bool(v) => self.write(format_args!("{v}")),
            Value::Enum(kind, case) => self.write(format_args!("#stablehlo<{kind} {case}>")),
            Value::Version(v) => self.write(format_args!("{v} : i32")),
            Value::Dictionary(_) => return Err(Error::new(0, "a dictionary's names are no strings")),
            Value::Float(t, bits) => {
                if let Some(dtype) = self.element(t)? {
                    let mut text = String::new();
                    let _ = dense::float(dtype, bits, &mut text);
                    self.out += &text;
                }
                self.out += " : ";
                self.write_type(t)?;
            }
            Value::Integer(t, v) => {
                self.write(format_args!("{v} : "));
                match t {
                    Some(t) => self.write_type(t)?,
                    None => self.out += "i64",
                }
            }
            Value::String(s) if symbols => {
                let name = std::str::from_utf8(s).map_err(|_| Error::new(0, "a function's name is not UTF-8"))?;
                self.symbol(name);
            }
            Value::String(s) => {
                self.spend(3 * s.len())?;
                self.quoted(s);
            }
            Value::Tensor(t, data) => self.tensor_text(t, data)?,
            Value::Type(t) => self.write_type(t)?,
            Value::Bounds(b) => self.write(format_args!("#stablehlo.type_extensions<bounds = {b:?}>")),
            Value::Accuracy => self.out += "unit",
            Value::Alias { output, operand, operand_indices } => self.write(format_args!(
                "#stablehlo.output_operand_alias<output_tuple_indices = {output:?}, operand_index = {operand}, \
                 operand_tuple_indices = {operand_indices:?}>"
            )),
            Value::SubAxis { before, size } => self.write(format_args!("({before}){size}")),
            Value::Axis { name, part } => {
                let part = part.map(|part| ("sub_axis_info", part, false));
                self.fields("axis_ref", [Some(("name", name, false)), part], depth + 1)?;
            }
            Value::MeshGroups { mesh, axes } => {
                let fields = [Some(("mesh", mesh, true)), Some(("axes", axes, false))];
                self.fields("replica_group_mesh_axes", fields, depth + 1)?;
            }
            Value::MeshAxis { name, size } => {
                self.out += "#stablehlo.mesh_axis<name = ";
                self.attribute(name, false, depth + 1)?;
                self.write(format_args!(", size = {size}>"));
            }
            Value::Mesh { axes } => self.fields("mesh", [Some(("axes", axes, false)), None], depth + 1)?,
            Value::Text(text) => {
                self.spend(text.len())?;
                self.out += text;
            }
            Value::Shardy => {
                let text = self.shardy(id, false)?;
                self.spend(text.len())?;
                self.out += &text;
            }
            Value::Symbol(name) => self.symbol(name),
            Value::Unit => self.out += "unit",
        }
        Ok(())
    }

    /// `#stablehlo.kind<name = .., name = ..>` of the fields that there are: name, value, whether its strings name functions.
    fn fields<const N: usize>(
        &mut self,
        kind: &str,
        fields: [Option<(&str, AttributeId, bool)>; N],
        depth: usize,
    ) -> Result<(), Error> {
        self.write(format_args!("#stablehlo.{kind}<"));
        for (i, (name, id, symbols)) in fields.into_iter().flatten().enumerate() {
            self.out += if i > 0 { ", " } else { "" };
            self.write(format_args!("{name} = "));
            self.attribute(id, symbols, depth)?;
        }
        self.out.push('>');
        Ok(())
    }

    /// `array<i64: 1, 2>` for short lists, else `dense<..> : tensor<..>`.
    fn tensor_text(&mut self, t: systole_mlir_bytecode::TypeId, data: &[u8]) -> Result<(), Error> {
        let shape = self.tensor(t)?;
        let inside = dense::inside(&shape, data)?;
        self.spend(inside.len())?;
        self.write(format_args!("dense<{inside}> : "));
        self.write_type(t)
    }

    fn write(&mut self, text: std::fmt::Arguments<'_>) {
        let _ = self.out.write_fmt(text);
    }
}
