//! What a chip's work, area and time cost: the table `[costs]` of a chip file.
//!
//! Every number has a value, a range, its quality and its source; a bare number is refused. `costs.node` takes the defaults
//! of a technology node from `chips/costs/`; a row of the file replaces one. No code and no cycle count depends on these
//! numbers, so they are not part of the fingerprint, and stored counters can be priced again with others.

use super::preset;
use super::tree::{self, Node};
use crate::diagnostic::{Diagnostic, closest};
use serde::{Deserialize, Serialize};

// Profiles keep the rows by place: new ones come last.
crate::listed! {
    /// A coefficient of the energy and area model, by its key in `[costs]`.
    Cost:
    MacBf16 "mac_bf16" "pJ" "A multiply-add of a matrix unit's cell, bf16 operands.";
    MacInt8 "mac_int8" "pJ" "The same with 8-bit integers.";
    MacF8 "mac_f8" "pJ" "The same with 8-bit floats.";
    MacPadding "mac_padding" "share" "What a cell takes that multiplies padding, of a multiply-add.";
    WeightBit "weight_bit" "pJ" "A weight's bit that moves on by a cell while weights shift in.";
    Valu "valu" "pJ" "A simple vector operation, each lane.";
    ValuMul "valu_mul" "pJ" "A vector multiply-add, each lane.";
    ValuDiv "valu_div" "pJ" "A vector division, each lane.";
    ValuConvert "valu_convert" "pJ" "Packing or unpacking of 16-bit floats, each lane.";
    ValuIntDiv "valu_int_div" "pJ" "A vector integer division, each lane.";
    ValuF64 "valu_f64" "pJ" "An f64 operation, each lane.";
    ValuF64Div "valu_f64_div" "pJ" "An f64 division or square root, each lane.";
    Eup "eup" "pJ" "A transcendental function, each lane.";
    Xlu "xlu" "pJ" "A step of the cross-lane unit, each lane.";
    Scalar "scalar" "pJ" "A scalar instruction.";
    Smem "smem" "pJ/bit" "Scalar memory, read or written.";
    VmemRead "vmem_read" "pJ/bit" "Vector memory, read; a lane's part of 128 KiB (others go with the square root of their size).";
    VmemWrite "vmem_write" "pJ/bit" "Vector memory, written.";
    HbmDevice "hbm_device" "pJ/bit" "HBM itself.";
    HbmInterface "hbm_interface" "pJ/bit" "HBM's controller and PHY, and the way on the chip.";
    Ici "ici" "pJ/bit" "A link of the interconnect, each link crossed.";
    Host "host" "pJ/bit" "The link to the host.";
    Issue "issue" "pJ" "Fetch and issue of a bundle.";
    Descriptor "descriptor" "pJ" "A DMA descriptor.";
    VoltageSlope "voltage_slope" "ratio" "Relative change of the voltage over that of the clock; energy goes with its square.";
    Idle "idle" "W/mm2" "Power of the chip that does nothing, all causes.";
    Supply "supply" "share" "Efficiency of the voltage regulators.";
    Board "board" "W" "What a chip's system takes besides: NIC, fans, the host's share.";
    MacArea "mac_area" "um2" "A matrix unit's cell (for each row per cycle).";
    AluArea "alu_area" "um2" "A vector ALU with its registers, each lane and sublane.";
    SramArea "sram_area" "mm2/MiB" "Memory on the chip.";
    XluArea "xlu_area" "mm2" "A cross-lane unit.";
    SequencerArea "sequencer_area" "mm2" "Sequencer and scalar unit of a core.";
    HbmArea "hbm_area" "mm2" "Controller and PHY of an HBM stack.";
    HbmStack "hbm_stack" "GB/s" "Bandwidth of a stack: it decides how many there are.";
    HbmEdge "hbm_edge" "mm" "Die edge of a stack.";
    IciArea "ici_area" "mm2" "A link of the interconnect, at the rate of `ici_link`.";
    IciLink "ici_link" "GB/s" "One-way rate of the link that `ici_area` is of.";
    HostArea "host_area" "mm2" "The link to the host and what manages the chip.";
    MiscArea "misc_area" "mm2" "Pins and what else there is.";
    CmemArea "cmem_area" "mm2/MiB" "Common memory (CMEM).";
    OtherArea "other_area" "mm2" "Blocks that are not modeled, with their wires.";
    Interconnect "interconnect" "share" "On-chip interconnect over the sum of the blocks.";
    Fill "fill" "share" "Part of the die that blocks fill.";
    Dies "dies" "count" "Dies that share the area.";
    NominalClock "nominal_clock" "GHz" "The clock at which the energies hold.";
    Reticle "reticle" "mm2" "The largest die that can be made.";
    DensityLimit "density_limit" "W/mm2" "The most power that cooling takes from the die.";
    CmemRead "cmem_read" "pJ/bit" "CMEM, read, with the way across the die.";
    CmemWrite "cmem_write" "pJ/bit" "CMEM, written, with the way across the die.";
}

macro_rules! nodes {
    ($($name:literal $file:literal;)+) => {
        /// Technology nodes and the files of chips/costs/ with their default costs.
        const NODES: &[(&str, &str)] = &[$(($name, $file)),+];

        /// Names of the technology nodes, oldest first.
        pub const NODE_NAMES: &[&str] = &[$($name),+];
    };
}

nodes! { "N28" "n28"; "N16" "n16"; "N7" "n7"; "N5" "n5"; "N3" "n3"; }

/// How well a number is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Quality {
    /// Read in a primary source.
    H,
    /// Derived from published numbers, or from a secondary source.
    M,
    /// From a weak source, or assumed.
    L,
}

impl Quality {
    /// Standard deviation of the logarithm of a number of that quality.
    pub fn sigma(self) -> f64 {
        match self {
            Quality::H => 0.1,
            Quality::M => 0.3,
            Quality::L => 0.7,
        }
    }
}

/// A number with where it comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sourced {
    /// The number.
    pub value: f64,
    /// The least that it may be.
    pub low: f64,
    /// The greatest.
    pub high: f64,
    /// How well it is known.
    pub quality: Quality,
    /// Where it comes from.
    pub source: String,
}

/// The costs of a chip.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Stored")]
pub struct Costs {
    /// Technology node, one of [`NODE_NAMES`].
    pub node: String,
    /// Where the node is known from.
    pub node_source: String,
    /// By [`Cost`].
    pub rows: Vec<Sourced>,
}

/// Costs as a file has them: one that was written when there were fewer rows lacks the last.
#[derive(Deserialize)]
struct Stored {
    node: String,
    node_source: String,
    rows: Vec<Sourced>,
}

impl TryFrom<Stored> for Costs {
    type Error = String;

    fn try_from(found: Stored) -> Result<Costs, String> {
        let Stored { node, node_source, mut rows } = found;
        match rows.len() {
            // A chip without costs.
            0 => {}
            n if n < Cost::ALL.len() => rows.extend(Costs::of_node(&node, &node_source)?.rows.drain(n..)),
            n if n > Cost::ALL.len() => return Err(format!("{n} costs, of {} at most", Cost::ALL.len())),
            _ => {}
        }
        Ok(Costs { node, node_source, rows })
    }
}

impl Costs {
    /// The defaults of a node.
    ///
    /// # Errors
    /// If there is no such node; the message names those there are.
    pub fn of_node(node: &str, source: &str) -> Result<Costs, String> {
        let Some((name, file)) = NODES.iter().find(|n| n.0 == node) else {
            return Err(format!("takes one of {}", NODE_NAMES.join(", ")));
        };
        let table = preset::NODES.iter().find(|n| n.0 == *file).map_or(&[][..], |n| n.1);
        let row = |c: &Cost| -> Result<Sourced, String> {
            let key = c.info().0;
            sourced(&tree::find(table, key).ok_or_else(|| format!("costs of {name} lack `{key}`"))?.value)
        };
        let rows = Cost::ALL.iter().map(row).collect::<Result<_, _>>()?;
        Ok(Costs { node: name.to_string(), node_source: source.to_string(), rows })
    }

    /// A coefficient's value.
    pub fn get(&self, cost: Cost) -> f64 {
        self.rows[cost as usize].value
    }

    /// A coefficient with its source.
    pub fn row(&self, cost: Cost) -> &Sourced {
        &self.rows[cost as usize]
    }

    /// Stores a number that the user gave without a source.
    pub fn set(&mut self, cost: Cost, value: f64) {
        let source = "given as an override".to_string();
        self.rows[cost as usize] = Sourced { value, low: value, high: value, quality: Quality::H, source };
    }

    /// Stores the entry `key = value` of `[costs]`, for all but `node`.
    pub(super) fn store(&mut self, key: &str, value: &Node<'_>) -> Result<(), Diagnostic> {
        let Some(&cost) = Cost::ALL.iter().find(|c| c.info().0 == key) else {
            let d = Diagnostic::new(format!("unknown cost `{key}`"));
            let names = Cost::ALL.iter().map(|c| c.info().0);
            return Err(match closest(key, names) {
                Some(c) => d.help(format!("did you mean `{c}`?")),
                None => d,
            });
        };
        self.rows[cost as usize] =
            sourced(value).map_err(|e| Diagnostic::new(format!("bad value of `costs.{key}`")).help(e))?;
        Ok(())
    }
}

/// The node of `node = { value = "N7", source = ".." }`.
pub(super) fn node(value: &Node<'_>) -> Result<Costs, String> {
    let form = "takes { value = \"NODE\", source = \"..\" }: a node without its source is refused";
    let Some(t) = value.table() else { return Err(form.into()) };
    let text = |key: &str| tree::find(t, key).and_then(|e| e.value.text());
    match (text("value"), text("source")) {
        (Some(node), Some(source)) if !source.trim().is_empty() => Costs::of_node(node, source),
        _ => Err(form.into()),
    }
}

/// A row from its inline table.
fn sourced(value: &Node<'_>) -> Result<Sourced, String> {
    let form = "takes { value = .., low = .., high = .., quality = \"H|M|L\", source = \"..\" }: a number without its \
                source is refused";
    let Some(t) = value.table() else { return Err(form.into()) };
    let entry = |key: &str| tree::find(t, key).map(|e| &e.value);
    let number = |key: &str| -> Result<f64, String> {
        let n = match entry(key) {
            Some(Node::Number(n)) => *n,
            Some(Node::Text(_) | Node::Table(_) | Node::BuiltIn(_) | Node::Other) | None => None,
        };
        n.filter(|n| n.is_finite() && *n >= 0.0)
            .ok_or_else(|| format!("`{key}` is no number from 0 on; the row {form}"))
    };
    let (value, low, high) = (number("value")?, number("low")?, number("high")?);
    if !(low..=high).contains(&value) {
        return Err(format!("the value {value} is outside its range {low} to {high}"));
    }
    let quality = match entry("quality").and_then(Node::text) {
        Some("H") => Quality::H,
        Some("M") => Quality::M,
        Some("L") => Quality::L,
        _ => return Err(form.into()),
    };
    let source = entry("source").and_then(Node::text).unwrap_or_default();
    if source.trim().is_empty() {
        return Err(form.into());
    }
    Ok(Sourced { value, low, high, quality, source: source.to_string() })
}
